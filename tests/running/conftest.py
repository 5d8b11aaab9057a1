"""Both twins of the loop, for the laws that hold in each.

Every turn of every test is judged step by step.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any

import pytest

from strictreply.pipeline._invoke_result import InvokeError
from strictreply.pipeline._line import StepBody, body_flow
from strictreply.pipeline._turn_steps import TurnSteps
from strictreply.pipeline._validator import LOOP_VALIDATOR
from strictreply.pipeline._values import AgentPipelineContext, PipelineStep, ToolCallManifest
from support.running.loops import Loop, Opened


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """Open loops of one kind."""
    return partial(Loop, asynchronous=request.param)


class FullWalk:
    """The steps that turns went through, and the manifests whose results the model was told."""

    def __init__(self) -> None:
        """Begin empty."""
        self.steps: list[tuple[PipelineStep, AgentPipelineContext, AgentPipelineContext]] = []
        self.manifests: list[ToolCallManifest] = []

    def watching(self, step: PipelineStep, body: StepBody) -> StepBody:
        """Note what a body was given, and what it left behind when it completed."""

        def watched(ctx: AgentPipelineContext) -> Generator[Any, Any, AgentPipelineContext]:
            given: AgentPipelineContext = yield from body_flow(body, ctx)
            self.steps.append((step, ctx, given))
            return given

        return watched

    @property
    def errors(self) -> list[InvokeError]:
        """The errors that the rules of every step and every manifest find."""
        judge = LOOP_VALIDATOR
        verdicts = [judge.validate_tool_call_manifest(manifest) for manifest in self.manifests]
        last = len(self.steps) - 1

        for number, (step, before, after) in enumerate(self.steps):
            verdicts.append(judge.validate_pre_step(before, step))
            follows = number < last and self.steps[number + 1][1] is after
            # What nothing follows may have been refused.
            if follows:
                verdicts.append(judge.validate_post_step(after, step))

        return [error for verdict in verdicts for error in verdict.errors]


@pytest.fixture(autouse=True)
def full_walk(monkeypatch: pytest.MonkeyPatch) -> Generator[FullWalk, None, None]:
    """Judge every value of every turn, which ``run`` does not: it judges what came in from outside.

    That no test of the loop ends with an error here is the proof that nothing was let through.
    """
    walk, bodies, result_turns = FullWalk(), vars(TurnSteps)["bodies"].fget, TurnSteps.result_turns

    def watched(steps: TurnSteps) -> Mapping[PipelineStep, StepBody]:
        return {step: walk.watching(step, body) for step, body in bodies(steps).items()}

    def noted(steps: TurnSteps, manifest: ToolCallManifest) -> Any:
        walk.manifests.append(manifest)
        return result_turns(steps, manifest)

    monkeypatch.setattr(TurnSteps, "bodies", property(watched))
    monkeypatch.setattr(TurnSteps, "result_turns", noted)
    yield walk
    assert walk.errors == []
