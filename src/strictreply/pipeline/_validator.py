"""The one validator of the pipeline: four questions, each answered by a result; the rules stand in their own table.

It judges and does nothing else: no step is executed here, nothing is stored, nobody is told (AGN-036 section 6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, get_args

from strictreply.contract._tool import Tool
from strictreply.pipeline._kinds import PipelineStep
from strictreply.pipeline._results import InvokeResult
from strictreply.pipeline._rules.core import CORE
from strictreply.pipeline._rules.manifests import MANIFEST
from strictreply.pipeline._rules.rule import Group, Options, Profile, Subject, judged_in_turn
from strictreply.pipeline._rules.steps import STEP_KNOWN, STEPS, step_of
from strictreply.pipeline._values import AgentPipelineContext, ToolCallManifest
from strictreply.values._errors import ContractError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentPipelineContextValidator(Options):
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
        """Refuse options of another kind, and keep the tools from later changes of the caller's mapping."""
        if self.profile not in get_args(Profile):
            raise ContractError('profile must be "published" or "extended"')
        if self.tools is not None:
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
        known = step_of(step)
        return self._unknown(step) if known is None else self._at_step(ctx, STEPS[known].pre)

    def validate_post_step(self, ctx: AgentPipelineContext | object, step: PipelineStep | int | str) -> InvokeResult:
        """Hold the context that a step left behind to the core, then to the step's POST rules (section 4)."""
        known = step_of(step)
        return self._unknown(step) if known is None else self._at_step(ctx, STEPS[known].post)

    def validate_tool_call_manifest(self, manifest: ToolCallManifest | object) -> InvokeResult:
        """Hold a manifest to section 5; an error tells the index, the id and the name of its entry, and the reason."""
        return self._result(manifest, MANIFEST)

    def _at_step(self, ctx: object, group: Group | None) -> InvokeResult:
        """Ask the core, then what a step asks; nothing where a step's rules do not apply."""
        return InvokeResult() if group is None else self._result(ctx, (*CORE, group))

    def _unknown(self, step: object) -> InvokeResult:
        """Say that there is no such step (requirement P8)."""
        return self._result(step, ((STEP_KNOWN,),))

    def _result(self, content: object, groups: Iterable[Group]) -> InvokeResult:
        """Ask groups of rules in turn."""
        errors = judged_in_turn(Subject(content, self), groups)
        return InvokeResult(errors=tuple(islice(errors, 1 if self.first_only else None)))


LOOP_VALIDATOR: Final = AgentPipelineContextValidator(allow_server_tool_calls=True)
"""Lets calls that are run here stand between two asks; the ResponseBuilder still sees the published rule (X13)."""


def _copied(tools: object) -> dict[str, Tool]:
    """Copy the tools, or say how they are given."""
    named = dict(tools) if isinstance(tools, Mapping) else {"": tools}
    copied = {str(name): tool for name, tool in named.items() if isinstance(tool, Tool)}
    if len(copied) != len(named):
        raise ContractError("tools must map names to Tools: {tool.name: tool for tool in …}")
    return copied
