"""``strictreply check``: recorded replies judged offline; counts by tool, model and issue code."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from strictreply.cli._tally import Judged, Rates, Tally
from strictreply.cli._terminal import Status, console, echo_json, fail
from strictreply.testing._recordings import Judge, Unreadable, open_lines
from strictreply.values._issues import printable

MAX_ROWS = 20
_NONE = "-"
"""What a recording calls a model or a tool that is not there."""


def check(files: Sequence[Path], *, tools: list[object], as_json: bool) -> None:
    """Judge every reply in the files; exits with 1 when one is invalid or a line cannot be read.

    After Ctrl-C what was counted so far is shown, marked as incomplete, and the status is 130.
    """
    tally = Tally()
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(_judged(files, Judge(tools or None))) as found:
        for path, judged in found:
            tally.add(path, judged)
        tally.complete = True
    if as_json:
        echo_json(tally.to_dict())
    else:
        _print(tally, console())
    if not tally.complete:
        fail("interrupted: the counts are of what was read so far", Status.INTERRUPTED)
    if tally.invalid or tally.unreadable:
        raise typer.Exit(Status.FAILED)


def _judged(files: Sequence[Path], judge: Judge) -> Generator[tuple[Path, Judged], None, None]:
    """Judge file after file, with a progress bar on stderr; a damaged file is reported where it breaks."""
    named = TextColumn("{task.description}", markup=False)
    columns = (named, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    screen = console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        for path in files:
            task = progress.add_task(printable(path.name), total=path.stat().st_size)
            number = 0
            try:
                for number, line, position in open_lines(path):
                    yield path, judge.judge(number, line)
                    progress.update(task, completed=position)
            except OSError as error:
                yield path, Unreadable(number + 1, f"the file cannot be read on: {error}")


def _print(tally: Tally, screen: Console) -> None:
    """Print the tables and the unreadable lines."""
    if tally.codes:
        table = _table("What was wrong", "issue code", "replies")
        table.add_column("first seen at", overflow="fold")
        for code, count in tally.codes.most_common():
            table.add_row(printable(code), str(count), printable(tally.first[code]))
        screen.print(table, "")
    _print_rates(screen, "model", tally.by_model)
    _print_rates(screen, "tool", tally.by_tool)
    for entry in tally.unreadable[:MAX_ROWS]:
        screen.print(printable(f"unreadable: {entry['file']}:{entry['line']}: {entry['reason']}"), style="red")
    if len(tally.unreadable) > MAX_ROWS:
        screen.print(f"and {len(tally.unreadable) - MAX_ROWS} more unreadable lines; --json lists all", style="red")
    screen.print(_conclusion(tally))


def _print_rates(screen: Console, kind: str, rates: Rates) -> None:
    """Print one table of rates, the worst first."""
    if not rates:
        return
    table = _table(f"By {kind}", kind, "replies", "invalid", "%")
    for name, rate in list(rates.items())[:MAX_ROWS]:
        share = f"{100 * rate['invalid'] / rate['replies']:.1f}"
        shown = f"(no {kind})" if name == _NONE else printable(name)
        table.add_row(shown, str(rate["replies"]), str(rate["invalid"]), share)
    screen.print(table)
    screen.print(f"and {len(rates) - MAX_ROWS} more; --json lists all\n" if len(rates) > MAX_ROWS else "", style="dim")


def _table(title: str, name: str, *numbers: str) -> Table:
    """Start a table of names with their numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.show_edge = False
    table.add_column(name, overflow="fold")
    for number in numbers:
        table.add_column(number, justify="right")
    return table


def _conclusion(tally: Tally) -> str:
    """Say in a line what it all came to."""
    invalid, unreadable = len(tally.invalid), len(tally.unreadable)
    if not tally.replies and not unreadable:
        return "no replies found"
    lines = f", {unreadable} {'line' if unreadable == 1 else 'lines'} unreadable" if unreadable else ""
    return f"{tally.replies} replies: {tally.replies - invalid} valid, {invalid} invalid{lines}"
