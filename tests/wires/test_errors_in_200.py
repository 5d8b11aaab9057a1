"""An error in a response of status 200 is treated as if the status had said so.

A body in another form than was asked for is told as what it is.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterator
from typing import Any

import openai
import pytest

import strictreply as sr
from strictreply import Code
from strictreply.retry._failures import failure_in
from strictreply.wires import WIRES
from strictreply.wires._bodies import not_asked
from strictreply.wires._endings import ERROR_OPENINGS, OF_CONVERSATION
from support.loops import some
from support.scripted import SCHEMA, USER, Client, Server, call, completion, http, status
from support.scripted_responses import FLAT_SEARCH, call_item, response
from support.streamed_replies import policy

SEARCH: dict[str, Any] = {"name": "search", "parameters": SCHEMA}
CONTRACT = sr.Contract(tools=[SEARCH])
EVENTS = "text/event-stream"
POLICY = policy(max_retries=2, transport_retries=1)
WORDS = "the words of the server"
ASKS: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": USER},
    "responses": {"model": "m", "input": "find tea"},
}
WAYS = [
    pytest.param(wire, streamed, is_async, id=f"{wire}-{form}-{kind}")
    for wire in ASKS
    for streamed, form in ((False, "whole"), (True, "streamed"))
    for is_async, kind in ((False, "sync"), (True, "async"))
]


def served(body: object, content_type: str = "application/json") -> Any:
    """Return a response of status 200."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.Response(200, content=content, headers={"content-type": content_type})


def in_events(*pieces: object, names: str = "") -> Any:
    """Return a stream of these events."""
    named = f"event: {names}\n" if names else ""
    text = "".join(f"{named}data: {json.dumps(piece)}\n\n" for piece in pieces)
    return served(text.encode(), EVENTS)


def failed(server: Server, wire: str, *, streamed: bool, is_async: bool) -> Any:
    """Make a call that fails, and return its error, which is the SDK's, too."""
    made: Any = server.async_client() if is_async else server.client()
    client: Any = sr.wrap(made, tools=[SEARCH], policy=POLICY, api="chat")
    resource = client.responses if wire == "responses" else client.chat.completions
    asked = ASKS[wire] | ({"stream": True} if streamed else {})

    async def aread() -> None:
        came = await resource.create(**asked)
        if streamed:
            [piece async for piece in came]

    def read() -> None:
        came = resource.create(**asked)
        list(came if streamed else ())

    with pytest.raises(sr.CallFailed) as raised:
        asyncio.run(aread()) if is_async else read()

    return raised.value


ERRORS: list[tuple[str, Any, str, int, type[openai.APIStatusError], int]] = [
    ("401", {"code": 401}, "authentication_failed", 401, openai.AuthenticationError, 1),
    ("a text", {"code": "401"}, "authentication_failed", 401, openai.AuthenticationError, 1),
    ("402", {"code": 402}, "insufficient_credits", 402, openai.APIStatusError, 1),
    ("403", {"code": 403}, "permission_denied", 403, openai.PermissionDeniedError, 1),
    ("404", {"status": 404}, "not_found", 404, openai.NotFoundError, 1),
    ("400", {"type": "invalid_request_error"}, "invalid_request", 400, openai.BadRequestError, 1),
    (
        "the code above the type",
        {"type": "invalid_request_error", "code": "invalid_api_key"},
        *("authentication_failed", 401, openai.AuthenticationError, 1),
    ),
    (
        "the context",
        {"code": "context_length_exceeded"},
        *("context_length_exceeded", 400, openai.BadRequestError, 1),
    ),
    (
        "money",
        {"code": "insufficient_quota", "type": "insufficient_quota"},
        *("insufficient_credits", 429, openai.RateLimitError, 1),
    ),
    ("429", {"code": "rate_limit_exceeded"}, "rate_limit", 429, openai.RateLimitError, 2),
    (
        "Gemini",
        {"code": 429, "status": "RESOURCE_EXHAUSTED"},
        *("rate_limit", 429, openai.RateLimitError, 2),
    ),
    ("500", {"type": "server_error"}, "server_error", 500, openai.InternalServerError, 2),
    ("529", {"type": "overloaded_error"}, "server_error", 529, openai.InternalServerError, 2),
    (
        "OpenRouter",
        {"code": 502, "metadata": {"error_type": "provider_unavailable"}},
        *("server_error", 502, openai.InternalServerError, 2),
    ),
]


@pytest.mark.parametrize(("wire", "streamed", "is_async"), WAYS)
@pytest.mark.parametrize(
    ("name", "error", "reason", "code", "kind", "requests"), ERRORS, ids=lambda one: str(one)[:30]
)
def test_an_error_in_a_200_is_read_by_its_status(
    name: str,
    error: dict[str, Any],
    reason: str,
    code: int,
    kind: type[openai.APIStatusError],
    requests: int,
    wire: str,
    streamed: bool,
    is_async: bool,
) -> None:
    """The reason, the SDK's class, the advice and the number of requests are those of the status;
    the server's words are in the explanation alone.
    """
    body = {"error": {"message": WORDS, **error}}
    server = Server(in_events(body) if streamed else served(body))
    told = failed(server, wire, streamed=streamed, is_async=is_async)

    assert {sr.TransportFailed, kind} <= {*type(told).__mro__}, name
    assert (told.reason, told.status_code, len(server.requests)) == (reason, code, requests)
    assert type(told.cause) is kind
    assert told.body == body["error"]
    assert told.response.status_code == 200

    assert WORDS in told.explain()
    assert WORDS not in str(told)
    assert f"What to do: {sr.Reason(reason).advice}" in told.explain()
    assert told.explain().count("What to do") == 1

    again = pickle.loads(pickle.dumps(told))  # noqa: S301 - our own bytes
    assert (again.reason, again.status_code, again.cause) == (reason, code, None)


@pytest.mark.parametrize(
    "words",
    [
        "the request exceeds the available context size",
        "Context size has been exceeded.",
        "This model's maximum context length is 4096 tokens.",
        "prompt is too long: 205351 tokens > 200000 maximum",
        "Your input exceeds the context window of this model.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Range of input length should be [1, 30720]",
        "litellm.APIConnectionError: OpenAIException - Input is too long for requested model.",
        "prompt too long; exceeded max context length by 1119046 tokens (ref: x)",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "prompt token count of 391491 exceeds the limit of 128000",
        "Invalid request: Your request exceeded model token limit: 8192",
        "invalid params, context window exceeds limit (2013)",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "tokens to keep from the initial prompt is greater than the context length",
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        "groq error: maximum context length is 8192 tokens",
    ],
)
@pytest.mark.parametrize("error", [{}, {"code": 400}, {"code": 500}, {"type": "BadRequestError"}])
def test_a_conversation_that_is_too_long_is_final(words: str, error: dict[str, Any]) -> None:
    """However the server says it, the same request cannot succeed, and our words say why."""
    followed = CONTRACT.next_request(ASKS["chat"], {"error": {"message": words, **error}})
    assert followed.request is None
    assert followed.error is not None
    assert followed.error.reason == "context_length_exceeded"


@pytest.mark.parametrize(
    "words", ["Rate limit reached for tokens", "the context of your request was lost", "busy"]
)
def test_other_words_are_not_about_length(words: str) -> None:
    """What names neither a status nor a length says nothing, and stays a malformed response."""
    followed = CONTRACT.next_request(ASKS["chat"], {"error": {"message": words}})
    assert followed.attempts[-1].failure is None
    assert followed.request is not None

    told = {"error": {"message": "maximum context length", "code": 429}}
    limited = CONTRACT.next_request(ASKS["chat"], told)
    assert str(limited.attempts[-1].failure).startswith("rate_limit")
    assert limited.request is not None


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": WORDS, "code": 401}},
        {"error": {"error": {"message": WORDS, "code": 401}}},
        {"type": "error", "error": {"type": "authentication_error", "message": WORDS}},
        {"object": "error", "message": WORDS, "type": "AuthenticationError", "code": 401},
        {"code": "InvalidApiKey", "message": WORDS, "request_id": "r"},
        {"errors": [{"code": 401, "message": WORDS}], "success": False, "result": None},
        [{"error": {"code": 401, "message": WORDS, "status": "UNAUTHENTICATED"}}],
        {"error": "unauthorized", "message": WORDS},
        {"choices": [], "error": {"message": WORDS, "code": 401}},
    ],
)
@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_an_error_is_found_wherever_servers_put_it(body: Any, wire: str) -> None:
    """Each form is final by its status, and its words are told."""
    server = Server(served(body))
    told = failed(server, wire, streamed=False, is_async=False)
    assert WORDS in told.explain()
    assert isinstance(told, openai.AuthenticationError)
    assert len(server.requests) == 1


def test_an_error_in_a_choice_is_found() -> None:
    """Routers report there what failed behind them."""
    choice = {"index": 0, "error": {"message": WORDS, "code": 401}, "message": None}
    server = Server(served({"choices": [choice]}))
    told = failed(server, "chat", streamed=False, is_async=False)
    assert isinstance(told, openai.AuthenticationError)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        completion("hello"),
        response(call_item("search", {"query": "tea"})),
        {"role": "assistant", "content": "hi"},
        {"message": {"role": "assistant", "content": "hi"}, "done": True},
        {"choices": [], "error": None},
        {"id": "x"},
        [],
        None,
        "text",
    ],
)
def test_what_is_no_error_is_none(body: Any) -> None:
    """No response and no message is taken for an error."""
    assert [wire.error_in(body) for wire in WIRES.values()] == [None] * len(WIRES)
    assert CONTRACT.next_request(ASKS["chat"], body).attempts[-1].failure is None


STREAMS: dict[str, tuple[str, bytes]] = {
    "an event of its own": (
        "chat",
        b'event: error\ndata: {"message": "%s", "code": 401}\n\n' % WORDS.encode(),
    ),
    "a field of its own": (
        "chat",
        b'error: {"message": "%s", "code": 401}\n\n' % WORDS.encode(),
    ),
    "without its blank line": (
        "chat",
        b'data: {"error": {"message": "%s", "code": 401}}\n' % WORDS.encode(),
    ),
    "a type": (
        "chat",
        b'data: {"type": "error", "message": "%s", "code": 401}\n\n' % WORDS.encode(),
    ),
    "members": (
        "responses",
        b'data: {"code": "InvalidApiKey", "message": "%s"}\n\n' % WORDS.encode(),
    ),
    "nested": (
        "responses",
        b'event: error\ndata: {"type": "error", "error": {"message": "%s", "code": "401"}}\n\n'
        % WORDS.encode(),
    ),
    "a body of JSON": ("chat", b'{"error": {"message": "%s", "code": 401}}' % WORDS.encode()),
    "a body of JSON in lines": (
        "responses",
        b'{\n\n "error": {\n "message": "%s",\n "code": 401}}\n\n' % WORDS.encode(),
    ),
    "a failed response": (
        "responses",
        b'data: {"type": "response.failed", "response": {"id": "r", "status": "failed", '
        b'"output": [], "error": {"code": "invalid_api_key", "message": "%s"}}}\n\n'
        % WORDS.encode(),
    ),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_an_error_in_a_stream_is_final_in_each_form(name: str, is_async: bool) -> None:
    """One request is made, and the exception is the one of the status."""
    wire, body = STREAMS[name]
    server = Server(served(body, "application/json" if body[:1] == b"{" else EVENTS))
    told = failed(server, wire, streamed=True, is_async=is_async)
    assert WORDS in told.explain()
    assert isinstance(told, openai.AuthenticationError)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b"<!DOCTYPE html><html>Please wait</html>", "text/html; charset=utf-8", "text/html"),
        (b"<html>Please wait</html>", "application/json", "text/html"),
        (b"Please wait", "text/plain", "text/plain"),
        (b"Please wait", "", "another text"),
        (b"Please wait", "x;evil/ text", "another text"),
    ],
)
@pytest.mark.parametrize(("wire", "streamed", "is_async"), WAYS)
def test_a_page_is_told_as_what_it_is(
    body: bytes, kind: str, said: str, wire: str, streamed: bool, is_async: bool
) -> None:
    """The message names the content type, the explanation the first bytes, and the retry stays."""
    server = Server(served(body, kind))
    told = failed(server, wire, streamed=streamed, is_async=is_async)
    assert (told.reason, len(server.requests)) == ("malformed_response", 2)
    assert [issue.code for issue in told.issues] == ["envelope.malformed"]

    assert said in str(told)
    assert "Please wait" in told.explain()
    assert "Please wait" not in str(told)


@pytest.mark.parametrize("wire", ["chat", "responses"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_other_form_is_told(wire: str, is_async: bool) -> None:
    """A whole reply for a stream, and a stream for a whole reply, are named by their content
    type.
    """
    good = completion("hello") if wire == "chat" else response()
    for streamed, answer, said in (
        (True, served(good), "not application/json"),
        (False, in_events(good), "not text/event-stream"),
        (False, served(json.dumps(good).encode() + b"\n\ndata: [DONE]\n\n", EVENTS), EVENTS),
    ):
        told = failed(Server(answer), wire, streamed=streamed, is_async=is_async)
        assert said in str(told)


def test_an_empty_body_is_told() -> None:
    """Nothing is named as nothing."""
    told = failed(Server(served(b"")), "chat", streamed=False, is_async=False)
    assert "an empty body" in str(told)
    assert not_asked("x", "a/b", b"\xef\xbb\xbf \n").message.endswith("not an empty body")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_byte_order_mark_before_a_body_says_nothing(is_async: bool) -> None:
    """The reply behind it is read, and comes as the SDK's own object."""
    good = completion(calls=[call("search", {"query": "tea"})])
    server = Server(served(b"\xef\xbb\xbf" + json.dumps(good).encode()))
    made: Any = server.async_client() if is_async else server.client()
    client: Any = sr.wrap(made, tools=[SEARCH], policy=POLICY)
    came = client.create(**ASKS["chat"])
    came = asyncio.run(came) if is_async else came
    assert came.choices[0].message.tool_calls[0].function.name == "search"

    items = response(call_item("search", {"query": "tea"}))
    raw = b"\xef\xbb\xbf" + json.dumps(items).encode()
    asked = sr.wrap(Server(served(raw)).client(), policy=POLICY)
    flat: Any = {"tools": [FLAT_SEARCH], **ASKS["responses"]}
    assert asked.responses.create(**flat).output[0].type == "function_call"


def behind_prefixes(words: str) -> Iterator[str]:
    """Yield an error's words as gateways pass them on."""
    inner = json.dumps({"error": {"message": words, "code": 400}})
    yield words
    yield f"litellm.InternalServerError: InternalServerError: Custom_openaiException - {words}"
    yield f"litellm.APIConnectionError: Ollama_chatException - {json.dumps({'error': words})}"
    yield f"litellm.BadRequestError: GeminiException BadRequestError - {inner}. Received Model=x"
    yield f"litellm.BadRequestError: OpenAIException - Error code: 400 - {json.loads(inner)}"
    yield f"Error code: 500 - {inner}"
    yield f"groq error: {words}"
    yield f"workers-ai error: litellm.APIError: VllmException - {inner}"
    yield f"Engine protocol predict stream returned an error: {inner}"
    yield inner


MODELS = (Code.CALL_UNREADABLE, Code.REPLY_UNREADABLE)
FAULTS = [
    opening
    for opening, code in ERROR_OPENINGS.items()
    if code in MODELS and opening not in OF_CONVERSATION
]


@pytest.mark.parametrize("opening", FAULTS)
@pytest.mark.parametrize("place", ["status", "whole", "streamed"])
def test_a_fault_of_the_model_is_found_behind_a_gateway(opening: str, place: str) -> None:
    """Behind each prefix it is asked again with a correction, and the good reply is taken."""
    for words in some(
        behind_prefixes(f"{opening[:1].upper()}{opening[1:]} (what the model wrote)")
    ):
        error = {"error": {"message": words, "type": "api_error", "code": None}}
        good: Any = completion(calls=[call("search", {"query": "tea"})])
        answer = served(error) if place == "whole" else status(500, error)
        if place == "streamed":
            answer = in_events(error)
            good = served(as_stream(good), EVENTS)

        server = Server(answer, good)
        client = sr.wrap(server.client(), tools=[SEARCH], policy=POLICY)
        asked = ASKS["chat"] | ({"stream": True} if place == "streamed" else {})
        resource: Any = client.chat.completions
        came = resource.create(**asked)
        list(came if place == "streamed" else ())

        assert len(server.requests) == 2, words
        assert len(json.loads(server.bodies[1])["messages"]) > len(USER)


def as_stream(good: dict[str, Any]) -> bytes:
    """Return a completion with one call as a stream."""
    message = good["choices"][0]["message"]
    calls = [{"index": 0, **message["tool_calls"][0]}]
    around = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    delta: list[Any] = [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}]
    end: list[Any] = [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]
    chunks = [around | {"choices": delta}, around | {"choices": end}]
    events = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks)
    return f"{events}data: [DONE]\n\n".encode()


def test_the_providers_own_code_is_found_behind_a_gateway() -> None:
    """An error that is repeated as JSON, or beside the gateway's own, counts with its codes."""
    inner = {"code": "tool_use_failed", "message": "Failed", "failed_generation": "x" * 3000}
    for error in (
        {"message": f"litellm.BadRequestError: GroqException - {json.dumps({'error': inner})}"},
        {"message": "Provider returned error", "metadata": {"raw": json.dumps({"error": inner})}},
        {"message": "Provider returned error", "metadata": {"raw": {"error": inner}}},
        {"message": "groq error: Failed to call a function.", "code": "tool_use_failed"},
        {"message": "400", "type": "Failed to parse fc related info to json format!"},
    ):
        verdict = CONTRACT.check({"error": {"code": 400, **error}})
        assert isinstance(verdict, sr.Invalid)
        assert verdict.issues[0].code == "call.unreadable"


@pytest.mark.parametrize("opening", OF_CONVERSATION)
@pytest.mark.parametrize("place", ["status", "whole"])
def test_a_fault_that_may_be_of_the_conversation_is_asked_again_once(
    opening: str, place: str
) -> None:
    """No re-ask can mend a call in the conversation: after one the call ends as the request's."""
    for words in some(behind_prefixes(f"{opening[:1].upper()}{opening[1:]}: [101] at 1")):
        error = {"error": {"message": words, "type": "server_error", "code": 500}}
        server = Server(served(error) if place == "whole" else status(500, error))
        told = failed(server, "chat", streamed=False, is_async=False)

        assert {sr.TransportFailed, openai.OpenAIError} <= {*type(told).__mro__}
        assert (told.reason, len(server.requests)) == ("invalid_request", 2), words
        assert opening[1:20] in told.explain()
        assert sr.Reason.INVALID_REQUEST.advice in str(told)


@pytest.mark.parametrize(
    ("error", "reason", "requests"),
    [
        ({"code": 401}, "authentication_failed", 1),
        ({"code": 503}, "server_error", 2),
        ({"code": None}, "malformed_response", 2),
        ({"code": "tool_use_failed"}, "retries", 3),
    ],
)
def test_the_sdks_own_stream_is_told_alike(
    error: dict[str, Any], reason: str, requests: int
) -> None:
    """Where a tracer stands before ``create`` the SDK reads the events, and raises the error."""
    server = Server(in_events({"error": {"message": WORDS, **error}}))
    made = server.client(max_retries=0)
    create = made.chat.completions.create

    def traced(**given: Any) -> Any:
        return create(**given)

    made.chat.completions.create = traced  # type: ignore[method-assign]
    client: Any = sr.wrap(made, tools=[SEARCH], policy=POLICY)

    with pytest.raises(sr.CallFailed) as raised:
        list(client.chat.completions.create(stream=True, **ASKS["chat"]))

    assert (raised.value.reason, len(server.requests)) == (reason, requests)
    assert WORDS in raised.value.explain()


def test_a_client_without_http_is_told_alike() -> None:
    """The reason and the number of asks do not need the SDK."""
    client = Client(*[{"error": {"message": WORDS, "code": 401}}] * 3)
    with pytest.raises(sr.TransportFailed) as raised:
        sr.wrap(client, tools=[SEARCH], policy=POLICY).reply(**ASKS["chat"])

    assert (raised.value.reason, raised.value.status_code) == ("authentication_failed", 401)
    assert len(client.script.requests) == 1
    assert WORDS in raised.value.explain()


def test_next_request_ends_at_a_final_error() -> None:
    """Who fetches the responses alone is told the same."""
    followed = CONTRACT.next_request(ASKS["chat"], {"error": {"message": WORDS, "code": 401}})
    assert isinstance(followed.error, sr.TransportFailed)
    assert followed.error.reason == "authentication_failed"

    followed = CONTRACT.next_request(ASKS["chat"], {"error": {"message": WORDS, "code": 503}})
    assert followed.request is not None


def test_next_request_tells_another_body() -> None:
    """A text that is not JSON is told as what it is."""
    for body, said in (("<html>x</html>", "text/html"), ('{"choices": [', "JSON that is cut")):
        verdict = CONTRACT.next_request(ASKS["chat"], body).verdict
        assert isinstance(verdict, sr.Invalid)
        assert said in verdict.issues[0].message


def test_errors_within_errors_are_bounded() -> None:
    """However deep or wide errors repeat one another, reading them ends soon, and says nothing."""
    deep: Any = {"message": "x"}
    for _ in range(500):
        deep = {"message": "no", "error": deep, "innererror": deep, "metadata": {"raw": deep}}

    assert failure_in({"error": deep}) is None
    assert failure_in({"error": {"message": "litellm.XError: " + '{"a":' * 50_000}}) is None
    assert failure_in({"error": {"message": "Error" * 50_000}}) is None
    assert failure_in({"error": {"code": [], "type": {}, "status": True, "message": []}}) is None
