"""A stored reply is judged before it comes out, and never asked for again.

What comes out is compared with what the raw SDK returns for the same call.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import warnings
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai._models import FinalRequestOptions
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import BaseModel

import strictreply as sr
from support import scripted_responses as sdk
from support.loops import some
from support.scripted import SCHEMA, Server, call, completion, http, status
from support.streamed_replies import streamed_response

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
TOOLS = [{"type": "function", "function": {"name": "search", "parameters": SCHEMA}}]
GOOD_CALL = ("search", {"query": "tea"})
WRONG_CALL = ("search", {"query": 1})
GOOD = completion(calls=[call(*GOOD_CALL)])
WRONG = completion(calls=[call(*WRONG_CALL)])
GOOD_RESPONSE = sdk.response(sdk.call_item(*GOOD_CALL), tools=[sdk.FLAT_SEARCH])
WRONG_RESPONSE = sdk.response(sdk.call_item(*WRONG_CALL), tools=[sdk.FLAT_SEARCH])
STORED = "/chat/completions/chatcmpl-1"
STORED_RESPONSE = "/responses/resp_1"


class Invoice(BaseModel):
    """What an answer is parsed into."""

    total: int


def events(response: dict[str, Any]) -> Any:
    """Return a stream of a response."""
    return streamed_response(response)


def done(given: Any) -> Any:
    """Return what came of a call; what is awaited is awaited, and a stream is read."""
    if isinstance(given, openai.Stream):
        return list(given)
    if not inspect.isawaitable(given):
        return given

    async def main() -> Any:
        made = await given
        return [one async for one in made] if isinstance(made, openai.AsyncStream) else made

    return asyncio.run(main())


def both(ask: Callable[[Any], Any], *answers: Any, **declared: Any) -> list[tuple[Any, Server]]:
    """Ask a wrapped client and its async twin; return what each gave, and its server."""
    found: list[tuple[Any, Server]] = []
    for is_async in (False, True):
        server = Server(*[one() if callable(one) else one for one in answers])
        raw: Any = server.async_client() if is_async else server.client()
        found.append((done(ask(sr.wrap(raw, **declared))), server))

    return found


def refused(ask: Callable[[Any], Any], *answers: Any, **declared: Any) -> list[Any]:
    """Ask both clients, whose reply is refused; return the errors, each of one attempt."""
    errors: list[Any] = []
    for is_async in (False, True):
        server = Server(*[one() if callable(one) else one for one in answers])
        raw: Any = server.async_client() if is_async else server.client()
        client = sr.wrap(raw, **declared)
        with pytest.raises(sr.ReplyRejected) as raised:
            done(ask(client))

        assert len(raised.value.attempts) == len(server.requests) == 1
        errors.append(raised.value)

    return errors


def kind_of(client: Any) -> Any:
    """Return the SDK's own class of completions for a client."""
    chat = openai.resources.chat
    return chat.AsyncCompletions if isinstance(client, openai.AsyncOpenAI) else chat.Completions


RETRIEVE: dict[str, Callable[[Any], Any]] = {
    "retrieve": lambda client: client.chat.completions.retrieve("chatcmpl-1"),
    "update": lambda client: client.chat.completions.update("chatcmpl-1", metadata={"a": "b"}),
    "beta": lambda client: client.beta.chat.completions.retrieve("chatcmpl-1"),
    "by_hand": lambda client: kind_of(client)(client).retrieve("chatcmpl-1"),
    "get": lambda client: client.get(STORED, cast_to=ChatCompletion),
    "post": lambda client: client.post(STORED, cast_to=ChatCompletion, body={}),
    "request": lambda client: client.request(
        ChatCompletion, FinalRequestOptions.construct(method="GET", url=STORED)
    ),
}
RETRIEVE_RESPONSE: dict[str, Callable[[Any], Any]] = {
    "retrieve": lambda client: client.responses.retrieve("resp_1"),
    "cancel": lambda client: client.responses.cancel("resp_1"),
    "get": lambda client: client.get(STORED_RESPONSE, cast_to=Response),
    "spelled": lambda client: client.get("/v1/../responses/./resp%5F1/", cast_to=Response),
    "absolute": lambda client: client.get(
        "http://model.invalid/v1/responses/resp_1?a=1", cast_to=Response
    ),
    "cancel_post": lambda client: client.post(f"{STORED_RESPONSE}/cancel", cast_to=Response),
}


@pytest.mark.parametrize("way", RETRIEVE)
def test_a_stored_completion_is_judged(way: str) -> None:
    """A good one is the raw SDK's object, a wrong one raises; nothing is retried."""
    ask = RETRIEVE[way]
    raw = ask(Server(GOOD).client())
    for given, server in both(ask, GOOD, tools=[SEARCH]):
        assert given == raw
        assert len(server.requests) == 1

    for error in refused(ask, WRONG, tools=[SEARCH]):
        assert [issue.code for issue in error.issues] == ["args.type"]
        assert isinstance(error, openai.APIResponseValidationError)


@pytest.mark.parametrize("way", RETRIEVE_RESPONSE)
def test_a_stored_response_is_judged(way: str) -> None:
    """By the tools that it was made with where the client has none of its own."""
    ask = RETRIEVE_RESPONSE[way]
    raw = ask(Server(GOOD_RESPONSE).client())
    for given, _ in both(ask, GOOD_RESPONSE):
        assert given == raw

    for error in refused(ask, WRONG_RESPONSE):
        assert [issue.code for issue in error.issues] == ["args.type"]


@pytest.mark.parametrize(
    ("wrong", "ask"),
    [
        (WRONG, lambda client: client.chat.completions.retrieve("chatcmpl-1")),
        (WRONG_RESPONSE, lambda client: client.responses.retrieve("resp_1")),
    ],
    ids=["chat", "responses"],
)
def test_the_attempt_of_a_stored_reply_has_the_model_that_wrote_it(wrong: Any, ask: Any) -> None:
    """What a watcher or a trace sees as its request names the model that the reply names."""
    seen: list[sr.Attempt] = []
    client = sr.wrap(Server(wrong).client(), tools=[SEARCH], on_attempt=seen.append)
    with pytest.raises(sr.ReplyRejected):
        ask(client)

    assert [attempt.request.get("model") for attempt in seen] == [wrong["model"]]


def test_what_a_stored_reply_says_of_its_request_is_its_contract() -> None:
    """Tools, choice, number of calls and answer's schema, where the client leaves them open."""
    retrieve = RETRIEVE["retrieve"]
    for given, _ in both(retrieve, GOOD | {"tools": TOOLS}):
        assert given.choices[0].message.tool_calls[0].function.name == "search"

    two = completion(calls=[call(*GOOD_CALL), call(*GOOD_CALL, "b")]) | {"tools": TOOLS}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "A", "schema": schema}}
    for stored, code in (
        (GOOD, "tool.unknown"),
        (completion("tea") | {"tools": TOOLS, "tool_choice": "required"}, "tool.required"),
        (two | {"parallel_tool_calls": False}, "tool.several"),
        (completion('{"a": "b"}') | {"response_format": form}, "answer.type"),
    ):
        for error in refused(retrieve, stored):
            assert [issue.code for issue in error.issues] == [code]


def test_the_clients_own_contract_is_not_widened() -> None:
    """Tools and an answer that the client declares count, whatever the reply says it was asked."""
    retrieve = RETRIEVE_RESPONSE["retrieve"]
    other = sr.Tool.from_json_schema("weather", SCHEMA)
    for error in some(refused(retrieve, GOOD_RESPONSE, tools=[other])):
        assert [issue.code for issue in error.issues] == ["tool.unknown"]

    text = sdk.response(sdk.text_item('{"total": "x"}'), text={"format": {"type": "text"}})
    for error in refused(retrieve, text, answer=Invoice):
        assert [issue.code for issue in error.issues] == ["answer.type"]


@pytest.mark.parametrize("state", ["queued", "in_progress", "cancelled", "failed"])
def test_a_response_without_a_reply_has_no_output(state: str) -> None:
    """It can be polled: it comes as it is, without what was written so far."""
    begun = sdk.response(sdk.call_item("drop_table", "{not"), status=state)
    for given, _ in some(both(RETRIEVE_RESPONSE["retrieve"], begun)):
        assert (given.status, given.output, given.id) == (state, [], begun["id"])

    empty = sdk.response(status=state)
    raw = Server(empty).client().responses.retrieve("resp_1")
    for given, _ in both(RETRIEVE_RESPONSE["retrieve"], empty):
        assert given == raw


@pytest.mark.parametrize("way", RETRIEVE_RESPONSE)
def test_a_failed_response_tells_its_error_without_a_status(way: str) -> None:
    """It is the raw SDK's object, with every member of the error; an error in place of a response,
    which has no id, raises.
    """
    ask = RETRIEVE_RESPONSE[way]
    error = {"code": "server_error", "message": "Try again.", "type": None, "param": "input[0]"}
    failed = {"id": "resp_1", "error": error}
    raw = ask(Server(failed).client())
    for given, server in both(ask, failed):
        assert given == raw
        assert given.error.to_dict() == error
        assert len(server.requests) == 1

    with pytest.raises(sr.TransportFailed) as raised:
        ask(sr.wrap(Server({"error": error}).client()))

    assert [issue.code for issue in raised.value.issues] == ["envelope.error"]


def test_a_response_that_was_cut_is_refused() -> None:
    """As one that was just made."""
    cut = sdk.response(
        sdk.text_item("so f"),
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    )
    for error in some(refused(RETRIEVE_RESPONSE["retrieve"], cut)):
        assert isinstance(error, openai.LengthFinishReasonError)


def test_a_stored_stream_is_judged() -> None:
    """Its events come when the whole reply was judged; of a wrong one there are none."""

    def ask(client: Any) -> Any:
        return client.responses.retrieve("resp_1", stream=True)

    for given, _ in both(ask, lambda: events(GOOD_RESPONSE)):
        assert given[-1].response.output[0].arguments == '{"query": "tea"}'
        assert [one.type for one in given][-2:] == [
            "response.output_item.done",
            "response.completed",
        ]

    refused(ask, lambda: events(WRONG_RESPONSE))


def by_id(client: Any, **given: Any) -> Any:
    """Read the stream of a stored response to its end, and return the response."""

    async def main() -> Any:
        async with client.responses.stream(response_id="resp_1", **given) as stream:
            return await stream.get_final_response()

    if isinstance(client, openai.AsyncOpenAI):
        return main()
    with client.responses.stream(response_id="resp_1", **given) as stream:
        return stream.get_final_response()


@pytest.mark.parametrize("given", [{}, {"starting_after": 2}])
def test_a_stream_by_id_is_judged(given: dict[str, Any]) -> None:
    """What the SDK parses is what was judged, by the class that it is parsed into."""
    good = sdk.response(sdk.text_item('{"total": 3}'))
    twice = sdk.response(sdk.text_item('{"total": 3, "total": 999}'))

    def typed(client: Any) -> Any:
        return by_id(client, text_format=Invoice, **given)

    for response, _ in both(typed, lambda: events(good)):
        assert response.output_parsed == Invoice(total=3)

    for error in refused(typed, lambda: events(twice)):
        assert [issue.code for issue in error.issues] == ["json.duplicate_key"]

    for response, _ in both(by_id, lambda: events(twice)):
        assert response.output_text == '{"total": 3, "total": 999}'

    refused(by_id, lambda: events(WRONG_RESPONSE))


@pytest.mark.parametrize("kind", ["text", "json_object"])
def test_the_class_of_a_stored_stream_counts_more_than_the_format_it_echoes(kind: str) -> None:
    """A server echoes the format that it was asked for, which is a text by default."""

    def typed(client: Any) -> Any:
        return by_id(client, text_format=Invoice)

    def stored(text: str) -> Callable[[], Any]:
        whole = sdk.response(sdk.text_item(text), text={"format": {"type": kind}})
        return lambda: events(whole)

    for response, _ in some(both(typed, stored('{"total": 3}'))):
        assert response.output_parsed == Invoice(total=3)

    wrong = {
        "three": "answer.type",
        '{"total": "3"}': "answer.type",
        '{"total": 3, "total": 4}': "json.duplicate_key",
    }
    for text, code in wrong.items():
        for error in some(refused(typed, stored(text))):
            assert [issue.code for issue in error.issues] == [code]


def test_a_part_of_a_stored_stream_is_refused() -> None:
    """It cannot be judged; the message names the way by which the SDK reads the whole."""
    server = Server(GOOD_RESPONSE)
    client = sr.wrap(server.client())
    with pytest.raises(NotImplementedError, match=r"responses\.stream\(response_id"):
        client.responses.retrieve("resp_1", stream=True, starting_after=3)

    with pytest.raises(NotImplementedError, match=r"responses\.retrieve"):
        client.get(f"{STORED_RESPONSE}?beta=true", cast_to=object)
    assert server.requests == []


CASTS = (object, dict[str, Any], str, http.Response)


@pytest.mark.parametrize("cast_to", CASTS)
def test_a_stored_reply_is_of_the_class_that_was_asked_for(cast_to: Any) -> None:
    """As the raw SDK makes it; of no class does a wrong one come out."""

    def ask(client: Any) -> Any:
        return client.get(STORED_RESPONSE, cast_to=cast_to)

    raw = ask(Server(GOOD_RESPONSE).client())
    for given, _ in both(ask, GOOD_RESPONSE):
        assert type(given) is type(raw)
        if cast_to is not http.Response:
            assert given == raw
        else:
            assert given.json() == GOOD_RESPONSE

    refused(ask, WRONG_RESPONSE)


def test_events_that_are_read_as_text_are_judged() -> None:
    """A stream that a call does not read as one."""

    def ask(client: Any) -> Any:
        return client.get(f"{STORED_RESPONSE}?stream=true", cast_to=str)

    for given, _ in both(ask, lambda: events(GOOD_RESPONSE)):
        last = [line for line in given.splitlines() if line.startswith("data: ")][-1]
        assert json.loads(last[6:])["response"]["output"][0]["call_id"] == "call_a"

    refused(ask, lambda: events(WRONG_RESPONSE))


def test_raw_responses_of_stored_replies_are_the_sdks() -> None:
    """Their headers are those of the response, and what they parse to was judged."""
    answer = status(200, GOOD_RESPONSE, x_request_id="r1")
    client = sr.wrap(Server(answer).client())
    raw = client.responses.with_raw_response.retrieve("resp_1")
    assert (raw.request_id, raw.parse().id) == ("r1", GOOD_RESPONSE["id"])

    with client.responses.with_streaming_response.retrieve("resp_1") as response:
        assert json.loads(response.read()) == GOOD_RESPONSE


def test_failures_are_the_sdks() -> None:
    """Its own repeats are made for a stored reply, and its errors raised, which are ours too."""
    options: dict[str, Any] = {"max_retries": 1}
    server = Server(status(500, retry_after_ms="1"), GOOD_RESPONSE)
    assert sr.wrap(server.client(**options)).responses.retrieve("r").id == GOOD_RESPONSE["id"]
    assert len(server.requests) == 2

    kinds: tuple[type[Exception], ...] = (openai.NotFoundError, sr.TransportFailed)
    for kind in kinds:
        with pytest.raises(kind):
            sr.wrap(Server(status(404, {"error": {}})).client()).responses.retrieve("r")

    late = sr.RetryPolicy(deadline=0)
    for kind in (openai.APITimeoutError, sr.ReplyHalted):
        with pytest.raises(kind):
            both(RETRIEVE_RESPONSE["retrieve"], GOOD_RESPONSE, policy=late)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_body_that_is_too_large_is_refused(*, is_async: bool) -> None:
    """The cap of a reply holds for one that is stored, in every form."""
    server = Server(sdk.response(sdk.text_item("x" * 100_000)))
    raw: Any = server.async_client() if is_async else server.client()
    client: Any = sr.wrap(raw, limits=sr.Limits(reply_bytes=1000))
    with pytest.raises(sr.TransportFailed) as raised:
        done(client.responses.retrieve("resp_1"))
    assert raised.value.reason == "response_too_large"

    def streaming() -> Any:
        asked = client.responses.with_streaming_response.create(model="m", input="x")
        if not is_async:
            return asked.__enter__()
        return asyncio.run(asked.__aenter__())

    with pytest.raises(sr.TransportFailed) as raised:
        streaming()
    assert raised.value.reason == "response_too_large"


def test_pages_of_stored_replies_are_refused() -> None:
    """By each way to one; the message names the guarded way, and nothing is sent."""
    server = Server({"object": "list", "data": [GOOD]})
    client: Any = sr.wrap(server.client())
    twin: Any = sr.wrap(server.async_client())
    page = openai.pagination.SyncCursorPage[ChatCompletion]
    for ask in (
        client.chat.completions.list,
        client.beta.chat.completions.list,
        client.chat.completions.with_raw_response.list,
        twin.chat.completions.list,
        kind_of(client)(client).list,
        lambda: client.get("/chat/completions", cast_to=object),
        lambda: client.get_api_list("/chat/completions", page=page, model=ChatCompletion),
    ):
        with pytest.raises(NotImplementedError, match=r"client\.chat\.completions\.retrieve"):
            ask()

    assert server.requests == []
    client.chat.completions.messages.list("chatcmpl-1")
    assert len(server.requests) == 1


def test_websockets_are_refused() -> None:
    """The message names the guarded way."""
    for client in (sr.wrap(Server(GOOD).client()), sr.wrap(Server(GOOD).async_client())):
        responses: Any = client.responses
        with pytest.raises(NotImplementedError, match=r"responses\.create\(stream=True\)"):
            responses.connect()
        assert not hasattr(client.chat.completions, "connect")


def test_what_a_stored_reply_cost_is_not_counted_again() -> None:
    """Nobody but ``on_attempt`` sees the verdict on it."""
    seen: list[sr.Attempt] = []
    client = sr.wrap(Server(GOOD_RESPONSE).client(), on_attempt=seen.append)
    client.responses.retrieve("resp_1")
    assert [one.accepted for one in seen] == [True]


def test_who_stands_over_get_sees_the_request() -> None:
    """A method put over ``get`` of either client is called once, and opens no door."""
    for side in ("inside", "outside"):
        server = Server(WRONG_RESPONSE)
        raw = server.client()
        client: Any = sr.wrap(raw)
        holder: Any = raw if side == "inside" else client
        behind = holder.get
        seen: list[Any] = []

        def spy(*given: Any, behind: Any = behind, seen: Any = seen, **named: Any) -> Any:
            seen.append(given)
            return behind(*given, **named)

        holder.get = spy
        with pytest.raises(sr.ReplyRejected):
            client.responses.retrieve("resp_1")
        assert len(seen) == len(server.requests) == 1


def test_the_advice_fits_a_reply_that_is_not_asked_for_again() -> None:
    """More retries would bring the same reply, so none are advised."""
    for error in refused(RETRIEVE_RESPONSE["retrieve"], WRONG_RESPONSE):
        assert error.reason == "stored"
        for told in (str(error), error.explain()):
            assert sr.Reason.STORED.advice in told
            assert "max_retries" not in told


UNKNOWN = {"type": "object", "properties": {"query": {"type": "bogus"}}}
ODD_TOOLS: dict[str, Any] = {
    "a member of a type that nobody knows": sdk.FLAT_SEARCH | {"parameters": UNKNOWN},
    "a type that nobody knows": sdk.FLAT_SEARCH | {"parameters": {"type": "bogus"}},
    "a reference to elsewhere": sdk.FLAT_SEARCH | {"parameters": {"$ref": "http://x.invalid"}},
    "what nothing fits": sdk.FLAT_SEARCH
    | {"parameters": SCHEMA | {"properties": {"query": {"type": "null", "enum": [1]}}}},
}


@pytest.mark.parametrize("name", ODD_TOOLS)
def test_an_odd_declaration_that_is_echoed_is_no_error_of_the_caller(name: str) -> None:
    """The call is held to the rest: its tool, and arguments in JSON; a warning says so once."""
    tool = ODD_TOOLS[name] | {"name": name.replace(" ", "_")}
    good = sdk.response(sdk.call_item(tool["name"], {"query": "tea"}), tools=[tool])
    ask = RETRIEVE_RESPONSE["retrieve"]
    client = sr.wrap(Server(good).client())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = [ask(client) for _ in range(2)]

    assert [one.output[0].name for one in given] == [tool["name"]] * 2
    assert [one.category for one in caught] == [sr.ContractWarning]
    assert tool["name"] in str(caught[0].message)

    for arguments, called in (("{not", tool["name"]), ("{}", "drop_table")):
        bad = sdk.response(sdk.call_item(called, arguments), tools=[tool])
        assert refused(ask, bad)


@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
def test_an_odd_tool_leaves_the_others_as_they_are() -> None:
    """Only what cannot be checked is left out, wherever it stands."""
    odd = sdk.FLAT_SEARCH | {"name": "odd", "parameters": UNKNOWN}
    tools = [odd, {"type": "function"}, 5, sdk.FLAT_SEARCH, sdk.FLAT_SEARCH]
    for error in refused(
        RETRIEVE_RESPONSE["retrieve"],
        sdk.response(sdk.call_item(*WRONG_CALL), tools=tools, tool_choice={"type": ["x"]}),
    ):
        assert [issue.code for issue in error.issues] == ["args.type"]


ODD_DEMANDS: dict[str, dict[str, Any]] = {
    "a choice of no tool": {"tool_choice": {"type": "function", "name": "other"}},
    "a choice of another form": {"tool_choice": 5},
    "an empty list of allowed tools": {"tool_choice": {"type": "allowed_tools", "tools": []}},
    "tools that are no list": {"tools": "search"},
    "a format that nobody knows": {"text": {"format": {"type": "yaml"}}},
    "a text that is no object": {"text": [1]},
    "a schema that cannot be checked": {
        "text": {"format": {"type": "json_schema", "name": "a", "schema": UNKNOWN}}
    },
}


@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
@pytest.mark.parametrize("name", ODD_DEMANDS)
def test_a_demand_that_nobody_can_honour_is_left_out(name: str) -> None:
    """The reply is judged by the others."""
    answer = sdk.response(sdk.text_item('{"query": "ab"}'), **ODD_DEMANDS[name])
    for given, _ in some(both(RETRIEVE_RESPONSE["retrieve"], answer)):
        assert given.output_text == '{"query": "ab"}'


@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
def test_an_answer_of_a_schema_that_cannot_be_checked_is_an_object() -> None:
    """That much of its format can be held."""
    prose = sdk.response(sdk.text_item("tea"), **ODD_DEMANDS["a schema that cannot be checked"])
    for error in refused(RETRIEVE_RESPONSE["retrieve"], prose):
        assert [issue.code.partition(".")[0] for issue in error.issues] == ["json"]


def test_what_a_new_reply_echoes_is_not_its_contract() -> None:
    """The request of a call says what it declares, whatever the server makes of it."""
    odd = GOOD_RESPONSE | {"tools": [*ODD_TOOLS.values()], "tool_choice": 5, "text": [1]}
    ask: dict[str, Any] = {"model": "m", "input": "x", "tools": [sdk.FLAT_SEARCH]}
    for given, _ in some(both(lambda client: client.responses.create(**ask), odd)):
        assert given.output[0].name == "search"


@pytest.mark.filterwarnings("ignore::strictreply.ContractWarning")
def test_an_odd_tool_of_a_stored_completion_is_no_error_either() -> None:
    """In the form of chat completions."""
    function = {"name": "search", "parameters": UNKNOWN}
    stored = GOOD | {"tools": [{"type": "function", "function": function}]}
    for given, _ in some(both(RETRIEVE["retrieve"], stored)):
        assert given.choices[0].message.tool_calls[0].function.name == "search"
