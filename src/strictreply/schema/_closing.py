"""Closing objects: a schema that lists properties and says nothing about others comes to admit no others.

``additionalProperties: false`` sees only the properties beside it. Where several schemas describe the members of one
object (``allOf``, ``$ref`` with siblings, ``if``), each would refuse what the others describe; such an object is closed
by ``unevaluatedProperties: false`` in the outermost of them, which knows what all of them describe.
"""

from __future__ import annotations

from typing import Any

from strictreply.schema._documents import (
    Document,
    Graph,
    Node,
    SchemaEdge,
    at_pointer,
    conjoined_with,
    read_document,
)
from strictreply.schema._upgrade import upgraded
from strictreply.schema._vocabulary import IN_PLACE, REFERENCES, STATEMENTS, Applies
from strictreply.values._issues import pointer_tokens

SPEAKING = ("properties", "patternProperties")
AS_WRITTEN = ("not", "if", "contains", "propertyNames")  # closing what is negated or tested would open its holder
CHOOSING = ("$ref", "anyOf", "oneOf", "allOf")


def closed_graph(source: Document, *, root_closed: bool) -> Graph:
    """Copy a schema with its objects closed, and give the copy's graph.

    What it admits the source admits too, but for a ``oneOf`` whose closed branches overlap less.

    Every place that judges a value of its own is closed once: by ``additionalProperties`` where no other schema has
    a say about the same value, else by ``unevaluatedProperties`` around all that have. A choice (``anyOf``,
    ``oneOf``) with nothing beside it is closed branch by branch. An explicit statement is respected everywhere.
    ``root_closed`` closes the root even when it lists no properties. A member that is required counts as listed.
    """
    copy = upgraded(read_document(source))
    if copy is True and root_closed:
        copy = {}
    graph = Graph(copy)
    _Closer(graph, root_closed=root_closed).close()  # adds booleans only, so that the graph stays true
    return graph


def shown_document(source: Document, closed: Graph) -> Document:
    """Return a schema that says of its objects that they admit no other members, as far as endpoints understand it.

    That is ``additionalProperties: false`` wherever closing added it. ``unevaluatedProperties``, unknown to endpoints,
    stays unsaid, and so does an object that is required to have members which it does not describe: without those
    the statement would forbid them. Return ``source`` itself when there is nothing to add.
    """
    shown = None
    for node in closed.nodes:
        if node.pointer is None or node.schema.get("additionalProperties") is not False:
            continue
        shown = read_document(source) if shown is None else shown
        written = _at(shown, node.pointer)
        described = node.schema.get("properties", {})
        if written is not None and written.get("properties", {}).keys() == described.keys():
            written.setdefault("additionalProperties", False)
    return source if shown is None or shown == source else shown


def _at(document: Document, path: str) -> dict[str, Any] | None:
    try:
        found = at_pointer(document, pointer_tokens(path))
    except (LookupError, ValueError, TypeError):  # closing reads an older draft in the words of a newer one
        return None
    return found if isinstance(found, dict) else None


class _Closer:
    """One closing of one document.

    ``_places`` are the schemas that judge a value of their own. ``_forced`` are closed though they list nothing;
    ``_shared`` are met only through references, so that a composition elsewhere may also use them.
    """

    __slots__ = ("_choices", "_composed", "_forced", "_pending", "_places", "_shared")

    def __init__(self, graph: Graph, *, root_closed: bool) -> None:
        self._places: dict[int, Node] = {}
        self._choices: dict[int, list[SchemaEdge]] = {}
        self._composed: set[int] = set()
        self._shared: set[int] = set()
        self._forced: set[int] = {id(graph.root)} if root_closed else set()
        self._pending: list[Node] = []
        if graph.root is not None:
            self._discover(graph.root, shared=False)
        while self._pending:
            node = self._pending.pop()
            choices = self._choices[id(node)] = _choices(node)
            for edge in choices:
                self._discover(edge.target, shared=True)  # a composition may use the whole choice
            members = [node] if choices else node.judges()
            self._composed.update(id(member) for member in members[1:])
            for edge in (edge for member in members for edge in member.along(Applies.MEMBER, Applies.ITEM)):
                if edge.keyword not in AS_WRITTEN:
                    self._discover(edge.target, shared=False)

    def _discover(self, node: Node, *, shared: bool) -> None:
        """Note a place; one that is met by itself is not shared, whoever else references it."""
        if id(node) not in self._places:
            self._places[id(node)] = node
            self._shared.add(id(node))
            self._pending.append(node)
        if not shared:
            self._shared.discard(id(node))

    def close(self) -> None:
        for node in self._places.values():
            # A definition that compositions refer to stays open: closed, it would refuse the members that the others
            # describe. They are closed around it, and so is each place that refers to it alone (_close_choice).
            composed = id(node) in self._shared and id(node) in self._composed
            if node.pointer is not None and not composed and not any(each in node.schema for each in STATEMENTS):
                self._close(node)

    def _close(self, node: Node) -> None:
        schema, forced = node.schema, id(node) in self._forced
        if choices := self._choices[id(node)]:
            for edge in choices:
                self._close_choice(node, edge)
            # A branch that is ``true`` cannot hold a statement of its own, so the place around the choice has to.
            if forced and any(branch is True for branch in schema.get(choices[0].keyword, ())):
                schema["unevaluatedProperties"] = False
            return
        members = node.judges()
        if forced or any("properties" in member.schema for member in members):
            _admit_required(node)
            alone = not any(_speaks(member) for member in members[1:])
            schema["additionalProperties" if alone else "unevaluatedProperties"] = False

    def _close_choice(self, node: Node, edge: SchemaEdge) -> None:
        """Close what a place delegates to, beside the choice when the target may not be closed itself."""
        spoken, forced = any(_speaks(member) for member in edge.target.judges()), id(node) in self._forced
        left_open = id(edge.target) in self._composed or edge.target.pointer is None
        if edge.keyword not in REFERENCES and not left_open:
            if forced:
                self._forced.add(id(edge.target))  # its turn comes later
        elif (spoken and left_open) or (forced and (left_open or not spoken)):
            _admit_required(node)
            node.schema["unevaluatedProperties"] = False


def _choices(node: Node) -> list[SchemaEdge]:
    # With anything beside it a choice only takes part in describing the object, and its branches may not be closed.
    combined = [keyword for keyword in node.schema if keyword in IN_PLACE or keyword in SPEAKING]
    edges = [edge for edge in node.along(Applies.HERE) if edge.keyword != "not"]
    if len(combined) != 1 or combined[0] not in CHOOSING or (combined[0] == "allOf" and len(edges) > 1):
        return []
    demanded = _demanded(node)
    # What is required around the choice has to be known to each branch, which is closed by itself.
    admitted = (_described(edge.target).union(*map(_demanded, conjoined_with([edge.target]))) for edge in edges)
    return edges if not demanded or all(known.issuperset(demanded) for known in admitted) else []


def _admit_required(node: Node) -> None:
    """List at a place what is required and not described there: closing must not forbid what the schema demands."""
    described = _described(node)
    contexts = {id(node): described}
    pending, missing = [node], dict[str, None]()
    for member in pending:  # grows while it is walked
        context = contexts[id(member)]
        missing |= dict.fromkeys(name for name in _demanded(member) if name not in context)
        for edge in member.along(Applies.HERE):
            known, inner = contexts.get(id(edge.target)), context | _described(edge.target)
            if edge.keyword not in AS_WRITTEN and (known is None or not known <= inner):
                contexts[id(edge.target)] = inner if known is None else known & inner
                pending.append(edge.target)
    if missing:
        node.schema["properties"] = {**node.schema.get("properties", {}), **dict.fromkeys(missing, True)}


def _described(node: Node) -> frozenset[str]:
    return frozenset(name for each in conjoined_with([node]) for name in each.schema.get("properties", ()))


def _demanded(node: Node) -> list[str]:
    beside = node.schema.get("dependentRequired", {}).values()
    return [name for names in (node.schema.get("required", ()), *beside) for name in names]


def _speaks(node: Node) -> bool:
    return any(keyword in node.schema for keyword in (*SPEAKING, *STATEMENTS))
