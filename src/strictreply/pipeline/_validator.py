"""The one validator of the pipeline: four questions, each answered by a result; the rules stand in tables of their own.

It judges and does nothing else: no step is executed here, nothing is stored, nobody is told (AGN-036 section 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, get_args

from strictreply.contract._tool import Tool
from strictreply.pipeline._context_rules import CORE, STEPS
from strictreply.pipeline._invoke_result import InvokeCode, InvokeResult
from strictreply.pipeline._manifest_rules import MANIFEST, RESPONSE
from strictreply.pipeline._rule import (
    PipelineRule,
    Profile,
    RuleGroup,
    RuleStage,
    RuleSubject,
    ValidatorOptions,
    inert,
    judged_in_turn,
    member_rule,
)
from strictreply.pipeline._values import AgentPipelineContext, PipelineStep, ToolCallManifest
from strictreply.values._errors import ContractError

_BY_NUMBER: Final = {int(step): step for step in PipelineStep}
_BY_NAME: Final = {name.replace("_", "").lower(): step for name, step in PipelineStep.__members__.items()}


def step_of(step: object) -> PipelineStep | None:
    """Return the step that its member, its number or its name means; None for anything else.

    ``LLMClient``, ``LlmClient`` and ``LLM_CLIENT`` are one name.
    """
    step = inert(step)
    if isinstance(step, str):
        return _BY_NAME.get(step.replace("_", "").lower())
    if isinstance(step, int) and not isinstance(step, bool):
        return _BY_NUMBER.get(step)
    return None


STEP_KNOWN: Final = replace(
    member_rule("step.known", InvokeCode.UNKNOWN_STEP, "", lambda step: step_of(step) is not None), section="2.1"
)


def list_rules() -> tuple[PipelineRule, ...]:
    """List every rule in the order in which it is asked, those of the extended profile too (requirement P9)."""
    of_steps = (group for step in STEPS.values() for group in (step.pre, step.post) if group is not None)
    groups = ((STEP_KNOWN,), *CORE, *of_steps, *MANIFEST, *RESPONSE)
    return tuple(rule for group in groups for rule in group if isinstance(rule, PipelineRule))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentPipelineContextValidator(ValidatorOptions):
    """Hold contexts and manifests to AGN-036; it keeps nothing, changes nothing and never raises on any content.

    A context is an AgentPipelineContext, or any mapping, which is read by the same names and held to the same rules.
    As written, every tool result must hold JSON (X11) and the model's calls must be the client's (X13):
    ``allow_error_results`` takes a result's error in place of its JSON, as AGN-033 does, and
    ``allow_server_tool_calls`` lets calls pass that go back to the Reasoner. ``profile="extended"`` adds the rules that
    only the document's first implementation has. ``first_only`` ends with the first error. ``tools``, by name, are what
    the calls of a manifest are held to; None holds them to none.

    Raises ContractError for a ``profile`` or ``tools`` of another kind.
    """

    def __post_init__(self) -> None:
        if self.profile not in get_args(Profile):
            raise ContractError('profile must be "published" or "extended"')
        if self.tools is not None:  # a copy, which later changes of the caller's mapping do not reach
            object.__setattr__(self, "tools", _copied(self.tools))

    def validate_core(self, ctx: AgentPipelineContext | object) -> InvokeResult:
        """Hold a context to the rules that hold at every step (AGN-036 section 3).

        Broken invariants come alone: what the type of the request asks is judged when they hold (requirement P6).
        """
        return self._result(ctx, CORE)

    def validate_pre_step(self, ctx: AgentPipelineContext | object, step: PipelineStep | int | str) -> InvokeResult:
        """Hold the context that a step is about to be given to the core, then to the step's PRE rules (section 4).

        ``step`` is a PipelineStep, its number or its name; anything else is UNKNOWN_STEP. Before the RequestHandler
        nothing is asked: there may be no context yet (X21).
        """
        return self._at_step(ctx, step, RuleStage.PRE)

    def validate_post_step(self, ctx: AgentPipelineContext | object, step: PipelineStep | int | str) -> InvokeResult:
        """Hold the context that a step left behind to the core, then to the step's POST rules (section 4)."""
        return self._at_step(ctx, step, RuleStage.POST)

    def validate_tool_call_manifest(self, manifest: ToolCallManifest | object) -> InvokeResult:
        """Hold a manifest to section 5; an error has the index, the id and the name of its entry, and the reason."""
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


LOOP_VALIDATOR: Final = AgentPipelineContextValidator(allow_server_tool_calls=True)
"""Lets calls that are run here stand between two asks; the ResponseBuilder still sees the published rule (X13)."""


def _copied(tools: object) -> dict[str, Tool]:
    named = dict(tools) if isinstance(tools, Mapping) else {"": tools}
    copied = {str(name): tool for name, tool in named.items() if isinstance(tool, Tool)}
    if len(copied) != len(named):
        raise ContractError("tools must map names to Tools: {tool.name: tool for tool in …}")
    return copied
