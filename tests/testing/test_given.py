"""Replies that a user gives to ``serve-script``: over both APIs, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from strictreply.testing import (
    ScriptServer,
    assistant,
    completion,
    native_call,
)
from strictreply.testing._given import given_in
from support.scripted import http
from support.streamed_replies import events

HEADER = "x-strictreply-fault"
BAD = completion(assistant(None, [native_call("search", '{"query": 5', "call_x")]))
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "output": [{"type": "function_call", "call_id": "call_x", "name": "search", "arguments": "{"}],
}
STREAM = b"".join(events(BAD)).decode()
COMPACT = (
    'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"a\u2028b"}}]}\n\n'
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    "data: [DONE]\n\n"
)
ERROR = "event: error\ndata: {}\n\n"
CUT = 'data: {"choices": [{"index": 0, "delta": {"content": "Hel'


@pytest.fixture
def sdk() -> Iterator[Any]:
    """A client of the server that ``serve-script`` starts."""
    with (
        ScriptServer() as server,
        openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client,
    ):
        yield client


def asked(sdk: Any, step: dict[str, Any], *, stream: bool, of_responses: bool) -> Any:
    """Ask for a step by one API: what came is the SDK's object, or the list of its events."""
    told: dict[str, Any] = {"stream": stream, "extra_headers": {HEADER: json.dumps(step)}}
    if of_responses:
        came = sdk.responses.create(model="m", input="tea", **told)
    else:
        turns = [{"role": "user", "content": "tea"}]
        came = sdk.chat.completions.create(model="m", messages=turns, **told)

    return list(came) if stream else came


def arguments_in(came: Any, *, of_responses: bool) -> str:
    """The arguments of the calls in what came."""
    if of_responses and isinstance(came, list):
        deltas = [one.delta for one in came if one.type.endswith("_arguments.delta")]
        return "".join(deltas)
    if of_responses:
        return "".join(item.arguments for item in came.output)
    if isinstance(came, list):
        parts = [part for one in came for part in one.choices[0].delta.tool_calls or ()]
        return "".join(part.function.arguments or "" for part in parts)

    return "".join(call.function.arguments for call in came.choices[0].message.tool_calls)


both = pytest.mark.parametrize("of_responses", [False, True], ids=["chat", "responses"])
forms = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@both
@forms
def test_a_given_completion_is_served_as_each_api_has_it(
    sdk: Any, stream: bool, of_responses: bool
) -> None:
    """The body of a chat completion comes whole or in events, its bad arguments as they were."""
    came = asked(sdk, {"body": BAD}, stream=stream, of_responses=of_responses)
    assert arguments_in(came, of_responses=of_responses) == '{"query": 5'


@forms
def test_a_given_response_is_served_by_its_own_api(sdk: Any, stream: bool) -> None:
    """The body of a response comes as it was given, or as the events that make it."""
    came = asked(sdk, {"body": RESPONSE}, stream=stream, of_responses=True)
    response = came[-1].response if stream else came
    assert response.id == "resp_1"
    assert response.output[0].arguments == "{"


@both
def test_a_given_stream_is_served_as_it_is(sdk: Any, of_responses: bool) -> None:
    """Its events come as given, or as those of the other API."""
    came = asked(sdk, {"stream": STREAM}, stream=True, of_responses=of_responses)
    assert arguments_in(came, of_responses=of_responses) == '{"query": 5'


@both
def test_a_stream_of_any_spelling_is_translated(sdk: Any, of_responses: bool) -> None:
    """Chunks without blanks, ids and types are chunks, and a line separator ends no line."""
    came = asked(sdk, {"stream": COMPACT}, stream=True, of_responses=of_responses)
    if of_responses:
        assert came[-1].response.output_text == "a\u2028b"
    else:
        assert came[0].choices[0].delta.content == "a\u2028b"


@both
def test_a_stream_that_is_cut_stays_cut(sdk: Any, of_responses: bool) -> None:
    """Half an event is sent as it was given, and no reader gets more of it."""
    assert asked(sdk, {"stream": CUT}, stream=True, of_responses=of_responses) == []
    turns = [{"role": "user", "content": "tea"}]
    path = "responses" if of_responses else "chat/completions"
    request = {"model": "m", "stream": True, "input" if of_responses else "messages": turns}
    step = {HEADER: json.dumps({"stream": CUT})}
    came = http.post(f"{sdk.base_url}{path}", json=request, headers=step)
    assert (came.status_code, came.content) == (200, CUT.encode())


def test_events_of_responses_are_not_translated(sdk: Any) -> None:
    """A stream of the Responses API is served there as it is, its odd members included."""
    text = 'event: response.created\ndata: {"type": "response.created", "odd": 1}\n\n'
    (came,) = asked(sdk, {"stream": text}, stream=True, of_responses=True)
    assert (came.type, came.odd) == ("response.created", 1)


def test_a_stream_needs_a_request_for_one(sdk: Any) -> None:
    """A request without ``stream`` gets the reason, and the journal keeps it."""
    with pytest.raises(openai.BadRequestError, match="needs a request with"):
        asked(sdk, {"stream": STREAM}, stream=False, of_responses=False)


@both
@forms
def test_a_given_content_is_that_of_the_message(sdk: Any, stream: bool, of_responses: bool) -> None:
    """A bare content is put into a message, however it is asked for."""
    came = asked(sdk, {"content": "{half"}, stream=stream, of_responses=of_responses)
    if of_responses:
        assert (came[-1].response if stream else came).output_text == "{half"
    elif stream:
        assert "".join(one.choices[0].delta.content or "" for one in came) == "{half"
    else:
        assert came.choices[0].message.content == "{half"


@both
@forms
@pytest.mark.parametrize("body", [{"error": {"message": "busy"}}, "busy"])
def test_a_status_comes_with_its_body(
    sdk: Any, body: Any, stream: bool, of_responses: bool
) -> None:
    """Under the status of an error the body is sent as it is, JSON or text."""
    with pytest.raises(openai.InternalServerError) as told:
        asked(sdk, {"body": body, "status": 503}, stream=stream, of_responses=of_responses)

    assert told.value.status_code == 503
    assert told.value.response.text == (body if isinstance(body, str) else json.dumps(body))


@pytest.mark.parametrize(
    ("text", "status", "step"),
    [
        (json.dumps(BAD), None, {"body": json.dumps(BAD)}),
        (json.dumps(RESPONSE), 200, {"body": json.dumps(RESPONSE), "status": 200}),
        ('{"error": {}}', None, {"body": '{"error": {}}'}),
        ('{"total": "3"}', None, {"content": '{"total": "3"}'}),
        ("Sure! Here", None, {"content": "Sure! Here"}),
        (STREAM, None, {"stream": STREAM}),
        (f"\ufeff{STREAM}", None, {"stream": f"\ufeff{STREAM}"}),
        (ERROR, 200, {"stream": ERROR, "status": 200}),
        ("<html>", 502, {"body": "<html>", "status": 502}),
        ('{"detail": "no"}', 404, {"body": '{"detail": "no"}', "status": 404}),
        ("[" * 100_000, None, {"content": "[" * 100_000}),
        (b"a\r\nb", None, {"content": "a\r\nb"}),
        (b"caf\xe9", None, {"body_base64": "Y2Fm6Q=="}),
        (b"caf\xe9", 502, {"body_base64": "Y2Fm6Q==", "status": 502}),
    ],
)
def test_what_a_file_holds_is_told_by_its_form(
    text: str | bytes, status: int | None, step: dict[str, Any]
) -> None:
    """A body is JSON of a response, a stream begins as an event, and all else is a content."""
    assert given_in(text, status) == step


def test_given_steps_are_served_before_a_script_is_set() -> None:
    """Those of the command line come first, one a request, and then good replies."""
    with (
        ScriptServer(["one", '{"choices": []}']) as server,
        openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client,
    ):
        turns: Any = [{"role": "user", "content": "tea"}]
        first = client.chat.completions.create(model="m", messages=turns)
        assert first.choices[0].message.content == "one"

        second = client.chat.completions.create(model="m", messages=turns)
        assert second.choices == []

        good = client.chat.completions.create(model="m", messages=turns)
        assert good.choices[0].finish_reason == "stop"


def test_a_script_server_serves_replies_and_then_a_script() -> None:
    """The replies come first, under their status; then good replies, or the example that is set."""
    turns: Any = [{"role": "user", "content": "tea"}]
    tools: Any = [{"type": "function", "function": {"name": "search"}}]
    with (
        ScriptServer(["<html>"], status=502) as server,
        openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client,
    ):
        with pytest.raises(openai.InternalServerError) as caught:
            client.chat.completions.create(model="m", messages=turns, tools=tools)
        assert (caught.value.status_code, caught.value.response.text) == (502, "<html>")

        good = client.chat.completions.create(model="m", messages=turns, tools=tools)
        assert good.choices[0].finish_reason == "tool_calls"

        told = client.post("/script", body=json.loads(ScriptServer.example), cast_to=object)
        assert told == {"steps": 2}
