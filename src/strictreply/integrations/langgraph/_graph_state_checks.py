"""What the state of a run must be before anything follows from it; nothing is decided or changed here.

A state lies in a store: it may be older than the topology, or changed by hand. Its faults are issues with their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from strictreply.coordination._actions import ActionType, BranchType, Permitted
from strictreply.coordination._coordination_codes import AgentReplyCode, CoordinationCode
from strictreply.coordination._permissions import listed, refusal_of
from strictreply.coordination._runs.human_requests import PendingHuman, read_ledger
from strictreply.coordination._runs.run_state import ledger_of
from strictreply.coordination._runs.state_schema import (
    COUNT,
    NAME,
    OBJECT,
    OPTIONAL_TEXT,
    TEXT,
    StateSchema,
    optional,
    record,
)
from strictreply.coordination._topology import Topology
from strictreply.integrations.langgraph._graph_state import BRANCH, JOIN, TOOLS, RunState, RunStatus, agent_at
from strictreply.values._issues import Issue, pointer, quote
from strictreply.values._json import JSONObject

_PREPARED: Final[Mapping[str, str]] = MappingProxyType({TOOLS: "calling", BRANCH: "spawned", JOIN: "spawned"})
"""The fields that a node needs, by its name."""

_NAMES: Final[JSONObject] = {"type": "array", "items": NAME}
_KINDS: Final[JSONObject] = {"enum": [kind.value for kind in BranchType]}
_OUTCOME: Final[JSONObject] = {
    "agent": TEXT,
    "status": {"enum": [status.value for status in RunStatus]},
    "reason": TEXT,
    "content": TEXT,
    "error": OPTIONAL_TEXT,
}
_BRANCH_OUTCOME: Final = StateSchema(
    record({**_OUTCOME, "spent": COUNT, "reply_formats": OBJECT, "leads_to": OPTIONAL_TEXT}, optional=["leads_to"])
)
_SPECS: Final[JSONObject] = {
    "type": "array",
    "items": record({"id": NAME, "agent": NAME, "instance_id": TEXT, "request": TEXT, "met": _NAMES}, optional=["met"]),
}
_BRANCH: Final = record(
    {
        "id": NAME,
        "type": _KINDS,
        "agents": {"type": "array", "items": TEXT},
        "turns": COUNT,
        "home": _KINDS,
        "spawner": OPTIONAL_TEXT,
        "asked": TEXT,
        "meets": _NAMES,
        "opening": OPTIONAL_TEXT,
        "leads_to": OPTIONAL_TEXT,
    },
    optional=["meets", "opening", "leads_to"],
)
_LINE: Final = StateSchema(
    record(
        {
            "branch": _BRANCH,
            "threads": OBJECT,
            "calling": optional(record({"agent": NAME, "turn": OBJECT})),
            "spawned": optional(record({"agent": NAME, "branches": _SPECS, "waiting": _SPECS}, optional=["waiting"])),
            "outcomes": OBJECT,
            "outcome": optional(record(_OUTCOME)),
            "messages": {"type": "array", "items": OBJECT},
            "loop_count": COUNT,
            "content_streaks": OBJECT,
            "reply_formats": OBJECT,
        },
        optional=["content_streaks", "reply_formats"],
    )
)


_BY_AGENT: Final = {
    "threads": StateSchema({"type": "array", "items": record({"role": TEXT})}),
    "content_streaks": StateSchema(record({"count": COUNT, "snippet": TEXT})),
}
"""What a line keeps for each agent."""

_AGENT_PLACES: Final = (
    ("branch", "spawner"),
    ("branch", "meets", "*"),
    ("branch", "leads_to"),
    ("calling", "agent"),
    ("spawned", "agent"),
    *(("spawned", part, "*", *inner) for part in ("branches", "waiting") for inner in (("agent",), ("met", "*"))),
)
"""Where a line names agents; ``*`` stands for every item of a list."""


def run_issues(topology: Topology, state: RunState) -> Iterator[Issue]:
    """Yield what is missing, mistyped, or names an agent that the topology does not have."""
    for steps in _AGENT_PLACES:
        for place, name in _texts_at(state, steps):
            if name not in topology.agents:
                yield _nobody(topology, name, place)
    yield from _LINE.issues(state)
    for part, schema in _BY_AGENT.items():
        kept: object = state.get(part)
        for name, value in cast("JSONObject", kept).items() if isinstance(kept, dict) else ():
            yield from schema.issues(value, pointer("", part, name))
    yield from _unprepared(state)


def _texts_at(value: Any, steps: tuple[str, ...], at: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts at a place and their pointers; what has another type is the schema's to report."""
    if not steps:
        if isinstance(value, str):
            yield at, value
    elif steps[0] == "*":
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _texts_at(item, steps[1:], pointer(at, index))
    elif isinstance(value, Mapping) and steps[0] in value:
        yield from _texts_at(value[steps[0]], steps[1:], pointer(at, steps[0]))


def request_issues(topology: Topology, state: RunState) -> Iterator[Issue]:
    """Yield the targets of pending questions that are nobody's: no answer could lead there, or be told.

    The branches that a line waits for are a target too, while it has any.
    """
    hint = "clear_human_input_request cancels the first pending question"
    for index, request in enumerate(read_ledger(ledger_of(state), "/human_requests")):
        if isinstance(request, PendingHuman):
            targets = {"resume_to": request.resume_to, "skip_to": request.skip_to, "tell_to": request.tell_to}
            for field, target in targets.items():
                opens = target == BRANCH and state["spawned"] is not None and field != "tell_to"
                if target is not None and not opens and agent_at(topology, target) is None:
                    yield _nobody(topology, target, pointer("/human_requests", index, field), hint=hint)


def spawn_issues(topology: Topology, spawned: JSONObject, allowed: Permitted) -> Iterator[Issue]:
    """Yield what branches ask for that the agents which lead to them may not do (requirements M107, M118)."""
    opened = any("met" not in spec for spec in spawned["branches"])
    if opened and ActionType.PARALLEL_INVOKE not in allowed.actions:
        yield refusal_of(ActionType.PARALLEL_INVOKE, allowed)
    for index, spec in enumerate(spawned["branches"]):
        leading = [topology.allowed_targets(agent) for agent in spec["met"]] if "met" in spec else [allowed.agents]
        for agents in leading:
            if spec["agent"] not in agents:
                yield _not_allowed(spec["agent"], pointer("/spawned/branches", index, "agent"), agents)


def join_issues(topology: Topology, state: RunState, specs: Iterable[JSONObject]) -> Iterator[Issue]:
    """Yield what is missing, mistyped or not permitted of what branches came to; the line itself is sound."""
    for spec in specs:
        kept: Any = state["outcomes"].get(spec["id"])
        at = pointer("/outcomes", spec["id"])
        issues = _BRANCH_OUTCOME.issues(kept, at)
        yield from issues
        if not issues and (target := kept.get("leads_to")) is not None:
            if target not in topology.agents:
                yield _nobody(topology, target, f"{at}/leads_to")
                continue
            agents = topology.allowed_targets(kept["agent"]) if kept["agent"] in topology.agents else ()
            if target not in agents:
                yield _not_allowed(target, f"{at}/leads_to", agents)


def _not_allowed(agent: str, at: str, allowed: tuple[str, ...]) -> Issue:
    """Report an agent that nobody may hand over to from here."""
    return AgentReplyCode.TOPOLOGY_NOT_ALLOWED.at(at, names=listed(allowed), found=quote(agent))


def _unprepared(state: RunState) -> Iterator[Issue]:
    """Yield the field that the next node needs, when nothing is in it."""
    field = _PREPARED.get(str(state.get("next_agent")))
    if field is not None and not state.get(field):
        yield CoordinationCode.STATE_WRONG_TYPE.at(
            pointer("", field), expected="an object, for the next agent needs it"
        )


def _nobody(topology: Topology, value: object, at: str, *, hint: str = "") -> Issue:
    """Report what names no agent."""
    return CoordinationCode.STATE_UNKNOWN_WORD.at(
        at, expected=", ".join(topology.agents), found=quote(value), hint=hint
    )
