"""Where a run goes next: one decision from a state and a table of routes, with its reason. Pure: nothing is changed.

The order is the published one: loop limit, completion, human input, next agent, end; rules of the user's own stand
between by their priority, and a hop that would close a loop ends the run instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from strictreply.coordination._runs.human_turn import pending_requests
from strictreply.coordination._runs.route_table import (
    COMPLETION_PRIORITY,
    HUMAN_PRIORITY,
    NEXT_PRIORITY,
    RouteRule,
    Routes,
    is_count,
)
from strictreply.coordination._runs.run_state import (
    END,
    HISTORY_ENTRY,
    HUMAN_INPUT,
    OPTIONAL_FIELDS,
    ROUTING_FIELDS,
    AgentState,
    Now,
    RoutingEntry,
    RunEnding,
    S,
    changed,
    require,
    utc_now,
)
from strictreply.coordination._runs.state_schema import NAME, StateSchema, record
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer
from strictreply.values._json import JSONObject

MAX_LOOP_COUNT_VARIABLE: Final = "STRICTREPLY_MAX_LOOP_COUNT"
HISTORY_LIMIT: Final = 50
"""The entries that ``routing_history`` keeps at least, the newest."""

_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)
_ROUTED = StateSchema(record(ROUTING_FIELDS, optional=OPTIONAL_FIELDS))
_ROUTED_BY_ID = StateSchema(record(ROUTING_FIELDS | {"conversation_id": NAME}, optional=OPTIONAL_FIELDS))
_HISTORY_ENTRY = StateSchema(HISTORY_ENTRY)
_HISTORY = StateSchema({"type": "array", "items": HISTORY_ENTRY})


class _DocumentedLimit(int):
    """The documented limit as a parameter's default: equal to 10, and known from a 10 that a caller wrote."""


DEFAULT_MAX_LOOP_COUNT: Final = _DocumentedLimit(10)
"""The limit when neither a call, a state, a table nor the environment names one (requirement R34)."""

DEFAULT_ROUTES: Final = Routes()


class RouteReason(StrEnum):
    """Why :func:`route_next` chose a target; a :class:`Router` has ``RoutingReason``."""

    LOOP_LIMIT = "loop_limit"
    LOOP_DETECTED = "loop_detected"
    COMPLETED = "completed"
    ABORTED = "aborted"
    HUMAN_INPUT = "human_input"
    USER_RULE = "user_rule"
    NEXT_AGENT = "next_agent"
    NO_TARGET = "no_target"
    UNKNOWN_TARGET = "unknown_target"


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """A rule of the user's that was passed over: the type of what it raised, or None for a target that is no node."""

    rule: str
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteDecision:
    """What :func:`route_next` decides for a state: a target and why. A :class:`Router` makes ``RoutingDecision``.

    ``rule`` names the rule that chose: a built-in one or the user's. ``loop_count`` and ``max_loop_count`` are the two
    that were compared. ``pending_human_input`` tells that a human is still to be asked, also when the run ends.
    ``strategy`` is the conversation's, None when the table has none. ``loop`` are the nodes that went in circles.
    """

    target: str
    reason: RouteReason
    rule: str
    loop_count: int
    max_loop_count: int
    pending_human_input: bool
    strategy: str | None = None
    failures: tuple[RuleFailure, ...] = ()
    loop: tuple[str, ...] = ()

    def to_dict(self) -> JSONObject:
        """Return the decision as JSON."""
        return {
            "target": self.target,
            "reason": self.reason.value,
            "rule": self.rule,
            "loop_count": self.loop_count,
            "max_loop_count": self.max_loop_count,
            "pending_human_input": self.pending_human_input,
            "strategy": self.strategy,
            "failures": [{"rule": failure.rule, "error": failure.error} for failure in self.failures],
            "loop": list(self.loop),
        }


def route_next(
    state: AgentState, max_loop_count: int = DEFAULT_MAX_LOOP_COUNT, *, routes: Routes = DEFAULT_ROUTES
) -> str:
    """Return the target that a run goes on to, as LangGraph's conditional edges want it.

    The limit is ``max_loop_count`` when it is given, else the state's, the table's, that of the environment variable
    STRICTREPLY_MAX_LOOP_COUNT, or 10. It is held strictly: at a count above the limit the run ends, so that
    limit + 1 node executions are possible (requirement X22).

    Raises StateError naming every field that is missing or mistyped; a ``next_agent`` that is no node leads to the
    end. Raises ContractError, a ValueError, for a limit that is no whole number or negative.
    """
    return explain_route(state, max_loop_count, routes=routes).target


def explain_route(
    state: AgentState, max_loop_count: int = DEFAULT_MAX_LOOP_COUNT, *, routes: Routes = DEFAULT_ROUTES
) -> RouteDecision:
    """Decide as :func:`route_next` does, and say why; raises the same."""
    require((_ROUTED_BY_ID if routes.strategies else _ROUTED).issues(state))
    limit = _limit(max_loop_count, state, routes)
    strategy = routes.strategy_for(state["conversation_id"]) if routes.strategies else None
    situation = _Situation(state, limit, bool(pending_requests(state)) or state["requires_human_input"], routes)
    choice = next(_choices(situation, routes.rules_of(strategy)))
    loop = _loop_closed_by(choice.target, state, routes)
    if loop:
        choice = _RuleChoice(END, RouteReason.LOOP_DETECTED, "loop_detected")
    return RouteDecision(
        target=choice.target,
        reason=choice.reason,
        rule=choice.rule,
        loop_count=state["loop_count"],
        max_loop_count=limit,
        pending_human_input=situation.pending,
        strategy=strategy.name if strategy else None,
        failures=tuple(situation.failures),
        loop=loop,
    )


def conditional_edge(
    routes: Routes = DEFAULT_ROUTES,
    *,
    max_loop_count: int = DEFAULT_MAX_LOOP_COUNT,
    observe: Callable[[RouteDecision], None] | None = None,
) -> Callable[[AgentState], str]:
    """Make the function for ``add_conditional_edges`` from a table; ``observe`` is told each decision, to count it."""

    def route(state: AgentState) -> str:
        decision = explain_route(state, max_loop_count, routes=routes)
        if observe is not None:
            observe(decision)
        return decision.target

    return route


def history_limit(routes: Routes) -> int:
    """Return how many decisions a history keeps, so that circles of the length that the table looks for are found."""
    return HISTORY_LIMIT if routes.cycle is None else max(HISTORY_LIMIT, routes.cycle.window + 1)


def record_route(
    state: S, decision: RouteDecision, *, source: str | None = None, now: Now = utc_now, limit: int = HISTORY_LIMIT
) -> S:
    """Write a decision into ``routing_history``, which keeps the newest ``limit`` entries.

    Circles are found within that many: see :func:`history_limit`.

    ``source`` is the node that the run comes from, None for the target of the entry before. The route of a state does
    not change by being recorded.
    """
    past = _history(state)
    entry: RoutingEntry = {
        "ts": now().isoformat(),
        "from": source or (past[-1]["to"] if past and past[-1]["to"] != END else None),
        "to": decision.target,
        "reason": decision.reason.value,
        "loop_count": decision.loop_count,
        "task": _task(state),
    }
    return changed(state, routing_history=[*past, entry][-limit:])


@dataclass(frozen=True, slots=True)
class _RuleChoice:
    """What one rule chooses."""

    target: str
    reason: RouteReason
    rule: str


@dataclass(frozen=True, slots=True)
class _Situation:
    """What the rules look at; ``failures`` grows while rules of the user's are passed over."""

    state: AgentState
    limit: int
    pending: bool
    routes: Routes
    failures: list[RuleFailure] = field(default_factory=list)


def _choices(situation: _Situation, rules: tuple[RouteRule, ...]) -> Iterator[_RuleChoice]:
    """Yield what each rule chooses, the first first; the last one always chooses."""
    state = situation.state
    if state["loop_count"] > situation.limit:
        yield _RuleChoice(END, RouteReason.LOOP_LIMIT, "loop_limit")
    yield from _users(situation, (rule for rule in rules if rule.priority > COMPLETION_PRIORITY))
    if state["is_complete"]:
        yield _RuleChoice(END, RouteReason(state.get("ending") or RunEnding.COMPLETED), "completion")
    yield from _users(situation, (rule for rule in rules if COMPLETION_PRIORITY >= rule.priority > HUMAN_PRIORITY))
    if situation.pending:
        yield _RuleChoice(HUMAN_INPUT, RouteReason.HUMAN_INPUT, "human_input")
    yield from _users(situation, (rule for rule in rules if HUMAN_PRIORITY >= rule.priority > NEXT_PRIORITY))
    target = _known(state["next_agent"], situation.routes)
    if target is not None:
        yield _RuleChoice(target, RouteReason.NEXT_AGENT, "next_agent")
    yield from _users(situation, (rule for rule in rules if rule.priority <= NEXT_PRIORITY))
    reason = RouteReason.NO_TARGET if state["next_agent"] is None else RouteReason.UNKNOWN_TARGET
    yield _RuleChoice(END, reason, "fallback")


def _users(situation: _Situation, rules: Iterator[RouteRule]) -> Iterator[_RuleChoice]:
    """Yield what rules of the user's choose; one that raises or names no node is noted and passed over."""
    for rule in rules:
        try:
            chosen: object = rule.decide(MappingProxyType(situation.state))
        except Exception as error:  # noqa: BLE001 - a rule of the user's must not stop the run (requirement R37)
            situation.failures.append(RuleFailure(rule.name, type(error).__name__))
            continue
        target = _known(chosen, situation.routes)
        if target is not None:
            yield _RuleChoice(target, RouteReason.USER_RULE, rule.name)
        elif chosen is not None:
            situation.failures.append(RuleFailure(rule.name, None))


def _known(target: object, routes: Routes) -> str | None:
    """Return the table's own spelling of a target; None for what is no node."""
    return next((node for node in routes.nodes if node == target), None)


def _loop_closed_by(target: str, state: AgentState, routes: Routes) -> tuple[str, ...]:
    """Return the nodes of the loop that a hop to ``target`` would close; empty when it closes none."""
    if routes.cycle is None or target in (END, HUMAN_INPUT):
        return ()
    trail = [*_trail(state, routes.cycle.window), (target, _task(state))]
    return tuple(node for node, _ in routes.cycle.loop(trail))


def _history(state: AgentState) -> list[RoutingEntry]:
    return state.get("routing_history", [])


def _newest(state: AgentState, number: int) -> list[RoutingEntry]:
    """Return the newest recorded decisions; StateError when one of them is none."""
    past = _history(state)
    start = max(0, len(past) - number)
    if not _HISTORY.issues(past[start:]):  # one check of all; only a broken one is looked for
        return past[start:]
    places = ((entry, pointer("/routing_history", start + index)) for index, entry in enumerate(past[start:]))
    require(issue for entry, place in places for issue in _HISTORY_ENTRY.issues(entry, place))
    return past[start:]


def _task(state: AgentState) -> str | None:
    """Return what is being worked on; the same hop for another task is no circle."""
    return state.get("current_task")


def _trail(state: AgentState, window: int) -> list[tuple[str, str | None]]:
    """Return the hops and their tasks since the run began or a human was asked, the oldest first.

    A decision that was already recorded for this count is the one that is being made, not a hop before it.
    """
    past = _newest(state, window + 1)
    if past and past[-1]["loop_count"] == state["loop_count"]:
        past = past[:-1]
    trail: list[tuple[str, str | None]] = []
    count = state["loop_count"]
    for entry in reversed(past):
        if entry["to"] in (END, HUMAN_INPUT) or entry["loop_count"] > count:
            break
        count = entry["loop_count"]
        trail.append((entry["to"], entry["task"]))
    return trail[::-1]


def _limit(argument: int, state: AgentState, routes: Routes) -> int:
    """Return which limit holds: the call's, the state's, the table's, the environment's, or the documented one."""
    if not isinstance(argument, _DocumentedLimit):
        if not is_count(argument):
            raise ContractError("max_loop_count must be a whole number, 0 or more")
        return argument
    if (own := state.get("max_loop_count")) is not None:
        return own
    return _environment_limit() if routes.max_loop_count is None else routes.max_loop_count


def _environment_limit() -> int:
    spelt = os.environ.get(MAX_LOOP_COUNT_VARIABLE)
    if spelt is None:
        return int(DEFAULT_MAX_LOOP_COUNT)
    if not _DIGITS.fullmatch(spelt):
        raise ContractError(f"{MAX_LOOP_COUNT_VARIABLE} must be a whole number, 0 or more; unset it to use the default")
    return int(spelt)
