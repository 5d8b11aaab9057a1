"""The table of providers: its form, and what it says of single schemas."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from strictreply.contract._findings import INSTEAD, TRAIT_WORDS
from strictreply.schema import _places as at
from strictreply.schema._places import SchemaDocument
from strictreply.schema._providers import PROVIDERS, TABLE, CellCase, Provider, Treatment
from strictreply.schema._survey import LIMITS, NAMES, Limit, PlaceTreatment, survey
from support.schemas.rows import PER_ROW, ROWS, closed, samples

TRAITS = (at.ROOT, at.OPEN, at.OPTIONAL, at.UNTYPED, at.BOOLEAN, at.BARE_OBJECT, at.BARE_ARRAY)
CELLS = [
    (provider, keyword, cell)
    for provider, column in TABLE.items()
    for keyword, cell in column.cells.items()
]


def treated(schema: dict[str, Any], provider: Provider, keyword: str) -> list[Treatment]:
    """Return what a provider does with a keyword, wherever it stands in a schema."""
    return [one.treatment for one in survey(schema, provider) if one.keyword == keyword]


def with_member(member: dict[str, Any]) -> dict[str, Any]:
    """Return an object whose one member has a schema."""
    return closed({"a": member})


def test_the_table_has_a_column_for_each_provider() -> None:
    """Each provider that can be named has a column, and no other has."""
    assert tuple(TABLE) == PROVIDERS


@pytest.mark.parametrize(("provider", "keyword", "cell"), CELLS)
def test_each_cell_ends_without_a_condition(
    provider: Provider, keyword: str, cell: tuple[CellCase, ...]
) -> None:
    """The last case of a cell holds always, and those before it under a condition."""
    assert [case.when is None for case in cell] == [False] * (len(cell) - 1) + [True]


@pytest.mark.parametrize(("provider", "keyword", "cell"), CELLS)
def test_each_case_names_its_source(
    provider: Provider, keyword: str, cell: tuple[CellCase, ...]
) -> None:
    """Where a case is known from is said; the keyword is one, or a trait of a schema."""
    assert all(case.source.strip() for case in cell)
    assert keyword in at.KEYWORDS or keyword in TRAITS


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_has_no_cell_is_never_refused(provider: Provider) -> None:
    """A keyword that the table does not have for a provider is not said to be refused."""
    column = TABLE[provider]
    unread = [] if column.unread is None else [column.unread]
    assert Treatment.REFUSED not in [case.treatment for case in (column.otherwise, *unread)]


@pytest.mark.parametrize("keyword", sorted(at.KEYWORDS) + list(TRAITS))
def test_each_keyword_has_words_for_what_to_write(keyword: str) -> None:
    """For each keyword and each trait there is a sentence on what to write instead."""
    assert INSTEAD[keyword]
    assert (keyword in TRAIT_WORDS) == (keyword in TRAITS)


def test_there_are_enough_schemas_of_each_row() -> None:
    """The generator makes the same schemas again, at least 25 for a row, over 500 in all."""
    made = list(samples())
    assert made == list(samples())
    assert len(made) == PER_ROW * len(ROWS)
    assert PER_ROW >= 25
    assert len(made) > 500


@pytest.mark.parametrize(
    ("provider", "keyword", "member", "treatment"),
    [
        ("openai", "minLength", {"type": "string", "minLength": 2}, Treatment.REFUSED),
        ("openai", "minimum", {"type": "integer", "minimum": 2}, Treatment.ENFORCED),
        ("openai", "format", {"type": "string", "format": "uri"}, Treatment.REFUSED),
        ("openai", "format", {"type": "string", "format": "date"}, Treatment.ENFORCED),
        ("openai", "pattern", {"type": "string", "pattern": "^(?=a)b"}, Treatment.UNKNOWN),
        ("anthropic", "minItems", {"type": "array", "minItems": 1}, Treatment.ENFORCED),
        ("anthropic", "minItems", {"type": "array", "minItems": 2}, Treatment.DESCRIBED),
        ("anthropic", "maximum", {"type": "integer", "maximum": 2}, Treatment.DESCRIBED),
        ("gemini", "pattern", {"type": "string", "pattern": "^a$"}, Treatment.DROPPED),
        ("gemini", "minimum", {"type": "integer", "minimum": 2}, Treatment.UNKNOWN),
        ("vllm", "pattern", {"type": "string", "pattern": "a"}, Treatment.NARROWED),
        ("vllm", "pattern", {"type": "string", "pattern": "^a$"}, Treatment.ENFORCED),
        ("llamacpp", "pattern", {"type": "string", "pattern": "a"}, Treatment.DROPPED),
        ("llamacpp", "minimum", {"type": "number", "minimum": 2}, Treatment.DROPPED),
        ("llamacpp", "minimum", {"type": "integer", "minimum": 2}, Treatment.ENFORCED),
        ("llguidance", "uniqueItems", {"type": "array", "uniqueItems": True}, Treatment.REFUSED),
        ("llguidance", "not", {"not": {"type": "null"}}, Treatment.REFUSED),
        ("bedrock", "minimum", {"type": "integer", "minimum": 2}, Treatment.UNKNOWN),
        ("mistral", "oneOf", {"oneOf": [{"type": "null"}]}, Treatment.UNKNOWN),
    ],
)
def test_a_keyword_is_treated(
    provider: Provider, keyword: str, member: dict[str, Any], treatment: Treatment
) -> None:
    """The cell of a keyword depends on what it says and on what stands beside it."""
    assert treated(with_member(member), provider, keyword) == [treatment]


def test_vllm_hands_on_what_xgrammar_refuses() -> None:
    """A schema that vLLM's check refuses for xgrammar is treated as guidance treats it, whole."""
    step = {"type": "integer", "multipleOf": 5}
    assert treated(with_member(step), "vllm", "multipleOf") == [Treatment.ENFORCED]

    loose = {"type": "string", "pattern": "a"}
    both = closed({"a": step, "b": loose})
    assert treated(with_member(loose), "vllm", "pattern") == [Treatment.NARROWED]
    assert treated(both, "vllm", "pattern") == [Treatment.ENFORCED]


def test_vllm_hands_patterns_of_members_to_somebody_unknown() -> None:
    """What outlines makes of a schema is not known: nothing of it is said to be refused."""
    schema = closed({"a": {"type": "string"}}, patternProperties={"^x$": {"type": "string"}})
    assert {one.treatment for one in survey(schema, "vllm")} == {Treatment.UNKNOWN}


def test_what_is_not_read_is_one_place() -> None:
    """Below a keyword that is not read nothing is reported: it stands for all of that."""
    schema = with_member({"type": "array", "contains": {"type": "string", "minLength": 3}})
    found = [one for one in survey(schema, "gemini") if "contains" in one.path]
    assert [(one.keyword, one.treatment) for one in found] == [("contains", Treatment.DROPPED)]


def test_definitions_count_where_they_are_used() -> None:
    """A server reads the definitions that something refers to; OpenAI's API reads them all."""
    schema = with_member({"type": "string"}) | {"$defs": {"Unused": {"not": {"type": "null"}}}}
    assert treated(schema, "llguidance", "not") == []
    assert treated(schema, "openai", "not") == [Treatment.REFUSED]

    used = with_member({"$ref": "#/$defs/Used"}) | {"$defs": {"Used": {"not": {"type": "null"}}}}
    assert treated(used, "llguidance", "not") == [Treatment.REFUSED]


def test_a_recursive_schema_ends() -> None:
    """A definition that refers to itself is walked once, and Anthropic refuses it."""
    tree = closed({"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}})
    schema = with_member({"$ref": "#/$defs/Tree"}) | {"$defs": {"Tree": tree}}
    assert treated(schema, "llguidance", "$ref") == [Treatment.ENFORCED] * 2
    assert treated(schema, "anthropic", "$ref") == [Treatment.REFUSED] * 2


def test_a_place_is_found_by_its_pointer() -> None:
    """The pointer of a place leads to the keyword, and of a trait to its schema."""
    schema = closed({"a/b": {"type": "string", "minLength": 2}}, [])
    found = {one.keyword: one.path for one in survey(schema, "openai")}
    assert found["minLength"] == "/properties/a~1b/minLength"
    assert found[at.OPTIONAL] == ""


def test_the_arguments_of_a_tool_and_an_answer_differ() -> None:
    """Anthropic refuses arguments that are a union at the root; of an answer that is not known."""

    def at_root(*, is_tool: bool) -> list[PlaceTreatment]:
        found = survey({"anyOf": [closed({})]}, "anthropic", is_tool=is_tool)
        return [one for one in found if one.keyword == at.ROOT]

    assert [one.treatment for one in at_root(is_tool=True)] == [Treatment.REFUSED]
    assert [one.treatment for one in at_root(is_tool=False)] == [Treatment.UNKNOWN]


JUNK: list[Any] = [
    None,
    True,
    -1,
    1.5,
    "x",
    "#/$defs/One",
    [],
    {},
    ["a"],
    [{}],
    {"a": 1},
    {"^a": {}},
]


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the steps to each value inside of another."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for step, member in members:
        yield (*path, step)
        if isinstance(member, dict | list):
            yield from places_in(member, (*path, step))


def spoiled(schema: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """Return a schema with something in it that does not belong there."""
    changed = copy.deepcopy(schema)
    *above, last = draw.choice(list(places_in(changed)))
    holder: Any = changed
    for step in above:
        holder = holder[step]

    holder[last] = copy.deepcopy(draw.choice(JUNK))
    if isinstance(holder, dict):
        holder[draw.choice(sorted(at.KEYWORDS))] = copy.deepcopy(draw.choice(JUNK))

    return changed


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_schema_is_too_strange(provider: Provider) -> None:
    """Whatever stands in the place of a keyword's value, something is said and nothing raised."""
    draw = random.Random(7)
    tried = [spoiled(sample.schema, draw) for sample in samples()]
    assert len(tried) == PER_ROW * len(ROWS)
    assert [schema for schema in tried if not survey(schema, provider)] == []


LIMIT_CASES = [
    ("openai", "properties", closed({f"m{n}": {} for n in range(3)}), 3),
    ("openai", "levels of nesting", with_member(with_member(with_member({}))), 2),
    ("openai", "values of enum", with_member({"enum": ["a", "b"]}), 2),
    ("openai", "characters of names and values", with_member({"enum": ["bb", "ccc"]}), 6),
    (
        "openai",
        "characters in an enum of more than 250 values",
        with_member({"enum": ["x" * 3] * 251}),
        753,
    ),
    ("openai", "tools", with_member({}), 1),
    ("anthropic", "strict tools", with_member({}), 1),
    ("anthropic", "optional members", closed({"a": {}, "b": {}}, ["a"]), 1),
    ("anthropic", "members of several types", closed({"a": {"type": ["null"]}}), 1),
]


@pytest.mark.parametrize(("provider", "noun", "schema", "count"), LIMIT_CASES)
def test_a_limit_counts(provider: Provider, noun: str, schema: dict[str, Any], count: int) -> None:
    """What a limit counts of a schema."""
    limits: list[Limit] = [limit for limit in LIMITS[provider] if limit.noun == noun]
    assert [limit.count([SchemaDocument(schema)]) for limit in limits] == [count]


def test_each_limit_is_counted() -> None:
    """Each limit of the table is one of the cases above."""
    told = {(provider, limit.noun) for provider, limits in LIMITS.items() for limit in limits}
    assert told == {(provider, noun) for provider, noun, _, _ in LIMIT_CASES}


@pytest.mark.parametrize(
    ("provider", "name", "is_taken"),
    [
        ("openai", "get_weather-2", True),
        ("openai", "get.weather", False),
        ("openai", "x" * 65, False),
        ("anthropic", "x" * 65, True),
        ("anthropic", "x" * 129, False),
        ("gemini", "get.weather", True),
        ("gemini", "2nd", False),
        ("bedrock", "get/weather", False),
    ],
)
def test_a_name_is_taken(provider: Provider, name: str, is_taken: bool) -> None:
    """Which names of tools a provider takes."""
    assert bool(NAMES[provider].allowed.fullmatch(name)) is is_taken
