"""What the state of a run must be before anything follows from it; nothing is decided or changed here.

A state lies in a store: it may be older than the topology, or changed by hand. Its faults are issues with their places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from strictreply.coordination._actions.branches import BranchType
from strictreply.coordination._actions.kinds import ActionType, Permitted
from strictreply.coordination._actions.permissions import refusal_of
from strictreply.coordination._actions.shapes import listed
from strictreply.coordination._faults import Fault
from strictreply.coordination._runs.fields import (
    Check,
    Field,
    count,
    each,
    field_issues,
    mapping,
    name,
    optional,
    record,
    text,
    values,
    word_of,
)
from strictreply.coordination._runs.human_turn import ledger_of
from strictreply.coordination._runs.ledger import PendingHuman, read_ledger
from strictreply.coordination._topology.graph import Topology
from strictreply.integrations.langgraph._states import (
    BRANCH,
    JOIN,
    TOOLS,
    RunState,
    RunStatus,
    agent_at,
)
from strictreply.values._issues import Code, Issue, pointer, quote
from strictreply.values._json import JSONObject

_PREPARED: Final[Mapping[str, str]] = MappingProxyType({TOOLS: "calling", BRANCH: "spawned", JOIN: "spawned"})
"""The fields that a node needs, by its name."""

_OUTCOME: Final = {
    "agent": Field(text),
    "status": Field(word_of(RunStatus)),
    "reason": Field(text),
    "content": Field(text),
    "error": Field(optional(text)),
}
_BRANCH_OUTCOME: Final = {**_OUTCOME, "spent": Field(count), "reply_formats": Field(mapping)}
_STREAK: Final = {"count": Field(count), "snippet": Field(text)}


def line_issues(topology: Topology, state: RunState) -> Iterator[Issue]:
    """Yield what is missing, mistyped, or names an agent that the topology does not have."""
    one_of = _agent_of(topology)
    met = {"met": Field(each(one_of), required=False)}
    spec = {"id": Field(name), "agent": Field(one_of), "instance_id": Field(text), "request": Field(text), **met}
    waiting = {"waiting": Field(each(record(spec)), required=False)}
    spawned = {"agent": Field(one_of), "branches": Field(each(record(spec))), **waiting}
    branch = {
        "id": Field(name),
        "type": Field(word_of(BranchType)),
        "agents": Field(each(text)),
        "turns": Field(count),
        "home": Field(word_of(BranchType)),
        "spawner": Field(optional(one_of)),
        "asked": Field(text),
        "meets": Field(each(one_of), required=False),
        "opening": Field(optional(text), required=False),
        "leads_to": Field(optional(one_of), required=False),
    }
    fields = {
        "branch": Field(record(branch)),
        "threads": Field(values(each(record({"role": Field(text)})))),
        "calling": Field(optional(record({"agent": Field(one_of), "turn": Field(mapping)}))),
        "spawned": Field(optional(record(spawned))),
        "outcomes": Field(mapping),
        "outcome": Field(optional(record(_OUTCOME))),
        "messages": Field(each(mapping)),
        "loop_count": Field(count),
        "content_streaks": Field(values(record(_STREAK)), required=False),
        "reply_formats": Field(mapping, required=False),
    }
    yield from field_issues(state, fields)
    yield from _unprepared(state)


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
    outcome = {**_BRANCH_OUTCOME, "leads_to": Field(optional(_agent_of(topology)), required=False)}
    for spec in specs:
        kept: Any = state["outcomes"].get(spec["id"])
        at = pointer("/outcomes", spec["id"])
        issues = tuple(field_issues(kept, outcome, at))
        yield from issues
        if not issues and (target := kept.get("leads_to")) is not None:
            agents = topology.allowed_targets(kept["agent"]) if kept["agent"] in topology.agents else ()
            if target not in agents:
                yield _not_allowed(target, f"{at}/leads_to", agents)


def _not_allowed(agent: str, at: str, allowed: tuple[str, ...]) -> Issue:
    """Report an agent that nobody may hand over to from here."""
    return Issue.of(Code.TOPOLOGY_NOT_ALLOWED, at, names=listed(allowed), found=quote(agent))


def _unprepared(state: RunState) -> Iterator[Issue]:
    """Yield the field that the next node needs, when nothing is in it."""
    field = _PREPARED.get(str(state.get("next_agent")))
    if field is not None and not state.get(field):
        yield Fault.STATE_WRONG_TYPE.at(pointer("", field), expected="an object, for the next agent needs it")


def _agent_of(topology: Topology) -> Check:
    """Make the check that a value is the name of an agent."""

    def check(value: object, at: str) -> Iterator[Issue]:
        """Yield the fault of any other value."""
        if value not in topology.agents:
            yield _nobody(topology, value, at)

    return check


def _nobody(topology: Topology, value: object, at: str, *, hint: str = "") -> Issue:
    """Report what names no agent."""
    return Fault.STATE_UNKNOWN_WORD.at(at, expected=", ".join(topology.agents), found=quote(value), hint=hint)
