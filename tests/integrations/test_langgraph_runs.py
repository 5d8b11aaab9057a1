"""A topology runs on LangGraph.

Each reply is judged and routed by us, tools run on right replies, humans interrupt.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from xml_format import XMLResponseFormat

import strictreply as sr
from strictreply import Category
from strictreply.coordination import (
    Activity,
    ErrorPolicy,
    HumanDecision,
    HumanKind,
    JSONResponseFormat,
    RunMetrics,
    StateError,
    Topology,
    ValidationProcessor,
    ValidationResult,
)
from strictreply.coordination.formats import ActionFormat
from strictreply.coordination.state import pending_requests
from strictreply.integrations.langgraph import ChatAgent, RunState, executable_calls, node_of
from strictreply.testing import Step, faults, ok
from support.integrations.langgraph_runs import (
    CONFIG,
    NONSENSE,
    ONE_RETRY,
    TEAM,
    Cast,
    Command,
    InMemorySaver,
    act,
    add,
    agents,
    begin,
    final,
    graph,
    hand,
    outcome_of,
    run,
    to_langgraph,
)


def values(state: Any) -> Any:
    """Return every value inside a state."""
    yield state
    children = (
        state.values() if isinstance(state, dict) else state if isinstance(state, list) else ()
    )
    for child in children:
        yield from values(child)


def test_a_hand_over_carries_its_request_and_a_final_response_ends_the_run() -> None:
    """The next agent is asked what the reply says, and the answer is the outcome and a message of
    the conversation.
    """
    cast = Cast(lead=[hand("writer", {"topic": "tea"})], writer=[final({"text": "Tea."})])
    state = run(cast)
    assert cast.told("writer") == 'From lead: {"topic":"tea"}'
    assert outcome_of(state) == {
        "agent": "writer",
        "status": "completed",
        "reason": "final",
        "content": {"text": "Tea."},
        "error": None,
        "pending_human_input": False,
    }

    assert [message["role"] for message in state["messages"]] == ["user", "assistant"]
    assert (state["is_complete"], state["loop_count"]) == (True, 2)


def test_an_agent_is_told_exactly_what_it_may_do() -> None:
    """Its system prompt names its actions and partners, and no other agent of the topology."""
    cast = Cast(lead=[hand("reader", "x")], reader=[hand("lead", "y")])
    cast.models["lead"].script(hand("reader", "x"), final())
    run(cast)
    system = cast.models["reader"].requests[0].messages[0]
    assert system["role"] == "system"
    assert "lead" in system["content"]
    assert "writer" not in system["content"]


def test_a_reply_is_corrected_by_the_core_loop_before_anything_follows_from_it() -> None:
    """Neither the bad reply nor the correction stays in the thread."""
    cast = Cast(lead=[NONSENSE, hand("stranger"), final()])
    state = run(cast, policy=ErrorPolicy())
    assert cast.asked() == {"lead": 3}
    assert [turn["role"] for turn in state["threads"]["lead"]] == ["user", "assistant"]
    assert outcome_of(state)["status"] == "completed"


@pytest.mark.parametrize("written", ["native", "text"])
def test_tools_run_and_their_results_go_back_to_the_agent(written: str) -> None:
    """Calls run in order, whether they were made natively or as an action; then the same agent is
    asked again.
    """
    calls = [
        {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": "add", "arguments": f'{{"a": {n}, "b": 1}}'},
        }
        for n in (1, 2)
    ]
    native = ok.calls(ok.call(add, a=1, b=1), ok.call(add, a=2, b=1))
    cast = Cast(
        lead=[native if written == "native" else act("call_tool", tool_calls=calls), final()]
    )
    state = run(cast)
    thread = state["threads"]["lead"]
    assert [turn["role"] for turn in thread] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [turn["content"] for turn in thread[2:4]] == ["2", "3"]
    assert [turn["tool_call_id"] for turn in thread[2:4]] == [
        call["id"] for call in thread[1]["tool_calls"]
    ]

    assert state["loop_count"] == 3


def test_no_tool_runs_while_one_call_of_the_reply_is_wrong() -> None:
    """A reply runs whole or not at all."""
    ran: list[int] = []

    @sr.tool
    def note(number: int) -> str:
        """Note a number."""
        ran.append(number)
        return "noted"

    wrong = act(
        "call_tool",
        tool_calls=[
            {
                "id": "1",
                "type": "function",
                "function": {"name": "note", "arguments": '{"number": 1}'},
            },
            {
                "id": "2",
                "type": "function",
                "function": {"name": "note", "arguments": '{"number": "two"}'},
            },
        ],
    )
    cast = Cast(lead=[wrong, wrong])
    team = agents(cast, tools=[note])
    state = to_langgraph(TEAM, team, policy=ONE_RETRY).compile().invoke(begin(TEAM, "Go."))
    assert (ran, outcome_of(state)["status"]) == ([], "failed")


@pytest.mark.req("M118")
def test_executing_an_invalid_result_raises() -> None:
    """A verdict that is not valid, or calls nothing, is never run; nor is a state that was changed
    behind our back.
    """
    for result in (ValidationResult(is_valid=False), ValidationResult(is_valid=True)):
        with pytest.raises(StateError):
            executable_calls(result)

    forged = {
        "id": "1",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a": "one", "b": 2}'},
    }
    turn = {"role": "assistant", "content": None, "tool_calls": [forged]}
    state: Any = begin(TEAM, "Go.") | {
        "next_agent": "tools",
        "calling": {"agent": "lead", "turn": turn},
    }

    with pytest.raises(StateError) as raised:
        graph(Cast(lead=[])).invoke(state)

    assert raised.value.issues[0].path.endswith("/arguments/a")


def test_a_tool_that_raises_is_brought_to_the_user_and_leaves_no_half_turn() -> None:
    """The error policy escalates tool errors; ``retry`` asks the agent again as if it had not
    called.
    """

    @sr.tool
    def fail(what: str) -> str:
        """Fail."""
        raise RuntimeError(what)

    cast = Cast(lead=[ok.call(fail, what="SECRET"), final()])
    compiled = to_langgraph(TEAM, agents(cast, tools=[fail]), policy=ONE_RETRY).compile(
        checkpointer=InMemorySaver()
    )
    asked = compiled.invoke(begin(TEAM, "Go."), CONFIG)["__interrupt__"][0].value
    assert asked["kind"] == "error"

    assert "SECRET" not in asked["question"]
    state = compiled.invoke(Command(resume="retry"), CONFIG)
    assert outcome_of(state)["status"] == "completed"
    assert [turn["role"] for turn in state["threads"]["lead"]] == ["user", "assistant"]


def test_a_question_to_the_user_interrupts_and_the_answer_reaches_the_agent() -> None:
    """The interrupt tells the decisions; the question and the answer are messages; nobody is asked
    twice.
    """
    cast = Cast(lead=[act("ask_user", question="Do you agree?"), final()])
    team = agents(cast, asks=HumanKind.PLAN_APPROVAL)
    compiled = to_langgraph(TEAM, team, policy=ONE_RETRY).compile(checkpointer=InMemorySaver())
    paused = compiled.invoke(begin(TEAM, "Plan."), CONFIG)
    (interrupt,) = paused["__interrupt__"]
    assert interrupt.value["question"] == "Do you agree?"

    assert interrupt.value["decisions"] == ["approve", "feedback", "revise"]
    assert len(pending_requests(compiled.get_state(CONFIG).values)) == 1
    state = compiled.invoke(Command(resume="approve"), CONFIG)
    assert cast.asked() == {"lead": 2}

    assert "approve" in cast.told("lead")
    assert [message["content"] for message in state["messages"]] == [
        "Plan.",
        "Do you agree?",
        "approve",
        "done",
    ]

    assert (pending_requests(state), state["human_requests"][0]["decision"]) == ((), "approve")


def test_an_application_adds_words_of_its_own() -> None:
    """``words`` are further answers, taken as whole texts like the built-in ones."""
    cast = Cast(lead=[faults.rate_limited(), final()])
    compiled = graph(cast, saver=InMemorySaver(), words={"otra vez": HumanDecision.RETRY})
    compiled.invoke(begin(TEAM, "Go."), CONFIG)
    assert outcome_of(compiled.invoke(Command(resume="Otra vez"), CONFIG))["status"] == "completed"


def test_a_processor_with_checks_of_the_application_is_heard() -> None:
    """An action that its check refuses is corrected by the client's loop, and never followed."""
    processor = ValidationProcessor(TEAM)
    processor.register_action_validator("final_response", lambda action, _: _refuse(action))
    cast = Cast(lead=[final("maybe"), final("surely")])
    assert outcome_of(run(cast, processor=processor))["content"] == "surely"


def _refuse(action: Any) -> None:
    """Refuse an answer that is none."""
    if action["content"] == "maybe":
        raise ValueError("say yes or no")


ERRORS: list[tuple[str, str, str]] = [
    ("retry", "completed", "final"),
    ("skip", "skipped", "human_skip"),
    ("abort", "aborted", "aborted"),
]


@pytest.mark.parametrize(("answer", "status", "reason"), ERRORS)
def test_a_failed_call_is_brought_to_the_user_who_decides(
    answer: str, status: str, reason: str
) -> None:
    """An answer that decides nothing has the question put again; retry, skip and abort do what they
    say.
    """
    down = faults.rate_limited()
    cast = Cast(lead=[down, final()])
    compiled = graph(cast, saver=InMemorySaver())
    first = compiled.invoke(begin(TEAM, "Go."), CONFIG)["__interrupt__"][0].value

    again = compiled.invoke(Command(resume="do not abort, please"), CONFIG)["__interrupt__"][
        0
    ].value
    assert (first["kind"], again["id"]) == ("error", first["id"])
    state = compiled.invoke(Command(resume=answer), CONFIG)
    assert (outcome_of(state)["status"], outcome_of(state)["reason"]) == (status, reason)


def test_skipping_goes_on_with_the_agent_that_was_named_for_it() -> None:
    """``skip_to`` follows an edge of the agent that failed."""
    cast = Cast(lead=[faults.rate_limited()], writer=[final()], reader=[])
    lead, *others = agents(cast)
    team = [replace(lead, skip_to="writer"), *others]
    compiled = to_langgraph(TEAM, team, policy=ONE_RETRY).compile(checkpointer=InMemorySaver())
    compiled.invoke(begin(TEAM, "Go."), CONFIG)
    assert outcome_of(compiled.invoke(Command(resume="skip"), CONFIG))["agent"] == "writer"


def test_an_error_that_an_agent_reports_is_brought_to_the_user() -> None:
    """``error_recovery`` over an edge to the user is an interrupt like one of the system's own."""
    reported = act(
        "error_recovery",
        error_details={"type": "quota", "message": "no credits"},
        suggested_action="retry",
    )
    compiled = graph(Cast(lead=[reported, final()]), saver=InMemorySaver())
    asked = compiled.invoke(begin(TEAM, "Go."), CONFIG)["__interrupt__"][0].value
    assert (asked["kind"], "no credits" in asked["question"]) == ("error", True)

    assert outcome_of(compiled.invoke(Command(resume="retry"), CONFIG))["status"] == "completed"


def test_a_reply_that_stays_wrong_fails_the_run_by_the_policy() -> None:
    """The budget is the policy's, and the outcome names the reason."""
    cast = Cast(lead=[NONSENSE, NONSENSE])
    outcome = outcome_of(run(cast))
    assert (outcome["status"], outcome["reason"], cast.asked()) == (
        "failed",
        "retries_spent",
        {"lead": 2},
    )


def test_the_policy_may_bring_it_to_the_user_instead() -> None:
    """Reactions are a table of the application's."""
    policy = ErrorPolicy(reactions={Category.FORMAT_ERROR: "escalate"}, budget=ONE_RETRY.budget)  # type: ignore[dict-item]
    compiled = graph(Cast(lead=[NONSENSE, final()]), saver=InMemorySaver(), policy=policy)
    assert compiled.invoke(begin(TEAM, "Go."), CONFIG)["__interrupt__"][0].value["kind"] == "error"
    assert outcome_of(compiled.invoke(Command(resume="retry"), CONFIG))["status"] == "completed"


def test_the_loop_limit_ends_a_run_that_hands_over_for_ever() -> None:
    """The reason is the route's, and limit + 1 nodes were executed."""
    cast = Cast(lead=[hand("reader", "x")] * 9, reader=[hand("lead", "y")] * 9)
    metrics = RunMetrics()
    state = run(cast, max_loop_count=4, max_turns=99, metrics=metrics)
    assert (outcome_of(state)["reason"], sum(cast.asked().values())) == ("loop_limit", 5)
    assert metrics.snapshot().tally(Activity.NODE_EXECUTIONS).total == 5


@pytest.mark.req("R35", "R40")
@pytest.mark.parametrize("awaited", [False, True])
def test_what_a_run_does_is_counted(awaited: bool) -> None:
    """Every request to a model under its name, the corrections too, every call under its tool's,
    and every route.
    """

    @sr.tool
    def fail(what: str) -> str:
        """Fail."""
        raise RuntimeError(what)

    call = ok.calls(ok.call(add, a=1, b=1), ok.call(add, a=2, b=1))
    cast = Cast(lead=[NONSENSE, call, hand("writer", "w")], writer=[ok.call(fail, what="x")])
    metrics = RunMetrics()
    team = agents(cast, awaited=awaited, tools=[add, fail])
    compiled = to_langgraph(TEAM, team, policy=ONE_RETRY, metrics=metrics).compile(
        checkpointer=InMemorySaver()
    )
    asyncio.run(compiled.ainvoke(begin(TEAM, "Go."), CONFIG)) if awaited else compiled.invoke(
        begin(TEAM, "Go."), CONFIG
    )

    counted = metrics.snapshot()
    assert {key: (tally.total, tally.succeeded) for key, tally in counted.by_name.items()} == {
        (Activity.NODE_EXECUTIONS, node_of("lead")): (2, 2),
        (Activity.NODE_EXECUTIONS, node_of("writer")): (1, 1),
        (Activity.NODE_EXECUTIONS, "tools"): (2, 2),
        (Activity.NODE_EXECUTIONS, "human_input"): (1, 0),  # it waits
        (Activity.LLM_CALLS, "lead"): (3, 2),
        (Activity.LLM_CALLS, "writer"): (1, 1),
        (Activity.TOOL_EXECUTIONS, "add"): (2, 2),
        (Activity.TOOL_EXECUTIONS, "fail"): (1, 0),
    }

    assert sum(counted.targets.values()) == sum(counted.reasons.values()) == counted.routes == 6


def test_an_agent_without_tools_of_its_own_has_those_of_the_processor() -> None:
    """None is what the processor says of the agent, an empty list is none: the call is refused."""
    for own, status in ((None, "completed"), ((), "failed")):
        cast = Cast(
            lead=[ok.call(add, a=1, b=1), final()] if own is None else [ok.call(add, a=1, b=1)] * 2
        )
        team = agents(cast) if own is None else agents(cast, tools=own)
        processor = ValidationProcessor(TEAM, tools={"lead": [add]})
        state = (
            to_langgraph(TEAM, team, processor=processor, policy=ONE_RETRY)
            .compile()
            .invoke(begin(TEAM, "Go."))
        )
        assert outcome_of(state)["status"] == status


def test_two_that_talk_in_turns_are_ended_by_max_turns() -> None:
    """Turns are counted by the router, from the first hand-over between the two."""
    cast = Cast(lead=[hand("reader", "x")] * 9, reader=[hand("lead", "y")] * 9)
    state = run(cast, max_turns=3, max_loop_count=50)
    assert (outcome_of(state)["reason"], sum(cast.asked().values())) == ("max_turns", 4)
    assert outcome_of(state)["status"] == "failed"


def test_one_of_them_may_end_the_conversation() -> None:
    """``end_conversation`` is permitted in a conversation only."""
    cast = Cast(lead=[hand("reader", "x")], reader=[act("end_conversation")])
    assert outcome_of(run(cast))["reason"] == "conversation_ended"


def test_a_run_is_awaited_alike() -> None:
    """Async clients and async tools: the same state comes out."""

    @sr.tool
    async def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    cast = Cast(
        lead=[ok.call(double, number=4), act("ask_user", question="?"), hand("writer", "w")],
        writer=[final()],
    )
    team = agents(cast, awaited=True, tools=[double])
    compiled = to_langgraph(TEAM, team, policy=ONE_RETRY).compile(checkpointer=InMemorySaver())

    async def story() -> Any:
        """Run to the question, and from the answer to the end."""
        await compiled.ainvoke(begin(TEAM, "Go."), CONFIG)
        return await compiled.ainvoke(Command(resume="yes"), CONFIG)

    state = asyncio.run(story())
    assert state["threads"]["lead"][2]["content"] == "8"
    assert outcome_of(state)["status"] == "completed"


def test_failures_are_brought_to_the_user_of_an_awaited_run_alike() -> None:
    """A call that failed and a tool that raised are two questions, one after the other."""

    @sr.tool
    async def fail(what: str) -> str:
        """Fail."""
        raise RuntimeError(what)

    cast = Cast(lead=[faults.rate_limited(), ok.call(fail, what="x"), final()])
    team = agents(cast, awaited=True, tools=[fail])
    compiled = to_langgraph(TEAM, team, policy=ONE_RETRY).compile(checkpointer=InMemorySaver())

    async def story() -> list[Any]:
        """Ask for another try, twice."""
        given: tuple[Any, ...] = (
            begin(TEAM, "Go."),
            Command(resume="retry"),
            Command(resume="retry"),
        )
        return [await compiled.ainvoke(one, CONFIG) for one in given]

    *asked, state = asyncio.run(story())
    assert [one["__interrupt__"][0].value["kind"] for one in asked] == ["error", "error"]
    assert (outcome_of(state)["status"], cast.asked()) == ("completed", {"lead": 3})


def test_sync_clients_may_be_awaited_too() -> None:
    """They are asked from a thread."""
    cast = Cast(lead=[ok.call(add, a=1, b=1), hand("writer", "w")], writer=[final()])
    assert outcome_of(asyncio.run(graph(cast).ainvoke(begin(TEAM, "Go."))))["status"] == "completed"


def test_an_async_tool_in_a_sync_run_is_refused_before_any_tool_runs() -> None:
    """The declaration is at fault, so it is a ContractError, and not an error for the user."""

    @sr.tool
    async def later(number: int) -> int:
        """Wait."""
        return number

    cast = Cast(lead=[ok.call(later, number=4)])
    with pytest.raises(sr.ContractError):
        to_langgraph(TEAM, agents(cast, tools=[later])).compile().invoke(begin(TEAM, "Go."))


@pytest.mark.parametrize(
    "step", [final(), hand("writer", [1, {"a": None}]), act("ask_user", question="?")]
)
def test_a_state_is_plain_json(step: Step) -> None:
    """Reading it needs no class: only dicts, lists, text, numbers, booleans and None."""
    state = run(Cast(lead=[ok.call(add, a=1, b=1), step], writer=[final()]), saver=InMemorySaver())
    state.pop("__interrupt__", None)
    assert {type(value) for value in values(state)} <= {
        dict,
        list,
        str,
        int,
        float,
        bool,
        type(None),
    }

    assert json.loads(json.dumps(state)) == state


def test_a_conversation_goes_on_with_what_was_said() -> None:
    """A second run of the same conversation counts anew, and its agents remember."""
    cast = Cast(lead=[final("one"), final("two")])
    compiled = graph(cast, saver=InMemorySaver())
    compiled.invoke(begin(TEAM, "First."), CONFIG)
    before: RunState = compiled.get_state(CONFIG).values
    state = compiled.invoke(begin(TEAM, "Second.", state=before), CONFIG)
    assert (outcome_of(state)["content"], state["loop_count"]) == ("two", 1)

    assert [turn["role"] for turn in state["threads"]["lead"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]


@pytest.mark.parametrize(
    "response_format", [JSONResponseFormat(), XMLResponseFormat()], ids=["json", "xml"]
)
def test_agents_reply_in_the_format_of_the_graph(response_format: ActionFormat) -> None:
    """Prompt, contract, correction and verdict follow the format; the thread keeps the reply as it
    was written.
    """
    spelled = response_format.spell({"next_action": "final_response", "content": "done"})
    cast = Cast(lead=[NONSENSE, ok.answer(spelled)])
    state = run(cast, response_format=response_format)
    assert outcome_of(state)["content"] == "done"
    assert state["threads"]["lead"][-1]["content"] == spelled
    assert response_format.rule() in cast.models["lead"].requests[0].messages[0]["content"]


def test_a_declaration_that_does_not_hold_together_is_refused() -> None:
    """Agents must be those of the topology, their clients wrapped, and the entry clear."""
    team = agents(Cast())
    for wrong in (team[:-1], [*team, team[0]]):
        with pytest.raises(sr.ContractError):
            to_langgraph(TEAM, wrong)

    with pytest.raises(sr.ContractError):
        ChatAgent(name="lead", client=object(), request={})  # type: ignore[arg-type]

    two = Topology.of({"a": ["End"], "b": ["End"]})
    for entry in (None, "stranger"):
        with pytest.raises(sr.ContractError):
            begin(two, "Go.", entry=entry)

    assert begin(two, "Go.", entry="b")["next_agent"] == node_of("b")
