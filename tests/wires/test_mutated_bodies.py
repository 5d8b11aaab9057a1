"""Bodies and events of servers with any one member changed: nothing foreign is ever raised."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import strictreply as sr
from strictreply.testing import writer_named
from support.openai_shapes import call, completion, message
from support.scripted import SCHEMA, Server, http
from support.streamed_replies import events, policy, response_events

VALUES: tuple[Any, ...] = (None, "", [], {}, 1.5, True, ["x"], {"a": 1}, ...)
"""What a member becomes; an ellipsis takes it out."""

WHOLE, SAMPLE = 700, 200
"""How many of the mutations of one reply are tried in a whole run and in any other, the same in
every run.
"""

ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Find tea."}]}
TOOL = {"type": "function", "function": {"name": "search", "parameters": SCHEMA}}
REPLIES = {
    "a text": completion(message("Tea is sold out.")),
    "a call": completion(message(None, [call("search", '{"query": "tea"}')]), "tool_calls"),
    "text and calls": completion(
        message("Both.", [call("search", '{"query": "tea"}'), call("search", '{"query": "milk"}')]),
        "tool_calls",
    ),
}


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each member, of every depth."""
    if at:
        yield at

    members = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        members = dict(enumerate(value)).items()

    for name, member in members:
        yield from places(member, (*at, name))


def changed(value: Any, at: tuple[Any, ...], member: Any) -> Any:
    """Return a value with one member changed."""
    whole = copy.deepcopy(value)
    holder = whole
    for token in at[:-1]:
        holder = holder[token]

    if member is ...:
        del holder[at[-1]]
    else:
        holder[at[-1]] = member

    return whole


def mutated(told: list[Any], count: int, dice: random.Random) -> list[list[Any]]:
    """Return some of the lists that have one event, or one body, with one member changed."""
    every = [
        (number, at, member)
        for number, one in enumerate(told)
        for at in places(one)
        for member in VALUES
    ]
    chosen = dice.sample(every, min(count, len(every)))
    return [
        [*told[:number], changed(told[number], at, member), *told[number + 1 :]]
        for number, at, member in chosen
    ]


def parsed(raw: Iterable[bytes]) -> list[Any]:
    """Return the JSON of the events of a stream."""
    lines = b"".join(raw).splitlines()
    data = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: {")]
    return [json.loads(one) for one in data]


def responded(told: list[Any], *, is_stream: bool, names: bool) -> Any:
    """Return the HTTP response with these events, or this one body."""
    if not is_stream:
        return http.Response(200, json=told[0])

    name = "event: {}\n" if names else ""
    body = "".join(
        name.format(one.get("type") if isinstance(one, dict) else "")
        + f"data: {json.dumps(one)}\n\n"
        for one in told
    )
    headers = {"content-type": "text/event-stream"}
    return http.Response(200, content=body.encode() + b"data: [DONE]\n\n", headers=headers)


def ask(client: Any, wire: str, *, is_stream: bool) -> None:
    """Ask once through the drop-in, and read all that comes."""
    if wire == "chat":
        told = client.chat.completions.create(**ASK, tools=[TOOL], stream=is_stream)
    else:
        tool = {"type": "function", "strict": False, **TOOL["function"]}  # type: ignore[dict-item]
        told = client.responses.create(
            model="m", input=ASK["messages"], tools=[tool], stream=is_stream
        )

    if is_stream:
        for _ in told:
            pass


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("wire", ["chat", "responses"])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_whatever_a_server_writes_no_foreign_exception_comes(
    name: str, wire: str, is_stream: bool, pytestconfig: pytest.Config
) -> None:
    """With any member changed or taken out, there is a reply or an exception of ours."""
    reply = REPLIES[name]
    if wire == "chat":
        told = parsed(events(reply)) if is_stream else [reply]
    else:
        whole = writer_named(wire).written(reply, {"model": "m", "input": "Find tea."})
        told = parsed(response_events(whole)) if is_stream else [whole]

    count = WHOLE if pytestconfig.option.whole else SAMPLE
    tried = mutated(told, count, random.Random(f"{name} {wire} {is_stream}"))
    assert len(tried) >= 100
    for one in tried:
        step = responded(one, is_stream=is_stream, names=wire == "responses")
        once = policy(max_retries=0, transport_retries=0)
        client = sr.wrap(Server(step).client(), policy=once, parallel=True)
        with suppress(sr.StrictReplyError):  # anything else fails the test
            ask(client, wire, is_stream=is_stream)
