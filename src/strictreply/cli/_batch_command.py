"""``strictreply batch``: a file of rows asked about, resumably; a provider's batch files judged."""

from __future__ import annotations

import asyncio
import json
import re
import string
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from inspect import signature
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from strictreply.batch._batches import arrow, write_parquet
from strictreply.batch._journal import INDEX, Journal, fingerprint, fingerprint_of
from strictreply.batch._provider_files import judge_files
from strictreply.batch._results import COLUMNS, STATUSES, STDIN, RowFault, RowResult, open_lines
from strictreply.batch._rows import PATIENT, Rows, rows
from strictreply.cli._serve_commands import Endpoint
from strictreply.cli._terminal import Status, console, counted, fail, interruptible
from strictreply.contract._contract import Contract
from strictreply.retry._policy import RetryPolicy
from strictreply.values._errors import ContractError
from strictreply.values._issues import capped, printable
from strictreply.values._limits import JSONObject
from strictreply.wires._wire import Api

MAX_LISTED = 20  # lines that cannot be read
MAX_REASONS = 1_000  # that are told apart
_GOOD = frozenset({"ok", "mended"})
_TOLD_SECONDS = 10.0  # between two lines, where there is no terminal
_SHOWN_SECONDS = 0.1


_BRACES = "write a literal brace twice: {{ or }}"

Line: TypeAlias = tuple[int, bytes, int]


class NumberedRow(NamedTuple):
    """A row of the input; ``fault`` says why it cannot be asked, empty when it can. ``position`` is in bytes."""

    number: int
    row: Mapping[str, Any]
    position: int
    fault: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Where a row has its messages: a template of its columns, or else a column; ``system`` is said before them."""

    column: str
    template: str | None = None
    system: str | None = None

    def refuse_malformed(self) -> None:
        """End the command when the template is none."""
        try:
            list(string.Formatter().parse(self.template or ""))
        except ValueError as error:
            fail(f"--prompt: {error}; {_BRACES}")

    def refuse_lacking(self, item: NumberedRow) -> None:
        """End the command when a row lacks a column that is asked for: the first row speaks for the others."""
        names = [self.column]
        if self.template is not None:
            fields = [name for _, name, _, _ in string.Formatter().parse(self.template) if name is not None]
            names = [re.split(r"[.\[]", name)[0] for name in fields]
        for name in names:
            if name not in item.row:
                option, more = ("--messages", "") if self.template is None else ("--prompt", f"; {_BRACES}")
                fail(f"{option}: the first row has no column {name!r} ({_columns(item.row)}){more}")

    def messages(self, item: NumberedRow) -> Any:
        """Return the messages of a row; RowFault when it has none."""
        if item.fault:
            raise RowFault("row.line", item.fault, item.hint)
        if self.template is None:
            said = item.row.get(self.column)
        else:
            try:
                said = self.template.format_map(item.row)
            except Exception as error:
                words = f"--prompt cannot be filled from this row: {type(error).__name__} {error}"
                raise RowFault("row.messages", words, f"There are {_columns(item.row)}; {_BRACES}.") from error
        if not said:
            words = f"the column {self.column!r} is absent or empty" if self.template is None else "--prompt is empty"
            raise RowFault("row.messages", words, f"See --messages and --prompt; {_columns(item.row)}.")
        if self.system is None:
            return said
        after = said if isinstance(said, list) else [{"role": "user", "content": said}]
        return [{"role": "system", "content": self.system}, *after]


@dataclass(frozen=True, slots=True)
class FileRun:
    """A run over one file of rows: ``source`` may be stdin, ``out`` ends in .jsonl or .parquet.

    ``retries`` are the corrective asks of a row, and the seconds of all its attempts; ``prices`` what a million tokens
    cost, of prompts and of replies.
    """

    source: Path
    out: Path
    prompt: Prompt
    contract: Contract[Any]
    endpoint: Endpoint
    retries: tuple[int, float | None] = (PATIENT.max_retries, None)
    api: Api = "chat"
    keywords: JSONObject = field(default_factory=dict[str, Any])
    concurrency: int = 64
    prefix: str = ""
    prices: tuple[float, float] | None = None
    give_up_after: int = 100

    @property
    def lines(self) -> Path:
        """The file of JSON lines that is written: the results themselves, or what they are made parquet of."""
        return self.out.with_name(f"{self.out.name}.rows.jsonl") if self.out.suffix == ".parquet" else self.out

    def identity(self, model: str) -> JSONObject:
        """Return what the results depend on, by the words that a person has for it."""
        return {
            "input": fingerprint_of(self.source),
            "contract": fingerprint(self.contract),
            "model": model,
            "prompt": [self.prompt.column, self.prompt.template, self.prompt.system],
            "request": [self.api, self.keywords],
            "prefix": self.prefix,
        }

    def lines_of(self) -> Iterator[tuple[int, Line]]:
        """Read the input, and number its rows."""
        return enumerate(open_lines(self.source))

    def row(self, index: int, line: Line) -> NumberedRow:
        """Read a row."""
        number, read, position = line
        mend = f"Mend line {number} of {self.source}."
        taken = [self.prefix + name for name in (INDEX, *COLUMNS)]
        try:
            row = json.loads(read)
        except (ValueError, RecursionError):
            return NumberedRow(index, {}, position, "the line is not JSON", mend)
        if not isinstance(row, dict):
            return NumberedRow(index, {}, position, "the line is not a JSON object", mend)
        for name in taken:
            if name in row:
                kept = {own: value for own, value in row.items() if own not in taken}
                fault = f"the row has a column {name!r}, as the results have"
                return NumberedRow(index, kept, position, fault, f"Give --prefix, or rename it in line {number}.")
        return NumberedRow(index, row, position)


def _columns(row: Mapping[str, Any]) -> str:
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
    if not out.absolute().parent.is_dir():
        fail(f"--out {out}: the folder {out.parent} does not exist")
    return out


def keywords_of(request: str) -> JSONObject:
    """Read ``--request``; ends the command when it is no JSON object."""
    try:
        value = json.loads(request)
    except (ValueError, RecursionError) as error:
        fail(f"--request is not JSON: {error}")
    if not isinstance(value, dict):
        fail("--request is not a JSON object")
    if taken := value.keys() & {"api", "model", *signature(rows).parameters}:
        fail(f"--request: {min(taken)} is set by an option, or not allowed; pass other parameters of the API")
    return value


def batch(run: FileRun, *, restart: bool) -> None:
    """Ask about every row of a file, and write a result for each; exits with 1 when a row came to nothing.

    What is there of the same run is gone on with. Exits with 2 when the results are of another run, with 3 when the
    API stays down or a file cannot be read or written, with 130 after Ctrl-C; all that has a result is kept.
    """
    run.prompt.refuse_malformed()
    if run.source.resolve() in {run.out.resolve(), run.lines.resolve()}:
        fail(f"--out {run.out} would be written over {run.source}, which is the file of the rows: give it another name")
    lines = run.lines_of()
    first = list(islice(lines, 1))
    for one in first:
        item = run.row(*one)
        if not item.fault:
            run.prompt.refuse_lacking(item)
    client, model = run.endpoint.connect()
    client.close()
    try:
        ask = _row_function(run, model)  # first: what is wrong leaves no results of a run that never was
        journal = Journal(run.lines, run.identity(model), prefix=run.prefix, restart=restart)
    except ContractError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{run.lines}: {error.strerror}")
    told = Told(run, journal)
    try:
        _ask(ask, _Writing(run, chain(first, lines), journal, told))
        if run.out != run.lines and _is_older(run.out, run.lines):
            write_parquet(run.lines, run.out, run.prefix)
    except ContractError as error:
        fail(str(error))
    except (OSError, ImportError) as error:
        fail(f"{error}; run the same command again to continue", Status.FAILED)
    except KeyboardInterrupt:
        fail(f"interrupted after {told.rows}; run the same command again to continue", Status.INTERRUPTED)
    finally:
        journal.close()
    typer.echo("\n".join(told.summary()))
    if not _GOOD.issuperset(+journal.statuses):
        raise typer.Exit(Status.INVALID)


def _is_older(path: Path, than: Path) -> bool:
    return not path.exists() or path.stat().st_mtime_ns <= than.stat().st_mtime_ns


def _row_function(run: FileRun, model: str) -> Rows:
    return rows(
        run.contract,
        model=model,
        api=run.api,
        messages=run.prompt.messages,
        client=run.endpoint.asynchronous,
        policy=replace(PATIENT, max_retries=run.retries[0], deadline=run.retries[1]),
        concurrency=run.concurrency,
        **run.keywords,
    )


def _ask(ask: Rows, writing: _Writing) -> None:
    if writing.journal.is_complete:
        return
    with writing.told.shown():
        asyncio.run(ask.each(writing.rows(), writing.take))
    writing.write_kept_back()
    writing.journal.save(complete=True)


class _Writing:
    """Writes results as they come; those that failed are kept back until one after them did not.

    When too many fail in a row the API is down: these rows are left to the next start, as if not asked.
    """

    def __init__(self, run: FileRun, lines: Iterable[tuple[int, Line]], journal: Journal, told: Told) -> None:
        self._run, self._lines, self.journal, self.told = run, lines, journal, told
        self._under_way: dict[int, NumberedRow] = {}
        self._kept_back: list[tuple[NumberedRow, RowResult]] = []

    def rows(self) -> Iterator[NumberedRow]:
        """Read the rows that have no result yet."""
        unread = (self._run.row(*line) for line in self._lines if line[0] not in self.journal.done)
        for index, item in enumerate(unread):
            self._under_way[index] = item
            self.told.read, self.told.position = item.number + 1, item.position
            yield item

    def take(self, result: RowResult, limit: int) -> None:
        """Write a result, or keep it back."""
        self._kept_back.append((self._under_way.pop(result.index), result))
        if result.status != "failed" or not result.attempts:
            self.write_kept_back()
            if result.status == "failed":
                self.told.note_unasked(result.issues[-1]["message"])
            self.told.update(limit)
        elif len(self._kept_back) >= self._run.give_up_after:
            raise OSError(f"{len(self._kept_back)} rows in a row failed: {result.issues[-1]['message']}")

    def write_kept_back(self) -> None:
        """Write the results that were kept back."""
        for item, result in self._kept_back:
            self.journal.add(item.number, item.row, result)
        self._kept_back.clear()


class Told:
    """What is told of a run: a bar where there is a terminal, a line from time to time where there is none."""

    def __init__(self, run: FileRun, journal: Journal) -> None:
        self._run, self._journal = run, journal
        self._before, self._began = len(journal.done), time.monotonic()
        self._size = None if run.source == STDIN else run.source.stat().st_size
        self._screen = console(stderr=True)
        self._progress: Progress | None = None
        self._next = self._began + (0 if self._screen.is_terminal else _TOLD_SECONDS)
        self.limit, self.read, self.position = run.concurrency, 0, 0
        self._unasked: Counter[str] = Counter()

    @property
    def rows(self) -> str:
        """How many rows have a result."""
        return counted(len(self._journal.done), "row", "rows")

    def shown(self) -> AbstractContextManager[object]:
        """Show the bar in the meantime."""
        if not self._screen.is_terminal:
            return nullcontext()
        columns = (
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
        )
        self._progress = Progress(*columns, console=self._screen)
        self._progress.add_task("", total=self._size)
        return self._progress

    def update(self, limit: int) -> None:
        """Show how far the run is, when it is time to; ``limit`` is how many rows are asked at once."""
        self.limit = limit
        now = time.monotonic()
        if now < self._next:
            return
        if self._progress is None:
            self._next = now + _TOLD_SECONDS
            self._screen.print(self._line(now))
        else:
            self._next = now + _SHOWN_SECONDS
            self._progress.update(self._progress.task_ids[0], completed=self.position, description=self._line(now))

    def note_unasked(self, reason: str) -> None:
        """Count a row that could not be asked by its reason."""
        self._unasked[reason if reason in self._unasked or len(self._unasked) < MAX_REASONS else "others"] += 1

    def summary(self) -> list[str]:
        """Return the last words on a run."""
        told = [f"{self.rows}{self._statuses()}{self._cost()}; {self._run.out}"]
        if self._journal.api_failed:
            failed = counted(self._journal.api_failed, "row", "rows")
            told.append(f"{failed} failed at the API: the same command asks them again")
        if self._unasked:
            unasked = counted(self._unasked.total(), "row", "rows")
            told.append(f"{unasked} could not be asked, most often since {self._unasked.most_common(1)[0][0]}")
        return list(map(printable, told))

    def _line(self, now: float) -> str:
        done = len(self._journal.done)
        rate = (done - self._before) / max(now - self._began, 1e-9)
        left = ""
        if self._size and self.position:
            unread = self.read * (self._size - self.position) / self.position
            left = f", about {round(unread) + self.read - done} left"
        return f"{self.rows}{left}, {rate:.0f} rows/s, {self.limit} at once{self._statuses()}{self._cost()}"

    def _statuses(self) -> str:
        counts = [f"{self._journal.statuses[name]} {name}" for name in STATUSES if self._journal.statuses[name]]
        return f": {', '.join(counts)}" if counts else ""

    def _cost(self) -> str:
        if self._run.prices is None:
            return f", {self._journal.tokens['total_tokens']} tokens"
        tokens = (self._journal.tokens["prompt_tokens"], self._journal.tokens["completion_tokens"])
        cost = sum(count * price for count, price in zip(tokens, self._run.prices, strict=True)) / 1e6
        return f", cost so far {cost:.4f}"


def judge(
    outputs: Sequence[Path],
    requests: Sequence[Path],
    *,
    contract: Contract[Any] | None,
    retries: int,
    out: Path | None,
    reask: Path | None,
) -> None:
    """Judge a provider's batch files, and print the counts; exits with 1 when a row is not good, 3 for what is amiss.

    Amiss are lines that cannot be read, and outputs of no request.
    """
    for path in (*outputs, *requests):
        if path != STDIN and not path.is_file():
            fail(f"{path} is not a file: pass files of JSON lines, .gz too")
    others = {path.resolve() for path in (*outputs, *requests)}
    for name, target in (("out", out), ("reask", reask)):
        if target is not None and target.resolve() in others:
            fail(f"--{name} {target} is another of the files: give it another name")
        others |= {target.resolve()} if target is not None else set()
    policy = RetryPolicy(max_retries=retries)
    try:
        with interruptible():
            counts = judge_files(outputs, requests=requests, contract=contract, policy=policy, out=out, reask=reask)
    except OSError as error:
        fail(str(error), Status.FAILED)
    told = ", ".join(f"{counts.statuses[name]} {name}" for name in STATUSES if name in counts.statuses)
    typer.echo(f"{counted(counts.requests, 'request', 'requests')}: {told or 'none'}")
    amiss = {
        "to ask again": counts.again,
        "without any output": counts.missing,
        "outputs of no request": counts.unknown,
        "outputs left over: they are there twice, or came after the end of their row": counts.surplus,
    }
    for words, count in amiss.items():
        if count:
            typer.echo(f"{count} {words}")
    for line in counts.unreadable[:MAX_LISTED]:
        typer.echo(printable(f"unreadable: {line}"), err=True)
    if counts.unreadable or counts.unknown or not counts.requests:
        raise typer.Exit(Status.FAILED)
    if not _GOOD.issuperset(counts.statuses):
        raise typer.Exit(Status.INVALID)
