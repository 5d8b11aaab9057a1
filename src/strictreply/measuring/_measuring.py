"""The measurement: one first reply a row, then one request of each style for those that are bad.

It runs in threads, one row in each, and asks nothing that its journal has.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from inspect import iscoroutinefunction, unwrap
from itertools import islice
from os import PathLike
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, Unpack

from strictreply import Contract, ContractError, Invalid, Usage, Valid, Verdict
from strictreply.core import JSON, JSONObject, classify, shape
from strictreply.core.arguments import is_count, is_duration
from strictreply.core.forms import as_json
from strictreply.core.judging import ContractKeywords
from strictreply.measuring._journal import MeasureJournal, RecordedResponse, digest_of
from strictreply.measuring._report import FirstReplies, MeasureReport, Recovery, Stop
from strictreply.measuring._styles import (
    STYLES,
    Reask,
    RecordedReply,
    RowRequest,
    Style,
    styles_of,
)

MAX_FAILURES = 20
"""Consecutive calls that may fail before a measurement stops."""

REFUSALS = frozenset({400, 413, 422})
"""The statuses by which an endpoint refuses a request itself: it would do so again."""

FIRST = "first"
"""Stands for the first request where a style's name stands for another."""

ALL = "all"
"""The task of rows that name none."""

NO_REPLY = "no_reply"
"""The kind of a response in which there is no reply to judge."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MeasureProgress:
    """How far a measurement is."""

    rows: int
    """Rows that are done."""
    of: int
    """Rows there are."""
    requests: int
    """Requests that were sent in this run."""
    bad: int
    """First replies that did not fit so far."""
    failed: int
    """Calls that failed in this run."""


@dataclass(slots=True)
class _RowOutcome:
    """What one row came to."""

    task: str
    """The task of the row."""
    first: RecordedResponse | None = None
    """What came to the first request; None where the call failed."""
    kind: str | None = None
    """The code of the first fault; None where the reply fitted."""
    tries: list[Recovery] = field(default_factory=list[Recovery])
    """What each style came to, of one reply each."""
    is_whole: bool = False
    """Whether every style that applies has an answer."""


def measure(  # noqa: PLR0913 - one parameter a setting
    client: Any,
    rows: Iterable[Mapping[str, Any] | str],
    *,
    model: str,
    answer: object = str,
    styles: Iterable[str | Style] = tuple(STYLES),
    request: Mapping[str, Any] = _NOTHING,
    plain: bool = False,
    seed: int | None = None,
    journal: str | PathLike[str] | None = None,
    concurrency: int = 1,
    max_rows: int | None = None,
    max_seconds: float | None = None,
    on_progress: Callable[[MeasureProgress], object] = lambda _: None,
    **contract: Unpack[ContractKeywords],
) -> MeasureReport:
    """Measure how often a model's first replies fit, and which style of asking again fixes others.

    ``client`` is a sync client of the openai SDK that is not wrapped, ``rows`` are texts, or
    mappings with ``messages`` (a text or a list of turns) and, if they like, a ``task`` to count
    by and a ``seed``. ``tools``, ``answer`` and the other keywords of :class:`Contract` say what a
    reply may be; ``request`` has further keywords of each request, such as ``temperature``. Each
    row is asked once; each of the ``styles``, by name or as a :class:`Style`, then asks once more
    for each bad reply, so that all styles are compared on the same replies.

    ``plain`` leaves out the ``response_format`` that a typed answer adds, as for an endpoint that
    refuses it: only the style ``constrained`` sends one. ``seed`` is sent with the first request of
    the first row, and counts on by two a row; requests of styles have the next one. None sends
    none. ``journal`` is a file of JSON lines with the raw responses, by which another start goes
    on; None keeps nothing. ``concurrency`` is how many rows are under way at once. At most
    ``max_rows`` rows are measured, and no row is begun after ``max_seconds`` seconds; None is no
    limit. ``on_progress`` is called after each row.

    Calls that fail are counted in the report, and after 20 in a row the measurement stops. A
    request of a style that the endpoint refuses (status 400, 413, 422) has recovered nothing.
    Raises ContractError when a row or a setting is wrong, OSError as files do.
    """
    _refuse_settings(client, concurrency, max_rows, max_seconds)
    given = Contract(answer=answer, **contract)
    keywords = {**request, "model": model}
    wanted = list(_asked_of(rows, given, keywords, seed))
    kept = wanted if max_rows is None else wanted[:max_rows]

    with closing(MeasureJournal(None if journal is None else Path(journal))) as file:
        run = _Run(client, given, styles_of(styles), file, plain=plain)
        outcomes = run.outcomes_of(kept, concurrency, max_seconds, on_progress)

    stopped = run.stopped or ("rows" if len(kept) < len(wanted) else "")
    return _report(model, outcomes, run, len(kept), stopped)


def _refuse_settings(
    client: Any, concurrency: int, max_rows: int | None, max_seconds: float | None
) -> None:
    """Raise ContractError for a client that cannot be asked, or a bound that is none."""
    completions = getattr(getattr(client, "chat", None), "completions", None)
    create = getattr(completions, "create", None)
    if not callable(create) or iscoroutinefunction(unwrap(create)):
        raise ContractError(
            "client must be a sync client with chat.completions.create, such as OpenAI()"
        )
    if callable(getattr(client, "exchange", None)):
        raise ContractError("client is wrapped: pass the client that was passed to wrap()")

    if not is_count(concurrency, 1):
        raise ContractError("concurrency must be a whole number, 1 or more")
    if max_rows is not None and not is_count(max_rows):
        raise ContractError("max_rows must be a whole number, or None")
    if max_seconds is not None and not is_duration(max_seconds):
        raise ContractError("max_seconds must be a number of seconds, or None")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A row, read."""

    index: int
    """Its place among the rows."""
    repeat: int
    """How many rows before it are the same."""
    task: str
    """Its task."""
    keywords: JSONObject
    """The keywords of its first request, without what the contract adds."""
    contract: Contract[Any]
    """What its replies are held to."""


def _asked_of(
    rows: Iterable[Mapping[str, Any] | str],
    given: Contract[Any],
    request: Mapping[str, Any],
    seed: int | None,
) -> Iterator[_Asked]:
    """Read the rows; ContractError for one that cannot be asked."""
    met: Counter[str] = Counter()
    for index, row in enumerate(rows):
        held: Mapping[str, Any] = {"messages": row} if isinstance(row, str) else row
        messages = held.get("messages")
        if isinstance(messages, str) and messages:
            messages = [{"role": "user", "content": messages}]
        if not isinstance(messages, list) or not messages:
            raise ContractError(f"row {index} needs messages: a text, or a list of messages")

        task = held.get("task", ALL)
        if not isinstance(task, str):
            raise ContractError(f"row {index}: its task must be a text")

        keywords = {**request, "messages": messages}
        own = held.get("seed", None if seed is None else seed + 2 * index)
        if own is not None:
            keywords["seed"] = own

        contract, _ = shape(given, keywords)
        same = json.dumps(as_json(keywords), sort_keys=True)
        yield _Asked(index, met[same], task, keywords, contract)
        met[same] += 1


class _Run:
    """Asks about rows; the threads share its counts and its journal."""

    def __init__(
        self,
        client: Any,
        given: Contract[Any],
        styles: Sequence[Style],
        journal: MeasureJournal,
        *,
        plain: bool,
    ) -> None:
        self._client = client
        self._given = given
        self._styles = styles
        self._journal = journal
        self._plain = plain

        self._lock = Lock()
        self._consecutive = 0
        self._is_over = False
        self.failures: Counter[str] = Counter()
        self.requests = 0
        self.stopped: Stop = ""

    def outcomes_of(
        self,
        rows: Sequence[_Asked],
        concurrency: int,
        max_seconds: float | None,
        on_progress: Callable[[MeasureProgress], object],
    ) -> list[_RowOutcome]:
        """Ask about the rows, and return what each came to, in their order.

        Ctrl-C lets the calls under way end, and begins no other.
        """
        found: dict[int, _RowOutcome] = {}
        began = time.monotonic()
        left = iter(rows)
        under_way: dict[Future[_RowOutcome], int] = {}

        with ThreadPoolExecutor(concurrency, thread_name_prefix="measure") as threads:
            try:
                while True:
                    late = max_seconds is not None and time.monotonic() - began >= max_seconds
                    if late and len(found) + len(under_way) < len(rows):
                        self.stopped = self.stopped or "seconds"

                    room = 0 if self.stopped else concurrency - len(under_way)
                    for row in islice(left, room):
                        under_way[threads.submit(self._outcome, row)] = row.index
                    if not under_way:
                        break

                    done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                    for each in done:
                        found[under_way.pop(each)] = each.result()
                        on_progress(self._progress(found, len(rows)))
            except BaseException:
                with self._lock:
                    self._is_over = True  # no thread begins another call
                raise

        return [found[index] for index in sorted(found)]

    def _progress(self, found: Mapping[int, _RowOutcome], of: int) -> MeasureProgress:
        bad = sum(each.kind is not None for each in found.values())
        return MeasureProgress(len(found), of, self.requests, bad, self.failures.total())

    def _outcome(self, row: _Asked) -> _RowOutcome:
        """Ask about one row: its first reply, and each style where that is bad."""
        outcome = _RowOutcome(row.task)
        first = RowRequest.of(self._given, row.contract, row.keywords, plain=self._plain)
        came = self._came(FIRST, row.repeat, first.request)
        outcome.first = came
        if came is None:
            return outcome

        verdict = first.after(came.response)
        if not isinstance(verdict, RecordedReply):
            outcome.kind = _kind_of(verdict)
            outcome.is_whole = True
            return outcome

        outcome.kind = verdict.issues[0].code
        outcome.is_whole = self._try_styles(row, verdict, outcome)
        return outcome

    def _try_styles(self, row: _Asked, bad: RecordedReply, outcome: _RowOutcome) -> bool:
        """Ask again in each style that applies; return whether all of them were answered."""
        for style in self._styles:
            reask = style.reask(bad)
            if reask is None:
                continue

            request = dict(reask.request)
            if "seed" in request:  # with that of the first request the same reply could come
                request["seed"] = row.keywords["seed"] + 1

            came = self._came(style.name, row.repeat, request)
            if came is None:
                return False

            outcome.tries.append(_tried(row.task, bad, style, reask, came))

        return True

    def _came(self, style: str, repeat: int, request: JSONObject) -> RecordedResponse | None:
        """Return what comes to a request, from the journal where it has it; None at a failure."""
        digest = digest_of(style, repeat, request)
        known = self._journal.found(digest)
        if known is not None:
            return known

        with self._lock:
            if self._is_over:
                return None
            self.requests += 1

        began = time.monotonic()
        try:
            response: JSON = as_json(self._client.chat.completions.create(**request))
            came = RecordedResponse(response, time.monotonic() - began)
        except Exception as error:
            failure = classify(error)
            if failure is None:
                raise  # a mistake of a program, not of a call
            if style == FIRST or failure.status_code not in REFUSALS:
                self._count_failure(str(failure))
                return None

            came = RecordedResponse(None, time.monotonic() - began, str(failure))

        self._journal.add(digest, came)
        with self._lock:
            self._consecutive = 0

        return came

    def _count_failure(self, words: str) -> None:
        with self._lock:
            self.failures[words] += 1
            self._consecutive += 1
            if self._consecutive >= MAX_FAILURES:
                self.stopped = "failures"
                self._is_over = True


def _kind_of(verdict: Verdict[Any] | None) -> str | None:
    """Return the kind of a first reply that nothing is asked after; None where it fits."""
    if verdict is None:
        return NO_REPLY

    return verdict.issues[0].code if isinstance(verdict, Invalid) else None


def _tried(
    task: str, bad: RecordedReply, style: Style, reask: Reask, came: RecordedResponse
) -> Recovery:
    usage = Usage.of(came.response)
    is_recovered = not came.refused and isinstance(reask.judge(came.response), Valid)
    return Recovery(
        task=task,
        kind=bad.issues[0].code,
        style=style.name,
        n=1,
        recovered=int(is_recovered),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        seconds=came.seconds,
        refused=int(bool(came.refused)),
    )


def _report(
    model: str, outcomes: Sequence[_RowOutcome], run: _Run, rows: int, stopped: Stop
) -> MeasureReport:
    """Sum what the rows came to; a row that lacks a style counts for none."""
    report = MeasureReport(model, (), ())
    for each in outcomes:
        if each.first is None:
            continue

        usage = Usage.of(each.first.response)
        first = FirstReplies(
            each.task,
            n=1,
            valid=int(each.kind is None),
            kinds={} if each.kind is None else {each.kind: 1},
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            seconds=each.first.seconds,
        )
        tries = tuple(each.tries) if each.is_whole else ()
        report += MeasureReport(model, (first,), tries, rows=int(each.is_whole))

    return MeasureReport(
        model=model,
        first=report.first,
        recoveries=report.recoveries,
        rows=report.rows,
        unfinished=rows - report.rows,
        failures=dict(run.failures),
        requests=run.requests,
        stopped=stopped,
    )
