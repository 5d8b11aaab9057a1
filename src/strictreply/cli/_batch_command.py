"""``strictreply batch``: a file of rows asked about, resumably; a provider's batch files judged."""

from __future__ import annotations

import asyncio
import hashlib
import re
import string
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from strictreply import Contract, ContractError, RetryPolicy
from strictreply.batch import COLUMNS, STATUSES, RowFault, RowResult, Rows, rows, validate_files
from strictreply.batch._asking import Pooled
from strictreply.batch._results import (
    INDEX,
    STDIN,
    Journal,
    Line,
    fingerprint,
    open_lines,
    read_row,
)
from strictreply.batch._rows import arrow, write_parquet
from strictreply.cli._declared import Endpoint
from strictreply.cli._terminal import (
    Status,
    console,
    counted,
    fail,
    interruptible,
    read_json,
    refuse_paths,
)
from strictreply.core import JSONObject
from strictreply.core.text import capped, printable
from strictreply.wires import Api

MAX_LISTED = 20  # lines that cannot be read
MAX_REASONS = 1_000  # that are counted apart
_GOOD = frozenset({"ok", "mended"})
_TOLD_SECONDS = 10.0  # between two lines, where there is no terminal
_BRACES = "write a literal brace twice: {{ or }}"


class NumberedRow(NamedTuple):
    """A row of the input.

    ``fault`` says why the row cannot be asked about; it is empty when it can.
    """

    number: int
    row: Mapping[str, Any]
    fault: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRun:
    """A run over one file of rows."""

    source: Path
    """The file of rows; ``-`` for stdin."""
    out: Path
    """The file of results, which ends in .jsonl or .parquet."""
    column: str
    """The column with a row's messages."""
    template: str | None
    """The text that is filled with a row's columns, in place of ``column``; None for none."""
    system: str | None
    """The system prompt of every row; None for none."""
    contract: Contract[Any]
    """What replies are checked against."""
    endpoint: Endpoint
    """The server and the model to ask."""
    policy: RetryPolicy
    """The retry policy of every row."""
    api: Api
    """The API to ask."""
    keywords: JSONObject
    """The keywords of every request."""
    concurrency: int
    """Most rows under way at once."""
    prefix: str
    """What stands before the name of each result column; empty for nothing."""
    prices: tuple[float, float] | None
    """Prices of a million tokens, of prompts and of replies; None when unknown."""
    max_consecutive_failures: int
    """Number of failed rows one after the other at which the run ends."""

    @property
    def lines(self) -> Path:
        """The file of JSON lines that is written: the results, or the source of a parquet file."""
        if self.out.suffix != ".parquet":
            return self.out

        return self.out.with_name(f"{self.out.name}.rows.jsonl")

    def identity(self) -> JSONObject:
        """Return what the results depend on but for the model, under names for a person."""
        digest = "stdin"
        if self.source != STDIN:
            with self.source.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()

        return {
            "input": digest,
            "contract": fingerprint(self.contract),
            "prompt": [self.column, self.template, self.system],
            "request": [self.api, self.keywords],
            "prefix": self.prefix,
        }

    def row(self, index: int, line: Line) -> NumberedRow:
        """Read a row."""
        number, read, _ = line
        fault = ""
        hint = f"Fix line {number} of {self.source}."

        try:
            row = read_row(read)
        except (ValueError, RecursionError):
            row = {}
            fault = "the line is not JSON"

        if not isinstance(row, dict):
            row = {}
            fault = "the line is not a JSON object"

        ours = [self.prefix + name for name in (INDEX, *COLUMNS)]
        if taken := [name for name in ours if name in row]:
            row = {name: value for name, value in row.items() if name not in ours}
            fault = f"the row has a column {taken[0]!r}, as the results have"
            hint = f"Give --prefix, or rename it in line {number}."

        return NumberedRow(index, row, fault, hint)

    def needed_columns(self) -> list[str]:
        """Return the columns that messages are made of.

        Ends the command when the template is not a valid one.
        """
        if self.template is None:
            return [self.column]

        try:
            parsed = list(string.Formatter().parse(self.template))
        except ValueError as error:
            fail(f"--prompt: {error}; {_BRACES}")

        return [re.split(r"[.\[]", name)[0] for _, name, _, _ in parsed if name is not None]

    def messages(self, item: NumberedRow) -> Any:
        """Return the messages of a row; RowFault when it has none."""
        if item.fault:
            raise RowFault("row.line", item.fault, item.hint)

        if self.template is None:
            content = item.row.get(self.column)
        else:
            try:
                content = self.template.format_map(item.row)
            except Exception as error:
                words = f"--prompt cannot be filled from this row: {type(error).__name__} {error}"
                hint = f"There are {_columns(item.row)}; {_BRACES}."
                raise RowFault("row.messages", words, hint) from error

        if not content:
            if self.template is None:
                words = f"the column {self.column!r} is absent or empty"
            else:
                words = "--prompt is empty"

            hint = f"See --messages and --prompt; {_columns(item.row)}."
            raise RowFault("row.messages", words, hint)

        if self.system is None:
            return content

        after = content if isinstance(content, list) else [{"role": "user", "content": content}]
        return [{"role": "system", "content": self.system}, *after]


def _columns(row: Mapping[str, object]) -> str:
    return f"there are {capped(', '.join(row), 200)}" if row else "it has no column"


def results_of(source: Path, out: Path | None) -> Path:
    """Return where the results go; ends the command where that cannot be."""
    if source != STDIN and not source.is_file():
        fail(f"{source} is not a file: pass a file of JSON lines, .gz too, or - for stdin")

    if out is None and source == STDIN:
        fail("pass --out: for rows from stdin there is no default file of results")

    beside = f"{source.name.removesuffix('.gz').removesuffix('.jsonl')}.results.jsonl"
    out = source.with_name(beside) if out is None else out
    if out.suffix not in {".jsonl", ".parquet"}:
        fail(f"--out {out}: it must end in .jsonl or .parquet")

    if out.suffix == ".parquet":
        try:
            arrow()
        except ImportError as error:
            fail(str(error))

    if out.is_dir():
        fail(f"--out {out}: it is a folder")

    if not out.absolute().parent.is_dir():
        fail(f"--out {out}: the folder {out.parent} does not exist")

    return out


def keywords_of(request: str) -> JSONObject:
    """Read ``--request``; ends the command when it is not a JSON object."""
    value = read_json(request, "--request")
    if not isinstance(value, dict):
        fail("--request is not a JSON object")

    taken = value.keys() & {"api", "model", *signature(rows).parameters}
    if taken:
        fail(
            f"--request: {min(taken)} is set by an option, or not allowed; "
            "pass other parameters of the API"
        )

    return value


def run_batch(run: FileRun, *, restart: bool) -> None:
    """Ask about every row of a file that has no result of this run yet, and write one for each."""
    needed = run.needed_columns()

    if run.source.resolve() in {run.out.resolve(), run.lines.resolve()}:
        fail(
            f"--out {run.out} would be written over {run.source}, which is the file of the rows: "
            "give it another name"
        )

    lines = enumerate(open_lines(run.source))
    try:
        first = list(islice(lines, 1))
        identity = run.identity()
    except OSError as error:
        fail(f"{run.source} cannot be read: {error.strerror or error}", Status.FAILED)

    for one in first:
        _refuse_missing(run, run.row(*one), needed)

    client, model = run.endpoint.connect()
    client.close()

    try:
        # before there is a journal: what is wrong leaves no results of a run that never was
        keywords: JSONObject = {"model": model, "api": run.api, "concurrency": run.concurrency}
        ask = rows(
            run.contract,
            messages=run.messages,
            client=Pooled(run.endpoint.asynchronous),
            policy=run.policy,
            **{**keywords, **run.keywords},
        )

        journal = Journal(
            run.lines, identity | {"model": model}, prefix=run.prefix, restart=restart
        )
    except ContractError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{run.lines}: {error.strerror}")

    results = _Results(run, journal, chain(first, lines))
    try:
        results.write(ask)
    except ContractError as error:
        fail(str(error))
    except (OSError, ImportError) as error:
        fail(f"{error}; run the same command again to continue", Status.FAILED)
    except KeyboardInterrupt:
        words = f"interrupted after {results.rows}; run the same command again to continue"
        fail(words, Status.INTERRUPTED)
    finally:
        journal.close()

    typer.echo("\n".join(results.summary()))
    if not _GOOD.issuperset(+journal.statuses):
        raise typer.Exit(Status.INVALID)


def _refuse_missing(run: FileRun, item: NumberedRow, needed: Sequence[str]) -> None:
    """End the command when the first row lacks a column that messages are made of."""
    missing = [name for name in needed if name not in item.row and not item.fault]
    if not missing:
        return

    option = "--messages" if run.template is None else "--prompt"
    more = "" if run.template is None else f"; {_BRACES}"
    fail(f"{option}: the first row has no column {missing[0]!r} ({_columns(item.row)}){more}")


def _rows_in(source: Path) -> int | None:
    """Count the rows of a file; None for stdin, and where the file breaks, which is told later."""
    if source == STDIN:
        return None

    with suppress(OSError):
        return sum(1 for _ in open_lines(source))
    return None


class _Results:
    """Writes and shows results; failed ones wait: too many in a row are left to the next start."""

    def __init__(self, run: FileRun, journal: Journal, lines: Iterable[tuple[int, Line]]) -> None:
        self._run = run
        self._journal = journal
        self._lines = lines
        self._under_way: dict[int, NumberedRow] = {}
        self._kept_back: list[tuple[NumberedRow, RowResult]] = []
        self._unasked: Counter[str] = Counter()

        self._before = len(journal.done)
        self._began = time.monotonic()
        self._total = None if journal.is_complete else _rows_in(run.source)

        self._screen = console(stderr=True)
        words = TextColumn("{task.description}", markup=False)
        columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), words)
        self._bar = Progress(*columns, console=self._screen, disable=not self._screen.is_terminal)
        self._next_shown = self._began + (_TOLD_SECONDS if self._bar.disable else 0)

    def write(self, ask: Rows) -> None:
        """Ask about the rows that have no result yet.

        Then write the parquet file, if one is wanted and is older than its results.
        """
        if not self._journal.is_complete:
            with self._bar:
                self._bar.add_task("", total=self._total)
                asyncio.run(ask.each(self._unwritten(), self._take))

            self._write_kept_back()
            self._journal.save(complete=True)

        out = self._run.out
        lines = self._run.lines
        if out == lines:
            return

        if not out.exists() or out.stat().st_mtime_ns <= lines.stat().st_mtime_ns:
            write_parquet(lines, out, self._run.prefix)

    def _unwritten(self) -> Iterator[NumberedRow]:
        unread = (self._run.row(*line) for line in self._lines if line[0] not in self._journal.done)
        for index, item in enumerate(unread):
            self._under_way[index] = item
            yield item

    def _take(self, result: RowResult, limit: int) -> None:
        self._kept_back.append((self._under_way.pop(result.index), result))

        if result.status != "failed" or not result.attempts:
            self._write_kept_back()

            if result.status == "failed":
                reason = result.issues[-1]["message"]
                if reason not in self._unasked and len(self._unasked) >= MAX_REASONS:
                    reason = "others"
                self._unasked[reason] += 1

            self._show(limit)
        elif len(self._kept_back) >= self._run.max_consecutive_failures:
            raise OSError(
                f"{len(self._kept_back)} rows in a row failed: {result.issues[-1]['message']}"
            )

    def _write_kept_back(self) -> None:
        for item, result in self._kept_back:
            self._journal.add(item.number, item.row, result)

        self._kept_back.clear()

    def _show(self, limit: int) -> None:
        """Show how far the run is, when it is time to.

        ``limit`` is how many rows are asked about at once.
        """
        now = time.monotonic()
        if now < self._next_shown:
            return

        self._next_shown = now + (_TOLD_SECONDS if self._bar.disable else 0.1)

        done = len(self._journal.done)
        left = "" if self._total is None else f", about {max(0, self._total - done)} left"
        rate = (done - self._before) / max(now - self._began, 1e-9)
        line = f"{self.rows}{left}, {rate:.0f} rows/s, {limit} at once{self._counts()}"

        if self._bar.disable:
            self._screen.print(line)
        else:
            self._bar.update(self._bar.task_ids[0], completed=done, description=line)

    @property
    def rows(self) -> str:
        return counted(len(self._journal.done), "row", "rows")

    def summary(self) -> list[str]:
        found = [f"{self.rows}{self._counts()}; {self._run.out}"]

        if self._journal.api_failed:
            failed = counted(self._journal.api_failed, "row", "rows")
            found.append(f"{failed} failed at the API: the same command retries them")

        for reason, _ in self._unasked.most_common(1):
            unasked = counted(self._unasked.total(), "row", "rows")
            found.append(f"{unasked} could not be asked, most often since {reason}")

        return list(map(printable, found))

    def _counts(self) -> str:
        tokens = self._journal.tokens
        statuses = self._journal.statuses
        counts = ", ".join(f"{statuses[name]} {name}" for name in STATUSES if statuses[name])
        spent = f"{tokens['total_tokens']} tokens"

        if self._run.prices is not None:
            price_in, price_out = self._run.prices
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

    surplus = "outputs left over: they are there twice, or came after the end of their row"
    for count, words in (
        (counts.again, "to retry"),
        (counts.missing, "without any output"),
        (counts.unknown, "outputs of no request"),
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
