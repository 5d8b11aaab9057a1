"""Results of rows (columns, words when they failed), and files of JSON lines, plain or packed."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Literal, TypeAlias, cast

from strictreply.retry._policy import LATE_KINDS, is_transport_fault
from strictreply.retry._stepping import NextRequest
from strictreply.values._errors import CallFailed, ContractError, ReplyHalted, TransportFailed, without_exception
from strictreply.values._issues import printable
from strictreply.values._limits import MAX_JSON_DEPTH, JSONObject, Limits
from strictreply.values._replies import AssistantReply, Attempt, Usage, Valid, total_usage

LINE_LIMITS = Limits(reply_bytes=64_000_000, depth=MAX_JSON_DEPTH, nodes=4_000_000)  # of one line
STDIN = Path("-")
Line: TypeAlias = tuple[int, bytes, int]  # the number of a line, its bytes, and the position in the file behind it
_GZIP_MAGIC = b"\x1f\x8b"


def open_lines(path: Path) -> Iterator[Line]:
    """Read a JSONL file but for blank lines, plain or gzip, ``-`` for stdin; gzip.BadGzipFile when it is damaged."""
    with nullcontext(sys.stdin.buffer) if path == STDIN else path.open("rb") as opened:
        file = cast("BufferedReader", opened)
        packed = file.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] == _GZIP_MAGIC
        lines = cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file
        at = 0
        try:
            for number, line in enumerate(lines, 1):
                at += len(line)
                if line.strip():
                    yield number, line, at if path == STDIN else file.tell()
        except (EOFError, zlib.error) as error:
            raise gzip.BadGzipFile("the packed data is cut off or damaged") from error


@contextmanager
def written_whole(path: Path) -> Generator[BinaryIO]:
    """Open a file that is on disk and takes the place of ``path`` when all went well."""
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
        "halted": "asking again would not help or was not allowed: a refusal, a filter, a deadline, a budget",
        "failed": "no reply came: the API failed, or the row could not be asked",
    }
)
"""What each status means."""

COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "reply": "the reply as the published schema assistant-reply spells it, None where none fit",
        "status": f"one of {', '.join(STATUSES)}",
        "issues": "what was wrong in all attempts: objects with attempt, code, path, message and hint",
        "attempts": "how often the model was asked, repeats after a failure of the API included",
        "usage": "the tokens of all attempts: prompt_tokens, completion_tokens, total_tokens",
    }
)
"""The columns that every row gets, in their order, and what each holds."""

RowCode: TypeAlias = Literal[
    "row.line", "row.messages", "row.contract", "row.raised", "batch.request", "batch.missing", "batch.again"
]

ROW_CODES: Final[Mapping[RowCode, str]] = MappingProxyType(
    {
        "row.line": "the line of a file is not a row",
        "row.messages": "the row has no messages, or the function or the template that makes them failed",
        "row.contract": "the row's messages cannot be sent, or its request cannot be guaranteed",
        "row.raised": "something raised while the row was asked, or while its outputs were judged",
        "batch.request": "the line of a requests file is not a request, or its custom_id occurred before",
        "batch.missing": "no output has the custom_id of the request; it is asked again",
        "batch.again": "the row is not finished: its next request is in the re-ask file",
    }
)
"""The codes of issues that are about a row, and not about a reply."""

AS_TEXT: Final = frozenset({"reply", "issues"})
"""The columns that are JSON text where a batch is held by columns, since their form differs from row to row."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The outcome of one row: ``index`` counts the rows from 0, the other fields are those of :data:`COLUMNS`."""

    index: int
    reply: JSONObject | None = field(repr=False)
    status: Status
    issues: tuple[JSONObject, ...] = ()
    attempts: int = 0
    usage: Usage = Usage()

    @property
    def columns(self) -> JSONObject:
        """The result columns by name, as plain JSON."""
        return {name: getattr(self, name) for name in COLUMNS} | {"issues": [*self.issues], "usage": asdict(self.usage)}


def prefixed(result: RowResult, prefix: str) -> JSONObject:
    """Return the result columns with ``prefix`` before each name."""
    return {prefix + name: value for name, value in result.columns.items()}


class RowFault(ContractError):
    """A row cannot be asked: raise it in a function of ``messages=``, with a code of ``ROW_CODES`` and your words."""

    def __init__(self, code: RowCode, message: str, hint: str) -> None:
        super().__init__(message)
        self.code: RowCode = code
        self.hint: str = hint


def accepted(index: int, reply: AssistantReply[Any], attempts: tuple[Attempt, ...]) -> RowResult:
    """Return the result of a row whose reply fit."""
    status: Status = "mended" if any(attempt.correction is not None for attempt in attempts) else "ok"
    return RowResult(index, reply.to_dict(), status, issues_of(attempts), len(attempts), total_usage(attempts))


def ended(index: int, error: CallFailed) -> RowResult:
    """Return the result of a row that no reply fit; the last entry of its issues says why asking ended."""
    halted, failed = isinstance(error, ReplyHalted), isinstance(error, TransportFailed)
    status: Status = "halted" if halted else "failed" if failed else "rejected"
    attempts, words = error.attempts, str(error).splitlines()
    advice = next((line.partition("What to do: ")[2] for line in reversed(words) if "What to do: " in line), "")
    message, advice = words[0], without_exception(advice)
    if error.reason == "deadline" and all(map(is_transport_fault, attempts)):  # no model was slow
        told = [attempt.failure or attempt.issues[0].message for attempt in attempts]
        if failures := [one for one in told if one not in LATE_KINDS]:
            status, message = "failed", f"the deadline passed while the API failed: {failures[-1]}"
            advice = "Check the endpoint, or raise RetryPolicy.deadline."
    end = entry(len(attempts), f"call.{error.reason}", message, advice)
    return RowResult(index, None, status, (*issues_of(attempts), end), len(attempts), error.usage)


def unasked(index: int, code: RowCode, message: str, hint: str) -> RowResult:
    """Return the result of a row that could not be asked, in words of ours."""
    return RowResult(index, None, "failed", (entry(0, code, message, hint),))


def so_far(index: int, step: NextRequest[Any]) -> RowResult:
    """Return the result of a row whose outputs were judged, at its end or not."""
    if step.error is not None:
        return ended(index, step.error)
    if isinstance(step.verdict, Valid):
        return accepted(index, step.verdict.reply, step.attempts)
    if not step.attempts:
        return unasked(index, "batch.missing", "no output has its custom_id", "Its request is in the re-ask file.")
    failed, number = is_transport_fault(step.attempts[-1]), len(step.attempts)
    words = "the API failed" if failed else "the last reply did not fit"
    again = entry(number, "batch.again", words, "The next request is in the re-ask file.")
    issues, usage = (*issues_of(step.attempts), again), total_usage(step.attempts)
    return RowResult(index, None, "failed" if failed else "rejected", issues, number, usage)


def broken(index: int, error: BaseException) -> RowResult:
    """Return the result of a row at which something raised; of an exception that is not ours only the type is kept."""
    if isinstance(error, RowFault):
        return unasked(index, error.code, str(error), error.hint)
    if isinstance(error, ContractError):
        return unasked(index, "row.contract", str(error), "Change the messages of this row, or the contract.")
    words = f"{printable(type(error).__name__)} was raised while the row was asked"
    return unasked(index, "row.raised", words, "Look for what cannot be JSON in its messages; ask it alone to see it.")


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
