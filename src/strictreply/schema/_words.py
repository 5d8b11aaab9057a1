"""The schema's own words for what it expects, short enough for a prompt; nothing here sees a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from strictreply.values._issues import capped, json_words

MAX_LIST_CHARS = 64
BRIEF_LIST_CHARS = 32  # beside a hint that names the nearest
MAX_FORMS_CHARS = 120
MAX_WORD_CHARS = 120
MAX_FORM_CHARS = 60
OTHER_FORM = "what another form allows"

TYPES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}

FORMATS = {
    "date": "a date, YYYY-MM-DD",
    "date-time": "a date and time as in RFC 3339, 2025-01-31T12:00:00Z",
    "time": "a time as in RFC 3339, 12:00:00Z",
    "duration": "an ISO 8601 duration, P1DT2H",
    "email": "an email address",
    "idn-email": "an email address",
    "hostname": "a host name",
    "idn-hostname": "a host name",
    "ipv4": "an IPv4 address",
    "ipv6": "an IPv6 address",
    "uri": "a URI with its scheme",
    "uri-reference": "a URI or a relative reference",
    "iri": "an IRI with its scheme",
    "iri-reference": "an IRI or a relative reference",
    "uri-template": "a URI template",
    "uuid": "a UUID",
    "json-pointer": "a JSON Pointer",
    "relative-json-pointer": "a relative JSON Pointer",
    "regex": "a regular expression",
}

COUNTED = {
    "minLength": "character",
    "maxLength": "character",
    "minItems": "item",
    "maxItems": "item",
    "minProperties": "key",
    "maxProperties": "key",
}


def expected_words(keyword: str, schema: Mapping[str, Any], list_chars: int = MAX_LIST_CHARS) -> str:
    """Return what ``keyword`` of ``schema`` asks for, to stand in its rule's template."""
    value = schema.get(keyword)
    match keyword:
        case "type":
            return types_words(value if isinstance(value, list) else [value])
        case "enum" if isinstance(value, list):
            return list_words(value, list_chars)
        case "format":
            return FORMATS.get(str(value), f"in the format {word(value)}")
        case "items" | "additionalItems" | "unevaluatedItems":
            return plural(len(schema.get("prefixItems", ())), "item")
        case "contains":
            return contains_words(schema)
        case _ if keyword in COUNTED:
            return plural(value, COUNTED[keyword])
        case _:
            return word(value)


def word(value: object) -> str:
    """Return one value of the schema as JSON, capped."""
    return capped(json_words(value), MAX_WORD_CHARS)


def plural(count: object, noun: str) -> str:
    """Return a noun with its number."""
    return f"{word(count)} {noun}" if count == 1 else f"{word(count)} {noun}s"


def types_words(types: Iterable[object]) -> str:
    """Return the words for types: ``a string or null``."""
    return either([TYPES.get(str(name), word(name)) for name in types])


def either(words: Iterable[str]) -> str:
    """Return alternatives joined by ``or``; those beyond some 120 characters are counted."""
    every = list(dict.fromkeys(words))
    shown = _fitting(every, MAX_FORMS_CHARS)
    last = shown.pop() if len(shown) == len(every) > 1 else f"{len(every) - len(shown)} more forms"
    return f"{', '.join(shown)} or {last}" if len(every) > 1 else "".join(every)


def list_words(values: Iterable[object], chars: int = MAX_LIST_CHARS) -> str:
    """Return values of the schema as JSON, those beyond so many characters counted: at least the first is shown.

    A correction of one fault has to stay short, and the model has the schema in its request.
    """
    every = list(values)
    shown = _fitting(map(word, every), chars)
    listed = ", ".join(shown)
    return f"{listed} and {len(every) - len(shown)} more" if len(shown) < len(every) else listed


def _fitting(words: Iterable[str], chars: int) -> list[str]:
    """Return the words that fit into a list, at least the first; no more than these are spelled out."""
    shown: list[str] = []
    size = 0
    for text in words:
        size += len(text) + 2
        if shown and size > chars:
            break
        shown.append(text)
    return shown


def contains_words(schema: Mapping[str, Any]) -> str:
    """Return how many items of a kind there must be."""
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if most is None:
        return f"at least {plural(least, 'item')}"
    return f"{word(least)} to {plural(most, 'item')}"


def required_words(schemas: Iterable[Mapping[str, Any]]) -> str:
    """Return `` (a string)``, what a missing member must be; empty when its schemas do not agree or say much."""
    forms = {form_words(schema) for schema in schemas}
    words = forms.pop() if len(forms) == 1 else ""
    return f" ({words})" if words not in ("", OTHER_FORM) and len(words) <= MAX_FORM_CHARS else ""


def form_words(schema: Mapping[str, Any]) -> str:
    """Return what one branch of a union is: its constants, its format or type, or an object's required keys."""
    if "const" in schema:
        return word(schema["const"])
    if isinstance(schema.get("enum"), list):
        return f"one of {list_words(schema['enum'])}"
    declared = schema.get("type")
    types = types_words(declared if isinstance(declared, list) else [declared]) if declared else ""
    required = schema.get("required")
    if isinstance(required, list) and required and types in ("", TYPES["object"]):
        return f"an object with {list_words(required)}"
    if schema.get("format") in FORMATS:
        return FORMATS[str(schema["format"])]
    return types or OTHER_FORM
