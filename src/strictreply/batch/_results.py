"""The results of rows, and how they are written."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, Literal, TypeAlias

from strictreply import (
    AssistantReply,
    Attempt,
    CallFailed,
    ContractError,
    NextRequest,
    ReplyHalted,
    TransportFailed,
    Usage,
    Valid,
)
from strictreply.core import JSONObject
from strictreply.core.arguments import without_exception
from strictreply.core.calls import LATE_KINDS, is_transport_fault, total_usage
from strictreply.core.text import printable


def strict_json(value: object) -> str:
    """Return a value as JSON text; infinities and NaN become texts.

    Raises TypeError or ValueError for other values that are not JSON.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=str))


@contextmanager
def written_whole(path: Path) -> Generator[BinaryIO]:
    """Open a file that replaces ``path``, synced to disk, if the block does not raise.

    A device or a pipe is written directly, because it cannot be replaced.
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


Status: TypeAlias = Literal["ok", "fixed", "rejected", "halted", "failed"]
STATUSES: Final[Mapping[Status, str]] = MappingProxyType(
    {
        "ok": "the first reply fit",
        "fixed": "a later reply fit, after a correction",
        "rejected": "no reply fit within the policy's budgets",
        "halted": "a retry would not help or was not allowed: a refusal, a filter, "
        "a deadline, a budget",
        "failed": "there was no reply: the API failed, or the request could not be sent",
    }
)
"""What each status means."""

COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "reply": "the reply in the form of the published schema assistant-reply, None if none fit",
        "status": f"one of {', '.join(STATUSES)}",
        "issues": "what was wrong in all attempts: objects with attempt, code, path, message and "
        "hint",
        "attempts": "the number of requests, repeats after a failure of the API included",
        "usage": "the tokens of all attempts: prompt_tokens, completion_tokens, total_tokens, and "
        "is_estimate",
    }
)
"""The result columns of every row, in order, and what each contains."""

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
        "row.raised": "an exception was raised while the row was sent or its outputs were judged",
        "batch.request": "the line of a requests file is not a request, or its custom_id occurred "
        "before",
        "batch.missing": "no output has the custom_id of the request; it is retried",
        "batch.again": "the row is not finished: its next request is in the retry file",
    }
)
"""The codes of issues that are about a row, and not about a reply."""

AS_TEXT: Final = frozenset({"reply", "issues"})
"""The columns that are JSON text in a batch of columns, because their form differs by row."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The outcome of one row: its index and the columns of :data:`COLUMNS`."""

    index: int
    """Position of the row, counted from 0."""
    reply: JSONObject | None = field(repr=False)
    """The reply in the form of the published schema assistant-reply; None if none fit."""
    status: Status
    """How the row ended."""
    issues: tuple[JSONObject, ...] = ()
    """What was wrong in all attempts: objects with attempt, code, path, message and hint."""
    attempts: int = 0
    """The number of requests, repeats after a failure of the API included."""
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
    """A row cannot be sent to the model.

    Raise it in a function of ``messages=``, with a code of ``ROW_CODES`` and your own message.
    """

    def __init__(self, code: RowCode, message: str, hint: str) -> None:
        super().__init__(message)
        self.code: RowCode = code
        """One of ``ROW_CODES``."""
        self.hint: str = hint
        """What to do about it."""


def accepted(index: int, reply: AssistantReply[object], attempts: tuple[Attempt, ...]) -> RowResult:
    """Return the result of a row whose reply fit."""
    is_corrected = any(attempt.correction is not None for attempt in attempts)
    status: Status = "fixed" if is_corrected else "ok"
    return RowResult(
        index, reply.to_dict(), status, issues_of(attempts), len(attempts), total_usage(attempts)
    )


def ended(index: int, error: CallFailed) -> RowResult:
    """Return the result of a row without a valid reply.

    The last entry of its issues says why the call ended.
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

    # a deadline that passed only because the API failed is a failure of the API
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
    """Return the result of a row whose request could not be sent."""
    return RowResult(index, None, "failed", (entry(0, code, message, hint),))


def so_far(index: int, step: NextRequest) -> RowResult:
    """Return the present result of a row, whether or not it has ended."""
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
    """Return the result of a row for which an exception was raised.

    Only the type is kept of an exception that is not ours.
    """
    if isinstance(error, RowFault):
        return unasked(index, error.code, str(error), error.hint)

    if isinstance(error, ContractError):
        hint = "Change the messages of this row, or the contract."
        return unasked(index, "row.contract", str(error), hint)

    words = f"{printable(type(error).__name__)} was raised while the row was sent"
    hint = (
        "Look for a value in its messages that is not JSON; send this row alone to see the error."
    )
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


# The column with the number of the input row, from 0, because results are written in the order in
# which rows end.
INDEX = "index"
