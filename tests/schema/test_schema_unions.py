"""Which branch of a union a value means (V18).

Its type or its tag says so, and only where these tell the branches apart.
"""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.core import Work
from strictreply.schema import Schema


def tagged(tags: Any, *needed: str) -> dict[str, Any]:
    """Describe an object by the texts of its tag and the members it needs."""
    members = {"kind": {"enum": tags}} | {name: {"type": "integer"} for name in needed}
    return {"type": "object", "properties": members, "required": ["kind", *needed]}


TAGGED = [tagged(["x"], "a"), tagged(["y"], "b")]
SHARED = [tagged(["x"], "a"), tagged(["x"], "b")]
NUMBERS = [{"type": "integer", "minimum": 10}, {"type": "number", "maximum": 5}]


def faults(keyword: str, forms: list[Any], value: Any) -> list[tuple[str, str]]:
    """Return rule and path of every issue."""
    return [
        (issue.code.removeprefix("args."), issue.path)
        for issue in Schema.compile({keyword: forms}).check(value)
    ]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("forms", "value", "expected"),
    [
        (TAGGED, {"kind": "x", "a": 1}, []),
        (TAGGED, {"kind": "x", "a": "1"}, [("type", "/a")]),
        (TAGGED, {"kind": "y"}, [("required", "/b")]),
        (TAGGED, {"kind": "z"}, [("enum", "/kind")]),
        (TAGGED, 1, [("type", "")]),
        (SHARED, {"kind": "x", "b": 1}, []),
        # The tag is not a tag: the nearer branch is meant.
        (SHARED, {"kind": "x", "a": "1"}, [("type", "/a")]),
        (SHARED, {"kind": "x", "b": "1"}, [("type", "/b")]),
        ([tagged(["x", "y"], "a"), tagged(["y", "z"], "b")], {"kind": "y", "b": 1}, []),
        (NUMBERS, 3, []),
        (NUMBERS, 12.0, []),
        (NUMBERS, 7, [("any_of", "")]),
        (NUMBERS, 7.5, [("maximum", "")]),
        (NUMBERS, "x", [("type", "")]),
        ([{"type": "integer"}, {"type": "null"}], 1.5, [("type", "")]),
        ([{"type": "integer"}, {"type": "null"}], "x", [("type", "")]),
        ([{"const": 1}, {"type": "number", "maximum": 0}], 1.0, []),
    ],
)
def test_v18_the_branch_is_told_by_type_and_tag_alone(
    keyword: str, forms: list[Any], value: Any, expected: list[tuple[str, str]]
) -> None:
    """Forms that share a tag's text, or differ only as integer and number, do not exclude one
    another.
    """
    named = [
        ("one_of" if rule == "any_of" and keyword == "oneOf" else rule, path)
        for rule, path in expected
    ]
    assert faults(keyword, forms, value) == named


LONG = {"type": "string", "minLength": 5}
BEGUN = {"type": "string", "pattern": "^z"}
NESTED = {
    "$defs": {
        "n": {
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/n"}},
                {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 3},
                {"type": "integer"},
            ]
        }
    },
    "$ref": "#/$defs/n",
}


def told(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    """Return path and message of every issue."""
    return [(issue.path, issue.message) for issue in Schema.compile(schema).check(value)]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_a_value_of_the_right_type_is_told_what_each_branch_asks_for(keyword: str) -> None:
    """That a text must be a text tells a model nothing: each branch's own rules are told."""
    words = 'must have at least 5 characters; or must match the pattern "^z"'
    assert told({keyword: [LONG, BEGUN, {"type": "integer"}]}, "abc") == [("", words)]


def test_what_a_branch_asks_of_members_is_told_with_their_place() -> None:
    """Objects that no tag tells apart have the faults of each branch told."""
    forms = [
        {"type": "object", "properties": {"a": {"type": kind}}, "additionalProperties": {}}
        for kind in ("integer", "boolean")
    ]
    words = "its /a must be an integer; or its /a must be true or false"
    assert told({"anyOf": forms}, {"a": "x"}) == [("", words)]


def test_branches_that_ask_for_the_same_are_one() -> None:
    """A fault that each branch has, at any depth, is told at its own place, once."""
    assert told(NESTED, [[["x"]]]) == [("/0/0/0", "must be an array or an integer")]


@pytest.mark.parametrize(
    ("value", "places"), [(["a", "a", 1], ["/2"]), ([1], ["", "/0"]), (["a"], [])]
)
def test_items_beside_contained_ones_are_named(value: list[Any], places: list[str]) -> None:
    """Where contained items may stand anywhere, no count of items says which are too many."""
    schema = {"type": "array", "contains": {"type": "string"}, "unevaluatedItems": False}
    assert [place for place, _ in told(schema, value)] == places


TREE: dict[str, Any] = {"$ref": "#/$defs/tree"}
IN_ARRAY: dict[str, Any] = {"type": "array", "items": TREE}


def forest(*forms: dict[str, Any], keyword: str = "anyOf") -> Schema:
    """A schema of trees, each of one of these forms."""
    return Schema.compile(TREE | {"$defs": {"tree": {keyword: list(forms)}}}, extra="schema")


@pytest.mark.parametrize(
    "schema",
    [
        forest({"type": "integer"}, IN_ARRAY),
        forest({"type": "integer"}, IN_ARRAY, keyword="oneOf"),
        forest({"type": "integer"}, IN_ARRAY, {"type": "object", "additionalProperties": TREE}),
        forest({"type": "integer"}, IN_ARRAY, IN_ARRAY | {"maxItems": 30}),
    ],
    ids=["anyOf", "oneOf", "three forms", "two of one type"],
)
@pytest.mark.parametrize("limit", [10_000, 600])
def test_the_first_faults_of_a_wide_tree_are_named(schema: Schema, limit: int) -> None:
    """Of 8,000 wrong leaves below a union that recurs, the first ones are named in their order, for
    little work; where it is used up, the last issue says that there may be more.
    """
    value: Any = [[["x"] * 20 for _ in range(20)] for _ in range(20)]
    work = Work(limit)
    issues = schema.check(value, work=work)
    assert work.taken <= Work().limit // 10

    named = [issue for issue in issues if issue.code == "args.type"]
    if len(named) < len(issues):
        assert issues[-1].code in ("args.unexamined", "args.too_complex")
    else:
        assert len(issues) == 32

    order = [f"/{n // 400}/{n // 20 % 20}/{n % 20}" for n in range(len(named))]
    assert [issue.path for issue in named] == order
    assert limit < Work().limit or len(named) == 32


def test_what_was_found_before_the_work_was_used_up_is_told() -> None:
    """However little work is left, what a union's one possible branch had found is kept."""
    schema = forest({"type": "integer"}, IN_ARRAY)
    value: Any = [[[f"x{n}"] for n in range(6)] for _ in range(6)]
    whole = schema.check(value)
    counts = set()
    for limit in range(20, 700, 20):
        *few, last = schema.check(value, work=Work(limit))
        if last.code == "args.unexamined":
            assert few == list(whole[: len(few)])
            counts.add(len(few))

    assert max(counts) > 10


def test_faults_that_all_branches_have_are_all_told() -> None:
    """Where branches are equally near, what is wrong by each of them is certain."""
    point = {"type": "object", "properties": {n: {"type": "integer"} for n in "xyz"}}
    schema = Schema.compile(
        {"properties": {"at": {"anyOf": [point, point | {"maxProperties": 9}]}}}, extra="schema"
    )
    issues = schema.check({"at": {"x": "1", "y": "2", "z": "3"}})
    assert [(issue.code, issue.path) for issue in issues] == [
        ("args.type", f"/at/{name}") for name in "xyz"
    ]


def test_the_forms_that_are_not_listed_are_counted() -> None:
    """Of many forms those that fit in are listed, and the number of the others is true."""
    forms = [
        {"type": "object", "properties": {f"k{n}": {"type": "integer"}}, "required": [f"k{n}"]}
        for n in range(40)
    ]
    (issue,) = Schema.compile({"anyOf": forms}, extra="schema").check({"q": 1})
    listed = issue.message.count("an object with")
    assert f"or {40 - listed} more forms" in issue.message
