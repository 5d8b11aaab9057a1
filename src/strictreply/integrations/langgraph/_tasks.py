"""What a run is about to work on, told apart: a loop is the same work again and again, not the same node."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import takewhile
from typing import cast

from strictreply.coordination._runs.run_state import changed
from strictreply.integrations.langgraph._states import BRANCH, TOOLS, RunState, from_json, node_of
from strictreply.reading._decoding import decode
from strictreply.values._json import JSON, JSONObject, Message
from strictreply.values._replies import Invalid

_INSTANCE = re.compile(r'"instance_id":"(?:[^"\\]|\\.)*",?')


def with_task(state: RunState) -> RunState:
    """Put a short name of the coming work into ``current_task``, which tells steps to the same node apart.

    Equal calls with equal arguments have the same name, whatever their ids and spelling, and so have equal requests to
    an agent, and equal sets of branches (requirement R39). An agent that is told results works on them: a poll whose
    result changes is no circle.
    """
    work = _work(state)
    if work is None:
        return state
    spelt = json.dumps(work, sort_keys=True)
    return changed(state, current_task=hashlib.blake2b(spelt.encode(), digest_size=8).hexdigest())


def _work(state: RunState) -> JSON:
    """Give what is asked of the next node: calls, branches, or what an agent is told last; None for nothing."""
    target, calling, spawned = state["next_agent"], state["calling"], state["spawned"]
    if target == TOOLS and calling is not None:
        return _said(calling["turn"])
    if target == BRANCH and spawned is not None:
        return [[one["agent"], from_json(one["request"], "/spawned/branches")] for one in spawned["branches"]]
    thread = next((turns for name, turns in state["threads"].items() if node_of(name) == target), [])
    results = [*takewhile(lambda turn: turn["role"] == "tool", reversed(thread))]
    last = thread[len(thread) - len(results) - 1 :]
    return [_said(turn) for turn in last] or None


def _said(turn: Message) -> JSON:
    """Return the calls of a turn without their ids, or its text without those of branches, new in every round."""
    calls = cast("list[JSONObject]", turn.get("tool_calls") or [])
    content = turn.get("content")
    text = _INSTANCE.sub("", content) if isinstance(content, str) else cast("JSON", content)
    return [_asked(call["function"]) for call in calls] or text


def _asked(function: JSONObject) -> JSON:
    """Give a call's tool and arguments, read, so that their spelling does not matter."""
    arguments = decode(function["arguments"])
    return [function["name"], function["arguments"] if isinstance(arguments, Invalid) else arguments]
