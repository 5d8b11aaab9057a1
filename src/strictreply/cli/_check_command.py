"""``strictreply check``: recorded replies judged offline; counts by tool, model and issue code."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from strictreply.cli._endpoint import declare
from strictreply.cli._terminal import Status, console, counted, fail, titled_table
from strictreply.testing._recordings import NO_NAME, STDIN, RecordingJudge, UnreadableLine, open_lines
from strictreply.values._issues import printable, printable_json
from strictreply.values._json import JSONObject
from strictreply.values._replies import Invalid

MAX_ROWS = 20
MIN_SHARED_BYTES = 8_000_000
"""Files smaller than this, all together, are judged in this process: another needs a second to begin."""

_BATCH = 200  # lines that go to a worker at once
_WAITING = 2  # batches that wait for each worker: the rest of a file is not read yet


class JudgedLine(NamedTuple):
    """What was found in one line; ``reason`` says why it holds no reply, ``tool`` is the one that was called first."""

    line: int
    model: str = NO_NAME
    tool: str = NO_NAME
    issues: Sequence[JSONObject] = ()
    reason: str = ""


@dataclass
class ReplyTally:
    """What was found in the files read so far: counts, and of each code the place where it was seen first.

    ``by_model`` and ``by_tool`` count by name; ``empty`` are the files that held no reply. ``tell`` is given each
    invalid reply: none is kept.
    """

    tell: Callable[[JSONObject], None]
    complete: bool = False
    replies: int = 0
    invalid: int = 0
    by_code: Counter[str] = field(default_factory=Counter[str])
    by_model: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    by_tool: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    unreadable: list[JSONObject] = field(default_factory=list[JSONObject])
    first: dict[str, str] = field(default_factory=dict[str, str])
    empty: list[str] = field(default_factory=list[str])

    def add(self, path: Path, judged: JudgedLine) -> None:
        """Count one line; a code counts once a reply."""
        if judged.reason:
            self.unreadable.append({"file": str(path), "line": judged.line, "reason": judged.reason})
            return
        self.replies += 1
        for rates, name in ((self.by_model, judged.model), (self.by_tool, judged.tool)):
            rate = rates.setdefault(name, {"replies": 0, "invalid": 0})
            rate["replies"] += 1
            rate["invalid"] += bool(judged.issues)
        for code in {str(issue["code"]) for issue in judged.issues}:
            self.by_code[code] += 1
            self.first.setdefault(code, f"{path.name}:{judged.line}")
        if judged.issues:
            self.invalid += 1
            where = {"file": str(path), "line": judged.line, "model": judged.model, "tool": judged.tool}
            self.tell({**where, "issues": list(judged.issues)})

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON-safe values, the most frequent first."""
        return {
            "complete": self.complete,
            "replies": self.replies,
            "valid": self.replies - self.invalid,
            "invalid": self.invalid,
            "by_code": dict(self.by_code.most_common()),
            "by_model": _worst_first(self.by_model),
            "by_tool": _worst_first(self.by_tool),
            "unreadable": self.unreadable,
            "empty": self.empty,
        }


def _worst_first(rates: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    order = sorted(rates.items(), key=lambda pair: (-pair[1]["invalid"], -pair[1]["replies"], pair[0]))
    return dict(order)


class InvalidReplies:
    """Writes invalid replies into the JSON object on stdout as they are found, and its other members at the end."""

    def __init__(self) -> None:
        self._before = '{"invalid_replies": ['

    def __call__(self, reply: JSONObject) -> None:
        typer.echo(self._before + printable_json(json.dumps(reply)), nl=False)
        self._before = ", "

    def close(self, members: JSONObject) -> None:
        """Write the end of the list, and what else the object holds."""
        rest = printable_json(json.dumps(members)).removeprefix("{")
        typer.echo(f"{self._before if self._before != ', ' else ''}], {rest}")


def check(files: Sequence[Path], *, tools: Sequence[str], as_json: bool, jobs: int, fail_on_empty: bool) -> None:
    """Judge every reply in the files; exits with 1 when one is invalid, a line cannot be read, or there is none.

    ``tools`` are sources as for ``--tools``, ``fail_on_empty`` makes a file without a reply a failure, too. After
    Ctrl-C what was counted so far is shown, marked as incomplete, and the status is 130.
    """
    declare(tools)  # a wrong declaration ends the command at once
    for path in files:
        if path != STDIN and not path.is_file():
            fail(f"{path} is no file: pass files of JSON lines, or - for stdin")
    written = InvalidReplies()
    tally = ReplyTally(written if as_json else lambda _: None)
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(_judged(files, tools, jobs, tally)) as found:
        for path, judged in found:
            tally.add(path, judged)
        tally.complete = True
    if as_json:
        written.close(tally.to_dict())
    else:
        _print(tally, console())
    if not tally.complete:
        fail("interrupted: the counts are of what was read so far", Status.INTERRUPTED)
    if tally.invalid or tally.unreadable or not tally.replies or (fail_on_empty and tally.empty):
        raise typer.Exit(Status.FAILED)


def _judged(
    files: Sequence[Path], tools: Sequence[str], jobs: int, tally: ReplyTally
) -> Generator[tuple[Path, JudgedLine], None, None]:
    """Judge file after file, with a progress bar on stderr; a damaged file is reported where it breaks."""
    named = TextColumn("{task.description}", markup=False)
    columns = (named, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    screen = console(stderr=True)
    sizes = [None if path == STDIN else path.stat().st_size for path in files]
    alone = jobs == 1 or (None not in sizes and sum(filter(None, sizes)) < MIN_SHARED_BYTES)
    with (
        Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress,
        contextlib.closing(Workers(tools, 1 if alone else jobs)) as workers,
    ):
        for path, size in zip(files, sizes, strict=True):
            task = progress.add_task(printable(path.name), total=size)
            before, number = tally.replies, 0
            try:
                for judged, position in workers.judge(open_lines(path)):
                    number = judged.line
                    yield path, judged
                    progress.update(task, completed=position)
            except OSError as error:
                yield path, JudgedLine(number + 1, reason=f"the file cannot be read on: {error}")
            if tally.replies == before:
                tally.empty.append(str(path))


Lines = list[tuple[int, bytes, int]]


class Workers:
    """Judges lines in their order, in this process or in several; at most a few batches are held at a time."""

    def __init__(self, tools: Sequence[str], jobs: int) -> None:
        self._jobs = jobs
        self._judge = None if jobs > 1 else RecordingJudge(list(declare(tools).tools) or None)
        self._pool = (
            ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin, initargs=(tuple(tools),))
            if jobs > 1
            else None
        )

    def judge(self, lines: Iterator[tuple[int, bytes, int]]) -> Iterator[tuple[JudgedLine, int]]:
        """Yield what was found in each line, and how far its file had been read."""
        if self._pool is None:
            for number, line, position in lines:
                yield judged_line(self._judge or RecordingJudge(), number, line), position
            return
        waiting: deque[Future[list[tuple[JudgedLine, int]]]] = deque()
        try:
            while batch := list(islice(lines, _BATCH)):
                waiting.append(self._pool.submit(_judge_batch, batch))
                if len(waiting) > self._jobs * _WAITING:
                    yield from waiting.popleft().result()
        finally:  # what was read before a damaged place is told before it
            if not isinstance(sys.exception(), GeneratorExit | KeyboardInterrupt):
                while waiting:
                    yield from waiting.popleft().result()

    def close(self) -> None:
        """End the workers; what they have not begun is left."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def judged_line(judge: RecordingJudge, number: int, line: bytes) -> JudgedLine:
    """Judge one line; only what is counted is kept of it."""
    judged = judge.judge(number, line)
    if isinstance(judged, UnreadableLine):
        return JudgedLine(number, reason=judged.reason)
    issues = judged.verdict.issues if isinstance(judged.verdict, Invalid) else ()
    recording = judged.recording
    return JudgedLine(number, recording.model, recording.called, [issue.to_dict() for issue in issues])


_own: list[RecordingJudge] = []
"""The judge of a worker process."""


def _begin(tools: tuple[str, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that shows what was counted
    _own.append(RecordingJudge(list(declare(tools).tools) or None))


def _judge_batch(batch: Lines) -> list[tuple[JudgedLine, int]]:
    return [(judged_line(_own[0], number, line), position) for number, line, position in batch]


def _print(tally: ReplyTally, screen: Console) -> None:
    if tally.by_code:
        table = titled_table("What was wrong", "issue code", "replies")
        table.add_column("first seen at", overflow="fold")
        for code, count in tally.by_code.most_common():
            table.add_row(printable(code), str(count), printable(tally.first[code]))
        screen.print(table, "")
    for kind, rates in (("model", tally.by_model), ("tool", tally.by_tool)):
        if not rates:
            continue
        table = titled_table(f"By {kind}", kind, "replies", "invalid", "%")
        for name, rate in list(_worst_first(rates).items())[:MAX_ROWS]:
            share = f"{100 * rate['invalid'] / rate['replies']:.1f}"
            shown = f"(no {kind})" if name == NO_NAME else printable(name)
            table.add_row(shown, str(rate["replies"]), str(rate["invalid"]), share)
        screen.print(table)
        screen.print(
            f"and {len(rates) - MAX_ROWS} more; --json lists all\n" if len(rates) > MAX_ROWS else "", style="dim"
        )
    for entry in tally.unreadable[:MAX_ROWS]:
        screen.print(printable(f"unreadable: {entry['file']}:{entry['line']}: {entry['reason']}"), style="red")
    if len(tally.unreadable) > MAX_ROWS:
        screen.print(f"and {len(tally.unreadable) - MAX_ROWS} more unreadable lines; --json lists all", style="red")
    invalid, unreadable = tally.invalid, len(tally.unreadable)
    if not tally.replies and not unreadable:
        screen.print("no replies found")
        return
    replies, lines = counted(tally.replies, "reply", "replies"), counted(unreadable, "line", "lines")
    told = f", {lines} unreadable" if unreadable else ""
    screen.print(f"{replies}: {tally.replies - invalid} valid, {invalid} invalid{told}")
