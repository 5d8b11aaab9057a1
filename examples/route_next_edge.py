"""A graph of your own: route_next is the edge behind each of its nodes.

There is no framework here: a node is a function of the state, and the graph
is a loop. With LangGraph the same edge is
``graph.add_conditional_edges(name, route_next, edge_map())``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from pydantic import BaseModel

import strictreply as sr
from strictreply.coordination import (
    END,
    HUMAN_INPUT,
    AgentState,
    HumanKind,
    Routes,
    counted,
    create_initial_state,
    explain_route,
    give_human_feedback,
    human_input,
    mark_complete,
    request_human_input,
    route_next,
)
from strictreply.coordination.state import ChatMessage
from strictreply.testing import ScriptedModel, faults, ok

ROUTES = Routes(
    nodes=("writer", "reviewer", "editor", HUMAN_INPUT, END),
    max_loop_count=20,
)
Node = Callable[[AgentState], AgentState]


class Turn(BaseModel):
    """What an agent says, and who is next."""

    text: str
    next_agent: Literal["writer", "reviewer", "human_input"]


class Graph:
    """Nodes by name. ``edge`` names the node that comes after a state."""

    def __init__(
        self, nodes: Mapping[str, Node], edge: Callable[[AgentState], str]
    ) -> None:
        # counted adds 1 to loop_count, and records each route in the state
        self._nodes = {
            name: counted(node, name=name, routes=ROUTES)
            for name, node in nodes.items()
        }
        self._edge = edge

    def run(self, state: AgentState, entry: str) -> AgentState:
        """Run from a node until the end, or until a human must answer."""
        name = entry
        while name != END:
            # a counted node returns the fields that it changed
            state = {**state, **self._nodes[name](state)}
            following = self._edge(state)
            print(f"{name} -> {following}")
            if name == following == HUMAN_INPUT:
                break  # nobody has answered yet
            name = following

        return state


def agent(
    name: str, client: sr.StrictClient[Turn], state: AgentState
) -> AgentState:
    """Ask the model, and put its valid reply into the state."""
    turn = client.answer(
        model=name, messages=state["messages"][-1]["content"]
    )
    said: ChatMessage = {
        "role": "assistant",
        "content": turn.text,
        "timestamp": datetime.now(UTC).isoformat(),
    }
    after: AgentState = {
        **state,
        "messages": [*state["messages"], said],
        "next_agent": turn.next_agent,
    }
    if turn.next_agent != HUMAN_INPUT:
        return after

    kind = HumanKind.PLAN_APPROVAL
    return request_human_input(after, kind=kind, resume_to="editor")


def editor(state: AgentState) -> AgentState:
    """Publish what was approved; anything else goes back to the writer."""
    if state["messages"][-1]["content"] == "approve":
        return mark_complete(state)
    return {**state, "next_agent": "writer"}


def graph_over(model: ScriptedModel) -> Graph:
    """Build the graph; in your program the model is ``OpenAI()``."""
    client = sr.wrap(model.openai(), answer=Turn)
    nodes: dict[str, Node] = {
        "writer": partial(agent, "writer", client),
        "reviewer": partial(agent, "reviewer", client),
        "editor": editor,
        HUMAN_INPUT: partial(human_input, home="writer"),
    }
    return Graph(nodes, partial(route_next, routes=ROUTES))


def main() -> None:
    """Ask for a page and approve it; then let two agents never finish."""
    to_reviewer = ok.answer({"text": "A page.", "next_agent": "reviewer"})
    to_human = ok.answer({"text": "Good.", "next_agent": "human_input"})
    # the first reply hands over to nobody: it is corrected, and not routed
    nobody = faults.not_in_enum(Turn, "next_agent", place="json")
    model = ScriptedModel(nobody, to_reviewer, to_human)
    graph = graph_over(model)

    state = graph.run(create_initial_state("A page on tea."), "writer")
    print("asked:", state["messages"][-1]["content"])
    state = graph.run(give_human_feedback(state, "approve"), HUMAN_INPUT)
    print("complete:", state["is_complete"], len(model.requests), "requests")

    to_writer = ok.answer({"text": "Again.", "next_agent": "writer"})
    circling = graph_over(ScriptedModel(*[to_reviewer, to_writer] * 10))
    state = circling.run(create_initial_state("A page on tea."), "writer")
    ended = explain_route(state, routes=ROUTES)
    print(f"ended: {ended.reason} {ended.loop}")


if __name__ == "__main__":
    main()
