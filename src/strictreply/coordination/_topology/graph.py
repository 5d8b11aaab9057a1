"""Who may hand over to whom: agents, edges, the entries, the User and the End, checked when they are declared.

A topology is a value: changing one gives another, with another ``version``. Nothing is routed or executed here.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Self

from strictreply.coordination._faults import DeclarationError, Fault
from strictreply.coordination._topology.drawing import Shape, dot, mermaid
from strictreply.coordination._topology.sources import Edge, Spelling, read_graph, trimmed
from strictreply.values._errors import ContractError
from strictreply.values._issues import Issue, pointer

USER = "User"
"""The node that is the person: an edge from it is an entry, an edge to it lets an agent ask and finish."""

END_NODE = "End"
"""The node that is the end: an edge to it lets an agent finish without a word to the person."""

RESERVED = (USER, END_NODE)
_VERSION_BYTES = 16


@dataclass(frozen=True, slots=True)
class Topology:
    """A graph of agents that holds together, in one canonical order.

    ``agents`` are names, trimmed and sorted, without User and End; ``edges`` are sorted; ``entries`` are the agents a
    run may begin with: those given and those User has edges to, or when there are none, those that no other agent
    leads to. ``version`` is a hash of all of it: two topologies have the same one exactly when they are equal, in
    whatever order they were declared. ``conversations`` are the pairs that talk in turns: marked ones, and agents
    with edges both ways.

    Raises DeclarationError with every fault: names that are no text, blank or declared twice, edges with unknown
    ends, edges out of End, no entry, agents that no entry leads to, no agent that may finish.
    """

    agents: tuple[str, ...]
    edges: tuple[Edge, ...]
    entries: tuple[str, ...] = ()
    version: str = field(init=False, compare=False)
    conversations: frozenset[frozenset[str]] = field(init=False, repr=False, compare=False)
    _targets: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    _allowed: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Bring the parts into order, refuse what does not hold together, and name the version."""
        _refuse([*_name_issues(self)])
        agents, edges = sorted(map(trimmed, self.agents)), sorted(self.edges)
        given = [trimmed(entry) for entry in self.entries]
        _refuse([*_agent_issues(agents), *_edge_issues(agents, edges), *_entry_issues(agents, given)])
        targets = {node: tuple(e.target for e in edges if e.source == node) for node in (*agents, *RESERVED)}
        entries = sorted({*given, *targets[USER]} or _sources(agents, edges))
        _refuse(_reach_issues(agents, entries, targets))
        self._set(agents=tuple(agents), edges=tuple(edges), entries=tuple(entries))
        self._set(version=self._digest(), conversations=_conversations(edges), _targets=targets)
        self._set(_allowed={node: tuple(one for one in targets[node] if one not in RESERVED) for node in targets})

    @classmethod
    def of(
        cls,
        source: Spelling,
        *,
        agents: Iterable[str] | None = None,
        entry: str | Iterable[str] = (),
        conversations: Iterable[tuple[str, str]] = (),
    ) -> Self:
        """Declare a topology from targets by agent, from a list of edges, or from a ``networkx.DiGraph``.

        A mapping declares its keys, a graph its nodes, a list of edges every name in it unless ``agents`` says which
        there are. ``entry`` names where runs begin. ``conversations`` marks pairs that talk in turns, as does the
        attribute ``conversation`` of a graph's edge. Raises DeclarationError as the class does.
        """
        named, edges = read_graph(source)
        if named is None:
            named = list(dict.fromkeys(name for name in _ends(edges) if isinstance(name, str)))
        declared = named if agents is None else list(agents)
        entries = (entry,) if isinstance(entry, str) else tuple(entry)
        marked = _marked(edges, conversations)
        return cls(tuple(one for one in declared if one not in RESERVED), tuple(marked), entries)

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Give every node that an edge of ``node`` leads to, User and End included.

        Raises ContractError when ``node`` is none of this topology's, here and in every question about one.
        """
        return self._answer(self._targets, node)

    def allowed_targets(self, agent: str) -> tuple[str, ...]:
        """Give the agents that ``agent`` may hand over to."""
        return self._answer(self._allowed, agent)

    def allows(self, agent: str, target: str) -> bool:
        """Tell whether ``agent`` has an edge to ``target``, whatever was asked for as a target."""
        return target in self.neighbours(agent)

    def may_finish(self, agent: str) -> bool:
        """Tell whether ``agent`` may end a run: it has an edge to User or to End (requirement M45)."""
        return any(node in self.neighbours(agent) for node in RESERVED)

    def may_ask_user(self, agent: str) -> bool:
        """Tell whether ``agent`` has an edge to User (requirement M46)."""
        return USER in self.neighbours(agent)

    def in_conversation(self, one: str, other: str) -> bool:
        """Tell whether two nodes talk in turns."""
        return frozenset((one, other)) in self.conversations

    def alternatives(self, agent: str, failed: str, visited: Collection[str] = ()) -> tuple[str, ...]:
        """Give whom ``agent`` may turn to instead of ``failed``: allowed, not visited, not itself (M109)."""
        out = {agent, failed, *visited}
        return tuple(target for target in self.allowed_targets(agent) if target not in out)

    def with_edges(self, *edges: Edge | tuple[str, str]) -> Topology:
        """Give a topology with more edges, and with the agents they name; raises DeclarationError as declaring does."""
        added = [edge if isinstance(edge, Edge) else Edge(*edge) for edge in edges]
        named = [name for name in _ends(added) if name not in RESERVED]
        return Topology(tuple(dict.fromkeys((*self.agents, *named))), (*self.edges, *added), self.entries)

    def without_agents(self, *agents: str) -> Topology:
        """Give a topology without these agents and their edges; raises DeclarationError as declaring does."""
        kept = tuple(agent for agent in self.agents if agent not in agents)
        edges = tuple(edge for edge in self.edges if edge.source not in agents and edge.target not in agents)
        return Topology(kept, edges, tuple(entry for entry in self.entries if entry not in agents))

    def without_edges(self, *edges: tuple[str, str]) -> Topology:
        """Give a topology without these edges; raises DeclarationError as declaring does."""
        kept = tuple(edge for edge in self.edges if (edge.source, edge.target) not in edges)
        return Topology(self.agents, kept, tuple(entry for entry in self.entries if (USER, entry) not in edges))

    def to_mermaid(self) -> str:
        """Draw a Mermaid flowchart; names are escaped, so none can break out of its label."""
        return mermaid(self._shapes(), ((edge.source, edge.target) for edge in self.edges))

    def to_dot(self) -> str:
        """Draw a Graphviz digraph; names are escaped, so none can break out of its label."""
        return dot(self._shapes(), ((edge.source, edge.target) for edge in self.edges))

    def _answer(self, table: Mapping[str, tuple[str, ...]], node: str) -> tuple[str, ...]:
        """Look a node up; ContractError for one that is not there."""
        if node not in table:
            raise ContractError(f"{node!r} is no agent of this topology; the agents are: {', '.join(self.agents)}")
        return table[node]

    def _shapes(self) -> dict[str, Shape]:
        """Give the nodes that are drawn: all agents, and User and End where an edge touches them."""
        touched = set(_ends(self.edges))
        reserved = {name: shape for name, shape in ((USER, Shape.HUMAN), (END_NODE, Shape.END)) if name in touched}
        return dict.fromkeys(self.agents, Shape.AGENT) | reserved

    def _digest(self) -> str:
        """Hash the canonical parts; JSON keeps names apart whatever is in them."""
        edges = [[edge.source, edge.target, edge.conversation] for edge in self.edges]
        canonical = json.dumps([self.agents, edges, self.entries])
        return hashlib.blake2b(canonical.encode(), digest_size=_VERSION_BYTES).hexdigest()

    def _set(self, **fields: object) -> None:
        """Fill fields of the frozen value while it is made."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)


def _refuse(issues: list[Issue]) -> None:
    """Raise when there is anything to report."""
    if issues:
        raise DeclarationError("the topology", issues)


def _ends(edges: Iterable[Edge]) -> Iterator[Any]:
    """Give the names at both ends of the edges."""
    return (name for edge in edges for name in (edge.source, edge.target))


def _marked(edges: list[Edge], pairs: Iterable[tuple[str, str]]) -> Iterator[Edge]:
    """Mark the edges between the named pairs; raises DeclarationError for a pair without an edge."""
    ways = [(trimmed(one), trimmed(other)) for one, other in pairs]
    both = [*ways, *((other, one) for one, other in ways)]
    ends = [(edge.source, edge.target) for edge in edges]
    missing = [way for way in ways if way not in ends and way[::-1] not in ends]
    _refuse([Fault.TOPOLOGY_UNKNOWN_PAIR.at(pointer("", "conversations", *way)) for way in missing])
    return (Edge(e.source, e.target, e.conversation or (e.source, e.target) in both) for e in edges)


def _name_issues(topology: Topology) -> Iterator[Issue]:
    """Report names that are no text, or blank."""
    named: dict[str, list[tuple[object, ...]]] = {
        "agents": [(agent,) for agent in topology.agents],
        "edges": [(edge.source, edge.target) for edge in topology.edges],
        "entries": [(entry,) for entry in topology.entries],
    }
    for part, places in named.items():
        for index, names in enumerate(places):
            if not all(isinstance(name, str) and name.strip() for name in names):
                yield Fault.TOPOLOGY_BAD_NAME.at(pointer("", part, index))


def _agent_issues(agents: list[str]) -> Iterator[Issue]:
    """Report names that are declared twice or reserved, and a topology of nobody."""
    if not agents:
        yield Fault.TOPOLOGY_MALFORMED.at("/agents", expected="at least one agent")
    for agent, times in Counter(agents).items():
        if times > 1:
            yield Fault.TOPOLOGY_DUPLICATE_AGENT.at(pointer("/agents", agent))
        if agent in RESERVED:
            yield Fault.TOPOLOGY_RESERVED.at(pointer("/agents", agent), reason="is a reserved name, not an agent's")


def _edge_issues(agents: list[str], edges: list[Edge]) -> Iterator[Issue]:
    """Report edges that are declared twice, that lead out of End or from User to no agent, or have unknown ends."""
    for (source, target), times in Counter((edge.source, edge.target) for edge in edges).items():
        place = pointer("/edges", source, target)
        if times > 1:
            yield Fault.TOPOLOGY_DUPLICATE_EDGE.at(place)
        if source == END_NODE or (source == USER and target in RESERVED):
            yield Fault.TOPOLOGY_RESERVED.at(place, reason="User leads to agents only, and nothing leads out of End")
        for name in dict.fromkeys((source, target)):
            if name not in agents and name not in RESERVED:
                yield _unknown(name, agents, place)


def _entry_issues(agents: list[str], entries: list[str]) -> Iterator[Issue]:
    """Report entries that are no agents."""
    return (_unknown(entry, agents, pointer("/entries", entry)) for entry in entries if entry not in agents)


def _unknown(name: str, agents: list[str], place: str) -> Issue:
    """Report a name that is nobody's, with the nearest that is somebody's."""
    near = get_close_matches(str(name), [*agents, *RESERVED], n=1)
    return Fault.TOPOLOGY_UNKNOWN_AGENT.at(place, hint=f"did you mean {near[0]!r}?" if near else "")


def _sources(agents: list[str], edges: list[Edge]) -> set[str]:
    """Give the agents that no other agent leads to."""
    return set(agents) - {edge.target for edge in edges if edge.source != edge.target}


def _conversations(edges: list[Edge]) -> frozenset[frozenset[str]]:
    """Find the pairs that talk in turns; User, who starts runs and reads answers, is in one only when it is marked."""
    ways = {(edge.source, edge.target) for edge in edges if USER not in (edge.source, edge.target)}
    mutual = {way for way in ways if way[::-1] in ways and way[0] != way[1]}
    return frozenset(frozenset((e.source, e.target)) for e in edges if e.conversation or (e.source, e.target) in mutual)


def _reach_issues(agents: list[str], entries: list[str], targets: Mapping[str, tuple[str, ...]]) -> list[Issue]:
    """Report what no run could come to: agents out of reach, and an end."""
    if not entries:
        return [Fault.TOPOLOGY_NO_ENTRY.at("/entries")]
    reached = list(entries)
    for node in reached:  # grows while it is walked
        reached += [target for target in targets[node] if target not in reached and target not in RESERVED]
    words = ", ".join(entries)
    issues = [
        Fault.TOPOLOGY_UNREACHABLE.at(pointer("/agents", agent), entries=words)
        for agent in agents
        if agent not in reached
    ]
    if not any(target in RESERVED for node in reached for target in targets[node]):
        issues.append(Fault.TOPOLOGY_NO_FINISH.at("/edges"))
    return issues
