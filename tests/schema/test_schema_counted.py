"""The work of the engines is bounded, and counted before they are asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.core import Work
from strictreply.schema import Schema
from strictreply.schema._counted import afford, metered, states_of
from strictreply.schema._engines import RustEngine
from strictreply.schema._reference_engine import ReferenceEngine
from strictreply.values._limits import Spent

REPEATS = "(a{1,200}){1,20}b"
SCALARS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, 1.5, 1e22, 10**22, 2**63, 2**64, -(2**63), "", "1", "a", "None"])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab1"), inner),
    max_leaves=6,
)


@given(st.lists(VALUES, max_size=5))
@pytest.mark.parametrize("engine", [RustEngine, ReferenceEngine])
def test_unique_items_are_those_of_the_specification(
    engine: type[RustEngine | ReferenceEngine], items: list[Any]
) -> None:
    """Items are unique exactly when no two of them are equal as JSON Schema compares values."""
    schema = {"uniqueItems": True}
    plain = jsonschema.Draft202012Validator(schema)
    assert engine(schema, formats=True).is_valid(items) == plain.is_valid(items)


@cache
def worst(count: int) -> dict[str, tuple[dict[str, Any], Any]]:
    """Return for each keyword what makes it slow, of a size in proportion to ``count``."""
    large = [10**20 + number for number in range(count)]
    long = [10**400 + number for number in range(count // 10)]
    return {
        "uniqueItems": ({"uniqueItems": True}, large),
        "uniqueItems of objects": ({"uniqueItems": True}, [{"a": each} for each in large]),
        "nested uniqueItems": (
            {"$defs": {"n": {"uniqueItems": True, "items": {"$ref": "#/$defs/n"}}}}
            | {"$ref": "#/$defs/n"},
            [[[[each]]] for each in large],
        ),
        "pattern": ({"pattern": REPEATS}, "a" * count),
        "patterns of items": ({"items": {"pattern": REPEATS}}, ["a" * 9] * (count // 9)),
        "propertyNames": ({"propertyNames": {"pattern": REPEATS}}, {"a" * count: 1}),
        "patternProperties": ({"patternProperties": {REPEATS: True}}, {"a" * count: 1}),
        "multipleOf": ({"items": {"multipleOf": 0.01}}, long),
        "a small multipleOf": ({"items": {"multipleOf": 1e-300}}, [1e308] * count),
        "minimum": ({"items": {"minimum": 1.5}}, long),
        "enum": ({"items": {"enum": [1, 2, 10**400]}}, long),
        "const": ({"items": {"not": {"const": 10**401}}}, long),
        "contains": ({"contains": {"multipleOf": 0.01, "minimum": 10**401}}, long),
        "unevaluatedItems": (
            {
                "allOf": [{"contains": {"const": number}} for number in range(30)],
                "unevaluatedItems": False,
            },
            [*range(30)] * (count // 30),
        ),
        "anyOf": ({"anyOf": [{"pattern": f"[ab]{{{50 + n}}}c"} for n in range(60)]}, "a" * count),
        "oneOf": ({"items": {"oneOf": [{"multipleOf": n / 9} for n in range(1, 60)]}}, large),
        "if": ({"if": {"pattern": REPEATS}, "then": False}, "a" * count),
        "dependentSchemas": (
            {"dependentSchemas": {"a": {"properties": {"b": {"uniqueItems": True}}}}},
            {"a": 1, "b": large},
        ),
    }


@pytest.mark.parametrize("keyword", worst(30))
def test_the_work_of_each_keyword_is_linear_and_bounded(keyword: str) -> None:
    """With twice as large a value the work at most doubles, and it never passes its bound."""
    taken = []
    for count in (1_000, 2_000):
        schema, value = worst(count)[keyword]
        work = Work(10**9)
        Schema.compile(schema, extra="schema").check(value, work=work)
        taken.append(work.taken)

    assert taken[1] <= 2 * taken[0] + 200

    schema, value = worst(60_000)[keyword]
    work = Work()
    Schema.compile(schema, extra="schema").check(value, work=work)
    assert work.taken <= work.limit


@pytest.mark.parametrize("keyword", ["pattern", "multipleOf", "minimum", "enum", "anyOf"])
def test_what_would_take_too_long_is_not_tried(keyword: str) -> None:
    """A value that the engine would need too long for is refused, and says so."""
    schema, value = worst(60_000)[keyword]
    issues = Schema.compile(schema, extra="schema").check(value)
    assert [(issue.code, issue.path) for issue in issues] == [("args.too_complex", "")]


N = {"$ref": "#/$defs/n"}
FORMS = [{"type": "array", "items": N, "maxItems": 30 + n} for n in range(70)]


@pytest.mark.parametrize(
    ("schema", "value", "path", "words"),
    [
        (
            {"properties": {"a": {"properties": {"code": {"pattern": REPEATS}}}, "b": True}},
            {"a": {"code": "a" * 60_000}, "b": "b" * 90_000},
            "/a/code",
            "the text is too long for its pattern; write a shorter one",
        ),
        (
            {"items": {"pattern": REPEATS}},
            ["a" * 3_000] * 90,
            "",
            "its texts are too long for their patterns; write fewer or shorter ones",
        ),
        (
            {"properties": {"a": {"propertyNames": {"pattern": REPEATS}}}},
            {"a": {"a" * 60_000: 1}},
            "/a",
            "its keys are too long for the patterns of its schema; write shorter ones",
        ),
        (
            {"properties": {"a": {"items": {"enum": [1, 10**400]}}}},
            {"a": [1, 7 ** (10**5)]},
            "/a/1",
            "the number has too many digits; write a shorter one",
        ),
        (
            {"properties": {"a": {"items": {"enum": [1, 10**400]}}}},
            {"a": [10**60] * 60_000},
            "",
            "its numbers are too many, or have too many digits; write fewer or shorter ones",
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"anyOf": FORMS}}},
            {"a": [[[]] * 100] * 200},
            "",
            "it has too many values for so complex a schema; write fewer",
        ),
    ],
    ids=["pattern", "patterns", "names", "number", "numbers", "size"],
)
def test_what_is_too_complex_is_named(schema: Any, value: Any, path: str, words: str) -> None:
    """The issue says which part is too much work, of what kind, and what to write instead."""
    (issue,) = Schema.compile(schema, extra="schema").check(value)
    assert (issue.code, issue.path) == ("args.too_complex", path)
    assert issue.message == f"is too complex to check: {words}"


def test_the_names_of_a_large_object_are_refused_one_by_one() -> None:
    """The first wrong names are told, also where there are more than the work is for."""
    schema = Schema.compile({"propertyNames": {"pattern": "^z"}}, extra="schema")
    issues = schema.check({f"{n:x}": 1 for n in range(90_000)})
    assert [issue.code for issue in issues] == ["args.property_names"] * 32


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("^[a-z]+$", 0),
        (r"^\d{4}-\d{2}-\d{2}$", 8),
        (REPEATS, 4_000),
        (r"(?:\p{L}{2,3} ?){5}", 20),
        (r"[^\]{9}]{3}", 3),
        (r"\x{41}{7}a{,3}", 7),
        ("a{2,}", 2),
        (r"a\{5}", 0),
        (r"(?P<name>a(?i:b)){4}", 8),
    ],
)
def test_states_are_those_of_counted_repeats(pattern: str, states: int) -> None:
    """The states of a pattern are its atoms times the counts of the repeats around them."""
    assert states_of(pattern) == states


def test_a_long_text_beside_a_pattern_that_repeats_is_judged() -> None:
    """Only where the pattern applies is its work counted, and ``maxLength`` beside it saves it."""
    schema = Schema.compile(
        {
            "properties": {
                "code": {"pattern": REPEATS, "maxLength": 80},
                "text": {"type": "string"},
            }
        }
    )
    assert schema.check({"code": "ab", "text": "a" * 900_000}) == ()
    (issue,) = schema.check({"code": "a" * 900_000, "text": ""})
    assert (issue.code, issue.path) == ("args.max_length", "/code")


def overspend(spent: threading.Event, other: threading.Thread) -> None:
    """Spend more than there is, and let another thread go on meanwhile."""
    with metered(Work(1)):
        assert not afford(10**6)
        assert not afford(0)
        spent.set()
        other.join()


def test_each_thread_counts_its_own_work() -> None:
    """Work that one thread spends is not taken from another's, nor outside of a judgement."""
    spent = threading.Event()
    seen: list[bool] = []

    def other() -> None:
        spent.wait(60)
        with metered(Work()):
            seen.append(afford(10**6))

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(Spent):
        overspend(spent, thread)

    assert seen == [True]
    assert afford(10**9)


def wide(fields: int, kind: str) -> tuple[dict[str, Any], Callable[[int], Any], str]:
    """Return a schema of many fields, and what makes a value whose field ``n`` is wrong."""
    names = [f"field{number}" for number in range(fields)]
    plain: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 99}
    defs = {"number": plain, "optional": {"anyOf": [plain, {"type": "null"}], "default": None}}
    number = {"$ref": "#/$defs/number"}
    schema: dict[str, Any] = {"$defs": defs}

    if kind == "members":
        schema |= {"properties": dict.fromkeys(names, number), "required": names}
        return schema, lambda wrong: dict.fromkeys(names, 1) | {names[wrong]: "x"}, "/field{}"

    if kind == "optional members":
        schema |= {"properties": {name: {"$ref": "#/$defs/optional"} for name in names}}
        return schema, lambda wrong: dict.fromkeys(names, 1) | {names[wrong]: -1}, "/field{}"

    if kind == "items":
        schema |= {"properties": {"a": {"prefixItems": [number] * fields}}}
        return (
            schema,
            lambda wrong: {"a": [100 if each == wrong else 1 for each in range(fields)]},
            "/a/{}",
        )

    groups = {
        f"group{start}": {
            "type": "object",
            "properties": dict.fromkeys(names[start : start + 16], number),
        }
        for start in range(0, fields, 16)
    }

    def made(wrong: int) -> Any:
        value: dict[str, Any] = {
            group: dict.fromkeys(inner["properties"], 1) for group, inner in groups.items()
        }
        value[f"group{wrong // 16 * 16}"][names[wrong]] = None
        return value

    return schema | {"properties": groups}, made, ""


@pytest.mark.parametrize("kind", ["members", "optional members", "items", "groups"])
@pytest.mark.parametrize("fields", [300, 2_000])
def test_one_wrong_value_in_a_wide_object_is_named_at_every_call(fields: int, kind: str) -> None:
    """One wrong value of up to 2,000 fields is named at the first call and at each later one, for
    the same work.
    """
    document, made, place = wide(fields, kind)
    schema = Schema.compile(document)

    for wrong in (0, fields // 2, fields - 1):
        seen = []
        for _ in range(3):
            work = Work()
            issues = schema.check(made(wrong), work=work)
            seen.append((work.taken, [(issue.code, issue.path) for issue in issues]))

        assert seen[0] == seen[1] == seen[2]
        ((code, path),) = seen[0][1]
        assert code in ("args.type", "args.minimum", "args.maximum")
        assert path == place.format(wrong) or (not place and path.endswith(f"/field{wrong}"))
        assert seen[0][0] <= Work().limit // 3


@given(st.sets(st.integers(0, 1_999), min_size=1, max_size=20))
def test_all_wrong_values_of_a_wide_object_are_named(wrong: set[int]) -> None:
    """Each of several wrong values of a wide object is named, in the order of the schema."""
    document, _, _ = WIDE
    names = list(document["properties"])
    value: Any = dict.fromkeys(names, 1) | {names[each]: 100 for each in wrong}
    issues = WIDE_SCHEMA.check(value)
    assert [issue.path for issue in issues] == [f"/field{each}" for each in sorted(wrong)]


WIDE = wide(2_000, "members")
WIDE_SCHEMA = Schema.compile(WIDE[0])
