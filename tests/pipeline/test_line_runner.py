"""The runner takes functions, async functions and generators down the line.

It refuses what it could not run.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from strictreply import ContractError
from strictreply.loop import MemorySessionStore
from strictreply.loop.invoke_result import InvokeCode
from strictreply.loop.values import AgentPipelineContextType, LineStatus, PipelineStep
from strictreply.pipeline import (
    AgentPipelineContext,
    AgentPipelineContextValidator,
    LineResult,
    PipelineRunner,
)
from strictreply.pipeline._line import OPENINGS, ROUND, StepBody
from support.pipeline.walking import App, PlainBody, asking, call, context

INITIAL = AgentPipelineContextType.INITIAL
AsyncBody = Callable[[AgentPipelineContext], Awaitable[AgentPipelineContext]]


def awaited(body: PlainBody) -> AsyncBody:
    """Make an async function of a body."""

    async def awaiting(ctx: AgentPipelineContext) -> AgentPipelineContext:
        await asyncio.sleep(0)
        return body(ctx)

    return awaiting


class Callable_:  # noqa: N801 - a class whose instances are called
    """An object that is called, async."""

    def __init__(self, body: PlainBody) -> None:
        """Take what it does."""
        self.body = body

    async def __call__(self, ctx: AgentPipelineContext) -> AgentPipelineContext:
        """Do it."""
        return self.body(ctx)


def bodies(*says: Any) -> dict[PipelineStep, PlainBody]:
    """Return the bodies of the small app, without a store behind them."""
    return App(MemorySessionStore(), *(says or ("hi",))).bodies


def only(kind: AgentPipelineContextType, *says: Any) -> dict[PipelineStep, Any]:
    """Return the bodies of one walk."""
    return {step: body for step, body in bodies(*says).items() if step in (*OPENINGS[kind], *ROUND)}


def ran(runner: PipelineRunner, how: str, **options: Any) -> LineResult:
    """Run an initial request, sync or async."""
    first = context(asking())
    return (
        runner.run(first, **options)
        if how == "sync"
        else asyncio.run(runner.arun(first, **options))
    )


def generating(body: PlainBody) -> StepBody:
    """Make a generator of a body."""

    def generated(ctx: AgentPipelineContext) -> Generator[Any, Any, AgentPipelineContext]:
        yield from ()
        return body(ctx)

    return generated


KINDS: dict[str, Callable[[PlainBody], StepBody]] = {
    "function": lambda body: body,
    "partial": functools.partial,
    "generator": generating,
}
ASYNC_KINDS: dict[str, Callable[[PlainBody], StepBody]] = {
    "async function": awaited,
    "async partial": lambda body: functools.partial(awaited(body)),
    "async object": Callable_,
}


@pytest.mark.parametrize("kind", [*KINDS, *ASYNC_KINDS])
def test_all_kinds_of_bodies_run_alike(kind: str) -> None:
    """Every kind of body goes the same way to the same response, awaiting; all but the async ones
    also without.
    """
    made = {
        step: (KINDS | ASYNC_KINDS)[kind](body)
        for step, body in bodies((call("price"),), "hi").items()
    }
    done = ran(PipelineRunner(made), "async")
    assert (done.status, len(done.trace)) == (LineStatus.COMPLETED, 9)
    assert done.context.built is not None

    if kind in KINDS:
        made = {step: KINDS[kind](body) for step, body in bodies((call("price"),), "hi").items()}
        again = ran(PipelineRunner(made), "sync")
        assert again.context == done.context


@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_an_async_body_is_not_run_without_awaiting(kind: str) -> None:
    """One async body makes run a ContractError before any body runs."""
    app = App(MemorySessionStore(), "hi")
    made: dict[PipelineStep, StepBody] = dict(app.bodies)
    made[PipelineStep.REASONER] = ASYNC_KINDS[kind](app.reason)
    with pytest.raises(ContractError):
        PipelineRunner(made).run(context(asking()))
    assert app.steps == []


def test_an_async_body_that_does_not_look_it_fails_its_step() -> None:
    """A function that gives something to await cannot be run either: its step fails, and nothing
    stays unawaited.
    """
    app = App(MemorySessionStore(), "hi")
    made: dict[PipelineStep, StepBody] = dict(app.bodies)
    disguised = awaited(app.reason)
    # The lambda hides that it is async.
    made[PipelineStep.REASONER] = lambda ctx: disguised(ctx)  # noqa: PLW0108

    runner = PipelineRunner(made)
    done = runner.run(context(asking()))
    assert (done.step, [error.code for error in done.errors]) == (
        PipelineStep.REASONER,
        [InvokeCode.STEP_RAISED],
    )

    assert isinstance(done.cause, ContractError)
    assert ran(PipelineRunner(made), "async").status is LineStatus.COMPLETED


@pytest.mark.req("P44")
@pytest.mark.parametrize(
    ("how", "kind"), [("sync", "function"), ("async", "function"), ("async", "async function")]
)
def test_an_exception_becomes_an_error(how: str, kind: str) -> None:
    """An exception of a body, sync or async, fails its step and is the cause."""

    def body(ctx: AgentPipelineContext) -> AgentPipelineContext:
        raise LookupError

    made = only(INITIAL) | {PipelineStep.REASONER: (KINDS | ASYNC_KINDS)[kind](body)}
    done = ran(PipelineRunner(made, serves=[INITIAL]), how)
    assert (done.status, done.step) == (LineStatus.FAILED, PipelineStep.REASONER)
    assert [error.code for error in done.errors] == [InvokeCode.STEP_RAISED]
    assert isinstance(done.cause, LookupError)


def test_a_cancelled_task_is_cancelled() -> None:
    """Cancelling the task that runs a line ends it as asyncio expects: no step turns that into an
    error.
    """

    async def body(ctx: AgentPipelineContext) -> AgentPipelineContext:
        raise asyncio.CancelledError

    made = only(INITIAL) | {PipelineStep.REASONER: body}
    with pytest.raises(asyncio.CancelledError):
        ran(PipelineRunner(made, serves=[INITIAL]), "async")


@pytest.mark.req("P70")
@pytest.mark.parametrize("how", ["sync", "async"])
def test_cancel_aborts(how: str) -> None:
    """An event that is set before the line begins aborts it without a body; one set by a body after
    that body.
    """
    app = App(MemorySessionStore(), "hi")
    event = Event()
    made = app.bodies
    load = made[PipelineStep.AGENT_CONTEXT_RESOLVER]

    def cancelling(ctx: AgentPipelineContext) -> AgentPipelineContext:
        event.set()
        return load(ctx)

    made[PipelineStep.AGENT_CONTEXT_RESOLVER] = cancelling
    runner = PipelineRunner(made)
    done = ran(runner, how, cancel=event.is_set)
    assert (done.status, done.step) == (LineStatus.ABORTED, PipelineStep.AGENT_CONTEXT_RESOLVER)

    again = ran(runner, how, cancel=event.is_set)
    assert (again.status, again.errors, len(app.steps)) == (LineStatus.ABORTED, (), 2)


def test_a_generator_body_may_have_anything_awaited() -> None:
    """A generator asks to await what it likes, and is told what that gave."""

    def body(ctx: AgentPipelineContext) -> Generator[Any, Any, AgentPipelineContext]:
        told = yield asyncio.sleep(0, ctx.correlation_id)
        again = yield asyncio.sleep(0, ctx.type)
        assert (told, again) == (ctx.correlation_id, ctx.type)
        return ctx

    made = only(INITIAL) | {PipelineStep.REASONER: body}
    assert ran(PipelineRunner(made, serves=[INITIAL]), "async").status is LineStatus.COMPLETED


def test_an_effect_that_nobody_performs_is_refused() -> None:
    """A generator that yields what cannot be awaited is told which loop to drive it on."""

    def body(ctx: AgentPipelineContext) -> Generator[Any, Any, AgentPipelineContext]:
        yield "anything"
        return ctx

    made = only(INITIAL) | {PipelineStep.REASONER: body}
    with pytest.raises(ContractError):
        ran(PipelineRunner(made, serves=[INITIAL]), "sync")


async def _stream(ctx: AgentPipelineContext) -> AsyncIterator[AgentPipelineContext]:
    """Be no body: an async generator."""
    yield ctx


@pytest.mark.parametrize(
    ("change", "serves"),
    [
        ({PipelineStep.AGENT_SESSION_CREATOR: None}, [INITIAL]),
        ({PipelineStep.SESSION_RESTORER: None}, list(AgentPipelineContextType)),
        ({PipelineStep.ACP_COMMAND_HANDLER: lambda ctx: ctx}, list(AgentPipelineContextType)),
        ({}, [INITIAL]),
        ({}, []),
        ({PipelineStep.REASONER: "reason"}, list(AgentPipelineContextType)),
        ({PipelineStep.REASONER: _stream}, list(AgentPipelineContextType)),
    ],
    ids=[
        "missing",
        "missing of one",
        "unreachable",
        "idle",
        "serves nothing",
        "no function",
        "async generator",
    ],
)
def test_the_bodies_fit_the_walks(
    change: dict[PipelineStep, Any], serves: list[AgentPipelineContextType]
) -> None:
    """A step without a body, a body without a step, and what is no body are ContractErrors before
    anything runs.
    """
    made = {step: body for step, body in (bodies() | change).items() if body is not None}
    with pytest.raises(ContractError):
        PipelineRunner(made, serves=serves)


def test_a_type_that_is_not_served_fails() -> None:
    """A runner of initial requests alone fails another one at the step that it has no body for."""
    runner = PipelineRunner(only(INITIAL), serves=[INITIAL])
    done = runner.run(context(asking(session_id="s", turn_id="t")))
    assert [error.code for error in done.errors] == [InvokeCode.NO_STEP_BODY]
    assert runner.run(context(asking())).status is LineStatus.COMPLETED


async def _asked() -> bool:
    """Be no answer: a coroutine is always true."""
    return False


@pytest.mark.parametrize(
    ("ctx", "cancel"),
    [(None, None), ({}, None), (context(asking()), Event()), (context(asking()), _asked)],
)
def test_what_cannot_be_run_is_refused(ctx: Any, cancel: Any) -> None:
    """A ``ctx`` that is no context, and a ``cancel`` that cannot be called, are ContractErrors."""
    runner = PipelineRunner(only(INITIAL), serves=[INITIAL])
    with pytest.raises(ContractError):
        runner.run(ctx, cancel)
    with pytest.raises(ContractError):
        asyncio.run(runner.arun(ctx, cancel))


def test_a_validator_of_ones_own_is_used() -> None:
    """The runner holds the line to the validator that it is given: published alone, it allows no
    call run here.
    """
    says = ((call("price"),), "hi")
    assert ran(PipelineRunner(bodies(*says)), "sync").status is LineStatus.COMPLETED
    done = ran(PipelineRunner(bodies(*says), validator=AgentPipelineContextValidator()), "sync")
    assert (done.status, done.step) == (LineStatus.FAILED, PipelineStep.LLM_CLIENT)


def test_the_clock_times_the_steps() -> None:
    """Seconds come from the clock that is given."""
    ticks = iter(range(100))
    runner = PipelineRunner(only(INITIAL), serves=[INITIAL], clock=lambda: float(next(ticks)))
    assert {entry.seconds for entry in ran(runner, "sync").trace} == {1.0}


def test_a_runner_holds_nothing_of_a_request() -> None:
    """The same runner gives the same result for the same request, whatever went before."""
    runner = PipelineRunner(only(INITIAL, "hi", "hi"), serves=[INITIAL], clock=lambda: 0.0)
    first = ran(runner, "sync")
    second = ran(runner, "sync")
    assert first.context.built is not None
    assert second.context.response_payload == first.context.response_payload
    assert replace(second, context=first.context) == first
