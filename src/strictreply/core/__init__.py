"""The extension API: what an API or a client library is made of, outside of this package.

An API is one :class:`Wire`, a client library one :class:`SDK`; :func:`register_api` and
:func:`register_sdk` make them known.
"""

from strictreply.sdks._known import register_sdk
from strictreply.sdks._sdk import SDK, Door
from strictreply.values._drafts import Answered, Draft, DraftCall, UserInput
from strictreply.values._limits import JSON, JSONObject, Message
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
    "FORMAT",
    "JSON",
    "PARALLEL",
    "SDK",
    "USAGE",
    "AnswerFormat",
    "Answered",
    "Assembly",
    "CallPiece",
    "Choice",
    "ChunkRead",
    "Declared",
    "Demanding",
    "Door",
    "Draft",
    "DraftCall",
    "Event",
    "EventReader",
    "JSONObject",
    "Message",
    "NeedsNothing",
    "Opened",
    "Replay",
    "Request",
    "SentSoFar",
    "Storing",
    "StreamReader",
    "UsageNames",
    "UserInput",
    "Wire",
    "register_api",
    "register_sdk",
]
