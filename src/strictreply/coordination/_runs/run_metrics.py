"""Counters of what runs did: routes by target and reason, and activities with their successes and seconds."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum

from strictreply.coordination._runs.next_node import RouteDecision
from strictreply.values._json import JSONObject


class Activity(StrEnum):
    """What is counted with its successes and its time (requirement R40)."""

    NODE_EXECUTIONS = "node_executions"
    LLM_CALLS = "llm_calls"
    TOOL_EXECUTIONS = "tool_executions"
    CONVERSATIONS = "conversations"


@dataclass(frozen=True, slots=True)
class Tally:
    """How often something was done, how often with success, and the seconds that the successes took."""

    total: int = 0
    succeeded: int = 0
    seconds: float = 0.0

    @property
    def failed(self) -> int:
        """How often it was done without success."""
        return self.total - self.succeeded

    @property
    def success_rate(self) -> float:
        """The share of successes, from 0 to 1; 0 when nothing was done."""
        return self.succeeded / self.total if self.total else 0.0

    @property
    def average_seconds(self) -> float:
        """The seconds of one success; 0 when there was none."""
        return self.seconds / self.succeeded if self.succeeded else 0.0

    def plus(self, *, succeeded: bool, seconds: float) -> Tally:
        """Give the tally with one more."""
        return Tally(self.total + 1, self.succeeded + succeeded, self.seconds + (seconds if succeeded else 0.0))

    def to_dict(self) -> JSONObject:
        """Spell the tally as JSON, with what follows from it."""
        return {
            "total": self.total,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "success_rate": self.success_rate,
            "average_seconds": self.average_seconds,
        }


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """All counters at one moment; later events do not change it.

    ``targets`` and ``reasons`` count routes and have the same sum, ``strategies`` those of conversations with one.
    ``activities`` sum up each activity, and ``by_name`` tells them apart by node, model or tool.
    """

    targets: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    strategies: Mapping[str, int] = field(default_factory=dict)
    by_name: Mapping[tuple[Activity, str], Tally] = field(default_factory=dict)

    @property
    def routes(self) -> int:
        """How many routes were decided."""
        return sum(self.targets.values())

    def tally(self, activity: Activity) -> Tally:
        """Sum up one activity over all names."""
        found = [tally for (kind, _), tally in self.by_name.items() if kind is activity]
        total, succeeded = sum(one.total for one in found), sum(one.succeeded for one in found)
        return Tally(total, succeeded, sum(one.seconds for one in found))

    def to_dict(self) -> JSONObject:
        """Spell the counters as JSON."""
        named: dict[str, JSONObject] = {activity.value: {} for activity in Activity}
        for (activity, name), tally in self.by_name.items():
            named[activity.value][name] = tally.to_dict()
        return {
            "routes": self.routes,
            "targets": dict(self.targets),
            "reasons": dict(self.reasons),
            "strategies": dict(self.strategies),
            "activities": {activity.value: self.tally(activity).to_dict() for activity in Activity},
            "by_name": named,
        }


class RunMetrics:
    """Counters that any thread or task may add to; nothing is awaited while they are held.

    ``clock`` gives seconds that never go back.
    """

    __slots__ = ("_by_name", "_clock", "_lock", "_reasons", "_strategies", "_targets")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Start at zero."""
        self._clock = clock
        self._lock = threading.Lock()
        self._clear()

    def routed(self, decision: RouteDecision) -> None:
        """Count one decision; pass this as ``observe`` of ``conditional_edge``."""
        with self._lock:
            self._targets[decision.target] += 1
            self._reasons[decision.reason.value] += 1
            if decision.strategy is not None:
                self._strategies[decision.strategy] += 1

    def done(self, activity: Activity, name: str = "", *, succeeded: bool = True, seconds: float = 0.0) -> None:
        """Count one activity of a node, a model or a tool of this name."""
        with self._lock:
            before = self._by_name.get((activity, name), Tally())
            self._by_name[activity, name] = before.plus(succeeded=succeeded, seconds=seconds)

    @contextmanager
    def measure(self, activity: Activity, name: str = "") -> Generator[None]:
        """Count what the block does, and its seconds; without success when it raises, which goes on being raised."""
        started, succeeded = self._clock(), False
        try:
            yield
            succeeded = True
        finally:
            self.done(activity, name, succeeded=succeeded, seconds=self._clock() - started)

    def snapshot(self) -> MetricsSnapshot:
        """Copy all counters at one moment."""
        with self._lock:
            return MetricsSnapshot(
                dict(self._targets), dict(self._reasons), dict(self._strategies), dict(self._by_name)
            )

    def reset(self) -> None:
        """Start at zero again."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        """Empty all counters."""
        self._targets: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._strategies: Counter[str] = Counter()
        self._by_name: dict[tuple[Activity, str], Tally] = {}


def measured(metrics: RunMetrics | None, activity: Activity, name: str) -> AbstractContextManager[None]:
    """Measure what a block does, if anybody counts."""
    return nullcontext() if metrics is None else metrics.measure(activity, name)
