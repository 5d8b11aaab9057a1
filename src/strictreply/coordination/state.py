"""The state that agents share: its schema, its changes, and its questions to a human.

Each change returns a new state. The names come from the published Routing Logic. A question has a
kind, which says what an answer decides. The state's ledger has all questions and answers.
"""

from __future__ import annotations

import copy
import json
import unicodedata
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from itertools import count
from typing import Annotated, Any, Final, NotRequired, Self, TypeAlias, TypedDict, TypeVar, cast

from strictreply import ContractError, Issue
from strictreply.coordination.actions import CoordinationCode, StateError
from strictreply.coordination.metrics import Now, utc_now
from strictreply.core import JSON, JSONObject
from strictreply.core.text import quote
from strictreply.schema import Schema, SchemaRule

__all__ = [
    "END",
    "HUMAN_INPUT",
    "AgentState",
    "ChatMessage",
    "HumanDecision",
    "HumanKind",
    "PendingHuman",
    "RoutingEntry",
    "RunEnding",
    "SettledHuman",
    "StateSchema",
    "carry_over_requests",
    "clear_human_input_request",
    "create_initial_state",
    "give_human_feedback",
    "human_input",
    "increment_loop_count",
    "mark_complete",
    "pending_requests",
    "read_answer",
    "read_requests",
    "request_human_input",
    "start_run",
    "validate_state",
    "with_requests",
]

END: Final = "end"
"""The target of ``route_next`` that ends a run; the end of a topology is ``END_NODE``."""
HUMAN_INPUT: Final = "human_input"
"""The target of ``route_next`` that asks the human."""
# The node that runs begin with, unless a graph of yours says otherwise.
COORDINATOR: Final = "coordinator"
# The nodes as published (R5).
DEFAULT_NODES: Final = (COORDINATOR, "course_advisor", "learning_planner", HUMAN_INPUT, END)

TEXT: Final[JSONObject] = {"type": "string"}
NAME: Final[JSONObject] = {"type": "string", "minLength": 1}
COUNT: Final[JSONObject] = {"type": "integer", "minimum": 0}
FLAG: Final[JSONObject] = {"type": "boolean"}
OBJECT: Final[JSONObject] = {"type": "object"}

_CODES: Final[Mapping[str, CoordinationCode]] = {
    SchemaRule.REQUIRED: CoordinationCode.STATE_MISSING_FIELD,
    SchemaRule.DEPENDENT_REQUIRED: CoordinationCode.STATE_MISSING_FIELD,
    SchemaRule.MINIMUM: CoordinationCode.STATE_NEGATIVE,
    SchemaRule.MIN_LENGTH: CoordinationCode.STATE_BLANK,
    SchemaRule.ENUM: CoordinationCode.STATE_UNKNOWN_WORD,
}
# Stands for a value that is not JSON; a state's schema never accepts a fraction.
_NOT_ADMITTED: Final = 0.5


class StateSchema:
    """A JSON Schema of a part of a state; compiled when it is first used.

    It may use ``type``, ``properties``, ``required``, ``items``, ``enum``, ``minimum``,
    ``minLength`` and ``dependentRequired``. Unknown members are ignored.
    """

    def __init__(self, document: JSONObject) -> None:
        self._document = document

    @staticmethod
    def record(properties: JSONObject, *, optional: Collection[str] = ()) -> JSONObject:
        """Return the schema of an object with these members, and any others.

        All of them are required except the optional ones.
        """
        required: list[JSON] = [name for name in properties if name not in optional]
        return {"type": "object", "properties": properties, "required": required}

    @staticmethod
    def or_null(schema: JSONObject) -> JSONObject:
        """Return the schema of the same value, or null."""
        return {**schema, "type": [schema["type"], "null"]}

    @cached_property
    def _compiled(self) -> Schema:
        return Schema.compile(self._document, extra="schema")

    def issues(self, value: object, at: str = "") -> tuple[Issue, ...]:
        """Return the faults of a value at a JSON Pointer, at most 32."""
        issues: list[Issue] = []
        for issue in self._compiled.check(_named_by(self._document, value), place="state"):
            rule = issue.code.partition(".")[2]
            code = _CODES.get(rule, CoordinationCode.STATE_WRONG_TYPE)
            if rule == str(SchemaRule.TYPE):
                part = cast("JSONObject", self._compiled.part(issue.path))
                if "properties" in part:
                    code = CoordinationCode.STATE_NOT_OBJECT

            message = code.template if code is CoordinationCode.STATE_BLANK else issue.message
            found = "" if issue.found == str(_NOT_ADMITTED) else issue.found
            place = at + issue.path
            issues.append(Issue(code.value, code.category, place, message, issue.hint, found))

        return tuple(issues)


def _named_by(schema: JSONObject, value: object) -> JSON:
    """Return a copy of the members of a value that a schema names, as plain JSON.

    Floats are not accepted, although JSON Schema accepts 3.0 as an integer.
    """
    if isinstance(value, str):
        text = str(value) if value.strip() else ""  # NAME requires a character that is not blank
        # half a surrogate pair is not JSON
        return text if text.isascii() else text.encode(errors="replace").decode()

    if value is None or isinstance(value, bool | int):
        return value

    if isinstance(value, list):
        items = cast("list[object]", value)
        return [_named_by(schema["items"], item) for item in items] if "items" in schema else []

    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value)
        known: Mapping[str, Any] = schema.get("properties", {})
        return {
            name: _named_by(part, members[name]) for name, part in known.items() if name in members
        }

    return _NOT_ADMITTED


class HumanDecision(StrEnum):
    """What the answer of a human decides."""

    APPROVE = "approve"
    """The human agrees to the plan."""
    REVISE = "revise"
    """The human does not agree to the plan."""
    FEEDBACK = "feedback"
    """The answer is a text for the agent."""
    SATISFIED = "satisfied"
    """The courses are what the human wants."""
    MORE = "more"
    """The human wants more courses."""
    ADJUST = "adjust"
    """The human says how to change the selection of courses."""
    RETRY = "retry"
    """The failed step is executed again."""
    SKIP = "skip"
    """The failed step is left out."""
    ABORT = "abort"
    """The run ends."""


Words: TypeAlias = Mapping[str, HumanDecision]
"""The decision of each answer, as a whole text; case, width and outer spaces do not matter."""


class HumanKind(StrEnum):
    """The kind of a question.

    ``words`` maps answers to decisions, and ``prompt`` is the default text of a question.
    ``otherwise`` is the decision of any other text; None asks the human again.
    """

    decisions: frozenset[HumanDecision]
    """What an answer can decide."""
    words: Words
    """The answers that decide, each with its decision."""
    otherwise: HumanDecision | None
    """What any other text decides; None if the question is repeated."""
    prompt: str
    """The default text of a request."""

    def __new__(
        cls, value: str, prompt: str, otherwise: HumanDecision | None, spelt: Mapping[str, str]
    ) -> Self:
        """Make a kind; ``spelt`` maps each of its decisions to further words for it."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.decisions = frozenset(map(HumanDecision, spelt))
        member.otherwise = otherwise
        member.prompt = prompt

        member.words = {
            word: HumanDecision(one)
            for one, words in spelt.items()
            for word in (one, *words.split())
        }
        return member

    GENERAL = "general", "Please say how to go on.", HumanDecision.FEEDBACK, {"feedback": ""}
    """Asks how to go on; each answer is feedback."""
    PLAN_APPROVAL = (
        "plan_approval",
        "Do you agree with this plan? Answer approve or revise, or say what to change.",
        HumanDecision.FEEDBACK,
        {
            "approve": "approved yes y ok okay agree agreed 同意 批准 可以 好 好的 是 没问题",
            "revise": "no n 不同意 修改 不可以 不行",
            "feedback": "",
        },
    )
    """Asks for approval of a plan: approve, revise, or feedback."""
    COURSE_SELECTION = (
        "course_selection",
        "Are these courses what you want? Answer satisfied or more, or say what to adjust.",
        HumanDecision.ADJUST,
        {
            "satisfied": "yes y ok okay 满意 可以 好 好的",
            "more": "更多 再来 继续",
            "adjust": "no 调整 不满意",
        },
    )
    """Asks about a selection of courses: satisfied, more, or what to adjust."""
    ERROR = (
        "error",
        "A step failed. Answer retry, skip or abort.",
        None,
        {"retry": "重试", "skip": "跳过", "abort": "cancel stop 中止 取消"},
    )
    """Asks what to do after an error: retry, skip or abort; another answer repeats it."""


@dataclass(frozen=True, slots=True)
class PendingHuman:
    """One question to a human without an answer yet."""

    id: str
    """Id of the question."""
    kind: HumanKind = HumanKind.GENERAL
    """The kind of the question, which says what an answer decides."""
    prompt: str = ""
    """The text of the question; empty for the text of its kind."""
    resume_to: str | None = None
    """The node that an answer leads to; None for the node where the graph begins."""
    skip_to: str | None = None
    """The node that ``skip`` leads to; None for no node."""
    interrupted: str | None = None
    """The target that cancelling restores; None for no target."""
    requested_at: str = ""
    """ISO 8601 time of the question; empty if unknown."""
    asked: int = 0
    """How often the question was put to the human."""
    tell_to: str | None = None
    """The node that gets the answer after the asking branch has ended; None before that."""
    carried: int = 0
    """Number of later runs that led the question to another entry."""
    redirected: int = 0
    """Answers to earlier questions that changed ``interrupted``."""

    @property
    def question(self) -> str:
        """The text of the question: its own, or that of its kind."""
        return self.prompt.strip() or self.kind.prompt

    def handed_over(self, target: str, *, tell_to: str | None = None) -> Self:
        """Return the question with ``target`` as the node that any answer leads to."""
        return replace(self, resume_to=target, skip_to=target, interrupted=target, tell_to=tell_to)

    def carried_over(self, entry: str) -> Self:
        """Return the question for a new run that begins at ``entry``.

        Carrying it over to the same entry again changes nothing. The node that asked still gets the
        answer.
        """
        if self.carried and self.resume_to == entry:
            return self

        question = self.handed_over(entry, tell_to=self.tell_to or self.resume_to)
        return replace(question, carried=self.carried + 1)

    def to_dict(self) -> JSONObject:
        """Return the request as JSON."""
        return asdict(self) | {"kind": self.kind.value}


@dataclass(frozen=True, slots=True)
class SettledHuman:
    """A question that was answered with ``decision``, or cancelled if ``decision`` is None.

    ``settled_at`` is an ISO 8601 time.
    """

    request: PendingHuman
    """The request that is over."""
    decision: HumanDecision | None
    """What the human decided; None when the request was cancelled."""
    answer: str = ""
    """The human's words; empty for none."""
    settled_at: str = ""
    """The time, in ISO 8601."""

    def to_dict(self) -> JSONObject:
        """Return the members of the request, and how it was settled, as JSON."""
        decision = self.decision and self.decision.value
        settled = {"decision": decision, "answer": self.answer, "settled_at": self.settled_at}
        return self.request.to_dict() | settled


HumanRequest: TypeAlias = PendingHuman | SettledHuman

_KINDS = {kind.value: kind for kind in HumanKind}  # type checkers take HumanKind(…) for its __new__
_OF_TYPE = {
    "str": TEXT,
    "str | None": StateSchema.or_null(TEXT),
    "int": COUNT,
    "HumanKind": {"enum": [*_KINDS]},
}
_PENDING: JSONObject = {
    **{one.name: _OF_TYPE[str(one.type)] for one in fields(PendingHuman)},
    "id": NAME,
}
_SETTLED: JSONObject = {
    "decision": {"enum": [*map(str, HumanDecision), None]},
    "answer": TEXT,
    "settled_at": TEXT,
}
# A ledger of an earlier version has no ``redirected``.
_REQUEST: JSONObject = {
    **StateSchema.record(_PENDING | _SETTLED, optional=("redirected", *_SETTLED)),
    "dependentRequired": {"settled_at": ["decision", "answer"]},
}
LEDGER: Final[JSONObject] = {"type": "array", "items": _REQUEST}
_LEDGER = StateSchema(LEDGER)


def read_ledger(value: object, at: str = "") -> tuple[HumanRequest, ...]:
    """Return the requests of a state's ledger; raise StateError with every fault."""
    StateError.raise_for(_LEDGER.issues(value, at))

    found: list[HumanRequest] = []
    for entry in cast("list[Mapping[str, Any]]", value):
        parts: dict[str, Any] = {key: entry[key] for key in _PENDING if key in entry}
        parts["kind"] = _KINDS[entry["kind"]]
        request = PendingHuman(**parts)

        if "settled_at" in entry:
            decision = entry["decision"] and HumanDecision(entry["decision"])
            found.append(SettledHuman(request, decision, entry["answer"], entry["settled_at"]))
        else:
            found.append(request)

    return tuple(found)


def merge_ledgers(one: list[JSONObject], other: list[JSONObject]) -> list[JSONObject]:
    """Merge two ledgers: every request once, with its later entry. It is LangGraph's reducer.

    Raises StateError unless both are ledgers.
    """
    by_age = sorted((*read_ledger(one), *read_ledger(other)), key=_age)
    joined = {request_of(found).id: found for found in by_age}
    return [found.to_dict() for found in sorted(joined.values(), key=_requested)]


def _requested(found: HumanRequest) -> tuple[str, str]:
    request = request_of(found)
    return request.requested_at, request.id


def _age(found: HumanRequest) -> tuple[bool, int, int, int, str]:
    """Return the sort key of the entries of one request.

    A settled entry is later than a pending one. Otherwise the entry that was carried or asked more
    often is later.
    """
    request = request_of(found)
    total = json.dumps(found.to_dict(), sort_keys=True)  # so that no two entries are equally old
    settled = isinstance(found, SettledHuman)
    return settled, request.carried, request.redirected, request.asked, total


def request_of(found: HumanRequest) -> PendingHuman:
    """Return the question of a request, settled or not."""
    return found.request if isinstance(found, SettledHuman) else found


def unworded(ledger: Sequence[JSONObject], interrupted: str | None) -> PendingHuman:
    """Return the request for a flag that was set by hand.

    Its id is derived from the ledger, so that it is added only once.
    """
    # a ledger that was changed by hand may have any id
    taken = {entry.get("id") for entry in ledger}
    id_ = next(one for number in count(len(ledger)) if (one := f"flag-{number}") not in taken)
    return PendingHuman(id=id_, interrupted=interrupted)


def read_answer(
    kind: HumanKind, answer: str, *, words: Words | None = None
) -> HumanDecision | None:
    """Return the decision of an answer; None if the question must be repeated.

    An answer is a decision's name, or exactly one of the words of its kind. ``words`` adds words or
    overrides them. Any other text means ``kind.otherwise``. A word inside a longer text never
    counts, so that a negation cannot be read as consent.

    Raises ContractError when ``words`` has a decision that this kind does not have, and for the
    bare name of another kind's decision if this kind accepts free text.
    """
    if foreign := sorted({*(words or {}).values()} - kind.decisions):
        raise ContractError(
            f"words= of a question of the kind {kind.value!r} cannot stand for {', '.join(foreign)}"
        )

    table = {**kind.words} | {_plain(word): decision for word, decision in (words or {}).items()}
    spelt = _plain(answer)
    mixes = kind.otherwise is not None and len(kind.decisions) > 1  # a name may pass for free text
    if spelt not in table and spelt in tuple(HumanDecision) and mixes:
        ways = f"answer {', '.join(sorted(kind.decisions))}, or say it in more words"
        raise ContractError(
            f"{spelt!r} does not answer a question of the kind {kind.value!r}: {ways}"
        )

    return table.get(spelt, kind.otherwise)


def _plain(answer: str) -> str:
    return unicodedata.normalize("NFKC", answer).casefold().strip()


class RunEnding(StrEnum):
    """Why a state is complete."""

    COMPLETED = "completed"
    ABORTED = "aborted"


class ChatMessage(TypedDict):
    """One message of the conversation.

    ``role`` and ``content`` are those of chat completions; ``timestamp`` is an ISO 8601 time.
    """

    role: str
    """The role, as chat completions spell it."""
    content: str
    """The text."""
    timestamp: str
    """The time, in ISO 8601."""


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
"""One decision in ``routing_history``: its time, nodes, reason, loop count and task."""


class AgentState(TypedDict):
    """The state that agents share in one conversation.

    An application may subclass it with more fields.
    """

    messages: list[ChatMessage]
    """The conversation so far."""
    conversation_id: str
    """Id of the conversation."""
    user_profile: JSONObject
    """What the application knows about the user; at least ``user_id``."""
    current_task: str | None
    """The current task; None for no task."""
    next_agent: str | None
    """The next node; None if none was chosen."""
    course_candidates: list[JSONObject]
    """The courses under consideration (of the published example)."""
    learning_plan: JSONObject | None
    """The plan that was made (of the published example); None while there is none."""
    requires_human_input: bool
    """Whether a human must be asked next."""
    human_feedback: str | None
    """The human's answer that was not read yet; None if there is none."""
    loop_count: int
    """Node executions so far, compared with the loop limit."""
    is_complete: bool
    """Whether the run has ended."""
    human_requests: NotRequired[Annotated[list[JSONObject], merge_ledgers]]
    """The ledger of questions to the human, annotated with LangGraph's reducer for it."""
    routing_history: NotRequired[list[RoutingEntry]]
    """The newest routing decisions, in order."""
    max_loop_count: NotRequired[int | None]
    """The loop limit of this conversation; None for the limit of the routes."""
    ending: NotRequired[str | None]
    """Why the run ended; None while it goes on."""
    reply_formats: NotRequired[dict[str, str]]
    """The formats of agents' replies by the agent's name."""


S = TypeVar("S", bound=AgentState)

HISTORY_ENTRY: Final = StateSchema.record(
    {
        "ts": TEXT,
        "from": StateSchema.or_null(TEXT),
        "to": TEXT,
        "reason": TEXT,
        "loop_count": COUNT,
        "task": {},
    }
)
_FIELDS: JSONObject = {
    "messages": {
        "type": "array",
        "items": StateSchema.record({"role": NAME, "content": TEXT, "timestamp": NAME}),
    },
    "conversation_id": NAME,
    "user_profile": StateSchema.record({"user_id": NAME}),
    "current_task": StateSchema.or_null(TEXT),
    "course_candidates": {"type": "array", "items": OBJECT},
    "learning_plan": StateSchema.or_null(OBJECT),
    "human_feedback": StateSchema.or_null(TEXT),
    "loop_count": COUNT,
    "is_complete": FLAG,
    "requires_human_input": FLAG,
    "next_agent": {},  # a bad value leads to the end, only its absence is a fault (X23)
    "human_requests": LEDGER,
    "routing_history": {"type": "array", "items": HISTORY_ENTRY},
    "max_loop_count": StateSchema.or_null(COUNT),
    "ending": {"enum": [*(ending.value for ending in RunEnding), None]},
    "reply_formats": OBJECT,
}


def fields_of(*names: str, **others: JSONObject) -> JSONObject:
    """Return the schema of a part of a state.

    Fields that the published state does not have are optional.
    """
    beside = ("human_requests", "routing_history", "max_loop_count", "ending", "reply_formats")
    return StateSchema.record({name: _FIELDS[name] for name in names} | others, optional=beside)


_STATE = StateSchema(fields_of(*_FIELDS))
_UPDATED: JSONObject = {"loop_count": COUNT, "requires_human_input": FLAG, "human_requests": LEDGER}
_UPDATE = StateSchema(StateSchema.record(_UPDATED, optional=_UPDATED))
_COUNTED = StateSchema(fields_of("loop_count"))
_REQUESTS = StateSchema(fields_of("requires_human_input", "next_agent", "human_requests"))
_TURN = StateSchema(fields_of("human_feedback", messages={"type": "array"}))


def new_id() -> str:
    """Return a new unique id."""
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
    """Return the state of a new conversation, with new ids if none are given.

    ``max_loop_count`` is the conversation's own limit; None for the configured one. Raises
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

    StateError.raise_for(state_issues(state))
    return state


def start_run(state: S, user_message: str, *, entry: str = COORDINATOR, now: Now = utc_now) -> S:
    """Return the state for the user's next message, with a loop count of 0.

    Any answer to a pending question, also ``abort``, leads to ``entry``.
    """
    messages = [*state["messages"], chat_message("user", user_message, now)]
    asked = changed(carry_over_requests(state, entry), messages=messages, next_agent=entry)
    return changed(asked, loop_count=0, is_complete=False, ending=None)


def carry_over_requests(state: S, entry: str) -> S:
    """Return the state for a new run; its pending requests lead to ``entry``.

    A flag without a request gets one. Raises StateError for a broken ledger.
    """
    ledger = ledger_of(state)
    pending = [found for found in read_ledger(ledger) if isinstance(found, PendingHuman)]
    if state["requires_human_input"] and not pending:
        pending = [unworded(ledger, None)]
    return with_requests(state, *(request.carried_over(entry) for request in pending))


def increment_loop_count(state: S) -> S:
    """Count one node execution; raise StateError if ``loop_count`` is missing or wrong."""
    StateError.raise_for(_COUNTED.issues(state))
    return changed(state, loop_count=state["loop_count"] + 1)


def mark_complete(state: S, ending: RunEnding = RunEnding.COMPLETED) -> S:
    """Mark the run as completed or aborted; the next route is the end, whatever is pending."""
    return changed(state, is_complete=True, next_agent=END, ending=ending.value)


def changed(state: S, **fields: object) -> S:
    """Return a new state with other values in some fields."""
    return cast("S", {**state, **fields})


def chat_message(role: str, content: str, now: Now = utc_now) -> ChatMessage:
    """Return one message with the present time."""
    return {"role": role, "content": content, "timestamp": now().isoformat()}


def validate_state(state: object, nodes: Collection[str] = DEFAULT_NODES) -> tuple[bool, str]:
    """Return whether a state is valid, and all its faults on one line (the published form)."""
    issues = state_issues(state, nodes)
    return not issues, "; ".join(issue.dotted for issue in issues)


def state_issues(state: object, nodes: Collection[str] = DEFAULT_NODES) -> tuple[Issue, ...]:
    """Return every fault of a state.

    A fault is a field that is missing or has a wrong type, or a ``next_agent`` that is not a node.
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
    """Return the state with a question to a human.

    It sets the flag, makes ``human_input`` the next target, and adds the request to the ledger. An
    empty ``prompt`` means the text of ``kind``. An answer leads to ``resume_to``; None means the
    node where the graph begins. For an error, ``retry`` leads by default back to the interrupted
    agent, and ``skip`` to ``skip_to``. If another request is pending, this one waits after it, and
    interrupts the same target.
    """
    state = adopted(state)
    interrupted = _interrupted(state)
    at = now().isoformat()
    failed = interrupted if kind is HumanKind.ERROR and interrupted != HUMAN_INPUT else None
    asked = PendingHuman(make_id(), kind, prompt, resume_to or failed, skip_to, interrupted, at)
    return put_question(state, asked)


def put_question(state: S, question: PendingHuman) -> S:
    """Return the state with a question, like :func:`request_human_input`.

    A question with a known id is asked only once.
    """
    noted = with_requests(adopted(state), question)
    return changed(noted, requires_human_input=True, next_agent=HUMAN_INPUT)


def clear_human_input_request(
    state: S, *, request_id: str | None = None, home: str = COORDINATOR, now: Now = utc_now
) -> S:
    """Cancel a pending request by its id; None means the first one.

    It clears the flag and the feedback, and the interrupted target is next again. If other requests
    are pending, flag and target stay. The feedback stays if the cancelled request was not the
    first. A request that is not pending changes nothing. A run that was sent to the human by hand
    continues at ``home``.
    """
    state = adopted(state)
    waiting = pending_requests(state)
    chosen = next((one for one in waiting if request_id in (None, one.id)), None)
    if chosen is None:
        if request_id is not None:
            return state

        # There is a flag without a request, or the run was sent to the human by hand: do not go
        # there again.
        target = home if state["next_agent"] == HUMAN_INPUT else state["next_agent"]
        return changed(state, requires_human_input=False, human_feedback=None, next_agent=target)

    settled = SettledHuman(chosen, decision=None, settled_at=now().isoformat())
    if chosen != waiting[0]:
        return with_requests(state, settled)

    target = home if chosen.interrupted == HUMAN_INPUT else chosen.interrupted
    return _settled(state, settled, target)


def give_human_feedback(state: S, answer: str) -> S:
    """Return the state with the human's answer, for :func:`human_input` to read.

    Raises ContractError unless the answer is a text.
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
    """Return the state after the human's turn.

    Without feedback the run waits, and the question is added to the messages once. With feedback,
    it is read as the answer to the first request. It becomes a user message. If it decides nothing,
    the question is added again. Otherwise flag and feedback are cleared, and the run continues at
    the request's ``resume_to``, or at ``home``. ``abort`` ends the run, unless the question belongs
    to an earlier run. For ``words`` and ContractError see :func:`read_answer`.
    """
    StateError.raise_for(_TURN.issues(state))
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
    """Return the requests without an answer, in the order in which they are asked.

    Raises StateError for a broken ledger.
    """
    return tuple(one for one in read_requests(state) if isinstance(one, PendingHuman))


def read_requests(state: AgentState) -> tuple[PendingHuman | SettledHuman, ...]:
    """Return all requests of a state, pending and settled, in the order of its ledger.

    Raises StateError for a broken ledger.
    """
    return read_ledger(ledger_of(state), "/human_requests")


def with_requests(state: S, *requests: PendingHuman | SettledHuman) -> S:
    """Return the state with these requests in its ledger; a later entry replaces an earlier one.

    Raises StateError for a broken ledger.
    """
    ledger = merge_ledgers(ledger_of(state), [one.to_dict() for one in requests])
    return changed(state, human_requests=ledger)


def ledger_of(state: AgentState) -> list[JSONObject]:
    """Return the state's ledger; empty if it has none yet."""
    return state.get("human_requests", [])


def adopted(state: S) -> S:
    """Return the state with a request for its flag, even if the flag was set by hand.

    Raises StateError for wrong fields.
    """
    StateError.raise_for(_REQUESTS.issues(state))
    if state["requires_human_input"] and not pending_requests(state):
        return _opened(state)
    return state


def apply_update(state: S, update: Mapping[str, object] | None) -> S:
    """Return the state after an update, with the requests of both (R27).

    Raises StateError for an invalid update.
    """
    fields: Mapping[str, Any] = {} if update is None else update
    StateError.raise_for(_UPDATE.issues(fields))

    before = adopted(state)
    ledger = merge_ledgers(ledger_of(before), fields.get("human_requests", []))
    after = adopted(changed(before, **{**fields, "human_requests": ledger}))
    # the flag stays while a request is pending
    return changed(after, requires_human_input=bool(pending_requests(after)))


def _opened(state: S) -> S:
    return with_requests(state, unworded(ledger_of(state), _interrupted(state)))


def _interrupted(state: AgentState) -> str | None:
    """Return the target before the human's turn; None if there is none.

    It is ``human_input`` in a run that was sent there by hand.
    """
    target: object = state["next_agent"]
    if target == HUMAN_INPUT and (waiting := pending_requests(state)):
        return waiting[-1].interrupted

    return target if isinstance(target, str) else None


def _asking(state: S, request: PendingHuman, now: Now) -> S:
    messages = [*state["messages"], chat_message("assistant", request.question, now)]
    asked = replace(request, asked=request.asked + 1)
    return _still_waiting(with_requests(changed(state, messages=messages), asked))


def _still_waiting(state: S) -> S:
    return changed(state, requires_human_input=True, human_feedback=None, next_agent=HUMAN_INPUT)


def _settled(state: S, settled: SettledHuman, target: str | None) -> S:
    """Record the end of a request, and continue at ``target``.

    Requests that still wait then interrupt the target that the answer led to.
    """
    state = changed(with_requests(state, settled), human_feedback=None)
    if not (waiting := pending_requests(state)):
        return changed(state, requires_human_input=False, next_agent=target)

    if settled.decision is not None:
        news = (replace(one, interrupted=target, redirected=one.redirected + 1) for one in waiting)
        state = with_requests(state, *news)
    return _still_waiting(state)
