"""The line as a flow: each step validated before and after its body; a failure stops it with nothing half applied.

All decisions of a walk are here. What a body wants done, the line yields on; whoever drives it performs it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

from strictreply.pipeline._kinds import PipelineStep
from strictreply.pipeline._results import InvokeCode, InvokeError, InvokeFailed, InvokeResult
from strictreply.pipeline._validator import AgentPipelineContextValidator
from strictreply.pipeline._values import AgentPipelineContext
from strictreply.pipeline._walks import first_step, next_step

StepBody: TypeAlias = Callable[[AgentPipelineContext], Generator[Any, Any, AgentPipelineContext]]
"""What a step does: a generator that yields effects, is sent events, and gives the context that follows.

It fails by raising: InvokeFailed with errors of its own, anything else as STEP_RAISED.
"""

_REQUEST: Final = ("type", "time_stamp", "correlation_id", "envelope")
_ALL_BUT_BUILT: Final = tuple(member.name for member in fields(AgentPipelineContext) if member.name != "built")


class LineStatus(StrEnum):
    """How a line, or a step of it, came out; aborted is cancelled, which is no failure (requirement P70)."""

    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One step that was entered: ``seconds`` until its post-validation, waiting included."""

    step: PipelineStep
    seconds: float
    status: LineStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LineResult:
    """What a line came to.

    ``context`` is as the last good step left it: what the step that failed or was cancelled did is not in it. ``step``
    is where the line stopped, the ResponseBuilder when it completed. ``errors`` say by rule why it failed; ``cause`` is
    what a body raised, None when none did. ``trace`` has every step that was entered, in order.
    """

    status: LineStatus
    context: AgentPipelineContext
    step: PipelineStep
    errors: tuple[InvokeError, ...] = ()
    cause: Exception | None = None
    trace: tuple[StepTrace, ...] = ()


@dataclass(frozen=True, slots=True)
class Invoke:
    """Effect: call a function with a context; answered with what it gives, or with :class:`Raised`."""

    function: Callable[[AgentPipelineContext], Any]
    context: AgentPipelineContext


@dataclass(frozen=True, slots=True)
class Raised:
    """Event: a function raised."""

    error: Exception


def plain_body(function: Callable[[AgentPipelineContext], Any]) -> StepBody:
    """Make a body of a function from context to context, sync or async: calling it is an effect."""

    def body(ctx: AgentPipelineContext) -> Generator[Any, Any, AgentPipelineContext]:
        answer = yield Invoke(function, ctx)
        if isinstance(answer, Raised):
            raise answer.error
        given: AgentPipelineContext = answer
        return given

    return body


def line_flow(
    ctx: AgentPipelineContext,
    bodies: Mapping[PipelineStep, StepBody],
    *,
    validator: AgentPipelineContextValidator,
    cancelled: Callable[[], bool],
    clock: Callable[[], float],
) -> Generator[Any, Any, LineResult]:
    """Walk a request down the line (requirements P43, P44).

    Each step is: pre-validation, a look at ``cancelled``, the body, a second look, what the body failed with,
    post-validation, the next step. ``clock`` gives seconds. Before the ResponseBuilder the published rule of the
    LLMClient holds, whatever ``validator`` allows between (X13). Nothing bounds the rounds of Reasoner and LLMClient
    here: the Reasoner's body does (requirement P68). A BaseException that is no Exception goes through.
    """
    line = _Line(bodies, validator, replace(validator, allow_server_tool_calls=False), cancelled)
    trace: tuple[StepTrace, ...] = ()
    step = first_step(ctx)
    while True:
        begun = clock()
        ended = yield from line.enter(ctx, step)
        trace = (*trace, StepTrace(step, clock() - begun, ended.status))
        after = next_step(ended.context, step) if ended.status is LineStatus.COMPLETED else None
        if after is None:
            return replace(ended, trace=trace)
        ctx, step = ended.context, after


@dataclass(frozen=True, slots=True)
class _Line:
    """What all steps of one walk share; ``published`` allows nothing that the document does not."""

    bodies: Mapping[PipelineStep, StepBody]
    validator: AgentPipelineContextValidator
    published: AgentPipelineContextValidator
    cancelled: Callable[[], bool]

    def enter(self, ctx: AgentPipelineContext, step: PipelineStep) -> Generator[Any, Any, LineResult]:
        """Take one step; the result has the context that it left, or the one it found when it did not complete."""
        failed = LineResult(status=LineStatus.FAILED, context=ctx, step=step)
        body = self.bodies.get(step)
        if body is None:
            return replace(failed, errors=(_error(step, InvokeCode.NO_STEP_BODY),))
        if not (before := self._before(ctx, step)).successful:
            return replace(failed, errors=before.errors)
        if (stopped := self._stopped(failed)) is not None:
            return stopped
        given = yield from _attempted(body, ctx)
        if (stopped := self._stopped(failed)) is not None:
            return replace(stopped, cause=given.error) if isinstance(given, Raised) else stopped
        if isinstance(given, Raised):
            return replace(failed, errors=_errors_of(step, given.error), cause=given.error)
        if errors := self._after(ctx, step, given):
            return replace(failed, errors=errors)
        return replace(failed, status=LineStatus.COMPLETED, context=given)

    def _stopped(self, failed: LineResult) -> LineResult | None:
        """Look whether the walk is cancelled; whoever cannot say so fails it, for nobody knows then."""
        try:
            return replace(failed, status=LineStatus.ABORTED) if self.cancelled() else None
        except Exception as error:  # noqa: BLE001 - a caller's own code
            return replace(failed, errors=(_error(failed.step, InvokeCode.CANCEL_RAISED),), cause=error)

    def _before(self, ctx: AgentPipelineContext, step: PipelineStep) -> InvokeResult:
        """Validate what a step finds; what the ResponseBuilder finds is also what the LLMClient leaves at last."""
        if step is PipelineStep.RESPONSE_BUILDER:
            boundary = self.published.validate_post_step(ctx, PipelineStep.LLM_CLIENT)
            if not boundary.successful:
                return boundary
        return self.validator.validate_pre_step(ctx, step)

    def _after(self, ctx: AgentPipelineContext, step: PipelineStep, given: object) -> tuple[InvokeError, ...]:
        """Say what is wrong with what a body gave."""
        if not isinstance(given, AgentPipelineContext):
            return (_error(step, InvokeCode.BAD_STEP_RESULT),)
        changed = _changed(ctx, step, given)
        return changed or self.validator.validate_post_step(given, step).errors


def _attempted(body: StepBody, ctx: AgentPipelineContext) -> Generator[Any, Any, AgentPipelineContext | Raised]:
    """Run a body; what it raises is a value."""
    try:
        return (yield from body(ctx))
    except Exception as error:  # noqa: BLE001 - a body is anybody's code: whatever it raises fails its step
        return Raised(error)


def _changed(ctx: AgentPipelineContext, step: PipelineStep, given: AgentPipelineContext) -> tuple[InvokeError, ...]:
    """Report what a step may not change: the request, once it was received (X15), and at the end anything (P40)."""
    if step is PipelineStep.REQUEST_HANDLER:
        return ()
    kept = _ALL_BUT_BUILT if step is PipelineStep.RESPONSE_BUILDER else _REQUEST
    changed = (name for name in kept if getattr(given, name) != getattr(ctx, name))
    return tuple(_error(step, InvokeCode.CONTEXT_CHANGED, f"/{name}") for name in changed)


_FAULTS: Final = {
    InvokeCode.NO_STEP_BODY: ("line.body_present", "this line has no body for the step that the request comes to"),
    InvokeCode.BAD_STEP_RESULT: ("line.context_given", "the body of the step gave something else than a context"),
    InvokeCode.CONTEXT_CHANGED: ("line.context_kept", "the body of the step changed what it may only read"),
    InvokeCode.CANCEL_RAISED: ("line.cancel_answers", "the function that says whether to cancel raised an exception"),
    InvokeCode.STEP_RAISED: ("line.body_returns", "the body of the step raised an exception; see the result's cause"),
}


def _error(step: PipelineStep, code: InvokeCode, path: str = "") -> InvokeError:
    """Word a failure of a step itself."""
    rule, message = _FAULTS[code]
    return InvokeError(code=code, rule=rule, message=f"{message} (step {step.name})", path=path)


def _errors_of(step: PipelineStep, error: Exception) -> tuple[InvokeError, ...]:
    """Tell what a body failed with: its own errors, or that it raised."""
    return error.errors if isinstance(error, InvokeFailed) else (_error(step, InvokeCode.STEP_RAISED),)
