"""The pipeline with steps of your own, each validated before and after, and its runner."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, fields, replace
from inspect import isasyncgenfunction, isawaitable, iscoroutine, iscoroutinefunction
from typing import Any, Final, Self, TypeAlias, cast

from strictreply import ContractError
from strictreply.core import adrive, drive
from strictreply.loop import EffectRaised, StepWalk, WalkEnd, manifest_id
from strictreply.loop.invoke_result import InvokeCode, InvokeError, InvokeResult
from strictreply.loop.values import (
    AgentPipelineContextType,
    LineStatus,
    PipelineStep,
)
from strictreply.pipeline._validator import LOOP_VALIDATOR, AgentPipelineContextValidator
from strictreply.pipeline._values import AgentPipelineContext

_PROMPT: Final = (PipelineStep.PROMPT_CONTENT_PROVIDER_INITIALIZER, PipelineStep.REASONER)
_NEW: Final = (PipelineStep.AGENT_CONTEXT_RESOLVER, PipelineStep.AGENT_SESSION_CREATOR)
_RESTORED: Final = (PipelineStep.SESSION_RESTORER, PipelineStep.AGENT_CONTEXT_LOADER)
_CONTINUED: Final = (
    PipelineStep.CLIENT_TOOL_CALL_SESSION_RESTORER,
    PipelineStep.CLIENT_TOOL_CONTINUATION_RESOLVER,
    PipelineStep.AGENT_CONTEXT_LOADER,
)

OPENINGS: Final[Mapping[AgentPipelineContextType, tuple[PipelineStep, ...]]] = {
    AgentPipelineContextType.INITIAL: (PipelineStep.REQUEST_HANDLER, *_NEW, *_PROMPT),
    AgentPipelineContextType.FOLLOW_ON: (PipelineStep.REQUEST_HANDLER, *_RESTORED, *_PROMPT),
    AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION: (
        PipelineStep.REQUEST_HANDLER,
        *_CONTINUED,
        *_PROMPT,
    ),
}
"""The first steps of each type of request, up to the Reasoner.

After them Reasoner and LLMClient alternate (requirement P43).
"""

_EVERY_STEP: Final = frozenset(PipelineStep)
# They follow the Reasoner in every walk.
ROUND: Final = (PipelineStep.LLM_CLIENT, PipelineStep.RESPONSE_BUILDER)


def next_step(ctx: AgentPipelineContext, done: PipelineStep) -> PipelineStep | None:
    """Return the step after ``done``; None after the last step.

    Raises ContractError for a step that this type of request does not have.
    """
    pending = () if ctx.outgoing_manifest is None else ctx.outgoing_manifest.pending

    match done:
        case PipelineStep.RESPONSE_BUILDER:
            return None
        case PipelineStep.LLM_CLIENT:
            here = any(not call.requires_client_execution for call in pending)
            return PipelineStep.REASONER if here else PipelineStep.RESPONSE_BUILDER
        case PipelineStep.REASONER:
            waits = any(call.requires_client_execution for call in pending)
            return PipelineStep.RESPONSE_BUILDER if waits else PipelineStep.LLM_CLIENT
        case _:
            opening = OPENINGS.get(ctx.type, ())
            if done not in opening:
                raise ContractError(f"step {int(done)} is not a step of this request")
            return opening[opening.index(done) + 1]


def manifest_id_of(ctx: AgentPipelineContext) -> str | InvokeResult:
    """Return the id of a context's manifest.

    Before the session and the turn are restored, return an InvokeResult with NOT_RESTORED.
    """
    if ctx.session is None or ctx.turn is None:
        missing = InvokeCode.NOT_RESTORED.error("sessions.restored", path="/tool_call_manifest")
        return InvokeResult(errors=(missing,))
    return manifest_id(ctx.session.id, ctx.turn.id)


StepBody: TypeAlias = Callable[[AgentPipelineContext], Any]
"""A sync or async function from context to context, or a generator of effects that returns one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineResult(WalkEnd[AgentPipelineContext]):
    """The result of :meth:`PipelineRunner.run`."""

    @classmethod
    def of(cls, end: WalkEnd[AgentPipelineContext]) -> Self:
        """Make the result of a walk."""
        return cls(**{each.name: getattr(end, each.name) for each in fields(end)})


def body_flow(body: StepBody, ctx: AgentPipelineContext) -> Generator[Any, Any, Any]:
    """Run a body, yielding its effects."""
    given = body(ctx)
    if isinstance(given, Generator):
        given = yield from given
    elif isawaitable(given):
        given = yield given
        if isinstance(given, EffectRaised):
            raise given.error
    return given


def line_flow(
    ctx: AgentPipelineContext,
    bodies: Mapping[PipelineStep, StepBody],
    *,
    validator: AgentPipelineContextValidator,
    cancelled: Callable[[], bool],
    clock: Callable[[], float] = time.perf_counter,
) -> Generator[Any, Any, LineResult]:
    """Run a request through the steps, as a flow (requirements P43, P44).

    Each step has this order: pre-validation, ``cancelled``, the body, ``cancelled`` again, the
    body's failure, post-validation. Only an Exception of a body becomes a failure. ``clock``
    returns seconds. The Reasoner's body must limit the number of rounds (requirement P68).
    """
    walk = _LineWalk(
        state=ctx,
        cancelled=cancelled,
        clock=clock,
        before=_EVERY_STEP,
        behind=_EVERY_STEP,
        validator=validator,
        bodies=bodies,
    )
    step: PipelineStep | None = PipelineStep.REQUEST_HANDLER

    while step is not None:
        try:
            walk.enter(step, walk.state)
            walk.enter(None, (yield from body_flow(bodies[step], walk.state)))
        except Exception as error:  # noqa: BLE001
            # A body is the user's code: any exception fails its step.
            return LineResult.of(walk.failed(error))

        step = next_step(walk.state, step)

    return LineResult.of(walk.end(LineStatus.COMPLETED))


@dataclass(slots=True, kw_only=True)
class _LineWalk(StepWalk[AgentPipelineContext]):
    validator: AgentPipelineContextValidator
    bodies: Mapping[PipelineStep, StepBody]

    def errors_before(self, state: AgentPipelineContext) -> tuple[InvokeError, ...]:
        """Return the errors of a step without a body, or of the context before the step."""
        if self.step not in self.bodies:
            return (self.error(InvokeCode.NO_STEP_BODY, "line.body_present"),)
        return errors_before(self.validator, state, self.step)

    def errors_behind(self, state: AgentPipelineContext) -> tuple[InvokeError, ...]:
        """Return the errors of what a body returned."""
        if not isinstance(cast("object", state), AgentPipelineContext):
            return (self.error(InvokeCode.BAD_STEP_RESULT, "line.context_given"),)
        return errors_behind(self.validator, self.state, self.step, state)


_REQUEST: Final = ("type", "time_stamp", "correlation_id", "envelope")
_ALL_BUT_BUILT: Final = tuple(
    member.name for member in fields(AgentPipelineContext) if member.name != "built"
)


def errors_before(
    validator: AgentPipelineContextValidator, ctx: AgentPipelineContext, step: PipelineStep
) -> tuple[InvokeError, ...]:
    """Return the errors of the context before a step."""
    # The published rule applies to the ResponseBuilder, whatever the validator allows (X13).
    if step is PipelineStep.RESPONSE_BUILDER:
        published = replace(validator, allow_server_tool_calls=False)
        if errors := published.validate_post_step(ctx, PipelineStep.LLM_CLIENT).errors:
            return errors

    return validator.validate_pre_step(ctx, step).errors


def errors_behind(
    validator: AgentPipelineContextValidator,
    ctx: AgentPipelineContext,
    step: PipelineStep,
    given: AgentPipelineContext,
) -> tuple[InvokeError, ...]:
    """Return the errors of the context ``given`` that a step made from ``ctx``."""
    return _changed(ctx, step, given) or validator.validate_post_step(given, step).errors


def _changed(
    ctx: AgentPipelineContext, step: PipelineStep, given: AgentPipelineContext
) -> tuple[InvokeError, ...]:
    """Report the forbidden changes that a body made.

    After the first step the request must not change (X15), and the last step may change only
    ``built`` (P40).
    """
    if step is PipelineStep.REQUEST_HANDLER:
        return ()

    fixed = _ALL_BUT_BUILT if step is PipelineStep.RESPONSE_BUILDER else _REQUEST
    message = f"the body of step {step.name} changed a member that it may only read"
    changed = (f"/{name}" for name in fixed if getattr(given, name) != getattr(ctx, name))

    return tuple(
        InvokeCode.CONTEXT_CHANGED.error("line.context_kept", message, path=path)
        for path in changed
    )


class PipelineRunner:
    """Runs requests through your steps; it has no state, so one runner serves all threads.

    ``bodies`` maps each step of the request types in ``serves`` to its body, and has no other
    steps. A body fails by raising InvokeFailed with its own errors, or any other exception.
    ``validator`` None means the published rules, with calls that are run here between two requests
    allowed. ``clock`` returns seconds, for the trace.

    Raises ContractError when a body is missing, can never be reached or cannot be called.
    """

    def __init__(
        self,
        bodies: Mapping[PipelineStep, StepBody],
        *,
        serves: Collection[AgentPipelineContextType] = tuple(AgentPipelineContextType),
        validator: AgentPipelineContextValidator | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        wanted = {step for kind in serves for step in (*OPENINGS[kind], *ROUND)}
        if not wanted:
            raise ContractError("serves= must name at least one AgentPipelineContextType")

        if missing := sorted(wanted - bodies.keys()):
            raise ContractError(
                f"steps without a body: {_named(missing)}; "
                "add them, or serve fewer types of requests"
            )
        if idle := sorted(bodies.keys() - wanted):
            raise ContractError(
                f"bodies that no request reaches: {_named(idle)}; "
                "leave them out, or serve their type"
            )
        if unfit := [step for step, body in bodies.items() if not _is_body(body)]:
            raise ContractError(
                f"bodies must be functions, async functions or generators: {_named(unfit)}"
            )

        self._awaited = [
            step.name for step, body in bodies.items() if _is_kind(body, iscoroutinefunction)
        ]
        self._bodies = dict(bodies)
        self._validator = LOOP_VALIDATOR if validator is None else validator
        self._clock = clock

    def run(
        self, ctx: AgentPipelineContext, cancel: Callable[[], bool] | None = None
    ) -> LineResult:
        """Run a request through the steps.

        ``cancel``, such as ``event.is_set``, is called before and after each body; when it returns
        True the result is ABORTED. Raises ContractError, before any body runs, when a body is async
        or ``ctx`` is not a context.
        """
        if self._awaited:
            raise ContractError(f"these steps are async, call arun(): {', '.join(self._awaited)}")
        return drive(self._flow(ctx, cancel), _perform)

    async def arun(
        self, ctx: AgentPipelineContext, cancel: Callable[[], bool] | None = None
    ) -> LineResult:
        """Run a request like :meth:`run`, awaiting async bodies.

        Sync bodies are called in the same thread.
        """
        return await adrive(self._flow(ctx, cancel), _aperform)

    def _flow(
        self, ctx: object, cancel: Callable[[], bool] | None
    ) -> Generator[Any, Any, LineResult]:
        if not isinstance(ctx, AgentPipelineContext):
            raise ContractError(
                "ctx must be an AgentPipelineContext; type_of(envelope) gives its type"
            )

        asked: object = cancel
        if asked is not None and (not callable(asked) or _is_kind(asked, iscoroutinefunction)):
            raise ContractError(
                "cancel must be a sync function that returns True or False, such as event.is_set"
            )

        cancelled = (lambda: False) if cancel is None else cancel
        return line_flow(
            ctx, self._bodies, validator=self._validator, cancelled=cancelled, clock=self._clock
        )


def _named(steps: Collection[PipelineStep]) -> str:
    return ", ".join(step.name for step in steps)


def _is_body(body: object) -> bool:
    return callable(body) and not _is_kind(body, isasyncgenfunction)


def _is_kind(body: object, is_kind: Callable[[object], bool]) -> bool:
    # An object may be callable by its class.
    return is_kind(body) or is_kind(getattr(body, "__call__", None))  # noqa: B004


def _perform(effect: object) -> EffectRaised:
    if iscoroutine(effect):
        effect.close()
    _refuse_foreign(effect)
    return EffectRaised(ContractError("the body of a step returned an awaitable; call arun()"))


async def _aperform(effect: Any) -> Any:
    _refuse_foreign(effect)
    try:
        return await effect
    except Exception as error:  # noqa: BLE001 - as in a step
        return EffectRaised(error)


def _refuse_foreign(effect: object) -> None:
    if not isawaitable(effect):
        kind = type(effect).__name__
        raise ContractError(
            f"a body yielded {kind}, which cannot be awaited; "
            "to perform other effects, drive line_flow()"
        )
