"""``strictreply check``: recorded replies judged offline; counts by tool, model and issue code, with first examples."""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from strictreply import ContractWarning, Invalid
from strictreply.batch._results import STDIN, Line, open_lines
from strictreply.cli._check_report import MAX_CAUSES, SHOWN_OF_A_CAUSE, JudgedLine, ReplyCause, ReplyTally, check_page
from strictreply.cli._serve_commands import declare
from strictreply.cli._terminal import Status, console, counted, excerpt, fail, refuse_paths, titled_table
from strictreply.testing._recordings import NO_NAME, RecordedVerdict, RecordingJudge, UnreadableLine
from strictreply.testing._response_streams import as_chat_request, is_of_responses
from strictreply.testing._scripts import Asked
from strictreply.values._issues import capped, printable, printable_json
from strictreply.values._limits import JSONObject
from strictreply.wires._wire import wire_of

MAX_ROWS = 20
MAX_SHOWN_CHARS = 800  # of a reply
MIN_SHARED_BYTES = 8_000_000  # of all files: smaller ones are judged here, as another process needs a second to begin
_BATCH = 200  # lines that go to a worker at once
_WAITING = 2  # batches that wait for each worker, so that a file is not read far ahead


def run_check(
    files: Sequence[Path], *, tools: Sequence[str], as_json: bool, jobs: int, fail_on_empty: bool, page: Path | None
) -> None:
    """Judge every reply in the files by sources of ``tools``; after Ctrl-C the counts so far are shown."""
    declare(tools)  # a wrong declaration ends the command before any file is opened
    refuse_paths(files, html=page)
    if page is not None and not page.absolute().parent.is_dir():
        fail(f"{page}: the folder {page.parent} does not exist")

    def tell(reply: JSONObject) -> None:  # as it is found, so that none is held
        typer.echo((", " if tally.invalid > 1 else "") + printable_json(json.dumps(reply)), nl=False)

    tally = ReplyTally(tell if as_json else lambda _: None)
    if as_json:
        typer.echo('{"invalid_replies": [', nl=False)
    with (
        suppress(KeyboardInterrupt),
        warnings.catch_warnings(action="ignore", category=ContractWarning),  # of tools that others declared once
        closing(_judged(files, LineJudge(tools, page is not None), jobs, tally)) as found,
    ):
        for path, judged in found:
            tally.add(path, judged)
        tally.complete = True
    if as_json:
        typer.echo("], " + printable_json(json.dumps(tally.to_dict())).removeprefix("{"))
    else:
        _print(tally, console())
    if page is not None:
        try:
            page.write_text(check_page(tally, [path.name for path in files]), encoding="utf-8")
        except OSError as error:
            fail(f"{page}: {error.strerror}", Status.FAILED)
    _end(tally, fail_on_empty=fail_on_empty)


def _end(tally: ReplyTally, *, fail_on_empty: bool) -> None:
    """End the command with the status for what was found."""
    if not tally.complete:
        fail("interrupted: the counts cover what was read so far", Status.INTERRUPTED)
    if tally.invalid:
        raise typer.Exit(Status.INVALID)
    if tally.unreadable or not tally.replies or (fail_on_empty and tally.empty):
        raise typer.Exit(Status.FAILED)


class LineJudge:
    """Judges line after line by the tools of ``sources``; ``is_paged`` keeps the first replies of each cause."""

    def __init__(self, sources: Sequence[str], is_paged: bool) -> None:
        self.settings = sources, is_paged
        self._judge = RecordingJudge(list(declare(sources).tools) or None)
        self._met: Counter[ReplyCause] = Counter()

    def judge(self, number: int, line: bytes) -> JudgedLine:
        """Judge one line."""
        judged = self._judge.judge(number, line)
        if isinstance(judged, UnreadableLine):
            return JudgedLine(number, reason=judged.reason)
        recording = judged.recording
        if not isinstance(judged.verdict, Invalid):
            return JudgedLine(number, recording.model, recording.called)
        issues = [issue.to_dict() for issue in judged.verdict.issues]
        found = JudgedLine(number, recording.model, recording.called, issues)
        if self.settings[1] and len(self._met) < MAX_CAUSES:
            self._met[found.cause] += 1
            if self._met[found.cause] <= SHOWN_OF_A_CAUSE:
                shown = capped(excerpt(recording.response), MAX_SHOWN_CHARS)
                return found._replace(shown=(shown, _asked_next(judged)))
        return found


def _asked_next(judged: RecordedVerdict) -> str:
    """Return the correction that a guarded client would have sent; empty where it would not ask again."""
    response = judged.recording.response
    wire = wire_of(response)
    asked = wire.written({"model": judged.recording.model, "messages": [{"role": "user", "content": "…"}]})
    following = judged.contract.next_request(asked, response).request
    if following is None:
        return ""
    first, second = (as_chat_request(one) if is_of_responses(one) else one for one in (asked, following))
    return Asked(2, second, None, Asked(1, first, None)).correction


def _judged(
    files: Sequence[Path], judge: LineJudge, jobs: int, tally: ReplyTally
) -> Generator[tuple[Path, JudgedLine], None, None]:
    """Judge file after file, with a progress bar on stderr; a damaged file is reported where it breaks."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    screen = console(stderr=True)
    bar = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
    sizes = [None if path == STDIN else path.stat().st_size for path in files]
    with bar as progress, ExitStack() as stack:
        found = partial(_judged_here, judge)
        if jobs > 1 and (None in sizes or sum(filter(None, sizes)) >= MIN_SHARED_BYTES):
            pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin, initargs=judge.settings)
            stack.callback(pool.shutdown, cancel_futures=True)
            found = partial(_judged_by_workers, pool, jobs * _WAITING)
        for path, size in zip(files, sizes, strict=True):
            task = progress.add_task(printable(path.name), total=size)
            before, number = tally.replies, 0
            try:
                for judged, position in found(open_lines(path)):
                    number = judged.line
                    yield path, judged
                    progress.update(task, completed=position)
            except OSError as error:
                yield path, JudgedLine(number + 1, reason=f"the rest of the file cannot be read: {error}")
            if tally.replies == before:
                tally.empty.append(str(path))


Found: TypeAlias = tuple[JudgedLine, int]  # what was found in a line, and how far its file had been read


def _judged_here(judge: LineJudge, lines: Iterator[Line]) -> Iterator[Found]:
    return ((judge.judge(number, line), position) for number, line, position in lines)


def _judged_by_workers(pool: ProcessPoolExecutor, most: int, lines: Iterator[Line]) -> Iterator[Found]:
    """Judge lines in their order, holding at most as many batches."""
    waiting: deque[Future[list[Found]]] = deque()
    try:
        while batch := list(islice(lines, _BATCH)):
            waiting.append(pool.submit(_judge_batch, batch))
            if len(waiting) > most:
                yield from waiting.popleft().result()
    finally:  # what was read before a damaged place is reported before it
        if not isinstance(sys.exception(), GeneratorExit | KeyboardInterrupt):
            while waiting:
                yield from waiting.popleft().result()


_own: list[LineJudge] = []  # the judge of a worker process


def _begin(sources: Sequence[str], is_paged: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that shows what was counted
    warnings.simplefilter("ignore", ContractWarning)
    _own.append(LineJudge(sources, is_paged))


def _judge_batch(batch: list[Line]) -> list[Found]:
    return list(_judged_here(_own[0], iter(batch)))


def _print(tally: ReplyTally, screen: Console) -> None:
    if tally.by_code:
        table = titled_table("What was wrong", "issue code", "replies")
        table.add_column("first seen at", overflow="fold")
        for code, count in tally.by_code.most_common():
            table.add_row(printable(code), str(count), printable(tally.first[code]))
        screen.print(table, "")
    for kind, rates in tally.rates():
        if not rates:
            continue
        table = titled_table(f"By {kind}", kind, "replies", "invalid", "%")
        for name, rate in list(rates.items())[:MAX_ROWS]:
            share = f"{100 * rate['invalid'] / rate['replies']:.1f}"
            shown = f"(no {kind})" if name == NO_NAME else printable(name)
            table.add_row(shown, str(rate["replies"]), str(rate["invalid"]), share)
        screen.print(table)
        more = f"and {len(rates) - MAX_ROWS} more; --json lists all\n" if len(rates) > MAX_ROWS else ""
        screen.print(more, style="dim")
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
