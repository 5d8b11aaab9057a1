"""Tools that note what was run, in a graph that is run sync or async.

Some of them ask a person, with an interrupt of their own or because they need approval.
"""

from __future__ import annotations

import asyncio
from typing import Any

from langgraph.types import interrupt

import strictreply as sr
from strictreply.coordination import Topology
from strictreply.integrations.langgraph import to_langgraph
from support.integrations.langgraph_runs import CONFIG, TEAM, Cast, agents


class Desk:
    """Tools that note what was run, and a graph over them, sync or async behind one face."""

    def __init__(self, *, awaited: bool) -> None:
        """Note nothing yet."""
        self.awaited = awaited
        self.ran: list[str] = []

        def look(item: str) -> str:
            """Look something up."""
            self.ran.append(f"look {item}")
            return f"{item} is there"

        def book(hotel: str) -> str:
            """Book a hotel, after a person agreed."""
            answer = interrupt(f"book {hotel}?")
            self.ran.append(f"book {hotel}")
            return f"{hotel}: {answer}"

        def pay(order: int) -> str:
            """Pay an order."""
            self.ran.append(f"pay {order}")
            return f"paid {order}"

        async def alook(item: str) -> str:
            """Look something up."""
            return look(item)

        async def abook(hotel: str) -> str:
            """Book a hotel, after a person agreed."""
            return book(hotel)

        async def apay(order: int) -> str:
            """Pay an order."""
            return pay(order)

        made = sr.Tool.from_function
        self.look = made(alook if awaited else look, name="look")
        self.book = made(abook if awaited else book, name="book")
        self.pay = made(apay if awaited else pay, name="pay", needs_approval=True)

    def graph(self, cast: Cast, saver: Any, topology: Topology = TEAM) -> Any:
        """Compile the graph of a team whose agents all have these tools."""
        team = agents(cast, topology, awaited=self.awaited, tools=[self.look, self.book, self.pay])
        return to_langgraph(topology, team).compile(checkpointer=saver)

    def go(self, graph: Any, given: Any) -> Any:
        """Begin or resume a run."""
        if self.awaited:
            return asyncio.run(graph.ainvoke(given, CONFIG))
        return graph.invoke(given, CONFIG)


def values(state: Any) -> list[Any]:
    """Return what the interrupts of a run ask."""
    return [one.value for one in state.get("__interrupt__", ())]


def results(cast: Cast, agent: str = "lead") -> list[str]:
    """Return the results that an agent was told in its last request."""
    told = cast.models[agent].requests[-1].messages
    return [str(message["content"]) for message in told if message["role"] == "tool"]
