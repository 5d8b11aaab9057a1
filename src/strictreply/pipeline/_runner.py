"""The step runner: bodies that are functions, async functions or generators, taken down the line in one call."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Generator, Mapping
from typing import Any, TypeAlias

from strictreply.contract._driving import adrive, drive
from strictreply.pipeline._kinds import AgentPipelineContextType, PipelineStep
from strictreply.pipeline._line import Invoke, LineResult, Raised, StepBody, line_flow, plain_body
from strictreply.pipeline._validator import LOOP_VALIDATOR, AgentPipelineContextValidator
from strictreply.pipeline._values import AgentPipelineContext
from strictreply.pipeline._walks import steps_of
from strictreply.values._errors import ContractError

Body: TypeAlias = Callable[[AgentPipelineContext], Any]
"""A function or an async function from context to context, or a generator function that is a ``StepBody``."""


class PipelineRunner:
    """Takes requests down the line; holds no state of any, so that one runner serves all threads.

    ``bodies`` has what each step does, for every step of the walks in ``serves``, and no other. A body fails by
    raising: InvokeFailed with errors of its own, or anything. ``validator`` is what every step is held to; None takes
    the published rules, with calls that are run here allowed between two asks. ``clock`` gives seconds, for the trace.

    Raises ContractError when a body is missing, can never be reached or cannot be called.
    """

    def __init__(
        self,
        bodies: Mapping[PipelineStep, Body],
        *,
        serves: Collection[AgentPipelineContextType] = tuple(AgentPipelineContextType),
        validator: AgentPipelineContextValidator | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Check that there is exactly one body for every step."""
        _refuse_gaps(bodies, serves)
        self._awaited = [step.name for step, body in bodies.items() if _is_kind(body, inspect.iscoroutinefunction)]
        self._bodies = {step: _step_body(body) for step, body in bodies.items()}
        self._validator = LOOP_VALIDATOR if validator is None else validator
        self._clock = clock

    def run(self, ctx: AgentPipelineContext, cancel: Callable[[], bool] | None = None) -> LineResult:
        """Take a request down the line.

        ``cancel`` is asked before and after each body, such as ``event.is_set``; the outcome is ABORTED once it says
        True. Raises ContractError, before anything runs, when a body is async or ``ctx`` is no context.
        """
        if self._awaited:
            raise ContractError(f"these steps are async, use arun: {', '.join(self._awaited)}")
        return drive(self._flow(ctx, cancel), _perform)

    async def arun(self, ctx: AgentPipelineContext, cancel: Callable[[], bool] | None = None) -> LineResult:
        """Take a request down the line like :meth:`run`, awaiting async bodies; sync ones are called in place."""
        return await adrive(self._flow(ctx, cancel), _aperform)

    def _flow(self, ctx: AgentPipelineContext, cancel: Callable[[], bool] | None) -> Generator[Any, Any, LineResult]:
        """Begin a walk."""
        _refuse_unfit(ctx, cancel)
        cancelled = _never if cancel is None else cancel
        return line_flow(ctx, self._bodies, validator=self._validator, cancelled=cancelled, clock=self._clock)


def _refuse_unfit(ctx: object, cancel: object) -> None:
    """Raise ContractError for what is no context, and for what cannot be asked whether it is cancelled."""
    if not isinstance(ctx, AgentPipelineContext):
        raise ContractError("the line takes an AgentPipelineContext, made from the envelope with the type by type_of")
    if cancel is not None and (not callable(cancel) or _is_kind(cancel, inspect.iscoroutinefunction)):
        raise ContractError("cancel must be a function that says True or False at once, such as event.is_set")


def _never() -> bool:
    """Nobody cancels."""
    return False


def _refuse_gaps(bodies: Mapping[PipelineStep, object], serves: Collection[AgentPipelineContextType]) -> None:
    """Raise ContractError unless there is one callable body for each step that can be reached."""
    wanted = {step for kind in serves for step in steps_of(kind)}
    if not wanted:
        raise ContractError("serves= must name at least one AgentPipelineContextType")
    if missing := sorted(wanted - bodies.keys()):
        raise ContractError(f"steps without a body: {_named(missing)}; add them, or serve fewer types of requests")
    if idle := sorted(bodies.keys() - wanted):
        raise ContractError(f"bodies that no request comes to: {_named(idle)}; leave them out, or serve their type")
    unfit = [step for step, body in bodies.items() if not callable(body) or _is_kind(body, inspect.isasyncgenfunction)]
    if unfit:
        raise ContractError(f"bodies must be functions, async functions or generators: {_named(unfit)}")


def _named(steps: Collection[PipelineStep]) -> str:
    """List steps by name."""
    return ", ".join(step.name for step in steps)


def _is_kind(body: object, is_kind: Callable[[object], bool]) -> bool:
    """Tell whether a callable, or what calling it runs, is a function of some kind."""
    return is_kind(body) or is_kind(getattr(body, "__call__", None))  # noqa: B004 - its code is what is looked at


def _step_body(body: Body) -> StepBody:
    """Take a generator function as it is, and any other one as a function to call."""
    return body if _is_kind(body, inspect.isgeneratorfunction) else plain_body(body)


def _perform(effect: object) -> Any:
    """Call a function; what it raises, or that it is async after all, is a value."""
    answer = _called(effect)
    if not inspect.isawaitable(answer):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()
    return Raised(ContractError("the body of a step gave something to await; use arun"))


async def _aperform(effect: object) -> Any:
    """Call a function, and await what it gives when that is to be awaited."""
    answer = _called(effect)
    if not inspect.isawaitable(answer):
        return answer
    try:
        return await answer
    except Exception as error:  # noqa: BLE001 - a body is anybody's code: whatever it raises fails its step
        return Raised(error)


def _called(effect: object) -> Any:
    """Call the function of an effect; ContractError for an effect that this runner knows nothing of."""
    if not isinstance(effect, Invoke):
        kind = type(effect).__name__
        raise ContractError(f"a body yielded {kind}; this runner performs Invoke alone: drive line_flow for others")
    try:
        return effect.function(effect.context)
    except Exception as error:  # noqa: BLE001 - a body is anybody's code: whatever it raises fails its step
        return Raised(error)
