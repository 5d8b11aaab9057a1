"""What a response may hold: closed kinds, and members by kind.

Even an empty list counts as present.
"""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.loop.invoke_result import InvokeError
from strictreply.loop.values import PipelineStep, ResponseKind
from strictreply.pipeline import AgentPipelineContextValidator
from support.pipeline.contexts import (
    CALL,
    RESULT,
    Case,
    before,
    built,
    case,
    changed,
    codes,
    plain,
    response_of,
    waiting,
)

VALIDATOR = AgentPipelineContextValidator()
BUILDER = PipelineStep.RESPONSE_BUILDER
FINAL = response_of(before(BUILDER))
CONTINUATION = response_of(waiting())
WITH_RESULT = changed(FINAL, {"/tool_results": (RESULT,)})

CASES: dict[str, Case] = {
    "response.kind": case(FINAL, {"/kind": "other"}),
    "response.session_id": case(FINAL, {"/session_id": ""}),
    "response.turn_id": case(CONTINUATION, {"/turn_id": None}),
    "response.mode_display_name": case(FINAL, {"/mode_display_name": " "}),
    "response.final.primary_output_text": case(FINAL, {"/primary_output_text": None}),
    "response.final.forbidden": case(FINAL, {"/tool_calls": ()}),
    "response.continuation.tool_calls": case(CONTINUATION, {"/tool_calls": ()}),
    "response.continuation.forbidden": case(CONTINUATION, {"/files": ()}),
    "response.shape": case(FINAL, {"/user_warnings": "slow"}),
    "response.call_null": case(CONTINUATION, {"/tool_calls/0": None}),
    "response.call_id": case(CONTINUATION, {"/tool_calls/0/tool_call_id": ""}),
    "response.call_name": case(CONTINUATION, {"/tool_calls/0/name": " "}),
    "response.call_arguments": case(CONTINUATION, {"/tool_calls/0/arguments_json": "{"}),
    "response.result_null": case(WITH_RESULT, {"/tool_results/0": None}),
    "response.result_id": case(WITH_RESULT, {"/tool_results/0/tool_call_id": None}),
    "response.result_time": case(WITH_RESULT, {"/tool_results/0/execution_ms": -1}),
    "response.result_and_error": case(WITH_RESULT, {"/tool_results/0/error_message": "boom"}),
    "response.result_missing": case(WITH_RESULT, {"/tool_results/0/result_json": None}),
}
"""For each rule of a response one that breaks it alone."""


def told(response: Any) -> list[InvokeError]:
    """Judge a response where the validator meets it: inside the context from which it was built."""
    return list(VALIDATOR.validate_post_step(built(before(BUILDER), response), BUILDER).errors)


def broken(response: Any, changes: dict[str, Any]) -> list[tuple[str, str]]:
    """Judge a response with some members changed; give the code and the member of each error."""
    return [
        (error.code, error.path.removeprefix("/built/response"))
        for error in told(changed(response, changes))
    ]


@pytest.mark.parametrize("response", [FINAL, CONTINUATION, WITH_RESULT])
@pytest.mark.req("P47", "P48")
def test_the_least_of_each_kind_is_valid(response: Any) -> None:
    """A text alone makes a final response, a call alone a continuation, as values and as plain
    JSON.
    """
    assert told(response) == told(plain(response)) == []


@pytest.mark.parametrize("kind", ["other", "Final", "FINAL", "", None, 5, [], {}])
@pytest.mark.req("P45")
def test_there_are_two_kinds(kind: object) -> None:
    """Any kind but final and client_tool_continuation is one error; what it may hold cannot be told
    then.
    """
    assert broken(FINAL, {"/kind": kind}) == [("RESPONSE_KIND", "/kind")]
    assert [each.value for each in ResponseKind] == ["final", "client_tool_continuation"]


@pytest.mark.parametrize("response", [FINAL, CONTINUATION])
@pytest.mark.parametrize(
    ("member", "code"),
    [
        ("session_id", "RESPONSE_SESSION_ID"),
        ("turn_id", "RESPONSE_TURN_ID"),
        ("mode_display_name", "RESPONSE_MODE"),
    ],
)
@pytest.mark.req("P46")
def test_every_response_says_where_it_belongs(response: Any, member: str, code: str) -> None:
    """Session, turn and mode: each, dropped from a valid response, is its own error."""
    dropped = {name: value for name, value in plain(response).items() if name != member}
    assert [error.code for error in told(dropped)] == [code]
    assert broken(response, {f"/{member}": " "}) == [(code, f"/{member}")]


@pytest.mark.parametrize("text", [None, "", "  ", 5, ["text"]])
@pytest.mark.req("P47")
def test_a_final_response_has_a_text(text: object) -> None:
    """A final response without a text that says something is an error."""
    assert broken(FINAL, {"/primary_output_text": text}) == [
        ("OUTPUT_TEXT_MISSING", "/primary_output_text")
    ]


@pytest.mark.parametrize(
    "members",
    [
        {"/files": ({"name": "a.pdf"},)},
        {"/tool_results": (RESULT,)},
        {"/user_warnings": ("slow",)},
        {"/usage": {"total_tokens": 3}},
        {"/files": (), "/tool_results": (), "/user_warnings": (), "/usage": {}},
    ],
)
@pytest.mark.req("P47")
def test_a_final_response_may_hold_more(members: dict[str, Any]) -> None:
    """Files, results, warnings and usage are allowed, empty or not."""
    assert broken(FINAL, members) == []


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("tool_calls", ()),
        ("tool_calls", (CALL,)),
        ("tool_continuation_message", ""),
        ("tool_continuation_message", "m"),
    ],
)
@pytest.mark.req("P47")
def test_a_final_response_holds_nothing_of_a_continuation(member: str, value: object) -> None:
    """Calls and the continuation's message are forbidden, even when they are there and empty."""
    assert broken(FINAL, {f"/{member}": value}) == [("FORBIDDEN_MEMBER", f"/{member}")]


@pytest.mark.parametrize("calls", [(), None, "x", {}])
@pytest.mark.req("P48")
def test_a_continuation_has_a_call(calls: object) -> None:
    """An empty list of calls, none at all, or something else is an error."""
    assert broken(CONTINUATION, {"/tool_calls": calls}) == [("TOOL_CALLS_MISSING", "/tool_calls")]


@pytest.mark.parametrize(
    ("member", "empty", "filled"),
    [
        ("primary_output_text", "", "text"),
        ("tool_results", (), (RESULT,)),
        ("files", (), ({"name": "a.pdf"},)),
        ("user_warnings", (), ("slow",)),
        ("usage", {}, {"total_tokens": 3}),
    ],
)
@pytest.mark.req("P48")
def test_a_continuation_holds_nothing_of_a_final_response(
    member: str, empty: object, filled: object
) -> None:
    """Each of the five is forbidden, even when it is there and empty; the continuation's message is
    allowed.
    """
    for value in (empty, filled):
        assert broken(CONTINUATION, {f"/{member}": value}) == [("FORBIDDEN_MEMBER", f"/{member}")]
    assert broken(CONTINUATION, {"/tool_continuation_message": "Please confirm."}) == []


@pytest.mark.parametrize(
    ("member", "value", "code"),
    [
        ("tool_call_id", "", "TOOL_CALL_ID_MISSING"),
        ("tool_call_id", None, "TOOL_CALL_ID_MISSING"),
        ("name", " ", "NAME_MISSING"),
        ("name", 5, "NAME_MISSING"),
        ("arguments_json", "", "ARGUMENTS_NOT_JSON"),
        ("arguments_json", "[]", "ARGUMENTS_NOT_JSON"),
        ("arguments_json", None, "ARGUMENTS_NOT_JSON"),
    ],
)
@pytest.mark.req("P49")
def test_a_call_has_its_three_members(member: str, value: object, code: str) -> None:
    """Id, name and arguments: each that is blank or unreadable is an error of that call."""
    path = f"/tool_calls/0/{member}"
    assert broken(CONTINUATION, {path: value}) == [(code, path)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"result_json": "1", "error_message": None}, []),
        ({"result_json": None, "error_message": "boom"}, []),
        ({"result_json": "1", "error_message": "boom"}, ["RESULT_AND_ERROR"]),
        ({"result_json": None, "error_message": None}, ["EMPTY_RESULT"]),
        ({"result_json": "", "error_message": " "}, ["EMPTY_RESULT"]),
        ({"tool_call_id": ""}, ["TOOL_CALL_ID_MISSING"]),
        ({"execution_ms": None}, ["EXECUTION_MS"]),
        ({"execution_ms": 1.5}, ["EXECUTION_MS"]),
        ({"execution_ms": True}, ["EXECUTION_MS"]),
        ({"execution_ms": 0}, []),
    ],
)
@pytest.mark.req("P50")
def test_a_result_has_an_id_a_time_and_one_outcome(
    changes: dict[str, Any], expected: list[str]
) -> None:
    """A tool that failed is a valid result (X11); both outcomes, neither, and a time that is none
    are errors.
    """
    members = {f"/tool_results/0/{name}": value for name, value in changes.items()}
    assert [code for code, _ in broken(WITH_RESULT, members)] == expected


@pytest.mark.parametrize(
    ("response", "member", "value"),
    [
        (FINAL, "files", "x"),
        (FINAL, "files", ("a.pdf",)),
        (FINAL, "tool_results", {}),
        (FINAL, "user_warnings", (5,)),
        (FINAL, "usage", 5),
        (CONTINUATION, "tool_continuation_message", 5),
    ],
)
def test_allowed_members_are_of_their_kind(response: Any, member: str, value: object) -> None:
    """An allowed member of another type than its name says is RESPONSE_SHAPE at its path."""
    assert broken(response, {f"/{member}": value}) == [("RESPONSE_SHAPE", f"/{member}")]


def test_errors_of_a_response_add_up() -> None:
    """Several faults of one response come together; what members hold is judged when they are
    allowed to be there.
    """
    result = VALIDATOR.validate_post_step(
        built(
            before(BUILDER),
            {"kind": "client_tool_continuation", "turn_id": "t1", "tool_calls": [], "files": [5]},
        ),
        BUILDER,
    )
    assert codes(result) == [
        "RESPONSE_SESSION_ID",
        "RESPONSE_MODE",
        "TOOL_CALLS_MISSING",
        "FORBIDDEN_MEMBER",
    ]
