"""How a topology may be spelt: a mapping, a list of edges, or a networkx digraph; read into names and edges.

Nothing is judged here but the spelling. networkx is known by the look of its graphs and never imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from strictreply.coordination._faults import DeclarationError, Fault
from strictreply.values._issues import pointer

CONVERSATION = "conversation"
"""The attribute of an edge that marks its ends as a conversation pair."""


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """``source`` may hand over to ``target``; ``conversation`` marks the two as partners that talk in turns.

    Names are trimmed (requirement M47).
    """

    source: str
    target: str
    conversation: bool = False

    def __post_init__(self) -> None:
        """Trim the names."""
        object.__setattr__(self, "source", trimmed(self.source))
        object.__setattr__(self, "target", trimmed(self.target))


Spelling: TypeAlias = Mapping[str, Iterable[str]] | Iterable[Edge | Sequence[Any]] | object
"""What :func:`read_graph` takes: targets by agent, pairs or triples (source, target, attributes), or a DiGraph."""


def read_graph(source: Spelling) -> tuple[list[str] | None, list[Edge]]:
    """Read agents and edges as they are spelt; agents are None when only edges name them.

    Raises DeclarationError (``topology.malformed``) for what is no graph; an undirected one is refused, because an
    edge is a permission and must say which way.
    """
    if isinstance(source, Mapping):
        return _read_mapping(cast("Mapping[str, object]", source))
    if hasattr(source, "nodes") and hasattr(source, "edges"):
        return _read_digraph(source)
    if isinstance(source, Iterable) and not isinstance(source, str | bytes):
        return None, [_edge(item, index) for index, item in enumerate(cast("Iterable[object]", source))]
    raise _malformed("", "a mapping, a list of edges or a networkx.DiGraph")


def trimmed(name: Any) -> Any:
    """Give a name without spaces around it; what is no text is left for the topology to refuse."""
    return name.strip() if isinstance(name, str) else name


def _read_mapping(source: Mapping[str, object]) -> tuple[list[str], list[Edge]]:
    """Read targets by agent."""
    return list(source), [Edge(agent, target) for agent in source for target in _targets(agent, source[agent])]


def _targets(agent: str, value: object) -> Iterator[str]:
    """Give the targets of one agent; a lone text would be read letter by letter, so it is refused."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise _malformed(pointer("", agent), "a list of names")
    return iter(cast("Iterable[str]", value))


def _read_digraph(graph: Any) -> tuple[list[str], list[Edge]]:
    """Read a networkx graph by its ``nodes`` and its ``edges`` with their attributes."""
    if callable(directed := getattr(graph, "is_directed", None)) and not directed():
        raise _malformed("", "directed; graph.to_directed() allows both ways")
    view: Any = graph.edges
    edges = cast("Iterable[object]", view(data=True) if callable(view) else view)
    return list(graph.nodes), [_edge(item, index) for index, item in enumerate(edges)]


def _edge(item: object, index: int) -> Edge:
    """Read one edge: a pair, or a triple with a mapping of attributes."""
    if isinstance(item, Edge):
        return item
    parts: Sequence[Any] = item if isinstance(item, Sequence) and not isinstance(item, str | bytes) else ()
    match parts:
        case (source, target):
            return Edge(source, target)
        case (source, target, Mapping() as attributes) if isinstance(attributes.get(CONVERSATION, False), bool):
            return Edge(source, target, attributes.get(CONVERSATION) is True)
        case _:
            expected = f"a pair (source, target), or a triple with {{'{CONVERSATION}': True}}"
            raise _malformed(pointer("", "edges", index), expected)


def _malformed(path: str, expected: str) -> DeclarationError:
    """Say what a spelling must be."""
    return DeclarationError("the topology", [Fault.TOPOLOGY_MALFORMED.at(path, expected=expected)])
