"""An observing client hands on every recorded reply of real servers byte for byte."""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

import strictreply as sr
from support.scripted import http
from support.shared_data import SHARED, needs_shared

POLICY = sr.RetryPolicy(
    max_retries=0, transport_retries=0, max_continuations=0, early_stop="off", deadline=None
)
FILES = {
    "chat.completions": "openai-chat",
    "responses": "openai-responses",
    "messages": "anthropic-messages",
}
PAUSED = "reply.paused"
"""A turn that an enforcing client continues, and that an observed caller goes on with itself."""


def recorded(path: str) -> list[dict[str, Any]]:
    """Return the exchanges of an API that have a request and a response as JSON or events."""
    with gzip.open(SHARED / "traffic" / f"traffic-{FILES[path]}.jsonl.gz", "rt") as lines:
        every = [json.loads(line) for line in lines]

    formats = ("json", "sse")
    return [one for one in every if isinstance(one["request"], dict) and one["format"] in formats]


class Played:
    """A server that answers one recorded exchange, and keeps what it was asked."""

    def __init__(self, exchange: dict[str, Any], library: Any) -> None:
        self._exchange = exchange
        self._library = library
        self.asked: list[object] = []

    def __call__(self, request: Any) -> Any:
        """Answer a request."""
        self.asked.append((str(request.url), request.content, dict(request.headers)))
        said = self._exchange["response"]
        body = said if isinstance(said, str) else json.dumps(said)
        kinds = {"sse": "text/event-stream", "json": "application/json"}
        headers = {"content-type": kinds[self._exchange["format"]], "request-id": "req_1"}
        status = self._exchange["status"]
        return self._library.Response(status, content=body.encode(), headers=headers)


def client_of(path: str, exchange: dict[str, Any]) -> tuple[Any, Played]:
    """Return a client that is answered with an exchange, and its server."""
    module: Any = openai
    library: Any = http
    if path == "messages":
        module = importlib.import_module("anthropic")
        name = module.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]
        library = importlib.import_module(name)

    played = Played(exchange, library)
    held = library.Client(transport=library.MockTransport(played))
    kind = module.Anthropic if path == "messages" else module.OpenAI
    return kind(api_key="none", max_retries=0, http_client=held), played


def keywords(create: Callable[..., object], asked: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded request as the keywords of a method."""
    known = inspect.signature(create).parameters
    given = {name: value for name, value in asked.items() if name in known and name != "stream"}
    others = {name: asked[name] for name in asked if name not in known and name != "stream"}
    extra = {"extra_body": others} if others else {}
    needed = {"model": "m", "timeout": 600} | ({"max_tokens": 9} if "max_tokens" in known else {})
    return {**needed, **given, **extra}


def namespace(client: Any, path: str) -> Any:
    """Return the member of a client at a path."""
    for name in path.split("."):
        client = getattr(client, name)
    return client


def dumped(value: Any) -> object:
    """Return an object of the SDK as it can be compared."""
    written = value.model_dump(mode="json", exclude_unset=True, warnings=False)
    return type(value).__name__, json.dumps(written, default=str)


def ways(path: str, exchange: dict[str, Any]) -> Iterator[tuple[str, Callable[[Any], object]]]:
    """Yield the ways in which a program asks for the exchange."""
    asked = exchange["request"]

    def given(client: Any) -> tuple[Any, dict[str, Any]]:
        held = namespace(client, path)
        return held, keywords(held.create, asked)

    def streamed(client: Any) -> object:
        held, named = given(client)
        return [dumped(one) for one in held.create(stream=True, **named)]

    def streamed_raw(client: Any) -> object:
        held, named = given(client)
        with held.with_streaming_response.create(stream=True, **named) as opened:
            return b"".join(opened.iter_bytes())

    def whole(client: Any) -> object:
        held, named = given(client)
        return dumped(held.create(**named))

    def raw(client: Any) -> object:
        held, named = given(client)
        opened = held.with_raw_response.create(**named)
        return opened.http_response.content, dict(opened.headers), dumped(opened.parse())

    if exchange["format"] == "sse":
        yield "stream", streamed
        yield "raw stream", streamed_raw
    else:
        yield "create", whole
        yield "raw", raw


def outcome(ask: Callable[[Any], object], client: Any) -> object:
    """Return what came of a call, or the error that was raised."""
    try:
        return ask(client)
    except Exception as error:  # noqa: BLE001 - whatever is raised
        return type(error).__name__, str(error)[:300]


def verdict(attempts: list[sr.Attempt]) -> object:
    """Return what an attempt says of its reply."""
    return [([(one.code, one.path) for one in each.issues], each.failure) for each in attempts]


@needs_shared
@pytest.mark.one_lane
@pytest.mark.parametrize("path", FILES)
def test_every_recorded_exchange_comes_as_the_raw_client_gives_it(path: str) -> None:
    """Request, result and error are equal; the verdict is that of an enforcing client."""
    if path == "messages":
        pytest.importorskip("anthropic", reason="needs the anthropic SDK")

    counted: Counter[str] = Counter()
    for exchange in recorded(path):
        for way, ask in ways(path, exchange):
            raw, first = client_of(path, exchange)
            expected = outcome(ask, raw)
            inner, second = client_of(path, exchange)
            seen: list[sr.Attempt] = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sr.ContractWarning)
                came = outcome(ask, sr.wrap(inner, mode="observe", on_attempt=seen.append))
                held = verdict(seen)
                enforced = _enforced(path, exchange, ask) if way in {"create", "stream"} else None

            assert came == expected, (exchange["id"], way)
            assert first.asked == second.asked, (exchange["id"], way)
            counted["exchanges"] += 1
            if enforced and seen and PAUSED not in str(enforced):
                assert held == enforced, (exchange["id"], way)
                counted["verdicts"] += 1

    assert counted["exchanges"] > 100
    assert counted["verdicts"] > 50


def _enforced(path: str, exchange: dict[str, Any], ask: Callable[[Any], object]) -> object:
    """Return the verdict of an enforcing client; empty for a request that it refuses."""
    client, _ = client_of(path, exchange)
    attempts: list[sr.Attempt] = []
    outcome(ask, sr.wrap(client, policy=POLICY, on_attempt=attempts.append))
    return verdict(attempts)
