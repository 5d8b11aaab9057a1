"""The table that ``route_next`` decides by: nodes, limits, rules of the user's own, strategies, and the cycle limit.

A table is a value that is checked when it is declared; the decision itself stands in ``next_node``.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, TypeAlias, TypeGuard, TypeVar

from strictreply.coordination._coordination_codes import CoordinationCode, DeclarationError
from strictreply.coordination._runs.run_state import DEFAULT_NODES, END, HUMAN_INPUT
from strictreply.values._issues import Issue, pointer

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class CycleLimit:
    """A trail is a loop when its end is one piece of at most ``longest`` steps, ``repeats`` times in a row.

    16 steps are a round of five agents that each call a tool before they hand over. Raises ValueError unless
    ``repeats`` is at least 2 and ``longest`` at least 1.
    """

    repeats: int = 3
    longest: int = 16

    def __post_init__(self) -> None:
        if self.repeats < 2 or self.longest < 1:  # noqa: PLR2004 - once is no repetition
            raise ValueError("CycleLimit: repeats must be at least 2, longest at least 1")

    @property
    def window(self) -> int:
        """The number of steps that decide: what is further back does not matter."""
        return self.repeats * self.longest

    def loop(self, trail: Sequence[T]) -> tuple[T, ...]:
        """Return the shortest piece that the trail's end repeats, in order; empty when it does not go in circles."""
        for period in range(1, min(self.longest, len(trail) // self.repeats) + 1):
            piece = tuple(trail[-period:])
            if tuple(trail[-period * self.repeats :]) == piece * self.repeats:
                return piece
        return ()


COMPLETION_PRIORITY: Final = 300
HUMAN_PRIORITY: Final = 200
NEXT_PRIORITY: Final = 100
"""The priorities of the built-in rules; a rule of the user's may stand anywhere among them, after the loop limit."""

BUILT_IN_NAMES: Final = ("loop_limit", "loop_detected", "completion", "human_input", "next_agent", "fallback")

RouteCondition: TypeAlias = Callable[[Mapping[str, Any]], str | None]
"""Gives a target, or None to leave the choice to the rules after it.

The mapping is the run's own state: it cannot be changed, and what lies in it must not be, for no copy is made.
"""


@dataclass(frozen=True, slots=True)
class RouteRule:
    """A rule of the user's own: the higher ``priority`` is asked first, of equals the one declared first.

    The built-in rules have 300 (completion), 200 (human input) and 100 (next agent), and come before a rule that has
    the same; the loop limit comes before all. What a rule raises, and a target that is no node, is recorded in the
    decision, and the next rule is asked.
    """

    name: str
    priority: int
    decide: RouteCondition


@dataclass(frozen=True, slots=True)
class RouteStrategy:
    """One arm of a comparison: ``rules`` beside the table's, for its share of the conversations by ``weight``."""

    name: str
    weight: int
    rules: tuple[RouteRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """The table of :func:`route_next`: where a run may go, and by which rules. A :class:`Router` takes a topology.

    ``nodes`` are the targets, among them ``end`` and ``human_input``. ``max_loop_count`` is the configured limit, None
    to take the environment's or 10. ``cycle`` is how much going in circles is allowed, None for any.
    ``strategies`` share the conversations by a hash of the conversation's id and ``experiment``, so that a
    conversation keeps its strategy and two experiments are independent.

    Raises DeclarationError with every fault.
    """

    nodes: tuple[str, ...] = DEFAULT_NODES
    max_loop_count: int | None = None
    rules: tuple[RouteRule, ...] = ()
    strategies: tuple[RouteStrategy, ...] = ()
    experiment: str = ""
    cycle: CycleLimit | None = field(default_factory=CycleLimit)
    _ordered: Mapping[str, tuple[RouteRule, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Refuse a table that does not hold together; order the rules of each strategy once."""
        for part in ("nodes", "rules", "strategies"):
            object.__setattr__(self, part, tuple(getattr(self, part)))
        if issues := [*_node_and_limit_issues(self), *_rule_issues(self), *_strategy_issues(self)]:
            raise DeclarationError("the route table", issues)
        ordered = {one.name: _ordered(self.rules + one.rules) for one in self.strategies}
        object.__setattr__(self, "_ordered", ordered | {"": _ordered(self.rules)})

    def rules_of(self, strategy: RouteStrategy | None) -> tuple[RouteRule, ...]:
        """Return the user's rules that hold for a strategy, the first to be asked first."""
        return self._ordered["" if strategy is None else strategy.name]

    def strategy_for(self, conversation_id: str) -> RouteStrategy | None:
        """Return the strategy of a conversation, always the same one; None when the table has none."""
        if not self.strategies:
            return None
        spelt = f"{self.experiment}\0{conversation_id}".encode(errors="surrogatepass")
        bounds = list(accumulate(strategy.weight for strategy in self.strategies))
        point = int.from_bytes(hashlib.sha256(spelt).digest()) % bounds[-1]
        return self.strategies[bisect_right(bounds, point)]


def edge_map(routes: Routes | None = None, *, end_target: str = END) -> dict[str, str]:
    """Return the mapping for LangGraph's ``add_conditional_edges``: each node to itself, the end to ``end_target``.

    Pass LangGraph's own ``END`` for a graph without a node of that name (requirement X24).
    """
    nodes = DEFAULT_NODES if routes is None else routes.nodes
    return {node: end_target if node == END else node for node in nodes}


def _ordered(rules: tuple[RouteRule, ...]) -> tuple[RouteRule, ...]:
    """Sort by priority, highest first; equals keep their order."""
    return tuple(sorted(rules, key=lambda rule: -rule.priority))


def _named_once(names: Iterable[object], part: str) -> Iterator[Issue]:
    given = list(names)
    yield from (
        CoordinationCode.ROUTES_BAD_NAME.at(pointer("", part, str(name)))
        for name in given
        if not (isinstance(name, str) and name and name == name.strip())
    )
    repeated = [name for name, times in Counter(map(str, given)).items() if times > 1]
    yield from (CoordinationCode.ROUTES_DUPLICATE.at(pointer("", part, name)) for name in repeated)


def _node_and_limit_issues(routes: Routes) -> Iterator[Issue]:
    yield from _named_once(routes.nodes, "nodes")
    for needed in (END, HUMAN_INPUT):
        if needed not in routes.nodes:
            yield CoordinationCode.ROUTES_MISSING_NODE.at(pointer("/nodes", needed))
    if routes.max_loop_count is not None and not is_count(routes.max_loop_count):
        yield CoordinationCode.ROUTES_BAD_LIMIT.at("/max_loop_count", expected="a whole number, 0 or more, or None")


def _rule_issues(routes: Routes) -> Iterator[Issue]:
    sets = [routes.rules + strategy.rules for strategy in routes.strategies] or [routes.rules]
    named = [issue for rules in sets for issue in _named_once([*BUILT_IN_NAMES, *(one.name for one in rules)], "rules")]
    yield from dict.fromkeys(named)
    for rule in {id(rule): rule for rules in sets for rule in rules}.values():
        if not _is_whole(rule.priority) or not callable(rule.decide):
            expected = "a function of the state, with a whole number for priority"
            yield CoordinationCode.ROUTES_BAD_RULE.at(pointer("/rules", rule.name), expected=expected)


def _strategy_issues(routes: Routes) -> Iterator[Issue]:
    yield from _named_once((strategy.name for strategy in routes.strategies), "strategies")
    for strategy in routes.strategies:
        if not is_count(strategy.weight):
            yield CoordinationCode.ROUTES_BAD_LIMIT.at(
                pointer("/strategies", strategy.name, "weight"), expected="a whole number, 0 or more"
            )
    weights = [strategy.weight for strategy in routes.strategies]
    if weights and all(map(is_count, weights)) and not sum(weights):
        yield CoordinationCode.ROUTES_NO_WEIGHT.at("/strategies")


def is_count(value: object) -> bool:
    """Return whether a value is a whole number, 0 or more; True and False are none."""
    return _is_whole(value) and value >= 0


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
