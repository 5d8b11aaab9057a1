"""Both twins of the loop, for the laws that hold in each.

Every run of every test is held to AGN-036 step by step.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import pytest

from strictreply.loop import Progress, RunLoop, _flow
from strictreply.loop.invoke_result import InvokeError
from strictreply.loop.values import PipelineStep, ToolCallManifest
from strictreply.pipeline import AgentPipelineContext
from strictreply.pipeline._line import errors_before, errors_behind, next_step
from strictreply.pipeline._run_observer import context_left, context_of
from strictreply.pipeline._validator import LOOP_VALIDATOR
from support.loop.loops import Loop, Opened


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """Open loops of one kind."""
    return partial(Loop, asynchronous=request.param)


class FullWalk:
    """The steps that runs went through, and the manifests whose results the model was told."""

    def __init__(self) -> None:
        """Begin empty."""
        self.steps: list[tuple[PipelineStep, AgentPipelineContext, AgentPipelineContext]] = []
        self.manifests: list[ToolCallManifest] = []
        self.illegal: list[tuple[PipelineStep, PipelineStep]] = []

    def enter(self, run: RunLoop, state: Progress) -> None:
        """Note a step that is not the one after the step before it (requirement P43)."""
        if run.trace:
            done = run.trace[-1].step
            if next_step(context_of(run, state), done) is not run.step:
                self.illegal.append((done, run.step))

    def leave(self, run: RunLoop, state: Progress) -> None:
        """Note what a step was given, and what it left."""
        before = context_of(run, run.state)
        self.steps.append((run.step, before, context_left(run, state)))

    @property
    def errors(self) -> list[InvokeError]:
        """The errors that the rules of every step and every manifest find."""
        judge = LOOP_VALIDATOR
        verdicts = [judge.validate_tool_call_manifest(manifest) for manifest in self.manifests]
        errors = [error for verdict in verdicts for error in verdict.errors]

        for step, before, after in self.steps:
            errors += errors_before(judge, before, step)
            errors += errors_behind(judge, before, step, after)

        return errors


@pytest.fixture(autouse=True)
def full_walk(monkeypatch: pytest.MonkeyPatch) -> Generator[FullWalk, None, None]:
    """Judge every step of every run, which ``run`` does not: it judges what came in from outside.

    That no test of the loop ends with an error here is the proof that nothing was let through.
    """
    walk = FullWalk()
    made = RunLoop.__post_init__
    before = RunLoop.errors_before
    behind = RunLoop.errors_behind
    results_of: Any = vars(_flow)["_results_of"]

    def watched(run: RunLoop) -> None:
        made(run)
        run.before = run.behind = frozenset(PipelineStep)

    def entered(run: RunLoop, state: Progress) -> Sequence[InvokeError]:
        walk.enter(run, state)
        return before(run, state)

    def left(run: RunLoop, state: Progress) -> Sequence[InvokeError]:
        errors = behind(run, state)
        if not errors:
            walk.leave(run, state)
        return errors

    def noted(run: RunLoop, manifest: ToolCallManifest) -> Any:
        walk.manifests.append(manifest)
        return results_of(run, manifest)

    monkeypatch.setattr(RunLoop, "__post_init__", watched)
    monkeypatch.setattr(RunLoop, "errors_before", entered)
    monkeypatch.setattr(RunLoop, "errors_behind", left)
    monkeypatch.setattr(_flow, "_results_of", noted)
    yield walk
    assert walk.errors == []
    assert walk.illegal == []
