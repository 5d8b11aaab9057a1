"""A tutor that survives its process: agents, a tool, a human who decides.

Needs strictreply[langgraph].
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from langgraph_models import tutor_model
from openai import OpenAI

import strictreply as sr
from strictreply.coordination import HumanKind, Topology
from strictreply.integrations.langgraph import (
    ChatAgent,
    begin,
    outcome_of,
    to_langgraph,
)
from strictreply.testing import LoopbackServer

TOPOLOGY = Topology.of(
    {
        "coordinator": ["course_advisor", "learning_planner", "User"],
        "course_advisor": ["coordinator"],
        "learning_planner": ["coordinator", "User"],
    },
    entry="coordinator",
)
CONFIG: Any = {"configurable": {"thread_id": "grace"}}
WISH = "I want to learn statistics."


@sr.tool
def search_courses(topic: str) -> list[str]:
    """Search the catalogue."""
    return [f"{topic.title()} 101", f"{topic.title()} 201"]


def tutor(model: OpenAI) -> Any:
    """Build the graph.

    The planner asks for approval of a plan: approve, revise or free text.
    """
    own: dict[str, Any] = {
        "coordinator": {},
        "course_advisor": {"tools": [search_courses]},
        "learning_planner": {"asks": HumanKind.PLAN_APPROVAL},
    }
    client = sr.wrap(model)
    agents = [
        ChatAgent(name=name, client=client, request={"model": name}, **more)
        for name, more in own.items()
    ]
    return to_langgraph(TOPOLOGY, agents, max_loop_count=20)


def advance(
    base_url: str, database: str, answer: str | None = None
) -> Iterator[str]:
    """Begin the run, resume it after a kill, or answer its question.

    Yields each step, and the outcome.
    """
    model = OpenAI(base_url=base_url, api_key="none", timeout=30.0)
    with model, SqliteSaver.from_conn_string(database) as saver:
        graph = tutor(model).compile(checkpointer=saver)
        begun = graph.get_state(CONFIG).created_at is not None
        given: Any = Command(resume=answer) if answer else None
        if not begun:
            given = begin(TOPOLOGY, WISH)

        for update in graph.stream(
            given, CONFIG, stream_mode="updates", durability="sync"
        ):
            ((node, change),) = update.items()
            if node == "__interrupt__":
                yield f"asked: {change[0].value['question']}"
            else:
                yield f"{node} -> {change['next_agent']}"

        state = graph.get_state(CONFIG).values
        if state["is_complete"]:
            outcome = outcome_of(state)
            yield f"{outcome['status']}: {outcome['content']}"


def main() -> None:
    """Run to the question, and answer it twice.

    Each step reads everything from the file, as a new process would.
    """
    with (
        LoopbackServer(tutor_model(search_courses)) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        database = str(Path(folder, "runs.sqlite"))
        for answer in (None, "Only at weekends, please.", "approve"):
            print(f"human: {answer or WISH}")
            for line in advance(server.base_url, database, answer):
                print(f"  {line}")


if __name__ == "__main__":
    main()
