"""The extension API: what this package's outer layers, another API or client library are made of.

An API is one :class:`Wire`, a client library one :class:`SDK`; :func:`register_api` and
:func:`register_sdk` make them known. The modules beside hold what hosts of the loop, readers of
schemas and kits need: ``arguments``, ``calls``, ``forms``, ``judging``, ``schemas``, ``text``.
"""

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
from strictreply.values._limits import DEFAULT_LIMITS, JSON, JSONObject, Message, Work
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
    "Assembly",
    "CallPiece",
    "CallPlan",
    "Check",
    "Checked",
    "Choice",
    "ChunkRead",
    "Declared",
    "Demanding",
    "Door",
    "Draft",
    "DraftCall",
    "Event",
    "EventReader",
    "Failure",
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
    "Work",
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
