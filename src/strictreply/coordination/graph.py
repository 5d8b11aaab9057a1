"""The next node of a run: the published ``route_next``, a decision from a state and a table.

A decision changes nothing. A guarded node counts its executions, and records the decisions.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, cast

from strictreply import ContractError, Issue
from strictreply.coordination.actions import CoordinationCode, DeclarationError, StateError
from strictreply.coordination.metrics import Activity, Measured, Now, RunMetrics, utc_now
from strictreply.coordination.state import (
    DEFAULT_NODES,
    END,
    HISTORY_ENTRY,
    HUMAN_INPUT,
    AgentState,
    RoutingEntry,
    RunEnding,
    S,
    StateSchema,
    apply_update,
    changed,
    fields_of,
    increment_loop_count,
    pending_requests,
)
from strictreply.core import JSONObject
from strictreply.core.arguments import is_count
from strictreply.core.text import pointer

__all__ = [
    "CycleLimit",
    "RouteDecision",
    "RouteReason",
    "RouteRule",
    "RouteStrategy",
    "Routes",
    "RuleFailure",
    "counted",
    "edge_map",
    "explain_route",
    "record_route",
    "route_next",
]

T = TypeVar("T", bound=Hashable)

BUILT_IN_NAMES: Final = (
    "loop_limit",
    "loop_detected",
    "completion",
    "human_input",
    "next_agent",
    "fallback",
)
MAX_LOOP_COUNT_VARIABLE: Final = "STRICTREPLY_MAX_LOOP_COUNT"
HISTORY_LIMIT: Final = 50  # ``routing_history`` keeps at least this many of the newest entries

_READ = (
    "loop_count",
    "is_complete",
    "requires_human_input",
    "next_agent",
    "human_requests",
    "max_loop_count",
    "ending",
    "reply_formats",
)
# A route itself checks the newest entries, the only ones that it reads.
_UNREAD: JSONObject = {"type": "array"}
_ROUTED = StateSchema(fields_of(*_READ, routing_history=_UNREAD))
_ROUTED_BY_ID = StateSchema(fields_of(*_READ, "conversation_id", routing_history=_UNREAD))
_HISTORY_ENTRY = StateSchema(HISTORY_ENTRY)
_HISTORY = StateSchema({"type": "array", "items": HISTORY_ENTRY})


@dataclass(frozen=True, slots=True)
class CycleLimit:
    """A run is in a loop if its last steps are the same piece, ``repeats`` times in a row.

    ``longest`` is the maximum length of a piece. Raises ValueError for bounds that are too small.
    """

    repeats: int = 3
    """How often in a row the piece must stand at the end of the trail."""
    longest: int = 16
    """The most steps of a piece; 16 are five agents with a tool call each."""

    def __post_init__(self) -> None:
        if self.repeats < 2 or self.longest < 1:  # noqa: PLR2004 - one occurrence does not repeat
            raise ValueError("CycleLimit: repeats must be at least 2, longest at least 1")

    @property
    def window(self) -> int:
        """The number of the newest steps that are examined."""
        return self.repeats * self.longest

    def loop(self, trail: Sequence[T]) -> tuple[T, ...]:
        """Return the shortest piece that is repeated at the end of the trail; empty if none is."""
        for period in range(1, min(self.longest, len(trail) // self.repeats) + 1):
            piece = tuple(trail[-period:])
            if tuple(trail[-period * self.repeats :]) == piece * self.repeats:
                return piece

        return ()


@dataclass(frozen=True, slots=True)
class RouteRule:
    """A rule of your own.

    ``decide`` returns a target, or None to leave the choice to later rules; it must not change the
    state. The rule with the highest ``priority`` comes first, of equals the one declared first. The
    built-in rules have 300 (completion), 200 (human input) and 100 (next agent), and precede your
    rules of the same priority; the loop limit precedes all. A rule that raises, or returns a name
    that is not a node, is recorded and skipped.
    """

    name: str
    """The name, for records and metrics."""
    priority: int
    """The rule with the higher priority is asked first."""
    decide: Callable[[Mapping[str, Any]], str | None]
    """Returns a target for a state, or None to leave the choice to later rules."""


@dataclass(frozen=True, slots=True)
class RouteStrategy:
    """One arm of a comparison: ``rules`` in addition to the table's.

    They apply to its share of the conversations, by ``weight``.
    """

    name: str
    """The name, for records and metrics."""
    weight: int
    """Its share of the conversations, in relation to the other weights."""
    rules: tuple[RouteRule, ...] = ()
    """The rules beside those of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The table of :func:`route_next`: the nodes of a run, and the rules that choose among them.

    (A :class:`Router` has a topology instead.) Raises DeclarationError with every fault.
    """

    nodes: tuple[str, ...] = DEFAULT_NODES
    """The targets, among them ``end`` and ``human_input``."""
    max_loop_count: int | None = None
    """The configured limit; None for the environment's, or 10 without one."""
    rules: tuple[RouteRule, ...] = ()
    """Your own rules."""
    strategies: tuple[RouteStrategy, ...] = ()
    """The arms of a comparison, which share the conversations by their weights.

    A hash of the conversation's id and ``experiment`` chooses the arm, so that a conversation keeps
    its strategy and two experiments are independent.
    """
    experiment: str = ""
    """Name of the comparison."""
    cycle: CycleLimit | None = field(default_factory=CycleLimit)
    """Which repetition of nodes is a loop; None if none is."""

    def __post_init__(self) -> None:
        for part in ("nodes", "rules", "strategies"):
            object.__setattr__(self, part, tuple(getattr(self, part)))

        if issues := [*_node_issues(self), *_rule_issues(self), *_weight_issues(self)]:
            raise DeclarationError("the route table", issues)

    def strategy_for(self, conversation_id: str) -> RouteStrategy | None:
        """Return a conversation's strategy, always the same; None if the table has none."""
        if not self.strategies:
            return None

        spelt = f"{self.experiment}\0{conversation_id}".encode(errors="surrogatepass")
        bounds = list(accumulate(strategy.weight for strategy in self.strategies))
        point = int.from_bytes(hashlib.sha256(spelt).digest()) % bounds[-1]
        return self.strategies[bisect_right(bounds, point)]


def edge_map(routes: Routes | None = None, *, end_target: str = END) -> dict[str, str]:
    """Return the mapping for ``add_conditional_edges``.

    ``end_target`` may be LangGraph's own ``END``.
    """
    return {node: end_target if node == END else node for node in (routes or DEFAULT_ROUTES).nodes}


def _named_once(names: Iterable[object], part: str) -> Iterator[Issue]:
    given = list(names)
    for name in given:
        if not (isinstance(name, str) and name and name == name.strip()):
            yield CoordinationCode.ROUTES_BAD_NAME.at(pointer("", part, str(name)))

    for name, times in Counter(map(str, given)).items():
        if times > 1:
            yield CoordinationCode.ROUTES_DUPLICATE.at(pointer("", part, name))


def _node_issues(routes: Routes) -> Iterator[Issue]:
    yield from _named_once(routes.nodes, "nodes")
    for needed in (END, HUMAN_INPUT):
        if needed not in routes.nodes:
            yield CoordinationCode.ROUTES_MISSING_NODE.at(pointer("/nodes", needed))

    if routes.max_loop_count is not None and not is_count(routes.max_loop_count):
        expected = "a whole number, 0 or more, or None"
        yield CoordinationCode.ROUTES_BAD_LIMIT.at("/max_loop_count", expected=expected)


def _rule_issues(routes: Routes) -> Iterator[Issue]:
    sets = [routes.rules + strategy.rules for strategy in routes.strategies] or [routes.rules]
    named: list[Issue] = []
    for rules in sets:
        named += _named_once([*BUILT_IN_NAMES, *(one.name for one in rules)], "rules")
    yield from dict.fromkeys(named)

    for rule in {id(rule): rule for rules in sets for rule in rules}.values():
        priority: Any = rule.priority
        if isinstance(priority, bool) or not isinstance(priority, int) or not callable(rule.decide):
            place = pointer("/rules", rule.name)
            expected = "a function of the state, with a whole number for priority"
            yield CoordinationCode.ROUTES_BAD_RULE.at(place, expected=expected)


def _weight_issues(routes: Routes) -> Iterator[Issue]:
    yield from _named_once((strategy.name for strategy in routes.strategies), "strategies")

    bad = [strategy for strategy in routes.strategies if not is_count(strategy.weight)]
    for strategy in bad:
        place = pointer("/strategies", strategy.name, "weight")
        yield CoordinationCode.ROUTES_BAD_LIMIT.at(place, expected="a whole number, 0 or more")

    if not routes.strategies or bad:
        return
    if not sum(strategy.weight for strategy in routes.strategies):
        yield CoordinationCode.ROUTES_NO_WEIGHT.at("/strategies")


class _DocumentedLimit(int):
    """The documented default of a parameter: equal to 10, but not a 10 given by a caller."""


# The limit if nothing else sets one (requirement R34).
DEFAULT_MAX_LOOP_COUNT: Final = _DocumentedLimit(10)
DEFAULT_ROUTES: Final = Routes()


class RouteReason(StrEnum):
    """Why :func:`route_next` chose a target; a :class:`Router` has ``RoutingReason``."""

    LOOP_LIMIT = "loop_limit"
    """The run ends: it has more node executions than its limit."""
    LOOP_DETECTED = "loop_detected"
    """The run ends: the same nodes repeat in a cycle."""
    COMPLETED = "completed"
    """The run ends: the state is marked as complete."""
    ABORTED = "aborted"
    """The run ends: the state is marked as aborted."""
    HUMAN_INPUT = "human_input"
    """A question to a human is pending."""
    USER_RULE = "user_rule"
    """A rule of yours chose the node."""
    NEXT_AGENT = "next_agent"
    """The state's ``next_agent`` names the node."""
    NO_TARGET = "no_target"
    """The run ends: no rule applies, and ``next_agent`` is None."""
    UNKNOWN_TARGET = "unknown_target"
    """The run ends: no rule applies, and ``next_agent`` is not a node."""


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A rule of yours that was skipped.

    ``error`` is the type of its exception; None if its target is not a node.
    """

    rule: str
    """The name of the rule."""
    error: str | None
    """The type of what it raised; None when its target is not a node."""


@dataclass(frozen=True, slots=True)
class RouteDecision:
    """The decision of :func:`route_next` for a state: a target, and why.

    (A :class:`Router` makes a ``RoutingDecision``.)
    """

    target: str
    """The next node."""
    reason: RouteReason
    """The reason, for programs to match on."""
    rule: str
    """Name of the rule that chose, built-in or your own."""
    loop_count: int
    """The state's count of node executions."""
    max_loop_count: int
    """The limit of that count."""
    pending_human_input: bool
    """Whether a question to a human is pending, even if the run ends."""
    strategy: str | None = None
    """Name of the conversation's strategy; None if there are no strategies."""
    failures: tuple[RuleFailure, ...] = ()
    """Your rules that failed and were skipped."""
    loop: tuple[str, ...] = ()
    """The nodes of a loop; empty if there is none."""


def route_next(
    state: AgentState,
    max_loop_count: int = DEFAULT_MAX_LOOP_COUNT,
    *,
    routes: Routes = DEFAULT_ROUTES,
) -> str:
    """Return the next target of a run, in the form of LangGraph's conditional edges.

    - ``state`` is the state of the run.
    - ``max_loop_count`` limits the node executions. The default is the state's limit, else the
      table's, that of the environment variable STRICTREPLY_MAX_LOOP_COUNT, or 10. If the count is
      above the limit, the run ends, so limit + 1 node executions are possible.
    - ``routes`` is the table of nodes and rules.

    A ``next_agent`` that is not a node leads to the end.

    Raises StateError with every field that is missing or has a wrong type, and ContractError (a
    ValueError) for a limit that is negative or not a whole number.
    """
    return explain_route(state, max_loop_count, routes=routes).target


def explain_route(
    state: AgentState,
    max_loop_count: int = DEFAULT_MAX_LOOP_COUNT,
    *,
    routes: Routes = DEFAULT_ROUTES,
) -> RouteDecision:
    """Return the decision of :func:`route_next` with its reason; raise the same errors.

    - ``state`` is the state of the run.
    - ``max_loop_count`` limits the node executions.
    - ``routes`` is the table of nodes and rules.
    """
    StateError.raise_for((_ROUTED_BY_ID if routes.strategies else _ROUTED).issues(state))
    limit = _limit(max_loop_count, state, routes)
    strategy = routes.strategy_for(state["conversation_id"]) if routes.strategies else None
    pending = bool(pending_requests(state)) or state["requires_human_input"]

    failures: list[RuleFailure] = []
    chosen: _Choice = END, RouteReason.LOOP_LIMIT, "loop_limit"
    if state["loop_count"] <= limit:
        users = routes.rules + (strategy.rules if strategy else ())
        chosen = _chosen(state, routes, users, failures, pending=pending)

    loop: tuple[str, ...] = ()
    if routes.cycle is not None and chosen[0] not in (END, HUMAN_INPUT):
        hops = [*_trail(state, routes.cycle.window), (chosen[0], state.get("current_task"))]
        loop = tuple(node for node, _ in routes.cycle.loop(hops))
    if loop:
        chosen = END, RouteReason.LOOP_DETECTED, "loop_detected"

    name = strategy.name if strategy else None
    return RouteDecision(*chosen, state["loop_count"], limit, pending, name, tuple(failures), loop)


def record_route(
    state: S,
    decision: RouteDecision,
    *,
    source: str | None = None,
    now: Now = utc_now,
    limit: int = HISTORY_LIMIT,
) -> S:
    """Return the state with one more decision in ``routing_history``, cut to ``limit`` entries.

    ``source`` is the node before; None means the target of the last decision.
    """
    before: AgentState = state
    past = before.get("routing_history", [])
    from_ = source or None
    if from_ is None and past and past[-1]["to"] != END:
        from_ = past[-1]["to"]

    entry: RoutingEntry = {
        "ts": now().isoformat(),
        "from": from_,
        "to": decision.target,
        "reason": decision.reason.value,
        "loop_count": decision.loop_count,
        "task": before.get("current_task"),
    }
    return changed(state, routing_history=[*past, entry][-limit:])


_Choice: TypeAlias = tuple[str, RouteReason, str]  # a target, why, and the rule that chose it


def _chosen(
    state: AgentState,
    routes: Routes,
    users: tuple[RouteRule, ...],
    failures: list[RuleFailure],
    *,
    pending: bool,
) -> _Choice:
    """Return the first choice of a rule (R37).

    Exceptions of rules, and names that are not nodes, are added to ``failures``.
    """
    known = {node: node for node in routes.nodes}
    next_agent: object = state["next_agent"]
    target = known.get(next_agent) if isinstance(next_agent, str) else None
    ending = RouteReason(state.get("ending") or RunEnding.COMPLETED)
    built_in: tuple[tuple[int, bool, _Choice], ...] = (
        (300, state["is_complete"], (END, ending, "completion")),
        (200, pending, (HUMAN_INPUT, RouteReason.HUMAN_INPUT, "human_input")),
        (100, target is not None, (target or END, RouteReason.NEXT_AGENT, "next_agent")),
    )

    rules: list[tuple[int, _Choice | RouteRule]] = []
    rules += [(at, choice) for at, applies, choice in built_in if applies]
    rules += [(rule.priority, rule) for rule in users]

    for _, rule in sorted(rules, key=lambda one: -one[0]):
        asked = _asked(rule, state, known)
        if isinstance(asked, tuple):
            return asked
        if asked is not None:
            failures.append(asked)

    reason = RouteReason.NO_TARGET if next_agent is None else RouteReason.UNKNOWN_TARGET
    return END, reason, "fallback"


def _asked(
    rule: RouteRule | _Choice, state: AgentState, nodes: Mapping[str, str]
) -> _Choice | RuleFailure | None:
    if isinstance(rule, tuple):
        return rule

    try:
        chosen: object = rule.decide(MappingProxyType(state))
    except Exception as error:  # noqa: BLE001 - a user's rule must not stop the run
        return RuleFailure(rule.name, type(error).__name__)

    if isinstance(chosen, str) and chosen in nodes:
        return nodes[chosen], RouteReason.USER_RULE, rule.name

    return None if chosen is None else RuleFailure(rule.name, None)


def _trail(state: AgentState, window: int) -> list[tuple[str, str | None]]:
    """Return the targets and tasks since the run began or a human was asked.

    Raises StateError for a broken entry.
    """
    past = state.get("routing_history", [])
    start = max(0, len(past) - window - 1)
    newest = past[start:]

    if _HISTORY.issues(newest):  # one check of all; the entries alone only when one is broken
        broken: list[Issue] = []
        for index, entry in enumerate(newest, start):
            broken += _HISTORY_ENTRY.issues(entry, pointer("/routing_history", index))
        StateError.raise_for(broken)

    # the newest entry may already be the present decision
    if newest and newest[-1]["loop_count"] == state["loop_count"]:
        newest = newest[:-1]

    trail: list[tuple[str, str | None]] = []
    count = state["loop_count"]
    for entry in reversed(newest):
        if entry["to"] in (END, HUMAN_INPUT) or entry["loop_count"] > count:
            break

        count = entry["loop_count"]
        trail.append((entry["to"], entry["task"]))

    return trail[::-1]


def _limit(argument: int, state: AgentState, routes: Routes) -> int:
    if not isinstance(argument, _DocumentedLimit):
        if not is_count(argument):
            raise ContractError("max_loop_count must be a whole number, 0 or more")
        return argument

    for own in (state.get("max_loop_count"), routes.max_loop_count):
        if own is not None:
            return own

    spelt = os.environ.get(MAX_LOOP_COUNT_VARIABLE)
    if spelt is None:
        return int(DEFAULT_MAX_LOOP_COUNT)

    if not re.fullmatch(r"[0-9]{1,9}", spelt):
        raise ContractError(
            f"{MAX_LOOP_COUNT_VARIABLE} must be a whole number, 0 or more; "
            "unset it to use the default"
        )

    return int(spelt)


Node = TypeVar("Node", bound=Callable[..., Any])


def counted(
    node: Node,
    *,
    name: str | None = None,
    routes: Routes | None = None,
    metrics: RunMetrics | None = None,
    is_open: Callable[[Mapping[str, object]], bool] = lambda _: False,
    now: Now = utc_now,
) -> Node:
    """Guard a node, a sync or async function of the state, and count its executions.

    Each execution adds 1 to ``loop_count``, whatever the node itself does with it; guarding twice
    counts once. With ``routes`` the next decision is recorded in ``routing_history``, and with
    ``metrics`` the execution is counted, both under ``name``, by default the function's name. If
    ``is_open`` is true for the updated state, the execution continues in the next one and counts as
    one with it. The guarded node raises StateError for an invalid update.
    """
    label = name or str(getattr(node, "__name__", type(node).__name__))

    def measured() -> AbstractContextManager[Measured]:
        if metrics is None:  # without metrics there is no lock, which could not be pickled
            return nullcontext(Measured())
        return metrics.measure(Activity.NODE_EXECUTIONS, label)

    def goes_on(state: AgentState, returned: Mapping[str, object] | None) -> bool:
        return isinstance(returned, Mapping) and is_open({**state, **returned})

    def finished(state: AgentState, returned: Mapping[str, object] | None) -> JSONObject:
        if returned is not None and goes_on(state, returned):
            return dict(returned)

        updated = apply_update(state, returned)
        after = changed(updated, loop_count=increment_loop_count(state)["loop_count"])

        if routes is not None:
            decision = explain_route(after, routes=routes)
            limit = HISTORY_LIMIT
            if routes.cycle is not None:  # keep enough entries to find the longest loop
                limit = max(limit, routes.cycle.window + 1)
            after = record_route(after, decision, source=label, now=now, limit=limit)

        old = {key: state.get(key, ...) for key in after}
        written = returned or ()

        return {
            key: new
            for key, new in after.items()
            if key in written or (old[key] is not new and old[key] != new)
        }

    @functools.wraps(node)
    def run(state: AgentState, *args: object, **kwargs: object) -> JSONObject:
        with measured() as execution:
            returned = node(state, *args, **kwargs)
            execution.counts = not goes_on(state, returned)
        return finished(state, returned)

    @functools.wraps(node)
    async def run_async(state: AgentState, *args: object, **kwargs: object) -> JSONObject:
        with measured() as execution:
            returned = await node(state, *args, **kwargs)
            execution.counts = not goes_on(state, returned)
        return finished(state, returned)

    # an object whose call is a coroutine function is async, too
    called = getattr(node, "__call__", None)  # noqa: B004
    is_async = inspect.iscoroutinefunction(node) or inspect.iscoroutinefunction(called)
    return cast("Node", run_async if is_async else run)
