"""The tool loop over the real SDK and a real socket.

What the scripted tests promise holds on the wire.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openai import AsyncOpenAI, OpenAI

import strictreply as sr
from strictreply.testing import ScriptedModel, faults, ok
from support.loop.loops import LOCATE, NO_RETRIES, spy, told

USER = "find tea"


def scripted(*steps: Any) -> tuple[ScriptedModel, list[str], dict[str, Any]]:
    """Return a scripted model, the list of what ran, and the keywords for ``wrap``."""
    ran: list[str] = []
    tools = [spy("search", ran), spy("deliver", ran, needs_approval=True), LOCATE]
    return ScriptedModel(*steps), ran, {"tools": tools, "parallel": True, "policy": NO_RETRIES}


def mixed() -> Any:
    """Call a tool that runs here, one that must be allowed and one of the client's."""
    search, deliver = (spy(name, []) for name in ("search", "deliver"))
    return ok.calls(
        ok.call(search, query="s"), ok.call(deliver, query="d"), ok.call(LOCATE, query="l")
    )


def decided(paused: sr.Run) -> list[Any]:
    """Allow what waits to be allowed, and answer the rest."""
    return [
        one.approved() if one.needs_approval else one.answered({"at": "here"})
        for one in paused.pending
    ]


RESULTS = [("call_1", "search s"), ("call_2", "deliver d"), ("call_3", {"at": "here"})]


@pytest.mark.req("P69")
def test_a_run_pauses_and_goes_on_over_a_socket() -> None:
    """Three kinds of calls, a failing API in between, and the same results again: each tool ran
    once.
    """
    model, ran, declared = scripted(mixed(), faults.internal_server_error(), ok.answer("done"))
    with model.serve() as server, OpenAI(base_url=server.base_url, api_key="none") as openai:
        client = sr.wrap(openai, **declared)
        paused = sr.run(client, USER, model="m")
        assert (ran, [one.name for one in paused.pending]) == (["s"], ["deliver", "locate"])

        with pytest.raises(sr.TransportFailed):
            sr.run(client, continuation=paused, results=decided(paused), model="m")

        done = sr.run(client, continuation=paused, results=decided(paused), model="m")

    assert (done.answer, ran, told(done)) == ("done", ["s", "d"], RESULTS)
    assert model.requests[-1].messages == done.transcript[:-1]
    model.assert_spent()


def test_the_async_twin_over_a_socket() -> None:
    """The same with an async client, in one event loop."""
    model, ran, declared = scripted(mixed(), ok.answer("done"))

    async def talk(base_url: str) -> sr.Run:
        """Pause and go on."""
        async with AsyncOpenAI(base_url=base_url, api_key="none") as openai:
            client = sr.wrap(openai, **declared)
            paused = await sr.arun(client, USER, model="m")
            return await sr.arun(client, continuation=paused, results=decided(paused), model="m")

    with model.serve() as server:
        done = asyncio.run(talk(server.base_url))

    assert (done.answer, ran, told(done)) == ("done", ["s", "d"], RESULTS)
    assert model.requests[-1].messages == done.transcript[:-1]
    model.assert_spent()


def test_a_server_that_counts_anew_in_every_reply() -> None:
    """Ids that repeat over replies, as local servers give them, go back to the model as ids of one
    call each.
    """
    search = spy("search", [])
    model, ran, declared = scripted(
        ok.call(search, query="a"), ok.call(search, query="b"), ok.answer("done")
    )
    with model.serve() as server, OpenAI(base_url=server.base_url, api_key="none") as openai:
        done = sr.run(sr.wrap(openai, **declared), USER, model="m")

    (first, *_), (second, *_) = (
        turn["tool_calls"] for turn in done.transcript if turn.get("tool_calls")
    )
    assert first["id"] != second["id"]
    assert told(done) == [(first["id"], "search a"), (second["id"], "search b")]
    assert (ran, model.requests[-1].messages) == (["a", "b"], done.transcript[:-1])


def test_a_stream_of_events_over_a_socket() -> None:
    """Refused replies, tools and the end are told as they happen."""
    search = spy("search", [])
    model, _, declared = scripted(
        faults.unknown_tool(search), ok.call(search, query="a"), ok.answer("done")
    )
    with model.serve() as server, OpenAI(base_url=server.base_url, api_key="none") as openai:
        client = sr.wrap(openai, **{**declared, "policy": sr.RetryPolicy(max_retries=1)})
        events = list(sr.run_stream(client, USER, model="m"))

    kinds = [type(event).__name__ for event in events]
    last = ["Provisional"] * kinds.count("Provisional")
    assert kinds == [
        "AttemptMade",
        "AttemptMade",
        "ToolStarted",
        "ToolFinished",
        *last,
        "AttemptMade",
        "RunEnded",
    ]

    assert "".join(event.delta for event in events if isinstance(event, sr.Provisional)) == "done"
