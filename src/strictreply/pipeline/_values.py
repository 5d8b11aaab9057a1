"""What travels down the line: the request as received, the context that the steps fill, and the response.

Values are frozen and hold plain JSON; a step gives a new context and changes none. Making one checks nothing, so that
the validator can be shown any content; :meth:`Value.from_json` is strict.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Self, cast

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from strictreply.pipeline._kinds import AgentPipelineContextType, ResponseKind, ResponseType
from strictreply.values._json import JSONObject


class Value:
    """Something that goes to JSON and comes back equal."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    def to_dict(self) -> JSONObject:
        """Give the value as plain JSON; lists stand for tuples."""
        told: JSONObject = to_jsonable_python(self)
        return told

    def to_json(self) -> str:
        """Spell the value as a JSON text."""
        return to_json(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what :meth:`to_json` wrote; raises pydantic.ValidationError, a ValueError, with each place at fault."""
        value: Self = cls._adapter().validate_json(text)
        return value

    @classmethod
    def json_schema(cls) -> JSONObject:
        """Give the JSON Schema (2020-12) that :meth:`from_json` holds a text to."""
        return cls._adapter().json_schema()

    @classmethod
    def _adapter(cls) -> TypeAdapter[Any]:
        """Give pydantic's reader of this kind of value."""
        return _adapter_of(cast("Hashable", cls))  # mypy looks for the hash of a class among its instances' methods


@lru_cache(maxsize=64)
def _adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Give the reader of a kind of value, made once."""
    return TypeAdapter(kind)


class _Waiting:
    """The session and the turn that a call of a response waits in, beside its members: AGN-033 has them once.

    They are no part of the value: not compared, not in its JSON, and a call that is replaced is another one.
    """

    __slots__ = ("_waits_in",)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy with them."""
        call = cast("AgentToolCall", self)
        return _waiting, (_members(call), *_waits_in(call))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolCall(_Waiting, Value):
    """A call as it stands in a manifest; ``arguments_json`` is a JSON text (AGN-033, requirement P49).

    ``requires_client_execution`` says that the result comes from the client: of a tool that it runs, or, with
    ``needs_approval``, the decision whether the call may be run here.
    """

    tool_call_id: str
    name: str
    arguments_json: str
    requires_client_execution: bool = False
    needs_approval: bool = False

    def answered(self, value: object, *, execution_ms: int = 0) -> AgentToolCallResult:
        """Give the result of a call that the client ran: ``value`` is anything that pydantic can spell as JSON."""
        return AgentToolCallResult(
            tool_call_id=self.tool_call_id,
            name=self.name,
            execution_ms=execution_ms,
            result_json=to_json(value, inf_nan_mode="null").decode(),
        )

    def approved(self) -> Decision:
        """Decide that a call which needs approval may be run; the decision names where the call waits."""
        session_id, turn_id = _waits_in(self)
        return Decision(
            session_id=session_id,
            turn_id=turn_id,
            tool_call_id=self.tool_call_id,
            name=self.name,
            arguments_json=self.arguments_json,
            approved=True,
        )

    def denied(self, reason: str = "") -> Decision:
        """Decide that it may not; the model is told ``reason``."""
        return replace(self.approved(), approved=False, reason=reason)


def _waiting(members: dict[str, Any], session_id: str, turn_id: str) -> AgentToolCall:
    """Make a call that knows where it waits."""
    call = AgentToolCall(**members)
    object.__setattr__(call, "_waits_in", (session_id, turn_id))
    return call


def _members(call: AgentToolCall) -> dict[str, Any]:
    """Return what a call is made of, which may be anything."""
    return {member.name: getattr(call, member.name) for member in fields(call)}


def _waits_in(call: AgentToolCall) -> tuple[str, str]:
    """Return the session and the turn that a call waits in, empty where nobody has said so."""
    known: tuple[str, str] = getattr(call, "_waits_in", ("", ""))
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Value):
    """Whether a call that needs approval may be run here, with the arguments that were decided on, and why not.

    It is a value of its own so that no result a client sends is ever taken for one: the program makes it, when it knows
    who decides. ``session_id`` and ``turn_id`` name the one turn of the one run that it holds for; empty, it holds for
    none. A call of ``run.pending``, or of a response that was read from JSON, fills them in.
    """

    tool_call_id: str
    name: str
    arguments_json: str
    approved: bool
    reason: str = ""
    session_id: str = ""
    turn_id: str = ""

    @property
    def result(self) -> AgentToolCallResult:
        """The decision as it stands in a manifest."""
        told = to_json({"approved": self.approved, "reason": self.reason}).decode()
        return AgentToolCallResult(tool_call_id=self.tool_call_id, name=self.name, result_json=told)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolCallResult(Value):
    """What a call came to: exactly one of ``result_json``, a JSON text, and ``error_message`` (requirement P50).

    ``execution_ms`` is the time it took, in milliseconds.
    """

    tool_call_id: str
    name: str
    execution_ms: int = 0
    result_json: str | None = None
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallManifest(Value):
    """Calls and their results, pairwise and in the same order (AGN-036 section 5)."""

    tool_calls: tuple[AgentToolCall, ...] = ()
    tool_call_results: tuple[AgentToolCallResult, ...] = ()

    @property
    def pending(self) -> tuple[AgentToolCall, ...]:
        """The calls that have no result yet (X17)."""
        answered = {result.tool_call_id for result in self.tool_call_results}
        return tuple(call for call in self.tool_calls if call.tool_call_id not in answered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope(Value):
    """The request as it was received; no step ever changes it (X15).

    ``instructions``, ``input_artifacts`` and ``clip_board_images`` are the user's input, the latter two as content
    parts. ``messages`` is the conversation that the caller brought, the user's turn last. ``session_id`` and
    ``turn_id`` name what goes on, empty when nothing does; ``tool_results`` are the client's,
    but those that spell ``decided``, the program's own decisions.
    """

    org: str | None
    user: str | None
    session_id: str = ""
    turn_id: str = ""
    agent_context_id: str = ""
    conversation_context_id: str = ""
    instructions: str = ""
    input_artifacts: tuple[JSONObject, ...] = ()
    clip_board_images: tuple[JSONObject, ...] = ()
    tool_results: tuple[AgentToolCallResult, ...] = ()
    decided: tuple[Decision, ...] = ()
    messages: tuple[JSONObject, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Value):
    """A conversation over several turns; ``org`` and ``user`` are whose it is.

    ``messages`` are those of its finished turns, ``last_turn_id`` the last of these or the one that waits, empty when
    there was none. ``mode`` is what the session is for, ``mode_display_name`` how a user is told so.
    """

    id: str
    org: str = ""
    user: str = ""
    mode: str = "general"
    mode_display_name: str = "General"
    agent_context_id: str = ""
    conversation_context_id: str = ""
    last_turn_id: str = ""
    messages: tuple[JSONObject, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Value):
    """One request and everything until its response: ``messages`` begin with the user's.

    ``iterations`` counts the asks of the model, ``tool_calls`` are all calls it made in this turn, in order.
    ``waiting`` are those of its last reply while the client has to answer them, None at any other time.
    """

    id: str
    iterations: int = 0
    messages: tuple[JSONObject, ...] = field(default=(), repr=False)
    tool_calls: tuple[AgentToolCall, ...] = ()
    waiting: ToolCallManifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext(Value):
    """Who answers: ``instructions`` are its system prompt, empty for none."""

    id: str
    name: str = ""
    instructions: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationContext(Value):
    """How it is talked: ``model`` is the model that is asked."""

    id: str
    name: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptContent(Value):
    """What the model is told; ``ready`` is set by the step that has composed it, and by nothing else (P41)."""

    ready: bool = False
    messages: tuple[JSONObject, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsePayload(Value):
    """What a final reply of the model says; ``usage`` are the tokens of the turn, None when unknown."""

    primary_output_text: str
    files: tuple[JSONObject, ...] = ()
    tool_results: tuple[AgentToolCallResult, ...] = ()
    user_warnings: tuple[str, ...] = ()
    usage: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResponse(Value):
    """What the client gets (AGN-033): which members may be there depends on ``kind`` (requirements P45 to P48).

    None means that a member is not there at all; an empty list is there.
    """

    kind: ResponseKind
    session_id: str
    turn_id: str
    mode_display_name: str
    primary_output_text: str | None = None
    files: tuple[JSONObject, ...] | None = None
    tool_results: tuple[AgentToolCallResult, ...] | None = None
    user_warnings: tuple[str, ...] | None = None
    usage: JSONObject | None = None
    tool_calls: tuple[AgentToolCall, ...] | None = None
    tool_continuation_message: str | None = None

    def __post_init__(self) -> None:
        """Have each call know where it waits; what is no call stays as it is, for the validator to see."""
        given = cast("Any", self.tool_calls)
        if isinstance(given, tuple):
            known = (self.session_id, self.turn_id)
            calls = (_waiting(_members(c), *known) if isinstance(c, AgentToolCall) else c for c in given)
            object.__setattr__(self, "tool_calls", tuple(calls))

    def to_dict(self) -> JSONObject:
        """Give the response as plain JSON, without the members that are not there."""
        told: JSONObject = to_jsonable_python(self, exclude_none=True)
        return told

    def to_json(self) -> str:
        """Spell the response as a JSON text, without the members that are not there."""
        return to_json(self, exclude_none=True).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltResponse(Value):
    """A response, and the fingerprint of the context that it was built from (requirement P40)."""

    response: AgentResponse
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPipelineContext(Value):
    """Everything that is known of one request while it goes down the line.

    ``time_stamp`` is an ISO 8601 date and time, ``correlation_id`` names the request in logs. ``tool_call_manifest`` is
    what a continuation answers, ``outgoing_manifest`` the calls of the model's last reply (X17). ``response_type`` says
    what that reply leads to.
    """

    type: AgentPipelineContextType
    time_stamp: str
    correlation_id: str
    envelope: Envelope
    session: Session | None = None
    turn: Turn | None = None
    agent_context: AgentContext | None = None
    conversation_context: ConversationContext | None = None
    prompt: PromptContent = PromptContent()
    tool_call_manifest: ToolCallManifest | None = None
    outgoing_manifest: ToolCallManifest | None = None
    response_payload: ResponsePayload | None = None
    response_type: ResponseType = ResponseType.NOT_READY
    built: BuiltResponse | None = None
