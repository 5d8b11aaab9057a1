"""Bounded work: recurring unions may be declared.

A value that would explode is refused instead of tried.
"""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.core import JSON, Work
from strictreply.core.schemas import Graph
from strictreply.schema import Schema
from strictreply.schema._documents import read_document
from strictreply.schema._work import MAX_STEPS, judgements_of, load_of


def expression(tags: list[list[str]]) -> dict[str, Any]:
    """Build a recurring union whose branches have these tags."""
    branches: list[dict[str, Any]] = [
        {
            "type": "object",
            "properties": {
                "kind": {"enum": tag},
                "left": {"$ref": "#/$defs/e"},
                "right": {"$ref": "#/$defs/e"},
            },
            "required": ["kind"],
        }
        for tag in tags
    ]
    return {
        "properties": {"e": {"$ref": "#/$defs/e"}},
        "$defs": {"e": {"anyOf": [*branches, {"type": "integer"}]}},
    }


def nest(leaf: Any, depth: int) -> dict[str, Any]:
    """Nest a value on the left of as many objects."""
    for _ in range(depth):
        leaf = {"kind": "or", "left": leaf, "right": 1}
    return {"e": leaf}


@pytest.mark.parametrize("depth", [1, 8, 30, 60])
def test_tagged_recursion_is_judged_at_any_depth(depth: int) -> None:
    """Tags tell the branches apart, so that deep values are accepted, and refused at the very
    place.
    """
    schema = Schema.compile(expression([["and"], ["or"]]))
    assert schema.check(nest(1, depth)) == ()
    (issue,) = schema.check(nest("x", depth))
    assert (issue.code, issue.path) == ("args.type", "/e" + "/left" * depth)


def test_untagged_recursion_is_accepted_and_refused_within_the_work() -> None:
    """Where branches cannot be told apart a deep valid value passes, and a deep fault is told where
    all of them have it.
    """
    schema = Schema.compile(expression([["and", "or"], ["or"]]))
    assert schema.check(nest(1, 60)) == ()
    work = Work()
    (issue,) = schema.check(nest("x", 60), work=work)
    assert (issue.code, issue.path) == ("args.type", "/e" + "/left" * 60)
    assert work.taken < work.limit // 4


@pytest.mark.parametrize(
    ("schema", "grows"),
    [
        (expression([["and"], ["or"]]), True),
        (
            {
                "$defs": {"n": {"properties": {"c": {"items": {"$ref": "#/$defs/n"}}}}},
                "$ref": "#/$defs/n",
            },
            False,
        ),
        (
            {
                "anyOf": [
                    {"type": "array", "items": {"$ref": "#"}},
                    {"additionalProperties": {"$ref": "#"}},
                ]
            },
            False,
        ),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, False),
    ],
)
def test_only_choices_that_recur_grow(schema: dict[str, Any], grows: bool) -> None:
    """Recursion by one way alone costs one judgement a place, and needs no count."""
    assert (load_of(Graph(read_document(schema))) is None) is grows


def test_the_count_is_itself_bounded() -> None:
    """Counting gives up on a value that is too deep or too wide to count."""
    graph = Graph(read_document(expression([["or"], ["or"]])))
    assert judgements_of(graph, nest(1, 6)) <= MAX_STEPS
    assert judgements_of(graph, nest(1, 60)) > MAX_STEPS
    assert judgements_of(graph, nest(1, 5_000)) > MAX_STEPS


def test_strangers_beyond_counting_are_reported_like_a_few() -> None:
    """Tens of thousands of unknown members cost no more words than a handful, and what is known is
    still judged.
    """
    schema = Schema.compile({"type": "object", "properties": {"a": {"type": "integer"}}})
    few: dict[str, JSON] = {f"k{number}": 1 for number in range(200)} | {"a": "x"}
    many: dict[str, JSON] = {f"k{number}": 1 for number in range(20_000)} | {"a": "x"}
    assert schema.check(many) == schema.check(few)
    assert {issue.code for issue in schema.check(many)} == {"args.extra_key", "args.type"}
