"""``response.done`` in place of ``response.completed``: the end that the status in it says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import strictreply as sr
from support.scripted import Server
from support.scripted_responses import FLAT_SEARCH, wrap
from support.streamed_replies import ONCE
from wires.test_responses_attacks import (
    CREATED,
    CUT,
    FAILED,
    MILK,
    TEA,
    body,
    call_events,
    codes_of,
    end,
    events_of,
    exchange_of,
    item,
    text,
    text_events,
    told,
    whole,
)
from wires.test_responses_behind_end import DOORS, came

C = call_events()
T = text_events()


def done(*output: Any, **members: Any) -> dict[str, Any]:
    """The event of a response that is done."""
    members = {"object": "realtime.response", **members}
    response = {
        name: value for name, value in whole(*output, **members).items() if value is not ...
    }
    return told("done", response=response)


READ: dict[str, list[dict[str, Any]]] = {
    "a text": [CREATED, *T, done(text("m", "Hello"))],
    "a text that only its events have": [CREATED, *T, done()],
    "a text without a status": [CREATED, *T, done(text("m", "Hello"), status=...)],
    "a text without its events": [done(text("m", "Hello"))],
    "a call": [CREATED, *C, done(item("a", TEA))],
    "a call that only its events have": [CREATED, *C, done()],
    "a call, and then the other end": [CREATED, *C, done(item("a", TEA)), end(item("a", TEA))],
    "the other end, and then this": [CREATED, *C, end(item("a", TEA)), done(item("a", TEA))],
    "the other end, and then a stub": [CREATED, *T, end(text("m", "Hello")), done()],
    "a stub, and then the other end": [CREATED, *T, done(), end(text("m", "Hello"))],
}


def _final(*events: dict[str, Any], is_async: bool) -> Any:
    """What the SDK's own helper for streams makes of these events."""
    asked: dict[str, Any] = {"model": "m", "input": "x", "tools": [FLAT_SEARCH]}
    server = Server(body(*events))
    if not is_async:
        with wrap(server.client(), policy=ONCE).responses.stream(**asked) as stream:
            return stream.get_final_response()

    async def main() -> Any:
        async with wrap(server.async_client(), policy=ONCE).responses.stream(**asked) as stream:
            return await stream.get_final_response()

    return asyncio.run(main())


@pytest.mark.parametrize("name", READ)
def test_a_response_that_is_done_is_completed(name: str) -> None:
    """The typed reply has its text or its call, and the attempt names the row."""
    exchange = exchange_of(*READ[name])
    reply: Any = exchange.reply
    said = reply.answer if isinstance(reply, sr.DirectAnswer) else reply.calls[0].args
    is_text = any(one.get("type") == "response.output_text.delta" for one in READ[name])
    assert said == ("Hello" if is_text or name.startswith("a text") else json.loads(TEA))
    assert "response_done" in exchange.attempts[-1].lenient


@pytest.mark.parametrize("name", READ)
def test_the_drop_in_ends_with_the_events_of_the_api(name: str) -> None:
    """No event has a type that the SDK does not know, and there is one end."""
    passed = events_of(*READ[name])
    kinds = [one.type for one in passed]
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.completed") == 1
    assert "response.done" not in kinds

    response = passed[-1].response
    assert response.status == "completed"
    assert response.object == "response"
    assert response.output_text == "Hello" or response.output[0].arguments == TEA


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", READ)
def test_the_helper_of_the_sdk_has_its_response(name: str, is_async: bool) -> None:
    """The raw client's raises, since it never sees the end."""
    final = _final(*READ[name], is_async=is_async)
    assert final.output_text == "Hello" or final.output[0].arguments == TEA


CONTRADICTIONS: dict[str, list[dict[str, Any]]] = {
    "other arguments": [CREATED, *C, done(item("a", MILK))],
    "another text": [CREATED, *T, done(text("m", "Bye"))],
    "other arguments behind the end": [CREATED, *C, end(item("a", TEA)), done(item("a", MILK))],
    "other arguments before the end": [CREATED, *C, done(item("a", TEA)), end(item("a", MILK))],
    "failed behind the end": [CREATED, *C, end(item("a", TEA)), done(status="failed")],
    "cut behind the end": [CREATED, *C, end(item("a", TEA)), done(status="incomplete")],
}


@DOORS
@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.req("T10")
def test_two_meanings_are_refused(name: str, ask: Any) -> None:
    """An end of this name is held to the events, and to another end, as any."""
    *shown, last = ask(CONTRADICTIONS[name])
    assert isinstance(last, sr.TransportFailed)
    assert [issue.code for issue in last.attempts[-1].issues] == ["envelope.malformed"]
    assert not [one for one in shown if getattr(one, "type", "") == "response.completed"]


def _details(kind: str, **members: Any) -> dict[str, Any]:
    return {"status": kind, "status_details": {"type": kind, **members}}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "cut": (told("done", response=CUT), "reply.truncated"),
    "cut, as the realtime API says it": (
        done(item("a", TEA), **_details("incomplete", reason="max_output_tokens")),
        "reply.truncated",
    ),
    "filtered, as the realtime API says it": (
        done(item("a", TEA), **_details("incomplete", reason="content_filter")),
        "reply.content_filter",
    ),
    "failed": (told("done", response=FAILED), "envelope.error"),
    "failed, as the realtime API says it": (
        done(item("a", TEA), **_details("failed", error={"code": "server_error"})),
        "envelope.error",
    ),
    "cancelled": (done(item("a", TEA), status="cancelled"), "reply.broken_off"),
    "in progress": (done(item("a", TEA), status="in_progress"), "reply.broken_off"),
    "an error beside": (
        done(item("a", TEA), error={"code": "server_error", "message": "boom"}),
        "envelope.error",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_end_is_the_one_that_its_status_says(name: str) -> None:
    """A call that is whole in its events is not run when the response did not complete."""
    event, code = BAD[name]
    with pytest.raises(sr.CallFailed) as refused:
        exchange_of(CREATED, *C, event)

    assert codes_of(refused) == {code}


def test_a_heartbeat_of_that_name_ends_nothing() -> None:
    """Without a response it says nothing, and the stream has no end."""
    with pytest.raises(sr.CallFailed) as refused:
        exchange_of(CREATED, *C, told("done"))

    assert codes_of(refused) == {"reply.broken_off"}


@pytest.mark.parametrize("name", ["a text", "a call"])
def test_a_strict_reading_knows_no_such_end(name: str) -> None:
    """The API has no event of this name, so that its stream is not over."""
    with pytest.raises(sr.CallFailed) as refused:
        exchange_of(*READ[name], dialects="strict")

    assert codes_of(refused) == {"envelope.malformed"}
    client = wrap(Server(body(*READ[name])).client(), policy=ONCE, dialects="strict")
    asked = {"model": "m", "input": "x", "tools": [FLAT_SEARCH], "stream": True}
    *_, last = came(client.responses.create(**asked))
    assert isinstance(last, sr.CallFailed)
