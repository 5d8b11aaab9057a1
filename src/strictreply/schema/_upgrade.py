"""Older drafts and spellings of other languages read as the drafts that are enforced; no rule is checked here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from strictreply.schema._documents import Document, Graph, ReferenceScope, is_pointer, objects_in, only_pointers
from strictreply.schema._vocabulary import (
    DRAFT_03,
    DRAFT_04,
    DRAFT_07,
    DRAFT_2020,
    LISTS,
    MAPS,
    ONE,
    REFERENCES,
    TYPES,
    UNSET_BY_NULL,
    declared_draft,
    ignores_siblings,
    json_type,
)

BESIDE_REF = frozenset({"$ref", "definitions", "$defs", "title", "description", "default", "examples"})
BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
EXCLUDED_BY = {bound: exclusive for exclusive, bound in BOUNDS.items()}
TYPE_WORDS = {name: name for name in TYPES} | {
    "bool": "boolean",
    "dict": "object",
    "double": "number",
    "float": "number",
    "int": "integer",
    "list": "array",
    "none": "null",
    "str": "string",
    "tuple": "array",
}
"""What other languages call the types of JSON Schema, in lower case."""

NEWER = frozenset(
    {"dependentRequired", "dependentSchemas", "maxContains", "minContains", "prefixItems"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
# What may stand in a URI's fragment as it is, beside letters and digits (RFC 3986 section 3.5).
IN_FRAGMENTS = "/~!$&'()*+,;=:@?-._"
# What a keyword of a schema with its value becomes: no keyword, one, or several.
Respell: TypeAlias = Callable[[dict[str, Any], str, Any], dict[str, Any]]


def modern(document: Document) -> Document:
    """Return the same schema in a draft from 06 on.

    Draft-04 and draft-03 become draft-07. What no draft since 06 has a meaning for is read as its one meaning: a
    boolean ``required`` in a member, boolean exclusive bounds, ``null`` for a keyword that is not set, ``nullable``
    beside ``type`` (OpenAPI 3.0), ``"type": "any"``, type names of other languages, a name required twice, one
    example for a list of them, a pointer that is not spelled as a URI; and in what does not declare an older draft
    ``dependencies`` and a list in ``items``. A document that needs none of it comes back equal.

    Raises ContractError when ``$schema`` names no known draft.
    """
    if isinstance(document, bool):
        return document
    draft = declared_draft(document)
    is_old = draft in (DRAFT_04, DRAFT_03)
    keeps_ids = is_old and not _only_resolves_at_root(document)
    spell = _as_2020 if draft in (DRAFT_2020, "") else _plain

    def prepare(schema: dict[str, Any]) -> dict[str, Any]:
        schema = {name: value for name, value in schema.items() if value is not None or name not in UNSET_BY_NULL}
        if schema.get("items") == []:
            schema |= {"items": schema.pop("additionalItems", True)}
        return _with_required(_from_draft_03(schema) if draft == DRAFT_03 else schema)

    def respell(schema: dict[str, Any], keyword: str, value: Any) -> dict[str, Any]:
        if is_old and keyword in ("id", "$id") and isinstance(value, str):
            return {"$id": value} if keeps_ids and keyword == "id" else {}
        if keyword == "$ref" and isinstance(value, str) and value.startswith("#/"):
            return {"$ref": _encoded(document, value)}
        return spell(schema, keyword, value)

    written: dict[str, Any] = _rewritten(document, respell, prepare)
    declared = written.pop("$schema", "")
    target = DRAFT_07 if is_old else draft
    same = declared.removesuffix("#") == target
    return ({"$schema": declared if same else target} if target else {}) | written


def uses_newer_words(graph: Graph) -> bool:
    """Return whether a document of draft-07 or before holds keywords that came later, which its engine ignores."""
    return any(not NEWER.isdisjoint(node.schema) for node in graph.nodes)


def upgraded(document: Document) -> Document:
    """Return the same schema in a draft that has ``unevaluatedProperties``; newer drafts are returned as they are."""
    if isinstance(document, bool) or not ignores_siblings(document):
        return document

    def beside_ref(schema: dict[str, Any]) -> dict[str, Any]:  # what had no meaning until draft-07 would get one
        kept = BESIDE_REF if "$ref" in schema else schema.keys()
        return {name: value for name, value in schema.items() if name in kept}

    return {**_rewritten(document, _as_2020, beside_ref), "$schema": DRAFT_2020}


def as_member(document: Document, name: str) -> dict[str, Any]:
    """Return the schema of an object with the one member ``name``, which is what ``document`` describes.

    Definitions move to the root, where servers look for them, and pointers into the rest follow it. A document with
    identifiers or dynamic references keeps its references by a base of its own.
    """
    whole: dict[str, Any] = {"type": "object", "properties": {name: document}, "required": [name]}
    if isinstance(document, bool):
        return whole
    inner = {keyword: value for keyword, value in document.items() if keyword != "$schema"}
    draft = {"$schema": document["$schema"]} if "$schema" in document else {}
    if "$id" in inner or not only_pointers(inner):
        return draft | whole | {"properties": {name: {"$id": f"urn:strictreply:{name}"} | inner}}

    def moved(_: dict[str, Any], keyword: str, value: Any) -> dict[str, Any]:
        if keyword not in REFERENCES or not isinstance(value, str) or value.startswith(("#/$defs/", "#/definitions/")):
            return {keyword: value}
        return {"$ref": f"#/properties/{name}{value[1:]}"}  # without identifiers the dynamic ones lead there as well

    inner = _rewritten(inner, moved)
    defined = {keyword: inner.pop(keyword) for keyword in ("$defs", "definitions") if keyword in inner}
    return draft | whole | {"properties": {name: inner}} | defined


def _rewritten(schema: Any, respell: Respell, prepare: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> Any:
    if not isinstance(schema, dict):
        return schema
    schema, written = prepare(schema), dict[str, Any]()
    for keyword, value in schema.items():
        written |= respell(schema, keyword, value)
    for keyword, value in written.items():
        if isinstance(value, list) and keyword in LISTS:
            written[keyword] = [_rewritten(item, respell, prepare) for item in value]
        elif isinstance(value, dict) and keyword in MAPS:
            written[keyword] = {name: _rewritten(item, respell, prepare) for name, item in value.items()}
        elif keyword in ONE:
            written[keyword] = _rewritten(value, respell, prepare)
    return written


def _as_2020(schema: dict[str, Any], keyword: str, value: Any) -> dict[str, Any]:
    match keyword:
        case "items" if isinstance(value, list):
            return {"prefixItems": value}
        case "additionalItems":
            return {"items": value} if isinstance(schema.get("items"), list) else {}
        case "dependencies" if isinstance(value, dict):
            names = {name: needed for name, needed in value.items() if isinstance(needed, list)}
            schemas = {name: needed for name, needed in value.items() if not isinstance(needed, list)}
            spelled = {"dependentRequired": names, "dependentSchemas": schemas}
            return {name: needed for name, needed in spelled.items() if needed}
        case "$id" if isinstance(value, str) and value.startswith("#"):
            return {"$anchor": value[1:]}
        case _:
            return _plain(schema, keyword, value)


def _plain(schema: dict[str, Any], keyword: str, value: Any) -> dict[str, Any]:
    match keyword:
        case "exclusiveMinimum" | "exclusiveMaximum" if isinstance(value, bool):
            bound = schema.get(BOUNDS[keyword])
            return {keyword: bound} if value and json_type(bound) in ("integer", "number") else {}
        case "minimum" | "maximum" if schema.get(EXCLUDED_BY[keyword]) is True:
            return {}
        case "examples" if not isinstance(value, list):
            return {"examples": [value]}  # no keyword before draft-06, and often written as one example
        case "type":
            listed = value if isinstance(value, list) else [value]
            names = [TYPE_WORDS.get(name.lower(), name) if isinstance(name, str) else name for name in listed]
            names += ["null"] if schema.get("nullable") is True and "null" not in names else []
            names = [name for index, name in enumerate(names) if name not in names[:index]]
            several = isinstance(value, list) or len(names) > 1
            return {} if "any" in names else {"type": names if several else names[0]}
        case _:
            return {keyword: value}


def _with_required(schema: dict[str, Any]) -> dict[str, Any]:
    members, listed = schema.get("properties"), schema.get("required")
    described = members.items() if isinstance(members, dict) else ()
    names = list(listed) if isinstance(listed, list) else []
    names += [name for name, member in described if isinstance(member, dict) and member.get("required") is True]
    if not isinstance(listed, bool | list | None) or not all(isinstance(name, str) for name in names):
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword != "required"}
    return rest | {"required": list(dict.fromkeys(names))} if names or isinstance(listed, list) else rest


def _from_draft_03(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace the keywords that draft-04 gave up (JSON Schema draft-03 sections 5.1, 5.7, 5.24 to 5.26)."""
    schema = dict(schema)
    conditions: list[Any] = []
    extends = schema.pop("extends", [])
    conditions += extends if isinstance(extends, list) else [extends]
    if "disallow" in schema:
        conditions.append({"not": _one_of_types(schema.pop("disallow"))})
    if isinstance(schema.get("type"), list) and any(isinstance(each, dict) for each in schema["type"]):
        conditions.append(_one_of_types(schema.pop("type")))
    if "divisibleBy" in schema:
        schema["multipleOf"] = schema.pop("divisibleBy")
    needed = schema.get("dependencies")
    if isinstance(needed, dict):
        schema["dependencies"] = {name: [each] if isinstance(each, str) else each for name, each in needed.items()}
    return schema | {"allOf": [*schema.get("allOf", ()), *conditions]} if conditions else schema


def _one_of_types(types: Any) -> dict[str, Any]:
    listed = types if isinstance(types, list) else [types]
    return {"anyOf": [each if isinstance(each, dict) else {"type": each} for each in listed]}


def _encoded(document: dict[str, Any], reference: str) -> str:
    """Return a pointer spelled as a URI, when it leads somewhere as it is written: generics are named ``List[int]``."""
    for fragment in (unquote(reference[1:]), reference[1:]):
        spelled = f"#{quote(fragment, safe=IN_FRAGMENTS)}"
        if _leads_to_schema(document, spelled):
            return spelled
    return reference


def _only_resolves_at_root(document: dict[str, Any]) -> bool:
    """Return whether every reference is a pointer into the whole document, so that its identifiers serve for nothing.

    Generators of draft-04 give an ``id`` to every member; as bases they would lead such pointers astray.
    """
    references = (each.get("$ref") for each, _ in objects_in(document))
    return all(_leads_to_schema(document, each) for each in references if isinstance(each, str))


def _leads_to_schema(document: dict[str, Any], reference: str) -> bool:
    return is_pointer(reference) and ReferenceScope(document).lookup(reference) is not None
