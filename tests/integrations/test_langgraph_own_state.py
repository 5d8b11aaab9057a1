"""An application's own fields in the state of a run, and what LangGraph gives to a tool.

Nothing of it is shown to a model.
"""

from __future__ import annotations

import asyncio
import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolCallId
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

import strictreply as sr
from strictreply.integrations.langgraph import RunState
from strictreply.testing import ok
from support.integrations.langgraph_runs import (
    CONFIG,
    LAB,
    TEAM,
    Cast,
    Command,
    InMemorySaver,
    agents,
    begin,
    final,
    hand,
    outcome_of,
    spread,
    to_langgraph,
)


class Trip(RunState, total=False):
    """A run's state with three fields of the application."""

    customer: str
    budget: int
    notes: Annotated[list[str], operator.add]


@dataclass
class Office:
    """What LangGraph's ``context=`` holds."""

    city: str


@sr.tool
def whole(
    item: str,
    state: Annotated[dict[str, Any], InjectedState],
    customer: Annotated[str, InjectedState("customer")],
    store: Annotated[BaseStore, InjectedStore()],
    call_id: Annotated[str, InjectedToolCallId],
    config: RunnableConfig,
    runtime: ToolRuntime[Office, Trip],
) -> str:
    """Tell everything that LangGraph gives."""
    kept = store.get(("trips",), "last")
    assert kept is not None
    assert runtime.tool_call_id == call_id
    assert runtime.store is store
    thread = config.get("configurable", {})["thread_id"]
    told = [item, state["budget"], customer, kept.value["to"], thread, runtime.context.city]
    return " ".join(map(str, [*told, runtime.state.get("customer")]))


@sr.tool
async def awhole(item: str, customer: Annotated[str, InjectedState("customer")]) -> str:
    """Tell who asks, awaiting."""
    await asyncio.sleep(0)
    return f"{item} {customer}"


@sr.tool
def spend(amount: int, budget: Annotated[int, InjectedState("budget")]) -> Command[Any]:
    """Spend money."""
    return Command(update={"budget": budget - amount, "notes": [f"spent {amount}"]})


@sr.tool
def send_to(
    agent: str, call_id: Annotated[str, InjectedToolCallId], note: str = ""
) -> Command[Any]:
    """Hand over to an agent."""
    told = {"role": "tool", "content": f"sent to {agent}", "tool_call_id": call_id}
    return Command(goto=agent, update={"notes": [note], "messages": [told]})


SHOWN = sr.Tool.from_json_schema("awhole", {"type": "object"}, extra="schema")
"""What a model might believe of the tool ``awhole``."""
TOOLS = [whole, awhole, spend, send_to]


def run(cast: Cast, topology: Any = TEAM, *, awaited: bool = False, tools: Any = TOOLS) -> Any:
    """Run a team whose state has the application's fields."""
    store = InMemoryStore()
    store.put(("trips",), "last", {"to": "Rome"})
    team = agents(cast, topology, awaited=awaited, tools=tools)
    built = to_langgraph(topology, team, state_schema=Trip, context_schema=Office)
    graph = built.compile(checkpointer=InMemorySaver(), store=store)
    given = {**begin(topology, "Go."), "customer": "Ada", "budget": 100, "notes": ["begun"]}
    if awaited:
        return asyncio.run(graph.ainvoke(given, CONFIG, context=Office("Bern")))
    return graph.invoke(given, CONFIG, context=Office("Bern"))


def results(cast: Cast, agent: str = "lead") -> list[str]:
    """Return the results that an agent was told in its last request."""
    told = cast.models[agent].requests[-1].messages
    return [str(message["content"]) for message in told if message["role"] == "tool"]


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_a2_a_tool_is_given_what_langgraph_has(*, awaited: bool) -> None:
    """State, store, call id, config and runtime are given; the model is shown one parameter."""
    cast = Cast(lead=[ok.call(whole, item="map"), final()])
    run(cast, awaited=awaited)
    assert results(cast) == ["map 100 Ada Rome 1 Bern Ada"]

    shown = cast.models["lead"].requests[0].body["tools"][0]["function"]["parameters"]
    assert list(shown["properties"]) == ["item"]


def test_a2_an_async_tool_is_given_it_too() -> None:
    """Whether a tool is awaited changes nothing about what it is given."""
    cast = Cast(lead=[ok.call(awhole, item="map"), final()])
    run(cast, awaited=True)
    assert results(cast) == ["map Ada"]


def test_a2_a_model_cannot_write_what_is_given() -> None:
    """A call with a value for an injected parameter is refused like any other unknown member."""
    cast = Cast(
        lead=[ok.call(SHOWN, item="map", customer="Eve"), ok.call(awhole, item="map"), final()]
    )
    run(cast, awaited=True)
    assert results(cast) == ["map Ada"]
    assert cast.asked() == {"lead": 3}


def test_a2_a_plain_run_refuses_a_tool_that_only_a_graph_can_run() -> None:
    """Nothing is asked when nobody gives what a tool takes."""
    cast = Cast(lead=[final()])
    client = agents(cast)[0].client
    with pytest.raises(sr.ContractError, match=r"state.*to_langgraph"):
        sr.run(client, "Go.", model="lead", tools=[whole])  # type: ignore[arg-type]
    assert cast.asked() == {"lead": 0}


def test_a2_a_plain_run_leaves_out_what_has_a_default() -> None:
    """A tool that can do without what LangGraph gives runs anywhere."""

    @sr.tool
    def place(item: str, config: RunnableConfig | None = None) -> str:
        """Tell where it runs."""
        return f"{item} {'here' if config is None else 'in a graph'}"

    cast = Cast(lead=[ok.call(place, item="map"), ok.answer("done")])
    client: Any = agents(cast)[0].client
    sr.run(client, "Go.", model="lead", tools=[place])
    assert results(cast) == ["map here"]

    inside = Cast(lead=[ok.call(place, item="map"), final()])
    run(inside, tools=[place])
    assert results(inside) == ["map in a graph"]


def test_a2_a_command_of_a_tool_writes_the_applications_fields() -> None:
    """Its update goes through LangGraph's reducers, and later calls read what was written."""
    calls = ok.calls(ok.call(spend, amount=30), ok.call(spend, amount=5))
    cast = Cast(lead=[calls, final()])
    state = run(cast)
    assert (state["budget"], state["notes"]) == (65, ["begun", "spent 30", "spent 5"])
    assert outcome_of(state)["status"] == "completed"


def test_a2_a_branch_reads_and_writes_them_too() -> None:
    """Parallel branches are given the fields, and what they add is added once."""
    cast = Cast(
        lead=[spread("ann", "cid", ann="a", cid="c"), final()],
        ann=[ok.call(spend, amount=30), hand("lead", "a")],
        cid=[ok.call(send_to, agent="lead", note="cid")],
    )
    state = run(cast, LAB)
    assert state["budget"] == 70
    assert sorted(state["notes"]) == ["begun", "cid", "spent 30"]
    assert outcome_of(state)["status"] == "completed"


def test_a1_a_command_of_a_tool_leads_to_an_agent() -> None:
    """``goto`` hands over when the reply's calls are run; a message of it is the result."""
    calls = ok.calls(ok.call(send_to, agent="reader", note="n"), ok.call(spend, amount=1))
    cast = Cast(lead=[calls, final()], reader=[hand("lead", "read")])
    state = run(cast)
    assert cast.asked() == {"lead": 2, "reader": 1}
    assert results(cast)[0] == "sent to reader"
    assert "lead hands over to you" in cast.told("reader")
    assert (state["budget"], state["notes"]) == (99, ["begun", "n", "spent 1"])


@pytest.mark.parametrize(
    "command",
    [
        Command(goto="stranger"),
        Command(goto="__end__"),
        Command(goto=["reader", "writer"]),
        Command(update={"is_complete": True}),
        Command(update={"threads": {}}),
        Command(update=[("budget", 1)]),
    ],
)
def test_a1_a_command_may_not_go_round_the_guard(command: Command[Any]) -> None:
    """A target without an edge and a field of the run itself raise ContractError."""

    @sr.tool
    def sneak() -> Command[Any]:
        """Try it."""
        return command

    cast = Cast(lead=[ok.call(sneak), final()])
    with pytest.raises(sr.ContractError, match="sneak"):
        run(cast, tools=[sneak])
    assert cast.asked() == {"lead": 1}


@pytest.mark.parametrize("message", [True, False], ids=["ToolMessage", "none"])
def test_a1_a_command_to_a_parent_graph_reaches_it(*, message: bool) -> None:
    """A team that is a node of another graph is left by ``Command(graph=Command.PARENT)``."""

    @sr.tool
    def leave(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Leave the team."""
        told = [ToolMessage("left", tool_call_id=call_id)] if message else []
        assert len(told) <= 1
        return Command(graph=Command.PARENT, goto="outside", update={"customer": "left"})

    cast = Cast(lead=[ok.call(leave), final()])
    team = to_langgraph(TEAM, agents(cast, tools=[leave]), state_schema=Trip).compile()

    def outside(state: Trip) -> dict[str, Any]:
        return {"notes": [f"{state.get('customer')} outside"]}

    parent: Any = StateGraph(Trip)
    parent.add_node("team", team)
    parent.add_node("outside", outside)
    parent.add_edge(START, "team")
    state = parent.compile().invoke(begin(TEAM, "Go."))
    assert (state["customer"], state["notes"], cast.asked()) == (
        "left",
        ["left outside"],
        {"lead": 1},
    )


class Poor(RunState, total=False):
    """A schema that changes a field of the run."""

    threads: list[str]  # type: ignore[misc]


@pytest.mark.parametrize("schema", [Office, Poor, dict])
def test_a2_a_schema_without_the_fields_of_a_run_is_refused(schema: type) -> None:
    """Who adds fields subclasses RunState, and changes none of its own."""
    with pytest.raises(sr.ContractError, match="RunState"):
        to_langgraph(TEAM, agents(Cast(lead=[final()])), state_schema=schema)


@dataclass
class Shop:
    """What a program gives its tools."""

    seen: list[str]


@sr.tool
def stock(shop: sr.Context[Shop], item: str) -> int:
    """Count what is in stock."""
    shop.seen.append(item)
    return len(item)


@sr.tool
async def astock(item: str, *, shop: sr.Context[Shop] | None = None) -> int:
    """Count what is in stock, where there is a shop."""
    if shop is not None:
        shop.seen.append(item)
    return len(item)


def shop_graph(cast: Cast, tool: Any, topology: Any = TEAM) -> Any:
    """Compile a team whose agents all have a tool that takes a shop."""
    team = agents(cast, topology, awaited=tool is astock, tools=[tool])
    return to_langgraph(topology, team).compile(checkpointer=InMemorySaver())


def go(graph: Any, tool: Any, given: Any, **named: Any) -> Any:
    """Run a graph, awaiting where its tool has to be awaited."""
    if tool is astock:
        return asyncio.run(graph.ainvoke(given, CONFIG, **named))
    return graph.invoke(given, CONFIG, **named)


@pytest.mark.parametrize("tool", [stock, astock], ids=["sync", "async"])
def test_tools_get_the_context_of_the_graph(tool: Any) -> None:
    """``sr.Context`` is what ``invoke(…, context=…)`` gives, also in parallel branches."""
    cast = Cast(
        lead=[ok.call(tool, item="mug"), spread("ann", "cid", ann="a", cid="c"), final()],
        ann=[ok.call(tool, item="cup"), hand("lead", "a")],
        cid=[ok.call(tool, item="pot"), hand("lead", "c")],
    )
    shop = Shop([])
    state = go(shop_graph(cast, tool, LAB), tool, begin(LAB, "Go."), context=shop)
    assert outcome_of(state)["status"] == "completed"
    assert sorted(shop.seen) == ["cup", "mug", "pot"]


def test_a_context_is_given_again_when_a_graph_is_resumed() -> None:
    """No checkpoint holds it: each call of the graph brings its own."""

    @sr.tool(needs_approval=True)
    def sell(shop: sr.Context[Shop], item: str) -> str:
        """Sell something."""
        shop.seen.append(item)
        return "sold"

    cast = Cast(lead=[ok.call(sell, item="mug"), final()])
    graph = shop_graph(cast, sell)
    first = Shop([])
    second = Shop([])
    graph.invoke(begin(TEAM, "Go."), CONFIG, context=first)

    with pytest.raises(sr.ContractError, match=r"'sell' needs a context as 'shop'.*context="):
        graph.invoke(Command(resume="approve"), CONFIG)
    state = graph.invoke(Command(resume="approve"), CONFIG, context=second)
    assert (first.seen, second.seen) == ([], ["mug"])
    assert outcome_of(state)["status"] == "completed"


def test_a_graph_without_the_context_asks_nobody() -> None:
    """The first step says what is missing; with it the run goes on. A default needs none."""
    cast = Cast(lead=[hand("reader", "x")], reader=[ok.call(stock, item="mug"), final()])
    graph = shop_graph(cast, stock)
    with pytest.raises(sr.ContractError, match="needs a context"):
        graph.invoke(begin(TEAM, "Go."), CONFIG)
    assert cast.asked() == {"lead": 0, "reader": 0}

    other = Cast(lead=[ok.call(astock, item="mug"), final()])
    state = go(shop_graph(other, astock), astock, begin(TEAM, "Go."))
    assert outcome_of(state)["status"] == "completed"


def test_a_context_schema_makes_the_context() -> None:
    """LangGraph makes an object of the schema, and tools get it."""
    cast = Cast(lead=[ok.call(stock, item="mug"), final()])
    team = agents(cast, tools=[stock])
    graph = to_langgraph(TEAM, team, context_schema=Shop).compile()
    seen: list[str] = []
    graph.invoke(begin(TEAM, "Go."), context={"seen": seen})
    assert seen == ["mug"]
