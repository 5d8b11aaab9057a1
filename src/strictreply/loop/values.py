"""The values of a run: frozen, and made of plain JSON.

The constructors check nothing; :meth:`Value.from_json` is strict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Any, ClassVar, Final, Self, cast

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from strictreply import ToolResultError
from strictreply.core import JSONObject, decode
from strictreply.core.arguments import FieldWords
from strictreply.core.judging import NotJSON, jsonable
from strictreply.core.text import compact
from strictreply.loop._result_texts import NOT_RUN, RESULT_CHARS, error_json

__all__ = [
    "AgentContext",
    "AgentPipelineContextType",
    "AgentResponse",
    "AgentToolCall",
    "AgentToolCallResult",
    "Decision",
    "Envelope",
    "LineStatus",
    "PipelineStep",
    "ResponseKind",
    "Session",
    "StepTrace",
    "ToolCallManifest",
    "Turn",
    "Value",
]


class AgentPipelineContextType(StrEnum):
    """The type of a request, by its ids and results (AGN-036 section 3.1)."""

    INITIAL = "Initial"
    """The first request of a session."""
    FOLLOW_ON = "FollowOn"
    """Another request of a session."""
    CLIENT_TOOL_CALL_CONTINUATION = "ClientToolCallContinuation"
    """The client's results for the calls of a paused turn."""


class PipelineStep(IntEnum):
    """The steps of the pipeline.

    The numbers are stable; 10 to 100 are AGN-036 sections 4.1 to 4.10. Step 35 restores a
    session for a continuation, and step 65 has no rules. The last three members are aliases
    from related documents.
    """

    REQUEST_HANDLER = 10
    """Receives the request and determines its type."""
    SESSION_RESTORER = 20
    """Restores the session of a follow-on request, and begins its next turn."""
    AGENT_CONTEXT_RESOLVER = 30
    """Chooses the agent of a new session."""
    CLIENT_TOOL_CALL_SESSION_RESTORER = 35
    """Restores the session and the paused turn of a continuation."""
    CLIENT_TOOL_CONTINUATION_RESOLVER = 40
    """Matches the client's results with the pending calls."""
    AGENT_SESSION_CREATOR = 50
    """Creates a session and its first turn."""
    AGENT_CONTEXT_LOADER = 60
    """Loads the agent of a restored session."""
    ACP_COMMAND_HANDLER = 65
    """Has no rules of its own."""
    PROMPT_CONTENT_PROVIDER_INITIALIZER = 70
    """Prepares the prompt of the turn."""
    REASONER = 80
    """Executes the calls of your own tools."""
    LLM_CLIENT = 90
    """Asks the model for a reply."""
    RESPONSE_BUILDER = 100
    """Builds the response: the answer, or the calls for the client."""

    SESSION_CONTEXT_RESOLVER = AGENT_CONTEXT_RESOLVER
    CONTEXT_PROVIDER_INITIALIZER = PROMPT_CONTENT_PROVIDER_INITIALIZER
    PROMPT_KNOWLEDGE_PROVIDER_INITIALIZER = PROMPT_CONTENT_PROVIDER_INITIALIZER


class LineStatus(StrEnum):
    """How a run of the pipeline, or one step, ended.

    ``ABORTED`` means cancelled, which is not a failure.
    """

    COMPLETED = "completed"
    """It ended as it should."""
    FAILED = "failed"
    """It broke a rule, or its code raised."""
    ABORTED = "aborted"
    """It was cancelled."""


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One step that was entered; ``seconds`` lasts to its post-validation, waiting included."""

    step: PipelineStep
    """The step that was entered."""
    seconds: float
    """The seconds until its post-validation, waiting included."""
    status: LineStatus
    """How it ended."""


class ResponseKind(StrEnum):
    """The closed kinds of a response (AGN-033)."""

    FINAL = "final"
    """The answer."""
    CLIENT_TOOL_CONTINUATION = "client_tool_continuation"
    """Calls that the client has to answer."""


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
        """Return the JSON Schema (2020-12) of the texts that :meth:`from_json` accepts."""
        return _adapter_of(cls).json_schema(schema_generator=FieldWords)


_adapter_of: Final[Callable[[Any], TypeAdapter[Any]]] = lru_cache(maxsize=64)(TypeAdapter)


class _Waiting:
    """The session and the turn in which a call waits; neither compared nor part of its JSON."""

    __slots__ = ("_waits_in",)

    def __reduce__(self) -> tuple[Any, ...]:
        call = cast("AgentToolCall", self)
        members = {each.name: getattr(call, each.name) for each in fields(call)}
        return _read_waiting, (members, *_waits_in(call))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolCall(_Waiting, Value):
    """A call in a manifest (AGN-033)."""

    tool_call_id: str
    """Id of the call."""
    name: str
    """Name of the tool."""
    arguments_json: str
    """The arguments as a JSON text."""
    requires_client_execution: bool = False
    """Whether the client sends the result, or the decision if ``needs_approval`` is true."""
    needs_approval: bool = False
    """Whether the call may run only after a decision."""

    def answered(self, value: object, *, execution_ms: int = 0) -> AgentToolCallResult:
        """Make the result of a call that the client executed.

        ``value`` is anything that a tool may return. Raises ToolResultError for a value that is not
        JSON, such as NaN or an infinity.
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
        """Make the decision that the call may run; it is valid only where the call waits."""
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
        """Make the decision that the call may not run; the model gets ``reason``."""
        return replace(self.approved(), approved=False, reason=reason)

    def failed(
        self, kind: str, message: str = "", *, limit: int = RESULT_CHARS
    ) -> AgentToolCallResult:
        """Make the result of a call that failed or was not run.

        The model gets ``kind``, a word such as the type of an exception, and ``message``, cut to
        ``limit`` characters. The kinds ``ApprovalDenied``, ``Interrupted``, ``Abandoned`` and
        ``NotRun`` have a default message.
        """
        words = message or NOT_RUN.get(kind, "the tool failed")
        return AgentToolCallResult(
            tool_call_id=self.tool_call_id,
            name=self.name,
            result_json=error_json(kind, words, limit),
        )

    def waiting_in(self, session_id: str, turn_id: str) -> Self:
        """Return the call as waiting in this turn, which its decisions then name."""
        call = replace(self)
        object.__setattr__(call, "_waits_in", (session_id, turn_id))
        return call


def _read_waiting(members: dict[str, Any], session_id: str, turn_id: str) -> AgentToolCall:
    return AgentToolCall(**members).waiting_in(session_id, turn_id)


def _waits_in(call: AgentToolCall) -> tuple[str, str]:
    return cast("tuple[str, str]", getattr(call, "_waits_in", ("", "")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Value):
    """Whether a call that needs approval may run, and why not.

    Your program makes it, after it has checked who decides. A client's result is never accepted as
    a decision.
    """

    tool_call_id: str
    """Id of the call."""
    name: str
    """Name of the tool."""
    arguments_json: str
    """The arguments that were decided on, as a JSON text."""
    approved: bool
    """Whether the call may run."""
    reason: str = ""
    """Why not; empty when there is no reason."""
    session_id: str = ""
    """The only session for which the decision is valid; an empty id is valid for no session.

    ``call.approved()`` fills it in for a call of ``run.pending`` or of a response.
    """
    turn_id: str = ""
    """The only turn and run for which the decision is valid; filled in like ``session_id``."""

    @property
    def result(self) -> AgentToolCallResult:
        """The decision as a result in a manifest."""
        text = to_json({"approved": self.approved, "reason": self.reason}).decode()
        return AgentToolCallResult(tool_call_id=self.tool_call_id, name=self.name, result_json=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolCallResult(Value):
    """The result of a call: ``result_json`` or ``error_message``."""

    tool_call_id: str
    """Id of the call."""
    name: str
    """Name of the tool."""
    execution_ms: int = 0
    """Milliseconds that the call took."""
    result_json: str | None = None
    """The result as a JSON text; None when the call failed."""
    error_message: str | None = None
    """Why the call failed; None when it did not."""

    @property
    def text(self) -> str:
        """The result as the model reads it: a text, or JSON."""
        if self.result_json is None:
            return compact({"error": {"type": "ClientError", "message": self.error_message or ""}})

        value = decode(self.result_json)
        return value if isinstance(value, str) else self.result_json

    @property
    def is_failure(self) -> bool:
        """Whether this is the result of a tool that failed."""
        content = decode(self.result_json or "")
        error = content.get("error") if isinstance(content, dict) and len(content) == 1 else None
        return isinstance(error, dict) and error.keys() == {"type", "message"}

    @property
    def approval(self) -> tuple[bool, str] | None:
        """The decision in this result, with its reason or ""; None if it is not a decision.

        A decision is ``{"approved": true or false}``, optionally with a text ``reason``.
        """
        decision = decode(self.result_json)
        if not isinstance(decision, dict) or decision.keys() - {"reason"} != {"approved"}:
            return None

        approved = decision["approved"]
        reason = decision.get("reason", "")
        fits = isinstance(approved, bool) and isinstance(reason, str) and self.error_message is None
        return (bool(approved), str(reason)) if fits else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallManifest(Value):
    """Calls and their results, in pairs and in the same order (AGN-036 section 5)."""

    tool_calls: tuple[AgentToolCall, ...] = ()
    """The calls, in the model's order."""
    tool_call_results: tuple[AgentToolCallResult, ...] = ()
    """The results, in the order of their calls."""

    @property
    def pending(self) -> tuple[AgentToolCall, ...]:
        """The calls that have no result yet."""
        answered = {result.tool_call_id for result in self.tool_call_results}
        return tuple(call for call in self.tool_calls if call.tool_call_id not in answered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope(Value):
    """The request as it was received; the steps never change it."""

    org: str | None
    """Organisation of the user; None when unknown."""
    user: str | None
    """Who sends the request; None when unknown."""
    session_id: str = ""
    """The session that the request continues; empty for none."""
    turn_id: str = ""
    """The turn that the request continues; empty for none."""
    agent_context_id: str = ""
    """The agent that the request names; empty for none."""
    conversation_context_id: str = ""
    """The conversation context that the request names; empty for none."""
    instructions: str = ""
    """The user's input as text."""
    input_artifacts: tuple[JSONObject, ...] = ()
    """The user's artifacts as content parts."""
    clip_board_images: tuple[JSONObject, ...] = ()
    """The user's clipboard images as content parts."""
    tool_results: tuple[AgentToolCallResult, ...] = ()
    """The client's results, and the results of ``decided``."""
    decided: tuple[Decision, ...] = ()
    """The program's decisions."""
    messages: tuple[JSONObject, ...] = field(default=(), repr=False)
    """The caller's conversation; the user's message is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Value):
    """A conversation of one user."""

    id: str
    """Id of the session."""
    org: str = ""
    """Organisation of the user."""
    user: str = ""
    """The user whose conversation it is."""
    mode: str = "general"
    """Name of the mode that the session is for."""
    mode_display_name: str = "General"
    """The mode's name as users know it."""
    agent_context_id: str = ""
    """The agent that answers; empty for none."""
    conversation_context_id: str = ""
    """The conversation context in use; empty for none."""
    last_turn_id: str = ""
    """The last finished turn, or the turn that waits for the client; empty for none."""
    messages: tuple[JSONObject, ...] = field(default=(), repr=False)
    """The messages of finished turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Value):
    """One request and everything until its response."""

    id: str
    """Id of the turn."""
    iterations: int = 0
    """Number of requests to the model."""
    messages: tuple[JSONObject, ...] = field(default=(), repr=False)
    """The messages of the turn, the user's first."""
    tool_calls: tuple[AgentToolCall, ...] = ()
    """All calls that the model made in this turn, in order."""
    waiting: ToolCallManifest | None = None
    """The calls of the last reply while the client has to answer them; None at other times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext(Value):
    """The agent that answers."""

    id: str
    """Id of the agent."""
    name: str = ""
    """Name of the agent."""
    instructions: str = field(default="", repr=False)
    """The agent's system prompt; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResponse(Value):
    """The response for the client (AGN-033); ``kind`` decides which members it has.

    A member that is None is left out of the JSON.
    """

    _none_is_absent: ClassVar[bool] = True
    """Leaves members that are None out of the JSON."""

    kind: ResponseKind
    """Whether this is an answer or calls for the client."""
    session_id: str
    """Id of the session."""
    turn_id: str
    """Id of the turn."""
    mode_display_name: str
    """The session's mode, as users know it."""
    primary_output_text: str | None = None
    """The text of the answer."""
    files: tuple[JSONObject, ...] | None = None
    """The files that belong to the answer."""
    tool_results: tuple[AgentToolCallResult, ...] | None = None
    """The results of calls that belong to the answer."""
    user_warnings: tuple[str, ...] | None = None
    """Warnings for the user."""
    usage: JSONObject | None = None
    """The tokens of the turn."""
    tool_calls: tuple[AgentToolCall, ...] | None = None
    """The calls that the client answers."""
    tool_continuation_message: str | None = None
    """A text for the user in addition to the calls."""

    def __post_init__(self) -> None:
        given = cast("Any", self.tool_calls)
        # Leave entries that are not calls for the validator to report.
        if isinstance(given, tuple):
            known = (self.session_id, self.turn_id)
            calls = (
                call.waiting_in(*known) if isinstance(call, AgentToolCall) else call
                for call in given
            )
            object.__setattr__(self, "tool_calls", tuple(calls))
