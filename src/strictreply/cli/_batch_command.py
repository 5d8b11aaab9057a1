"""``strictreply batch``: run over a file of rows; validate a provider's batch files."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, Self

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from strictreply import ContractError
from strictreply.batch import STATUSES, FileRun, rows, validate_files
from strictreply.cli._declared import Endpoint
from strictreply.cli._terminal import (
    Status,
    console,
    counted,
    fail,
    interruptible,
    refuse_paths,
)
from strictreply.core import JSONObject
from strictreply.core.text import printable

MAX_LISTED = 20  # lines that cannot be read
_GOOD = frozenset({"ok", "fixed"})
_LINE_SECONDS = 10.0  # between two lines of progress without a terminal


def file_run(source: Path, out: Path | None, **settings: Any) -> FileRun:
    """Make a run over a file of rows; end the command if its files cannot be used."""
    try:
        return FileRun(source, out, option="--{}".format, **settings)
    except (ContractError, ImportError) as error:
        fail(str(error))


def open_rows(run: FileRun) -> None:
    """Read the first row; end the command if it cannot be read or lacks a column."""
    try:
        run.open()
    except ContractError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{run.source} cannot be read: {error.strerror or error}", Status.FAILED)


def keywords_of(endpoint: Endpoint, request: str) -> JSONObject:
    """Return the keywords of each request; end the command if ``--request`` is wrong."""
    return endpoint.request(request, ("api", "model", *signature(rows).parameters))


def run_batch(
    run: FileRun, ask: Callable[..., None], *, prices: tuple[float, float] | None
) -> None:
    """Send a request for every row without a result, and show the progress.

    ``ask`` is the run's method with its settings. ``prices`` are the prices of a million prompt
    tokens and of a million reply tokens; None if unknown.
    """
    watch = Watch(run, prices)
    try:
        with watch:
            ask(on_begin=watch.begin, on_row=watch.show)
    except ContractError as error:
        fail(str(error))
    except (OSError, ImportError) as error:
        fail(f"{error}; run the same command again to continue", Status.FAILED)
    except KeyboardInterrupt:
        words = f"interrupted after {watch.rows}; run the same command again to continue"
        fail(words, Status.INTERRUPTED)

    typer.echo("\n".join(watch.summary()))
    if not _GOOD.issuperset(+run.statuses):
        raise typer.Exit(Status.INVALID)


class Watch:
    """Shows the progress of a run on stderr, and summarises its results."""

    def __init__(self, run: FileRun, prices: tuple[float, float] | None) -> None:
        self._run = run
        self._prices = prices
        self._began = time.monotonic()
        self._next_shown = self._began

        self._screen = console(stderr=True)
        words = TextColumn("{task.description}", markup=False)
        columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), words)
        self._bar = Progress(*columns, console=self._screen, disable=not self._screen.is_terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar.task_ids:
            self._bar.stop()

    def begin(self) -> None:
        """Start to show progress; a run that is complete never calls this."""
        self._bar.start()
        self._began = time.monotonic()
        self._next_shown = self._began + (_LINE_SECONDS if self._bar.disable else 0)
        self._bar.add_task("", total=self._run.total)

    def show(self, limit: int) -> None:
        """Show the progress, unless it was shown a moment ago.

        ``limit`` is the number of rows in flight at a time.
        """
        now = time.monotonic()
        if now < self._next_shown:
            return

        self._next_shown = now + (_LINE_SECONDS if self._bar.disable else 0.1)

        run = self._run
        left = "" if run.total is None else f", about {max(0, run.total - run.done)} left"
        rate = (run.done - run.begun_with) / max(now - self._began, 1e-9)
        line = f"{self.rows}{left}, {rate:.0f} rows/s, {limit} in flight{self._counts()}"

        if self._bar.disable:
            self._screen.print(line)
        else:
            self._bar.update(self._bar.task_ids[0], completed=run.done, description=line)

    @property
    def rows(self) -> str:
        """The number of rows that have a result, with its noun."""
        return counted(self._run.done, "row", "rows")

    def summary(self) -> list[str]:
        """Return the lines that summarise the run."""
        run = self._run
        found = [f"{self.rows}{self._counts()}; {run.out}"]

        if run.api_failed:
            failed = counted(run.api_failed, "row", "rows")
            found.append(f"{failed} failed at the API; run the same command again to retry them")

        for reason, _ in run.unasked.most_common(1):
            unasked = counted(run.unasked.total(), "row", "rows")
            found.append(f"{unasked} not sent; the most frequent reason: {reason}")

        return list(map(printable, found))

    def _counts(self) -> str:
        tokens = self._run.tokens
        statuses = self._run.statuses
        counts = ", ".join(f"{statuses[name]} {name}" for name in STATUSES if statuses[name])
        spent = f"{tokens['total_tokens']} tokens"

        if self._prices is not None:
            price_in, price_out = self._prices
            cost = tokens["prompt_tokens"] * price_in + tokens["completion_tokens"] * price_out
            spent = f"cost so far {cost / 1e6:.4f}"

        return f": {counts}, {spent}" if counts else f", {spent}"


def run_validation(
    outputs: Sequence[Path],
    requests: Sequence[Path],
    *,
    out: Path | None,
    retry_file: Path | None,
    **settings: Any,
) -> None:
    """Validate a provider's batch files, and print the counts.

    Outputs that belong to no request, and unreadable lines, are failures.
    """
    refuse_paths((*outputs, *requests), out=out, retry_file=retry_file)

    try:
        with interruptible():
            counts = validate_files(
                outputs, requests=requests, out=out, retry_file=retry_file, **settings
            )
    except OSError as error:
        fail(str(error), Status.FAILED)

    statuses = counts.statuses
    found = ", ".join(f"{statuses[name]} {name}" for name in STATUSES if name in statuses)
    typer.echo(f"{counted(counts.requests, 'request', 'requests')}: {found or 'none'}")

    surplus = "outputs left over: duplicates, or outputs of rows that had already ended"
    for count, words in (
        (counts.again, "to retry"),
        (counts.missing, "without any output"),
        (counts.unknown, "outputs that belong to no request"),
        (counts.surplus, surplus),
    ):
        if count:
            typer.echo(f"{count} {words}")

    for line in counts.unreadable[:MAX_LISTED]:
        typer.echo(printable(f"unreadable: {line}"), err=True)

    if counts.unreadable or counts.unknown or not counts.requests:
        raise typer.Exit(Status.FAILED)
    if not _GOOD.issuperset(counts.statuses):
        raise typer.Exit(Status.INVALID)
