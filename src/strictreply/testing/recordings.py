"""Recorded replies judged offline: counts by tool, model and issue code, and the first examples.

A line is a chat completion or a response, a request and its response side by side, as
``strictreply.testing.record`` writes them, or a record with ``mode``, ``tools`` and ``reply``. A
line of a :class:`strictreply.Ledger` has its verdict in it, and is not judged again.
"""

from __future__ import annotations

import signal
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from xml.etree import ElementTree as ET

from strictreply import Contract, ContractWarning, Invalid
from strictreply.batch.lines import STDIN, Line, open_lines
from strictreply.core import JSONObject, Request
from strictreply.core.text import capped, counted, printable
from strictreply.testing import _html as html
from strictreply.testing._html import anchor, element, row, slug
from strictreply.testing._ledger_lines import LedgerEntry, read_entry
from strictreply.testing._recordings import NO_NAME, RecordedVerdict, RecordingJudge, UnreadableLine
from strictreply.testing._scripts import Asked
from strictreply.testing._serving import writer_named
from strictreply.testing._steps import Harm
from strictreply.wires import excerpt, wire_named

__all__ = [
    "JudgedLine",
    "LedgerEntry",
    "ReplyCause",
    "ReplyTally",
    "check_files",
    "check_page",
    "excerpt",
]

MAX_CAUSES = 200  # that are counted apart: no more is kept, however large a file is
SHOWN_OF_A_CAUSE = 3  # replies


class JudgedLine(NamedTuple):
    """What was found in one line."""

    line: int
    """Number of the line, counted from 1."""
    model: str = NO_NAME
    """Name of the model that replied."""
    tool: str = NO_NAME
    """Name of the first tool that was called."""
    issues: Sequence[JSONObject] = ()
    """The faults of the reply as plain JSON; empty when it fits."""
    reason: str = ""
    """Why the line holds no reply; empty when it holds one."""
    excerpt: tuple[str, str] | None = None
    """The reply and the request that would follow; None when they are not kept."""
    entry: LedgerEntry | None = None
    """What the ledger says of the attempt; None for a line of a recording."""
    lacks_tools: bool = False
    """Whether it calls a tool, and no tool was declared at all."""

    @property
    def is_observed(self) -> bool:
        """Whether the reply was handed on though it does not fit."""
        return self.entry is not None and self.entry.outcome == "observed"

    @property
    def cause(self) -> ReplyCause:
        """What invalid replies are grouped by."""
        return ReplyCause(self.tool, tuple(sorted({str(issue["code"]) for issue in self.issues})))


class ReplyCause(NamedTuple):
    """The first tool that was called, and all that was wrong."""

    tool: str
    codes: tuple[str, ...]

    @property
    def harm(self) -> Harm:
        """What happens in an app that goes on with such a reply."""
        return min((Harm.accepting(code) for code in self.codes), key=lambda harm: harm.rank)


OUTCOMES = ("ok", "fixed", "observed", "rejected", "failed")
"""What becomes of calls: ``fixed`` are those that fit after a reply that was rejected."""


class CallState(NamedTuple):
    """What is known of one call of a ledger, whose lines come in any order."""

    attempt: int = 0
    """Number of its last attempt."""
    outcome: str = ""
    """What became of that one."""
    is_corrected: bool = False
    """Whether one of its replies was rejected."""

    def after(self, entry: LedgerEntry) -> CallState:
        """Return what is known with one more attempt of the call."""
        is_corrected = self.is_corrected or entry.outcome == "rejected" or entry.tier > 0
        last = max((self.attempt, self.outcome), (entry.attempt, entry.outcome))
        return CallState(*last, is_corrected)

    @property
    def word(self) -> str:
        """What became of the call, as one of :data:`OUTCOMES`."""
        return "fixed" if self.outcome == "ok" and self.is_corrected else self.outcome


@dataclass
class ReplyTally:
    """Counts of what was found in the files read so far."""

    on_invalid: Callable[[JSONObject], object] = lambda _reply: None
    """Called with every invalid reply, as plain JSON."""
    complete: bool = False
    """Whether all files were read."""
    replies: int = 0
    """Replies that were read."""
    invalid: int = 0
    """Replies that do not fit."""
    handed_on: int = 0
    """Those of them that were handed on all the same, since a ledger says they were observed."""
    by_code: Counter[str] = field(default_factory=Counter[str])
    """Replies by code; a code counts once for each reply."""
    by_model: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Counts of replies and of invalid ones, by model."""
    by_tool: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Counts of replies and of invalid ones, by tool."""
    unreadable: list[JSONObject] = field(default_factory=list[JSONObject])
    """The lines that hold no reply, each with its file and the reason."""
    first: dict[str, str] = field(default_factory=dict[str, str])
    """File and line where each code was seen first."""
    empty: list[str] = field(default_factory=list[str])
    """The files that held no reply."""
    causes: Counter[ReplyCause] = field(default_factory=Counter[ReplyCause])
    """Invalid replies by their cause."""
    observed: Counter[ReplyCause] = field(default_factory=Counter[ReplyCause])
    """Those of them that were handed on, by their cause."""
    without_tools: int = 0
    """Replies that call a tool, while neither their line nor the caller declares any."""
    calls: dict[str, CallState] = field(default_factory=dict[str, CallState])
    """The calls of ledgers, by their ids."""
    tokens: Counter[str] = field(default_factory=Counter[str])
    """Tokens of the attempts in ledgers: ``input`` and ``output``."""
    rejected_tokens: Counter[str] = field(default_factory=Counter[str])
    """Those of them that were spent on replies that were rejected."""
    seconds: float = 0.0
    """Seconds that the attempts in ledgers took."""

    samples: dict[ReplyCause, list[tuple[str, JudgedLine]]] = field(default_factory=dict[Any, Any])
    """The first replies of each cause, each with its file and line."""

    def add(self, path: Path, judged: JudgedLine) -> None:
        """Count one line; a code counts once for each reply."""
        if judged.reason:
            entry = {"file": str(path), "line": judged.line, "reason": judged.reason}
            self.unreadable.append(entry)
            return

        if judged.entry is not None:
            self._add_attempt(judged.entry)
            if judged.entry.outcome == "failed":
                return

        self.replies += 1
        self.without_tools += judged.lacks_tools
        for rates, name in ((self.by_model, judged.model), (self.by_tool, judged.tool)):
            rate = rates.setdefault(name, {"replies": 0, "invalid": 0})
            rate["replies"] += 1
            rate["invalid"] += bool(judged.issues)

        for code in {str(issue["code"]) for issue in judged.issues}:
            self.by_code[code] += 1
            self.first.setdefault(code, f"{path.name}:{judged.line}")

        if not judged.issues:
            return

        self.invalid += 1
        where = {"file": str(path), "line": judged.line, "model": judged.model, "tool": judged.tool}
        told = judged.entry
        if told is not None:
            where |= {"call": told.call, "attempt": told.attempt, "outcome": told.outcome}
        self.on_invalid({**where, "issues": list(judged.issues)})

        cause = judged.cause
        self.handed_on += judged.is_observed
        if cause in self.causes or len(self.causes) < MAX_CAUSES:
            self.causes[cause] += 1
            self.observed[cause] += judged.is_observed
            lines = self.samples.setdefault(cause, [])
            if judged.excerpt is not None and len(lines) < SHOWN_OF_A_CAUSE:
                lines.append((f"{path.name}:{judged.line}", judged))

    def _add_attempt(self, entry: LedgerEntry) -> None:
        self.seconds += entry.seconds
        self.tokens.update(entry.tokens)
        if entry.outcome == "rejected":
            self.rejected_tokens.update(entry.tokens)

        self.calls[entry.call] = self.calls.get(entry.call, CallState()).after(entry)

    @property
    def by_outcome(self) -> dict[str, int]:
        """How many calls of ledgers came to each outcome; empty without a ledger.

        They are ``ok``, ``fixed`` (after a reply that was rejected), ``observed`` (handed on though
        its reply does not fit), ``rejected`` and ``failed``.
        """
        counts = Counter(call.word for call in self.calls.values())
        return {word: counts[word] for word in OUTCOMES if counts[word]}

    def codes(self) -> list[tuple[str, int]]:
        """Return how many replies had each code, sorted by their number, then by code."""
        return sorted(self.by_code.items(), key=lambda one: (-one[1], one[0]))

    def rates(self) -> Iterator[tuple[str, dict[str, dict[str, int]]]]:
        """Yield the rates by model and by tool.

        They are sorted by the invalid replies, then by all replies, then by name.
        """

        def rank(one: tuple[str, dict[str, int]]) -> tuple[int, int, str]:
            name, rate = one
            return -rate["invalid"], -rate["replies"], name

        for kind, rates in (("model", self.by_model), ("tool", self.by_tool)):
            yield kind, dict(sorted(rates.items(), key=rank))

    @property
    def lacking(self) -> str:
        """What is missing for the replies without tools, in words for a person."""
        one = self.without_tools == 1
        calling = "reply calls a tool" if one else "replies call tools"
        declaring = "its line" if one else "their lines"
        remedy = "declare them by --tools=FILE or --tools=module:name"
        return f"{self.without_tools} {calling}, and {declaring} declared none: {remedy}"

    @property
    def spent(self) -> str:
        """The tokens of the attempts in ledgers, in words for a person."""
        all_ = f"{self.tokens['input']} in, {self.tokens['output']} out"
        rejected = self.rejected_tokens
        return f"{all_}; of rejected replies {rejected['input']} in, {rejected['output']} out"

    @staticmethod
    def label(kind: str, name: str) -> str:
        """Name a model or a tool for a person; ``kind`` is the word for what it is."""
        return f"(no {kind})" if name == NO_NAME else name

    def to_dict(self) -> JSONObject:
        """Return the counts as JSON-safe values, the most frequent first."""
        return {
            "complete": self.complete,
            "replies": self.replies,
            "valid": self.replies - self.invalid,
            "invalid": self.invalid,
            "by_code": dict(self.codes()),
            **{f"by_{kind}": rates for kind, rates in self.rates()},
            "handed_on": self.handed_on,
            "without_tools": self.without_tools,
            "calls": len(self.calls),
            "by_outcome": self.by_outcome,
            "tokens": _both(self.tokens),
            "rejected_tokens": _both(self.rejected_tokens),
            "seconds": round(self.seconds, 6),
            "unreadable": self.unreadable,
            "empty": self.empty,
        }


def _both(tokens: Counter[str]) -> dict[str, int]:
    return {name: tokens[name] for name in ("input", "output")}


MAX_SHOWN_CHARS = 800  # of a reply

# Of all files together: smaller ones are judged here, as another process needs a second to begin.
MIN_SHARED_BYTES = 8_000_000
_BATCH = 200  # lines that go to a worker at once
_WAITING = 2  # batches that wait for each worker, so that a file is not read far ahead

# The tools, or a function that returns them, which other processes can load by its name.
Tools: TypeAlias = Sequence[object] | Callable[[], Sequence[object]]


def check_files(
    files: Sequence[Path],
    *,
    tools: Tools = (),
    jobs: int = 1,
    samples: bool = False,
    into: ReplyTally | None = None,
    on_line: Callable[[Path, int], object] = lambda _path, _position: None,
) -> ReplyTally:
    """Judge every recorded reply in JSONL files, ``.gz`` too, ``-`` for stdin; return the counts.

    A reply is judged by the tools of its request, or by ``tools`` where that names none. Large
    files are judged by ``jobs`` processes; ``tools`` is then what can be pickled, or a function
    that returns them. ``samples`` keeps the first replies of each cause, for :func:`check_page`.
    ``into`` is counted into, and has what was read so far when this is interrupted; ``on_line``
    gets the file and the position in it. Raises ContractError for a wrong tool, OSError for a file
    that is not there.
    """
    tally = ReplyTally() if into is None else into
    with closing(_judged(files, LineJudge(tools, samples), jobs, tally, on_line)) as found:
        for path, judged in found:
            tally.add(path, judged)

    tally.complete = True
    return tally


class LineJudge:
    """Judges line after line by ``tools``; with ``samples`` it keeps the first of each cause."""

    def __init__(self, tools: Tools, samples: bool) -> None:
        self.settings: tuple[Tools, bool] = (tools, samples)
        declared = tools() if callable(tools) else tools
        self._judge = RecordingJudge([*Contract(tools=declared).tools] or None)
        self._met: Counter[ReplyCause] = Counter()

    def judge(self, number: int, line: bytes) -> JudgedLine:
        """Judge one line; that of a ledger has its verdict."""
        entry = read_entry(line)
        if isinstance(entry, str):
            return JudgedLine(number, reason=entry)
        if entry is not None:
            return self._recorded(number, entry)

        judged = self._judge.judge(number, line)
        if isinstance(judged, UnreadableLine):
            return JudgedLine(number, reason=judged.reason)

        recording = judged.recording
        faults = judged.verdict.issues if isinstance(judged.verdict, Invalid) else ()
        issues = [issue.to_dict() for issue in faults]
        lacks_tools = recording.called != NO_NAME and not judged.contract.tools
        found = JudgedLine(
            number, recording.model, recording.called, issues, lacks_tools=lacks_tools
        )
        if not self._is_sample(found):
            return found

        reply = capped(excerpt(recording.response, recording.api), MAX_SHOWN_CHARS)
        return found._replace(excerpt=(reply, _asked_next(judged)))

    def _recorded(self, number: int, entry: LedgerEntry) -> JudgedLine:
        issues = [{**issue} for issue in entry.issues]
        found = JudgedLine(number, entry.model, entry.tool or NO_NAME, issues, entry=entry)
        if not self._is_sample(found):
            return found

        reply = capped(printable(entry.reply or ""), MAX_SHOWN_CHARS)
        return found._replace(excerpt=(reply, ""))

    def _is_sample(self, found: JudgedLine) -> bool:
        """Return whether a line is one of the first of its cause that are kept."""
        if not found.issues or not self.settings[1] or len(self._met) >= MAX_CAUSES:
            return False

        self._met[found.cause] += 1
        return self._met[found.cause] <= SHOWN_OF_A_CAUSE


def _asked_next(judged: RecordedVerdict) -> str:
    """Return the correction that a guarded client would have sent.

    It is empty where the client would not ask again.
    """
    recording = judged.recording
    messages = [{"role": "user", "content": "…"}]
    bare = Request(source={"model": recording.model}, conversation=messages)
    asked = wire_named(recording.api).written(bare)
    following = judged.contract.next_request(asked, recording.response, api=recording.api).request
    if following is None:
        return ""

    writer = writer_named(recording.api)
    first = Asked(1, writer.asked(asked), None)
    return Asked(2, writer.asked(following), None, first).correction


def _judged(
    files: Sequence[Path],
    judge: LineJudge,
    jobs: int,
    tally: ReplyTally,
    on_line: Callable[[Path, int], object],
) -> Generator[tuple[Path, JudgedLine], None, None]:
    """Judge file after file; a damaged file is reported where it breaks."""
    sizes = [None if path == STDIN else path.stat().st_size for path in files]

    with ExitStack() as stack:
        found = partial(_judged_here, judge)

        if jobs > 1 and (None in sizes or sum(filter(None, sizes)) >= MIN_SHARED_BYTES):
            pool = ProcessPoolExecutor(
                jobs, get_context("spawn"), initializer=_begin, initargs=judge.settings
            )
            stack.callback(pool.shutdown, cancel_futures=True)
            found = partial(_judged_by_workers, pool, jobs * _WAITING)

        for path in files:
            on_line(path, 0)
            before = tally.replies
            number = 0

            try:
                for judged, position in found(open_lines(path)):
                    number = judged.line
                    yield path, judged
                    on_line(path, position)
            except OSError as error:
                reason = f"the rest of the file cannot be read: {error}"
                yield path, JudgedLine(number + 1, reason=reason)

            if tally.replies == before:
                tally.empty.append(str(path))


# What was found in a line, and how far its file had been read.
Found: TypeAlias = tuple[JudgedLine, int]


def _judged_here(judge: LineJudge, lines: Iterator[Line]) -> Iterator[Found]:
    return ((judge.judge(number, line), position) for number, line, position in lines)


def _judged_by_workers(
    pool: ProcessPoolExecutor, most: int, lines: Iterator[Line]
) -> Iterator[Found]:
    """Judge lines in their order, holding at most as many batches."""
    waiting: deque[Future[list[Found]]] = deque()
    try:
        while batch := list(islice(lines, _BATCH)):
            waiting.append(pool.submit(_judge_batch, batch))
            if len(waiting) > most:
                yield from waiting.popleft().result()
    finally:
        # what was read before a damaged place is reported before it
        if not isinstance(sys.exception(), GeneratorExit | KeyboardInterrupt):
            while waiting:
                yield from waiting.popleft().result()


_own: list[LineJudge] = []  # the judge of a worker process


def _begin(tools: Tools, samples: bool) -> None:
    # Ctrl-C is for the process that shows what was counted
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore", ContractWarning)
    _own.append(LineJudge(tools, samples))


def _judge_batch(batch: list[Line]) -> list[Found]:
    return list(_judged_here(_own[0], iter(batch)))


MAX_CHARTED = 20  # names in a chart
MAX_LISTED = 200  # unreadable lines


def check_page(tally: ReplyTally, files: Sequence[str]) -> str:
    """Write what was found in files as one HTML page for a person."""
    replies = _replies(tally.replies, "recorded ")
    part = "" if tally.complete else " Interrupted: this covers what was read so far."
    kind = "verdict good" if tally.replies and not tally.invalid else "verdict bad"
    words = f"{tally.invalid} of {replies} did not fit."
    if tally.handed_on:
        words += f" {_replies(tally.handed_on)} of them went on: only observed."
    verdict = element("p", f"{words}{part}", kind=kind)

    unreadable = len(tally.unreadable)
    facts = {
        "Files": ", ".join(files),
        "Without a reply": ", ".join(tally.empty),
        "Unreadable": counted(unreadable, "line") if unreadable else "",
        "Without tools": tally.lacking if tally.without_tools else "",
        **(_ledger_facts(tally) if tally.calls else {}),
    }

    causes = sorted(tally.causes.items(), key=lambda item: (item[0].harm.rank, -item[1]))
    met = {cause.harm for cause, _ in causes}
    harms = {slug(harm): harm.value for harm in Harm if harm in met}
    choices, style = html.choices("harm", harms) if len(harms) > 1 else (element("p"), "")

    taken: set[str] = set()
    worst = [element("h2", "The worst replies first"), choices] if causes else []
    worst += [_cause(tally, cause, anchor(_words(cause), taken)) for cause, _ in causes]

    footer = "Of each cause the first replies are shown. Nothing was sent anywhere."
    if tally.calls:
        footer += " A ledger keeps the form of a reply, and says what was decided at its time."
    return html.page(
        "Recorded replies",
        verdict,
        html.facts(facts),
        *_charts(tally),
        *worst,
        *_others(tally),
        element("footer", footer),
        css=style,
    )


def _replies(number: int, kind: str = "") -> str:
    return f"{number} {kind}{'reply' if number == 1 else 'replies'}"


def _ledger_facts(tally: ReplyTally) -> dict[str, str]:
    """Return what ledgers tell, by name."""
    refused = sum(call.is_corrected for call in tally.calls.values())
    observed = f"{_replies(tally.handed_on)} went on that would have been refused"
    return {
        "Observed only": observed if tally.handed_on else "",
        "Enforced": f"{counted(refused, 'call')} had a reply refused" if refused else "",
        "Tokens": tally.spent,
        "Seconds": f"{tally.seconds:.1f}",
    }


def _charts(tally: ReplyTally) -> Iterator[ET.Element]:
    if tally.calls:
        yield element("h2", "By outcome")
        outcomes = [(word, number, len(tally.calls)) for word, number in tally.by_outcome.items()]
        yield html.shares(outcomes, ("calls", "of all", "share"))

    if tally.by_code:
        yield element("h2", "By issue code")
        codes = [(code, number, tally.replies) for code, number in tally.codes()]
        yield html.shares(codes, ("with it", "of all", "share"))

    for kind, rates in tally.rates():
        named = [(tally.label(kind, name), n["invalid"], n["replies"]) for name, n in rates.items()]
        if named:
            yield element("h2", f"By {kind}")
            yield html.shares(named[:MAX_CHARTED], ("invalid", "replies", "share"))

        if len(named) > MAX_CHARTED:
            words = f"and {len(named) - MAX_CHARTED} more; --json lists all"
            yield element("p", words, kind="soft")


def _words(cause: ReplyCause) -> str:
    codes = ", ".join(cause.codes)
    return codes if cause.tool == NO_NAME else f"{cause.tool}: {codes}"


def _cause(tally: ReplyTally, cause: ReplyCause, place: str) -> ET.Element:
    """Make the section of a cause; of ledgers alone it has no column for what was not recorded."""
    samples = tally.samples[cause]
    is_recorded = any(judged.entry is None for _, judged in samples)
    heads = ["Where", "What came"]
    if is_recorded:
        heads.append("What would have been sent")

    rows: list[ET.Element] = []
    for where, judged in samples:
        reply, asked = judged.excerpt or ("", "")
        cells = [_found(where, judged), element("td", element("pre", reply))]
        if is_recorded:
            cells.append(_following(judged, asked))

        rows.append(element("tr", *cells, kind=f"finding {slug(cause.harm)}"))

    replies = _replies(tally.causes[cause])
    title = f" · {replies} · an app that takes it {cause.harm}"
    if tally.observed[cause]:
        title += f" · {tally.observed[cause]} only observed"

    return element(
        "section",
        html.linked("h3", place, html.dot(slug(cause.harm)), element("code", _words(cause)), title),
        html.findings(heads, rows),
        kind="cause",
        id=place,
    )


def _found(where: str, judged: JudgedLine) -> ET.Element:
    """Make the cell that says where a reply came, from whom, and what is wrong with it."""
    model = [element("p", judged.model, kind="soft")] if judged.model != NO_NAME else []
    became: list[ET.Element] = []
    if judged.entry is not None:
        words = "only observed: it went on" if judged.is_observed else "enforced: it was refused"
        became.append(element("p", words, kind="soft"))

    faults = (
        element("p", f"{issue['path'] or 'the whole'}: {issue['message']}")
        for issue in judged.issues
    )
    return element("td", element("div", where, kind="name"), *model, *became, *faults)


def _following(judged: JudgedLine, asked: str) -> ET.Element:
    if asked:
        return element("td", element("pre", asked))

    words = "nothing: the call would have failed" if judged.entry is None else "not recorded"
    return element("td", words)


def _others(tally: ReplyTally) -> Iterator[ET.Element]:
    others = tally.invalid - tally.causes.total()
    if others:
        replies = _replies(others)
        yield element("p", f"and {replies} of other causes; --json lists all", kind="soft")

    if tally.unreadable:
        title = counted(len(tally.unreadable), "unreadable line")
        rows = (
            row("td", f"{entry['file']}:{entry['line']}", str(entry["reason"]))
            for entry in tally.unreadable[:MAX_LISTED]
        )
        yield html.folded(title, rows)
