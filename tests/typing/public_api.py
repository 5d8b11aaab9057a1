"""What the types of the public interface promise; never run, only checked by the type checkers."""

from __future__ import annotations

from typing import assert_type

from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion

import strictreply as sr


def search(query: str) -> list[str]:
    """Search."""
    return [query]


def sync_client() -> None:
    """A wrapped sync client gives typed values."""
    client = sr.wrap(OpenAI(), tools=[search], parallel=True, policy=sr.RetryPolicy(max_retries=1))
    assert_type(client, sr.StrictClient[str])
    assert_type(client.create(model="m", messages=[]), ChatCompletion)
    exchange = client.exchange(model="m", messages=[])
    assert_type(exchange, sr.Exchange[str])
    assert_type(exchange.completion, ChatCompletion)
    assert_type(exchange.usage, sr.Usage)


async def async_client() -> None:
    """The async twin gives the same, awaited."""
    client = sr.wrap(AsyncOpenAI(), contract=sr.Contract(tools=[search]))
    assert_type(client, sr.AsyncStrictClient[str])
    assert_type(await client.create(model="m", messages=[]), ChatCompletion)
    assert_type(await client.exchange(model="m", messages=[]), sr.Exchange[str])


def replies(client: sr.StrictClient) -> str:
    """A match over the three kinds of reply is exhaustive."""
    reply = client.reply(model="m", messages=[])
    match reply:
        case sr.ToolCall(tool=tool):
            return assert_type(tool, str)
        case sr.ToolCalls(calls=calls):
            return assert_type(calls, tuple[sr.ToolCall, ...])[0].tool
        case sr.DirectAnswer(answer=answer):
            return str(answer)


def verdicts(contract: sr.Contract) -> tuple[sr.Issue, ...]:
    """A verdict is one of two."""
    verdict = contract.check("{}")
    if isinstance(verdict, sr.Valid):
        return ()
    assert_type(verdict, sr.Invalid)
    return verdict.issues


def wrong() -> None:
    """A misspelt keyword or value is an error before it runs."""
    sr.wrap(OpenAI(), tool=[search])  # type: ignore[call-overload]
    sr.Contract(channel="json")  # type: ignore[call-overload]
