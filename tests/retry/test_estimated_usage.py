"""Budgets hold where an endpoint counts no tokens: they are estimated from bytes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

import strictreply as sr
from strictreply import Usage
from support.scripted import USER, Client, Server, call, completion
from support.scripted_responses import FLAT_SEARCH, call_item, response
from support.streamed_replies import SEARCH, Body, aread, over, policy, read, streamed

TEXTS = st.text(max_size=40)
MESSAGES: list[Any] = [{"role": "user", "content": "ä" * 50}]


def wrapped(*steps: Any, **keywords: Any) -> tuple[Any, Client]:
    """Wrap a scripted client without tools."""
    fake = Client(*steps)
    return sr.wrap(fake, **keywords), fake


def uncounted(content: str, usage: Any = None) -> dict[str, Any]:
    """Return a completion whose ``usage`` is left out, or is what is given."""
    response = completion(content)
    del response["usage"]
    return response if usage is None else response | {"usage": usage}


def tokens_of(value: object) -> int:
    """Count four bytes of JSON as a token, rounded up."""
    return -(-len(json.dumps(value, ensure_ascii=False).encode()) // 4)


BAD = completion(None, [call("search", {"query": "tea", "colour": "green", "more": "x" * 200})])
TIGHT = policy(max_tokens_total=10)


def cents(usage: sr.Usage) -> float:
    """Price a token at a cent."""
    return usage.total_tokens / 100


@given(TEXTS, TEXTS)
def test_four_bytes_are_a_token_rounded_up(sent: str, came: str) -> None:
    """Where nothing is counted both sides are a quarter of their bytes of JSON, rounded up."""
    usage = Usage().with_estimates(None, sent, came)
    assert usage == Usage(
        tokens_of(sent), tokens_of(came), tokens_of(sent) + tokens_of(came), is_estimate=True
    )


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99))
def test_what_is_counted_is_not_estimated(prompt: int, answer: int, total: int) -> None:
    """Counts of a provider stand as they are, zeros beside others too."""
    response: Any = {
        "usage": {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": total}
    }
    counted = Usage.of(response)
    shown = counted.with_estimates(response, "sent", "came")
    assert shown.is_estimate == (prompt == answer == 0)
    assert shown == counted or prompt == answer == 0
    assert shown.total_tokens == counted.total_tokens or counted == Usage()


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0, "completion_tokens": None}])
def test_an_attempt_without_usage_is_estimated(usage: Any) -> None:
    """An attempt whose response has no counts has the estimate of its request and message."""
    client, _ = wrapped(uncounted("hello", usage))
    exchange = client.exchange(model="m", messages=MESSAGES)
    (attempt,) = exchange.attempts
    message = {"role": "assistant", "content": "hello"}
    assert attempt.usage.is_estimate
    assert attempt.usage.prompt_tokens == tokens_of({**attempt.request, "extra_body": None})
    assert abs(attempt.usage.completion_tokens - tokens_of(message)) <= 20
    assert exchange.usage.total_tokens == attempt.usage.total_tokens


@given(st.integers(1, 10**6), TEXTS, TEXTS)
def test_a_sum_alone_is_shared_out(total: int, sent: str, came: str) -> None:
    """A sum without its parts stands, and a price counts parts in the ratio of the estimates."""
    said: Any = {"usage": {"total_tokens": total}}
    shown = Usage.of(said).with_estimates(said, sent, came)
    answer = -(-total * tokens_of(came) // (tokens_of(sent) + tokens_of(came)))
    assert shown == Usage(total - answer, answer, total, is_estimate=True)
    assert shown.completion_tokens > 0


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"prompt_tokens": 7, "total_tokens": 20}, (7, 13, 20)),
        ({"completion_tokens": 7, "total_tokens": 20, "prompt_tokens": "x"}, (13, 7, 20)),
        ({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 20}, (7, 5, 20)),
        ({"prompt_tokens": 0, "completion_tokens": 5, "total_tokens": 5}, (0, 5, 5)),
    ],
)
def test_what_follows_from_a_sum_is_counted(
    usage: dict[str, Any], counts: tuple[int, int, int]
) -> None:
    """A part that is left out is the rest of the sum, and no estimate."""
    shown = Usage.of({"usage": usage}).with_estimates({"usage": usage}, "sent", "came")
    assert shown == Usage(*counts)


@pytest.mark.parametrize("odd", ["300", -3, 2**60, True, 7.5, None, [], {}])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_what_is_no_count_is_estimated(name: str, odd: Any) -> None:
    """Texts, negative and endless numbers are no counts, also beside one that is."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1} | {name: odd}
    client, _ = wrapped(uncounted("hello " * 20, usage))
    shown = client.exchange(model="m", messages=MESSAGES).usage
    assert shown.is_estimate
    assert getattr(shown, name) > 20
    assert shown.total_tokens == getattr(shown, name) + 1


def test_objects_of_the_sdk_are_counted_as_they_are_sent() -> None:
    """A message of an earlier reply takes the tokens of its text, not of its class's name."""
    earlier = ChatCompletionMessage(role="assistant", content="x" * 4_000)
    client, _ = wrapped(uncounted("hello"))
    usage = client.exchange(model="m", messages=[*USER, earlier, *USER]).usage
    assert usage.prompt_tokens > 1_000


def test_half_a_count_is_completed() -> None:
    """The count that is left out alone is estimated, the other one stands."""
    client, _ = wrapped(uncounted("hello", {"prompt_tokens": 7}))
    usage = client.exchange(model="m", messages=USER).usage
    assert (usage.prompt_tokens, usage.is_estimate) == (7, True)
    assert usage.total_tokens == 7 + usage.completion_tokens > 7


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"max_tokens_total": 10}, "tokens"),
        ({"max_cost": 0.01, "price": cents}, "cost"),
    ],
)
def test_a_budget_without_usage_ends_the_call(budget: dict[str, Any], reason: str) -> None:
    """A budget of tokens or cost ends a call whose endpoint counts nothing."""
    client, fake = wrapped(uncounted(""), uncounted(""), policy=sr.RetryPolicy(**budget))
    with pytest.raises(sr.ReplyHalted) as raised:
        client.reply(model="m", messages=USER)

    assert raised.value.reason == reason
    assert raised.value.usage.is_estimate
    assert len(fake.script.requests) == 1


@pytest.mark.parametrize(
    "usage", [{"total_tokens": 50}, {"prompt_tokens": "9", "total_tokens": 50}]
)
def test_a_price_of_the_parts_holds_where_a_sum_is_told(usage: dict[str, Any]) -> None:
    """A price of answers alone bounds a call whose endpoint tells nothing but sums."""
    budget = sr.RetryPolicy(max_cost=0.01, price=lambda usage: usage.completion_tokens / 100)
    client, fake = wrapped(uncounted("", usage), uncounted("", usage), policy=budget)
    with pytest.raises(sr.ReplyHalted) as raised:
        client.reply(model="m", messages=USER)

    assert (raised.value.reason, len(fake.script.requests)) == ("cost", 1)
    assert raised.value.usage.total_tokens == 50


def test_a_price_that_is_no_number_ends_the_call() -> None:
    """A cost that cannot be compared is not below the bound."""
    budget = sr.RetryPolicy(max_cost=0.01, price=lambda _: float("nan"))
    client, fake = wrapped(completion(""), completion(""), policy=budget)
    with pytest.raises(sr.ReplyHalted) as raised:
        client.reply(model="m", messages=USER)

    assert (raised.value.reason, len(fake.script.requests)) == ("cost", 1)


def test_sums_for_the_bill_hold_no_estimates() -> None:
    """``usage_mode="total"`` adds up what the API counted: an estimate is not its count."""
    client, _ = wrapped(uncounted(""), completion("x", tokens=(7, 3)), usage_mode="total")
    written = client.chat.completions.create(model="m", messages=USER)["usage"]
    assert written == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stopped_early_stream_counts(is_async: bool) -> None:
    """A stream that was closed at its fault counts its request and what had come of it."""
    server = Server(streamed(BAD, usage=False))
    inner: Any = server.async_client() if is_async else server.client()
    client = sr.wrap(inner, tools=[SEARCH], policy=TIGHT)
    told = asyncio.run(aread(client)) if is_async else read(client)

    assert isinstance(told.error, sr.ReplyHalted)
    assert told.error.reason == "tokens"
    (attempt,) = told.error.attempts
    assert attempt.stopped_early is not None
    assert attempt.usage.is_estimate
    assert attempt.usage.completion_tokens < tokens_of(BAD["choices"][0]["message"])
    assert attempt.usage.completion_tokens > 0


def test_a_stream_that_broke_off_counts() -> None:
    """What had come of a stream before its connection broke is counted."""
    whole = streamed(completion("x" * 400), usage=False).stream.pieces
    pieces = [*list(whole)[:-3], ConnectionError("reset")]
    client = sr.wrap(Server(over(Body(pieces))).client(), tools=[SEARCH], policy=TIGHT)
    told = read(client)
    assert told.error is not None
    assert told.error.usage.is_estimate
    assert told.error.usage.total_tokens > 100


THOUGHT = "thought " * 500
CHUNK: dict[str, Any] = {
    "id": "x",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
}
BEGUN = response() | {"status": "in_progress", "output": [], "usage": None}
REASONING = {"type": "reasoning", "id": "rs", "summary": []}
THINKING: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "chat": (
        lambda client: client.chat.completions.create(model="m", messages=USER, stream=True),
        [
            CHUNK | {"choices": [{"index": 0, "delta": {"role": "assistant"}}]},
            CHUNK | {"choices": [{"index": 0, "delta": {"reasoning_content": THOUGHT}}]},
        ],
    ),
    "responses": (
        lambda client: client.responses.create(model="m", input="x", stream=True),
        [
            {"type": "response.created", "response": BEGUN},
            {"type": "response.output_item.added", "output_index": 0, "item": REASONING},
            {
                "type": "response.reasoning_summary_text.delta",
                "item_id": "rs",
                "output_index": 0,
                "summary_index": 0,
                "delta": THOUGHT,
            },
        ],
    ),
}


def broken_off(api: str, count: int) -> sr.Usage:
    """Read streams of thoughts that break off behind some events; return what they took."""
    ask, events = THINKING[api]
    numbered = [one | {"sequence_number": at} for at, one in enumerate(events[:count])]
    lines = [f"data: {json.dumps(one)}\n\n".encode() for one in numbered]
    budget = policy(max_tokens_total=900, transport_retries=1)
    steps = [over(Body([*lines, ConnectionError("reset")])) for _ in range(2)]
    client: Any = sr.wrap(Server(*steps).client(), policy=budget, tools=[SEARCH])
    with pytest.raises(sr.CallFailed) as raised:
        list(ask(client))

    return raised.value.usage


@pytest.mark.parametrize("api", THINKING)
def test_thoughts_that_broke_off_count(api: str) -> None:
    """A stream that thought and broke off has taken these tokens, and ends the call's budget."""
    usage = broken_off(api, len(THINKING[api][1]))
    assert usage.is_estimate
    assert 1_000 < usage.completion_tokens < 1_100


@pytest.mark.parametrize("api", THINKING)
def test_a_stream_without_an_event_counts_nothing(api: str) -> None:
    """Where nothing came the model may not have been asked at all."""
    assert broken_off(api, 0) == Usage()
    assert broken_off(api, 1).is_estimate


def test_a_response_without_usage_is_estimated() -> None:
    """The budgets hold on the Responses API too."""
    server = Server(response(call_item("search", {"query": 1}), usage=None))
    client: Any = sr.wrap(server.client(), policy=TIGHT)
    with pytest.raises(sr.ReplyHalted) as raised:
        client.responses.create(model="m", input="x", tools=[FLAT_SEARCH])

    assert (raised.value.reason, len(server.requests)) == ("tokens", 1)
    assert raised.value.usage.is_estimate


def test_a_run_without_usage_is_bounded() -> None:
    """``LoopPolicy(max_tokens_total=…)`` holds where an endpoint counts nothing."""

    def search(query: str) -> str:
        """Search the shop."""
        return query

    asked = completion(None, [call("search", {"query": "tea"})]) | {"usage": None}
    client = sr.wrap(Server(asked).client(), tools=[search])
    with pytest.raises(sr.ReplyHalted) as raised:
        sr.run(client, "Find tea.", model="m", loop=sr.LoopPolicy(max_tokens_total=10))

    assert (raised.value.reason, len(raised.value.attempts)) == ("tokens", 1)
