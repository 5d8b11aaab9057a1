"""Lines of a ledger, which ``strictreply.Ledger`` writes, as they are read again."""

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
    """One fault of a reply, as a ledger has it."""

    code: str
    path: str
    message: str


class LedgerTokens(TypedDict):
    """The tokens of an attempt."""

    input: _Count
    output: _Count


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What a ledger says of one attempt."""

    call: str
    """The id that all attempts of one call share."""
    attempt: _Number
    """Its position in the call, counted from 1."""
    mode: Literal["observe", "enforce", "partial"]
    """Whether faults were only observed; ``partial`` is for some tools enforced."""
    outcome: Literal["ok", "observed", "rejected", "failed"]
    """What became of it.

    ``observed`` was handed on though it does not fit; ``failed`` is that no reply came.
    """
    model: str
    """Name of the model that was asked."""
    tool: str | None
    """Name of the first tool that was called; None for none."""
    issues: tuple[LedgerIssue, ...]
    """The faults of the reply; empty when it fits."""
    tier: _Count
    """How far the correction had escalated; 0 without a correction."""
    seconds: _Seconds
    """Seconds that it took."""
    tokens: LedgerTokens
    """The tokens of the request and of the reply."""
    reply: str | None
    """The reply without its values, or what ``redact`` made of it; None when none came."""


@cache
def _adapter() -> TypeAdapter[LedgerEntry]:
    return TypeAdapter(LedgerEntry)


def read_entry(line: bytes) -> LedgerEntry | str | None:
    """Read a line of a ledger.

    Return what is wrong with it, as text, and None for what is no line of a ledger.
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
