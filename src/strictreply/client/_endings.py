"""How a call that gave no reply ends for the caller: the one place where an outcome becomes an exception."""

from __future__ import annotations

from typing import NoReturn

from strictreply.retry._failures import Failure
from strictreply.retry._flow import Ended
from strictreply.values._attempts import Attempt
from strictreply.values._errors import ReplyHalted, ReplyRejected, ToolArgumentsError, TransportFailed


def raise_ended(outcome: Ended) -> NoReturn:
    """Raise the error that an outcome without a reply calls for."""
    attempts, reason, failure = outcome.attempts, outcome.end.reason, outcome.failure
    asks = f"{len(attempts)} attempt{'s' if len(attempts) > 1 else ''}"
    if outcome.end.how == "halted":
        message = f"halted after {asks}: {reason}"
        raise ReplyHalted(message, reason=reason, attempts=attempts)
    if outcome.end.how == "failed":
        raise _transport_failed(f"the API call failed after {asks}: {failure or reason}", reason, attempts, failure)
    if outcome.tool is not None:
        message = f"the arguments of tool {outcome.tool} stayed invalid after {asks} ({_spent(reason)})"
        raise ToolArgumentsError(message, reason=reason, attempts=attempts, tool=outcome.tool)
    message = f"no valid reply after {asks} ({_spent(reason)})"
    raise ReplyRejected(message, reason=reason, attempts=attempts)


def _spent(reason: str) -> str:
    """Say which budget ended the call (requirement T35 gives the words for bad calls)."""
    return {
        "retries": "retries spent",
        "arg_retries": "argument retries spent",
        "bad_calls": "too many bad tool calls",
        "category": "a fault of a kind that is not asked for again",
    }.get(reason, "stopped by the policy")


def _transport_failed(
    message: str, reason: str, attempts: tuple[Attempt, ...], failure: Failure | None
) -> TransportFailed:
    """Make the error of a failed transport, with what the server said of waiting."""
    if failure is None:
        return TransportFailed(message, reason=reason, attempts=attempts)
    # Not chained to its cause: a traceback would print the server's words, which may hold the model's.
    return TransportFailed(
        message,
        reason=reason,
        attempts=attempts,
        cause=failure.cause,
        retry_after=failure.retry_after,
        status_code=failure.status_code,
    )
