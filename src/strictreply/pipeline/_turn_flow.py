"""One turn from the request to its response: down the line, and what it came to is kept."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

from strictreply.pipeline._effects import TurnEffect, UseStore
from strictreply.pipeline._kinds import ResponseType
from strictreply.pipeline._line import LineResult, LineStatus, Raised, line_flow
from strictreply.pipeline._results import InvokeError, InvokeFailed, InvokeResult
from strictreply.pipeline._sessions import SessionStore
from strictreply.pipeline._turn_steps import TurnSteps
from strictreply.pipeline._values import AgentPipelineContext, Envelope
from strictreply.pipeline._walks import type_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What tells one request from another: when it came, as ISO 8601, and its id in logs."""

    time_stamp: str
    correlation_id: str


def turn_flow(
    envelope: Envelope, steps: TurnSteps, stamp: Stamp, *, cancelled: Callable[[], bool], clock: Callable[[], float]
) -> Generator[TurnEffect, Any, LineResult]:
    """Take a request down the line; a turn that came to its end, or to a pause, is saved in one piece.

    A turn that failed or was aborted leaves the store as it was: what the client answered may be sent again. One that
    came to its end and could not be saved has failed with what the store raised, and its context has all it came to.
    Raises InvokeFailed when the request is of no type.
    """
    kind = type_of(envelope)
    if isinstance(kind, InvokeResult):
        raise InvokeFailed(kind.errors)
    first = AgentPipelineContext(
        type=kind, time_stamp=stamp.time_stamp, correlation_id=stamp.correlation_id, envelope=envelope
    )
    line = yield from line_flow(first, steps.bodies, validator=steps.validator, cancelled=cancelled, clock=clock)
    told = yield from _settled(line, steps)
    if isinstance(told, Raised) and line.status is LineStatus.COMPLETED:
        return replace(line, status=LineStatus.FAILED, cause=told.error)
    return line


def _settled(line: LineResult, steps: TurnSteps) -> Generator[TurnEffect, Any, Any]:
    """Keep what a turn came to, or give back what it had claimed."""
    settle = _save(line.context, steps) if line.status is LineStatus.COMPLETED else release(steps)
    return (yield UseStore(settle)) if settle is not None else None


def _save(ctx: AgentPipelineContext, steps: TurnSteps) -> Callable[[SessionStore], None] | None:
    """Keep the session with its finished turn, or the turn that waits with its calls."""
    session, turn = ctx.session, ctx.turn
    if session is None or turn is None:
        return None
    final = ctx.response_type is ResponseType.FINAL
    messages = (*session.messages, *turn.messages) if final else session.messages
    kept = replace(session, messages=messages)
    return lambda store: store.save(kept, turn, waiting=ctx.outgoing_manifest, consumed=steps.claim)


def release(steps: TurnSteps) -> Callable[[SessionStore], None] | None:
    """Give back what a turn has claimed, with what approved calls came to already; None when it has claimed nothing.

    A turn that was interrupted while it claimed does not know whether it has: claiming again under its name tells.
    """
    claim, claiming = steps.claim, steps.claiming
    if claim is not None:
        return lambda store: store.release(claim)
    return None if claiming is None else lambda store: _release_again(store, *claiming)


def _release_again(store: SessionStore, key: str, holder: str) -> None:
    """Claim under the same name, and give that back."""
    claim = store.claim(key, holder)
    if not isinstance(claim, InvokeError):
        store.release(claim)
