"""What judging one action costs over decoding it: CPU time, the least of many rounds.

There are 50 agents and ten processors.

Decoding is the strict reader on all JSON that is read: the reply's text, and the text of arguments
in each of its calls. Judging is one whole ``validate`` less that: opening the reply, asking the
processors, permissions, shape, targets, arguments, the result. What an agent is judged by is kept
from one reply to the next; the last column is what judging costs when its branch is another one
each time, so that it is compiled anew.

PYTHONPATH=src python benchmarks/coordination.py
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

from strictreply import Tool
from strictreply.coordination import Branch, Topology
from strictreply.coordination.formats import ResponseProcessor
from strictreply.coordination.validation import ValidationProcessor
from strictreply.core import decode

PASSES = 4
ROUNDS = 8
REPEAT = 100
BOUND = 40
"""What judging a valid action may cost beyond decoding it.

It counts how many times what ``json.loads`` takes in the same run.
"""

REFUSAL_BOUND = 400
"""The same for an action that is refused.

Looking for the nearest name that is permitted takes longer than all the rest.
"""

AGENTS = [f"Agent{number}" for number in range(50)]
EDGES = [(one, other) for one in AGENTS for other in AGENTS if one != other]
SEARCH = Tool.from_json_schema(
    "search", {"type": "object", "properties": {"query": {"type": "string"}}}
)
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "AI trends"}'},
}
ACTIONS: dict[str, dict[str, Any]] = {
    "invoke_agent": {
        "next_action": "invoke_agent",
        "action_input": "Agent7",
        "request": "Analyze sales for Q4",
    },
    "parallel_invoke": {
        "next_action": "parallel_invoke",
        "agents": ["Agent1", "Agent2", "Agent3"],
        "agent_requests": {"Agent1": "A", "Agent2": "B", "Agent3": "C"},
    },
    "call_tool": {"next_action": "call_tool", "tool_calls": [CALL]},
    "final_response": {
        "next_action": "final_response",
        "content": "Here is the analysis result...",
    },
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

    assert len(made.processors) == 10  # noqa: PLR2004 - what the table's head says
    return made


def cpu_micros(work: Callable[[], Any], repeat: int) -> float:
    """Measure one call, over many."""
    start = time.process_time()
    for _ in range(repeat):
        work()
    return (time.process_time() - start) / repeat * 1e6


class Cost(NamedTuple):
    """CPU time in µs, each part the least of many measures: what else a machine does only adds."""

    loading: float
    decoding: float
    whole: float

    @property
    def judging(self) -> float:
        """What judging costs beyond decoding."""
        return self.whole - self.decoding

    @classmethod
    def least(cls, costs: Iterable[Cost]) -> Cost:
        """Take the least of each part."""
        return cls(*map(min, zip(*costs, strict=True)))


def measured(
    action: dict[str, Any], made: ValidationProcessor, branches: Iterable[Branch | None] = (None,)
) -> Cost:
    """Measure ``json.loads``, the strict reader and a validation of one action, each in turn."""
    texts = texts_of(action)
    taken = cycle(branches)
    costs: list[Cost] = []

    for _ in range(ROUNDS):
        loading = sum(cpu_micros(partial(json.loads, text), REPEAT) for text in texts)
        decoding = sum(cpu_micros(partial(decode, text), REPEAT) for text in texts)
        whole = cpu_micros(lambda: made.validate(texts[0], "Agent0", next(taken)), REPEAT)
        costs.append(Cost(loading, decoding, whole))

    return Cost.least(costs)


def texts_of(action: dict[str, Any]) -> list[str]:
    """Return every JSON text of an action: its own first, then the arguments of its calls."""
    calls = action.get("tool_calls", ())
    return [json.dumps(action), *(call["function"]["arguments"] for call in calls)]


def main() -> int:
    """Print the table; 1 when judging is not within its bounds (requirement M120)."""
    print(
        f"{'action':32} {'decoding':>10} {'judging over it':>16} {'in other branches':>18} "
        f"{'x json.loads':>13} {'bound':>6}"
    )
    made = processor()
    others = (Branch("one"), Branch("other"))
    usually: dict[str, list[Cost]] = {name: [] for name in ACTIONS}
    in_others: dict[str, list[Cost]] = {name: [] for name in ACTIONS}

    for _ in range(PASSES):
        for name, action in ACTIONS.items():
            usually[name].append(measured(action, made))
            in_others[name].append(measured(action, made, others))

    over = 0
    for name, action in ACTIONS.items():
        usual = Cost.least(usually[name])
        anew = Cost.least(in_others[name])
        ratio = usual.judging / usual.loading
        bound = BOUND if made.validate(texts_of(action)[0], "Agent0").is_valid else REFUSAL_BOUND
        over += ratio > bound
        print(
            f"{name:32} {usual.decoding:7.1f} µs {usual.judging:13.1f} µs "
            f"{anew.judging:15.1f} µs {ratio:13.1f} {bound:6}"
        )

    print(f"over their bound: {over} of {len(ACTIONS)}")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
