"""What a validation came to: success, or every error with the rule that it breaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final

from strictreply.pipeline._values import Value
from strictreply.values._errors import StrictReplyError
from strictreply.values._issues import Issue

MAX_LISTED = 12
RULESET = "AGN-036/draft-1"
"""Which rules a result speaks of: the published text calls itself a draft (X12)."""

_OUR_RUN: Final = frozenset("0123456789abcdef.")
_MAX_RUN_CHARS: Final = 65


class InvokeCode(StrEnum):
    """Every kind of error; several rules may share one."""

    NULL_CONTEXT = "NULL_CONTEXT"
    NULL_MANIFEST = "NULL_MANIFEST"
    UNKNOWN_STEP = "UNKNOWN_STEP"
    CORE_TYPE = "CORE_TYPE"
    CORE_TIMESTAMP = "CORE_TIMESTAMP"
    CORE_CORRELATION = "CORE_CORRELATION"
    CORE_ORG = "CORE_ORG"
    CORE_USER = "CORE_USER"
    INPUT_MISSING = "INPUT_MISSING"
    INPUT_FORBIDDEN = "INPUT_FORBIDDEN"
    SESSION_ID_NOT_EMPTY = "SESSION_ID_NOT_EMPTY"
    SESSION_ID_MISSING = "SESSION_ID_MISSING"
    TURN_ID_NOT_EMPTY = "TURN_ID_NOT_EMPTY"
    TURN_ID_MISSING = "TURN_ID_MISSING"
    TOOL_RESULTS_NOT_EMPTY = "TOOL_RESULTS_NOT_EMPTY"
    TOOL_RESULTS_MISSING = "TOOL_RESULTS_MISSING"
    AGENT_CONTEXT_ID_MISSING = "AGENT_CONTEXT_ID_MISSING"
    WRONG_PATH = "WRONG_PATH"
    REQUEST_ID_MISSING = "REQUEST_ID_MISSING"
    SESSION_MISSING = "SESSION_MISSING"
    SESSION_NOT_NULL = "SESSION_NOT_NULL"
    SESSION_MODE_MISSING = "SESSION_MODE_MISSING"
    TURN_MISSING = "TURN_MISSING"
    TURN_NOT_NULL = "TURN_NOT_NULL"
    TURN_NOT_NEW = "TURN_NOT_NEW"
    TURN_NOT_SAME = "TURN_NOT_SAME"
    AGENT_CONTEXT_MISSING = "AGENT_CONTEXT_MISSING"
    AGENT_CONTEXT_NOT_NULL = "AGENT_CONTEXT_NOT_NULL"
    CONVERSATION_CONTEXT_MISSING = "CONVERSATION_CONTEXT_MISSING"
    CONVERSATION_CONTEXT_NOT_NULL = "CONVERSATION_CONTEXT_NOT_NULL"
    PROMPT_NOT_READY = "PROMPT_NOT_READY"
    EMPTY_MANIFEST = "EMPTY_MANIFEST"
    PAYLOAD_NOT_NULL = "PAYLOAD_NOT_NULL"
    CALLS_PENDING = "CALLS_PENDING"
    BOTH = "BOTH"
    NEITHER = "NEITHER"
    SERVER_CALL_LEFT = "SERVER_CALL_LEFT"
    RESPONSE_TYPE = "RESPONSE_TYPE"
    OUTPUT_TEXT_MISSING = "OUTPUT_TEXT_MISSING"
    TOOL_CALLS_MISSING = "TOOL_CALLS_MISSING"
    RESPONSE_MISSING = "RESPONSE_MISSING"
    MANIFEST_LIST = "MANIFEST_LIST"
    NULL_ENTRY = "NULL_ENTRY"
    TOOL_CALL_ID_MISSING = "TOOL_CALL_ID_MISSING"
    NAME_MISSING = "NAME_MISSING"
    COUNT_MISMATCH = "COUNT_MISMATCH"
    ORDER_MISMATCH = "ORDER_MISMATCH"
    ID_MISMATCH = "ID_MISMATCH"
    NAME_MISMATCH = "NAME_MISMATCH"
    RESULT_NOT_JSON = "RESULT_NOT_JSON"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    ARGUMENTS_NOT_JSON = "ARGUMENTS_NOT_JSON"
    SCHEMA_ARGS = "SCHEMA_ARGS"
    EXECUTION_MS = "EXECUTION_MS"
    RESPONSE_KIND = "RESPONSE_KIND"
    RESPONSE_SESSION_ID = "RESPONSE_SESSION_ID"
    RESPONSE_TURN_ID = "RESPONSE_TURN_ID"
    RESPONSE_MODE = "RESPONSE_MODE"
    FORBIDDEN_MEMBER = "FORBIDDEN_MEMBER"
    RESPONSE_SHAPE = "RESPONSE_SHAPE"
    STALE_TURN = "STALE_TURN"
    TOOLS_CHANGED = "TOOLS_CHANGED"
    MAX_ITERATIONS = "AGENT_REASONER_MAX_ITERATIONS_EXCEEDED"
    INVALID_REQUEST = "INVALID_REQUEST"
    NO_STEP_BODY = "NO_STEP_BODY"
    STEP_RAISED = "STEP_RAISED"
    BAD_STEP_RESULT = "BAD_STEP_RESULT"
    CANCEL_RAISED = "CANCEL_RAISED"
    CONTEXT_CHANGED = "CONTEXT_CHANGED"
    NOT_RESTORED = "NOT_RESTORED"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_CONSUMED = "ALREADY_CONSUMED"
    IN_USE = "IN_USE"
    SESSION_CONFLICT = "SESSION_CONFLICT"
    DUPLICATE_ID = "DUPLICATE_ID"
    MISSING_RESULT = "MISSING_RESULT"
    UNKNOWN_CALL = "UNKNOWN_CALL"
    NOT_CLIENT_CALL = "NOT_CLIENT_CALL"
    ALREADY_ANSWERED = "ALREADY_ANSWERED"
    EMPTY_RESULT = "EMPTY_RESULT"
    RESULT_AND_ERROR = "RESULT_AND_ERROR"
    MISSING_RESULT_JSON = "MISSING_RESULT_JSON"
    APPROVAL_MALFORMED = "APPROVAL_MALFORMED"
    DECISION_ELSEWHERE = "DECISION_ELSEWHERE"
    DECISION_EXPECTED = "DECISION_EXPECTED"
    DECISION_MISMATCH = "DECISION_MISMATCH"
    DECISION_UNEXPECTED = "DECISION_UNEXPECTED"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeError(Value):
    """One broken rule: ``rule`` is its id, ``path`` a JSON Pointer into the context or the manifest.

    ``index``, ``tool_call_id``, ``name`` and ``reason`` tell of one entry of a manifest, None elsewhere; ``result_id``
    and ``result_name`` are what its result says where that is another. ``issues`` are the faults of its arguments
    against the tool's schema. ``decided_for`` is the run that a decision holds for, where that is another: its session
    and turn, as ``manifest_id`` spells them. What a model or a client wrote is in these members alone, never in
    ``message``.
    """

    code: InvokeCode
    rule: str
    message: str
    path: str = ""
    index: int | None = None
    tool_call_id: str | None = None
    name: str | None = None
    result_id: str | None = None
    result_name: str | None = None
    decided_for: str | None = None
    reason: str | None = field(default=None, repr=False)
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeResult(Value):
    """Whether something is valid; ``errors`` holds everything that is not, in the order of the rules."""

    errors: tuple[InvokeError, ...] = ()
    ruleset: str = RULESET

    @property
    def successful(self) -> bool:
        """Whether there is no error."""
        return not self.errors


class InvokeFailed(StrictReplyError):
    """Something does not follow the rules; ``errors`` says what, one error at least.

    A step's body raises it to fail with these errors; a tool loop raises it when a step failed.
    """

    def __init__(self, errors: tuple[InvokeError, ...], *, step: str = "") -> None:
        """Report every broken rule, and the ``step`` where that was seen, empty when it was before the first."""
        self.errors = errors
        self.step = step
        where = f"the step {step}" if step else "the request"
        lines = [f"  {each.code} at {each.path or '/'}{_entry(each)}: {each.message}" for each in errors[:MAX_LISTED]]
        more = [f"  and {len(errors) - MAX_LISTED} more"] if len(errors) > MAX_LISTED else []
        super().__init__("\n".join([f"{where} failed:", *lines, *more]))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), step=self.step), (self.errors,)


class IterationsExceeded(InvokeFailed):
    """The model was asked ``iterations`` times in one turn and gave no answer (requirements T38, P68)."""

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        message = f"the turn exceeded {iterations} steps without an answer; raise max_iterations or reword the task"
        super().__init__((InvokeError(code=InvokeCode.MAX_ITERATIONS, rule="loop.max_iterations", message=message),))

    @property
    def code(self) -> str:
        """The code of its one error."""
        return InvokeCode.MAX_ITERATIONS

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.iterations,)


def _entry(error: InvokeError) -> str:
    """Return the place of a manifest's entry, not its id, which may be the model's own words.

    The run that a decision is for is named when its ids are of the kind that we make: others may say anything.
    """
    named = error.decided_for or ""
    run = f", decided for run {named}" if named and len(named) <= _MAX_RUN_CHARS and set(named) <= _OUR_RUN else ""
    return "" if error.index is None else f" (call {error.index + 1}{run})"
