"""Hostile streams: what must be refused is, with an exception of ours.

Nothing of it is acted on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, repeat
from typing import Any

import openai
import pytest

import strictreply as sr
from support.scripted import USER, http
from support.shared_data import SHARED
from support.streamed_replies import event

_ABOUT_BODY = ("content-length", "content-encoding")
CASES = SHARED / "hostile" / "replies.jsonl"
UNION = {
    "type": "object",
    "properties": {
        "tool": {"enum": ["search", "refund"]},
        "args": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "maxLength": 2000},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                "score": {"type": "number", "minimum": 0, "maximum": 1},
            },
            "required": ["query", "limit", "score"],
        },
    },
    "required": ["tool", "args"],
}
TOOL = {"name": "Call", "parameters": UNION}


def recorded(*layers: str) -> list[dict[str, Any]]:
    """Read the cases of some layers, none when the data is absent."""
    lines = CASES.read_text(encoding="utf-8").splitlines() if CASES.is_file() else []
    return [case for case in map(json.loads, lines) if case["layer"] in layers]


def stored(body: Any) -> tuple[int, dict[str, str], bytes] | None:
    """Return status, headers and bytes of a case; None where the case is a socket's behaviour."""
    if isinstance(body, list):
        parts = [part.get("b") for part in body]
        whole = None if None in parts else "".join(parts).encode("latin-1")
        return None if whole is None else (200, {"content-type": "text/event-stream"}, whole)
    text = body.get("body", {}).get("b") if isinstance(body.get("body"), dict) else None
    if text is None or "@" in body.get("headers", {}).get("location", ""):
        return None
    return body.get("status", 200), body.get("headers", {}), text.encode("latin-1")


def read(respond: Callable[[Any], Any]) -> list[Any]:
    """Stream from a server with small budgets; return the chunks that came out."""
    client = http.Client(transport=http.MockTransport(respond), timeout=0.05)
    inner = openai.OpenAI(
        api_key="none",
        base_url="http://model.invalid/v1",
        http_client=client,
        timeout=0.05,
        max_retries=0,
    )

    policy = sr.RetryPolicy(max_retries=0, transport_retries=0)
    wrapped = sr.wrap(inner, tools=[TOOL], policy=policy)
    return list(wrapped.chat.completions.create(model="m", messages=USER, stream=True))


STORED = [case for case in recorded("sse", "http") if stored(case["body"]) is not None]


@pytest.mark.parametrize("case", STORED, ids=lambda case: case["id"])
def test_recorded_cases(case: dict[str, Any]) -> None:
    """A stream that must be refused brings no finish; each exception is ours, and the SDK's,
    without canaries.
    """
    status, headers, body = stored(case["body"]) or (200, {}, b"")
    kept = {name: value for name, value in headers.items() if name.lower() not in _ABOUT_BODY}

    if case["id"] == "sse_invalid_utf8":  # the byte that it is named after was lost in the file
        body = body.replace(b"score", b"sc\xffre", 1)

    def respond(_: Any) -> Any:
        return http.Response(status, headers=kept, content=body)

    if case["layer"] == "sse" and case["expect"] == "any":
        with suppress(sr.CallFailed):
            assert [choice.finish_reason for chunk in read(respond) for choice in chunk.choices][
                -1
            ] is not None

        return

    with pytest.raises(sr.CallFailed) as failed:
        read(respond)

    assert isinstance(failed.value, openai.OpenAIError)
    assert case.get("canary", "CANARY7f3a") not in str(failed.value)


@pytest.mark.skipif(not CASES.is_file(), reason="the shared data is not there")
def test_the_recorded_cases_are_read() -> None:
    """Both layers are there."""
    assert len([case for case in STORED if case["layer"] == "sse"]) > 10
    assert len([case for case in STORED if case["layer"] == "http"]) > 30


def delta(**members: Any) -> bytes:
    """One chunk."""
    choice: Any = {"index": 0, "delta": members, "finish_reason": None}
    return event(
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }
    )


def opened(arguments: str) -> bytes:
    """The first chunk of a call."""
    function = {"name": "Call", "arguments": arguments}
    return delta(
        tool_calls=[{"index": 0, "id": "call_1", "type": "function", "function": function}]
    )


def stalled() -> Iterator[bytes]:
    """A stream that stops in the middle, as the HTTP library sees it."""
    yield opened('{"tool": "search"')
    raise http.ReadTimeout("nothing came")


GOING_ON = delta(tool_calls=[{"index": 0, "function": {"arguments": "x" * 4096}}])
ENDLESS: dict[str, Callable[[], Iterator[bytes]]] = {
    "comments for ever": lambda: chain([opened("{")], repeat(b": keep-alive\n\n")),
    "one string for ever": lambda: chain(
        [opened('{"tool": "search", "args": {"query": "')], repeat(GOING_ON)
    ),
    "text for ever": lambda: repeat(delta(content="so on " * 500)),
    "a line without an end": lambda: chain([b"data: "], repeat(b"x" * 65_536)),
    "an event without an end": lambda: chain([opened("{")], repeat(b"data: x\n" * 1000)),
    "an event type for ever": lambda: repeat(b"event: ping\n\n"),
    "nothing more": stalled,
}


class Endless(http.SyncByteStream):  # type: ignore[misc]  # the HTTP library of the installed SDK
    """A body that does not end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.pieces = pieces
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self.pieces

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True


@pytest.mark.parametrize("name", ENDLESS)
def test_what_does_not_end_is_ended(name: str) -> None:
    """Caps and the read timeout end it with an exception of ours, and the response is closed."""
    body = Endless(ENDLESS[name]())
    headers = {"content-type": "text/event-stream"}
    with pytest.raises(sr.CallFailed):
        read(lambda _: http.Response(200, headers=headers, stream=body))
    assert body.is_closed
