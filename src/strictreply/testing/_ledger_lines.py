"""Read the lines of a ledger, which ``strictreply.Ledger`` writes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from strictreply import Invalid
from strictreply.batch.lines import LINE_LIMITS
from strictreply.core import decode

_VERSION = 1
_MARK = b'"ledger"'

_Count: TypeAlias = Annotated[int, Field(ge=0, le=2**53 - 1)]
_Number: TypeAlias = Annotated[int, Field(ge=1, le=2**53 - 1)]
_Seconds: TypeAlias = Annotated[float, Field(ge=0, le=2**53 - 1)]


class LedgerIssue(TypedDict):
    """One fault of a reply, as in a ledger."""

    code: str
    path: str
    message: str


class LedgerTokens(TypedDict):
    """The tokens of an attempt."""

    input: _Count
    output: _Count


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One attempt in a ledger."""

    call: str
    """The id that all attempts of one call share."""
    attempt: _Number
    """Its position in the call, counted from 1."""
    mode: Literal["observe", "enforce", "partial"]
    """Whether faults were only observed; ``partial`` means that only some tools were enforced."""
    outcome: Literal["ok", "observed", "rejected", "failed"]
    """The outcome of the attempt.

    ``observed`` means that an invalid reply was returned; ``failed`` means that there was no reply.
    """
    model: str
    """Name of the requested model."""
    tool: str | None
    """Name of the first tool that was called; None without a call."""
    issues: tuple[LedgerIssue, ...]
    """The faults of the reply; empty when it is valid."""
    tier: _Count
    """The level of the correction; 0 without a correction."""
    seconds: _Seconds
    """Duration of the attempt in seconds."""
    tokens: LedgerTokens
    """The tokens of the request and of the reply."""
    reply: str | None
    """The reply without its values, or the result of ``redact``; None without a reply."""


@cache
def _adapter() -> TypeAdapter[LedgerEntry]:
    return TypeAdapter(LedgerEntry)


def read_entry(line: bytes) -> LedgerEntry | str | None:
    """Read a line of a ledger.

    Return the error as text for a wrong line, and None for a line of another kind.
    """
    if _MARK not in line:
        return None

    record = decode(line, LINE_LIMITS)
    if isinstance(record, Invalid) or not isinstance(record, dict) or "ledger" not in record:
        return None
    if record["ledger"] != _VERSION or isinstance(record["ledger"], bool):
        return f"a line of a ledger in another version than {_VERSION}, which is read here"

    try:
        return _adapter().validate_json(line, strict=True)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        return f"a damaged line of a ledger: {place} is missing or wrong"
