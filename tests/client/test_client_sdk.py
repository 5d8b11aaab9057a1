"""The real SDK over a mock transport.

The bytes are the same, the completions and attributes its own, and no exception is foreign. Runs
with openai 3 (httpx2) and openai 2 (httpx) alike.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from collections.abc import Callable
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from tenacity import wait_none

import strictreply as sr
from support.loops import some
from support.scripted import SCHEMA, USER, Server, call, completion, http, status

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
NO_WAIT = sr.RetryPolicy(wait=wait_none())


def wrapped(
    *answers: Any, options: dict[str, Any] | None = None, **declared: Any
) -> tuple[sr.StrictClient, Server]:
    """Wrap a real sync client over a mock server."""
    server = Server(*answers)
    return sr.wrap(
        server.client(**(options or {})), **{"tools": [SEARCH], "policy": NO_WAIT, **declared}
    ), server


@pytest.mark.parametrize("spliced", [False, True])
def test_the_completion_is_the_sdks_own(spliced: bool) -> None:
    """``create`` gives a ChatCompletion, also when one call was re-asked and spliced in."""
    client, _ = wrapped(*([WRONG, GOOD] if spliced else [GOOD]))
    given_back = client.chat.completions.create(model="m", messages=USER)
    assert isinstance(given_back, ChatCompletion)
    assert isinstance(given_back.choices[0].message, ChatCompletionMessage)

    assert given_back.choices[0].message.tool_calls is not None
    assert given_back.choices[0].message.tool_calls[0].function.arguments == '{"query": "tea"}'  # type: ignore[union-attr]
    assert given_back.usage is not None
    assert given_back.usage.total_tokens == 15

    assert not isinstance(client.contract.check(given_back), sr.Invalid)


def test_the_async_twin_gives_the_same() -> None:
    """A wrapped AsyncOpenAI client is async, with the same results and the same bytes."""
    client, server = wrapped(WRONG, GOOD)
    aserver = Server(WRONG, GOOD)

    async def main() -> Any:
        twin = sr.wrap(aserver.async_client(), tools=[SEARCH], policy=NO_WAIT)
        assert isinstance(twin, sr.AsyncStrictClient)
        return await twin.chat.completions.create(model="m", messages=USER)

    assert asyncio.run(main()) == client.chat.completions.create(model="m", messages=USER)
    assert server.bodies == aserver.bodies


TEXT = st.text(max_size=20)
PARTS = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})
OBJECTS = st.dictionaries(TEXT, TEXT, max_size=2)
TURNS = st.one_of(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user"]),
            "content": TEXT | st.lists(PARTS, min_size=1, max_size=2),
        },
        optional={"name": TEXT},
    ),
    st.fixed_dictionaries({"content": TEXT, "role": st.just("user"), "vendor": OBJECTS}),
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": st.none() | TEXT},
        optional={"tool_calls": st.builds(lambda args: [call("search", args)], OBJECTS)},
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": TEXT, "content": TEXT}),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "max_tokens": st.integers(6, 99),  # the served reply says that it took five
        "stop": TEXT | st.lists(TEXT, max_size=2),
        "seed": st.integers(),
        "user": TEXT,
        "metadata": st.dictionaries(TEXT, TEXT, max_size=2),
        "logprobs": st.booleans(),
        "response_format": st.sampled_from(
            [
                {"type": "text"},
                {"type": "json_object"},
                {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {"type": "object", "title": "é"}},
                },
            ]
        ),
        "extra_body": st.dictionaries(
            st.sampled_from(["top_k", "seed", "min_p"]), TEXT | st.floats(0, 1), max_size=2
        ),
    },
)


@given(st.lists(TURNS, max_size=4), OPTIONS)
def test_our_way_past_the_transform_gives_the_same_bytes(
    messages: list[Any], options: dict[str, Any]
) -> None:
    """The body we send equals, byte for byte, what the SDK makes of the same keywords itself."""
    server = Server(completion("{}"))
    keywords = {"model": "m", "messages": messages, **options}
    theirs_own: Any = server.client().chat.completions.create
    theirs_own(**keywords, tools=[SEARCH.definition], tool_choice="none")
    sr.wrap(server.client(), tools=[SEARCH]).create(**keywords, tool_choice="none")
    theirs, ours = server.bodies
    assert ours == theirs


def test_sdk_message_objects_take_the_sdks_own_way() -> None:
    """A conversation that holds the SDK's message objects gives the body that their plain form
    gives.
    """
    reply = ChatCompletion.model_validate(GOOD).choices[0].message
    plain = reply.model_dump(exclude_unset=True)
    client, server = wrapped(completion("done"))

    for turn in (reply, plain):
        client.create(
            model="m",
            messages=[*USER, turn, {"role": "tool", "tool_call_id": "call_a", "content": "x"}],
        )

    assert json.loads(server.bodies[0]) == json.loads(server.bodies[1])


def test_headers_and_bodies_of_the_caller_are_kept() -> None:
    """``extra_headers``, ``extra_query`` and ``extra_body`` go out; the caller's body has the last
    word.
    """
    client, server = wrapped(GOOD)
    client.create(
        model="m",
        messages=USER,
        extra_headers={"x-mine": "1"},
        extra_query={"q": "2"},
        extra_body={"top_k": 3, "model": "other"},
    )

    request = server.requests[0]
    assert (request.headers["x-mine"], request.url.params["q"]) == ("1", "2")
    body = json.loads(request.content)
    assert (body["top_k"], body["model"], body["messages"]) == (3, "other", USER)


@pytest.mark.parametrize("name", ["NOT_GIVEN", "omit"])
def test_values_that_mean_not_given_are_not_sent(name: str) -> None:
    """The SDK's own markers for a missing value are taken as missing, also for what we judge by."""
    missing = getattr(openai, name)
    client, server = wrapped(GOOD)
    client.create(
        model="m",
        messages=USER,
        temperature=missing,
        tool_choice=missing,
        n=missing,
        stream=missing,
    )

    assert json.loads(server.bodies[0]).keys() == {"model", "messages", "tools"}


def test_everything_else_is_the_sdks_own() -> None:
    """Attributes and other resources are those of the client inside."""
    server = Server(GOOD)
    inner = server.client(api_key="k")
    client = sr.wrap(inner, tools=[SEARCH])
    assert client.api_key == "k"
    assert client.base_url == inner.base_url
    assert client.models is inner.models
    with pytest.raises(AttributeError):
        _ = client.no_such_thing


def test_the_users_client_is_untouched_and_retries_have_one_owner() -> None:
    """The SDK's retries are off in our copy: three answers of 500 are three requests, not nine."""
    server = Server(status(500))
    inner = server.client(max_retries=2)
    client = sr.wrap(inner, policy=sr.RetryPolicy(transport_retries=2, wait=wait_none()))
    with pytest.raises(sr.TransportFailed) as raised:
        client.reply(model="m", messages=USER)
    assert isinstance(raised.value.cause, openai.InternalServerError)
    assert len(server.requests) == 3
    assert inner.max_retries == 2


def test_a_copy_with_other_options_is_held_to_the_same_contract() -> None:
    """``with_options`` and ``copy`` give wrapped clients: there is no way round the contract by
    accident.
    """
    seen: list[sr.Attempt] = []
    client, server = wrapped(WRONG, GOOD, on_attempt=seen.append)
    copied = client.with_options(timeout=3.0, api_key="other")
    assert isinstance(copied, sr.StrictClient)

    assert isinstance(client.copy(timeout=1), sr.StrictClient)
    copied.create(model="m", messages=USER)
    assert len(server.requests) == len(seen) == 2
    assert server.requests[0].headers["authorization"] == "Bearer other"

    assert server.requests[0].extensions["timeout"]["read"] == 3.0


def test_a_wrapped_client_is_a_context_like_the_one_inside() -> None:
    """``with`` closes the SDK's client, sync and async."""
    inner = Server(GOOD).client()
    ainner = Server(GOOD).async_client()

    with sr.wrap(inner, tools=[SEARCH]) as client:
        assert isinstance(client.reply(model="m", messages=USER), sr.ToolCall)

    async def main() -> None:
        async with sr.wrap(ainner, tools=[SEARCH]) as twin:
            assert isinstance(await twin.reply(model="m", messages=USER), sr.ToolCall)

    asyncio.run(main())
    assert inner.is_closed()
    assert ainner.is_closed()


def test_wrapping_twice_is_one_loop() -> None:
    """A wrapped client that is wrapped again asks no more often than its own policy says."""
    client, server = wrapped(completion(""))
    again = sr.wrap(client, policy=sr.RetryPolicy(max_retries=1))
    assert again.unwrapped is client.unwrapped
    with pytest.raises(sr.ReplyRejected):
        again.reply(model="m", messages=USER)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("of_client", "of_call", "deadline", "sent"),
    [
        (None, None, 5.0, {"connect": 5.0, "read": 5.0}),
        (2.0, None, 5.0, {"connect": 2.0, "read": 2.0}),
        (9.0, None, 5.0, {"connect": 5.0, "read": 5.0}),
        (9.0, 1.0, 5.0, {"connect": 1.0, "read": 1.0}),
        (9.0, http.Timeout(50, connect=1.0), 5.0, {"connect": 1.0, "read": 5.0}),
        (http.Timeout(None, read=2.0), None, 5.0, {"connect": 5.0, "read": 2.0}),
        (9.0, None, None, {"connect": 9.0, "read": 9.0}),
        (9.0, 1.0, None, {"connect": 1.0, "read": 1.0}),
    ],
)
def test_the_deadline_shortens_timeouts(
    of_client: Any, of_call: Any, deadline: Any, sent: dict[str, float]
) -> None:
    """Each timeout is at most what is left of the deadline, and at most the caller's own."""
    options = {} if of_client is None else {"timeout": of_client}
    client, server = wrapped(GOOD, options=options, policy=sr.RetryPolicy(deadline=deadline))
    client.create(model="m", messages=USER, **({} if of_call is None else {"timeout": of_call}))
    timeout = server.requests[0].extensions["timeout"]
    assert {name: timeout[name] for name in sent} == pytest.approx(sent, abs=0.5)


EXTRAS: dict[str, Any] = {"reasoning_content": "hm", "vendor": {"deep": [1, None]}}


def test_what_is_not_ours_passes_through() -> None:
    """Reasoning, log probabilities and vendor members stand in the completion as they came."""
    reply = completion("hello", **EXTRAS) | {
        "timings": {"predicted_ms": 7.5},
        "service_tier": "flex",
    }
    reply["choices"][0]["logprobs"] = {"content": [], "refusal": None}
    client, server = wrapped(reply)
    ours = client.create(model="m", messages=USER)

    theirs = server.client().chat.completions.create(model="m", messages=USER)
    assert ours == theirs
    assert ours.model_dump(exclude_unset=True) == reply


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>busy</html>",
        b'{"choices": [], "choices": []}',
        b'{"id": "a", "id": "b", "choices": [{"message": {"role": "assistant", "content": "x"}}]}',
        b"\xff\xfe",
        b"[" * 100_000,
        b"null",
        b'"text"',
        b'{"choices": [{"message": {"role": "assistant", "content": "cut',
        b'{"role": "assistant", "content": "a bare message"}',
        b'{"choices": []}',
        b'{"choices": [{"message": null}]}',
        b'{"error": {"message": "overloaded"}}',
    ],
)
def test_a_body_that_is_no_completion_fails_as_malformed(body: bytes) -> None:
    """Such a body with status 200 is retried on the transport's budget, then is TransportFailed."""
    client, server = wrapped(body)
    with pytest.raises(sr.TransportFailed) as raised:
        client.create(model="m", messages=USER)
    assert raised.value.reason == "malformed_response"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/json; charset=utf-8", "text/event-stream", ""]
)
def test_the_content_type_does_not_matter(content_type: str) -> None:
    """A completion under another content type is still the SDK's own object."""
    headers = {"content-type": content_type} if content_type else {}
    answer = http.Response(200, content=json.dumps(GOOD).encode(), headers=headers)
    assert isinstance(wrapped(answer)[0].create(model="m", messages=USER), ChatCompletion)


@pytest.mark.parametrize(
    ("answer", "reason", "requests"),
    [
        (status(400, {"error": {"message": "no"}}), "invalid_request", 1),
        (status(401), "authentication_failed", 1),
        (status(429, retry_after="0"), "rate_limit", 3),
        (status(429, {"error": {"code": "insufficient_quota"}}), "insufficient_credits", 1),
        (status(429, retry_after="59"), "rate_limit", 1),
        (status(503), "server_error", 3),
        (http.ConnectError("no route"), "connection", 3),
        (http.ReadTimeout("slow"), "timeout", 3),
        (http.RemoteProtocolError("cut"), "connection", 3),
    ],
)
def test_the_sdks_failures_are_told_apart(answer: Any, reason: str, requests: int) -> None:
    """Each failure of the SDK ends with its own reason, after as many requests as it is worth."""
    client, server = wrapped(answer, policy=sr.RetryPolicy(wait=wait_none(), max_retry_after=10))
    with pytest.raises(sr.TransportFailed) as raised:
        client.reply(model="m", messages=USER)
    assert raised.value.reason == reason
    assert isinstance(raised.value.cause, openai.OpenAIError)
    assert len(server.requests) == requests


def test_retry_after_is_read_from_the_sdks_response() -> None:
    """The seconds that the server asked for stand on the error."""
    client, _ = wrapped(status(429, retry_after_ms="90000"))
    with pytest.raises(sr.TransportFailed) as raised:
        client.reply(model="m", messages=USER)
    assert (raised.value.retry_after, raised.value.status_code) == (90.0, 429)


def test_a_wrong_keyword_is_the_callers_own_type_error() -> None:
    """The SDK's TypeError for an unknown keyword reaches the caller unchanged."""
    client, server = wrapped(GOOD)
    with pytest.raises(TypeError, match="no_such_keyword"):
        client.create(model="m", messages=USER, no_such_keyword=1)  # type: ignore[call-arg]
    assert server.requests == []


@pytest.mark.parametrize(
    "keywords", [{"n": 2}, {"functions": [{"name": "f"}]}, {"function_call": "auto"}]
)
def test_what_cannot_be_judged_is_not_sent(keywords: dict[str, Any]) -> None:
    """Several choices and legacy functions are refused before anything is sent."""
    client, server = wrapped(GOOD)
    with pytest.raises(sr.ContractError):
        client.create(model="m", messages=USER, **keywords)
    assert server.requests == []


def test_prompts_and_replies_stay_out_of_our_logs(caplog: pytest.LogCaptureFixture) -> None:
    """Our own DEBUG records hold neither what was asked nor what came."""
    caplog.set_level(logging.DEBUG, "strictreply")
    client, _ = wrapped(completion(calls=[call("search", {"query": 1, "SECRET": 2})]), GOOD)
    client.create(model="m", messages=USER)
    assert caplog.records
    assert "SECRET" not in caplog.text
    assert "find tea" not in caplog.text


def test_a_larger_reply_needs_larger_caps() -> None:
    """The caps of the contract of one call hold for its response, too."""
    client, _ = wrapped(
        completion("x" * 20_000),
        tools=[],
        policy=sr.RetryPolicy(max_retries=0, transport_retries=0),
    )
    small = sr.Contract(limits=sr.Limits(reply_bytes=1_000))

    with pytest.raises(sr.TransportFailed):
        client.reply(model="m", messages=USER, contract=small)

    assert isinstance(client.reply(model="m", messages=USER), sr.DirectAnswer)


TOOL_USE_FAILED = {
    "error": {
        "message": "Failed to call a function. Please adjust your prompt. "
        "See 'failed_generation' for more details.",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": '<function=search>{"query": 1}</function> CANARY-11',
    }
}
FILTERED = {
    "error": {
        "message": "The response was filtered. CANARY-11",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {"hate": {"filtered": True}},
        },
    }
}
TOO_LARGE = {
    "error": {"message": "max_tokens is too large", "param": "max_tokens", "code": "invalid_value"}
}
CUT = completion("so f", finish_reason="length")


def served(answer: Any) -> Any:
    """Return a new answer for each server: a status with its body, or a completion."""
    return status(*answer) if isinstance(answer, tuple) else answer


def each_twin(*answers: Any, **request: Any) -> list[tuple[Any, Server]]:
    """Make the same call through both twins.

    What came back or was raised is given, and the server of each.
    """
    keywords = {"model": "m", "messages": USER, **request}
    client, server = wrapped(*map(served, answers))
    twin_server = Server(*map(served, answers))
    twin = sr.wrap(twin_server.async_client(), tools=[SEARCH], policy=NO_WAIT)

    async def main() -> Any:
        return await twin.exchange(**keywords)

    told: list[tuple[Any, Server]] = []
    ways: list[tuple[Callable[[], Any], Server]] = [
        (lambda: client.exchange(**keywords), server),
        (lambda: asyncio.run(main()), twin_server),
    ]
    for ask, its in ways:
        try:
            told.append((ask(), its))
        except sr.StrictReplyError as error:
            told.append((error, its))

    return told


def test_v9_groqs_failed_tool_use_is_corrected() -> None:
    """The generation in the body of a 400 goes back as the assistant's turn, and turns up nowhere
    else.
    """
    for exchange, server in some(each_twin((400, TOOL_USE_FAILED), GOOD)):
        assert exchange.reply == sr.ToolCall("search", {"query": "tea"}, "call_a")
        assert [issue.code for issue in exchange.attempts[0].issues] == ["call.unreadable"]
        turns = json.loads(server.bodies[1])["messages"]
        assert turns[-2] == {
            "role": "assistant",
            "content": TOOL_USE_FAILED["error"]["failed_generation"],
        }

        assert "CANARY-11" not in json.dumps([*turns[:-2], turns[-1]])

    for error, server in each_twin((400, TOOL_USE_FAILED)):
        assert isinstance(error, sr.ReplyRejected)
        assert [issue.code for issue in error.issues] == ["call.unreadable"]
        assert "CANARY-11" not in str(error) + repr(error)
        assert len(server.requests) == 4


def test_v9_azures_filter_is_halted_at_once() -> None:
    """A 400 of the content filter is the halt that a filtered reply is, sent once, without the
    server's words.
    """
    for error, server in some(each_twin((400, FILTERED))):
        assert isinstance(error, sr.ReplyHalted)
        assert (error.reason, len(server.requests)) == ("content_filter", 1)
        assert "CANARY-11" not in str(error) + repr(error)


def test_v6_a_refused_limit_goes_on_as_a_cut_reply() -> None:
    """A 400 for the limit that we raised is answered with the caller's own limit, and a shorter
    reply asked for.
    """
    for exchange, server in some(each_twin(CUT, (400, TOO_LARGE), GOOD, max_tokens=50)):
        assert isinstance(exchange.reply, sr.ToolCall)
        assert [json.loads(body)["max_tokens"] for body in server.bodies] == [50, 100, 50]
    for error, server in each_twin(CUT, (400, TOO_LARGE), CUT, max_tokens=50):
        assert isinstance(error, sr.ReplyRejected)
        assert [issue.code for issue in error.issues] == ["reply.truncated"]
        assert [json.loads(body)["max_tokens"] for body in server.bodies] == [50, 100, 50, 50]


def test_v8_a_relabelled_cut_is_asked_for_again() -> None:
    """The drop-in gives no call that ended at the limit of its request, though the server calls it
    whole.
    """
    relabelled = completion(calls=[call("search", {"query": "tea"})], tokens=(10, 50))
    client, server = wrapped(relabelled, GOOD)
    given_back = client.chat.completions.create(model="m", messages=USER, max_completion_tokens=50)
    assert given_back.usage is not None
    assert given_back.usage.completion_tokens == 5
    assert [json.loads(body)["max_completion_tokens"] for body in server.bodies] == [50, 100]


def test_v10_what_the_conversation_shows_is_refused_by_the_drop_in() -> None:
    """An id of an earlier turn, and a call written as text, are asked for again; SDK messages are
    read alike.
    """
    earlier = ChatCompletion.model_validate(GOOD).choices[0].message
    result = {"role": "tool", "tool_call_id": "call_a", "content": "x"}
    fresh = completion(calls=[call("search", {"query": "tea"}, "call_b")])
    text = completion('{"name": "search", "arguments": {"query": "tea"}}')
    client, server = wrapped(GOOD, text, fresh)

    conversation: list[Any] = [*USER, earlier, result]
    given_back = client.chat.completions.create(model="m", messages=conversation)
    assert given_back.choices[0].message.tool_calls is not None
    assert [one.id for one in given_back.choices[0].message.tool_calls] == ["call_b"]

    assert len(server.requests) == 3


@pytest.mark.parametrize("form", ["valid", "odd"])
def test_a_kept_exchange_lets_go_of_its_request(form: str) -> None:
    """Nothing holds the encoded conversation once more; the completion is still the SDK's, and made
    once.
    """
    client, server = wrapped(
        completion("tea") | ({"created": "now"} if form == "odd" else {}), tools=[]
    )
    kept = client.exchange(model="m", messages=USER)
    request = weakref.ref(server.requests.pop())
    gc.collect()

    assert request() is None
    assert kept.completion.choices[0].message.content == "tea"
    assert kept.completion is kept.completion
