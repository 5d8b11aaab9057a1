"""The keywords of JSON Schema that hold schemas, by what they apply to; no rule is checked here."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from strictreply.schema._documents import Document
from strictreply.values._errors import ContractError

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_07 = "http://json-schema.org/draft-07/schema"
DRAFT_06 = "http://json-schema.org/draft-06/schema"
DRAFTS = (DRAFT_2020, DRAFT_2019, DRAFT_07, DRAFT_06)
"""The drafts that the engines judge by."""

DRAFT_04 = "http://json-schema.org/draft-04/schema"
DRAFT_03 = "http://json-schema.org/draft-03/schema"
READ_DRAFTS = (*DRAFTS, DRAFT_04, DRAFT_03)
DIALECTS = {
    "http://json-schema.org/schema": "",  # whatever draft is the newest
    "http://spec.openapis.org/oas/3.1/dialect/base": DRAFT_2020,  # OpenAPI 3.1 section 4.8.24
    "http://iglucentral.com/schemas/com.snowplowanalytics.self-desc/schema/jsonschema/1-0-0": DRAFT_04,
}
"""Other values of ``$schema`` that validate as a draft does; a hyper-schema is its draft, with links beside."""


TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


class Applies(Enum):
    """Where a sub-schema looks, seen from the value that its holder judges."""

    HERE = "the same value"
    MEMBER = "a member of the object"
    ITEM = "an item of the array"
    NAME = "a member's name"
    NOWHERE = "nothing until it is referenced"


class Child(NamedTuple):
    """A sub-schema in its holder; ``token`` is the name or index below ``keyword``, None when it holds just one."""

    keyword: str
    token: str | int | None
    schema: Any
    applies: Applies


ONE = {
    "not": Applies.HERE,
    "if": Applies.HERE,
    "then": Applies.HERE,
    "else": Applies.HERE,
    "additionalProperties": Applies.MEMBER,
    "unevaluatedProperties": Applies.MEMBER,
    "propertyNames": Applies.NAME,
    "items": Applies.ITEM,
    "additionalItems": Applies.ITEM,
    "unevaluatedItems": Applies.ITEM,
    "contains": Applies.ITEM,
    "contentSchema": Applies.NOWHERE,
}
LISTS = {
    "allOf": Applies.HERE,
    "anyOf": Applies.HERE,
    "oneOf": Applies.HERE,
    "prefixItems": Applies.ITEM,
    "items": Applies.ITEM,
}
MAPS = {
    "properties": Applies.MEMBER,
    "patternProperties": Applies.MEMBER,
    "dependentSchemas": Applies.HERE,
    "dependencies": Applies.HERE,
    "$defs": Applies.NOWHERE,
    "definitions": Applies.NOWHERE,
}
LENGTHS: dict[str, tuple[type, Callable[[Any, Any], bool]]] = {
    "minItems": (list, operator.ge),
    "maxItems": (list, operator.le),
    "minProperties": (dict, operator.ge),
    "maxProperties": (dict, operator.le),
}
"""The keywords that bound the length of an array or an object, and how."""

WHOLE = ("enum", "const", "uniqueItems")
"""The keywords that look at all of a container by themselves."""

OWN = frozenset(
    {
        *("type", *LENGTHS, *WHOLE, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
    }
)
"""The keywords about a value itself, whatever stands below it."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
HOLDERS = frozenset({*ONE, *LISTS, *MAPS})
UNSET_BY_NULL = HOLDERS.union(
    REFERENCES,
    ("$anchor", "$comment", "$id", "$schema", "contentEncoding", "contentMediaType", "dependentRequired"),
    ("deprecated", "description", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "id"),
    ("maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength"),
    ("minProperties", "minimum", "multipleOf", "nullable", "pattern", "readOnly", "required", "title"),
    ("uniqueItems", "writeOnly"),
)
"""The keywords whose value null, which no draft allows, is how serializers write that they are not set."""
IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies", *REFERENCES})


def declared_draft(document: dict[str, Any]) -> str:
    """Name the draft that a document declares, empty when it declares none.

    Raises ContractError for a ``$schema`` that is no draft and no known dialect of one: it may mean anything.
    """
    declared = document.get("$schema")
    if declared is None or declared == "":
        return ""
    if isinstance(declared, str):
        address = declared.partition("#")[0].rstrip("/").replace("https://", "http://")
        known = {draft.replace("https://", "http://"): draft for draft in READ_DRAFTS} | DIALECTS
        draft = known.get(address.replace("/hyper-schema", "/schema"))
        if draft is not None:
            return draft
    message = (
        "$schema must name JSON Schema 2020-12, 2019-09, draft-07, draft-06, draft-04 or draft-03; "
        "name the draft that the schema is written in, or leave $schema out to have it read as 2020-12"
    )
    raise ContractError(message, path="/$schema")


def draft_of(document: Document) -> str:
    """Name the draft in which a document is enforced; 2020-12 when it does not say."""
    declared = document.get("$schema", "") if isinstance(document, dict) else ""
    return next((draft for draft in DRAFTS if draft == declared.removesuffix("#")), DRAFT_2020)


def ignores_siblings(draft: str) -> bool:
    """Whether ``$ref`` silences the keywords beside it, as it did until draft-07."""
    return draft in (DRAFT_07, DRAFT_06)


def children(schema: dict[str, Any]) -> Iterator[Child]:
    """Give the sub-schemas that stand directly in ``schema``, booleans too; references are not followed."""
    for keyword in (keyword for keyword in schema if keyword in HOLDERS):  # in the schema's own order
        value = schema[keyword]
        if isinstance(value, list) and keyword in LISTS:
            yield from (Child(keyword, index, item, LISTS[keyword]) for index, item in enumerate(value))
        elif isinstance(value, dict) and keyword in MAPS:
            yield from (Child(keyword, name, item, MAPS[keyword]) for name, item in value.items())
        elif keyword in ONE:
            yield Child(keyword, None, value, ONE[keyword])


def json_type(value: object) -> str:
    """Name the JSON type of a value; a number without a fraction is an integer (JSON Schema 2020-12 section 4.2.3)."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "null"
