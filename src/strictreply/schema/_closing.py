"""Prepares a schema for checking: converts older drafts to newer ones, and closes objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from strictreply.schema._documents import (
    Document,
    Graph,
    Node,
    ReferenceScope,
    SchemaEdge,
    at_pointer,
    conjoined_with,
    described_names,
    is_pointer,
    objects_in,
    only_pointers,
    read_document,
)
from strictreply.schema._engines import listed_values
from strictreply.schema._vocabulary import (
    DRAFT_03,
    DRAFT_04,
    DRAFT_07,
    DRAFT_2020,
    IN_PLACE,
    LISTS,
    MAPS,
    ONE,
    REFERENCES,
    STATEMENTS,
    TYPES,
    UNSET_BY_NULL,
    Applies,
    as_list,
    declared_draft,
    ignores_siblings,
    json_type,
)
from strictreply.values._issues import pointer_tokens
from strictreply.values._limits import JSONObject

BESIDE_REF = frozenset(
    {"$ref", "definitions", "$defs", "title", "description", "default", "examples"}
)
_OTHERS = {
    "bool": "boolean",
    "int": "integer",
    "str": "string",
    "dict": "object",
    "none": "null",
    "list": "array",
    "tuple": "array",
    "double": "number",
    "float": "number",
}
# The names of types in JSON Schema and other languages, in lower case.
TYPE_WORDS = {name: name for name in TYPES} | _OTHERS
# The keywords that have no meaning in drafts until 07.
NEWER = frozenset(
    {
        "dependentRequired",
        "dependentSchemas",
        "maxContains",
        "minContains",
        "prefixItems",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
# characters that need no escape in a URI's fragment, like letters and digits (RFC 3986, 3.5)
IN_FRAGMENTS = "/~!$&'()*+,;=:@?-._"
# From a keyword of a schema with its value to no keyword, one, or several.
Respell: TypeAlias = Callable[[dict[str, Any], str, Any], dict[str, Any]]


def modern(document: Document) -> Document:
    """Return the same schema in draft 06 or later (03 and 04 become 07).

    Raises ContractError for an unknown ``$schema``.
    """
    # Keywords without a meaning in any draft since 06 get their only possible meaning, such as
    # ``nullable`` next to ``type``. So do ``dependencies`` and a list in ``items``, if no older
    # draft is declared.
    if isinstance(document, bool):
        return document

    draft = declared_draft(document)
    is_old = draft in (DRAFT_04, DRAFT_03)
    keeps_ids = is_old and _needs_ids(document)
    spell = _as_2020 if draft in (DRAFT_2020, "") else _plain

    def respell(schema: JSONObject, keyword: str, value: object) -> JSONObject:
        if is_old and keyword in ("id", "$id") and isinstance(value, str):
            return {"$id": value} if keeps_ids and keyword == "id" else {}
        if keyword == "$ref" and isinstance(value, str) and value.startswith("#/"):
            return {"$ref": _encoded(document, value)}
        return spell(schema, keyword, value)

    written: dict[str, Any] = _rewritten(document, respell, partial(_prepared, draft=draft))
    declared = written.pop("$schema", "")
    target = DRAFT_07 if is_old else draft
    if not target:
        return written

    return {"$schema": declared if declared.removesuffix("#") == target else target} | written


def _prepared(schema: JSONObject, draft: str) -> JSONObject:
    schema = {
        name: value
        for name, value in schema.items()
        if value is not None or name not in UNSET_BY_NULL
    }
    if schema.get("items") == []:
        schema["items"] = schema.pop("additionalItems", True)

    return _with_required(_from_draft_03(schema) if draft == DRAFT_03 else schema)


def upgraded(document: Document) -> Document:
    """Return the same schema in a draft that has ``unevaluatedProperties``.

    Newer drafts are returned unchanged.
    """
    if isinstance(document, bool) or not ignores_siblings(document):
        return document

    # keywords next to a reference had no meaning until draft-07, and must not get one
    def beside_ref(schema: JSONObject) -> JSONObject:
        keywords = BESIDE_REF if "$ref" in schema else schema.keys()
        return {name: value for name, value in schema.items() if name in keywords}

    return {**_rewritten(document, _as_2020, beside_ref), "$schema": DRAFT_2020}


def as_member(document: Document, name: str) -> JSONObject:
    """Return the schema of an object with only the member ``name``, described by ``document``."""
    # Definitions move to the root, where servers look for them; identifiers and dynamic references
    # get a base URI instead.
    whole: dict[str, Any] = {"type": "object", "properties": {name: document}, "required": [name]}
    if isinstance(document, bool):
        return whole

    inner = {keyword: value for keyword, value in document.items() if keyword != "$schema"}
    draft = {"$schema": document["$schema"]} if "$schema" in document else {}

    if "$id" in inner or not only_pointers(inner):
        return draft | whole | {"properties": {name: {"$id": f"urn:strictreply:{name}"} | inner}}

    def moved(_: JSONObject, keyword: str, value: object) -> JSONObject:
        if keyword not in REFERENCES or not isinstance(value, str):
            return {keyword: value}
        if value.startswith(("#/$defs/", "#/definitions/")):
            return {keyword: value}

        # without identifiers, dynamic references point there, too
        return {"$ref": f"#/properties/{name}{value[1:]}"}

    inner = _rewritten(inner, moved)
    holders = [keyword for keyword in ("$defs", "definitions") if keyword in inner]
    defined = {keyword: inner.pop(keyword) for keyword in holders}
    return draft | whole | {"properties": {name: inner}} | defined


def _rewritten(
    schema: object,
    respell: Respell,
    prepare: Callable[[JSONObject], JSONObject] = dict,
) -> Any:
    if not isinstance(schema, dict):
        return schema

    schema = prepare(schema)
    written = dict[str, Any]()

    for keyword, value in schema.items():
        written |= respell(schema, keyword, value)

    for keyword, value in written.items():
        if isinstance(value, list) and keyword in LISTS:
            written[keyword] = [_rewritten(item, respell, prepare) for item in value]
        elif isinstance(value, dict) and keyword in MAPS:
            written[keyword] = {
                name: _rewritten(item, respell, prepare) for name, item in value.items()
            }
        elif keyword in ONE:
            written[keyword] = _rewritten(value, respell, prepare)

    return written


def _as_2020(schema: JSONObject, keyword: str, value: object) -> JSONObject:
    match keyword:
        case "items" if isinstance(value, list):
            return {"prefixItems": value}
        case "additionalItems":
            return {"items": value} if isinstance(schema.get("items"), list) else {}
        case "dependencies" if isinstance(value, dict):
            lists = {name: needed for name, needed in value.items() if isinstance(needed, list)}
            schemas = {name: needed for name, needed in value.items() if name not in lists}
            parted = {"dependentRequired": lists, "dependentSchemas": schemas}
            return {name: part for name, part in parted.items() if part}
        case "$id" if isinstance(value, str) and value.startswith("#"):
            return {"$anchor": value[1:]}
        case _:
            return _plain(schema, keyword, value)


def _plain(schema: JSONObject, keyword: str, value: object) -> JSONObject:
    match keyword:
        case "exclusiveMinimum" | "exclusiveMaximum" if isinstance(value, bool):
            bound = schema.get(keyword.removeprefix("exclusive").lower())
            return {keyword: bound} if value and json_type(bound) in ("integer", "number") else {}
        case "minimum" | "maximum" if schema.get(f"exclusive{keyword.capitalize()}") is True:
            return {}
        case "examples" if not isinstance(value, list):
            # it is not a keyword before draft-06, and often used for a single example
            return {"examples": [value]}
        case "type":
            return _types(value, is_nullable=schema.get("nullable") is True)
        case _:
            return {keyword: value}


def _types(value: object, *, is_nullable: bool) -> JSONObject:
    names = [
        TYPE_WORDS.get(name.lower(), name) if isinstance(name, str) else name
        for name in as_list(value)
    ]
    if is_nullable:
        names.append("null")

    names = [name for index, name in enumerate(names) if name not in names[:index]]
    if "any" in names:
        return {}

    return {"type": names if isinstance(value, list) or len(names) > 1 else names[0]}


def _with_required(schema: JSONObject) -> JSONObject:
    members = schema.get("properties")
    listed = schema.get("required")
    names = list(listed) if isinstance(listed, list) else []

    for name, member in members.items() if isinstance(members, dict) else ():
        if isinstance(member, dict) and member.get("required") is True:
            names.append(name)

    is_list_or_flag = isinstance(listed, bool | list | None)
    if not is_list_or_flag or not all(isinstance(name, str) for name in names):
        return schema

    rest = {keyword: value for keyword, value in schema.items() if keyword != "required"}
    if names or isinstance(listed, list):
        rest["required"] = list(dict.fromkeys(names))

    return rest


def _from_draft_03(schema: JSONObject) -> JSONObject:
    """Replace the keywords that draft-04 removed.

    They are in JSON Schema draft-03 sections 5.1, 5.7 and 5.24 to 5.26.
    """
    schema = dict(schema)
    conditions = list(as_list(schema.pop("extends", [])))

    if "disallow" in schema:
        conditions.append({"not": _one_of_types(schema.pop("disallow"))})

    types = schema.get("type")
    if isinstance(types, list) and any(isinstance(each, dict) for each in types):
        conditions.append(_one_of_types(schema.pop("type")))

    if "divisibleBy" in schema:
        schema["multipleOf"] = schema.pop("divisibleBy")

    needed = schema.get("dependencies")
    if isinstance(needed, dict):
        schema["dependencies"] = {
            name: [each] if isinstance(each, str) else each for name, each in needed.items()
        }

    return schema | {"allOf": [*schema.get("allOf", ()), *conditions]} if conditions else schema


def _one_of_types(types: object) -> JSONObject:
    return {
        "anyOf": [each if isinstance(each, dict) else {"type": each} for each in as_list(types)]
    }


def _encoded(document: JSONObject, reference: str) -> str:
    """Return a pointer encoded as a URI, if it has a target without encoding.

    Generic types, for example, have names like ``List[int]``, which are not valid in a URI.
    """
    for fragment in (unquote(reference[1:]), reference[1:]):
        spelled = f"#{quote(fragment, safe=IN_FRAGMENTS)}"
        if _leads_to_schema(document, spelled):
            return spelled

    return reference


def _needs_ids(document: JSONObject) -> bool:
    # Generators of draft-04 give an id to every member; used as base URIs, these would break all
    # pointers.
    references = [
        each["$ref"] for each, _ in objects_in(document) if isinstance(each.get("$ref"), str)
    ]
    return not all(_leads_to_schema(document, each) for each in references)


def _leads_to_schema(document: JSONObject, reference: str) -> bool:
    return is_pointer(reference) and ReferenceScope(document).lookup(reference) is not None


SPEAKING = ("properties", "patternProperties")
# closing a negated or tested schema would open the schema around it
AS_WRITTEN = ("not", "if", "contains", "propertyNames")


def closed_graph(source: Document, *, root_closed: bool) -> Graph:
    """Copy a schema with its objects closed, and return the copy's graph.

    With ``root_closed`` the root is always closed. Everything that the copy accepts, the source
    accepts, too, except a ``oneOf`` whose closed branches overlap less.

    Every place that judges its own value is closed once: by ``additionalProperties`` if no other
    schema judges the same value (it sees only the properties next to it), else by
    ``unevaluatedProperties`` around all of them. A union (``anyOf``, ``oneOf``) without other
    keywords is closed branch by branch. Explicit statements are respected everywhere. A required
    member counts as listed.
    """
    copy = upgraded(read_document(source))
    graph = Graph({} if copy is True and root_closed else copy)
    closer = _Closer(graph, root_closed=root_closed)
    closer.close()  # only booleans are added, so the graph stays correct
    return graph


def shown_document(source: Document, closed: Graph) -> Document:
    """Return a schema with ``additionalProperties: false`` wherever closing added it.

    It is ``source`` itself if closing added none.
    """
    # without ``unevaluatedProperties``, which endpoints do not know, and without what would forbid
    # members that are only required
    copy = None
    for node in closed.nodes:
        if node.pointer is None or node.schema.get("additionalProperties") is not False:
            continue

        copy = read_document(source) if copy is None else copy
        # closing reads an older draft in the keywords of a newer one
        with suppress(LookupError, ValueError, TypeError):
            written = at_pointer(copy, pointer_tokens(node.pointer))
            if not isinstance(written, dict):
                continue

            described = node.schema.get("properties", {})
            if written.get("properties", {}).keys() == described.keys():
                written.setdefault("additionalProperties", False)

    return source if copy is None or copy == source else copy


class _Closer:
    """The process of closing one document."""

    def __init__(self, graph: Graph, *, root_closed: bool) -> None:
        self._places: dict[int, Node] = {}  # the schemas that judge their own value
        self._choices: dict[int, list[SchemaEdge]] = {}
        self._composed: set[int] = set()
        # reached only through references, so a composition elsewhere may also use them
        self._shared: set[int] = set()
        # closed although they list nothing
        self._forced: set[int] = {id(graph.root)} if root_closed else set()
        self._pending: list[Node] = []

        if graph.root is not None:
            self._discover(graph.root, shared=False)

        while self._pending:
            node = self._pending.pop()
            choices = self._choices[id(node)] = _choices(node)
            for edge in choices:
                self._discover(edge.target, shared=True)  # a composition may use the whole union

            members = [node] if choices else node.judges()
            # All except the place itself describe a part of its members: closed separately, each
            # would reject the others' part.
            self._composed.update(map(id, members[1:]))

            for member in members:
                for edge in member.along(Applies.MEMBER, Applies.ITEM):
                    if edge.keyword not in AS_WRITTEN:
                        self._discover(edge.target, shared=False)

    def _discover(self, node: Node, *, shared: bool) -> None:
        """Record a place; a place reached directly is not shared, whatever else refers to it."""
        if id(node) not in self._places:
            self._places[id(node)] = node
            self._shared.add(id(node))
            self._pending.append(node)

        if not shared:
            self._shared.discard(id(node))

    def close(self) -> None:
        for node in self._places.values():
            # A definition that compositions refer to stays open: closed, it would reject the
            # members that the others describe. The compositions are closed around it, and so is
            # each place that refers only to it (_close_choice).
            composed = id(node) in self._shared and id(node) in self._composed
            stated = any(each in node.schema for each in STATEMENTS)
            if node.pointer is not None and not composed and not stated:
                self._close(node)

    def _close(self, node: Node) -> None:
        schema = node.schema
        forced = id(node) in self._forced

        if choices := self._choices[id(node)]:
            for edge in choices:
                self._close_choice(node, edge)

            # A ``true`` branch cannot have its own statement, so the place around the union must
            # have it.
            if forced and any(branch is True for branch in schema.get(choices[0].keyword, ())):
                schema["unevaluatedProperties"] = False

            return

        members = node.judges()
        if forced or any("properties" in member.schema for member in members):
            _admit_required(node)
            # additionalProperties sees only its own schema: next to others, it would reject what
            # they describe.
            alone = not any(_speaks(member) for member in members[1:])
            schema["additionalProperties" if alone else "unevaluatedProperties"] = False

    def _close_choice(self, node: Node, edge: SchemaEdge) -> None:
        """Close the target of a place.

        The place around the union is closed if the target itself must stay open.
        """
        spoken = any(_speaks(member) for member in edge.target.judges())
        forced = id(node) in self._forced
        left_open = id(edge.target) in self._composed or edge.target.pointer is None

        # A branch of only this union is closed itself; for a shared target, the place around the
        # union is closed.
        if edge.keyword not in REFERENCES and not left_open:
            if forced:
                self._forced.add(id(edge.target))  # its turn comes later
        elif (spoken and left_open) or (forced and (left_open or not spoken)):
            _admit_required(node)
            node.schema["unevaluatedProperties"] = False


def _choices(node: Node) -> list[SchemaEdge]:
    # With other keywords next to it, a union only contributes to the description of the object, and
    # its branches must stay open.
    combined = [keyword for keyword in node.schema if keyword in IN_PLACE or keyword in SPEAKING]
    edges = [edge for edge in node.along(Applies.HERE) if edge.keyword != "not"]
    choosing = ("$ref", "anyOf", "oneOf") if len(edges) > 1 else ("$ref", "anyOf", "oneOf", "allOf")
    if len(combined) != 1 or combined[0] not in choosing:
        return []

    demanded = _demanded(node)
    if not demanded:
        return edges

    # Each branch, which is closed by itself, must know what is required around the union.
    for edge in edges:
        required = map(_demanded, conjoined_with([edge.target]))
        if not _described(edge.target).union(*required).issuperset(demanded):
            return []

    return edges


def _admit_required(node: Node) -> None:
    """List at a place what is required, or in a listed value, but not described there.

    Closing must not forbid what the schema requires or lists.
    """
    contexts = {id(node): _described(node)}
    pending = [node]
    missing = dict[str, None]()

    for member in pending:  # grows during the iteration
        context = contexts[id(member)]
        named = (*_demanded(member), *_listed_names(member))
        missing |= dict.fromkeys(name for name in named if name not in context)

        for edge in member.along(Applies.HERE):
            known = contexts.get(id(edge.target))
            inner = context | _described(edge.target)
            if edge.keyword not in AS_WRITTEN and (known is None or not known <= inner):
                contexts[id(edge.target)] = inner if known is None else known & inner
                pending.append(edge.target)

    if missing:
        described = node.schema.get("properties", {})
        node.schema["properties"] = {**described, **dict.fromkeys(missing, True)}


def _described(node: Node) -> frozenset[str]:
    return frozenset(described_names(conjoined_with([node])))


def _demanded(node: Node) -> list[str]:
    beside = node.schema.get("dependentRequired", {}).values()
    return [name for names in (node.schema.get("required", ()), *beside) for name in names]


def _listed_names(node: Node) -> Iterator[str]:
    """Yield the members of the objects that a schema lists as its values."""
    objects = (each for each in listed_values(node.schema) if isinstance(each, dict))
    return (str(name) for each in objects for name in each)


def _speaks(node: Node) -> bool:
    return any(keyword in node.schema for keyword in (*SPEAKING, *STATEMENTS))
