"""Validate recorded replies offline: counts by tool, model and issue code, and examples.

A line is a chat completion or a response, a request with its response as
``strictreply.testing.record`` writes them, or a record with ``mode``, ``tools`` and ``reply``. A
line of a :class:`strictreply.Ledger` already has its verdict, which is not judged again.
"""

from __future__ import annotations

import signal
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

from strictreply import Contract, ContractWarning, Invalid
from strictreply.batch.lines import STDIN, Line, open_lines
from strictreply.core import Request
from strictreply.core.text import capped, printable
from strictreply.testing._ledger_lines import LedgerEntry, read_entry
from strictreply.testing._recordings import NO_NAME, RecordedVerdict, RecordingJudge, UnreadableLine
from strictreply.testing._reply_tally import (
    MAX_CAUSES,
    SHOWN_OF_A_CAUSE,
    JudgedLine,
    ReplyCause,
    ReplyTally,
)
from strictreply.testing._scripts import Asked
from strictreply.testing._serving import writer_named
from strictreply.testing._tally_page import check_page
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

MAX_SHOWN_CHARS = 800  # of a reply

# Total size of all files. Smaller ones are judged in this process, because another one needs a
# second to start.
MIN_SHARED_BYTES = 8_000_000
_BATCH = 200  # lines that a worker gets together
_WAITING = 2  # batches in the queue of each worker, so that the file is not read far ahead

# The tools, or a function that returns them, which other processes can import by its name.
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
    """Validate every recorded reply in JSONL files, and return the counts.

    A reply is judged by the tools of its request; a line of a ledger counts with its recorded
    verdict.

    - ``files`` are paths; ``.gz`` is decompressed, and ``-`` is stdin.
    - ``tools`` are used for lines without tools. With several processes they must be picklable, or
      a function that returns them.
    - ``jobs`` is the number of processes for large files.
    - ``samples`` keeps the first replies of each cause, for :func:`check_page`.
    - ``into`` gets the counts; if this is interrupted, it has those so far. None makes a new one.
    - ``on_line`` is called with the file and the position in it.

    Raises ContractError for a wrong tool, and OSError for a missing file.
    """
    tally = ReplyTally() if into is None else into
    with closing(_judged(files, LineJudge(tools, samples), jobs, tally, on_line)) as found:
        for path, judged in found:
            tally.add(path, judged)

    tally.complete = True
    return tally


class LineJudge:
    """Judges lines by ``tools``; with ``samples`` it keeps the first ones of each cause."""

    def __init__(self, tools: Tools, samples: bool) -> None:
        self.settings: tuple[Tools, bool] = (tools, samples)
        declared = tools() if callable(tools) else tools
        self._judge = RecordingJudge([*Contract(tools=declared).tools] or None)
        self._met: Counter[ReplyCause] = Counter()

    def judge(self, number: int, line: bytes) -> JudgedLine:
        """Judge one line; the line of a ledger has its verdict."""
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
        """Return whether a line is one of the first of its cause, which are kept."""
        if not found.issues or not self.settings[1] or len(self._met) >= MAX_CAUSES:
            return False

        self._met[found.cause] += 1
        return self._met[found.cause] <= SHOWN_OF_A_CAUSE


def _asked_next(judged: RecordedVerdict) -> str:
    """Return the correction that a wrapped client would have sent.

    It is empty if the client would not retry.
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
    """Judge the files in order; a damaged file is reported with the place of the damage."""
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


# The result of a line, and the position in its file.
Found: TypeAlias = tuple[JudgedLine, int]


def _judged_here(judge: LineJudge, lines: Iterator[Line]) -> Iterator[Found]:
    return ((judge.judge(number, line), position) for number, line, position in lines)


def _judged_by_workers(
    pool: ProcessPoolExecutor, most: int, lines: Iterator[Line]
) -> Iterator[Found]:
    """Judge lines in order, with at most ``most`` batches in memory."""
    waiting: deque[Future[list[Found]]] = deque()
    try:
        while batch := list(islice(lines, _BATCH)):
            waiting.append(pool.submit(_judge_batch, batch))
            if len(waiting) > most:
                yield from waiting.popleft().result()
    finally:
        # lines before a damaged place are reported before the damage
        if not isinstance(sys.exception(), GeneratorExit | KeyboardInterrupt):
            while waiting:
                yield from waiting.popleft().result()


_own: list[LineJudge] = []  # the judge of this worker process


def _begin(tools: Tools, samples: bool) -> None:
    # Ctrl-C is handled by the process that prints the counts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore", ContractWarning)
    _own.append(LineJudge(tools, samples))


def _judge_batch(batch: list[Line]) -> list[Found]:
    return list(_judged_here(_own[0], iter(batch)))
