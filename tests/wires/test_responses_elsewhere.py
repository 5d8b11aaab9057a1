"""What stands on the loop asks by the Responses API when its client was wrapped so.

That is runs, graphs and durable runs.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import strictreply as sr
from strictreply.loop import SQLiteSessionStore
from support.loop.loops import spy
from support.scripted import Server
from support.scripted_responses import call_item, reasoning_item, response, text_item

QUICK = sr.RetryPolicy(max_retries=1, transport_retries=0)
BAD = response(reasoning_item(), call_item("search", {"query": 1}))
GOOD = response(reasoning_item(), call_item("search", {"query": "tea"}))
DONE = response(text_item("There is tea."))


class Noting(Server):
    """A server that keeps the paths of its requests."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(*answers)
        self.paths: set[str] = set()

    def handle(self, request: Any) -> Any:
        """Answer a request."""
        self.paths.add(request.url.path)
        return super().handle(request)


def declared(ran: list[str]) -> dict[str, Any]:
    """What the clients of these tests are wrapped with."""
    return {"tools": [spy("search", ran)], "policy": QUICK, "api": "responses"}


def kinds(body: bytes) -> list[str]:
    """What the items of a request are."""
    return [item.get("type", item.get("role")) for item in json.loads(body)["input"]]


WHOLE = ["user", "reasoning", "function_call", "function_call_output"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_run_asks_by_the_responses_api(is_async: bool, tmp_path: Path) -> None:
    """A bad call is fixed, its tool runs once, thoughts go back, and the next turn goes on from
    the store.
    """
    server = Noting(BAD, GOOD, DONE, DONE)
    ran = list[str]()
    client: Any = sr.wrap(server.async_client() if is_async else server.client(), **declared(ran))

    def run(*given: Any, **keywords: Any) -> sr.Run:
        if is_async:
            return asyncio.run(sr.arun(client, *given, model="m", **keywords))
        return sr.run(client, *given, model="m", **keywords)

    store = SQLiteSessionStore(tmp_path / "kept.sqlite")
    first = run("find tea", sessions=store)
    again = run("and now?", after=first, sessions=store)
    assert (first.answer, again.answer, ran, server.paths) == ("There is tea.",) * 2 + (
        ["tea"],
        {"/v1/responses"},
    )

    assert kinds(server.bodies[2]) == WHOLE
    assert kinds(server.bodies[3]) == [*WHOLE, "message", "user"]


def test_a_durable_run_asks_by_the_responses_api(tmp_path: Path) -> None:
    """Its steps are kept and carried on as those of chat completions are."""
    pytest.importorskip("dbos", reason="dbos is an extra")
    from strictreply.integrations.dbos import DurableRuns  # noqa: PLC0415 - an extra

    server = Noting(BAD, GOOD, DONE)
    ran = list[str]()
    client = sr.wrap(server.client(), **declared(ran))
    runs = DurableRuns("desk", client, url=f"sqlite:///{tmp_path}/runs.sqlite", model="m")
    with runs.worker(poll_seconds=0.02):
        answer = runs.start("find tea").result(poll_seconds=0.02).answer
        runs.close()

    assert (answer, ran, server.paths) == ("There is tea.", ["tea"], {"/v1/responses"})
    assert kinds(server.bodies[2]) == WHOLE


def test_a_graph_asks_by_the_responses_api() -> None:
    """An action that does not fit is asked again, a tool runs once, and the graph comes to its
    answer.
    """
    pytest.importorskip("langgraph", reason="langgraph is an extra with a lane of its own")
    from strictreply.coordination import Topology  # noqa: PLC0415 - beside the extra
    from strictreply.integrations.langgraph import ChatAgent, begin, outcome_of, to_langgraph  # noqa: PLC0415

    final = {"next_action": "final_response", "content": "There is tea."}
    server = Noting(
        BAD,
        GOOD,
        response(text_item('{"next_action": "none"}')),
        response(text_item(json.dumps(final))),
    )

    ran = list[str]()
    client: Any = sr.wrap(server.client(), api="responses")
    topology = Topology.of({"lead": ["User"]}, entry="lead")
    agent = ChatAgent(
        name="lead", client=client, request={"model": "m"}, tools=[spy("search", ran)]
    )
    told = outcome_of(to_langgraph(topology, [agent]).compile().invoke(begin(topology, "Go.")))
    assert (told["status"], told["content"], ran) == ("completed", "There is tea.", ["tea"])

    assert server.paths == {"/v1/responses"}
