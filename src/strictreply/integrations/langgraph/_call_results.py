"""The results of a reply's calls, as the conversation holds them.

A turn with calls joins the thread together with a result for each of them, never before: a model is
sent no call without its result. Other agents are told both in words.
"""

from __future__ import annotations

from collections.abc import Sequence

from strictreply.core import DraftCall, Message
from strictreply.core.forms import MESSAGES
from strictreply.integrations.langgraph._graph_state import RunState, noted, with_turn
from strictreply.loop.values import AgentToolCall, AgentToolCallResult


def calls_in(turn: Message) -> list[AgentToolCall]:
    """Return the calls of a reply, as the program tells their results."""
    return [
        AgentToolCall(
            tool_call_id=call["id"],
            name=call["function"]["name"],
            arguments_json=call["function"]["arguments"],
            requires_client_execution=True,
        )
        for call in turn["tool_calls"]
    ]


def with_results_told(
    state: RunState, agent: str, turn: Message, done: Sequence[AgentToolCallResult]
) -> RunState:
    """Return the state after the calls of a reply: its turn and the results are in the thread."""
    calls = [DraftCall(one.name, id=one.tool_call_id) for one in done]
    turns = MESSAGES.results(calls, [one.text for one in done])
    state = with_turn(state, agent, turn, *turns)
    for line in told_lines(turn, done):
        state = noted(state, agent, line)
    return state


def told_lines(turn: Message, done: Sequence[AgentToolCallResult]) -> list[str]:
    """Return the calls of a reply with their results, in words for other agents."""
    return [
        f"called {result.name} with {call['function']['arguments']}: {result.result_json}"
        for call, result in zip(turn["tool_calls"], done, strict=True)
    ]
