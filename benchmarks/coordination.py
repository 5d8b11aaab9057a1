"""What judging one action costs over decoding its text: CPU time, medians of one run; 50 agents, ten processors.

PYTHONPATH=src python benchmarks/coordination.py
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from strictreply import Tool
from strictreply.coordination.formats import ResponseProcessor
from strictreply.coordination.topology.graph import Topology
from strictreply.coordination.validation.processor import ValidationProcessor
from strictreply.decoding import decode

ROUNDS, REPEAT = 15, 500
BOUND_MICROS = 250
"""What judging one action may cost beyond decoding it, with ten processors: a model takes a thousand times as long."""

AGENTS = [f"Agent{number}" for number in range(50)]
EDGES = [(one, other) for one in AGENTS for other in AGENTS if one != other]
SEARCH = Tool.from_json_schema("search", {"type": "object", "properties": {"query": {"type": "string"}}})
CALL = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": '{"query": "AI trends"}'}}
ACTIONS: dict[str, dict[str, Any]] = {
    "invoke_agent": {"next_action": "invoke_agent", "action_input": "Agent7", "request": "Analyze sales for Q4"},
    "parallel_invoke": {
        "next_action": "parallel_invoke",
        "agents": ["Agent1", "Agent2", "Agent3"],
        "agent_requests": {"Agent1": "A", "Agent2": "B", "Agent3": "C"},
    },
    "call_tool": {"next_action": "call_tool", "tool_calls": [CALL]},
    "final_response": {"next_action": "final_response", "content": "Here is the analysis result..."},
    "a target that is not permitted": {"next_action": "invoke_agent", "action_input": "Nobody"},
}


class Foreign(ResponseProcessor):
    """A processor of the application's, ranked above JSON, so that it is asked first."""

    def can_process(self, response: Any) -> bool:
        """Look for a field of its own."""
        return isinstance(response, dict) and "custom_action" in response

    def process(self, response: Any) -> dict[str, Any] | None:
        """Translate."""
        return {"next_action": response["custom_action"]}

    def priority(self) -> int:
        """Rank between native calls and JSON."""
        return 85


def processor() -> ValidationProcessor:
    """Make a processor of ten for a graph of fifty."""
    topology = Topology.of([*EDGES, ("Agent0", "User")], entry="Agent0")
    made = ValidationProcessor(topology, tools=[SEARCH])
    for _ in range(7):
        made.register_processor(Foreign())
    assert len(made.processors) == 10  # noqa: S101, PLR2004 - what the table's head says
    return made


def cpu_micros(work: Callable[[], Any], repeat: int) -> float:
    """Measure one call, over many."""
    start = time.process_time()
    for _ in range(repeat):
        work()
    return (time.process_time() - start) / repeat * 1e6


def measured(
    action: dict[str, Any], made: ValidationProcessor, *, rounds: int = ROUNDS, repeat: int = REPEAT
) -> tuple[float, float]:
    """Give what decoding one action costs, and what judging it costs beyond that, each measured in turn."""
    text = json.dumps(action)
    costs = [
        (cpu_micros(lambda: decode(text), repeat), cpu_micros(lambda: made.validate(text, "Agent0"), repeat))
        for _ in range(rounds)
    ]
    return statistics.median(read for read, _ in costs), statistics.median(whole - read for read, whole in costs)


def main() -> int:
    """Print the table; 1 when judging is not within its bound (requirement M120)."""
    print(f"{'action':32} {'decoding':>10} {'judging over it':>15}")
    made, worst = processor(), 0.0
    for name, action in ACTIONS.items():
        decoding, judging = measured(action, made)
        worst = max(worst, judging)
        print(f"{name:32} {decoding:7.1f} µs {judging:12.1f} µs")
    print(f"at most {worst:.0f} µs; the bound is {BOUND_MICROS} µs")
    return int(worst > BOUND_MICROS)


if __name__ == "__main__":
    sys.exit(main())
