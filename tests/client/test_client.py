"""The wrapped client, sync and async, over scripted clients.

Only valid replies come out, and nothing runs before.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import json
import logging
from collections.abc import Callable
from copy import deepcopy
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from tenacity import stop_after_attempt, stop_after_delay, wait_fixed, wait_none

import strictreply as sr
from strictreply.client._wrapped import CallKeywords
from support.scripted import (
    OTHER_SCHEMA,
    SCHEMA,
    USER,
    AsyncClient,
    Client,
    StatusError,
    Step,
    call,
    completion,
    filtered,
    refusal,
    truncated,
)

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
WEATHER = sr.Tool.from_json_schema("weather", OTHER_SCHEMA)
TOOLS = [SEARCH, WEATHER]
NO_WAIT = sr.RetryPolicy(wait=wait_none())
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])


def wrapped(*steps: Step, **declared: Any) -> tuple[sr.StrictClient, Client]:
    """Wrap a scripted client; gives it with the script's client."""
    fake = Client(*steps)
    client = sr.wrap(fake, **{"tools": TOOLS, "policy": NO_WAIT, **declared})
    assert isinstance(client, sr.StrictClient)
    return client, fake


def text(client: sr.StrictClient, **keywords: Any) -> sr.Exchange:
    """Make one exchange."""
    return client.exchange(model="m", messages=USER, **keywords)


@pytest.mark.req("T16", "T40")
def test_prose_and_then_an_answer_is_two_calls() -> None:
    """``not a valid json`` is a fault, not an exception: one correction brings the answer."""
    client, fake = wrapped(
        completion("not a valid json"), completion('{"answer":"42"}'), channel="text"
    )
    assert client.reply(model="m", messages=USER) == sr.DirectAnswer("42")
    assert len(fake.script.requests) == 2


@pytest.mark.req("T22")
def test_the_caller_sees_the_good_reply_only() -> None:
    """The result holds no trace of the bad text, until the attempts are asked for it."""
    client, _ = wrapped(
        completion("not a valid json"), completion('{"answer":"42"}'), channel="text"
    )
    exchange = text(client)
    assert "not a valid json" not in repr(
        (exchange, exchange.reply, exchange.completion, exchange.transcript)
    )
    assert "not a valid json" in json.dumps(exchange.attempts[0].raw)


@pytest.mark.req("T25")
def test_the_result_is_the_parsed_object() -> None:
    """The result is a DirectAnswer or a ToolCall, not a text."""
    assert isinstance(text(wrapped(completion("hello"))[0]).reply, sr.DirectAnswer)
    assert isinstance(text(wrapped(GOOD)[0]).reply, sr.ToolCall)


@pytest.mark.req("T26")
def test_the_transcript_looks_as_if_the_first_shot_had_hit() -> None:
    """System, user and the accepted assistant turn: no bad reply, no correction; the caller's list
    is untouched.
    """
    messages = deepcopy(USER)
    client, fake = wrapped(WRONG, completion("", []), GOOD)
    transcript = client.exchange(model="m", messages=messages).transcript
    assert [turn["role"] for turn in transcript] == ["system", "user", "assistant"]
    assert transcript[:2] == messages == USER
    assert transcript[2]["tool_calls"][0]["function"]["arguments"] == '{"query": "tea"}'
    assert len(fake.script.requests) == 3


def test_each_retry_request_is_the_conversation_and_the_last_reply() -> None:
    """The whole conversation, the last bad reply and one correction are in each request, earlier
    ones in none (X28).
    """
    client, fake = wrapped(
        completion("one"), completion("two"), completion('{"answer":"42"}'), channel="text"
    )
    transcript = text(client).transcript
    second, third = fake.script.messages[1:]
    assert [turn["content"] for turn in second if turn["role"] == "assistant"] == ["one"]
    assert [turn["content"] for turn in third if turn["role"] == "assistant"] == ["two"]

    # the first is constrained: its correction joins the instructions, and the user's words follow
    assert second[1] == second[-1] == third[1] == USER[-1]
    assert second[0]["content"].startswith(third[0]["content"])
    assert "not valid JSON" in second[0]["content"]
    assert len(second) == len(third) == 4
    assert [turn["role"] for turn in transcript] == ["system", "user", "assistant"]


@pytest.mark.req("T24")
def test_spent_retries_raise_with_every_attempt() -> None:
    """Exhaustion is a typed error that carries every attempt; a model's text is never returned as
    if it were valid.
    """
    client, _ = wrapped(*[completion(f"bad {number}") for number in range(4)], channel="text")
    with pytest.raises(sr.ReplyRejected) as raised:
        client.reply(model="m", messages=USER)

    error = raised.value
    assert [attempt.number for attempt in error.attempts] == [1, 2, 3, 4]
    assert [attempt.raw["choices"][0]["message"]["content"] for attempt in error.attempts] == [  # type: ignore[index, call-overload]
        f"bad {number}" for number in range(4)
    ]
    assert (error.reason, error.usage) == ("retries", sr.Usage(40, 20, 60))

    assert [issue.code for issue in error.issues] == ["json.syntax"]


@pytest.mark.req("T23")
@pytest.mark.parametrize("retries", [0, 1, 2, 4])
def test_retries_are_bounded(retries: int) -> None:
    """An always bad model is asked 1 + max_retries times, then the call fails."""
    client, fake = wrapped(*[completion("")] * 9, policy=sr.RetryPolicy(max_retries=retries))
    with pytest.raises(sr.ReplyRejected):
        client.reply(model="m", messages=USER)
    assert len(fake.script.requests) == 1 + retries


@pytest.mark.req("T30")
def test_bad_arguments_twice_name_the_tool() -> None:
    """With one argument retry, bad and bad again is a ToolArgumentsError with the tool and its
    faults; nothing ran.
    """
    ran: list[object] = []
    spy = sr.Tool.from_json_schema("search", SCHEMA, function=ran.append)
    client, fake = wrapped(WRONG, WRONG, GOOD, tools=[spy], policy=sr.RetryPolicy(arg_retries=1))

    with pytest.raises(sr.ToolArgumentsError) as raised:
        sr.run(client, USER, model="m")

    assert ran == []
    assert (raised.value.tool, raised.value.reason) == ("search", "arg_retries")
    assert [issue.code for issue in raised.value.issues] == ["args.type"]
    assert len(fake.script.requests) == 2


def test_an_async_check_for_one_call_is_refused_before_anything_is_sent() -> None:
    """A sync client refuses an async check, also of a tool that is passed with the call."""

    async def check(args: object) -> None:
        """Find nothing."""

    client, fake = wrapped(GOOD)
    with pytest.raises(sr.ContractError):
        client.reply(
            model="m",
            messages=USER,
            tools=[sr.Tool.from_json_schema("search", SCHEMA, check=check)],
        )

    assert fake.script.requests == []


def test_tools_of_one_call_are_held_as_strictly_as_the_contracts_own() -> None:
    """``extra`` and ``formats`` of the contract reach what a request brings along."""
    extra = completion(calls=[call("search", {"query": "a", "more": 1})])
    definition = sr.Tool.from_json_schema("search", SCHEMA, extra="schema").definition
    lenient, _ = wrapped(extra, tools=[], extra="schema")
    assert isinstance(lenient.reply(model="m", messages=USER, tools=[definition]), sr.ToolCall)
    strict, _ = wrapped(extra, tools=[], policy=sr.RetryPolicy(max_retries=0))
    with pytest.raises(sr.ToolArgumentsError):
        strict.reply(model="m", messages=USER, tools=[definition])


def test_bad_arguments_without_retries_name_the_tool() -> None:
    """The kind of error does not depend on how many retries there were."""
    client, _ = wrapped(WRONG, policy=sr.RetryPolicy(max_retries=0))
    with pytest.raises(sr.ToolArgumentsError) as raised:
        client.reply(model="m", messages=USER)
    assert (raised.value.tool, raised.value.reason) == ("search", "retries")


@pytest.mark.req("T35", "T41")
@pytest.mark.parametrize(
    "bad",
    [completion(calls=[call("bogus", {})]), WRONG, completion(calls=[call("search", "{broken")])],
)
def test_bad_tool_calls_are_capped(bad: Any) -> None:
    """Two bad calls with a cap of two stop with that reason; the third reply is never asked for."""
    client, fake = wrapped(bad, bad, GOOD, policy=sr.RetryPolicy(max_invalid_calls=2))
    with pytest.raises(sr.ReplyRejected, match="too many bad tool calls") as raised:
        client.reply(model="m", messages=USER)
    assert raised.value.reason == "invalid_calls"
    assert len(fake.script.requests) == 2


@pytest.mark.req("T32")
def test_a_mended_shape_still_meets_the_arguments() -> None:
    """Bad JSON, then a call with bad arguments, then a good one: three calls within the budget."""
    client, fake = wrapped(
        completion("nope"),
        completion('{"tool":"search","args":{"query":1}}'),
        completion('{"tool":"search","args":{"query":"tea"}}'),
        channel="text",
        policy=sr.RetryPolicy(max_retries=2),
    )
    assert client.reply(model="m", messages=USER) == sr.ToolCall("search", {"query": "tea"})
    assert len(fake.script.requests) == 3


@pytest.mark.req("T41")
def test_an_unknown_tool_and_then_an_answer() -> None:
    """An unknown tool is corrected with the list of tools, and the answer that follows is taken."""
    client, fake = wrapped(completion(calls=[call("bogus", {})]), completion("42"))
    assert client.reply(model="m", messages=USER) == sr.DirectAnswer("42")
    assert "search, weather" in fake.script.messages[1][-1]["content"]


@pytest.mark.req("T41")
def test_a_malformed_final_answer_is_corrected() -> None:
    """With ``answer_style="tool"`` a final_answer without answer is a fault, and the mended one is
    the answer.
    """
    client, _ = wrapped(
        completion(calls=[call("final_answer", {"foo": 1})]),
        completion(calls=[call("final_answer", {"answer": "42"})]),
        answer_style="tool",
    )
    assert client.reply(model="m", messages=USER) == sr.DirectAnswer("42")


@pytest.mark.parametrize(
    ("reply", "reason"), [(refusal(), "refusal"), (filtered(), "content_filter")]
)
def test_what_was_declined_is_not_asked_again(reply: Any, reason: str) -> None:
    """A refusal or a content filter halts after one call."""
    client, fake = wrapped(reply, GOOD)
    with pytest.raises(sr.ReplyHalted) as raised:
        client.reply(model="m", messages=USER)
    assert raised.value.reason == reason
    assert len(fake.script.requests) == 1


def test_usage_is_summed() -> None:
    """The bill of a call is that of all its attempts."""
    client, _ = wrapped(
        completion("", tokens=(100, 0)), StatusError(500), completion("x", tokens=(7, 3))
    )
    exchange = text(client)
    assert exchange.usage == sr.Usage(107, 3, 110)
    assert [attempt.usage.total_tokens for attempt in exchange.attempts] == [100, 0, 10]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"max_tokens_total": 15}, "tokens"),
        ({"max_cost": 1.0, "price": lambda usage: usage.total_tokens / 10}, "cost"),
        ({"deadline": 0.0}, "deadline"),
    ],
)
def test_a_spent_budget_halts(fields: dict[str, Any], reason: str) -> None:
    """Tokens, cost and time end a call before the next ask."""
    client, fake = wrapped(completion(""), GOOD, policy=sr.RetryPolicy(**fields))
    with pytest.raises(sr.ReplyHalted) as raised:
        client.reply(model="m", messages=USER)
    assert raised.value.reason == reason
    assert len(fake.script.requests) == 1


def test_a_tenacity_stop_rejects() -> None:
    """``stop_after_attempt(2) | stop_after_delay(20)`` ends after two attempts."""
    policy = sr.RetryPolicy(max_retries=9, stop=stop_after_attempt(2) | stop_after_delay(20))
    client, fake = wrapped(*[completion("")] * 5, policy=policy)
    with pytest.raises(sr.ReplyRejected) as raised:
        client.reply(model="m", messages=USER)
    assert raised.value.reason == "stop"
    assert len(fake.script.requests) == 2


@pytest.mark.parametrize(
    ("error", "calls", "reason"),
    [
        (StatusError(429), 3, "rate_limit"),
        (StatusError(500), 3, "server_error"),
        (StatusError(401), 1, "authentication_failed"),
        (StatusError(429, {"retry-after": "59"}), 1, "rate_limit"),
        (StatusError(429, {"retry-after": "0"}), 3, "rate_limit"),
        (TimeoutError(), 3, "timeout"),
        (ConnectionError(), 3, "connection"),
    ],
)
def test_transport_failures_carry_their_cause(error: Exception, calls: int, reason: str) -> None:
    """The error says what the server said of waiting and keeps the SDK's own exception, but no
    traceback prints it.
    """
    client, fake = wrapped(
        *[error] * 9, policy=sr.RetryPolicy(wait=wait_none(), max_retry_after=10)
    )
    with pytest.raises(sr.TransportFailed) as raised:
        client.reply(model="m", messages=USER)

    failure = raised.value
    assert (failure.reason, failure.cause) == (reason, error)
    assert (failure.__cause__, failure.__context__) == (None, None)
    assert failure.status_code == getattr(error, "status_code", None)

    assert len(fake.script.requests) == calls
    assert failure.retry_after in {None, 59.0, 0.0}


def test_a_malformed_envelope_is_resent_and_then_failed() -> None:
    """A response that is not a completion is repeated on the transport's budget, then fails with
    its own reason.
    """
    client, fake = wrapped(*[{"choices": []}] * 9)
    with pytest.raises(sr.TransportFailed) as raised:
        client.reply(model="m", messages=USER)
    assert (raised.value.reason, raised.value.cause) == ("malformed_response", None)
    assert len(fake.script.requests) == 3
    assert [issue.code for issue in raised.value.issues] == ["envelope.choices"]


@pytest.mark.parametrize(
    "error", [TypeError("bug"), StopIteration("spent mock"), KeyboardInterrupt(), SystemExit()]
)
def test_what_is_no_failure_passes_through_unchanged(error: BaseException) -> None:
    """A bug of the caller's client and Ctrl-C reach the caller as they are, after one call."""
    client, fake = wrapped(error, GOOD)
    with pytest.raises(type(error)) as raised:
        client.reply(model="m", messages=USER)
    assert raised.value is error
    assert len(fake.script.requests) == 1


def test_cancellation_passes_through() -> None:
    """A cancelled task ends with CancelledError, whatever budgets are left."""

    class Hanging(AsyncClient):
        """Never answers."""

        async def create(self, **request: Any) -> Any:
            """Wait for ever."""
            started.set()
            await asyncio.Event().wait()

    async def main() -> None:
        client = sr.wrap(Hanging(), tools=TOOLS, policy=sr.RetryPolicy(deadline=60))
        task = asyncio.create_task(client.reply(model="m", messages=USER))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    started = asyncio.Event()
    asyncio.run(main())


def test_the_deadline_cuts_an_async_call() -> None:
    """An async call that never ends is cut at the deadline, whatever the client does with its
    timeout.
    """

    class Hanging(AsyncClient):
        """Never answers."""

        async def create(self, **request: Any) -> Any:
            """Wait for ever."""
            await asyncio.Event().wait()

    client = sr.wrap(Hanging(), policy=sr.RetryPolicy(deadline=0.01))
    with pytest.raises(sr.ReplyHalted) as raised:
        asyncio.run(client.reply(model="m", messages=USER))

    assert raised.value.reason == "deadline"


@pytest.mark.req("T15")
@pytest.mark.parametrize(
    "bad", [completion("prose"), completion('{"tool":"spy","args":{"n":"1"}}'), completion("")]
)
def test_no_tool_logic_before_the_whole_reply_passed(bad: Any) -> None:
    """An invalid reply runs no tool."""
    ran: list[int] = []

    @sr.tool
    def spy(n: int) -> int:
        ran.append(n)
        return n

    client, _ = wrapped(*[bad] * 4, tools=[spy], channel="text")
    with pytest.raises(sr.ReplyRejected):
        sr.run(client, USER, model="m")

    assert ran == []


@pytest.mark.req("T20")
def test_a_mended_call_runs_once_with_the_mended_arguments() -> None:
    """Invalid, then a valid call: the tool runs exactly once, with what the correction brought."""
    ran: list[int] = []

    @sr.tool
    def spy(n: int) -> int:
        ran.append(n)
        return n

    client, _ = wrapped(
        completion('{"tool":"spy","args":{"n":"7"}}'),
        completion('{"tool":"spy","args":{"n":7}}'),
        completion('{"answer":"done"}'),
        tools=[spy],
        channel="text",
    )
    assert sr.run(client, USER, model="m").answer == "done"
    assert ran == [7]


@pytest.mark.req("T43")
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 30) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["n", "m"]), inner, max_size=2)
        ),
        max_leaves=4,
    ),
    st.sampled_from(["native", "text"]),
)
def test_a_tool_runs_only_with_arguments_that_fit(args: Any, channel: Any) -> None:
    """For any arguments, the tool runs exactly when they fit its schema."""
    ran: list[Any] = []
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 20}},
        "required": ["n"],
    }
    spy = sr.Tool.from_json_schema("spy", schema, function=ran.append)
    asked = completion(json.dumps({"tool": "spy", "args": args})) if channel == "text" else None

    done = completion("done" if channel == "native" else '{"answer":"done"}')
    client, _ = wrapped(
        asked or completion(calls=[call("spy", args)]),
        done,
        tools=[spy],
        channel=channel,
        policy=sr.RetryPolicy(max_retries=0),
    )

    fits = (
        isinstance(args, dict)
        and args.keys() == {"n"}
        and type(args["n"]) is int
        and 1 <= args["n"] <= 20
    )
    with contextlib.nullcontext() if fits else pytest.raises(sr.ReplyRejected):
        sr.run(client, USER, model="m")

    assert ran == ([args] if fits else [])


STEPS: dict[str, Callable[[], Step]] = {
    "call": lambda: GOOD,
    "answer": lambda: completion("fine"),
    "wrong": lambda: WRONG,
    "empty": lambda: completion(""),
    "unknown": lambda: completion(calls=[call("bogus", {})]),
    "two": lambda: completion(
        calls=[call("search", {"query": 1}, "a"), call("weather", {"city": "x"}, "b")]
    ),
    "truncated": truncated,
    "refusal": refusal,
    "filtered": filtered,
    "malformed": lambda: {"choices": []},
    "status": lambda: StatusError(503),
    "final": lambda: StatusError(401),
    "timeout": TimeoutError,
}
POLICIES = st.builds(
    sr.RetryPolicy,
    max_retries=st.integers(0, 4),
    arg_retries=st.none() | st.integers(0, 2),
    transport_retries=st.integers(0, 3),
    max_invalid_calls=st.none() | st.integers(1, 3),
    allow_other_tool=st.booleans(),
    wait=st.just(wait_none()),
)
SCRIPTS = st.lists(st.sampled_from(sorted(STEPS)), max_size=8)


def outcome_of(make: Callable[[], sr.Exchange]) -> Any:
    """Return an exchange or an error in comparable terms: everything but the seconds."""
    try:
        exchange = make()
    except sr.CallFailed as error:
        return (
            type(error),
            error.reason,
            str(error),
            [untimed(attempt) for attempt in error.attempts],
        )

    return (
        exchange.reply,
        exchange.completion,
        exchange.transcript,
        [untimed(one) for one in exchange.attempts],
    )


def untimed(attempt: sr.Attempt) -> dict[str, Any]:
    """Return an attempt without its seconds."""
    return attempt.to_dict(raw=True) | {"seconds": 0}


@given(SCRIPTS, POLICIES, st.booleans())
def test_the_twins_do_the_same(names: list[str], policy: sr.RetryPolicy, parallel: bool) -> None:
    """Sync and async give the same outcome, the same requests and the same attempts for the same
    script.
    """
    steps = [STEPS[name]() for name in [*names, *["empty"] * 9]]
    fake = Client(*steps)
    afake = AsyncClient(*steps)
    client = sr.wrap(fake, tools=TOOLS, policy=policy, parallel=parallel)

    twin = sr.wrap(afake, tools=TOOLS, policy=policy, parallel=parallel)
    one = outcome_of(lambda: client.exchange(model="m", messages=USER, max_tokens=4))
    other = outcome_of(lambda: asyncio.run(twin.exchange(model="m", messages=USER, max_tokens=4)))
    assert one == other

    assert fake.script.requests == afake.script.requests


@given(SCRIPTS, POLICIES)
def test_calls_are_bounded_and_exhaustion_raises(names: list[str], policy: sr.RetryPolicy) -> None:
    """At most 1 + max_retries + transport_retries calls are made; what comes back fits, everything
    else raises.
    """
    client, fake = wrapped(*[STEPS[name]() for name in [*names, *["empty"] * 9]], policy=policy)
    attempts: tuple[sr.Attempt, ...]
    try:
        exchange = text(client)
    except sr.CallFailed as error:
        attempts = error.attempts
        accepted = False
    else:
        attempts = exchange.attempts
        accepted = True
        assert sr.Contract(tools=TOOLS).check(exchange.completion) == sr.Valid(exchange.reply)

    assert attempts[-1].accepted is accepted
    assert len(attempts) == len(fake.script.requests)
    assert len(fake.script.requests) <= 1 + policy.max_retries + policy.repeats


def test_concurrent_calls_do_not_mix() -> None:
    """A hundred tasks on one wrapped client, each corrected once, each get their own reply."""

    class Echo(AsyncClient):
        """Answers each question wrongly first, rightly when corrected, other tasks in between."""

        async def create(self, **request: Any) -> Any:
            """Echo the number that was asked for."""
            await asyncio.sleep(0)
            number = request["messages"][0]["content"]
            corrected = request["messages"][-1]["role"] == "tool"
            return completion(
                calls=[call("search", {"query": number if corrected else 1}, number)], tokens=(1, 1)
            )

    async def ask(client: Any, number: int) -> Any:
        exchange = await client.exchange(
            model="m", messages=[{"role": "user", "content": str(number)}]
        )
        return exchange.reply, len(exchange.attempts), exchange.transcript[0]["content"]

    async def main() -> list[Any]:
        client = sr.wrap(Echo(), tools=TOOLS)
        return await asyncio.gather(*(ask(client, number) for number in range(100)))

    assert asyncio.run(main()) == [
        (sr.ToolCall("search", {"query": str(number)}, str(number)), 2, str(number))
        for number in range(100)
    ]


def test_keywords_of_one_call_replace_what_was_wrapped() -> None:
    """``tools``, ``policy`` and ``contract`` may be given to one call, and hold for it alone."""
    weather = completion(calls=[call("weather", {"city": "x"})])
    client, fake = wrapped(weather, completion('{"answer":"x"}'), WRONG, GOOD)
    assert text(client, tools=[WEATHER.definition]).reply == sr.ToolCall(
        "weather", {"city": "x"}, "call_a"
    )
    assert [tool["function"]["name"] for tool in fake.script.requests[0]["tools"]] == ["weather"]

    contract = sr.Contract(channel="text")
    assert text(client, contract=contract).reply == sr.DirectAnswer("x")

    with pytest.raises(sr.ToolArgumentsError):
        text(client, policy=sr.RetryPolicy(max_retries=0))

    assert text(client).reply == sr.ToolCall("search", {"query": "tea"}, "call_a")
    assert "policy" not in fake.script.requests[2]


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"n": 2}, sr.ContractError),
        ({"functions": [{"name": "f"}]}, sr.ContractError),
        ({"tool_choice": "nobody"}, sr.ContractError),
        ({"messages": b"hello"}, sr.ContractError),
    ],
)
def test_what_cannot_be_held_is_not_sent(keywords: dict[str, Any], error: type[Exception]) -> None:
    """The request is refused with a clear error, and no call is made."""
    client, fake = wrapped(GOOD)
    with pytest.raises(error):
        client.create(**{"model": "m", "messages": USER, **keywords})
    assert fake.script.requests == []


def test_a_client_that_cannot_stream_gives_its_completion_in_chunks() -> None:
    """Asked for a stream, it gives the accepted reply as the chunks of one."""
    client, fake = wrapped(GOOD)
    chunks: list[Any] = list(client.create(model="m", messages=USER, stream=True))
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] == "tool_calls"
    assert fake.script.requests[0]["stream"] is True


def test_pauses_are_slept_and_checks_are_made() -> None:
    """Both clients perform every effect: the pause of the policy, and the user's check of a valid
    call.
    """
    seen: list[str] = []

    def check(args: Any) -> None:
        seen.append(args["query"])

    policy = sr.RetryPolicy(wait=wait_fixed(1e-9))
    checked = sr.Tool.from_json_schema("search", SCHEMA, check=check)
    steps: list[Step] = [StatusError(500), GOOD]
    client, _ = wrapped(*steps, tools=[checked], policy=policy)

    twin = sr.wrap(AsyncClient(*steps), tools=[checked], policy=policy)
    assert text(client).reply == asyncio.run(twin.reply(model="m", messages=USER))
    assert seen == ["tea", "tea"]


def test_the_answer_alone() -> None:
    """``answer`` gives what a contract without tools admits, asked again until it fits; sync and
    async.
    """
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    replies = [completion('{"total": "3"}'), completion('{"total": 3}')]
    client, fake = wrapped(*replies, tools=[], answer=schema)
    assert client.answer(model="m", messages=USER) == {"total": 3}
    assert len(fake.script.requests) == 2
    twin = sr.wrap(AsyncClient(*replies), answer=schema)
    assert asyncio.run(twin.answer(model="m", messages=USER)) == {"total": 3}


def test_the_answer_alone_needs_a_contract_of_answers() -> None:
    """Where a call of a tool would be valid too, nothing is sent; ``tool_choice="none"`` leaves
    answers alone.
    """
    client, fake = wrapped(completion("done"))
    with pytest.raises(sr.ContractError):
        client.answer(model="m", messages=USER)
    assert fake.script.requests == []
    assert client.answer(model="m", messages=USER, tool_choice="none") == "done"


def test_the_keywords_of_a_call_are_the_apis() -> None:
    """Type checkers know every keyword of ``chat.completions.create`` but the legacy ones, and
    ours.
    """
    known = get_type_hints(CompletionCreateParamsNonStreaming).keys() - {
        "functions",
        "function_call",
    }
    assert known <= CallKeywords.__annotations__.keys()


def test_create_gives_the_completion_through_the_sdks_own_path() -> None:
    """``chat.completions.create`` is guarded; what it gives is the client's own completion."""
    client, _ = wrapped(WRONG, GOOD)
    given: object = client.chat.completions.create(model="m", messages=USER)
    assert given == GOOD


def test_watchers_are_told_of_every_attempt() -> None:
    """``on_attempt`` sees each attempt in order, also the last of a failed call; async ones are
    awaited.
    """
    seen: list[int] = []
    client, _ = wrapped(
        completion(""), GOOD, on_attempt=lambda attempt: seen.append(attempt.number)
    )
    text(client)
    assert seen == [1, 2]

    async def watch(attempt: sr.Attempt) -> None:
        await asyncio.sleep(0)
        seen.append(10 * attempt.number)

    twin = sr.wrap(AsyncClient(refusal()), on_attempt=watch)
    with pytest.raises(sr.ReplyHalted):
        asyncio.run(twin.reply(model="m", messages=USER))

    assert seen == [1, 2, 10]


def test_raw_replies_are_logged_only_through_the_callers_redaction(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At DEBUG there are codes; the raw reply stands there only as ``log_replies`` gave it."""
    caplog.set_level(logging.DEBUG, "strictreply")
    text(wrapped(completion(""), completion("secret"))[0])
    assert "secret" not in caplog.text
    assert "reply.empty" in caplog.text
    text(wrapped(completion("secret"), log_replies=lambda raw: raw.replace("secret", "[gone]"))[0])
    assert "secret" not in caplog.text
    assert "[gone]" in caplog.text


def test_async_checks_need_an_async_client() -> None:
    """A sync client is refused an async check or watcher while wrapping; an async one awaits the
    check.
    """

    async def check(args: Any) -> None:
        await asyncio.sleep(0)
        if args["query"] == "tea":
            message = "no tea today"
            raise ValueError(message)

    async def watch(attempt: sr.Attempt) -> None:
        """See nothing."""

    checked = sr.Tool.from_json_schema("search", SCHEMA, check=check)
    with pytest.raises(sr.ContractError):
        wrapped(GOOD, tools=[checked])

    with pytest.raises(sr.ContractError):
        wrapped(GOOD, on_attempt=watch)

    fake = AsyncClient(GOOD, completion(calls=[call("search", {"query": "milk"})]))
    exchange = asyncio.run(sr.wrap(fake, tools=[checked]).exchange(model="m", messages=USER))
    assert exchange.reply == sr.ToolCall("search", {"query": "milk"}, "call_a")
    assert [issue.code for issue in exchange.attempts[0].issues] == ["args.check"]

    assert "no [value] today" in fake.script.messages[1][-1]["content"]


def test_a_contract_and_its_keywords_exclude_each_other() -> None:
    """``wrap`` takes a ready contract or the keywords of one."""
    contract = sr.Contract(tools=TOOLS)
    assert sr.wrap(Client(), contract=contract).contract is contract
    keywords: list[dict[str, Any]] = [{"tools": []}, {"channel": "text"}]
    for declared in keywords:
        with pytest.raises(sr.ContractError):
            sr.wrap(Client(), contract=contract, **declared)


def test_what_is_no_client_is_refused() -> None:
    """An object without ``chat.completions.create`` cannot be wrapped."""
    with pytest.raises(TypeError):
        sr.wrap(object())


def test_an_async_client_is_told_by_its_create() -> None:
    """Async functions, partials of them, and objects that are called like them."""

    class Create:
        """Called like an async function."""

        async def __call__(self, **request: Any) -> Any:
            """Return the reply."""
            return GOOD

    for create in (AsyncClient(GOOD).create, functools.partial(AsyncClient(GOOD).create), Create()):
        fake = AsyncClient()
        fake.chat.completions.create = create
        twin = sr.wrap(fake, tools=TOOLS)
        assert asyncio.run(twin.reply(model="m", messages=USER)) == sr.ToolCall(
            "search", {"query": "tea"}, "call_a"
        )


def test_a_wrapped_client_can_be_copied() -> None:
    """Python's own protocols are not looked up on the client inside."""
    client, _ = wrapped(GOOD)
    given: object = copy.copy(client.chat.completions).create(model="m", messages=USER)
    assert given == GOOD
    assert copy.copy(client).contract is client.contract


class Plainly:
    """A steering of one sentence."""

    def correction(self, context: sr.CorrectionContext) -> str:
        """Return a correction that counts the faults."""
        return f"{len(context.issues)} faults"


def test_a_call_may_have_its_own_steering() -> None:
    """``steering`` words the corrections of one call; the next call has the client's own again."""
    client, fake = wrapped(WRONG, GOOD, WRONG, GOOD)
    text(client, steering=Plainly())
    text(client)
    assert fake.script.requests[1]["messages"][-1]["content"] == "1 faults"
    assert fake.script.requests[3]["messages"][-1]["content"] != "1 faults"
    assert all("steering" not in request for request in fake.script.requests)


def test_what_is_set_on_a_wrapped_client_stays() -> None:
    """A patched ``create`` is what a program calls from then on, and what our own asks use."""
    client, _ = wrapped(GOOD, GOOD)
    seen: list[Any] = []
    guarded = client.chat.completions.create

    def spy(**keywords: Any) -> Any:
        seen.append(keywords["messages"])
        return guarded(**keywords)

    chat: Any = client.chat
    chat.completions.create = spy
    client.chat.completions.create(model="m", messages=USER)
    assert seen == [USER]
