"""The values of the pipeline: frozen, and of plain JSON.

Making one checks nothing; :meth:`Value.from_json` is strict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from enum import IntEnum, StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, ClassVar, Final, Self, cast, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from strictreply.contract._jsonable import NotJSON, jsonable
from strictreply.values._errors import ToolResultError
from strictreply.values._limits import JSONObject


class AgentPipelineContextType(StrEnum):
    """What a request is, by its ids and results (AGN-036 section 3.1, requirement P26)."""

    INITIAL = "Initial"
    FOLLOW_ON = "FollowOn"
    CLIENT_TOOL_CALL_CONTINUATION = "ClientToolCallContinuation"


class PipelineStep(IntEnum):
    """The steps of the line.

    The numbers are stable (P42); those that end in 0 are AGN-036 sections 4.1 to 4.10. 35 restores
    a session for a continuation (X14), 65 has no rules. The last three are names in sister
    documents (X16).
    """

    REQUEST_HANDLER = 10
    SESSION_RESTORER = 20
    AGENT_CONTEXT_RESOLVER = 30
    CLIENT_TOOL_CALL_SESSION_RESTORER = 35
    CLIENT_TOOL_CONTINUATION_RESOLVER = 40
    AGENT_SESSION_CREATOR = 50
    AGENT_CONTEXT_LOADER = 60
    ACP_COMMAND_HANDLER = 65
    PROMPT_CONTENT_PROVIDER_INITIALIZER = 70
    REASONER = 80
    LLM_CLIENT = 90
    RESPONSE_BUILDER = 100

    SESSION_CONTEXT_RESOLVER = AGENT_CONTEXT_RESOLVER
    CONTEXT_PROVIDER_INITIALIZER = PROMPT_CONTENT_PROVIDER_INITIALIZER
    PROMPT_KNOWLEDGE_PROVIDER_INITIALIZER = PROMPT_CONTENT_PROVIDER_INITIALIZER


class ResponseType(StrEnum):
    """What the model's last reply leads to: the outcome, not the request's type (X18)."""

    NOT_READY = "NotReady"
    FINAL = "Final"
    TOOL_CONTINUATION = "ToolContinuation"
    SERVER_TOOLS = "ServerTools"
    """Calls that are run here, between two asks of one turn.

    A response is never built from them (X13).
    """


class ResponseKind(StrEnum):
    """The closed kinds of a response (AGN-033, requirement P45)."""

    FINAL = "final"
    CLIENT_TOOL_CONTINUATION = "client_tool_continuation"


class Value:
    """A value that reads back equal from its JSON."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)
    _none_is_absent: ClassVar[bool] = False

    def to_dict(self) -> JSONObject:
        """Return the value as plain JSON; lists stand for tuples."""
        return cast("JSONObject", to_jsonable_python(self, exclude_none=self._none_is_absent))

    def to_json(self) -> str:
        """Return the value as a JSON text."""
        return to_json(self, exclude_none=self._none_is_absent).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse what :meth:`to_json` wrote.

        Raises pydantic.ValidationError, a ValueError, with each place at fault.
        """
        return cast("Self", _adapter_of(cls).validate_json(text))

    @classmethod
    def json_schema(cls) -> JSONObject:
        """Return the JSON Schema (2020-12) that :meth:`from_json` holds a text to."""
        return _adapter_of(cls).json_schema()


_adapter_of: Final[Callable[[Any], TypeAdapter[Any]]] = lru_cache(maxsize=64)(TypeAdapter)


class _Waiting:
    """The session and the turn that a call of a response waits in.

    They are not compared, and not in its JSON.
    """

    __slots__ = ("_waits_in",)

    def __reduce__(self) -> tuple[Any, ...]:
        call = cast("AgentToolCall", self)
        return waiting_call, (_json_members(call), *_waits_in(call))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolCall(_Waiting, Value):
    """A call in a manifest; ``arguments_json`` is a JSON text (AGN-033, requirement P49).

    With ``requires_client_execution`` the client sends the result, or with ``needs_approval`` the
    decision.
    """

    tool_call_id: str
    name: str
    arguments_json: str
    requires_client_execution: bool = False
    needs_approval: bool = False

    def answered(self, value: object, *, execution_ms: int = 0) -> AgentToolCallResult:
        """Make the result of a call that the client ran.

        ``value`` is anything that a tool may return. Raises ToolResultError for what JSON cannot
        hold, NaN and infinities among it.
        """
        try:
            written = jsonable(value)
        except NotJSON as found:
            raise ToolResultError(
                self.name, path=found.path, kind=found.kind, call_id=self.tool_call_id
            ) from found

        text = to_json(written).decode()
        return AgentToolCallResult(
            tool_call_id=self.tool_call_id,
            name=self.name,
            execution_ms=execution_ms,
            result_json=text,
        )

    def approved(self) -> Decision:
        """Make the decision that a call which needs approval may be run.

        It names where the call waits.
        """
        session_id, turn_id = _waits_in(self)
        return Decision(
            tool_call_id=self.tool_call_id,
            name=self.name,
            arguments_json=self.arguments_json,
            approved=True,
            session_id=session_id,
            turn_id=turn_id,
        )

    def denied(self, reason: str = "") -> Decision:
        """Make the decision that it may not be run; the model is told ``reason``."""
        return replace(self.approved(), approved=False, reason=reason)


def waiting_call(members: dict[str, Any], session_id: str, turn_id: str) -> AgentToolCall:
    """Make a call that knows the session and the turn that it waits in."""
    call = AgentToolCall(**members)
    object.__setattr__(call, "_waits_in", (session_id, turn_id))
    return call


def _waits_in(call: AgentToolCall) -> tuple[str, str]:
    return cast("tuple[str, str]", getattr(call, "_waits_in", ("", "")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Value):
    """Whether a call that needs approval may be run here, and why not.

    ``arguments_json`` are the arguments that were decided on, ``reason`` is why not. The program
    creates it, when it knows who decides: no result of a client is ever taken for one.
    ``session_id`` and ``turn_id`` name the only turn and run that it is valid for; empty, it is
    valid for none. A call of ``run.pending``, or of a response read from JSON, fills them in.
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
    """The result of a call: ``result_json``, a JSON text, or ``error_message`` (P50).

    The call took ``execution_ms``.
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

    ``instructions``, ``input_artifacts`` and ``clip_board_images`` are the user's input, the latter
    two as content parts. ``messages`` is the caller's conversation, the user's turn last.
    ``session_id`` and ``turn_id`` name what goes on, empty for nothing; ``tool_results`` are the
    client's, and those of ``decided``, the program's decisions.
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
    """A conversation of ``org`` and ``user``.

    It is for ``mode``, which users know as ``mode_display_name``. ``messages`` are those of
    finished turns; ``last_turn_id`` is the last of these or the one that waits, empty for none.
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

    ``iterations`` counts the asks of the model, ``tool_calls`` are all calls it made in this turn,
    in order. ``waiting`` are those of its last reply while the client has to answer them, None at
    any other time.
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
    """The prompt of the model.

    ``ready`` is set by the step that has composed it, and by nothing else (P41).
    """

    ready: bool = False
    messages: tuple[JSONObject, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsePayload(Value):
    """What a final reply of the model says.

    ``usage`` are the tokens of the turn, None when unknown.
    """

    primary_output_text: str
    files: tuple[JSONObject, ...] = ()
    tool_results: tuple[AgentToolCallResult, ...] = ()
    user_warnings: tuple[str, ...] = ()
    usage: JSONObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResponse(Value):
    """What the client gets (AGN-033): ``kind`` decides which members there are (P45 to P48).

    A member that is None is absent.
    """

    _none_is_absent: ClassVar[bool] = True

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
        given = cast("Any", self.tool_calls)
        # What is not a call stays as it is, for the validator to find.
        if isinstance(given, tuple):
            known = (self.session_id, self.turn_id)
            calls = (
                waiting_call(_json_members(call), *known)
                if isinstance(call, AgentToolCall)
                else call
                for call in given
            )
            object.__setattr__(self, "tool_calls", tuple(calls))


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltResponse(Value):
    """A response, and the fingerprint of the context that it was built from (requirement P40)."""

    response: AgentResponse
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPipelineContext(Value):
    """All data of one request while the steps of the pipeline process it.

    ``time_stamp`` is an ISO 8601 date and time, ``correlation_id`` names the request in logs.
    ``tool_call_manifest`` is what a continuation answers, ``outgoing_manifest`` the calls of the
    model's last reply (X17), ``response_type`` what that reply leads to.
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


def canonical(value: object) -> str:
    """Return the canonical text of JSON or a value: sorted, ASCII, ``1`` is not ``1.0``.

    Raises ValueError for anything else.
    """
    try:
        return _CANONICAL.encode(value)
    except (TypeError, RecursionError) as error:
        message = (
            "only JSON has a canonical text: strings, numbers, booleans, null, arrays, objects"
        )
        raise ValueError(message) from error


def fingerprint(ctx: object) -> str:
    """Return the hash of all that a context holds but ``built`` (requirement P40).

    A mapping of its members does as well; a member that it leaves out counts as its default, at
    every level, as in the context that is read from the same JSON. Equal contexts have equal
    hashes: SHA-256 of the UTF-8 of the canonical text, as 64 hexadecimal digits. Raises ValueError
    when it holds what is not JSON.
    """
    members = _completed(AgentPipelineContext, ctx) if isinstance(ctx, Mapping) else ctx
    held = {name: member for name, member in _json_members(members).items() if name != "built"}
    return sha256(canonical(held).encode()).hexdigest()


def _completed(kind: Any, value: Any) -> Any:
    """Return the members of a value with the defaults of those that are left out."""
    if isinstance(value, list | tuple):
        return [_completed(kind, one) for one in cast("list[Any]", value)]
    if not isinstance(value, Mapping):
        return value

    members = dict(cast("Mapping[str, Any]", value))
    kinds = _kinds_in(kind)
    for each in fields(kind):
        if each.name in members and each.name in kinds:
            members[each.name] = _completed(kinds[each.name], members[each.name])
        elif each.default is not MISSING:
            members.setdefault(each.name, each.default)

    return members


@lru_cache(maxsize=64)
def _kinds_in(kind: Any) -> dict[str, type[Any]]:
    """Return the values of the pipeline that the fields of one hold, alone or in a tuple."""
    kinds: dict[str, type[Any]] = {}
    for name, hint in get_type_hints(kind).items():
        named = (hint, *get_args(hint))
        inner = [one for one in named if isinstance(one, type) and issubclass(one, Value)]
        if inner:
            kinds[name] = inner[0]

    return kinds


def _json_members(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    raise ValueError(f"a {type(value).__name__} has no members that JSON could hold")


_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_json_members)
