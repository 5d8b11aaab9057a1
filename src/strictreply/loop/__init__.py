"""The tool loop: runs, their events, and the stores of their sessions.

To host the loop yourself, as a durable engine does, make :class:`RunSettings`, drive
:func:`run_flow`, and answer its effects with :func:`perform` or from your own records.
"""

from __future__ import annotations

from strictreply.loop._effects import (
    AcceptedReply,
    AskModel,
    Effect,
    EffectRaised,
    RunTool,
    RunTools,
    ToolOutcome,
)
from strictreply.loop._flow import run_flow
from strictreply.loop._performing import ToolRunner, aperform, perform
from strictreply.loop._reconciling import answered_manifest
from strictreply.loop._refusals import type_of
from strictreply.loop._run_settings import NO_CONTEXT, RunSettings
from strictreply.loop._run_state import Progress
from strictreply.loop._run_steps import RunLoop
from strictreply.loop._run_values import (
    AttemptMade,
    GivenResult,
    Run,
    RunEnded,
    RunEvent,
    ToolFinished,
    ToolStarted,
    Unanswered,
    envelope_of,
)
from strictreply.loop._runs import arun, arun_stream, run, run_stream
from strictreply.loop._sessions import (
    MemorySessionStore,
    SessionClaim,
    SessionConflict,
    SessionStore,
    SessionStoreFailed,
    manifest_id,
)
from strictreply.loop._sqlite_sessions import SQLiteSessionStore
from strictreply.loop._step_walk import StepWalk, WalkEnd

__all__ = [
    "NO_CONTEXT",
    "AcceptedReply",
    "AskModel",
    "AttemptMade",
    "Effect",
    "EffectRaised",
    "GivenResult",
    "MemorySessionStore",
    "Progress",
    "Run",
    "RunEnded",
    "RunEvent",
    "RunLoop",
    "RunSettings",
    "RunTool",
    "RunTools",
    "SQLiteSessionStore",
    "SessionClaim",
    "SessionConflict",
    "SessionStore",
    "SessionStoreFailed",
    "StepWalk",
    "ToolFinished",
    "ToolOutcome",
    "ToolRunner",
    "ToolStarted",
    "Unanswered",
    "WalkEnd",
    "answered_manifest",
    "aperform",
    "arun",
    "arun_stream",
    "envelope_of",
    "manifest_id",
    "perform",
    "run",
    "run_flow",
    "run_stream",
    "type_of",
]
