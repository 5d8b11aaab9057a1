"""The rules of every context (AGN-036 section 3), of each step (section 4), and the validator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple, cast, get_args

from strictreply import ContractError, Tool
from strictreply.loop.invoke_result import Breach, InvokeResult
from strictreply.loop.invoke_result import InvokeCode as Code
from strictreply.loop.values import AgentPipelineContextType, PipelineStep, ToolCallManifest
from strictreply.pipeline._manifest_rules import CALLS, MANIFEST, MANIFEST_RESULTS
from strictreply.pipeline._response_rules import RESPONSE
from strictreply.pipeline._rule import (
    ARRAYS,
    Included,
    PipelineRule,
    Profile,
    RuleEntry,
    RuleGroup,
    RuleStage,
    RuleSubject,
    ValidatorOptions,
    asked_when,
    entries,
    extended,
    has_entries,
    inert,
    is_empty,
    is_null,
    is_object,
    is_one_of,
    is_populated,
    is_present,
    judged_in_turn,
    member_is,
    member_rule,
    placed,
    whole_rule,
)
from strictreply.pipeline._values import AgentPipelineContext, ResponseType, fingerprint

_INPUT: Final = (
    "/envelope/instructions",
    "/envelope/input_artifacts",
    "/envelope/clip_board_images",
)
_AGENT_ID: Final = "/envelope/agent_context_id"
_SESSION_ID: Final = "/envelope/session_id"
_TURN_ID: Final = "/envelope/turn_id"
_RESULTS: Final = "/envelope/tool_results"
_TEXT: Final = "/response_payload/primary_output_text"
_OUTGOING: Final = "/outgoing_manifest"
_ANSWERED: Final = "/tool_call_manifest"
_CONVERSATION: Final = "/conversation_context"
_CAN_BE_BUILT: Final = member_is(
    "/response_type", ResponseType.FINAL, ResponseType.TOOL_CONTINUATION
)
_HAS_WORDS: Final = member_is(
    "/type", AgentPipelineContextType.INITIAL, AgentPipelineContextType.FOLLOW_ON
)
_CONTINUATION: Final = member_is("/type", AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION)


def _has_input(subject: RuleSubject) -> bool:
    # Blank instructions do not count (requirement P15).
    return is_present(subject[_INPUT[0]]) or any(has_entries(subject[path]) for path in _INPUT[1:])


def _names_agent(subject: RuleSubject) -> bool:
    return is_empty(subject["/envelope/conversation_context_id"]) or is_present(subject[_AGENT_ID])


_core: Final = partial(placed, "core", stage=RuleStage.CORE)

# In turn: broken invariants silence the rules of the types (requirement P6).
CORE: Final[tuple[RuleGroup, ...]] = (
    _core(
        member_rule("context", Code.NULL_CONTEXT, "", lambda ctx: not is_null(ctx)), section="2.1"
    ),
    _core(
        member_rule("type", Code.CORE_TYPE, "/type", is_one_of(AgentPipelineContextType)),
        member_rule("time_stamp", Code.CORE_TIMESTAMP, "/time_stamp", is_present),
        member_rule("correlation_id", Code.CORE_CORRELATION, "/correlation_id", is_present),
        member_rule("org", Code.CORE_ORG, "/envelope/org", is_present),
        member_rule("user", Code.CORE_USER, "/envelope/user", is_present),
        section="3",
    ),
    _core(
        *asked_when(_HAS_WORDS, whole_rule("input", Code.INPUT_MISSING, "/envelope", _has_input)),
        *asked_when(
            member_is("/type", AgentPipelineContextType.INITIAL),
            member_rule(
                "initial.session_id_empty", Code.SESSION_ID_NOT_EMPTY, _SESSION_ID, is_empty
            ),
            member_rule("initial.turn_id_empty", Code.TURN_ID_NOT_EMPTY, _TURN_ID, is_empty),
            member_rule(
                "initial.tool_results_empty", Code.TOOL_RESULTS_NOT_EMPTY, _RESULTS, is_empty
            ),
            *extended(
                whole_rule(
                    "initial.agent_context_id_present",
                    Code.AGENT_CONTEXT_ID_MISSING,
                    _AGENT_ID,
                    _names_agent,
                )
            ),
        ),
        *asked_when(
            member_is("/type", AgentPipelineContextType.FOLLOW_ON),
            member_rule(
                "follow_on.session_id_present", Code.SESSION_ID_MISSING, _SESSION_ID, is_present
            ),
            member_rule("follow_on.turn_id_present", Code.TURN_ID_MISSING, _TURN_ID, is_present),
            member_rule(
                "follow_on.tool_results_empty", Code.TOOL_RESULTS_NOT_EMPTY, _RESULTS, is_empty
            ),
        ),
        *asked_when(
            _CONTINUATION,
            member_rule(
                "continuation.session_id_present", Code.SESSION_ID_MISSING, _SESSION_ID, is_present
            ),
            member_rule("continuation.turn_id_present", Code.TURN_ID_MISSING, _TURN_ID, is_present),
            member_rule(
                "continuation.tool_results_present",
                Code.TOOL_RESULTS_MISSING,
                _RESULTS,
                has_entries,
            ),
            *extended(
                member_rule("continuation.input_absent", Code.INPUT_FORBIDDEN, _INPUT, is_empty)
            ),
        ),
        section="3.1",
    ),
)


def _answers_calls(subject: RuleSubject) -> bool:
    return subject[_ANSWERED + CALLS] not in ([], ())


def _is_same_turn(subject: RuleSubject) -> bool:
    turn_id = subject["/turn/id"]
    return is_present(turn_id) and turn_id == subject[_TURN_ID]


_SESSION: Final = member_rule("session_populated", Code.SESSION_MISSING, "/session", is_populated)
_TURN: Final = member_rule("turn_populated", Code.TURN_MISSING, "/turn", is_populated)
_CONTEXTS: Final = (
    member_rule(
        "agent_context_populated", Code.AGENT_CONTEXT_MISSING, "/agent_context", is_populated
    ),
    member_rule(
        "conversation_context_populated",
        Code.CONVERSATION_CONTEXT_MISSING,
        _CONVERSATION,
        is_populated,
    ),
)
_NOT_BEGUN: Final = (
    member_rule("session_null", Code.SESSION_NOT_NULL, "/session", is_null),
    member_rule("turn_null", Code.TURN_NOT_NULL, "/turn", is_null),
)
_NO_CONTEXTS: Final = extended(
    member_rule("agent_context_null", Code.AGENT_CONTEXT_NOT_NULL, "/agent_context", is_null),
    member_rule(
        "conversation_context_null", Code.CONVERSATION_CONTEXT_NOT_NULL, _CONVERSATION, is_null
    ),
)
_MODE: Final = asked_when(
    lambda subject: is_populated(subject["/session"]),
    member_rule("session_mode", Code.SESSION_MODE_MISSING, "/session/mode", is_present),
)
_SAME_TURN: Final = whole_rule("turn_same", Code.TURN_NOT_SAME, "/turn/id", _is_same_turn)
_OTHER_TURN: Final = whole_rule(
    "turn_differs", Code.TURN_NOT_NEW, "/turn/id", lambda ctx: not _is_same_turn(ctx)
)
_HAS_IDS: Final = member_rule(
    "ids_present", Code.REQUEST_ID_MISSING, (_SESSION_ID, _TURN_ID), is_present
)
_HAS_RESULTS: Final = member_rule(
    "tool_results_present", Code.TOOL_RESULTS_MISSING, _RESULTS, has_entries
)
_READY: Final = member_rule(
    "prompt_ready", Code.PROMPT_NOT_READY, "/prompt/ready", lambda ready: ready is True
)
_HAS_MANIFEST: Final = member_rule("manifest_not_null", Code.NULL_MANIFEST, _ANSWERED, is_object)
# What the definition of a valid manifest leaves open (requirement P63).
_MANIFEST_NOT_EMPTY: Final = asked_when(
    _CONTINUATION,
    whole_rule("manifest_not_empty", Code.EMPTY_MANIFEST, _ANSWERED, _answers_calls),
)
# Each of the two restorers serves its own requests: what they do with the turn differs (X14).
_CONTINUED: Final = whole_rule("path", Code.WRONG_PATH, "/type", _CONTINUATION)
_NOT_CONTINUED: Final = whole_rule(
    "path", Code.WRONG_PATH, "/type", lambda subject: not _CONTINUATION(subject)
)


def _pending_calls(subject: RuleSubject) -> list[RuleEntry]:
    """Return the calls of the model's last reply that have no result yet.

    Those of earlier replies are answered (X17).
    """
    answered = {result.id for result in subject.entries_at(_OUTGOING + MANIFEST_RESULTS)} - {None}
    path = _OUTGOING + CALLS
    found = enumerate(entries(subject[path]))
    calls = (RuleEntry(call, index, f"{path}/{index}") for index, call in found)
    return [call for call in calls if call.id not in answered]


def _has_pending(subject: RuleSubject) -> bool:
    return bool(_pending_calls(subject))


def _unanswered(subject: RuleSubject) -> list[Breach]:
    return [call.breach("tool_call_id") for call in _pending_calls(subject)]


def _has_both(subject: RuleSubject) -> bool:
    calls = subject[_OUTGOING + CALLS]
    called = _has_pending(subject) or not (is_null(calls) or isinstance(calls, ARRAYS))
    return called and not is_null(subject["/response_payload"])


def _left_for_the_server(subject: RuleSubject) -> list[Breach]:
    """Return the pending calls that no client answers (P38).

    There are none where these may go back to the Reasoner (X13).
    """
    if subject.options.allow_server_tool_calls:
        return []

    member = "requires_client_execution"
    return [call.breach(member) for call in _pending_calls(subject) if call[member] is not True]


def _is_built(subject: RuleSubject) -> bool:
    return is_object(subject["/built/response"])


def _is_unchanged(subject: RuleSubject) -> bool:
    try:
        return subject["/built/fingerprint"] == fingerprint(subject.content)
    except Exception:  # noqa: BLE001
        # It holds what is not JSON, and an object's own code may raise anything.
        return False


# Nothing is asked, not even the core: there may be no context yet (X21).
NOT_APPLICABLE: Final = None
# Nothing is asked beyond the core.
CORE_ALONE: Final = ()


class StepRules(NamedTuple):
    """What is asked before and after one step.

    ``section`` is empty for a step that AGN-036 does not list.
    """

    section: str
    pre: RuleGroup | None
    post: RuleGroup | None

    def of(self, step: PipelineStep) -> StepRules:
        """Place the rules at their step."""
        name = step.name.lower()
        section = self.section
        pre = self.pre and placed(
            f"{name}.pre", *self.pre, section=section, stage=RuleStage.PRE, step=step
        )
        post = self.post and placed(
            f"{name}.post", *self.post, section=section, stage=RuleStage.POST, step=step
        )

        return StepRules(section, pre, post)


_ROWS: Final = {
    PipelineStep.REQUEST_HANDLER: StepRules("4.1", NOT_APPLICABLE, CORE_ALONE),
    PipelineStep.SESSION_RESTORER: StepRules(
        "4.2",
        (_NOT_CONTINUED, _HAS_IDS, *_NOT_BEGUN),
        (_NOT_CONTINUED, _SESSION, _TURN, _OTHER_TURN, *_MODE),
    ),
    PipelineStep.AGENT_CONTEXT_RESOLVER: StepRules("4.3", _NOT_BEGUN, _CONTEXTS),
    # A continuation's envelope names its session and turn.
    PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER: StepRules(
        "4.2", (_CONTINUED, *_NOT_BEGUN), (_CONTINUED, _SESSION, _SAME_TURN, *_MODE)
    ),
    PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER: StepRules(
        "4.4",
        pre=(_SESSION, _TURN, _HAS_RESULTS, *_NO_CONTEXTS),
        post=(
            Included(_ANSWERED, MANIFEST),
            *_MANIFEST_NOT_EMPTY,
            _SAME_TURN,
            *extended(_SESSION),
            *_NO_CONTEXTS,
        ),
    ),
    PipelineStep.AGENT_SESSION_CREATOR: StepRules(
        "4.5", (*_CONTEXTS, *_NOT_BEGUN), (_SESSION, _TURN)
    ),
    PipelineStep.AGENT_CONTEXT_LOADER: StepRules("4.6", (_SESSION, _TURN), _CONTEXTS),
    PipelineStep.ACP_COMMAND_HANDLER: StepRules("", CORE_ALONE, CORE_ALONE),
    PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER: StepRules(
        "4.7", (_SESSION, _TURN, *_CONTEXTS, *asked_when(_CONTINUATION, _HAS_MANIFEST)), (_READY,)
    ),
    PipelineStep.REASONER: StepRules(
        "4.8", (_READY, *extended(_SESSION, _TURN, *_CONTEXTS)), CORE_ALONE
    ),
    PipelineStep.LLM_CLIENT: StepRules(
        "4.9",
        pre=(
            member_rule("payload_null", Code.PAYLOAD_NOT_NULL, "/response_payload", is_null),
            Included(_ANSWERED, MANIFEST, _CONTINUATION),
            *_MANIFEST_NOT_EMPTY,
            *extended(PipelineRule("calls_answered", Code.CALLS_PENDING, _unanswered)),
        ),
        post=(
            whole_rule("not_both", Code.BOTH, "", lambda subject: not _has_both(subject)),
            # The ResponseBuilder refuses a blank answer.
            whole_rule(
                "not_neither",
                Code.NEITHER,
                "",
                lambda ctx: isinstance(ctx[_TEXT], str) or _has_pending(ctx),
            ),
            PipelineRule("calls_for_client", Code.SERVER_CALL_LEFT, _left_for_the_server),
        ),
    ),
    PipelineStep.RESPONSE_BUILDER: StepRules(
        "4.10",
        pre=(
            whole_rule("response_type", Code.RESPONSE_TYPE, "/response_type", _CAN_BE_BUILT),
            *asked_when(
                member_is("/response_type", ResponseType.FINAL),
                member_rule("final_text", Code.OUTPUT_TEXT_MISSING, _TEXT, is_present),
            ),
            *asked_when(
                member_is("/response_type", ResponseType.TOOL_CONTINUATION),
                whole_rule("continuation_calls", Code.TOOL_CALLS_MISSING, _OUTGOING, _has_pending),
            ),
        ),
        post=(
            whole_rule("response_built", Code.RESPONSE_MISSING, "/built", _is_built),
            *asked_when(
                _is_built, whole_rule("context_unchanged", Code.CONTEXT_CHANGED, "", _is_unchanged)
            ),
            Included("/built/response", RESPONSE, _is_built),
        ),
    ),
}
STEPS: Final[Mapping[PipelineStep, StepRules]] = MappingProxyType(
    {step: rules.of(step) for step, rules in _ROWS.items()}
)
_BY_NUMBER: Final = {int(step): step for step in PipelineStep}
_BY_NAME: Final = {
    name.replace("_", "").lower(): step for name, step in PipelineStep.__members__.items()
}


def step_of(step: object) -> PipelineStep | None:
    """Return the step of a member, a number or a name (``LLMClient`` is ``LLM_CLIENT``).

    Return None for anything else.
    """
    step = inert(step)
    if isinstance(step, str):
        return _BY_NAME.get(step.replace("_", "").lower())
    return _BY_NUMBER.get(step) if isinstance(step, int) and not isinstance(step, bool) else None


_KNOWN: Final = member_rule(
    "step.known", Code.UNKNOWN_STEP, "", lambda step: step_of(step) is not None
)
STEP_KNOWN: Final = replace(_KNOWN, section="2.1")


def list_rules() -> tuple[PipelineRule, ...]:
    """List every rule in the order in which they are checked.

    The list includes the rules of the extended profile.
    """
    of_steps = (group for step in STEPS.values() for group in (step.pre, step.post) if group)
    groups = ((STEP_KNOWN,), *CORE, *of_steps, *MANIFEST, *RESPONSE)
    return tuple(rule for group in groups for rule in group if isinstance(rule, PipelineRule))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentPipelineContextValidator(ValidatorOptions):
    """Validates contexts and manifests by the rules of AGN-036.

    It has no state, changes nothing, and never raises for any content. A context is an
    AgentPipelineContext, or a mapping with the same names.

    Raises ContractError for a wrong ``profile`` or wrong ``tools``.
    """

    def __post_init__(self) -> None:
        if self.profile not in get_args(Profile):
            raise ContractError('profile must be "published" or "extended"')

        given = cast("object", self.tools)
        if given is not None:
            named = dict(given) if isinstance(given, Mapping) else {"": given}
            copied = {str(name): tool for name, tool in named.items() if isinstance(tool, Tool)}
            if len(copied) != len(named):
                raise ContractError(
                    "tools must map names to Tools: {tool.name: tool for tool in …}"
                )

            # A copy, so that later changes of the caller's mapping have no effect.
            object.__setattr__(self, "tools", copied)

    def validate_core(self, ctx: AgentPipelineContext | object) -> InvokeResult:
        """Check the rules that apply at every step (AGN-036 section 3).

        The invariants come first, then the rules of the context's type.
        """
        return self._result(ctx, CORE)

    def validate_pre_step(
        self, ctx: AgentPipelineContext | object, step: PipelineStep | int | str
    ) -> InvokeResult:
        """Check a context before a step: the core rules, then the step's PRE rules (section 4).

        ``step`` is a PipelineStep, its number or its name; for anything else the result has
        UNKNOWN_STEP. The RequestHandler has no rules.
        """
        return self._at_step(ctx, step, RuleStage.PRE)

    def validate_post_step(
        self, ctx: AgentPipelineContext | object, step: PipelineStep | int | str
    ) -> InvokeResult:
        """Check a context after a step: the core rules, then the step's POST rules (section 4)."""
        return self._at_step(ctx, step, RuleStage.POST)

    def validate_tool_call_manifest(self, manifest: ToolCallManifest | object) -> InvokeResult:
        """Check a manifest by section 5.

        An error has the index, the id and the name of its entry, and the reason.
        """
        return self._result(manifest, MANIFEST)

    def _at_step(self, ctx: object, step: object, stage: RuleStage) -> InvokeResult:
        known = step_of(step)
        if known is None:
            return self._result(step, ((STEP_KNOWN,),))

        group = STEPS[known].pre if stage is RuleStage.PRE else STEPS[known].post
        return InvokeResult() if group is None else self._result(ctx, (*CORE, group))

    def _result(self, content: object, groups: Iterable[RuleGroup]) -> InvokeResult:
        errors = judged_in_turn(RuleSubject(content, self), groups)
        return InvokeResult(errors=tuple(islice(errors, 1 if self.first_only else None)))


# It allows calls that are run here between two requests; the published rule still applies to the
# ResponseBuilder (X13).
LOOP_VALIDATOR: Final = AgentPipelineContextValidator(allow_server_tool_calls=True)
