"""Retries as data, for programs that send requests themselves.

The flow is replayed with all responses so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from strictreply.contract._channels import answer_format
from strictreply.contract._contract import Check, Contract, perform_check
from strictreply.contract._correcting import BaseRetryPolicy, NextRequest, Steering
from strictreply.contract._definitions import given
from strictreply.contract._driving import drive
from strictreply.retry._asking import CallPlan
from strictreply.retry._failures import failure_of
from strictreply.retry._flow import (
    Call,
    Effect,
    Ended,
    Event,
    Failed,
    Noted,
    Notify,
    Replied,
    Settled,
    Sleep,
    reply_flow,
)
from strictreply.retry._policy import Consult, Consulted, RetryPolicy, perform_consult
from strictreply.retry._shaping import shaped
from strictreply.retry._steering import TieredSteering
from strictreply.values._errors import ContractError
from strictreply.values._limits import Limits
from strictreply.values._replies import Attempt, Invalid, Valid
from strictreply.values._requests import Request
from strictreply.wires import Api, wire_for, wire_named
from strictreply.wires._bodies import told_body
from strictreply.wires._declared_tools import declared_name
from strictreply.wires._members import as_json
from strictreply.wires._requests import settled
from strictreply.wires._wire import Wire

A = TypeVar("A")


class _Asked(dict[str, Any]):
    """A request that remembers the caller's request, earlier responses and settings.

    A sent, stored or copied request is a plain one.
    """

    base: Mapping[str, Any]
    responses: tuple[object, ...]
    advice: tuple[Consulted, ...]
    wire: Wire
    policy: RetryPolicy
    steering: Steering | None


class _Unanswered(Exception):
    """Raised at the first request without a response; it carries the request."""


@dataclass(slots=True)
class _Played:
    """Performs the effects of a flow with responses that already exist."""

    responses: Iterator[object]
    """The responses, in order."""
    limits: Limits
    """The size limits of a reply."""
    given: Iterator[Consulted]
    """The answers of humans when these responses were replayed before."""
    advice: tuple[Consulted, ...] = ()
    """The answers of humans so far."""
    attempts: tuple[Attempt, ...] = ()
    """All attempts so far."""
    wait: float = 0.0
    """Seconds to wait before the next request."""

    def perform(self, effect: Effect) -> Event:
        match effect:
            case Call(request=request):
                for response in self.responses:
                    self.wait = 0.0
                    return _event(response, self.limits)
                raise _Unanswered(request)
            case Notify(attempt=attempt):
                self.attempts = (*self.attempts, attempt)
            case Sleep(seconds=seconds):
                self.wait = seconds
            case Check():
                return perform_check(effect)
            case Consult():
                self.advice = (*self.advice, next(self.given, None) or perform_consult(effect))
                return self.advice[-1]
            case _:
                pass  # every repeat is granted

        return Noted()


def next_request(
    contract: Contract[A],
    request: Mapping[str, Any],
    responses: tuple[object, ...],
    policy: BaseRetryPolicy | None,
    steering: Steering | None,
    api: Api | str | None,
) -> NextRequest[A]:
    """Replay the flow with these responses; see :meth:`Contract.next_request`."""
    base: Mapping[str, Any] = request
    wire = wire_for(request, responses) if api is None else wire_named(api)
    advice: tuple[Consulted, ...] = ()

    if isinstance(request, _Asked):
        base = request.base
        responses = (*request.responses, *responses)
        advice = request.advice
        wire = request.wire if api is None else wire
        policy = request.policy if policy is None else policy
        steering = steering or request.steering

    policy = RetryPolicy() if policy is None else policy
    if not isinstance(policy, RetryPolicy):
        words = "a RetryPolicy, as in RetryPolicy(max_retries=3)"
        raise ContractError(f"policy must be {words}, not {type(policy).__name__}")

    own = undressed(contract, wire.read(settled(given(base))))
    held, asked = shaped(contract, own, contract.warned)
    left = iter(responses)
    played = _Played(left, held.limits, iter(advice))
    ask = CallPlan(held, asked, policy, steering or TieredSteering(), wire=wire)

    try:
        outcome = drive(reply_flow(ask), played.perform)
    except _Unanswered as unanswered:
        following = _Asked(unanswered.args[0])
        following.base = dict(base)
        following.responses = responses
        following.advice = played.advice
        following.wire = wire
        following.policy = policy
        following.steering = steering

        attempts = played.attempts
        return NextRequest(_verdict(attempts), following, played.wait, attempts=attempts)

    unasked = sum(1 for _ in left)
    if unasked:
        raise ContractError(
            f"{unasked} of {len(responses)} responses are left over: the call ended before them"
        )

    attempts = outcome.attempts
    if isinstance(outcome, Settled):
        verdict = Valid(outcome.reply, attempts[-1].lenient)
        return NextRequest(verdict, completion=outcome.response, attempts=attempts)

    ended = cast("Ended", outcome)  # if everything is enforced, no invalid reply is passed on
    error = ended.end.error(attempts, ended.failure, ended.tool)
    return NextRequest(_verdict(attempts), error=error, attempts=attempts)


def _verdict(attempts: tuple[Attempt, ...]) -> Invalid | None:
    if not attempts or not attempts[-1].issues:
        return None

    return Invalid(attempts[-1].issues, attempts[-1].lenient)


def undressed(contract: Contract, request: Request) -> Request:
    """Return the caller's request without the parts that only repeat the contract.

    The contract's own tools and answer have types, the request's do not.
    """
    tools = request.given_tools
    if contract.tools and isinstance(tools, list):
        listed: list[Any] = tools
        known = [contract.by_name.get(declared_name(tool), tool) for tool in listed]
        request = replace(request, given_tools=known)

    has_schema = contract.answer.schema is not None
    if has_schema and request.format == answer_format(contract):
        request = replace(request, format=None)

    return request


def _event(response: object, limits: Limits) -> Event:
    if isinstance(response, Exception):
        return Failed(failure_of(response))

    if isinstance(response, str | bytes):
        body = response.encode() if isinstance(response, str) else response
        plain, fault = told_body(body, limits)
        return Replied(plain, fault=fault)

    return Replied(as_json(response))
