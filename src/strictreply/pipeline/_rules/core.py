"""The rules of every context (AGN-036 section 3): the invariants, and what the type of a request asks of its envelope.

The envelope is the request as it was received and never changes, so these hold at every step (X15).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from strictreply.pipeline._kinds import AgentPipelineContextType
from strictreply.pipeline._results import InvokeCode
from strictreply.pipeline._rules.reading import has_entries, is_empty, is_null, is_present
from strictreply.pipeline._rules.rule import Condition, Group, Rule, Stage, Subject, unless, where, where_each

_INPUT: Final = ("/envelope/instructions", "/envelope/input_artifacts", "/envelope/clip_board_images")
_TYPES: Final = frozenset(AgentPipelineContextType)


def has_type(*types: AgentPipelineContextType) -> Condition:
    """Ask a rule of these types of requests alone."""
    return lambda subject: subject["/type"] in types


_INITIAL: Final = has_type(AgentPipelineContextType.INITIAL)
_FOLLOW_ON: Final = has_type(AgentPipelineContextType.FOLLOW_ON)
is_continuation: Final = has_type(AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION)


def _invariant(name: str, code: InvokeCode, message: str, path: str, holds: Callable[[object], bool]) -> Rule:
    """Make a rule on one member that every context has."""
    return Rule(
        id=f"core.{name}", section="3", stage=Stage.CORE, code=code, message=message, breaches=where(path, holds)
    )


def _typed(
    name: str, code: InvokeCode, message: str, path: str, holds: Callable[[object], bool], *, when: Condition
) -> Rule:
    """Make a rule on one member of the envelope for some types of requests."""
    return Rule(
        id=f"core.{name}",
        section="3.1",
        stage=Stage.CORE,
        code=code,
        message=message,
        breaches=where(path, holds),
        when=when,
    )


def _is_type(value: object) -> bool:
    """Tell whether a value is a type of request, or its name as JSON spells it."""
    return isinstance(value, str) and value in _TYPES


def _has_input(subject: Subject) -> bool:
    """Tell whether there is one kind of input at least; blank instructions are none (requirement P15)."""
    return is_present(subject[_INPUT[0]]) or any(has_entries(subject[path]) for path in _INPUT[1:])


def _agent_is_named(subject: Subject) -> bool:
    """Tell whether an agent is named where a conversation is (requirement P25)."""
    return is_empty(subject["/envelope/conversation_context_id"]) or is_present(subject["/envelope/agent_context_id"])


CONTEXT: Final = Rule(
    id="core.context",
    section="2.1",
    stage=Stage.CORE,
    code=InvokeCode.NULL_CONTEXT,
    message="there must be a context",
    breaches=where("", lambda ctx: not is_null(ctx)),
)

INVARIANTS: Final = (
    _invariant(
        "type",
        InvokeCode.CORE_TYPE,
        "the type must be Initial, FollowOn or ClientToolCallContinuation",
        "/type",
        _is_type,
    ),
    _invariant("time_stamp", InvokeCode.CORE_TIMESTAMP, "the time stamp must not be blank", "/time_stamp", is_present),
    _invariant(
        "correlation_id",
        InvokeCode.CORE_CORRELATION,
        "the correlation id must not be blank",
        "/correlation_id",
        is_present,
    ),
    _invariant("org", InvokeCode.CORE_ORG, "the envelope must name the organisation", "/envelope/org", is_present),
    _invariant("user", InvokeCode.CORE_USER, "the envelope must name the user", "/envelope/user", is_present),
)

TYPE_RULES: Final = (
    Rule(
        id="core.input",
        section="3.1",
        stage=Stage.CORE,
        code=InvokeCode.INPUT_MISSING,
        message="there must be instructions, input artifacts or clipboard images",
        breaches=unless(_has_input, "/envelope"),
        when=has_type(AgentPipelineContextType.INITIAL, AgentPipelineContextType.FOLLOW_ON),
    ),
    _typed(
        "initial.session_id_empty",
        InvokeCode.SESSION_ID_NOT_EMPTY,
        "an initial request must not name a session",
        "/envelope/session_id",
        is_empty,
        when=_INITIAL,
    ),
    _typed(
        "initial.turn_id_empty",
        InvokeCode.TURN_ID_NOT_EMPTY,
        "an initial request must not name a turn",
        "/envelope/turn_id",
        is_empty,
        when=_INITIAL,
    ),
    _typed(
        "initial.tool_results_empty",
        InvokeCode.TOOL_RESULTS_NOT_EMPTY,
        "an initial request must not bring tool results",
        "/envelope/tool_results",
        is_empty,
        when=_INITIAL,
    ),
    Rule(
        id="core.initial.agent_context_id_present",
        section="3.1",
        stage=Stage.CORE,
        code=InvokeCode.AGENT_CONTEXT_ID_MISSING,
        message="a request that names a conversation context must name its agent context",
        breaches=unless(_agent_is_named, "/envelope/agent_context_id"),
        when=_INITIAL,
        profile="extended",
    ),
    _typed(
        "follow_on.session_id_present",
        InvokeCode.SESSION_ID_MISSING,
        "a follow-on request must name its session",
        "/envelope/session_id",
        is_present,
        when=_FOLLOW_ON,
    ),
    _typed(
        "follow_on.turn_id_present",
        InvokeCode.TURN_ID_MISSING,
        "a follow-on request must name the turn it follows on",
        "/envelope/turn_id",
        is_present,
        when=_FOLLOW_ON,
    ),
    _typed(
        "follow_on.tool_results_empty",
        InvokeCode.TOOL_RESULTS_NOT_EMPTY,
        "a follow-on request must not bring tool results",
        "/envelope/tool_results",
        is_empty,
        when=_FOLLOW_ON,
    ),
    _typed(
        "continuation.session_id_present",
        InvokeCode.SESSION_ID_MISSING,
        "a continuation must name its session",
        "/envelope/session_id",
        is_present,
        when=is_continuation,
    ),
    _typed(
        "continuation.turn_id_present",
        InvokeCode.TURN_ID_MISSING,
        "a continuation must name the turn it goes on with",
        "/envelope/turn_id",
        is_present,
        when=is_continuation,
    ),
    _typed(
        "continuation.tool_results_present",
        InvokeCode.TOOL_RESULTS_MISSING,
        "a continuation must bring one tool result at least",
        "/envelope/tool_results",
        has_entries,
        when=is_continuation,
    ),
    Rule(
        id="core.continuation.input_absent",
        section="3.1",
        stage=Stage.CORE,
        code=InvokeCode.INPUT_FORBIDDEN,
        message="a continuation must bring tool results alone",
        breaches=where_each(_INPUT, is_empty),
        when=is_continuation,
        profile="extended",
    ),
)

CORE: Final[tuple[Group, ...]] = ((CONTEXT,), INVARIANTS, TYPE_RULES)
"""The groups in turn: broken invariants silence the rules of the types (requirement P6)."""
