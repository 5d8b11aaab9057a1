"""Laws of the faults of arguments: one for every rule at every place.

Each is proved, and each is no worse than it says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings

import strictreply as sr
from strictreply import Tool
from strictreply.core import JSON
from strictreply.core.schemas import KEYWORDS
from strictreply.core.text import pointer_tokens
from strictreply.schema import SchemaRule
from strictreply.testing import Fault, Kind, faults, ok
from strictreply.testing._steps import Target
from strictreply.testing.faults import (
    Entry,
    FaultNotMade,
    below_minimum,
    misspelled_key,
    wrong_type,
)
from strictreply.testing.faults._formats import at_twelve_hours, units_as_clock, units_in_words
from strictreply.testing.faults._spots import MAX_SIZE, MAX_SPOTS, Spot, spots_of
from support.loops import some
from support.testing.faults.schemas import schemas
from support.testing.faults.spoken import CANARY
from support.testing.tool_sample import SAMPLE

TOOLS = {tool.name: tool for tool in map(sr.Tool.of, SAMPLE)}
ENTRIES = {name: entry for name, entry in faults.CATALOGUE.items() if entry.kind is Kind.ARGS}

MADE: list[tuple[str, str, str, dict[str, Any]]] = [
    ("no_branch", "filter", "/range", {"field": "text", "range": {}}),
    ("no_single_branch", "filter", "/step", {"field": "text", "step": 7.5}),
    ("several_branches", "filter", "/step", {"field": "text", "step": 5}),
    ("unknown_discriminator", "Draw", "/shape/kind", {"shape": {"kind": "zq7x", "radius": 1}}),
    ("discriminator_of_another", "Draw", "/shape/kind", {"shape": {"kind": "square", "radius": 1}}),
    ("excluded_value", "filter", "/field", {"field": "password"}),
    ("broken_condition", "deliver", "/zip", {"country": "US"}),
    ("not_in_enum", "deliver", "/country", {"country": "zq7x"}),
    ("enum_in_other_case", "deliver", "/country", {"country": "de"}),
    ("enum_with_space", "deliver", "/country", {"country": "DE "}),
    ("enum_in_quotes", "deliver", "/country", {"country": '"DE"'}),
    ("enum_alternatives", "deliver", "/country", {"country": "DE|FR|US"}),
    ("enum_as_text", "weather", "/unit", {"city": "text", "unit": "null"}),
    ("wrong_const", "thermostat", "/mode", {"degrees": 5.0, "mode": "zq7x"}),
    ("below_minimum", "pay", "/amount", {"amount": 0}),
    ("above_maximum", "matrix", "/cells/0/0/0", {"cells": [[[101], []]]}),
    ("at_exclusive_minimum", "read_file", "/tail", {"path": "text", "tail": 0, "head": 1}),
    ("at_exclusive_maximum", "pay", "/amount", {"amount": 10000}),
    ("not_a_multiple", "thermostat", "/degrees", {"degrees": 5.25, "mode": "heat"}),
    ("too_short", "weather", "/city", {"city": "", "unit": "celsius"}),
    ("empty_string", "pay", "/iban", {"amount": 1, "iban": ""}),
    ("too_long", "deliver", "/zip", {"country": "DE", "zip": "textzq7xz"}),
    ("pattern_mismatch", "deliver", "/zip", {"country": "US", "zip": "zq7x"}),
    ("trailing_newline", "deliver", "/zip", {"country": "US", "zip": "12345\n"}),
    ("text_around_match", "deliver", "/zip", {"country": "US", "zip": "12345 (zq7x)"}),
    ("bad_format", "addresses", "/day", {"day": "zq7x"}),
    ("date_in_other_order", "addresses", "/day", {"day": "31/01/2025"}),
    ("date_in_words", "addresses", "/day", {"day": "January 31, 2025"}),
    ("impossible_date", "addresses", "/day", {"day": "2025-02-30"}),
    ("time_for_date", "addresses", "/day", {"day": "2025-01-31T00:00:00Z"}),
    ("date_for_time", "addresses", "/moment", {"day": "2025-01-31", "moment": "2025-01-31"}),
    ("time_without_offset", "addresses", "/clock", {"day": "2025-01-31", "clock": "12:00:00"}),
    ("time_without_seconds", "addresses", "/clock", {"day": "2025-01-31", "clock": "12:00Z"}),
    ("time_of_twelve_hours", "addresses", "/clock", {"day": "2025-01-31", "clock": "12:00 PM"}),
    ("duration_in_words", "addresses", "/length", {"day": "2025-01-31", "length": "1 day"}),
    ("duration_as_clock", "addresses", "/length", {"day": "2025-01-31", "length": "24:00:00"}),
    (
        "email_with_name",
        "addresses",
        "/mail",
        {"day": "2025-01-31", "mail": "Ann <name@example.com>"},
    ),
    (
        "email_in_brackets",
        "addresses",
        "/mail",
        {"day": "2025-01-31", "mail": "<name@example.com>"},
    ),
    ("email_without_domain", "addresses", "/mail", {"day": "2025-01-31", "mail": "name@"}),
    (
        "uuid_without_hyphens",
        "addresses",
        "/id",
        {"day": "2025-01-31", "id": "123e4567e89b42d3a456426614174000"},
    ),
    (
        "uuid_in_braces",
        "addresses",
        "/id",
        {"day": "2025-01-31", "id": "{123e4567-e89b-42d3-a456-426614174000}"},
    ),
    (
        "uuid_too_short",
        "addresses",
        "/id",
        {"day": "2025-01-31", "id": "123e4567-e89b-42d3-a456-42661417400"},
    ),
    (
        "uri_without_scheme",
        "addresses",
        "/page",
        {"day": "2025-01-31", "page": "example.com/"},
    ),
    (
        "uri_with_space",
        "addresses",
        "/page",
        {"day": "2025-01-31", "page": "https://example.com/ zq7x"},
    ),
    (
        "uri_in_markdown",
        "addresses",
        "/page",
        {"day": "2025-01-31", "page": "[zq7x](https://example.com/)"},
    ),
    (
        "host_with_scheme",
        "addresses",
        "/host",
        {"day": "2025-01-31", "host": "https://example.com/"},
    ),
    ("ipv4_out_of_range", "addresses", "/v4", {"day": "2025-01-31", "v4": "192.0.2.256"}),
    ("ipv4_with_port", "addresses", "/v4", {"day": "2025-01-31", "v4": "192.0.2.1:8080"}),
    ("ipv6_for_ipv4", "addresses", "/v4", {"day": "2025-01-31", "v4": "::ffff:192.0.2.1"}),
    ("ipv4_for_ipv6", "addresses", "/v6", {"day": "2025-01-31", "v6": "0.0.0.1"}),
    ("pointer_without_slash", "addresses", "/place", {"day": "2025-01-31", "place": "name"}),
    ("too_few_items", "matrix", "/cells", {"cells": []}),
    ("empty_array", "matrix", "/cells", {"cells": []}),
    ("too_many_items", "matrix", "/cells/0", {"cells": [[[], [], [], []]]}),
    ("equal_items", "plot", "/marks", {"origin": [1, 1], "marks": [100, 100]}),
    ("equal_items_spelled_apart", "plot", "/marks", {"origin": [1, 1], "marks": [100, 100.0]}),
    ("extra_item", "plot", "/origin/2", {"origin": [1, 1, "zq7x"]}),
    ("missing_contains", "plot", "/marks", {"origin": [1, 1], "marks": [1]}),
    ("too_many_contained", "plot", "/marks", {"origin": [1, 1], "marks": [100, 101, 102]}),
    ("wrong_type", "Message", "/to", {"to": 7}),
    ("number_as_text", "pay", "/amount", {"amount": "1"}),
    ("number_as_text_with_unit", "pay", "/amount", {"amount": "1 zq7x"}),
    ("number_with_separators", "pay", "/amount", {"amount": "1,000"}),
    ("number_in_words", "pay", "/amount", {"amount": "one"}),
    ("fraction_for_integer", "pay", "/amount", {"amount": 1.5}),
    ("boolean_for_number", "pay", "/amount", {"amount": False}),
    ("boolean_as_text", "Message", "/silent", {"silent": "true"}),
    ("boolean_in_words", "Message", "/silent", {"silent": "yes"}),
    ("number_for_boolean", "Message", "/silent", {"silent": 1}),
    ("number_for_text", "addresses", "/day", {"day": 7}),
    ("timestamp_for_date", "addresses", "/day", {"day": 1738281600}),
    ("null_value", "addresses", "/day", {"day": None}),
    ("null_for_optional", "Message", "/to", {"to": None}),
    ("null_as_text", "Refund", "/amount", {"order": 1, "reason": "late", "amount": "null"}),
    ("empty_text_for_optional", "Message", "/to", {"to": ""}),
    ("array_as_text", "Message", "/to", {"to": '["text"]'}),
    ("array_as_comma_list", "Message", "/to", {"to": "text, zq7x"}),
    ("scalar_for_array", "plot", "/origin", {"origin": 1}),
    ("object_for_array", "Message", "/to", {"to": {"0": "text"}}),
    ("array_for_scalar", "pay", "/amount", {"amount": [1]}),
    ("object_for_scalar", "pay", "/amount", {"amount": {"value": 1}}),
    ("value_in_its_schema", "pay", "/amount", {"amount": {"type": "integer", "value": 1}}),
    ("object_as_text", "translate", "/texts", {"texts": '{"title": "text"}'}),
    ("text_for_object", "Draw", "/shape", {"shape": "the zq7x one"}),
    ("array_for_object", "translate", "/texts", {"texts": [{"title": "text"}]}),
    ("wrong_item_type", "Message", "/to/1", {"to": ["text", 7]}),
    ("null_item", "Message", "/to/1", {"to": ["text", None]}),
    ("missing_required", "search", "/query", {}),
    ("empty_object", "search", "", {}),
    ("dependent_key_missing", "read_file", "/head", {"path": "text", "tail": 1}),
    ("extra_key", "Message", "", {"zq7x_key": "zq7x"}),
    (
        "nested_extra_key",
        "filter",
        "/range",
        {"field": "text", "range": {"from": 1, "zq7x_key": "zq7x"}},
    ),
    ("key_where_none_allowed", "now", "", {"zq7x_key": "zq7x"}),
    ("commentary_key", "Message", "", {"explanation": "because zq7x"}),
    ("misspelled_key", "Message", "/to", {"tos": []}),
    ("key_in_other_case", "Message", "/to", {"To": []}),
    ("flattened_object", "translate", "/texts", {"title": "text"}),
    ("dotted_key", "translate", "/texts", {"texts.title": "text"}),
    ("arguments_under_a_key", "Message", "", {"args": {}}),
    (
        "schema_instead_of_arguments",
        "deliver",
        "",
        {
            "type": "object",
            "properties": {
                "country": {"type": "string", "enum": ["DE", "FR", "US"]},
                "zip": {"type": "string"},
            },
            "required": ["country"],
        },
    ),
    ("too_few_properties", "translate", "/texts", {"texts": {}}),
    (
        "too_many_properties",
        "translate",
        "/texts",
        {"texts": {"title": "text", "text": "text", "zq7x0": "text", "zq7x1": "text"}},
    ),
    ("bad_property_name", "translate", "/texts", {"texts": {"title": "text", "zq7x": "text"}}),
    ("forbidden_key", "upload", "/legacy", {"body": "text", "legacy": "zq7x"}),
]
"""Each entry with a tool of the sample: the place that is spoiled, and the arguments that come out.
"""

SAID_OTHERWISE = {
    "const": {"const", "enum"},
    "type": {"type", "enum", "const"},
    "additionalProperties": {"extra_key", "no_keys"},
    "unevaluatedProperties": {"extra_key", "no_keys"},
}
"""Rules that may say the same: branches are told apart by type and tag, listed values have one
type.
"""

AS_A_UNION = {"any_of", "one_of"}
"""What is said of the whole union when no branch is plainly meant."""


def args_of(fault: Fault) -> Any:
    """Read the arguments of a native call."""
    served: Any = fault.served
    return json.loads(served["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])


def made_of(tool: Tool) -> list[Fault]:
    """Make every fault of a tool's arguments."""
    return list(faults.all_for(tool))


def stated(spot: Spot) -> Iterator[str]:
    """Return the keywords that can refuse a value here."""
    for governing in spot.governing:
        for keyword in KEYWORDS.keys() & governing.schema.keys():
            rule = governing.schema[keyword]
            closing = KEYWORDS[keyword] in (SchemaRule.EXTRA_KEY, SchemaRule.EXTRA_ITEMS)
            empty = rule in (0, [], {}) and keyword not in (
                "const",
                "minimum",
                "maximum",
                "exclusiveMinimum",
            )

            # In draft-07 content is taken as written, so it is in the table.
            asserted = KEYWORDS[keyword] is not SchemaRule.CONTENT
            # Arguments that are not an object are a fault of the shape.
            root_type = keyword == "type" and not spot.path
            huge = keyword in ("maxLength", "maxItems", "maxProperties") and rule > 10**6

            open_ = rule is False and not closing
            if (
                (rule is False if closing else not empty)
                and asserted
                and not (root_type or huge or open_)
            ):
                yield keyword


def is_covered(spot: Spot, keyword: str, said: set[tuple[str, str]]) -> bool:
    """Return whether one of these faults, by rule and place, breaks a keyword at a spot.

    A union may be refused in the words of the branch that was meant, and a branch in those of the
    union.
    """
    rules = SAID_OTHERWISE.get(keyword, {KEYWORDS[keyword].value})
    union = spot.states("anyOf", "oneOf")
    return any(
        (f"{at}/".startswith(f"{spot.at}/") and (rule in rules or union))
        or (f"{spot.at}/".startswith(f"{at}/") and rule in AS_A_UNION)
        for rule, at in said
    )


def uncovered(tool: Tool) -> list[tuple[str, str]]:
    """List the rules, by keyword and place, of which no fault is made."""
    said = {(fault.code.partition(".")[2], fault.at) for fault in made_of(tool)}
    spots = spots_of(tool.parameters, Target.of(tool).value)
    return [
        (word, spot.at)
        for spot in spots
        for word in stated(spot)
        if not is_covered(spot, word, said)
    ]


@pytest.mark.parametrize(("name", "tool", "at", "args"), MADE, ids=[row[0] for row in MADE])
def test_what_a_fault_looks_like(name: str, tool: str, at: str, args: dict[str, Any]) -> None:
    """Asked for at a place, the entry spoils the good arguments there and nowhere else."""
    fault = ENTRIES[name](TOOLS[tool], at)
    assert (args_of(fault), fault.at, fault.code) == (args, at, ENTRIES[name].code)


def test_every_entry_is_in_the_table() -> None:
    """No entry goes unseen."""
    assert [row[0] for row in MADE] == list(dict.fromkeys(row[0] for row in MADE))
    assert {row[0] for row in MADE} == set(ENTRIES)


def test_every_rule_has_a_fault() -> None:
    """Some entry breaks every rule that a schema can state; the rest are not rules of a value."""
    no_rules = {
        SchemaRule.TOO_COMPLEX,
        SchemaRule.INVALID,
        SchemaRule.UNREADABLE,
        SchemaRule.UNEXAMINED,
    }
    unmade = no_rules | {SchemaRule.CONTENT}  # content is a remark in 2020-12
    assert {entry.code for entry in ENTRIES.values()} == {
        f"args.{rule}" for rule in SchemaRule if rule not in unmade
    }


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_all_for_covers_every_rule_at_every_place(tool: Tool) -> None:
    """For each keyword that can refuse a value, at each place that good arguments can have, there
    is a fault.
    """
    assert uncovered(tool) == []


@settings(max_examples=60)
@given(schema=schemas())
def test_made_up_schemas_are_covered_too(schema: Any) -> None:
    """The same holds for whatever schema; and each fault is refused with its code at its place, by
    the schema alone.
    """
    tool = Tool.from_json_schema("t", {"type": "object", "properties": {"value": schema}})
    assert uncovered(tool) == []

    for fault in made_of(tool):
        said = [
            issue.path.split("/")
            for issue in tool.parameters.check(args_of(fault))
            if issue.code == fault.code
        ]
        # Of a key its object is at fault; names that only the value has are masked.
        above = fault.at.split("/")[:-1]
        assert any(
            all(one in (token, "*") for one, token in zip(path, above, strict=False))
            for path in said
        )


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_faults_of_a_tool_differ(tool: Tool) -> None:
    """No entry spells the same arguments twice."""
    made = [(fault.name, json.dumps(fault.served)) for fault in made_of(tool)]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS.keys())
def test_what_is_invented_is_told(tool: Tool) -> None:
    """A fault names every place of the canary in its arguments; good arguments have none."""
    assert CANARY not in json.dumps(ok.reply(tool).served)
    for fault in made_of(tool):
        assert (CANARY in fault.invented) == (CANARY in json.dumps(fault.served)), fault.source


def test_optional_members_are_put_in_first() -> None:
    """A member that the example leaves out can be spoiled: a good value is put there first."""
    assert args_of(wrong_type(TOOLS["search"], "limit")) == {"query": "text", "limit": CANARY}
    assert args_of(misspelled_key(TOOLS["search"], "limit")) == {"query": "text", "lmiit": 5}


@pytest.mark.parametrize(
    ("at", "of"), [("/guests/0/full_name", "Booking"), ("/children/0/label", "tree")]
)
def test_nested_places_are_reached_by_their_pointer(at: str, of: str) -> None:
    """``at`` may be a JSON Pointer, also into items that the example does not have."""
    fault = wrong_type(TOOLS[of], at)
    value = args_of(fault)
    for token in pointer_tokens(at):
        value = value[int(token)] if isinstance(value, list) else value[token]
    assert value == 7


def test_own_arguments_are_spoiled_where_they_are_given() -> None:
    """``args=`` is the ground: what is spoiled stands in it, however deep, and the rest is as
    given.
    """
    args: JSON = {"label": "a", "children": [{"label": "b", "children": [{"label": "c"}]}]}
    fault = wrong_type(TOOLS["tree"], "/children/0/children/0/label", args=args)
    assert args_of(fault) == {
        "label": "a",
        "children": [{"label": "b", "children": [{"label": 7}]}],
    }


def test_a_recurring_schema_is_spoiled_once() -> None:
    """Where a schema recurs, the example is not made deeper to spoil the same rules again."""
    assert max(fault.at.count("/children") for fault in made_of(TOOLS["tree"])) == 2


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "string", "maxLength": 10**9},
        {"type": "array", "maxItems": 10**9},
        {"type": "object", "maxProperties": 10**9},
    ],
)
def test_huge_bounds_are_left_alone(rule: Any) -> None:
    """A fault that would take a gigabyte is not made."""
    tool = Tool.from_json_schema("t", {"properties": {"value": rule}})
    assert max(len(json.dumps(fault.served)) for fault in made_of(tool)) < 10_000


def test_the_largest_bound_that_is_passed() -> None:
    """A bound of ``MAX_SIZE`` characters is left alone, and the one below it is passed by one."""
    most, below = (
        Tool.from_json_schema(
            "t",
            {
                "properties": {"value": {"type": "string", "maxLength": bound}},
                "required": ["value"],
            },
        )
        for bound in (MAX_SIZE, MAX_SIZE - 1)
    )
    assert list(ENTRIES["too_long"].all_for(most)) == []
    assert {len(args_of(fault)["value"]) for fault in ENTRIES["too_long"].all_for(below)} == {
        MAX_SIZE
    }


def test_an_exploding_schema_is_walked_only_so_far() -> None:
    """The number of places is bounded; those near the root come first."""
    deep: Any = {"type": "integer"}
    for _ in range(5):
        deep = {"type": "object", "properties": dict.fromkeys("abcd", deep)}
    tool = Tool.from_json_schema("t", {"properties": {"value": deep}})
    spots = spots_of(tool.parameters, {})
    assert len(spots) == MAX_SPOTS
    assert [len(spot.path) for spot in spots] == sorted(len(spot.path) for spot in spots)


def test_what_cannot_be_made_is_said() -> None:
    """A tool without such a rule, a place without it: the entry says so rather than make something
    else.
    """
    for args in ((TOOLS["search"], "query"), (TOOLS["now"], "")):
        with pytest.raises(FaultNotMade):
            below_minimum(*args)
    no_place: Any = ""
    with pytest.raises(FaultNotMade):
        below_minimum(TOOLS["search"], place=no_place)


NUMBERS = {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1}
OF_NUMBERS = [entry for entry in ENTRIES.values() if any(entry.all_for(NUMBERS, place="json"))]


@pytest.mark.parametrize("entry", OF_NUMBERS, ids=lambda entry: entry.name)
def test_answers_are_spoiled_like_arguments(entry: Entry) -> None:
    """In a structured answer the same entries give ``answer.`` codes, at the root too."""
    schema = NUMBERS
    for fault in some(entry.all_for(schema, place="json")):
        assert fault.code == entry.code.replace("args.", "answer.")
        verdict = sr.Contract(answer=schema).check(fault.served)
        assert isinstance(verdict, sr.Invalid)
        assert fault.code in {issue.code for issue in verdict.issues}


@pytest.mark.slow
def test_the_order_is_the_same_in_every_process() -> None:
    """Faults come in one order whatever the hash seed: pytest-xdist's workers must agree on it."""
    script = (
        "import json; from strictreply.testing import faults;"
        "import strictreply as sr;"
        "from support.testing.tool_sample import SAMPLE;"
        "made = [f for one in SAMPLE for f in faults.all_for(sr.Tool.of(one))];"
        "print(json.dumps([[f.id, f.served] for f in made]))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONPATH": ":".join(path for path in sys.path if path), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0]
    assert told[0] == told[1]


CARELESS: list[Callable[[Any], object]] = [bool, int, float, list]
"""What a reader does who takes the promised type for granted."""


def read(reader: Callable[[Any], object], value: object) -> object:
    """Read a value without care; a crash is seen at once."""
    try:
        return reader(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return "a crash"


TYPED: list[tuple[str, dict[str, Any], Any]] = [
    *((kind, {"type": kind}, value) for kind, value in (("boolean", True), ("boolean", False))),
    *(("integer", {"type": "integer"}, value) for value in (0, 1, 5, 7, -1)),
    *(("number", {"type": "number"}, value) for value in (0.5, 7.5, 1)),
    *(
        ("array", {"type": "array", "items": {"type": "string"}}, value)
        for value in (["a"], ["tea", "milk"], [])
    ),
    ("enum", {"enum": [1, 2]}, 1),
    ("enum", {"enum": [True]}, True),
    ("const", {"const": True}, True),
    ("string", {"type": "string"}, "7"),
]


@pytest.mark.parametrize(
    ("schema", "good"), [row[1:] for row in TYPED], ids=[f"{row[0]}-{row[2]}" for row in TYPED]
)
def test_a_careless_reader_never_reads_the_good_value(schema: dict[str, Any], good: Any) -> None:
    """Every fault of a value flips what a reader without care makes of it: some reader, or ``==``,
    sees another one.
    """
    tool = Tool.from_json_schema(
        "f", {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    )
    made = (fault for entry in ENTRIES.values() for fault in entry.all_for(tool, args={"x": good}))
    for fault in some(one for one in made if one.at == "/x" and "x" in args_of(one)):
        value = args_of(fault)["x"]
        if fault.name == "number_for_boolean":  # Python takes 1 for True
            assert type(value) is not type(good)
            continue

        assert value != good, fault.source
        assert any(read(one, value) != read(one, good) for one in CARELESS), fault.source


KEPT: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("number_as_text", {"type": "integer"}, 1, "1"),
    ("number_as_text", {"type": "number"}, 1.5, "1.5"),
    ("number_as_text", {"type": "number"}, -1e21, "-1e+21"),
    ("number_as_text_with_unit", {"type": "integer"}, -7, f"-7 {CANARY}"),
    ("number_with_separators", {"type": "integer"}, 1234567, "1,234,567"),
    ("number_as_text", {"type": "number"}, 29.9, "29.9"),
    ("number_with_separators", {"type": "number"}, 29.9, "29,9"),
    ("number_with_separators", {"type": "integer"}, 5, "5,000"),
    ("number_for_text", {"type": "string"}, "1042", 1042),
    ("ipv6_for_ipv4", {"type": "string", "format": "ipv4"}, "10.0.0.1", "::ffff:10.0.0.1"),
    ("ipv4_for_ipv6", {"type": "string", "format": "ipv6"}, "::ffff:a00:1", "10.0.0.1"),
    ("number_in_words", {"type": "integer"}, 12, "twelve"),
    ("number_in_words", {"type": "number"}, -30.5, "minus three zero point five"),
    ("fraction_for_integer", {"type": "integer"}, 4, 4.5),
    ("boolean_as_text", {"type": "boolean"}, True, "true"),
    ("boolean_as_text", {"type": "boolean"}, False, "false"),
    ("boolean_in_words", {"type": "boolean"}, True, "yes"),
    ("boolean_in_words", {"type": "boolean"}, False, "no"),
    ("number_for_boolean", {"type": "boolean"}, True, 1),
    ("number_for_boolean", {"type": "boolean"}, False, 0),
    ("array_as_comma_list", {"type": "array", "items": {"type": "string"}}, ["a", "b"], "a, b"),
    ("array_as_text", {"type": "array", "items": {"type": "integer"}}, [1, 2], "[1, 2]"),
    ("enum_as_text", {"enum": [1, 2]}, 1, "1"),
    ("timestamp_for_date", {"type": "string", "format": "date"}, "2026-03-04", 1772582400),
    ("timestamp_for_date", {"type": "string", "format": "time"}, "00:01:00+00:00", 60),
    ("date_in_other_order", {"type": "string", "format": "date"}, "2026-03-04", "04/03/2026"),
    ("date_in_words", {"type": "string", "format": "date"}, "2026-03-04", "March 04, 2026"),
    ("time_of_twelve_hours", {"type": "string", "format": "time"}, "00:05:09Z", "12:05 AM"),
    ("duration_in_words", {"type": "string", "format": "duration"}, "P2DT1H", "2 days, 1 hour"),
    ("duration_as_clock", {"type": "string", "format": "duration"}, "PT1H2M3S", "01:02:03"),
    ("email_with_name", {"type": "string", "format": "email"}, "bo@a.org", "Ann <bo@a.org>"),
    ("ipv4_with_port", {"type": "string", "format": "ipv4"}, "10.0.0.1", "10.0.0.1:8080"),
]


@pytest.mark.parametrize(("name", "schema", "good", "written"), KEPT)
def test_a_notation_keeps_the_value_that_was_given(
    name: str, schema: dict[str, Any], good: Any, written: Any
) -> None:
    """A fault changes what its name says and nothing else: the good value, written otherwise."""
    tool = Tool.from_json_schema(
        "f", {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    )
    value = args_of(ENTRIES[name](tool, "/x", args={"x": good}))["x"]
    assert (value, type(value)) == (written, type(written))


@pytest.mark.parametrize(
    ("way", "text"), [(units_as_clock, "P1Y"), (units_in_words, "soon"), (at_twelve_hours, "noon")]
)
def test_a_text_that_cannot_be_written_so_is_told(way: Callable[[str], str], text: str) -> None:
    """A year has no fixed length, and a word is no time: the fault is not made of such a value."""
    with pytest.raises(ValueError, match=r"length|units|hours"):
        way(text)
