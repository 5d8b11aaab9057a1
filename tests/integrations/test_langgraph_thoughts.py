"""Agents on LangGraph whose models sign their thoughts."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Literal

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

import strictreply as sr
from strictreply.coordination import Topology
from strictreply.integrations.langgraph import ChatAgent, begin, to_langgraph
from strictreply.testing import SignedThoughts
from strictreply.testing.mounting import openai_client
from support.scripted import call, completion

TEAM = Topology.of({"lead": ["writer", "User"], "writer": ["lead"]}, entry="lead")


@sr.tool
def search(query: str) -> str:
    """Search the shop."""
    return f"found {query}"


def _calls(arguments: object, id_: str) -> dict[str, Any]:
    return completion(None, [call("search", arguments, id_)])


def _acts(action: str, **members: Any) -> dict[str, Any]:
    return completion(json.dumps({"next_action": action, **members}))


@pytest.mark.parametrize("spelling", ["thinking_blocks", "reasoning_details", "content"])
@pytest.mark.req("M94")
def test_no_thought_of_an_agent_is_refused(
    spelling: Literal["thinking_blocks", "reasoning_details", "content"],
) -> None:
    """An agent's calls go back with their thoughts, behind the prompt they were made behind."""
    steps = [
        _calls({"query": 3}, "wrong"),
        _calls({"query": "milk"}, "right"),
        completion("no action"),
        _calls({"query": "tea"}, "right2"),
        _acts("invoke_agent", action_input="writer", request="write"),
        _calls({"query": "ink"}, "right3"),
        _acts("invoke_agent", action_input="lead", request="written"),
        _calls({"query": 4}, "wrong2"),
        _calls({"query": "wax"}, "right4"),
        _acts("final_response", content="done"),
    ]
    asked: list[dict[str, Any]] = []
    left = iter(deepcopy(steps))

    def served(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return next(left)

    model = SignedThoughts(served, spelling=spelling)
    client = sr.wrap(openai_client(model))
    agents = [
        ChatAgent(name=name, client=client, request={"model": name}, tools=[search])
        for name in ("lead", "writer")
    ]

    ended = to_langgraph(TEAM, agents).compile().invoke(begin(TEAM, "hello"))

    assert model.refused == []
    assert ended["outcome"]["status"] == "completed"
    assert len(asked) == len(steps)
    # the result of the first call was read by a model that got its thought back
    assert "signature-1" in json.dumps(asked[2]["messages"])
    assert "bound_to" not in json.dumps([request["messages"] for request in asked])
