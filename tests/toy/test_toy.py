"""A third API and a third client library, each one file: everything works on them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest
import tenacity

import strictreply as sr
from strictreply.batch import rows
from strictreply.core import CallPlan, register_api
from strictreply.core.calls import End
from strictreply.pipeline import AgentContext
from strictreply.retry._flow import Call, Noted, Notify, Replied, reply_flow
from toy.toy_api import TOY
from toy.toy_engine import SEARCH, Engine, guarded, said, used
from toy.toy_sdk import AsyncToy, Drips, Talk, Toy


def test_a_reply_is_typed_and_a_bad_one_is_corrected(engine: Engine) -> None:
    """The correction stands in the API's own turns, under the ids that came."""
    engine.replies = [used({"query": 1}), used({"query": "tea"}, ticket=9)]
    exchange = guarded(engine).exchange(engine="e", talk="find tea")
    assert exchange.reply == sr.ToolCall("search", {"query": "tea"}, "7")

    first, second = engine.asked
    assert first["gadgets"] == [{"label": "search", "shape": SEARCH.parameters.shown}]
    assert second["talk"][0] == {"by": "human", "says": "find tea"}
    assert second["talk"][1]["says"] == used({"query": 1})["turn"]["says"]
    answered = second["talk"][2]
    assert (answered["by"], answered["says"][0]["ticket"]) == ("gadget", 7)
    assert "/query" in answered["says"][0]["outcome"]
    assert second["must"] == {"label": "search"}

    assert exchange.usage == sr.Usage(6, 4, 10)
    assert isinstance(exchange.completion, Talk)
    assert exchange.completion.turn["says"][0]["with"] == {"query": "tea"}
    assert exchange.transcript[-1]["says"][0]["ticket"] == 7


def test_an_explanation_shows_the_turn_alone(engine: Engine) -> None:
    """What came is shown without the halt and the meter around it; an error is shown whole."""
    wrong = used({"query": 1})
    engine.replies = [wrong, {"mishap": {"why": "no", "sort": "wrong"}}]
    with pytest.raises(sr.TransportFailed) as raised:
        guarded(engine).reply(engine="e", talk="find tea")

    first, second = raised.value.explain().split("Attempt 2")
    assert f"  reply received:\n    {json.dumps(wrong['turn'])}\n" in first
    assert '  reply received:\n    {"mishap"' in second


def test_the_librarys_own_method_is_guarded(engine: Engine) -> None:
    """``create`` returns the library's own object, the one that came where nothing was changed."""
    engine.replies = [used({"query": "tea"}), said(""), said("no tea")]
    client = guarded(engine)
    made = client.talks.create(engine="e", talk="find tea")
    assert type(made) is Talk
    assert made.members == used({"query": "tea"})

    made = client.talks.create(engine="e", talk="find tea", must="may", several=False)
    assert made.turn["says"] == [{"words": "no tea"}]
    assert len(engine.asked) == 3


def test_calls_are_spliced(engine: Engine) -> None:
    """Of two calls the wrong one alone is asked for; what else the provider wrote stays."""
    engine.replies = [used({"query": "tea"}, {"query": 1}), used({"query": "rye"}, ticket=3)]
    client = guarded(engine, parallel=True)
    made = client.talks.create(engine="e", talk="find tea")
    right = used({"query": "tea"}, {"query": "rye"})
    assert made.turn == right["turn"]
    assert engine.asked[1]["talk"][2]["says"][0] == {
        "outcome": "Valid, and kept as it is.",
        "ticket": 7,
    }


def test_a_typed_answer_and_a_demand(engine: Engine) -> None:
    """A schema is sent in the API's own member, and the answer is held to it."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    engine.replies = [said("5"), said('{"n": 5}')]
    client = sr.wrap(Toy(engine.url), answer=schema, api="toy")
    assert client.answer(engine="e", talk="count") == {"n": 5}
    assert engine.asked[0]["blueprint"]["properties"] == schema["properties"]
    assert engine.asked[1]["talk"][1]["says"] == [{"words": "5"}]

    engine.replies = [said("no"), used({"query": "tea"})]
    client = guarded(engine)
    reply = client.reply(engine="e", talk="find tea", must={"label": "search"})
    assert reply.args == {"query": "tea"}
    with pytest.raises(sr.ContractError):
        client.reply(engine="e", talk="find tea", must={"label": "fly"})


def test_the_text_channel(engine: Engine) -> None:
    """Our instructions stand in a turn of the API's own."""
    engine.replies = [said("{}"), said('{"tool": "search", "args": {"query": "tea"}}')]
    reply = guarded(engine, channel="text").reply(engine="e", talk="find tea")
    assert reply == sr.ToolCall("search", {"query": "tea"})
    assert [turn["by"] for turn in engine.asked[1]["talk"]] == ["rules", "human", "engine", "human"]
    assert "gadgets" not in engine.asked[0]


def test_an_error_in_a_200_is_the_transports(engine: Engine) -> None:
    """It is repeated as its grade says, and ends with our error of the transport."""
    mishap = {"mishap": {"why": "too many", "sort": "busy"}}
    engine.replies = [mishap, said("tea")]
    policy = sr.RetryPolicy(wait=tenacity.wait_none())
    assert guarded(engine, policy=policy).reply(engine="e", talk="hi") == sr.DirectAnswer("tea")

    engine.replies = [mishap]
    with pytest.raises(sr.TransportFailed) as raised:
        guarded(engine, policy=sr.RetryPolicy(transport_retries=0)).reply(engine="e", talk="hi")

    assert raised.value.status_code == 429

    engine.replies = [said("te") | {"halt": "spent"}, said("tea")]
    made = guarded(engine).talks.create(engine="e", talk="hi", ration=5)
    assert made.turn["says"] == [{"words": "tea"}]
    assert [asked["ration"] for asked in engine.asked[-2:]] == [5, 10]


@pytest.mark.parametrize("additions", [TOY.additions, {}])
def test_only_what_an_api_has_words_for_is_taken_for_refused(additions: dict[str, Any]) -> None:
    """An addition without words of its API is believed to be fine: the call fails."""
    wire = replace(TOY, additions=additions)
    base = wire.read({"engine": "e", "talk": "hi"})
    plan = CallPlan(sr.Contract(tools=[SEARCH]), base, sr.RetryPolicy(), sr.TieredSteering())
    flow = reply_flow(replace(plan, wire=wire))
    assert isinstance(next(flow), Call)

    mishap: Any = {"mishap": {"why": "several is no word of ours", "sort": "odd"}}
    noted = flow.send(Replied(mishap))
    assert isinstance(noted, Notify)
    assert noted.attempt.dropped_params == (("parallel_tool_calls",) if additions else ())

    if additions:
        again = flow.send(Noted())
        assert isinstance(again, Call)
        assert "several" not in again.request
        return

    with pytest.raises(StopIteration) as ended:
        flow.send(Noted())

    assert ended.value.value.end == End("failed", "invalid_request")


def test_streams(engine: Engine) -> None:
    """The library's own stream, live text, an early stop and what is asked for then."""
    engine.replies = [said("some tea")]
    client = guarded(engine)
    drips = client.talks.create(engine="e", talk="hi", drip=True)
    assert isinstance(drips, Drips)
    events = list(drips)
    assert "".join(event.get("words", "") for event in events) == "some tea"
    assert events[-1] == {"halt": "told", "meter": {"in": 3, "out": 2}}

    engine.replies = [used({"limit": "x" * 100}), used({"query": "tea"}, ticket=3)]
    attempts: list[sr.Attempt] = []
    watched = client.watched(attempts.append)
    events = list(watched.talks.create(engine="e", talk="find tea", drip=True))
    assert events[0] == {"gadget": "search", "ticket": 3}
    assert json.loads("".join(event.get("with", "") for event in events)) == {"query": "tea"}
    assert attempts[0].stopped_early is not None
    assert attempts[0].stopped_early.at < 20

    engine.replies = [{"mishap": {"why": "down", "sort": "down"}}, said("tea")]
    patient = guarded(engine, policy=sr.RetryPolicy(wait=tenacity.wait_none()))
    with patient.stream(engine="e", talk="hi") as stream:
        typed = list(stream)

    assert typed[-1] == sr.Accepted(sr.DirectAnswer("tea"))
    assert [one.delta for one in typed if isinstance(one, sr.Provisional)] == ["t", "e", "a"]


def test_without_a_client() -> None:
    """A reply is checked, and the next request made, without a client."""
    contract = sr.Contract(tools=[SEARCH])
    verdict = contract.check(used({"query": 1}))
    assert isinstance(verdict, sr.Invalid)
    assert verdict.issues[0].path == "/tool_calls/0/function/arguments/query"

    step = contract.next_request({"engine": "e", "talk": "hi"}, used({"query": 1}), api="toy")
    assert step.request is not None
    assert step.request["talk"][1]["by"] == "engine"
    done = contract.next_request(step.request, used({"query": "tea"}, ticket=8))
    assert done.verdict == sr.Valid(sr.ToolCall("search", {"query": "tea"}, "7"))
    assert done.completion is not None
    assert done.completion["turn"]["says"][0]["ticket"] == 7


def test_guarded_tells_of_it(engine: Engine) -> None:
    """The one method is guarded."""
    assert sr.guarded(guarded(engine))["talks.create"] == "guarded"


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_async_client(engine: Engine) -> None:
    """Its replies and its streams are guarded as those of the sync one."""
    engine.replies = [used({"query": 1}), used({"query": "tea"}, ticket=9)]
    client: Any = sr.wrap(AsyncToy(engine.url), tools=[SEARCH], api="toy")
    made = await client.talks.create(engine="e", talk="find tea")
    assert made.turn["says"][0]["with"] == {"query": "tea"}

    engine.replies = [said(" "), said("tea")]
    async with client.stream(engine="e", talk="hi") as stream:
        typed = [event async for event in stream]

    assert typed[-1] == sr.Accepted(sr.DirectAnswer("tea"))


def test_a_batch_of_rows(engine: Engine) -> None:
    """Each row is asked in the API's own keywords."""
    engine.replies = [said("a"), said("b")]
    ask: Any = rows
    answered = ask(
        sr.Contract(),
        messages="talk",
        client=partial(AsyncToy, engine.url),
        concurrency=1,
        api="toy",
        engine="e",
    )
    found = answered([{"talk": "x"}, {"talk": "y"}])
    answered.close()
    assert [one["reply"] for one in found] == [{"answer": "a"}, {"answer": "b"}]
    assert [asked["talk"][0]["says"] for asked in engine.asked] == ["x", "y"]


def test_a_tool_loop_with_its_pauses_and_sessions(engine: Engine) -> None:
    """Tools are run and their results go back in one turn; a run pauses, and is continued."""

    @sr.tool
    def price(item: str) -> str:
        """Tell a price."""
        return f"{item}: 5"

    def priced(*items: str) -> dict[str, Any]:
        reply = used(*({"item": item} for item in items))
        for part in reply["turn"]["says"]:
            part["gadget"] = "price"
        return reply

    engine.replies = [priced("tea", "rye"), said("5 each")]
    client = guarded(engine, tools=[price], parallel=True)
    run: Any = sr.run
    agent = AgentContext(id="a", instructions="Be brief.")
    done = run(client, "prices?", engine="e", agent=agent)
    assert done.answer == "5 each"

    talk = engine.asked[1]["talk"]
    assert [turn["by"] for turn in talk] == ["rules", "human", "engine", "gadget"]
    assert [part["outcome"] for part in talk[3]["says"]] == ["tea: 5", "rye: 5"]
    assert [part["ticket"] for part in talk[3]["says"]] == [7, 8]

    engine.replies = [used({"query": "tea"}), said("found")]
    paused = run(guarded(engine), "find tea", engine="e")
    (pending,) = paused.pending
    result = pending.answered({"found": 1})
    resumed = run(guarded(engine), engine="e", continuation=paused, results=[result])
    assert resumed.answer == "found"
    assert engine.asked[-1]["talk"][-1]["says"][0]["ticket"] == 7


def test_a_client_without_the_api_is_refused(engine: Engine) -> None:
    """The error says which API the client has, whichever are registered."""
    with pytest.raises(TypeError, match='api="toy"'):
        sr.wrap(Toy(engine.url), tools=[SEARCH])

    wrap: Any = sr.wrap
    with pytest.raises(TypeError, match='api="chat" or api="responses"'):
        wrap(openai.OpenAI(api_key="k"), api="toy")
    with pytest.raises(TypeError, match=r"chat\.completions\.create"):
        sr.wrap(object())


def test_a_name_is_one_apis_own() -> None:
    """The same wire may be registered again, another one of its name may not."""
    register_api(TOY)
    with pytest.raises(sr.ContractError, match="toy"):
        register_api(replace(TOY))


@pytest.mark.parametrize("must", ["some", {"label": "search"}])
def test_a_demand_is_for_the_first_ask_of_a_run(engine: Engine, must: Any) -> None:
    """A run asks for a call once: behind it the model may answer."""

    @sr.tool
    def search(query: str) -> str:
        """Search."""
        return f"{query}: 5"

    engine.replies = [used({"query": "tea"}), said("5 each")]
    run: Any = sr.run
    done = run(guarded(engine, tools=[search]), "prices?", engine="e", must=must)

    assert done.answer == "5 each"
    assert [asked.get("must") for asked in engine.asked] == [must, None]


def test_a_durable_run(engine: Engine, tmp_path: Path) -> None:
    """Its turns are kept in the form of the API, and the next run goes on from them."""
    pytest.importorskip("dbos", reason="dbos is an extra")
    from strictreply.integrations.dbos import DurableRuns  # noqa: PLC0415 - an extra

    engine.replies = [used({"query": "tea"}), said("found"), said("bye")]
    runs = DurableRuns("toy", guarded(engine), url=f"sqlite:///{tmp_path}/runs.sqlite", engine="e")
    with runs.worker(poll_seconds=0.02):
        started = runs.start("find tea")
        paused = started.result(poll_seconds=0.02)
        (pending,) = paused.pending
        started.answer([pending.answered({"found": 1})])
        done = started.result(poll_seconds=0.02)

        after = runs.start("thanks", after=started).result(poll_seconds=0.02)
        runs.close()

    assert (done.answer, after.answer) == ("found", "bye")
    told = [turn["by"] for turn in after.transcript]
    assert told == ["human", "engine", "gadget", "engine", "human", "engine"]
    assert [turn["by"] for turn in engine.asked[-1]["talk"]] == told[:-1]
