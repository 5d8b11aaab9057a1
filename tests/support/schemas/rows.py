"""Schemas for each row of the table of providers, on both sides of its conditions, by a seed.

Each is a valid JSON Schema of arguments or answers, with values that fit it and values that break
the row alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from strictreply.core import JSONObject


@dataclass(frozen=True, slots=True)
class Part:
    """One sub-schema of a row."""

    schema: JSONObject
    """The sub-schema."""
    good: tuple[Any, ...] = ()
    """Values that fit it."""
    bad: tuple[Any, ...] = ()
    """Values that break what the row is about."""
    definitions: Mapping[str, JSONObject] | None = None
    """What it refers to, below ``$defs`` of the root."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A whole schema of a row."""

    row: str
    """The row that it is made for."""
    number: int
    """Its number in the row."""
    schema: JSONObject
    """The schema."""
    good: tuple[Any, ...]
    """Values that fit it."""
    bad: tuple[Any, ...]
    """Values that break what the row is about."""


Maker: TypeAlias = Callable[[random.Random], Part]
PER_ROW: Final = 28
_WORDS: Final = ("city", "name", "unit", "limit", "note", "code", "size", "owner", "state", "level")


def closed(members: JSONObject, required: list[str] | None = None, **more: Any) -> JSONObject:
    """Write an object that has these members and no other."""
    names = list(members) if required is None else required
    return {
        "type": "object",
        "properties": members,
        "required": names,
        "additionalProperties": False,
        **more,
    }


def _word(draw: random.Random) -> str:
    return draw.choice(_WORDS)


def _two_words(draw: random.Random) -> list[str]:
    return draw.sample(_WORDS, 2)


def _plain(draw: random.Random) -> Part:
    return draw.choice(
        [
            Part({"type": "integer"}, (3,), ("x",)),
            Part({"type": "number"}, (2.5,), ("x",)),
            Part({"type": "string"}, ("x",), (3,)),
            Part({"type": "boolean"}, (True,), ("x",)),
            Part({"type": "null"}, (None,), ("x",)),
            Part({"type": ["integer", "null"]}, (3, None), ("x",)),
            Part({"type": ["string", "integer"]}, (3, "x"), (None,)),
        ]
    )


def _enum(draw: random.Random) -> Part:
    words = _two_words(draw)
    number = draw.randint(1, 90)
    return draw.choice(
        [
            Part({"type": "string", "enum": words}, tuple(words), ("zzz",)),
            Part({"enum": [*words, None]}, (words[0], None), ("zzz",)),
            Part({"type": "integer", "enum": [number, number + 1]}, (number,), (number + 5,)),
            Part({"enum": [{"x": number}, words[0]]}, ({"x": number}, words[0]), ("zzz",)),
            Part({"const": words[0]}, (words[0],), (words[1],)),
            Part({"type": "string", "const": words[0]}, (words[0],), (words[1],)),
            Part({"const": number}, (number,), (number + 1,)),
            Part({"const": [number]}, ([number],), ([number + 1],)),
        ]
    )


def _required(draw: random.Random) -> Part:
    one, other = _two_words(draw)
    members: JSONObject = {one: {"type": "integer"}, other: {"type": "string"}}
    required = draw.choice([[], [one], [one, other]])
    bad = ({other: "x"},) if one in required else ()
    return Part(closed(members, required), ({one: 1, other: "x"},), bad)


def _others(draw: random.Random) -> Part:
    one, other = _two_words(draw)
    members: JSONObject = {one: {"type": "integer"}}
    base: JSONObject = {"type": "object", "properties": members, "required": [one]}
    number: JSONObject = {"type": "number"}
    return draw.choice(
        [
            Part(base | {"additionalProperties": False}, ({one: 1},), ({one: 1, other: 2},)),
            Part(base | {"additionalProperties": True}, ({one: 1}, {one: 1, other: "x"})),
            Part(
                base | {"additionalProperties": number},
                ({one: 1, other: 2},),
                ({one: 1, other: "x"},),
            ),
            Part(base, ({one: 1}, {one: 1, other: "x"})),
            Part({"type": "object", "additionalProperties": number}, ({one: 1},), ({one: "x"},)),
            Part({"type": "object"}, ({}, {one: 1}), (1,)),
            Part(base | {"unevaluatedProperties": False}, ({one: 1},), ({one: 1, other: 2},)),
        ]
    )


def _boolean_schemas(draw: random.Random) -> Part:
    one, other = _two_words(draw)
    integer: JSONObject = {"type": "integer"}
    return draw.choice(
        [
            Part(closed({one: True}), ({one: 1}, {one: "x"})),
            Part(closed({one: integer, other: False}, [one]), ({one: 1},), ({one: 1, other: 2},)),
            Part({"type": "array", "items": True}, ([1, "x"],)),
            Part({"type": "array", "items": False}, ([],), ([1],)),
            Part(closed({one: {}}), ({one: 1}, {one: "x"})),
            Part(closed({one: {"description": "Anything."}}), ({one: 1}, {one: None})),
        ]
    )


def _items(draw: random.Random) -> Part:
    least = draw.randint(1, 3)
    integer: JSONObject = {"type": "integer"}
    return draw.choice(
        [
            Part({"type": "array", "items": integer}, ([], [1]), (["x"],)),
            Part({"type": "array", "items": integer, "minItems": least}, ([1] * least,), ([],)),
            Part(
                {"type": "array", "items": integer, "maxItems": least}, ([1],), ([1] * (least + 1),)
            ),
            Part({"type": "array", "minItems": least}, ([1] * least,), ([],)),
            Part({"type": "array"}, ([], [1, "x"])),
            Part({"type": "array", "items": closed({"x": integer})}, ([{"x": 1}],), ([{}],)),
        ]
    )


def _unique(draw: random.Random) -> Part:
    base: JSONObject = {"type": "array", "items": {"type": "integer"}}
    return draw.choice(
        [
            Part(base | {"uniqueItems": True}, ([1, 2],), ([1, 1],)),
            Part(
                base | {"uniqueItems": True, "maxItems": draw.randint(2, 9)}, ([1, 2],), ([1, 1],)
            ),
            Part({"uniqueItems": True}, ([1, 2], 3), ([1, 1],)),
            Part(base, ([1, 2], [1, 1])),
        ]
    )


def _contains(draw: random.Random) -> Part:
    number = draw.randint(3, 9)
    base: JSONObject = {"type": "array", "items": {"type": "integer"}}
    holds: JSONObject = {"contains": {"const": number}}
    return draw.choice(
        [
            Part(base | holds, ([1, number],), ([1],)),
            Part(base | holds | {"minContains": 2}, ([number, number],), ([1, number],)),
            Part(base | holds | {"maxContains": 1}, ([1, number],), ([number, number],)),
            Part(base, ([1],)),
        ]
    )


def _tuples(draw: random.Random) -> Part:
    pair: list[Any] = [{"type": "integer"}, {"type": "string"}]
    both: JSONObject = {"minItems": 2, "maxItems": 2}
    null: JSONObject = {"type": "null"}
    fit, wrong, more = [1, "x"], ["x", 1], [1, "x", None]
    return draw.choice(
        [
            Part({"type": "array", "prefixItems": pair, **both}, (fit,), (wrong,)),
            Part({"type": "array", "prefixItems": pair, "minItems": 2}, (fit, more), (wrong,)),
            Part({"type": "array", "prefixItems": pair, "items": null, **both}, (fit,), (wrong,)),
            Part({"type": "array", "prefixItems": pair, "items": null}, (fit, more), (wrong,)),
            Part(
                {"type": "array", "prefixItems": pair, "items": False, **both},
                (fit,),
                (wrong, more),
            ),
            Part({"type": "array", "prefixItems": pair}, (fit, [1]), (wrong,)),
            Part(
                {"type": "array", "prefixItems": pair, "unevaluatedItems": False}, (fit,), (more,)
            ),
            Part({"type": "array", "items": [pair[0]], "minItems": 1}, ([1],), (["x"],)),
        ]
    )


_PATTERNS: Final[tuple[tuple[str, str, str], ...]] = (
    ("^[a-z]{2,5}$", "abc", "A"),
    ("^[A-Z][0-9]+$", "A12", "12"),
    ("^(red|green|blue)$", "red", "pink"),
    ("^a(?:b|c)+d?$", "abcd", "xyz"),
    ("[0-9]", "a1b", "xyz"),
    ("^id-", "id-7", "no-7"),
    ("end$", "the end", "the ends"),
    (r"^\d{3}$", "123", "abc"),
    (r"^\w+$", "ab", "- -"),
    (r"^[^\s]+$", "ab", "a b"),
    (r"^a\.b$", "a.b", "axb"),
    (r"^\+?[0-9-]+$", "+49-1", "x"),
    ("^cat|dog$", "cat", "cow"),
    ("^(?=a)[a-c]+$", "ab", "ba"),
    ("^(?!x).*$", "ab", "xa"),
    ("^(?<!a)b$", "b", "c"),
    (r"^(a|b)\1$", "aa", "ab"),
    (r"^a\b.*$", "a b", "ab"),
    (r"^\p{L}+$", "ab", "12"),
    ("^a{1,2}b{3}$", "abbb", "ab"),
)
_FORMATS: Final[tuple[tuple[str, str, str], ...]] = (
    ("date-time", "2026-01-02T03:04:05Z", "soon"),
    ("date", "2026-01-02", "soon"),
    ("time", "03:04:05Z", "soon"),
    ("duration", "P1D", "soon"),
    ("email", "a@b.co", "nobody"),
    ("hostname", "a.com", "-_ "),
    ("ipv4", "1.2.3.4", "1.2"),
    ("ipv6", "::1", "x"),
    ("uuid", "123e4567-e89b-12d3-a456-426614174000", "x"),
    ("uri", "http://a.b/c", "x y"),
    ("uri-reference", "a/b", "\\ x"),
    ("json-pointer", "/a", "a"),
    ("iri", "http://a.b", "x y"),
    ("idn-email", "a@b.co", "nobody"),
    ("regex", "a+", "("),
    ("phone", "1", ""),
    ("int32", "1", ""),
)


def _pattern(draw: random.Random) -> Part:
    pattern, good, bad = draw.choice(_PATTERNS)
    schema: JSONObject = {"type": "string", "pattern": pattern}
    if draw.random() < 0.2:
        schema["minLength"] = 1

    return Part(schema, (good,), (bad,))


def _format(draw: random.Random) -> Part:
    name, good, bad = draw.choice(_FORMATS)
    schema: JSONObject = {"type": "string", "format": name}
    kind = draw.random()
    if kind < 0.15:
        return Part({"type": "integer", "format": "int64"}, (7,), ("x",))
    if kind < 0.3:
        schema["maxLength"] = 40

    return Part(schema, (good,), (bad,) if bad else ())


def _lengths(draw: random.Random) -> Part:
    number = draw.randint(2, 6)
    good, long = "x" * number, "x" * (number + 1)
    return draw.choice(
        [
            Part({"type": "string", "minLength": number}, (good,), ("x",)),
            Part({"type": "string", "maxLength": number}, (good,), (long,)),
            Part({"type": "string", "minLength": number, "maxLength": number}, (good,), (long,)),
            Part({"type": ["string", "null"], "maxLength": number}, (good, None), (long,)),
            Part({"type": "string", "maxLength": 5000}, (good,)),
            Part({"minLength": number}, (good, 1), ("x",)),
        ]
    )


def _bounds(draw: random.Random) -> Part:
    number = draw.randint(-9, 90)
    kind = draw.choice(["integer", "number"])
    return draw.choice(
        [
            Part({"type": kind, "minimum": number}, (number,), (number - 1,)),
            Part({"type": kind, "maximum": number}, (number,), (number + 1,)),
            Part({"type": kind, "exclusiveMinimum": number}, (number + 1,), (number,)),
            Part({"type": kind, "exclusiveMaximum": number}, (number - 1,), (number,)),
            Part(
                {"type": kind, "minimum": number, "maximum": number + 3},
                (number + 1,),
                (number + 4,),
            ),
            Part({"type": "integer", "minimum": number + 0.5}, (number + 1,), (number,)),
            Part({"type": "number", "minimum": number + 0.5}, (number + 1,), (number,)),
            Part({"minimum": number}, (number, "x"), (number - 1,)),
        ]
    )


def _multiples(draw: random.Random) -> Part:
    number = draw.randint(2, 9)
    return draw.choice(
        [
            Part({"type": "integer", "multipleOf": number}, (number * 2,), (number * 2 + 1,)),
            Part({"type": "number", "multipleOf": 0.5}, (1.5,), (1.3,)),
            Part({"multipleOf": number}, (number, "x"), (number + 1,)),
        ]
    )


def _any_of(draw: random.Random) -> Part:
    one, other = _two_words(draw)
    forms: list[Any] = [closed({one: {"type": "integer"}}), closed({other: {"type": "string"}})]
    lone: list[Any] = [{"type": "integer"}, {"type": "null"}]
    required: list[Any] = [{"required": [one]}, {"required": [other]}]
    members: JSONObject = {one: {"type": "integer"}, other: {"type": "integer"}}
    return draw.choice(
        [
            Part({"anyOf": lone}, (1, None), ("x",)),
            Part({"anyOf": forms}, ({one: 1}, {other: "x"}), ({one: "x"},)),
            Part({"anyOf": lone, "description": "A count.", "default": None}, (1, None), ("x",)),
            Part({"type": "object", "anyOf": forms}, ({one: 1},), ({one: "x"},)),
            Part(closed(members, [], anyOf=required), ({one: 1},), ({},)),
            Part(
                {"type": "integer", "minimum": 3, "anyOf": [{"maximum": 5}, {"maximum": 9}]},
                (4,),
                (2,),
            ),
        ]
    )


def _one_of(draw: random.Random) -> Part:
    one, other = _two_words(draw)
    integer: JSONObject = {"type": "integer"}
    text: JSONObject = {"type": "string"}
    tagged: list[Any] = [
        closed({"kind": {"const": one}, "x": integer}),
        closed({"kind": {"const": other}, "y": integer}),
    ]
    named: JSONObject = {"One": tagged[0], "Other": tagged[1]}
    references: list[Any] = [{"$ref": "#/$defs/One"}, {"$ref": "#/$defs/Other"}]
    fits = ({"kind": one, "x": 1}, {"kind": other, "y": 1})
    tag: JSONObject = {"discriminator": {"propertyName": "kind"}}
    return draw.choice(
        [
            Part({"oneOf": [integer, text]}, (1, "x"), (None,)),
            Part({"oneOf": [integer, {"type": "number"}]}, (1.5,), (1,)),
            Part({"oneOf": [integer, {"type": "null"}]}, (1, None), ("x",)),
            Part({"oneOf": tagged}, fits, ({"kind": "zzz"},)),
            Part({"oneOf": references}, fits, ({"kind": "zzz"},), named),
            Part({"oneOf": references, **tag}, fits, ({"kind": "zzz"},), named),
            Part(
                {"oneOf": [closed({one: text}), closed({one: text, other: text}, [one])]},
                ({one: "x", other: "y"},),
                ({one: "x"},),
            ),
            Part({"oneOf": [closed({one: text}), closed({other: text})]}, ({one: "x"},), ({},)),
            Part({"oneOf": [{"const": 1}, {"const": 2}]}, (1, 2), (3,)),
            Part({"oneOf": [{"const": one}, {"const": other}]}, (one,), ("zzz",)),
            Part({"oneOf": [{"enum": [one, other]}, {"enum": ["zz"]}]}, (one, "zz"), ("zzz",)),
            Part(
                {"oneOf": [{"type": "array", "items": integer}, {"type": "array", "items": text}]},
                ([1],),
                ([],),
            ),
            Part(
                {
                    "oneOf": [
                        {"type": "string", "pattern": "^a$"},
                        {"type": "string", "pattern": "^b$"},
                    ]
                },
                ("a",),
                ("c",),
            ),
            Part({"oneOf": [integer]}, (1,), ("x",)),
        ]
    )


def _all_of(draw: random.Random) -> Part:
    one, other = _two_words(draw)
    first: JSONObject = {
        "type": "object",
        "properties": {one: {"type": "integer"}},
        "required": [one],
    }
    second: JSONObject = {
        "type": "object",
        "properties": {other: {"type": "string"}},
        "required": [other],
    }
    loose: JSONObject = {"type": "object", "properties": {other: {"type": "string"}}}
    return draw.choice(
        [
            Part({"allOf": [first, second]}, ({one: 1, other: "x"},), ({one: 1},)),
            Part({"allOf": [first, loose]}, ({one: 1, other: "x"}, {one: 1}), ({},)),
            Part(
                {"allOf": [{"$ref": "#/$defs/One"}]},
                ({one: 1},),
                ({one: "x"},),
                {"One": closed({one: {"type": "integer"}})},
            ),
            Part({"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 5}]}, (4,), (9,)),
            Part({"type": "string", "allOf": [{"minLength": 3}]}, ("abcd",), ("a",)),
            Part({"allOf": [{"type": "integer", "minimum": 3}]}, (4,), (1,)),
            Part(first | {"allOf": [second]}, ({one: 1, other: "x"},), ({one: 1},)),
        ]
    )


def _negated(draw: random.Random) -> Part:
    one, other = _two_words(draw)
    return draw.choice(
        [
            Part({"type": "string", "not": {"const": one}}, (other,), (one,)),
            Part({"not": {"type": "string"}}, (1,), ("x",)),
            Part({"type": "string"}, (one,), (1,)),
        ]
    )


def _conditional(draw: random.Random) -> Part:
    one, other = _two_words(draw)
    members: JSONObject = {"kind": {"enum": [one, other]}, "value": {"type": "integer"}}
    is_one: JSONObject = {"properties": {"kind": {"const": one}}}
    needs: JSONObject = {"required": ["value"]}
    good, bad = ({"kind": other}, {"kind": one, "value": 1}), ({"kind": one},)
    return draw.choice(
        [
            Part(closed(members, ["kind"], **{"if": is_one, "then": needs}), good, bad),
            Part(
                closed(members, ["kind"], **{"if": is_one, "else": needs}),
                ({"kind": one},),
                ({"kind": other},),
            ),
            Part(closed(members, ["kind"]), good),
        ]
    )


def _dependent(draw: random.Random) -> Part:
    one, other = _two_words(draw)
    members: JSONObject = {one: {"type": "integer"}, other: {"type": "integer"}}
    good, bad = ({one: 1, other: 1}, {other: 1}), ({one: 1},)
    needs: JSONObject = {"required": [other]}
    return draw.choice(
        [
            Part(closed(members, [], dependentRequired={one: [other]}), good, bad),
            Part(closed(members, [], dependentSchemas={one: needs}), good, bad),
            Part(closed(members, [], dependencies={one: [other]}), good, bad),
            Part(closed(members, []), good),
        ]
    )


def _pattern_members(draw: random.Random) -> Part:
    one = _word(draw)
    integer: JSONObject = {"type": "integer"}
    text: JSONObject = {"type": "string"}
    whole, begins = "^x[a-z]*$", "^x"
    return draw.choice(
        [
            Part(
                {
                    "type": "object",
                    "patternProperties": {whole: integer},
                    "additionalProperties": False,
                },
                ({"xa": 1},),
                ({"xa": "s"},),
            ),
            Part(
                {
                    "type": "object",
                    "patternProperties": {begins: integer},
                    "additionalProperties": False,
                },
                ({"xa": 1},),
                ({"xa": "s"},),
            ),
            Part(
                {"type": "object", "patternProperties": {begins: integer}},
                ({"xa": 1}, {"b": "s"}),
                ({"xa": "s"},),
            ),
            Part(
                closed({one: text}, patternProperties={begins: integer}),
                ({one: "s", "xa": 1},),
                ({one: "s", "xa": "s"},),
            ),
            Part(
                {
                    "type": "object",
                    "patternProperties": {whole: integer, "^y[a-z]*$": text},
                    "additionalProperties": False,
                },
                ({"xa": 1},),
                ({"xa": "s"},),
            ),
        ]
    )


def _names(draw: random.Random) -> Part:
    one = _word(draw)
    integer: JSONObject = {"type": "integer"}
    pattern: JSONObject = {"pattern": "^[a-m]+$"}
    return draw.choice(
        [
            Part({"type": "object", "propertyNames": pattern}, ({"abc": 1},), ({"xyz": 1},)),
            Part(
                {"type": "object", "propertyNames": {"enum": ["abc", "d"]}},
                ({"abc": 1},),
                ({"xyz": 1},),
            ),
            Part(
                {"type": "object", "propertyNames": {"maxLength": 2}}, ({"ab": 1},), ({"abc": 1},)
            ),
            Part(
                {"type": "object", "propertyNames": pattern, "additionalProperties": integer},
                ({"abc": 1},),
                ({"xyz": 1},),
            ),
            Part(
                {"type": "object", "properties": {one: integer}, "propertyNames": {"maxLength": 9}},
                ({one: 1},),
            ),
            Part(
                {"type": "object", "additionalProperties": integer}, ({"abc": 1},), ({"abc": "x"},)
            ),
        ]
    )


def _member_counts(draw: random.Random) -> Part:
    integer: JSONObject = {"type": "integer"}
    three: JSONObject = {"a": integer, "b": integer, "c": integer}
    mapped: JSONObject = {"type": "object", "additionalProperties": integer}
    return draw.choice(
        [
            Part(mapped | {"minProperties": 2}, ({"a": 1, "b": 2},), ({"a": 1},)),
            Part(mapped | {"maxProperties": 1}, ({"a": 1},), ({"a": 1, "b": 2},)),
            Part(closed(three, [], minProperties=1), ({"a": 1},), ({},)),
            Part(closed(three, [], minProperties=2), ({"a": 1, "b": 2},), ({"a": 1},)),
            Part(
                closed(three, [], maxProperties=2), ({"a": 1, "b": 2},), ({"a": 1, "b": 2, "c": 3},)
            ),
            Part(
                closed(three, ["a"], maxProperties=2),
                ({"a": 1, "b": 2},),
                ({"a": 1, "b": 2, "c": 3},),
            ),
            Part({"type": "object", "minProperties": 1}, ({"a": 1},), ({},)),
            Part(mapped, ({"a": 1, "b": 2},), ({"a": "x"},)),
        ]
    )


def _references(draw: random.Random) -> Part:
    one = _word(draw)
    integer: JSONObject = {"type": "integer"}
    tree: JSONObject = closed({"children": {"type": "array", "items": {"$ref": "#/$defs/One"}}})
    through: JSONObject = {"anyOf": [integer, {"type": "null"}]}
    return draw.choice(
        [
            Part({"$ref": "#/$defs/One"}, (1,), ("x",), {"One": integer}),
            Part({"$ref": "#/$defs/One"}, ({one: 1},), ({},), {"One": closed({one: integer})}),
            Part({"$ref": "#/$defs/One", "description": "It."}, (1,), ("x",), {"One": integer}),
            Part({"$ref": "#/$defs/One", "minimum": 5}, (7,), (1,), {"One": integer}),
            Part({"$ref": "#/$defs/One"}, ({"children": []},), (1,), {"One": tree}),
            Part({"$ref": "#/$defs/One/anyOf/0"}, (1,), (None,), {"One": through}),
            Part({"$ref": "#/$defs/a~1b"}, (1,), ("x",), {"a/b": integer}),
            Part({"$ref": "https://example.com/schemas/one.json"}),
            Part({"$ref": "#/$defs/Missing"}),
        ]
    )


def _encoded(draw: random.Random) -> Part:
    return draw.choice(
        [
            Part({"type": "string", "contentEncoding": "base64"}, ("YQ==",), ("%%%",)),
            Part({"type": "string", "contentMediaType": "application/json"}, ("1",), ("{",)),
            Part(
                {"type": "string", "title": "It", "examples": ["x"], "default": "x"}, ("x",), (1,)
            ),
            Part({"type": "integer", "deprecated": True, "x-unit": "cm"}, (1,), ("x",)),
        ]
    )


ROWS: Final[Mapping[str, Maker]] = {
    "type": _plain,
    "enum and const": _enum,
    "required": _required,
    "additionalProperties": _others,
    "boolean schemas": _boolean_schemas,
    "items": _items,
    "uniqueItems": _unique,
    "contains": _contains,
    "prefixItems": _tuples,
    "pattern": _pattern,
    "format": _format,
    "minLength and maxLength": _lengths,
    "minimum and maximum": _bounds,
    "multipleOf": _multiples,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "not": _negated,
    "if": _conditional,
    "dependentRequired": _dependent,
    "patternProperties": _pattern_members,
    "propertyNames": _names,
    "minProperties and maxProperties": _member_counts,
    "$ref": _references,
    "content and annotations": _encoded,
}
"""What makes the sub-schemas of each row."""


def _at_member(part: Part, name: str) -> Sample:
    return _sample(closed({name: part.schema}), part, lambda value: {name: value})


def _at_optional(part: Part, name: str) -> Sample:
    # llama.cpp writes what is required first
    members = {"id": {"type": "integer"}, name: part.schema}
    return _sample(closed(members, ["id"]), part, lambda value: {"id": 1, name: value})


def _at_items(part: Part, name: str) -> Sample:
    listed: JSONObject = {"type": "array", "items": part.schema}
    return _sample(closed({name: listed}), part, lambda value: {name: [value]})


def _at_depth(part: Part, name: str) -> Sample:
    inner = closed({name: part.schema})
    return _sample(closed({"outer": inner}), part, lambda value: {"outer": {name: value}})


def _at_definition(part: Part, name: str) -> Sample:
    named: JSONObject = {"Part": part.schema}
    schema = closed({name: {"$ref": "#/$defs/Part"}}) | {"$defs": named}
    return _sample(schema, part, lambda value: {name: value})


def _sample(schema: JSONObject, part: Part, around: Callable[[Any], JSONObject]) -> Sample:
    if part.definitions is not None:
        schema = schema | {"$defs": {**schema.get("$defs", {}), **part.definitions}}

    good, bad = (tuple(map(around, values)) for values in (part.good, part.bad))
    return Sample("", 0, schema, good, bad)


_PLACES: Final = (_at_member, _at_optional, _at_items, _at_depth, _at_definition)


def samples(seed: int = 33, per_row: int = PER_ROW) -> Iterator[Sample]:
    """Yield the schemas of all rows; the same seed gives the same ones."""
    for row, make in ROWS.items():
        draw = random.Random(f"{seed} {row}")
        for number in range(per_row):
            put = _PLACES[number % len(_PLACES)]
            made = put(make(draw), _word(draw))
            yield Sample(row, number, made.schema, made.good, made.bad)


def joined(seed: int = 33, count: int = 300) -> Iterator[JSONObject]:
    """Yield objects with a member of each of three rows: what one row does, another may change."""
    draw = random.Random(seed)
    makers = list(ROWS.values())
    for _ in range(count):
        parts = [make(draw) for make in draw.sample(makers, 3)]
        members: JSONObject = {f"m{number}": part.schema for number, part in enumerate(parts)}
        named = {name: each for part in parts for name, each in (part.definitions or {}).items()}
        yield closed(members) | ({"$defs": named} if named else {})
