"""Rewrites the patterns of a schema for a linear engine, and lists what cannot be kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from strictreply.schema._documents import NOT_LINEAR, Document, Graph, Node, read_document
from strictreply.schema._engines import engine_for
from strictreply.schema._patterns import UNICODE, InvalidPattern, Respelled, respelled, spelled_out
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer

UNHELD = "the pattern cannot be matched in linear time"
# Keywords that would be narrowed by widening a schema below them.
_TURNED = ("not", "if", "oneOf", "contains")


class Linear(NamedTuple):
    """A document for a linear engine, with the rules that it does not enforce, in words."""

    document: Document
    unheld: tuple[str, ...] = ()


def with_linear_patterns(source: Document) -> Linear:
    """Return a schema in which each non-linear pattern is replaced by linear conditions.

    What cannot be replaced is removed, and listed with its place: the schema then accepts more than
    intended, never less. Raises ContractError for a text that is not a regular expression.
    """
    copy = read_document(source)
    graph = Graph(copy)
    widened = dict[int, Node]()
    unheld: list[str] = []

    for node in graph.nodes:
        for place, is_exact in _respell(node) if node.pointer is not None else ():
            if not is_exact:
                unheld.append(f"{place}: {UNHELD}")
                widened[id(node)] = node

    widen_around(graph, widened.values())
    return Linear(copy, tuple(unheld))


def with_unicode_patterns(source: Document) -> Document:
    r"""Return a schema whose ``\w``, ``\d``, ``\s`` and ``.`` mean what they mean to pydantic."""
    copy = read_document(source)
    for node in Graph(copy).nodes:
        pattern = node.schema.get("pattern")
        if isinstance(pattern, str) and node.pointer is not None:
            node.schema["pattern"] = spelled_out(pattern, UNICODE, dot=r"[^\n]")

    return copy


def _respell(node: Node) -> Iterator[tuple[str, bool]]:
    """Replace the patterns of a schema; yield the place of each, and whether it is fully kept."""
    schema = node.schema
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _is_linear(pattern):
        place = pointer(str(node.pointer), "pattern")
        del schema["pattern"]
        made = _linear(pattern, place)
        rules = dict(made.schema)

        if "pattern" in rules:
            schema["pattern"] = rules.pop("pattern")
        conditions = [*rules.pop("allOf", ()), *([rules] if rules else [])]
        if conditions:
            schema["allOf"] = [*schema.get("allOf", ()), *conditions]

        yield place, made.is_exact

    named = schema.get("patternProperties")
    members: dict[str, Any] = named if isinstance(named, dict) else {}
    for name in [*members]:
        if _is_linear(name):
            continue

        place = pointer(str(node.pointer), "patternProperties", name)
        made = _linear(name, place)
        if made.is_exact and made.schema.keys() == {"pattern"}:
            members[made.schema["pattern"]] = members.pop(name)
        else:
            # it is unknown which members are meant, so none is rejected for its name
            members.setdefault("", True)
            del members[name]

        yield place, made.is_exact and made.schema.keys() == {"pattern"}


def _linear(pattern: str, place: str) -> Respelled:
    try:
        made = respelled(pattern)
    except InvalidPattern:
        raise ContractError(NOT_LINEAR, path=place) from None

    try:
        engine_for(made.schema, formats=False)
    except ContractError:
        return Respelled({}, is_exact=False)

    return made


def _is_linear(pattern: str) -> bool:
    try:
        engine_for({"pattern": pattern}, formats=False)
    except ContractError:
        return False
    return True


def widen_around(graph: Graph, changed: Iterable[Node]) -> None:
    """Widen the schemas around some that now accept more, so that the whole accepts no less."""
    widened = {id(node): node for node in changed}
    for node in _holders_of(graph, widened):
        _widen(node, widened)


def _holders_of(graph: Graph, widened: dict[int, Node]) -> list[Node]:
    """Add to ``widened`` every schema that contains one of them; return all that were found."""
    above: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for edge in node.edges:
            above.setdefault(id(edge.target), []).append(node)

    pending = list(widened.values())
    for node in pending:  # grows during the iteration
        for holder in above.get(id(node), ()):
            if id(holder) not in widened:
                widened[id(holder)] = holder
                pending.append(holder)

    return pending


def _widen(node: Node, widened: dict[int, Node]) -> None:
    """Remove what would reject more, now that a schema below accepts more."""
    keywords = {edge.keyword for edge in node.edges if id(edge.target) in widened}
    schema = node.schema
    if not keywords.intersection(_TURNED) or node.pointer is None:
        return

    if "not" in keywords:
        del schema["not"]

    if "if" in keywords:
        met = {"allOf": [schema.pop("if"), schema.pop("then", True)]}
        either = {"anyOf": [met, schema.pop("else", True)]}
        schema["allOf"] = [*schema.get("allOf", ()), either]

    if "oneOf" in keywords:
        forms = {"anyOf": schema.pop("oneOf")}
        schema["allOf"] = [*schema.get("allOf", ()), forms]

    if "contains" in keywords:
        schema.pop("maxContains", None)
