"""What a valid reply is: a tool call, several, or a direct answer; and the two verdicts on one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from strictreply.values._issues import Issue
from strictreply.values._json import JSONObject

A_co = TypeVar("A_co", covariant=True, default=Any)
"""What a contract's answers are: ``str``, an instance of its ``answer`` type, or JSON that fits its schema."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a declared tool, its arguments valid for that tool.

    ``args`` is an instance of the tool's pydantic model for a tool made from a model or a function, else a dict.
    ``id`` is the provider's call id, or None in the text channel, which has none.
    """

    tool: str
    args: Any
    id: str | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """This call alone: every reply says its calls in this way."""
        return (self,)

    def to_dict(self) -> JSONObject:
        """Return the call as JSON, typed arguments included; the id only when there is one."""
        written = {"tool": self.tool, "args": to_jsonable_python(self.args, by_alias=True)}
        return written if self.id is None else written | {"id": self.id}


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Several native calls of one message, in the model's order; only with ``parallel=True``."""

    calls: tuple[ToolCall, ...]

    def to_dict(self) -> JSONObject:
        """Return the calls as JSON."""
        return {"calls": [call.to_dict() for call in self.calls]}


@dataclass(frozen=True, slots=True)
class DirectAnswer(Generic[A_co]):
    """An answer to the user: a str, or an instance of the contract's ``answer`` type or schema."""

    answer: A_co

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """No call."""
        return ()

    def to_dict(self) -> JSONObject:
        """Return the answer as JSON, a typed one included."""
        return {"answer": to_jsonable_python(self.answer, by_alias=True)}


AssistantReply: TypeAlias = ToolCall | ToolCalls | DirectAnswer[A_co]
"""Everything a contract lets through (requirement T3)."""


@dataclass(frozen=True, slots=True)
class Valid(Generic[A_co]):
    """The reply fits the contract.

    ``leniency`` names each way of servers that was read as the API's, and each step that an opted-in ``extraction``
    took.
    """

    reply: AssistantReply[A_co]
    leniency: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Invalid:
    """The reply does not fit; ``issues`` holds every fault found, at least one."""

    issues: tuple[Issue, ...]
    leniency: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """All faults on one line, ``dotted.path: message`` joined by semicolons (requirement T37)."""
        return "; ".join(issue.dotted for issue in self.issues)


Verdict: TypeAlias = Valid[A_co] | Invalid
