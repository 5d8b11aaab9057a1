"""Checks of a state before it is used: nodes do not trust a stored or changed state.

A state comes from a checkpoint, from ``update_state``, or from a program that stored it. It may be
from another version of the app. The checks are: every field exists and has its type, the agents
that lead to branches are permitted to, and the outcomes of branches have the right form. Each fault
is an issue with its place; an issue never repeats a value of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from strictreply import Issue
from strictreply.coordination import ActionType, BranchType, CoordinationCode, Topology
from strictreply.coordination.actions import Permitted
from strictreply.coordination.state import StateSchema
from strictreply.core import JSONObject
from strictreply.core.text import pointer
from strictreply.integrations.langgraph._graph_state import BRANCH, JOIN, TOOLS, RunState
from strictreply.integrations.langgraph._run_outcomes import ENDED

TEXT: Final[JSONObject] = {"type": "string"}
NAME: Final[JSONObject] = {"type": "string", "minLength": 1}
COUNT: Final[JSONObject] = {"type": "integer", "minimum": 0}
OBJECT: Final[JSONObject] = {"type": "object"}

# the field that a node needs, by the node's name
_PREPARED: Final = {TOOLS: "calling", BRANCH: "spawned", JOIN: "spawned"}


@lru_cache(maxsize=64)
def _schemas(agents: tuple[str, ...]) -> tuple[StateSchema, StateSchema]:
    record = StateSchema.record
    or_null = StateSchema.or_null

    agent: JSONObject = {"type": "string", "enum": [*agents]}
    agent_or_none: JSONObject = {"type": ["string", "null"], "enum": [*agents, None]}
    somebody: JSONObject = {"type": "array", "items": agent}
    kind: JSONObject = {"enum": [kind.value for kind in BranchType]}
    status: JSONObject = {"enum": [status.value for status in ENDED]}
    outcome = {
        "agent": TEXT,
        "status": status,
        "reason": TEXT,
        "content": TEXT,
        "error": or_null(TEXT),
    }

    spec = {"id": NAME, "agent": agent, "instance_id": TEXT, "request": TEXT, "met": somebody}
    specs: JSONObject = {"type": "array", "items": record(spec, optional=["met"])}
    spawned = {"agent": agent, "branches": specs, "waiting": specs}

    progress = {
        "id": NAME,
        "type": kind,
        "agents": {"type": "array", "items": TEXT},
        "turns": COUNT,
        "home": kind,
    }
    later = {"meets": somebody, "opening": or_null(TEXT), "leads_to": agent_or_none}

    turns: JSONObject = {"type": "array", "items": record({"role": TEXT})}
    streak = record({"count": COUNT, "snippet": TEXT})
    threads = record(dict.fromkeys(agents, turns), optional=agents)
    streaks = record(dict.fromkeys(agents, streak), optional=agents)

    done = record({"tool_call_id": TEXT, "name": TEXT, "execution_ms": COUNT, "result_json": TEXT})
    run_calls = {"done": {"type": "array", "items": done}, "goto": agent}
    calling = record({"agent": agent, "turn": OBJECT} | run_calls, optional=run_calls)
    opened = record(spawned, optional=["waiting"])
    branch = record(progress | {"spawner": agent_or_none, "asked": TEXT} | later, optional=later)
    fields = {
        "branch": branch,
        "threads": threads,
        "calling": or_null(calling),
        "spawned": or_null(opened),
    }
    fields |= {
        "outcomes": OBJECT,
        "outcome": or_null(record(outcome)),
        "loop_count": COUNT,
        "reply_formats": OBJECT,
    }
    fields |= {"messages": {"type": "array", "items": OBJECT}, "content_streaks": streaks}
    lines = {"type": "array", "items": record({"agent": TEXT, "text": TEXT})}
    counts = record(dict.fromkeys(agents, COUNT), optional=agents)
    fields |= {"history": or_null(lines), "heard": counts}

    result = outcome | {"spent": COUNT, "reply_formats": OBJECT, "leads_to": agent_or_none}
    run = record(fields, optional=["content_streaks", "reply_formats", "history", "heard"])
    return StateSchema(run), StateSchema(record(result, optional=["leads_to"]))


def run_issues(topology: Topology, state: RunState) -> Iterator[Issue]:
    """Yield fields that are missing, mistyped, or name an agent outside of the topology."""
    yield from _schemas(topology.agents)[0].issues(state)
    needed = _PREPARED.get(str(state.get("next_agent")))
    if needed is not None and not state.get(needed):
        yield CoordinationCode.STATE_WRONG_TYPE.at(
            f"/{needed}", expected="an object, because the next agent needs one"
        )


def spawn_issues(topology: Topology, spawned: JSONObject, allowed: Permitted) -> Iterator[Issue]:
    """Yield actions that are not permitted to agents which lead to branches (M107, M118)."""
    opened = any("met" not in spec for spec in spawned["branches"])
    if opened and ActionType.PARALLEL_INVOKE not in allowed.actions:
        yield allowed.action_refusal(ActionType.PARALLEL_INVOKE)

    for index, spec in enumerate(spawned["branches"]):
        if "met" in spec:
            leading = [
                Permitted(agent, agents=topology.allowed_targets(agent)) for agent in spec["met"]
            ]
        else:
            leading = [allowed]

        at = pointer("/spawned/branches", index, "agent")
        for known in leading:
            if spec["agent"] not in known.agents:
                yield known.agent_refusal(spec["agent"], at)


def join_issues(
    topology: Topology, state: RunState, specs: Iterable[JSONObject]
) -> Iterator[Issue]:
    """Yield what is missing, mistyped or not permitted in the outcomes of branches."""
    for spec in specs:
        stored: Any = state["outcomes"].get(spec["id"])
        at = pointer("/outcomes", spec["id"])
        if issues := _schemas(topology.agents)[1].issues(stored, at):
            yield from issues
        elif (target := stored.get("leads_to")) is not None:
            agent = stored["agent"]
            known = agent in topology.agents
            allowed = Permitted(agent, agents=topology.allowed_targets(agent) if known else ())
            if target not in allowed.agents:
                yield allowed.agent_refusal(target, f"{at}/leads_to")
