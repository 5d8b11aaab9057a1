"""A finish does not end the reading: what comes behind ``response.completed`` is held to it.

Every event comes in a piece of its own, so that nothing is read by chance.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import openai
import pytest

import strictreply as sr
from support.scripted import SCHEMA, Server
from support.scripted_responses import FLAT_SEARCH, wrap
from support.streamed_replies import DONE, ONCE, Body, over, policy, typed_event
from wires.test_responses_attacks import (
    CREATED,
    CUT,
    FAILED,
    MILK,
    TEA,
    call_events,
    end,
    item,
    text,
    text_events,
    told,
    whole,
)

ASK: dict[str, Any] = {"model": "m", "input": "x", "tools": [FLAT_SEARCH], "stream": True}
HELLO = [CREATED, *text_events(), end(text("m", "Hello"))]
CALL = [CREATED, *call_events(), end(item("a", TEA))]
DELTA = text_events(said="other")[2]
THOUGHT = {"type": "reasoning", "id": "r", "summary": []}
ERROR = {"type": "error", "code": "server_error", "message": "boom", "param": None}


def pieces(events: list[dict[str, Any]]) -> list[bytes]:
    """Each event as a piece of its own."""
    return [typed_event({"sequence_number": at, **one}) for at, one in enumerate(events)]


def drop_in(events: list[dict[str, Any]], **held: Any) -> list[Any]:
    """The events that the drop-in passes on before it raises, and what it raises."""
    server = Server(over(Body(pieces(events))))
    client = wrap(server.client(), policy=ONCE, **held)
    return came(client.responses.create(**ASK))


def came(events: Any) -> list[Any]:
    """What an iteration yields, up to its exception."""
    found: list[Any] = []
    try:
        found.extend(events)
    except sr.CallFailed as error:
        found.append(error)
    return found


def adrop_in(events: list[dict[str, Any]], **held: Any) -> list[Any]:
    """The same by an async client."""
    server = Server(over(Body(pieces(events))))
    client = wrap(server.async_client(), policy=ONCE, **held)
    found: list[Any] = []

    async def main() -> None:
        events = aiter(await client.responses.create(**ASK))
        try:
            while True:
                found.append(await anext(events))
        except StopAsyncIteration:
            pass
        except sr.CallFailed as error:
            found.append(error)

    asyncio.run(main())
    return found


def typed(events: list[dict[str, Any]], **held: Any) -> list[Any]:
    """What a typed stream brings: its last event, or its error."""
    search = sr.Tool.from_json_schema("search", SCHEMA)
    contract: dict[str, Any] = {"tools": [search], "parallel": True, "api": "responses"}
    server = Server(over(Body(pieces(events))))
    client: Any = wrap(server.client(), policy=ONCE, **contract, **held)
    return came(client.stream(model="m", input="x"))


DOORS = pytest.mark.parametrize("ask", [drop_in, adrop_in, typed])
CONTRADICTIONS: dict[str, list[dict[str, Any]]] = {
    "another text": [*HELLO, end(text("m", "Bye"))],
    "a call in place of the text": [*HELLO, end(item("a", TEA))],
    "failed": [*HELLO, told("failed", response=FAILED)],
    "incomplete": [*HELLO, told("incomplete", response=CUT)],
    "an error": [*HELLO, ERROR],
    "an error without its type": [*HELLO, {"error": {"message": "boom"}}],
    "more text": [*HELLO, DELTA],
    "more text of an item of its own": [*HELLO, *text_events("n", 1, "other")],
    "a text at its end": [*HELLO, text_events(said="other")[4]],
    "a done item with another text": [*HELLO, text_events(said="other")[-1]],
    "a refusal": [*HELLO, told("refusal.delta", output_index=0, item_id="m", delta="No.")],
    "other arguments of the call": [*CALL, *call_events(arguments=MILK)],
    "a piece of arguments": [*CALL, call_events()[1]],
    "another name of the call": [
        *CALL,
        told("output_item.done", output_index=0, item=item("a", TEA, name="other")),
    ],
    "half a further call": [*CALL, *call_events("b", MILK, 1)[:2]],
    "arguments of nothing": [
        *CALL,
        told("function_call_arguments.done", output_index=7, item_id="z", arguments=MILK),
    ],
}


@DOORS
@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.req("T10")
def test_what_contradicts_the_end_is_refused(name: str, ask: Callable[..., list[Any]]) -> None:
    """The caller is told, also where the text is out already, and no end comes out."""
    *shown, last = ask(CONTRADICTIONS[name])
    assert isinstance(last, sr.TransportFailed)
    assert isinstance(last, openai.OpenAIError)
    assert [issue.code for issue in last.attempts[-1].issues] == ["envelope.malformed"]
    assert not [one for one in shown if getattr(one, "type", "") == "response.completed"]


SAYS_NOTHING: dict[str, list[dict[str, Any]]] = {
    "nothing": [],
    "a heartbeat": [{"type": "keepalive"}],
    "an event without a type": [{}, {"usage": {"total_tokens": 15}}],
    "the end again": [HELLO[-1]],
    "the end again, without its output": [end()],
    "the text again, in pieces": text_events(),
    "the text again, at its end": text_events()[-3:],
    "the item again, alone": text_events()[-1:],
    "null and blank pieces": [DELTA | {"delta": None}, DELTA | {"delta": " "}],
    "the state again": [told("in_progress", response=whole(status="in_progress"))],
    "a thought": [
        told(f"output_item.{kind}", output_index=1, item=THOUGHT) for kind in ("added", "done")
    ],
    "an event of a new kind": [told("new_kind", item_id="m", output_index=0)],
}


@DOORS
@pytest.mark.parametrize("name", SAYS_NOTHING)
def test_what_says_nothing_leaves_the_reply(name: str, ask: Callable[..., list[Any]]) -> None:
    """Repeats, stubs and what nothing judges are no second meaning."""
    *_, last = ask([*HELLO, *SAYS_NOTHING[name]])
    if isinstance(last, sr.Accepted):
        assert last.reply == sr.DirectAnswer("Hello")
    else:
        assert last.response.output_text == "Hello"


@pytest.mark.parametrize("name", SAYS_NOTHING)
def test_what_is_read_behind_the_end_is_recorded(name: str) -> None:
    """A row names it, and a strict reading refuses what has a row."""
    attempts: list[sr.Attempt] = []
    drop_in([*HELLO, *SAYS_NOTHING[name]], on_attempt=attempts.append)
    rows = attempts[-1].lenient
    strict = drop_in([*HELLO, *SAYS_NOTHING[name]], dialects="strict")
    assert isinstance(strict[-1], sr.CallFailed) == bool(rows)
    assert set(rows) <= {"repeated_behind_end", "event_without_type"}


@DOORS
def test_a_further_call_counts(ask: Callable[..., list[Any]]) -> None:
    """It is a call of the reply as those before the end."""
    *_, last = ask([*CALL, *call_events("b", MILK, 1)])
    if isinstance(last, sr.Accepted):
        assert [call.args for call in last.reply.calls] == [json.loads(TEA), json.loads(MILK)]
    else:
        assert [one.arguments for one in last.response.output] == [TEA, MILK]


@DOORS
def test_a_further_call_is_judged(ask: Callable[..., list[Any]]) -> None:
    """One that does not fit its tool is refused as any other."""
    *_, last = ask([*HELLO, *call_events("b", '{"query": 1}', 1)])
    assert isinstance(last, sr.ReplyRejected)
    assert [issue.code for issue in last.issues] == ["args.type"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_end_of_all_ends_the_reading(is_async: bool) -> None:
    """Behind ``[DONE]`` nothing is read, as the SDK reads nothing there."""
    body = Body([*pieces(HELLO), DONE, typed_event(CONTRADICTIONS["another text"][-1])])
    server = Server(over(body))
    client = wrap(server.async_client() if is_async else server.client(), policy=ONCE)

    async def main() -> list[Any]:
        return [one async for one in await client.responses.create(**ASK)]

    given = asyncio.run(main()) if is_async else list(client.responses.create(**ASK))
    assert given[-1].response.output_text == "Hello"
    assert body.taken == len(HELLO) + 1
    assert body.is_closed


def test_a_body_that_breaks_off_behind_the_end_is_no_reply() -> None:
    """Its end never came: what was still to come is not known."""
    broken: Any = Body([*pieces(HELLO), ConnectionResetError("reset")])
    client = wrap(Server(over(broken)).client(), policy=ONCE)
    *_, last = came(client.responses.create(**ASK))
    assert isinstance(last, sr.TransportFailed)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunked(piece: bytes) -> bytes:
    """A piece of a body in HTTP's chunks."""
    return b"%x\r\n%s\r\n" % (len(piece), piece)


@pytest.fixture(params=[None, b": hi\n\n"], ids=["silent", "dripping"])
def staying(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that never closes its stream, and says nothing more, or comments."""
    done = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            while b"\r\n\r\n" not in connection.recv(65_536):
                pass

            connection.sendall(HEAD + b"".join(map(chunked, pieces(HELLO))))
            while not done.wait(0.05):
                if request.param is not None:
                    connection.sendall(chunked(request.param))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

    done.set()
    listening.close()


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("deadline", [None, 60.0])
def test_nobody_waits_for_a_server_that_stays(
    staying: str, deadline: float | None, is_async: bool
) -> None:
    """The reply is whole; the client's own timeouts are far longer than what it may take."""
    once = policy(max_retries=0, transport_retries=0, deadline=deadline)
    begun = monotonic()
    if is_async:

        async def main() -> list[Any]:
            raw = openai.AsyncOpenAI(api_key="none", base_url=staying, max_retries=0)
            async with wrap(raw, policy=once) as client:
                return [one async for one in await client.responses.create(**ASK)]

        given = asyncio.run(main())
    else:
        with wrap(openai.OpenAI(api_key="none", base_url=staying, max_retries=0), policy=once) as c:
            given = list(c.responses.create(**ASK))

    assert given[-1].response.output_text == "Hello"
    assert monotonic() - begun < 20
