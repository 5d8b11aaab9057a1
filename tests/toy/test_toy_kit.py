"""The test kit on a third API: the author of one writes its server, and the kit serves it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
import tenacity

import strictreply as sr
from strictreply.testing import (
    Fault,
    Kind,
    LoopbackServer,
    ScriptedModel,
    Step,
    faults,
    mounting,
    ok,
    register_writer,
    writer_named,
)
from strictreply.testing._scripts import Demand
from strictreply.testing._writer import reply_in
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import Entry
from support.loops import some
from toy.toy_api import TOY, TOY_WRITER, ToyWriter
from toy.toy_sdk import AsyncToy, Toy

pytestmark = pytest.mark.sampled

SEARCH = sr.Tool.from_json_schema(
    "search",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 2},
            "limit": {"type": "integer", "maximum": 9},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "is_new": {"type": "boolean"},
            "day": {"type": "string", "format": "date"},
            "near": {
                "type": "object",
                "properties": {"km": {"type": "number"}},
                "required": ["km"],
                "additionalProperties": False,
            },
        },
        "required": ["query", "limit"],
        "additionalProperties": False,
    },
)
COUNT: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
ASK: dict[str, Any] = {"engine": "e", "talk": "find tea"}
CONTRACTS: dict[str, dict[str, Any]] = {
    "call": {"tools": [SEARCH]},
    "union": {"tools": [SEARCH], "channel": "text"},
    "json": {"answer": COUNT},
    "prose": {},
}
DECLARED: dict[str, Any] = {"call": SEARCH, "union": SEARCH, "json": COUNT, "prose": None}
WITHOUT_COUNTERPART = {
    "arguments_not_encoded": "arguments are an object",
    "null_call_id": "any ticket is one",
    "number_as_call_id": "a ticket is a number",
}
"""Faults that a reply of the toy cannot have, by name, and why."""

OF_CONTENT = {Kind.JSON, Kind.SHAPE, Kind.TOOL, Kind.ARGS}
"""What the model writes, on every API."""


def wrapped(model: Any, place: str = "call", **how: Any) -> Any:
    """Wrap a client of the toy, in memory, that a model answers."""
    client = Toy("http://toy.invalid", mounting.transport(model, library=httpx))
    policy = sr.RetryPolicy(wait=tenacity.wait_none(), transport_retries=1, **how)
    wrap: Any = sr.wrap
    return wrap(client, api="toy", policy=policy, **CONTRACTS[place])


def demands(fault: Fault) -> dict[str, Any]:
    """Return the keywords of the toy under which alone something is a fault."""
    words = {"required": "some", "none": "never"}
    asked: dict[str, Any] = {}
    if "tool_choice" in fault.needs:
        asked["must"] = words[str(fault.needs["tool_choice"])]
    if "parallel_tool_calls" in fault.needs:
        asked["several"] = fault.needs["parallel_tool_calls"]

    return asked


def played(entry: Entry) -> Iterator[tuple[Fault, Step, dict[str, Any]]]:
    """Yield the faults of an entry that the toy can have, each with the good reply behind it."""
    for place, declared in DECLARED.items():
        for fault in entry.all_for(declared, place=place):  # type: ignore[arg-type]
            asked = demands(fault)
            is_free = asked.get("must") != "never"
            if is_free or place == "call":
                then = ok.reply(declared, place=fault.place) if is_free else ok.answer()
                yield fault, then, asked


ENTRIES = [entry for entry in CATALOGUE.values() if any(played(entry))]


@pytest.mark.parametrize(
    "entry",
    [entry for entry in ENTRIES if not entry.needs.get("stream")],
    ids=lambda entry: entry.name,
)
def test_no_fault_is_accepted(entry: Entry) -> None:
    """Each is corrected or ends in our error; one of the content is corrected, with its code."""
    for fault, then, asked in some(played(entry)):
        model = ScriptedModel(fault, then=then)
        client = wrapped(model, fault.place)
        if entry.name in WITHOUT_COUNTERPART:
            assert len(client.exchange(**ASK, **asked).attempts) == 1
            continue

        try:
            exchange = client.exchange(**ASK, **asked)
        except sr.CallFailed:
            assert entry.kind not in OF_CONTENT
            continue

        assert len(model.requests) == 2
        # what has no form of the toy's own goes out in chat's, and the toy refuses the whole of it
        if entry.kind in OF_CONTENT and reply_in(fault.served) is not None:
            codes = {issue.code for attempt in exchange.attempts for issue in attempt.issues}
            # arguments are JSON here, not the text of one
            code = "shape.wrong_type" if fault.code == "json.not_text" else fault.code
            assert code in codes, fault.id
            assert model.requests[1].correction


@pytest.mark.parametrize(
    "entry",
    [entry for entry in ENTRIES if entry.name not in WITHOUT_COUNTERPART],
    ids=lambda entry: entry.name,
)
def test_no_streamed_fault_is_accepted(entry: Entry) -> None:
    """Streamed, too, whatever of chat's own framing it is: nothing of it stays in what came."""
    for fault, then, asked in some(played(entry)):
        model = ScriptedModel(fault, then=then)
        client = wrapped(model, fault.place, early_stop="always")
        try:
            drips = list(client.talks.create(**ASK, drip=True, **asked))
        except sr.CallFailed:
            assert entry.kind not in OF_CONTENT
            continue

        assert len(model.requests) == 2
        good = wrapped(ScriptedModel(then), fault.place)
        wanted = told(good.talks.create(**ASK, drip=True, **asked))
        if entry.name == "answer_for_required_call":  # words beside a call are live
            wanted["words"] = told(drips)["words"]

        assert told(drips) == wanted


def told(drips: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return what events say: the words, the gadgets, and what these are given."""
    said = dict.fromkeys(("words", "gadget", "with"), "")
    for drip in drips:
        for name in said.keys() & drip.keys():
            said[name] += drip[name]

    return said


def test_a_fault_without_a_counterpart_is_left_out() -> None:
    """What the kit itself says of a request by this API is what a client makes of it."""
    of_content = [
        (entry.name, fault)
        for entry in CATALOGUE.values()
        if entry.kind in OF_CONTENT and not entry.needs
        for fault in entry.all_for(SEARCH, place="call")
    ]
    for name, fault in some(of_content):
        seen: list[Any] = []

        def model(request: Any, fault: Fault = fault, seen: list[Any] = seen) -> Any:
            seen.append(Demand(request).refuses(fault))
            return ok.reply(SEARCH).served

        wrapped(model).reply(**ASK)
        assert seen == [name not in WITHOUT_COUNTERPART], fault.id


def test_a_script_over_a_socket() -> None:
    """The path is that of the wire; a request is told in the words of chat completions."""
    model = ScriptedModel(faults.wrong_type(SEARCH, "limit"), ok.call(SEARCH, query="tea", limit=3))
    with model.serve() as server, closing(Toy(server.base_url)) as source:
        client: Any = sr.wrap(source, tools=[SEARCH], api="toy")
        exchange = client.exchange(**ASK)

    assert exchange.reply.args == {"query": "tea", "limit": 3}
    assert exchange.usage == sr.Usage(20, 10, 30)
    model.assert_spent()
    model.assert_no_echo()

    first, second = model.requests
    assert first.messages == [{"role": "user", "content": "find tea"}]
    assert first.tools == [SEARCH.definition]
    assert not first.stream
    assert [turn["role"] for turn in second.messages] == ["user", "assistant", "tool"]
    assert second.messages[1]["tool_calls"][0]["id"] == second.messages[2]["tool_call_id"]
    assert "/limit" in second.correction
    assert second.body["tool_choice"]["function"] == {"name": "search"}


def test_the_early_stop() -> None:
    """The stream of a bad call is left where it goes wrong, and the next one comes whole."""
    args: dict[str, Any] = {"limit": 3, "query": "t" * 400}
    bad = faults.wrong_type(SEARCH, "limit", args=args)
    attempts: list[sr.Attempt] = []
    model = ScriptedModel(bad, ok.call(SEARCH, query="tea", limit=3))
    client = wrapped(model).watched(attempts.append)
    drips = list(client.talks.create(**ASK, drip=True))
    assert json.loads(told(drips)["with"]) == {"query": "tea", "limit": 3}
    assert attempts[0].stopped_early is not None
    assert attempts[0].stopped_early.at < 20
    assert [asked.stream for asked in model.requests] == [True, True]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_async_client_in_memory() -> None:
    """The transport of the library that an SDK stands on serves its async client, too."""
    model = ScriptedModel(faults.duplicate_key(SEARCH), ok.call(SEARCH, query="tea", limit=3))
    source = AsyncToy("http://toy.invalid", mounting.transport(model, library=httpx))
    client: Any = sr.wrap(source, tools=[SEARCH], api="toy")
    async with client.stream(**ASK) as stream:
        typed = [event async for event in stream]

    assert isinstance(typed[-1], sr.Accepted)
    assert len(model.requests) == 2


def test_a_tool_loop_comes_to_its_end() -> None:
    """After the result of its call, ``after`` is served."""
    model = ScriptedModel(then=ok.reply(SEARCH, after=ok.answer("found")))
    run: Any = sr.run
    paused = run(wrapped(model), "find tea", engine="e")
    (pending,) = paused.pending
    resumed = run(wrapped(model), engine="e", continuation=paused, results=[pending.answered(1)])
    assert resumed.answer == "found"
    assert model.requests[1].messages[-1]["role"] == "tool"


def test_a_good_reply_is_made_to_whatever_is_asked() -> None:
    """A call of a gadget that the request declares, and a text after its result."""
    run: Any = sr.run
    client = wrapped(lambda request: Demand(request).good())
    paused = run(client, "find tea", engine="e")
    (pending,) = paused.pending
    assert pending.name == "search"
    resumed = run(client, engine="e", continuation=paused, results=[pending.answered(1)])
    assert resumed.answer


def test_errors_are_the_apis_own() -> None:
    """An error is written in the toy's form, in a 200: that of a fault, and the script's own."""
    model = ScriptedModel(faults.rate_limited(), ok.answer("tea"))
    assert wrapped(model, "prose").reply(**ASK) == sr.DirectAnswer("tea")

    with pytest.raises(sr.TransportFailed) as raised:
        wrapped(model, "prose").reply(**ASK)

    assert raised.value.status_code == 400
    with httpx.Client(transport=mounting.transport(model, library=httpx)) as client:
        spent = client.post("http://toy.invalid/talks", json=ASK).json()
        wrong = client.post("http://toy.invalid/talks", json=ASK | {"talk": 5}).json()

    assert spent["mishap"]["sort"] == wrong["mishap"]["sort"] == "wrong"
    assert "the script has 2 steps" in spent["mishap"]["why"]
    assert "talk is required" in wrong["mishap"]["why"]


def test_a_body_of_the_apis_own_is_served_as_it_is() -> None:
    """A responder may answer in the form of the API, plain and streamed."""
    turn = {"by": "engine", "says": [{"words": "tea"}]}
    own: dict[str, Any] = {"turn": turn, "halt": "told", "meter": {"in": 1, "out": 1}, "brand": "x"}
    with LoopbackServer(lambda _: own) as server, closing(Toy(server.base_url)) as source:
        client: Any = sr.wrap(source, api="toy")
        assert client.talks.create(**ASK).members == own
        assert told(client.talks.create(**ASK, drip=True))["words"] == "tea"


def test_an_api_has_one_writer() -> None:
    """The same writer may be registered again, another one of its API may not."""
    register_writer(TOY_WRITER)
    assert writer_named("toy") is TOY_WRITER
    with pytest.raises(sr.ContractError, match="toy"):
        register_writer(ToyWriter(TOY))
    with pytest.raises(sr.ContractError, match="chat, responses, messages, toy"):
        writer_named("other")
