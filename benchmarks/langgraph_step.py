"""CPU time of one agent's turn on LangGraph, beside a plain LangGraph node with the raw SDK.

The agent's turn is judged and routed by us. Two agents hand over to each other; in the plain graph
two nodes send requests of the same size and read the reply with ``json.loads``. Both columns are of
one run, with a mock transport.

Run: ``python benchmarks/langgraph_step.py``. Needs strictreply[langgraph].
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, TypedDict

import openai
from langgraph.graph import END, START, StateGraph

import strictreply as sr
from strictreply.coordination import Topology
from strictreply.integrations.langgraph import ChatAgent, begin, to_langgraph

http: Any = getattr(openai._base_client, "httpx2", None) or openai._base_client.httpx  # noqa: SLF001

ROUNDS = 25
TURNS = 10
NAMES = ("ping", "pong")
TEAM = Topology.of(
    [("ping", "pong"), ("pong", "ping"), ("ping", "User"), ("pong", "User")], entry="ping"
)
CASES = [0, 2, 10]


def tool(number: int) -> sr.Tool:
    """Declare a tool that no reply calls."""
    properties = {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20},
    }
    parameters = {"type": "object", "properties": properties, "required": ["query"]}
    return sr.Tool.from_json_schema(
        f"tool_{number}", parameters, description="Find things.", function=lambda _: None
    )


def completion(content: str) -> bytes:
    """Write a response."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    response = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    return json.dumps(response).encode()


def client_over(bodies: list[bytes], seen: list[Any]) -> openai.OpenAI:
    """Make an SDK client whose server answers with these bodies in turn.

    ``seen`` takes the first requests.
    """
    served = 0

    def handle(request: Any) -> Any:
        nonlocal served
        served += 1
        if len(seen) < len(bodies):
            seen.append(json.loads(request.content))

        body = bodies[(served - 1) % len(bodies)]
        return http.Response(200, content=body, headers={"content-type": "application/json"})

    transport = http.Client(transport=http.MockTransport(handle))
    return openai.OpenAI(api_key="none", base_url="http://model.invalid/v1", http_client=transport)


class Plain(TypedDict):
    """The state of the plain graph."""

    messages: list[Any]
    turn: int
    next: str


def plain(client: openai.OpenAI, requests: list[dict[str, Any]]) -> Callable[[], object]:
    """Build the plain graph; each turn sends what ours sends in the same turn."""

    def step(state: Plain) -> Any:
        """Ask, read the reply and return the next node."""
        response = client.chat.completions.create(**requests[state["turn"]])
        content = response.choices[0].message.content or ""
        action = json.loads(content)
        messages = [*state["messages"], {"role": "assistant", "content": content}]
        following = action.get("action_input", END)
        return {"messages": messages, "turn": state["turn"] + 1, "next": following}

    graph = StateGraph(Plain)
    for name in NAMES:
        graph.add_node(name, step)
        graph.add_conditional_edges(name, lambda state: state["next"], [*NAMES, END])

    graph.add_edge(START, "ping")
    compiled = graph.compile()
    return lambda: compiled.invoke({"messages": [], "turn": 0, "next": "ping"})


def ours(client: openai.OpenAI, tools: int) -> Callable[[], object]:
    """Build the same graph of agents."""
    declared = [tool(number) for number in range(tools)]
    wrapped = sr.wrap(client)
    agents = [
        ChatAgent(name=name, client=wrapped, request={"model": "m"}, goal="Play.", tools=declared)
        for name in NAMES
    ]
    compiled = to_langgraph(TEAM, agents, max_loop_count=50, max_turns=50).compile()
    return lambda: compiled.invoke(begin(TEAM, "Begin."))


def best_of(*functions: Callable[[], object]) -> list[float]:
    """Return the best CPU time of one turn of each, in microseconds; the rounds are interleaved."""
    best = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for index, function in enumerate(functions):
            start = time.process_time()
            function()
            best[index] = min(best[index], (time.process_time() - start) / TURNS * 1e6)

    return best


def replies() -> list[bytes]:
    """Hand over nine times, then finish."""
    actions: list[dict[str, str]] = []
    for turn in range(TURNS - 1):
        other = NAMES[(turn + 1) % 2]
        hand_over = {"next_action": "invoke_agent", "action_input": other}
        actions.append(hand_over | {"request": f"turn {turn}"})

    actions.append({"next_action": "final_response", "content": "done"})
    return [completion(json.dumps(action)) for action in actions]


def main() -> None:
    """Print the table."""
    print(
        f"openai {openai.__version__}; CPU microseconds a turn of {TURNS}, "
        f"best of {ROUNDS} rounds; x is the ratio"
    )
    print("tools    plain     ours     x")

    for tools in CASES:
        seen: list[dict[str, Any]] = []
        run = ours(client_over(replies(), seen), tools)
        if run()["loop_count"] != TURNS:
            raise SystemExit("the agents did not play to the end")

        raw, judged = best_of(plain(client_over(replies(), [None] * TURNS), seen), run)
        print(f"{tools:>5} {raw:>8.0f} {judged:>8.0f} {judged / raw:>5.2f}")


if __name__ == "__main__":
    main()
