"""Contradictions are found when a schema is declared, with their place.

No schema that some value fits is refused.
"""

from __future__ import annotations

import gzip
import json
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schema.test_schema_laws import SCHEMAS, VALUES
from schema.test_schema_suite import DECLARED, cases
from strictreply import Contract, ContractError, ContractWarning, Tool
from strictreply.core import Answer
from strictreply.core.tools import with_schema_rules, written_arguments
from strictreply.schema import Schema
from support.loops import some
from support.shared_data import SHARED, needs_shared

SCALARS_ON_AN_ARRAY = {"type": "array", "enum": ["a", "b"]}


def holding(member: Any, *, required: bool = True) -> dict[str, Any]:
    """Describe an object with one member."""
    return {"type": "object", "properties": {"m": member}, "required": ["m"] if required else []}


CERTAIN = True
SEARCHED = False
NEVER: list[tuple[dict[str, Any], str, bool]] = [
    (SCALARS_ON_AN_ARRAY, "/enum", CERTAIN),
    ({"type": "string", "const": 3}, "/const", CERTAIN),
    ({"type": "boolean", "enum": ["True", "False"]}, "/enum", CERTAIN),
    ({"enum": []}, "/enum", CERTAIN),
    ({"const": 1, "enum": [2]}, "/const", CERTAIN),
    ({"type": "string", "pattern": "^x", "enum": ["a"]}, "/enum", CERTAIN),
    ({"type": "integer", "minimum": 3, "maximum": 1}, "/maximum", CERTAIN),
    ({"type": "number", "exclusiveMinimum": 1, "maximum": 1}, "/maximum", CERTAIN),
    ({"type": "number", "minimum": 1, "exclusiveMaximum": 1}, "/exclusiveMaximum", CERTAIN),
    ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "", SEARCHED),
    ({"type": "integer", "minimum": 3, "maximum": 7, "multipleOf": 10}, "", SEARCHED),
    ({"type": "string", "minLength": 3, "maxLength": 1}, "/maxLength", CERTAIN),
    ({"type": "string", "format": "date", "maxLength": 3}, "", SEARCHED),
    ({"type": "array", "minItems": 3, "maxItems": 1}, "/maxItems", CERTAIN),
    ({"type": "array", "items": False, "minItems": 1}, "/items", CERTAIN),
    ({"type": "array", "items": SCALARS_ON_AN_ARRAY, "minItems": 1}, "/items/enum", CERTAIN),
    (
        {"type": "array", "items": {"type": "string"}, "contains": {"type": "integer"}},
        "/0",
        SEARCHED,
    ),
    ({"type": "array", "contains": {}, "maxContains": 0}, "", SEARCHED),
    ({"type": "object", "minProperties": 2, "maxProperties": 1}, "/maxProperties", CERTAIN),
    (
        {
            "type": "object",
            "properties": {"a": {}},
            "minProperties": 2,
            "additionalProperties": False,
        },
        "/minProperties",
        CERTAIN,
    ),
    ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "/required", CERTAIN),
    (
        {"type": "object", "properties": {"a": {"not": {}}}, "required": ["a"]},
        "/required",
        CERTAIN,
    ),
    (
        {
            "type": "object",
            "properties": {"a": {}},
            "required": ["b"],
            "additionalProperties": False,
        },
        "/required",
        CERTAIN,
    ),
    ({"type": "object", "required": ["abc"], "propertyNames": {"maxLength": 2}}, "", SEARCHED),
    ({"type": "object", "required": ["a", "b"], "maxProperties": 1}, "", SEARCHED),
    (
        {
            "type": "object",
            "properties": {"b": False},
            "required": ["a"],
            "dependentRequired": {"a": ["b"]},
        },
        "/b",
        SEARCHED,
    ),
    (
        {
            "type": "object",
            "allOf": [{"properties": {"a": {"type": kind}}} for kind in ("string", "null")],
            "required": ["a"],
        },
        "/a",
        SEARCHED,
    ),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "/allOf", CERTAIN),
    (
        {"allOf": [{"type": "string", "minLength": 3}, {"maxLength": 1}]},
        "",
        SEARCHED,
    ),
    (
        {"anyOf": [{"type": "array", "const": 1}, {"type": "string", "enum": [2]}]},
        "/anyOf/0/const",
        CERTAIN,
    ),
    ({"type": "string", "oneOf": [{"type": "null"}, {"type": "integer"}]}, "/oneOf", CERTAIN),
    ({"type": "string", "oneOf": [{}, {}]}, "", SEARCHED),
    ({"type": "string", "not": {"type": "string"}}, "", SEARCHED),
]
"""Schemas that no value fits, with the place of the fault, and whether that is certain: an error at
a place of the schema, else a warning with a place of the value.
"""


@contextmanager
def warned() -> Generator[list[str]]:
    """Collect the words of every ContractWarning, each of which points at this file."""
    words: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield words

    assert {one.filename for one in caught} <= {__file__}
    words += [str(one.message) for one in caught if one.category is ContractWarning]


@pytest.mark.parametrize(("member", "place", "is_certain"), NEVER)
def test_c7_what_nothing_can_fit_is_refused_or_warned_of(
    member: dict[str, Any], place: str, is_certain: bool
) -> None:
    """A contradiction that every value must pass is a ContractError at its place where it is
    certain, else one warning: at the root, in members, in items.
    """
    deep = holding({"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/d"}}) | {
        "$defs": {"d": holding(member)}
    }
    for declare, at, value_at in (
        (partial(Answer.of, member), "", ""),
        (partial(Tool.from_json_schema, "search", deep), "/$defs/d/properties/m", "/m/0/m"),
    ):
        if is_certain:
            with pytest.raises(ContractError) as caught:
                declare()
            assert caught.value.path == f"{at}{place}"
        else:
            with warned() as words:
                declare()
            assert len(words) == 1
            assert "could be built; possibly no value fits it; " in words[0]
            assert f"{value_at}{place}" in words[0]
            assert "a part of" not in words[0]


@pytest.mark.parametrize(("member", "place", "is_certain"), NEVER)
def test_c7_a_part_that_nothing_can_fit_is_warned_of_once(
    member: dict[str, Any], place: str, is_certain: bool
) -> None:
    """A contradiction in an optional part is one warning with the place, which points at the
    declaration.
    """
    with warned() as words:
        tool = Tool.from_json_schema("search", holding(member, required=False))

    assert len(words) == 1
    assert words[0].startswith("no value can ever fit" if is_certain else "no example of a part")
    at = "/properties/m" if is_certain else "/m"
    assert f"; {at}{place}: " in words[0]
    assert tool.parameters.check({}) == ()


def test_c7_a_listed_item_that_nothing_can_fit_is_warned_of() -> None:
    """An item that must be there and has no value is a warning with its place."""
    with warned() as words:
        Answer.of({"type": "array", "prefixItems": [{"enum": []}], "minItems": 1})

    assert len(words) == 1
    assert words[0].startswith("no example of the answer could be built; ")
    assert "; /prefixItems/0/enum: " in words[0]


@pytest.mark.parametrize(
    "member",
    [
        False,
        {"not": {}},
        {"type": ["string", "null"], "enum": ["a", None]},
        {"type": "string", "enum": ["a", None]},
        {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"type": "string", "minimum": 3, "maximum": 1},
        {"type": "integer", "oneOf": [{"minimum": 3}, {"maximum": 1}]},
        {"type": "array", "items": {"not": {}}},
        {"if": {"type": "array", "const": 1}, "then": False},
        {"not": SCALARS_ON_AN_ARRAY},
        {"$defs": {"unused": SCALARS_ON_AN_ARRAY}},
        {"enum": [1.0], "const": 1},
        {"type": "integer", "enum": [1.0]},
        {"type": "string", "enum": [None, "a"]},
        {"type": "string", "pattern": "^[q-s]{3}-[^-]{7}$"},
        {"type": "object", "properties": {"a": {"not": {}}, "b": False}},
        {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {}, "b": {}}, "not": {"required": ["a", "b"]}},
        {"properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"properties": {"a": {}, "b": {}}, "maxProperties": 1},
        {"if": {"maxLength": 9}, "then": {"const": "yes"}, "else": {"const": "no"}},
        {
            "type": "array",
            "uniqueItems": True,
            "minItems": 3,
            "items": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        },
        {
            "type": "array",
            "uniqueItems": True,
            "minItems": 2,
            "items": {"type": "string", "format": "date"},
        },
        {
            "type": "array",
            "uniqueItems": True,
            "minItems": 2,
            "items": {"type": "array", "minItems": 1, "items": {"type": "integer"}},
        },
        {"type": "object", "patternProperties": {"^x-[0-9]{7}$": {"type": "string"}}},
        {"type": "array", "items": {"$ref": "#/properties/m"}},
        {"pattern": "^(?!zz)", "enum": [1, "B"]},
        {"type": "string", "pattern": "^(?!zz)", "enum": [None, "B"]},
        {"type": "string", "pattern": "^(?=.*[A-Z])(?=.*[0-9]).{8,}$"},
        {"oneOf": [{"type": "string", "pattern": "^(?=a)[a-z]"}, {"type": "null"}]},
        {"type": "string", "not": {"pattern": "[^ ]"}},
        {"type": "array", "not": {"uniqueItems": True}, "minItems": 2},
        {"type": "array", "oneOf": [{"uniqueItems": True}, {"maxItems": 9}], "minItems": 2},
        {"if": {"pattern": "^[q-s]{3}-"}, "then": {"enum": [1, "qqq-"]}, "else": {"const": "a"}},
        {"type": "object", "properties": {"a": {}}, "const": {"a": 1, "b": 2}},
        {"properties": {"a": {}}, "anyOf": [{"enum": [{"b": 2}]}, {"const": {"c": 3}}]},
    ],
)
def test_c7_what_is_meant_or_possible_is_no_contradiction(member: Any) -> None:
    """Forbidding a key, excluding a value and narrowing a union are declared in silence."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tool = Tool.from_json_schema("search", holding(member, required=False))

    assert tool.name == "search"


@pytest.mark.parametrize(
    "required",
    [
        {"properties": {"a": {}}, "required": ["b"]},
        {"properties": {"a": {}}, "allOf": [{"required": ["b"]}]},
        {"allOf": [{"properties": {"a": {}}}, {"properties": {"c": {}}, "required": ["b"]}]},
        {"required": ["b"]},
    ],
)
def test_v19_closing_admits_what_is_required(required: dict[str, Any]) -> None:
    """A required key without a description may have any value; other keys are still refused."""
    parameters = Tool.from_json_schema("search", {"type": "object", **required}).parameters
    assert parameters.check({"b": 1}) == ()
    assert [issue.code for issue in parameters.check({"b": 1, "z": 1})] == ["args.extra_key"]


def test_c7_closing_admits_the_values_that_are_listed() -> None:
    """The members of a listed value may be there, though nothing else describes them."""
    listed = {"type": "object", "properties": {"a": {}}, "enum": [{"a": 1, "b": {"c": 2}}, None]}
    parameters = Tool.from_json_schema("search", listed).parameters
    assert parameters.check({"a": 1, "b": {"c": 2}}) == ()
    assert [issue.code for issue in parameters.check({"a": 1})] == ["args.enum"]


def test_c7_closing_says_that_it_did_it() -> None:
    """A required key that only closing forbids is an error that names closing and the way on."""
    rest = {"properties": {"z": {}}, "required": ["z"]}
    inner = {"type": "object", "allOf": [{"$ref": "#/properties/p"}], **rest}
    schema = {
        "type": "object",
        "properties": {"p": {"properties": {"x": {}}}, "q": inner},
        "required": ["q"],
    }

    with pytest.raises(ContractError) as caught:
        Tool.from_json_schema("search", schema)

    assert caught.value.path == "/properties/q/required"
    assert 'extra="schema"' in str(caught.value)
    assert (
        Tool.from_json_schema("search", schema, extra="schema").parameters.check({"q": {"z": 1}})
        == ()
    )

    with pytest.raises(ContractError):
        Contract(tools=[Tool.from_json_schema("search", schema, extra="schema")], extra="forbid")


BASE = {"type": "object", "properties": {"x": {}}, "required": ["x", "y"]}
DEMANDS: list[tuple[dict[str, Any], Any]] = [
    ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "required": ["a"]}}}, {"a": 1}),
    ({"$ref": "#/$defs/A", "required": ["w"], "$defs": {"A": BASE}}, {"x": 1, "y": 1, "w": 1}),
    (
        {
            "properties": {
                "p": {"$ref": "#/$defs/A"},
                "q": {"allOf": [{"$ref": "#/$defs/A"}, {"required": ["z"]}]},
            },
            "$defs": {"A": BASE},
        },
        {"p": {"x": 1, "y": 1}, "q": {"x": 1, "y": 1, "z": 1}},
    ),
    (
        {"properties": {"x": {}}, "required": ["x"], "dependentRequired": {"x": ["y"]}},
        {"x": 1, "y": 1},
    ),
    (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"x": {}},
            "required": ["x"],
            "dependencies": {"x": ["y"]},
        },
        {"x": 1, "y": 1},
    ),
    (
        {"required": ["c"], "anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
        {"a": 1, "c": 1},
    ),
    ({"required": ["c"], "oneOf": [{"type": "object"}]}, {"c": 1}),
    (
        {"required": ["b"], "if": {"required": ["a"]}, "then": {"properties": {"a": {}, "b": {}}}},
        {"b": 1},
    ),
    (
        {
            "properties": {
                "p": {"$ref": "#/$defs/B"},
                "q": {"allOf": [{"$ref": "#/$defs/B"}, {"required": ["z"]}]},
            },
            "$defs": {"A": BASE, "B": {"$ref": "#/$defs/A"}},
        },
        {"p": {"x": 1, "y": 1}, "q": {"x": 1, "y": 1, "z": 1}},
    ),
    (
        {
            "properties": {
                "p": {"$ref": "#/$defs/U"},
                "q": {"allOf": [{"$ref": "#/$defs/U"}, {"required": ["z"]}]},
            },
            "$defs": {"U": {"oneOf": [BASE, {"properties": {"n": {}}, "required": ["n"]}]}},
        },
        {"p": {"x": 1, "y": 1}, "q": {"n": 1, "z": 1}},
    ),
]
"""Schemas that require what they do not list, in every kind of composition, with a value that has
only that.
"""


@pytest.mark.parametrize(("schema", "value"), DEMANDS)
def test_c7_closing_admits_what_is_required_wherever_it_is_required(
    schema: dict[str, Any], value: Any
) -> None:
    """A key that a schema demands is admitted by closing, through references, choices and
    conditions; others not.
    """
    Tool.from_json_schema("t", schema)  # neither refused nor warned of
    closed = Schema.compile(schema)
    assert closed.check(value) == ()
    assert closed.check({**value, "other": 1})
    for name, member in value.items():
        if isinstance(member, dict):
            assert closed.check({**value, name: {**member, "other": 1}})


def test_c7_a_required_key_that_one_form_describes_is_not_admitted_by_another() -> None:
    """A member that a form demands and describes is judged by its description alone."""
    forms = [{"properties": {name: {"type": "integer"}}, "required": [name]} for name in "ab"]
    closed = Schema.compile({"properties": {"c": {}}, "anyOf": forms})
    assert closed.check({"a": 1, "c": 1}) == ()
    assert closed.check({"a": 1, "b": "free"})


def test_c7_too_few_keys_by_closing_says_the_way_on() -> None:
    """An object that needs more keys than it lists is refused with the way on."""
    with pytest.raises(ContractError, match="extra="):
        Tool.from_json_schema("t", {"type": "object", "minProperties": 1})


def test_c7_recursion_without_an_end_is_refused() -> None:
    """A schema that requires itself inside itself fits no finite value."""
    with pytest.raises(ContractError, match="it must contain itself"):
        Answer.of({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})

    Answer.of(
        {
            "type": "object",
            "properties": {"a": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
            "required": ["a"],
        }
    )


def test_c7_older_drafts_are_judged_as_they_mean() -> None:
    """Keywords beside a draft-07 reference, and keywords that came later, contradict nothing."""
    declared = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"s": {"type": "string"}},
    }
    for extra in ("forbid", "schema"):
        beside = holding({"$ref": "#/definitions/s", "enum": []}) | declared
        assert (
            Tool.from_json_schema("search", beside, extra=extra).parameters.check({"m": "x"}) == ()
        )

    later = holding({"type": "array", "contains": {}, "maxContains": 0}) | declared
    assert Tool.from_json_schema("search", later, extra="schema").parameters.check({"m": [1]}) == ()


@given(schema=SCHEMAS, value=VALUES, closed=st.booleans())
@settings(max_examples=400)
def test_c7_no_schema_that_a_value_fits_is_refused(
    schema: dict[str, Any], value: Any, closed: bool
) -> None:
    """A schema that some value fits can be declared, closed or as written."""
    extra: Any = "forbid" if closed else "schema"
    compiled = Schema.compile(schema, extra=extra, root_closed=False)
    fits = [each for each in (value, compiled.example()) if compiled.check(each) == ()]
    if not fits:
        return

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContractWarning)
        assert isinstance(Answer.of(schema, extra=extra), Answer)
        if isinstance(fits[0], dict) and not closed:
            Tool.from_json_schema("search", schema, extra=extra)


@needs_shared
@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
@pytest.mark.parametrize("extra", ["forbid", "schema"])
@pytest.mark.parametrize("draft", DECLARED)
def test_c7_no_schema_of_the_suite_that_a_value_fits_is_refused(draft: str, extra: Any) -> None:
    """A schema of the public suite for which the suite has a valid value can be declared."""
    declared = 0
    for case in chain(cases(draft, optional=False), cases(draft, optional=True)):
        if isinstance(case.schema, bool):
            continue

        try:
            compiled = Schema.compile(case.schema, extra=extra, root_closed=False)
        except ContractError:
            continue  # for other reasons: see test_schema_suite.py

        if any(compiled.check(test["data"]) == () for test in case.tests):
            assert Answer.of(case.schema, extra=extra).schema is not None
            declared += 1

    assert declared > 100


@needs_shared
def test_c7_tools_of_real_servers_are_declared_in_silence() -> None:
    """Of the tools that servers publish nothing is refused or warned of."""
    folder = SHARED / "apps" / "inputs" / "github_mcp_tools"
    definitions = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    assert len(definitions) > 100
    with warned() as words:
        for definition in definitions:
            assert Tool.from_mcp(definition).name == definition["name"]

    assert words == []


@needs_shared
@pytest.mark.slow
def test_c7_recorded_tools_are_warned_of_only_where_nothing_fits() -> None:
    """Of recorded tools only lists of values that their own type forbids are warned of."""
    with gzip.open(SHARED / "corpus" / "replies.jsonl.gz", "rt", encoding="utf-8") as lines:
        tools = [tool for line in lines for tool in json.loads(line)["tools"] or ()]

    with warned() as words:
        for definition in some({json.dumps(tool) for tool in tools}):
            with suppress(ContractError):  # see test_corpus.py
                Tool.of(json.loads(definition))

    assert len(words) > 3
    places = [place for message in words for place in message.split("; ")[1:]]
    fault = "/enum: no listed value fits its other rules"
    assert [place for place in places if not place.endswith(fault)] == []


def calls_made(work: Callable[[], object]) -> int:
    """Count the function calls of Python that a piece of work makes."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)

    return count


@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
@pytest.mark.parametrize("beside", [{}, {"z": SCALARS_ON_AN_ARRAY}])
def test_c7_the_work_is_bounded(beside: dict[str, Any]) -> None:
    """Many forms around many members are looked at up to a bound, with and without a place that
    nothing fits.
    """

    def declared(size: int) -> Callable[[], object]:
        nested: dict[str, Any] = {
            "type": "object",
            "properties": {f"k{index}": {} for index in range(size)},
            "anyOf": [{"required": [f"k{index}"]} for index in range(size)],
        }
        schema = holding({"type": "array", "items": nested})
        schema["properties"] |= beside
        return partial(Tool.from_json_schema, "search", schema)

    declared(10)()  # what is made once does not count
    few = calls_made(declared(200))
    most = calls_made(declared(400))

    # under what four times the pairs of a form and a member would take
    assert 0 < few < most < 4 * few
    with pytest.raises(ContractError, match="500 schemas"):
        declared(600)()


def chained(last: dict[str, Any], *names: str, length: int, needed: bool) -> dict[str, Any]:
    """Describe objects of which each holds the next one under several names."""
    levels = {
        f"d{level}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/d{level + 1}"} for name in names},
            "required": list(names) if needed else [],
        }
        for level in range(length)
    }
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}} | {
        "$defs": levels | {f"d{length}": last}
    }


TWICE = {
    "type": "object",
    "properties": {name: {"$ref": "#/$defs/t"} for name in "mn"},
    "required": ["m", "n"],
}
LONG: dict[str, dict[str, Any]] = {
    "one bad of many": {
        "type": "object",
        "properties": {f"k{n}": {"type": "string", "minLength": 1} for n in range(2_000)}
        | {"z": SCALARS_ON_AN_ARRAY},
    },
    "many bad": {"type": "object", "properties": {f"k{n}": {"enum": []} for n in range(3_000)}},
    "exponential": chained({"type": "null"}, *"abcd", length=30, needed=True),
    "exponential and bad": chained(SCALARS_ON_AN_ARRAY, *"abcd", length=30, needed=True),
    "long": chained(SCALARS_ON_AN_ARRAY, "a", length=1_000, needed=True),
    "long and optional": chained(SCALARS_ON_AN_ARRAY, "a", length=1_000, needed=False),
    "endless": {
        "type": "object",
        "properties": {"a": {"anyOf": [TWICE] * 4}},
        "$defs": {"t": TWICE},
    },
    "deep arrays": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"type": "array", "minItems": 64, "items": {"$ref": "#/$defs/a"}}},
    },
}


@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
@pytest.mark.parametrize("name", LONG)
@pytest.mark.slow
def test_c7_no_schema_takes_long_to_declare(name: str) -> None:
    """Schemas that would take exponential work, or very many examples, are given up in time."""
    Tool.from_json_schema("search", holding({}))  # what is made once does not count
    compiled = calls_made(partial(Schema.compile, LONG[name]))
    declared = calls_made(partial(Tool.from_json_schema, "search", LONG[name]))
    assert 0 < compiled < declared < compiled + 1_000_000


ROOTS: list[tuple[Any, Any, Any]] = [
    ({"type": "array", "items": {"type": "string"}}, ["a"], [1]),
    ({"type": "string"}, "a", 1),
    ({"enum": [1, "a"]}, 1, 2),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, "a"),
    ({"type": ["object", "array"]}, [], 1),
    ({"$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}}, "a", 1),
    ({"type": "array", "items": {"$ref": "#"}}, [[], [[]]], [1]),
    (
        {"type": "array", "prefixItems": [{"type": "null"}, {"$ref": "#/prefixItems/0"}]},
        [None, None],
        [None, 1],
    ),
    (
        {
            "$id": "https://example.com/a",
            "type": "array",
            "items": {"$ref": "#/$defs/s"},
            "$defs": {"s": {"type": "null"}},
        },
        [None],
        [1],
    ),
    (
        {
            "type": "array",
            "items": {"$ref": "#s"},
            "$defs": {"x": {"$anchor": "s", "type": "null"}},
        },
        [None],
        [1],
    ),
    (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "array",
            "items": {"$ref": "#/definitions/n"},
            "definitions": {
                "n": {
                    "anyOf": [
                        {"minimum": 0, "exclusiveMinimum": True, "type": "integer"},
                        {"$ref": "#"},
                    ]
                }
            },
        },
        [1, [2]],
        [0],
    ),
]


@pytest.mark.parametrize(("schema", "good", "bad"), ROOTS)
def test_v19_other_roots_are_wrapped(schema: dict[str, Any], good: Any, bad: Any) -> None:
    """With ``wrap_root`` any root can be declared: the model writes an object, the arguments are
    the value in it.
    """
    seen: list[Any] = []
    tool = Tool.from_json_schema("search", schema, wrap_root=True, function=seen.append)
    contract = Contract(tools=[tool])
    valid: Any = contract.check(called({"value": good}))
    assert valid.reply.args == good

    assert written_arguments(tool, valid.reply.args) == {"value": good}
    tool.run(valid.reply.args)
    assert seen == [good]

    for wrong in ({"value": bad}, {"value": good, "more": 1}, {}):
        assert contract.check(called(wrong)).issues  # type: ignore[union-attr]

    again: Any = with_schema_rules(tool, "schema", "annotate")
    assert again.build({"value": good}) == good


@pytest.mark.parametrize(
    "schema", [ROOTS[0][0], ROOTS[1][0], {"enum": [1]}, {"anyOf": [{"type": "null"}]}]
)
def test_v19_other_roots_say_how(schema: dict[str, Any]) -> None:
    """Without ``wrap_root`` a root that admits no object is refused, and an answer of any root is
    declared as it is.
    """
    with pytest.raises(ContractError):
        Tool.from_json_schema("search", schema)
    assert Answer.of(schema).schema is not None


def test_v19_objects_are_not_wrapped() -> None:
    """An object needs no wrapping: the arguments are the same with and without ``wrap_root``."""
    tool = Tool.from_json_schema("search", holding({"type": "null"}), wrap_root=True)
    assert tool.parameters.source == holding({"type": "null"})
    assert tool.build({"m": None}) == {"m": None}


def called(args: Any) -> dict[str, Any]:
    """Write a message that calls the tool."""
    function = {"name": "search", "arguments": json.dumps(args)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
