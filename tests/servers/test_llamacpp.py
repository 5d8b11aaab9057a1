"""llama.cpp's own server under the wrapped client: noise is accepted only when it fits.

The model has random weights. Its words mean nothing, but the server around it is a real one: it
constrains the noise to a JSON Schema, parses tool calls out of it, cuts it short, and answers HTTP
500 to what it cannot parse itself.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

import pytest
from jsonschema import Draft202012Validator
from openai.types.chat import ChatCompletion
from pydantic import BaseModel, ConfigDict, Field

import strictreply as sr
from support.loops import some
from support.servers.wrapped import POLICY, Exchanging

pytestmark = pytest.mark.one_lane

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "go on"}], "max_tokens": 64}
CALLS: dict[str, int] = {"<tool_call>": 6}
"""Makes the noise begin a tool call now and then; the server holds what follows to the tool's
schema, as it can.
"""
NAMED: dict[str, Any] = {"type": "function", "function": {"name": "Search"}}
WANTED = 2
MOST_CALLS = 40

ReceivedResponse: TypeAlias = "list[sr.Exchange | sr.CallFailed]"


class Closed(BaseModel):
    """What the oracles judge by: exactly these members, no coercion."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Order(Closed):
    """Order something."""

    number: Annotated[int, Field(ge=0, le=9999)]
    size: Literal["s", "m", "l"]
    note: Annotated[str, Field(max_length=4)]


class Search(Closed):
    """Search for something."""

    query: Annotated[str, Field(max_length=8)]
    limit: Annotated[int, Field(ge=1, le=20)] = 5


class SearchCall(Closed):
    """A call in the text channel."""

    tool: Literal["Search"]
    args: Search


class TextAnswer(Closed):
    """An answer in the text channel."""

    answer: Annotated[str, Field(min_length=1)]


class ShortAnswer(Closed):
    """What the server is held to, so that it comes to an end.

    It counts bytes that are not text otherwise than we do.
    """

    answer: Annotated[str, Field(min_length=1, max_length=12)]


def fits(model: type[BaseModel], written: str) -> bool:
    """Ask pydantic and jsonschema whether a JSON text is an instance of the model."""
    try:
        value = json.loads(written)
        model.model_validate_json(written)
    except ValueError:  # pydantic's ValidationError is one
        return False
    return Draft202012Validator(model.model_json_schema()).is_valid(value)


def outcome(
    exchange: Exchanging, contract: sr.Contract, **keywords: Any
) -> sr.Exchange | sr.CallFailed:
    """Make a call and return what came of it, within its budgets.

    Any other exception fails the test.
    """
    try:
        came: sr.Exchange | sr.CallFailed = exchange(contract, **ASK, **keywords)
    except sr.CallFailed as error:
        came = error
    assert_within_budgets(came)
    return came


def outcomes(exchange: Exchanging, contract: sr.Contract, **keywords: Any) -> ReceivedResponse:
    """Make calls, each with a seed of its own, until some were accepted."""
    came: ReceivedResponse = []
    while len(came) < MOST_CALLS and len(accepted(came)) < WANTED:
        came.append(outcome(exchange, contract, seed=len(came), **keywords))
    assert len(accepted(came)) == WANTED
    return came


def assert_within_budgets(came: sr.Exchange | sr.CallFailed) -> None:
    """Assert that there are no more asks than the policy allows.

    Every attempt but an accepted last one says what was wrong.
    """
    attempts = came.attempts
    failures = [attempt for attempt in attempts if attempt.failure]
    assert len(failures) <= POLICY.repeats + 1
    assert attempts[-1].tier <= POLICY.max_retries
    assert len(attempts) <= 1 + POLICY.max_retries + POLICY.repeats
    refused = attempts[:-1] if isinstance(came, sr.Exchange) else attempts
    assert all(attempt.issues or attempt.failure for attempt in refused)


def accepted(came: ReceivedResponse) -> list[sr.Exchange]:
    """Keep the calls that brought a reply."""
    return [call for call in came if isinstance(call, sr.Exchange)]


def refused_whole(came: ReceivedResponse) -> list[str]:
    """Collect the contents that were refused although the server had brought them to their end."""
    replies = [
        ChatCompletion.model_validate(attempt.raw)
        for call in came
        for attempt in call.attempts
        if attempt.issues
    ]
    return [text(reply) for reply in replies if reply.choices[0].finish_reason != "length"]


def text(completion: ChatCompletion) -> str:
    """The content of a completion."""
    return completion.choices[0].message.content or ""


def test_plain_noise_is_an_answer_when_it_says_something(exchange: Exchanging) -> None:
    """Text passes as it came, and only text that is empty or cut short is refused."""
    came = outcomes(exchange, sr.Contract())
    for call in accepted(came):
        assert call.reply == sr.DirectAnswer(text(call.completion))
        assert text(call.completion).strip()
    assert not any(content.strip() for content in refused_whole(came))


def test_structured_answers_are_accepted_exactly_when_they_fit(exchange: Exchanging) -> None:
    """The server's constrained decoding does not always keep to the schema; pydantic and jsonschema
    see it as we do.
    """
    came = outcomes(exchange, sr.Contract(answer=Order))
    for call in accepted(came):
        assert fits(Order, text(call.completion))
        assert call.reply == sr.DirectAnswer(Order.model_validate_json(text(call.completion)))
    assert not any(fits(Order, content) for content in refused_whole(came))


def test_noise_in_the_text_channel_is_refused(exchange: Exchanging) -> None:
    """Noise where JSON must be is not a reply: the call ends when its budgets are spent."""
    contract = sr.Contract(tools=[Search], channel="text")
    unconstrained = replace(POLICY, constrain_retries=False)
    came = outcome(exchange, contract, seed=1, policy=unconstrained)
    assert isinstance(came, sr.ReplyRejected | sr.TransportFailed)


def test_noise_is_a_reply_where_the_retry_is_constrained(exchange: Exchanging) -> None:
    """The server holds the retry to the schema: what comes fits, and is one call or answer."""
    came = outcome(exchange, sr.Contract(tools=[Search], channel="text"), seed=1)
    assert isinstance(came, sr.Exchange)
    assert came.attempts[0].issues
    assert came.attempts[-1].escalation == "response_format"


@pytest.mark.parametrize(("held", "branch"), [(SearchCall, SearchCall), (ShortAnswer, TextAnswer)])
def test_the_text_channel_takes_what_the_server_constrained(
    exchange: Exchanging, held: type[BaseModel], branch: type[BaseModel]
) -> None:
    """With the server holding the content to a branch of the union, calls and answers come through,
    and fit.
    """
    contract = sr.Contract(tools=[Search], channel="text")
    body = {"json_schema": held.model_json_schema()}
    for call in some(accepted(outcomes(exchange, contract, extra_body=body))):
        assert fits(branch, text(call.completion))
        assert isinstance(call.reply, sr.ToolCall if branch is SearchCall else sr.DirectAnswer)


@pytest.mark.parametrize(
    ("choice", "parallel"),
    [("auto", False), ("auto", True), ("required", False), (NAMED, False)],
    ids=["auto", "parallel", "required", "named"],
)
def test_tool_calls_are_accepted_only_when_they_fit(
    exchange: Exchanging, choice: Any, parallel: bool
) -> None:
    """Calls that the server parsed out of noise run only with arguments that fit, and only as many
    as were allowed.
    """
    contract = sr.Contract(tools=[Search], parallel=parallel)
    for call in some(accepted(outcomes(exchange, contract, tool_choice=choice, logit_bias=CALLS))):
        calls = call.completion.choices[0].message.tool_calls or []
        arguments = [one.function.arguments for one in calls if one.type == "function"]
        assert all(fits(Search, one) for one in arguments)
        assert len(calls) <= 1 or parallel
        assert calls or (choice == "auto" and text(call.completion).strip())
        assert typed_arguments(call.reply) == [Search.model_validate_json(one) for one in arguments]


def typed_arguments(reply: sr.AssistantReply) -> list[Any]:
    """The arguments of all calls of a reply."""
    match reply:
        case sr.ToolCall(args=args):
            return [args]
        case sr.ToolCalls(calls=calls):
            return [call.args for call in calls]
        case _:
            return []
