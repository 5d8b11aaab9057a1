"""Questions to humans: refused answers and waiting.

Some questions outlive the run or the branch that asked them.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import strictreply as sr
from strictreply.coordination import (
    HumanDecision,
    HumanKind,
    Topology,
    clear_human_input_request,
    give_human_feedback,
    request_human_input,
)
from strictreply.coordination.state import pending_requests
from strictreply.integrations.langgraph import ChatAgent
from strictreply.testing import Step, faults
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
    ONE_RETRY,
    TEAM,
    Cast,
    Command,
    InMemorySaver,
    act,
    agents,
    begin,
    final,
    graph,
    hand,
    outcome_of,
    spread,
    to_langgraph,
)

ASK = act("ask_user", question="Sure?")


def said(state: Any, agent: str) -> list[str]:
    """Return the messages that an agent received in the run, without its own turns."""
    return [turn["content"] for turn in state["threads"].get(agent, []) if turn["role"] == "user"]


def asked_of(state: Any) -> list[str]:
    """Return the ids of the questions that interrupt a run."""
    return [one.value["id"] for one in state["__interrupt__"]]


def decisions(state: Any) -> list[str | None]:
    """Return the decision on each request in a ledger, None for one that is pending."""
    return [entry.get("decision") for entry in state["human_requests"]]


def planning(cast: Cast) -> Any:
    """Compile a graph in which a question is about a plan."""
    team = agents(cast, asks=HumanKind.PLAN_APPROVAL)
    return to_langgraph(TEAM, team, policy=ONE_RETRY).compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("entry", ["lead", "writer"])
@pytest.mark.parametrize(
    ("first", "answer"),
    [(ASK, "yes"), *((faults.rate_limited(), word) for word in ("retry", "skip", "abort"))],
)
def test_a_question_of_an_earlier_run_is_asked_first_and_then_the_new_message_is_worked_on(
    first: Step, answer: str, entry: str
) -> None:
    """Whatever is answered, the entry of the new run follows; who asked is told, an abort settles
    the question only.
    """
    cast = Cast(
        **{"lead": [first], "writer": []}
        | {entry: [final("new")] if entry == "writer" else [first, final("new")]}
    )
    compiled = graph(cast, saver=InMemorySaver())
    compiled.invoke(begin(TEAM, "First."), CONFIG)
    before = compiled.get_state(CONFIG).values
    paused = compiled.invoke(begin(TEAM, "Second.", entry=entry, state=before), CONFIG)
    assert asked_of(paused) == [before["human_requests"][0]["id"]]

    state = compiled.invoke(Command(resume=answer), CONFIG)
    assert {key: outcome_of(state)[key] for key in ("agent", "status", "content")} == {
        "agent": entry,
        "status": "completed",
        "content": "new",
    }

    assert decisions(state) == ["feedback" if answer == "yes" else answer]
    assert "Second." in said(state, entry)
    assert any(answer in words for words in said(state, "lead")) == (answer != "abort")
    assert sum(cast.asked().values()) == 2


@pytest.mark.req("R27")
def test_a_question_waits_for_as_many_runs_as_it_takes() -> None:
    """It is carried from state to state, in another thread too, and put in each run until it is
    answered.
    """
    cast = Cast(lead=[ASK, final()])
    compiled = graph(cast, saver=InMemorySaver())
    state: Any = compiled.invoke(begin(TEAM, "First."), CONFIG)
    other: Any = None

    for number in range(3):
        other = {"configurable": {"thread_id": f"another {number}"}}
        paused = compiled.invoke(begin(TEAM, f"Message {number}.", state=state), other)
        assert asked_of(paused) == asked_of(state)
        state = paused

    state = compiled.invoke(Command(resume="yes"), other)
    assert (pending_requests(state), outcome_of(state)["status"]) == ((), "completed")
    assert [words for words in said(state, "lead") if words.startswith("Message")] == [
        f"Message {n}." for n in range(3)
    ]


@pytest.mark.req("R28")
def test_an_answer_may_come_with_the_state() -> None:
    """Without a checkpointer the flag pauses the run, and the application resumes it by the state
    alone.
    """
    cast = Cast(lead=[ASK, final()])
    cut: Any = graph(cast).invoke(begin(TEAM, "Go.", max_loop_count=0))
    state = give_human_feedback(json.loads(json.dumps(cut)) | {"max_loop_count": 9}, "by all means")
    state = graph(cast).invoke(state)
    assert (decisions(state), outcome_of(state)["status"], cast.asked()) == (
        ["feedback"],
        "completed",
        {"lead": 2},
    )

    assert "by all means" in said(state, "lead")[-1]


def test_a_run_inside_branches_is_not_begun_anew() -> None:
    """Branches' questions stand in their own states: a new run would lose them, and is refused."""
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final(), final()],
        ann=[ASK, hand("lead")],
        bob=[final()],
    )
    compiled = graph(cast, LAB, saver=InMemorySaver())
    paused: Any = compiled.invoke(begin(LAB, "Go."), CONFIG)
    for state in (paused, compiled.get_state(CONFIG).values):
        with pytest.raises(sr.ContractError):
            begin(LAB, "And now?", state=state)

    ended = compiled.invoke(Command(resume="yes"), CONFIG)
    assert (
        outcome_of(compiled.invoke(begin(LAB, "And now?", state=ended), CONFIG))["status"]
        == "completed"
    )


GENERAL = HumanKind.GENERAL
ERROR = HumanKind.ERROR
STACKED: list[tuple[str, list[tuple[HumanKind, str | None, str]]]] = [
    ("writer", [(GENERAL, None, "yes")] * 4),
    ("reader", [(GENERAL, "reader", "yes"), *[(GENERAL, None, "yes")] * 3]),
    ("writer", [(GENERAL, "reader", "yes"), (GENERAL, "writer", "yes")]),
    ("reader", [(ERROR, "reader", "retry"), (GENERAL, None, "yes")]),
    ("writer", [(GENERAL, "reader", "yes"), (ERROR, None, "retry")]),
]


@pytest.mark.req("R18", "R24", "R29")
@pytest.mark.parametrize(("goes_on", "questions"), STACKED)
def test_v16_stacked_questions_return_to_the_right_agent(
    goes_on: str, questions: list[tuple[HumanKind, str | None, str]]
) -> None:
    """The application asks before a run that begins at the writer: no question takes another's
    target away.
    """
    cast = Cast(reader=[], writer=[], lead=[final()])
    cast.models[goes_on].script(final() if goes_on == "writer" else hand("lead", "r"))
    state: Any = begin(TEAM, "Go.", entry="writer")

    for kind, resume, _ in questions:
        state = request_human_input(state, kind=kind, resume_to=resume)

    compiled = graph(cast, saver=InMemorySaver(), max_loop_count=20)
    state = compiled.invoke(state, CONFIG)

    for _, _, answer in questions:
        assert len(asked_of(state)) == 1
        state = compiled.invoke(Command(resume=answer), CONFIG)

    assert (pending_requests(state), outcome_of(state)["status"]) == ((), "completed")
    assert cast.asked() == {"reader": 0, "writer": 0} | {goes_on: 1} | {
        "lead": int(goes_on == "reader")
    }


BAD = [{"decision": "approve"}, ["approve"], 1, True, 0.5]


@pytest.mark.parametrize("answer", BAD, ids=str)
def test_an_answer_that_is_no_text_is_refused_and_the_run_waits_on(answer: Any) -> None:
    """It is a ContractError, however often; the next answer that is text is heard, and no agent was
    asked meanwhile.
    """
    cast = Cast(lead=[ASK, final()])
    compiled = planning(cast)
    paused = compiled.invoke(begin(TEAM, "Plan."), CONFIG)
    for resumed in (answer, {paused["__interrupt__"][0].id: answer}, answer):
        with pytest.raises(sr.ContractError):
            compiled.invoke(Command(resume=resumed), CONFIG)

    assert [
        request.id for request in pending_requests(compiled.get_state(CONFIG).values)
    ] == asked_of(paused)
    state = compiled.invoke(Command(resume="approve"), CONFIG)
    assert (decisions(state), outcome_of(state)["status"], cast.asked()) == (
        ["approve"],
        "completed",
        {"lead": 2},
    )

    assert [message["content"] for message in state["messages"]] == [
        "Plan.",
        "Sure?",
        "approve",
        "done",
    ]


@pytest.mark.parametrize("answer", ["abort", "Retry", " skip ", "more"])
def test_the_name_of_another_kinds_decision_is_no_feedback(answer: str) -> None:
    """Who answers ``abort`` to a plan is told what may be answered; the question stays, and costs
    nothing.
    """
    cast = Cast(lead=[ASK, final()])
    compiled = planning(cast)
    compiled.invoke(begin(TEAM, "Plan."), CONFIG)
    with pytest.raises(sr.ContractError):
        compiled.invoke(Command(resume=answer), CONFIG)
    state = compiled.invoke(Command(resume="I would rather abort"), CONFIG)
    assert (decisions(state), state["loop_count"]) == (["feedback"], 3)


def test_a_refused_answer_in_a_branch_harms_no_other() -> None:
    """Both questions stay, and are answered together; no model is asked anew for it."""
    cast = Cast(
        lead=[spread("ann", "bob", ann="a", bob="b"), final()],
        ann=[ASK, hand("lead", "ann")],
        bob=[faults.rate_limited(), final("bob")],
    )
    compiled = graph(cast, LAB, saver=InMemorySaver(), max_loop_count=20)
    paused = compiled.invoke(begin(LAB, "Go."), CONFIG)
    by_kind = {one.value["kind"]: one.id for one in paused["__interrupt__"]}

    with pytest.raises(sr.ContractError):
        compiled.invoke(Command(resume={by_kind["general"]: 5}), CONFIG)

    assert cast.asked() == {"lead": 1, "ann": 1, "bob": 1}
    state = compiled.invoke(
        Command(resume={by_kind["error"]: "retry", by_kind["general"]: "yes"}), CONFIG
    )
    assert sorted(map(str, decisions(state))) == ["feedback", "retry"]
    assert cast.asked() == {"lead": 2, "ann": 2, "bob": 2}


def test_an_awaited_run_refuses_alike() -> None:
    """The same answers, the same errors, the same end."""
    cast = Cast(lead=[ASK, final()])
    team = agents(cast, awaited=True, asks=HumanKind.PLAN_APPROVAL)
    compiled = to_langgraph(TEAM, team, policy=ONE_RETRY).compile(checkpointer=InMemorySaver())

    async def story() -> Any:
        """Send two invalid answers, then a valid one."""
        await compiled.ainvoke(begin(TEAM, "Plan."), CONFIG)
        for answer in (5, "abort"):
            with pytest.raises(sr.ContractError):
                await compiled.ainvoke(Command(resume=answer), CONFIG)
        return await compiled.ainvoke(Command(resume="approve"), CONFIG)

    assert decisions(asyncio.run(story())) == ["approve"]


@pytest.mark.parametrize("answer", ["", "  ", "do not abort", "hm"])
def test_waiting_costs_nothing_of_the_loop_bound(answer: str) -> None:
    """However often nothing is decided, the question is the same, and the human's turn is one
    execution.
    """
    cast = Cast(lead=[faults.rate_limited(), final()])
    compiled = graph(cast, saver=InMemorySaver(), max_loop_count=2)
    paused = compiled.invoke(begin(TEAM, "Go."), CONFIG)

    for _ in range(8):
        again = compiled.invoke(Command(resume=answer), CONFIG)
        assert asked_of(again) == asked_of(paused)

    state = compiled.invoke(Command(resume="retry"), CONFIG)
    assert (outcome_of(state)["status"], state["loop_count"]) == ("completed", 3)
    asked = [turn["content"] for turn in state["messages"] if turn["role"] == "user"]
    assert asked == ["Go.", *[answer] * (8 if answer.strip() else 0), "retry"]


@pytest.mark.req("R13")
def test_a_question_that_the_limit_cuts_off_stands_in_the_outcome() -> None:
    """The outcome says that a human is still to be asked, and a run that goes on from the state
    asks them.
    """
    cast = Cast(lead=[ASK, final()])
    compiled = graph(cast, saver=InMemorySaver())
    cut: Any = compiled.invoke(begin(TEAM, "Go.", max_loop_count=0), CONFIG)
    told = outcome_of(cut)
    assert (told["status"], told["reason"], told["pending_human_input"]) == (
        "failed",
        "loop_limit",
        True,
    )

    paused = compiled.invoke(begin(TEAM, "And now?", state=cut | {"max_loop_count": 9}), CONFIG)
    assert asked_of(paused) == [cut["human_requests"][0]["id"]]
    state = compiled.invoke(Command(resume="yes"), CONFIG)
    assert (outcome_of(state)["status"], outcome_of(state)["pending_human_input"]) == (
        "completed",
        False,
    )


@pytest.mark.parametrize(
    ("left", "answer", "status"),
    [
        (ASK, "by all means", "completed"),
        (faults.rate_limited(), "retry", "completed"),
        (faults.rate_limited(), "skip", "completed"),
        (faults.rate_limited(), "abort", "aborted"),
    ],
)
def test_a_question_that_a_branch_left_is_answered_to_the_agent_that_opened_it(
    left: Step, answer: str, status: str
) -> None:
    """The branch is over: its agent is not asked on another line; only an abort decides, for it is
    the same run.
    """
    cast = Cast(lead=[spread("bob", "ann", ann="a", bob="b"), final()], ann=[left], bob=[final()])
    compiled = graph(cast, LAB, saver=InMemorySaver(), max_loop_count=5)
    paused = compiled.invoke(begin(LAB, "Go."), CONFIG)
    (branch,) = [one for one in paused["outcomes"].values() if one["pending_human_input"]]
    assert (branch["status"], branch["reason"]) == ("failed", "loop_limit")

    state = compiled.invoke(Command(resume=answer), CONFIG)
    assert (outcome_of(state)["status"], len(decisions(state))) == (status, 1)
    assert cast.asked() == {"lead": 1 if answer == "abort" else 2, "ann": 1, "bob": 1}
    assert set(state["threads"]) == {"lead"}

    assert answer == "abort" or answer in said(state, "lead")[-1]


def test_words_of_one_kind_of_question_do_no_harm_to_another() -> None:
    """An application's word for ``retry`` is plain text under a question that knows no such
    decision.
    """
    cast = Cast(lead=[ASK, faults.rate_limited(), final()])
    compiled = graph(cast, saver=InMemorySaver(), words={"otra vez": HumanDecision.RETRY})
    given: list[Any] = [begin(TEAM, "Go."), Command(resume="otra vez"), Command(resume="otra vez")]
    *_, state = (compiled.invoke(one, CONFIG) for one in given)
    assert sorted(map(str, decisions(state))) == ["feedback", "retry"]


def test_a_run_that_goes_on_takes_nothing_that_only_a_first_run_has() -> None:
    """Keywords beside ``state`` are refused rather than dropped."""
    state = begin(TEAM, "Go.", max_loop_count=3)
    assert state["max_loop_count"] == 3
    for initial in ({"max_loop_count": 4}, {"user_profile": {"user_id": "u"}}):
        with pytest.raises(sr.ContractError):
            begin(TEAM, "Go.", state=state, **initial)


@pytest.mark.parametrize("keyword", ["messages", "contract", "policy", "steering"])
def test_a_request_holds_nothing_that_the_run_says_itself(keyword: str) -> None:
    """A keyword that would be overridden silently is refused when the agent is declared."""
    client: Any = agents(Cast())[0].client
    with pytest.raises(sr.ContractError):
        ChatAgent(name="lead", client=client, request={"model": "lead", keyword: None})


@pytest.mark.req("R16")
def test_each_run_of_a_conversation_has_its_turns_and_its_bound() -> None:
    """Two that talk in turns begin at no turns again, and the count at 0: the second run is as long
    as the first.
    """
    cast = Cast(lead=[hand("reader", "x")] * 9, reader=[hand("lead", "y")] * 9)
    compiled = graph(cast, saver=InMemorySaver(), max_turns=3, max_loop_count=50)
    first: Any = compiled.invoke(begin(TEAM, "Go."), CONFIG)
    second: Any = compiled.invoke(begin(TEAM, "Again.", state=first), CONFIG)
    assert [outcome_of(state)["reason"] for state in (first, second)] == ["max_turns", "max_turns"]

    assert (first["loop_count"], second["loop_count"], sum(cast.asked().values())) == (4, 4, 8)
    bounded = Topology.of({"a": ["b"], "b": ["c"], "c": ["a", "End"]}, entry="a")
    circle = Cast(a=[hand("b")] * 9, b=[hand("c")] * 9, c=[hand("a")] * 9)
    state: Any = None

    for number in (1, 2):
        given = (
            begin(bounded, "Go.", state=state) if state else begin(bounded, "Go.", max_loop_count=3)
        )
        state = graph(circle, bounded).invoke(given)
        assert (state["loop_count"], sum(circle.asked().values())) == (4, 4 * number)


@pytest.mark.req("R18")
@pytest.mark.parametrize(
    ("ends", "goes_on"),
    [
        (["cancel"] * 4, "writer"),
        (["yes", "cancel", "cancel", "cancel"], "reader"),
        (["expire", "yes", "cancel"], "reader"),
        (["cancel", "expire", "yes"], "writer"),
    ],
)
def test_v16_stacked_questions_are_cancelled_and_expire_in_a_run_that_waits(
    ends: list[str], goes_on: str
) -> None:
    """The application takes questions back while the run is interrupted; the run goes on where the
    others lead.
    """
    cast = Cast(reader=[], writer=[], lead=[final()])
    cast.models[goes_on].script(final() if goes_on == "writer" else hand("lead", "r"))
    state: Any = begin(TEAM, "Go.", entry="writer")

    for resume in ("reader", *[None] * (len(ends) - 1)):
        state = request_human_input(state, resume_to=resume)

    compiled = graph(cast, saver=InMemorySaver(), max_loop_count=20)
    compiled.invoke(state, CONFIG)

    for how in ends:
        if how == "yes":
            state = compiled.invoke(Command(resume=how), CONFIG)
            continue

        kept = compiled.get_state(CONFIG).values
        expired = pending_requests(kept)[-1].id if how == "expire" else None
        compiled.update_state(
            CONFIG, clear_human_input_request(kept, request_id=expired), as_node="human_input"
        )
        state = compiled.invoke(None, CONFIG)

    assert (pending_requests(state), outcome_of(state)["status"]) == ((), "completed")
    assert cast.asked() == {"reader": 0, "writer": 0} | {goes_on: 1} | {
        "lead": int(goes_on == "reader")
    }
