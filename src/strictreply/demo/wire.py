"""The bodies that go over the wire, as OpenAI spells them: a completion, an error, a reply with its HTTP status.

No sockets here: the server sends these, the model makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from strictreply.typing import JSONObject

CHARS_PER_TOKEN = 4
CREATED = 1_767_225_600
"""The time stamp of every completion: a pure model has no clock."""


@dataclass(frozen=True, slots=True)
class HTTPReply:
    """An HTTP response that is not simply ``200`` with a body: ``status``, JSON ``body``, extra ``headers``."""

    status: int
    body: JSONObject
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Responder: TypeAlias = Callable[[JSONObject], "JSONObject | HTTPReply"]
"""What answers a request: its body in, the body of the response (or an :class:`HTTPReply`) out."""


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
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return HTTPReply(status, body, headers or {})


def completion(
    message: JSONObject,
    *,
    id: str,  # noqa: A002 - the API's word
    model: str,
    finish_reason: str,
    usage: tuple[int, int],
) -> JSONObject:
    """Make a ``chat.completion`` of one choice; ``usage`` is the tokens of the prompt and of the completion."""
    prompt, answer = usage
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
    return {
        "id": id,
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [choice],
        "usage": {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer},
    }


def tokens(text: str) -> int:
    """Estimate the tokens of a text, at least one."""
    return max(1, len(text) // CHARS_PER_TOKEN)


def fields(value: object) -> JSONObject:
    """Read a value that should be an object; one that is not has no members."""
    return cast("JSONObject", value) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Read a value that should be an array; one that is not has no items."""
    listed: list[Any] = value if isinstance(value, list) else []
    return listed
