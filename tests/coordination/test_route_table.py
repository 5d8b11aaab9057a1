"""A route table is checked when it is declared, and finds whether a trail goes in circles."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.coordination import (
    CoordinationCode,
    CycleLimit,
    DeclarationError,
    RouteRule,
    Routes,
    RouteStrategy,
)
from strictreply.coordination.graph import BUILT_IN_NAMES
from strictreply.coordination.state import DEFAULT_NODES


def nothing(state: Any) -> None:
    """Choose nothing."""


def codes(declare: Callable[[], object]) -> list[tuple[str, str]]:
    """Return the code and place of every fault."""
    with pytest.raises(DeclarationError) as caught:
        declare()
    assert isinstance(caught.value, ValueError)
    # The pickle is our own.
    assert pickle.loads(pickle.dumps(caught.value)).issues == caught.value.issues  # noqa: S301
    return [(issue.code, issue.path) for issue in caught.value.issues]


@pytest.mark.req("R12")
def test_the_five_nodes_are_the_default() -> None:
    """Without a word, the nodes are those of the documents."""
    assert Routes().nodes == DEFAULT_NODES
    assert set(DEFAULT_NODES) == {
        "coordinator",
        "course_advisor",
        "learning_planner",
        "human_input",
        "end",
    }


@pytest.mark.req("R12")
def test_the_end_and_the_human_must_be_there() -> None:
    """A table without ``end`` or ``human_input`` is refused with a ValueError that names each."""
    missing = CoordinationCode.ROUTES_MISSING_NODE
    assert codes(lambda: Routes(nodes=("a", "human_input"))) == [(missing, "/nodes/end")]
    assert codes(lambda: Routes(nodes=("a",))) == [
        (missing, "/nodes/end"),
        (missing, "/nodes/human_input"),
    ]


@pytest.mark.parametrize("name", ["", " ", " a", "a ", 5, None])
def test_nodes_have_names(name: Any) -> None:
    """A node's name is text, not blank, without spaces around it."""
    assert (
        codes(lambda: Routes(nodes=(name, "human_input", "end")))[0][0]
        == CoordinationCode.ROUTES_BAD_NAME
    )


def test_every_fault_is_told() -> None:
    """All that is wrong with a table is in one error."""
    rules = (
        RouteRule("a", 1, nothing),
        RouteRule("a", True, nothing),
        RouteRule("fallback", 1, None),  # type: ignore[arg-type]
    )
    strategies = (RouteStrategy("s", -1), RouteStrategy("s", 1))
    found = codes(
        lambda: Routes(
            nodes=("x", "x", "end"), max_loop_count=-1, rules=rules, strategies=strategies
        )
    )
    assert found == [
        (CoordinationCode.ROUTES_DUPLICATE, "/nodes/x"),
        (CoordinationCode.ROUTES_MISSING_NODE, "/nodes/human_input"),
        (CoordinationCode.ROUTES_BAD_LIMIT, "/max_loop_count"),
        (CoordinationCode.ROUTES_DUPLICATE, "/rules/fallback"),
        (CoordinationCode.ROUTES_DUPLICATE, "/rules/a"),
        (CoordinationCode.ROUTES_BAD_RULE, "/rules/a"),
        (CoordinationCode.ROUTES_BAD_RULE, "/rules/fallback"),
        (CoordinationCode.ROUTES_DUPLICATE, "/strategies/s"),
        (CoordinationCode.ROUTES_BAD_LIMIT, "/strategies/s/weight"),
    ]


@pytest.mark.parametrize("name", BUILT_IN_NAMES)
def test_built_in_names_are_taken(name: str) -> None:
    """A rule of the user's cannot pass for a built-in one in a decision."""
    assert codes(lambda: Routes(rules=(RouteRule(name, 1, nothing),))) == [
        (CoordinationCode.ROUTES_DUPLICATE, f"/rules/{name}")
    ]


def test_a_strategy_may_not_repeat_a_rule() -> None:
    """A strategy's rules stand beside the table's; the same name twice could not be told apart."""
    rule = RouteRule("a", 1, nothing)
    strategies = (RouteStrategy("s", 1, (rule,)), RouteStrategy("t", 1))
    assert codes(lambda: Routes(rules=(rule,), strategies=strategies)) == [
        (CoordinationCode.ROUTES_DUPLICATE, "/rules/a")
    ]


def test_a_table_without_strategies_has_none() -> None:
    """Nothing is shared out where there is nothing to compare."""
    assert Routes().strategy_for("c") is None


@pytest.mark.req("R38")
def test_some_strategy_must_have_weight() -> None:
    """Weights that are all 0 share nothing."""
    assert codes(lambda: Routes(strategies=(RouteStrategy("s", 0),))) == [
        (CoordinationCode.ROUTES_NO_WEIGHT, "/strategies")
    ]


@pytest.mark.parametrize("limits", [{"repeats": 1}, {"repeats": 0}, {"longest": 0}])
def test_cycle_limits_make_sense(limits: dict[str, int]) -> None:
    """Once is no repetition, and a loop has at least one step."""
    with pytest.raises(ValueError, match="CycleLimit"):
        CycleLimit(**limits)


@pytest.mark.parametrize(
    ("trail", "loop"),
    [
        ("", ""),
        ("aa", ""),
        ("aaa", "a"),
        ("baaa", "a"),
        ("ababab", "ab"),
        ("xababab", "ab"),
        ("babab", ""),
        ("abababc", ""),
        ("abcabcabc", "abc"),
        ("abcdeabcdeabcde", "abcde"),
        ("abcdefghijklmnop" * 3, "abcdefghijklmnop"),
        ("abcdefghijklmnopq" * 3, ""),  # 17 steps are longer than the 16 that are looked for
    ],
)
def test_the_end_of_a_trail_decides(trail: str, loop: str) -> None:
    """A loop is the shortest piece that the end repeats three times, at most 16 steps long."""
    assert "".join(CycleLimit().loop(trail)) == loop


@given(
    start=st.text("abc", max_size=5),
    piece=st.text("abc", min_size=1, max_size=4),
    repeats=st.integers(2, 4),
)
def test_every_repeated_piece_is_found(start: str, piece: str, repeats: int) -> None:
    """Whatever came before, a piece k times in a row is a loop, and what is found does repeat."""
    limit = CycleLimit(repeats=repeats)
    trail = start + piece * repeats
    found = "".join(limit.loop(trail))
    assert found
    assert len(found) <= len(piece)
    assert trail.endswith(found * repeats)


@given(trail=st.text("ab", max_size=30), repeats=st.integers(2, 4), longest=st.integers(1, 5))
def test_only_the_window_matters(trail: str, repeats: int, longest: int) -> None:
    """Steps before the window do not change the result."""
    limit = CycleLimit(repeats=repeats, longest=longest)
    assert limit.loop(trail) == limit.loop(trail[-limit.window :])
