"""Where a run goes next: the published priorities, the limits and the reasons.

Some states are refused.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import subprocess
import sys
from dataclasses import asdict
from itertools import product
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import ContractError, StrictReplyError
from strictreply.coordination import (
    AgentState,
    CoordinationCode,
    CycleLimit,
    RouteDecision,
    RouteReason,
    RouteRule,
    Routes,
    RouteStrategy,
    RuleFailure,
    StateError,
    create_initial_state,
    edge_map,
    explain_route,
    increment_loop_count,
    record_route,
    request_human_input,
    route_next,
)
from strictreply.coordination.graph import DEFAULT_MAX_LOOP_COUNT, MAX_LOOP_COUNT_VARIABLE
from strictreply.coordination.state import DEFAULT_NODES
from support.coordination.tutor import NOON, changed, noon, state_with, without


@pytest.fixture(autouse=True)
def _no_limit_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have set a limit."""
    monkeypatch.delenv(MAX_LOOP_COUNT_VARIABLE, raising=False)


@pytest.mark.req("R1")
def test_the_signature_is_the_published_one() -> None:
    """``route_next(state, max_loop_count=10) -> str``: two parameters by position, and no LangGraph
    is imported.
    """
    parameters = inspect.signature(route_next).parameters
    positional = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert positional == ["state", "max_loop_count"]
    assert parameters["max_loop_count"].default == 10

    assert repr(parameters["max_loop_count"].default) == "10"
    assert get_type_hints(route_next)["return"] is str
    target = route_next(state_with(next_agent="coordinator"))
    assert (type(target), target) == (str, "coordinator")

    script = "import strictreply.coordination.graph, sys; print('langgraph' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.req("R2", "R8")
@pytest.mark.parametrize(
    ("count", "limit", "target"),
    [
        (11, 10, "end"),
        (10, 10, "coordinator"),
        (0, 0, "coordinator"),
        (1, 0, "end"),
        (6, 10, "coordinator"),
        (6, 5, "end"),
        *((count, 15, "coordinator") for count in range(11, 16)),
        (16, 15, "end"),
    ],
)
def test_the_loop_limit_is_strict(count: int, limit: int, target: str) -> None:
    """A run ends above the limit, not at it, whatever limit is given."""
    state = state_with(loop_count=count, next_agent="coordinator")
    decision = explain_route(state, limit)
    assert (decision.target, decision.loop_count, decision.max_loop_count) == (target, count, limit)
    assert decision.reason == (
        RouteReason.LOOP_LIMIT if target == "end" else RouteReason.NEXT_AGENT
    )
    assert route_next(state, limit) == target
    assert route_next(state, max_loop_count=limit) == target


@pytest.mark.req("R3")
def test_completion_ends_a_run() -> None:
    """A complete state ends, whatever agent is next."""
    decision = explain_route(state_with(is_complete=True, next_agent="coordinator"))
    assert (decision.target, decision.reason, decision.rule) == (
        "end",
        RouteReason.COMPLETED,
        "completion",
    )


@pytest.mark.req("R4")
def test_a_needed_human_comes_before_the_next_agent() -> None:
    """A state that needs a human goes to the human, whatever agent is next."""
    decision = explain_route(state_with(requires_human_input=True, next_agent="coordinator"))
    assert (decision.target, decision.reason) == ("human_input", RouteReason.HUMAN_INPUT)
    assert decision.pending_human_input


@pytest.mark.req("R5")
@pytest.mark.parametrize(
    "node", ["coordinator", "course_advisor", "learning_planner", "human_input", "end"]
)
def test_a_known_next_agent_is_the_target(node: str) -> None:
    """Each of the five nodes is a target."""
    decision = explain_route(state_with(next_agent=node))
    assert (decision.target, decision.reason) == (node, RouteReason.NEXT_AGENT)


@pytest.mark.req("R6")
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (None, RouteReason.NO_TARGET),
        *(
            (name, RouteReason.UNKNOWN_TARGET)
            for name in ("", "invalid_agent", "Coordinator", " coordinator ")
        ),
        *((value, RouteReason.UNKNOWN_TARGET) for value in (0, True, ["coordinator"], {"a": 1})),
    ],
)
def test_no_known_next_agent_ends_the_run(target: object, reason: RouteReason) -> None:
    """None and what is no node lead to the end, for reasons that are told apart; nothing is trimmed
    or folded.
    """
    decision = explain_route(state_with(next_agent=target))
    assert (decision.target, decision.reason, decision.rule) == ("end", reason, "fallback")


@pytest.mark.req("R7")
@pytest.mark.parametrize("flags", list(product([False, True], repeat=4)))
def test_the_priority_of_the_rules(flags: tuple[bool, bool, bool, bool]) -> None:
    """In all 16 combinations the first to hold decides: loop, complete, human, next agent, end."""
    loop, complete, human, target = flags
    decision = explain_route(
        state_with(
            loop_count=11 if loop else 10,
            is_complete=complete,
            requires_human_input=human,
            next_agent="learning_planner" if target else None,
        )
    )

    table = [
        (loop, "end", RouteReason.LOOP_LIMIT),
        (complete, "end", RouteReason.COMPLETED),
        (human, "human_input", RouteReason.HUMAN_INPUT),
        (target, "learning_planner", RouteReason.NEXT_AGENT),
        (True, "end", RouteReason.NO_TARGET),
    ]
    expected = next(row for row in table if row[0])
    assert (True, decision.target, decision.reason) == expected


ROUTED = ("loop_count", "is_complete", "requires_human_input", "next_agent")


@pytest.mark.req("R9")
@pytest.mark.parametrize("missing", [*((name,) for name in ROUTED), ROUTED[:2], ROUTED])
def test_missing_fields_are_all_named(missing: tuple[str, ...]) -> None:
    """A state without fields that routing needs is refused with every one of them."""
    with pytest.raises(StateError) as caught:
        route_next(without(state_with(), *missing))
    assert [issue.code for issue in caught.value.issues] == [
        CoordinationCode.STATE_MISSING_FIELD
    ] * len(missing)
    assert {issue.path for issue in caught.value.issues} == {f"/{name}" for name in missing}


@pytest.mark.req("R10")
@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("loop_count", True, CoordinationCode.STATE_WRONG_TYPE),
        ("loop_count", "3", CoordinationCode.STATE_WRONG_TYPE),
        ("loop_count", 3.0, CoordinationCode.STATE_WRONG_TYPE),
        ("loop_count", None, CoordinationCode.STATE_WRONG_TYPE),
        ("loop_count", -1, CoordinationCode.STATE_NEGATIVE),
        ("is_complete", "false", CoordinationCode.STATE_WRONG_TYPE),
        ("is_complete", 0, CoordinationCode.STATE_WRONG_TYPE),
        ("requires_human_input", "false", CoordinationCode.STATE_WRONG_TYPE),
        ("requires_human_input", None, CoordinationCode.STATE_WRONG_TYPE),
        ("max_loop_count", -1, CoordinationCode.STATE_NEGATIVE),
        ("max_loop_count", "5", CoordinationCode.STATE_WRONG_TYPE),
        ("human_requests", {}, CoordinationCode.STATE_WRONG_TYPE),
        ("routing_history", [{"to": "coordinator"}], CoordinationCode.STATE_MISSING_FIELD),
        ("ending", "other", CoordinationCode.STATE_UNKNOWN_WORD),
    ],
)
def test_mistyped_fields_are_refused(field: str, value: object, code: CoordinationCode) -> None:
    """A value of another type is an error that names its field, never a truth value."""
    with pytest.raises(StateError) as caught:
        explain_route(state_with(**{"next_agent": "coordinator", field: value}))
    assert {issue.code for issue in caught.value.issues} == {code}
    assert all(issue.path.startswith(f"/{field}") for issue in caught.value.issues)
    assert isinstance(caught.value, StrictReplyError)


@pytest.mark.parametrize("state", [None, [], "state", 5])
def test_what_is_no_mapping_is_no_state(state: Any) -> None:
    """A state must be a mapping."""
    with pytest.raises(StateError) as caught:
        route_next(state)
    assert [issue.code for issue in caught.value.issues] == [CoordinationCode.STATE_NOT_OBJECT]


STATES = st.builds(
    state_with,
    loop_count=st.integers(0, 20),
    is_complete=st.booleans(),
    requires_human_input=st.booleans(),
    next_agent=st.sampled_from([*DEFAULT_NODES, None, "nobody"]),
)


@pytest.mark.req("R11", "R31")
@given(state=STATES, limit=st.integers(0, 20))
def test_routing_is_pure_and_total(state: AgentState, limit: int) -> None:
    """Property 8: the same state gives the same known node, whose reason is one of ours, and is
    left as it was.
    """
    before = copy.deepcopy(state)
    first = explain_route(state, limit)
    second = explain_route(state, limit)
    assert first == second

    assert state == before
    assert first.target in DEFAULT_NODES
    assert first.target == route_next(state, limit)
    assert isinstance(first.reason, RouteReason)

    assert json.loads(json.dumps(asdict(first)))["target"] == first.target


@pytest.mark.req("R12")
def test_a_graph_may_have_other_nodes() -> None:
    """Nodes are configurable: those of the table are targets, those of the documents no longer."""
    routes = Routes(nodes=("triage", "billing", "human_input", "end"))
    assert route_next(state_with(next_agent="billing"), routes=routes) == "billing"
    assert (
        explain_route(state_with(next_agent="coordinator"), routes=routes).reason
        is RouteReason.UNKNOWN_TARGET
    )


@pytest.mark.req("R13")
def test_a_human_request_shows_where_the_limit_ends_the_run() -> None:
    """A loop that ends while a human is still to be asked says so."""
    state = request_human_input(
        state_with(loop_count=11, next_agent="coordinator"), "Really?", now=noon
    )
    decision = explain_route(state)
    assert (decision.target, decision.reason) == ("end", RouteReason.LOOP_LIMIT)
    assert (decision.loop_count, decision.max_loop_count, decision.pending_human_input) == (
        11,
        10,
        True,
    )

    assert not explain_route(state_with(loop_count=11)).pending_human_input


@pytest.mark.req("R34")
def test_the_order_in_which_limits_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument wins over the state, the state over the table, the table over the environment,
    that over 10.
    """

    # The default is frozen.
    def limit(state: AgentState, *arguments: int, routes: Routes = Routes()) -> int:  # noqa: B008
        """Return the limit that held: at this count the run goes on, at the next it ends."""
        held = explain_route(state, *arguments, routes=routes).max_loop_count
        for over, target in enumerate(("coordinator", "end")):
            counted = changed(state, loop_count=held + over, next_agent="coordinator")
            assert route_next(counted, *arguments, routes=routes) == target
        return held

    plain = state_with()
    own = state_with(max_loop_count=7)
    table = Routes(max_loop_count=8)
    assert limit(plain) == 10

    monkeypatch.setenv(MAX_LOOP_COUNT_VARIABLE, "9")
    assert limit(plain) == 9
    assert limit(plain, routes=table) == 8
    assert limit(own, routes=table) == 7

    assert limit(own, 6, routes=table) == 6
    assert limit(own, 10) == 10  # a 10 that is written is no default
    assert limit(own, DEFAULT_MAX_LOOP_COUNT) == 7
    assert limit(own, 0) == 0

    assert limit(state_with(max_loop_count=0)) == 0
    assert limit(plain, routes=Routes(max_loop_count=0)) == 0
    monkeypatch.setenv(MAX_LOOP_COUNT_VARIABLE, "0")
    assert limit(plain) == 0


@pytest.mark.req("R34")
@pytest.mark.parametrize("limit", [-1, True, False, "5", 5.0, None])
def test_what_is_no_limit_is_refused(limit: Any) -> None:
    """A negative limit, a bool and what is no whole number is a ValueError: at a call, in a table,
    in a state.
    """
    with pytest.raises(ContractError):
        route_next(state_with(), limit)

    if limit is not None:
        with pytest.raises(StateError):
            create_initial_state(max_loop_count=limit)

        with pytest.raises(ContractError):
            Routes(max_loop_count=limit)

        with pytest.raises(StateError):
            route_next(state_with(max_loop_count=limit))

    assert issubclass(ContractError, ValueError)
    assert issubclass(StateError, ValueError)


@pytest.mark.req("R34")
@pytest.mark.parametrize("spelt", ["", "-1", "ten", "1.5", "1_0", " 5", "５", "9" * 5_000])
def test_the_environment_is_read_strictly(spelt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable of the environment must be a whole number in digits."""
    monkeypatch.setenv(MAX_LOOP_COUNT_VARIABLE, spelt)
    with pytest.raises(ContractError):
        route_next(state_with())
    assert route_next(state_with(), 3) == "end"  # a limit that is given needs no environment


@pytest.mark.req("R36")
def test_the_history_stands_in_the_state() -> None:
    """A decision is recorded as when, from where, to where, why and at which count; the old state
    is as it was.
    """
    state = state_with(next_agent="course_advisor", loop_count=1, current_task="courses")
    once = record_route(state, explain_route(state), source="coordinator", now=noon)
    assert state["routing_history"] == []
    assert once["routing_history"] == [
        {
            "ts": NOON.isoformat(),
            "from": "coordinator",
            "to": "course_advisor",
            "reason": "next_agent",
            "loop_count": 1,
            "task": "courses",
        }
    ]

    again = increment_loop_count(changed(once, next_agent="learning_planner"))
    twice = record_route(again, explain_route(again), now=noon)
    assert [(entry["from"], entry["to"]) for entry in twice["routing_history"]] == [
        ("coordinator", "course_advisor"),
        ("course_advisor", "learning_planner"),
    ]

    assert json.loads(json.dumps(twice["routing_history"])) == twice["routing_history"]


@pytest.mark.req("R36")
def test_the_history_is_bounded() -> None:
    """Only the newest entries are kept."""
    state = state_with(next_agent="end")
    for count in range(60):
        state = record_route(changed(state, loop_count=count), explain_route(state), now=noon)
    assert len(state["routing_history"]) == 50
    assert len(record_route(state, explain_route(state), now=noon, limit=3)["routing_history"]) == 3


@pytest.mark.req("R37")
@pytest.mark.parametrize(
    ("priority", "fields", "target"),
    [
        (10**9, {"loop_count": 11}, "end"),
        (301, {"is_complete": True}, "learning_planner"),
        (300, {"is_complete": True}, "end"),
        (299, {"is_complete": True}, "end"),
        (201, {"requires_human_input": True}, "learning_planner"),
        (200, {"requires_human_input": True}, "human_input"),
        (101, {"next_agent": "coordinator"}, "learning_planner"),
        (100, {"next_agent": "coordinator"}, "coordinator"),
        (100, {"next_agent": None}, "learning_planner"),
        (-5, {"next_agent": "nobody"}, "learning_planner"),
    ],
)
def test_a_rule_stands_where_its_priority_says(
    priority: int, fields: dict[str, Any], target: str
) -> None:
    """A rule may stand anywhere among the built-in ones, which win ties; the loop limit is always
    first.
    """
    routes = Routes(rules=(RouteRule("mine", priority, lambda state: "learning_planner"),))
    decision = explain_route(state_with(**fields), routes=routes)
    assert decision.target == target
    assert (decision.rule == "mine") is (target == "learning_planner")
    assert (decision.reason is RouteReason.USER_RULE) is (target == "learning_planner")


@pytest.mark.req("R37")
def test_rules_are_asked_in_order_and_may_pass() -> None:
    """The higher priority is asked first, of equals the one declared first; None leaves the choice
    to the next.
    """
    asked: list[str] = []

    def rule(name: str, priority: int, answer: str | None = None) -> RouteRule:
        """Make a rule that notes when it is asked."""

        def decide(state: object) -> str | None:
            """Note it and answer."""
            asked.append(name)
            return answer

        return RouteRule(name, priority, decide)

    rules = (
        rule("low", 1),
        rule("b", 150),
        rule("a", 150),
        rule("high", 400),
        rule("late", -1, "coordinator"),
    )
    assert route_next(state_with(), routes=Routes(rules=rules)) == "coordinator"
    assert asked == ["high", "b", "a", "low", "late"]


@pytest.mark.req("R37")
def test_a_failing_rule_is_contained() -> None:
    """A rule that raises, writes into the state or names no node is recorded and passed over."""

    def raising(state: Any) -> str:
        """Raise."""
        raise KeyError("secret")

    def writing(state: Any) -> str:
        """Try to change the state."""
        state["next_agent"] = "course_advisor"
        return "course_advisor"

    rules = (
        RouteRule("raising", 400, raising),
        RouteRule("writing", 399, writing),
        RouteRule("wandering", 398, lambda state: "nowhere"),
        RouteRule("mistyped", 397, lambda state: ["coordinator"]),  # type: ignore[arg-type,return-value]
    )
    state = state_with(next_agent="coordinator")
    decision = explain_route(state, routes=Routes(rules=rules))
    assert (decision.target, decision.rule) == ("coordinator", "next_agent")

    assert decision.failures == (
        RuleFailure("raising", "KeyError"),
        RuleFailure("writing", "TypeError"),
        RuleFailure("wandering", None),
        RuleFailure("mistyped", None),
    )
    assert state["next_agent"] == "coordinator"


def test_rules_are_not_asked_in_vain() -> None:
    """Rules behind the one that chose are not run."""
    late = RouteRule("late", -1, lambda state: pytest.fail("asked in vain"))
    assert (
        route_next(state_with(next_agent="coordinator"), routes=Routes(rules=(late,)))
        == "coordinator"
    )


AB = Routes(
    strategies=(
        RouteStrategy("plain", 1),
        RouteStrategy(
            "planner_first", 1, (RouteRule("planner", 150, lambda state: "learning_planner"),)
        ),
    )
)


@pytest.mark.req("R38")
@given(conversation=st.text(min_size=1).filter(str.strip))
def test_a_conversation_keeps_its_strategy(conversation: str) -> None:
    """The strategy follows from the conversation's id alone; the decision names it, and its rules
    hold.
    """
    state = state_with(conversation_id=conversation, next_agent="coordinator")
    decision = explain_route(state, routes=AB)
    later = explain_route(changed(state, loop_count=5), routes=AB)
    assert decision.strategy == later.strategy
    assert (
        decision.target
        == {"plain": "coordinator", "planner_first": "learning_planner"}[str(decision.strategy)]
    )


@pytest.mark.req("R38")
def test_weights_share_the_conversations() -> None:
    """Weight 0 gets none, 100 of 100 all, and equal weights about half each; an experiment's name
    deals anew.
    """
    ids = [f"conversation-{number}" for number in range(400)]

    def shares(first: int, second: int, experiment: str = "") -> list[str]:
        """Return the strategy of each conversation."""
        strategies = (RouteStrategy("a", first), RouteStrategy("b", second))
        routes = Routes(strategies=strategies, experiment=experiment)
        return [
            str(explain_route(state_with(conversation_id=one), routes=routes).strategy)
            for one in ids
        ]

    assert set(shares(100, 0)) == {"a"}
    assert set(shares(0, 100)) == {"b"}
    assert 160 <= shares(50, 50).count("a") <= 240
    assert 60 <= shares(20, 80).count("a") <= 100

    assert shares(50, 50) == shares(50, 50)
    assert shares(50, 50) != shares(50, 50, "another")
    assert explain_route(state_with()).strategy is None


@pytest.mark.req("R38")
def test_strategies_need_a_conversation() -> None:
    """With strategies, a state without a conversation id is refused like any missing field."""
    with pytest.raises(StateError) as caught:
        route_next(without(state_with(), "conversation_id"), routes=AB)
    assert [issue.path for issue in caught.value.issues] == ["/conversation_id"]


def walk(
    targets: list[str], *, routes: Routes, tasks: list[str] | None = None
) -> list[RouteDecision]:
    """Record a decision for each target in turn, a count apart, until one ends the run."""
    state = state_with()
    decisions = list[RouteDecision]()

    for index, target in enumerate(targets):
        task = tasks[index] if tasks else None
        state = changed(state, next_agent=target, loop_count=index, current_task=task)
        decisions.append(explain_route(state, routes=routes))
        state = record_route(state, decisions[-1], now=noon)
        assert explain_route(state, routes=routes) == decisions[-1]

        if decisions[-1].target == "end":
            break

    return decisions


@pytest.mark.req("R39")
@pytest.mark.parametrize("repeats", [2, 3, 4])
def test_going_to_and_fro_is_a_loop(repeats: int) -> None:
    """A cycle of two nodes ends where it would close its k-th round, before the count limit, and
    names the nodes.
    """
    routes = Routes(cycle=CycleLimit(repeats=repeats))
    decisions = walk(["course_advisor", "coordinator"] * 10, routes=routes)
    last = decisions[-1]
    assert (last.target, last.reason, last.rule) == (
        "end",
        RouteReason.LOOP_DETECTED,
        "loop_detected",
    )

    assert last.loop == ("course_advisor", "coordinator")
    assert len(decisions) == 2 * repeats
    assert last.loop_count < last.max_loop_count


@pytest.mark.req("R39")
def test_the_same_call_again_and_again_is_a_loop() -> None:
    """The same node on the same task three times is a loop; on other tasks it is work."""
    assert (
        walk(["coordinator"] * 9, routes=Routes(), tasks=["a"] * 9)[-1].reason
        is RouteReason.LOOP_DETECTED
    )
    assert len(walk(["coordinator"] * 9, routes=Routes(), tasks=["a"] * 9)) == 3
    assert (
        walk(["coordinator"] * 9, routes=Routes(), tasks=list("abcdefghi"))[-1].target
        == "coordinator"
    )


def test_loops_may_be_allowed() -> None:
    """Without a cycle limit only the count ends a run."""
    decisions = walk(["course_advisor", "coordinator"] * 10, routes=Routes(cycle=None))
    assert (decisions[-1].reason, len(decisions)) == (RouteReason.LOOP_LIMIT, 12)


@pytest.mark.parametrize("pause", ["human_input", "end"])
def test_a_human_or_an_end_begins_a_new_trail(pause: str) -> None:
    """After a human's answer, or in a new run, the same hops count anew."""
    state = state_with(next_agent="coordinator")
    for count in range(9):
        target = pause if count % 3 == 2 else "coordinator"
        state = changed(state, next_agent=target, loop_count=count)
        decision = explain_route(state)
        assert decision.target == target
        state = record_route(state, decision, now=noon)


def test_a_count_that_went_back_begins_a_new_trail() -> None:
    """Entries of an earlier run, at a higher count, are no part of this one's trail."""
    state = state_with(next_agent="coordinator")
    for count in (1, 2, 0, 1, 0, 1):
        state = changed(state, loop_count=count)
        decision = explain_route(state)
        assert decision.target == "coordinator"
        state = record_route(state, decision, now=noon)


def test_only_the_newest_entries_are_read() -> None:
    """Entries beyond the window are not read; a broken entry within it is named by its place."""
    state = state_with(next_agent="coordinator", loop_count=9)
    entry = {
        "ts": "",
        "from": None,
        "to": "course_advisor",
        "reason": "",
        "loop_count": 1,
        "task": None,
    }
    assert (
        route_next(
            changed(state, routing_history=[5] + [entry] * 2 + [{**entry, "to": "end"}] * 47)
        )
        == "coordinator"
    )

    with pytest.raises(StateError) as caught:
        route_next(changed(state, routing_history=[entry] * 60 + [{**entry, "to": None}]))

    assert [issue.path for issue in caught.value.issues] == ["/routing_history/60/to"]


def test_uncounted_nodes_are_caught_too() -> None:
    """When nobody counts, a loop is still found, a hop later."""
    state = state_with(next_agent="coordinator")
    decisions = list[RouteDecision]()
    while not decisions or decisions[-1].target != "end":
        decisions.append(explain_route(state))
        state = record_route(state, decisions[-1], now=noon)
    assert (len(decisions), decisions[-1].reason) == (4, RouteReason.LOOP_DETECTED)


def test_the_edge_map_leads_each_node_to_itself() -> None:
    """X24: the mapping for conditional edges has every node; the end may be another name, such as
    LangGraph's.
    """
    assert edge_map() == {node: node for node in DEFAULT_NODES}
    assert edge_map(end_target="__end__")["end"] == "__end__"
    routes = Routes(nodes=("triage", "human_input", "end"))
    assert edge_map(routes, end_target="stop") == {
        "triage": "triage",
        "human_input": "human_input",
        "end": "stop",
    }


def test_an_edge_of_a_table_is_the_function_itself() -> None:
    """With its table and limit filled in, :func:`route_next` is what conditional edges take."""
    edge = functools.partial(route_next, routes=Routes(max_loop_count=1))
    assert edge(state_with(next_agent="coordinator")) == "coordinator"
    assert edge(state_with(next_agent="coordinator", loop_count=2)) == "end"
    assert functools.partial(route_next, max_loop_count=0)(state_with(next_agent="end")) == "end"
