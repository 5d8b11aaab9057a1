"""The rules of every context.

The invariants come first, then what the type of a request asks of its envelope.
"""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.loop.invoke_result import RULESET, InvokeResult
from strictreply.pipeline import AgentPipelineContextValidator
from support.pipeline.contexts import (
    CONTINUATION,
    FOLLOW_ON,
    INITIAL,
    RESULT,
    Case,
    case,
    changed,
    codes,
    plain,
    received,
    rules,
)

VALIDATOR = AgentPipelineContextValidator()
EXTENDED = AgentPipelineContextValidator(profile="extended")
NAMED = changed(
    received(INITIAL),
    {"/envelope/agent_context_id": "a1", "/envelope/conversation_context_id": "c1"},
)

CASES: dict[str, Case] = {
    "core.context": case(received(INITIAL), {"": None}),
    "core.type": case(received(INITIAL), {"/type": 99}),
    "core.time_stamp": case(received(INITIAL), {"/time_stamp": ""}),
    "core.correlation_id": case(received(INITIAL), {"/correlation_id": " "}),
    "core.org": case(received(FOLLOW_ON), {"/envelope/org": None}),
    "core.user": case(received(CONTINUATION), {"/envelope/user": None}),
    "core.input": case(received(INITIAL), {"/envelope/instructions": ""}),
    "core.initial.session_id_empty": case(received(INITIAL), {"/envelope/session_id": "s1"}),
    "core.initial.turn_id_empty": case(received(INITIAL), {"/envelope/turn_id": "t1"}),
    "core.initial.tool_results_empty": case(
        received(INITIAL), {"/envelope/tool_results": (RESULT,)}
    ),
    "core.initial.agent_context_id_present": case(
        NAMED, {"/envelope/agent_context_id": ""}, profile="extended"
    ),
    "core.follow_on.session_id_present": case(received(FOLLOW_ON), {"/envelope/session_id": ""}),
    "core.follow_on.turn_id_present": case(received(FOLLOW_ON), {"/envelope/turn_id": ""}),
    "core.follow_on.tool_results_empty": case(
        received(FOLLOW_ON), {"/envelope/tool_results": (RESULT,)}
    ),
    "core.continuation.session_id_present": case(
        received(CONTINUATION), {"/envelope/session_id": ""}
    ),
    "core.continuation.turn_id_present": case(received(CONTINUATION), {"/envelope/turn_id": ""}),
    "core.continuation.tool_results_present": case(
        received(CONTINUATION), {"/envelope/tool_results": ()}
    ),
    "core.continuation.input_absent": case(
        received(CONTINUATION), {"/envelope/instructions": "And now this."}, profile="extended"
    ),
}
"""For each rule of the core a context that breaks it alone."""


def core(kind: Any, changes: dict[str, Any]) -> InvokeResult:
    """Judge the core of a received context with some members changed."""
    return VALIDATOR.validate_core(changed(received(kind), changes))


@pytest.mark.parametrize("kind", [INITIAL, FOLLOW_ON, CONTINUATION])
@pytest.mark.parametrize("value", [99, 0, "x", "initial", "INITIAL", "", None, True, [], {}, 1.5])
@pytest.mark.req("P10")
def test_a_type_is_one_of_the_three(kind: Any, value: object) -> None:
    """Anything but the three types, in their own spelling, is CORE_TYPE and nothing else."""
    assert codes(core(kind, {"/type": value})) == ["CORE_TYPE"]
    assert core(kind, {"/type": kind.value}).successful


@pytest.mark.parametrize("value", ["", None, "  \t\n", 5, [], {}])
@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param("/time_stamp", "CORE_TIMESTAMP", marks=pytest.mark.req("P11")),
        pytest.param("/correlation_id", "CORE_CORRELATION", marks=pytest.mark.req("P12")),
        pytest.param("/envelope/org", "CORE_ORG", marks=pytest.mark.req("P13")),
        pytest.param("/envelope/user", "CORE_USER", marks=pytest.mark.req("P14")),
    ],
)
def test_an_invariant_needs_a_text_that_says_something(path: str, code: str, value: object) -> None:
    """Null, empty, blank or no text at all: each gives the code of its member, at its path."""
    result = core(INITIAL, {path: value})
    assert codes(result) == [code]
    assert [error.path for error in result.errors] == [path]


@pytest.mark.parametrize("value", [None, {}, [], "envelope", 5])
@pytest.mark.req("P14")
def test_no_envelope_lacks_both_names(value: object) -> None:
    """Without an envelope both of its invariants are reported, and nothing is raised."""
    assert codes(core(INITIAL, {"/envelope": value})) == ["CORE_ORG", "CORE_USER"]


@pytest.mark.req("P6")
def test_errors_of_one_stage_add_up() -> None:
    """Three missing members are three errors, in the order of the rules."""
    result = core(INITIAL, {"/time_stamp": "", "/correlation_id": None, "/envelope/user": " "})
    assert codes(result) == ["CORE_TIMESTAMP", "CORE_CORRELATION", "CORE_USER"]
    typed = core(
        INITIAL,
        {"/envelope/session_id": "s", "/envelope/turn_id": "t", "/envelope/tool_results": [RESULT]},
    )
    assert codes(typed) == ["SESSION_ID_NOT_EMPTY", "TURN_ID_NOT_EMPTY", "TOOL_RESULTS_NOT_EMPTY"]


@pytest.mark.req("P6")
def test_invariants_gate_the_rules_of_the_types() -> None:
    """While an invariant is broken, what the type asks of the envelope is not judged."""
    both = {"/envelope/org": None, "/envelope/session_id": "s1", "/envelope/instructions": ""}
    assert codes(core(INITIAL, both)) == ["CORE_ORG"]
    assert codes(core(INITIAL, both | {"/envelope/org": "org"})) == [
        "INPUT_MISSING",
        "SESSION_ID_NOT_EMPTY",
    ]


@pytest.mark.parametrize("kind", [INITIAL, FOLLOW_ON])
@pytest.mark.parametrize("instructions", ["do it", " \n"])
@pytest.mark.parametrize("artifacts", [({"type": "file"},), ()])
@pytest.mark.parametrize("images", [({"url": "u"},), ()])
@pytest.mark.req("P15")
def test_a_request_brings_one_kind_of_input(
    kind: Any, instructions: str, artifacts: Any, images: Any
) -> None:
    """Of the eight combinations only the one without input fails; blank instructions are none."""
    members = {
        "/envelope/instructions": instructions,
        "/envelope/input_artifacts": artifacts,
        "/envelope/clip_board_images": images,
    }
    given = bool(instructions.strip() or artifacts or images)
    assert codes(core(kind, members)) == ([] if given else ["INPUT_MISSING"])


@pytest.mark.parametrize(
    ("kind", "path", "value", "expected"),
    [
        pytest.param(
            INITIAL, "session_id", "s1", "SESSION_ID_NOT_EMPTY", marks=pytest.mark.req("P16")
        ),
        pytest.param(
            INITIAL, "session_id", 5, "SESSION_ID_NOT_EMPTY", marks=pytest.mark.req("P16")
        ),
        pytest.param(INITIAL, "turn_id", "t1", "TURN_ID_NOT_EMPTY", marks=pytest.mark.req("P17")),
        pytest.param(
            INITIAL,
            "tool_results",
            (RESULT,),
            "TOOL_RESULTS_NOT_EMPTY",
            marks=pytest.mark.req("P18"),
        ),
        pytest.param(
            INITIAL, "tool_results", [None], "TOOL_RESULTS_NOT_EMPTY", marks=pytest.mark.req("P18")
        ),
        pytest.param(
            FOLLOW_ON, "session_id", "", "SESSION_ID_MISSING", marks=pytest.mark.req("P19")
        ),
        pytest.param(
            FOLLOW_ON, "session_id", 5, "SESSION_ID_MISSING", marks=pytest.mark.req("P19")
        ),
        pytest.param(FOLLOW_ON, "turn_id", "", "TURN_ID_MISSING", marks=pytest.mark.req("P20")),
        pytest.param(
            FOLLOW_ON,
            "tool_results",
            (RESULT,),
            "TOOL_RESULTS_NOT_EMPTY",
            marks=pytest.mark.req("P21"),
        ),
        pytest.param(
            CONTINUATION, "session_id", "", "SESSION_ID_MISSING", marks=pytest.mark.req("P22")
        ),
        pytest.param(
            CONTINUATION, "turn_id", None, "TURN_ID_MISSING", marks=pytest.mark.req("P23")
        ),
        pytest.param(
            CONTINUATION, "tool_results", (), "TOOL_RESULTS_MISSING", marks=pytest.mark.req("P24")
        ),
        pytest.param(
            CONTINUATION, "tool_results", None, "TOOL_RESULTS_MISSING", marks=pytest.mark.req("P24")
        ),
        pytest.param(
            CONTINUATION, "tool_results", "x", "TOOL_RESULTS_MISSING", marks=pytest.mark.req("P24")
        ),
    ],
)
def test_a_type_asks_for_its_ids_and_results(
    kind: Any, path: str, value: object, expected: str
) -> None:
    """Each member that does not go with the type, alone, is exactly one error at its path."""
    result = core(kind, {f"/envelope/{path}": value})
    assert [(error.code, error.path) for error in result.errors] == [
        (expected, f"/envelope/{path}")
    ]


@pytest.mark.req("P24")
def test_a_continuation_needs_no_input() -> None:
    """Session, turn and one result suffice: instructions, artifacts and images are empty."""
    assert core(CONTINUATION, {"/envelope/tool_results": (RESULT,)}).successful


@pytest.mark.parametrize("empty", ["", None, "  "])
@pytest.mark.req("P16", "P17")
def test_an_empty_id_is_empty_in_each_spelling(empty: object) -> None:
    """Null and blank ids name nothing, so an initial request may have them."""
    assert core(INITIAL, {"/envelope/session_id": empty, "/envelope/turn_id": empty}).successful


@pytest.mark.req("P25")
def test_a_conversation_context_needs_its_agent() -> None:
    """In the extended profile an initial request that names a conversation names its agent;
    published is silent.
    """
    alone = changed(NAMED, {"/envelope/agent_context_id": ""})
    assert rules(EXTENDED.validate_core(alone)) == ["core.initial.agent_context_id_present"]
    assert VALIDATOR.validate_core(alone).successful
    assert EXTENDED.validate_core(NAMED).successful


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("instructions", "x"),
        ("input_artifacts", ({"type": "file"},)),
        ("clip_board_images", ({"url": "u"},)),
    ],
)
@pytest.mark.req("P51")
def test_a_continuation_brings_results_alone(member: str, value: object) -> None:
    """In the extended profile each kind of input in a continuation is an error at its path;
    published is silent.
    """
    ctx = changed(received(CONTINUATION), {f"/envelope/{member}": value})
    result = EXTENDED.validate_core(ctx)
    assert [(error.code, error.path) for error in result.errors] == [
        ("INPUT_FORBIDDEN", f"/envelope/{member}")
    ]
    assert VALIDATOR.validate_core(ctx).successful


def test_a_result_says_which_rules_it_speaks_of() -> None:
    """X12: the published text calls itself a draft, so each result names its rules' version."""
    assert (
        VALIDATOR.validate_core(None).ruleset
        == core(INITIAL, {}).ruleset
        == RULESET
        == "AGN-036/draft-1"
    )


@pytest.mark.parametrize("kind", [INITIAL, FOLLOW_ON, CONTINUATION])
def test_json_is_held_to_the_same_rules(kind: Any) -> None:
    """A context of another program, as plain JSON, is read by the same names."""
    assert VALIDATOR.validate_core(plain(received(kind))).successful
    assert codes(VALIDATOR.validate_core(plain(received(kind)) | {"envelope": {"org": "org"}})) == [
        "CORE_USER"
    ]
