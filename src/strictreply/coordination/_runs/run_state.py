"""The state that agents share, and its small changes; each gives a new state and leaves the old one as it was.

Where a run goes next is not decided here, and no clock is read but the one that is passed in.
"""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, NotRequired, TypeAlias, TypedDict, TypeVar, cast

from strictreply.coordination._coordination_codes import CoordinationCode, StateError
from strictreply.coordination._runs.human_requests import LEDGER, carry_over, merge_ledgers
from strictreply.coordination._runs.state_schema import (
    ANYTHING,
    COUNT,
    FLAG,
    LIST,
    NAME,
    OBJECT,
    OPTIONAL_TEXT,
    TEXT,
    StateSchema,
    optional,
    record,
)
from strictreply.reading._decoding import decode
from strictreply.values._issues import Issue, pointer, quote
from strictreply.values._json import JSONObject
from strictreply.values._limits import Limits
from strictreply.values._replies import Invalid

END: Final = "end"
"""The target of ``route_next`` that ends a run; the end of a topology is ``END_NODE``."""

HUMAN_INPUT: Final = "human_input"
"""The target that asks the human."""

COORDINATOR: Final = "coordinator"
"""The node that runs begin with, unless a graph of yours says otherwise."""

DEFAULT_NODES: Final = (COORDINATOR, "course_advisor", "learning_planner", HUMAN_INPUT, END)
"""The targets of the published routing logic (requirement R5)."""

STATE_LIMITS: Final = Limits(reply_bytes=64_000_000, nodes=4_000_000)
"""The caps on a state that is read from JSON: it holds a whole conversation, so they are wider than a reply's."""

Now: TypeAlias = Callable[[], datetime]
"""The clock; a test passes one that stands still."""


class RunEnding(StrEnum):
    """Why a state is complete."""

    COMPLETED = "completed"
    ABORTED = "aborted"


class ChatMessage(TypedDict):
    """One turn: ``role`` and ``content`` as chat completions spell them, ``timestamp`` an ISO 8601 time."""

    role: str
    content: str
    timestamp: str


RoutingEntry = TypedDict(
    "RoutingEntry", {"ts": str, "from": str | None, "to": str, "reason": str, "loop_count": int, "task": str | None}
)
"""One decision in ``routing_history``: when, from which node to which, why, at which count, on which task."""


class AgentState(TypedDict):
    """What agents share in one conversation (requirement R14); an application may subclass it with more.

    ``human_requests`` is a ledger, annotated with the reducer that LangGraph merges it by. ``max_loop_count`` is this
    conversation's own limit. ``ending`` says why it is complete. ``reply_formats`` are the formats that agents began to
    reply in, by their names (requirement M119).
    """

    messages: list[ChatMessage]
    conversation_id: str
    user_profile: JSONObject
    current_task: str | None
    next_agent: str | None
    course_candidates: list[JSONObject]
    learning_plan: JSONObject | None
    requires_human_input: bool
    human_feedback: str | None
    loop_count: int
    is_complete: bool
    human_requests: NotRequired[Annotated[list[JSONObject], merge_ledgers]]
    routing_history: NotRequired[list[RoutingEntry]]
    max_loop_count: NotRequired[int | None]
    ending: NotRequired[str | None]
    reply_formats: NotRequired[dict[str, str]]


S = TypeVar("S", bound=AgentState)

_MESSAGE = record({"role": NAME, "content": TEXT, "timestamp": NAME})
HISTORY_ENTRY: Final = record(
    {"ts": TEXT, "from": OPTIONAL_TEXT, "to": TEXT, "reason": TEXT, "loop_count": COUNT, "task": ANYTHING}
)
_OURS: JSONObject = {
    "human_requests": LEDGER,
    "routing_history": LIST,  # a route reads the newest entries, and checks those itself
    "max_loop_count": optional(COUNT),
    "ending": {"enum": [*(ending.value for ending in RunEnding), None]},
    "reply_formats": OBJECT,
}
ROUTING_FIELDS: Final[JSONObject] = {
    "loop_count": COUNT,
    "is_complete": FLAG,
    "requires_human_input": FLAG,
    "next_agent": ANYTHING,  # a bad value leads to the end, only its absence is a fault (X23)
    **_OURS,
}
"""The members that a route is decided by."""

OPTIONAL_FIELDS: Final = tuple(_OURS)
"""The members that a state of the published form does not have."""

_FIELDS: JSONObject = {
    "messages": {"type": "array", "items": _MESSAGE},
    "conversation_id": NAME,
    "user_profile": record({"user_id": NAME}),
    "current_task": OPTIONAL_TEXT,
    "course_candidates": {"type": "array", "items": OBJECT},
    "learning_plan": optional(OBJECT),
    "human_feedback": OPTIONAL_TEXT,
    **ROUTING_FIELDS,
    "routing_history": {"type": "array", "items": HISTORY_ENTRY},
}
_STATE = StateSchema(record(_FIELDS, optional=OPTIONAL_FIELDS))
_COUNTED = StateSchema(record({"loop_count": COUNT}))


def utc_now() -> datetime:
    """Read the clock, in UTC."""
    return datetime.now(UTC)


def new_id() -> str:
    """Make an id that no other has."""
    return uuid.uuid4().hex


def create_initial_state(
    user_message: str | None = None,
    *,
    conversation_id: str | None = None,
    user_profile: Mapping[str, Any] | None = None,
    max_loop_count: int | None = None,
    now: Now = utc_now,
    make_id: Callable[[], str] = new_id,
) -> AgentState:
    """Begin a conversation: nothing decided, nothing counted, ids made for the conversation and the user if absent.

    ``max_loop_count`` is the conversation's own limit, None for the configured one. Raises StateError when what is
    given makes no valid state.
    """
    profile = copy.deepcopy(dict(user_profile or {}))
    state: AgentState = {
        "messages": [] if user_message is None else [said("user", user_message, now)],
        "conversation_id": make_id() if conversation_id is None else conversation_id,
        "user_profile": profile if "user_id" in profile else profile | {"user_id": make_id()},
        "current_task": None,
        "next_agent": None,
        "course_candidates": [],
        "learning_plan": None,
        "requires_human_input": False,
        "human_feedback": None,
        "loop_count": 0,
        "is_complete": False,
        "human_requests": [],
        "routing_history": [],
    }
    if max_loop_count is not None:
        state["max_loop_count"] = max_loop_count
    require(state_issues(state))
    return state


def start_run(state: S, user_message: str, *, entry: str = COORDINATOR, now: Now = utc_now) -> S:
    """Begin another turn of a conversation: the count is 0 again, and nothing the user has is dropped.

    Requests that no human answered yet stay pending and are put first; whatever the answer, ``abort`` included, the
    run then goes on at ``entry``.
    """
    before: AgentState = state
    return changed(
        reset_loop_count(state),
        messages=[*state["messages"], said("user", user_message, now)],
        human_requests=carry_over(before.get("human_requests", []), entry, flagged=state["requires_human_input"]),
        is_complete=False,
        ending=None,
        next_agent=entry,
    )


def increment_loop_count(state: S) -> S:
    """Count one node execution; StateError when the count is missing or no count."""
    require(_COUNTED.issues(state))
    return changed(state, loop_count=state["loop_count"] + 1)


def reset_loop_count(state: S) -> S:
    """Count from 0 again, as each run does at its entry."""
    return changed(state, loop_count=0)


def mark_complete(state: S, ending: RunEnding = RunEnding.COMPLETED) -> S:
    """Mark the work as done, or given up; the next route is the end whatever else is pending."""
    return changed(state, is_complete=True, next_agent=END, ending=ending.value)


def changed(state: S, **fields: Any) -> S:
    """Return a new state with other values in some fields."""
    return cast("S", {**state, **fields})


def said(role: str, content: str, now: Now = utc_now) -> ChatMessage:
    """Make one message, said now."""
    return {"role": role, "content": content, "timestamp": now().isoformat()}


def validate_state(state: object, nodes: Collection[str] = DEFAULT_NODES) -> tuple[bool, str]:
    """Return whether a state is whole, and all that is wrong with it on one line, as the published function does."""
    issues = state_issues(state, nodes)
    return not issues, "; ".join(issue.dotted for issue in issues)


def state_issues(state: object, nodes: Collection[str] = DEFAULT_NODES) -> tuple[Issue, ...]:
    """Return every fault of a state: fields that are missing or mistyped, and a ``next_agent`` that is no node."""
    issues = _STATE.issues(state)
    target: object = cast("Mapping[str, object]", state).get("next_agent") if isinstance(state, Mapping) else None
    if target is None or (isinstance(target, str) and target in nodes):
        return issues
    names = ", ".join(nodes)
    return (*issues, CoordinationCode.STATE_UNKNOWN_NODE.at("/next_agent", nodes=names, found=quote(target)))


def require(issues: Iterable[Issue]) -> None:
    """Raise StateError when there is anything to report."""
    if found := tuple(issues):
        raise StateError(found)


def state_to_json(state: Mapping[str, Any]) -> str:
    """Write a state as JSON; StateError names the fields that would not read back equal, such as dates and tuples."""
    faults: list[Issue] = []
    for key, value in state.items():
        try:
            reads_back = decode(json.dumps(value, allow_nan=False), STATE_LIMITS) == value
        except (TypeError, ValueError, RecursionError):
            reads_back = False
        if not reads_back:
            faults.append(CoordinationCode.STATE_NOT_JSON.at(pointer("", key)))
    require(faults)
    return json.dumps(state)


def state_from_json(
    written: str | bytes, *, nodes: Collection[str] = DEFAULT_NODES, limits: Limits = STATE_LIMITS
) -> AgentState:
    """Read a state from JSON; StateError with the faults of the JSON, or of the fields."""
    value = decode(written, limits)
    if isinstance(value, Invalid):
        raise StateError(value.issues)
    require(state_issues(value, nodes))
    return cast("AgentState", value)
