"""A small team of agents for tests of what a reply may ask for.

It has a coordinator, its workers, and a pair that talks.
"""

from __future__ import annotations

from typing import Any

from strictreply import Tool
from strictreply.coordination import Branch, BranchType, Topology, ValidationResult
from strictreply.coordination.validation import ValidationProcessor

GRAPH = Topology.of(
    [
        *(
            ("Coordinator", name)
            for name in ("DataAnalyzer", "Worker1", "Worker2", "Worker3", "User")
        ),
        *((name, "Coordinator") for name in ("Worker1", "Worker2")),
        ("Worker2", "Worker1"),
        ("DataAnalyzer", "End"),
    ],
    entry="Coordinator",
)
"""Coordinator may hand over to four and turn to the user; DataAnalyzer may only finish; Worker3 may
do nothing.
"""

SEARCH = Tool.from_json_schema(
    "search", {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
)
CONVERSATION = Branch(type=BranchType.CONVERSATION, agents=("Coordinator", "Worker1"))
PARALLEL = Branch(type=BranchType.PARALLEL)
SPAWN = Branch(is_parallel_spawn=True)


def processor(**settings: Any) -> ValidationProcessor:
    """Make a processor of the team, which can search."""
    return ValidationProcessor(GRAPH, **({"tools": [SEARCH]} | settings))


def judged(
    reply: object, agent: str = "Coordinator", branch: Branch | None = None, **settings: Any
) -> ValidationResult:
    """Judge one reply of one agent."""
    return processor(**settings).validate(reply, agent, branch)


def faults(result: ValidationResult) -> list[tuple[str, str]]:
    """Return the code and the place of every fault."""
    return [(issue.code, issue.path) for issue in result.issues]
