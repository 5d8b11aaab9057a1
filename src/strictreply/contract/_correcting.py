"""The types of :meth:`Contract.next_request`, which the package ``retry`` reads and fills.

They are defined here, so that ``contract`` does not import a higher package for a type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol

from strictreply.contract._contract import Contract
from strictreply.values._errors import CallFailed
from strictreply.values._issues import Issue
from strictreply.values._limits import JSONObject
from strictreply.values._replies import A_co, Attempt, Verdict


class BaseRetryPolicy:
    """The base class of :class:`RetryPolicy`, for signatures of packages below ``retry``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CorrectionContext:
    """What a :class:`Steering` or ``ask_human`` gets to write a correction."""

    issues: tuple[Issue, ...]
    """The faults of the last reply."""
    contract: Contract
    """The contract that the reply was checked against."""
    tier: int
    """How far the corrections have escalated, from 1.

    It is the number of the correction, plus one for each time that the model repeated an invalid
    reply.
    """
    tool: str | None = None
    """The tool whose arguments are requested again; None if the whole reply is."""
    at: str = ""
    """JSON Pointer to those arguments, or to the answer."""
    part: str | None = None
    """JSON Pointer from ``at`` to the value that is requested again; None if it is not one value.

    It is empty for all the arguments of a call in the text channel.
    """
    number: int = 0
    """The number of the correction, from 1; 0 means the same as ``tier``."""


class Steering(Protocol):
    """Writes the text of corrections.

    The text must not repeat what the model wrote (``Issue.found``).
    """

    def correction(self, context: CorrectionContext) -> str:
        """Return the text that tells the model what to change."""
        ...


@dataclass(frozen=True, slots=True)
class NextRequest(Generic[A_co]):
    """The result of :meth:`Contract.next_request`: a verdict, and the next request if needed."""

    verdict: Verdict[A_co] | None
    """The verdict on the reply, with earlier fixes merged in; None if there was no reply yet."""
    request: JSONObject | None = field(default=None, repr=False)
    """The request to send next; None if the call has ended."""
    wait: float = 0.0
    """Seconds to wait before sending it."""
    completion: JSONObject | None = field(default=None, repr=False)
    """The response with the valid reply; None if there is none yet."""
    error: CallFailed | None = None
    """The error that a wrapped client would raise; None if the call continues or has succeeded."""
    attempts: tuple[Attempt, ...] = ()
    """All attempts so far."""
