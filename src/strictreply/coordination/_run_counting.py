"""Counting of runs: guarded nodes, whose executions count once each, and the metrics of routes and activities."""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from operator import add
from typing import Any, TypeVar, cast

from strictreply.coordination._next_node import HISTORY_LIMIT, RouteDecision, Routes, explain_route, record_route
from strictreply.coordination._run_state import AgentState, Now, apply_update, changed, increment_loop_count, utc_now


class Activity(StrEnum):
    """What is counted with its successes and its time (requirement R40)."""

    NODE_EXECUTIONS = "node_executions"
    LLM_CALLS = "llm_calls"
    TOOL_EXECUTIONS = "tool_executions"
    CONVERSATIONS = "conversations"


@dataclass(frozen=True, slots=True)
class ActivityTally:
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

    def __add__(self, other: ActivityTally) -> ActivityTally:
        return ActivityTally(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """All counters at one moment; ``targets`` and ``reasons`` count routes, ``by_name`` the activities of each name."""

    targets: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[str] = field(default_factory=Counter[str])
    strategies: Counter[str] = field(default_factory=Counter[str])
    by_name: dict[tuple[Activity, str], ActivityTally] = field(default_factory=dict)

    @property
    def routes(self) -> int:
        """How many routes were decided."""
        return self.targets.total()

    def tally(self, activity: Activity) -> ActivityTally:
        """Sum up one activity over all names."""
        return sum((tally for (kind, _), tally in self.by_name.items() if kind is activity), ActivityTally())


class RunMetrics:
    """Counters that any thread or task may add to; ``clock`` gives seconds that never go back."""

    __slots__ = ("_clock", "_counts", "_lock")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = MetricsSnapshot()

    def routed(self, decision: RouteDecision) -> None:
        """Count one decision of :func:`explain_route`."""
        with self._lock:
            self._counts.targets[decision.target] += 1
            self._counts.reasons[decision.reason.value] += 1
            if decision.strategy is not None:
                self._counts.strategies[decision.strategy] += 1

    def done(self, activity: Activity, name: str = "", *, succeeded: bool = True, seconds: float = 0.0) -> None:
        """Count one activity of a node, a model or a tool of this name."""
        with self._lock:
            before = self._counts.by_name.get((activity, name), ActivityTally())
            self._counts.by_name[activity, name] = before + ActivityTally(1, succeeded, seconds if succeeded else 0.0)

    @contextmanager
    def measure(self, activity: Activity, name: str = "") -> Generator[None]:
        """Count what the block does, and its seconds; without success when it raises."""
        started, succeeded = self._clock(), False
        try:
            yield
            succeeded = True
        finally:
            self.done(activity, name, succeeded=succeeded, seconds=self._clock() - started)

    def snapshot(self) -> MetricsSnapshot:
        """Copy all counters at one moment."""
        with self._lock:
            return copy.deepcopy(self._counts)

    def reset(self) -> None:
        """Start at zero again."""
        self._counts = MetricsSnapshot()


Node = TypeVar("Node", bound=Callable[..., Any])


def counted(
    node: Node,
    *,
    name: str | None = None,
    routes: Routes | None = None,
    metrics: RunMetrics | None = None,
    now: Now = utc_now,
) -> Node:
    """Guard a node, a function of the state or an async one: each execution adds 1 to ``loop_count`` (R21).

    It is 1 more than before whatever the node does with it; guarding twice counts once. With ``routes`` the decision
    that follows is recorded in ``routing_history``, and with ``metrics`` the execution is counted, both under ``name``,
    by default the function's own. Raises StateError when the node returns no valid update.
    """
    label = name or str(getattr(node, "__name__", type(node).__name__))

    def measured() -> AbstractContextManager[None]:  # without metrics there is no lock, which nothing can pickle
        return nullcontext() if metrics is None else metrics.measure(Activity.NODE_EXECUTIONS, label)

    def finished(state: AgentState, returned: Mapping[str, Any] | None) -> dict[str, Any]:
        after = changed(apply_update(state, returned), loop_count=increment_loop_count(state)["loop_count"])
        if routes is not None:
            decision = explain_route(after, routes=routes)
            longest = 0 if routes.cycle is None else routes.cycle.window + 1  # the longest loop is to be found
            after = record_route(after, decision, source=label, now=now, limit=max(HISTORY_LIMIT, longest))
        old = {key: state.get(key, ...) for key in after}
        written = returned or ()
        return {key: new for key, new in after.items() if key in written or (old[key] is not new and old[key] != new)}

    @functools.wraps(node)
    def run(state: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with measured():
            returned = node(state, *args, **kwargs)
        return finished(state, returned)

    @functools.wraps(node)
    async def run_async(state: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        with measured():
            returned = await node(state, *args, **kwargs)
        return finished(state, returned)

    called = getattr(node, "__call__", None)  # noqa: B004 - of an object whose call is a coroutine function
    is_async = inspect.iscoroutinefunction(node) or inspect.iscoroutinefunction(called)
    return cast("Node", run_async if is_async else run)
