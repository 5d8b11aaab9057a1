"""The public examples of langgraph-supervisor and langgraph-swarm beside the same teams of ours.

Each team is asked the same, and the models of both say the same: the same agents answer in the same
order, the same tools run, and the user is told the same. It runs on the lane of the frameworks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("langgraph_supervisor", reason="these stand on the lane of the frameworks")
pytest.importorskip("langgraph_swarm", reason="these stand on the lane of the frameworks")

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm
from openai import OpenAI
from pydantic import SecretStr

import strictreply as sr
from strictreply.coordination import Topology
from strictreply.core import JSON, JSONObject
from strictreply.integrations.langgraph import ChatAgent, begin, outcome_of, to_langgraph
from strictreply.testing import HTTPReply, Step, ok
from support.integrations.langgraph_runs import CONFIG, Cast, final, hand

FACTS = "Employees in 2024: Meta 67,317; Apple 164,000."
QUESTION = "How many people work at Meta and Apple?"


class Talk(Cast):
    """A cast that notes in which order its agents are asked."""

    def __init__(self, **scripts: list[Step]) -> None:
        """Nobody was asked yet."""
        super().__init__(**scripts)
        self.order: list[str] = []

    def __call__(self, body: JSONObject) -> JSON | HTTPReply:
        """Note who is asked, and serve its next step."""
        self.order.append(body["model"])
        return super().__call__(body)


@dataclass
class Told:
    """What a team did: who was asked in which order, which tools ran, what the user was told."""

    order: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


class Shelf:
    """The tools of both examples, which note their calls."""

    def __init__(self) -> None:
        """No tool was run yet."""
        self.ran: list[str] = []

    def add(self, a: float, b: float) -> float:
        """Add two numbers."""
        self.ran.append(f"add {a:g} {b:g}")
        return a + b

    def search(self, query: str) -> str:
        """Search the web."""
        self.ran.append(f"search {query}")
        return FACTS

    def tools(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return them as functions, which is what both libraries take."""

        def add(a: float, b: float) -> float:
            """Add two numbers."""
            return self.add(a, b)

        def search(query: str) -> str:
            """Search the web."""
            return self.search(query)

        return add, search


ADD = sr.Tool.from_function(Shelf().tools()[0], name="add")
SEARCH = sr.Tool.from_function(Shelf().tools()[1], name="search")


def transfer(agent: str) -> Step:
    """Hand over as the tools of both libraries do it."""
    return ok.call(sr.Tool.from_json_schema(f"transfer_to_{agent}", {"type": "object"}))


def theirs(name: str, url: str) -> ChatOpenAI:
    """Return the model of one of their agents."""
    return ChatOpenAI(model=name, base_url=url, api_key=SecretStr("k"))


def their_supervisor() -> Told:
    """Run the example of langgraph-supervisor."""
    talk = Talk(
        supervisor=[transfer("researcher"), transfer("mathematician"), ok.answer("231,317.")],
        researcher=[ok.call(SEARCH, query="FAANG"), ok.answer(FACTS)],
        mathematician=[ok.call(ADD, a=67317, b=164000), ok.answer("231317")],
    )
    shelf = Shelf()
    add, search = shelf.tools()
    with talk.serve() as server:
        researcher = create_agent(
            theirs("researcher", server.base_url),
            tools=[search],
            name="researcher",
            system_prompt="Search the web. Do no maths.",
        )
        mathematician = create_agent(
            theirs("mathematician", server.base_url),
            tools=[add],
            name="mathematician",
            system_prompt="Use one tool at a time.",
        )
        app = create_supervisor(
            [researcher, mathematician],
            model=theirs("supervisor", server.base_url),
            prompt="Delegate. Facts: researcher. Sums: mathematician.",
        ).compile()
        result = app.invoke({"messages": [{"role": "user", "content": QUESTION}]})

    heard_question(talk, "researcher", "mathematician")
    return Told(talk.order, shelf.ran, [result["messages"][-1].content])


def our_supervisor() -> Told:
    """Run the same team of ours."""
    talk = Talk(
        supervisor=[hand("researcher"), hand("mathematician"), final("231,317.")],
        researcher=[ok.call(SEARCH, query="FAANG"), hand("supervisor", FACTS)],
        mathematician=[ok.call(ADD, a=67317, b=164000), hand("supervisor", "231317")],
    )
    shelf = Shelf()
    add, search = shelf.tools()
    team = Topology.supervisor("supervisor", ["researcher", "mathematician"])
    words = {
        "supervisor": ("Delegate. Facts: researcher. Sums: mathematician.", []),
        "researcher": ("Search the web. Do no maths.", [search]),
        "mathematician": ("Use one tool at a time.", [add]),
    }
    with talk.serve() as server:
        app = to_langgraph(team, ours(words, server.base_url), hand_over="history").compile()
        state = app.invoke({"messages": [{"role": "user", "content": QUESTION}]})

    heard_question(talk, "researcher", "mathematician")
    return Told(talk.order, shelf.ran, [outcome_of(state)["content"]])


def ours(words: dict[str, tuple[str, list[Any]]], url: str) -> Iterator[ChatAgent]:
    """Make agents of ours of their instructions and tools."""
    client = sr.wrap(OpenAI(base_url=url, api_key="k"))
    for name, (instruction, tools) in words.items():
        yield ChatAgent(
            name=name,
            client=client,
            request={"model": name},
            instruction=instruction,
            tools=tools,
        )


def heard_question(talk: Talk, *agents: str) -> None:
    """Hold that agents were told the question, whoever handed over to them."""
    for agent in agents:
        assert any(QUESTION in str(turn) for turn in talk.models[agent].requests[0].messages)


# langgraph-supervisor itself makes its agent with a function that langgraph calls old
@pytest.mark.filterwarnings("ignore:create_react_agent:DeprecationWarning")
def test_a_supervisor_of_theirs_and_of_ours_do_the_same() -> None:
    """Facts from one agent, sums from the other, and the supervisor answers."""
    told = our_supervisor()
    assert told == their_supervisor()
    assert told.order == [
        "supervisor",
        "researcher",
        "researcher",
        "supervisor",
        "mathematician",
        "mathematician",
        "supervisor",
    ]
    assert told.ran == ["search FAANG", "add 67317 164000"]


TEXTS = ("I'd like to speak to Bob.", "What's 5 + 7?", "Thanks!")
AHOY = "Ahoy! What be ye needin'?"


def their_swarm() -> Told:
    """Run the example of langgraph-swarm, one conversation of three messages."""
    talk = Talk(
        Alice=[
            transfer("bob"),
            ok.call(ADD, a=5, b=7),
            ok.answer("5 + 7 is 12."),
            ok.answer("You're welcome."),
        ],
        Bob=[ok.answer(AHOY), transfer("alice")],
    )
    shelf = Shelf()
    add, _ = shelf.tools()
    told = Told(talk.order, shelf.ran)
    with talk.serve() as server:
        alice = create_agent(
            theirs("Alice", server.base_url),
            [add, create_handoff_tool(agent_name="Bob")],
            system_prompt="You are Alice, an addition expert.",
            name="Alice",
        )
        bob = create_agent(
            theirs("Bob", server.base_url),
            [create_handoff_tool(agent_name="Alice")],
            system_prompt="You are Bob, you speak like a pirate.",
            name="Bob",
        )
        app = create_swarm([alice, bob], default_active_agent="Alice").compile(
            checkpointer=InMemorySaver()
        )
        for text in TEXTS:
            given: Any = {"messages": [{"role": "user", "content": text}]}
            result = app.invoke(given, CONFIG)
            told.answers.append(f"{result['active_agent']}: {result['messages'][-1].content}")

    return told


def our_swarm() -> Told:
    """Run the same team of ours."""
    talk = Talk(
        Alice=[
            hand("Bob"),
            ok.call(ADD, a=5, b=7),
            final("5 + 7 is 12."),
            final("You're welcome."),
        ],
        Bob=[final(AHOY), hand("Alice")],
    )
    shelf = Shelf()
    add, _ = shelf.tools()
    told = Told(talk.order, shelf.ran)
    swarm = Topology.swarm(["Alice", "Bob"], entry="Alice")
    words: dict[str, tuple[str, list[Any]]] = {
        "Alice": ("You are Alice, an addition expert.", [add]),
        "Bob": ("You are Bob, you speak like a pirate.", []),
    }
    with talk.serve() as server:
        app = to_langgraph(swarm, ours(words, server.base_url), hand_over="history").compile(
            checkpointer=InMemorySaver()
        )
        for text in TEXTS:
            before = app.get_state(CONFIG).values
            given = begin(swarm, text, state=before, keep_active=True)
            came = outcome_of(app.invoke(given, CONFIG))
            told.answers.append(f"{came['agent']}: {came['content']}")

    return told


def test_a_swarm_of_theirs_and_of_ours_do_the_same() -> None:
    """The active agent goes on, hands over, and is the one that answers next."""
    told = our_swarm()
    assert told == their_swarm()
    assert told.answers == [f"Bob: {AHOY}", "Alice: 5 + 7 is 12.", "Alice: You're welcome."]
    assert told.order == ["Alice", "Bob", "Bob", "Alice", "Alice", "Alice"]
    assert told.ran == ["add 5 7"]
