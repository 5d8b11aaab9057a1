"""A wrapped client is the SDK's client for every program that looks.

Every way to a completion is guarded.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import pickle
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletion
from pydantic import BaseModel
from tenacity import wait_none

import strictreply as sr
from strictreply.testing import LoopbackServer
from support.scripted import (
    SCHEMA,
    USER,
    Server,
    call,
    completion,
    filtered,
    http,
    status,
    truncated,
)

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
NO_WAIT = sr.RetryPolicy(wait=wait_none())
ASK: dict[str, Any] = {"model": "m", "messages": USER}
ARGUMENTS = '{"query": "tea"}'


class Invoice(BaseModel):
    """What an answer holds."""

    number: int


def sync_ways(client: Any) -> dict[str, Callable[[], Any]]:
    """Return every way of the SDK to obtain a completion; each returns the completion."""

    def streamed(holder: Any) -> Any:
        with holder.create(**ASK) as response:
            assert json.loads(response.read())["choices"]
            return response.parse()

    completions = client.chat.completions
    return {
        "create": lambda: completions.create(**ASK),
        "parse": lambda: completions.parse(**ASK),
        "with_raw_response.create": lambda: completions.with_raw_response.create(**ASK).parse(),
        "with_raw_response.parse": lambda: completions.with_raw_response.parse(**ASK).parse(),
        "with_streaming_response.create": lambda: streamed(completions.with_streaming_response),
        "beta.chat.completions.parse": lambda: client.beta.chat.completions.parse(**ASK),
        "chat.with_raw_response": lambda: client.chat.with_raw_response.completions.create(
            **ASK
        ).parse(),
        "with_raw_response.chat": lambda: client.with_raw_response.chat.completions.create(
            **ASK
        ).parse(),
        "with_streaming_response.chat": lambda: streamed(
            client.with_streaming_response.chat.completions
        ),
    }


async def streamed(holder: Any) -> Any:
    """Read a response of an async client as a stream."""
    async with holder.create(**ASK) as response:
        return await response.parse()


async def parsed(response: Awaitable[Any]) -> Any:
    """Read the completion out of a raw response of an async client."""
    return (await response).parse()


def async_ways(client: Any) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Return the same ways of the async client."""
    completions = client.chat.completions
    return {
        "create": lambda: completions.create(**ASK),
        "parse": lambda: completions.parse(**ASK),
        "with_raw_response.create": lambda: parsed(completions.with_raw_response.create(**ASK)),
        "with_raw_response.parse": lambda: parsed(completions.with_raw_response.parse(**ASK)),
        "with_streaming_response.create": lambda: streamed(completions.with_streaming_response),
        "beta.chat.completions.parse": lambda: client.beta.chat.completions.parse(**ASK),
        "chat.with_raw_response": lambda: parsed(
            client.chat.with_raw_response.completions.create(**ASK)
        ),
        "with_raw_response.chat": lambda: parsed(
            client.with_raw_response.chat.completions.create(**ASK)
        ),
        "with_streaming_response.chat": lambda: streamed(
            client.with_streaming_response.chat.completions
        ),
    }


WAYS = list(sync_ways(sr.wrap(Server(GOOD).client())))


def wrapped(
    *answers: Any, options: dict[str, Any] | None = None, **declared: Any
) -> tuple[Any, Server]:
    """Wrap a real sync client over a mock server."""
    server = Server(*answers)
    return sr.wrap(
        server.client(**(options or {})), **{"tools": [SEARCH], "policy": NO_WAIT, **declared}
    ), server


def arguments(given: Any) -> str:
    """Read the arguments of the one call of a completion."""
    return str(given.choices[0].message.tool_calls[0].function.arguments)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_a_completion_is_guarded(way: str) -> None:
    """A reply that does not fit is retried, whichever method of the SDK brought it; sync
    and async.
    """
    client, server = wrapped(WRONG, GOOD)
    given = sync_ways(client)[way]()
    assert isinstance(given, ChatCompletion)
    assert arguments(given) == ARGUMENTS

    assert len(server.requests) == 2

    twin = Server(WRONG, GOOD)
    aclient = sr.wrap(twin.async_client(), tools=[SEARCH], policy=NO_WAIT)

    async def main() -> Any:
        return await async_ways(aclient)[way]()

    assert arguments(asyncio.run(main())) == ARGUMENTS
    assert len(twin.requests) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_reply_that_is_never_mended_comes_out_of_no_way(way: str) -> None:
    """Each way raises what is ours and the SDK's."""
    client, _ = wrapped(WRONG, policy=sr.RetryPolicy(max_retries=1))
    with pytest.raises(sr.ReplyRejected) as raised:
        sync_ways(client)[way]()
    assert isinstance(raised.value, openai.APIResponseValidationError)


def test_a_raw_response_holds_what_was_accepted() -> None:
    """Its body is the mended completion, its headers are those of the response that came."""
    two = completion(
        calls=[call("search", {"query": "tea"}), call("search", {"query": 1}, "call_b")]
    )
    mended = completion(calls=[call("search", {"query": "milk"}, "call_z")])
    client, _ = wrapped(two, mended)
    raw = client.chat.completions.with_raw_response.create(**ASK)
    written = [
        one["function"]["arguments"]
        for one in json.loads(raw.content)["choices"][0]["message"]["tool_calls"]
    ]
    assert written == ['{"query": "tea"}', '{"query": "milk"}']

    assert raw.headers["content-type"] == "application/json"
    assert raw.parse().choices[0].message.tool_calls[1].id == "call_b"


def test_parse_gives_the_judged_answer() -> None:
    """``parsed`` is the instance that was judged; what was sent is the SDK's own strict form."""
    client, server = wrapped(completion('{"number": "7"}'), completion('{"number": 7}'), tools=[])
    given = client.chat.completions.parse(**ASK, response_format=Invoice)
    assert given.choices[0].message.parsed == Invoice(number=7)
    sent = json.loads(server.bodies[0])["response_format"]["json_schema"]
    assert (sent["strict"], sent["schema"]["additionalProperties"]) == (True, False)


def test_parse_reads_the_arguments_of_pydantic_tools() -> None:
    """``parsed_arguments`` of a tool made by the SDK's helper is an instance of its model."""
    client, _ = wrapped(completion(calls=[call("Invoice", {"number": 7})]), tools=[])
    given = client.chat.completions.parse(**ASK, tools=[openai.pydantic_function_tool(Invoice)])
    assert given.choices[0].message.tool_calls[0].function.parsed_arguments == Invoice(number=7)


def test_the_sdk_complains_about_its_own_arguments() -> None:
    """A missing argument, and a class as ``response_format``, are the SDK's TypeErrors, and nothing
    is sent.
    """
    client, server = wrapped(GOOD)
    with pytest.raises(TypeError, match="messages"):
        client.chat.completions.create(model="m")

    with pytest.raises(TypeError, match="parse"):
        client.chat.completions.create(**ASK, response_format=Invoice)

    twin = sr.wrap(Server(GOOD).async_client(), tools=[SEARCH])
    with pytest.raises(TypeError, match="messages"):
        asyncio.run(twin.chat.completions.create(model="m"))  # type: ignore[call-overload]

    assert not server.requests


def test_a_drop_in_call_allows_parallel_calls() -> None:
    """A silent request allows several calls, as the API does; ``reply`` keeps to its contract."""
    two = completion(
        calls=[call("search", {"query": "a"}), call("search", {"query": "b"}, "call_b")]
    )
    client, server = wrapped(two)
    assert len(client.chat.completions.create(**ASK).choices[0].message.tool_calls) == 2
    assert "parallel_tool_calls" not in json.loads(server.bodies[0])

    with pytest.raises(sr.ReplyRejected):
        client.chat.completions.create(**ASK, parallel_tool_calls=False)

    with pytest.raises(sr.ReplyRejected):
        client.reply(**ASK)


def test_a_beta_of_responses_is_refused() -> None:
    """A way to a response that no contract guards raises and sends nothing, in the SDK's raw form,
    too.
    """
    client, server = wrapped(GOOD)
    if not hasattr(client.beta, "responses"):
        pytest.skip("this SDK has no beta of responses")

    beta = client.beta.responses
    for ask in (
        beta.create,
        beta.parse,
        beta.with_raw_response.create,
        beta.with_streaming_response.create,
    ):
        with pytest.raises(NotImplementedError, match=r"client\.responses"):
            ask(model="m", input="x").__enter__()

    assert server.bodies == []
    assert sr.guarded(client)["beta.responses.create"] == "refuses"


def test_each_method_says_what_becomes_of_it() -> None:
    """``guarded`` lists every method of the client: what brings a reply is guarded, refused or
    unguarded, all else passes.
    """
    client, _ = wrapped(GOOD)
    held = sr.guarded(client)
    assert held["chat.completions.create"] == held["beta.chat.completions.parse"] == "guarded"
    assert held["chat.completions.with_raw_response.create"] == "guarded"

    assert held["chat.completions.stream"] == "guarded"
    assert (
        held["responses.create"] == held["responses.parse"] == held["responses.stream"] == "guarded"
    )
    assert held["responses.retrieve"] == held["chat.completions.retrieve"] == "guarded"
    assert held["chat.completions.list"] == "refuses"
    assert held["completions.create"] == held["beta.threads.runs.create"] == "unguarded"
    assert held["embeddings.create"] == "passes"

    with pytest.raises(TypeError, match="wrap"):
        sr.guarded(client.unwrapped)


def test_a_wrapped_client_is_of_the_sdks_class() -> None:
    """``isinstance``, ``dir`` and the signatures are those of the SDK; of a subclass with its own
    constructor, too.
    """

    class Mine(openai.OpenAI):
        def __init__(self, team: str, inner: Any) -> None:
            self.team = team
            super().__init__(api_key="k", base_url="http://model.invalid/v1", http_client=inner)

    client, _ = wrapped(GOOD)
    assert isinstance(client, openai.OpenAI)
    assert isinstance(client, sr.StrictClient)
    assert isinstance(client.chat, type(client.unwrapped.chat))

    assert isinstance(client.chat.completions, type(client.unwrapped.chat.completions))
    assert {"models", "responses", "reply"} <= set(dir(client))
    twin = sr.wrap(Server(GOOD).async_client(), tools=[SEARCH])
    assert isinstance(twin, openai.AsyncOpenAI)

    assert inspect.iscoroutinefunction(twin.chat.completions.create)
    server = Server(WRONG, GOOD)
    mine = sr.wrap(
        Mine("red", http.Client(transport=http.MockTransport(server.handle))), tools=[SEARCH]
    )
    assert isinstance(mine, Mine)

    assert mine.team == "red"
    assert arguments(mine.chat.completions.create(**ASK)) == ARGUMENTS
    assert len(server.requests) == 2


def test_signatures_are_the_sdks() -> None:
    """Programs that look at parameters before they pass them see those of the SDK's methods."""
    client, _ = wrapped(GOOD)
    for name in ("create", "parse"):
        ours = inspect.signature(getattr(client.chat.completions, name)).parameters
        assert list(ours) == list(
            inspect.signature(getattr(client.unwrapped.chat.completions, name)).parameters
        )

    for given in (client, sr.wrap(Server(GOOD).async_client())):
        for name in ("__init__", "copy", "with_options"):
            theirs = inspect.signature(getattr(given.unwrapped, name))
            assert inspect.signature(getattr(given, name)).parameters == theirs.parameters
        assert given.copy(timeout=3).unwrapped.timeout == 3


@pytest.mark.parametrize("side", ["outside", "inside"])
def test_what_is_set_on_either_side_counts(side: str) -> None:
    """A rotated key, another address and another timeout hold from the next request on."""
    client, server = wrapped(GOOD)
    client.reply(**ASK)
    changed = client if side == "outside" else client.unwrapped
    changed.api_key = "rotated"

    changed.base_url = "http://elsewhere.invalid/v2"
    changed.timeout = 7
    client.reply(**ASK)
    request = server.requests[-1]
    assert request.headers["authorization"] == "Bearer rotated"

    assert str(request.url) == "http://elsewhere.invalid/v2/chat/completions"
    assert request.extensions["timeout"]["read"] == 7
    assert (client.api_key, client.unwrapped.api_key) == ("rotated", "rotated")


def test_a_method_patched_before_wrapping_is_called_for_every_ask() -> None:
    """A replaced ``create`` of the client sees the real request of each ask, and its completion."""
    server = Server(WRONG, GOOD)
    inner = server.client(max_retries=0)
    original = inner.chat.completions.create
    seen = []

    def spy(**keywords: Any) -> Any:
        given = original(**keywords)
        seen.append((keywords["messages"], len(keywords["tools"]), given))
        return given

    inner.chat.completions.create = spy  # type: ignore[method-assign]
    client = sr.wrap(inner, tools=[SEARCH], policy=NO_WAIT)
    client.chat.completions.create(**ASK)
    assert [(len(messages), tools) for messages, tools, _ in seen] == [(2, 1), (4, 1)]
    assert all(isinstance(given, ChatCompletion) for *_, given in seen)


def test_a_method_patched_after_wrapping_sees_what_the_program_calls() -> None:
    """On the wrapped client it is called once for a call of ``create``, and for each ask of
    ``reply``.
    """
    client, server = wrapped(WRONG, GOOD)
    guarded = client.chat.completions.create
    seen = []

    def spy(**keywords: Any) -> Any:
        seen.append(keywords["messages"])
        return guarded(**keywords)

    client.chat.completions.create = spy
    assert arguments(client.chat.completions.create(**ASK)) == ARGUMENTS
    assert seen == [USER]
    server.answers = [WRONG, GOOD]

    client.reply(**ASK)
    assert [len(messages) for messages in seen] == [2, 2, 4]


def test_a_method_patched_after_wrapping_sees_the_asks_of_copies_and_runs() -> None:
    """A watched copy, and a run, which watches its client, ask through what was put over
    ``create``.
    """

    @sr.tool
    def search(query: str) -> str:
        """Search."""
        return query

    client, server = wrapped(WRONG, GOOD, GOOD, completion("done"))
    seen: list[Any] = []
    original = client.chat.completions.create

    def spy(**keywords: Any) -> Any:
        seen.append(keywords["messages"])
        return original(**keywords)

    client.chat.completions.create = spy
    client.watched(lambda _attempt: None).reply(**ASK)
    sr.run(client, "find tea", model="m", tools=[search])
    assert len(seen) == len(server.requests) == 4


def test_a_class_that_was_patched_sees_the_real_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracers replace the SDK's methods on their classes: nothing goes past them, while they are
    there.
    """
    seen: list[Any] = []
    kind: Any = openai.resources.chat.Completions
    original = kind.create

    def traced(self: Any, **keywords: Any) -> Any:
        seen.append((keywords["messages"], keywords.get("extra_body")))
        return original(self, **keywords)

    client, _ = wrapped(GOOD)
    client.reply(**ASK)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "create", traced)
        client.reply(**ASK)

    client.reply(**ASK)
    assert seen == [(USER, None)]


def test_a_tracer_of_parse_records_no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer over the SDK's ``parse`` records the exceptions that it raises: none of ours repeats
    the request.
    """
    recorded: list[str] = []
    kind: Any = openai.resources.chat.Completions
    original = kind.parse

    def traced(self: Any, **keywords: Any) -> Any:
        try:
            return original(self, **keywords)
        except Exception as error:
            recorded.append(f"{error} {error!r}")
            raise

    monkeypatch.setattr(kind, "parse", traced)
    client, _ = wrapped(completion('{"number": 7}'), tools=[])
    client.chat.completions.parse(
        model="m", messages=[{"role": "user", "content": "secret"}], response_format=Invoice
    )
    assert recorded

    assert not any("secret" in words for words in recorded)


def test_errors_are_ours_and_the_sdks() -> None:
    """The exception for a 429 is a RateLimitError with its response, body, code and id, and is told
    from no server.
    """
    body = {"error": {"message": "slow down", "code": "too_fast", "type": "requests"}}
    client, server = wrapped(
        status(429, body, x_request_id="r1", retry_after="0"), options={"max_retries": 1}
    )

    with pytest.raises(openai.RateLimitError) as raised:
        client.reply(**ASK)

    error: Any = raised.value
    assert isinstance(error, sr.TransportFailed)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(again) is sr.TransportFailed

    assert (again.reason, again.status_code, str(again)) == ("rate_limit", 429, str(error))
    error = raised.value
    assert (error.status_code, error.code, error.request_id) == (429, "too_fast", "r1")
    assert error.response.status_code == 429

    assert error.body == body["error"]
    assert "slow down" not in str(error)
    assert [request.headers["x-stainless-retry-count"] for request in server.requests] == ["0", "1"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (filtered(), openai.ContentFilterFinishReasonError),
        (truncated(), openai.LengthFinishReasonError),
        (WRONG, openai.APIResponseValidationError),
    ],
)
def test_a_reply_that_is_refused_is_an_error_of_the_sdk_too(
    answer: Any, kind: type[Exception]
) -> None:
    """Handlers that a program has for the SDK's exceptions go on to work."""
    client, _ = wrapped(answer, policy=sr.RetryPolicy(max_retries=0))
    with pytest.raises(sr.CallFailed) as raised:
        client.reply(**ASK)

    assert isinstance(raised.value, kind)

    if not issubclass(kind, openai.APIResponseValidationError):
        told: Any = raised.value
        assert told.completion.choices[0].finish_reason in {"content_filter", "length"}

    # The pickle is our own.
    assert type(pickle.loads(pickle.dumps(raised.value))).__mro__[1] is not kind  # noqa: S301


def test_a_cut_that_is_an_http_error_is_that_error_of_the_sdk() -> None:
    """Where no completion ever came, a reply that was cut is what the SDK would have raised, not a
    cut completion.
    """
    error = {"message": "Could not finish the message because max_tokens was reached."}
    client, _ = wrapped(status(400, {"error": error}), policy=sr.RetryPolicy(max_retries=0))
    with pytest.raises(openai.BadRequestError) as raised:
        client.reply(**ASK)
    refused: Any = raised.value
    assert type(refused).__mro__[1] is sr.ReplyRejected
    assert [issue.code for issue in refused.issues] == ["reply.truncated"]
    assert (refused.status_code, refused.body) == (400, error)


@pytest.mark.parametrize(("retries", "requests"), [(0, 1), (5, 6)])
def test_the_clients_max_retries_is_the_default(retries: int, requests: int) -> None:
    """The client's ``max_retries`` applies unless the policy sets another number."""
    client, server = wrapped(status(500), options={"max_retries": retries})
    with pytest.raises(sr.TransportFailed):
        client.reply(**ASK)
    assert len(server.requests) == requests
    with pytest.raises(sr.TransportFailed):
        client.reply(**ASK, policy=sr.RetryPolicy(transport_retries=1, wait=wait_none()))
    assert len(server.requests) == requests + 2


def test_a_response_that_is_no_completion_is_asked_again_whatever_the_client_repeats() -> None:
    """The SDK's number counts failures; what it would return as it is, is ours to ask again, unless
    the policy says.
    """
    client, server = wrapped({"choices": []}, GOOD, options={"max_retries": 0})
    assert arguments(client.chat.completions.create(**ASK)) == ARGUMENTS
    assert len(server.requests) == 2
    client, server = wrapped({"choices": []}, GOOD, policy=sr.RetryPolicy(transport_retries=0))
    with pytest.raises(sr.TransportFailed):
        client.reply(**ASK)
    assert len(server.requests) == 1


def test_the_usage_of_a_completion_is_the_last_asks_or_all() -> None:
    """By default as the API gave it; with ``usage_mode="total"`` the sum, for those who bill by the
    completion.
    """
    client, _ = wrapped(WRONG, GOOD)
    assert client.create(**ASK).usage.total_tokens == 15
    total, _ = wrapped(WRONG, GOOD, usage_mode="total")
    assert total.create(**ASK).usage.total_tokens == 30

    raw, _ = wrapped(WRONG, GOOD, usage_mode="total")
    assert (
        json.loads(raw.chat.completions.with_raw_response.create(**ASK).content)["usage"][
            "total_tokens"
        ]
        == 30
    )


def test_total_usage_adds_up_the_details_too() -> None:
    """Cached and reasoning tokens, and a cost where the provider writes it, are of all asks as the
    totals are.
    """

    def spent(reply: Any, **more: Any) -> Any:
        return {
            **reply,
            "usage": {**reply["usage"], "prompt_tokens_details": {"cached_tokens": 4}, **more},
        }

    odd = {
        "cost": 0.5,
        "tier": "a",
        "flag": True,
        "most": 10**400,
        "completion_tokens_details": None,
    }
    first = spent(WRONG, **odd)
    last = spent(GOOD, **odd | {"tier": "b"}, only_here=1)
    usage = wrapped(first, last, usage_mode="total")[0].create(**ASK).usage.to_dict()
    assert usage["prompt_tokens_details"] == {"cached_tokens": 8}

    assert (usage["total_tokens"], usage["cost"], usage["tier"], usage["only_here"]) == (
        30,
        1.0,
        "b",
        1,
    )
    assert (usage["flag"], usage["most"]) == (True, 10**400)
    assert usage["completion_tokens_details"] is None


def test_azure_clients_are_wrapped_as_they_are() -> None:
    """The deployment stays in the address."""
    server = Server(WRONG, GOOD)
    inner = openai.AzureOpenAI(
        api_key="k",
        azure_endpoint="https://azure.invalid",
        api_version="2024-10-21",
        http_client=http.Client(transport=http.MockTransport(server.handle)),
    )
    client = sr.wrap(inner, tools=[SEARCH])
    assert isinstance(client, openai.AzureOpenAI)

    assert arguments(client.chat.completions.create(**ASK)) == ARGUMENTS
    assert server.requests[1].url.path == "/openai/deployments/m/chat/completions"


def test_the_module_is_wrapped_as_the_client_behind_its_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``wrap(openai)`` guards every way, reads the module's globals at each request, and raises the
    SDK's errors.
    """
    server = Server(WRONG, GOOD, WRONG, GOOD, GOOD, status(429))
    http_client = http.Client(transport=http.MockTransport(server.handle))
    monkeypatch.setattr(openai, "api_key", "first")
    monkeypatch.setattr(openai, "base_url", "http://model.invalid/v1/")

    monkeypatch.setattr(openai, "http_client", http_client)
    monkeypatch.setattr(openai, "max_retries", 0)
    openai._reset_client()

    try:
        client = sr.wrap(openai, tools=[SEARCH], policy=NO_WAIT)
        assert isinstance(client, openai.OpenAI)
        assert arguments(client.chat.completions.create(**ASK)) == ARGUMENTS
        assert (
            arguments(client.chat.completions.with_raw_response.parse(**ASK).parse()) == ARGUMENTS
        )

        monkeypatch.setattr(openai, "api_key", "second")
        client.chat.completions.create(**ASK)
        assert [request.headers["authorization"][7:] for request in server.requests] == [
            "first"
        ] * 4 + ["second"]
        assert sr.guarded(client)["chat.completions.parse"] == "guarded"

        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(**ASK)

        assert len(server.requests) == 6
    finally:
        openai._reset_client()


def test_a_misspelt_usage_is_refused() -> None:
    """A misspelt ``usage_mode`` is an error of the declaration, not silently the default."""
    with pytest.raises(sr.ContractError):
        sr.wrap(Server(GOOD).client(), usage_mode="all")  # type: ignore[call-overload]


def test_a_copy_of_a_wrapped_client_is_wrapped() -> None:
    """``copy.copy``, ``copy`` and ``with_options`` give no way round the contract."""
    client, server = wrapped(GOOD)
    for other in (copy.copy(client), client.copy(), client.with_options(timeout=2)):
        server.answers = [WRONG, GOOD]
        assert arguments(other.chat.completions.create(**ASK)) == ARGUMENTS


@pytest.mark.parametrize("way", ["create", "parse"])
def test_a_mended_completion_has_its_request_id(way: str) -> None:
    """A completion that was put together here, or parsed, has the id that the SDK puts on its
    completions.
    """
    two = completion(
        calls=[call("search", {"query": "tea"}), call("search", {"query": 1}, "call_b")]
    )
    answers = [
        http.Response(200, json=body, headers={"x-request-id": f"r{n}"})
        for n, body in enumerate([two, GOOD])
    ]
    client, _ = wrapped(*answers)
    given = getattr(client.chat.completions, way)(**ASK)
    assert given._request_id == "r1"

    assert "r1" not in given.to_json()


def test_a_raw_response_says_how_long_it_took() -> None:
    """``elapsed`` is that of the response, mended or not, as with the raw client."""
    with (
        LoopbackServer(lambda _: GOOD) as server,
        openai.OpenAI(api_key="none", base_url=server.base_url) as inner,
    ):
        completions = sr.wrap(inner, tools=[SEARCH]).chat.completions
        assert completions.with_raw_response.create(**ASK).elapsed.total_seconds() > 0

        with completions.with_streaming_response.create(**ASK) as response:
            response.read()
            assert response.elapsed.total_seconds() > 0


def test_the_namespaces_lead_back_to_the_wrapped_client() -> None:
    """A namespace leads to the guarded client, as the raw client's leads to the raw one."""
    client, server = wrapped(WRONG, GOOD)
    for one in (client.chat, client.chat.completions, client.beta.chat.completions):
        assert one._client is client
    assert arguments(client.chat.completions._client.chat.completions.create(**ASK)) == ARGUMENTS
    assert len(server.requests) == 2


def test_completions_that_were_put_over_ours_are_asked() -> None:
    """A program may replace the whole namespace: its ``create`` is what is called, and what
    ``reply`` asks through.
    """

    class Over:
        def __init__(self, inner: Any) -> None:
            self.inner, self.seen = inner, list[int]()

        def create(self, **keywords: Any) -> Any:
            self.seen.append(len(keywords["messages"]))
            return self.inner.create(**keywords)

    client, server = wrapped(WRONG, GOOD)
    client.chat.completions = over = Over(client.chat.completions)
    assert arguments(client.chat.completions.create(**ASK)) == ARGUMENTS
    server.answers = [WRONG, GOOD]

    client.reply(**ASK)
    assert over.seen == [2, 2, 4]


@pytest.mark.parametrize("side", ["outside", "inside"])
def test_a_patch_that_was_undone_leaves_nothing(side: str) -> None:
    """Who sets the method back on the object leaves nobody between us and the SDK: our budget of
    repeats holds.
    """
    client, server = wrapped(status(500))
    completions: Any = (client if side == "outside" else client.unwrapped).chat.completions
    completions.create = completions.create
    seen: list[bool] = []

    class Watch:
        def call(self, _ask: Any, _client: Any, *, seen: bool) -> Any:
            told.append(seen)
            return nullcontext()

    told = seen

    with pytest.raises(sr.TransportFailed):
        client.observed_by(Watch()).reply(
            **ASK, policy=sr.RetryPolicy(transport_retries=1, wait=wait_none())
        )

    assert (seen, len(server.requests)) == ([False], 2)


def test_parse_refuses_what_is_no_answer_type_as_the_sdk_does() -> None:
    """It is the SDK's TypeError, and nothing is sent."""
    client, server = wrapped(GOOD)
    for kind in (list[int], int, "Invoice"):
        with pytest.raises(TypeError, match="response_format"):
            client.chat.completions.parse(**ASK, response_format=kind)
    assert not server.requests


FILTERED = {
    "error": {"message": "filtered", "code": "content_filter", "param": "prompt", "type": None}
}
FAILED_CALL = {
    "error": {
        "message": "Failed to call a function.",
        "code": "tool_use_failed",
        "failed_generation": "{",
    }
}


@pytest.mark.parametrize(
    ("body", "ours"), [(FILTERED, sr.ReplyHalted), (FAILED_CALL, sr.ReplyRejected)]
)
def test_an_error_of_the_api_that_says_what_the_reply_was_is_the_sdks(
    body: Any, ours: type[Exception]
) -> None:
    """A filter that Azure reports, and a call that Groq could not make, are BadRequestErrors with
    all their fields.
    """
    client, _ = wrapped(status(400, body, x_request_id="r1"), policy=sr.RetryPolicy(max_retries=0))
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(**ASK)

    assert isinstance(raised.value, ours)
    error = raised.value
    assert (error.code, error.body, error.status_code, error.request_id) == (
        body["error"]["code"],
        body["error"],
        400,
        "r1",
    )


def test_what_the_network_raised_is_the_cause() -> None:
    """``__cause__`` is the HTTP library's exception, as the SDK shows it; not where that repeats
    the server.
    """
    for underlying, shown in (
        (http.ConnectError("refused"), True),
        (http.RemoteProtocolError("bytes"), False),
    ):
        client, _ = wrapped(underlying, options={"max_retries": 0})
        with pytest.raises(openai.APIConnectionError) as raised:
            client.reply(**ASK)
        assert raised.value.__cause__ is (underlying if shown else None)


def test_an_exchange_that_we_broke_off_is_a_connection_error() -> None:
    """A redirect that is not followed, and a body that is too large, are errors of the SDK, too."""
    elsewhere = http.Response(307, headers={"location": "http://elsewhere.invalid/"})
    for answer in (elsewhere, b" " * 100_000):
        client, _ = wrapped(answer, options={"max_retries": 0}, limits=sr.Limits(reply_bytes=1000))
        with pytest.raises(openai.APIConnectionError) as raised:
            client.reply(**ASK)
        assert isinstance(raised.value, sr.TransportFailed)
        assert raised.value.request.method == "POST"


@pytest.mark.parametrize("answer", [GOOD, http.ReadTimeout("slow")])
def test_a_deadline_has_the_request_that_it_ended(answer: Any) -> None:
    """As every APITimeoutError of the SDK has, whether anything came or not."""
    client, _ = wrapped(answer)
    with pytest.raises(openai.APITimeoutError) as raised:
        client.reply(**ASK, policy=sr.RetryPolicy(deadline=0))
    assert isinstance(raised.value, sr.ReplyHalted)
    assert str(raised.value.request.url) == "http://model.invalid/v1/chat/completions"
