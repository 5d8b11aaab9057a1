"""A call that its events name twice: the server is asked again, and no call of another name runs.

Whichever event says the other name, and whether or not the other is a tool that is declared.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

import strictreply as sr
from support.scripted import SCHEMA, Server
from support.scripted_responses import FLAT_SEARCH, wrap
from support.streamed_replies import policy
from wires.test_responses_attacks import CREATED, TEA, body, call_events, end, item

FIND = FLAT_SEARCH | {"name": "find"}
ASK: dict[str, Any] = {"model": "m", "input": "x"}
C = call_events()
CALL_END = end(item("a", TEA))
GOOD = [CREATED, *C, CALL_END]


def named(event: dict[str, Any], **members: Any) -> dict[str, Any]:
    """An event whose item has other members."""
    return event | {"item": event["item"] | members}


CONTRADICTIONS: dict[str, list[dict[str, Any]]] = {
    "the done item": [CREATED, *C[:4], named(C[4], name="find"), CALL_END],
    "the done item, as the end": [
        CREATED,
        *C[:4],
        named(C[4], name="find"),
        end(item("a", TEA, name="find")),
    ],
    "the added item": [CREATED, named(C[0], name="find"), *C[1:], CALL_END],
    "the added item, of no output": [CREATED, named(C[0], name="find"), *C[1:], end()],
    "the added item, once more": [CREATED, C[0], named(C[0], name="find"), *C[1:], CALL_END],
    "the end of the arguments": [CREATED, *C[:3], C[3] | {"name": "find"}, C[4], CALL_END],
    "the end of the arguments, of no output": [
        CREATED,
        *C[:3],
        C[3] | {"name": "find"},
        C[4],
        end(),
    ],
    "the end": [CREATED, *C, end(item("a", TEA, name="find"))],
    "an event behind the end": [*GOOD, named(C[4], name="find")],
    "a namespace": [CREATED, *C[:4], named(C[4], namespace="web"), CALL_END],
}


def drop_in(server: Server, retries: int) -> list[tuple[str, str]]:
    """The calls of the response at the end of the stream."""
    client = wrap(server.client(), policy=policy(transport_retries=retries))
    asked = ASK | {"tools": [FLAT_SEARCH, FIND], "stream": True}
    *_, last = client.responses.create(**asked)
    return [(one.name, one.arguments) for one in last.response.output]


def adrop_in(server: Server, retries: int) -> list[tuple[str, str]]:
    """The same by an async client."""
    client = wrap(server.async_client(), policy=policy(transport_retries=retries))

    async def main() -> list[tuple[str, str]]:
        asked = ASK | {"tools": [FLAT_SEARCH, FIND], "stream": True}
        *_, last = [one async for one in await client.responses.create(**asked)]
        return [(one.name, one.arguments) for one in last.response.output]

    return asyncio.run(main())


def typed(server: Server, retries: int) -> list[tuple[str, str]]:
    """The calls of a typed stream."""
    tools = [sr.Tool.from_json_schema(name, SCHEMA) for name in ("search", "find")]
    held: dict[str, Any] = {"tools": tools, "api": "responses"}
    client: Any = wrap(server.client(), policy=policy(transport_retries=retries), **held)
    with client.stream(**ASK) as stream:
        for _ in stream:
            pass

    reply = stream.exchange.reply
    return [(call.tool, json.dumps(call.args, separators=(",", ":"))) for call in reply.calls]


DOORS = pytest.mark.parametrize("ask", [drop_in, adrop_in, typed])


@DOORS
@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.req("T10")
def test_the_same_request_is_sent_again(name: str, ask: Callable[..., Any]) -> None:
    """The model wrote one name and cannot put it right, so that it is told nothing."""
    server = Server(body(*CONTRADICTIONS[name]), body(*GOOD))
    assert ask(server, 1) == [("search", TEA)]
    first, second = map(json.loads, server.bodies)
    assert first == second


@DOORS
@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.req("T10")
def test_a_server_that_always_does_it_ends_the_call(name: str, ask: Callable[..., Any]) -> None:
    """The repeats are bounded, and the error is one of the transport."""
    server = Server(body(*CONTRADICTIONS[name]))
    with pytest.raises(sr.TransportFailed) as refused:
        ask(server, 2)

    codes = [[issue.code for issue in one.issues] for one in refused.value.attempts]
    assert codes == [["envelope.malformed"]] * 3
    assert len(server.bodies) == 3
