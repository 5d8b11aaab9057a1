"""Converts the errors of one library to those of the other, so that code which catches one can go on catching it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strictreply.contract._complaints import check_issues
from strictreply.contract._contract import Contract
from strictreply.contract._judge import judge
from strictreply.contract._shaping import shape
from strictreply.integrations._extras import load
from strictreply.integrations.instructor._provider_seam import usage_of
from strictreply.retry._failures import classify
from strictreply.values._attempts import Attempt, Usage, plain_request
from strictreply.values._errors import CallFailed, ContractError, ReplyHalted, ReplyRejected, TransportFailed
from strictreply.values._issues import Code, Issue
from strictreply.values._json import JSON
from strictreply.values._replies import Invalid
from strictreply.wires._opening import peek
from strictreply.wires._received import as_json


def to_instructor(error: CallFailed) -> Any:
    """Return the ``InstructorRetryException`` that stands for one of our errors; raise it ``from`` the error.

    ``failed_attempts`` holds each attempt with its raw reply and a ``ResponseParsingError`` in our words, or the SDK's
    exception; ``total_usage`` is a :class:`strictreply.Usage`. Lost: the codes and paths of the issues, the reason and
    the corrections, which stand in ``__cause__`` alone. Unlike ours, its text repeats the raw replies.
    """
    core, failed = load("instructor.core"), list[Any]()
    for attempt in error.attempts:
        caught: Exception = ConnectionError(attempt.failure)
        if attempt.issues:
            caught = core.ResponseParsingError(Invalid(attempt.issues).summary, raw_response=attempt.raw)
        elif isinstance(error, TransportFailed):
            caught = error.cause or caught
        if not attempt.accepted:
            failed.append(core.FailedAttempt(attempt.number, caught, attempt.raw))
    last = plain_request(error.attempts[-1].request) if error.attempts else {}
    replies = [attempt.raw for attempt in error.attempts if attempt.raw is not None]
    told = core.InstructorRetryException(
        str(error),
        last_completion=replies[-1] if replies else None,
        messages=last.get("messages"),
        n_attempts=len(error.attempts),
        total_usage=error.usage,
        create_kwargs=last,
        failed_attempts=failed,
    )
    told.__cause__ = error
    return told


def from_instructor(error: Exception) -> CallFailed:
    """Return the error of ours that stands for an ``InstructorRetryException`` or ``IncompleteOutputException``.

    When an error of ours is its cause (a wrapped client under instructor, or :func:`to_instructor`), that very error is
    returned. Else each of ``failed_attempts`` becomes an attempt. Its raw reply is read again where the request holds
    the schema (tools and JSON_SCHEMA of Chat Completions). Replies that our reader accepts, and all others, get issues
    of the code ``args.check`` in pydantic's words, without those that the model wrote. Lost: all requests but the last,
    corrections, seconds, and which attempt took how many tokens: ``total_usage`` stands with the last one.

    The API's own failure is a TransportFailed, a spent ``token_budget`` a ReplyHalted, all else a ReplyRejected.
    Raises TypeError for any other exception.
    """
    if isinstance(error.__cause__, CallFailed):
        return error.__cause__
    core = load("instructor.core")
    if not isinstance(error, core.InstructorRetryException | core.IncompleteOutputException):
        raise TypeError(f"from_instructor takes an InstructorRetryException, not {type(error).__name__}")
    attempts = tuple(_attempts(error))
    told = f"instructor gave up after {len(attempts)} attempt{'s' if len(attempts) > 1 else ''}"
    failure = classify(error.__cause__) if isinstance(error.__cause__, Exception) else None
    if failure is not None:
        return TransportFailed(
            f"{told}: {failure}",
            reason=failure.kind,
            attempts=attempts,
            cause=failure.cause,
            retry_after=failure.retry_after,
            status_code=failure.status_code,
        )
    if isinstance(error, core.TokenBudgetError):
        return ReplyHalted(f"{told}: tokens", reason="tokens", attempts=attempts)
    return ReplyRejected(told, reason="retries", attempts=attempts)


def _attempts(error: Any) -> Iterator[Attempt]:
    request = getattr(error, "create_kwargs", None) or {}
    kept = [(each.exception, _plain(each.completion)) for each in error.failed_attempts or ()]
    if isinstance(error, load("instructor.core").IncompleteOutputException):
        kept.append((error, _plain(error.last_completion)))
    elif len(kept) < error.n_attempts:
        kept.append((error.__cause__ or error, None))
    try:
        contract: Contract | None = shape(Contract(), request)[0]
    except ContractError:  # a request of another shape than Chat Completions'
        contract = None
    for number, (exception, raw) in enumerate(kept, start=1):
        failure = classify(exception)
        # instructor writes the tokens of all attempts into the last completion, too
        total = (getattr(error, "total_usage", None) or peek(raw, "usage")) if number == len(kept) else None
        yield Attempt(
            number=number,
            request=request,
            raw=raw,
            issues=() if failure is not None else _issues(exception, raw, contract),
            failure=None if failure is None else str(failure),
            usage=Usage.of({"usage": usage_of(_plain(total))}),
        )


def _issues(exception: Exception, raw: JSON, contract: Contract | None) -> tuple[Issue, ...]:
    """Return what was wrong: by our own reader where the request holds the schema, else in instructor's words."""
    if isinstance(exception, load("instructor.core").IncompleteOutputException):
        return (Issue.of(Code.REPLY_TRUNCATED),)
    verdict = None if contract is None or raw is None else judge(contract, raw)
    if isinstance(verdict, Invalid):
        return verdict.issues
    if raw is None or not isinstance(exception, ValueError):  # its words may be the model's, and nothing tells which
        exception = ValueError(f"instructor met {type(exception).__name__}")
    return check_issues(exception, raw, names=() if contract is None else contract.names)


def _plain(value: Any) -> JSON:
    try:
        return as_json(value)
    except (TypeError, ValueError, RecursionError):
        return None
