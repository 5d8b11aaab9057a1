"""A guarded client hands on each recorded reply as the raw one does: all events, all members."""

from __future__ import annotations

import inspect
import json
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import strictreply as sr
from support.claude import anthropic, http
from support.messages import events, message, text, thought, use
from support.shared_data import needs_shared
from support.traffic import messages_recorded

POLICY = sr.RetryPolicy(max_retries=0, transport_retries=0, max_continuations=0)
PING = {"type": "ping"}
EVERY = 3
"""Of so many recorded exchanges one is played."""


def client(body: bytes, kind: str) -> Any:
    """Return a client that is answered with a body."""

    def answer(_: object) -> Any:
        return http.Response(200, content=body, headers={"content-type": kind})

    held = http.Client(transport=http.MockTransport(answer))
    return anthropic.Anthropic(api_key="none", max_retries=0, http_client=held)


def keywords(method: Callable[..., object], asked: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded request as the keywords of a method."""
    known = inspect.signature(method).parameters
    given = {name: value for name, value in asked.items() if name in known and name != "stream"}
    others = {name: asked[name] for name in asked if name not in known}
    extra = {"extra_body": others} if others else {}
    return {"max_tokens": 1000, "timeout": 600, **given, **extra}


def dumped(value: Any) -> Any:
    """Return an object of the SDK as plain JSON."""
    return value.model_dump(exclude_unset=True)


def created(one: Any, asked: dict[str, Any]) -> Any:
    """Return what ``create`` returns."""
    return dumped(one.messages.create(**keywords(one.messages.create, asked)))


def in_beta(one: Any, asked: dict[str, Any]) -> Any:
    """Return what ``create`` of the beta returns."""
    return dumped(one.beta.messages.create(**keywords(one.beta.messages.create, asked)))


def streamed(one: Any, asked: dict[str, Any]) -> Any:
    """Return the events of ``create``."""
    given = keywords(one.messages.create, asked)
    return [dumped(event) for event in one.messages.create(stream=True, **given)]


def helped(one: Any, asked: dict[str, Any]) -> Any:
    """Return the events of the SDK's own stream, and its final message."""
    with one.messages.stream(**keywords(one.messages.stream, asked)) as stream:
        return [dumped(event) for event in stream], dumped(stream.get_final_message())


DOORS = {
    "create": (created, "json"),
    "beta": (in_beta, "json"),
    "create, streamed": (streamed, "sse"),
    "stream": (helped, "sse"),
}
KINDS = {"json": "application/json", "sse": "text/event-stream"}


@needs_shared
@pytest.mark.parametrize("door", DOORS)
def test_a_recorded_reply_is_handed_on_as_it_came(door: str) -> None:
    """What is accepted is what the raw client returns, event for event and member for member."""
    call, format_ = DOORS[door]
    same = 0
    refused = Counter[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in messages_recorded(format_)[::EVERY]:
            came = one["response"]
            body = came.encode() if isinstance(came, str) else json.dumps(came).encode()
            try:
                expected = call(client(body, KINDS[format_]), one["request"])
            except Exception:  # noqa: BLE001, S112 - what the raw SDK cannot read
                continue

            guarded = sr.wrap(client(body, KINDS[format_]), policy=POLICY)
            try:
                assert call(guarded, one["request"]) == expected, one["id"]
            except sr.CallFailed as error:
                refused.update(issue.code for issue in error.attempts[-1].issues)
                continue

            same += 1

    assert same > 40
    expected_codes = {
        "reply.truncated",
        "reply.refusal",
        "reply.empty",
        "reply.paused",
        "args.extra_key",
        "shape.empty",
    }
    assert refused.keys() <= expected_codes
    assert refused.total() < same / 10


def between(told: list[Any], more: Any) -> list[Any]:
    """Return events with another one behind each."""
    return [one for event in told for one in (event, more)]


STREAMS: dict[str, list[Any]] = {
    "pings": between(
        events(message(text("Tea is sold out."), thought("hm"), text("Sorry."))), PING
    ),
    "a tool of the server behind text that may be a call": events(
        message(
            text("I look `"),
            {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"q": "tea"}},
            {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []},
            text("Tea is sold out."),
        )
    ),
    "a call behind all that": between(
        events(message(thought("hm"), text("I look."), use({"query": "tea"}))), PING
    ),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("door", ["create, streamed", "stream"])
def test_the_order_of_events_is_the_servers(name: str, door: str) -> None:
    """What waits, and what passes, comes out in the order in which it came."""
    call, _ = DOORS[door]
    body = b"".join(
        b"event: %s\ndata: %s\n\n" % (one["type"].encode(), json.dumps(one).encode())
        for one in STREAMS[name]
    )
    tool = {"name": "search", "input_schema": {"type": "object", "properties": {"query": {}}}}
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    expected = call(client(body, KINDS["sse"]), asked)
    assert call(sr.wrap(client(body, KINDS["sse"])), asked) == expected
