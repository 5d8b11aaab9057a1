"""A small real model on llama.cpp's own server: constrained corrections make of its prose a reply.

SmolLM2 knows no tools, and the server ignores that a call is demanded of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

import strictreply as sr

pytestmark = pytest.mark.one_lane

CITIES = ("Oslo", "Paris")
GOODS = ("green tea", "boots")
WORDS = [
    *(f"What is the weather in {city}?" for city in CITIES),
    *(f"Search the shop for {one}." for one in GOODS),
]
SAMPLING: dict[str, Any] = {"model": "any", "temperature": 0, "seed": 1, "max_tokens": 200}
LEAST = len(WORDS) - 1
"""How many must be fixed: the last digits of a processor may lead one of them into a loop."""


@sr.tool
def search(query: str, limit: int = 5) -> str:
    """Search the shop for a product."""
    return f"{limit} x {query}"


@sr.tool
def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"rain in {city}"


@pytest.fixture
def client(smollm2: str) -> Iterator[openai.OpenAI]:
    """The raw SDK for that server."""
    with openai.OpenAI(base_url=smollm2, api_key="none", max_retries=0) as raw:
        yield raw


def attempts_of(client: Any, **request: Any) -> list[tuple[sr.Attempt, ...]]:
    """Make a call for each of the words, with one retry, and return the attempts of each."""
    made: list[tuple[sr.Attempt, ...]] = []
    for words in WORDS:
        asked: dict[str, Any] = {"messages": words, **SAMPLING, **request}
        try:
            made.append(client.exchange(**asked).attempts)
        except sr.CallFailed as error:
            made.append(error.attempts)

    return made


@pytest.mark.parametrize(
    ("channel", "step", "request_"),
    [
        ("text", "response_format", {}),
        ("native", "constrained_call", {"tool_choice": "required"}),
    ],
)
def test_prose_is_fixed_by_the_first_retry(
    client: openai.OpenAI, channel: Any, step: str, request_: dict[str, Any]
) -> None:
    """Each first reply is prose, and the constrained one fits."""
    policy = sr.RetryPolicy(max_retries=1)
    guarded = sr.wrap(client, tools=[search, weather], channel=channel, policy=policy)
    made = attempts_of(guarded, **request_)
    assert [one[0].accepted for one in made] == [False] * len(WORDS)
    assert [one[1].escalation for one in made] == [step] * len(WORDS)
    assert sum(one[1].accepted for one in made) >= LEAST


def test_the_next_turn_is_accepted(client: openai.OpenAI) -> None:
    """The same server takes the call back, with its result, and answers."""
    guarded = sr.wrap(client, tools=[search, weather])
    turns: list[Any] = [{"role": "user", "content": WORDS[0]}]
    made: Any = guarded.chat.completions.create(messages=turns, tool_choice="required", **SAMPLING)
    message = made.choices[0].message
    (called,) = message.tool_calls
    result: Any = {"role": "tool", "tool_call_id": called.id, "content": "rain"}
    answered: Any = guarded.chat.completions.create(messages=[*turns, message, result], **SAMPLING)
    assert answered.choices[0].message.content
