"""Runs end, edges hold, no question is lost.

This holds whatever models reply and humans answer, and whatever agents are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import strictreply as sr
from strictreply import ContractError
from strictreply.coordination import ErrorPolicy, Topology
from strictreply.coordination.state import pending_requests
from strictreply.integrations.langgraph import node_of
from strictreply.testing import Step, faults, ok
from support.integrations.langgraph_runs import (
    CONFIG,
    NONSENSE,
    Cast,
    Command,
    InMemorySaver,
    act,
    add,
    begin,
    final,
    graph,
    hand,
    outcome_of,
    spread,
)
from support.loops import some

LIMIT = 5
IN_TURN = CONFIG | {"max_concurrency": 1}
"""Branches that ask the same agent are served its script in the order they were opened."""
NO_RETRY = ErrorPolicy(budget=sr.RetryPolicy(max_retries=0, transport_retries=0))
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
        [
            (lead, ann),
            (lead, bob),
            (lead, "User"),
            (ann, lead),
            (ann, bob),
            (bob, lead),
            (bob, "End"),
        ],
        entry=lead,
    )


def both(*names: str) -> Step:
    """Reply with a parallel hand-over that asks all of them the same."""
    return spread(*names, **dict.fromkeys(names, "x"))


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
        both(*names[1:]),
        both(names[0], names[2]),
        both(*names[1:], names[1]),
        both(names[1], "stranger"),
    ]


ALL = len(pool(NAMES))
SINGLE = ALL - 4
DOWN = SINGLE - 1
"""The reply whose place is before the hand-overs: no answer, which is brought to the user."""
HAND_TO_BOB = NAMES.index("bob")
FINAL = 7


def plays(size: int) -> st.SearchStrategy[Plays]:
    """Draw what each of the three models replies, by its place in the pool."""
    script = st.lists(st.integers(0, size - 1), max_size=8)
    return st.tuples(script, script, script)


words = st.lists(
    st.sampled_from(["retry", "skip", "abort", "yes", "not now", "", "I do not approve"]),
    max_size=4,
)
answers = st.tuples(words, st.sampled_from(["retry", "skip", "abort"])).map(
    lambda drawn: [*drawn[0], drawn[1]]
)
"""What a human says, again and again: sooner or later it decides something, for waiting has no
bound.
"""


class Story:
    """One run: each question is answered by the next of the answers, ``patience`` times at most."""

    def __init__(
        self,
        drawn: Plays,
        said: list[str],
        *,
        names: Sequence[str] = NAMES,
        patience: int = 999,
        limit: int = LIMIT,
    ) -> None:
        """Run it; no reply is corrected, so that each execution of an agent is one request."""
        steps = pool(names)
        self.topology = team(names)
        self.cast = Cast(
            **{name: [steps[one] for one in play] for name, play in zip(names, drawn, strict=True)}
        )
        self.graph = graph(
            self.cast,
            self.topology,
            saver=InMemorySaver(),
            max_loop_count=limit,
            max_turns=2,
            policy=NO_RETRY,
        )

        self.answer, self.asked = cycle(said), set[str]()
        self.go_on(begin(self.topology, "Go."), patience)

    def go_on(self, given: Any, patience: int) -> None:
        """Run from an input until nothing is asked, or nobody answers any more."""
        state: Any = self.graph.invoke(given, IN_TURN)
        while waiting := state.get("__interrupt__", ()):
            self.asked |= {one.value["id"] for one in waiting}
            if patience == 0:
                break

            patience -= 1
            state = self.graph.invoke(
                Command(resume={one.id: next(self.answer) for one in waiting}), IN_TURN
            )

        self.state, self.waiting = state, {one.value["id"] for one in waiting}

    @property
    def requests(self) -> list[tuple[str, list[str]]]:
        """Return every request to a model in any branch: the agent and the messages it received."""
        return [
            (name, [str(turn["content"]) for turn in request.messages if turn["role"] == "user"])
            for name, model in self.cast.models.items()
            for request in model.requests
        ]

    @property
    def told(self) -> tuple[Any, ...]:
        """Return the outcome of a run, without a name."""
        outcome = outcome_of(self.state)
        branches = [
            (one["status"], one["reason"], one["spent"]) for one in self.state["outcomes"].values()
        ]

        return (
            outcome["status"],
            outcome["reason"],
            self.state["loop_count"],
            [*self.cast.asked().values()],
            branches,
        )


@pytest.mark.req("R32")
@bounded
@given(drawn=plays(ALL), said=answers, limit=st.integers(0, 9))
# Everybody opens branches.
@example(drawn=([SINGLE] * 8, [SINGLE + 1] * 8, [0] * 8), said=["skip"], limit=4)
def test_any_sequence_of_replies_ends_within_the_loop_bound(
    drawn: Plays, said: list[str], limit: int
) -> None:
    """Limit + 1 nodes are executed at most, in all branches together: agents, tools, humans' turns
    and joins.

    The requests to models, counted where they arrive, are no more than the count says.
    """
    story = Story(drawn, said, limit=limit)
    assert not story.waiting
    assert sum(story.cast.asked().values()) <= story.state["loop_count"] <= limit + 1
    assert outcome_of(story.state)["status"] in {"completed", "failed", "skipped", "aborted"}


@bounded
@given(drawn=plays(ALL), said=answers, limit=st.integers(0, 12))
# A branch holds a hop.
@example(drawn=([SINGLE], [HAND_TO_BOB], [FINAL]), said=["retry"], limit=12)
def test_no_reply_reaches_a_node_over_an_edge_that_is_not_there(
    drawn: Plays, said: list[str], limit: int
) -> None:
    """Whoever is asked, in whatever branch, is the entry, or was handed over to over an edge.

    Every request to a model is looked at, and what it tells of who handed over. A stranger has no
    script: to ask one raises.
    """
    story = Story(drawn, said, limit=limit)
    for agent, told in some(story.requests):
        senders = [
            name
            for words in told
            for name in NAMES
            if words.startswith((f"From {name}:", f"{name} hands over"))
        ]
        assert senders or told[0] == "Go."
        assert all(story.topology.allows(sender, agent) for sender in senders)

    assert all("stranger" not in str(entry) for entry in story.state["routing_history"])


@bounded
@given(drawn=plays(ALL), said=answers, patience=st.integers(0, 4))
@example(drawn=([SINGLE], [DOWN], [DOWN]), said=["skip"], patience=4)  # two branches ask at once
def test_a_human_request_is_never_lost(drawn: Plays, said: list[str], patience: int) -> None:
    """Each question is settled in the ledger, pending in it, or still interrupts the run, also
    after another run.

    A new run asks whatever is pending before any agent is asked; amid branches none can be begun.
    """
    story = Story(drawn, said, patience=patience)
    assert story.asked <= {entry["id"] for entry in story.state["human_requests"]} | story.waiting
    pending = [request.id for request in pending_requests(story.state)]
    before = story.cast.asked()

    try:
        given = begin(story.topology, "And now?", state=story.state)
    except ContractError:
        assert story.waiting
        return

    story.go_on(given, 0)
    assert set(pending[:1]) == (story.waiting if pending else set())
    assert story.cast.asked() == before or not pending
    story.go_on(Command(resume=next(story.answer)) if story.waiting else given, patience)

    ledger = {entry["id"] for entry in story.state["human_requests"]}
    assert story.asked <= ledger | story.waiting


@bounded
@given(
    drawn=plays(ALL),
    said=answers,
    names=st.lists(st.sampled_from(ODD_NAMES), min_size=3, max_size=3, unique=True),
)
def test_what_agents_are_called_changes_nothing(
    drawn: Plays, said: list[str], names: list[str]
) -> None:
    """The same story is told of a team with other names, whatever words they are."""
    assert Story(drawn, said, names=names).told == Story(drawn, said).told
