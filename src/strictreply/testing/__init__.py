"""Test how an LLM app handles malformed replies.

It has named faults, three ways to serve them, and a pytest plugin. The app may use any SDK or
framework; only its base URL or its client must be configurable.

- ``strictreply.testing.strategies`` has strategies for Hypothesis.
- ``strictreply.testing.mounting`` has in-memory transports.
- ``strictreply.testing.probing`` is the command ``probe`` as a library.
- ``strictreply.testing.recordings`` is the command ``check`` as a library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strictreply.testing import faults, ok
    from strictreply.testing._claude_rules import ClaudeRules
    from strictreply.testing._probing.client_verdicts import no_backoff
    from strictreply.testing._recorder import record
    from strictreply.testing._script_form import read_script
    from strictreply.testing._script_server import ScriptServer
    from strictreply.testing._scripts import Asked, ScriptedModel
    from strictreply.testing._server import LoopbackServer
    from strictreply.testing._serving import register_writer, writer_named
    from strictreply.testing._signed_thoughts import SignedThoughts
    from strictreply.testing._steps import Fault, Kind, ReplyPlace, Step
    from strictreply.testing._wire import (
        HTTPReply,
        Pause,
        Responder,
        ServedError,
        WireEnding,
        assistant,
        completion,
        error_reply,
        native_call,
    )
    from strictreply.testing._writer import ModelReply, RequestTurn, Writer
    from strictreply.testing.mounting import AsyncScriptedClient, ScriptedClient

_NAMES_IN = {
    "_claude_rules": ("ClaudeRules",),
    "_recorder": ("record",),
    "_probing.client_verdicts": ("no_backoff",),
    "_script_form": ("read_script",),
    "_script_server": ("ScriptServer",),
    "_scripts": ("Asked", "ScriptedModel"),
    "_serving": ("register_writer", "writer_named"),
    "_server": ("LoopbackServer",),
    "_signed_thoughts": ("SignedThoughts",),
    "_steps": ("Fault", "Kind", "ReplyPlace", "Step"),
    "_wire": (
        "HTTPReply",
        "Pause",
        "Responder",
        "ServedError",
        "WireEnding",
        "assistant",
        "completion",
        "error_reply",
        "native_call",
    ),
    "_writer": ("ModelReply", "RequestTurn", "Writer"),
    "mounting": ("AsyncScriptedClient", "ScriptedClient"),
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names}

__all__ = [
    "Asked",
    "AsyncScriptedClient",
    "ClaudeRules",
    "Fault",
    "HTTPReply",
    "Kind",
    "LoopbackServer",
    "ModelReply",
    "Pause",
    "ReplyPlace",
    "RequestTurn",
    "Responder",
    "ScriptServer",
    "ScriptedClient",
    "ScriptedModel",
    "ServedError",
    "SignedThoughts",
    "Step",
    "WireEnding",
    "Writer",
    "assistant",
    "completion",
    "error_reply",
    "faults",
    "native_call",
    "no_backoff",
    "ok",
    "read_script",
    "record",
    "register_writer",
    "writer_named",
]


def __getattr__(name: str) -> object:
    """Import a name on demand.

    The pytest plugin imports this module in every test run, and most runs need none of the names.
    """
    if name in {"faults", "ok"}:
        return import_module(f"{__name__}.{name}")
    if name in _MODULE_OF:
        return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)

    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
