"""The tool loop: runs, what happens in them, and the stores that keep them."""

from __future__ import annotations

from strictreply.loop._run_values import (
    AttemptMade,
    Run,
    RunEnded,
    RunEvent,
    ToolFinished,
    ToolStarted,
    Unanswered,
)
from strictreply.loop._runs import arun, arun_stream, run, run_stream
from strictreply.loop._sessions import MemorySessionStore, SessionConflict, SessionStoreFailed
from strictreply.loop._sqlite_sessions import SQLiteSessionStore

__all__ = [
    "AttemptMade",
    "MemorySessionStore",
    "Run",
    "RunEnded",
    "RunEvent",
    "SQLiteSessionStore",
    "SessionConflict",
    "SessionStoreFailed",
    "ToolFinished",
    "ToolStarted",
    "Unanswered",
    "arun",
    "arun_stream",
    "run",
    "run_stream",
]
