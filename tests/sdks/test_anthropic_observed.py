"""The middleware and the spans of a client of the anthropic SDK see what they would without us."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
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
    client,
    done,
    events_of,
    failed,
    final,
    http,
    message,
    pieces,
    sse,
    text,
)

BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
HAS_SPANS = hasattr(anthropic.Anthropic, "open_telemetry")


class Seen:
    """Middleware that keeps what it saw, of a sync client or an async one."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.responses: list[tuple[str, int]] = []

    def of(self, *, is_async: bool) -> Any:
        """Return the middleware as a function of its kind."""

        def sync(request: Any, call_next: Any) -> Any:
            self.requests.append(request)
            response = call_next(request)
            self.responses.append((type(response).__name__, response.status_code))
            return response

        async def later(request: Any, call_next: Any) -> Any:
            self.requests.append(request)
            response = await call_next(request)
            self.responses.append((type(response).__name__, response.status_code))
            return response

        return later if is_async else sync


@BOTH
def test_middleware_runs_once_for_each_request(is_async: bool) -> None:
    """It sees each request of ours with its body, and the SDK's response, as without us."""
    seen = Seen()
    server = ClaudeServer(failed(529, "overloaded_error", **{"retry-after": "0"}), BAD, GOOD)
    own = client(server, is_async=is_async, middleware=[seen.of(is_async=is_async)])
    made = done(sr.wrap(own, answer=Age).messages.create(**ASK))

    kind = "AsyncAPIResponse" if is_async else "APIResponse"
    assert made.content[0].text == '{"age": 5}'
    assert seen.responses == [(kind, 529), (kind, 200), (kind, 200)]
    assert [one.json["model"] for one in seen.requests] == ["claude-x"] * 3
    assert len(server.requests) == 3


@BOTH
@pytest.mark.parametrize("way", ["stream=True", "stream", "parse", "post"])
def test_middleware_runs_on_each_way(is_async: bool, way: str) -> None:
    """However a program asks, the middleware sees both requests, and the good reply comes out."""
    seen = Seen()
    server = ClaudeServer(BAD, GOOD)
    own = client(server, is_async=is_async, middleware=[seen.of(is_async=is_async)])
    guarded = sr.wrap(own, answer=Age)
    if way == "stream=True":
        assert pieces(guarded.messages.create(**ASK, stream=True))[-1].type == "message_stop"
    elif way == "stream":
        assert final(guarded.messages.stream(**ASK)).content[0].text == '{"age": 5}'
    elif way == "parse":
        made = done(guarded.messages.parse(**ASK, output_format=Age))
        assert made.parsed_output == Age(age=5)
    else:
        made = done(guarded.post("/v1/messages", cast_to=anthropic.types.Message, body=ASK))
        assert made.content[0].text == '{"age": 5}'

    assert [status for _, status in seen.responses] == [200, 200]


def test_middleware_may_parse_and_answer_by_itself() -> None:
    """It may read the message, and return another one in its place, which is judged."""
    read: list[str] = []

    def reading(request: Any, call_next: Any) -> Any:
        response = call_next(request)
        read.append(response.parse().content[0].text)
        return response

    def answering(_request: Any, _call_next: Any) -> Any:
        return anthropic.types.Message.construct(**message(text("kept")))

    server = ClaudeServer(BAD, GOOD)
    assert sr.wrap(client(server, middleware=[reading]), answer=Age).messages.create(**ASK)
    assert read == ['{"age": 50}', '{"age": 5}']

    kept = sr.wrap(client(server, middleware=[answering])).messages.create(**ASK)
    assert kept.content[0].text == "kept"
    assert len(server.requests) == 2


def test_middleware_of_a_copy_runs() -> None:
    """``with_options(middleware=…)`` of a wrapped client is a guarded client that has it."""
    seen = Seen()
    server = ClaudeServer(BAD, GOOD)
    made = sr.wrap(client(server), answer=Age).with_options(middleware=[seen.of(is_async=False)])
    assert made.messages.create(**ASK).content[0].text == '{"age": 5}'
    assert [status for _, status in seen.responses] == [200, 200]


def test_requests_of_middleware_are_within_bounds() -> None:
    """The limits of a reply hold for what a client with middleware gets, too."""
    seen = Seen()
    long = message(text("x" * 100_000))
    limits = sr.Limits(reply_bytes=1_000)
    failures: list[str | None] = []
    options: tuple[dict[str, Any], ...] = ({}, {"middleware": [seen.of(is_async=False)]})
    for given in options:
        own = client(ClaudeServer(long), max_retries=0, **given)
        with pytest.raises(sr.TransportFailed) as caught:
            sr.wrap(own, limits=limits).messages.create(**ASK)
        failures.append(caught.value.attempts[0].failure)

    assert failures[0] == failures[1]
    assert str(failures[0]).startswith("response_too_large")
    assert len(seen.requests) == 1


def test_requests_are_kept_where_nobody_observes_them() -> None:
    """An empty middleware, and tracing without anybody who takes spans, cost no template."""
    server = ClaudeServer(GOOD)
    plain = sr.wrap(client(server, middleware=[]))
    for _ in range(3):
        plain.messages.create(**ASK)
    assert _proven(plain) == [True]

    seen = Seen()
    observed = sr.wrap(client(server, middleware=[seen.of(is_async=False)]))
    for _ in range(3):
        observed.messages.create(**ASK)
    assert _proven(observed) == []


def _proven(guarded: Any) -> list[bool]:
    alone = guarded._guard.namespaces.transport("messages")._sender[1]._client
    return [one.is_proven for one in alone._templates.kept.values()]


@pytest.mark.skipif(not HAS_SPANS, reason="anthropic before version 2 makes no spans")
@BOTH
def test_the_sdks_spans_are_made(is_async: bool) -> None:
    """Each request of ours is a span of the SDK's own, which says what came, streamed too."""
    exporting = pytest.importorskip(
        "opentelemetry.sdk.trace.export.in_memory_span_exporter", reason="needs OpenTelemetry's SDK"
    )
    tracing = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    exporter = exporting.InMemorySpanExporter()
    provider = tracing.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))

    server = ClaudeServer(BAD, GOOD)
    own = client(server, is_async=is_async, open_telemetry={"tracer_provider": provider})
    done(sr.wrap(own, answer=Age).messages.create(**ASK))

    body = _IN_PIECES[is_async](sse(events_of(GOOD)))
    server.replies = [http.Response(200, headers=EVENTS, stream=body)]
    pieces(sr.wrap(own, answer=Age).messages.create(**ASK, stream=True))

    spans = exporter.get_finished_spans()
    assert [one.name for one in spans] == ["anthropic.messages.create"] * 3
    assert [one.attributes["gen_ai.request.model"] for one in spans] == ["claude-x"] * 3
    assert [one.attributes.get("gen_ai.response.id") for one in spans] == ["msg_1"] * 3
    assert [one.attributes.get("gen_ai.usage.output_tokens") for one in spans] == [5] * 3
    assert spans[2].status.status_code.name == "OK"


EVENTS = {"content-type": "text/event-stream"}


class _Pieces(http.SyncByteStream):  # type: ignore[misc]  # the library that is installed
    """A body that comes in pieces."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._body), 100):
            yield self._body[start : start + 100]


class _LaterPieces(http.AsyncByteStream):  # type: ignore[misc]
    """The same of an async client."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), 100):
            yield self._body[start : start + 100]


_IN_PIECES: tuple[Any, Any] = (_Pieces, _LaterPieces)
