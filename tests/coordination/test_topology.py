"""A topology holds together when it is declared, is a value, and draws what it holds."""

from __future__ import annotations

import copy
import html
import pickle
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from strictreply import ContractError
from strictreply.coordination import END_NODE, USER, CoordinationCode, DeclarationError, Topology
from strictreply.coordination.topology import TopologyEdge

TEAM = {
    "User": ["Lead"],
    "Lead": ["Analyst", "Writer", "User"],
    "Analyst": ["Lead"],
    "Writer": ["Lead", "Critic"],
    "Critic": ["Writer", "End"],
}


class Digraph:
    """The public form of networkx.DiGraph.

    It has ``nodes``, ``edges`` with attributes, and ``is_directed``.
    """

    def __init__(
        self, edges: Iterable[tuple[Any, ...]], nodes: Iterable[Any] = (), *, directed: bool = True
    ) -> None:
        """Store pairs or triples with attributes."""
        self._edges = [(*edge, {})[:3] for edge in edges]
        self.nodes = dict.fromkeys([*nodes, *(end for edge in self._edges for end in edge[:2])])
        self._directed = directed

    def is_directed(self) -> bool:
        """Return whether edges have a direction."""
        return self._directed

    def edges(self, data: bool = False) -> list[tuple[Any, ...]]:
        """Return the edges, with their attributes when asked for."""
        return self._edges if data else [edge[:2] for edge in self._edges]


def pairs(mapping: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Write a mapping as a list of edges."""
    return [(source, target) for source, targets in mapping.items() for target in targets]


def faults(declare: Callable[[], object]) -> list[tuple[str, str]]:
    """Return the code and place of every fault of a declaration."""
    with pytest.raises(DeclarationError) as caught:
        declare()
    assert isinstance(caught.value, ContractError)
    return [(issue.code, issue.path) for issue in caught.value.issues]


def test_three_spellings_make_one_topology() -> None:
    """A mapping, a list of edges and a digraph declare the same value."""
    topology = Topology.of(TEAM)
    for other in (
        Topology.of(pairs(TEAM)),
        Topology.of(Digraph(pairs(TEAM))),
        Topology.of(topology.edges),
    ):
        assert other == topology
        assert (hash(other), other.version) == (hash(topology), topology.version)


def test_what_a_topology_answers() -> None:
    """Targets, neighbours, who may finish and who may ask follow from the edges."""
    topology = Topology.of(TEAM)
    assert topology.agents == ("Analyst", "Critic", "Lead", "Writer")
    assert topology.entries == ("Lead",)
    assert topology.neighbours("Lead") == ("Analyst", "User", "Writer")

    assert topology.allowed_targets("Lead") == ("Analyst", "Writer")
    assert topology.neighbours(USER) == ("Lead",)
    assert topology.neighbours(END_NODE) == ()
    finishing = {
        agent: (topology.may_finish(agent), topology.may_ask_user(agent))
        for agent in topology.agents
    }
    assert finishing == {
        "Lead": (True, True),
        "Critic": (True, False),
        "Analyst": (False, False),
        "Writer": (False, False),
    }


@pytest.mark.parametrize("target", ["Critic", "lead", " Lead", "", "Nobody", "End"])
def test_only_edges_allow(target: str) -> None:
    """Only a declared edge allows a target that a model names."""
    topology = Topology.of(TEAM)
    assert not topology.allows("Analyst", target)
    assert topology.allows("Analyst", "Lead")


def test_an_unknown_agent_is_the_callers_fault() -> None:
    """A question about nobody is a ContractError, not an empty answer."""
    with pytest.raises(ContractError):
        Topology.of(TEAM).allowed_targets("Nobody")


def test_alternatives_leave_out_what_failed_and_what_was_visited() -> None:
    """Another target is allowed, has not failed, was not visited, and is not the agent itself."""
    topology = Topology.of({"A": ["A", "B", "C", "D", "End"], "B": [], "C": [], "D": []})
    assert topology.alternatives("A", "B") == ("C", "D")
    assert topology.alternatives("A", "B", {"C"}) == ("D",)
    assert topology.alternatives("A", "B", ["C", "D"]) == ()


def test_conversations_are_mutual_or_marked() -> None:
    """Two agents talk in turns when edges lead both ways, or when their edge is marked; User only
    when marked.
    """
    topology = Topology.of({**TEAM, "Critic": ["Writer", "End"]})
    expected = {
        frozenset({"Lead", "Analyst"}),
        frozenset({"Lead", "Writer"}),
        frozenset({"Writer", "Critic"}),
    }
    assert topology.conversations == expected
    one_way = {"A": ["B", "User"], "B": ["End"], "User": ["A"]}
    assert Topology.of(one_way).conversations == frozenset()

    marked = Topology.of(one_way, conversations=[("B", "A"), ("User", "A")])
    assert marked.in_conversation("A", "B")
    assert marked.in_conversation("A", "User")
    assert not marked.in_conversation("B", "User")

    attributes = [
        (source, target, {"conversation": (source, target) == ("A", "B")})
        for source, target in pairs(one_way)
    ]
    assert Topology.of(Digraph(attributes)).in_conversation("B", "A")
    assert marked.version != Topology.of(one_way).version


@pytest.mark.parametrize(
    ("mapping", "entries"),
    [
        ({"User": ["B"], "A": ["End"], "B": ["A"]}, ("B",)),
        ({"A": ["C"], "B": ["C"], "C": ["End"]}, ("A", "B")),
        ({"A": ["A", "End"]}, ("A",)),
    ],
)
def test_the_entry_follows_from_the_edges(
    mapping: dict[str, list[str]], entries: tuple[str, ...]
) -> None:
    """Runs begin where User leads, else at agents that no other agent leads to."""
    assert Topology.of(mapping).entries == entries


def test_an_entry_may_be_named() -> None:
    """In a graph that goes in circles the caller says where runs begin."""
    ring = {"A": ["B"], "B": ["A", "End"]}
    assert faults(lambda: Topology.of(ring)) == [(CoordinationCode.TOPOLOGY_NO_ENTRY, "/entries")]
    assert Topology.of(ring, entry="A").entries == ("A",)
    assert Topology.of(ring, entry=["B", "A"]).entries == ("A", "B")
    assert Topology.of(ring, entry="A").version != Topology.of(ring, entry="B").version


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (lambda: Topology.of({}), [(CoordinationCode.TOPOLOGY_MALFORMED, "/agents")]),
        (
            lambda: Topology.of({"A": ["B", "End"]}),
            [(CoordinationCode.TOPOLOGY_UNKNOWN_AGENT, "/edges/A/B")],
        ),
        (
            lambda: Topology.of([("A", "B")], agents=["A"]),
            [(CoordinationCode.TOPOLOGY_UNKNOWN_AGENT, "/edges/A/B")],
        ),
        (
            lambda: Topology.of({"A": ["End"]}, entry="a"),
            [(CoordinationCode.TOPOLOGY_UNKNOWN_AGENT, "/entries/a")],
        ),
        (
            lambda: Topology.of({"A": ["End"], " A ": []}),
            [(CoordinationCode.TOPOLOGY_DUPLICATE_AGENT, "/agents/A")],
        ),
        (
            lambda: Topology.of([("A", "End")], agents=["A", "A"]),
            [(CoordinationCode.TOPOLOGY_DUPLICATE_AGENT, "/agents/A")],
        ),
        (
            lambda: Topology.of({"A": ["End", " End"]}),
            [(CoordinationCode.TOPOLOGY_DUPLICATE_EDGE, "/edges/A/End")],
        ),
        (
            lambda: Topology.of({"A": ["End"], "": []}),
            [(CoordinationCode.TOPOLOGY_BAD_NAME, "/agents/1")],
        ),
        (
            lambda: Topology.of({"A": ["End", " "]}),
            [(CoordinationCode.TOPOLOGY_BAD_NAME, "/edges/1")],
        ),
        (
            lambda: Topology.of(Digraph([(1, "A")])),
            [(CoordinationCode.TOPOLOGY_BAD_NAME, p) for p in ("/agents/0", "/edges/0")],
        ),
        (lambda: Topology.of([(["x"], "A")]), [(CoordinationCode.TOPOLOGY_BAD_NAME, "/edges/0")]),
        (
            lambda: Topology.of({"A": ["End"]}, entry=" "),
            [(CoordinationCode.TOPOLOGY_BAD_NAME, "/entries/0")],
        ),
        (
            lambda: Topology.of({"A": ["End"], "End": ["A"]}),
            [(CoordinationCode.TOPOLOGY_RESERVED, "/edges/End/A")],
        ),
        (
            lambda: Topology.of({"A": ["End"], "User": ["A", "End"]}),
            [(CoordinationCode.TOPOLOGY_RESERVED, "/edges/User/End")],
        ),
        (
            lambda: Topology(("A", "User"), (TopologyEdge("A", "End"),)),
            [(CoordinationCode.TOPOLOGY_RESERVED, "/agents/User")],
        ),
        (
            lambda: Topology.of({"A": ["B"], "B": []}),
            [(CoordinationCode.TOPOLOGY_NO_FINISH, "/edges")],
        ),
        (
            lambda: Topology.of({"User": ["A"], "A": ["End"], "B": ["C"], "C": ["B"]}),
            [
                (CoordinationCode.TOPOLOGY_UNREACHABLE, "/agents/B"),
                (CoordinationCode.TOPOLOGY_UNREACHABLE, "/agents/C"),
            ],
        ),
        (
            lambda: Topology.of({"A": ["X", "A", "A"], "B": ["Y"], "End": ["A"]}),
            [
                (CoordinationCode.TOPOLOGY_DUPLICATE_EDGE, "/edges/A/A"),
                (CoordinationCode.TOPOLOGY_UNKNOWN_AGENT, "/edges/A/X"),
                (CoordinationCode.TOPOLOGY_UNKNOWN_AGENT, "/edges/B/Y"),
                (CoordinationCode.TOPOLOGY_RESERVED, "/edges/End/A"),
            ],
        ),
        (
            lambda: Topology.of({"A": ["B"], "B": ["End"]}, conversations=[("A", "C")]),
            [(CoordinationCode.TOPOLOGY_UNKNOWN_PAIR, "/conversations/A/C")],
        ),
    ],
)
def test_a_topology_that_does_not_hold_together_is_refused(
    declare: Callable[[], object], expected: list[tuple[str, str]]
) -> None:
    """Each fault has its code and place, and all faults of a kind of check come together."""
    assert faults(declare) == expected


@pytest.mark.parametrize(
    "source",
    [
        5,
        None,
        "A->B",
        b"A->B",
        ["AB"],
        [("A",)],
        [("A", "B", "C")],
        [("A", "B", {"conversation": "yes"})],
        [("A", "B", {}, {})],
        [{"A": "B"}],
        {"A": "End"},
        {"A": None},
        {"A": {"End": {}}},
        Digraph([("A", "End")], directed=False),
    ],
)
def test_what_is_no_graph_is_refused(source: Any) -> None:
    """A spelling that could be misread, such as a text read letter by letter, is a fault."""
    assert [code for code, _ in faults(lambda: Topology.of(source))] == [
        CoordinationCode.TOPOLOGY_MALFORMED
    ]


def test_a_misspelt_agent_gets_the_nearest() -> None:
    """The hint names the declared agent that may be meant."""
    with pytest.raises(DeclarationError) as caught:
        Topology.of({"Writer": ["Critik", "End"], "Critic": ["Writer"]})
    assert "'Critic'" in caught.value.issues[0].hint


def test_an_attribute_of_edges_is_enough() -> None:
    """A graph object whose ``edges`` is a plain list is read as well."""

    class Plain:
        """A graph with plain attributes."""

        nodes = ("A",)
        edges = (("A", "End"),)

    assert Topology.of(Plain()) == Topology.of({"A": ["End"]})


def test_changing_gives_another_topology() -> None:
    """More edges, fewer edges and fewer agents are new values with other versions; the old one
    stays.
    """
    topology = Topology.of(TEAM)
    before = pickle.dumps(topology)
    more = topology.with_edges(
        ("Analyst", "Editor"), TopologyEdge("Editor", "End"), ("User", "Editor")
    )
    assert more.agents == ("Analyst", "Critic", "Editor", "Lead", "Writer")

    assert more.entries == ("Editor", "Lead")
    fewer = more.without_agents("Editor")
    assert (fewer, fewer.version) == (topology, topology.version)
    assert more.without_edges(("User", "Editor")).entries == ("Lead",)

    assert not topology.without_edges(("Critic", "End")).may_finish("Critic")
    assert (
        len({topology.version, more.version, topology.without_edges(("Critic", "End")).version})
        == 3
    )

    assert pickle.dumps(topology) == before
    assert faults(lambda: topology.without_agents("Writer")) == [
        (CoordinationCode.TOPOLOGY_UNREACHABLE, "/agents/Critic")
    ]


def test_a_topology_is_a_value() -> None:
    """It is frozen, hashable, and the same after a copy and a pickle."""
    topology = Topology.of(TEAM)
    # The pickle is our own.
    for twin in (copy.deepcopy(topology), pickle.loads(pickle.dumps(topology))):  # noqa: S301
        assert (twin, twin.version, hash(twin)) == (topology, topology.version, hash(topology))
        assert twin.allowed_targets("Lead") == ("Analyst", "Writer")
    with pytest.raises(AttributeError):
        topology.agents = ()  # type: ignore[misc]


NAMES = st.one_of(st.sampled_from(["A", "B", "C", "D"]), st.text(max_size=12))
HOSTILE = st.text('"\\[](){}<>|;#&%`\n\r\0 -=.ax:~\u2028\u202e\ud800', min_size=1, max_size=20)


@st.composite
def graphs(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES) -> dict[str, list[str]]:
    """Draw targets by agent, every agent within reach of User and one with an edge to the End."""
    trimmed = names.map(str.strip).filter(lambda name: name and name not in (USER, END_NODE))
    agents = draw(st.lists(trimmed, min_size=1, max_size=6, unique=True))
    targets = st.lists(st.sampled_from([*agents, USER, END_NODE]), max_size=4, unique=True)
    mapping = {agent: draw(targets) for agent in agents}
    mapping[agents[0]] = list(dict.fromkeys([*mapping[agents[0]], END_NODE]))
    return {**mapping, USER: agents}


@given(mapping=graphs(), dice=st.randoms(use_true_random=False))
def test_the_order_of_declaration_does_not_matter(mapping: dict[str, list[str]], dice: Any) -> None:
    """The same graph in any order and spelling has the same version."""
    edges = pairs(mapping)
    names = [name for name in mapping if name != USER]
    dice.shuffle(edges)
    dice.shuffle(names)
    topology = Topology.of(mapping)
    shuffled = Topology.of(edges, agents=names)
    assert shuffled == topology
    assert shuffled.version == topology.version


@given(one=graphs(), other=graphs())
def test_versions_are_equal_exactly_when_graphs_are(
    one: dict[str, list[str]], other: dict[str, list[str]]
) -> None:
    """Version and equality say the same."""
    first = Topology.of(one)
    second = Topology.of(other)
    assert (
        (first.version == second.version)
        == (first == second)
        == (set(pairs(one)) == set(pairs(other)))
    )


@given(mapping=graphs(), data=st.data())
def test_one_edge_makes_the_difference(mapping: dict[str, list[str]], data: st.DataObject) -> None:
    """Taking away any edge that may be spared gives another version."""
    topology = Topology.of(mapping)
    edge = data.draw(st.sampled_from(pairs(mapping)))
    assume(edge[1] != END_NODE)
    assume(edge[0] != USER)
    assert topology.without_edges(edge).version != topology.version


@given(mapping=graphs(HOSTILE))
def test_mermaid_draws_what_is_there(mapping: dict[str, list[str]]) -> None:
    """Each node and each edge is one line, whatever the names are, and the names come back from the
    labels.
    """
    topology = Topology.of(mapping)
    header, *lines, last = topology.to_mermaid().split("\n")
    assert (header, last) == ("flowchart LR", "")
    nodes = [
        re.fullmatch(r'  (n\d+)(?:\["|\(\["|\(\(")([\w #;]*)(?:"\]|"\]\)|"\)\))', line)
        for line in lines
    ]
    arrows = [re.fullmatch(r"  (n\d+) --> (n\d+)", line) for line in lines]
    assert all(bool(node) != bool(arrow) for node, arrow in zip(nodes, arrows, strict=True))
    names = {
        node[1]: re.sub(r"#(\d+);", lambda entity: chr(int(entity[1])), node[2])
        for node in nodes
        if node
    }
    assert set(names.values()) == {
        *topology.agents,
        *(end for edge in pairs(mapping) for end in edge),
    }

    drawn = sorted((names[arrow[1]], names[arrow[2]]) for arrow in arrows if arrow)
    assert drawn == sorted(pairs(mapping))


@given(mapping=graphs(HOSTILE))
def test_dot_draws_what_is_there(mapping: dict[str, list[str]]) -> None:
    """Each node and each edge is one statement, whatever the names are, and the names come back
    from the labels.
    """
    topology = Topology.of(mapping)
    first, *lines, last, _ = topology.to_dot().split("\n")
    assert (first, last) == ("digraph topology {", "}")
    nodes = [
        re.fullmatch(r'  (n\d+) \[label="([\w &#;]*)", shape=[a-z]+\];', line) for line in lines
    ]
    arrows = [re.fullmatch(r"  (n\d+) -> (n\d+);", line) for line in lines]
    assert all(bool(node) != bool(arrow) for node, arrow in zip(nodes, arrows, strict=True))
    names = {
        node[1]: re.sub(r"&#(\d+);", lambda entity: chr(int(entity[1])), node[2])
        for node in nodes
        if node
    }
    assert set(names.values()) == {
        *topology.agents,
        *(end for edge in pairs(mapping) for end in edge),
    }

    assert sorted((names[a[1]], names[a[2]]) for a in arrows if a) == sorted(pairs(mapping))


def test_markup_in_a_name_stays_text() -> None:
    """A name with markup is spelt in entities: no tag and no quote is in the drawing."""
    hostile = '"]; click n0 "javascript:alert(1)" <img src=x onerror=alert(1)>'
    topology = Topology.of({hostile: ["End"]})
    for drawing in (topology.to_mermaid(), topology.to_dot()):
        assert "<" not in drawing
        assert drawing.count('"') == 4
    assert html.unescape(re.findall(r'label="([^"]*)"', topology.to_dot())[0]) == hostile
