"""What one provider does with each place of a schema, and its limits for a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from strictreply.schema._places import (
    KEYWORDS,
    UNIONS,
    SchemaDocument,
    SchemaPlace,
    is_idle,
    is_object,
    members_of,
    optional_of,
    places_of,
)
from strictreply.schema._providers import TABLE, CellCase, Column, Provider, Treatment
from strictreply.schema._vocabulary import Applies, as_list, children
from strictreply.values._issues import pointer
from strictreply.values._limits import JSONObject

_OUTLINES: Final = "vllm-project/vllm sampling_params.py@00388f6: outlines takes it"


@dataclass(frozen=True, slots=True)
class PlaceTreatment:
    """What a provider does with one keyword at one place of a schema."""

    keyword: str
    """The keyword, or a word in brackets for a trait of the schema."""
    path: str
    """JSON Pointer to the keyword, or else to the sub-schema."""
    treatment: Treatment
    """What the provider does with it."""
    source: str
    """The evidence."""
    place: SchemaPlace
    """The place itself."""


def survey(root: JSONObject, provider: Provider, *, is_tool: bool = True) -> list[PlaceTreatment]:
    """Return what a provider does with each keyword of a schema.

    ``root`` is plain JSON; ``is_tool`` says that it describes arguments, not an answer. A keyword
    that a provider does not read is one place, including everything below it.
    """
    document = SchemaDocument(root, is_tool)
    column = TABLE[provider]
    found = list(_walk(document, column))
    if column.taker is None:
        return found

    is_refused = any(each.treatment is Treatment.REFUSED for each in found)
    is_handed_on = column.is_handed_on is not None and column.is_handed_on(document)
    if not (is_refused or is_handed_on):
        return found

    taker = column.taker(document)
    if taker is not None:
        return survey(root, taker, is_tool=is_tool)

    return [
        PlaceTreatment(each.keyword, each.path, Treatment.UNKNOWN, _OUTLINES, each.place)
        for each in found
    ]


def case_of(column: Column, place: SchemaPlace) -> CellCase:
    """Return the case of a keyword at its place."""
    cell = column.cells.get(place.keyword, ())
    case = next((one for one in cell if one.when is None or one.when(place)), column.otherwise)
    return case if case.is_always or _is_read(column, place) else column.unread or case


def _is_read(column: Column, place: SchemaPlace) -> bool:
    if column.reads is None or place.keyword not in KEYWORDS:
        return True

    read = column.reads(place)
    return read is None or place.keyword in read


def _walk(document: SchemaDocument, column: Column) -> Iterator[PlaceTreatment]:
    pending: list[_Step] = [_Step(document.root, "", "", is_lost=False)]
    seen: set[int] = set()
    while pending:
        step = pending.pop()
        if isinstance(step.found, dict):
            if id(step.found) in seen:
                continue

            seen.add(id(step.found))

        yield from _treated(step, document, column)
        pending.extend(reversed(list(_below(step, document, column))))


@dataclass(frozen=True, slots=True)
class _Step:
    """A sub-schema that is still to be examined."""

    found: JSONObject | bool
    """The sub-schema."""
    path: str
    """Its JSON Pointer."""
    under: str
    """The keyword above it, or the keyword that refers to it."""
    is_lost: bool
    """Whether a keyword above it is not enforced, so that it is not, either."""


def _treated(step: _Step, document: SchemaDocument, column: Column) -> Iterator[PlaceTreatment]:
    for place in places_of(step.found, step.path, document, step.under):
        case = case_of(column, place)
        is_refused = case.treatment is Treatment.REFUSED
        if is_refused or not (step.is_lost or is_idle(place)):
            yield PlaceTreatment(place.keyword, place.pointer, case.treatment, case.source, place)


def _below(step: _Step, document: SchemaDocument, column: Column) -> Iterator[_Step]:
    if isinstance(step.found, bool):
        return

    for keyword, name, child, applies in children(step.found):
        steps = [keyword] if name is None else [keyword, name]
        path = pointer(step.path, *steps)
        if not isinstance(child, dict | bool):
            continue

        if applies is Applies.NOWHERE:
            if column.reads_definitions and keyword != "contentSchema":
                yield _Step(child, path, keyword, is_lost=False)

            continue

        place = SchemaPlace(keyword, step.found, step.path, document, step.under)
        case = case_of(column, place)
        is_refused = case.treatment is Treatment.REFUSED
        if _is_read(column, place) and (is_refused or not is_idle(place)):
            yield _Step(child, path, keyword, is_lost=step.is_lost or not case.reaches_below)

    yield from _referred(step, document, column)


def _referred(step: _Step, document: SchemaDocument, column: Column) -> Iterator[_Step]:
    place = SchemaPlace("$ref", step.found, step.path, document, step.under)
    if not isinstance(place.value, str) or not _is_read(column, place):
        return

    target = document.find(place.value)
    case = case_of(column, place)
    if isinstance(target, dict | bool) and case.treatment is not Treatment.REFUSED:
        path = unquote(place.value[1:])
        yield _Step(target, path, "$ref", is_lost=step.is_lost or not case.reaches_below)


def schemas_in(root: JSONObject) -> Iterator[tuple[JSONObject, str, int]]:
    """Yield each sub-schema that is an object, with its JSON Pointer and the objects above it."""
    pending: list[tuple[Any, str, int]] = [(root, "", 0)]
    while pending:
        schema, path, depth = pending.pop()
        if not isinstance(schema, dict):
            continue

        yield schema, path, depth
        below = depth + 1 if is_object(schema) else depth
        for keyword, name, child, _ in children(schema):
            steps = [keyword] if name is None else [keyword, name]
            pending.append((child, pointer(path, *steps), below))


Documents = Sequence[SchemaDocument]


def _all_schemas(documents: Documents) -> Iterator[JSONObject]:
    return (schema for each in documents for schema, _, _ in schemas_in(each.root))


def count_members(documents: Documents) -> int:
    """Count the members that all objects list."""
    return sum(len(members_of(schema)) for schema in _all_schemas(documents))


def count_optional(documents: Documents) -> int:
    """Count the optional members."""
    return sum(len(optional_of(schema)) for schema in _all_schemas(documents))


def count_unions(documents: Documents) -> int:
    """Count the schemas that allow several types, by ``anyOf`` or by a list of types."""
    return sum(
        any(keyword in schema for keyword in UNIONS) or isinstance(schema.get("type"), list)
        for schema in _all_schemas(documents)
    )


def count_levels(documents: Documents) -> int:
    """Count the levels of nested objects, without the outermost."""
    depths = (
        depth
        for each in documents
        for schema, _, depth in schemas_in(each.root)
        if is_object(schema)
    )
    return max(depths, default=0)


def _values(schema: JSONObject) -> list[Any]:
    return [*as_list(schema.get("enum", [])), *([schema["const"]] if "const" in schema else [])]


def count_enum_values(documents: Documents) -> int:
    """Count the values of ``enum``."""
    return sum(len(as_list(schema.get("enum", []))) for schema in _all_schemas(documents))


def count_long_enum_chars(documents: Documents) -> int:
    """Count the characters of the longest ``enum`` that has more than 250 texts."""
    long = (
        sum(len(value) for value in values if isinstance(value, str))
        for schema in _all_schemas(documents)
        if len(values := as_list(schema.get("enum", []))) > _MANY_VALUES
    )
    return max(long, default=0)


def count_name_chars(documents: Documents) -> int:
    """Count the characters of the names of members and definitions, and of the values."""
    names = (
        name
        for schema in _all_schemas(documents)
        for holder in ("properties", "$defs", "definitions")
        if isinstance(schema.get(holder), dict)
        for name in schema[holder]
    )
    values = (
        value
        for schema in _all_schemas(documents)
        for value in _values(schema)
        if isinstance(value, str)
    )
    return sum(map(len, names)) + sum(map(len, values))


def count_tools(documents: Documents) -> int:
    """Count the tools."""
    return sum(document.is_tool for document in documents)


_MANY_VALUES: Final = 250


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a provider, for one schema or for all schemas in a request."""

    noun: str
    """What is counted, in the plural."""
    most: int
    """The largest accepted number."""
    count: Callable[[Documents], int]
    """Counts it."""
    source: str
    """The evidence."""
    instead: str
    """What to write instead."""
    is_of_request: bool = False
    """Whether all schemas of a request count together."""


_OPENAI_SIZES: Final = "developers.openai.com/api/docs/guides/structured-outputs, limits"
_ANTHROPIC_SIZES: Final = (
    "platform.claude.com/docs, strict tool use, limits; elie222/inbox-zero#2662"
)
_SPLIT: Final = "split the tool into several, each with the members of one case"

LIMITS: Final[Mapping[Provider, tuple[Limit, ...]]] = {
    "openai": (
        Limit("properties", 5000, count_members, _OPENAI_SIZES, _SPLIT),
        Limit(
            "levels of nesting",
            10,
            count_levels,
            _OPENAI_SIZES,
            "lift inner objects up, or take them as items of a list with a key",
        ),
        Limit(
            "values of enum",
            1000,
            count_enum_values,
            _OPENAI_SIZES,
            "take a string, and check it with the tool's check=",
        ),
        Limit(
            "characters in an enum of more than 250 values",
            15_000,
            count_long_enum_chars,
            _OPENAI_SIZES,
            "take a string, and check it with the tool's check=",
        ),
        Limit(
            "characters of names and values",
            120_000,
            count_name_chars,
            _OPENAI_SIZES,
            "shorten the names, or take a string in the place of a long enum",
        ),
        Limit(
            "tools",
            128,
            count_tools,
            "400: array too long, maximum length 128",
            "offer the tools of one task at a time",
            is_of_request=True,
        ),
    ),
    "anthropic": (
        Limit(
            "strict tools",
            20,
            count_tools,
            f"{_ANTHROPIC_SIZES}; langchain4j/langchain4j#5128",
            "declare strict=True for the tools alone whose arguments matter most",
            is_of_request=True,
        ),
        Limit(
            "optional members",
            24,
            count_optional,
            _ANTHROPIC_SIZES,
            "require the members, and allow null for optional ones",
            is_of_request=True,
        ),
        Limit(
            "members of several types",
            16,
            count_unions,
            f"{_ANTHROPIC_SIZES}; mozilla/bugbug#6129",
            "give each member one type",
            is_of_request=True,
        ),
    ),
}
"""The known limits of each provider."""


@dataclass(frozen=True, slots=True)
class NameRule:
    """The rule of a provider for names of tools."""

    allowed: re.Pattern[str]
    """The pattern of the whole name."""
    words: str
    """The same in words."""
    source: str
    """The evidence."""


_LETTERS: Final = "letters of ASCII, digits, _ and -"
NAMES: Final[Mapping[Provider, NameRule]] = {
    "openai": NameRule(
        re.compile(r"[a-zA-Z0-9_-]{1,64}"),
        f"1 to 64 {_LETTERS}",
        "openai 3.57.0 types/shared_params/function_definition.py",
    ),
    "anthropic": NameRule(
        re.compile(r"[a-zA-Z0-9_-]{1,128}"),
        f"1 to 128 {_LETTERS}",
        "400: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
    ),
    "gemini": NameRule(
        re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"),
        "a letter or _, then letters of ASCII, digits, _ . : and -, 128 at most",
        "google-genai 3.6.1 types.py, FunctionDeclaration.name",
    ),
    "bedrock": NameRule(
        re.compile(r"[a-zA-Z0-9_-]{1,64}"),
        f"1 to 64 {_LETTERS}",
        "botocore 1.44.8 bedrock-runtime, ToolName",
    ),
}
"""The known rules for names of each provider."""
