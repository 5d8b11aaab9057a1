"""The counters and histograms of an instrumented client, and the caller's attributes for them.

Their attributes never contain text of a model, and name only declared tools.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from strictreply import (
    Attempt,
    Code,
    Issue,
    ReplyHalted,
    ReplyRejected,
    TransportFailed,
)
from strictreply.core.calls import unharmed
from strictreply.wires import UNKNOWN_TOOL, called_tool, declared_tool, wire_named

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter

logger = logging.getLogger("strictreply")

AttributeValue: TypeAlias = str | int | float | bool
Attributes: TypeAlias = dict[str, AttributeValue]
GivenAttributes: TypeAlias = (
    Mapping[str, AttributeValue] | Callable[[], Mapping[str, AttributeValue]]
)
"""The caller's attributes of spans and metrics, or a function that returns those of one call."""

_ENDS = {ReplyRejected: "rejected", ReplyHalted: "halted", TransportFailed: "failed"}
ABANDONED = "abandoned"

ATTEMPT_BUCKETS = (1, 2, 3, 4, 5, 8, 12, 20)
# those of the conventions for gen_ai.client.operation.duration, and one more for retries
SECOND_BUCKETS = tuple(0.01 * 2**doubled for doubled in range(15))
JUDGE_BUCKETS = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 1.0)
_CALL = re.compile(r"/tool_calls/(\d+)")


@dataclass(frozen=True, slots=True)
class EndedCall:
    """How one call ended."""

    outcome: str
    """``ok``, ``fixed``, ``observed``, ``rejected``, ``halted``, ``failed`` or ``abandoned``."""
    code: str | None
    """The first issue of the last invalid reply; None if all were valid."""
    tool: str | None
    """The declared tool that the last judged reply calls first; None if it calls none."""
    attempts: int
    """The number of requests of the call."""
    seconds: float
    """How long it took, in seconds."""


class Metrics:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        counter = meter.create_counter
        histogram = meter.create_histogram
        rejected = "Tokens spent on replies that were rejected."
        judging = "Time to judge a reply that was handed on unchanged."

        self._calls: Counter = counter("strictreply.calls", "{call}", "Calls, by outcome.")
        self._attempts: Counter = counter(
            "strictreply.attempts", "{attempt}", "Requests, by outcome."
        )
        self._issues: Counter = counter(
            "strictreply.issues", "{issue}", "Faults, by code and tool."
        )
        self._tokens: Counter = counter("strictreply.rejected.tokens", "{token}", rejected)
        self._unjudged: Counter = counter(
            "strictreply.unjudged", "{call}", "Replies without a verdict, by reason."
        )

        self._per_call: Histogram = histogram(
            "strictreply.call.attempts",
            "{attempt}",
            "Requests of one call.",
            explicit_bucket_boundaries_advisory=ATTEMPT_BUCKETS,
        )
        self._seconds: Histogram = histogram(
            "strictreply.call.duration",
            "s",
            "How long a call took, with its corrections.",
            explicit_bucket_boundaries_advisory=SECOND_BUCKETS,
        )
        self._judging: Histogram = histogram(
            "strictreply.judge.duration",
            "s",
            judging,
            explicit_bucket_boundaries_advisory=JUDGE_BUCKETS,
        )

    def count_attempt(
        self,
        attempt: Attempt,
        tool: str | None,
        attributes: Attributes,
        declared: Collection[str],
    ) -> None:
        """Count an attempt, the faults of its reply, and its tokens if the reply was rejected.

        ``tool`` is the declared tool that the reply calls first; None if it calls none.
        """
        named = attributes | _named_tool(tool)
        outcome = _outcome_of_attempt(attempt)
        self._attempts.add(1, named | {"strictreply.attempt.outcome": outcome})

        for issue in attempt.issues:
            code: Attributes = {"strictreply.issue.code": issue.code}
            of_issue = _named_tool(_tool_of_issue(issue, attempt, declared))
            self._issues.add(1, attributes | code | of_issue)

        if is_unfit(attempt) and not attempt.observed:
            first: Attributes = {"strictreply.issue.code": attempt.issues[0].code}
            for kind, counted in tokens_of(attempt):
                self._tokens.add(counted, named | first | {"gen_ai.token.type": kind})

    def count_call(self, ended: EndedCall, attributes: Attributes) -> None:
        """Count a call that ended."""
        of_call = attributes | _named_tool(ended.tool)
        of_call["strictreply.call.outcome"] = ended.outcome
        self._per_call.record(ended.attempts, of_call)
        self._seconds.record(ended.seconds, of_call)

        if ended.code is not None:
            of_call["strictreply.issue.code"] = ended.code
        self._calls.add(1, of_call)

    def count_unjudged(self, why: str, attributes: Attributes) -> None:
        """Count a call whose reply was handed on without a verdict."""
        self._calls.add(1, attributes | {"strictreply.call.outcome": "unjudged"})
        self._unjudged.add(1, attributes | {"strictreply.unjudged.reason": why})

    def record_judging(self, seconds: float, ended: EndedCall, attributes: Attributes) -> None:
        """Record the time to judge a reply that was handed on unchanged."""
        self._judging.record(seconds, attributes | _named_tool(ended.tool))


class CallEnding:
    """Follows the attempts of one call, and determines how it ended."""

    def __init__(self, declared: Collection[str]) -> None:
        self._declared = declared
        self._last: Attempt | None = None
        self._code: str | None = None
        self._tool: str | None = None
        self.attempts: int = 0

    def follow(self, attempt: Attempt) -> str | None:
        """Take the next attempt; return the declared tool that its reply calls first, or None."""
        self.attempts += 1
        self._last = attempt
        if is_unfit(attempt):
            self._code = attempt.issues[0].code
        if attempt.failure is not None:
            return None

        self._tool = _first_tool(attempt, self._declared)
        return self._tool

    def ended(self, seconds: float, error: BaseException | None = None) -> EndedCall:
        """Return how the call ended: with ``error``, or with a reply if that is None."""
        outcome = self._outcome() if error is None else outcome_of(error)
        return EndedCall(outcome, self._code, self._tool, self.attempts, seconds)

    def _outcome(self) -> str:
        if self._last is not None and self._last.failure is not None:
            return "failed"
        if self._last is not None and self._last.observed:
            return "observed"

        return "ok" if self._code is None else "fixed"


def outcome_of(error: BaseException) -> str:
    """Return the outcome of a call that ended with an error."""
    ends = (outcome for kind, outcome in _ENDS.items() if isinstance(error, kind))
    return next(ends, ABANDONED)


def tokens_of(attempt: Attempt) -> tuple[tuple[str, int], ...]:
    """Return the tokens of an attempt, by their type."""
    usage = attempt.usage
    return ("input", usage.prompt_tokens), ("output", usage.completion_tokens)


def is_unfit(attempt: Attempt) -> bool:
    """Return whether an attempt has an invalid reply; a paused turn does not count."""
    return any(issue.code != Code.REPLY_PAUSED.value for issue in attempt.issues)


def read_attributes(given: GivenAttributes | None) -> Attributes:
    """Return the caller's attributes of this call.

    An exception, and a value that cannot be an attribute, is logged by its type and left out.
    """
    found: Attributes = {}
    if given is None:
        return found

    with unharmed("attributes of instrument()"):
        attributes = given if isinstance(given, Mapping) else given()
        for name, value in attributes.items():
            if is_attribute(name, value):
                found[name] = value
            else:
                kinds = f"{type(name).__name__}: {type(value).__name__}"
                logger.error("attributes of instrument() have a %s, which is left out", kinds)

    return found


def is_attribute(name: object, value: object) -> bool:
    """Return whether a name and a value can be exported."""
    texts = [text for text in (name, value) if isinstance(text, str)]
    is_of_kind = isinstance(name, str) and isinstance(value, str | int | float)
    return is_of_kind and name != "" and all(map(_is_encodable, texts))


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate would break the exporter
        return False
    return True


def _outcome_of_attempt(attempt: Attempt) -> str:
    if attempt.failure is not None:
        return "failed"
    if attempt.observed:
        return "observed"

    return "accepted" if attempt.accepted else "rejected"


def _named_tool(tool: str | None) -> Attributes:
    return {} if tool is None else {"gen_ai.tool.name": tool}


def _first_tool(attempt: Attempt, declared: Collection[str]) -> str | None:
    """Return the declared tool that a reply calls first, or of whose call it is a part.

    Return None if there is no call, or the model invented the name.
    """
    tool = called_tool(attempt.raw, attempt.api, declared)
    return _scoped_tool(attempt, declared) if tool is None else _known(tool)


def _tool_of_issue(issue: Issue, attempt: Attempt, declared: Collection[str]) -> str | None:
    """Return the declared tool that an issue is about.

    Return None if it is about the reply itself, or about a name that the model invented.
    """
    place = _CALL.match(issue.path)
    if place is None or attempt.scope is not None:
        return _scoped_tool(attempt, declared)

    draft = wire_named(attempt.api).draft_in(attempt.raw)
    index = int(place[1])
    if draft is None or index >= len(draft.calls):
        return None

    return _known(declared_tool(draft.calls[index].name, declared))


def _scoped_tool(attempt: Attempt, declared: Collection[str]) -> str | None:
    # a scope of several tools names none of them
    return _known(declared_tool((attempt.scope or "").partition("/")[0], declared))


def _known(tool: str) -> str | None:
    return None if tool == UNKNOWN_TOOL else tool
