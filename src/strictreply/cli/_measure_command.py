"""``strictreply measure``: count first replies, and how often each style of retry fixes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from strictreply import ContractError, MeasureReport, measure
from strictreply.batch.lines import STDIN, open_lines
from strictreply.cli._declared import Endpoint
from strictreply.cli._terminal import (
    Status,
    console,
    counted,
    echo_json,
    fail,
    refuse_paths,
)
from strictreply.core.text import printable
from strictreply.measuring import STYLES
from strictreply.measuring import MeasureProgress as Measured
from strictreply.testing.recovery import recovery_page


class _Watch:
    """Shows progress on stderr: a bar on a terminal, otherwise a line for each row."""

    def __init__(self) -> None:
        self._screen = console(stderr=True)
        words = TextColumn("{task.description}", markup=False)
        columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), words)
        self.bar = Progress(*columns, console=self._screen, disable=not self._screen.is_terminal)
        self.rows = 0

    def show(self, progress: Measured) -> None:
        self.rows = progress.rows
        line = (
            f"{counted(progress.rows, 'row', 'rows')} of {progress.of}, {progress.bad} invalid, "
            f"{counted(progress.requests, 'request', 'requests')}, {progress.failed} failed"
        )
        if self.bar.disable:
            self._screen.print(line)
            return

        if not self.bar.task_ids:
            self.bar.add_task("", total=progress.of)
        self.bar.update(self.bar.task_ids[0], completed=progress.rows, description=line)


def run_measure(
    source: Path,
    endpoint: Endpoint,
    settings: Mapping[str, Any],
    *,
    styles: Sequence[str],
    journal: Path | None,
    as_json: bool,
    page: Path | None,
) -> None:
    """Measure the rows of a file, and print the report.

    ``page`` is the file that also gets the report as HTML.
    """
    if source == STDIN and journal is None:
        fail("pass --journal, which has no default for rows from stdin")

    kept = _journal_of(source) if journal is None else journal
    refuse_paths([source], journal=kept, html=page)
    rows = list(_rows(source))
    client, model = endpoint.connect()
    watch = _Watch()

    try:
        with client, watch.bar:
            report = measure(
                client,
                rows,
                model=model,
                styles=styles or tuple(STYLES),
                journal=kept,
                on_progress=watch.show,
                **settings,
            )
    except ContractError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error}; run the same command again to continue", Status.FAILED)
    except KeyboardInterrupt:
        done = counted(watch.rows, "row", "rows")
        words = f"interrupted after {done}; run the same command again to continue"
        fail(words, Status.INTERRUPTED)

    _write_report(report, as_json=as_json, page=page)
    if report.failures or not report.rows:
        failed = sum(report.failures.values())
        fail(
            f"{counted(failed, 'call', 'calls')} to {endpoint.name} failed; "
            "run the same command again to repeat them",
            Status.FAILED,
        )


def _write_report(report: MeasureReport, *, as_json: bool, page: Path | None) -> None:
    """Print a report, and write it as a page if one is wanted."""
    if as_json:
        echo_json(report.to_dict())
    else:
        typer.echo(str(report))

    if page is not None:
        try:
            page.write_text(recovery_page(report), encoding="utf-8")
        except OSError as error:
            fail(f"--html {page}: {error.strerror}", Status.FAILED)


def _journal_of(source: Path) -> Path:
    name = source.name.removesuffix(".gz").removesuffix(".jsonl")
    return source.with_name(f"{name}.measured.jsonl")


def _rows(source: Path) -> Iterator[Any]:
    """Read the rows; end the command at a line that is not a row."""
    try:
        for number, line, _ in open_lines(source):
            row = json.loads(line)
            if not isinstance(row, str | dict):
                fail(printable(f"line {number} of {source} is neither a text nor a JSON object"))

            yield row
    except OSError as error:
        fail(f"{source} cannot be read: {error.strerror or error}", Status.FAILED)
    except (ValueError, RecursionError) as error:
        fail(f"{source} is not JSON lines: {error}")
