"""What an error policy says is what a graph does.

The client's own loop ends where nothing is to be retried.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tenacity import wait_none

import strictreply as sr
from strictreply import Category, ContractError
from strictreply.coordination import ErrorPolicy, Reaction, ValidationProcessor
from strictreply.integrations.langgraph import ChatAgent
from strictreply.testing import AsyncScriptedClient, ScriptedClient, ScriptedModel, Step, faults, ok
from support.integrations.langgraph_runs import (
    CONFIG,
    NONSENSE,
    TEAM,
    Cast,
    InMemorySaver,
    act,
    agents,
    begin,
    final,
    hand,
    outcome_of,
    to_langgraph,
)

RETRY = Reaction.RETRY
ESCALATE = Reaction.ESCALATE
TERMINATE = Reaction.TERMINATE
BUDGET = sr.RetryPolicy(max_retries=3, transport_retries=3, wait=wait_none())


@sr.tool
def broken(number: int) -> int:
    """Return a number."""
    raise RuntimeError(number)


def crash(action: dict[str, Any], permitted: Any) -> None:
    """Break on one answer, as a check with a bug does."""
    if action["content"] == "crash":
        raise KeyError(permitted.agent)


HAPPENS: dict[Category, Step] = {
    Category.FORMAT_ERROR: NONSENSE,
    Category.PERMISSION_ERROR: hand("stranger"),
    Category.ACTION_ERROR: act("dance"),
    Category.UNKNOWN: final("crash"),
    Category.API_TRANSIENT: faults.overloaded(),
    Category.API_TERMINAL: faults.unauthorized(),
    Category.TOOL_ERROR: ok.call(broken, number=1),
}
"""What leads to a fault of each category."""


def ran(happening: Step, policy: ErrorPolicy) -> tuple[str, int]:
    """Run a team whose lead does this until it is told not to.

    How it ended is returned, and how often the lead was asked.
    """
    cast = Cast(lead=[happening, happening, final()])
    made = ValidationProcessor(TEAM, tools=[broken])
    made.register_action_validator("final_response", crash)
    built = to_langgraph(TEAM, agents(cast, TEAM), processor=made, policy=policy)
    state = built.compile(checkpointer=InMemorySaver()).invoke(begin(TEAM, "Go."), CONFIG)
    ended = "asked" if "__interrupt__" in state else outcome_of(state)["status"]
    return ended, cast.asked()["lead"]


@pytest.mark.req("M79")
@pytest.mark.parametrize(("reaction", "ended"), [(ESCALATE, "asked"), (TERMINATE, "failed")])
@pytest.mark.parametrize("category", HAPPENS)
def test_what_is_not_asked_again_ends_at_once(
    category: Category, reaction: Reaction, ended: str
) -> None:
    """A category that is brought to the user, or ends the branch, is so after the first fault: one
    ask, no more.
    """
    assert set(HAPPENS) == set(Category)
    assert ran(HAPPENS[category], ErrorPolicy(reactions={category: reaction}, budget=BUDGET)) == (
        ended,
        1,
    )


@pytest.mark.req("M79")
@pytest.mark.parametrize("category", HAPPENS)
def test_the_published_table_is_followed(category: Category) -> None:
    """By default four kinds of bad replies and calls that failed for now are asked again; the
    others are not.
    """
    expected = {Category.API_TERMINAL: ("failed", 1), Category.TOOL_ERROR: ("asked", 1)}
    assert ran(HAPPENS[category], ErrorPolicy(budget=BUDGET)) == expected.get(
        category, ("completed", 3)
    )


@pytest.mark.req("M79")
def test_strict_permissions_end_a_graph_at_once() -> None:
    """A target that is not permitted ends the branch after one ask, and other faults are asked for
    again.
    """
    strict = ErrorPolicy(strict_permissions=True, budget=BUDGET)
    assert ran(HAPPENS[Category.PERMISSION_ERROR], strict) == ("failed", 1)
    assert ran(HAPPENS[Category.FORMAT_ERROR], strict) == ("completed", 3)


def outcome_under(
    script: list[Step],
    given: sr.RetryPolicy | None,
    policy: ErrorPolicy | None = None,
    *,
    awaited: bool = False,
) -> tuple[str, int]:
    """Run a team whose client was wrapped with a policy.

    The kind of the question or the reason of the end is returned, and how often the lead was asked.
    """
    cast = Cast(lead=script)
    inner: Any = AsyncScriptedClient(cast) if awaited else ScriptedClient(cast)
    client: Any = sr.wrap(inner, policy=given)
    team = [ChatAgent(name=name, client=client, request={"model": name}) for name in TEAM.agents]
    graph = to_langgraph(TEAM, team, policy=policy).compile(checkpointer=InMemorySaver())

    if awaited:
        state = asyncio.run(graph.ainvoke(begin(TEAM, "Go."), CONFIG))
    else:
        state = graph.invoke(begin(TEAM, "Go."), CONFIG)

    asked = [one.value["kind"] for one in state.get("__interrupt__", ())]
    return asked[0] if asked else outcome_of(state)["reason"], cast.asked()["lead"]


BAD = [hand("stranger")] * 20


@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("script", "given", "ended"),
    [
        (BAD, sr.RetryPolicy(max_retries=0), ("retries_spent", 1)),
        (BAD, sr.RetryPolicy(max_retries=7), ("retries_spent", 8)),
        (BAD, sr.RetryPolicy(max_retries=7, max_tokens_total=1), ("error", 1)),
        (BAD, sr.RetryPolicy(max_retries=7, deadline=0), ("error", 1)),
        (BAD, sr.RetryPolicy(stop_on={Category.PERMISSION_ERROR}), ("retries_spent", 1)),
        ([faults.overloaded()] * 20, sr.RetryPolicy(transport_retries=0), ("error", 1)),
        ([faults.unauthorized()] * 20, sr.RetryPolicy(transport_retries=9), ("terminal", 1)),
        (BAD, None, ("retries_spent", 4)),
    ],
)
def test_a2_a_graph_asks_by_the_policy_of_its_client(
    script: list[Step], given: sr.RetryPolicy | None, ended: tuple[str, int], *, awaited: bool
) -> None:
    """Retries, deadline and budgets are those that the client was wrapped with; a client without
    any has the published ones.
    """
    assert outcome_under(script, given, awaited=awaited) == ended


def test_a2_a_policy_of_the_graph_goes_before_that_of_a_client() -> None:
    """A budget that the graph is given holds for every client; reactions alone leave theirs."""
    given = sr.RetryPolicy(max_retries=7)
    same_as_published = ErrorPolicy(budget=sr.RetryPolicy(max_retries=3, transport_retries=3))
    assert outcome_under(BAD, given, same_as_published) == ("retries_spent", 4)
    assert outcome_under(BAD, given, ErrorPolicy()) == ("retries_spent", 8)

    ends = ErrorPolicy(reactions={Category.PERMISSION_ERROR: TERMINATE})
    assert outcome_under(BAD, given, ends) == ("permission_denied", 1)
    assert outcome_under([act("dance")] * 20, given, ends) == ("retries_spent", 8)


OBJECT = {"type": "json_object"}


def test_json_mode_of_a_model_leaves_the_actions_in_force() -> None:
    """An agent whose request asks for JSON is held to its actions all the same."""
    cast = Cast(lead=[ok.answer({"hello": 1}), hand("stranger"), final("fine")])
    client = sr.wrap(ScriptedClient(cast))
    team = [
        ChatAgent(name=name, client=client, request={"model": name, "response_format": OBJECT})
        for name in TEAM.agents
    ]
    state = (
        to_langgraph(TEAM, team, policy=ErrorPolicy(budget=BUDGET))
        .compile()
        .invoke(begin(TEAM, "Go."))
    )
    assert outcome_of(state)["content"] == "fine"

    assert cast.models["lead"].requests[0].body["response_format"] == OBJECT


@pytest.mark.parametrize(
    "taken",
    [
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"type": "object"}},
            }
        },
        {"response_format": dict},
        {"response_format": {"type": []}},
        {"stream": True},
        {"n": 2},
        {"tools": []},
    ],
)
def test_a_request_that_could_not_be_held_is_refused_when_declared(taken: dict[str, Any]) -> None:
    """Another contract, a stream and several replies are no agent's to ask for."""
    client = sr.wrap(ScriptedClient(ScriptedModel(final())))
    with pytest.raises(ContractError, match=next(iter(taken))):
        ChatAgent(name="lead", client=client, request={"model": "m", **taken})
