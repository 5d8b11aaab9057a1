"""How the router detects a run that makes no progress.

The state has two indicators. A streak counts an agent's replies that are only text; the limit on
content loops bounds it. The task is a hash of what comes next: the calls, the branches or an
agent's last turns. The router compares it with the earlier ones. The hash leaves out what differs
in each turn without a meaning, such as the ids of branches and the spelling of JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import cast

from strictreply import Attempt, Invalid
from strictreply.coordination import ContentStreak
from strictreply.core import JSON, Draft, JSONObject, Message, decode
from strictreply.integrations.langgraph._graph_state import (
    BRANCH,
    TOOLS,
    RunState,
    changed,
    from_json,
    node_of,
)
from strictreply.wires import wire_named

_INSTANCE_ID = re.compile(r'"instance_id":"(?:[^"\\]|\\.)*",?')


def streak_of(state: RunState, agent: str) -> ContentStreak:
    """Return how many replies of an agent in a row were text without an action."""
    record = state.get("content_streaks", {}).get(agent, {"count": 0, "snippet": ""})
    return ContentStreak(agent, record["count"], record["snippet"])


def with_streak(state: RunState, agent: str, attempts: Sequence[Attempt]) -> RunState:
    """Add the attempts of a request to the streak of an agent."""
    before = streak_of(state, agent)
    streak = streak_after(before, attempts)
    if streak == before:
        return state

    record: JSONObject = {"count": streak.count, "snippet": streak.snippet}
    return changed(state, content_streaks={**state.get("content_streaks", {}), agent: record})


def streak_after(streak: ContentStreak, attempts: Sequence[Attempt]) -> ContentStreak:
    """Return the streak of an agent after the attempts of a request.

    An accepted action, a call and an attempted action end a streak (requirement M78).
    """
    for attempt in attempts:
        if attempt.failure is None:
            draft = wire_named(attempt.api).draft_in(attempt.raw) or Draft()
            talks = draft.text is not None and "next_action" not in draft.text
            acts = attempt.accepted or draft.calls or not talks
            streak = streak.after_action() if acts else streak.after_content(draft.text or "")

    return streak


def with_task(state: RunState) -> RunState:
    """Store a hash of what comes next as ``current_task``, for the loop limits (R39).

    It covers the next calls or branches, or an agent's last turns.
    """
    target = state["next_agent"]
    calling = state["calling"]
    spawned = state["spawned"]
    work: JSON

    if target == TOOLS and calling is not None:
        work = _work_in(calling["turn"])
    elif target == BRANCH and spawned is not None:
        work = [
            [one["agent"], from_json(one["request"], "/spawned/branches")]
            for one in spawned["branches"]
        ]
    else:
        threads = state["threads"].items()
        thread = next((turns for name, turns in threads if node_of(name) == target), [])
        # results count: a poll whose result changes is not a loop
        results = [*takewhile(lambda turn: turn["role"] == "tool", reversed(thread))]
        if not (last := thread[len(thread) - len(results) - 1 :]):
            return state

        work = [_work_in(turn) for turn in last]

    spelt = json.dumps(work, sort_keys=True)
    return changed(state, current_task=hashlib.blake2b(spelt.encode(), digest_size=8).hexdigest())


def _work_in(turn: Message) -> JSON:
    work: list[JSON] = []
    for call in turn.get("tool_calls") or ():
        name = call["function"]["name"]
        text = call["function"]["arguments"]
        arguments = decode(text)  # so that their spelling does not matter
        work.append([name, text if isinstance(arguments, Invalid) else arguments])

    if work:
        return work

    content = turn.get("content")
    return _INSTANCE_ID.sub("", content) if isinstance(content, str) else cast("JSON", content)
