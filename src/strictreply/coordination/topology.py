"""Which agents may hand over to which, and what an agent is permitted to do.

A topology has agents, edges, entries, the User and the End. It is checked when it is declared. An
agent's permissions follow from the topology, its branch and its tools.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias, cast

from strictreply import Contract, ContractError, Issue, Limits, Tool
from strictreply.coordination.actions import (
    SHAPES,
    ActionType,
    Branch,
    BranchType,
    CoordinationCode,
    DeclarationError,
    ExtraKeys,
    Need,
    Origin,
    Permitted,
    action_named,
    actions_of,
)
from strictreply.core import DEFAULT_LIMITS, JSON, JSONObject
from strictreply.core.judging import Findings, by_name
from strictreply.core.text import pointer

__all__ = ["END_NODE", "USER", "ActionTerms", "Topology", "TopologyEdge"]

USER = "User"
"""The user: an edge from it marks an entry, an edge to it lets an agent ask and finish."""
END_NODE = "End"
"""An edge to it lets an agent finish without a message to the user; a route ends with ``END``."""
RESERVED = (USER, END_NODE)
# How nodes are drawn: Mermaid's brackets, and DOT's ``shape``.
_SHAPES: Final = {USER: ('(["', '"])', "oval"), END_NODE: ('(("', '"))', "doublecircle")}


@dataclass(frozen=True, slots=True, order=True)
class TopologyEdge:
    """An edge: ``source`` may hand over to ``target``.

    With ``conversation`` they talk in turns. Names are trimmed.
    """

    source: str
    """The agent that may hand over."""
    target: str
    """The agent that it may hand over to."""
    conversation: bool = False
    """Whether the two talk in turns."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", _trimmed(self.source))
        object.__setattr__(self, "target", _trimmed(self.target))


# Targets by agent, pairs or triples (source, target, attributes), or a DiGraph.
TopologySource: TypeAlias = (
    Mapping[str, Iterable[str]] | Iterable[TopologyEdge | Sequence[Any]] | object
)


@dataclass(frozen=True, slots=True)
class Topology:
    """A checked graph of agents, in one canonical order.

    Raises DeclarationError with every fault: names that are not text, blank or declared twice,
    edges with unknown ends, edges out of End, no entry, agents that cannot be reached, and no agent
    that may finish.
    """

    agents: tuple[str, ...]
    """The names of the agents, trimmed and sorted, without User and End."""
    edges: tuple[TopologyEdge, ...]
    """The edges, sorted."""
    entries: tuple[str, ...] = ()
    """The agents that a run may begin with.

    These are the given ones and the targets of User's edges. If there are none, they are the agents
    to which no other agent has an edge.
    """
    version: str = field(init=False, compare=False)
    """Hash of the topology; only equal topologies have the same hash."""
    conversations: frozenset[frozenset[str]] = field(init=False, repr=False, compare=False)
    """The pairs that talk in turns: marked pairs, and agents with edges in both directions."""
    _targets: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)
    """The targets of each node's edges, by the node."""

    def __post_init__(self) -> None:
        _refuse(_name_issues(self))
        agents = sorted(map(_trimmed, self.agents))
        edges = sorted(self.edges)
        given = [_trimmed(entry) for entry in self.entries]
        _refuse(_part_issues(agents, edges, given))

        targets = {
            node: tuple(e.target for e in edges if e.source == node)
            for node in (*agents, *RESERVED)
        }
        followers = {edge.target for edge in edges if edge.source != edge.target}
        entries = sorted({*given, *targets[USER]} or set(agents) - followers)
        _refuse(_reach_issues(agents, entries, targets))

        # JSON keeps any names distinct
        canonical = json.dumps([agents, list(map(astuple, edges)), entries])
        made: dict[str, object] = {
            "agents": tuple(agents),
            "edges": tuple(edges),
            "entries": tuple(entries),
            "version": hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest(),
            "conversations": _conversations(edges),
            "_targets": targets,
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(
        cls,
        source: TopologySource,
        *,
        agents: Iterable[str] | None = None,
        entry: str | Iterable[str] = (),
        conversations: Iterable[tuple[str, str]] = (),
    ) -> Self:
        """Declare a topology from targets by agent, a list of edges, or a ``networkx.DiGraph``.

        The agents are a mapping's keys, a graph's nodes, or all names in a list of edges, unless
        ``agents`` is given. ``entry`` names the agents that runs begin with. ``conversations``
        marks pairs that talk in turns, like the attribute ``conversation`` of a graph's edge.

        Raises DeclarationError like the class, and for any other object, for an undirected graph,
        and for a pair without an edge.
        """
        named, edges = _read_graph(source)
        if named is None:
            ends = cast("Iterator[object]", _ends(edges))
            named = list(dict.fromkeys(name for name in ends if isinstance(name, str)))

        declared = named if agents is None else agents
        entries = (entry,) if isinstance(entry, str) else tuple(entry)
        own = tuple(one for one in declared if one not in RESERVED)
        return cls(own, _marked(edges, conversations), entries)

    @classmethod
    def supervisor(cls, lead: str, workers: Iterable[str]) -> Self:
        """Declare a lead that talks to the user, and workers that report to it."""
        named = tuple(workers)
        edges = {lead: (*named, USER), **dict.fromkeys(named, (lead,))}
        return cls.of(edges, entry=lead)

    @classmethod
    def swarm(cls, agents: Iterable[str], *, entry: str) -> Self:
        """Declare agents that can all hand over to each other and talk to the user."""
        named = tuple(agents)
        edges = {one: (*(other for other in named if other != one), USER) for one in named}
        return cls.of(edges, entry=entry)

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Return every node to which ``node`` has an edge.

        This and the following methods raise ContractError for an unknown node.
        """
        if node not in self._targets:
            known = ", ".join(self.agents)
            raise ContractError(
                f"{node!r} is not an agent of this topology; the agents are: {known}"
            )

        return self._targets[node]

    def allowed_targets(self, agent: str) -> tuple[str, ...]:
        """Return the agents to which ``agent`` may hand over."""
        return tuple(node for node in self.neighbours(agent) if node not in RESERVED)

    def allows(self, agent: str, target: str) -> bool:
        """Return whether ``agent`` has an edge to ``target``; a target may be any value."""
        return target in self.neighbours(agent)

    def may_finish(self, agent: str) -> bool:
        """Return whether ``agent`` may end a run: it has an edge to User or to End."""
        return any(node in self.neighbours(agent) for node in RESERVED)

    def may_ask_user(self, agent: str) -> bool:
        """Return whether ``agent`` has an edge to User."""
        return USER in self.neighbours(agent)

    def in_conversation(self, one: str, other: str) -> bool:
        """Return whether two nodes talk in turns."""
        return frozenset((one, other)) in self.conversations

    def alternatives(
        self, agent: str, failed: str, visited: Collection[str] = ()
    ) -> tuple[str, ...]:
        """Return the agents to which ``agent`` may hand over instead of ``failed``.

        Visited agents and the agent itself are left out.
        """
        out = {agent, failed, *visited}
        return tuple(target for target in self.allowed_targets(agent) if target not in out)

    def with_edges(self, *edges: TopologyEdge | tuple[str, str]) -> Topology:
        """Return a topology with more edges, and the agents that they name.

        Raises DeclarationError like the class.
        """
        added = [edge if isinstance(edge, TopologyEdge) else TopologyEdge(*edge) for edge in edges]
        named = [name for name in _ends(added) if name not in RESERVED]
        agents = tuple(dict.fromkeys((*self.agents, *named)))
        return Topology(agents, (*self.edges, *added), self.entries)

    def without_agents(self, *agents: str) -> Topology:
        """Return a topology without these agents and their edges.

        Raises DeclarationError like the class.
        """
        left = tuple(agent for agent in self.agents if agent not in agents)
        edges = tuple(
            one for one in self.edges if one.source not in agents and one.target not in agents
        )
        entries = tuple(entry for entry in self.entries if entry not in agents)
        return Topology(left, edges, entries)

    def without_edges(self, *edges: tuple[str, str]) -> Topology:
        """Return a topology without these edges; raise DeclarationError like the class."""
        left = tuple(edge for edge in self.edges if (edge.source, edge.target) not in edges)
        entries = tuple(entry for entry in self.entries if (USER, entry) not in edges)
        return Topology(self.agents, left, entries)

    def to_mermaid(self) -> str:
        """Return a Mermaid flowchart; names are escaped, so that they cannot leave their label."""
        lines = self._drawn("{id}{opening}{label}{closing}", "{source} --> {target}", "#")
        return "\n".join(["flowchart LR", *lines, ""])

    def to_dot(self) -> str:
        """Return a Graphviz digraph; names are escaped, so that they cannot leave their label."""
        lines = self._drawn('{id} [label="{label}", shape={shape}];', "{source} -> {target};", "&#")
        return "\n".join(["digraph topology {", *lines, "}", ""])

    def _drawn(self, node: str, edge: str, entity: str) -> Iterator[str]:
        touched = set(_ends(self.edges))
        drawn = (*self.agents, *(name for name in RESERVED if name in touched))
        ids = {name: f"n{index}" for index, name in enumerate(drawn)}
        for name, id_ in ids.items():
            opening, closing, shape = _SHAPES.get(name, ('["', '"]', "box"))
            parts = {"opening": opening, "closing": closing, "shape": shape}
            yield "  " + node.format(id=id_, label=_label(name, entity), **parts)

        for one in self.edges:
            yield "  " + edge.format(source=ids[one.source], target=ids[one.target])


def _label(name: str, entity: str) -> str:
    # all but letters, digits, underscores and spaces as numeric entities (``#65;``: A)
    return "".join(
        char if char.isalnum() or char in "_ " else f"{entity}{ord(char)};" for char in name
    )


def _trimmed(name: str) -> str:
    # a name that is not a text is reported later, with all other faults
    return name.strip() if isinstance(cast("object", name), str) else name


def _ends(edges: Iterable[TopologyEdge]) -> Iterator[str]:
    return (name for edge in edges for name in (edge.source, edge.target))


def _conversations(edges: list[TopologyEdge]) -> frozenset[frozenset[str]]:
    # User, who starts runs and reads answers, is in a conversation only when it is marked
    ways = {(edge.source, edge.target) for edge in edges if USER not in (edge.source, edge.target)}
    mutual = {way for way in ways if way[::-1] in ways and way[0] != way[1]}
    marked = {(edge.source, edge.target) for edge in edges if edge.conversation}
    return frozenset(map(frozenset, mutual | marked))


def _edges_from(agent: str, targets: object) -> list[TopologyEdge]:
    # a text would be read by letters
    if isinstance(targets, str | bytes | Mapping) or not isinstance(targets, Iterable):
        raise _malformed(pointer("", agent), "a list of names")

    return [TopologyEdge(agent, target) for target in cast("Iterable[str]", targets)]


def _read_graph(source: TopologySource) -> tuple[list[str] | None, list[TopologyEdge]]:
    if isinstance(source, Mapping):
        lists = cast("Mapping[str, object]", source)
        return list(lists), [edge for agent in lists for edge in _edges_from(agent, lists[agent])]

    agents: list[str] | None = None
    edges: Any = source
    if hasattr(source, "nodes") and hasattr(source, "edges"):
        graph: Any = source
        if callable(directed := getattr(graph, "is_directed", None)) and not directed():
            raise _malformed("", "a directed graph; graph.to_directed() has both directions")

        agents = list(graph.nodes)
        edges = graph.edges(data=True) if callable(graph.edges) else graph.edges
    elif not isinstance(source, Iterable) or isinstance(source, str | bytes):
        raise _malformed("", "a mapping, a list of edges or a networkx.DiGraph")

    return agents, [_edge(item, index) for index, item in enumerate(edges)]


def _marked(
    edges: list[TopologyEdge], conversations: Iterable[tuple[str, str]]
) -> tuple[TopologyEdge, ...]:
    pairs = [(_trimmed(one), _trimmed(other)) for one, other in conversations]
    either_way = [*pairs, *((other, one) for one, other in pairs)]
    ways = [(edge.source, edge.target) for edge in edges]
    missing = [pair for pair in pairs if pair not in ways and pair[::-1] not in ways]
    _refuse(
        CoordinationCode.TOPOLOGY_UNKNOWN_PAIR.at(pointer("", "conversations", *pair))
        for pair in missing
    )

    return tuple(
        TopologyEdge(e.source, e.target, e.conversation or way in either_way)
        for e, way in zip(edges, ways, strict=True)
    )


def _edge(item: object, index: int) -> TopologyEdge:
    if isinstance(item, TopologyEdge):
        return item

    parts: Sequence[Any] = ()
    if isinstance(item, Sequence) and not isinstance(item, str | bytes):
        parts = item

    match parts:
        case (source, target):
            return TopologyEdge(source, target)
        case (source, target, {"conversation": bool() as flag}):
            return TopologyEdge(source, target, flag)
        case (source, target, Mapping() as attributes) if "conversation" not in attributes:
            return TopologyEdge(source, target)
        case _:
            expected = "a pair (source, target), or a triple with {'conversation': True}"
            raise _malformed(pointer("", "edges", index), expected)


def _malformed(path: str, expected: str) -> DeclarationError:
    issue = CoordinationCode.TOPOLOGY_MALFORMED.at(path, expected=expected)
    return DeclarationError("the topology", [issue])


def _refuse(issues: Iterable[Issue]) -> None:
    if found := tuple(issues):
        raise DeclarationError("the topology", found)


def _name_issues(topology: Topology) -> Iterator[Issue]:
    parts: dict[str, Iterable[tuple[str, ...]]] = {
        "agents": zip(topology.agents),
        "edges": ((edge.source, edge.target) for edge in topology.edges),
        "entries": zip(topology.entries),
    }
    for part, places in parts.items():
        for index, names in enumerate(places):
            if not all(isinstance(cast("object", name), str) and name.strip() for name in names):
                yield CoordinationCode.TOPOLOGY_BAD_NAME.at(pointer("", part, index))


def _part_issues(
    agents: list[str], edges: list[TopologyEdge], entries: list[str]
) -> Iterator[Issue]:
    if not agents:
        yield CoordinationCode.TOPOLOGY_MALFORMED.at("/agents", expected="at least one agent")

    for agent, times in Counter(agents).items():
        place = pointer("/agents", agent)
        if times > 1:
            yield CoordinationCode.TOPOLOGY_DUPLICATE_AGENT.at(place)
        if agent in RESERVED:
            reason = "is a reserved name and cannot be an agent's"
            yield CoordinationCode.TOPOLOGY_RESERVED.at(place, reason=reason)

    known = [*agents, *RESERVED]
    for (source, target), times in Counter((edge.source, edge.target) for edge in edges).items():
        place = pointer("/edges", source, target)
        if times > 1:
            yield CoordinationCode.TOPOLOGY_DUPLICATE_EDGE.at(place)
        if {END_NODE: True, USER: target in RESERVED}.get(source):
            reason = "is not allowed: User may have edges only to agents, and End none"
            yield CoordinationCode.TOPOLOGY_RESERVED.at(place, reason=reason)

        for name in dict.fromkeys((source, target)):
            if name not in known:
                yield _unknown(name, known, place)

    for name in entries:
        if name not in agents:
            yield _unknown(name, known, pointer("/entries", name))


def _unknown(name: str, known: list[str], place: str) -> Issue:
    near = get_close_matches(str(name), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else ""
    return CoordinationCode.TOPOLOGY_UNKNOWN_AGENT.at(place, hint=hint)


def _reach_issues(
    agents: list[str], entries: list[str], targets: Mapping[str, tuple[str, ...]]
) -> Iterator[Issue]:
    if not entries:
        yield CoordinationCode.TOPOLOGY_NO_ENTRY.at("/entries")
        return

    reached = list(entries)
    for node in reached:  # grows while it is walked
        reached += [one for one in targets[node] if one not in reached and one not in RESERVED]

    for agent in agents:
        if agent not in reached:
            place = pointer("/agents", agent)
            yield CoordinationCode.TOPOLOGY_UNREACHABLE.at(place, entries=", ".join(entries))

    if not any(target in RESERVED for node in reached for target in targets[node]):
        yield CoordinationCode.TOPOLOGY_NO_FINISH.at("/edges")


_SIMPLE = Branch()


def permitted_actions(
    topology: Topology,
    agent: str,
    *,
    branch: Branch | None = None,
    tools: Collection[str] = (),
    leave: frozenset[ActionType] = frozenset(),
    allowed_agents: Iterable[str] | None = None,
    origin: Origin = Origin.MODEL,
) -> Permitted:
    """Return what ``agent`` may do with ``tools`` in ``branch``; None means a simple branch.

    ``leave`` has the actions that the application permits explicitly. ``allowed_agents`` limits the
    agents to hand over to; None allows all. Raises ContractError for an unknown agent.
    """
    targets = topology.allowed_targets(agent)

    # the system needs no permission for its own actions, and may turn to the user (M49, X8)
    if origin is Origin.SYSTEM:
        systemic = tuple(one for one, shape in SHAPES.items() if shape.systemic)
        return Permitted(agent, systemic, (*targets, USER))

    if allowed_agents is not None:
        named = {name.strip() for name in allowed_agents}
        targets = tuple(target for target in targets if target in named)

    branch = branch or _SIMPLE
    takes_part = not branch.agents or agent in branch.agents
    standing = {
        Need.NEXT_AGENT: targets,
        Need.TOOLS: tools,
        Need.CONVERSATION: branch.type is BranchType.CONVERSATION and takes_part,  # M44
        Need.FINISH: topology.may_finish(agent),
        Need.USER: topology.may_ask_user(agent),
        Need.PARALLEL: branch.type is BranchType.PARALLEL,
    }
    met = frozenset(need for need, is_met in standing.items() if is_met)
    return Permitted(agent, actions_of(met, leave), targets, tuple(tools))


def read_leave(names: Iterable[str]) -> frozenset[ActionType]:
    """Read the actions that an application permits explicitly.

    Raises ContractError for an action that is reserved for the system.
    """
    leave = frozenset(map(action_named, names))
    for action in leave:
        if Need.SYSTEM in SHAPES[action].needs:
            raise ContractError(
                f"{action.value!r} is reserved for the system; no agent can be permitted to use it"
            )

    return leave


# A check gets the action and the permissions; it returns issues or raises ValueError.
ActionCheck: TypeAlias = Callable[[JSONObject, Permitted], Findings]
Checks: TypeAlias = Mapping[ActionType, tuple[ActionCheck, ...]]


@dataclass(frozen=True, slots=True)
class ActionTerms:
    """The terms by which an action is judged."""

    permitted: Permitted
    """What the agent may do."""
    tools: Contract
    """The contract of tool calls; it allows several calls in one reply."""
    branch: Branch = _SIMPLE
    """The branch that the agent replies in."""
    extra: ExtraKeys = "forbid"
    """Whether an action may have unknown members."""
    checks: Checks = field(default_factory=lambda: MappingProxyType({}))
    """The application's checks by action, run last."""
    place: tuple[JSON, ...] = ()
    """The position in the conversation, for the ids of agents' instances; empty if unknown."""


# Anything that declares tools (see Tool.of), in a list, or in a mapping by the tools' names.
Declared: TypeAlias = Iterable[object] | Mapping[str, object]


class Toolsets:
    """The compiled tools of a topology's agents, for all of them or by agent.

    Raises ContractError for unknown agents and wrong tools.
    """

    __slots__ = ("_compiled", "_declared", "_limits", "_shared")

    def __init__(
        self,
        topology: Topology,
        tools: Declared | Mapping[str, Declared],
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self._shared = self._contract(() if isinstance(tools, Mapping) else tools)

        own = cast("Mapping[str, Declared]", tools) if isinstance(tools, Mapping) else {}
        for agent in own:
            topology.neighbours(agent)

        self._declared = {agent: self._contract(declared) for agent, declared in own.items()}
        self._compiled: dict[str, tuple[tuple[object, ...], Contract]] = {}

    def of(self, agent: str, own: Declared | None = None) -> Contract:
        """Return the contract of an agent's tool calls.

        ``own``, the tools that the agent itself declares, takes precedence.
        """
        if own is None:
            return self._declared.get(agent, self._shared)

        declared = tuple(own.items()) if isinstance(own, Mapping) else tuple(own)
        known = self._compiled.get(agent)
        if known is None or known[0] != declared:
            self._compiled[agent] = known = (declared, self._contract(own))
        return known[1]

    def _contract(self, declared: Declared) -> Contract:
        return Contract(tools=compiled(declared).values(), parallel=True, limits=self._limits)


def compiled(declared: object) -> dict[str, Tool]:
    """Compile declarations of tools, by name; in a mapping the keys are the names.

    Raises ContractError for an object that does not declare a tool, and for a repeated name.
    """
    if isinstance(declared, Mapping):
        named = cast("Mapping[str, object]", declared)
        return by_name(replace(Tool.of(tool), name=name) for name, tool in named.items())
    if isinstance(declared, Iterable) and not isinstance(declared, str):
        return by_name(Tool.of(tool) for tool in declared)

    raise ContractError(
        f"tools must be a list of tools, or a mapping by name, not {type(declared).__name__}"
    )
