"""One reply, spelt on three APIs, has one verdict and one outcome: whole, streamed, sync, async."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
import tenacity
from hypothesis import given, settings
from hypothesis import strategies as st

import strictreply as sr
from strictreply.testing import LoopbackServer, writer_named
from support.scripted import OTHER_SCHEMA, SCHEMA, call, completion

anthropic: Any = pytest.importorskip("anthropic")

TOOLS = [
    sr.Tool.from_json_schema("search", SCHEMA),
    sr.Tool.from_json_schema("weather", OTHER_SCHEMA),
]
CONTRACTS: dict[str, sr.Contract[Any]] = {
    "calls": sr.Contract(tools=TOOLS, parallel=True),
    "one call": sr.Contract(tools=TOOLS),
    "an answer": sr.Contract(answer=SCHEMA),
    "either": sr.Contract(tools=TOOLS, answer=SCHEMA),
    "in text": sr.Contract(tools=TOOLS, channel="text"),
}
# where a stream is stopped early depends on its pieces, which each API has of its own
POLICY = sr.RetryPolicy(max_retries=2, wait=tenacity.wait_none(), early_stop="off")

ARGUMENTS = st.sampled_from(
    [
        '{"query": "tea"}',
        '{"query": "tea", "limit": 3}',
        '{"query": "tea", "limit": 99}',
        '{"query": 1}',
        '{"query": "tea", "when": "now"}',
        '{"city": "Rome"}',
        "{}",
    ]
)
TEXTS = st.sampled_from(
    [
        None,
        "tea",
        " ",
        '{"query": "tea"}',
        '{"query": 1}',
        '{"query": "tea"',
        '{"tool": "search", "args": {"query": "tea"}}',
        '{"answer": "tea"}',
    ]
)
CALLS = st.lists(
    st.tuples(st.sampled_from(["search", "weather", "fly"]), ARGUMENTS), max_size=3
).map(lambda calls: [call(name, given, f"call_{at}") for at, (name, given) in enumerate(calls)])


def _completion(content: str | None, calls: list[Any], is_cut: bool) -> Any:
    usual = "tool_calls" if calls else "stop"
    return completion(content, calls, finish_reason="length" if is_cut else usual)


REPLIES = st.builds(_completion, TEXTS, CALLS, st.booleans().map(lambda given: given and True))
SCRIPTS = st.lists(REPLIES, min_size=3, max_size=3)
APIS: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": "find tea"},
    "responses": {"model": "m", "input": "find tea"},
    "messages": {"model": "m", "messages": "find tea", "max_tokens": 500},
}


class Played:
    """A loopback server that plays one script at a time, and its clients, which are kept."""

    def __init__(self, url: str, replies: list[Any], runner: asyncio.Runner) -> None:
        self.url = url
        self.replies = replies
        self.runner = runner
        ways = itertools.product(APIS, (False, True))
        self.clients = {way: self._client(*way) for way in ways}

    def close(self) -> None:
        """Close the connections of all clients."""
        for (_, is_async), client in self.clients.items():
            if is_async:
                self.runner.run(client.close())
            else:
                client.close()

    def _client(self, api: str, is_async: bool) -> Any:
        package = anthropic if api == "messages" else openai
        name = "Anthropic" if api == "messages" else "OpenAI"
        kind = getattr(package, f"Async{name}" if is_async else name)
        url = self.url.removesuffix("/v1") if api == "messages" else self.url
        return kind(api_key="none", base_url=url, max_retries=0)


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    """Serve on loopback."""
    replies: list[Any] = []
    with asyncio.Runner() as runner, LoopbackServer(lambda _: replies.pop(0)) as server:
        served = Played(server.base_url, replies, runner)
        yield served
        served.close()


def outcome(played: Played, api: str, contract: Any, script: list[Any], mode: str) -> Any:
    """Return what became of a call: the reply or the end, and the faults of each attempt."""
    played.replies[:] = json.loads(json.dumps(script))
    client = played.clients[api, mode.startswith("async")]
    wrapped: Any = sr.wrap(client, contract=contract, policy=POLICY, api=api)
    try:
        if mode == "plain":
            exchange = wrapped.exchange(**APIS[api])
        elif mode == "streamed":
            with wrapped.stream(**APIS[api]) as stream:
                for _ in stream:
                    pass
            exchange = stream.exchange
        else:
            asked = later(wrapped, api, is_stream=mode == "async, streamed")
            exchange = played.runner.run(asked)
    except sr.CallFailed as error:
        return type(error).__mro__[1].__name__, error.reason, faults(error.attempts)

    return exchange.reply, faults(exchange.attempts)


async def later(wrapped: Any, api: str, *, is_stream: bool) -> Any:
    """Make the same call with an async client."""
    if not is_stream:
        return await wrapped.exchange(**APIS[api])

    async with wrapped.stream(**APIS[api]) as stream:
        async for _ in stream:
            pass
    return stream.exchange


def faults(attempts: Any) -> list[Any]:
    """Return the code and the place in the reply of each fault of each attempt."""
    return [seen(one.issues) for one in attempts]


def seen(issues: Any) -> list[Any]:
    """Return codes and places; how a reply ended stands elsewhere on each API."""
    places = ("/content", "/tool_calls", "/args", "/answer")
    return [(issue.code, issue.path if issue.path.startswith(places) else "") for issue in issues]


@pytest.mark.parametrize("contract", CONTRACTS)
@given(REPLIES)
def test_one_reply_has_one_verdict(contract: str, reply: Any) -> None:
    """What is judged is the same, whichever API wrote it."""
    held = CONTRACTS[contract]
    verdicts = {api: held.check(writer_named(api).written(reply, {"model": "m"})) for api in APIS}
    told = {
        api: seen(one.issues) if isinstance(one, sr.Invalid) else one.reply
        for api, one in verdicts.items()
    }
    assert told["responses"] == told["chat"]
    assert told["messages"] == told["chat"]


@pytest.mark.parametrize("contract", CONTRACTS)
@settings(max_examples=6)
@given(SCRIPTS)
def test_one_script_has_one_outcome(played: Played, contract: str, script: list[Any]) -> None:
    """Attempts, their faults, the reply and the end are the same on every API."""
    held = CONTRACTS[contract]
    expected = outcome(played, "chat", held, script, "plain")
    for api, mode in itertools.product(APIS, ("plain", "streamed", "async", "async, streamed")):
        assert outcome(played, api, held, script, mode) == expected, (api, mode)
