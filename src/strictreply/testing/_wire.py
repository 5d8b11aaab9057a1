"""Completions, errors and HTTP responses, and their bytes."""

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
MAX_ENDLESS_BYTES = 64_000_000  # of an endless body, if the client never leaves
EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
# The statuses without a body (RFC 9110 section 6.4.1).
BODILESS = {*range(HTTPStatus.OK), HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


def member(value: object, name: str) -> JSON:
    """Return a member of a JSON value; None if it has none of this name or is not an object."""
    return value.get(name) if isinstance(value, dict) else None


class WireEnding(StrEnum):
    """What happens to the connection after the last part."""

    WHOLE = "whole"  # The response ends as its framing says.
    CUT = "cut"  # The connection is closed before the end.
    RESET = "reset"  # The connection is reset.
    HANG = "hang"  # Nothing more is sent until the client leaves or the server's patience is over.


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait between two parts, in seconds.

    In memory, it counts as a time-out if it is longer than the client's.
    """

    seconds: float
    """How long to wait."""


@dataclass(frozen=True, slots=True)
class ServedError:
    """An error of a server, independent of the API."""

    status: int
    """The HTTP status."""
    message: str
    """What is wrong, in words."""
    kind: str = "invalid_request_error"
    """The type of the error, as OpenAI names it."""
    param: str | None = None
    """The member of the request that is wrong; None if unknown."""
    code: str | None = None
    """The code of the error, as OpenAI names it; None if it has none."""


@dataclass(frozen=True, slots=True)
class HTTPReply:
    """One HTTP response of a server.

    With an ending other than ``whole`` and without parts, the response never begins.
    """

    status: int = 200
    """HTTP status."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """HTTP headers by name."""
    parts: tuple[bytes | Pause, ...] = ()
    """The parts of the body, sent in order; bytes, or a :class:`Pause`."""
    ending: WireEnding = WireEnding.WHOLE
    """What happens to the connection after the last part."""
    framing: Literal["length", "chunked", "raw"] = "length"
    """How the client learns where the body ends.

    ``raw`` sends only the parts, which contain the status line and headers.
    """
    endless: bool = False
    """Whether the last part is repeated until the client leaves, or a limit is reached."""
    error: ServedError | None = field(default=None, repr=False, compare=False)
    """The error in the body, which a writer writes in the form of its API; None for no error."""
    verbatim: bool = field(default=False, repr=False, compare=False)
    """Whether it is sent unchanged over any API; else completions in it are translated."""

    @classmethod
    def json(cls, status: int, body: JSON, headers: Mapping[str, str] | None = None) -> HTTPReply:
        """Make a response with a JSON body.

        ``status`` is the HTTP status; ``headers`` are added to those of JSON.
        """
        sent = {"Content-Type": "application/json", **(headers or {})}
        return cls(status, sent, (json.dumps(body).encode(),))

    @property
    def body(self) -> bytes:
        """All parts together without the pauses; an endless part once."""
        return b"".join(part for part in self.parts if isinstance(part, bytes))


# JSON is a completion: it is sent plain, or as server-sent events if the request has ``stream``.
Served: TypeAlias = "JSON | HTTPReply"
Responder: TypeAlias = Callable[[JSONObject], Served]
"""A function of a request's body that returns a completion, other JSON or an HTTPReply.

It may be called from several threads.
"""
Control: TypeAlias = Callable[[Responder, str, str, bytes, Mapping[str, str]], HTTPReply]
"""A function that answers over HTTP with a responder, and also gets the HTTP request.

It gets the method, the path, the body, and the headers with lower-case names.
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
    """Return an error in OpenAI's form; other APIs get it in theirs.

    - ``status`` is the HTTP status, ``message`` the text.
    - ``kind`` is the type of the error.
    - ``param`` is the member of the request that is wrong; None if unknown.
    - ``code`` is the code of the error; None if it has none.
    - ``headers`` are added to those of JSON.
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
    id: str = "chatcmpl-scripted",  # noqa: A002 - the API's name
    model: str = "scripted",
    finish_reason: str | None = None,
    usage: tuple[int, int] = (10, 5),
) -> JSONObject:
    """Return a ``chat.completion`` with one choice.

    - ``message`` is the assistant's message.
    - ``id`` and ``model`` are those of the completion.
    - ``finish_reason`` None means ``tool_calls`` or ``stop``, depending on the message.
    - ``usage`` is the tokens of the prompt and of the completion.
    """
    prompt, answer = usage
    reason = finish_reason or ("tool_calls" if message.get("tool_calls") else "stop")

    return {
        "id": id,
        "object": "chat.completion",
        "created": 1_767_225_600,  # fixed, because a script has no clock
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": answer,
            "total_tokens": prompt + answer,
        },
    }


# the API's name
def native_call(name: JSON, arguments: JSON, id: JSON = "call_1") -> JSONObject:  # noqa: A002
    """Return one native tool call.

    ``name`` is the tool, ``arguments`` is the text as the model wrote it, ``id`` is the call's id.
    """
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(content: JSON = None, calls: list[JSON] | None = None, **more: JSON) -> JSONObject:
    """Return an assistant message.

    ``content`` is its text, ``calls`` are its calls made by :func:`native_call`; ``more`` has other
    members.
    """
    message: JSONObject = {"role": "assistant", "content": content, "refusal": None}
    return message | ({"tool_calls": calls} if calls else {}) | more


def wire(
    reply: HTTPReply, *, close: bool = False, bodiless: bool = False, most: int = MAX_ENDLESS_BYTES
) -> Iterator[bytes | Pause]:
    """Yield the bytes of a response, at most about ``most`` of an endless body.

    ``close`` announces that the connection ends; ``bodiless`` leaves out the body, as for HEAD. If
    the ending is not whole, the declared length is one more than the body's, so that clients see
    the cut.
    """
    if reply.framing == "raw":
        yield from () if bodiless else _parts(reply, most)
        return

    if not reply.parts and reply.ending is not WireEnding.WHOLE:
        return

    chunked = reply.framing == "chunked" or reply.endless
    bodiless_status = reply.status in BODILESS
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
    """Return how the connection ends after the last byte.

    A raw or endless response that is whole can end only with its connection.
    """
    ends_itself = reply.framing != "raw" and not reply.endless
    return reply.ending if ends_itself or reply.ending is not WireEnding.WHOLE else WireEnding.CUT


def is_whole_stream(reply: HTTPReply) -> bool:
    """Report whether a response is a stream of events with a regular end."""
    return reply.headers == EVENT_STREAM and ending_of(reply) is WireEnding.WHOLE


_WRITTEN_ID = re.compile(rb'(?<="id": ")call_[0-9]+(?=")')  # in the body of a raw response


class CallIds:
    """The ids that one run has given out; threads may share them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._given: set[str] = set()

    def fresh(self, served: Served, request: JSONObject) -> Served:
        """Return a copy with ids that are new in this run and in the conversation.

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
    """Yield the calls in every choice of a completion, whatever its form; a response has none."""
    choices = member(served, "choices")
    for choice in choices if isinstance(choices, list) else ():
        calls = member(member(choice, "message"), "tool_calls")
        listed = calls if isinstance(calls, list) else [calls]
        yield from (call for call in listed if isinstance(call, dict))
