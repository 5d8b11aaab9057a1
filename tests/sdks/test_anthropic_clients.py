"""All classes of clients of the anthropic SDK are guarded: Anthropic's servers, and the clouds'."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

import strictreply as sr
from support.claude import (
    ASK,
    BAD,
    GOOD,
    Age,
    ClaudeServer,
    anthropic,
    done,
    events_of,
    final,
    http,
    message,
    over,
    pieces,
    text,
)

# of anthropic before version 2, about the keyword of its own ``parse``
pytestmark = pytest.mark.filterwarnings("ignore:The 'output_format' parameter:DeprecationWarning")

GOOGLE = SimpleNamespace(token="t", expired=False)

CLIENTS: dict[str, dict[str, Any]] = {
    "Anthropic": {"api_key": "k"},
    "AnthropicBedrock": {
        "aws_region": "us-east-1",
        "aws_access_key": "a",
        "aws_secret_key": "b",
    },
    "AnthropicVertex": {"region": "us", "project_id": "p", "access_token": "t"},
    "AnthropicAWS": {"api_key": "k", "aws_region": "us-east-1", "workspace_id": "w"},
    "AnthropicFoundry": {"api_key": "k", "resource": "r"},
    "AnthropicBedrockMantle": {"api_key": "k", "aws_region": "us-east-1"},
    "AnthropicGoogleCloud": {
        "project": "p",
        "location": "us",
        "workspace_id": "w",
        "credentials": GOOGLE,
    },
}
NEEDS = {
    "AnthropicBedrock": "botocore",
    "AnthropicVertex": "google.auth",
    "AnthropicGoogleCloud": "google.auth",
}
EACH = pytest.mark.parametrize(
    "kind", [f"{before}{name}" for name in CLIENTS for before in ("", "Async")]
)


class CloudServer(ClaudeServer):
    """Streams as the cloud of the address does: Bedrock in frames, the others as events."""

    def response(self, request: Any, reply: dict[str, Any]) -> Any:
        """Return the response that brings a message."""
        if not str(request.url).endswith("invoke-with-response-stream"):
            return super().response(request, reply)

        kind = {"content-type": "application/vnd.amazon.eventstream"}
        return http.Response(200, headers=kind, content=self.changed(frames(events_of(reply))))

    def changed(self, body: bytes) -> bytes:
        """Return the body as it is sent."""
        return body


def frames(events: Iterable[dict[str, Any]]) -> bytes:
    """Return events in the frames of AWS (Smithy, event stream specification)."""
    return b"".join(map(_frame, events))


def _frame(event: dict[str, Any]) -> bytes:
    inner = base64.b64encode(json.dumps(event).encode()).decode()
    payload = json.dumps({"bytes": inner}).encode()
    headers = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack("!H", len(value))
        + value.encode()
        for name, value in (
            (":event-type", "chunk"),
            (":content-type", "application/json"),
            (":message-type", "event"),
        )
    )
    sizes = struct.pack("!II", len(headers) + len(payload) + 16, len(headers))
    begun = sizes + struct.pack("!I", binascii.crc32(sizes)) + headers + payload
    return begun + struct.pack("!I", binascii.crc32(begun))


def made(kind: str, server: ClaudeServer, **given: Any) -> Any:
    """Return a client of a class, where the SDK has it with what it needs."""
    name = kind.removeprefix("Async")
    if not hasattr(anthropic, kind):
        pytest.skip(f"this anthropic has no {kind}")
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"{name} needs {NEEDS[name]}")

    return over(server, kind, **CLIENTS[name] | given)


@EACH
def test_each_client_is_guarded(kind: str) -> None:
    """Its wrapped client is one of its class, is told as guarded, and corrects replies."""
    server = CloudServer(BAD, GOOD)
    inner = made(kind, server)
    guarded = sr.wrap(inner, answer=Age)
    assert isinstance(guarded, type(inner))
    assert done(guarded.messages.create(**ASK)).content[0].text == '{"age": 5}'
    assert len(server.requests) == 2

    found = sr.guarded(guarded)
    assert {found["messages.create"], found["beta.messages.create"]} == {"guarded"}


@EACH
def test_each_client_sends_what_it_would(kind: str) -> None:
    """The first request is the one of the client itself: address, headers and body."""
    ours = CloudServer(GOOD)
    theirs = CloudServer(GOOD)
    done(sr.wrap(made(kind, ours)).messages.create(**ASK))
    done(made(kind, theirs).messages.create(**ASK))

    one, other = ours.requests[0], theirs.requests[0]
    signed = {"authorization", "x-amz-date"}  # of the time
    told = [
        {item for item in each.headers.items() if item[0] not in signed} for each in (one, other)
    ]
    assert told[0] == told[1]
    assert (one.content, str(one.url)) == (other.content, str(other.url))


@EACH
def test_each_client_streams(kind: str) -> None:
    """Streams bring the events of the good reply, also where a cloud sends frames."""
    server = CloudServer(BAD, GOOD)
    guarded = sr.wrap(made(kind, server), answer=Age)
    found = pieces(guarded.messages.create(**ASK, stream=True))
    assert [one.type for one in found] == [one["type"] for one in events_of(GOOD)]
    assert len(server.requests) == 2

    assert final(guarded.messages.stream(**ASK)).content[0].text == '{"age": 5}'
    answered = final(guarded.beta.messages.stream(**ASK, output_format=Age))
    assert answered.parsed_output == Age(age=5)


@pytest.mark.parametrize("kind", ["AnthropicBedrock", "AsyncAnthropicBedrock"])
@pytest.mark.parametrize("middleware", [False, True], ids=["plain", "middleware"])
def test_streams_are_live_over_frames(kind: str, middleware: bool) -> None:
    """Text that nothing restricts goes out as it comes, and the SDK's own objects hold it."""
    if middleware and kind.startswith("Async"):
        pytest.skip("the async twin has the same steps")
    seen: list[Any] = []

    def look(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        seen.append(response.status_code)
        return response

    given = {"middleware": [look]} if middleware else {}
    reply = message(text("hello world"))
    guarded = sr.wrap(made(kind, CloudServer(reply), **given))
    assert final(guarded.messages.stream(**ASK)).content[0].text == "hello world"
    assert seen == [200] * middleware


def test_frames_that_are_cut_are_no_reply() -> None:
    """A stream of frames that ends early, anywhere, is never accepted."""

    class Cut(CloudServer):
        size = 0

        def changed(self, body: bytes) -> bytes:
            return body[: self.size]

    whole = len(frames(events_of(GOOD)))
    assert whole > 61
    for size in range(0, whole, 61):
        server = Cut(GOOD)
        server.size = size
        guarded = sr.wrap(made("AnthropicBedrock", server, max_retries=0), max_retries=0)
        with pytest.raises(sr.CallFailed):
            pieces(guarded.messages.create(**ASK, stream=True))


def test_frames_that_are_broken_break_the_exchange() -> None:
    """A frame whose checksum is wrong is a failure of the connection, not an error of botocore."""

    class Broken(CloudServer):
        def changed(self, body: bytes) -> bytes:
            return body[:200] + bytes([body[200] ^ 1]) + body[201:]

    guarded = sr.wrap(made("AnthropicBedrock", Broken(GOOD), max_retries=0), max_retries=0)
    with pytest.raises(sr.TransportFailed) as caught:
        pieces(guarded.messages.create(**ASK, stream=True))

    assert (
        caught.value.attempts[0].failure == "connection: the frames of the stream cannot be decoded"
    )
    assert isinstance(caught.value, anthropic.AnthropicError)


def test_an_error_of_bedrock_is_the_sdks() -> None:
    """Bedrock's errors have a message alone; they are read as the SDK reads them."""
    error = http.Response(429, json={"message": "Too many tokens, please wait"})
    guarded = sr.wrap(made("AnthropicBedrock", CloudServer(error), max_retries=0))
    with pytest.raises(anthropic.RateLimitError) as caught:
        guarded.messages.create(**ASK)

    assert isinstance(caught.value, sr.TransportFailed)
