"""The walk from step to step, which may be cancelled or refused and is recorded in a trace."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from strictreply.loop.invoke_result import InvokeCode, InvokeError, InvokeFailed
from strictreply.loop.values import LineStatus, PipelineStep, StepTrace

State = TypeVar("State")


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkEnd(Generic[State]):
    """The end of a walk."""

    status: LineStatus
    """How it ended."""
    context: State
    """The context after the last completed step."""
    step: PipelineStep
    """Where it ended; the ResponseBuilder when it completed."""
    errors: tuple[InvokeError, ...] = ()
    """The broken rules."""
    cause: Exception | None = None
    """The exception that the body of a step raised; None when none did."""
    trace: tuple[StepTrace, ...] = ()
    """Every step that was entered, in order."""


class _Stopped(Exception):
    """The walk ends between two steps: it was cancelled, or the next step is refused.

    Its arguments are the status, the errors and the cause.
    """


@dataclass(slots=True, kw_only=True)
class StepWalk(ABC, Generic[State]):
    """A walk in progress.

    Each step makes a new state from the previous one; a step that does not complete leaves nothing.
    """

    state: State
    """The state after the last completed step."""
    cancelled: Callable[[], bool] | None = None
    """Called before and after each step; True ends the walk. None never ends it."""
    clock: Callable[[], float] = time.perf_counter
    """Returns seconds, for the trace."""
    step: PipelineStep = PipelineStep.REQUEST_HANDLER
    """The step that the walk is in."""
    since: float | None = None
    """When the step was entered; None between two steps."""
    before: Container[PipelineStep] = frozenset()
    """The steps for which ``errors_before`` is called."""
    behind: Container[PipelineStep] = frozenset()
    """The steps for which ``errors_behind`` is called."""
    trace: list[StepTrace] = field(default_factory=list)
    """Every step that has ended."""

    def enter(self, step: PipelineStep | None, state: State) -> None:
        """Complete the present step with ``state``, and begin the next one; None begins none.

        Raise if the walk ends instead.
        """
        if self.since is not None:
            if self.cancelled is not None:
                self._check_cancelled()
            if self.step in self.behind and (errors := self.errors_behind(state)):
                raise _Stopped(LineStatus.FAILED, errors, None)

            self.state = state
            seconds = self.clock() - self.since
            self.trace.append(StepTrace(self.step, seconds, LineStatus.COMPLETED))

        if step is None:
            self.since = None
            return

        self.step = step
        self.since = self.clock()
        if step in self.before and (errors := self.errors_before(state)):
            raise _Stopped(LineStatus.FAILED, errors, None)
        if self.cancelled is not None:
            self._check_cancelled()

    @abstractmethod
    def errors_before(self, state: State) -> Sequence[InvokeError]:
        """Return the errors in the state before the step."""

    @abstractmethod
    def errors_behind(self, state: State) -> Sequence[InvokeError]:
        """Return the errors in the state after the step; ``self.state`` is the one before it."""

    def failed(self, error: Exception) -> WalkEnd[State]:
        """End the walk at a step that raised; if it was cancelled meanwhile, it did not fail."""
        status, errors, cause = error.args if isinstance(error, _Stopped) else self._failure(error)
        seconds = self.clock() - (self.since or 0.0)
        self.trace.append(StepTrace(self.step, seconds, status))
        return self.end(status, tuple(errors), cause)

    def end(
        self,
        status: LineStatus,
        errors: tuple[InvokeError, ...] = (),
        cause: Exception | None = None,
    ) -> WalkEnd[State]:
        """Return the end of the walk after its last step."""
        return WalkEnd(
            status=status,
            step=self.step,
            context=self.state,
            errors=errors,
            cause=cause,
            trace=tuple(self.trace),
        )

    def error(self, code: InvokeCode, rule: str) -> InvokeError:
        """Make the error of a step that could not be taken."""
        return code.error(rule, f"{code.template} (step {self.step.name})")

    def _failure(self, error: Exception) -> tuple[LineStatus, tuple[InvokeError, ...], Exception]:
        try:
            self._check_cancelled()
        except _Stopped as stopped:
            status, errors, _ = stopped.args
            return status, errors, error

        if isinstance(error, InvokeFailed):
            return LineStatus.FAILED, error.errors, error
        return (
            LineStatus.FAILED,
            (self.error(InvokeCode.STEP_RAISED, "line.body_returns"),),
            error,
        )

    def _check_cancelled(self) -> None:
        try:
            is_cancelled = self.cancelled is not None and self.cancelled()
        except Exception as error:
            unknown = self.error(InvokeCode.CANCEL_RAISED, "line.cancel_answers")
            raise _Stopped(LineStatus.FAILED, (unknown,), error) from error

        if is_cancelled:
            raise _Stopped(LineStatus.ABORTED, (), None)
