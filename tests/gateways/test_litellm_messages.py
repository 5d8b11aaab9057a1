"""The guard on ``/v1/messages`` of LiteLLM's real proxy.

A model is asked by the Messages API, or LiteLLM makes Responses or chat completions of it; all are
judged.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import httpx
import pytest

import strictreply as sr
from strictreply.testing import HTTPReply, assistant, completion, faults, native_call, ok
from support.gateways.proxy import KEY, Proxy

pytestmark = pytest.mark.one_lane

PARAMETERS: Any = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["query"],
}
SEARCH = sr.Tool.from_json_schema("search", PARAMETERS)
TOOLS: Any = [{"name": "search", "input_schema": PARAMETERS}]
FORMAT: Any = {"format": {"type": "json_schema", "schema": PARAMETERS}}
GOOD = ok.call(SEARCH, query="tea")
BAD = faults.wrong_type(SEARCH, "limit")
ARGUMENTS = {"query": "tea"}

every_way = pytest.mark.parametrize("model", ["claude", "own", "hosted", "bridged"])
"""By Messages, by Responses, by chat completions, and by Responses made of these."""


def ask(proxy: Proxy, key: str, **more: Any) -> httpx.Response:
    """Ask the proxy for one message, as the anthropic SDK asks."""
    turns = [{"role": "user", "content": key}]
    body = {"model": "claude", "max_tokens": 99, "messages": turns, "tools": TOOLS} | more
    sent = {name: value for name, value in body.items() if value is not None}
    headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    return httpx.post(f"{proxy.url}/v1/messages", json=sent, headers=headers, timeout=60)


def calls_in(message: Any) -> list[Any]:
    """Return the arguments of the calls of a message."""
    return [block["input"] for block in message["content"] if block["type"] == "tool_use"]


def text_in(message: Any) -> str:
    """Return the text of a message."""
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def events_of(response: httpx.Response) -> list[Any]:
    """Return what the events of a stream say."""
    assert response.status_code == 200, response.text
    lines = response.text.splitlines()
    return [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:")]


def pieces(told: list[Any], name: str) -> str:
    """Return the joined pieces of what the deltas bring."""
    deltas = [event["delta"] for event in told if event["type"] == "content_block_delta"]
    return "".join(delta.get(name, "") for delta in deltas)


@every_way
def test_a_good_message_passes(proxy: Proxy, model: str) -> None:
    """A message that fits is asked for once, and the headers say so."""
    key = proxy.upstream.script(GOOD)
    answered = ask(proxy, key, model=model)
    assert calls_in(answered.json()) == [ARGUMENTS]
    assert answered.headers["x-strictreply-outcome"] == "accepted"
    assert len(proxy.upstream.asked(key)) == 1


@every_way
def test_a_bad_message_is_corrected(proxy: Proxy, model: str) -> None:
    """A message that does not fit is retried by the proxy's router, with the correction."""
    key = proxy.upstream.script(BAD, GOOD)
    answered = ask(proxy, key, model=model)
    assert answered.status_code == 200, answered.text
    assert calls_in(answered.json()) == [ARGUMENTS]
    assert answered.headers["x-strictreply-outcome"] == "fixed"
    assert answered.headers["x-strictreply-attempts"] == "2"

    first, again = proxy.upstream.asked(key)
    assert len(again["messages"]) > len(first["messages"])


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        *product(
            ["claude", "own", "hosted", "bridged"],
            [BAD, faults.stream_cut_between_events(SEARCH), faults.stream_ends_early(SEARCH)],
        ),
        # [DONE] is the end of a hosted model: LiteLLM makes its finish_reason of it
        *product(["claude", "own", "bridged"], [faults.stream_without_finish(SEARCH)]),
    ],
)
def test_a_bad_stream_is_corrected(proxy: Proxy, model: str, fault: Any) -> None:
    """No event of a stream with a call that does not fit, or without an end, reaches a client."""
    key = proxy.upstream.script(fault, GOOD)
    told = events_of(ask(proxy, key, model=model, stream=True))
    assert [event["type"] for event in told].count("message_start") == 1
    assert told[-1]["type"] == "message_stop"
    assert json.loads(pieces(told, "partial_json")) == ARGUMENTS
    assert len(proxy.upstream.asked(key)) == 2


@every_way
def test_text_of_a_stream_passes(proxy: Proxy, model: str) -> None:
    """A stream of text has all its text and its end."""
    key = proxy.upstream.script(ok.answer("Hello there, my friend."))
    told = events_of(ask(proxy, key, model=model, stream=True))
    assert pieces(told, "text") == "Hello there, my friend."
    assert told[-1]["type"] == "message_stop"


# of Responses made of chat completions LiteLLM drops the text of a whole message
@pytest.mark.parametrize("model", ["claude", "own", "hosted"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_structured_answer_is_judged(proxy: Proxy, model: str, stream: bool) -> None:
    """The schema in ``output_config.format`` is the contract of an answer."""
    key = proxy.upstream.script(ok.answer('{"query": 7}'), ok.answer('{"query": "tea"}'))
    answered = ask(proxy, key, model=model, tools=None, output_config=FORMAT, stream=stream)
    told = pieces(events_of(answered), "text") if stream else text_in(answered.json())
    assert json.loads(told) == ARGUMENTS
    assert len(proxy.upstream.asked(key)) == 2


def test_a_rejected_message_is_an_error_of_the_api(proxy: Proxy) -> None:
    """When the retries are spent, the answer is an error in Anthropic's form, also of a stream.

    Behind text that was shown already, it is the stream's last event.
    """
    for stream in (False, True):
        key = proxy.upstream.script(then=BAD)
        answered = ask(proxy, key, stream=stream)
        assert (answered.status_code, answered.json()["type"]) == (422, "error")
        assert "arguments/limit: must be an integer" in answered.json()["error"]["message"]
        assert len(proxy.upstream.asked(key)) == 3

    said = assistant("I will look.", calls=[native_call("search", '{"query": 7}')])
    key = proxy.upstream.answer(lambda _: completion(said))
    told = events_of(ask(proxy, key, stream=True))
    assert pieces(told, "text").startswith("I will look.")
    assert pieces(told, "partial_json") == ""
    assert told[-1]["type"] == "error"


def test_a_failure_of_the_model_stays_litellms(proxy: Proxy) -> None:
    """An error between LiteLLM and a model is LiteLLM's own, in Anthropic's form."""
    error: Any = {"type": "error", "error": {"type": "authentication_error", "message": "no key"}}
    key = proxy.upstream.answer(lambda _: HTTPReply.json(401, error))
    answered = ask(proxy, key)
    assert answered.status_code == 401
    assert answered.json()["type"] == "error"


def test_a_declared_contract_holds_for_messages(proxy: Proxy) -> None:
    """A model's contract is written into a request for a message, which is held to it."""
    fields: Any = {"order": {"type": "integer"}, "reason": {"type": "string"}}
    refund = sr.Tool.from_json_schema("refund", {"type": "object", "properties": fields})
    key = proxy.upstream.script(GOOD, ok.call(refund, order=7, reason="late"))
    answered = ask(proxy, key, model="declared", tools=None)
    assert calls_in(answered.json()) == [{"order": 7, "reason": "late"}]
    first, _ = proxy.upstream.asked(key)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["refund"]


def test_a_message_without_demands_is_untouched(proxy: Proxy) -> None:
    """Without tools, a format or a contract nothing is judged or told."""
    key = proxy.upstream.script(ok.answer("Hello there."))
    answered = ask(proxy, key, tools=None)
    assert answered.json()["content"][0]["text"] == "Hello there."
    assert not [name for name in answered.headers if name.startswith("x-strictreply")]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"model": "claude,own"}, "several models"),
        ({"stream": "true"}, "stream must be"),
    ],
)
def test_what_is_not_read_of_a_message_is_refused(proxy: Proxy, more: Any, words: str) -> None:
    """A demand in a form that is not judged is refused in Anthropic's form, and nothing is sent."""
    key = proxy.upstream.script(then=BAD)
    answered = ask(proxy, key, **more)
    body = answered.json()
    assert (answered.status_code, body["type"]) == (400, "error")
    assert body["error"]["type"] == "invalid_request_error"
    assert words in body["error"]["message"]
    assert proxy.upstream.asked(key) == []
