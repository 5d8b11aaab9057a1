"""The outcomes of a run and of its branches.

An outcome is a value for programs to match; a failed run does not raise. The content is stored as
JSON text. A run that waits or was stopped has no stored outcome: its state and its interrupts show
what it waits for, and the result has the same form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from strictreply.coordination import END, HUMAN_INPUT, RouteReason
from strictreply.coordination.state import pending_requests
from strictreply.core import JSON, JSONObject
from strictreply.core.forms import peek
from strictreply.core.text import pointer
from strictreply.integrations.langgraph._graph_state import BRANCH, JOIN, TOOLS, RunState, from_json


class RunStatus(StrEnum):
    """The status of a run or of one of its branches."""

    COMPLETED = "completed"
    """It ended with an answer."""
    FAILED = "failed"
    """It ended with an error or at a limit, without an answer."""
    SKIPPED = "skipped"
    """A human skipped its last step after an error."""
    ABORTED = "aborted"
    """It was aborted, for example by a human."""
    WAITING = "waiting"
    """It waits for a human: resume it with an answer."""
    RESUMABLE = "resumable"
    """It was stopped between two steps: ``invoke(None, config)`` resumes it."""


ENDED: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.SKIPPED, RunStatus.ABORTED)


UNFINISHED: Final = "unfinished"  # the reason of a run that was stopped between two steps


def outcome_of(state: object) -> JSONObject:
    """Return the outcome of a run, for programs to match.

    ``state`` is the result of ``invoke``, or a snapshot of ``get_state``. The outcome has the
    members ``agent``, ``status``, ``reason``, ``content`` and ``error``.

    - A run that the loop limit ended is ``failed``, with the reason of its last route.
    - A run that waits for a human is ``waiting``; its reason is the kind of the question, or
      ``interrupt`` for a tool's own interrupt.
    - A run that was stopped between two steps is ``resumable``.

    The last two name the next agent. If ``pending_human_input`` is true, a run that continues from
    this state asks a human first.
    """
    given: Any = state
    values: RunState
    if isinstance(state, Mapping):
        values = given
        interrupts = given.get("__interrupt__", ())
    else:  # a snapshot, or the result of invoke(…, version="v2")
        values = given.value if hasattr(state, "value") else given.values
        interrupts = given.interrupts

    if interrupts:
        return _waiting(values, interrupts[0].value)

    route = next(iter(reversed(values.get("routing_history", []))), None)
    is_over = values["outcome"] or (route is not None and route["to"] == END)
    if not is_over and values["next_agent"] == HUMAN_INPUT:
        return _waiting(values, {"kind": pending_requests(values)[0].kind.value})
    if not is_over:
        waits = bool(pending_requests(values)) or values["requires_human_input"]
        return _unfinished(values, RunStatus.RESUMABLE, UNFINISHED, waits=waits)

    outcome = stored_outcome(values)
    return outcome | {"content": from_json(outcome["content"], "/outcome/content")}


def _waiting(state: RunState, asked: object) -> JSONObject:
    kind = peek(asked, "kind")
    return _unfinished(state, RunStatus.WAITING, str(kind or "interrupt"), waits=True)


def _unfinished(state: RunState, status: RunStatus, reason: str, *, waits: bool) -> JSONObject:
    """Return the outcome of a run that has not ended, with the next agent."""
    target = state["next_agent"]
    agent = ""
    if target == TOOLS:
        agent = (state["calling"] or {}).get("agent", "")
    elif target in (BRANCH, JOIN):
        agent = (state["spawned"] or {}).get("agent", "")
    else:
        if target == HUMAN_INPUT:
            waiting = pending_requests(state)
            target = waiting[0].tell_to or waiting[0].resume_to if waiting else None
        agent = _agent_named(target or "")

    outcome = outcome_record(agent, status, reason)
    return outcome | {"content": None, "pending_human_input": waits}


def _agent_named(node: str) -> str:
    """Return the agent of a node, without its topology."""
    name = node.removeprefix("agent ")
    for spelt, character in (("%7C", "|"), ("%3A", ":"), ("%25", "%")):
        name = name.replace(spelt, character)
    return name


def outcomes_of(state: RunState) -> dict[str, JSONObject]:
    """Return the outcomes of a run's branches by id, in the form of :func:`outcome_of`."""
    outcomes: dict[str, JSONObject] = {}
    for key, one in state["outcomes"].items():
        content = from_json(one["content"], pointer("/outcomes", key))
        outcomes[key] = one | {"content": content}
    return outcomes


def stored_outcome(state: RunState) -> JSONObject:
    """Return the outcome of a run as a state stores it, the content as JSON text."""
    outcome = state["outcome"]
    if not outcome:  # a limit ended the run before an agent finished
        history = state.get("routing_history", [])
        reason = history[-1]["reason"] if history else RouteReason.NO_TARGET.value
        words = "the run ended before an agent finished"
        outcome = outcome_record("", RunStatus.FAILED, reason, error=words)

    pending = bool(pending_requests(state)) or state["requires_human_input"]
    return outcome | {"pending_human_input": pending}


def outcome_record(
    agent: str, status: RunStatus, reason: str, *, content: JSON = None, error: str | None = None
) -> JSONObject:
    """Return an outcome as a state stores it."""
    return {
        "agent": agent,
        "status": status.value,
        "reason": reason,
        "content": json.dumps(content),
        "error": error,
    }
