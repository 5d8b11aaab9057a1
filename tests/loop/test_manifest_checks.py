"""What a run refuses of calls and results is what the rules of AGN-036 section 5 refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.loop._manifest_checks import call_errors, manifest_errors
from strictreply.loop.values import AgentToolCall, AgentToolCallResult, ToolCallManifest
from strictreply.pipeline import AgentPipelineContextValidator

VALIDATOR = AgentPipelineContextValidator()

IDS = st.sampled_from(["a", "b", "c", "", " ", "\ud800", "é"])
NAMES = st.sampled_from(["search", "locate", "", "\udfff"])
JSONS = st.sampled_from(["{}", '{"a":1}', "[1]", "", " ", "{", '{"a":1,"a":2}', '"\\ud800"'])
CALLS = st.builds(AgentToolCall, tool_call_id=IDS, name=NAMES, arguments_json=JSONS)
RESULTS = st.builds(
    AgentToolCallResult,
    tool_call_id=IDS,
    name=NAMES,
    result_json=st.none() | JSONS | st.just("\ud800"),
    error_message=st.none() | st.sampled_from(["", "no", "\ud800"]),
)


@st.composite
def manifests(draw: st.DrawFn) -> ToolCallManifest:
    """Draw a manifest, half of them with a result for each call in some order."""
    calls = draw(st.lists(CALLS, max_size=4))
    results = draw(st.lists(RESULTS, max_size=4))

    if draw(st.booleans()):
        answers = draw(st.lists(RESULTS, min_size=len(calls), max_size=len(calls)))
        results = [
            replace(answer, tool_call_id=call.tool_call_id, name=call.name)
            for call, answer in zip(calls, answers, strict=True)
        ]
        results = draw(st.permutations(results))

    return ToolCallManifest(tool_calls=tuple(calls), tool_call_results=tuple(results))


@pytest.mark.req("P51", "P53", "P54", "P56", "P60", "P61", "P62")
@given(manifests())
def test_a_run_refuses_what_the_rules_refuse(manifest: ToolCallManifest) -> None:
    """The errors of a run are those of the validator, equal in every field and in order."""
    expected = VALIDATOR.validate_tool_call_manifest(manifest).errors
    assert manifest_errors(manifest) == expected


@pytest.mark.parametrize("other", [None, 3, ["a"], b"a", 1.5])
@pytest.mark.parametrize("member", ["tool_call_id", "name", "result_json", "error_message"])
def test_what_is_no_text_is_refused_as_the_rules_refuse_it(member: str, other: Any) -> None:
    """A member that a program filled with another type is an error of its rule, no TypeError."""
    call = AgentToolCall(tool_call_id="a", name="search", arguments_json="{}")
    result = AgentToolCallResult(tool_call_id="a", name="search", error_message="no")
    result = replace(result, **{member: other})
    manifest = ToolCallManifest(tool_calls=(call,), tool_call_results=(result,))

    errors = manifest_errors(manifest)
    assert errors
    assert errors == VALIDATOR.validate_tool_call_manifest(manifest).errors


@given(manifests())
def test_errors_stand_where_the_manifest_is(manifest: ToolCallManifest) -> None:
    """With a place of the manifest, each error has the same path below it."""
    inside = manifest_errors(manifest, at="/tool_call_manifest")
    paths = [f"/tool_call_manifest{error.path}" for error in manifest_errors(manifest)]
    assert [error.path for error in inside] == paths


@given(manifests())
def test_a_reply_is_refused_for_ids_and_arguments_alone(manifest: ToolCallManifest) -> None:
    """Of a model's calls a run refuses what those two rules refuse, results left out."""
    rules = {"manifest.call_id", "manifest.arguments_readable"}
    expected = [error for error in manifest_errors(manifest) if error.rule in rules]
    assert list(call_errors(manifest)) == expected
