"""The measurement: one first reply per row, then one retry in each style for the invalid ones.

It runs in threads, one row in each, and sends no request that its journal has.
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
"""Consecutive failed calls after which a measurement stops."""

REFUSALS = frozenset({400, 413, 422})
"""The HTTP statuses of a refused request, which would be refused again."""

FIRST = "first"
"""The name of the first request in place of a style's name."""

ALL = "all"
"""The task of rows without a task."""

NO_REPLY = "no_reply"
"""The kind of a response without a reply to judge."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MeasureProgress:
    """The progress of a measurement."""

    rows: int
    """Number of finished rows."""
    of: int
    """Number of all rows."""
    requests: int
    """Number of requests that this run sent."""
    bad: int
    """Number of invalid first replies so far."""
    failed: int
    """Number of failed calls in this run."""


@dataclass(slots=True)
class _RowOutcome:
    """The outcome of one row."""

    task: str
    """The task of the row."""
    first: RecordedResponse | None = None
    """The response to the first request; None if the call failed."""
    kind: str | None = None
    """The code of the first fault; None if the reply is valid."""
    tries: list[Recovery] = field(default_factory=list[Recovery])
    """The outcome of each style, with one reply each."""
    is_whole: bool = False
    """Whether every style that applies has a response."""


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
    """Measure how often first replies are valid, and which style of retry fixes the others.

    Each row is sent once. If its reply is invalid, each style retries it once, so that all styles
    are compared on the same replies.

    - ``client`` is a sync client of the openai SDK that is not wrapped.
    - ``rows`` are texts, or mappings with ``messages`` (a text or a list of messages) and
      optionally a ``task`` to group the counts by, and a ``seed``.
    - ``model`` is the name of the model in every request.
    - ``answer`` is the type of a valid answer; ``str`` means text.
    - ``styles`` are names, or :class:`Style` objects; by default all that strictreply has.
    - ``tools`` and the other keywords of :class:`Contract` say what a valid reply is.
    - ``request`` has more keywords of each request, such as ``temperature``.
    - ``plain`` leaves out the ``response_format`` of a typed answer, for an endpoint that refuses
      it; only the style ``constrained`` sends one.
    - ``seed`` is the seed of the first row's first request. It grows by two per row; the retries of
      a row have the next number. None sends no seed.
    - ``journal`` is a file of JSON lines with the raw responses, from which another start
      continues; None writes no file.
    - ``concurrency`` is the number of rows in flight.
    - ``max_rows`` limits the rows, and no row is begun after ``max_seconds`` seconds; None means no
      limit.
    - ``on_progress`` is called after each row.

    The report counts failed calls; after 20 consecutive ones the measurement stops. If the endpoint
    refuses the request of a style (status 400, 413, 422), that style fixed nothing. Raises
    ContractError when a row or a setting is wrong, and OSError for errors of files.
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
    """Raise ContractError for an unsuitable client or a wrong bound."""
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
    """A row as it was read."""

    index: int
    """Number of the row, from 0."""
    repeat: int
    """How many equal rows come before it."""
    task: str
    """Its task."""
    keywords: JSONObject
    """The keywords of its first request, without the contract's own."""
    contract: Contract[Any]
    """The contract that its replies are checked against."""


def _asked_of(
    rows: Iterable[Mapping[str, Any] | str],
    given: Contract[Any],
    request: Mapping[str, Any],
    seed: int | None,
) -> Iterator[_Asked]:
    """Read the rows; raise ContractError for one without messages."""
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
    """Sends the requests of rows; its threads share the counts and the journal."""

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
        """Send the requests of all rows, and return their outcomes in order.

        After Ctrl-C the running calls end, and no other begins.
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
        """Measure one row: its first reply, and each style if that is invalid."""
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
        """Retry in each style that applies; return whether every request had a response."""
        for style in self._styles:
            reask = style.reask(bad)
            if reask is None:
                continue

            request = dict(reask.request)
            if "seed" in request:  # the seed of the first request could give the same reply
                request["seed"] = row.keywords["seed"] + 1

            came = self._came(style.name, row.repeat, request)
            if came is None:
                return False

            outcome.tries.append(_tried(row.task, bad, style, reask, came))

        return True

    def _came(self, style: str, repeat: int, request: JSONObject) -> RecordedResponse | None:
        """Return the outcome of a request, from the journal if it has it; None for a failure."""
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
                raise  # a mistake in the program, not a failed call
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
    """Return the kind of a first reply that is not retried; None if it is valid."""
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
    """Sum the outcomes of the rows; a row that lacks a style counts for no style."""
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
