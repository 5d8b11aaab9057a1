"""What a graph is built with reaches every ask of it.

That is the processor, limits, routes, steering and counters.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from xml_format import XMLResponseFormat

import strictreply as sr
from strictreply import Category, ContractError, Limits, RetryPolicy
from strictreply.coordination import (
    AgentSteering,
    ContentLoopGuard,
    CycleLimit,
    ErrorPolicy,
    JSONResponseFormat,
    Reaction,
    ResponseProcessor,
    RouteRule,
    Routes,
    RouteStrategy,
    Topology,
    ValidationMetrics,
    ValidationProcessor,
)
from strictreply.coordination.formats import TextResponseProcessor
from strictreply.coordination.metrics import ValidationCounts
from strictreply.coordination.validation import ActionSteering
from strictreply.integrations.langgraph import node_of
from strictreply.testing import ok
from support.integrations.langgraph_runs import (
    CONFIG,
    NONSENSE,
    ONE_RETRY,
    TEAM,
    Cast,
    Command,
    InMemorySaver,
    add,
    agents,
    begin,
    final,
    graph,
    hand,
    outcome_of,
    run,
    spread,
    to_langgraph,
)

PAIR = Topology.of({"lead": ["reader", "User"], "reader": ["lead"]}, entry="lead")
THREE_RETRIES = ErrorPolicy(budget=RetryPolicy(max_retries=3, transport_retries=0))
XML = XMLResponseFormat()


def processor(
    topology: Topology = TEAM, written: Any = "json", **settings: Any
) -> ValidationProcessor:
    """Make the processor of a topology whose agents can add."""
    return ValidationProcessor(topology, written, **{"tools": [add], **settings})


class Word(ResponseProcessor):
    """Reads one word of the application's own models."""

    def can_process(self, response: Any) -> bool:
        """Know the word."""
        return bool(response == "DONE")

    def process(self, response: Any) -> dict[str, Any] | None:
        """Translate it."""
        return {"next_action": "final_response", "content": response.lower()}

    def priority(self) -> int:
        """Rank above JSON."""
        return 85


def short(action: dict[str, Any], permitted: Any) -> None:
    """Refuse long answers."""
    if len(action["content"]) > 5:
        raise ValueError("too long")


def reasons(state: Any) -> list[str]:
    """Return the reason of each hop."""
    return [entry["reason"] for entry in state["routing_history"]]


@pytest.mark.req("M1", "M58")
def test_a_client_s_loop_is_held_to_the_processor() -> None:
    """Processors, leniencies and action validators of the application's decide while the model can
    still be asked.
    """
    made = processor(extraction="fenced")
    made.register_processor(Word())
    made.register_action_validator("final_response", short)
    cast = Cast(lead=[ok.answer("DONE")])
    assert outcome_of(run(cast, processor=made))["content"] == "done"

    fenced = ok.answer(
        f"```json\n{json.dumps({'next_action': 'final_response', 'content': 'fence'})}\n```"
    )
    assert outcome_of(run(Cast(lead=[fenced]), processor=made))["content"] == "fence"
    corrected = Cast(lead=[final("elephants"), final("brief")])
    assert outcome_of(run(corrected, processor=made))["content"] == "brief"

    assert corrected.asked() == {"lead": 2}


@pytest.mark.req("M8", "M118")
def test_checks_of_native_calls_are_the_processor_s_too() -> None:
    """An action validator of ``call_tool`` sees native calls in the client's own loop: what it
    refuses never runs.
    """
    ran: list[int] = []

    @sr.tool(name="add")
    def counted(a: int, b: int) -> int:
        """Add two numbers."""
        ran.append(a)
        return a + b

    def small(action: dict[str, Any], permitted: Any) -> None:
        """Refuse big numbers."""
        if json.loads(action["tool_calls"][0]["function"]["arguments"])["a"] > 9:
            raise ValueError("too big")

    made = ValidationProcessor(PAIR, tools=[counted])
    made.register_action_validator("call_tool", small)
    cast = Cast(lead=[ok.call(counted, a=10, b=1), ok.call(counted, a=1, b=1), final()])
    team = agents(cast, PAIR)
    state = (
        to_langgraph(PAIR, team, processor=made, policy=ONE_RETRY)
        .compile()
        .invoke(begin(PAIR, "Go."))
    )
    assert (outcome_of(state)["status"], ran, cast.asked()) == ("completed", [1], {"lead": 3})


def test_the_format_is_the_processor_s() -> None:
    """Prompts, corrections and verdicts are in the format that the processor reads; no second one
    is named.
    """
    made = processor(written=XML)
    cast = Cast(
        lead=[
            ok.answer("prose"),
            ok.answer(XML.spell({"next_action": "final_response", "content": "x"})),
        ]
    )
    assert outcome_of(run(cast, processor=made))["content"] == "x"
    first, second = cast.models["lead"].requests
    assert "<next_action>" in first.messages[0]["content"]

    assert "XML" in second.messages[-1]["content"]
    assert "response_format" not in first.body

    for same in (XML, XMLResponseFormat()):
        to_langgraph(TEAM, agents(cast), processor=made, response_format=same)


@pytest.mark.parametrize(
    ("made", "written"),
    [
        (processor(PAIR), None),
        (processor(), XML),
        (processor(written=XML), "json"),
        (processor(), JSONResponseFormat(extra="allow")),
    ],
)
def test_a_processor_that_does_not_fit_is_refused(made: ValidationProcessor, written: Any) -> None:
    """Another topology, or another format beside the processor's, would be judged by in one place
    of two.
    """
    with pytest.raises(ContractError):
        to_langgraph(TEAM, agents(Cast()), processor=made, response_format=written)


def test_the_caps_of_a_reply_are_the_processor_s() -> None:
    """A reply beyond them is refused in the client's own loop, before it is read on."""
    cast = Cast(lead=[final("x" * 300), final("brief")])
    state = run(cast, processor=processor(limits=Limits(reply_bytes=200)))
    assert (outcome_of(state)["content"], cast.asked()) == ("brief", {"lead": 2})


@pytest.mark.req("M114")
@pytest.mark.parametrize("awaited", [False, True])
def test_every_attempt_of_a_run_is_counted_once(awaited: bool) -> None:
    """Bad, bad, good: 3, 1, 2, 2, 2; a hand-over and the calls of tools are judged again and not
    counted again.
    """
    metrics = ValidationMetrics()
    cast = Cast(
        lead=[NONSENSE, hand("stranger"), hand("reader", "go"), final()],
        reader=[ok.call(add, a=1, b=2), hand("lead", "3")],
    )
    compiled = to_langgraph(
        TEAM,
        agents(cast, awaited=awaited),
        processor=processor(metrics=metrics),
        policy=THREE_RETRIES,
    ).compile()
    state = (
        asyncio.run(compiled.ainvoke(begin(TEAM, "Go.")))
        if awaited
        else compiled.invoke(begin(TEAM, "Go."))
    )

    snapshot = metrics.snapshot()
    assert outcome_of(state)["status"] == "completed"
    assert snapshot.by_agent == {
        "lead": ValidationCounts(4, 2, 2, 2, 2),
        "reader": ValidationCounts(2, 2, 0, 0, 0),
    }

    assert [(row.agent, row.action) for row in snapshot.history if row.valid] == [
        ("lead", "invoke_agent"),
        ("reader", "call_tool"),
        ("reader", "invoke_agent"),
        ("lead", "final_response"),
    ]


@pytest.mark.req("M114", "M120")
def test_an_agent_that_is_never_right_is_counted_and_named() -> None:
    """Of an ask that fails each reply is counted, and the counters name the fault that it always
    has.
    """
    metrics = ValidationMetrics()
    state = run(Cast(lead=[hand("stranger")] * 9), processor=processor(metrics=metrics))
    assert outcome_of(state)["status"] == "failed"
    assert metrics.snapshot().totals == ValidationCounts(2, 0, 2, 1, 1)
    assert metrics.snapshot().main_fault("lead") == "topology.not_allowed"


@pytest.mark.req("M119")
def test_a_locked_format_is_a_conversation_s_and_an_agent_s() -> None:
    """An agent that began in JSON is corrected when it turns to XML; in another conversation it may
    begin in XML.
    """
    made = processor(lock_format=True)
    made.register_processor(XML.create_processor())
    done = {"next_action": "final_response", "content": "x"}
    as_xml = ok.answer(XML.spell(done))
    cast = Cast(
        lead=[hand("reader", "go"), as_xml, final("json"), as_xml],
        reader=[ok.answer(XML.spell({"next_action": "invoke_agent", "action_input": "lead"}))],
    )
    compiled = to_langgraph(TEAM, agents(cast), processor=made, policy=ONE_RETRY).compile(
        checkpointer=InMemorySaver()
    )
    first = compiled.invoke(begin(TEAM, "Go."), CONFIG)
    assert (outcome_of(first)["content"], first["reply_formats"]) == (
        "json",
        {"lead": "json", "reader": "xml"},
    )

    other = compiled.invoke(begin(TEAM, "Go."), {"configurable": {"thread_id": "2"}})
    assert (outcome_of(other)["content"], other["reply_formats"]) == ("x", {"lead": "xml"})
    again = Cast(lead=[as_xml, final("still json")])
    resumed = to_langgraph(TEAM, agents(again), processor=made, policy=ONE_RETRY).compile()
    went_on = resumed.invoke(begin(TEAM, "And then?", state=first))
    assert (outcome_of(went_on)["content"], again.asked()) == ("still json", {"lead": 2})


CALLS = [ok.call(add, a=number, b=1) for number in range(20)]


@pytest.mark.req("R34")
@pytest.mark.parametrize(
    ("argument", "own", "configured", "environment", "expected"),
    [
        (3, 5, 6, "7", 3),
        (0, 5, 6, "7", 0),
        (None, 5, 6, "7", 5),
        (None, None, 6, "7", 6),
        (None, None, None, "7", 7),
        (None, None, None, None, 10),
    ],
)
def test_the_limit_of_the_call_goes_before_the_others(
    argument: int | None,
    own: int | None,
    configured: int | None,
    environment: str | None,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Argument, state, configuration, environment, 10: in this order, in the route as in what is
    recorded.
    """
    monkeypatch.delenv("STRICTREPLY_MAX_LOOP_COUNT", raising=False)

    if environment is not None:
        monkeypatch.setenv("STRICTREPLY_MAX_LOOP_COUNT", environment)

    made = graph(
        Cast(lead=CALLS), PAIR, max_loop_count=argument, routes=Routes(max_loop_count=configured)
    )
    state = made.invoke(begin(PAIR, "Go.", max_loop_count=own))
    assert (state["loop_count"], reasons(state)[-1]) == (expected + 1, "loop_limit")
    assert outcome_of(state)["reason"] == "loop_limit"

    assert state.get("max_loop_count") == own


@pytest.mark.parametrize("limit", [-1, True, 1.5, "3"])
def test_a_limit_is_a_count(limit: Any) -> None:
    """Anything else is refused before a graph is built."""
    with pytest.raises(ContractError):
        to_langgraph(TEAM, agents(Cast()), max_loop_count=limit)


ADD = ok.call(add, a=1, b=2)
OTHERWISE_SPELT = ok.answer(
    {
        "next_action": "call_tool",
        "tool_calls": [
            {
                "id": "other",
                "type": "function",
                "function": {"name": "add", "arguments": '{"b": 2,   "a": 1}'},
            }
        ],
    }
)


@pytest.mark.req("R39", "M120")
@pytest.mark.parametrize(
    ("lead", "reader", "loop"),
    [
        ([ADD] * 20, [], True),
        ([ADD, OTHERWISE_SPELT, ADD, OTHERWISE_SPELT, ADD], [], True),
        ([*CALLS[:8], final()], [], False),
        ([ADD, CALLS[3], ADD, CALLS[4], ADD, final()], [], False),
        ([hand("reader", "go")] * 20, [hand("lead", "back")] * 20, True),
        (
            [*(hand("reader", f"go {n}") for n in range(4)), final()],
            [hand("lead", f"{n}") for n in range(4)],
            False,
        ),
    ],
    ids=[
        "same call",
        "other spelling",
        "other arguments",
        "others between",
        "same requests",
        "other requests",
    ],
)
def test_the_same_work_again_and_again_is_a_loop(
    lead: list[Any], reader: list[Any], loop: bool
) -> None:
    """Calls are compared with their arguments, hand-overs with their requests; nodes may come again
    as they like.
    """
    cast = Cast(lead=lead, reader=reader)
    state = run(cast, PAIR, max_loop_count=30, max_turns=30)
    assert (outcome_of(state)["status"], "loop_detected" in reasons(state)) == (
        ("failed", True) if loop else ("completed", False)
    )
    if loop:
        assert outcome_of(state)["reason"] == "loop_detected"
        assert state["loop_count"] < 10


@pytest.mark.req("R39")
def test_the_same_branches_again_and_again_are_a_loop() -> None:
    """Parallel hand-overs are compared by their agents and requests, not by the ids they get."""
    cast = Cast(
        lead=[spread("reader", "writer", reader="x", writer="y")] * 9,
        reader=[hand("lead", "r")] * 9,
        writer=[hand("lead", "w")] * 9,
    )
    state = run(cast, max_loop_count=60)
    assert outcome_of(state)["reason"] == "loop_detected"


@pytest.mark.parametrize(
    ("cycle", "reason"), [(None, "loop_limit"), (CycleLimit(repeats=2), "loop_detected")]
)
def test_the_limit_on_circles_can_be_set(cycle: CycleLimit | None, reason: str) -> None:
    """None permits any circle within the loop bound; a stricter one ends it earlier."""
    cast = Cast(lead=[ADD] * 20)
    state = run(cast, PAIR, max_loop_count=12, routes=Routes(cycle=cycle))
    assert outcome_of(state)["reason"] == reason
    assert (state["loop_count"] > 9) is (cycle is None)


def to_reader(state: Mapping[str, Any]) -> str | None:
    """Lead to the reader whenever the lead is next, once."""
    been = any(entry["to"] == node_of("reader") for entry in state["routing_history"])
    return None if been or state["next_agent"] != node_of("lead") else node_of("reader")


def always(node: str) -> Callable[[Mapping[str, Any]], str | None]:
    """Make a condition that chooses one node."""
    return lambda _state: node


@pytest.mark.req("R37")
def test_rules_of_the_application_s_choose_by_their_priority() -> None:
    """A rule before the built-in one redirects a run; a rule that raises, or names no agent, is
    passed over.
    """
    cast = Cast(lead=[final()], reader=[hand("lead", "read")])
    wrong = (
        RouteRule("raises", 160, lambda state: str(state["nothing"])),
        *(
            RouteRule(f"to {node}", 155, always(node))
            for node in ("tools", "join", "branch", "human_input", "lead")
        ),
    )
    state = run(cast, PAIR, routes=Routes(rules=(*wrong, RouteRule("read first", 150, to_reader))))
    assert outcome_of(state)["status"] == "completed"

    assert cast.asked() == {"reader": 1, "lead": 1}


@pytest.mark.req("R38")
@pytest.mark.parametrize(("weights", "reads"), [((0, 100), 1), ((100, 0), 0)])
def test_strategies_share_the_conversations(weights: tuple[int, int], reads: int) -> None:
    """The rules of a conversation's strategy hold for it: with a weight of 0 never, with all of it
    always.
    """
    arms = (
        RouteStrategy("plain", weights[0]),
        RouteStrategy("read first", weights[1], (RouteRule("read", 150, to_reader),)),
    )
    cast = Cast(lead=[final()], reader=[hand("lead", "read")])
    run(cast, PAIR, routes=Routes(strategies=arms))
    assert cast.asked() == {"lead": 1, "reader": reads}


def test_the_nodes_are_the_topology_s() -> None:
    """A table with nodes of its own is refused."""
    with pytest.raises(ContractError):
        to_langgraph(TEAM, agents(Cast()), routes=Routes(nodes=("lead", "human_input", "end")))


@pytest.mark.req("M73")
@pytest.mark.parametrize(
    ("mode", "first", "asked"),
    [("error", False, 2), ("auto", False, 2), ("always", True, 2), ("never", False, 1)],
)
def test_the_mode_of_steering_is_the_graph_s(mode: str, first: bool, asked: int) -> None:
    """``always`` speaks after the first prompt, too; ``never`` corrects nothing at all."""
    speaking = AgentSteering(mode)
    cast = Cast(lead=[NONSENSE, final()])
    state = run(cast, steering=speaking)
    plain = Cast(lead=[NONSENSE, final()])
    run(plain)

    prompts = [one.models["lead"].requests[0].messages[0]["content"] for one in (cast, plain)]
    assert prompts[0].startswith(prompts[1])
    assert (len(prompts[0]) > len(prompts[1])) is first
    assert cast.asked() == {"lead": asked}

    assert outcome_of(state)["status"] == ("completed" if asked == 2 else "failed")
    assert (
        speaking.stats().total_injections == {"error": 1, "auto": 1, "always": 2, "never": 0}[mode]
    )


def test_the_words_of_steering_may_be_the_application_s() -> None:
    """An object with ``correction`` says what is wrong; nothing stands behind the prompt then."""

    class Polite:
        """Words of one's own."""

        def correction(self, context: Any) -> str:
            """Return a correction that names the first fault."""
            return f"Please mind {context.issues[0].code}."

    cast = Cast(lead=[NONSENSE, final()])
    run(cast, steering=Polite())
    assert cast.told("lead") == "Please mind json.syntax."
    ours = Cast(lead=[NONSENSE, final()])
    run(ours, steering=ActionSteering())

    assert "next_action" in ours.told("lead")

    with pytest.raises(ContractError):
        to_langgraph(TEAM, agents(Cast()), steering="always")  # type: ignore[arg-type]


ESCALATING = ErrorPolicy(
    budget=RetryPolicy(max_retries=1, transport_retries=0),
    reactions={Category.FORMAT_ERROR: Reaction.ESCALATE},
)


@pytest.mark.req("M78")
@pytest.mark.parametrize("limit", [3, 5, 10])
def test_an_agent_that_only_talks_is_not_asked_beyond_the_limit(limit: int) -> None:
    """Its replies of words alone are counted over all asks; at the limit the line fails without
    another ask.
    """
    cast = Cast(lead=[NONSENSE] * 30)
    guard = ContentLoopGuard(hard_limit=limit)
    compiled = graph(
        cast, saver=InMemorySaver(), policy=ESCALATING, content_limit=guard, max_loop_count=60
    )
    state = compiled.invoke(begin(TEAM, "Go."), CONFIG)
    while state.get("__interrupt__"):
        state = compiled.invoke(Command(resume="retry"), CONFIG)

    assert cast.asked() == {"lead": limit}
    outcome = outcome_of(state)
    assert (outcome["status"], outcome["reason"]) == ("failed", "content_loop")
    assert state["content_streaks"]["lead"] == {"count": limit, "snippet": "Let me think about it."}

    steered = [len(request.messages[0]["content"]) for request in cast.models["lead"].requests]
    assert steered[2] > steered[0]  # from the threshold on it is told what it may do


@pytest.mark.req("M78")
def test_an_action_ends_a_streak() -> None:
    """Below the limit an agent is asked; an action, and a try at one, begin a new count."""
    cast = Cast(lead=[NONSENSE, hand("stranger"), NONSENSE, NONSENSE, ADD, final()])
    guard = ContentLoopGuard(hard_limit=3)
    budget = RetryPolicy(max_retries=2, transport_retries=0)
    policy = ErrorPolicy(budget=budget, reactions={Category.FORMAT_ERROR: Reaction.ESCALATE})
    compiled = graph(cast, PAIR, saver=InMemorySaver(), content_limit=guard, policy=policy)
    asked = compiled.invoke(begin(PAIR, "Go."), CONFIG)

    for count in (1, 1, 2):  # the try at a hand-over, between the first two, began a new one
        assert asked["content_streaks"] == {
            "lead": {"count": count, "snippet": "Let me think about it."}
        }
        asked = compiled.invoke(Command(resume="retry"), CONFIG)

    state = asked
    assert (outcome_of(state)["status"], cast.asked()) == ("completed", {"lead": 6})
    assert state["content_streaks"] == {"lead": {"count": 0, "snippet": ""}}


@pytest.mark.req("M57")
def test_prose_is_an_answer_where_the_processor_reads_it() -> None:
    """With the text processor registered, words alone are the final response, at once."""
    made = processor()
    made.register_processor(TextResponseProcessor())
    cast = Cast(lead=[NONSENSE])
    assert outcome_of(run(cast, processor=made))["content"] == "Let me think about it."
    assert cast.asked() == {"lead": 1}
