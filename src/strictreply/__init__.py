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
    ReplyHalted,
    ReplyRejected,
    StepsExceeded,
    StrictReplyError,
    ToolArgumentsError,
    ToolExecutionError,
    TransportFailed,
)
from strictreply.issues import Category, Code, Issue, Remedy
from strictreply.limits import Limits
from strictreply.policy import RetryPolicy
from strictreply.replies import AssistantReply, DirectAnswer, Invalid, ToolCall, ToolCalls, Valid, Verdict
from strictreply.steering import Situation, Steering, TieredSteering
from strictreply.toolloop import Run, arun, run
from strictreply.tools import Tool, tool

__all__ = [
    "AssistantReply",
    "AsyncStrictClient",
    "Attempt",
    "CallFailed",
    "Category",
    "Code",
    "Contract",
    "ContractError",
    "DirectAnswer",
    "Exchange",
    "Invalid",
    "Issue",
    "Limits",
    "Remedy",
    "ReplyHalted",
    "ReplyRejected",
    "RetryPolicy",
    "Run",
    "Situation",
    "Steering",
    "StepsExceeded",
    "StrictClient",
    "StrictReplyError",
    "TieredSteering",
    "Tool",
    "ToolArgumentsError",
    "ToolCall",
    "ToolCalls",
    "ToolExecutionError",
    "TransportFailed",
    "Usage",
    "Valid",
    "Verdict",
    "arun",
    "run",
    "tool",
    "wrap",
]


def __getattr__(name: str) -> str:
    """Read ``__version__`` from the installed metadata, on demand: it stands in one place only."""
    if name == "__version__":
        return metadata.version("strictreply")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
