"""What ``run`` does not judge again is right.

Every step of every turn keeps to the rules, whatever the model says.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

import strictreply as sr
from running.conftest import FullWalk
from strictreply.contract._driving import drive
from strictreply.pipeline._invoke_result import InvokeCode
from strictreply.pipeline._line import line_flow
from strictreply.pipeline._rule import PipelineRule
from strictreply.pipeline._sessions import MemorySessionStore
from strictreply.pipeline._turn_effects import Asked, AskModel, RunTools, ToolOutcome
from strictreply.pipeline._turn_steps import TurnSteps, turn_flow
from strictreply.pipeline._validator import LOOP_VALIDATOR
from strictreply.pipeline._values import (
    AgentContext,
    AgentPipelineContext,
    AgentPipelineContextType,
    AgentToolCall,
    AgentToolCallResult,
    Envelope,
    PipelineStep,
)
from strictreply.values._replies import ToolCall
from support.running.loops import DONE, Loop, Opened, asking, codes, ids, spy
from support.scripted import USER, Client, call, completion

NOT_IN_A_WALK = {PipelineStep.ACP_COMMAND_HANDLER}


def test_the_walks_are_all_judged(opened: Opened, full_walk: FullWalk) -> None:
    """Parallel calls, a client's, an approval, a denial, a failure and a repeat: every step is
    seen, and is right.
    """
    ran: list[str] = []

    def fails(query: str) -> str:
        raise ValueError(query)

    tools = [
        spy("search", ran),
        spy("book", ran, needs_approval=True),
        sr.Tool.from_function(fails, name="fails"),
        sr.Tool.from_json_schema(
            "locate", {"type": "object", "properties": {"query": {"type": "string"}}}
        ),
    ]
    several = [call(name, {"query": name}, name) for name in ("search", "fails", "locate", "book")]
    denied = asking("other", tool="book")
    loop = opened(
        completion(calls=several), denied, asking("search", x="y"), DONE, DONE, tools=tools
    )
    paused = loop.run()
    assert ids(paused) == ["locate", "book"]

    locate, book = paused.pending
    again = loop.run(continuation=paused, results=[locate.answered("here"), book.approved()])
    done = loop.run(continuation=again, results=[again.pending[0].denied("no")])
    more = loop.run("And now?", after=done)
    assert (more.answer, ran) == ("done", ["search", "book", "search"])

    assert {step for step, _, _ in full_walk.steps} == set(PipelineStep) - NOT_IN_A_WALK
    assert len(full_walk.manifests) >= 3


def test_the_proof_finds_what_is_wrong(opened: Opened, full_walk: FullWalk) -> None:
    """A context that breaks a rule between two steps is reported: the proof is not empty."""
    opened(DONE, tools=[]).run()
    step, before, after = full_walk.steps[2]
    full_walk.steps.insert(3, (step, before, replace(after, session=None)))
    full_walk.steps.insert(4, (step, full_walk.steps[3][2], after))
    assert InvokeCode.SESSION_MISSING in {error.code for error in full_walk.errors}
    full_walk.steps.clear()


@pytest.mark.parametrize("id_", ["\ud800", "call_\udfff"])
def test_an_id_that_cannot_be_encoded_is_refused_before_its_tool_runs(
    opened: Opened, id_: str
) -> None:
    """The judge of replies leaves such an id to the rules of a manifest, which are asked before
    anything is run.
    """
    ran: list[str] = []
    loop = opened(asking("q", q=id_), DONE, tools=[spy("search", ran)])

    with pytest.raises(sr.InvokeFailed) as caught:
        loop.run()

    assert (codes(caught.value), caught.value.step, ran) == (
        [InvokeCode.TOOL_CALL_ID_MISSING],
        "LLM_CLIENT",
        [],
    )


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"tool_call_id": "other"}, InvokeCode.ID_MISMATCH),
        ({"name": "other"}, InvokeCode.NAME_MISMATCH),
        ({"result_json": "{"}, InvokeCode.RESULT_NOT_JSON),
        ({"result_json": None}, InvokeCode.MISSING_RESULT_JSON),
        ({"error_message": "no"}, InvokeCode.RESULT_AND_ERROR),
    ],
)
def test_a_result_that_is_none_of_ours_is_judged(changes: dict[str, Any], code: InvokeCode) -> None:
    """A durable turn reads results back from its database: what no ToolRunner makes is held to the
    rules.
    """
    tool = spy("search", [])
    client = sr.wrap(Client(), tools=[tool])
    steps = TurnSteps(
        contract=client.contract_for(model="m", messages=USER),
        policy=sr.LoopPolicy(),
        agent=AgentContext(id="a"),
        model="m",
        new_id=lambda: "i",
    )
    steps.calls = (ToolCall("search", {"query": "q"}, id="c"),)

    flow = steps.run_calls(
        [AgentToolCall(tool_call_id="c", name="search", arguments_json='{"query":"q"}')]
    )
    assert isinstance(next(flow), RunTools)
    result = AgentToolCallResult(tool_call_id="c", name="search", result_json='"r"')

    with pytest.raises(sr.InvokeFailed) as caught:
        flow.send((ToolOutcome(replace(result, **changes)),))

    assert codes(caught.value) == [code]


ENVELOPE = Envelope(
    org="o", user="u", instructions="Well?", messages=({"role": "user", "content": "Well?"},)
)


@pytest.mark.parametrize(
    ("changes", "agent", "answer", "codes_told"),
    [
        ({}, "a", "Yes.", []),
        ({"org": " "}, "a", "Yes.", [InvokeCode.CORE_ORG]),
        ({"user": None}, "a", "Yes.", [InvokeCode.CORE_USER]),
        ({"org": "", "instructions": ""}, "a", "Yes.", [InvokeCode.CORE_ORG]),
        ({"instructions": " "}, "a", "Yes.", [InvokeCode.INPUT_MISSING]),
        ({}, " ", "Yes.", [InvokeCode.AGENT_CONTEXT_MISSING]),
        ({}, "a", " ", [InvokeCode.OUTPUT_TEXT_MISSING]),
    ],
)
def test_the_short_way_finds_what_the_thorough_way_finds(
    changes: dict[str, Any],
    agent: str,
    answer: str,
    codes_told: list[InvokeCode],
    full_walk: FullWalk,
) -> None:
    """A request, an agent or an answer that breaks a rule ends a turn with the same codes, however
    often it is judged.

    Judged at every step, a fault may be found a step earlier: before the body that would have
    passed it on.
    """
    client = sr.wrap(Client(), tools=[spy("search", [])])
    envelope = replace(ENVELOPE, **changes)

    def turn() -> TurnSteps:
        return TurnSteps(
            contract=client.contract_for(model="m", messages=USER),
            policy=sr.LoopPolicy(),
            agent=AgentContext(id=agent),
            model="m",
            new_id=lambda: "i",
        )

    def perform(effect: Any) -> Any:
        if isinstance(effect, AskModel):
            return Asked({"role": "assistant", "content": answer}, sr.DirectAnswer(answer))
        return effect(MemorySessionStore())

    short = drive(
        turn_flow(envelope, turn(), time_stamp="t", correlation_id="c", cancelled=lambda: False),
        perform,
    )
    ctx = AgentPipelineContext(
        type=AgentPipelineContextType.INITIAL, time_stamp="t", correlation_id="c", envelope=envelope
    )
    thorough = drive(
        line_flow(
            ctx, turn().bodies, validator=LOOP_VALIDATOR, cancelled=lambda: False, clock=lambda: 0.0
        ),
        perform,
    )
    assert [[error.code for error in line.errors] for line in (short, thorough)] == [codes_told] * 2

    full_walk.steps.clear()  # of the faulty turns


def test_a_turn_that_claimed_nothing_leaves_the_store_alone() -> None:
    """A turn that fails before it has claimed anything has no effect to perform, and so costs no
    access to a store.
    """
    contract = sr.wrap(Client()).contract_for(model="m", messages=USER)
    agent = AgentContext(id="a")
    steps = TurnSteps(
        contract=contract, policy=sr.LoopPolicy(), agent=agent, model="m", new_id=lambda: "i"
    )
    flow = turn_flow(
        replace(ENVELOPE, org=" "),
        steps,
        time_stamp="t",
        correlation_id="c",
        cancelled=lambda: False,
    )
    assert list(flow) == []


def judged(replies: int) -> int:
    """Return how many rules are asked in a run.

    The run's model calls a tool so often, and then answers.
    """
    ran: list[str] = []
    loop = Loop(
        *(asking(str(number)) for number in range(replies)), DONE, tools=[spy("search", ran)]
    )
    asked = 0

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal asked
        asked += event == "call" and frame.f_code is PipelineRule.judge.__code__

    sys.setprofile(count)

    try:
        loop.run()
    finally:
        sys.setprofile(None)

    assert len(ran) == replies
    return asked


def test_a_turn_judges_each_thing_once() -> None:
    """The request, the agent and the response are judged once a turn; each further reply costs the
    two rules of ids.
    """
    once, twice, seven = map(judged, (1, 2, 7))
    assert twice - once == 2
    assert seven - once == 12
    assert once <= 43
