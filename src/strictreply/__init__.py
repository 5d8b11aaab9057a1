"""Nothing a model writes reaches your code until it fits the contract.

Wrap a client, declare your tools, and match on the typed reply::

    client = strictreply.wrap(OpenAI(), tools=[search])
    match client.reply(model="…", messages=[…]):
        case strictreply.ToolCall(tool="search", args=args): ...
        case strictreply.DirectAnswer(answer=text): ...
"""

from __future__ import annotations

from importlib import metadata

from strictreply.attempts import Attempt, Usage
from strictreply.client import AsyncStrictClient, Exchange, StrictClient, wrap
from strictreply.contract import Contract
from strictreply.errors import (
    CallFailed,
    ContractError,
    ContractWarning,
    ReplyHalted,
    ReplyRejected,
    StrictReplyError,
    ToolArgumentsError,
    ToolError,
    ToolExecutionError,
    TransportFailed,
)
from strictreply.issues import Category, Code, Issue, Remedy
from strictreply.limits import Limits
from strictreply.pipeline.loop_policy import LoopPolicy
from strictreply.pipeline.results import InvokeFailed, IterationsExceeded
from strictreply.pipeline.sessions import MemorySessionStore, SessionStoreFailed
from strictreply.pipeline.values import Decision
from strictreply.policy import RetryPolicy
from strictreply.replies import AssistantReply, DirectAnswer, Invalid, ToolCall, ToolCalls, Valid, Verdict
from strictreply.running.events import AttemptMade, RunEnded, RunEvent, ToolFinished, ToolStarted
from strictreply.running.loop import arun, run
from strictreply.running.runs import Run, Unanswered
from strictreply.running.sqlite_sessions import SQLiteSessionStore
from strictreply.running.streaming import arun_stream, run_stream
from strictreply.steering import Situation, Steering, TieredSteering
from strictreply.tools import Tool, tool

__all__ = [
    "AssistantReply",
    "AsyncStrictClient",
    "Attempt",
    "AttemptMade",
    "CallFailed",
    "Category",
    "Code",
    "Contract",
    "ContractError",
    "ContractWarning",
    "Decision",
    "DirectAnswer",
    "Exchange",
    "Invalid",
    "InvokeFailed",
    "Issue",
    "IterationsExceeded",
    "Limits",
    "LoopPolicy",
    "MemorySessionStore",
    "Remedy",
    "ReplyHalted",
    "ReplyRejected",
    "RetryPolicy",
    "Run",
    "RunEnded",
    "RunEvent",
    "SQLiteSessionStore",
    "SessionStoreFailed",
    "Situation",
    "Steering",
    "StrictClient",
    "StrictReplyError",
    "TieredSteering",
    "Tool",
    "ToolArgumentsError",
    "ToolCall",
    "ToolCalls",
    "ToolError",
    "ToolExecutionError",
    "ToolFinished",
    "ToolStarted",
    "TransportFailed",
    "Unanswered",
    "Usage",
    "Valid",
    "Verdict",
    "arun",
    "arun_stream",
    "run",
    "run_stream",
    "tool",
    "wrap",
]


def __getattr__(name: str) -> str:
    """Read ``__version__`` from the installed metadata, on demand: it stands in one place only."""
    if name == "__version__":
        return metadata.version("strictreply")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
