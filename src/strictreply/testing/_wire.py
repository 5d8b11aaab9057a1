"""What is served: completions, errors and HTTP responses, and the bytes of these."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http import HTTPStatus
from http.client import responses
from itertools import chain, count, repeat
from threading import Lock
from typing import Any, Literal, TypeAlias

from strictreply.core import JSON, JSONObject
from strictreply.wires import wire_named

CHAT = wire_named("chat")
MAX_ENDLESS_BYTES = 64_000_000  # of an endless body, should the client never leave
EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
# The statuses without a body (RFC 9110 section 6.4.1).
_BODILESS = {*range(HTTPStatus.OK), HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


def member(value: object, name: str) -> JSON:
    """Return a member of JSON, however odd that is; None where it has none of that name."""
    return value.get(name) if isinstance(value, dict) else None


class WireEnding(StrEnum):
    """What becomes of the connection after the last part."""

    WHOLE = "whole"  # the response ends as its framing says
    CUT = "cut"  # the connection is closed before that
    RESET = "reset"  # the connection is reset
    HANG = "hang"  # nothing more comes, until the client leaves or the server's patience ends


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait between two parts, in seconds.

    Where no clock runs, it counts as a time-out when it is longer than one.
    """

    seconds: float
    """How long to wait."""


@dataclass(frozen=True, slots=True)
class ServedError:
    """An error of a server, in no API's form."""

    status: int
    """The HTTP status by which it is known."""
    message: str
    """What is wrong, in words."""
    kind: str = "invalid_request_error"
    """The type of the error, in OpenAI's words."""
    param: str | None = None
    """The member of the request at fault; None when there is none."""
    code: str | None = None
    """The fault, in OpenAI's words; None when it has none."""


@dataclass(frozen=True, slots=True)
class HTTPReply:
    """One HTTP response as it leaves a server.

    A reply without any part and another ending than ``whole`` never begins.
    """

    status: int = 200
    """HTTP status."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers by name."""
    parts: tuple[bytes | Pause, ...] = ()
    """The parts of the body, sent in order, each at once."""
    ending: WireEnding = WireEnding.WHOLE
    """What becomes of the connection after the last part."""
    framing: Literal["length", "chunked", "raw"] = "length"
    """How the client is told where the body ends.

    ``raw`` sends the parts alone, status line and headers included.
    """
    endless: bool = False
    """Whether the last part is repeated until the client leaves; a serving bounds it."""
    error: ServedError | None = field(default=None, repr=False, compare=False)
    """The error in the body, which a writer spells as its API does; None for no error."""
    verbatim: bool = field(default=False, repr=False, compare=False)
    """Whether it is sent as it is over any API; else completions in it are translated."""

    @classmethod
    def json(cls, status: int, body: JSON, headers: Mapping[str, str] | None = None) -> HTTPReply:
        """Make a response with a JSON body."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        return cls(status, sent, (json.dumps(body).encode(),))

    @property
    def body(self) -> bytes:
        """All parts together, an endless one once, without the pauses."""
        return b"".join(part for part in self.parts if isinstance(part, bytes))


# JSON is a completion: it goes out plain, or as server-sent events when the request says
# ``stream``.
Served: TypeAlias = "JSON | HTTPReply"
Responder: TypeAlias = Callable[[JSONObject], Served]
"""What answers a request: its body in, a completion, other JSON or an HTTPReply out.

It may be called from several threads at once.
"""
Control: TypeAlias = Callable[[Responder, str, str, bytes, Mapping[str, str]], HTTPReply]
"""Answers over HTTP with a responder, but sees more of a request.

It gets the method, the path, the body, and the headers by lower-case names.
"""


def error_reply(
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> HTTPReply:
    """Make an error in OpenAI's shape; another API is served it in its own.

    ``param`` names the member at fault, ``code`` the fault; each is None when there is none.
    """
    return http_error(ServedError(status, message, kind, param, code), headers)


def http_error(error: ServedError, headers: Mapping[str, str] | None = None) -> HTTPReply:
    """Write an error in OpenAI's shape."""
    written: JSON = {
        "message": error.message,
        "type": error.kind,
        "param": error.param,
        "code": error.code,
    }
    return replace(HTTPReply.json(error.status, {"error": written}, headers), error=error)


def completion(
    message: JSONObject,
    *,
    id: str = "chatcmpl-scripted",  # noqa: A002 - the API's word
    model: str = "scripted",
    finish_reason: str | None = None,
    usage: tuple[int, int] = (10, 5),
) -> JSONObject:
    """Make a ``chat.completion`` of one choice.

    ``usage`` is the tokens of the prompt and of the completion.
    """
    prompt, answer = usage
    reason = finish_reason or ("tool_calls" if message.get("tool_calls") else "stop")

    return {
        "id": id,
        "object": "chat.completion",
        "created": 1_767_225_600,  # of every completion: what is scripted has no clock
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
        },
    }


# the API's word
def native_call(name: JSON, arguments: JSON, id: JSON = "call_1") -> JSONObject:  # noqa: A002
    """Write one native tool call; ``arguments`` is the text as the model wrote it."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(content: JSON = None, calls: list[JSON] | None = None, **more: JSON) -> JSONObject:
    """Write an assistant message."""
    message: JSONObject = {"role": "assistant", "content": content, "refusal": None}
    return message | ({"tool_calls": calls} if calls else {}) | more


def wire(
    reply: HTTPReply, *, close: bool = False, bodiless: bool = False, most: int = MAX_ENDLESS_BYTES
) -> Iterator[bytes | Pause]:
    """Yield a response as the bytes that leave a server, at most about ``most`` of an endless body.

    ``close`` announces that the connection ends; ``bodiless`` leaves the body out, as for HEAD.
    Where the ending is not whole, the declared length is one more than the body's, so that clients
    see the cut.
    """
    if reply.framing == "raw":
        yield from () if bodiless else _parts(reply, most)
        return

    if not reply.parts and reply.ending is not WireEnding.WHOLE:
        return

    chunked = reply.framing == "chunked" or reply.endless
    bodiless_status = reply.status in _BODILESS
    yield _head(reply, close=close, chunked=chunked, bodiless=bodiless_status)

    if bodiless or bodiless_status:
        return

    for part in _parts(reply, most):
        yield b"%x\r\n%b\r\n" % (len(part), part) if chunked and isinstance(part, bytes) else part

    if chunked and not reply.endless and reply.ending is WireEnding.WHOLE:
        yield b"0\r\n\r\n"


def _parts(reply: HTTPReply, most: int) -> Iterator[bytes | Pause]:
    parts = [part for part in reply.parts if part]
    last = next((part for part in reversed(parts) if isinstance(part, bytes)), b"")
    return chain(parts, repeat(last, most // len(last)) if reply.endless and last else ())


def _head(reply: HTTPReply, *, close: bool, chunked: bool, bodiless: bool) -> bytes:
    headers = dict(reply.headers)
    given = {name.lower() for name in headers}
    if chunked and "transfer-encoding" not in given:
        headers["Transfer-Encoding"] = "chunked"
    elif not bodiless and not given & {"content-length", "transfer-encoding"}:
        headers["Content-Length"] = str(len(reply.body) + (reply.ending is not WireEnding.WHOLE))

    if close and "connection" not in given:
        headers["Connection"] = "close"

    status = f"HTTP/1.1 {reply.status} {responses.get(reply.status, '')}"
    lines = [status, *(f"{name}: {value}" for name, value in headers.items()), ""]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


def ending_of(reply: HTTPReply) -> WireEnding:
    """Return what follows the last byte.

    A raw or endless response that is whole can only end with its connection.
    """
    ends_itself = reply.framing != "raw" and not reply.endless
    return reply.ending if ends_itself or reply.ending is not WireEnding.WHOLE else WireEnding.CUT


def is_whole_stream(reply: HTTPReply) -> bool:
    """Report whether a response is a stream of events that ends as it should."""
    return reply.headers == EVENT_STREAM and ending_of(reply) is WireEnding.WHOLE


_WRITTEN_ID = re.compile(rb'(?<="id": ")call_[0-9]+(?=")')  # in the body of a raw response


class CallIds:
    """The ids that one run has given out; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._given: set[str] = set()

    def fresh(self, served: Served, request: JSONObject) -> Served:
        """Return a copy whose ids neither this run gave out nor the conversation has.

        Equal ids stay equal.
        """
        copied: Served = served if isinstance(served, HTTPReply) else deepcopy(served)
        calls = list(_calls(copied))
        written = _WRITTEN_ID.findall(served.body) if isinstance(served, HTTPReply) else []
        ids = [id_.decode() for id_ in written]
        ids += [call["id"] for call in calls if isinstance(call.get("id"), str)]
        own = dict.fromkeys(filter(None, ids))

        messages: Any = request.get("messages")
        turns = messages if isinstance(messages, list) else ()
        with self._lock:
            taken = self._given.union(CHAT.replay.ids(turns))
            numbered = (f"call_{number}" for number in count(1))
            free = (id_ for id_ in numbered if id_ not in taken and id_ not in own)
            renamed = {id_: next(free) for id_ in own if id_ in taken}
            self._given.update(own, renamed.values())

        for call in calls:
            if call.get("id") in own:
                call["id"] = renamed.get(str(call["id"]), call["id"])

        return _rewritten(copied, renamed) if renamed and isinstance(copied, HTTPReply) else copied


def _rewritten(reply: HTTPReply, renamed: Mapping[str, str]) -> HTTPReply:
    def other(found: re.Match[bytes]) -> bytes:
        return renamed.get(found[0].decode(), found[0].decode()).encode()

    parts = (
        _WRITTEN_ID.sub(other, part) if isinstance(part, bytes) else part for part in reply.parts
    )
    return replace(reply, parts=tuple(parts))


def _calls(served: Served) -> Iterator[JSONObject]:
    """Yield the calls in every choice of a completion, however odd it is; a response has none."""
    choices = member(served, "choices")
    for choice in choices if isinstance(choices, list) else ():
        calls = member(member(choice, "message"), "tool_calls")
        listed = calls if isinstance(calls, list) else [calls]
        yield from (call for call in listed if isinstance(call, dict))
