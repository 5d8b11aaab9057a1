"""The values of the pipeline: frozen, plain JSON there and back, and read strictly."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from strictreply import Code, Issue
from strictreply.loop import invoke_result, values
from strictreply.loop.invoke_result import InvokeCode, InvokeError, InvokeResult
from strictreply.loop.values import Envelope, PipelineStep, ToolCallManifest, Value
from strictreply.pipeline import AgentPipelineContext, PromptContent
from strictreply.pipeline import _values as context_values
from support.pipeline.contexts import (
    ANSWERED,
    CALL,
    CONTEXTS,
    INITIAL,
    PAYLOAD,
    RESULT,
    SECOND_CALL,
    SESSION,
    TURN,
    WAITING,
    WALKS,
    after,
    before,
    built,
    received,
    response_of,
    waiting,
)

ERROR = InvokeError(
    code=InvokeCode.SCHEMA_ARGS,
    rule="manifest.arguments_fit",
    message="the arguments must fit the schema of the tool",
    path="/tool_calls/0",
    index=0,
    tool_call_id="tc1",
    name="toolA",
    reason="boom",
    issues=(Issue.of(Code.JSON_EMPTY, "/tool_calls/0", hint="h", found='"x"'),),
)
SAMPLES: list[Value] = [
    CALL,
    RESULT,
    CALL.denied("too dear"),
    ANSWERED,
    received(INITIAL).envelope,
    SESSION,
    TURN,
    *CONTEXTS.values(),
    PromptContent(),
    PAYLOAD,
    response_of(waiting()),
    built(before(PipelineStep.RESPONSE_BUILDER)).built or ANSWERED,
    after(PipelineStep.RESPONSE_BUILDER),
    ERROR,
    InvokeResult(errors=(ERROR,)),
]
KINDS = [
    kind
    for module in (values, context_values, invoke_result)
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, Value)
    and kind.__module__ == module.__name__
    and kind is not Value
]


def test_there_is_a_sample_of_every_kind() -> None:
    """A kind of value that is added is tried here, too."""
    assert {type(sample) for sample in SAMPLES} == set(KINDS)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_a_value_comes_back_equal(sample: Value) -> None:
    """To JSON and back, the value is equal; its dict is the same JSON, plain to the last member."""
    again = type(sample).from_json(sample.to_json())
    assert again == sample
    assert json.loads(sample.to_json()) == sample.to_dict()
    assert json.loads(json.dumps(sample.to_dict())) == sample.to_dict()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_a_value_is_frozen(sample: Value) -> None:
    """No member can be set, and there is no place for others."""
    with pytest.raises(FrozenInstanceError):
        setattr(sample, next(iter(sample.to_dict())), None)
    assert not hasattr(sample, "__dict__")


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
OBJECT = st.dictionaries(
    TEXT,
    st.recursive(
        SCALAR, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2)
    ),
)
OBJECTS = st.lists(OBJECT, max_size=2).map(tuple)


def manifests() -> st.SearchStrategy[ToolCallManifest]:
    """Make manifests of any texts."""
    call = st.builds(
        values.AgentToolCall,
        tool_call_id=TEXT,
        name=TEXT,
        arguments_json=TEXT,
        requires_client_execution=st.booleans(),
        needs_approval=st.booleans(),
    )
    result = st.builds(
        values.AgentToolCallResult,
        tool_call_id=TEXT,
        name=TEXT,
        execution_ms=st.integers(0, 10**12),
        result_json=st.none() | TEXT,
        error_message=st.none() | TEXT,
    )

    return st.builds(
        ToolCallManifest,
        tool_calls=st.lists(call, max_size=3).map(tuple),
        tool_call_results=st.lists(result, max_size=3).map(tuple),
    )


def contexts() -> st.SearchStrategy[AgentPipelineContext]:
    """Make contexts of the right kinds of members, whatever is in them."""
    envelope = st.builds(
        Envelope,
        org=st.none() | TEXT,
        user=st.none() | TEXT,
        session_id=TEXT,
        turn_id=TEXT,
        instructions=TEXT,
        input_artifacts=OBJECTS,
        messages=OBJECTS,
    )
    return st.builds(
        AgentPipelineContext,
        type=st.sampled_from(list(WALKS)),
        time_stamp=TEXT,
        correlation_id=TEXT,
        envelope=envelope,
        session=st.none() | st.builds(values.Session, id=TEXT, mode=TEXT, messages=OBJECTS),
        turn=st.none()
        | st.builds(values.Turn, id=TEXT, iterations=st.integers(0, 9), messages=OBJECTS),
        outgoing_manifest=st.none() | manifests(),
        response_payload=st.none()
        | st.builds(
            context_values.ResponsePayload,
            primary_output_text=TEXT,
            files=OBJECTS,
            usage=st.none() | OBJECT,
        ),
    )


@given(contexts())
@settings(max_examples=60)
def test_any_context_comes_back_equal(ctx: AgentPipelineContext) -> None:
    """A context with any texts and objects is written as JSON and read back equal."""
    assert AgentPipelineContext.from_json(ctx.to_json()) == ctx
    assert json.loads(ctx.to_json()) == ctx.to_dict()


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (AgentPipelineContext, {"type": "initial"}),
        (AgentPipelineContext, {"time_stamp": 5}),
        (AgentPipelineContext, {"envelope": None}),
        (AgentPipelineContext, {"more": 1}),
        (AgentPipelineContext, {"session": {"id": "s1", "more": 1}}),
        (AgentPipelineContext, {"prompt": {"ready": "true"}}),
        (AgentPipelineContext, {"response_type": "final"}),
    ],
)
def test_reading_is_strict(kind: type[Value], change: dict[str, Any]) -> None:
    """Another kind of member, or one that nobody knows, is refused with its place; nothing is
    coerced.
    """
    told = after(PipelineStep.LLM_CLIENT).to_dict()
    assert kind.from_json(json.dumps(told)) == after(PipelineStep.LLM_CLIENT)
    with pytest.raises(ValidationError) as caught:
        kind.from_json(json.dumps(told | change))
    assert caught.value.errors()[0]["loc"][0] in change


def test_making_a_value_checks_nothing() -> None:
    """The validator can be shown any content: only reading is strict."""
    wrong: Any = 99
    assert (
        AgentPipelineContext(
            type=wrong, time_stamp=wrong, correlation_id=wrong, envelope=wrong
        ).type
        == wrong
    )


def test_pending_calls_are_those_without_a_result() -> None:
    """X17: a call waits until a result has its id."""
    assert WAITING.pending == (CALL,)
    assert ANSWERED.pending == ()
    half = ToolCallManifest(tool_calls=(CALL, SECOND_CALL), tool_call_results=(RESULT,))
    assert half.pending == (SECOND_CALL,)


def test_a_call_makes_the_result_that_answers_it() -> None:
    """The answer of a client or a person stands under the id and the name of the call, as JSON."""
    assert CALL.answered({"ok": True}, execution_ms=3) == values.AgentToolCallResult(
        tool_call_id="tc1", name="toolA", execution_ms=3, result_json='{"ok":true}'
    )
    decisions = [CALL.approved(), CALL.denied("too dear")]
    assert [json.loads(decision.result.result_json or "") for decision in decisions] == [
        {"approved": True, "reason": ""},
        {"approved": False, "reason": "too dear"},
    ]
    assert {(decision.tool_call_id, decision.name) for decision in decisions} == {("tc1", "toolA")}


def test_success_is_to_have_no_error() -> None:
    """A result is successful when it holds no error, and says so of itself."""
    assert InvokeResult().successful
    assert not InvokeResult(errors=(ERROR,)).successful


def test_a_code_is_its_name() -> None:
    """Each code is spelled in capitals and underscores, and no two are spelled alike."""
    assert all(code.value == code.value.upper().replace(" ", "_") for code in InvokeCode)
    assert len({code.value for code in InvokeCode}) == len(InvokeCode.__members__)
