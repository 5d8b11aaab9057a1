"""What the table says of a provider is what the provider does: asked here, or recorded.

llguidance and the transforms of the two SDKs run here. The converter of llama.cpp and the checks of
vLLM with xgrammar are not to be had as wheels that a lane could install; what they did with the
same schemas is in ``support/schemas/recorded.json``.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from strictreply.schema import _places as at
from strictreply.schema._providers import Provider, Treatment
from strictreply.schema._survey import PlaceTreatment, survey
from strictreply.values._issues import NOWHERE, pointer_tokens, value_at
from support.schemas import rows
from support.schemas.rows import Sample, joined, samples
from support.shared_data import SHARED, needs_shared

# the table is of the newest SDKs: on the lane of an older one nothing of this holds
pytestmark = pytest.mark.one_lane

RECORDED: dict[str, Any] = json.loads(
    Path(rows.__file__).with_name("recorded.json").read_text("utf-8")
)
LEAST_SAID = 0.95
SAMPLES = tuple(samples())
TAKES_EXACTLY = {Treatment.ENFORCED}


def name_of(sample: Sample) -> str:
    """Return the name of a sample in the record."""
    return f"{sample.row} {sample.number}"


@cache
def treatments(number: int, provider: Provider) -> frozenset[Treatment]:
    """Return what a provider does with the places of a sample."""
    return frozenset(one.treatment for one in survey(SAMPLES[number].schema, provider))


def said_to_refuse(provider: Provider) -> set[str]:
    """Return the samples of which the table says that a provider refuses them."""
    return {
        name_of(sample)
        for number, sample in enumerate(SAMPLES)
        if Treatment.REFUSED in treatments(number, provider)
    }


def said_to_enforce(provider: Provider) -> set[str]:
    """Return the samples of which the table says that a provider enforces all of them."""
    return {
        name_of(sample)
        for number, sample in enumerate(SAMPLES)
        if treatments(number, provider) <= TAKES_EXACTLY
    }


def hold_to(provider: Provider, refused: set[str]) -> None:
    """Hold what the table says of a provider to what it refuses in truth."""
    said = said_to_refuse(provider)
    assert said - refused == set()
    assert refused
    assert len(said & refused) >= LEAST_SAID * len(refused)


@cache
def guidance() -> Any:
    """Return the library llguidance, or skip."""
    return pytest.importorskip("llguidance", reason="llguidance is not in this environment")


def grammar_of(schema: dict[str, Any]) -> str | None:
    """Return what llguidance makes of a schema, None for one that it refuses."""
    library = guidance()
    grammar: str = library.LLMatcher.grammar_from_json_schema(json.dumps(schema))
    return None if library.LLMatcher.validate_grammar(grammar) else grammar


def takes(grammar: str, value: Any) -> bool:
    """Return whether llguidance lets a value through."""
    library = guidance()
    tokenizer = library.LLTokenizer("byte")
    matcher = library.LLMatcher(tokenizer, grammar, log_level=0)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    tokens = tokenizer.tokenize_str(text)
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


def test_llguidance_refuses_what_is_said() -> None:
    """No schema is said to be refused that llguidance takes, and nearly all that it refuses are."""
    hold_to("llguidance", {name_of(one) for one in SAMPLES if grammar_of(one.schema) is None})


def test_llguidance_refuses_what_is_said_of_several_rows() -> None:
    """The same holds where the members of one object are of several rows."""
    schemas = list(joined())
    refused = [schema for schema in schemas if grammar_of(schema) is None]
    said = [
        schema
        for schema in schemas
        if any(one.treatment is Treatment.REFUSED for one in survey(schema, "llguidance"))
    ]
    assert len(refused) > len(schemas) // 4
    assert [schema for schema in said if schema not in refused] == []
    assert len(said) >= LEAST_SAID * len(refused)


def test_llguidance_enforces_what_is_said() -> None:
    """Of a schema all of which is said to be enforced no wrong value comes through, and each right
    one does.
    """
    enforced = said_to_enforce("llguidance")
    tried = 0
    for sample in SAMPLES:
        if name_of(sample) not in enforced:
            continue

        grammar = grammar_of(sample.schema)
        assert grammar is not None
        tried += len(sample.bad)
        assert [value for value in sample.bad if takes(grammar, value)] == []
        assert [value for value in sample.good if not takes(grammar, value)] == []

    assert tried > len(SAMPLES) // 3


def test_the_record_is_of_these_schemas() -> None:
    """What is recorded was recorded with the schemas that the generator makes."""
    written = json.dumps([sample.schema for sample in SAMPLES])
    assert hashlib.sha256(written.encode()).hexdigest() == RECORDED["samples"]


@pytest.mark.parametrize("provider", ["llamacpp", "vllm"])
def test_a_recorded_provider_refuses_what_is_said(provider: Provider) -> None:
    """No schema is said to be refused that the provider took; nearly all that it refused are."""
    hold_to(provider, set(RECORDED[provider]["refused"]))


@pytest.mark.parametrize("provider", ["llamacpp", "vllm"])
def test_a_recorded_provider_enforces_what_is_said(provider: Provider) -> None:
    """Of what is said to be enforced it let nothing wrong through, and forbade nothing."""
    enforced = said_to_enforce(provider)
    assert len(enforced) > len(SAMPLES) // 3
    assert enforced & set(RECORDED[provider]["lets_through"]) == set()
    assert enforced & set(RECORDED[provider]["forbids"]) == set()


def raised_by(transform: Any, schema: dict[str, Any]) -> tuple[Any, Exception | None]:
    """Return what a transform makes of a schema, and what it raised instead."""
    try:
        return transform(copy.deepcopy(schema)), None
    except (TypeError, ValueError, AssertionError) as error:
        return None, error


@cache
def by_anthropic() -> tuple[tuple[Sample, Any, Exception | None], ...]:
    """Return what the SDK of Anthropic makes of each sample."""
    library = pytest.importorskip(
        "anthropic.lib._parse._transform", reason="anthropic is not in this environment"
    )
    made = ((one, raised_by(library.transform_schema, one.schema)) for one in SAMPLES)
    # it ends in an assertion at a list of types, which the API itself takes
    return tuple(
        (sample, result, error)
        for sample, (result, error) in made
        if not isinstance(error, AssertionError)
    )


def of_sdk(schema: dict[str, Any]) -> list[PlaceTreatment]:
    """Return what the SDK itself, and not the API, refuses of a schema."""
    found = survey(schema, "anthropic")
    refused = [one for one in found if one.treatment is Treatment.REFUSED]
    return [one for one in refused if "_transform.py" in one.source]


def test_anthropics_sdk_refuses_what_is_said() -> None:
    """Its transform raises where that is said, and nowhere else."""
    tried = by_anthropic()
    raised = {name_of(sample) for sample, _, error in tried if error is not None}
    assert raised
    assert {name_of(sample) for sample, _, _ in tried if of_sdk(sample.schema)} == raised


def at_place(transformed: Any, place: PlaceTreatment) -> Any:
    """Return what stands at a place of a schema after the SDK's transform."""
    tokens = pointer_tokens(place.path)
    return value_at(transformed, ["anyOf" if token == "oneOf" else token for token in tokens])


def is_kept(place: PlaceTreatment, transformed: Any) -> bool:
    """Return whether a keyword is still in the schema; a type that others say need not be."""
    asked = (at.types_are_said_by_values, at.types_are_said_by_forms)
    is_said = place.keyword == "type" and any(ask(place.place) for ask in asked)
    return is_said or at_place(transformed, place) is not NOWHERE


def test_anthropics_sdk_describes_what_is_said() -> None:
    """What is said to be described is gone from the schema; what is enforced is kept in it."""
    counts = {Treatment.DESCRIBED: 0, Treatment.ENFORCED: 0}
    for sample, transformed, error in by_anthropic():
        if error is not None:
            continue

        found = [one for one in survey(sample.schema, "anthropic") if one.keyword in at.KEYWORDS]
        for one in found:
            if one.treatment in counts:
                counts[one.treatment] += 1
                assert is_kept(one, transformed) is (one.treatment is Treatment.ENFORCED), one

    assert min(counts.values()) > len(SAMPLES) // 3


def below_refused(found: Iterable[PlaceTreatment], path: str) -> bool:
    """Return whether a place stands below a keyword that is refused itself."""
    return any(
        path.startswith(f"{one.path}/")
        for one in found
        if one.treatment is Treatment.REFUSED and one.keyword in at.KEYWORDS
    )


def test_openais_sdk_mends_what_is_said() -> None:
    """After its strict transform no object is open and no member optional, and no reference has
    siblings, but below what it does not look into and the API refuses.
    """
    library = pytest.importorskip("openai.lib._pydantic")
    mended = {at.OPEN, at.OPTIONAL, "$ref"}
    before = after = 0
    for sample in SAMPLES:
        before += sum(one.keyword in mended for one in survey(sample.schema, "openai"))
        schema = copy.deepcopy(sample.schema)
        try:
            library._ensure_strict_json_schema(schema, path=(), root=schema)
        except TypeError:  # it takes no schema that is true or false
            continue

        found = survey(schema, "openai")
        left = [
            one
            for one in found
            if one.treatment is Treatment.REFUSED
            and one.keyword in mended
            and not below_refused(found, one.path)
            and not at.leads_beyond_definitions(one.place.beside("$ref"))
        ]
        after += 1
        assert [one for one in left if one.keyword != at.OPEN or "type" in one.place.schema] == []

    assert before > len(SAMPLES) // 3
    assert after > len(SAMPLES) // 2


SUITES = ("draft2020-12", "draft7")


def suite_schemas() -> list[dict[str, Any]]:
    """Return the schemas of the public test suite, and of the tools of a public server."""
    found: list[dict[str, Any]] = []
    for draft in SUITES:
        folder = SHARED / "suites" / "JSON-Schema-Test-Suite" / "tests" / draft
        for path in sorted(folder.glob("*.json")):
            groups: list[Any] = json.loads(path.read_text("utf-8"))
            found += [group["schema"] for group in groups if isinstance(group["schema"], dict)]

    for path in sorted((SHARED / "apps" / "inputs" / "github_mcp_tools").glob("*.json")):
        found.append(json.loads(path.read_text("utf-8")).get("inputSchema", {}))

    return found


@needs_shared
def test_llguidance_takes_what_is_not_said_to_be_refused() -> None:
    """Of the public suite's schemas, strange as they are, none is said to be refused that
    llguidance takes.
    """
    schemas = suite_schemas()
    assert len(schemas) > 500
    taken = [schema for schema in schemas if grammar_of(schema) is not None]
    assert len(taken) > len(schemas) // 3
    refused = [
        schema
        for schema in taken
        if any(one.treatment is Treatment.REFUSED for one in survey(schema, "llguidance"))
    ]
    assert refused == []
