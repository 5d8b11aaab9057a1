"""What becomes of a row (its columns, its words when it failed), and files of JSON lines, plain or packed."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from io import BufferedReader
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, Literal, TypeAlias, cast

from strictreply.retry._policy import LATE_KINDS, is_transport_fault
from strictreply.values._errors import CallFailed, ContractError, ReplyHalted, TransportFailed, without_exception
from strictreply.values._issues import Issue, printable
from strictreply.values._limits import MAX_JSON_DEPTH, JSONObject, Limits
from strictreply.values._replies import AssistantReply, Attempt, Usage, total_usage

LINE_LIMITS = Limits(reply_bytes=64_000_000, depth=MAX_JSON_DEPTH, nodes=4_000_000)
"""What is read of one line."""

_GZIP_MAGIC = b"\x1f\x8b"
STDIN = Path("-")


def open_lines(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Read a JSONL file, plain or gzip: each line's number, its bytes, and how far the file itself has been read.

    ``-`` is what comes in on stdin. Blank lines are passed over. Raises OSError when the file cannot be read,
    gzip.BadGzipFile when it is damaged.
    """
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
    """The outcome of one row.

    ``index`` counts the rows from 0. The other fields are the columns of :data:`COLUMNS`.
    """

    index: int
    reply: JSONObject | None = field(repr=False)
    status: Status
    issues: tuple[JSONObject, ...] = ()
    attempts: int = 0
    usage: Usage = Usage()

    @property
    def columns(self) -> JSONObject:
        """The result columns by name, as plain JSON."""
        return {
            "reply": self.reply,
            "status": self.status,
            "issues": list(self.issues),
            "attempts": self.attempts,
            "usage": asdict(self.usage),
        }


class RowFault(ContractError):
    """A row cannot be asked: raise it in a function of ``messages=`` to say why, in words of your own.

    ``code``, ``message`` and ``hint`` are those of the row's issue; the code is one of ``ROW_CODES``.
    """

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
    status: Status = "rejected"
    if isinstance(error, ReplyHalted | TransportFailed):
        status = "halted" if isinstance(error, ReplyHalted) else "failed"
    attempts, words = error.attempts, str(error).splitlines()
    advice = next((line.partition("What to do: ")[2] for line in reversed(words) if "What to do: " in line), "")
    message, advice = words[0], without_exception(advice)
    failure = _spent_on(error)
    if failure:
        status, message = "failed", f"the deadline passed while the API failed: {failure}"
        advice = "Check the endpoint, or raise RetryPolicy.deadline."
    end = entry(len(attempts), f"call.{error.reason}", message, advice)
    return RowResult(index, None, status, (*issues_of(attempts), end), len(attempts), error.usage)


def _spent_on(error: CallFailed) -> str:
    """Return the failure of the API on which alone a deadline was spent; empty where a model was slow, too."""
    if error.reason != "deadline" or not all(map(is_transport_fault, error.attempts)):
        return ""
    told = [attempt.failure or attempt.issues[0].message for attempt in error.attempts]
    return next((one for one in reversed(told) if one not in LATE_KINDS), "")


def unasked(index: int, code: RowCode, message: str, hint: str) -> RowResult:
    """Return the result of a row that could not be asked, in words of ours."""
    return RowResult(index, None, "failed", (entry(0, code, message, hint),))


def broken(index: int, error: BaseException) -> RowResult:
    """Return the result of a row at which something raised: of an exception that is not ours, its type alone is told.

    Its text may hold anything, what a model wrote among it.
    """
    if isinstance(error, RowFault):
        return unasked(index, error.code, str(error), error.hint)
    if isinstance(error, ContractError):
        return unasked(index, "row.contract", str(error), "Change the messages of this row, or the contract.")
    words = f"{printable(type(error).__name__)} was raised while the row was asked"
    return unasked(index, "row.raised", words, "Look for what cannot be JSON in its messages; ask it alone to see it.")


def issues_of(attempts: tuple[Attempt, ...]) -> tuple[JSONObject, ...]:
    """Return the faults of all attempts, as the column has them."""
    return tuple(_of_issue(attempt.number, issue) for attempt in attempts for issue in attempt.issues)


def _of_issue(attempt: int, issue: Issue) -> JSONObject:
    return entry(attempt, str(issue.code), issue.message, issue.hint, issue.path)


def entry(attempt: int, code: str, message: str, hint: str, path: str = "") -> JSONObject:
    """Return one object of the column of issues."""
    return {"attempt": attempt, "code": code, "path": path, "message": message, "hint": hint}
