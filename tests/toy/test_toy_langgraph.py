"""Agents on LangGraph whose models have a third API; a state holds the same whichever answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

import strictreply as sr
from strictreply.coordination import Topology
from strictreply.integrations.langgraph import ChatAgent, begin, outcome_of, to_langgraph
from strictreply.testing import ScriptedClient, ScriptedModel, ok
from toy.toy_engine import Engine, said, used
from toy.toy_sdk import AsyncToy, Toy

TEAM = Topology.of({"lead": ["writer", "User"], "writer": ["lead", "User"]}, entry="lead")


@sr.tool
def search(query: str) -> str:
    """Search the shop."""
    return f"found {query}"


def acts(action: str, **members: Any) -> dict[str, Any]:
    """Return a reply that is an action."""
    return said(json.dumps({"next_action": action, **members}))


def toy_agent(name: str, client: Any, **settings: Any) -> ChatAgent:
    """Return an agent of the engine."""
    return ChatAgent(name=name, client=client, request={"engine": name}, tools=[search], **settings)


REPLIES = [
    used({"query": 1}, {"query": "tea"}, ticket=7),
    used({"query": "milk"}, ticket=30),
    acts("invoke_agent", action_input="writer", request="write"),
    acts("invoke_agent", action_input="lead", request="written"),
    acts("final_response", content="done"),
]


def proven(engine: Engine, state: Any) -> None:
    """Check what a run of ``REPLIES`` asked and left behind."""
    assert outcome_of(state)["content"] == "done"
    assert [turn["by"] for turn in engine.asked[2]["talk"]] == [
        *("rules", "human"),
        *("engine", "gadget"),
    ]
    turn, results = engine.asked[2]["talk"][2:]
    assert turn == used({"query": "milk"}, {"query": "tea"}, ticket=7)["turn"]
    assert results["says"] == [
        {"outcome": "found milk", "ticket": 7},
        {"outcome": "found tea", "ticket": 8},
    ]
    assert [asked["engine"] for asked in engine.asked] == ["lead"] * 3 + ["writer", "lead"]
    assert [turn["by"] for turn in engine.asked[-1]["talk"]] == [
        *("rules", "human", "engine", "gadget", "engine"),
        "human",
    ]

    roles = [turn["role"] for turn in state["threads"]["lead"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user", "assistant"]
    calling = state["threads"]["lead"][1]
    assert calling["tool_calls"][0]["function"] == {
        "name": "search",
        "arguments": '{"query": "milk"}',
    }


def test_agents_with_tools_run(engine: Engine) -> None:
    """Calls go back as they came, with their results in the API's own turns."""
    engine.replies = list(REPLIES)
    client = sr.wrap(Toy(engine.url), api="toy")
    team = [toy_agent(name, client) for name in ("lead", "writer")]
    proven(engine, to_langgraph(TEAM, team).compile().invoke(begin(TEAM, "hello")))


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_agents_with_async_clients_run(engine: Engine) -> None:
    """The same, awaiting."""
    engine.replies = list(REPLIES)
    client: Any = sr.wrap(AsyncToy(engine.url), api="toy")
    team = [toy_agent(name, client) for name in ("lead", "writer")]
    proven(engine, await to_langgraph(TEAM, team).compile().ainvoke(begin(TEAM, "hello")))


def test_a_thread_goes_on_with_another_api(engine: Engine) -> None:
    """A state of the toy is continued by chat completions: they are sent nothing of the toy's."""
    engine.replies = [*REPLIES[:3]]
    client = sr.wrap(Toy(engine.url), api="toy")
    model = ScriptedModel(
        ok.answer({"next_action": "invoke_agent", "action_input": "lead", "request": "written"}),
        ok.answer({"next_action": "final_response", "content": "done"}),
    )
    wrapped: Any = sr.wrap(ScriptedClient(model))
    writer = ChatAgent(name="writer", client=wrapped, request={"model": "writer"})
    graph = to_langgraph(TEAM, [toy_agent("lead", client), writer])

    engine.replies.append({"mishap": {"why": "no", "sort": "wrong"}})
    state = graph.compile().invoke(begin(TEAM, "hello"))
    assert outcome_of(state)["status"] != "completed"

    lead = ChatAgent(name="lead", client=wrapped, request={"model": "lead"}, tools=[search])
    other = to_langgraph(TEAM, [lead, writer]).compile()
    went_on = other.invoke({**state, "next_agent": "lead", "outcome": None, "is_complete": False})
    assert outcome_of(went_on)["content"] == "done"
    messages = model.requests[-1].messages
    assert [message["role"] for message in messages][:5] == [
        *("system", "user", "assistant"),
        *("tool", "tool"),
    ]
    assert "came_as" not in json.dumps(messages)


def test_the_conversation_is_set_by_the_run(engine: Engine) -> None:
    """The keyword of the API's turns is refused, as ``messages`` is."""
    client = sr.wrap(Toy(engine.url), api="toy")
    with pytest.raises(sr.ContractError, match="talk"):
        ChatAgent(name="lead", client=client, request={"engine": "e", "talk": "hi"})
