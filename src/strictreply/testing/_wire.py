"""What a served model gives back: a completion as JSON, or one HTTP response byte by byte.

Values only: who asks, over which client or socket, and how often, is the business of the servings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from strictreply.values._json import JSON, JSONObject

CREATED = 1_767_225_600
"""The time stamp of every completion: what is scripted has no clock."""

Framing: TypeAlias = Literal["length", "chunked", "raw"]
"""How the client learns where a body ends: by its length, by chunks, or not at all, as ``parts`` are the raw bytes."""


class Ending(StrEnum):
    """What becomes of the connection after the last part."""

    WHOLE = "whole"  # the response ends as its framing says
    CUT = "cut"  # the connection is closed before that
    RESET = "reset"  # the connection is reset
    HANG = "hang"  # nothing more comes, until the client leaves or the server's patience ends


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait between two parts, in seconds; where no clock runs, it counts as a time-out when it is longer than one."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HTTPReply:
    """One HTTP response as it leaves a server.

    ``parts`` are sent in order, each at once; with ``endless`` the last one comes again and again until the client
    leaves (a serving bounds it). ``framing="raw"`` sends the parts alone, status line and headers included; a reply
    without any part and another ending than ``whole`` never begins.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    parts: tuple[bytes | Pause, ...] = ()
    ending: Ending = Ending.WHOLE
    framing: Framing = "length"
    endless: bool = False

    @classmethod
    def json(cls, status: int, body: JSON, headers: Mapping[str, str] | None = None) -> HTTPReply:
        """Make a response with a JSON body."""
        return cls(status, {"Content-Type": "application/json", **(headers or {})}, (json.dumps(body).encode(),))

    @property
    def body(self) -> bytes:
        """All parts together, an endless one once, without the pauses."""
        return b"".join(part for part in self.parts if isinstance(part, bytes))


Served: TypeAlias = "JSON | HTTPReply"
"""JSON is a completion: it goes out plain, or as server-sent events when the request says ``stream``."""

Responder: TypeAlias = Callable[[JSONObject], Served]
"""What answers a request: its body in, what is served out. It may be called from several threads at once."""


def error_reply(
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    param: str | None = None,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> HTTPReply:
    """Make an error in OpenAI's shape; ``param`` names the member at fault, ``code`` the fault, None when neither."""
    body: JSON = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return HTTPReply.json(status, body, headers)


def completion(
    message: JSONObject,
    *,
    id: str = "chatcmpl-scripted",  # noqa: A002 - the API's word
    model: str = "scripted",
    finish_reason: str | None = None,
    usage: tuple[int, int] = (10, 5),
) -> JSONObject:
    """Make a ``chat.completion`` of one choice.

    ``finish_reason`` None is the usual one: ``tool_calls`` with calls, else ``stop``. ``usage`` is the tokens of the
    prompt and of the completion.
    """
    prompt, answer = usage
    reason = finish_reason or ("tool_calls" if message.get("tool_calls") else "stop")
    return {
        "id": id,
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer},
    }


def native_call(name: JSON, arguments: JSON, id: JSON = "call_1") -> JSONObject:  # noqa: A002 - the API's word
    """Spell one native tool call; ``arguments`` is the text as the model wrote it."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(content: JSON = None, calls: list[JSON] | None = None, **more: JSON) -> JSONObject:
    """Spell an assistant message."""
    message: JSONObject = {"role": "assistant", "content": content, "refusal": None}
    return message | ({"tool_calls": calls} if calls else {}) | more
