"""The state of a run between two steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strictreply.core import JSONObject, Message
from strictreply.loop.values import AgentContext, AgentResponse, Session, ToolCallManifest, Turn

_NO_SESSION: Final = Session(id="")
_NO_TURN: Final = Turn(id="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of a run after a completed step."""

    session: Session = _NO_SESSION
    """The session; its id is empty until it is created or restored."""
    turn: Turn = _NO_TURN
    """The turn; its id is empty until it is begun or restored."""
    agent: AgentContext | None = None
    """The agent that answers; None until it is loaded."""
    prompt: tuple[JSONObject, ...] | None = None
    """The messages before those of the turn; None until they are composed."""
    resolved: ToolCallManifest | None = None
    """The calls and results that a continuation answers; None for other requests."""
    manifest: ToolCallManifest | None = None
    """The calls of the last reply; None when it has none, and once all have their results."""
    answer: str | None = None
    """The answer as text; None until there is one."""
    usage: JSONObject | None = None
    """The tokens of the run; None until there is an answer."""
    response: AgentResponse | None = None
    """The response for the client; None until it is built."""

    @property
    def transcript(self) -> list[Message]:
        """The conversation so far."""
        return [*(self.prompt or ()), *self.turn.messages]
