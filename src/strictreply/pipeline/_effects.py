"""What a turn wants done: the model asked, tools run, the store used. A shell performs it; nothing is done here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from strictreply.contract._tool import Tool
from strictreply.pipeline._sessions import SessionStore
from strictreply.pipeline._values import AgentToolCallResult
from strictreply.values._attempts import Attempt, Usage
from strictreply.values._errors import ToolError
from strictreply.values._json import Message
from strictreply.values._replies import AssistantReply, ToolCall


@dataclass(frozen=True, slots=True)
class AskModel:
    """Effect: ask for the next reply; answered with :class:`Asked`, or with the error that ended the call.

    ``is_first`` says that the turn has called nothing yet: a demand to call a tool is met once, not for ever.
    """

    messages: list[Message] = field(repr=False)
    is_first: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """A reply that fits: the assistant's turn as it goes into the transcript, what it says, and what it cost."""

    message: Message = field(repr=False)
    reply: AssistantReply
    usage: Usage = Usage()
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class RunTool:
    """One validated call with the tool that it names; ``call.id`` is what its result is told by."""

    tool: Tool
    call: ToolCall


@dataclass(frozen=True, slots=True)
class RunTools:
    """Effect: run the calls of one reply, several at a time; answered with a ToolOutcome for each, in order."""

    runs: tuple[RunTool, ...]


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call came to; ``error`` is what the tool's code raised, or the timeout that cut it, None for neither."""

    result: AgentToolCallResult
    error: Exception | None = None

    @property
    def is_broken(self) -> bool:
        """Whether the tool failed in a way that it did not mean the model to hear of."""
        return self.error is not None and not isinstance(self.error.__cause__, ToolError)


@dataclass(frozen=True, slots=True)
class UseStore:
    """Effect: do something with the session store; answered with what that gives, or with the error it raised."""

    use: Callable[[SessionStore], Any]


TurnEffect: TypeAlias = AskModel | RunTools | UseStore
