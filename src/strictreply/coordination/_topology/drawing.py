"""A graph as text that Mermaid and Graphviz draw. Names are data: no character of one can end its label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias


class Shape(Enum):
    """How a node looks, in Mermaid's brackets and in DOT's ``shape``."""

    AGENT = ('["', '"]', "box")
    HUMAN = ('(["', '"])', "oval")
    END = ('(("', '"))', "doublecircle")


Nodes: TypeAlias = Mapping[str, Shape]
Arrows: TypeAlias = Iterable[tuple[str, str]]


def mermaid(nodes: Nodes, arrows: Arrows) -> str:
    """Draw a Mermaid flowchart: a line for the header, one for each node, one for each arrow."""
    ids = _ids(list(nodes))
    lines = [f"  {ids[name]}{shape.value[0]}{_label(name, '#')}{shape.value[1]}" for name, shape in nodes.items()]
    lines += [f"  {ids[source]} --> {ids[target]}" for source, target in arrows]
    return "\n".join(["flowchart LR", *lines, ""])


def dot(nodes: Nodes, arrows: Arrows) -> str:
    """Draw a Graphviz digraph: one statement a line, nodes before arrows."""
    ids = _ids(list(nodes))
    lines = [f'  {ids[name]} [label="{_label(name, "&#")}", shape={shape.value[2]}];' for name, shape in nodes.items()]
    lines += [f"  {ids[source]} -> {ids[target]};" for source, target in arrows]
    return "\n".join(["digraph topology {", *lines, "}", ""])


def _ids(names: Sequence[str]) -> dict[str, str]:
    """Give each node an id of ours: a name is never an identifier."""
    return {name: f"n{index}" for index, name in enumerate(names)}


def _label(name: str, opening: str) -> str:
    """Spell a name with every character but letters, digits, underscores and single spaces as a numeric entity.

    Both languages read ``<opening>65;`` as "A" inside a quoted label, Mermaid with ``#``, DOT with ``&#``.
    """
    return "".join(char if char.isalnum() or char in "_ " else f"{opening}{ord(char)};" for char in name)
