"""What the state of a run must be before anything follows from it; nothing is decided or changed here.

A state lies in a store: it may be older than the topology, or changed by hand. Its faults are issues with their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from strictreply.coordination.actions.branches import BranchType
from strictreply.coordination.actions.kinds import ActionType, Permitted
from strictreply.coordination.actions.permissions import refusal_of
from strictreply.coordination.actions.shapes import listed
from strictreply.coordination.faults import Fault
from strictreply.coordination.runs.fields import (
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
from strictreply.coordination.runs.human_turn import ledger_of
from strictreply.coordination.runs.ledger import PendingHuman, read_ledger
from strictreply.coordination.topology.graph import Topology
from strictreply.integrations.langgraph.states import BRANCH, JOIN, TOOLS, RunState, RunStatus, agent_at
from strictreply.issues import Code, Issue, pointer, quote
from strictreply.typing import JSONObject

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
    spec = {"id": Field(name), "agent": Field(one_of), "instance_id": Field(text), "request": Field(text)}
    branch = {
        "id": Field(name),
        "type": Field(word_of(BranchType)),
        "agents": Field(each(text)),
        "turns": Field(count),
        "home": Field(word_of(BranchType)),
        "spawner": Field(optional(one_of)),
        "asked": Field(text),
    }
    fields = {
        "branch": Field(record(branch)),
        "threads": Field(values(each(record({"role": Field(text)})))),
        "calling": Field(optional(record({"agent": Field(one_of), "turn": Field(mapping)}))),
        "spawned": Field(optional(record({"agent": Field(one_of), "branches": Field(each(record(spec)))}))),
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
    """Yield the targets of pending questions that are nobody's: no answer could lead there, or be told."""
    hint = "clear_human_input_request gives the question in front up"
    for index, request in enumerate(read_ledger(ledger_of(state), "/human_requests")):
        if isinstance(request, PendingHuman):
            targets = {"resume_to": request.resume_to, "skip_to": request.skip_to, "tell_to": request.tell_to}
            for field, target in targets.items():
                if target is not None and agent_at(topology, target) is None:
                    yield _nobody(topology, target, pointer("/human_requests", index, field), hint=hint)


def spawn_issues(spawned: JSONObject, allowed: Permitted) -> Iterator[Issue]:
    """Yield what branches ask for that the agent which opens them may not do (requirements M107, M118)."""
    if ActionType.PARALLEL_INVOKE not in allowed.actions:
        yield refusal_of(ActionType.PARALLEL_INVOKE, allowed)
    for index, spec in enumerate(spawned["branches"]):
        if spec["agent"] not in allowed.agents:
            at, found = pointer("/spawned/branches", index, "agent"), quote(spec["agent"])
            yield Issue.of(Code.TOPOLOGY_NOT_ALLOWED, at, names=listed(allowed.agents), found=found)


def join_issues(state: RunState) -> Iterator[Issue]:
    """Yield what is missing or mistyped of the outcomes that a join needs; the line itself is sound."""
    for spec in (state["spawned"] or {"branches": ()})["branches"]:
        yield from field_issues(state["outcomes"].get(spec["id"]), _BRANCH_OUTCOME, pointer("/outcomes", spec["id"]))


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
