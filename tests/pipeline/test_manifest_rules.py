"""When a tool-call manifest is valid.

Its pairs are in the same order, each result is a JSON text, each failure is told whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

import strictreply as sr
from strictreply.loop.invoke_result import InvokeError
from strictreply.loop.values import AgentToolCall, AgentToolCallResult, ToolCallManifest
from strictreply.pipeline import AgentPipelineContextValidator
from support.pipeline.contexts import (
    ANSWERED,
    CALL,
    RESULT,
    SECOND_CALL,
    SECOND_RESULT,
    Case,
    case,
    changed,
    codes,
    plain,
)

VALIDATOR = AgentPipelineContextValidator()
LENIENT = AgentPipelineContextValidator(allow_error_results=True)
TOOLS = {
    "toolA": sr.Tool.from_json_schema(
        "toolA", {"properties": {"a": {"type": "number"}}, "required": ["a"]}
    ),
    "toolB": sr.Tool.from_json_schema("toolB", {"properties": {"b": {"type": "string"}}}),
}
KNOWING = AgentPipelineContextValidator(tools=TOOLS)
RENAMED = {"/tool_calls/1/name": "toolC", "/tool_call_results/1/name": "toolC"}

CASES: dict[str, Case] = {
    "manifest.null": case(ANSWERED, {"": None}),
    "manifest.calls_list": Case(ToolCallManifest(), {"tool_calls": "x", "tool_call_results": []}),
    "manifest.results_list": Case(ToolCallManifest(), {"tool_calls": [], "tool_call_results": {}}),
    "manifest.same_count": case(ANSWERED, {"/tool_call_results": (RESULT,)}),
    "manifest.call_null": case(ANSWERED, {"/tool_calls/1": None}),
    "manifest.result_null": case(ANSWERED, {"/tool_call_results/0": None}),
    "manifest.call_id": case(ANSWERED, {"/tool_calls/0/tool_call_id": " "}),
    "manifest.result_id": case(ANSWERED, {"/tool_call_results/1/tool_call_id": ""}),
    "manifest.call_name": case(ANSWERED, {"/tool_calls/0/name": ""}),
    "manifest.result_name": case(ANSWERED, {"/tool_call_results/1/name": None}),
    "manifest.unique_id": case(
        ANSWERED, {"/tool_calls/1/tool_call_id": "tc1", "/tool_call_results/1/tool_call_id": "tc1"}
    ),
    "manifest.same_order": case(ANSWERED, {"/tool_call_results": (SECOND_RESULT, RESULT)}),
    "manifest.same_id": case(ANSWERED, {"/tool_call_results/0/tool_call_id": "TC1"}),
    "manifest.same_name": case(ANSWERED, {"/tool_call_results/0/name": "toolB"}),
    "manifest.result_json": case(ANSWERED, {"/tool_call_results/1/result_json": None}),
    "manifest.result_and_error": case(ANSWERED, {"/tool_call_results/1/error_message": "boom"}),
    "manifest.result_readable": case(ANSWERED, {"/tool_call_results/0/result_json": "{bad"}),
    "manifest.tool_declared": case(ANSWERED, RENAMED, tools=TOOLS),
    "manifest.arguments_readable": case(ANSWERED, {"/tool_calls/0/arguments_json": "[1]"}),
    "manifest.arguments_fit": case(
        ANSWERED, {"/tool_calls/0/arguments_json": '{"a": "x"}'}, tools=TOOLS
    ),
}
"""For each rule of a manifest one that breaks it alone."""


def told(
    changes: dict[str, Any], validator: AgentPipelineContextValidator = VALIDATOR
) -> list[InvokeError]:
    """Judge the valid manifest with some members changed."""
    return list(validator.validate_tool_call_manifest(changed(ANSWERED, changes)).errors)


def one(
    changes: dict[str, Any], validator: AgentPipelineContextValidator = VALIDATOR
) -> InvokeError:
    """Judge a manifest that has one error."""
    (error,) = told(changes, validator)
    return error


@pytest.mark.req("P64")
def test_two_calls_with_their_results_are_valid() -> None:
    """Same ids, same names, same order, a JSON text each: success, no error, also as plain JSON."""
    for manifest in (ANSWERED, plain(ANSWERED)):
        result = VALIDATOR.validate_tool_call_manifest(manifest)
        assert result.successful
        assert result.errors == ()


@pytest.mark.parametrize(
    ("calls", "results"),
    [((CALL,), ()), ((), (RESULT,)), ((CALL, SECOND_CALL), (RESULT,)), ((CALL,), (RESULT,) * 2)],
)
@pytest.mark.req("P52")
def test_there_are_as_many_results_as_calls(calls: Any, results: Any) -> None:
    """More of the one than of the other is COUNT_MISMATCH; pairs are compared when there are as
    many.
    """
    found = codes(
        VALIDATOR.validate_tool_call_manifest(
            ToolCallManifest(tool_calls=calls, tool_call_results=results)
        )
    )
    assert found[0] == "COUNT_MISMATCH"
    assert not {"ID_MISMATCH", "ORDER_MISMATCH", "NAME_MISMATCH"} & set(found)


@pytest.mark.req("P53")
def test_swapped_results_are_told_at_the_first_place() -> None:
    """The right results in another order are one error, at index 0."""
    error = one({"/tool_call_results": (SECOND_RESULT, RESULT)})
    assert (error.code, error.index, error.tool_call_id, error.result_id) == (
        "ORDER_MISMATCH",
        0,
        "tc1",
        "tc2",
    )


@pytest.mark.parametrize("other", ["TC1", "tc1 ", "tc9"])
@pytest.mark.req("P54")
def test_ids_are_compared_letter_by_letter(other: str) -> None:
    """Another id, be it by its capitals alone, is ID_MISMATCH with both ids."""
    error = one({"/tool_call_results/0/tool_call_id": other})
    assert (error.code, error.index, error.tool_call_id, error.result_id) == (
        "ID_MISMATCH",
        0,
        "tc1",
        other,
    )
    assert error.path == "/tool_calls/0/tool_call_id"


@pytest.mark.req("P55")
def test_names_are_compared_where_the_ids_agree() -> None:
    """Another name for the same id is NAME_MISMATCH with the id and both names (X20: names, not
    kinds).
    """
    error = one({"/tool_call_results/0/name": "toolB"})
    assert (error.code, error.tool_call_id, error.name, error.result_name) == (
        "NAME_MISMATCH",
        "tc1",
        "toolA",
        "toolB",
    )

    assert "toolB" not in error.message
    assert one({"/tool_call_results/0/name": "TOOLA"}).code == "NAME_MISMATCH"


@pytest.mark.parametrize("text", [None, "", " ", 5, {"ok": True}])
@pytest.mark.req("P56")
def test_every_result_holds_a_json_text(text: object) -> None:
    """The hard gate: a result without a text, or with a blank one, is an error whatever the others
    are.
    """
    error = one({"/tool_call_results/1/result_json": text})
    assert (error.code, error.index) == ("MISSING_RESULT_JSON", 1)
    assert error.path == "/tool_call_results/1/result_json"


@pytest.mark.req("P57")
def test_a_failure_tells_its_call_and_why() -> None:
    """The error has the id, the name and, as its reason, the error of the result; its words hold
    none of them.
    """
    error = one(
        {"/tool_call_results/0/result_json": None, "/tool_call_results/0/error_message": "boom"}
    )
    assert (error.tool_call_id, error.name, error.reason) == ("tc1", "toolA", "boom")
    assert "boom" not in error.message
    assert "boom" not in repr(error)
    assert one({"/tool_call_results/0/result_json": None}).reason is None


@pytest.mark.parametrize("nothing", [None, 5, "x", True, []])
@pytest.mark.req("P58")
def test_there_is_a_manifest(nothing: object) -> None:
    """No manifest, or something that could have no calls, is NULL_MANIFEST."""
    assert codes(VALIDATOR.validate_tool_call_manifest(nothing)) == ["NULL_MANIFEST"]


@pytest.mark.parametrize("manifest", [{}, {"tool_calls": None, "tool_call_results": 5}])
def test_calls_and_results_are_lists(manifest: dict[str, Any]) -> None:
    """Both lists are there, or each that is not is told; no pair is judged then."""
    result = VALIDATOR.validate_tool_call_manifest(manifest)
    assert [(error.code, error.path) for error in result.errors] == [
        ("MANIFEST_LIST", "/tool_calls"),
        ("MANIFEST_LIST", "/tool_call_results"),
    ]


@pytest.mark.parametrize("side", ["tool_calls", "tool_call_results"])
@pytest.mark.parametrize("nothing", [None, 5, "x", []])
@pytest.mark.req("P58")
def test_an_entry_that_is_none_is_told_by_its_index(side: str, nothing: object) -> None:
    """A null entry, or one of another kind, is NULL_ENTRY at its index."""
    error = one({f"/{side}/1": nothing})
    assert (error.code, error.index, error.path) == ("NULL_ENTRY", 1, f"/{side}/1")


@pytest.mark.parametrize("side", ["tool_calls", "tool_call_results"])
@pytest.mark.parametrize("blank", [None, "", " ", 5])
@pytest.mark.req("P58")
def test_a_blank_id_or_name_is_told_by_its_member(side: str, blank: object) -> None:
    """A blank id is an error with index and member, a blank name one with the id."""
    without_id = one({f"/{side}/1/tool_call_id": blank})
    assert (without_id.code, without_id.index) == ("TOOL_CALL_ID_MISSING", 1)
    assert (without_id.path, without_id.name) == (f"/{side}/1/tool_call_id", "toolB")
    without_name = one({f"/{side}/0/name": blank})
    assert (without_name.code, without_name.index, without_name.tool_call_id) == (
        "NAME_MISSING",
        0,
        "tc1",
    )


@pytest.mark.req("P59")
def test_all_errors_come_or_the_first() -> None:
    """One missing text is exactly one error; two are two, or with first_only the first of them."""
    assert len(told({"/tool_call_results/0/result_json": None})) == 1
    both = {"/tool_call_results/0/result_json": None, "/tool_call_results/1/result_json": None}
    assert [error.index for error in told(both)] == [0, 1]
    assert [
        error.index for error in told(both, AgentPipelineContextValidator(first_only=True))
    ] == [0]


@pytest.mark.req("P60")
def test_no_two_calls_have_one_id() -> None:
    """The same id twice on both sides is one DUPLICATE_ID, at the second place."""
    error = one({"/tool_calls/1/tool_call_id": "tc1", "/tool_call_results/1/tool_call_id": "tc1"})
    assert (error.code, error.index, error.tool_call_id) == ("DUPLICATE_ID", 1, "tc1")
    assert "DUPLICATE_ID" in [
        error.code for error in told({"/tool_call_results/1/tool_call_id": "tc1"})
    ]


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        ("{bad", "json.syntax"),
        ("{", "json.incomplete"),
        ('{"a": 1, "a": 2}', "json.duplicate_key"),
        ("NaN", "json.not_finite"),
        ("1 2", "json.several_values"),
    ],
)
@pytest.mark.req("P61")
def test_a_result_is_json_to_the_reader_of_replies(text: str, issue: str) -> None:
    """A text that the core's reader refuses is RESULT_NOT_JSON, with the reader's own issues at its
    path.
    """
    error = one({"/tool_call_results/0/result_json": text})
    assert (error.code, error.index, error.issues[0].code) == ("RESULT_NOT_JSON", 0, issue)
    assert error.issues[0].path.startswith("/tool_call_results/0/result_json")


@pytest.mark.parametrize(
    "text", ["null", "0", '"text"', "[]", '{"error": {"message": "boom"}}', " {} "]
)
@pytest.mark.req("P61")
def test_any_json_value_is_a_result(text: str) -> None:
    """Scalars, lists and objects are results; X11: a failure told as JSON is one, too."""
    assert told({"/tool_call_results/0/result_json": text}) == []


@pytest.mark.parametrize(
    ("text", "code", "issue", "path"),
    [
        ('{"a": "x"}', "SCHEMA_ARGS", "args.type", "/a"),
        ("{}", "SCHEMA_ARGS", "args.required", "/a"),
        ('{"a": 1, "z": 1}', "SCHEMA_ARGS", "args.extra_key", ""),
        ('{"a": true}', "SCHEMA_ARGS", "args.type", "/a"),
        ("", "ARGUMENTS_NOT_JSON", "json.empty", ""),
        ('{"a": 1', "ARGUMENTS_NOT_JSON", "json.incomplete", ""),
        ("[1]", "ARGUMENTS_NOT_JSON", "shape.wrong_type", ""),
        (None, "ARGUMENTS_NOT_JSON", "json.not_text", ""),
        ({"a": 1}, "ARGUMENTS_NOT_JSON", "json.not_text", ""),
    ],
)
@pytest.mark.req("P49", "P62")
def test_arguments_are_held_to_the_tool(text: object, code: str, issue: str, path: str) -> None:
    """With the tools given, arguments that do not fit are told by the issues that a reply would
    get, at their place.
    """
    error = one({"/tool_calls/0/arguments_json": text}, KNOWING)
    assert (error.code, error.index, error.tool_call_id, error.name) == (code, 0, "tc1", "toolA")
    assert [(each.code, each.path) for each in error.issues] == [
        (issue, f"/tool_calls/0/arguments_json{path}")
    ]


@pytest.mark.req("P62")
def test_arguments_are_judged_as_those_of_a_reply() -> None:
    """The issues are those that a contract with the same tool finds in the same arguments."""

    @sr.tool(name="toolA")
    def act(a: Annotated[int, Field(ge=1)], b: list[str]) -> None:
        """Do something."""

    contract = sr.Contract(tools=[act])
    validator = AgentPipelineContextValidator(tools={"toolA": act})

    for text in (
        '{"a": 0, "b": [1]}',
        '{"a": 1}',
        '{"a": 1, "b": [], "c": 2}',
        '{"a": 1',
        "[]",
        '{"a":1,"a":1,"b":[]}',
    ):
        reply = {"id": "tc1", "type": "function", "function": {"name": "toolA", "arguments": text}}
        verdict = contract.check({"role": "assistant", "tool_calls": [reply]})
        assert isinstance(verdict, sr.Invalid)
        call = replace(CALL, arguments_json=text)
        (error,) = validator.validate_tool_call_manifest(
            ToolCallManifest(tool_calls=(call,), tool_call_results=(RESULT,))
        ).errors

        at = "/tool_calls/0/arguments_json"
        of_reply = "/tool_calls/0/function/arguments"
        assert [
            replace(issue, path=issue.path.replace(of_reply, at)) for issue in verdict.issues
        ] == list(error.issues)


@pytest.mark.req("P62")
def test_no_arguments_are_no_text_where_none_are_needed() -> None:
    """As in a reply, an empty text means no arguments for a tool that requires none; without tools
    it is no JSON.
    """
    empty = {"/tool_calls/1/arguments_json": ""}
    assert told(empty, KNOWING) == []
    assert one(empty).code == "ARGUMENTS_NOT_JSON"


def test_a_call_names_a_declared_tool() -> None:
    """With the tools given, another name is UNKNOWN_TOOL; without them every name is as good."""
    assert (one(RENAMED, KNOWING).code, one(RENAMED, KNOWING).name) == ("UNKNOWN_TOOL", "toolC")
    assert told(RENAMED) == []
    assert (
        codes(AgentPipelineContextValidator(tools={}).validate_tool_call_manifest(ANSWERED))
        == ["UNKNOWN_TOOL"] * 2
    )


@pytest.mark.req("P63")
def test_no_calls_and_no_results_are_valid() -> None:
    """None equals none: the definition holds; see the steps for what a continuation needs."""
    assert VALIDATOR.validate_tool_call_manifest(ToolCallManifest()).successful


@pytest.mark.parametrize(
    ("result_json", "error_message", "published", "allowed"),
    [
        ('{"ok": true}', None, [], []),
        (None, "boom", ["MISSING_RESULT_JSON"], []),
        ('{"ok": true}', "boom", ["RESULT_AND_ERROR"], ["RESULT_AND_ERROR"]),
        (None, None, ["MISSING_RESULT_JSON"], ["MISSING_RESULT_JSON"]),
        (None, " ", ["MISSING_RESULT_JSON"], ["MISSING_RESULT_JSON"]),
    ],
)
@pytest.mark.req("P50")
def test_a_result_holds_one_of_json_and_error(
    result_json: str | None, error_message: str | None, published: list[str], allowed: list[str]
) -> None:
    """X11: as published each result holds JSON; with allow_error_results exactly one of JSON and an
    error.
    """
    changes = {
        "/tool_call_results/0/result_json": result_json,
        "/tool_call_results/0/error_message": error_message,
    }
    assert [error.code for error in told(changes)] == published
    assert [error.code for error in told(changes, LENIENT)] == allowed


IDS = st.sampled_from(["a", "b", "A", "", " ", "c"])
NAMES = st.sampled_from(["f", "g", ""])
CALLS = st.builds(AgentToolCall, tool_call_id=IDS, name=NAMES, arguments_json=st.just("{}"))
RESULTS = st.builds(
    AgentToolCallResult, tool_call_id=IDS, name=NAMES, result_json=st.sampled_from(["1", None, "{"])
)


@given(
    st.builds(
        ToolCallManifest,
        tool_calls=st.lists(CALLS).map(tuple),
        tool_call_results=st.lists(RESULTS).map(tuple),
    )
)
@pytest.mark.req("P52", "P53", "P54", "P55", "P56", "P60")
def test_valid_is_what_the_definition_says(manifest: ToolCallManifest) -> None:
    """Any manifest is valid exactly when section 5 says so: same count, order, ids, names, unique,
    all with JSON.
    """
    calls = manifest.tool_calls
    results = manifest.tool_call_results
    valid = (
        [(call.tool_call_id, call.name) for call in calls]
        == [(each.tool_call_id, each.name) for each in results]
        and all(call.tool_call_id.strip() and call.name for call in calls)
        and len({call.tool_call_id for call in calls}) == len(calls)
        and all(result.result_json == "1" for result in results)
    )
    assert VALIDATOR.validate_tool_call_manifest(manifest).successful is valid
