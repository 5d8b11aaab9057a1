"""``strictreply check``: validate recorded replies offline.

It counts them by tool, model and issue code, and shows the first place of each fault.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from strictreply import ContractWarning
from strictreply.batch.lines import STDIN
from strictreply.cli._declared import declare, load_all
from strictreply.cli._terminal import (
    Status,
    console,
    counted,
    fail,
    refuse_paths,
    titled_table,
)
from strictreply.core import JSONObject
from strictreply.core.text import printable, printable_json
from strictreply.testing.recordings import ReplyTally, check_files, check_page

MAX_ROWS = 20


def run_check(
    files: Sequence[Path],
    *,
    tools: Sequence[str],
    as_json: bool,
    jobs: int,
    fail_on_empty: bool,
    page: Path | None,
) -> None:
    """Judge every reply in the files by the tools from the sources ``tools``.

    After Ctrl-C the counts so far are printed.
    """
    declare(tools)  # end the command at a wrong declaration before any file is opened
    refuse_paths(files, html=page)

    if page is not None and not page.absolute().parent.is_dir():
        fail(f"{page}: the folder {page.parent} does not exist")

    def tell(reply: JSONObject) -> None:
        # immediately, so that no reply stays in memory
        comma = ", " if tally.invalid > 1 else ""
        typer.echo(comma + printable_json(json.dumps(reply)), nl=False)

    tally = ReplyTally(tell) if as_json else ReplyTally()
    if as_json:
        typer.echo('{"invalid_replies": [', nl=False)

    with (
        suppress(KeyboardInterrupt),
        # the tools of old recordings cannot be changed, so warnings about them do not help
        warnings.catch_warnings(action="ignore", category=ContractWarning),
        _progress(files) as on_line,
    ):
        check_files(
            files,
            tools=partial(load_all, tools),
            jobs=jobs,
            samples=page is not None,
            into=tally,
            on_line=on_line,
        )

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


@contextmanager
def _progress(files: Sequence[Path]) -> Generator[Callable[[Path, int], None]]:
    """Show a bar for each file on stderr; yield the function that moves it."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    screen = console(stderr=True)
    sizes = {path: None if path == STDIN else path.stat().st_size for path in files}

    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:

        def show(path: Path, position: int) -> None:
            if not position:
                bar.add_task(printable(path.name), total=sizes[path])
            bar.update(bar.task_ids[-1], completed=position)

        yield show


def _end(tally: ReplyTally, *, fail_on_empty: bool) -> None:
    """End the command with the status of the result."""
    if not tally.complete:
        fail("interrupted; the counts cover the lines read so far", Status.INTERRUPTED)
    if tally.invalid:
        raise typer.Exit(Status.INVALID)
    if tally.unreadable or not tally.replies or (fail_on_empty and tally.empty):
        raise typer.Exit(Status.FAILED)


def _print(tally: ReplyTally, screen: Console) -> None:
    if tally.calls:
        table = titled_table("By outcome", "outcome", "calls", "%")
        for word, number in tally.by_outcome.items():
            table.add_row(word, str(number), f"{100 * number / len(tally.calls):.1f}")

        screen.print(table, "")

    _print_faults(tally, screen)
    _print_rates(tally, screen)

    for entry in tally.unreadable[:MAX_ROWS]:
        words = f"unreadable: {entry['file']}:{entry['line']}: {entry['reason']}"
        screen.print(printable(words), style="red")

    if tally.without_tools:
        screen.print(tally.lacking, style="red")
    if tally.calls:
        for name, words in tally.spent.items():
            screen.print(f"{name}: {words}")
        screen.print(f"seconds: {tally.seconds:.1f}")

    unreadable = len(tally.unreadable)
    if unreadable > MAX_ROWS:
        words = f"and {unreadable - MAX_ROWS} more unreadable lines; --json lists all"
        screen.print(words, style="red")

    invalid = tally.invalid
    replies = counted(tally.replies, "reply", "replies")
    more = f", {counted(unreadable, 'line', 'lines')} unreadable" if unreadable else ""
    observed = f" ({tally.observed} only observed)" if tally.observed else ""
    found = f"{replies}: {tally.replies - invalid} valid, {invalid} invalid{observed}{more}"
    screen.print(found if tally.replies or unreadable else "no replies found")


def _print_faults(tally: ReplyTally, screen: Console) -> None:
    """Print how many replies have each code, and by the tool that the reply calls first."""
    if not tally.by_code:
        return

    table = titled_table("What was wrong", "issue code", "replies")
    table.add_column("first seen at", overflow="fold")

    for code, count in tally.codes():
        table.add_row(printable(code), str(count), printable(tally.first[code]))

    screen.print(table, "")

    table = titled_table("By tool and issue code", "tool")
    table.add_column("issue code", overflow="fold")
    table.add_column("replies", justify="right")
    table.add_column("%", justify="right")

    rows = tally.tools_and_codes()
    for tool, code, count in rows[:MAX_ROWS]:
        share = f"{100 * count / tally.by_tool[tool]['replies']:.1f}"
        table.add_row(printable(tally.label("tool", tool)), printable(code), str(count), share)

    screen.print(table)
    _print_left(len(rows), screen)


def _print_rates(tally: ReplyTally, screen: Console) -> None:
    """Print the counts by model and by tool."""
    for kind, rates in tally.rates():
        if not rates:
            continue

        table = titled_table(f"By {kind}", kind, "replies", "invalid", "%")
        for name, rate in list(rates.items())[:MAX_ROWS]:
            share = f"{100 * rate['invalid'] / rate['replies']:.1f}"
            label = printable(tally.label(kind, name))
            table.add_row(label, str(rate["replies"]), str(rate["invalid"]), share)

        screen.print(table)
        _print_left(len(rates), screen)


def _print_left(number: int, screen: Console) -> None:
    """Print how many rows of a table are not shown; then an empty line."""
    left = number - MAX_ROWS
    screen.print(f"and {left} more; --json lists all\n" if left > 0 else "", style="dim")
