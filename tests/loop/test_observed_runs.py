"""AGN-036 over a run: an observer may refuse a step, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import strictreply as sr
from strictreply.loop import Progress, RunLoop
from strictreply.loop.invoke_result import InvokeCode, InvokeError
from strictreply.loop.values import LineStatus, PipelineStep
from strictreply.pipeline import AgentPipelineContextValidator, PipelineObserver
from support.loop.loops import DONE, LOCATE, Opened, asking, codes, spy

PUBLISHED = PipelineObserver(AgentPipelineContextValidator())


@pytest.mark.req("P38")
def test_an_observer_refuses_before_anything_is_run(opened: Opened) -> None:
    """By the rule as it is published no call may be left for this process: the tool does not run,
    and the model is asked once.
    """
    ran: list[str] = []
    loop = opened(asking("a"), DONE, tools=[spy("search", ran)])

    with pytest.raises(sr.InvokeFailed) as refused:
        loop.run(observer=PUBLISHED)

    assert (codes(refused.value), refused.value.step) == (
        [InvokeCode.SERVER_CALL_LEFT],
        "LLM_CLIENT",
    )
    assert (ran, loop.asks) == ([], 1)


def test_a_refused_turn_leaves_its_calls_waiting(opened: Opened) -> None:
    """A run that an observer refuses has failed as any other: the client may answer again."""
    loop = opened(asking("a", tool="locate"), asking("b"), DONE, tools=[LOCATE, spy("search", [])])
    paused = loop.run(observer=PUBLISHED)
    results = [paused.pending[0].answered("here")]

    with pytest.raises(sr.InvokeFailed):
        loop.run(continuation=paused, results=results, observer=PUBLISHED)

    assert loop.run(continuation=paused, results=results).answer == "done"


def test_an_observer_changes_nothing(opened: Opened) -> None:
    """Requests, transcript, steps and answer are those of a run that nobody observes."""
    seen: list[tuple[object, ...]] = []
    for observer in (None, PipelineObserver()):
        loop = opened(asking("a"), asking("b"), DONE, tools=[spy("search", [])])
        run = loop.run(observer=observer)
        steps = [(entry.step, entry.status) for entry in run.trace]
        seen.append((loop.script.requests, run.transcript, steps, run.answer))

    assert seen[0] == seen[1]


class Refusing:
    """An observer that refuses one step, before or behind it."""

    def __init__(self, step: PipelineStep, *, is_before: bool) -> None:
        """Refuse ``step``."""
        self.step = step
        self.is_before = is_before

    def before(self, run: RunLoop, state: Progress) -> Sequence[InvokeError]:
        """Refuse the step that is about to begin."""
        return self._errors(run) if self.is_before else ()

    def after(self, run: RunLoop, state: Progress) -> Sequence[InvokeError]:
        """Refuse what the step left."""
        return () if self.is_before else self._errors(run)

    def _errors(self, run: RunLoop) -> Sequence[InvokeError]:
        return [InvokeCode.BOTH.error("mine")] if run.step is self.step else []


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize(
    ("step", "asks"),
    [
        (PipelineStep.REQUEST_HANDLER, (0, 0)),
        (PipelineStep.LLM_CLIENT, (0, 1)),
        (PipelineStep.RESPONSE_BUILDER, (1, 1)),
    ],
)
def test_any_step_may_be_refused(
    opened: Opened, step: PipelineStep, asks: tuple[int, int], is_before: bool
) -> None:
    """The run fails at that step with the observer's errors, and does nothing further."""
    loop = opened(DONE, tools=[LOCATE])

    with pytest.raises(sr.InvokeFailed) as refused:
        loop.run(observer=Refusing(step, is_before=is_before))

    assert (codes(refused.value), refused.value.step) == ([InvokeCode.BOTH], step.name)
    assert loop.asks == asks[not is_before]


def test_a_cancellation_goes_before_a_refusal_behind_a_step(opened: Opened) -> None:
    """A run that was cancelled during a step is not judged: it is aborted."""
    loop = opened(DONE, tools=[LOCATE])
    run = loop.run(
        observer=Refusing(PipelineStep.LLM_CLIENT, is_before=False), cancel=lambda: loop.asks > 0
    )
    assert run.is_cancelled
    assert (run.trace[-1].step, run.trace[-1].status) == (
        PipelineStep.LLM_CLIENT,
        LineStatus.ABORTED,
    )


def test_what_cannot_observe_is_refused(opened: Opened) -> None:
    """An observer without its methods is a mistake of the program, told before anything is done."""
    loop = opened(DONE, tools=[LOCATE])
    with pytest.raises(sr.ContractError, match="observer"):
        loop.run(observer=AgentPipelineContextValidator())
    assert loop.asks == 0
