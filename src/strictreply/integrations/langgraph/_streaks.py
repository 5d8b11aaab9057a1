"""How often in a row an agent of a run gave words alone: counted over all its asks, in the state of the run."""

from __future__ import annotations

from collections.abc import Sequence

from strictreply.coordination._error_policy import ContentStreak
from strictreply.coordination._runs.run_state import changed
from strictreply.integrations.langgraph._states import RunState
from strictreply.values._attempts import Attempt
from strictreply.wires._chat import peek


def streak_of(state: RunState, agent: str) -> ContentStreak:
    """Read the streak of an agent."""
    kept = state.get("content_streaks", {}).get(agent)
    return ContentStreak(agent) if kept is None else ContentStreak(agent, kept["count"], kept["snippet"])


def with_streak(state: RunState, agent: str, attempts: Sequence[Attempt]) -> RunState:
    """Count on after an ask: an accepted action, a call and a try at an action end a streak (requirement M78)."""
    streak = before = streak_of(state, agent)
    for attempt in attempts:
        if attempt.failure is None:
            words = _words_alone(attempt)
            streak = streak.after_action() if words is None else streak.after_content(words)
    if streak == before:
        return state
    kept = {"count": streak.count, "snippet": streak.snippet}
    return changed(state, content_streaks={**state.get("content_streaks", {}), agent: kept})


def _words_alone(attempt: Attempt) -> str | None:
    """Give the text of a refused reply that neither calls a tool nor names an action; None for any other."""
    choices = peek(attempt.raw, "choices")
    message = peek(choices[0], "message") if isinstance(choices, list) and choices else None
    content = peek(message, "content")
    acts = attempt.accepted or peek(message, "tool_calls") or not isinstance(content, str) or "next_action" in content
    return None if acts else str(content)
