"""What we add to a request by ourselves is given up when the endpoint refuses it.

What the caller said is not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from tenacity import wait_none

import strictreply as sr
from support.loops import some
from support.scripted import SCHEMA, USER, Server, call, completion, status

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
POLICY = sr.RetryPolicy(wait=wait_none(), transport_retries=0)
ASK: dict[str, Any] = {"model": "m", "messages": USER}


class Invoice(BaseModel):
    """What an answer holds."""

    number: int


def openai_error(message: str, **more: object) -> dict[str, Any]:
    """Return the body of an error in the form of OpenAI's."""
    return {
        "error": {
            "message": message,
            "type": "invalid_request_error",
            "param": None,
            "code": None,
            **more,
        }
    }


REFUSALS: dict[str, tuple[str, int, Any]] = {
    # o1, o3-mini: community.openai.com/t/1023540; the param may be named in the field alone
    "openai o3-mini": (
        "parallel_tool_calls",
        400,
        openai_error(
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."
        ),
    ),
    "named in the field": (
        "parallel_tool_calls",
        400,
        openai_error("Unsupported.", param="parallel_tool_calls"),
    ),
    # Gemini (openai/openai-agents-python#656), Groq (vercel/ai#16540), both beside tools; LM
    # Studio's body has a text
    "gemini, beside tools": (
        "response_format",
        400,
        openai_error(
            "Function calling with a response mime type: 'application/json' is unsupported"
        ),
    ),
    "groq": (
        "response_format",
        400,
        openai_error("json mode cannot be combined with tool/function calling"),
    ),
    "lm studio": ("response_format", 400, {"error": "'response_format.type' must be 'text'"}),
    # older versions of the Azure API
    "azure": (
        "parallel_tool_calls",
        400,
        openai_error("Unrecognized request argument supplied: parallel_tool_calls"),
    ),
    # a server on FastAPI that forbids what it does not know
    "fastapi": (
        "parallel_tool_calls",
        422,
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "parallel_tool_calls"],
                    "msg": "Extra inputs",
                }
            ]
        },
    ),
    # Gemini's compatible endpoint answers a list
    "gemini": (
        "parallel_tool_calls",
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": 'Unknown name "parallel_tool_calls": Cannot find field.',
                }
            }
        ],
    ),
    "deepseek thinking": (
        "tool_choice",
        400,
        openai_error("Thinking mode does not support this tool_choice"),
    ),
    "qwen thinking": (
        "tool_choice",
        400,
        openai_error(
            "The tool_choice parameter does not support being set to required or object in "
            "thinking mode"
        ),
    ),
    "openrouter": (
        "tool_choice",
        404,
        {
            "error": {
                "message": "No endpoints found that support the provided 'tool_choice' value.",
                "code": 404,
            }
        },
    ),
    "deepseek": (
        "response_format",
        400,
        openai_error("This response_format type is unavailable now"),
    ),
    "json_schema": (
        "response_format",
        400,
        openai_error("'json_schema' is not supported by this model"),
    ),
    "llama.cpp": (
        "response_format",
        500,
        {"error": {"message": "Unsupported param: response_format", "code": 500}},
    ),
}


class Picky(Server):
    """An endpoint that refuses one keyword, and answers in order else."""

    def __init__(self, refusal: str, *answers: Any) -> None:
        """Refuse as the row of the table does."""
        super().__init__(*answers)
        self.keyword, self.status, self.body = REFUSALS[refusal]
        self.refused = 0

    def handle(self, request: Any) -> Any:
        """Answer one request."""
        if self.keyword in json.loads(request.content):
            self.requests.append(request)
            self.refused += 1
            return status(self.status, self.body)
        return super().handle(request)


def declared(keyword: str) -> dict[str, Any]:
    """Return a contract for which a keyword is added to some request."""
    return {"answer": Invoice} if keyword == "response_format" else {"tools": [SEARCH]}


def answers(keyword: str) -> list[Any]:
    """Return replies in whose course the keyword is added.

    A forced tool comes with the first correction.
    """
    if keyword == "response_format":
        return [completion('{"number": 1}')]
    return [WRONG, GOOD, WRONG, GOOD] if keyword == "tool_choice" else [GOOD]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_an_addition_is_given_up_once_for_an_endpoint_and_model(refusal: str) -> None:
    """It is left out at once, the attempt says so, and no later call sends it; sync and async."""
    keyword = REFUSALS[refusal][0]
    server = Picky(refusal, *answers(keyword))
    client = sr.wrap(server.client(), **declared(keyword), policy=POLICY)
    first = client.exchange(**ASK)

    second = client.exchange(**ASK)
    assert [name for one in first.attempts for name in one.dropped_params] == [keyword]
    assert not any(one.dropped_params for one in second.attempts)
    assert server.refused == 1

    client.exchange(**{**ASK, "model": "another"})
    # The last script needs no correction.
    assert server.refused == (1 if keyword == "tool_choice" else 2)

    async def asynchronously() -> None:
        server = Picky(refusal, *answers(keyword))
        async_client = sr.wrap(server.async_client(), **declared(keyword), policy=POLICY)
        for _ in range(2):
            await async_client.reply(**ASK)
        assert server.refused == 1

    asyncio.run(asynchronously())


@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_the_caller_said_is_never_given_up(refusal: str) -> None:
    """A refusal of the caller's own keyword reaches the caller as the SDK's error."""
    keyword = REFUSALS[refusal][0]
    server = Picky(refusal, *answers(keyword))
    client = sr.wrap(server.client(), tools=[SEARCH], policy=POLICY)
    said: dict[str, Any] = {
        "parallel_tool_calls": False,
        "tool_choice": "required",
        "response_format": {"type": "json_object"},
    }

    with pytest.raises(openai.APIStatusError) as caught:
        client.reply(**ASK, **{keyword: said[keyword]})

    assert sr.TransportFailed in caught.type.__mro__
    assert server.refused == 1


def test_two_additions_are_given_up_one_after_the_other() -> None:
    """An endpoint that knows neither is asked three times, and once in the next call."""

    class Both(Server):
        def handle(self, request: Any) -> Any:
            body = json.loads(request.content)
            self.requests.append(request)
            for name in ("parallel_tool_calls", "response_format"):
                if name in body:
                    return status(400, openai_error(f"Unknown parameter: '{name}'."))
            return super().handle(request)

    server = Both(completion('{"number": 1}'))
    client = sr.wrap(server.client(), tools=[SEARCH], answer=Invoice, policy=POLICY)
    first = client.exchange(**ASK)
    assert [one.dropped_params for one in first.attempts] == [
        ("parallel_tool_calls",),
        ("response_format",),
        (),
    ]

    before = len(server.requests)
    assert client.exchange(**ASK).attempts[0].dropped_params == ()
    assert len(server.requests) == before + 2  # each is noted twice by this server: one request


def test_a_model_is_told_the_schema_in_words_where_no_response_format_is_taken() -> None:
    """The request still says what a reply is held to, at once and in the next calls."""
    server = Picky("deepseek", completion('{"number": 1}'))
    client = sr.wrap(server.client(), answer=Invoice, policy=POLICY)
    for _ in range(2):
        assert client.answer(**ASK) == Invoice(number=1)
    for body in some(map(json.loads, server.bodies[1:])):
        assert "response_format" not in body
        assert '"number"' in body["messages"][0]["content"]
        assert [one["role"] for one in body["messages"]] == [one["role"] for one in USER]


@pytest.mark.parametrize("code", [401, 403, 429])
def test_a_failure_that_is_no_refusal_gives_up_nothing(code: int) -> None:
    """The words of a refusal in another failure change no request."""
    server = Server(status(code, openai_error("parallel_tool_calls")))
    with pytest.raises(sr.TransportFailed):
        sr.wrap(server.client(), tools=[SEARCH], policy=POLICY).reply(**ASK)
    assert len(server.requests) == 1


def test_a_refusal_of_something_else_is_the_callers() -> None:
    """An error about the prompt gives up nothing, and is raised at once."""
    server = Server(status(400, openai_error("Invalid value for 'messages[0].role'")))
    with pytest.raises(openai.BadRequestError):
        sr.wrap(server.client(), tools=[SEARCH], policy=POLICY).reply(**ASK)
    assert len(server.requests) == 1


def test_what_is_learnt_is_shared_by_copies() -> None:
    """A copy with other options, and one that is watched, know what the first call learnt."""
    server = Picky("azure", GOOD)
    client = sr.wrap(server.client(), tools=[SEARCH], policy=POLICY)
    client.reply(**ASK)
    client.with_options(timeout=5).reply(**ASK)
    client.watched(lambda _attempt: None).reply(**ASK)
    assert server.refused == 1


def test_what_was_not_served_without_it_is_not_believed() -> None:
    """An endpoint that refuses everything teaches nothing."""
    refuse: Callable[[], Any] = lambda: status(400, openai_error("parallel_tool_calls? No."))  # noqa: E731
    server = Server(refuse(), refuse(), refuse(), GOOD)
    client = sr.wrap(server.client(), tools=[SEARCH], policy=POLICY)
    with pytest.raises(sr.TransportFailed):
        client.reply(**ASK)
    assert b"parallel_tool_calls" not in server.bodies[1]
    client.reply(**ASK)
    assert b"parallel_tool_calls" in server.bodies[2]
