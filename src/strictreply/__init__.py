"""Nothing a model writes reaches your code until it fits the contract.

Wrap a client, declare your tools, and match on the typed reply::

    client = strictreply.wrap(OpenAI(), tools=[search])
    match client.reply(model="…", messages=[…]):
        case strictreply.ToolCall(tool="search", args=args): ...
        case strictreply.DirectAnswer(answer=text): ...

A reply passes through these packages:

- ``wires`` reads it into a draft;
- ``contract`` judges the draft, with the JSON reader in ``reading`` and the checks in ``schema``;
- ``retry`` decides what follows, and writes the correction;
- ``client`` returns the typed reply, or raises.

``docs/architecture.md`` has the details.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strictreply import batch
    from strictreply.client._client import AsyncStrictClient, StrictClient, wrap
    from strictreply.client._ledger import Ledger
    from strictreply.client._relay import Accepted, Provisional, Retracted
    from strictreply.client._streaming import AsyncReplyStream, ReplyStream
    from strictreply.client._wrapped import Exchange
    from strictreply.contract._context import Context
    from strictreply.contract._contract import Contract
    from strictreply.contract._correcting import CorrectionContext, NextRequest, Steering
    from strictreply.contract._findings import Finding, FindingCode, LintReport, Severity
    from strictreply.contract._linting import lint
    from strictreply.contract._tool import Tool, tool
    from strictreply.loop._policy import LoopPolicy
    from strictreply.loop._run_values import Run
    from strictreply.loop._runs import arun, arun_stream, run, run_stream
    from strictreply.loop._sqlite_sessions import SQLiteSessionStore
    from strictreply.loop.invoke_result import InvokeFailed, IterationsExceeded
    from strictreply.loop.values import Decision
    from strictreply.measuring._measuring import measure
    from strictreply.measuring._report import MeasureReport
    from strictreply.reading._incremental import Partial
    from strictreply.retry._policy import RetryPolicy
    from strictreply.retry._steering import TieredSteering
    from strictreply.sdks._namespaces import guarded
    from strictreply.values._errors import (
        AbortRun,
        CallFailed,
        ContractError,
        ContractWarning,
        Reason,
        ReplyHalted,
        ReplyRejected,
        StrictReplyError,
        ToolArgumentsError,
        ToolError,
        ToolExecutionError,
        ToolResultError,
        TransportFailed,
    )
    from strictreply.values._issues import Category, Code, Issue, Remedy
    from strictreply.values._limits import Limits
    from strictreply.values._replies import (
        AssistantReply,
        Attempt,
        DirectAnswer,
        Invalid,
        ToolCall,
        ToolCalls,
        Usage,
        Valid,
        Verdict,
    )

    __version__: str

__all__ = [
    "AbortRun",
    "Accepted",
    "AssistantReply",
    "AsyncReplyStream",
    "AsyncStrictClient",
    "Attempt",
    "CallFailed",
    "Category",
    "Code",
    "Context",
    "Contract",
    "ContractError",
    "ContractWarning",
    "CorrectionContext",
    "Decision",
    "DirectAnswer",
    "Exchange",
    "Finding",
    "FindingCode",
    "Invalid",
    "InvokeFailed",
    "Issue",
    "IterationsExceeded",
    "Ledger",
    "Limits",
    "LintReport",
    "LoopPolicy",
    "MeasureReport",
    "NextRequest",
    "Partial",
    "Provisional",
    "Reason",
    "Remedy",
    "ReplyHalted",
    "ReplyRejected",
    "ReplyStream",
    "Retracted",
    "RetryPolicy",
    "Run",
    "SQLiteSessionStore",
    "Severity",
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
    "ToolResultError",
    "TransportFailed",
    "Usage",
    "Valid",
    "Verdict",
    "arun",
    "arun_stream",
    "batch",
    "guarded",
    "lint",
    "measure",
    "run",
    "run_stream",
    "tool",
    "wrap",
]

_MODULES = {
    "client._client": "AsyncStrictClient StrictClient wrap",
    "sdks._namespaces": "guarded",
    "client._ledger": "Ledger",
    "client._streaming": "AsyncReplyStream ReplyStream",
    "client._relay": "Accepted Provisional Retracted",
    "client._wrapped": "Exchange",
    "contract._context": "Context",
    "contract._contract": "Contract",
    "contract._correcting": "CorrectionContext NextRequest Steering",
    "contract._findings": "Finding FindingCode LintReport Severity",
    "contract._linting": "lint",
    "contract._tool": "Tool tool",
    "reading._incremental": "Partial",
    "retry._policy": "RetryPolicy",
    "retry._steering": "TieredSteering",
    "loop.invoke_result": "InvokeFailed IterationsExceeded",
    "loop._policy": "LoopPolicy",
    "loop._runs": "arun arun_stream run run_stream",
    "loop._run_values": "Run",
    "loop._sqlite_sessions": "SQLiteSessionStore",
    "loop.values": "Decision",
    "measuring._measuring": "measure",
    "measuring._report": "MeasureReport",
    "values._errors": (
        "AbortRun CallFailed ContractError ContractWarning Reason ReplyHalted ReplyRejected "
        "StrictReplyError ToolArgumentsError ToolError ToolExecutionError ToolResultError "
        "TransportFailed"
    ),
    "values._issues": "Category Code Issue Remedy",
    "values._limits": "Limits",
    "values._replies": (
        "AssistantReply Attempt DirectAnswer Invalid ToolCall ToolCalls Usage Valid Verdict"
    ),
}
"""The public names, by the module that defines them; it is imported when a name is first used."""

_PACKAGES = ("batch",)  # public packages
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


if not TYPE_CHECKING:  # type checkers report unknown names

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used, so that ``import strictreply`` is fast.

        See PEP 562.
        """
        if name in _PACKAGES:
            return import_module(f"{__name__}.batch")

        if name == "__version__":
            # only pyproject.toml has the version
            return import_module("importlib.metadata").version("strictreply")

        if name not in _MODULE_OF:
            mistakes = import_module(f"{__name__}.values._mistakes")
            mistakes.no_attribute(f"module {__name__!r}", name, mistakes.NAMES, __all__)

        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        return value


def __dir__() -> list[str]:
    """List the public names, including those that are not imported yet."""
    return [*globals(), *__all__]
