"""The schema's own words for what it expects, short enough for a prompt; nothing here sees a value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

MAX_LIST_CHARS = 200
MAX_WORD_CHARS = 120

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


def expected_words(keyword: str, schema: Mapping[str, Any]) -> str:
    """Say what ``keyword`` of ``schema`` asks for, to stand in its rule's template."""
    value = schema.get(keyword)
    match keyword:
        case "type":
            return types_words(value if isinstance(value, list) else [value])
        case "enum" if isinstance(value, list):
            return list_words(value)
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
    """Write one value of the schema as JSON, capped."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_WORD_CHARS else f"{text[: MAX_WORD_CHARS - 1]}…"


def plural(count: object, noun: str) -> str:
    """Count a noun."""
    return f"{word(count)} {noun}" if count == 1 else f"{word(count)} {noun}s"


def types_words(types: Iterable[object]) -> str:
    """Name types: ``a string or null``."""
    return either([TYPES.get(str(name), word(name)) for name in types])


def either(words: list[str]) -> str:
    """Join alternatives, the last by ``or``."""
    words = list(dict.fromkeys(words))
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def list_words(values: Iterable[object]) -> str:
    """List values of the schema as JSON, in about 200 characters at most."""
    every = list(values)
    shown: list[str] = []
    size = 0
    for value in every:
        text = word(value)
        size += len(text) + 2
        if shown and size > MAX_LIST_CHARS:
            return f"{', '.join(shown)} and {len(every) - len(shown)} more"
        shown.append(text)
    return ", ".join(shown)


def contains_words(schema: Mapping[str, Any]) -> str:
    """Say how many items of a kind there must be."""
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if most is None:
        return f"at least {plural(least, 'item')}"
    return f"{word(least)} to {plural(most, 'item')}"


def form_words(schema: Mapping[str, Any]) -> str:
    """Name one branch of a union: its type, its constants, or an object's required keys."""
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
    return types or "what another form allows"
