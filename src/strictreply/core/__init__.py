"""The extension API: support another API or client library, or build on the layers below.

A :class:`Wire` describes an API, an :class:`SDK` a client library; register them with
:func:`register_api` and :func:`register_sdk`. More names for extensions are in the modules
``arguments``, ``calls``, ``forms``, ``judging``, ``schemas``, ``text`` and ``tools``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strictreply.client._sending import RetryBucket
    from strictreply.client._wrapped import (
        ApiKeywords,
        OnAttempt,
        Redact,
        RequestKeywords,
        UsageMode,
        Wrapped,
    )
    from strictreply.contract._answer import Answer
    from strictreply.contract._contract import Check, Checked
    from strictreply.contract._driving import adrive, drive
    from strictreply.contract._judge import judge, judge_opened, opened_for
    from strictreply.reading._decoding import decode
    from strictreply.retry._asking import CallPlan
    from strictreply.retry._failures import Failure, classify
    from strictreply.retry._shaping import shape
    from strictreply.sdks._known import register_sdk
    from strictreply.sdks._sdk import SDK, Door
    from strictreply.values._drafts import Answered, Draft, DraftCall, UserInput
    from strictreply.values._limits import (
        DEFAULT_LIMITS,
        JSON,
        Channel,
        Dialects,
        Extra,
        Extraction,
        Formats,
        JSONObject,
        Message,
        Work,
    )
    from strictreply.values._replies import UsageNames
    from strictreply.values._requests import (
        CHOICE,
        FORMAT,
        PARALLEL,
        USAGE,
        AnswerFormat,
        Choice,
        Declared,
        Request,
    )
    from strictreply.wires import register_api
    from strictreply.wires._dialects import NeedsNothing
    from strictreply.wires._server_events import Event, EventReader
    from strictreply.wires._stream_chunks import ChunkRead
    from strictreply.wires._wire import (
        Assembly,
        CallPiece,
        Demanding,
        Opened,
        Replay,
        SentSoFar,
        Storing,
        StreamReader,
        Wire,
    )

__all__ = [
    "CHOICE",
    "DEFAULT_LIMITS",
    "FORMAT",
    "JSON",
    "PARALLEL",
    "SDK",
    "USAGE",
    "Answer",
    "AnswerFormat",
    "Answered",
    "ApiKeywords",
    "Assembly",
    "CallPiece",
    "CallPlan",
    "Channel",
    "Check",
    "Checked",
    "Choice",
    "ChunkRead",
    "Declared",
    "Demanding",
    "Dialects",
    "Door",
    "Draft",
    "DraftCall",
    "Event",
    "EventReader",
    "Extra",
    "Extraction",
    "Failure",
    "Formats",
    "JSONObject",
    "Message",
    "NeedsNothing",
    "OnAttempt",
    "Opened",
    "Redact",
    "Replay",
    "Request",
    "RequestKeywords",
    "RetryBucket",
    "SentSoFar",
    "Storing",
    "StreamReader",
    "UsageMode",
    "UsageNames",
    "UserInput",
    "Wire",
    "Work",
    "Wrapped",
    "adrive",
    "classify",
    "decode",
    "drive",
    "judge",
    "judge_opened",
    "opened_for",
    "register_api",
    "register_sdk",
    "shape",
]

_MODULES = {
    "client._sending": "RetryBucket",
    "client._wrapped": "ApiKeywords OnAttempt Redact RequestKeywords UsageMode Wrapped",
    "contract._answer": "Answer",
    "contract._contract": "Check Checked",
    "contract._driving": "adrive drive",
    "contract._judge": "judge judge_opened opened_for",
    "reading._decoding": "decode",
    "retry._asking": "CallPlan",
    "retry._failures": "Failure classify",
    "retry._shaping": "shape",
    "sdks._known": "register_sdk",
    "sdks._sdk": "SDK Door",
    "values._drafts": "Answered Draft DraftCall UserInput",
    "values._limits": (
        "DEFAULT_LIMITS JSON JSONObject Message Work Channel Dialects Extra Extraction Formats"
    ),
    "values._replies": "UsageNames",
    "values._requests": "CHOICE FORMAT PARALLEL USAGE AnswerFormat Choice Declared Request",
    "wires": "register_api",
    "wires._dialects": "NeedsNothing",
    "wires._server_events": "Event EventReader",
    "wires._stream_chunks": "ChunkRead",
    "wires._wire": "Assembly CallPiece Demanding Opened Replay SentSoFar Storing StreamReader Wire",
}
"""The names, by the module that defines them; it is imported when a name is first used."""

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


if not TYPE_CHECKING:  # type checkers report unknown names

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used (PEP 562)."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

        value = globals()[name] = getattr(import_module(f"strictreply.{_MODULE_OF[name]}"), name)
        return value


def __dir__() -> list[str]:
    """List the names, including those that are not imported yet."""
    return [*globals(), *__all__]
