"""A reference reader of event streams, written for clarity.

It is the oracle for what a strict gate says of a streamed reply. It reads the bytes of one response
(WHATWG HTML section 9.2.6) and holds the deltas to the API's rules; what they amount to goes to the
contract. Nothing here is fast, and nothing is shared with the library but its contract and its
codes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import strictreply as sr
from strictreply.testing import HTTPReply, WireEnding

MOST_BYTES = 4_000_000
"""How much of an endless response is looked at."""

MOST_TEXT = 1_000_000
"""How long one event and one reply may be: the contract's default."""


class Refused(Exception):
    """The stream is refused with a code."""


def codes_of(reply: HTTPReply, contract: sr.Contract) -> list[str]:
    """Return the codes that a strict gate reports for a streamed response.

    There are none when it is valid.
    """
    try:
        message = read(reply)
    except Refused as refused:
        return [str(refused)]
    verdict = contract.check(message)
    return [issue.code for issue in verdict.issues] if isinstance(verdict, sr.Invalid) else []


def read(reply: HTTPReply) -> dict[str, Any]:
    """Put the message together."""
    _demand(reply.headers["Content-Type"].startswith("text/event-stream"), "envelope.malformed")
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: list[dict[str, Any]] = []
    started = finished = False

    for data in _events(reply):
        if data == "[DONE]":
            _demand(started, "envelope.choices")
            _demand(finished, "reply.broken_off")
            return message | ({"tool_calls": calls} if calls else {})

        choice = _choice(_json(data))
        _demand(not finished, "envelope.malformed")
        _add(choice["delta"], message, calls)
        started = True

        finished = choice.get("finish_reason") is not None

    raise Refused("reply.broken_off")


def _events(reply: HTTPReply) -> Iterator[str]:
    """Yield the data of each event; comments and unknown fields are skipped."""
    kind = ""
    data = list[str]()

    for line in _lines(reply):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")

        if not line:
            _demand(kind != "error", "envelope.error")

            if data:
                yield "\n".join(data)

            kind = ""
            data = []
        elif name == "data":
            data.append(value)
        elif name == "event":
            kind = value


def _lines(reply: HTTPReply) -> Iterator[str]:
    """Yield the lines as they arrive, until the connection ends."""
    pending = b""
    for part in _parts(reply):
        *lines, pending = (pending + part).split(b"\n")
        _demand(len(pending) <= MOST_TEXT, "json.too_large")

        for line in lines:
            try:
                yield line.decode()
            except UnicodeDecodeError:
                raise Refused("json.encoding") from None

    _demand(reply.ending is WireEnding.WHOLE, "reply.broken_off")


def _parts(reply: HTTPReply) -> Iterator[bytes]:
    """Yield the bytes, of an endless response only as many as are read."""
    parts = [part for part in reply.parts if isinstance(part, bytes)]
    again = repeat(parts[-1], MOST_BYTES // len(parts[-1])) if reply.endless else ()
    return chain(parts, again)


def _json(data: str) -> dict[str, Any]:
    """Read a chunk."""
    try:
        chunk = json.loads(data)
    except ValueError:
        raise Refused("envelope.malformed") from None
    _demand(isinstance(chunk, dict), "envelope.malformed")
    _demand("error" not in chunk, "envelope.error")
    return dict(chunk)


def _choice(chunk: dict[str, Any]) -> dict[str, Any]:
    """Find the one choice of a chunk."""
    choices = chunk.get("choices")
    _demand(isinstance(choices, list) and len(choices) == 1, "envelope.choices")
    choice = chunk["choices"][0]
    _demand(
        isinstance(choice, dict) and isinstance(choice.get("delta"), dict), "envelope.malformed"
    )
    _demand(choice.get("index") == 0, "envelope.choices")
    return dict(choice)


def _add(delta: dict[str, Any], message: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    """Add a delta to the message."""
    _demand(delta.get("role", "assistant") == "assistant", "reply.role")
    content = delta.get("content")
    _demand(content is None or isinstance(content, str), "reply.content")

    if content is not None:
        message["content"] = (message["content"] or "") + content
        _demand(len(message["content"]) <= MOST_TEXT, "json.too_large")

    parts = delta.get("tool_calls", [])
    _demand(
        isinstance(parts, list) and all(isinstance(part, dict) for part in parts), "call.malformed"
    )

    for part in parts:
        _add_call(part, calls)


def _add_call(part: dict[str, Any], calls: list[dict[str, Any]]) -> None:
    """Add a part of a call.

    The first part has the id and the name; what comes after are arguments.
    """
    index = part.get("index")
    function = part.get("function")
    _demand(isinstance(index, int) and 0 <= index <= len(calls), "call.malformed")
    _demand(isinstance(function, dict), "call.malformed")

    assert isinstance(index, int)
    assert isinstance(function, dict)
    arguments = function.get("arguments", "")
    _demand(isinstance(arguments, str), "json.not_text")

    if index == len(calls):
        _demand(isinstance(function.get("name"), str), "call.malformed")
        named = {"name": function["name"], "arguments": arguments}
        calls.append({"id": part.get("id"), "type": part.get("type"), "function": named})
        return

    call = calls[index]
    _demand("name" not in function and part.get("id", call["id"]) == call["id"], "call.malformed")
    call["function"]["arguments"] += arguments
    _demand(len(call["function"]["arguments"]) <= MOST_TEXT, "json.too_large")


def _demand(holds: bool, code: str) -> None:
    """Refuse the stream unless a rule holds."""
    if not holds:
        raise Refused(code)
