"""Whatever models reply and humans answer, whatever agents are called: runs end, edges hold, no question is lost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any, TypeAlias

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from integrations.langgraph_runs import CONFIG, NONSENSE, Cast, act, add, final, graph, hand
from strictreply.coordination import Topology
from strictreply.integrations.langgraph import begin, node_of, outcome_of
from strictreply.testing import Step, faults, ok

LIMIT = 5
WIDTH = 3
NAMES = ("lead", "ann", "bob")
ODD_NAMES = (
    "formatter",
    "not allowed",
    "missing",
    "end",
    "human_input",
    "tools",
    "branch",
    "messages",
    "a|b:c",
    "__end__",
)
Plays: TypeAlias = tuple[list[int], list[int], list[int]]
bounded = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def team(names: Sequence[str]) -> Topology:
    """Declare a team in which not everybody may hand over to everybody, or finish."""
    lead, ann, bob = names
    return Topology.of(
        [(lead, ann), (lead, bob), (lead, "User"), (ann, lead), (ann, bob), (bob, lead), (bob, "End")], entry=lead
    )


def spread(*names: str) -> Step:
    """Reply with a parallel hand-over."""
    return act("parallel_invoke", agents=list(names), agent_requests=dict.fromkeys(names, "x"))


def pool(names: Sequence[str]) -> list[Step]:
    """List the replies that a model may give; the parallel hand-overs stand last."""
    trouble = {"type": "timeout", "message": "late"}
    return [
        *(hand(name, "x") for name in (*names, "stranger", "User", "End", node_of(names[1]))),
        final(),
        NONSENSE,
        ok.call(add, a=1, b=2),
        act("ask_user", question="Sure?"),
        act("error_recovery", error_details=trouble),
        act("end_conversation"),
        act("wait_and_aggregate"),
        act("terminal_error", error="over"),
        act("auto_retry", error_details=trouble),
        faults.rate_limited(),
        spread(*names[1:]),
        spread(names[0], names[2]),
        spread(*names[1:], names[1]),
        spread(names[1], "stranger"),
    ]


ALL = len(pool(NAMES))
SINGLE = ALL - 4
DOWN = SINGLE - 1
"""The reply whose place is before the hand-overs: no answer, which is brought to the user."""


def plays(size: int) -> st.SearchStrategy[Plays]:
    """Draw what each of the three models replies, by its place in the pool."""
    script = st.lists(st.integers(0, size - 1), max_size=8)
    return st.tuples(script, script, script)


answers = st.lists(st.sampled_from(["retry", "skip", "abort", "yes", "not now", "", "I do not approve"]), min_size=1)


class Story:
    """One run: each question is answered by the next of the answers, ``patience`` times at most."""

    def __init__(self, drawn: Plays, said: list[str], *, names: Sequence[str] = NAMES, patience: int = 99) -> None:
        """Run it."""
        steps = pool(names)
        self.topology = team(names)
        self.cast = Cast(**{name: [steps[one] for one in play] for name, play in zip(names, drawn, strict=True)})
        compiled = graph(self.cast, self.topology, saver=InMemorySaver(), max_loop_count=LIMIT, max_turns=2)
        answer, self.asked = cycle(said), set[str]()
        state: Any = compiled.invoke(begin(self.topology, "Go."), CONFIG)
        while waiting := state.get("__interrupt__", ()):
            self.asked |= {one.value["id"] for one in waiting}
            if patience == 0:
                break
            patience -= 1
            state = compiled.invoke(Command(resume={one.id: next(answer) for one in waiting}), CONFIG)
        self.state, self.waiting = state, {one.value["id"] for one in waiting}

    @property
    def told(self) -> tuple[Any, ...]:
        """Say how it went, without a name."""
        outcome = outcome_of(self.state)
        branches = [(one["status"], one["reason"], one["spent"]) for one in self.state["outcomes"].values()]
        return outcome["status"], outcome["reason"], self.state["loop_count"], [*self.cast.asked().values()], branches


@bounded
@given(drawn=plays(SINGLE), said=answers)
def test_any_sequence_of_replies_ends_within_the_loop_bound(drawn: Plays, said: list[str]) -> None:
    """Limit + 1 nodes are executed at most, humans' turns and tools included, and the run says how it ended."""
    story = Story(drawn, said)
    assert not story.waiting
    assert story.state["loop_count"] <= LIMIT + 1
    assert outcome_of(story.state)["status"] in {"completed", "failed", "skipped", "aborted"}


@bounded
@given(drawn=plays(ALL), said=answers)
def test_branches_end_within_the_same_bound(drawn: Plays, said: list[str]) -> None:
    """No path of a run with branches of branches is longer than limit + 1: each line opens three at most at once."""
    story = Story(drawn, said)
    assert not story.waiting
    assert story.state["loop_count"] <= sum(WIDTH**depth for depth in range(LIMIT + 2))


@bounded
@given(drawn=plays(ALL), said=answers)
def test_no_reply_reaches_a_node_over_an_edge_that_is_not_there(drawn: Plays, said: list[str]) -> None:
    """Every hop from one agent to another is an edge of the topology; a stranger has no script, to ask one raises."""
    story = Story(drawn, said)
    agents = {node_of(name): name for name in NAMES}
    hops = [(agents.get(str(hop["from"])), agents.get(hop["to"])) for hop in story.state["routing_history"]]
    assert all(
        source == target or story.topology.allows(source, target) for source, target in hops if source and target
    )


@bounded
@given(drawn=plays(ALL), said=answers, patience=st.integers(0, 4))
@example(drawn=([SINGLE], [DOWN], [DOWN]), said=["skip"], patience=4)  # two branches ask at once
def test_a_human_request_is_never_lost(drawn: Plays, said: list[str], patience: int) -> None:
    """What was asked is settled in the ledger, pending in it, or still interrupts the run."""
    story = Story(drawn, said, patience=patience)
    assert story.asked <= {entry["id"] for entry in story.state["human_requests"]} | story.waiting


@bounded
@given(drawn=plays(ALL), said=answers, names=st.lists(st.sampled_from(ODD_NAMES), min_size=3, max_size=3, unique=True))
def test_what_agents_are_called_changes_nothing(drawn: Plays, said: list[str], names: list[str]) -> None:
    """The same story is told of a team with other names, whatever words they are."""
    assert Story(drawn, said, names=names).told == Story(drawn, said).told
