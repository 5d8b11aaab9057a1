"""What counts and logs verdicts: the published counters by agent, the last verdicts in order, DEBUG logging (M115)."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from operator import add
from typing import TypeAlias

from strictreply.contract._driving import unharmed
from strictreply.coordination._actions import ActionType, ValidationResult
from strictreply.coordination._run_state import Now, utc_now
from strictreply.values._errors import ContractError
from strictreply.values._issues import Category, Issue, printable
from strictreply.values._replies import Attempt, plain, type_name


@dataclass(frozen=True, slots=True)
class ValidationCounts:
    """The five published counters (requirement M114); validations are successful or failed, and nothing else."""

    total_validations: int = 0
    successful_validations: int = 0
    failed_validations: int = 0
    retry_count: int = 0
    steering_applications: int = 0

    def __add__(self, other: ValidationCounts) -> ValidationCounts:
        return ValidationCounts(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class ValidationRecord:
    """One verdict (requirement M116); ``code`` and ``category`` are those of the first fault."""

    timestamp: float  # seconds since the epoch, never before the row above
    agent: str
    valid: bool
    action: ActionType | None = None  # also None where nobody said
    error: str | None = None  # in our words, None for a reply that fits
    code: str = ""
    category: Category | None = None


@dataclass(frozen=True, slots=True)
class ValidationSnapshot:
    """All counters at one moment; ``faults`` counts failed replies by agent and the code of their first fault."""

    by_agent: Mapping[str, ValidationCounts] = field(default_factory=dict[str, ValidationCounts])
    faults: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    history: tuple[ValidationRecord, ...] = ()

    @property
    def totals(self) -> ValidationCounts:
        """The counters of all agents together."""
        return sum(self.by_agent.values(), ValidationCounts())

    def main_fault(self, agent: str | None = None) -> str | None:
        """Return the code that most replies failed with, of ``agent`` or of all; None when none failed (M120)."""
        codes: Counter[str] = Counter()
        for (name, code), times in self.faults.items():
            if agent in (None, name):
                codes[code] += times
        return max(sorted(codes), key=codes.__getitem__, default=None)


class ValidationMetrics:
    """Counters that any thread or task may add to, and the last ``rows`` verdicts; ContractError for fewer than 0."""

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

    def validated(self, agent: str, result: ValidationResult, *, retry: bool = False, steered: bool = False) -> None:
        """Count one verdict; ``retry`` says that the reply was asked for again, ``steered`` that it was told how."""
        error = None if result.is_valid else result.error_message or "the reply does not fit"
        action = result.action_type if result.is_valid else None
        self._add(agent, action, error, result.issues, retry, steered)

    def attempted(self, agent: str, attempt: Attempt, *, action: ActionType | None = None) -> None:
        """Count one attempt of the core's loop, and the action of an accepted one; a failed call is no validation."""
        if attempt.failure is None:
            error = "; ".join(issue.dotted for issue in attempt.issues) or None
            self._add(agent, action, error, attempt.issues, attempt.tier > 0, attempt.correction is not None)

    def snapshot(self) -> ValidationSnapshot:
        """Copy all counters at one moment."""
        with self._lock:
            return ValidationSnapshot(dict(self._by_agent), dict(self._faults), tuple(self._history))

    def reset(self) -> None:
        """Start at zero again, with an empty history."""
        with self._lock:
            self._by_agent.clear()
            self._faults.clear()
            self._history.clear()

    def _add(
        self, agent: str, action: ActionType | None, error: str | None, issues: tuple[Issue, ...], *how: bool
    ) -> None:
        valid = error is None
        one = ValidationCounts(1, valid, not valid, *how)
        code, category = (issues[0].code, issues[0].category) if issues else ("", None)
        with self._lock:
            self._last = max(self._last, self._now().timestamp())
            self._by_agent[agent] = self._by_agent.get(agent, ValidationCounts()) + one
            if not valid:
                self._faults[agent, code] += 1
            self._history.append(ValidationRecord(self._last, agent, valid, action, error, code, category))


_logger = logging.getLogger("strictreply")
RedactReply: TypeAlias = Callable[[str], str]  # from a raw reply as JSON text to what may be logged


@dataclass(frozen=True, slots=True)
class Watch:
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
        """Report one attempt of a client's loop; the client has logged the raw reply, in its own redaction."""
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
