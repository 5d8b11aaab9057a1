"""The state that agents share, and its changes, the human's turn among them.

Each change returns a new state. The names are those of the published Routing Logic.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Any, Final, NotRequired, TypedDict, TypeVar, cast

from strictreply import ContractError, Issue
from strictreply.coordination._actions import CoordinationCode, StateError
from strictreply.coordination._human_requests import (
    COUNT,
    FLAG,
    LEDGER,
    NAME,
    OBJECT,
    TEXT,
    HumanDecision,
    HumanKind,
    HumanRequest,
    PendingHuman,
    SettledHuman,
    StateSchema,
    Words,
    carry_over,
    merge_ledgers,
    optional,
    read_answer,
    read_ledger,
    record,
    unworded,
)
from strictreply.coordination._metrics import Now, utc_now
from strictreply.core import JSONObject
from strictreply.core.text import quote

# The target of ``route_next`` that ends a run; the end of a topology is ``END_NODE``.
END: Final = "end"
# The target that asks the human.
HUMAN_INPUT: Final = "human_input"
# The node that runs begin with, unless a graph of yours says otherwise.
COORDINATOR: Final = "coordinator"
# The nodes as published (R5).
DEFAULT_NODES: Final = (COORDINATOR, "course_advisor", "learning_planner", HUMAN_INPUT, END)


class RunEnding(StrEnum):
    """Why a state is complete."""

    COMPLETED = "completed"
    ABORTED = "aborted"


class ChatMessage(TypedDict):
    """One turn of the conversation.

    ``role`` and ``content`` are as chat completions spell them, ``timestamp`` is an ISO 8601 time.
    """

    role: str
    content: str
    timestamp: str


RoutingEntry = TypedDict(
    "RoutingEntry",
    {
        "ts": str,
        "from": str | None,
        "to": str,
        "reason": str,
        "loop_count": int,
        "task": str | None,
    },
)
"""One decision in ``routing_history``.

It says when it was made, from which node to which, why, at which count, and on which task.
"""


class AgentState(TypedDict):
    """What agents share in one conversation (requirement R14).

    An application may subclass it with more fields.
    """

    messages: list[ChatMessage]
    """The conversation so far."""
    conversation_id: str
    """Id of the conversation."""
    user_profile: JSONObject
    """What the application knows of the user; ``user_id`` at least."""
    current_task: str | None
    """The task that is worked on; None for none."""
    next_agent: str | None
    """The node that is to come next; None when none was chosen."""
    course_candidates: list[JSONObject]
    """The courses under consideration (of the published example)."""
    learning_plan: JSONObject | None
    """The plan that was made (of the published example); None while there is none."""
    requires_human_input: bool
    """Whether a human is to be asked next."""
    human_feedback: str | None
    """The last answer of the human; None when there is none to be read."""
    loop_count: int
    """Node executions so far, compared with the loop limit."""
    is_complete: bool
    """Whether the run is over."""
    human_requests: NotRequired[Annotated[list[JSONObject], merge_ledgers]]
    """The ledger of questions to the human, annotated with LangGraph's reducer for it."""
    routing_history: NotRequired[list[RoutingEntry]]
    """The newest routing decisions, in order."""
    max_loop_count: NotRequired[int | None]
    """The limit of this conversation alone; None for that of the routes."""
    ending: NotRequired[str | None]
    """Why the run is over; None while it is not."""
    reply_formats: NotRequired[dict[str, str]]
    """The formats of agents' replies by the agent's name (M119)."""


S = TypeVar("S", bound=AgentState)

HISTORY_ENTRY: Final = record(
    {
        "ts": TEXT,
        "from": optional(TEXT),
        "to": TEXT,
        "reason": TEXT,
        "loop_count": COUNT,
        "task": {},
    }
)
_FIELDS: JSONObject = {
    "messages": {
        "type": "array",
        "items": record({"role": NAME, "content": TEXT, "timestamp": NAME}),
    },
    "conversation_id": NAME,
    "user_profile": record({"user_id": NAME}),
    "current_task": optional(TEXT),
    "course_candidates": {"type": "array", "items": OBJECT},
    "learning_plan": optional(OBJECT),
    "human_feedback": optional(TEXT),
    "loop_count": COUNT,
    "is_complete": FLAG,
    "requires_human_input": FLAG,
    "next_agent": {},  # a bad value leads to the end, only its absence is a fault (X23)
    "human_requests": LEDGER,
    "routing_history": {"type": "array", "items": HISTORY_ENTRY},
    "max_loop_count": optional(COUNT),
    "ending": {"enum": [*(ending.value for ending in RunEnding), None]},
    "reply_formats": OBJECT,
}


def fields_of(*names: str, **others: JSONObject) -> JSONObject:
    """Return the schema of a part of a state.

    The fields that a state of the published form does not have may be missing.
    """
    beside = ("human_requests", "routing_history", "max_loop_count", "ending", "reply_formats")
    return record({name: _FIELDS[name] for name in names} | others, optional=beside)


_STATE = StateSchema(fields_of(*_FIELDS))
_UPDATED: JSONObject = {"loop_count": COUNT, "requires_human_input": FLAG, "human_requests": LEDGER}
_UPDATE = StateSchema(record(_UPDATED, optional=_UPDATED))
_COUNTED = StateSchema(fields_of("loop_count"))
_REQUESTS = StateSchema(fields_of("requires_human_input", "next_agent", "human_requests"))
_TURN = StateSchema(fields_of("human_feedback", messages={"type": "array"}))


def new_id() -> str:
    """Return a new id, unlike any other."""
    return uuid.uuid4().hex


def create_initial_state(
    user_message: str | None = None,
    *,
    conversation_id: str | None = None,
    user_profile: Mapping[str, object] | None = None,
    max_loop_count: int | None = None,
    now: Now = utc_now,
    make_id: Callable[[], str] = new_id,
) -> AgentState:
    """Return the state of a new conversation, with new ids where none are given.

    ``max_loop_count`` is the conversation's own limit, None for the configured one. Raises
    StateError when the arguments do not make a valid state.
    """
    profile = copy.deepcopy(dict(user_profile or {}))
    state: AgentState = {
        "messages": [] if user_message is None else [chat_message("user", user_message, now)],
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
    """Return the state of another turn of the user, with a count of 0.

    Any answer to a pending request, ``abort`` too, leads to ``entry``.
    """
    messages = [*state["messages"], chat_message("user", user_message, now)]
    ledger = carry_over(ledger_of(state), entry, flagged=state["requires_human_input"])
    asked = changed(state, messages=messages, human_requests=ledger, next_agent=entry)
    return changed(asked, loop_count=0, is_complete=False, ending=None)


def increment_loop_count(state: S) -> S:
    """Count one node execution; raises StateError when the count is missing or not a count."""
    require(_COUNTED.issues(state))
    return changed(state, loop_count=state["loop_count"] + 1)


def mark_complete(state: S, ending: RunEnding = RunEnding.COMPLETED) -> S:
    """Mark the work as done or given up; the next route is the end, whatever is pending."""
    return changed(state, is_complete=True, next_agent=END, ending=ending.value)


def changed(state: S, **fields: object) -> S:
    """Return a new state with other values in some fields."""
    return cast("S", {**state, **fields})


def chat_message(role: str, content: str, now: Now = utc_now) -> ChatMessage:
    """Return one message with the time now."""
    return {"role": role, "content": content, "timestamp": now().isoformat()}


def validate_state(state: object, nodes: Collection[str] = DEFAULT_NODES) -> tuple[bool, str]:
    """Return whether a state is valid, and all its faults on one line.

    This is the form of the published function.
    """
    issues = state_issues(state, nodes)
    return not issues, "; ".join(issue.dotted for issue in issues)


def state_issues(state: object, nodes: Collection[str] = DEFAULT_NODES) -> tuple[Issue, ...]:
    """Return every fault of a state.

    They are fields that are missing or mistyped, and a ``next_agent`` that is not a node.
    """
    issues = _STATE.issues(state)
    target: object = None
    if isinstance(state, Mapping):
        target = cast("Mapping[str, object]", state).get("next_agent")
    if target is None or (isinstance(target, str) and target in nodes):
        return issues

    names = ", ".join(nodes)
    unknown = CoordinationCode.STATE_UNKNOWN_NODE
    return (*issues, unknown.at("/next_agent", nodes=names, found=quote(target)))


def require(issues: Iterable[Issue]) -> None:
    """Raise StateError when there is anything to report."""
    if found := tuple(issues):
        raise StateError(found)


def request_human_input(
    state: S,
    prompt: str = "",
    *,
    kind: HumanKind = HumanKind.GENERAL,
    resume_to: str | None = None,
    skip_to: str | None = None,
    now: Now = utc_now,
    make_id: Callable[[], str] = new_id,
) -> S:
    """Ask a human.

    The flag is set, the next target is ``human_input``, and the request stands in the ledger.
    ``prompt`` is empty for the words of ``kind``. An answer leads to ``resume_to``, None for where
    the graph begins; of an error, ``retry`` leads by default back to the interrupted agent, and
    ``skip`` to ``skip_to``. A request made while another is pending waits behind it, and interrupts
    the same target.
    """
    state = adopted(state)
    interrupted = _interrupted(state)
    at = now().isoformat()
    failed = interrupted if kind is HumanKind.ERROR and interrupted != HUMAN_INPUT else None
    asked = PendingHuman(make_id(), kind, prompt, resume_to or failed, skip_to, interrupted, at)
    return put_question(state, asked)


def put_question(state: S, question: PendingHuman) -> S:
    """Ask a human as :func:`request_human_input` does.

    A question whose id is known is asked once.
    """
    noted = _noted(adopted(state), question)
    return changed(noted, requires_human_input=True, next_agent=HUMAN_INPUT)


def clear_human_input_request(
    state: S, *, request_id: str | None = None, home: str = COORDINATOR, now: Now = utc_now
) -> S:
    """Cancel the request with an id, None for the first one.

    Flag and feedback are cleared, and the interrupted target is next again. Nothing happens for a
    request that is not pending. While others wait, flag and target stay; the feedback stays when a
    request behind the first is cancelled. A run that was sent to the human by hand goes on at
    ``home``.
    """
    state = adopted(state)
    waiting = pending_requests(state)
    chosen = next((one for one in waiting if request_id in (None, one.id)), None)
    if chosen is None:
        if request_id is not None:
            return state

        # There is a flag without a request, or a run that was sent to the human by hand: it does
        # not go there again.
        target = home if state["next_agent"] == HUMAN_INPUT else state["next_agent"]
        return changed(state, requires_human_input=False, human_feedback=None, next_agent=target)

    settled = SettledHuman(chosen, decision=None, settled_at=now().isoformat())
    if chosen != waiting[0]:
        return _noted(state, settled)

    target = home if chosen.interrupted == HUMAN_INPUT else chosen.interrupted
    return _settled(state, settled, target)


def give_human_feedback(state: S, answer: str) -> S:
    """Put the human's answer into the state, for :func:`human_input` to read.

    Raises ContractError unless it is a text.
    """
    if not isinstance(cast("object", answer), str):
        expected = "the name of a decision, a word for one, or free text"
        raise ContractError(
            f"a human's answer must be text ({expected}), not {type(answer).__name__}"
        )

    return changed(state, human_feedback=answer)


def human_input(
    state: S, *, home: str = COORDINATOR, words: Words | None = None, now: Now = utc_now
) -> S:
    """Take the human's turn.

    It waits when there is no feedback, else reads it as the answer to the first request. Waiting
    adds the request's prompt to the messages once, an answer that decides nothing adds it again. An
    answer becomes a user message and clears flag and feedback; the run goes on at the request's
    ``resume_to``, or at ``home``. ``abort`` completes the run, unless the question is of an earlier
    one. For ``words`` and ContractError see :func:`read_answer`.
    """
    require(_TURN.issues(state))
    state = adopted(state)
    if not pending_requests(state):
        state = _opened(state)

    request = pending_requests(state)[0]
    feedback = state["human_feedback"]
    if feedback is None or not feedback.strip():
        if request.asked == 0:
            return _asking(state, request, now)
        return _still_waiting(state)

    state = changed(state, messages=[*state["messages"], chat_message("user", feedback, now)])
    decision = read_answer(request.kind, feedback, words=words)
    if decision is None:
        return _asking(state, request, now)

    chosen = request.skip_to if decision is HumanDecision.SKIP else request.resume_to
    target = chosen or (request.interrupted if request.redirected else None) or home
    settled = SettledHuman(request, decision, feedback, now().isoformat())
    state = _settled(state, settled, target)

    # an answer to a question of an earlier run decides nothing about this one
    aborts = decision is HumanDecision.ABORT and not request.carried
    return mark_complete(state, RunEnding.ABORTED) if aborts else state


def pending_requests(state: AgentState) -> tuple[PendingHuman, ...]:
    """Return the requests that no human has answered, in the order they are asked.

    Raises StateError for a broken ledger.
    """
    ledger = read_ledger(ledger_of(state), "/human_requests")
    return tuple(one for one in ledger if isinstance(one, PendingHuman))


def ledger_of(state: AgentState) -> list[JSONObject]:
    """Return the ledger as the state holds it, empty when it has none yet."""
    return state.get("human_requests", [])


def adopted(state: S) -> S:
    """Return a state whose flag has a request behind it, also when it was set by hand.

    Raises StateError for bad fields.
    """
    require(_REQUESTS.issues(state))
    if state["requires_human_input"] and not pending_requests(state):
        return _opened(state)
    return state


def apply_update(state: S, update: Mapping[str, object] | None) -> S:
    """Return the state after an update, with the requests that either knows (R27).

    Raises StateError for an update that is not valid.
    """
    fields: Mapping[str, Any] = {} if update is None else update
    require(_UPDATE.issues(fields))

    before = adopted(state)
    ledger = merge_ledgers(ledger_of(before), fields.get("human_requests", []))
    after = adopted(changed(before, **{**fields, "human_requests": ledger}))
    # the flag stays while a request is pending
    return changed(after, requires_human_input=bool(pending_requests(after)))


def _opened(state: S) -> S:
    return _noted(state, unworded(ledger_of(state), _interrupted(state)))


def _interrupted(state: AgentState) -> str | None:
    """Return the target before the human's turn, None when there is none.

    It is ``human_input`` in a run that was sent there by hand.
    """
    target: object = state["next_agent"]
    if target == HUMAN_INPUT and (waiting := pending_requests(state)):
        return waiting[-1].interrupted

    return target if isinstance(target, str) else None


def _noted(state: S, *news: HumanRequest) -> S:
    ledger = merge_ledgers(ledger_of(state), [one.to_dict() for one in news])
    return changed(state, human_requests=ledger)


def _asking(state: S, request: PendingHuman, now: Now) -> S:
    messages = [*state["messages"], chat_message("assistant", request.question, now)]
    asked = replace(request, asked=request.asked + 1)
    return _still_waiting(_noted(changed(state, messages=messages), asked))


def _still_waiting(state: S) -> S:
    return changed(state, requires_human_input=True, human_feedback=None, next_agent=HUMAN_INPUT)


def _settled(state: S, settled: SettledHuman, target: str | None) -> S:
    """Write the end of a request, and go on to ``target``.

    Requests that still wait interrupt what an answer led to.
    """
    state = changed(_noted(state, settled), human_feedback=None)
    if not (waiting := pending_requests(state)):
        return changed(state, requires_human_input=False, next_agent=target)

    if settled.decision is not None:
        news = (replace(one, interrupted=target, redirected=one.redirected + 1) for one in waiting)
        state = _noted(state, *news)
    return _still_waiting(state)
