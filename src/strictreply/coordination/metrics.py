"""Thread-safe counters of routes, activities and verdicts, and the clock of a run.

Verdicts are also logged.
"""

from __future__ import annotations

import copy
import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from operator import add
from typing import Protocol, TypeAlias

from strictreply import Attempt, Category, ContractError, Issue
from strictreply.coordination.actions import ActionType, ValidationResult
from strictreply.core.calls import unharmed
from strictreply.core.text import plain, printable, type_name

__all__ = [
    "Activity",
    "ActivityTally",
    "MetricsSnapshot",
    "RunMetrics",
    "ValidationCounts",
    "ValidationMetrics",
    "ValidationRecord",
    "ValidationSnapshot",
]

Now: TypeAlias = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)


class Activity(StrEnum):
    """An activity that is counted with its successes and its time."""

    NODE_EXECUTIONS = "node_executions"
    """A node of the graph ran once."""
    LLM_CALLS = "llm_calls"
    """A model was asked for a reply, one for each attempt."""
    TOOL_EXECUTIONS = "tool_executions"
    """A tool ran once."""
    CONVERSATIONS = "conversations"
    """A run of the whole graph; your program measures it."""


@dataclass(frozen=True, slots=True)
class ActivityTally:
    """How often an activity was done, and how often successfully.

    ``seconds`` is the total time of the successes.
    """

    total: int = 0
    """How often it was done."""
    succeeded: int = 0
    """How often with success."""
    seconds: float = 0.0
    """The seconds that the successes took."""

    @property
    def failed(self) -> int:
        """How often the activity failed."""
        return self.total - self.succeeded

    @property
    def success_rate(self) -> float:
        """The share of successes, from 0 to 1; 0 when nothing was done."""
        return self.succeeded / self.total if self.total else 0.0

    @property
    def average_seconds(self) -> float:
        """The average seconds of a success; 0 if there was none."""
        return self.seconds / self.succeeded if self.succeeded else 0.0

    def __add__(self, other: ActivityTally) -> ActivityTally:
        return ActivityTally(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """All counters at one moment.

    ``targets`` and ``reasons`` count routes, ``by_name`` the activities of each name.
    """

    targets: Counter[str] = field(default_factory=Counter[str])
    """How many routes led to each target."""
    reasons: Counter[str] = field(default_factory=Counter[str])
    """How many routes had each reason."""
    strategies: Counter[str] = field(default_factory=Counter[str])
    """How many routes each strategy made."""
    by_name: dict[tuple[Activity, str], ActivityTally] = field(default_factory=dict)
    """What was done, by activity and name."""

    @property
    def routes(self) -> int:
        """How many routes were decided."""
        return self.targets.total()

    def tally(self, activity: Activity) -> ActivityTally:
        """Return the sum of one activity over all names."""
        tallies = (tally for (kind, _), tally in self.by_name.items() if kind is activity)
        return sum(tallies, ActivityTally())


@dataclass(slots=True)
class Measured:
    """The handle of a measured block, which may set ``counts`` to False."""

    counts: bool = True


class DecidedRoute(Protocol):
    """The counted members of a decision of :func:`explain_route`."""

    @property
    def target(self) -> str: ...

    @property
    def reason(self) -> StrEnum: ...

    @property
    def strategy(self) -> str | None: ...


class RunMetrics:
    """Counters, safe for threads and tasks; ``clock`` returns seconds that never decrease."""

    __slots__ = ("_clock", "_counts", "_lock")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = MetricsSnapshot()

    def routed(self, decision: DecidedRoute) -> None:
        """Count one decision of :func:`explain_route`."""
        with self._lock:
            self._counts.targets[decision.target] += 1
            self._counts.reasons[decision.reason.value] += 1
            if decision.strategy is not None:
                self._counts.strategies[decision.strategy] += 1

    def done(
        self, activity: Activity, name: str = "", *, succeeded: bool = True, seconds: float = 0.0
    ) -> None:
        """Count one activity of a node, a model or a tool of this name."""
        with self._lock:
            before = self._counts.by_name.get((activity, name), ActivityTally())
            one = ActivityTally(1, succeeded, seconds if succeeded else 0.0)
            self._counts.by_name[activity, name] = before + one

    @contextmanager
    def measure(self, activity: Activity, name: str = "") -> Generator[Measured]:
        """Count the block as one activity, with its seconds; as a failure if it raises."""
        started = self._clock()
        succeeded = False
        measured = Measured()
        try:
            yield measured
            succeeded = True
        finally:
            if measured.counts:
                self.done(activity, name, succeeded=succeeded, seconds=self._clock() - started)

    def snapshot(self) -> MetricsSnapshot:
        """Copy all counters at one moment."""
        with self._lock:
            return copy.deepcopy(self._counts)

    def reset(self) -> None:
        """Start at zero again."""
        self._counts = MetricsSnapshot()


@dataclass(frozen=True, slots=True)
class ValidationCounts:
    """The five published counters.

    Every validation is either successful or failed.
    """

    total_validations: int = 0
    """Replies that were judged."""
    successful_validations: int = 0
    """Replies that fit."""
    failed_validations: int = 0
    """Replies that did not fit."""
    retry_count: int = 0
    """Retries that were made."""
    steering_applications: int = 0
    """Requests that had a steering."""

    def __add__(self, other: ValidationCounts) -> ValidationCounts:
        return ValidationCounts(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class ValidationRecord:
    """One verdict."""

    timestamp: float
    """Seconds since the epoch; never less than in the previous record."""
    agent: str
    """Name of the agent that replied."""
    valid: bool
    """Whether the reply fits."""
    action: ActionType | None = None
    """The action of the reply; None also for a valid reply whose action is not known."""
    error: str | None = None
    """What is wrong, without text of the model; None for a reply that fits."""
    code: str = ""
    """Code of the first fault; empty for a reply that fits."""
    category: Category | None = None
    """Category of the first fault; None for a reply that fits."""


@dataclass(frozen=True, slots=True)
class ValidationSnapshot:
    """All counters at one moment.

    ``faults`` counts failed replies by agent and the code of their first fault.
    """

    by_agent: Mapping[str, ValidationCounts] = field(default_factory=dict[str, ValidationCounts])
    """The counters of each agent."""
    faults: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Failed replies, by the agent and the code of the first fault."""
    history: tuple[ValidationRecord, ...] = ()
    """The last verdicts."""

    @property
    def totals(self) -> ValidationCounts:
        """The counters of all agents together."""
        return sum(self.by_agent.values(), ValidationCounts())

    def main_fault(self, agent: str | None = None) -> str | None:
        """Return the most frequent code of failed replies, of ``agent`` or of all.

        Return None if no reply failed.
        """
        codes: Counter[str] = Counter()
        for (name, code), times in self.faults.items():
            if agent in (None, name):
                codes[code] += times

        return max(sorted(codes), key=codes.__getitem__, default=None)


class ValidationMetrics:
    """Counters, safe for threads and tasks, and the last ``rows`` verdicts.

    Raises ContractError when ``rows`` is below 0.
    """

    __slots__ = ("_by_agent", "_faults", "_history", "_last", "_lock", "_now")

    def __init__(self, *, rows: int = 1_000, now: Now = utc_now) -> None:
        if rows < 0:
            raise ContractError("ValidationMetrics.rows must be 0 or more")
        self._now = now
        self._last = 0.0
        self._lock = threading.Lock()
        self._by_agent: dict[str, ValidationCounts] = {}
        self._faults: Counter[tuple[str, str]] = Counter()
        self._history: deque[ValidationRecord] = deque(maxlen=rows)

    def validated(
        self, agent: str, result: ValidationResult, *, retry: bool = False, steered: bool = False
    ) -> None:
        """Count one verdict.

        ``retry`` says that the request was a retry, ``steered`` that it had a steering text.
        """
        error = None if result.is_valid else result.error_message or "the reply does not fit"
        action = result.action_type if result.is_valid else None
        self._add(agent, action, error, result.issues, retry, steered)

    def attempted(self, agent: str, attempt: Attempt, *, action: ActionType | None = None) -> None:
        """Count one attempt of the core's loop, and the action of an accepted one.

        A failed call is not a validation, and is not counted.
        """
        if attempt.failure is not None:
            return

        error = "; ".join(issue.dotted for issue in attempt.issues) or None
        retry = attempt.tier > 0
        steered = attempt.correction is not None
        self._add(agent, action, error, attempt.issues, retry, steered)

    def snapshot(self) -> ValidationSnapshot:
        """Copy all counters at one moment."""
        with self._lock:
            return ValidationSnapshot(
                dict(self._by_agent), dict(self._faults), tuple(self._history)
            )

    def reset(self) -> None:
        """Start at zero again, with an empty history."""
        with self._lock:
            self._by_agent.clear()
            self._faults.clear()
            self._history.clear()

    def _add(
        self,
        agent: str,
        action: ActionType | None,
        error: str | None,
        issues: tuple[Issue, ...],
        *how: bool,
    ) -> None:
        valid = error is None
        one = ValidationCounts(1, valid, not valid, *how)
        code = issues[0].code if issues else ""
        category = issues[0].category if issues else None

        with self._lock:
            self._last = max(self._last, self._now().timestamp())
            self._by_agent[agent] = self._by_agent.get(agent, ValidationCounts()) + one
            if not valid:
                self._faults[agent, code] += 1

            row = ValidationRecord(self._last, agent, valid, action, error, code, category)
            self._history.append(row)


_logger = logging.getLogger("strictreply")
RedactReply: TypeAlias = Callable[[str], str]  # from a raw reply as JSON text to what may be logged


@dataclass(frozen=True, slots=True)
class VerdictWatch:
    """Counts verdicts in ``metrics`` and logs them; without ``redact`` no raw reply is logged."""

    metrics: ValidationMetrics | None = None
    redact: RedactReply | None = None

    def judged(self, agent: str, result: ValidationResult, raw: object) -> None:
        """Report the verdict on a reply that was handed in."""
        if self.metrics is not None:
            self.metrics.validated(agent, result)

        _log(agent, result.action_type if result.is_valid else None, result.issues)

        if self.redact is not None and _logger.isEnabledFor(logging.DEBUG):
            with unharmed("log_replies"):
                _logger.debug("reply of %r: raw %s", agent, printable(self.redact(_spelled(raw))))

    def attempted(self, agent: str, attempt: Attempt, action: ActionType | None) -> None:
        """Report one attempt of a client's loop.

        The client has logged the raw reply, in its own redaction.
        """
        if self.metrics is not None:
            self.metrics.attempted(agent, attempt, action=action)

        if attempt.failure is None:
            _log(agent, action, attempt.issues)


def _log(agent: str, action: ActionType | None, issues: tuple[Issue, ...]) -> None:
    if _logger.isEnabledFor(logging.DEBUG):
        faults = ", ".join(f"{issue.code} at {issue.place}" for issue in issues)
        _logger.debug("reply of %r: %s", agent, f"invalid ({faults})" if issues else action)


def _spelled(raw: object) -> str:
    try:
        return json.dumps(plain(raw))
    except Exception:  # noqa: BLE001 - an object's own code must not end the judging of a reply
        return json.dumps(type_name(raw))
