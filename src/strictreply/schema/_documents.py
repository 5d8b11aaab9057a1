"""Schema documents: our own copy as plain JSON, and their sub-schemas as a graph.

References are resolved offline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import unquote

from strictreply.schema._vocabulary import (
    REFERENCES,
    TYPES,
    Applies,
    children,
    draft_of,
    ignores_siblings,
)
from strictreply.values._errors import ContractError
from strictreply.values._issues import pointer, pointer_tokens
from strictreply.values._limits import MAX_NUMBER_DIGITS, JSONObject

if TYPE_CHECKING:
    from referencing._core import Resolver, Resource

Document: TypeAlias = (
    "dict[str, Any] | bool"  # A JSON Schema as plain JSON that nothing else refers to
)
MAX_DEPTH = 120
MAX_NODES = 30_000
MAX_CHARS = 2_000_000
MAX_REFERENCES = 16
MAX_INTEGER_BITS = int(MAX_NUMBER_DIGITS * math.log2(10))
MAX_WORDS = 200  # how many characters of an engine's own message are shown
NOT_LINEAR = (
    "the pattern is not one that can be matched in linear time: close every bracket, escape a "
    "bare { and a - inside brackets, or leave the pattern out and test the text in the tool's "
    "check="
)
# of a document without ``$id``, in :meth:`SchemaEngine.part`
DOCUMENT_URI = "urn:strictreply:schema"


def read_document(document: object) -> Document:
    """Copy a schema deeply, as plain dicts, lists and scalars.

    Raises ContractError for anything that is not JSON: other types, names that are not strings,
    NaN, unpaired surrogates, very long integers, and anything beyond the limits.
    """
    if not isinstance(document, Mapping | bool):
        raise ContractError(
            f"a schema must be an object or a boolean, not {type(document).__name__}: give a dict"
        )

    return cast("Document", _Copier().copy(document, "", 0))


class _Copier:
    """One pass over a document, with its counts."""

    def __init__(self) -> None:
        self.nodes = 0
        self.chars = 0

    def copy(self, value: object, path: str, depth: int) -> object:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise ContractError(
                f"the schema has over {MAX_NODES} values or {MAX_DEPTH} levels; "
                "declare what is needed"
            )

        below = depth + 1
        match value:
            case bool() | None:
                return value
            case str():
                return self._text(value, path)
            case int():
                if value.bit_length() > MAX_INTEGER_BITS:
                    words = f"an integer has more than {MAX_NUMBER_DIGITS} digits; leave it out"
                    raise ContractError(words, path=path)

                return int(value)
            case float():
                if not math.isfinite(value):
                    words = "NaN and Infinity are not JSON; leave the keyword out"
                    raise ContractError(words, path=path)

                return float(value)
            case Mapping():
                members = {self._text(name, path): each for name, each in value.items()}
                return {
                    name: self.copy(each, pointer(path, name), below)
                    for name, each in members.items()
                }
            case list() | tuple():
                return [
                    self.copy(item, pointer(path, index), below) for index, item in enumerate(value)
                ]
            case _:
                hint = "use dict, list, str, int, float, bool and None"
                words = f"a schema is JSON, {type(value).__name__} is not; {hint}"
                raise ContractError(words, path=path)

    def _text(self, text: object, path: str) -> str:
        """Copy a text as an exact str, so that members of an enum become their values."""
        if not isinstance(text, str):
            words = f"names in a schema are text; {type(text).__name__} is not: quote it"
            raise ContractError(words, path=path)

        self.chars += len(text)
        if self.chars > MAX_CHARS:
            raise ContractError(
                f"the schema has over {MAX_CHARS} characters; declare the part that is needed"
            )

        try:
            return text.encode().decode()
        except UnicodeEncodeError:
            words = "a text holds half of a surrogate pair; write it whole"
            raise ContractError(words, path=path) from None


def malformed(place: tuple[str | int, ...], words: str) -> ContractError:
    """Return the error for a schema that does not fit its metaschema.

    It says what is wrong, where, and what to do.
    """
    excerpt = words[:MAX_WORDS]
    match place:
        case (*_, "type"):
            types = ", ".join(TYPES)
            words = f"the type must be {types} or a list of them; leave it out to allow any type"
        case (*_, "required"):
            words = f"required must be a list of member names, next to properties: {excerpt}"
        case _:
            hint = "write it as JSON Schema has it, or leave it out"
            words = f"the schema is malformed: {excerpt}; {hint}"

    return ContractError(words, path=pointer("", *place))


@dataclass(frozen=True, slots=True)
class ReferenceScope:
    """The base URI for resolving references inside a schema."""

    document: dict[str, Any]
    # None if all references are local (``#/$defs/…``), which need no base
    resolver: Resolver[Any] | None = None

    @classmethod
    def of(cls, document: JSONObject) -> ReferenceScope:
        """Return the scope at the root of a document, which knows the published metaschemas."""
        if only_pointers(document):
            return cls(document)

        # rarely needed, slow to import
        from jsonschema_specifications import REGISTRY  # noqa: PLC0415

        scope = cls(document)
        resource = scope._resource(document)
        registry = REGISTRY.with_resource(resource.id() or "", resource)
        return cls(document, registry.resolver_with_root(resource))

    def inside(self, schema: JSONObject) -> ReferenceScope:
        """Return the scope inside ``schema``, which may have its own ``$id``."""
        if self.resolver is None or "$id" not in schema or schema is self.document:
            return self

        return ReferenceScope(self.document, self.resolver.in_subresource(self._resource(schema)))

    def lookup(self, reference: str) -> tuple[Any, ReferenceScope] | None:
        """Return the target of a reference, with its scope.

        None if there is none.
        """
        try:
            if self.resolver is None:
                found = at_pointer(self.document, pointer_tokens(unquote(reference[1:])))
                scope = self
            else:
                found, scope = self._resolved(self.resolver, reference)
        except (LookupError, ValueError, TypeError, AttributeError):
            return None

        return (found, scope) if isinstance(found, dict | bool) else None

    def _resolved(
        self, resolver: Resolver[object], reference: str
    ) -> tuple[object, ReferenceScope]:
        # rarely needed, slow to import
        from referencing.exceptions import Unresolvable  # noqa: PLC0415

        try:
            resolved = resolver.lookup(reference)
        except Unresolvable as error:
            raise LookupError(reference) from error

        return resolved.contents, ReferenceScope(self.document, resolved.resolver)

    def _resource(self, schema: JSONObject) -> Resource[Any]:
        # rarely needed, slow to import
        from referencing.jsonschema import specification_with  # noqa: PLC0415

        return specification_with(draft_of(self.document)).create_resource(schema)


def objects_in(value: object) -> Iterator[tuple[JSONObject, str]]:
    """Yield every object in a document, whether it is a schema or not, with its JSON Pointer."""
    pending = [(value, "")]
    while pending:
        value, path = pending.pop()
        if isinstance(value, dict):
            yield value, path
            pending.extend((member, pointer(path, name)) for name, member in value.items())
        elif isinstance(value, list):
            pending.extend((item, pointer(path, index)) for index, item in enumerate(value))


def definitions_of(part: JSONObject, document: JSONObject) -> JSONObject | None:
    """Return the root definitions that a part of a document refers to.

    None if it refers to anything else.
    """
    found: dict[str, Any] = {}
    pending: list[Any] = [part]

    for holder in pending:  # grows during the iteration
        objects = [each for each, _ in objects_in(holder)]
        is_dynamic = any(not each.keys().isdisjoint(REFERENCES[1:]) for each in objects)
        if is_dynamic or "$id" in holder or not only_pointers(holder):
            return None

        for reference in {each["$ref"] for each in objects if isinstance(each.get("$ref"), str)}:
            match pointer_tokens(reference[1:]):
                case [("$defs" | "definitions") as key, name] if name in document.get(key, ()):
                    defined = document[key][name]
                case _:
                    return None

            if not isinstance(defined, dict):
                return None

            if name not in found.setdefault(key, {}):
                found[key][name] = defined
                pending.append(defined)

    return found


def only_pointers(document: JSONObject) -> bool:
    """Return whether every reference is ``#`` or ``#/…`` and no sub-schema changes the base."""
    for each, _ in objects_in(document):
        # A property may be named $ref: its value is not text, but the property's schema.
        references = (each[keyword] for keyword in REFERENCES if isinstance(each.get(keyword), str))
        if ("$id" in each and each is not document) or not all(map(is_pointer, references)):
            return False

    return True


def is_pointer(reference: str) -> bool:
    """Return whether a reference points into its own document."""
    return reference == "#" or reference.startswith("#/")


def at_pointer(document: Any, tokens: list[str]) -> Any:
    """Return the JSON value at reference tokens.

    Raises LookupError or ValueError if there is none.
    """
    for token in tokens:
        document = document[int(token)] if isinstance(document, list) else document[token]
    return document


@dataclass(slots=True, eq=False)
class Node:
    """One object schema.

    ``pointer`` is its place in the document; None inside a published metaschema.
    """

    schema: dict[str, Any]
    """The object schema."""
    pointer: str | None
    """Its place in the document; None inside a published metaschema."""
    scope: ReferenceScope
    """What its references resolve against."""
    edges: list[SchemaEdge] = field(default_factory=list)
    """The sub-schemas that its keywords lead to."""

    def along(self, *applies: Applies) -> Iterator[SchemaEdge]:
        """Yield the edges that apply to the named kinds of place."""
        return (edge for edge in self.edges if edge.applies in applies)

    def targets(self, keyword: str) -> list[Node]:
        """Return the targets of a keyword."""
        return [edge.target for edge in self.edges if edge.keyword == keyword]

    def resolved(self, *stops: str) -> Node:
        """Follow a schema that is little more than a reference.

        A schema with a ``type``, or with one of the keywords ``stops``, is not followed.
        """
        node = self
        for _ in range(MAX_REFERENCES):
            targets = node.targets("$ref")
            if len(targets) != 1 or any(keyword in node.schema for keyword in ("type", *stops)):
                break

            node = targets[0]

        return node

    def judges(self) -> list[Node]:
        """Return this schema and all that may judge the same value with it, nearest first."""
        return joined([self], _judges_here)


@dataclass(slots=True, eq=False)
class SchemaEdge:
    """The edge from a node's ``keyword`` to ``target``.

    ``token`` is the name or index below the keyword, or None.
    """

    keyword: str
    """The keyword that leads to the target."""
    token: str | int | None
    """The name or index below the keyword; None without one."""
    applies: Applies
    """Where the target looks, seen from the value."""
    target: Node
    """The sub-schema."""


def _judges_here(edge: SchemaEdge) -> bool:
    return edge.applies is Applies.HERE and edge.keyword not in ("not", "if")


def _must_be_fit(edge: SchemaEdge) -> bool:
    return edge.keyword in ("$ref", "allOf") and edge.target.pointer is not None


def joined(nodes: Iterable[Node], follows: Callable[[SchemaEdge], bool]) -> list[Node]:
    """Return nodes and everything reachable by the edges that ``follows`` selects.

    Each node is included once, the nearest first.
    """
    members = {id(node): node for node in nodes}
    pending = list(members.values())

    for node in pending:  # grows during the iteration
        for edge in node.edges:
            if id(edge.target) not in members and follows(edge):
                members[id(edge.target)] = edge.target
                pending.append(edge.target)

    return pending


def conjoined_with(nodes: Iterable[Node]) -> list[Node]:
    """Return schemas of a document, and all schemas that every fitting value must also fit."""
    return joined(nodes, _must_be_fit)


def described_names(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield the names of the members that schemas describe."""
    return (name for node in nodes for name in node.schema.get("properties", ()))


def _advice(document: Any, reference: str) -> str:
    name = reference.rpartition("/")[2].removeprefix("#")
    for holder in ("$defs", "definitions"):
        if isinstance(document.get(holder), dict) and name in document[holder]:
            return f"did you mean {f'#/{holder}/{name}'!r}?"

    return "put the referenced schema into $defs and refer to it as #/$defs/…"


class Graph:
    """Every object schema of a document, and of its references, once."""

    def __init__(self, document: Document) -> None:
        self._places = {id(each): path for each, path in objects_in(document)}
        self.document: Document = document
        """The JSON Schema."""
        self._silencing = ignores_siblings(document)
        self._by_id: dict[int, Node] = {}
        self._dynamic: list[tuple[Node, str]] = []

        self.nodes: list[Node] = []
        """Every object schema, once."""
        self.root: Node | None = None
        """The node of the whole document; None for ``true`` and ``false``."""
        if isinstance(document, dict):
            self.root = self._node(document, ReferenceScope.of(document))

        for node in self.nodes:  # grows during the iteration
            self._connect(node)

        self._connect_dynamic()

    def find(self, schema: object) -> Node | None:
        """Return the node of a sub-schema by identity.

        None for booleans, and for anything outside of the document.
        """
        return self._by_id.get(id(schema))

    def _node(self, schema: JSONObject, scope: ReferenceScope) -> Node:
        known = self._by_id.get(id(schema))
        if known is None:
            known = Node(schema, self._places.get(id(schema)), scope.inside(schema))
            self._by_id[id(schema)] = known
            self.nodes.append(known)

        return known

    def _connect(self, node: Node) -> None:
        silenced = self._silencing and "$ref" in node.schema
        for keyword, token, schema, applies in children(node.schema):
            if isinstance(schema, dict) and not (silenced and applies is not Applies.NOWHERE):
                target = self._node(schema, node.scope)
                node.edges.append(SchemaEdge(keyword, token, applies, target))

        for keyword in REFERENCES:
            reference = node.schema.get(keyword)
            if not isinstance(reference, str):
                continue

            found = node.scope.lookup(reference)
            if found is None:
                words = f"{keyword} {reference!r} points to nothing in the schema"
                advice = f"references are not fetched: {_advice(self.document, reference)}"
                path = pointer(node.pointer or "", keyword)
                raise ContractError(f"{words}; {advice}", path=path)

            if isinstance(found[0], dict):
                node.edges.append(SchemaEdge(keyword, None, Applies.HERE, self._node(*found)))

            if keyword != "$ref":
                self._dynamic.append((node, reference.rpartition("#")[2]))

    def _connect_dynamic(self) -> None:
        """Connect dynamic references to every possible target.

        The path of the caller decides at run time which target is meant.
        """
        anchored: dict[str, list[Node]] = {}
        for node in self.nodes:
            anchor = node.schema.get("$dynamicAnchor")
            if node.schema.get("$recursiveAnchor") is True:
                anchor = ""

            if isinstance(anchor, str):
                anchored.setdefault(anchor, []).append(node)

        for node, anchor in self._dynamic:
            targets = {id(target) for reference in REFERENCES for target in node.targets(reference)}
            for target in anchored.get(anchor, ()):
                if id(target) not in targets:
                    node.edges.append(SchemaEdge("$dynamicRef", None, Applies.HERE, target))
