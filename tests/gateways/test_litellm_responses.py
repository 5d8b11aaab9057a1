"""The guard on ``/v1/responses`` of LiteLLM's real proxy.

A model is asked by Responses, or LiteLLM makes chat completions of it; both are judged.
"""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

import strictreply as sr
from strictreply.testing import faults, ok
from support.gateways.proxy import Proxy

pytestmark = pytest.mark.one_lane

PARAMETERS: Any = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["query"],
}
SEARCH = sr.Tool.from_json_schema("search", PARAMETERS)
TOOLS: Any = [{"type": "function", "name": "search", "parameters": PARAMETERS}]
FORMAT: Any = {"format": {"type": "json_schema", "name": "x", "schema": PARAMETERS, "strict": True}}
GOOD = ok.call(SEARCH, query="tea")
BAD = faults.wrong_type(SEARCH, "limit")
ARGUMENTS = {"query": "tea"}

both_ways = pytest.mark.parametrize("model", ["own", "bridged"])


def ask(proxy: Proxy, key: str, **more: Any) -> Any:
    """Ask the proxy for one response, with its headers."""
    asked: Any = {"model": "own", "input": key, "tools": TOOLS} | more
    return proxy.client.responses.with_raw_response.create(**asked)


def calls_in(response: Any) -> list[Any]:
    """Return the arguments of the calls of a response."""
    return [json.loads(one.arguments) for one in response.output if one.type == "function_call"]


def streamed(proxy: Proxy, key: str, **more: Any) -> tuple[list[Any], str]:
    """Ask for a stream; give the arguments of the calls of its last event, and all deltas."""
    asked: Any = {"model": "own", "input": key, "tools": TOOLS, "stream": True} | more
    deltas = ""
    event: Any = None
    with proxy.client.responses.create(**asked) as events:
        for event in events:
            deltas += getattr(event, "delta", "")

    assert event.type == "response.completed", event
    return calls_in(event.response), deltas


@both_ways
def test_a_good_response_passes_as_it_came(proxy: Proxy, model: str) -> None:
    """A response that fits is asked for once, and the headers say so."""
    key = proxy.upstream.script(GOOD)
    answered = ask(proxy, key, model=model)
    assert answered.headers["x-strictreply-outcome"] == "accepted"
    assert calls_in(answered.parse()) == [ARGUMENTS]
    assert len(proxy.upstream.asked(key)) == 1


@both_ways
def test_a_bad_response_is_asked_for_again(proxy: Proxy, model: str) -> None:
    """A response that does not fit is corrected, and its items go back as the server wrote them."""
    key = proxy.upstream.script(BAD, GOOD)
    answered = ask(proxy, key, model=model)
    assert answered.headers["x-strictreply-outcome"] == "fixed"
    assert calls_in(answered.parse()) == [ARGUMENTS]

    first, again = proxy.upstream.asked(key)
    assert len(again["messages"]) > len(first["messages"])
    if model == "own":
        sent = next(item for item in again["input"] if item.get("type") == "function_call")
        assert sent.keys() <= {"type", "id", "call_id", "name", "arguments", "status"}


@both_ways
@pytest.mark.parametrize("fault", [BAD, faults.stream_without_finish(SEARCH)])
def test_a_bad_stream_is_asked_for_again(proxy: Proxy, model: str, fault: Any) -> None:
    """No event of a stream with a call that does not fit, or without an end, reaches a client."""
    key = proxy.upstream.script(fault, GOOD)
    calls, deltas = streamed(proxy, key, model=model)
    assert calls == [ARGUMENTS]
    assert json.loads(deltas) == ARGUMENTS
    assert len(proxy.upstream.asked(key)) == 2


@both_ways
def test_text_of_a_stream_passes(proxy: Proxy, model: str) -> None:
    """A stream of text has all events of the API."""
    key = proxy.upstream.script(ok.answer("Hello there, my friend."))
    calls, deltas = streamed(proxy, key, model=model)
    assert (calls, deltas) == ([], "Hello there, my friend.")


@both_ways
@pytest.mark.parametrize("stream", [False, True])
def test_a_structured_answer_is_judged(proxy: Proxy, model: str, stream: bool) -> None:
    """The schema in ``text.format`` is the contract of an answer."""
    key = proxy.upstream.script(ok.answer('{"query": 7}'), ok.answer('{"query": "tea"}'))
    more: Any = {"model": model, "tools": openai.omit, "text": FORMAT}
    if stream:
        assert json.loads(streamed(proxy, key, **more)[1]) == ARGUMENTS
    else:
        assert json.loads(ask(proxy, key, **more).parse().output_text) == ARGUMENTS
    assert len(proxy.upstream.asked(key)) == 2


@both_ways
def test_a_rejected_response_is_an_error_of_the_api(proxy: Proxy, model: str) -> None:
    """When the asks are spent, the SDK raises its own error; a stream ends in a failed response."""
    key = proxy.upstream.script(then=BAD)
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        ask(proxy, key, model=model)
    body: Any = caught.value.body
    assert body["type"] == "reply_rejected"

    key = proxy.upstream.script(then=BAD)
    with proxy.client.responses.create(model=model, input=key, tools=TOOLS, stream=True) as events:
        [event] = events
    assert event.type == "response.failed"
    assert event.response.error is not None
    code: str = event.response.error.code
    assert code == "retries"


def test_a_declared_contract_holds_for_responses(proxy: Proxy) -> None:
    """A model's contract is written into a request for a response, which is held to it."""
    fields: Any = {"order": {"type": "integer"}, "reason": {"type": "string"}}
    refund = sr.Tool.from_json_schema("refund", {"type": "object", "properties": fields})
    key = proxy.upstream.script(GOOD, ok.call(refund, order=7, reason="late"))
    response = ask(proxy, key, model="declared", tools=openai.omit).parse()
    assert calls_in(response) == [{"order": 7, "reason": "late"}]
    first, _ = proxy.upstream.asked(key)
    assert [tool["function"]["name"] for tool in first["tools"]] == ["refund"]


def test_a_response_without_demands_is_untouched(proxy: Proxy) -> None:
    """Without tools, a format or a contract nothing is judged or told."""
    key = proxy.upstream.script(ok.answer("Hello there."))
    answered = ask(proxy, key, tools=openai.omit)
    assert answered.parse().output_text == "Hello there."
    assert not [name for name in answered.headers if name.startswith("x-strictreply")]


def test_a_background_response_is_refused(proxy: Proxy) -> None:
    """A response that comes later cannot be judged."""
    key = proxy.upstream.script(GOOD)
    with pytest.raises(openai.BadRequestError, match="background"):
        ask(proxy, key, background=True)
    assert proxy.upstream.asked(key) == []
