"""Driving the loop of one request by hand: the replies in order, without a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from strictreply import Contract, CorrectionContext, RetryPolicy, TieredSteering
from strictreply.core import JSON, CallPlan, Check, Checked, Failure, shape
from strictreply.retry._flow import Call, Effect, Event, Failed, Noted, Outcome, Replied, reply_flow
from strictreply.retry._policy import Consult, Consulted
from support.scripted import USER


class Played(NamedTuple):
    """What a loop came to: its outcome, the requests in order, and what a human was asked."""

    outcome: Outcome
    requests: list[dict[str, Any]]
    asked: list[CorrectionContext]


def play(
    contract: Contract[Any],
    replies: Sequence[Any],
    policy: RetryPolicy | None = None,
    said: str | None = "try tea",
    **request: Any,
) -> Played:
    """Run the loop over these replies, each a completion or a failure.

    ``said`` is what a human answers.
    """
    held, base = shape(contract, {"model": "small", "messages": USER, **request})
    flow = reply_flow(CallPlan(held, base, policy or RetryPolicy(), TieredSteering()))
    left, played = list(replies), Played(None, [], [])  # type: ignore[arg-type]
    effect = next(flow)

    while True:
        try:
            effect = flow.send(_performed(effect, left, played, said))
        except StopIteration as stop:
            return played._replace(outcome=stop.value)


def _performed(effect: Effect, left: list[Any], played: Played, said: str | None) -> Event:
    match effect:
        case Call(request=request):
            played.requests.append(request)
            event = left.pop(0)
            return event if isinstance(event, Failed) else Replied(event)
        case Consult(context=context):
            played.asked.append(context)
            return Consulted(said)
        case Check():
            return Checked(())
        case _:
            return Noted()


def refusal_of(name: str) -> Failed:
    """Return an endpoint's refusal of a field that we added to a request."""
    error: JSON = {"message": f"{name} is not supported"}
    return Failed(Failure("invalid_request", retryable=False, status_code=400, error=error))
