"""The signals of a framework pass through a run, wherever in it code of the program raises them.

A person who is asked by an interrupt, or a task that is to be retried, is no failure of a tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")

import langgraph.errors
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, interrupt
from typing_extensions import TypedDict

import strictreply as sr
from strictreply.testing import AsyncScriptedClient, ScriptedClient, ScriptedModel, ok
from support.loop.loops import DONE, Loop, Opened, asking

SIGNALS: dict[str, Callable[[], GraphBubbleUp]] = {
    "GraphInterrupt": lambda: GraphInterrupt([Interrupt(value="sure?", id="1")]),
    "NodeInterrupt": lambda: vars(langgraph.errors)["NodeInterrupt"]("sure?", "1"),
    "ParentCommand": lambda: ParentCommand(Command(graph=Command.PARENT, goto="other")),
    "GraphBubbleUp": GraphBubbleUp,
    "of the program": type("OwnSignal", (GraphBubbleUp,), {}),
}


def raising(kind: str, *, is_async: bool) -> sr.Tool:
    """Return a tool that raises a signal for the query ``stop``."""

    def search(query: str) -> str:
        """Search."""
        signal = SIGNALS[kind]()
        if query == "stop":
            raise signal
        return query

    async def asearch(query: str) -> str:
        """Search, awaiting."""
        await asyncio.sleep(0)
        return search(query)

    return sr.Tool.from_function(asearch if is_async else search, name="search")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("queries", [("stop",), ("go", "stop")], ids=["alone", "beside another"])
@pytest.mark.parametrize("kind", SIGNALS)
def test_a_signal_that_a_tool_raises_comes_out_of_the_run(
    opened: Opened, kind: str, queries: tuple[str, ...]
) -> None:
    """It is raised as it is, and the model is told nothing: it is asked once."""
    loop = opened(asking(*queries), DONE, tools=[raising(kind, is_async=False)])
    with pytest.raises(GraphBubbleUp) as caught:
        loop.run()

    assert type(caught.value) is type(SIGNALS[kind]())
    assert loop.asks == 1


@pytest.mark.parametrize("queries", [("a",), ("a", "b")], ids=["alone", "beside another"])
def test_a_command_that_a_tool_returns_is_no_result(
    opened: Opened, queries: tuple[str, ...]
) -> None:
    """One for the graph around the run goes there; any other is refused, and not told the model."""

    def running(result: Any) -> Loop:
        def search(query: str) -> Any:
            """Search."""
            return result if query == queries[-1] else query

        return opened(asking(*queries), DONE, tools=[sr.Tool.from_function(search)])

    out = running(Command(graph=Command.PARENT, goto="other"))
    with pytest.raises(ParentCommand) as caught:
        out.run()
    assert (caught.value.args[0].goto, out.asks) == ("other", 1)

    for inside in (Command(goto="other"), [Command(goto="other")], [1, Command(update={})]):
        loop = running(inside)
        with pytest.raises(sr.ContractError, match=r"search.*Command"):
            loop.run()
        assert loop.asks == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("queries", [("stop",), ("go", "stop")], ids=["alone", "beside another"])
@pytest.mark.parametrize("kind", SIGNALS)
def test_a_signal_that_is_raised_behind_an_await_comes_out(
    kind: str, queries: tuple[str, ...]
) -> None:
    """An async tool's signals pass like a sync one's."""
    tools = [raising(kind, is_async=True)]
    loop = Loop(asking(*queries), DONE, tools=tools, asynchronous=True)
    with pytest.raises(GraphBubbleUp) as caught:
        loop.run()

    assert type(caught.value) is type(SIGNALS[kind]())
    assert loop.asks == 1


def test_a_signal_in_a_group_comes_out(opened: Opened) -> None:
    """What a TaskGroup gathers hides no signal; an AbortRun beside it ends the run."""
    errors: list[Exception] = [
        ExceptionGroup("inner", [KeyError("x"), SIGNALS["GraphInterrupt"]()])
    ]

    def search(query: str) -> str:
        """Search, with several tasks."""
        raise ExceptionGroup("tasks", errors)

    loop = opened(asking("a"), DONE, tools=[sr.Tool.from_function(search)])
    with pytest.raises(GraphInterrupt):
        loop.run()
    assert loop.asks == 1

    errors.append(sr.AbortRun("closed"))
    loop = opened(asking("a"), DONE, tools=[sr.Tool.from_function(search)])
    with pytest.raises(sr.AbortRun, match="closed"):
        loop.run()
    assert loop.asks == 1


def test_a_signal_that_a_check_raises_comes_out(opened: Opened) -> None:
    """A check that asks a person is no step that failed."""

    def search(query: str) -> str:
        """Search."""
        return query

    def ask(args: Any) -> None:
        """Ask a person about the arguments."""
        raise GraphInterrupt([Interrupt(value=args, id="1")])

    loop = opened(asking("a"), DONE, tools=[sr.Tool.from_function(search, check=ask)])
    with pytest.raises(GraphInterrupt):
        loop.run()
    assert loop.asks == 1


class Notes(TypedDict):
    """The state of a program's own graph."""

    said: str


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_run_inside_a_node_waits_for_a_person(*, asynchronous: bool) -> None:
    """``interrupt`` in a tool interrupts the graph whose node runs the loop, and its answer is what
    the tool goes on with.
    """

    @sr.tool
    def book(hotel: str) -> str:
        """Book a hotel, after a person agreed."""
        return f"{hotel}: {interrupt(f'book {hotel}?')}"

    # the node is run again from its beginning, as LangGraph does it
    model = ScriptedModel(*[ok.call(book, hotel="Ritz")] * 2, ok.answer("booked"))

    def sync_node(_: Notes) -> Notes:
        client = sr.wrap(ScriptedClient(model), tools=[book])
        return {"said": str(sr.run(client, "Book it.", model="m").transcript[-2]["content"])}

    async def async_node(_: Notes) -> Notes:
        client = sr.wrap(AsyncScriptedClient(model), tools=[book])
        run = await sr.arun(client, "Book it.", model="m")
        return {"said": str(run.transcript[-2]["content"])}

    builder = StateGraph(Notes)
    node: Any = async_node if asynchronous else sync_node
    builder.add_node("travel", node)
    builder.add_edge(START, "travel")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}

    def go(given: Any) -> Any:
        if asynchronous:
            return asyncio.run(graph.ainvoke(given, config))
        return graph.invoke(given, config)

    asked = go({"said": ""})
    assert [one.value for one in asked["__interrupt__"]] == ["book Ritz?"]
    assert go(Command(resume="yes"))["said"] == "Ritz: yes"
    model.assert_spent()


def test_a_person_may_be_asked_by_an_interrupt_for_a_correction(opened: Opened) -> None:
    """``ask_human`` of a policy may interrupt a graph."""

    def ask(context: sr.CorrectionContext) -> str:
        """Ask."""
        raise GraphInterrupt([Interrupt(value=context.tier, id="1")])

    policy = sr.RetryPolicy(max_retries=9, ask_human=ask)
    tool = raising("GraphInterrupt", is_async=False)
    loop = opened(*[asking("a", tool="other")] * 9, tools=[tool], policy=policy)
    with pytest.raises(GraphInterrupt):
        loop.run()
