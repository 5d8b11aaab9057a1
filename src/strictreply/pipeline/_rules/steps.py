"""What each step may find and must leave behind (AGN-036 sections 4.1 to 4.10), one declaration a step.

The core comes first at every step (P5); where a step has no rules beyond it, its declaration says so (P8).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from strictreply.pipeline._kinds import PipelineStep
from strictreply.pipeline._results import InvokeCode
from strictreply.pipeline._rules.clauses import (
    AGENT_CONTEXT,
    ANOTHER_TURN,
    CONVERSATION_CONTEXT,
    MANIFEST_NOT_EMPTY,
    MANIFEST_THERE,
    MODE,
    NO_AGENT_CONTEXT,
    NO_CONVERSATION_CONTEXT,
    NO_SESSION,
    NO_TURN,
    READY,
    REQUEST_IDS,
    SAME_TURN,
    SESSION,
    TOOL_RESULTS,
    TURN,
    Clause,
)
from strictreply.pipeline._rules.core import is_continuation
from strictreply.pipeline._rules.manifests import MANIFEST
from strictreply.pipeline._rules.outcomes import (
    BUILT,
    CONTINUATION_CALLS,
    FINAL_TEXT,
    FOR_THE_CLIENT,
    NO_PAYLOAD,
    NO_PENDING,
    NOT_BOTH,
    NOT_NEITHER,
    OUTCOME,
    UNCHANGED,
    is_built,
)
from strictreply.pipeline._rules.reading import inert
from strictreply.pipeline._rules.responses import RESPONSE
from strictreply.pipeline._rules.rule import Condition, Group, Included, Rule, Stage, unless, where

Clauses: TypeAlias = tuple[Clause | Included, ...] | None

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
    pre: Group | None
    post: Group | None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The step's own rules in order, those of other sections that it refers to left out."""
        return tuple(judge for judge in (*(self.pre or ()), *(self.post or ())) if isinstance(judge, Rule))


def _declared(step: PipelineStep, section: str, *, pre: Clauses, post: Clauses) -> StepRules:
    """Place the clauses of one step."""

    def placed(clauses: Clauses, stage: Stage) -> Group | None:
        """Make rules of the clauses of one stage."""
        if clauses is None:
            return None
        return tuple(each.at(step, section, stage) if isinstance(each, Clause) else each for each in clauses)

    return StepRules(step, section, placed(pre, Stage.PRE), placed(post, Stage.POST))


def _path(serves: Condition, message: str) -> Clause:
    """Keep each of the two restorers to the requests that it serves: what they do with the turn differs (X14)."""
    return Clause(name="path", code=InvokeCode.WRONG_PATH, message=message, breaches=unless(serves, "/type"))


_NOT_CONTINUED: Final = _path(
    lambda subject: not is_continuation(subject), "a continuation goes by the ClientToolCallSessionRestorer"
)
_CONTINUED: Final = _path(is_continuation, "only a continuation goes by the ClientToolCallSessionRestorer")

_CONTEXTS: Final = (AGENT_CONTEXT, CONVERSATION_CONTEXT)
_NO_CONTEXTS: Final = (NO_AGENT_CONTEXT.extended(), NO_CONVERSATION_CONTEXT.extended())
_CONTINUED_MANIFEST: Final = Included(path="/tool_call_manifest", groups=MANIFEST, when=is_continuation)

_TABLE: Final = (
    _declared(PipelineStep.REQUEST_HANDLER, "4.1", pre=NOT_APPLICABLE, post=CORE_ALONE),
    _declared(
        PipelineStep.SESSION_RESTORER,
        "4.2",
        pre=(_NOT_CONTINUED, REQUEST_IDS, NO_SESSION, NO_TURN),
        post=(_NOT_CONTINUED, SESSION, TURN, ANOTHER_TURN, MODE),
    ),
    _declared(
        PipelineStep.AGENT_CONTEXT_RESOLVER,
        "4.3",
        pre=(NO_SESSION, NO_TURN),
        post=_CONTEXTS,
    ),
    _declared(  # that it is a continuation says that the envelope names its session and turn
        PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER,
        "4.2",
        pre=(_CONTINUED, NO_SESSION, NO_TURN),
        post=(_CONTINUED, SESSION, SAME_TURN, MODE),
    ),
    _declared(
        PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER,
        "4.4",
        pre=(SESSION, TURN, TOOL_RESULTS, *_NO_CONTEXTS),
        post=(
            Included(path="/tool_call_manifest", groups=MANIFEST),
            MANIFEST_NOT_EMPTY,
            SAME_TURN,
            SESSION.extended(),
            *_NO_CONTEXTS,
        ),
    ),
    _declared(
        PipelineStep.AGENT_SESSION_CREATOR,
        "4.5",
        pre=(*_CONTEXTS, NO_SESSION, NO_TURN),
        post=(SESSION, TURN),
    ),
    _declared(PipelineStep.AGENT_CONTEXT_LOADER, "4.6", pre=(SESSION, TURN), post=_CONTEXTS),
    _declared(PipelineStep.ACP_COMMAND_HANDLER, "", pre=CORE_ALONE, post=CORE_ALONE),
    _declared(
        PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER,
        "4.7",
        pre=(SESSION, TURN, *_CONTEXTS, MANIFEST_THERE),
        post=(READY,),
    ),
    _declared(
        PipelineStep.REASONER,
        "4.8",
        pre=(READY, *(clause.extended() for clause in (SESSION, TURN, *_CONTEXTS))),
        post=CORE_ALONE,
    ),
    _declared(
        PipelineStep.LLM_CLIENT,
        "4.9",
        pre=(NO_PAYLOAD, _CONTINUED_MANIFEST, MANIFEST_NOT_EMPTY, NO_PENDING.extended()),
        post=(NOT_BOTH, NOT_NEITHER, FOR_THE_CLIENT),
    ),
    _declared(
        PipelineStep.RESPONSE_BUILDER,
        "4.10",
        pre=(OUTCOME, FINAL_TEXT, CONTINUATION_CALLS),
        post=(BUILT, UNCHANGED, Included(path="/built/response", groups=RESPONSE, when=is_built)),
    ),
)

STEPS: Final[Mapping[PipelineStep, StepRules]] = MappingProxyType({each.step: each for each in _TABLE})
"""Every step with what is asked at it, in the order of their numbers."""

STEP_KNOWN: Final = Rule(
    id="step.known",
    section="2.1",
    stage=Stage.ENTRY,
    code=InvokeCode.UNKNOWN_STEP,
    message="the step must be one of PipelineStep, by its member, number or name",
    breaches=where("", lambda step: step_of(step) is not None),
)

_BY_NUMBER: Final = {int(step): step for step in PipelineStep}
_BY_NAME: Final = {name.replace("_", "").lower(): step for name, step in PipelineStep.__members__.items()}


def step_of(step: object) -> PipelineStep | None:
    """Find the step that its member, its number or its name means; None for anything else.

    ``LLMClient``, ``LlmClient`` and ``LLM_CLIENT`` are one name.
    """
    step = inert(step)
    if isinstance(step, str):
        return _BY_NAME.get(step.replace("_", "").lower())
    if isinstance(step, int) and not isinstance(step, bool):
        return _BY_NUMBER.get(step)
    return None
