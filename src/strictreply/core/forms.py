"""Replies and requests in the formats of the supported APIs."""

from strictreply.values._requests import SHAPING
from strictreply.wires._chat import read_tools
from strictreply.wires._chat_stream import BROKEN_OFF
from strictreply.wires._endings import reason_code
from strictreply.wires._members import as_json, peek
from strictreply.wires._messages import MESSAGES, draft_of, message_of, plain_message
from strictreply.wires._responses import is_response
from strictreply.wires._responses_requests import read_request
from strictreply.wires._server_events import DONE_DATA
from strictreply.wires._thoughts import is_signed, with_thoughts_of, without_thoughts

__all__ = [
    "BROKEN_OFF",
    "DONE_DATA",
    "MESSAGES",
    "SHAPING",
    "as_json",
    "draft_of",
    "is_response",
    "is_signed",
    "message_of",
    "peek",
    "plain_message",
    "read_request",
    "read_tools",
    "reason_code",
    "with_thoughts_of",
    "without_thoughts",
]
