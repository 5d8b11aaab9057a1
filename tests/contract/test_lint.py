"""``lint``: what it finds in the schemas of a program, and what it says to write instead."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import strictreply as sr
from strictreply import Finding, FindingCode, LintReport, Severity
from strictreply.schema._providers import PROVIDERS, Provider
from support.schemas.rows import closed

Schema = dict[str, Any]


class Refund(BaseModel):
    """Refund an order."""

    order: Annotated[int, Field(gt=0, description="Its number.")]
    reason: Annotated[Literal["late", "broken"], Field(description="Why.")]


def tool(name: str, schema: Schema, description: str = "It does something.") -> sr.Tool:
    """Declare a tool whose schema is sent as it is written."""
    return sr.Tool.from_json_schema(name, schema, description, extra="schema")


def text(**more: Any) -> Schema:
    """Write the schema of a text that has a description."""
    return {"type": "string", "description": "A text.", **more}


def found(report: LintReport, code: FindingCode) -> list[Finding]:
    """Return the findings that have a code."""
    return [finding for finding in report.findings if finding.code is code]


def of_tool(schema: Schema, code: FindingCode, *providers: Provider) -> list[Finding]:
    """Return what is found in a tool of one schema."""
    return found(sr.lint([tool("t", schema)], providers=providers), code)


def test_what_a_provider_refuses_is_an_error() -> None:
    """A refused keyword names its provider, tool and place, where it is known from, and what to
    write instead; the report is not ok.
    """
    report = sr.lint([tool("t", closed({"a": text(minLength=2)}))], providers=["openai"])
    [finding] = found(report, FindingCode.REFUSED)
    told = (finding.severity, finding.provider, finding.tool, finding.is_answer, finding.path)
    assert told == (Severity.ERROR, "openai", "t", False, "/properties/a/minLength")
    assert finding.instead
    assert finding.source
    assert not report.ok


@pytest.mark.parametrize(
    ("provider", "member", "code", "severity"),
    [
        ("llamacpp", text(format="email"), FindingCode.DROPPED, Severity.NOTE),
        ("vllm", text(pattern="[0-9]"), FindingCode.NARROWED, Severity.WARNING),
        ("anthropic", text(maxLength=9), FindingCode.DESCRIBED, Severity.NOTE),
    ],
)
def test_what_is_not_refused_is_no_error(
    provider: Provider, member: Schema, code: FindingCode, severity: Severity
) -> None:
    """What is dropped, narrowed or described is reported at its place, and the report is ok."""
    report = sr.lint([tool("t", closed({"a": member}))], providers=[provider])
    keyword = list(member)[-1]
    told = [(one.severity, one.provider, one.path) for one in found(report, code)]
    assert told == [(severity, provider, f"/properties/a/{keyword}")]
    assert report.ok


def test_what_is_not_known_is_not_reported() -> None:
    """A provider of which nothing is known has neither errors nor warnings."""
    report = sr.lint([tool("t", closed({"a": text(minLength=2)}))], providers=["mistral"])
    assert {finding.severity for finding in report.findings} == {Severity.NOTE}


def test_what_is_enforced_is_summed_up() -> None:
    """For each provider there is one sum over all schemas."""
    report = sr.lint([Refund], answer=Refund, providers=["openai", "gemini"])
    told = [(one.provider, one.tool, one.is_answer) for one in found(report, FindingCode.ENFORCED)]
    assert told == [("openai", None, False), ("gemini", None, False)]


def test_a_good_schema_has_no_errors_for_openai() -> None:
    """A closed model all of whose members are required is wholly enforced."""
    report = sr.lint([Refund], providers=["openai"])
    assert report.ok
    assert {one.code for one in report.findings} == {FindingCode.SIZE, FindingCode.ENFORCED}


def test_the_answer_is_looked_at_too() -> None:
    """A finding of an answer has no tool."""
    report = sr.lint(answer=list[str], providers=["openai"])
    [finding] = found(report, FindingCode.REFUSED)
    assert (finding.tool, finding.is_answer, finding.path) == (None, True, "")


def test_the_size_of_all_schemas_is_told() -> None:
    """What schemas cost in each request is one note; without schemas there is none."""
    report = sr.lint([Refund, tool("t", closed({}))], answer=Refund)
    [size] = found(report, FindingCode.SIZE)
    assert (size.tool, size.is_answer, size.severity) == (None, False, Severity.NOTE)


def test_names_that_are_much_alike_are_found() -> None:
    """Of two tools whose names differ in a letter or a hyphen the first is reported."""
    tools = [tool(name, closed({})) for name in ("get_user", "get-users", "delete_order")]
    similar = found(sr.lint(tools), FindingCode.SIMILAR_NAMES)
    assert [one.tool for one in similar] == ["get_user"]


def test_tools_that_require_the_same_are_found() -> None:
    """Tools with one required set are reported once, two that require nothing are not."""
    same = [tool(name, closed({"id": text()})) for name in ("cancel", "ship", "refund")]
    none = [tool(name, closed({"id": text()}, [])) for name in ("search", "list_all")]
    shared = found(sr.lint([*same, *none]), FindingCode.SAME_REQUIRED)
    assert [one.tool for one in shared] == ["cancel"]


def test_missing_descriptions_are_found() -> None:
    """A tool without words is a warning, members without words are one note."""
    bare = tool("t", closed({"a": {"type": "string"}, "b": text()}), description="")
    told = [(one.severity, one.path) for one in found(sr.lint([bare]), FindingCode.NO_DESCRIPTION)]
    assert told == [(Severity.WARNING, ""), (Severity.NOTE, "/properties")]


def test_a_described_definition_counts() -> None:
    """A member that refers to a schema with words has them."""
    schema = closed({"a": {"$ref": "#/$defs/A"}}) | {"$defs": {"A": text()}}
    assert of_tool(schema, FindingCode.NO_DESCRIPTION) == []


def test_a_root_that_says_no_type_is_found() -> None:
    """APIs refuse a root without a type, or one without properties."""
    untyped = {"properties": {"a": text()}}
    assert [one.path for one in of_tool(untyped, FindingCode.ROOT_NOT_OBJECT)] == [""]
    bare = {"type": "object"}
    assert [one.path for one in of_tool(bare, FindingCode.ROOT_WITHOUT_PROPERTIES)] == [""]
    assert of_tool(closed({}), FindingCode.ROOT_WITHOUT_PROPERTIES) == []


def test_open_objects_are_found() -> None:
    """An object that may have any other members is reported, one that says which is not."""
    inner = {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}
    schema = closed({"a": {"type": "object", "additionalProperties": True}, "b": inner})
    assert [one.path for one in of_tool(schema, FindingCode.OPEN_OBJECT)] == ["/properties/a"]


def test_ambiguous_unions_are_found() -> None:
    """Two forms that one value fits are reported, two that a tag tells apart are not."""
    loose = {"anyOf": [closed({"a": text()}), closed({"a": text(), "b": text()}, ["a"])]}
    tagged = {
        "anyOf": [closed({"kind": {"const": word}, "a": text()}) for word in ("one", "other")]
    }
    schema = closed({"loose": loose, "tagged": tagged, "plain": {"type": ["string", "null"]}})
    paths = [one.path for one in of_tool(schema, FindingCode.AMBIGUOUS_UNION)]
    assert paths == ["/properties/loose/anyOf"]


def test_a_union_of_very_many_forms_is_not_compared() -> None:
    """Beyond 64 forms nothing is said of a union, and nothing is worked out."""
    forms = [closed({"a": text(), f"b{number}": text()}, ["a"]) for number in range(65)]
    assert of_tool(closed({"u": {"anyOf": forms}}), FindingCode.AMBIGUOUS_UNION) == []
    assert len(of_tool(closed({"u": {"anyOf": forms[:2]}}), FindingCode.AMBIGUOUS_UNION)) == 1


def test_exact_unions_of_plain_values_are_looked_at() -> None:
    """Of ``oneOf`` also numbers are reported that fit two forms."""
    schema = closed({"a": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}, [])
    with pytest.warns(sr.ContractWarning):
        paths = [one.path for one in of_tool(schema, FindingCode.AMBIGUOUS_UNION)]

    assert paths == ["/properties/a/oneOf"]


def test_a_tag_that_may_be_left_out_is_found() -> None:
    """The tag of a discriminated union must be required in each form."""
    forms = [
        closed({"kind": {"const": word}}, required) for word, required in (("a", []), ("b", None))
    ]
    schema = closed({"pet": {"oneOf": forms, "discriminator": {"propertyName": "kind"}}})
    paths = [one.path for one in of_tool(schema, FindingCode.OPTIONAL_TAG)]
    assert paths == ["/properties/pet/oneOf/0"]


def test_names_that_a_provider_refuses_are_found() -> None:
    """A name with a dot is an error for OpenAI, and none for Gemini."""
    refused = found(
        sr.lint([tool("get.user", closed({}))], providers=["openai", "gemini"]),
        FindingCode.NAME_REFUSED,
    )
    assert [(one.provider, one.tool, one.severity) for one in refused] == [
        ("openai", "get.user", Severity.ERROR)
    ]


def test_limits_of_a_request_count_all_tools() -> None:
    """Optional members of all tools count together for Anthropic, and are one finding."""
    members = {f"m{number}": text() for number in range(13)}
    tools = [tool(name, closed(members, [])) for name in ("search", "order")]
    over = found(sr.lint(tools, providers=["anthropic"]), FindingCode.OVER_LIMIT)
    assert [(one.provider, one.tool, one.severity) for one in over] == [
        ("anthropic", None, Severity.ERROR)
    ]
    assert found(sr.lint(tools[:1], providers=["anthropic"]), FindingCode.OVER_LIMIT) == []


def test_limits_of_a_schema_count_each_alone() -> None:
    """A schema that is too deep is an error of its own tool."""
    schema = closed({"a": text()})
    for _ in range(11):
        schema = closed({"a": schema})

    over = found(
        sr.lint([tool("deep", schema), Refund], providers=["openai"]), FindingCode.OVER_LIMIT
    )
    assert [one.tool for one in over] == ["deep"]


def test_all_providers_are_reported_by_default() -> None:
    """Without ``providers`` every column of the table is looked at."""
    report = sr.lint([Refund])
    assert report.providers == PROVIDERS
    assert {one.provider for one in found(report, FindingCode.ENFORCED)} == set(PROVIDERS)


def test_the_most_severe_come_first() -> None:
    """Errors stand before warnings, and these before notes."""
    report = sr.lint([tool("t", {"properties": {"a": text(minLength=2)}}), Refund])
    order = [list(Severity).index(finding.severity) for finding in report.findings]
    assert order == sorted(order)
    assert len(set(order)) == len(Severity)


def test_every_finding_says_what_to_write() -> None:
    """Of findings of all kinds none is without words for what is so and what to write."""
    report = sr.lint([tool("get.user", {"properties": {"a": {"minLength": 2}}}, "")])
    assert len(report.findings) > len(PROVIDERS)
    assert all(finding.message and finding.instead for finding in report.findings)


def test_a_report_is_json() -> None:
    """``to_dict`` is plain JSON of all findings."""
    report = sr.lint([tool("t", closed({"a": text(minLength=2)}))], providers=["openai"])
    told = json.loads(json.dumps(report.to_dict()))
    assert (told["ok"], told["providers"]) == (False, ["openai"])
    assert [one["code"] for one in told["findings"]] == [one.code.value for one in report.findings]
    assert set(told["findings"][0]) == {
        "code",
        "severity",
        "message",
        "instead",
        "provider",
        "tool",
        "is_answer",
        "path",
        "source",
    }


def test_a_report_is_a_table() -> None:
    """``str`` has two lines for each finding and one that counts them."""
    report = sr.lint([tool("t", closed({"a": text(minLength=2)}))], providers=["openai"])
    lines = str(report).splitlines()
    assert len(lines) == 2 * len(report.findings) + 1
    assert lines[-1] == report.summary


def test_reports_are_frozen() -> None:
    """Neither a report nor a finding can be changed."""
    report = sr.lint([Refund])
    with pytest.raises(FrozenInstanceError):
        report.providers = ()  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        report.findings[0].path = "/"  # type: ignore[misc]


@pytest.mark.parametrize(
    "wrong",
    [
        {"providers": ["nobody"]},
        {"tools": [7]},
        {"answer": 7},
    ],
)
def test_what_is_wrong_is_refused(wrong: dict[str, Any]) -> None:
    """An unknown provider and a wrong declaration are a ContractError."""
    with pytest.raises(sr.ContractError):
        sr.lint(**wrong)


def test_nothing_to_look_at_is_an_empty_report() -> None:
    """Without tools and with an answer of text there is nothing to say."""
    report = sr.lint()
    assert (report.ok, report.findings) == (True, ())


def test_what_is_sent_in_another_form_is_said() -> None:
    """A schema with a strict form is told apart from one that is sent as it is declared."""
    optional = closed({"city": {"type": "string"}}, required=[])
    report = sr.lint(
        [tool("converted", optional), tool("map", {"type": "object", "additionalProperties": {}})],
        providers=["openai", "gemini"],
    )
    codes = (FindingCode.CONVERTED, FindingCode.AS_DECLARED)
    told = [(one.tool, one.provider) for code in codes for one in found(report, code)]
    assert told == [("converted", "openai"), ("map", "openai")]
