"""The guard in LiteLLM's real proxy, over loopback, before a scripted model."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import openai
import pytest

import strictreply as sr
from strictreply.testing import Fault, HTTPReply, Kind, assistant, completion, faults, ok
from strictreply.testing._serving import render
from strictreply.testing._wire import Pause, WireEnding
from support.gateways.proxy import Proxy
from support.scripted import http

pytestmark = pytest.mark.one_lane

PARAMETERS: Any = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["query"],
}
SEARCH = sr.Tool.from_json_schema("search", PARAMETERS)
TOOLS: Any = [{"type": "function", "function": {"name": "search", "parameters": PARAMETERS}}]
GOOD = ok.call(SEARCH, query="tea")
BAD = faults.wrong_type(SEARCH, "limit")
ARGUMENTS = {"query": "tea"}


def ask(proxy: Proxy, key: str, **more: Any) -> Any:
    """Ask the proxy for one reply, with its headers."""
    asked: Any = {
        "model": "own",
        "messages": [{"role": "user", "content": key}],
        "tools": TOOLS,
    } | more
    return proxy.client.chat.completions.with_raw_response.create(**asked)


def as_message(proxy: Proxy, key: str) -> Any:
    """Ask the proxy for one reply by ``/v1/messages``, of a model that is asked so."""
    body = {
        "model": "claude",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": key}],
        "tools": [{"name": "search", "input_schema": PARAMETERS}],
    }
    return proxy.client.post("/messages", cast_to=http.Response, body=body)


def called(proxy: Proxy, key: str, **more: Any) -> list[tuple[str, Any]]:
    """Ask, and give the names and arguments of the calls that came."""
    message = ask(proxy, key, **more).parse().choices[0].message
    return [
        (call.function.name, json.loads(call.function.arguments))
        for call in message.tool_calls or ()
    ]


def streamed(proxy: Proxy, key: str, **more: Any) -> tuple[str, list[str], str | None]:
    """Ask for a stream; give its text, the arguments of its calls, and its finish reason."""
    asked: Any = {
        "model": "own",
        "messages": [{"role": "user", "content": key}],
        "tools": TOOLS,
    } | more
    text = ""
    reason = None
    calls: dict[int, str] = {}

    with proxy.client.chat.completions.create(**{**asked, "stream": True}) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or ():
                    calls[call.index] = calls.get(call.index, "") + (call.function.arguments or "")
                reason = choice.finish_reason or reason

    return text, list(calls.values()), reason


def test_a_good_reply_passes_as_it_came(proxy: Proxy) -> None:
    """A reply that fits is asked for once, and the headers say so."""
    key = proxy.upstream.script(GOOD)
    answered = ask(proxy, key)
    assert answered.headers["x-strictreply-outcome"] == "accepted"
    assert answered.headers["x-strictreply-attempts"] == "1"

    assert (
        json.loads(answered.parse().choices[0].message.tool_calls[0].function.arguments)
        == ARGUMENTS
    )
    assert len(proxy.upstream.asked(key)) == 1


def test_a_bad_reply_is_asked_for_again(proxy: Proxy) -> None:
    """A reply that does not fit goes back with a correction; the client sees the good one, and the
    tokens of both.
    """
    key = proxy.upstream.script(BAD, GOOD)
    answered = ask(proxy, key)
    assert answered.headers["x-strictreply-outcome"] == "fixed"
    assert answered.parse().usage.total_tokens == 30
    first, again = proxy.upstream.asked(key)
    assert len(again["messages"]) > len(first["messages"])
    assert again["messages"][0] == first["messages"][0]


def test_a_request_without_demands_is_untouched(proxy: Proxy) -> None:
    """Without tools, without a format and without a contract nothing is judged, refused or told."""
    key = proxy.upstream.answer(lambda request: completion(assistant("  ")))
    answered = ask(proxy, key, tools=openai.omit, n=2)
    assert answered.parse().choices[0].message.content == "  "
    assert not [name for name in answered.headers if name.startswith("x-strictreply")]
    assert proxy.upstream.asked(key)[0]["n"] == 2


def outcomes(proxy: Proxy, cases: list[Fault], how: Callable[..., Any]) -> dict[str, Any]:
    """Serve each fault once, then a good reply.

    The result is what the client got for each fault, by what makes the fault.
    """

    def one(fault: Fault) -> Any:
        try:
            return how(proxy, proxy.upstream.script(fault, then=GOOD), **fault.needs)
        except openai.APIError as error:
            return error

    with ThreadPoolExecutor(8) as pool:
        return dict(zip([fault.source for fault in cases], pool.map(one, cases), strict=True))


def is_valid(given: Any) -> bool:
    """Report whether a client got calls, and all of them may run."""
    calls = given if isinstance(given, list) else [("search", json.loads(one)) for one in given[1]]
    return bool(calls) and not any(
        isinstance(SEARCH.build(arguments), sr.Invalid) for _, arguments in calls
    )


@pytest.mark.parametrize("how", [called, streamed])
def test_the_catalogue_is_mended(proxy: Proxy, how: Callable[..., Any]) -> None:
    """Whatever a model gets wrong is retried until it is right, plain or streamed: by the guard
    what LiteLLM can read, by LiteLLM's own retry what it cannot.
    """
    kinds = (Kind.JSON, Kind.SHAPE, Kind.TOOL, Kind.ARGS)
    cases = [
        fault for fault in faults.all_for(SEARCH, kinds=kinds, place="call") if not fault.needs
    ]
    got = outcomes(proxy, cases, partial(how, extra_body={"num_retries": 1}))
    assert len(got) > 60

    assert {
        one: given
        for one, given in got.items()
        if isinstance(given, Exception) or not is_valid(given)
    } == {}


@pytest.mark.parametrize(
    ("how", "kinds"),
    [
        (called, (Kind.ENVELOPE, Kind.FINISH, Kind.HTTP)),
        (streamed, (Kind.ENVELOPE, Kind.FINISH, Kind.STREAM)),
    ],
)
def test_whatever_a_server_sends_no_wrong_call_comes(
    proxy: Proxy, how: Callable[..., Any], kinds: Any
) -> None:
    """A faulty envelope, ending or event gives the client the good call or an error of its SDK."""
    cases = [
        fault for fault in faults.all_for(SEARCH, kinds=kinds, place="call") if ends(fault.served)
    ]
    got = outcomes(proxy, cases, how)
    assert len(got) > 20
    assert {
        one: given
        for one, given in got.items()
        if not (isinstance(given, Exception) or is_valid(given))
    } == {}


def ends(served: Any) -> bool:
    """Report whether a response comes to its end by itself, and at once."""
    if not isinstance(served, HTTPReply):
        return True

    waits = any(not isinstance(part, bytes) for part in served.parts)
    return not (
        served.endless
        or served.ending is WireEnding.HANG
        or waits
        or "retry-after" in str(served.headers).lower()
    )


def test_a_rejected_reply_is_an_error_of_the_api(proxy: Proxy) -> None:
    """When the asks are spent, the client's SDK raises its own error, which no word of the model is
    in.
    """
    key = proxy.upstream.script(then=faults.wrong_type(SEARCH, "limit"))
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        ask(proxy, key)
    body: Any = caught.value.body
    assert (body["type"], body["param"], body["code"]) == ("reply_rejected", None, "422")
    assert "args.type" in body["message"]
    assert len(proxy.upstream.asked(key)) == 3


def test_a_rejected_stream_is_an_error_of_the_api(proxy: Proxy) -> None:
    """A stream of which nothing went out yet fails as a plain request does."""
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        streamed(proxy, proxy.upstream.script(then=BAD))
    body: Any = caught.value.body
    assert body["type"] == "reply_rejected"


def test_what_cannot_be_guaranteed_is_refused(proxy: Proxy) -> None:
    """Several choices, and demands to a route that is not guarded, are refused before anything is
    sent.
    """
    key = proxy.upstream.script(then=GOOD)

    def gemini(method: str, model: str, **body: Any) -> None:
        url = proxy.client.base_url.copy_with(path=f"/v1beta/models/{model}:{method}")
        proxy.client.post(
            str(url),
            cast_to=object,
            body={"contents": [{"role": "user", "parts": [{"text": key}]}], **body},
        )

    for refused in (
        lambda: ask(proxy, key, n=2),
        lambda: gemini(
            "generateContent", "own", tools=[{"functionDeclarations": [{"name": "search"}]}]
        ),
        lambda: gemini(
            "streamGenerateContent", "own", tools=[{"functionDeclarations": [{"name": "search"}]}]
        ),
        lambda: gemini("generateContent", "declared"),
        lambda: proxy.client.completions.create(model="declared", prompt=key),
    ):
        with pytest.raises(openai.BadRequestError) as caught:
            refused()
        assert "invalid_request_error" in caught.value.response.text

    assert proxy.upstream.asked(key) == []


def test_text_is_live(proxy: Proxy) -> None:
    """The text of an answer goes out while the model is still writing it."""
    whole = render(ok.answer("Hello there, my friend, how are you?").served, {"stream": True})
    key = proxy.upstream.answer(
        lambda request: HTTPReply(
            200, whole.headers, whole.parts[:5], WireEnding.HANG, framing="chunked"
        )
    )
    asked: Any = {
        "model": "own",
        "messages": [{"role": "user", "content": key}],
        "tools": TOOLS,
        "stream": True,
    }
    with proxy.client.chat.completions.create(**asked) as stream:
        texts = (choice.delta.content for chunk in stream for choice in chunk.choices)
        assert next(text for text in texts if text)


class UntilRead(Pause):
    """A pause until the client has text.

    What a proxy has not read when a connection breaks is lost to it.
    """

    is_read: threading.Event

    def __init__(self, is_read: threading.Event) -> None:
        object.__setattr__(self, "is_read", is_read)  # it is frozen

    @property
    def seconds(self) -> float:
        """Wait, and let no more time pass."""
        return float(not self.is_read.wait(60))


@pytest.mark.parametrize("ending", [WireEnding.WHOLE, WireEnding.CUT])
def test_a_text_that_breaks_off_ends_in_an_error(proxy: Proxy, ending: WireEnding) -> None:
    """A stream that breaks off after text has an error as its last event, and no finish reason."""
    whole = render(ok.answer("Hello there, my friend, how are you?").served, {"stream": True})
    is_read = threading.Event()
    parts = (*whole.parts[:5], UntilRead(is_read))
    key = proxy.upstream.answer(
        lambda request: HTTPReply(200, whole.headers, parts, ending, "chunked")
    )
    asked: Any = {
        "model": "own",
        "messages": [{"role": "user", "content": key}],
        "tools": TOOLS,
        "stream": True,
    }

    came: list[Any] = []

    def read(stream: Iterable[Any]) -> Iterator[Any]:
        for choice in (choice for chunk in stream for choice in chunk.choices):
            yield choice
            if choice.delta.content:
                is_read.set()

    with (
        proxy.client.chat.completions.create(**asked) as stream,
        pytest.raises(openai.APIError) as caught,
    ):
        came.extend(read(stream))  # keeps what came before the error

    assert "".join(choice.delta.content or "" for choice in came)
    assert {choice.finish_reason for choice in came} == {None}
    body: Any = caught.value.body
    assert {"message", "type", "code"} <= body.keys()

    assert len(proxy.upstream.asked(key)) == 1


def test_no_cut_stream_yields_a_call(proxy: Proxy) -> None:
    """Of 200 streams that are cut before their end, by an orderly end, a broken one or a reset,
    none has a call in it; one that is cut behind its end has the whole call.
    """
    chosen = random.Random(7)
    whole = render(GOOD.served, {"stream": True})
    events = [event + b"\n\n" for event in whole.body.split(b"\n\n") if event]
    ended = next(
        number for number, event in enumerate(events) if b'"finish_reason": "tool_calls"' in event
    )
    end = len(b"".join(events[: ended + 1]))

    def one(_: int) -> tuple[bool, Any]:
        at = chosen.randrange(1, len(whole.body))
        ending = chosen.choice([WireEnding.WHOLE, WireEnding.CUT, WireEnding.RESET])
        served = HTTPReply(200, whole.headers, (whole.body[:at],), ending, framing="chunked")
        try:
            return at < end, streamed(proxy, proxy.upstream.answer(lambda request: served))[1]
        except openai.APIError as error:
            return at < end, error

    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(one, range(200)))

    assert sum(is_cut for is_cut, _ in got) > 150
    assert [
        given for is_cut, given in got if is_cut and not isinstance(given, openai.APIError)
    ] == []
    late = [given for is_cut, given in got if not is_cut and not isinstance(given, openai.APIError)]
    assert all(json.loads(arguments) == ARGUMENTS for given in late for arguments in given)


def test_a_cut_stream_is_asked_for_again(proxy: Proxy) -> None:
    """A cut stream is repeated, as the policy says, and the client sees a whole reply."""
    for fault in (faults.stream_without_finish(SEARCH), faults.stream_cut_between_events(SEARCH)):
        key = proxy.upstream.script(fault, GOOD)
        assert [json.loads(one) for one in streamed(proxy, key)[1]] == [ARGUMENTS]
        assert len(proxy.upstream.asked(key)) == 2


def test_each_of_many_concurrent_requests_gets_its_own(proxy: Proxy) -> None:
    """A hundred requests at once, streamed and not, half of them fixed: each gets the call that
    was meant for it.
    """

    def one(number: int) -> Any:
        steps = [ok.call(SEARCH, query=f"tea {number}")]
        key = proxy.upstream.script(*([BAD] if number % 2 else []), *steps)
        if number % 4 < 2:
            return called(proxy, key)[0][1]
        return json.loads(streamed(proxy, key)[1][0])

    with ThreadPoolExecutor(25) as pool:
        assert list(pool.map(one, range(100))) == [
            {"query": f"tea {number}"} for number in range(100)
        ]


@pytest.mark.parametrize("model", ["declared", "filed"])
def test_a_declared_contract_holds_for_its_model(proxy: Proxy, model: str) -> None:
    """A contract from a module or a file is written into the request, and its model's replies are
    held to it.
    """
    refund = sr.Tool.from_json_schema(
        "refund",
        {
            "type": "object",
            "properties": {"order": {"type": "integer"}, "reason": {"type": "string"}},
        },
    )
    ping = sr.Tool.from_json_schema("ping", {"type": "object", "properties": {}})
    good = ok.call(refund, order=7, reason="late") if model == "declared" else ok.call(ping)
    key = proxy.upstream.script(ok.call(SEARCH, query="tea"), good)
    [(name, _)] = called(proxy, key, model=model, tools=openai.omit)
    assert name == {"declared": "refund", "filed": "ping"}[model]

    first, _ = proxy.upstream.asked(key)
    assert [tool["function"]["name"] for tool in first["tools"]] == [name]


def test_a_fallback_is_the_routers(proxy: Proxy) -> None:
    """A model that fails before its first chunk is replaced by the router's fallback: no ask of
    ours is needed.
    """
    whole = render(GOOD.served, {"stream": True})

    def answer(request: Any) -> Any:
        cut = HTTPReply(200, whole.headers, (b": wait\n\n",), WireEnding.RESET, framing="chunked")
        return cut if request["model"] == "broken" else whole

    key = proxy.upstream.answer(answer)
    assert [json.loads(one) for one in streamed(proxy, key, model="broken")[1]] == [ARGUMENTS]
    assert [request["model"] for request in proxy.upstream.asked(key)] == ["broken", "own"]


@pytest.mark.parametrize("by_messages", [False, True])
def test_every_ask_is_in_the_proxys_log(proxy: Proxy, by_messages: bool) -> None:
    """Each further ask is a call of its own in LiteLLM's log, which says whose it is and what was
    wrong.
    """
    key = proxy.upstream.script(BAD, GOOD)
    call = (as_message if by_messages else ask)(proxy, key).headers["x-litellm-call-id"]
    told = {"call_id": call, "attempt": 2, "issues": ["args.type"]}

    until = time.monotonic() + 60
    rows: list[Any] = []
    logged: list[Any] = []
    while not (rows and call in logged) and time.monotonic() < until:
        time.sleep(0.05)  # LiteLLM logs behind the reply
        rows = [row for row in proxy.log() if row["ours"] == told]
        logged = [row["call"] for row in proxy.log()]

    assert [row["spend"] for row in rows] == [told]
    assert logged.count(call) == 1
