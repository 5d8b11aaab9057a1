"""The choice of the engine: the same library, the same issues, where jsonschema-rs has no wheel."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from strictreply import ContractError
from strictreply.schema import Schema
from strictreply.schema._reference_engine import ReferenceEngine
from support.loops import some

WITHOUT_RUST = """
import json, sys
sys.modules["jsonschema_rs"] = None
from strictreply import ContractError
from strictreply.schema import Schema
for schema, value in json.load(sys.stdin):
    try:
        issues = Schema.compile(schema).check(value)
        print(json.dumps([[issue.code, issue.path, issue.message] for issue in issues]))
    except ContractError as error:
        print(json.dumps(error.path))
"""
TREE = {
    "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "id": {"type": "integer"}},
    "required": ["id"],
}
CASES: list[tuple[Any, Any]] = [
    ({"properties": {"a": {"type": "integer"}}, "required": ["a", "b"]}, {"a": "x", "z": 1}),
    (
        {"properties": {"a": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]}}},
        {"a": "x"},
    ),
    ({"properties": {"a": {"format": "date-time"}}}, {"a": "yesterday"}),
    ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 60 + "!"}),
    ({"patternProperties": {"^(a+)+$": {}}}, {"a" * 60 + "!": 1}),
    ({"patternProperties": {"^x": {"type": "integer"}}}, {"x1": "1"}),
    ({"prefixItems": [{"type": "null"}], "items": False}, [None, 1]),
    ({"propertyNames": {"maxLength": 2}, "additionalProperties": True}, {"long": 1}),
    ({"properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}}, {"a": 1}),
    (
        {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {}}}]},
        {"a": 1, "z": 1},
    ),
    (TREE, {"id": 1, "kids": [{"id": "2"}]}),
    ({"contains": {"type": "string"}, "minContains": 2}, ["x"]),
    ({"properties": {"a": {"type": "strnig"}}}, {}),
    ({"properties": {"a": {"pattern": "(?=a)"}}}, {}),
    ({"patternProperties": {"(?=a)": {}}}, {}),
    ({"properties": {"a": {"$ref": "http://example.com/"}}}, {}),
]


def outcome(schema: Any, value: Any) -> Any:
    """Return the issues of a value, or the place where its schema is refused."""
    try:
        return [
            [issue.code, issue.path, issue.message] for issue in Schema.compile(schema).check(value)
        ]
    except ContractError as error:
        return error.path


def test_both_engines_give_the_same_issues() -> None:
    """Without jsonschema-rs the same schemas are refused at the same places, and values get the
    same issues.
    """
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_RUST],
        input=json.dumps(CASES),
        capture_output=True,
        text=True,
        check=True,
    )
    told = zip(CASES, done.stdout.splitlines(), strict=True)
    for (schema, value), line in some(told):
        assert sorted(json.loads(line)) == sorted(outcome(schema, value))


def test_the_reference_engine_refuses_what_it_cannot_bound() -> None:
    """Patterns of names beside unevaluatedProperties would be matched by backtracking, so they are
    not taken.
    """
    document = {"allOf": [{"patternProperties": {"^a": {}}}], "unevaluatedProperties": False}
    with pytest.raises(ContractError) as caught:
        ReferenceEngine(document, formats=True)
    assert caught.value.path == "/allOf/0"
