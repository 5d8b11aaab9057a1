"""``stream_mode="messages"`` of a graph.

An answer's words come as they are written, calls when their reply is accepted.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import strictreply as sr
from strictreply.coordination import Topology
from strictreply.integrations.langgraph import node_of
from strictreply.testing import ok
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
    NONSENSE,
    TEAM,
    Cast,
    InMemorySaver,
    act,
    add,
    agents,
    begin,
    final,
    graph,
    hand,
    outcome_of,
    spread,
    to_langgraph,
)

WORDS = 'Dear "Ada",\nthe plan is é \U0001f600 ready.'
LOOSE = sr.Tool.from_json_schema("add", {"type": "object"}, extra="schema")
"""What a model might believe of the tool ``add``."""

Piece = tuple[Any, str]


def streamed(
    cast: Cast, topology: Topology = TEAM, *, awaited: bool, subgraphs: bool = False
) -> list[Piece]:
    """Run a team, and return each message with the node that it is of."""
    team = agents(cast, topology, awaited=awaited, tools=[add])
    compiled = to_langgraph(topology, team).compile(checkpointer=InMemorySaver())
    how: dict[str, Any] = {"stream_mode": "messages", "subgraphs": subgraphs}

    async def all_pieces() -> list[Any]:
        return [one async for one in compiled.astream(begin(topology, "Go."), CONFIG, **how)]

    if awaited:
        pieces = asyncio.run(all_pieces())
    else:
        pieces = list(compiled.stream(begin(topology, "Go."), CONFIG, **how))

    if subgraphs:
        pieces = [piece for _, piece in pieces]
    return [(message, metadata["langgraph_node"]) for message, metadata in pieces]


def words(pieces: list[Piece]) -> dict[str, str]:
    """Join the words of each message by its id, but for those that were retracted."""
    joined: dict[str, str] = {}
    for message, _ in pieces:
        joined[message.id] = joined.get(message.id, "") + message.content
        if message.response_metadata.get("strictreply") == "retracted":
            del joined[message.id]
    return joined


both = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])


@both
def test_a2_the_words_of_an_answer_come_as_they_are_written(*, awaited: bool) -> None:
    """A final response comes in several pieces, its escapes resolved, of the node of its agent."""
    cast = Cast(lead=[hand("writer", "a plan")], writer=[final(WORDS)])
    pieces = streamed(cast, awaited=awaited)
    assert list(words(pieces).values()) == [WORDS]
    assert len(pieces) > 1
    assert {node for _, node in pieces} == {node_of("writer")}


@both
def test_a2_words_of_a_refused_reply_are_retracted(*, awaited: bool) -> None:
    """Nothing of it is left when the message with the same id says so, and the next has its own."""
    bad = act("final_response", content="wrong", extra=1)
    pieces = streamed(Cast(lead=[bad, NONSENSE, final("right")]), awaited=awaited)
    assert list(words(pieces).values()) == ["right"]

    shown = "".join(message.content for message, _ in pieces)
    assert shown in {"right", "wrongright"}


@both
def test_a2_words_that_are_for_another_agent_are_not_shown(*, awaited: bool) -> None:
    """What an agent hands over, and a question to the user, is no answer."""
    cast = Cast(
        lead=[hand("reader", "secret"), act("ask_user", question="Sure?")],
        reader=[hand("lead", "secret")],
    )
    assert streamed(cast, awaited=awaited) == []


@both
def test_a2_calls_come_when_their_reply_is_accepted(*, awaited: bool) -> None:
    """A refused call is not shown; an accepted one comes whole."""
    script = [ok.call(LOOSE, a=1, b="2"), ok.call(add, a=1, b=2), final("3")]
    pieces = streamed(Cast(lead=script), awaited=awaited)
    called = [(call["name"], call["args"]) for message, _ in pieces for call in message.tool_calls]
    assert called == [("add", {"a": 1, "b": 2})]
    assert [text for text in words(pieces).values() if text] == ["3"]


@both
def test_a2_an_answer_that_is_no_text_comes_whole(*, awaited: bool) -> None:
    """An object is shown as JSON when it is accepted."""
    pieces = streamed(Cast(lead=[final({"plan": ["a", "b"]})]), awaited=awaited)
    assert list(words(pieces).values()) == ['{"plan":["a","b"]}']


@both
def test_a2_branches_are_subgraphs(*, awaited: bool) -> None:
    """What agents in branches answer is shown with ``subgraphs=True`` alone, as in any graph."""

    def cast() -> Cast:
        return Cast(
            lead=[spread("ann", "bob", ann="a", bob="b"), final("all")],
            ann=[final("of ann")],
            bob=[act("final_response", content="of bob")],
        )

    alone = streamed(cast(), LAB, awaited=awaited)
    assert list(words(alone).values()) == ["all"]

    together = streamed(cast(), LAB, awaited=awaited, subgraphs=True)
    assert sorted(words(together).values()) == ["all", "of ann", "of bob"]


def test_a2_nothing_is_streamed_where_nobody_listens() -> None:
    """Without the mode the requests are what they were."""
    cast = Cast(lead=[final("done")])
    compiled = graph(cast, saver=InMemorySaver())
    *_, last = compiled.stream(begin(TEAM, "Go."), CONFIG, stream_mode="values")
    assert outcome_of(last)["content"] == "done"
    assert not cast.models["lead"].requests[0].body.get("stream")
