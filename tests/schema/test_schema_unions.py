"""Which branch of a union a value means (V18).

Its type or its tag says so, and only where these tell the branches apart.
"""

from __future__ import annotations

from typing import Any

import pytest

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
