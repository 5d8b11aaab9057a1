"""The result of a validation: success, or every error with the rule that it breaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypedDict, Unpack

from strictreply import Issue, StrictReplyError
from strictreply.core.text import Worded
from strictreply.loop.values import Value

__all__ = [
    "RULESET",
    "Breach",
    "InvokeCode",
    "InvokeError",
    "InvokeFailed",
    "InvokeResult",
    "IterationsExceeded",
]

_MAX_LISTED = 12
RULESET = "AGN-036/draft-1"
"""The name and version of the rules; the published text calls itself a draft."""


class InvokeCode(Worded):
    """Every kind of error; several rules may share one."""

    NULL_CONTEXT = "NULL_CONTEXT", "there must be a context"
    NULL_MANIFEST = "NULL_MANIFEST", "there must be a manifest"
    UNKNOWN_STEP = (
        "UNKNOWN_STEP",
        "the step must be one of PipelineStep, by its member, number or name",
    )
    CORE_TYPE = "CORE_TYPE", "the type must be Initial, FollowOn or ClientToolCallContinuation"
    CORE_TIMESTAMP = "CORE_TIMESTAMP", "the time stamp must not be blank"
    CORE_CORRELATION = "CORE_CORRELATION", "the correlation id must not be blank"
    CORE_ORG = "CORE_ORG", "the envelope must name the organisation"
    CORE_USER = "CORE_USER", "the envelope must name the user"
    INPUT_MISSING = (
        "INPUT_MISSING",
        "there must be instructions, input artifacts or clipboard images",
    )
    INPUT_FORBIDDEN = "INPUT_FORBIDDEN", "a continuation must have only tool results"
    SESSION_ID_NOT_EMPTY = "SESSION_ID_NOT_EMPTY", "the request must not name a session"
    SESSION_ID_MISSING = "SESSION_ID_MISSING", "the request must name its session"
    TURN_ID_NOT_EMPTY = "TURN_ID_NOT_EMPTY", "the request must not name a turn"
    TURN_ID_MISSING = "TURN_ID_MISSING", "the request must name its turn"
    TOOL_RESULTS_NOT_EMPTY = "TOOL_RESULTS_NOT_EMPTY", "the request must not have tool results"
    TOOL_RESULTS_MISSING = "TOOL_RESULTS_MISSING", "the request must have at least one tool result"
    AGENT_CONTEXT_ID_MISSING = (
        "AGENT_CONTEXT_ID_MISSING",
        "a conversation context needs an agent context, too",
    )
    WRONG_PATH = "WRONG_PATH", "the request must use the restorer of its type"
    REQUEST_ID_MISSING = (
        "REQUEST_ID_MISSING",
        "the request must name the session and the turn that it continues",
    )
    SESSION_MISSING = "SESSION_MISSING", "there must be a session with an id"
    SESSION_NOT_NULL = "SESSION_NOT_NULL", "there must be no session yet"
    SESSION_MODE_MISSING = "SESSION_MODE_MISSING", "the mode of the session must not be blank"
    TURN_MISSING = "TURN_MISSING", "there must be a turn with an id"
    TURN_NOT_NULL = "TURN_NOT_NULL", "there must be no turn yet"
    TURN_NOT_NEW = "TURN_NOT_NEW", "the turn must differ from the one that the request follows"
    TURN_NOT_SAME = "TURN_NOT_SAME", "the turn must be the one that the request continues"
    AGENT_CONTEXT_MISSING = "AGENT_CONTEXT_MISSING", "there must be an agent context with an id"
    AGENT_CONTEXT_NOT_NULL = "AGENT_CONTEXT_NOT_NULL", "there must be no agent context yet"
    CONVERSATION_CONTEXT_MISSING = (
        "CONVERSATION_CONTEXT_MISSING",
        "there must be a conversation context with an id",
    )
    CONVERSATION_CONTEXT_NOT_NULL = (
        "CONVERSATION_CONTEXT_NOT_NULL",
        "there must be no conversation context yet",
    )
    PROMPT_NOT_READY = "PROMPT_NOT_READY", "the prompt must be ready"
    EMPTY_MANIFEST = "EMPTY_MANIFEST", "a continuation must answer at least one call"
    PAYLOAD_NOT_NULL = "PAYLOAD_NOT_NULL", "there must be no answer yet"
    CALLS_PENDING = "CALLS_PENDING", "every call of the model's last reply must have a result"
    BOTH = "BOTH", "there must be an answer or tool calls, not both"
    NEITHER = "NEITHER", "there must be an answer or tool calls"
    SERVER_CALL_LEFT = "SERVER_CALL_LEFT", "every pending call must be one that the client answers"
    RESPONSE_TYPE = "RESPONSE_TYPE", "the response type must be Final or ToolContinuation"
    OUTPUT_TEXT_MISSING = (
        "OUTPUT_TEXT_MISSING",
        "a final response needs an output text that is not blank",
    )
    TOOL_CALLS_MISSING = "TOOL_CALLS_MISSING", "a tool continuation needs at least one pending call"
    RESPONSE_MISSING = "RESPONSE_MISSING", "there must be a response"
    MANIFEST_LIST = "MANIFEST_LIST", "the calls and the results must be lists"
    NULL_ENTRY = "NULL_ENTRY", "an entry must be an object"
    TOOL_CALL_ID_MISSING = "TOOL_CALL_ID_MISSING", "an entry must have the id of its call"
    NAME_MISSING = "NAME_MISSING", "an entry must name its tool"
    COUNT_MISMATCH = "COUNT_MISMATCH", "there must be one result for each call"
    ORDER_MISMATCH = "ORDER_MISMATCH", "the results must be in the order of the calls"
    ID_MISMATCH = "ID_MISMATCH", "a result must have the id of the call at the same position"
    NAME_MISMATCH = "NAME_MISMATCH", "a result must name the tool of its call"
    RESULT_NOT_JSON = "RESULT_NOT_JSON", "a result must be a valid JSON text"
    UNKNOWN_TOOL = "UNKNOWN_TOOL", "a call must name a declared tool"
    ARGUMENTS_NOT_JSON = "ARGUMENTS_NOT_JSON", "the arguments must be the JSON text of an object"
    SCHEMA_ARGS = "SCHEMA_ARGS", "the arguments must fit the schema of the tool"
    EXECUTION_MS = (
        "EXECUTION_MS",
        "the execution time of a result must be a whole number of milliseconds, 0 or more",
    )
    RESPONSE_KIND = "RESPONSE_KIND", "the kind must be final or client_tool_continuation"
    RESPONSE_SESSION_ID = "RESPONSE_SESSION_ID", "a response must name its session"
    RESPONSE_TURN_ID = "RESPONSE_TURN_ID", "a response must name its turn"
    RESPONSE_MODE = "RESPONSE_MODE", "a response must have the display name of its session's mode"
    FORBIDDEN_MEMBER = (
        "FORBIDDEN_MEMBER",
        "a response of this kind must not have this member, not even an empty one",
    )
    RESPONSE_SHAPE = "RESPONSE_SHAPE", "this member must have the type that AGN-033 defines"
    STALE_TURN = "STALE_TURN", "the session was continued after this turn"
    TOOLS_CHANGED = (
        "TOOLS_CHANGED",
        "the pending reply does not fit these tools; pass the tools that it was made with",
    )
    MAX_ITERATIONS = "AGENT_REASONER_MAX_ITERATIONS_EXCEEDED", "the turn ended without an answer"
    INVALID_REQUEST = (
        "INVALID_REQUEST",
        "a request names its session and its turn, or neither; tool results need both",
    )
    NO_STEP_BODY = "NO_STEP_BODY", "the pipeline has no body for a step of this request"
    STEP_RAISED = "STEP_RAISED", "the body of the step raised an exception; see the result's cause"
    BAD_STEP_RESULT = (
        "BAD_STEP_RESULT",
        "the body of the step did not return an AgentPipelineContext",
    )
    CANCEL_RAISED = "CANCEL_RAISED", "the function cancel= raised an exception"
    CONTEXT_CHANGED = (
        "CONTEXT_CHANGED",
        "the context must be the one that the response was built from",
    )
    NOT_RESTORED = (
        "NOT_RESTORED",
        "the session and the turn must be restored before their manifest has a name",
    )
    NOT_FOUND = "NOT_FOUND", "no calls are pending under this id"
    ALREADY_CONSUMED = "ALREADY_CONSUMED", "these calls have already been answered"
    IN_USE = "IN_USE", "another request is answering these calls; try again later"
    SESSION_CONFLICT = (
        "SESSION_CONFLICT",
        "the session was continued during this turn; restore the session and start the turn again",
    )
    DUPLICATE_ID = "DUPLICATE_ID", "two calls or two results have the same id"
    MISSING_RESULT = "MISSING_RESULT", "this call is pending, but no result was sent for it"
    UNKNOWN_CALL = "UNKNOWN_CALL", "no pending call has this id"
    NOT_CLIENT_CALL = "NOT_CLIENT_CALL", "the client does not run this call; send no result for it"
    ALREADY_ANSWERED = "ALREADY_ANSWERED", "this call already has a result; send no other"
    EMPTY_RESULT = "EMPTY_RESULT", "a result must have a JSON text or an error"
    RESULT_AND_ERROR = "RESULT_AND_ERROR", "a result must not have both a JSON text and an error"
    MISSING_RESULT_JSON = (
        "MISSING_RESULT_JSON",
        "a result must have a JSON text, even if the tool failed",
    )
    APPROVAL_MALFORMED = (
        "APPROVAL_MALFORMED",
        (
            'the result_json of an approval must be {"approved": true or false}, optionally with '
            'a text "reason"'
        ),
    )
    DECISION_ELSEWHERE = (
        "DECISION_ELSEWHERE",
        "the decision is for another run or turn; decide on the pending calls",
    )
    DECISION_EXPECTED = (
        "DECISION_EXPECTED",
        "the program decides on this call; a result of the client is not accepted",
    )
    DECISION_MISMATCH = "DECISION_MISMATCH", "the decision was made for other arguments"
    DECISION_UNEXPECTED = (
        "DECISION_UNEXPECTED",
        "this call needs the client's result, not a decision",
    )

    def error(self, rule: str, message: str = "", **breach: Unpack[Breach]) -> InvokeError:
        """Make the error of a broken rule; an empty ``message`` means the text of the code."""
        return InvokeError(code=self, rule=rule, message=message or self.template, **breach)


class Breach(TypedDict, total=False):
    """One place where a rule is broken, with its details.

    The fields go into the :class:`InvokeError` that reports the place.
    """

    path: str
    """JSON Pointer to the place."""
    index: int
    """Position of the entry in the manifest's list."""
    tool_call_id: str | None
    """Id of the entry's call."""
    name: str | None
    """Name of the entry's tool."""
    result_id: str | None
    """Id in the call's result, if it differs."""
    result_name: str | None
    """Name in the call's result, if it differs."""
    decided_for: str | None
    """``manifest_id`` of the run that the decision is valid for."""
    reason: str | None
    """Error message of the entry's result."""
    issues: tuple[Issue, ...]
    """Faults of the arguments against the tool's schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeError(Value):
    """One broken rule.

    ``message`` never contains text that a model or a client wrote; the other members may.
    """

    code: InvokeCode
    """The kind of error; several rules may share one."""
    rule: str
    """Id of the rule."""
    message: str
    """The rule in words."""
    path: str = ""
    """JSON Pointer to the place, into the context or the manifest."""
    index: int | None = None
    """Position of the manifest's entry, counted from 0; None when the error is not about one."""
    tool_call_id: str | None = None
    """Id of the entry's call; None when the error is not about an entry."""
    name: str | None = None
    """Name of the entry's tool; None when the error is not about an entry."""
    result_id: str | None = None
    """Id in the call's result; None unless it differs from the call's."""
    result_name: str | None = None
    """Name in the call's result; None unless it differs from the call's."""
    decided_for: str | None = None
    """``manifest_id`` of the other run that a decision is valid for; None for other errors."""
    reason: str | None = field(default=None, repr=False)
    """Error message of the entry's result; None when there is none."""
    issues: tuple[Issue, ...] = ()
    """Faults of the call's arguments against the tool's schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeResult(Value):
    """The outcome of a validation."""

    errors: tuple[InvokeError, ...] = ()
    """Every error, in the order of the rules; empty for success."""
    ruleset: str = RULESET
    """Name and version of the rules."""

    @property
    def successful(self) -> bool:
        """Whether there is no error."""
        return not self.errors


class InvokeFailed(StrictReplyError):
    """Rules are broken; ``errors`` has at least one error.

    The body of a step raises it to fail with these errors. A tool loop raises it when a step fails.
    """

    __module__ = "strictreply"

    def __init__(self, errors: tuple[InvokeError, ...], *, step: str = "") -> None:
        """Report every broken rule.

        ``step`` is the step that found them; empty before the first step.
        """
        self.errors = errors
        """The broken rules, at least one."""
        self.step = step
        """The step where they were found; empty before the first."""

        where = f"the step {step}" if step else "the request"
        lines = [f"{where} failed:"]
        for each in errors[:_MAX_LISTED]:
            place = f"{each.path or '/'}{_entry(each)}"
            lines.append(f"  {each.code} at {place}: {each.message}")

        if len(errors) > _MAX_LISTED:
            lines.append(f"  and {len(errors) - _MAX_LISTED} more")
        super().__init__("\n".join(lines))

    @property
    def code(self) -> str:
        """The code of its first error."""
        return str(self.errors[0].code)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), step=self.step), (self.errors,)


class IterationsExceeded(InvokeFailed):
    """One turn made ``iterations`` requests without getting an answer."""

    __module__ = "strictreply"

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        """How often the model was asked."""
        message = (
            f"the turn exceeded {iterations} steps without an answer; "
            "raise max_iterations or reword the task"
        )
        super().__init__((InvokeCode.MAX_ITERATIONS.error("loop.max_iterations", message),))

    @property
    def code(self) -> str:
        """The code of its one error."""
        return InvokeCode.MAX_ITERATIONS

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.iterations,)


def _entry(error: InvokeError) -> str:
    """Return the index of an entry, and the run of a decision if its id looks like ours.

    Other ids may be any text, so they are left out.
    """
    if error.index is None:
        return ""

    run = error.decided_for or ""
    is_ours = len(run) in range(1, 66) and set(run) <= set("0123456789abcdef.")
    decided = f", decided for run {run}" if is_ours else ""
    return f" (call {error.index + 1}{decided})"
