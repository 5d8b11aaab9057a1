"""The search for faults: complete where the work allows it.

It never goes beyond the work, however hostile the value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.test_schema_suite import DECLARED, cases
from strictreply import ContractError
from strictreply.core import Work
from strictreply.schema import Schema
from support.shared_data import needs_shared

WORDS = [f"{number:03d}" + "abcdefghij" * 5 for number in range(250)]


def near(number: int) -> str:
    """Make a text that is near to every word, and none of them."""
    return f"x{number:02d}" + "abcdefghij" * 5


def nested(value: Any, levels: int, width: int = 1) -> Any:
    """Nest a value in lists of ``width`` times itself."""
    for _ in range(levels):
        value = [value] * width
    return value


def leafless(levels: int, leaf: Any) -> Any:
    """Make a binary tree of objects whose every leaf is the same."""
    return (
        {"v": leaf}
        if levels == 0
        else {"l": leafless(levels - 1, leaf), "r": leafless(levels - 1, leaf)}
    )


def of(schema: Any) -> dict[str, Any]:
    """Make a schema of an object with one member."""
    return {"type": "object", "properties": {"a": schema}}


SELF = {"type": "array", "items": {"$ref": "#/$defs/n"}}
RECURRING = {
    "$defs": {"n": {"anyOf": [SELF, {**SELF, "maxItems": 9}]}},
    **of({"$ref": "#/$defs/n"}),
}
TREE = {
    "$defs": {
        "t": {
            "type": "object",
            "properties": {
                "l": {"$ref": "#/$defs/t"},
                "r": {"$ref": "#/$defs/t"},
                "v": {"type": "integer"},
            },
        }
    },
    "$ref": "#/$defs/t",
}


def wide(branches: int) -> dict[str, Any]:
    """Make a list whose items may have many forms that no tag tells apart."""
    forms = [
        {"type": "object", "properties": {f"k{n}": {"type": "integer"}}, "required": [f"k{n}"]}
        for n in range(branches)
    ]
    return of({"type": "array", "items": {"anyOf": forms}})


HOSTILE: dict[str, tuple[Any, Callable[[], Any]]] = {
    "near misses of an enum": (
        of({"items": {"enum": WORDS}}),
        lambda: {"a": [near(n) for n in range(99)]},
    ),
    "near misses of keys": (
        {"properties": dict.fromkeys(WORDS, True)},
        lambda: {near(n): 1 for n in range(99)},
    ),
    "a union that recurs": (RECURRING, lambda: {"a": nested(5, 14)}),
    "a union that recurs in width": (RECURRING, lambda: {"a": nested(5, 12, 2)}),
    "a union that recurs above many": (RECURRING, lambda: {"a": nested([1] * 30_000, 50)}),
    "a union of 20 forms": (wide(20), lambda: {"a": [{"k3": "x"}] * 450}),
    "a union of 20 forms, large": (
        wide(20),
        lambda: {"a": [{f"k{n % 20}": "x"} for n in range(40_000)]},
    ),
    "a union of 400 forms": (wide(400), lambda: {"a": [{"q": 1}] * 9}),
    "a union of 400 forms, large": (wide(400), lambda: {"a": [{"q": 1}] * 45_000}),
    "strangers": (of({}), lambda: {f"{n:x}": 1 for n in range(90_000)}),
    "wrong members": (
        {"type": "object", "additionalProperties": {"type": "null"}},
        lambda: {f"{n:x}": 1 for n in range(90_000)},
    ),
    "unevaluated members": (
        {"allOf": [of({}), {"properties": {"b": {}}}]},
        lambda: {f"{n:x}": 1 for n in range(90_000)},
    ),
    "names": (
        {"type": "object", "additionalProperties": True, "propertyNames": {"pattern": "^z"}},
        lambda: {f"{n:x}": 1 for n in range(90_000)},
    ),
    "many patterns": (
        {"type": "object", "patternProperties": {f"{n}$": {"type": "null"} for n in range(99)}},
        lambda: {f"{n}": 1 for n in range(90_000)},
    ),
    "equal items": (of({"uniqueItems": True}), lambda: {"a": [*range(90_000), 1]}),
    "a tree of faults": (TREE, lambda: leafless(14, "x")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_explaining_stays_within_the_work(name: str) -> None:
    """For any value and schema the steps stay within one reply's work, and there is an issue."""
    schema, make = HOSTILE[name]
    work = Work()
    issues = Schema.compile(schema).check(make(), work=work)
    assert 1 <= len(issues) <= 32
    assert work.taken <= work.limit


@pytest.mark.parametrize("name", HOSTILE)
def test_what_was_not_examined_is_said_last(name: str) -> None:
    """With little work left the issues found so far stand, and the last one says that there may be
    more.
    """
    schema, make = HOSTILE[name]
    compiled = Schema.compile(schema)
    value = make()
    whole = compiled.check(value)

    for limit in (0, 20, 200):
        few = compiled.check(value, work=Work(limit))
        assert few

        if few[-1].code == "args.unexamined":
            assert [issue.path for issue in few[:-1]] == [
                issue.path for issue in whole[: len(few) - 1]
            ]


def test_calls_of_one_reply_share_the_work() -> None:
    """A second check that is given the work of the first has only what that one left."""
    schema = Schema.compile(of({"items": {"enum": WORDS}}))
    work = Work()
    value: Any = {"a": [near(n) for n in range(99)]}
    first = schema.check(value, work=work)
    taken = work.taken
    schema.check(value, work=work)
    assert len(first) == 32
    assert taken < work.taken <= work.limit


@given(st.integers(0, 2**13 - 1))
def test_one_fault_in_a_large_value_is_found(number: int) -> None:
    """The one wrong leaf of a large tree is reported, wherever it is."""
    value = leafless(13, 1)
    place = value
    path = ""

    for bit in range(13):
        side = "r" if number >> bit & 1 else "l"
        place = place[side]
        path = f"{path}/{side}"

    place["v"] = "x"
    assert [(issue.code, issue.path) for issue in Schema.compile(TREE).check(value)] == [
        ("args.type", f"{path}/v")
    ]


@given(st.integers(0, 29_999))
def test_one_wrong_item_among_many_is_found(number: int) -> None:
    """The one invalid item of very many under a union is reported."""
    items: list[Any] = [{"k3": 1}] * 30_000
    items[number] = {"k3": "x"}
    issues = Schema.compile(wide(4)).check({"a": items})
    assert [(issue.code, issue.path) for issue in issues] == [("args.type", f"/a/{number}/k3")]


def refused(draft: str) -> Iterator[tuple[str, Schema, Any]]:
    """Return the refusals of the public suite's schemas."""
    for case in cases(draft, optional=False):
        for extra in ("schema", "forbid"):
            try:
                schema = Schema.compile(case.schema, extra=extra)
            except ContractError:
                continue

            for test in case.tests:
                if schema.check(test["data"]):
                    yield (
                        f"{case.file}: {case.description}: {test['description']}",
                        schema,
                        test["data"],
                    )


@needs_shared
@pytest.mark.parametrize("draft", DECLARED)
def test_the_public_suite_is_explained(draft: str) -> None:
    """Each value that a schema of the suite refuses has a fault at a place, but for references to a
    metaschema.
    """
    opaque = [
        name
        for name, schema, value in refused(draft)
        if schema.check(value)[0].code in ("args.invalid", "args.unexamined")
        and "json-schema.org" not in json.dumps(schema.closed).replace('"$schema": "http', "")
    ]
    assert opaque == []


def test_comparisons_of_names_are_counted() -> None:
    """Looking for a near word takes steps by the length of what is compared; without any left there
    is no hint.
    """
    schema = Schema.compile(of({"enum": WORDS}))
    plenty = Work()
    none = Work(36)
    (hinted,) = schema.check({"a": near(7)}, work=plenty)

    (bare,) = schema.check({"a": near(7)}, work=none)
    assert (bool(hinted.hint), bool(bare.hint)) == (True, False)
    assert hinted.path == bare.path == "/a"
    assert plenty.taken > 200

    assert none.taken <= none.limit
