"""A research team with parallel workers, an error, and a debate.

Needs strictreply[langgraph].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from langgraph_models import debate_model, research_model
from openai import OpenAI

import strictreply as sr
from strictreply.coordination import ErrorPolicy, Topology
from strictreply.integrations.langgraph import (
    ChatAgent,
    begin,
    outcome_of,
    outcomes_of,
    to_langgraph,
)
from strictreply.testing import LoopbackServer

OTHERS = ("archivist", "analyst", "surveyor", "critic")
TEAM = Topology.of(
    {"lead": ["User", *OTHERS]} | {name: ["lead"] for name in OTHERS},
    entry="lead",
)
ONE_RETRY = ErrorPolicy(
    budget=sr.RetryPolicy(max_retries=1, transport_retries=0)
)


def team(openai: OpenAI) -> Any:
    """Build the graph; two agents may talk for at most three turns."""
    client = sr.wrap(openai)
    agents = [
        ChatAgent(name=name, client=client, request={"model": name})
        for name in TEAM.agents
    ]
    return to_langgraph(
        TEAM, agents, policy=ONE_RETRY, max_turns=3, max_loop_count=20
    )


def story(model: Callable[[Any], Any], question: str, answer: str) -> None:
    """Run to the end, give each question this answer; print the outcome."""
    config: Any = {"configurable": {"thread_id": question}}
    with (
        LoopbackServer(model) as server,
        OpenAI(
            base_url=server.base_url, api_key="none", timeout=30.0
        ) as openai,
    ):
        graph = team(openai).compile(checkpointer=InMemorySaver())
        state = graph.invoke(begin(TEAM, question), config)
        while waiting := state.get("__interrupt__"):
            print(f"the user is asked: {waiting[0].value['question']}")
            print(f"the user says: {answer}")
            state = graph.invoke(Command(resume=answer), config)

    for branch in outcomes_of(state).values():
        ended = f"{branch['status']} ({branch['reason']})"
        print(f"{branch['agent']}: {ended}: {branch['content']}")

    outcome = outcome_of(state)
    ended = f"{outcome['status']} ({outcome['reason']})"
    turns = state["loop_count"]
    print(f"{ended} after {turns} turns: {outcome['content']}")


def main() -> None:
    """Do the research, then let two agents argue."""
    story(research_model(), "What do we know about tea?", "retry")
    story(debate_model(), "Is tea best?", "abort")


if __name__ == "__main__":
    main()
