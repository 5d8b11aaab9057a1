"""A turn that waits for a client, and what a test asks of the store that keeps it."""

from __future__ import annotations

from dataclasses import replace

from strictreply.loop import SessionClaim, SessionStore
from strictreply.loop.invoke_result import InvokeCode, InvokeError
from strictreply.loop.values import AgentToolCall, Session, ToolCallManifest, Turn

CALLS = (
    AgentToolCall(
        tool_call_id="tc1", name="toolA", arguments_json="{}", requires_client_execution=True
    ),
)
WAITING = ToolCallManifest(tool_calls=CALLS)
NEW = Session(id="s")
FIRST = Turn(id="t1")
PAUSED = replace(FIRST, waiting=WAITING)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        """Begin somewhere."""
        self.now = 1_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def kept(store: SessionStore, session_id: str = "s") -> Session:
    """Return a session that must be there."""
    session = store.session(session_id)
    assert session is not None
    return session


def held(store: SessionStore, holder: str, key: str = "s.t1") -> SessionClaim:
    """SessionClaim a manifest that must be free."""
    claim = store.claim(key, holder)
    assert isinstance(claim, SessionClaim)
    return claim


def refused(store: SessionStore, holder: str, key: str = "s.t1") -> InvokeCode:
    """Return why a manifest cannot be claimed."""
    claim = store.claim(key, holder)
    assert isinstance(claim, InvokeError)
    return claim.code
