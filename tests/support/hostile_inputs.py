"""Hostile replies too large to store.

They are made on demand, each with the fault it must be refused for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from strictreply import Contract
from support.openai_shapes import call, message

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "pattern": "^(a|aa)+$"},
        "items": {
            "type": "array",
            "uniqueItems": True,
            "items": {"anyOf": [{"type": "integer"}, {"type": "array"}]},
        },
        "tree": {"$ref": "#/$defs/tree"},
    },
    "$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}},
}
TOOLS = [{"name": "search", "parameters": PARAMETERS}] + [
    {"name": f"search_the_shop_{n}"} for n in range(30)
]
TEXT = Contract(tools=TOOLS, channel="text")
LENIENT = Contract(
    tools=TOOLS, channel="text", extraction=("after_think", "fenced", "first_object")
)
NATIVE = Contract(tools=TOOLS, parallel=True)
STRUCTURED = Contract(answer=PARAMETERS, extraction=("after_think", "fenced", "first_object"))


@dataclass(frozen=True)
class HostileInput:
    """One reply: ``make`` builds it, ``code`` is its first fault, None when it must be accepted."""

    name: str
    contract: Contract
    make: Callable[[], object]
    code: str | None


def in_args(name: str, make: Callable[[], str], code: str | None) -> Iterator[HostileInput]:
    """Put the JSON of an argument object into a call, in both channels."""
    yield HostileInput(f"{name}, text", TEXT, lambda: f'{{"tool":"search","args":{make()}}}', code)
    yield HostileInput(
        f"{name}, native", NATIVE, lambda: message(None, [call("search", make())]), code
    )


def in_content(name: str, make: Callable[[], str], code: str | None) -> Iterator[HostileInput]:
    """Send a text as it is to three channels.

    They are the strict and the lenient text channel, and the structured answer.
    """
    yield HostileInput(f"{name}, text", TEXT, make, code)
    yield HostileInput(f"{name}, lenient", LENIENT, make, code)
    yield HostileInput(f"{name}, answer", STRUCTURED, lambda: message(make()), code)


def repeated(before: str, part: str, times: int, after: str = "") -> Callable[[], str]:
    """Repeat a part between a beginning and an end."""
    return lambda: before + part * times + after


def nested(opening: str, closing: str, levels: int) -> Callable[[], str]:
    """Nest a pair of brackets."""
    return lambda: opening * levels + closing * levels


def chain(levels: int) -> Callable[[], str]:
    """Nest the arguments' own tree."""
    return lambda: '{"tree":' + '{"left":' * levels + "{}" + "}" * levels + "}"


def nesting() -> Iterator[HostileInput]:
    """Nest deeper than any stack."""
    yield from in_args("tree of 50 levels", chain(50), None)

    for levels in (10**2, 10**3, 10**4, 10**5):
        yield from in_args(f"tree of {levels} levels", chain(levels), "json.too_deep")
        yield from in_content(f"{levels} arrays", nested("[", "]", levels), "json.too_deep")
        yield from in_content(f"{levels} objects", nested('{"a":', "}", levels), "json.too_deep")
        yield from in_content(
            f"{levels} open objects", nested('{"a":', "", levels), "json.too_deep"
        )

    yield from in_content("10^6 arrays", nested("[", "", 999_999), "json.too_deep")
    yield from in_content("10^6 arrays, closed", nested("[", "]", 10**6), "json.too_large")


def sizes() -> Iterator[HostileInput]:
    """Be larger than memory likes."""
    yield HostileInput(
        "answer of 0.99 MB", TEXT, lambda: json.dumps({"answer": "x" * 990_000}), None
    )
    yield HostileInput(
        "escaped answer of 0.99 MB", TEXT, lambda: json.dumps({"answer": "é" * 160_000}), None
    )

    for megabytes in (1, 10, 50):
        size = megabytes * 10**6
        yield from in_content(
            f"string of {megabytes} MB", repeated('"', "x", size, '"'), "json.too_large"
        )
        yield from in_args(
            f"query of {megabytes} MB", repeated('{"query":"', "a", size, '"}'), "json.too_large"
        )

    yield from in_args(
        "10^6 keys",
        lambda: "{" + ",".join(f'"{n}":1' for n in range(10**6)) + "}",
        "json.too_large",
    )
    yield from in_args(
        "90,000 keys",
        lambda: "{" + ",".join(f'"{n}":1' for n in range(90_000)) + "}",
        "args.extra_key",
    )

    yield from in_args(
        "90,000 equal keys", lambda: "{" + ",".join(['"a":1'] * 90_000) + "}", "json.duplicate_key"
    )
    yield from in_args(
        "150,000 keys", lambda: "{" + ",".join(['"":1'] * 150_000) + "}", "json.duplicate_key"
    )
    yield from in_args("90,000 items", lambda: json.dumps({"items": list(range(90_000))}), None)
    yield from in_args(
        "90,000 lists", lambda: json.dumps({"items": [[n] for n in range(45_000)]}), None
    )

    yield from in_args(
        "90,000 wrong items", lambda: json.dumps({"items": ["x"] * 90_000}), "args.unique_items"
    )
    yield from in_args(
        "400,000 items", lambda: f'{{"items":[{"1," * 400_000}1]}}', "json.too_many_nodes"
    )
    yield from in_content(
        "300,000 strings", lambda: "[" + '"",' * 300_000 + "1]", "json.too_many_nodes"
    )
    yield HostileInput("white space of 1 MB", TEXT, lambda: " " * 999_000, "json.empty")

    yield HostileInput(
        "white space before an answer", TEXT, lambda: " " * 900_000 + '{"answer":"x"}', None
    )


def numbers() -> Iterator[HostileInput]:
    """Write numbers that no double and no int takes."""
    for name, text, code in (
        ("1e400", "1e400", "json.not_finite"),
        ("-1e400", "-1e400", "json.not_finite"),
        ("10^400 as digits and point", "1" * 400 + ".0", "json.not_finite"),
        ("5,000 digits", "1" * 5000, "json.number_too_long"),
        ("-5,000 digits", "-" + "1" * 5000, "json.number_too_long"),
        ("900,000 digits", "9" * 900_000, "json.number_too_long"),
        ("an exponent of 10,000 digits", "1e" + "9" * 10_000, "json.not_finite"),
        ("NaN", "NaN", "json.not_finite"),
        ("4,300 digits", "1" * 4300, None),
        ("1e-400", "[1e-400]", None),
    ):
        yield from in_args(name, repeated('{"items":[', text, 1, "]}"), code)


def texts() -> Iterator[HostileInput]:
    """Keep a reader looking for what does not come."""
    backslash = "\\"
    yield from in_content(
        "open string of 0.9 MB", lambda: '{"answer":"' + "x" * 900_000, "json.incomplete"
    )
    yield from in_content("open escapes", lambda: '{"a":"' + backslash * 900_000, "json.incomplete")
    yield from in_content(
        "surrogates", lambda: '["' + f"{backslash}ud800" * 150_000 + '"]', "json.surrogate"
    )

    yield from in_content(
        "many surrogates", lambda: "[" + f'"{backslash}ud800",' * 90_000 + "1]", "json.surrogate"
    )
    yield from in_content("half objects", lambda: '{"' * 450_000, "json.syntax")
    yield from in_content("openings", lambda: '{"a"' * 200_000, "json.syntax")
    yield HostileInput("empty objects, text", TEXT, lambda: "{}" * 450_000, "json.several_values")

    yield HostileInput(
        "empty objects, lenient", LENIENT, lambda: "{}" * 450_000, "shape.missing_key"
    )
    yield HostileInput(
        "faulty objects, lenient", LENIENT, lambda: '{"a":}' * 150_000, "json.syntax"
    )
    yield HostileInput("braces, lenient", LENIENT, lambda: "{ " * 450_000, "json.syntax")
    yield from in_content("prose", lambda: "lorem ipsum " * 80_000, "json.syntax")

    yield from in_content("fences", lambda: "```json\n" * 100_000, "json.syntax")
    yield from in_content("thoughts", lambda: "<think>" * 130_000, "json.syntax")
    yield from in_content("closed thoughts", lambda: "<think></think>" * 60_000, "json.syntax")
    yield from in_content("quotes", lambda: '"' * 900_000, "json.several_values")

    yield from in_content("minus signs", lambda: "-" * 900_000, "json.syntax")
    yield from in_args(
        "a query that backtracks",
        lambda: json.dumps({"query": "a" * 900_000 + "!"}),
        "args.pattern",
    )


def calls() -> Iterator[HostileInput]:
    """Call more than anybody would."""

    def many(count: int, name: str, arguments: str = "{}") -> Callable[[], object]:
        """Return the same call many times, each under an id of its own."""
        return lambda: message(None, [call(name, arguments, f"id{n}") for n in range(count)])

    yield HostileInput("128 calls", NATIVE, many(128, "search"), None)
    yield HostileInput("100,000 calls", NATIVE, many(100_000, "search"), "tool.too_many")
    yield HostileInput("128 unknown tools", NATIVE, many(128, "serach_teh_shop_n"), "tool.unknown")
    yield HostileInput(
        "128 endless names", NATIVE, many(128, "search_the_shop_" * 60_000), "tool.unknown"
    )

    large = json.dumps({"query": "a" * 900_000})
    yield HostileInput("128 calls of 0.9 MB", NATIVE, many(128, "search", large), "json.too_large")
    broken = '{"a":[' + "1," * 3_000
    yield HostileInput("128 broken calls", NATIVE, many(128, "search", broken), "json.incomplete")

    endless = call("search", "{}", "x" * 10**7)
    yield HostileInput(
        "an id of 10 MB", NATIVE, lambda: message(None, [endless]), "call.id_too_long"
    )
    yield HostileInput(
        "equal ids of 10 MB", NATIVE, lambda: message(None, [endless] * 2), "call.id_too_long"
    )
    yield HostileInput(
        "a refusal of 10 MB", NATIVE, lambda: message(None, refusal="x" * 10**7), "reply.refusal"
    )

    yield HostileInput(
        "a role of 10 MB", NATIVE, lambda: message("x", role="x" * 10**7), "reply.role"
    )
    yield HostileInput(
        "10^6 choices", NATIVE, lambda: {"choices": [None] * 10**6}, "envelope.choices"
    )


WORDS = [f"{number:03d}" + "abcdefghij" * 5 for number in range(250)]
"""Words of an enum, and names of members, that are near to one another."""

FORMS = [
    {
        "type": "object",
        "properties": {f"k{number}": {"type": "integer"}},
        "required": [f"k{number}"],
    }
    for number in range(20)
]
NESTED = {"type": "array", "items": {"$ref": "#/$defs/nested"}}
NEAR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "word": {"type": "array", "items": {"enum": WORDS}},
        "keys": {"type": "object", "properties": dict.fromkeys(WORDS, True)},
        "nested": {"$ref": "#/$defs/nested"},
        "forms": {"type": "array", "items": {"anyOf": FORMS}},
        "prices": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "$defs": {"nested": {"anyOf": [NESTED, {**NESTED, "maxItems": 9}]}},
}
NEAR_TOOLS = [{"name": "search", "parameters": NEAR}] + [{"name": name} for name in WORDS[:100]]
NEAR_NATIVE = Contract(tools=NEAR_TOOLS, parallel=True)
NEAR_TEXT = Contract(tools=NEAR_TOOLS, channel="text")
NEAR_ANSWER = Contract(answer=NEAR)


def explaining() -> Iterator[HostileInput]:
    """Make what is wrong hard to explain.

    There are near misses, unions that recur or are wide, and very many members.
    """
    near = [f"x{number:02d}" + "abcdefghij" * 5 for number in range(40)]
    nested: Any = 5

    for _ in range(14):
        nested = [nested]

    inputs: list[tuple[str, Any, str]] = [
        ("near words", {"word": near}, "enum"),
        ("near keys", {"keys": dict.fromkeys(near, 1)}, "extra_key"),
        ("a union that recurs", {"nested": nested}, "type"),
        ("a wide union", {"forms": [{"k3": "x"}] * 450}, "type"),
        ("a wide union of 0.9 MB", {"forms": [{"q": 1}] * 45_000}, "any_of"),
        (
            "90,000 wrong members",
            {"prices": {f"{number:x}": "" for number in range(90_000)}},
            "type",
        ),
        ("90,000 unknown members", {f"{number:x}": 1 for number in range(90_000)}, "extra_key"),
    ]
    for name, value, rule in inputs:
        written = json.dumps(value, separators=(",", ":"))
        yield HostileInput(
            f"{name}, native",
            NEAR_NATIVE,
            partial(message, None, [call("search", written)]),
            f"args.{rule}",
        )

        yield HostileInput(
            f"{name}, text",
            NEAR_TEXT,
            partial('{{"tool":"search","args":{}}}'.format, written),
            f"args.{rule}",
        )
        yield HostileInput(
            f"{name}, answer", NEAR_ANSWER, partial(message, written), f"answer.{rule}"
        )

        if len(written) < 120_000:
            eight = [call("search", written, f"id{number}") for number in range(8)]
            yield HostileInput(
                f"{name}, in 8 calls", NEAR_NATIVE, partial(message, None, eight), f"args.{rule}"
            )

    twice = "{" + ",".join(f'"{number:x}":1' for number in range(90_000)) + ',"5":1}'
    yield HostileInput(
        "one of 90,000 names twice", NEAR_ANSWER, lambda: message(twice), "json.duplicate_key"
    )
    names = [call(name, "{}", name) for name in near]
    yield HostileInput(
        "near names of tools", NEAR_NATIVE, lambda: message(None, names), "tool.unknown"
    )


COLLIDING = 2**61 - 1  # the modulus of Python's hashes of numbers
REPEATS = "(a{1,200}){1,20}b"


def engine_work() -> Iterator[HostileInput]:
    """Make the schema engine, or the sets of a typed answer, slow: not in our own steps."""
    long_numbers = [10**3_000 + number for number in range(300)]
    sets: list[tuple[str, Any, list[Any], str | None]] = [
        ("long integers", set[int], [10**20 + n for n in range(40_000)], None),
        ("integers about 2**63", set[int], [2**63 + n for n in range(40_000)], None),
        ("integers of 3,000 digits", set[int], long_numbers, None),
        ("colliding integers", set[int], [COLLIDING * n for n in range(40_000)], "too_complex"),
        (
            "colliding texts",
            set[UUID],
            [str(UUID(int=COLLIDING * n)) for n in range(20_000)],
            "too_complex",
        ),
    ]
    for name, kind, items, rule in sets:
        yield HostileInput(
            f"a set of {name}",
            Contract(answer=kind),
            partial(message, json.dumps(items)),
            rule and f"answer.{rule}",
        )

    inputs: list[tuple[str, dict[str, Any], Any]] = [
        ("repeats in a pattern", {"pattern": REPEATS}, "a" * 900_000),
        ("repeats in a name", {"patternProperties": {REPEATS: True}}, {"a" * 900_000: 1}),
        ("128 patterns", {"allOf": [{"pattern": f"é$|{n}"} for n in range(128)]}, "é" * 450_000),
        ("fractions", {"items": {"multipleOf": 1e-300}}, [1e308] * 90_000),
        ("long multiples", {"items": {"multipleOf": 0.01}}, long_numbers),
        ("long bounds", {"items": {"minimum": 0.5, "maximum": 10**3_001}}, long_numbers),
        ("long constants", {"items": {"enum": [*range(99), 10**3_000]}}, long_numbers),
    ]
    for name, schema, value in inputs:
        yield HostileInput(
            f"{name}, answer",
            Contract(answer=schema),
            partial(message, json.dumps(value, ensure_ascii=False)),
            "answer.too_complex",
        )


INPUTS = [
    *nesting(),
    *sizes(),
    *numbers(),
    *texts(),
    *calls(),
    *explaining(),
    *engine_work(),
]
