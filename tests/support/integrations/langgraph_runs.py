"""A small team on LangGraph, each agent with a script of its own, and what its tests use with it.

Parallel branches are served in any order alike. A test that imports this is skipped without
LangGraph.
"""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import strictreply as sr
from strictreply.coordination import ErrorPolicy, Topology
from strictreply.core import JSON, JSONObject
from strictreply.integrations.langgraph import (
    ChatAgent,
    begin,
    outcome_of,
    outcomes_of,
    to_langgraph,
)
from strictreply.testing import HTTPReply, LoopbackServer, ScriptedClient, ScriptedModel, Step, ok
from strictreply.testing.mounting import AsyncScriptedClient

__all__ = [
    "CONFIG",
    "LAB",
    "NONSENSE",
    "ONE_RETRY",
    "TEAM",
    "Cast",
    "Command",
    "InMemorySaver",
    "act",
    "add",
    "agents",
    "begin",
    "final",
    "graph",
    "hand",
    "outcome_of",
    "outcomes_of",
    "run",
    "spread",
    "to_langgraph",
]

TEAM = Topology.of(
    {
        "lead": ["reader", "writer", "User"],
        "reader": ["lead"],
        "writer": ["lead", "User"],
    },
    entry="lead",
)
LAB = Topology.of(
    [
        *(("lead", name) for name in ("ann", "bob", "cid", "User")),
        *((name, "lead") for name in ("ann", "bob", "cid")),
        ("ann", "User"),
        ("bob", "End"),
        ("cid", "ann"),
        ("cid", "bob"),
    ],
    entry="lead",
)
ONE_RETRY = ErrorPolicy(budget=sr.RetryPolicy(max_retries=1, transport_retries=0))
CONFIG = {"configurable": {"thread_id": "1"}}


@sr.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def act(action: str, **members: Any) -> Step:
    """Reply with an action."""
    return ok.answer({"next_action": action, **members})


def hand(agent: str, request: Any = None) -> Step:
    """Reply with a hand-over."""
    return act(
        "invoke_agent", action_input=agent, **({} if request is None else {"request": request})
    )


def spread(*names: str, **requests: Any) -> Step:
    """Reply with a parallel hand-over."""
    return act("parallel_invoke", agents=list(names), agent_requests=requests)


def final(content: Any = "done") -> Step:
    """Reply with a final response."""
    return act("final_response", content=content)


NONSENSE = ok.answer("Let me think about it.")


class Cast:
    """A responder with a script for each agent; an agent's model has its name."""

    def __init__(self, **scripts: list[Step]) -> None:
        """Take the scripts; an agent without one is not expected to be asked."""
        self.models = {name: ScriptedModel(*steps) for name, steps in scripts.items()}

    def __call__(self, body: JSONObject) -> JSON | HTTPReply:
        """Serve the next step of the agent that is asked."""
        return self.models[body["model"]](body)

    def asked(self) -> dict[str, int]:
        """Count the requests by agent."""
        return {name: len(model.requests) for name, model in self.models.items()}

    def told(self, agent: str, number: int = -1) -> str:
        """Return the last message of one request of an agent."""
        return str(self.models[agent].requests[number].messages[-1]["content"])

    def serve(self) -> LoopbackServer:
        """Return a loopback server of the scripts."""
        return LoopbackServer(self)


def agents(
    cast: Cast, topology: Topology = TEAM, *, awaited: bool = False, **settings: Any
) -> list[ChatAgent]:
    """Make the agents of a topology, all through one client."""
    client: Any = sr.wrap(AsyncScriptedClient(cast) if awaited else ScriptedClient(cast))
    request = {name: {"model": name} for name in topology.agents}
    return [
        ChatAgent(name=name, client=client, request=request[name], **settings)
        for name in topology.agents
    ]


def graph(cast: Cast, topology: Topology = TEAM, *, saver: Any = None, **settings: Any) -> Any:
    """Build and compile the graph of a topology, every agent with the tool ``add``."""
    team = agents(cast, topology, tools=[add])
    return to_langgraph(topology, team, **{"policy": ONE_RETRY, **settings}).compile(
        checkpointer=saver
    )


def run(cast: Cast, topology: Topology = TEAM, **settings: Any) -> Any:
    """Run a team to its end."""
    return graph(cast, topology, **settings).invoke(begin(topology, "Go."), CONFIG)
