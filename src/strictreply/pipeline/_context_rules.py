"""What every context must hold (AGN-036 section 3), and what each step may find and must leave behind (section 4).

The core comes first at every step (P5). The envelope is the request as it was received and never changes, so the core
holds at every step when it holds at one (X15). Where a step has no rules beyond the core, its declaration says so (P8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from strictreply.pipeline._invoke_result import InvokeCode
from strictreply.pipeline._manifest_rules import CALLS, MANIFEST, MANIFEST_RESULTS, RESPONSE
from strictreply.pipeline._rule import (
    ARRAYS,
    Breach,
    Clause,
    Included,
    PipelineRule,
    RuleCondition,
    RuleEntry,
    RuleGroup,
    RuleStage,
    RuleSubject,
    entries,
    has_entries,
    is_empty,
    is_null,
    is_object,
    is_populated,
    is_present,
    placed,
    unless,
    where,
    where_each,
)
from strictreply.pipeline._values import AgentPipelineContextType, PipelineStep, ResponseType, fingerprint

_TYPES: Final = frozenset(AgentPipelineContextType)
_INPUT: Final = ("/envelope/instructions", "/envelope/input_artifacts", "/envelope/clip_board_images")
_PAYLOAD: Final = "/response_payload"
_TEXT: Final = "/response_payload/primary_output_text"
_OUTGOING: Final = "/outgoing_manifest"


def _has_type(*types: AgentPipelineContextType) -> RuleCondition:
    return lambda subject: subject["/type"] in types


_INITIAL: Final = _has_type(AgentPipelineContextType.INITIAL)
_FOLLOW_ON: Final = _has_type(AgentPipelineContextType.FOLLOW_ON)
_IS_CONTINUATION: Final = _has_type(AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION)


def _is_type(value: object) -> bool:
    """Return whether a value is a type of request, or its name as JSON spells it."""
    return isinstance(value, str) and value in _TYPES


def _has_input(subject: RuleSubject) -> bool:
    """Return whether there is at least one kind of input; blank instructions are none (requirement P15)."""
    return is_present(subject[_INPUT[0]]) or any(has_entries(subject[path]) for path in _INPUT[1:])


def _agent_is_named(subject: RuleSubject) -> bool:
    """Return whether an agent is named where a conversation is (requirement P25)."""
    return is_empty(subject["/envelope/conversation_context_id"]) or is_present(subject["/envelope/agent_context_id"])


_INVARIANTS: Final = (
    ("type", InvokeCode.CORE_TYPE, "the type must be Initial, FollowOn or ClientToolCallContinuation", "", _is_type),
    ("time_stamp", InvokeCode.CORE_TIMESTAMP, "the time stamp must not be blank", "", is_present),
    ("correlation_id", InvokeCode.CORE_CORRELATION, "the correlation id must not be blank", "", is_present),
    ("org", InvokeCode.CORE_ORG, "the envelope must name the organisation", "/envelope", is_present),
    ("user", InvokeCode.CORE_USER, "the envelope must name the user", "/envelope", is_present),
)

_MUST_BE_ABSENT: Final = {
    "session_id": (InvokeCode.SESSION_ID_NOT_EMPTY, "must not name a session"),
    "turn_id": (InvokeCode.TURN_ID_NOT_EMPTY, "must not name a turn"),
    "tool_results": (InvokeCode.TOOL_RESULTS_NOT_EMPTY, "must not bring tool results"),
}


def _absent(kind: str, request: str, when: RuleCondition, *members: str) -> tuple[Clause, ...]:
    """Ask these members of the envelope to be empty in requests of one type."""
    rows = ((member, *_MUST_BE_ABSENT[member]) for member in members)
    return tuple(
        Clause(f"{kind}.{member}_empty", code, f"{request} {words}", where(f"/envelope/{member}", is_empty), when)
        for member, code, words in rows
    )


def _named(kind: str, request: str, when: RuleCondition, turn: str) -> tuple[Clause, ...]:
    """Ask requests of one type to name what they go on with; ``turn`` says which turn that is."""
    rows = (
        ("session_id", InvokeCode.SESSION_ID_MISSING, "must name its session"),
        ("turn_id", InvokeCode.TURN_ID_MISSING, f"must name the turn it {turn}"),
    )
    return tuple(
        Clause(f"{kind}.{member}_present", code, f"{request} {words}", where(f"/envelope/{member}", is_present), when)
        for member, code, words in rows
    )


CORE: Final[tuple[RuleGroup, ...]] = (
    placed(
        "core",
        "2.1",
        RuleStage.CORE,
        Clause("context", InvokeCode.NULL_CONTEXT, "there must be a context", where("", lambda ctx: not is_null(ctx))),
    ),
    placed(
        "core",
        "3",
        RuleStage.CORE,
        *(
            Clause(name, code, message, where(f"{parent}/{name}", holds))
            for name, code, message, parent, holds in _INVARIANTS
        ),
    ),
    placed(
        "core",
        "3.1",
        RuleStage.CORE,
        Clause(
            "input",
            InvokeCode.INPUT_MISSING,
            "there must be instructions, input artifacts or clipboard images",
            unless(_has_input, "/envelope"),
            _has_type(AgentPipelineContextType.INITIAL, AgentPipelineContextType.FOLLOW_ON),
        ),
        *_absent("initial", "an initial request", _INITIAL, "session_id", "turn_id", "tool_results"),
        Clause(
            "initial.agent_context_id_present",
            InvokeCode.AGENT_CONTEXT_ID_MISSING,
            "a request that names a conversation context must name its agent context",
            unless(_agent_is_named, "/envelope/agent_context_id"),
            _INITIAL,
            "extended",
        ),
        *_named("follow_on", "a follow-on request", _FOLLOW_ON, "follows on"),
        *_absent("follow_on", "a follow-on request", _FOLLOW_ON, "tool_results"),
        *_named("continuation", "a continuation", _IS_CONTINUATION, "goes on with"),
        Clause(
            "continuation.tool_results_present",
            InvokeCode.TOOL_RESULTS_MISSING,
            "a continuation must bring at least one tool result",
            where("/envelope/tool_results", has_entries),
            _IS_CONTINUATION,
        ),
        Clause(
            "continuation.input_absent",
            InvokeCode.INPUT_FORBIDDEN,
            "a continuation must bring tool results alone",
            where_each(_INPUT, is_empty),
            _IS_CONTINUATION,
            "extended",
        ),
    ),
)
"""The groups in turn: broken invariants silence the rules of the types (requirement P6)."""


def _populated(member: str, code: InvokeCode, words: str) -> Clause:
    return Clause(f"{member}_populated", code, f"there must be {words} with an id", where(f"/{member}", is_populated))


def _null(member: str, code: InvokeCode) -> Clause:
    words = f"there must be no {member.replace('_', ' ')} yet"
    return Clause(f"{member}_null", code, words, where(f"/{member}", is_null))


_SESSION: Final = _populated("session", InvokeCode.SESSION_MISSING, "a session")
_TURN: Final = _populated("turn", InvokeCode.TURN_MISSING, "a turn")
_CONTEXTS: Final = (
    _populated("agent_context", InvokeCode.AGENT_CONTEXT_MISSING, "an agent context"),
    _populated("conversation_context", InvokeCode.CONVERSATION_CONTEXT_MISSING, "a conversation context"),
)
_NO_SESSION: Final = _null("session", InvokeCode.SESSION_NOT_NULL)
_NO_TURN: Final = _null("turn", InvokeCode.TURN_NOT_NULL)
_NO_CONTEXTS: Final = (
    _null("agent_context", InvokeCode.AGENT_CONTEXT_NOT_NULL).extended(),
    _null("conversation_context", InvokeCode.CONVERSATION_CONTEXT_NOT_NULL).extended(),
)


def _is_same_turn(subject: RuleSubject) -> bool:
    turn_id = subject["/turn/id"]
    return is_present(turn_id) and turn_id == subject["/envelope/turn_id"]


_REQUEST_IDS: Final = Clause(
    "ids_present",
    InvokeCode.REQUEST_ID_MISSING,
    "the request must name the session and the turn that it goes on with",
    where_each(("/envelope/session_id", "/envelope/turn_id"), is_present),
)
_TOOL_RESULTS: Final = Clause(
    "tool_results_present",
    InvokeCode.TOOL_RESULTS_MISSING,
    "the request must bring at least one tool result",
    where("/envelope/tool_results", has_entries),
)
_MODE: Final = Clause(
    "session_mode",
    InvokeCode.SESSION_MODE_MISSING,
    "the mode of the session must not be blank",
    where("/session/mode", is_present),
    lambda subject: is_populated(subject["/session"]),
)
_ANOTHER_TURN: Final = Clause(
    "turn_differs",
    InvokeCode.TURN_NOT_NEW,
    "the turn must be another than the one that the request follows on",
    unless(lambda subject: not _is_same_turn(subject), "/turn/id"),
)
_SAME_TURN: Final = Clause(
    "turn_same",
    InvokeCode.TURN_NOT_SAME,
    "there must be a turn, the one that the request goes on with",
    unless(_is_same_turn, "/turn/id"),
)
_READY: Final = Clause(
    "prompt_ready",
    InvokeCode.PROMPT_NOT_READY,
    "the prompt must be ready",
    where("/prompt/ready", lambda ready: ready is True),
)
_MANIFEST_THERE: Final = Clause(
    "manifest_not_null",
    InvokeCode.NULL_MANIFEST,
    "a continuation must have a manifest",
    where("/tool_call_manifest", is_object),
    _IS_CONTINUATION,
)
_MANIFEST_NOT_EMPTY: Final = Clause(  # what the definition of a valid manifest leaves open (requirement P63)
    "manifest_not_empty",
    InvokeCode.EMPTY_MANIFEST,
    "a continuation must answer at least one call",
    unless(lambda subject: subject["/tool_call_manifest/tool_calls"] not in ([], ()), "/tool_call_manifest"),
    _IS_CONTINUATION,
)


def _pending_calls(subject: RuleSubject) -> list[RuleEntry]:
    """Return the calls of the model's last reply that have no result yet: those of before are answered (X17)."""
    answered = {result.id for result in subject.entries_at(_OUTGOING + MANIFEST_RESULTS)} - {None}
    path = _OUTGOING + CALLS
    calls = (RuleEntry(call, index, f"{path}/{index}") for index, call in enumerate(entries(subject[path])))
    return [call for call in calls if call.id not in answered]


def _has_both(subject: RuleSubject) -> bool:
    """Return whether a payload, whatever it holds, stands beside pending calls, or beside what is in their place."""
    calls = subject[_OUTGOING + CALLS]
    called = bool(_pending_calls(subject)) or not (is_null(calls) or isinstance(calls, ARRAYS))
    return called and not is_null(subject[_PAYLOAD])


def _has_outcome(subject: RuleSubject) -> bool:
    """Return whether there is an answer or a call; a blank answer is refused where the response is built."""
    return isinstance(subject[_TEXT], str) or bool(_pending_calls(subject))


def _left_for_the_server(subject: RuleSubject) -> list[Breach]:
    """Find the pending calls that no client answers, unless they may go back to the Reasoner (P38, X13)."""
    if subject.options.allow_server_tool_calls:
        return []
    member = "requires_client_execution"
    return [call.breach(member) for call in _pending_calls(subject) if call[member] is not True]


def _is_built(subject: RuleSubject) -> bool:
    return is_object(subject["/built/response"])


def _is_unchanged(subject: RuleSubject) -> bool:
    try:
        return subject["/built/fingerprint"] == fingerprint(subject.content)
    except Exception:  # noqa: BLE001 - it holds what is not JSON, and an object's own code may raise anything
        return False


def _leads_to(outcome: ResponseType) -> RuleCondition:
    return lambda subject: subject["/response_type"] == outcome


_NO_PAYLOAD: Final = Clause(
    "payload_null", InvokeCode.PAYLOAD_NOT_NULL, "there must be no answer yet", where(_PAYLOAD, is_null)
)
_NO_PENDING: Final = Clause(
    "calls_answered",
    InvokeCode.CALLS_PENDING,
    "no call of the model's last reply may wait for its result",
    lambda subject: [call.breach("tool_call_id") for call in _pending_calls(subject)],
)
_REPLIED: Final = (
    Clause(
        "not_both",
        InvokeCode.BOTH,
        "there must be an answer or tool calls, not both",
        unless(lambda subject: not _has_both(subject)),
    ),
    Clause("not_neither", InvokeCode.NEITHER, "there must be an answer or tool calls", unless(_has_outcome)),
    Clause(
        "calls_for_client",
        InvokeCode.SERVER_CALL_LEFT,
        "a call that waits must be the client's to answer",
        _left_for_the_server,
    ),
)
_TO_BUILD: Final = (
    Clause(
        "response_type",
        InvokeCode.RESPONSE_TYPE,
        "the response type must be Final or ToolContinuation",
        where("/response_type", lambda value: value in (ResponseType.FINAL, ResponseType.TOOL_CONTINUATION)),
    ),
    Clause(
        "final_text",
        InvokeCode.OUTPUT_TEXT_MISSING,
        "a final response needs an output text that is not blank",
        where(_TEXT, is_present),
        _leads_to(ResponseType.FINAL),
    ),
    Clause(
        "continuation_calls",
        InvokeCode.TOOL_CALLS_MISSING,
        "a tool continuation needs a manifest with a call that waits",
        unless(lambda subject: bool(_pending_calls(subject)), _OUTGOING),
        _leads_to(ResponseType.TOOL_CONTINUATION),
    ),
)
_BUILT: Final = (
    Clause("response_built", InvokeCode.RESPONSE_MISSING, "there must be a response", unless(_is_built, "/built")),
    Clause(
        "context_unchanged",
        InvokeCode.CONTEXT_CHANGED,
        "the context must be the one that the response was built from",
        unless(_is_unchanged),
        _is_built,
    ),
    Included(path="/built/response", groups=RESPONSE, when=_is_built),
)


def _path(serves: RuleCondition, message: str) -> Clause:
    """Keep each of the two restorers to the requests that it serves: what they do with the turn differs (X14)."""
    return Clause("path", InvokeCode.WRONG_PATH, message, unless(serves, "/type"))


_NOT_CONTINUED: Final = _path(
    lambda subject: not _IS_CONTINUATION(subject), "a continuation goes by the ClientToolCallSessionRestorer"
)
_CONTINUED: Final = _path(_IS_CONTINUATION, "only a continuation goes by the ClientToolCallSessionRestorer")
_CONTINUED_MANIFEST: Final = Included(path="/tool_call_manifest", groups=MANIFEST, when=_IS_CONTINUATION)
_RESOLVED_MANIFEST: Final = Included(path="/tool_call_manifest", groups=MANIFEST)

_Clauses: TypeAlias = tuple[Clause | Included, ...] | None

NOT_APPLICABLE: Final = None
"""Nothing is asked, not even the core: there may be no context yet (X21)."""

CORE_ALONE: Final = ()
"""Nothing is asked beyond the core."""


@dataclass(frozen=True, slots=True)
class StepRules:
    """What is asked before and after one step; ``section`` is empty for a step that AGN-036 does not list.

    Of ``pre`` and ``post``, None is :data:`NOT_APPLICABLE`, and an empty group :data:`CORE_ALONE`.
    """

    step: PipelineStep
    section: str
    pre: RuleGroup | None
    post: RuleGroup | None

    @property
    def rules(self) -> tuple[PipelineRule, ...]:
        """The step's own rules in order, those of other sections that it refers to left out."""
        return tuple(rule for rule in (*(self.pre or ()), *(self.post or ())) if isinstance(rule, PipelineRule))


_STEP_TABLE: Final[tuple[tuple[PipelineStep, str, _Clauses, _Clauses], ...]] = (
    (PipelineStep.REQUEST_HANDLER, "4.1", NOT_APPLICABLE, CORE_ALONE),
    (
        PipelineStep.SESSION_RESTORER,
        "4.2",
        (_NOT_CONTINUED, _REQUEST_IDS, _NO_SESSION, _NO_TURN),
        (_NOT_CONTINUED, _SESSION, _TURN, _ANOTHER_TURN, _MODE),
    ),
    (PipelineStep.AGENT_CONTEXT_RESOLVER, "4.3", (_NO_SESSION, _NO_TURN), _CONTEXTS),
    (  # that it is a continuation says that the envelope names its session and turn
        PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER,
        "4.2",
        (_CONTINUED, _NO_SESSION, _NO_TURN),
        (_CONTINUED, _SESSION, _SAME_TURN, _MODE),
    ),
    (
        PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER,
        "4.4",
        (_SESSION, _TURN, _TOOL_RESULTS, *_NO_CONTEXTS),
        (_RESOLVED_MANIFEST, _MANIFEST_NOT_EMPTY, _SAME_TURN, _SESSION.extended(), *_NO_CONTEXTS),
    ),
    (PipelineStep.AGENT_SESSION_CREATOR, "4.5", (*_CONTEXTS, _NO_SESSION, _NO_TURN), (_SESSION, _TURN)),
    (PipelineStep.AGENT_CONTEXT_LOADER, "4.6", (_SESSION, _TURN), _CONTEXTS),
    (PipelineStep.ACP_COMMAND_HANDLER, "", CORE_ALONE, CORE_ALONE),
    (
        PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER,
        "4.7",
        (_SESSION, _TURN, *_CONTEXTS, _MANIFEST_THERE),
        (_READY,),
    ),
    (
        PipelineStep.REASONER,
        "4.8",
        (_READY, *(clause.extended() for clause in (_SESSION, _TURN, *_CONTEXTS))),
        CORE_ALONE,
    ),
    (
        PipelineStep.LLM_CLIENT,
        "4.9",
        (_NO_PAYLOAD, _CONTINUED_MANIFEST, _MANIFEST_NOT_EMPTY, _NO_PENDING.extended()),
        _REPLIED,
    ),
    (PipelineStep.RESPONSE_BUILDER, "4.10", _TO_BUILD, _BUILT),
)


def _group(step: PipelineStep, section: str, stage: RuleStage, clauses: _Clauses) -> RuleGroup | None:
    return None if clauses is None else placed(f"{step.name.lower()}.{stage}", section, stage, *clauses, step=step)


STEPS: Final[Mapping[PipelineStep, StepRules]] = MappingProxyType(
    {
        step: StepRules(
            step, section, _group(step, section, RuleStage.PRE, pre), _group(step, section, RuleStage.POST, post)
        )
        for step, section, pre, post in _STEP_TABLE
    }
)
"""Every step with what is asked at it, in the order of their numbers."""
