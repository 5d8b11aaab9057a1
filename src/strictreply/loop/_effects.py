"""The effects of the loop, and the events that answer them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeAlias, overload

from typing_extensions import TypeVar

from strictreply import AssistantReply, Attempt, Tool, ToolCall, ToolError, Usage
from strictreply.core import Message
from strictreply.loop._sessions import SessionStore
from strictreply.loop.values import AgentToolCallResult

A_co = TypeVar("A_co", covariant=True, default=Any)
"""The type of a run's answers."""

Used = TypeVar("Used")


@dataclass(frozen=True, slots=True)
class AskModel:
    """Effect: request the next reply. The event is :class:`AcceptedReply`, or an error.

    ``is_first`` is true until the turn has called a tool.
    """

    messages: list[Message] = field(repr=False)
    """The conversation to send."""
    is_first: bool = True
    """Whether no tool was called yet."""


@dataclass(frozen=True, slots=True)
class AcceptedReply(Generic[A_co]):
    """A valid reply: the assistant's message for the transcript, the typed reply, and its cost."""

    message: Message = field(repr=False)
    """The assistant's turn, for the transcript."""
    reply: AssistantReply[A_co]
    """The typed reply."""
    usage: Usage = Usage()
    """The tokens of all attempts."""
    attempts: tuple[Attempt, ...] = ()
    """Every attempt, in order."""


class RunTool(NamedTuple):
    """One validated call with the tool that it names; ``call.id`` identifies its result."""

    tool: Tool
    """The tool to run."""
    call: ToolCall
    """The validated call."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Effect: run the calls of one reply, several at a time.

    The event is a tuple with a ToolOutcome for each call, in order.
    """

    runs: tuple[RunTool, ...]
    """The calls, in the model's order."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of a call; ``error`` is the tool's exception or its timeout, or None."""

    result: AgentToolCallResult
    """What the model is told."""
    error: Exception | None = None
    """What the tool raised, or its timeout; None for neither."""

    @property
    def is_broken(self) -> bool:
        """Whether the tool failed with another exception than a ToolError."""
        return self.error is not None and not isinstance(self.error.__cause__, ToolError)


@dataclass(frozen=True, slots=True)
class EffectRaised:
    """Event: performing an effect raised ``error``."""

    error: Exception
    """The exception."""


Effect: TypeAlias = AskModel | RunTools | Callable[[SessionStore], object]
"""What the loop asks its driver to do; a function is called with the session store."""
Event: TypeAlias = object
"""The result of an effect: AcceptedReply, a tuple of ToolOutcome, or what the function returned.

If the effect raised, the event is EffectRaised.
"""


@overload
def result_of(effect: AskModel) -> Generator[Effect, Event, AcceptedReply]: ...
@overload
def result_of(effect: RunTools) -> Generator[Effect, Event, tuple[ToolOutcome, ...]]: ...
@overload
def result_of(effect: Callable[[SessionStore], Used]) -> Generator[Effect, Event, Used]: ...
def result_of(effect: Effect) -> Generator[Effect, Event, object]:
    """Yield an effect, and return its result or raise its error."""
    event = yield effect
    if isinstance(event, EffectRaised):
        raise event.error
    return event
