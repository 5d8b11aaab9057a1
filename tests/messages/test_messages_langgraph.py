"""Agents on LangGraph whose models have the Messages API."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import strictreply as sr
from strictreply.coordination import Topology
from strictreply.integrations.langgraph import (
    ChatAgent,
    approvals_in,
    begin,
    outcome_of,
    to_langgraph,
)
from strictreply.testing import ScriptedClient, ScriptedModel, ok
from support.anthropic_rules import RulesServer
from support.claude_runs import THINKING, client, memory_client, refund, search
from support.messages import text, use

BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
THOUGHT = {"type": "thinking", "thinking": "hm"}
CONFIG: Any = {"configurable": {"thread_id": "t"}}
PAIR = Topology.supervisor("lead", ["writer"])
PEERS = Topology.swarm(["lead", "writer"], entry="lead")


def acts(action: str, **members: Any) -> list[Any]:
    """Return a reply that is an action."""
    return [THOUGHT, text(json.dumps({"next_action": action, **members}))]


def team(server: RulesServer, *tools: Any, is_async: bool = False) -> list[ChatAgent]:
    """Return two agents whose models are the server."""
    guarded = sr.wrap(memory_client(server)) if is_async else client(server, tools=[])
    return [agent(name, guarded, *tools) for name in ("lead", "writer")]


def agent(name: str, guarded: Any, *tools: Any) -> ChatAgent:
    """Return an agent that thinks."""
    asked = {**THINKING, "model": name}
    return ChatAgent(name=name, client=guarded, request=asked, tools=list(tools))


def invoked(graph: Any, given: Any, *, is_async: bool) -> Any:
    """Invoke a graph, awaiting or not."""
    if not is_async:
        return graph.invoke(given, CONFIG)

    return asyncio.run(graph.ainvoke(given, CONFIG))


def broken_rules(server: RulesServer) -> set[str]:
    """Return the rules that requests broke.

    An action has open objects, of which the API takes no schema as a format: that is asked once.
    """
    return {refusal.rule for refusal in server.refused} - {"format"}


REPLIES = [
    [THOUGHT, use({"query": "milk", "limit": 1}), use({"query": 1}, "toolu_b")],
    [THOUGHT, use({"query": "tea", "limit": 1}, "toolu_c")],
    acts("invoke_agent", action_input="writer", request="write"),
    acts("invoke_agent", action_input="lead", request="written"),
    acts("final_response", content="done"),
]


@BOTH
@pytest.mark.parametrize("topology", [PAIR, PEERS], ids=["supervisor", "swarm"])
def test_agents_with_tools_run(is_async: bool, topology: Topology) -> None:
    """Calls and their thoughts go back as they came; a state holds messages of chat completions."""
    with RulesServer(*REPLIES) as server:
        graph = to_langgraph(topology, team(server, search, is_async=is_async)).compile()
        state = invoked(graph, begin(topology, "hello"), is_async=is_async)

    assert broken_rules(server) == set()
    assert outcome_of(state)["content"] == "done"
    told = next(
        asked["messages"]
        for asked in server.asked
        if asked["messages"][-1]["content"] != "hello"
        and "is_error" not in json.dumps(asked["messages"])
    )
    kept, corrected = told[1]["content"][-2:]
    assert told[1]["content"][0] == server.sent[0]["content"][0]
    assert (kept["input"], corrected["input"]["query"]) == ({"query": "milk", "limit": 1}, "tea")
    assert [block["content"] for block in told[2]["content"]] == ['["milk"]', '["tea"]']

    roles = [turn["role"] for turn in state["threads"]["lead"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user", "assistant"]


@BOTH
def test_a_call_waits_for_its_approval(is_async: bool) -> None:
    """An interrupt is resumed with a decision, and the conversation goes on behind it."""
    calls = [THOUGHT, text("I do."), use({"query": "tea"}), use({"order": 3}, "toolu_b", "refund")]
    replies = [
        calls,
        acts("final_response", content="done"),
        acts("final_response", content="more"),
    ]
    with RulesServer(*replies) as server:
        agents = team(server, search, refund, is_async=is_async)
        graph = to_langgraph(PAIR, agents).compile(checkpointer=InMemorySaver())
        paused = invoked(graph, begin(PAIR, "refund it"), is_async=is_async)
        (call,) = approvals_in(paused)
        resumed: Any = Command(resume=call.approved().to_dict())
        state = invoked(graph, resumed, is_async=is_async)
        assert outcome_of(state)["content"] == "done"

        again = {"messages": [{"role": "user", "content": "again"}]}
        state = invoked(graph, again, is_async=is_async)

    assert broken_rules(server) == set()
    assert outcome_of(state)["content"] == "more"
    turns = server.asked[-1]["messages"]
    assert turns[1]["content"] == server.sent[0]["content"]
    assert turns[2]["content"][1]["content"] == "order 3 refunded"
    assert turns[-1] == {"role": "user", "content": "again"}


def test_words_of_an_answer_come_as_they_are_written() -> None:
    """Calls come whole with their accepted reply, the content of an answer in pieces."""
    with RulesServer(*REPLIES) as server:
        graph = to_langgraph(PAIR, team(server, search)).compile(checkpointer=InMemorySaver())
        pieces: Any = list(graph.stream(begin(PAIR, "hello"), CONFIG, stream_mode="messages"))

    assert broken_rules(server) == set()
    assert all(asked["stream"] for asked in server.asked)
    chunks = [chunk for chunk, _ in pieces]
    called = [call["args"] for chunk in chunks for call in chunk.tool_call_chunks]
    assert [json.loads(arguments)["query"] for arguments in called] == ["milk", "tea"]
    assert "".join(chunk.content for chunk in chunks) == "done"
    assert len([chunk for chunk in chunks if chunk.content]) > 1


def test_a_thread_goes_on_with_another_api() -> None:
    """A state of chat completions is continued over Messages, its calls and results included."""
    model = ScriptedModel(
        ok.call(search, query="tea", limit=1),
        ok.answer({"next_action": "invoke_agent", "action_input": "writer", "request": "write"}),
    )
    wrapped: Any = sr.wrap(ScriptedClient(model))
    chat = ChatAgent(name="lead", client=wrapped, request={"model": "lead"}, tools=[search])
    refused = {"type": "error", "error": {"type": "not_found_error", "message": "no"}}
    with RulesServer(refused, acts("final_response", content="done")) as server:
        lead, writer = team(server, search)
        state = to_langgraph(PAIR, [chat, writer]).compile().invoke(begin(PAIR, "hello"))
        assert outcome_of(state)["status"] == "failed"

        graph = to_langgraph(PAIR, [lead, writer]).compile()
        again = {**state, "next_agent": "lead", "outcome": None, "is_complete": False}
        state = graph.invoke(again)

    assert broken_rules(server) == set()
    assert outcome_of(state)["content"] == "done"
    turns = server.asked[-1]["messages"]
    (call,) = turns[1]["content"]
    assert (call["type"], call["input"]) == ("tool_use", {"query": "tea", "limit": 1})
    assert turns[2]["content"][0]["tool_use_id"] == call["id"]
