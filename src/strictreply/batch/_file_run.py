"""A run over a file of rows: it writes one result per row, and can be resumed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from strictreply import Contract, ContractError, RetryPolicy
from strictreply.batch._asking import Pooled, api_of, is_ready
from strictreply.batch._journal import Journal, Spelled, fingerprint
from strictreply.batch._results import COLUMNS, INDEX, RowFault, RowResult
from strictreply.batch._rows import Rows, arrow, rows, write_parquet
from strictreply.batch.lines import STDIN, Line, open_lines
from strictreply.core import JSONObject
from strictreply.core.text import capped
from strictreply.wires import Api

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

MAX_REASONS = 1_000  # that are counted apart
_BRACES = "write a literal brace twice: {{ or }}"
_NOTHING: Mapping[str, object] = MappingProxyType({})


class NumberedRow(NamedTuple):
    """A row of the input.

    ``fault`` says why the row cannot be asked about; it is empty when it can.
    """

    number: int
    row: Mapping[str, Any]
    fault: str = ""
    hint: str = ""


def read_row(line: bytes) -> object:
    """Read a line of the input; numbers that Python cannot represent become texts.

    These are numbers beyond the range of a double, integers with thousands of digits, NaN and the
    infinities. Raises ValueError or RecursionError if the line is not JSON.
    """
    return json.loads(line, parse_constant=str, parse_float=_fraction, parse_int=_whole)


def _fraction(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def _whole(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:  # longer than sys.get_int_max_str_digits()
        return text


class FileRun:
    """Sends a request for every row of a file, and writes one result per row; it can be resumed.

    - ``source`` has rows as JSON lines, also gzipped; ``-`` means stdin.
    - ``out`` ends in ``.jsonl`` or ``.parquet``; None means ``source`` with the ending
      ``.results.jsonl``.
    - ``messages`` is the column with a row's text or messages. Instead, ``prompt`` may be a
      template with columns in braces.
    - ``system`` is the system message of each request.
    - ``prefix`` goes before the names of the result columns.
    - ``option`` formats the names of these settings in error messages.

    Make a new object for each start. Raises ContractError for files that cannot be used, and
    ImportError if parquet needs a library.
    """

    def __init__(
        self,
        source: str | PathLike[str],
        out: str | PathLike[str] | None = None,
        *,
        messages: str = "messages",
        prompt: str | None = None,
        system: str | None = None,
        prefix: str = "",
        option: Spelled = "{}=".format,
    ) -> None:
        self._option = option
        self.source: Path = Path(source)
        """The file of the rows."""
        self.out: Path = self._results(None if out is None else Path(out))
        """The file of the results."""
        self._column = messages
        self._template = prompt
        self._system = system
        self._prefix = prefix

        self.total: int | None = None
        """Rows of the source; None before the run starts, and if the number is unknown."""
        self.begun_with: int = 0
        """Rows that had a result before this start."""
        self.statuses: Counter[str] = Counter()
        """Results so far by their status, earlier starts included."""
        self.tokens: Counter[str] = Counter()
        """Tokens so far: prompt_tokens, completion_tokens and total_tokens."""
        self.unasked: Counter[str] = Counter()
        """Rows of this start whose request could not be sent, by the reason."""
        self._journal: Journal | None = None
        self._digest: str = ""
        self._rows: Iterator[NumberedRow] | None = None

    def open(self) -> None:
        """Read the first row, and check that it has the needed columns.

        :meth:`ask` calls this if you did not. Raises ContractError, and OSError when the source
        cannot be read.
        """
        needed = self._needed_columns()
        if self.source.resolve() in {self.out.resolve(), self._lines.resolve()}:
            raise ContractError(
                f"{self._option('out')} {self.out} would overwrite {self.source}, the file of the "
                "rows: give it another name"
            )

        unread = enumerate(open_lines(self.source))
        first = [self._row(index, line) for index, line in islice(unread, 1)]
        self._digest = self._digest_of_source()
        for item in first:
            self._refuse_missing(item, needed)

        self._rows = chain(first, (self._row(index, line) for index, line in unread))

    @property
    def done(self) -> int:
        """Number of rows that have a result, earlier starts included."""
        return 0 if self._journal is None else len(self._journal.done)

    @property
    def api_failed(self) -> int:
        """Number of rows for which the API failed; the next start retries them."""
        return 0 if self._journal is None else self._journal.api_failed

    def ask(
        self,
        contract: Contract[Any],
        *,
        model: str,
        client: AsyncOpenAI | AsyncAnthropic | Callable[[], object] | None = None,
        policy: RetryPolicy | None = None,
        api: Api | str | None = None,
        request: Mapping[str, Any] = _NOTHING,
        concurrency: int = 64,
        max_consecutive_failures: int = 100,
        restart: bool = False,
        on_begin: Callable[[], object] = lambda: None,
        on_row: Callable[[int], object] = lambda _limit: None,
    ) -> None:
        """Send a request for every row without a result, and write the results.

        ``client``, ``policy``, ``api`` and ``concurrency`` are those of :func:`rows`; ``request``
        has its other keywords. A function that makes clients may be called once for every 25 rows
        in flight. The run ends after ``max_consecutive_failures`` consecutive failed rows.
        ``restart`` deletes existing results. ``on_begin`` is called before the first row;
        ``on_row`` after new results, with the bound on rows in flight.

        Raises the errors of :meth:`open`; ContractError when the results belong to another run,
        when another process writes them, or when a setting is wrong; OSError when too many rows
        failed or a file cannot be written; ImportError if parquet needs a library. However it ends,
        the same run can be started again.
        """
        if self._rows is None:
            self.open()

        api = api or api_of(client)
        keywords: dict[str, Any] = {"model": model, "api": api, "concurrency": concurrency}
        pooled = Pooled(client) if callable(client) and not is_ready(client) else client

        # before the journal is made, so that a wrong setting leaves no file
        asking = rows(
            contract,
            messages=self._messages,
            client=pooled,
            policy=policy,
            **{**keywords, **request},
        )

        with closing(self._opened(contract, model, api, request, restart=restart)) as journal:
            self._journal = journal
            self.statuses = journal.statuses
            self.tokens = journal.tokens
            self.begun_with = self.done
            self.unasked.clear()

            if not journal.is_complete:
                self.total = self._rows_in_source()
                on_begin()
                self._ask_rest(asking, journal, max_consecutive_failures, on_row)
                journal.save(complete=True)

            self._write_parquet()

    def _opened(
        self,
        contract: Contract[Any],
        model: str,
        api: Api | str,
        request: Mapping[str, Any],
        *,
        restart: bool,
    ) -> Journal:
        """Open the results, whose manifest identifies the run by these members."""
        identity: JSONObject = {
            "input": self._digest,
            "contract": fingerprint(contract),
            "prompt": [self._column, self._template, self._system],
            "request": [api, {**request}],
            "prefix": self._prefix,
            "model": model,
        }
        try:
            return Journal(
                self._lines, identity, prefix=self._prefix, restart=restart, option=self._option
            )
        except OSError as error:
            raise ContractError(f"{self._lines}: {error.strerror}") from error

    def _ask_rest(
        self, asking: Rows, journal: Journal, most_failed: int, on_row: Callable[[int], object]
    ) -> None:
        """Send the requests of the rows without a result.

        Rows for which the API failed are held back until another row has a result. If too many
        follow each other, the run ends without writing them, so that the next start retries them.
        """
        under_way: dict[int, NumberedRow] = {}
        kept_back: list[tuple[NumberedRow, RowResult]] = []

        def unwritten() -> Iterator[NumberedRow]:
            given = self._rows or ()
            self._rows = None  # consumed: another start reads the file from its beginning
            unread = (item for item in given if item.number not in journal.done)
            for index, item in enumerate(unread):
                under_way[index] = item
                yield item

        def write_kept_back() -> None:
            for item, result in kept_back:
                journal.add(item.number, item.row, result)
            kept_back.clear()

        def take(result: RowResult, limit: int) -> None:
            kept_back.append((under_way.pop(result.index), result))

            if result.status != "failed" or not result.attempts:
                write_kept_back()
                if result.status == "failed":
                    self._count_unasked(result.issues[-1]["message"])
                on_row(limit)
            elif len(kept_back) >= most_failed:
                reason = result.issues[-1]["message"]
                raise OSError(f"{len(kept_back)} consecutive rows failed: {reason}")

        asyncio.run(asking.each(unwritten(), take))
        write_kept_back()

    def _count_unasked(self, reason: str) -> None:
        if reason not in self.unasked and len(self.unasked) >= MAX_REASONS:
            reason = "others"
        self.unasked[reason] += 1

    def _write_parquet(self) -> None:
        """Write the parquet file, if one is wanted and it is older than the results."""
        out = self.out
        lines = self._lines
        if out == lines:
            return

        if not out.exists() or out.stat().st_mtime_ns <= lines.stat().st_mtime_ns:
            write_parquet(lines, out, self._prefix)

    @property
    def _lines(self) -> Path:
        """The file of JSON lines: the results themselves, or the source of the parquet file."""
        if self.out.suffix != ".parquet":
            return self.out

        return self.out.with_name(f"{self.out.name}.rows.jsonl")

    def _results(self, out: Path | None) -> Path:
        """Return the path of the results; raise ContractError if it cannot be used."""
        named = self._option("out")
        source = self.source
        if source != STDIN and not source.is_file():
            words = "is not a file: pass a file of JSON lines, also gzipped, or - for stdin"
            raise ContractError(f"{source} {words}")

        if out is None and source == STDIN:
            raise ContractError(f"pass {named}, which has no default for rows from stdin")

        beside = f"{source.name.removesuffix('.gz').removesuffix('.jsonl')}.results.jsonl"
        out = source.with_name(beside) if out is None else out
        if out.suffix not in {".jsonl", ".parquet"}:
            raise ContractError(f"{named} {out}: it must end in .jsonl or .parquet")

        if out.suffix == ".parquet":
            arrow()  # raise its ImportError before the work

        if out.is_dir():
            raise ContractError(f"{named} {out}: it is a folder")
        if not out.absolute().parent.is_dir():
            raise ContractError(f"{named} {out}: the folder {out.parent} does not exist")

        return out

    def _digest_of_source(self) -> str:
        if self.source == STDIN:
            return "stdin"

        with self.source.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _rows_in_source(self) -> int | None:
        """Count the rows; None for stdin, and for a damaged file, which is reported later."""
        if self.source == STDIN:
            return None

        with suppress(OSError):
            return sum(1 for _ in open_lines(self.source))
        return None

    def _row(self, index: int, line: Line) -> NumberedRow:
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

        ours = [self._prefix + name for name in (INDEX, *COLUMNS)]
        if taken := [name for name in ours if name in row]:
            row = {name: value for name, value in row.items() if name not in ours}
            fault = f"the row has a column {taken[0]!r}, which is the name of a result column"
            hint = f"Pass {self._option('prefix')}, or rename the column in line {number}."

        return NumberedRow(index, row, fault, hint)

    def _needed_columns(self) -> list[str]:
        """Return the columns that messages are made from; raise for a wrong template."""
        if self._template is None:
            return [self._column]

        try:
            parsed = list(string.Formatter().parse(self._template))
        except ValueError as error:
            raise ContractError(f"{self._option('prompt')}: {error}; {_BRACES}") from error

        return [re.split(r"[.\[]", name)[0] for _, name, _, _ in parsed if name is not None]

    def _refuse_missing(self, item: NumberedRow, needed: Iterable[str]) -> None:
        """Raise ContractError if the first row lacks a needed column."""
        missing = [name for name in needed if name not in item.row and not item.fault]
        if not missing:
            return

        option = self._option("messages" if self._template is None else "prompt")
        more = "" if self._template is None else f"; {_BRACES}"
        found = f"the first row has no column {missing[0]!r} ({_columns(item.row)})"
        raise ContractError(f"{option}: {found}{more}")

    def _messages(self, item: NumberedRow) -> Any:
        """Return the messages of a row; raise RowFault if it has none."""
        if item.fault:
            raise RowFault("row.line", item.fault, item.hint)

        prompt = self._option("prompt")
        if self._template is None:
            content = item.row.get(self._column)
        else:
            try:
                content = self._template.format_map(item.row)
            except Exception as error:
                words = f"{prompt} cannot be filled from this row: {type(error).__name__} {error}"
                hint = f"There are {_columns(item.row)}; {_BRACES}."
                raise RowFault("row.messages", words, hint) from error

        if not content:
            words = f"{prompt} is empty"
            if self._template is None:
                words = f"the column {self._column!r} is absent or empty"

            hint = f"See {self._option('messages')} and {prompt}; {_columns(item.row)}."
            raise RowFault("row.messages", words, hint)

        if self._system is None:
            return content

        after = content if isinstance(content, list) else [{"role": "user", "content": content}]
        return [{"role": "system", "content": self._system}, *after]


def _columns(row: Mapping[str, object]) -> str:
    return f"there are {capped(', '.join(row), 200)}" if row else "it has no column"
