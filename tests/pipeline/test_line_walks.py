"""What a request is, and which steps it goes: three legal walks, and none beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strictreply import ContractError
from strictreply.loop import type_of
from strictreply.loop.invoke_result import InvokeCode, InvokeResult
from strictreply.loop.values import (
    AgentPipelineContextType,
    AgentToolCall,
    AgentToolCallResult,
    Envelope,
    PipelineStep,
    ToolCallManifest,
)
from strictreply.pipeline import AgentPipelineContext, ResponsePayload
from strictreply.pipeline import _line as line
from strictreply.pipeline._line import next_step

INITIAL = AgentPipelineContextType.INITIAL
FOLLOW_ON = AgentPipelineContextType.FOLLOW_ON
CONTINUATION = AgentPipelineContextType.CLIENT_TOOL_CALL_CONTINUATION
RESULT = AgentToolCallResult(tool_call_id="tc1", name="toolA", result_json="1")
HERE = AgentToolCall(tool_call_id="tc1", name="toolA", arguments_json="{}")
CLIENTS = replace(HERE, tool_call_id="tc2", requires_client_execution=True)

SESSION_MISSING = "request.session_id_present"
TURN_MISSING = "request.turn_id_present"


@pytest.mark.req("P26")
@pytest.mark.parametrize(
    ("session", "turn", "results", "expected"),
    [
        (False, False, False, INITIAL),
        (True, True, False, FOLLOW_ON),
        (True, True, True, CONTINUATION),
        (True, False, False, [TURN_MISSING]),
        (False, True, False, [SESSION_MISSING]),
        (False, False, True, [SESSION_MISSING, TURN_MISSING]),
        (True, False, True, [TURN_MISSING]),
        (False, True, True, [SESSION_MISSING]),
    ],
)
@pytest.mark.parametrize("blank", ["", "  "])
def test_what_a_request_brings_tells_its_type(
    *,
    session: bool,
    turn: bool,
    results: bool,
    blank: str,
    expected: AgentPipelineContextType | list[str],
) -> None:
    """Eight combinations of session, turn and results: three types, and five requests that name
    what is missing.
    """
    envelope = Envelope(
        org="o",
        user="u",
        session_id="s" if session else blank,
        turn_id="t" if turn else blank,
        tool_results=(RESULT,) if results else (),
    )
    told = type_of(envelope)
    if isinstance(told, InvokeResult):
        assert {error.code for error in told.errors} == {InvokeCode.INVALID_REQUEST}
        assert [error.rule for error in told.errors] == expected
        assert [error.path for error in told.errors] == [
            f"/envelope/{rule[8:-8]}" for rule in expected
        ]
    else:
        assert told == expected


def context(
    kind: AgentPipelineContextType, *calls: AgentToolCall, answered: int = 0
) -> AgentPipelineContext:
    """Make a context of a type with the calls of a reply, the first of them with results."""
    results = tuple(replace(RESULT, tool_call_id=call.tool_call_id) for call in calls[:answered])
    return AgentPipelineContext(
        type=kind,
        time_stamp="2026-01-01T00:00:00Z",
        correlation_id="c",
        envelope=Envelope(org="o", user="u"),
        outgoing_manifest=ToolCallManifest(tool_calls=calls, tool_call_results=results)
        if calls
        else None,
    )


OPENINGS = {
    INITIAL: [10, 30, 50, 70, 80],
    FOLLOW_ON: [10, 20, 60, 70, 80],
    CONTINUATION: [10, 35, 40, 60, 70, 80],
}


@pytest.mark.req("P42")
def test_the_numbers_of_the_steps_are_stable() -> None:
    """Numbers from 10 to 100 by AGN-036, with 35 and 65 between."""
    assert [(step.name, int(step)) for step in PipelineStep] == [
        ("REQUEST_HANDLER", 10),
        ("SESSION_RESTORER", 20),
        ("AGENT_CONTEXT_RESOLVER", 30),
        ("CLIENT_TOOL_CALL_SESSION_RESTORER", 35),
        ("CLIENT_TOOL_CONTINUATION_RESOLVER", 40),
        ("AGENT_SESSION_CREATOR", 50),
        ("AGENT_CONTEXT_LOADER", 60),
        ("ACP_COMMAND_HANDLER", 65),
        ("PROMPT_CONTENT_PROVIDER_INITIALIZER", 70),
        ("REASONER", 80),
        ("LLM_CLIENT", 90),
        ("RESPONSE_BUILDER", 100),
    ]


@pytest.mark.parametrize("kind", AgentPipelineContextType)
def test_each_type_has_its_opening(kind: AgentPipelineContextType) -> None:
    """From the first step each type goes its own way to the Reasoner, and the LLMClient follows."""
    ctx = context(kind)
    steps = [PipelineStep.REQUEST_HANDLER]
    while steps[-1] is not PipelineStep.REASONER:
        step = next_step(ctx, steps[-1])
        assert step is not None
        steps.append(step)

    assert steps == OPENINGS[kind]
    assert [*line.OPENINGS[kind], *line.ROUND] == [
        *OPENINGS[kind],
        PipelineStep.LLM_CLIENT,
        PipelineStep.RESPONSE_BUILDER,
    ]


@pytest.mark.parametrize(
    ("calls", "answered", "after_model", "after_reasoner"),
    [
        ((), 0, PipelineStep.RESPONSE_BUILDER, PipelineStep.LLM_CLIENT),
        ((HERE,), 0, PipelineStep.REASONER, PipelineStep.LLM_CLIENT),
        ((HERE,), 1, PipelineStep.RESPONSE_BUILDER, PipelineStep.LLM_CLIENT),
        ((CLIENTS,), 0, PipelineStep.RESPONSE_BUILDER, PipelineStep.RESPONSE_BUILDER),
        ((HERE, CLIENTS), 0, PipelineStep.REASONER, PipelineStep.RESPONSE_BUILDER),
        ((HERE, CLIENTS), 1, PipelineStep.RESPONSE_BUILDER, PipelineStep.RESPONSE_BUILDER),
    ],
)
@pytest.mark.parametrize("kind", AgentPipelineContextType)
def test_the_round_follows_the_calls_that_wait(
    kind: AgentPipelineContextType,
    calls: tuple[AgentToolCall, ...],
    answered: int,
    after_model: PipelineStep,
    after_reasoner: PipelineStep,
) -> None:
    """Calls that are run here go back to the Reasoner, calls of the client to the response, none to
    the model.
    """
    ctx = context(kind, *calls, answered=answered)
    assert next_step(ctx, PipelineStep.LLM_CLIENT) is after_model
    assert next_step(ctx, PipelineStep.REASONER) is after_reasoner


@pytest.mark.parametrize("kind", AgentPipelineContextType)
def test_an_answer_ends_the_walk(kind: AgentPipelineContextType) -> None:
    """After an answer comes the response, and after the response nothing."""
    ctx = replace(context(kind), response_payload=ResponsePayload(primary_output_text="hi"))
    assert next_step(ctx, PipelineStep.LLM_CLIENT) is PipelineStep.RESPONSE_BUILDER
    assert next_step(ctx, PipelineStep.RESPONSE_BUILDER) is None


@pytest.mark.parametrize(
    ("kind", "step"),
    [
        (kind, step)
        for kind in AgentPipelineContextType
        for step in PipelineStep
        if step not in {*OPENINGS[kind], PipelineStep.LLM_CLIENT, PipelineStep.RESPONSE_BUILDER}
    ],
)
def test_no_walk_goes_by_a_step_of_another(
    kind: AgentPipelineContextType, step: PipelineStep
) -> None:
    """A step that is not on the walk of a type has no next step there."""
    with pytest.raises(ContractError):
        next_step(context(kind), step)
