"""Results of rows, files of JSON lines, and a file of results that survives a kill.

A line is handed to the operating system as soon as its row has a result. Every few seconds, and at
the end, the file is forced to disk and after it its manifest is replaced; a machine that loses
power loses the lines since.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import json
import math
import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, fields
from io import BufferedReader
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, Literal, TypeAlias, cast

from strictreply import (
    AssistantReply,
    Attempt,
    CallFailed,
    Contract,
    ContractError,
    Limits,
    NextRequest,
    ReplyHalted,
    TransportFailed,
    Usage,
    Valid,
)
from strictreply.core import JSONObject
from strictreply.core.arguments import without_exception
from strictreply.core.calls import LATE_KINDS, OUR_NAMES, is_transport_fault, total_usage
from strictreply.core.judging import MAX_JSON_DEPTH
from strictreply.core.text import printable

LINE_LIMITS = Limits(reply_bytes=64_000_000, depth=MAX_JSON_DEPTH, nodes=4_000_000)  # of one line
STDIN = Path("-")

# The number of a line, its bytes, and the position in the file behind it.
Line: TypeAlias = tuple[int, bytes, int]
_GZIP_MAGIC = b"\x1f\x8b"


# Marks of the encodings that some programs write instead of UTF-8; that of UTF-16 begins that of
# UTF-32, which is looked for first.
_WIDE = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def open_lines(path: Path) -> Iterator[Line]:
    """Read a JSONL file but for blank lines, plain or gzip, ``-`` for stdin.

    Lines are UTF-8 without a byte order mark; a file that begins with the mark of UTF-16 or UTF-32
    is read as that. Raises gzip.BadGzipFile when packed data is damaged.
    """
    with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as opened:
        file = cast("BufferedReader", opened)
        packed = file.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] == _GZIP_MAGIC
        unpacked = cast("BufferedReader", gzip.GzipFile(fileobj=file)) if packed else file

        at = 0
        try:
            for number, read in enumerate(_in_utf8(unpacked), 1):
                at += len(read)
                # at the start of any line: files with marks are also put behind each other
                line = read.removeprefix(codecs.BOM_UTF8)
                if line.strip():
                    yield number, line, at if path == STDIN else file.tell()
        except (EOFError, zlib.error) as error:
            raise gzip.BadGzipFile("the packed data is cut off or damaged") from error


def _in_utf8(file: BufferedReader) -> Iterator[bytes]:
    """Read lines as UTF-8; what is not valid in a wider encoding is replaced.

    Bytes that are a mark by chance are none: JSON begins with a character of ASCII.
    """
    head = file.peek(8)[:8]
    encoding = next((name for bom, name in _WIDE if head.startswith(bom)), None)
    if encoding is None or not head.decode(encoding, "replace")[:1].isascii():
        yield from file
        return

    text = io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="\n")
    try:
        for line in text:
            yield line.encode()
    finally:
        text.detach()  # who opened the file closes it


def strict_json(value: object) -> str:
    """Write a value as JSON; infinities and NaN, which JSON has not, become texts of their names.

    Raises TypeError or ValueError for what is not JSON otherwise.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=str))


def read_row(line: bytes) -> object:
    """Read a line of the input; numbers that Python cannot take as they are stay texts.

    Those are numbers beyond the range of a double, whole numbers of thousands of digits, NaN and
    the infinities. Raises ValueError or RecursionError when the line is not JSON.
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


@contextmanager
def written_whole(path: Path) -> Generator[BinaryIO]:
    """Open a file that is on disk and takes the place of ``path`` when all went well.

    A device or a pipe is written as it is: nothing may take its place.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return

    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())

    part.replace(path)


Status: TypeAlias = Literal["ok", "mended", "rejected", "halted", "failed"]
STATUSES: Final[Mapping[Status, str]] = MappingProxyType(
    {
        "ok": "the first reply fit",
        "mended": "a later reply fit, after a correction",
        "rejected": "no reply fit within the policy's budgets",
        "halted": "a retry would not help or was not allowed: a refusal, a filter, "
        "a deadline, a budget",
        "failed": "no reply came: the API failed, or the row could not be asked",
    }
)
"""What each status means."""

COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "reply": "the reply as the published schema assistant-reply spells it, None where none fit",
        "status": f"one of {', '.join(STATUSES)}",
        "issues": "what was wrong in all attempts: objects with attempt, code, path, message and "
        "hint",
        "attempts": "how often the model was asked, repeats after a failure of the API included",
        "usage": "the tokens of all attempts: prompt_tokens, completion_tokens, total_tokens, and "
        "is_estimate",
    }
)
"""The columns that every row gets, in their order, and what each holds."""

RowCode: TypeAlias = Literal[
    "row.line",
    "row.messages",
    "row.contract",
    "row.raised",
    "batch.request",
    "batch.missing",
    "batch.again",
]

ROW_CODES: Final[Mapping[RowCode, str]] = MappingProxyType(
    {
        "row.line": "the line of a file is not a row",
        "row.messages": "the row has no messages, or the function or the template that makes them "
        "failed",
        "row.contract": "the row's messages cannot be sent, or its request cannot be guaranteed",
        "row.raised": "something raised while the row was asked, or while its outputs were judged",
        "batch.request": "the line of a requests file is not a request, or its custom_id occurred "
        "before",
        "batch.missing": "no output has the custom_id of the request; it is retried",
        "batch.again": "the row is not finished: its next request is in the retry file",
    }
)
"""The codes of issues that are about a row, and not about a reply."""

AS_TEXT: Final = frozenset({"reply", "issues"})
"""The columns that are JSON text in a batch of columns, as their form differs from row to row."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The outcome of one row: its index and the columns of :data:`COLUMNS`."""

    index: int
    """Position of the row, counted from 0."""
    reply: JSONObject | None = field(repr=False)
    """The reply as the published schema assistant-reply spells it; None where none fit."""
    status: Status
    """How the row ended."""
    issues: tuple[JSONObject, ...] = ()
    """What was wrong in all attempts: objects with attempt, code, path, message and hint."""
    attempts: int = 0
    """Requests to the model, repeats after a failure of the API included."""
    usage: Usage = Usage()
    """The tokens of all attempts."""

    @property
    def columns(self) -> JSONObject:
        """The result columns by name, as plain JSON."""
        return {name: getattr(self, name) for name in COLUMNS} | {
            "issues": [*self.issues],
            "usage": asdict(self.usage),
        }


def prefixed(result: RowResult, prefix: str) -> JSONObject:
    """Return the result columns with ``prefix`` before each name."""
    return {prefix + name: value for name, value in result.columns.items()}


class RowFault(ContractError):
    """A row cannot be asked.

    Raise it in a function of ``messages=``, with a code of ``ROW_CODES`` and your words.
    """

    def __init__(self, code: RowCode, message: str, hint: str) -> None:
        super().__init__(message)
        self.code: RowCode = code
        self.hint: str = hint


def accepted(index: int, reply: AssistantReply[object], attempts: tuple[Attempt, ...]) -> RowResult:
    """Return the result of a row whose reply fit."""
    is_corrected = any(attempt.correction is not None for attempt in attempts)
    status: Status = "mended" if is_corrected else "ok"
    return RowResult(
        index, reply.to_dict(), status, issues_of(attempts), len(attempts), total_usage(attempts)
    )


def ended(index: int, error: CallFailed) -> RowResult:
    """Return the result of a row that no reply fit.

    The last entry of its issues says why asking ended.
    """
    status: Status = "rejected"
    if isinstance(error, ReplyHalted):
        status = "halted"
    elif isinstance(error, TransportFailed):
        status = "failed"

    words = str(error).splitlines()
    message = words[0]
    advised = [line.partition("What to do: ")[2] for line in words if "What to do: " in line]
    advice = without_exception(advised[-1] if advised else "")

    # when no model was slow
    attempts = error.attempts
    if error.reason == "deadline" and all(map(is_transport_fault, attempts)):
        reasons = [attempt.failure or attempt.issues[0].message for attempt in attempts]
        failures = [reason for reason in reasons if reason not in LATE_KINDS]
        if failures:
            status = "failed"
            message = f"the deadline passed while the API failed: {failures[-1]}"
            advice = "Check the endpoint, or raise RetryPolicy.deadline."

    end = entry(len(attempts), f"call.{error.reason}", message, advice)
    return RowResult(index, None, status, (*issues_of(attempts), end), len(attempts), error.usage)


def unasked(index: int, code: RowCode, message: str, hint: str) -> RowResult:
    """Return the result of a row that could not be asked, in our words."""
    return RowResult(index, None, "failed", (entry(0, code, message, hint),))


def so_far(index: int, step: NextRequest) -> RowResult:
    """Return the result of a row whose outputs were judged, whether or not the row has ended."""
    if step.error is not None:
        return ended(index, step.error)
    if isinstance(step.verdict, Valid):
        return accepted(index, step.verdict.reply, step.attempts)

    if not step.attempts:
        hint = "Its request is in the retry file."
        return unasked(index, "batch.missing", "no output has its custom_id", hint)

    failed = is_transport_fault(step.attempts[-1])
    number = len(step.attempts)
    words = "the API failed" if failed else "the last reply did not fit"
    again = entry(number, "batch.again", words, "The next request is in the retry file.")
    issues = (*issues_of(step.attempts), again)

    usage = total_usage(step.attempts)
    return RowResult(index, None, "failed" if failed else "rejected", issues, number, usage)


def broken(index: int, error: BaseException) -> RowResult:
    """Return the result of a row at which something raised.

    Of an exception that is not ours only the type is kept.
    """
    if isinstance(error, RowFault):
        return unasked(index, error.code, str(error), error.hint)

    if isinstance(error, ContractError):
        hint = "Change the messages of this row, or the contract."
        return unasked(index, "row.contract", str(error), hint)

    words = f"{printable(type(error).__name__)} was raised while the row was asked"
    hint = "Look for what cannot be JSON in its messages; ask it alone to see it."
    return unasked(index, "row.raised", words, hint)


def issues_of(attempts: tuple[Attempt, ...]) -> tuple[JSONObject, ...]:
    """Return the faults of all attempts, as the column has them."""
    return tuple(
        entry(attempt.number, str(issue.code), issue.message, issue.hint, issue.path)
        for attempt in attempts
        for issue in attempt.issues
    )


def entry(attempt: int, code: str, message: str, hint: str, path: str = "") -> JSONObject:
    """Return one object of the column of issues."""
    return {"attempt": attempt, "code": code, "path": path, "message": message, "hint": hint}


# The column with the number of the input row that a result belongs to, from 0: results come in the
# order in which rows end.
INDEX = "index"
_FORMAT = 2


class DoneRows:
    """Which rows have a result: all below ``low``, and those in ``above``.

    ``above`` has as many rows as ended out of order.
    """

    def __init__(self, low: int = 0, above: Iterable[int] = ()) -> None:
        self.low = low
        self.above = set(above)

    def __contains__(self, index: int) -> bool:
        return index < self.low or index in self.above

    def __len__(self) -> int:
        return self.low + len(self.above)

    def add(self, index: int) -> None:
        """Add a row."""
        self.above.add(index)
        while self.low in self.above:
            self.above.remove(self.low)
            self.low += 1


class Journal:
    """The results of one run, which ``run`` identifies, in a file, those of earlier starts too.

    Rows at which the API failed are taken out when the file is opened, to be retried;
    ``api_failed`` counts those since. Raises ContractError when the file belongs to another run or
    another process writes it, OSError as files do.
    """

    def __init__(
        self,
        path: Path,
        run: JSONObject,
        *,
        prefix: str = "",
        restart: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._run = run
        self._prefix = prefix
        self._clock = clock

        self.manifest = path.with_name(f"{path.name}.manifest.json")
        self._forget()
        known = None if restart else self._known()
        self._file: BinaryIO = path.open("ab")

        try:
            _lock(self._file, path)
            if known is not None:
                self._resume(self._known() or {})  # as it is now that no other process writes it

            self._file.truncate(self._bytes)
            if self.api_failed:
                self._ask_again()

            self.save()
        except BaseException:
            self._file.close()
            raise

    def _forget(self) -> None:
        self.done = DoneRows()
        self.statuses: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.api_failed = 0
        self._bytes = 0
        self.is_complete = False

    def _known(self) -> JSONObject | None:
        """Read the manifest of a run that was begun earlier; None when there is none."""
        try:
            known = json.loads(self.manifest.read_bytes())
        except FileNotFoundError:
            if self._path.exists() and self._path.stat().st_size:
                raise ContractError(
                    f"{self._path} exists, but its manifest {self.manifest.name} does not: its run "
                    "is unknown. Pass another --out, or --restart to overwrite it"
                ) from None

            return None
        except ValueError:
            known = {}  # refused below

        if not self._path.exists():
            raise ContractError(
                f"{self._path} is missing, but {self.manifest.name} refers to it: pass --restart"
            )

        is_ours = isinstance(known, dict) and known.get("format") == _FORMAT
        if not is_ours or not isinstance(known.get("run"), dict):
            raise ContractError(
                f"{self.manifest} is not a manifest of this version: pass --restart to start again"
            )

        stored_run = known["run"]
        changed = [
            name for name in self._run | stored_run if self._run.get(name) != stored_run.get(name)
        ]
        if changed:
            raise ContractError(
                f"{self._path} holds results of another run: another "
                f"{' and another '.join(changed)}. "
                "Pass another --out, or --restart to start again"
            )

        return cast("JSONObject", known)

    def _resume(self, known: JSONObject) -> None:
        """Count the results that are there.

        They are those that the manifest knows, and the lines after them, up to the last whole line.
        """
        # a shorter file lost its end when the machine lost power: it is counted from its beginning
        if known and known["bytes"] <= self._path.stat().st_size:
            self.done = DoneRows(known["low"], known["above"])
            self.statuses.update(known["statuses"])
            self.tokens.update(known["tokens"])
            self.api_failed = known["api_failed"]
            self._bytes = known["bytes"]
            self.is_complete = known["complete"]

        with self._path.open("rb") as written:
            written.seek(self._bytes)
            # ValueError: a part that the machine had not written when it lost power
            with suppress(ValueError):
                for line in takewhile(lambda line: line.endswith(b"\n"), written):
                    self._count(json.loads(line), len(line))

    def _count(self, line: JSONObject, size: int) -> None:
        self._bytes += size
        self.done.add(line[self._prefix + INDEX])
        self.statuses[line[f"{self._prefix}status"]] += 1
        self.tokens.update(line[f"{self._prefix}usage"])
        self.api_failed += self._has_failed(line)

    def _has_failed(self, line: JSONObject) -> bool:
        return bool(line[f"{self._prefix}status"] == "failed" and line[f"{self._prefix}attempts"])

    def _ask_again(self) -> None:
        """Write the file anew without the rows at which the API failed."""
        self._forget()  # in the manifest first: after a kill either file can be counted
        self.save()

        with closing(self._file):  # locked until the other one is
            with written_whole(self._path) as file:
                with self._path.open("rb") as written:
                    for line in written:
                        result = json.loads(line)
                        if not self._has_failed(result):
                            file.write(line)
                            self._count(result, len(line))

                if os.name == "nt":  # where what is open cannot be replaced
                    self._file.close()

            self._file = self._path.open("ab")
            _lock(self._file, self._path)

    def add(self, index: int, row: Mapping[str, object], result: RowResult) -> None:
        """Write the result of a row, and force it to disk from time to time."""
        line = {self._prefix + INDEX: index, **row, **prefixed(result, self._prefix)}
        written = strict_json(line).encode() + b"\n"
        self._file.write(written)
        self._file.flush()
        self._count(line, len(written))

        if self._clock() >= self._next_save:
            self.save()

    def save(self, *, complete: bool = False) -> None:
        """Force what was written to disk, and say in the manifest how far the run is."""
        os.fsync(self._file.fileno())
        self.is_complete = complete or self.is_complete

        # bytes: our own count, not what the file has, as a full disk takes a part of a line
        manifest: JSONObject = {
            "format": _FORMAT,
            "run": self._run,
            "bytes": self._bytes,
            "low": self.done.low,
            "above": sorted(self.done.above),
            "statuses": self.statuses,
            "api_failed": self.api_failed,
            "tokens": {name: self.tokens[name] for name in OUR_NAMES},
            "complete": self.is_complete,
        }
        with written_whole(self.manifest) as file:
            file.write(json.dumps(manifest, indent=1).encode())

        self._next_save = self._clock() + 5.0  # seconds

    def close(self) -> None:
        """Save, and let the file go."""
        with suppress(OSError):  # the manifest then says less than there is, which does no harm
            self.save()
        with suppress(OSError):  # what wrote to a full disk has reported it
            self._file.close()


def _lock(file: BinaryIO, path: Path) -> None:
    """Refuse a file that another process writes or has replaced.

    It is not refused on a system where locks do not end with their process.
    """
    with suppress(ImportError):
        import fcntl  # noqa: PLC0415 - not on every system

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                raise BlockingIOError
        except OSError:
            raise ContractError(
                f"{path} is written by another process: wait for it, or pass another --out"
            ) from None


def fingerprint(contract: Contract) -> str:
    """Return a digest of what a contract tells a model, and how it judges.

    It is the same in every process.
    """
    rules: JSONObject = {one.name: repr(getattr(contract, one.name)) for one in fields(contract)}
    rules["answer"] = contract.answer.document

    tools = [(tool.definition, tool.extra, tool.formats) for tool in contract.tools]
    rules["tools"] = tools
    rules["offered"] = tools

    return hashlib.sha256(json.dumps(rules, sort_keys=True, default=str).encode()).hexdigest()
