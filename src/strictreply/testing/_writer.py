"""What a writer is: it acts as the server of one API, the inverse of its wire.

Scripts, faults and responders know only the form of chat completions: they get a request in this
form, and return a completion. A writer translates both, so that they work on every API that has a
writer.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from strictreply import Code
from strictreply.core import JSON, AnswerFormat, Draft, DraftCall, JSONObject, Request, Wire
from strictreply.core.forms import reason_code
from strictreply.core.tools import tools_of
from strictreply.testing._wire import CHAT, EVENT_STREAM, HTTPReply, ServedError

_BLANK_LINE = re.compile(r"(?<=\n\n)|(?<=\r\n\r\n)")
# The members of a message, a choice and a call that a reply can express completely.
_OF_A_MESSAGE = frozenset({"role", "content", "refusal", "tool_calls", "reasoning_content"})
_OF_A_CHOICE = frozenset({"index", "message", "logprobs", "finish_reason"})
_PROMISING = {"tool_calls", "function_call"}
_OF_A_CALL = {"id", "type", "function"}
_OF_A_FUNCTION = {"name", "arguments"}


@dataclass(frozen=True, slots=True)
class RequestTurn:
    """One turn of a conversation, independent of the API."""

    role: str
    """The author: ``system``, ``user``, ``assistant`` or ``tool``."""
    text: str | None
    """The text; None for an assistant's turn without text."""
    calls: tuple[DraftCall, ...] = ()
    """The calls of an assistant's turn, with the ids from the kit's replies."""
    call_id: object = None
    """The id of the call that a tool's turn answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A reply of a script, independent of the API; any part of it may be wrong."""

    draft: Draft
    """The text, the calls and the refusal; each member of a call may have any value."""
    promised: bool = False
    """Whether the reply ended with the announcement of a call."""
    ending: Code | None = None
    """Why the reply is incomplete, such as ``Code.REPLY_TRUNCATED``; None if it is complete."""
    thoughts: str | None = None
    """The thoughts of the model; None for none."""
    usage: tuple[int, int] | None = None
    """The tokens of the prompt and of the reply; None if they are not reported."""
    id: str = ""
    """The id of the response; may be empty."""
    model: str = ""
    """The name of the model; may be empty."""


class BaseWriter(ABC):
    """Reads the requests of an API, and writes the replies of a script."""

    stream_headers: Mapping[str, str] = EVENT_STREAM
    """The headers of a streamed response."""

    def __init__(self, wire: Wire) -> None:
        self.wire: Wire = wire

    def refusal(self, body: JSONObject) -> ServedError | None:  # noqa: ARG002 - none by default
        """Return why the server refuses the body of a request; None if it does not."""
        return None

    @abstractmethod
    def asked(self, body: JSONObject) -> JSONObject:
        """Return a request in the form of chat completions, which scripts use.

        Raises ContractError for a request that no reply can fit.
        """

    def is_streamed(self, body: JSONObject) -> bool:
        """Report whether a request wants a stream."""
        return bool(body.get("stream"))

    @abstractmethod
    def written(self, served: JSON, body: JSONObject) -> JSON:
        """Return the response to a request in the API's form: a completion, or another value."""

    @abstractmethod
    def events(self, response: JSON, body: JSONObject) -> Iterable[JSON]:
        """Split a response into the events of a stream; each text into several."""

    def stream(self, response: JSON, body: JSONObject) -> tuple[bytes, ...]:
        """Write a response, or another value, as the bytes of a stream, one item per event."""
        events = map(self.wire.event_bytes, self.events(response, body))
        return tuple(filter(None, (*events, self.wire.end_bytes)))

    def over_http(self, reply: HTTPReply, body: JSONObject) -> HTTPReply:  # noqa: ARG002
        """Return an HTTP response of a script as this API sends it; unchanged by default."""
        return reply

    def given_events(self, text: str) -> Iterator[bytes]:
        """Split a stream that a user gives into its events."""
        return (piece.encode() for piece in _BLANK_LINE.split(text) if piece)


class Writer(BaseWriter):
    """Acts as the server of an API; derive from it, and pass it to ``register_writer``.

    It is the inverse of the API's ``Wire``: it reads what the wire writes, and writes what the wire
    reads. Served values that are not a completion with one reply are sent unchanged.
    """

    def request(self, body: JSONObject) -> Request:
        """Read the body of a request, with its tools as a contract declares them.

        Raises ContractError for a request that no reply can fit.
        """
        return self.wire.read(body)

    @abstractmethod
    def turns(self, request: Request) -> Iterable[RequestTurn]:
        """Return the conversation of a request, with the system instructions first."""

    @abstractmethod
    def response(self, reply: ModelReply, body: JSONObject) -> JSON:
        """Write a reply as the response to a request, unchanged even if it is malformed."""

    @abstractmethod
    def error(self, error: ServedError) -> tuple[int, JSON]:
        """Write an error as a status and a body."""

    def events(self, response: JSON, body: JSONObject) -> Iterable[JSON]:
        """Split a response into events, like the wire does with the rest of an accepted one."""
        sent = self.wire.sent(bool(self.request(body).wants_usage))
        try:
            return list(sent.rest(response, None)) if isinstance(response, dict) else [response]
        except (AttributeError, KeyError, TypeError):  # too malformed to be split
            return [response]

    def is_streamed(self, body: JSONObject) -> bool:
        """Report whether a request wants a stream."""
        return self.request(body).is_stream

    def asked(self, body: JSONObject) -> JSONObject:
        """Return a request in the form of chat completions."""
        request = self.request(body)
        return in_chat_words(request, self.turns(request))

    def written(self, served: JSON, body: JSONObject) -> JSON:
        """Return the response to a request: a reply in this API's form, other values unchanged."""
        reply = reply_in(served)
        return served if reply is None else self.response(reply, body)

    def over_http(self, reply: HTTPReply, body: JSONObject) -> HTTPReply:  # noqa: ARG002
        """Return an HTTP response of a script: an error in this API's form, any other unchanged."""
        if reply.error is None:
            return reply

        status, written = self.error(reply.error)
        return HTTPReply.json(status, written, reply.headers)


def in_chat_words(request: Request, turns: Iterable[RequestTurn]) -> JSONObject:
    """Return a request of any API, with its conversation, in the form of chat completions."""
    tools: Any = request.given_tools
    wanted = request.format
    if isinstance(wanted, AnswerFormat):
        wanted = replace(wanted, name=wanted.name or "answer", source=None)

    plain = replace(
        request,
        source={"model": request.model},
        conversation=[_message_of(turn) for turn in turns],
        given_tools=None,
        tools=tuple(tools_of(tools or ())),
        format=wanted,
        limits={},
    )
    return CHAT.written(plain)


def reply_in(served: object) -> ModelReply | None:
    """Return the reply in a completion.

    None for another value, and if its envelope or the form of its calls is wrong: such faults exist
    only in chat completions.
    """
    whole: Any = served
    match whole:
        case {
            "choices": [{"message": dict() as message, "finish_reason": str(finish)} as choice]
        } if _OF_A_CHOICE.issuperset(choice) and not whole.get("error"):
            draft = _draft_of(message)
        case _:
            return None

    if draft is None:
        return None

    usage: tuple[int, int] | None = None
    match whole.get("usage"):
        case {"prompt_tokens": int(prompt), "completion_tokens": int(completion)}:
            usage = prompt, completion
        case _:
            pass

    return ModelReply(
        draft=draft,
        promised=finish in _PROMISING,
        ending=reason_code(finish),
        thoughts=message.get("reasoning_content"),
        usage=usage,
        id=str(whole.get("id") or ""),
        model=str(whole.get("model") or ""),
    )


def _draft_of(message: JSONObject) -> Draft | None:
    if message.get("role") != "assistant" or not _OF_A_MESSAGE.issuperset(message):
        return None

    listed: Any = message.get("tool_calls")
    if not isinstance(listed, list | None):
        return None

    calls: list[DraftCall] = []
    for call in listed or ():
        match call:
            case {"id": id_, "type": "function", "function": {"name": name, "arguments": text}} if (
                call.keys() == _OF_A_CALL and call["function"].keys() == _OF_A_FUNCTION
            ):
                calls.append(DraftCall(name, text, id_))
            case _:
                return None

    content = message.get("content")
    is_text = isinstance(content, str | None)
    return Draft(
        text=content if is_text else None,
        calls=tuple(calls),
        refusal=message.get("refusal"),
        other=None if is_text else content,
    )


def _message_of(turn: RequestTurn) -> JSONObject:
    """Write a turn as a message of chat completions."""
    message: JSONObject = {"role": turn.role, "content": turn.text}
    if turn.role == "tool":
        message["tool_call_id"] = turn.call_id
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in turn.calls
        ]

    return message
