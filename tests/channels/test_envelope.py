"""Opening a completion: how a reply ended is judged first.

Every form of the same response is judged alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionMessage

from strictreply import Category, Contract, DirectAnswer, Invalid, Remedy, ToolCall, Valid
from support.openai_shapes import call, completion, message

SEARCH = {
    "name": "search",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    },
}
CONTRACT = Contract(tools=[SEARCH])
TEXT = Contract(tools=[SEARCH], channel="text")
GOOD = message(None, [call("search", {"query": "x"})])


def only(verdict: object) -> tuple[str, str, Remedy]:
    """Return the code, path and remedy of the only fault of a refused reply."""
    assert isinstance(verdict, Invalid)
    (issue,) = verdict.issues
    return issue.code, issue.path, issue.remedy


@pytest.mark.parametrize("contract", [CONTRACT, TEXT], ids=["native", "text"])
@pytest.mark.parametrize(
    "response",
    [None, 3, 2.5, True, [], [GOOD], (GOOD,), [{"choices": []}]],
    ids=[
        "null",
        "int",
        "float",
        "true",
        "array",
        "array-of-messages",
        "tuple",
        "array-of-responses",
    ],
)
def test_a_response_is_an_object(contract: Contract, response: object) -> None:
    """A response that is not an object is a fault of the server, not of the model."""
    assert only(contract.check(response)) == ("envelope.malformed", "", Remedy.RESEND)


@pytest.mark.parametrize("contract", [CONTRACT, TEXT], ids=["native", "text"])
@pytest.mark.parametrize(
    ("response", "code", "path"),
    [
        ({}, "envelope.choices", "/choices"),
        ({"choices": None}, "envelope.choices", "/choices"),
        ({"choices": []}, "envelope.choices", "/choices"),
        ({"choices": {"0": {"message": GOOD}}}, "envelope.choices", "/choices"),
        ({"choices": "GOOD"}, "envelope.choices", "/choices"),
        ({"choices": [{"message": GOOD}, {"message": GOOD}]}, "envelope.choices", "/choices"),
        ({"choices": [None]}, "envelope.malformed", "/choices/0/message"),
        ({"choices": [{}]}, "envelope.malformed", "/choices/0/message"),
        ({"choices": [{"message": None}]}, "envelope.malformed", "/choices/0/message"),
        ({"choices": [{"message": "x"}]}, "envelope.malformed", "/choices/0/message"),
        ({"choices": [{"message": [GOOD]}]}, "envelope.malformed", "/choices/0/message"),
        ({"choices": [{"message": {}}]}, "envelope.malformed", "/choices/0/message"),
        ({"error": {"message": "overloaded"}}, "envelope.error", "/error"),
        (completion(GOOD) | {"error": {"message": "overloaded"}}, "envelope.error", "/error"),
    ],
)
def test_a_response_holds_one_message(
    contract: Contract, response: object, code: str, path: str
) -> None:
    """A response without exactly one assistant message is not a reply; a retry may bring one."""
    assert only(contract.check(response)) == (code, path, Remedy.RESEND)


@pytest.mark.parametrize("contract", [CONTRACT, TEXT], ids=["native", "text"])
@pytest.mark.parametrize(
    ("response", "code", "path", "remedy"),
    [
        (completion(GOOD, "length"), "reply.truncated", "/choices/0/finish_reason", Remedy.SHORTEN),
        (
            completion(GOOD, "content_filter"),
            "reply.content_filter",
            "/choices/0/finish_reason",
            Remedy.STOP,
        ),
        (
            completion(message('{"answer":"x"}', refusal="no")),
            "reply.refusal",
            "/refusal",
            Remedy.STOP,
        ),
        (
            message(None, [call("search", {"query": "x"})], refusal="no"),
            "reply.refusal",
            "/refusal",
            Remedy.STOP,
        ),
        (message("x") | {"role": "user"}, "reply.role", "/role", Remedy.CORRECT),
        (message("x") | {"role": ["assistant"]}, "reply.role", "/role", Remedy.CORRECT),
    ],
)
def test_how_a_reply_ended_comes_first(
    contract: Contract, response: object, code: str, path: str, remedy: Remedy
) -> None:
    """A refusal, a filter, a cut and a foreign role are reported alone, even where the content
    would fit.
    """
    assert only(contract.check(response)) == (code, path, remedy)


@pytest.mark.parametrize(
    "finish_reason", [None, "", "stop", "tool_calls", "function_call", "banana"]
)
def test_other_endings_do_not_matter(finish_reason: object) -> None:
    """Servers disagree about the finish reason of a good reply: only known bad endings count."""
    assert isinstance(CONTRACT.check(completion(GOOD, finish_reason)), Valid)


@pytest.mark.parametrize(
    ("finish_reason", "code"),
    [
        ("max_tokens", "reply.truncated"),
        ("model_length", "reply.truncated"),
        ("MAX_TOKENS", "reply.truncated"),
        ("model_context_window_exceeded", "reply.truncated"),
        ("incomplete", "reply.truncated"),
        ("SAFETY", "reply.content_filter"),
        ("PROHIBITED_CONTENT", "reply.content_filter"),
        ("canceled", "reply.broken_off"),
        ("error", "reply.broken_off"),
        ("insufficient_system_resource", "reply.broken_off"),
        (3, "envelope.malformed"),
        (["length"], "envelope.malformed"),
    ],
)
def test_bad_endings_in_the_words_of_other_servers(finish_reason: object, code: str) -> None:
    """A reply that was cut, filtered or broken off is never taken for whole, however the server
    spells it.
    """
    assert only(CONTRACT.check(completion(GOOD, finish_reason)))[0] == code


def test_an_error_inside_the_choice_is_an_error() -> None:
    """Some gateways report upstream failures beside a half message."""
    response = completion(GOOD, "stop")
    response["choices"][0]["error"] = {"code": 502}
    assert only(CONTRACT.check(response))[:2] == ("envelope.error", "/choices/0/error")


def test_vendor_fields_do_not_matter() -> None:
    """Reasoning, annotations, log probabilities and an ``error`` of null are not ours to judge."""
    reply = message(
        "hi", reasoning_content="…", annotations=[], audio=None, function_call=None, tool_calls=None
    )
    response = completion(reply) | {"error": None, "system_fingerprint": "f"}
    assert CONTRACT.check(response) == Valid(DirectAnswer("hi"))


def test_content_filter_is_terminal() -> None:
    """A refusal and a filter are of the category that no retry mends."""
    for response in (completion(GOOD, "content_filter"), message("x", refusal="no")):
        verdict = CONTRACT.check(response)
        assert isinstance(verdict, Invalid)
        assert verdict.issues[0].category is Category.API_TERMINAL


FORMS: dict[str, Callable[[dict[str, Any]], object]] = {
    "text": json.dumps,
    "bytes": lambda response: json.dumps(response).encode(),
    "frozen mapping": MappingProxyType,
    "validated SDK object": ChatCompletion.model_validate,
    "constructed SDK object": lambda response: ChatCompletion.construct(**response),
    "SDK object without its parts": lambda response: ChatCompletion.model_construct(**response),
    "mapping of SDK objects": lambda response: {
        "choices": [
            {
                "message": ChatCompletionMessage.construct(**choice["message"]),
                "finish_reason": choice["finish_reason"],
            }
            for choice in response["choices"]
        ]
    },
    "message": lambda response: response["choices"][0]["message"],
    "message as text": lambda response: json.dumps(response["choices"][0]["message"]),
    "message as SDK object": lambda response: ChatCompletionMessage.construct(
        **response["choices"][0]["message"]
    ),
    "tuples": lambda response: {"choices": tuple(response["choices"])},
}

RESPONSES = {
    "answer": completion(message("hi")),
    "call": completion(GOOD),
    "unknown tool": completion(message(None, [call("serch", {"query": "x"})])),
    "bad arguments": completion(
        message("let me see", [call("search", '{"query": 1, "query": 2}')])
    ),
    "bad argument": completion(message(None, [call("search", {"query": 5, "more": [1]})])),
    "several": completion(
        message(None, [call("search", {"query": "x"}), call("search", {"query": "y"}, "call_1")])
    ),
    "nothing": completion(message(None)),
    "blank": completion(message("  ")),
    "refusal": completion(message(None, refusal="no")),
}


@pytest.mark.parametrize("response", RESPONSES.values(), ids=RESPONSES)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_gives_the_same_verdict(
    form: Callable[[dict[str, Any]], object], response: dict[str, Any]
) -> None:
    """A text, a mapping and an SDK object of the same response, or of its message, are judged
    alike.
    """
    assert CONTRACT.check(form(response)) == CONTRACT.check(response)


def test_sdk_call_objects_are_read() -> None:
    """The typed call objects of the SDK are calls like any other."""
    response = ChatCompletion.model_validate(completion(GOOD))
    assert CONTRACT.check(response) == Valid(ToolCall("search", {"query": "x"}, "call_1"))
    assert CONTRACT.check(response.choices[0].message) == Valid(
        ToolCall("search", {"query": "x"}, "call_1")
    )


def test_a_custom_tool_call_is_no_function_call() -> None:
    """The SDK's custom (free text) tool calls are refused: they have no arguments to hold to a
    schema.
    """
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "search", "input": "x"}}
    response = completion(message(None, [custom]))
    for form in (response, ChatCompletion.model_validate(response)):
        assert only(CONTRACT.check(form)) == ("call.malformed", "/tool_calls/0", Remedy.CORRECT)
