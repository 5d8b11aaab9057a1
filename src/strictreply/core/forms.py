"""Replies and requests in the forms of the APIs known here."""

from strictreply.values._requests import SHAPING
from strictreply.wires._chat import read_tools
from strictreply.wires._chat_stream import BROKEN_OFF
from strictreply.wires._endings import reason_code
from strictreply.wires._members import as_json, ids_in, peek
from strictreply.wires._messages import MESSAGES, draft_of, message_of, plain_message
from strictreply.wires._responses import is_response
from strictreply.wires._responses_events import ResponsesSent
from strictreply.wires._responses_requests import read_request
from strictreply.wires._server_events import DONE, DONE_DATA, event, typed_event
from strictreply.wires._thoughts import is_signed, with_thoughts_of, without_thoughts

__all__ = [
    "BROKEN_OFF",
    "DONE",
    "DONE_DATA",
    "MESSAGES",
    "SHAPING",
    "ResponsesSent",
    "as_json",
    "draft_of",
    "event",
    "ids_in",
    "is_response",
    "is_signed",
    "message_of",
    "peek",
    "plain_message",
    "read_request",
    "read_tools",
    "reason_code",
    "typed_event",
    "with_thoughts_of",
    "without_thoughts",
]
