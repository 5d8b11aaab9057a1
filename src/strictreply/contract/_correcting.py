"""The types of :meth:`Contract.next_request`, which ``retry/`` reads and fills.

They stand below it, so that no package needs a higher one for a type.
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
    """The type of :class:`RetryPolicy`, its only kind, where the budgets are not read."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CorrectionContext:
    """What a correction is about."""

    issues: tuple[Issue, ...]
    """The faults of the last reply."""
    contract: Contract
    """What the reply was checked against."""
    tier: int
    """Corrections, counted from 1, and one more for each time that the same bad reply came."""
    tool: str | None = None
    """The declared tool whose arguments alone are requested again; None for the whole reply."""
    at: str = ""
    """Pointer to those arguments, or to the answer."""
    part: str | None = None
    """Pointer from ``at`` to the one value that is requested again; None for no single value.

    It is empty for all arguments, which the text channel sends alone.
    """
    number: int = 0
    """The corrections alone, counted from 1; 0 means as many as the tier says."""


class Steering(Protocol):
    """Whatever writes corrections.

    It must not repeat what the model wrote (``Issue.found``).
    """

    def correction(self, context: CorrectionContext) -> str:
        """Return what to change, for the model to read."""
        ...


@dataclass(frozen=True, slots=True)
class NextRequest(Generic[A_co]):
    """The verdict on the last response, with earlier fixes merged in, and the next request."""

    verdict: Verdict[A_co] | None
    """The verdict; None before the first response, and when no reply came."""
    request: JSONObject | None = field(default=None, repr=False)
    """What to send next; None when the call has ended."""
    wait: float = 0.0
    """Seconds to wait before the next request."""
    completion: JSONObject | None = field(default=None, repr=False)
    """The response that holds the valid reply; None while there is none."""
    error: CallFailed | None = None
    """What a wrapped client would raise; None while the call goes on or has succeeded."""
    attempts: tuple[Attempt, ...] = ()
    """All attempts so far."""
