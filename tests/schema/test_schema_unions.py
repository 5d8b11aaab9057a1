"""A union told apart means what it meant, also where tags are shared and where integers are numbers (V18)."""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.schema.documents import read_document
from strictreply.schema.graph import Graph
from strictreply.schema.rust_engine import RustEngine
from strictreply.schema.unions import told_apart


def tagged(tags: Any, *needed: str) -> dict[str, Any]:
    """Describe an object by the texts of its tag and the members it needs."""
    return {"type": "object", "properties": {"kind": {"enum": tags}}, "required": ["kind", *needed]}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("forms", "values"),
    [
        ([tagged(["x"], "a"), tagged(["x"], "b")], [{"kind": "x", "a": 1}, {"kind": "x", "b": 1}, {"kind": "x"}]),
        ([tagged(["x", "y"], "a"), tagged(["y", "z"], "b")], [{"kind": "y", "a": 1}, {"kind": "y", "b": 1}]),
        (
            [tagged(["x"], "a"), tagged(["y"], "b")],
            [{"kind": "x", "a": 1}, {"kind": "x", "b": 1}, {"kind": "y", "b": 1}],
        ),
        ([{"type": "integer", "minimum": 10}, {"type": "number", "maximum": 5}], [3, 3.0, 4.5, 7, 7.5, 12, 12.0]),
        ([{"type": "integer"}, {"type": "number", "maximum": 5}, {"type": "null"}], [3, 4.5, 7, 7.5, None, "x"]),
        ([{"const": 1}, {"type": "number", "maximum": 0}], [1, 1.0, 0, -0.5, 2]),
    ],
)
def test_v18_unions_keep_their_meaning(keyword: str, forms: list[Any], values: list[Any]) -> None:
    """Forms that share a tag's text, or differ only as integer and number, do not exclude one another."""
    document = {keyword: forms}
    told = told_apart(Graph(read_document(document))).document
    verdicts = [[RustEngine(each, formats=True).is_valid(value) for value in values] for each in (document, told)]
    assert verdicts[0] == verdicts[1]
