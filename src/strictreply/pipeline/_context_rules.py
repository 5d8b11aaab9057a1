"""What every context must hold (AGN-036 section 3), and what each step may find and must leave behind (section 4).

The core comes first at every step (P5). The envelope is the request as it was received and never changes, so the core
holds at every step when it holds at one (X15). Where a step has no rules beyond the core, its declaration says so (P8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from strictreply.pipeline._invoke_result import Breach, InvokeCode
from strictreply.pipeline._manifest_rules import CALLS, MANIFEST, MANIFEST_RESULTS, RESPONSE
from strictreply.pipeline._rule import (
    ARRAYS,
    Included,
    PipelineRule,
    Predicate,
    RuleCondition,
    RuleEntry,
    RuleGroup,
    RuleStage,
    RuleSubject,
    entries,
    extended,
    has_entries,
    is_empty,
    is_null,
    is_object,
    is_one_of,
    is_populated,
    is_present,
    member_of,
    placed,
    unless,
    where,
    where_each,
)
from strictreply.pipeline._values import AgentPipelineContextType, PipelineStep, ResponseType, fingerprint

_INPUT: Final = ("/envelope/instructions", "/envelope/input_artifacts", "/envelope/clip_board_images")
_TEXT: Final = "/response_payload/primary_output_text"
_OUTGOING: Final = "/outgoing_manifest"
_BUILT_FROM: Final = (ResponseType.FINAL, ResponseType.TOOL_CONTINUATION)


def _has_type(*types: AgentPipelineContextType) -> RuleCondition:
    return lambda subject: subject["/type"] in types


_INITIAL: Final = _has_type(AgentPipelineContextType.INITIAL)
_FOLLOW_ON: Final = _has_type(AgentPipelineContextType.FOLLOW_ON)
_HAS_WORDS: Final = _has_type(AgentPipelineContextType.INITIAL, AgentPipelineContextType.FOLLOW_ON)
_CONTINUATION: Final = _has_type(AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION)


def _has_input(subject: RuleSubject) -> bool:
    """Return whether there is at least one kind of input; blank instructions are none (requirement P15)."""
    return is_present(subject[_INPUT[0]]) or any(has_entries(subject[path]) for path in _INPUT[1:])


def _agent_is_named(subject: RuleSubject) -> bool:
    return is_empty(subject["/envelope/conversation_context_id"]) or is_present(subject["/envelope/agent_context_id"])


def _of_request(
    kind: str, request: str, when: RuleCondition, *rows: tuple[str, InvokeCode, Predicate, str]
) -> tuple[PipelineRule, ...]:
    return tuple(
        PipelineRule(
            f"{kind}.{member}_{'empty' if holds is is_empty else 'present'}",
            code,
            where(f"/envelope/{member}", holds),
            f"{request} {words}",
            when,
        )
        for member, code, holds, words in rows
    )


_ITS_SESSION: Final = ("session_id", InvokeCode.SESSION_ID_MISSING, is_present, "must name its session")
_NO_RESULTS: Final = ("tool_results", InvokeCode.TOOL_RESULTS_NOT_EMPTY, is_empty, "must not bring tool results")
_core: Final = partial(placed, "core", stage=RuleStage.CORE)

CORE: Final[tuple[RuleGroup, ...]] = (
    _core(PipelineRule("context", InvokeCode.NULL_CONTEXT, where("", lambda ctx: not is_null(ctx))), section="2.1"),
    _core(
        PipelineRule("type", InvokeCode.CORE_TYPE, where("/type", is_one_of(AgentPipelineContextType))),
        PipelineRule("time_stamp", InvokeCode.CORE_TIMESTAMP, where("/time_stamp", is_present)),
        PipelineRule("correlation_id", InvokeCode.CORE_CORRELATION, where("/correlation_id", is_present)),
        PipelineRule("org", InvokeCode.CORE_ORG, where("/envelope/org", is_present)),
        PipelineRule("user", InvokeCode.CORE_USER, where("/envelope/user", is_present)),
        section="3",
    ),
    _core(
        PipelineRule("input", InvokeCode.INPUT_MISSING, unless(_has_input, "/envelope"), when=_HAS_WORDS),
        *_of_request(
            "initial",
            "an initial request",
            _INITIAL,
            ("session_id", InvokeCode.SESSION_ID_NOT_EMPTY, is_empty, "must not name a session"),
            ("turn_id", InvokeCode.TURN_ID_NOT_EMPTY, is_empty, "must not name a turn"),
            _NO_RESULTS,
        ),
        PipelineRule(
            "initial.agent_context_id_present",
            InvokeCode.AGENT_CONTEXT_ID_MISSING,
            unless(_agent_is_named, "/envelope/agent_context_id"),
            when=_INITIAL,
            profile="extended",
        ),
        *_of_request(
            "follow_on",
            "a follow-on request",
            _FOLLOW_ON,
            _ITS_SESSION,
            ("turn_id", InvokeCode.TURN_ID_MISSING, is_present, "must name the turn it follows on"),
            _NO_RESULTS,
        ),
        *_of_request(
            "continuation",
            "a continuation",
            _CONTINUATION,
            _ITS_SESSION,
            ("turn_id", InvokeCode.TURN_ID_MISSING, is_present, "must name the turn it goes on with"),
            ("tool_results", InvokeCode.TOOL_RESULTS_MISSING, has_entries, "must bring at least one tool result"),
        ),
        PipelineRule(
            "continuation.input_absent",
            InvokeCode.INPUT_FORBIDDEN,
            where_each(_INPUT, is_empty),
            when=_CONTINUATION,
            profile="extended",
        ),
        section="3.1",
    ),
)
"""The groups in turn: broken invariants silence the rules of the types (requirement P6)."""


def _is_same_turn(subject: RuleSubject) -> bool:
    turn_id = subject["/turn/id"]
    return is_present(turn_id) and turn_id == subject["/envelope/turn_id"]


_SESSION, _TURN, *_CONTEXTS = (
    PipelineRule(f"{member}_populated", code, where(f"/{member}", is_populated))
    for member, code in (
        ("session", InvokeCode.SESSION_MISSING),
        ("turn", InvokeCode.TURN_MISSING),
        ("agent_context", InvokeCode.AGENT_CONTEXT_MISSING),
        ("conversation_context", InvokeCode.CONVERSATION_CONTEXT_MISSING),
    )
)
_NOT_BEGUN: Final = (
    PipelineRule("session_null", InvokeCode.SESSION_NOT_NULL, where("/session", is_null)),
    PipelineRule("turn_null", InvokeCode.TURN_NOT_NULL, where("/turn", is_null)),
)
_NO_CONTEXTS: Final = extended(
    PipelineRule("agent_context_null", InvokeCode.AGENT_CONTEXT_NOT_NULL, where("/agent_context", is_null)),
    PipelineRule(
        "conversation_context_null", InvokeCode.CONVERSATION_CONTEXT_NOT_NULL, where("/conversation_context", is_null)
    ),
)
_MODE: Final = PipelineRule(
    "session_mode",
    InvokeCode.SESSION_MODE_MISSING,
    where("/session/mode", is_present),
    when=lambda subject: is_populated(subject["/session"]),
)
_SAME_TURN: Final = PipelineRule("turn_same", InvokeCode.TURN_NOT_SAME, unless(_is_same_turn, "/turn/id"))
_READY: Final = PipelineRule(
    "prompt_ready", InvokeCode.PROMPT_NOT_READY, where("/prompt/ready", lambda ready: ready is True)
)
_MANIFEST_NOT_EMPTY: Final = PipelineRule(  # what the definition of a valid manifest leaves open (requirement P63)
    "manifest_not_empty",
    InvokeCode.EMPTY_MANIFEST,
    where("/tool_call_manifest", lambda manifest: member_of(manifest, "tool_calls") not in ([], ())),
    when=_CONTINUATION,
)
# Each of the two restorers serves its own requests: what they do with the turn differs (X14).
_NOT_CONTINUED: Final = PipelineRule(
    "path",
    InvokeCode.WRONG_PATH,
    unless(lambda subject: not _CONTINUATION(subject), "/type"),
    "a continuation goes by the ClientToolCallSessionRestorer",
)
_CONTINUED: Final = PipelineRule(
    "path",
    InvokeCode.WRONG_PATH,
    unless(_CONTINUATION, "/type"),
    "only a continuation goes by the ClientToolCallSessionRestorer",
)


def _pending_calls(subject: RuleSubject) -> list[RuleEntry]:
    """Return the calls of the model's last reply that have no result yet: those of before are answered (X17)."""
    answered = {result.id for result in subject.entries_at(_OUTGOING + MANIFEST_RESULTS)} - {None}
    path = _OUTGOING + CALLS
    calls = (RuleEntry(call, index, f"{path}/{index}") for index, call in enumerate(entries(subject[path])))
    return [call for call in calls if call.id not in answered]


def _has_both(subject: RuleSubject) -> bool:
    calls = subject[_OUTGOING + CALLS]
    called = bool(_pending_calls(subject)) or not (is_null(calls) or isinstance(calls, ARRAYS))
    return called and not is_null(subject["/response_payload"])


def _left_for_the_server(subject: RuleSubject) -> list[Breach]:
    """Find the pending calls that no client answers, unless they may go back to the Reasoner (P38, X13)."""
    member, allowed = "requires_client_execution", subject.options.allow_server_tool_calls
    return [call.breach(member) for call in _pending_calls(subject) if not allowed and call[member] is not True]


def _is_built(subject: RuleSubject) -> bool:
    return is_object(subject["/built/response"])


def _is_unchanged(subject: RuleSubject) -> bool:
    try:
        return subject["/built/fingerprint"] == fingerprint(subject.content)
    except Exception:  # noqa: BLE001 - it holds what is not JSON, and an object's own code may raise anything
        return False


def _leads_to(outcome: ResponseType) -> RuleCondition:
    return lambda subject: subject["/response_type"] == outcome


_Rules: TypeAlias = tuple[PipelineRule | Included, ...] | None

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


def _step(step: PipelineStep, section: str, pre: _Rules, post: _Rules) -> StepRules:
    before, after = (
        None
        if rules is None
        else placed(f"{step.name.lower()}.{stage}", *rules, section=section, stage=stage, step=step)
        for stage, rules in ((RuleStage.PRE, pre), (RuleStage.POST, post))
    )
    return StepRules(step, section, before, after)


_BY_STEP: Final = (
    _step(PipelineStep.REQUEST_HANDLER, "4.1", NOT_APPLICABLE, CORE_ALONE),
    _step(
        PipelineStep.SESSION_RESTORER,
        "4.2",
        pre=(
            _NOT_CONTINUED,
            PipelineRule(
                "ids_present",
                InvokeCode.REQUEST_ID_MISSING,
                where_each(("/envelope/session_id", "/envelope/turn_id"), is_present),
            ),
            *_NOT_BEGUN,
        ),
        post=(
            _NOT_CONTINUED,
            _SESSION,
            _TURN,
            PipelineRule(
                "turn_differs", InvokeCode.TURN_NOT_NEW, unless(lambda subject: not _is_same_turn(subject), "/turn/id")
            ),
            _MODE,
        ),
    ),
    _step(PipelineStep.AGENT_CONTEXT_RESOLVER, "4.3", _NOT_BEGUN, (*_CONTEXTS,)),
    _step(  # that it is a continuation says that the envelope names its session and turn
        PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER,
        "4.2",
        (_CONTINUED, *_NOT_BEGUN),
        (_CONTINUED, _SESSION, _SAME_TURN, _MODE),
    ),
    _step(
        PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER,
        "4.4",
        pre=(
            _SESSION,
            _TURN,
            PipelineRule(
                "tool_results_present", InvokeCode.TOOL_RESULTS_MISSING, where("/envelope/tool_results", has_entries)
            ),
            *_NO_CONTEXTS,
        ),
        post=(
            Included("/tool_call_manifest", MANIFEST),
            _MANIFEST_NOT_EMPTY,
            _SAME_TURN,
            *extended(_SESSION),
            *_NO_CONTEXTS,
        ),
    ),
    _step(PipelineStep.AGENT_SESSION_CREATOR, "4.5", (*_CONTEXTS, *_NOT_BEGUN), (_SESSION, _TURN)),
    _step(PipelineStep.AGENT_CONTEXT_LOADER, "4.6", (_SESSION, _TURN), (*_CONTEXTS,)),
    _step(PipelineStep.ACP_COMMAND_HANDLER, "", CORE_ALONE, CORE_ALONE),
    _step(
        PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER,
        "4.7",
        pre=(
            _SESSION,
            _TURN,
            *_CONTEXTS,
            PipelineRule(
                "manifest_not_null",
                InvokeCode.NULL_MANIFEST,
                where("/tool_call_manifest", is_object),
                "a continuation must have a manifest",
                _CONTINUATION,
            ),
        ),
        post=(_READY,),
    ),
    _step(PipelineStep.REASONER, "4.8", (_READY, *extended(_SESSION, _TURN, *_CONTEXTS)), CORE_ALONE),
    _step(
        PipelineStep.LLM_CLIENT,
        "4.9",
        pre=(
            PipelineRule("payload_null", InvokeCode.PAYLOAD_NOT_NULL, where("/response_payload", is_null)),
            Included("/tool_call_manifest", MANIFEST, _CONTINUATION),
            _MANIFEST_NOT_EMPTY,
            PipelineRule(
                "calls_answered",
                InvokeCode.CALLS_PENDING,
                lambda subject: [call.breach("tool_call_id") for call in _pending_calls(subject)],
                profile="extended",
            ),
        ),
        post=(
            PipelineRule("not_both", InvokeCode.BOTH, unless(lambda subject: not _has_both(subject))),
            PipelineRule(  # a blank answer is refused where the response is built
                "not_neither",
                InvokeCode.NEITHER,
                unless(lambda subject: isinstance(subject[_TEXT], str) or bool(_pending_calls(subject))),
            ),
            PipelineRule("calls_for_client", InvokeCode.SERVER_CALL_LEFT, _left_for_the_server),
        ),
    ),
    _step(
        PipelineStep.RESPONSE_BUILDER,
        "4.10",
        pre=(
            PipelineRule(
                "response_type",
                InvokeCode.RESPONSE_TYPE,
                where("/response_type", lambda leads_to: leads_to in _BUILT_FROM),
            ),
            PipelineRule(
                "final_text",
                InvokeCode.OUTPUT_TEXT_MISSING,
                where(_TEXT, is_present),
                when=_leads_to(ResponseType.FINAL),
            ),
            PipelineRule(
                "continuation_calls",
                InvokeCode.TOOL_CALLS_MISSING,
                unless(lambda subject: bool(_pending_calls(subject)), _OUTGOING),
                "a tool continuation needs a manifest with a call that waits",
                _leads_to(ResponseType.TOOL_CONTINUATION),
            ),
        ),
        post=(
            PipelineRule("response_built", InvokeCode.RESPONSE_MISSING, unless(_is_built, "/built")),
            PipelineRule("context_unchanged", InvokeCode.CONTEXT_CHANGED, unless(_is_unchanged), when=_is_built),
            Included("/built/response", RESPONSE, _is_built),
        ),
    ),
)

STEPS: Final[Mapping[PipelineStep, StepRules]] = MappingProxyType({each.step: each for each in _BY_STEP})
"""Every step with what is asked at it, in the order of their numbers."""
