"""What the types of the public interface promise; never run, only checked by the type checkers."""

from __future__ import annotations

from typing import Any, assert_type

from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import Message, ModelInfo
from anthropic.types.beta import BetaMessage
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletion
from pydantic import BaseModel

import strictreply as sr
from strictreply.loop import RunEnded, RunEvent


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


def asks_claude(client: Anthropic) -> Message:
    """Ask, as a program does that knows the anthropic SDK alone."""
    return client.messages.create(model="m", max_tokens=9, messages=[])


async def asks_claude_async(client: AsyncAnthropic) -> Message:
    """Do the same, awaiting."""
    return await client.messages.create(model="m", max_tokens=9, messages=[])


async def claude_clients(search: sr.Tool) -> None:
    """A wrapped client of the anthropic SDK is one, and is ours."""
    client = sr.wrap(Anthropic())
    asks_claude(client)
    assert_type(client.models.retrieve("m"), ModelInfo)
    assert_type(
        client.beta.messages.create(model="m", max_tokens=9, messages=[]),
        BetaMessage,
    )
    typed = sr.wrap(Anthropic(), answer=Refund)
    asks_claude(typed)
    assert_type(typed.answer(model="m", messages=[]), Refund)
    assert_type(sr.run(client, "Hello", model="m"), sr.Run[str])

    aclient = sr.wrap(AsyncAnthropic(), contract=sr.Contract(tools=[search]))
    await asks_claude_async(aclient)
    assert_type(await aclient.models.retrieve("m"), ModelInfo)
    assert_type(await sr.arun(aclient, "Hello", model="m"), sr.Run[str])


def typed_streams() -> None:
    """A partial of an answer is of the answer's type."""
    with sr.wrap(OpenAI(), answer=Refund).stream(model="m", messages=[]) as events:
        for told in events:
            if isinstance(told, sr.Provisional) and told.partial is not None:
                assert_type(told.partial, sr.Partial[Refund])
                assert_type(told.partial.answer, Refund | None)


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


class Refund(BaseModel):
    """A refund."""

    order: int


def order_of(refund: Refund) -> int:
    """Return the order that is paid back."""
    return refund.order


async def fetch(url: str, *, retries: int = 3) -> bytes:
    """Fetch a page."""
    return f"{url}{retries}".encode()


async def typed_answers() -> None:
    """Check that the type of answers is the contract's.

    It is a class, text when none is given, anything for a JSON Schema.
    """
    assert_type(sr.wrap(OpenAI(), answer=Refund).answer(model="m", messages=[]), Refund)
    assert_type(sr.wrap(OpenAI()).answer(model="m", messages=[]), str)
    assert_type(sr.wrap(OpenAI(), contract=sr.Contract(answer=Refund)), sr.StrictClient[Refund])
    assert_type(sr.Contract(answer={"type": "object"}), sr.Contract[Any])

    assert_type(sr.Contract(), sr.Contract[str])
    assert_type(await sr.wrap(AsyncOpenAI(), answer=Refund).answer(model="m", messages=[]), Refund)
    reply = sr.wrap(OpenAI(), answer=Refund).reply(model="m", messages=[])
    assert_type(reply, sr.ToolCall | sr.ToolCalls | sr.DirectAnswer[Refund])

    if isinstance(reply, sr.DirectAnswer):
        assert_type(reply.answer, Refund)


async def typed_tools(call: sr.ToolCall) -> None:
    """A declared tool is called as its function, and gives what that gives."""
    found = sr.tool(search)
    assert_type(found("tea"), list[str])
    assert_type(found.run(call), list[str])
    found(5)  # type: ignore[arg-type]

    fetched = sr.tool(timeout=5.0)(fetch)
    assert_type(await fetched.arun(call), bytes)
    assert_type(await fetched("u", retries=1), bytes)
    refund = sr.Tool.from_model(Refund, function=order_of)
    assert_type(refund.run(call), int)

    match call:
        case sr.ToolCall(args=Refund() as args):
            assert_type(args, Refund)
        case _:
            pass


async def runs() -> None:
    """The loop and its streams take the same keywords, and give a run and its events."""
    client = sr.wrap(OpenAI(), tools=[search])
    aclient = sr.wrap(AsyncOpenAI(), tools=[search])
    run = sr.run(
        client, "hello", model="m", temperature=0, loop=sr.LoopPolicy(max_iterations=2), org="acme"
    )
    assert_type(run, sr.Run[str])
    assert_type(run.answer, str)

    assert_type(await sr.arun(aclient, after=run, messages="more", model="m"), sr.Run[str])

    for event in sr.run_stream(client, "hello", model="m", cancel=lambda: False):
        assert_type(event, RunEvent[str])

    async for event in sr.arun_stream(
        aclient, continuation=run, results=[], model="m", on_event=print
    ):
        assert_type(event, RunEvent[str])


async def typed_runs(contract: sr.Contract[Refund]) -> None:
    """The answer of a run has the type of its client's contract, or of its own."""
    client = sr.wrap(OpenAI(), contract=contract)
    run = sr.run(client, "hello", model="m")
    assert_type(run, sr.Run[Refund])
    assert_type(run.answer, Refund)
    assert_type(run.replies[-1].reply, sr.AssistantReply[Refund])

    texts = sr.wrap(OpenAI(), tools=[search])
    assert_type(sr.run(texts, "hello", model="m", contract=contract).answer, Refund)
    assert_type(sr.run(texts, "hello", model="m", contract=None).answer, str)
    assert_type(sr.run(texts, "hello", model="m", response_format=Refund).answer, Refund)
    assert_type(sr.run(client, "hello", model="m", response_format=list[int]).answer, list[int])
    described = sr.wrap(OpenAI(), answer={"type": "object"})
    assert_type(sr.run(described, "hello", model="m").answer, Any)

    aclient = sr.wrap(AsyncOpenAI(), answer=Refund)
    assert_type((await sr.arun(aclient, "hello", model="m")).answer, Refund)
    atexts = sr.wrap(AsyncOpenAI())
    other = await sr.arun(atexts, "hello", model="m", contract=contract)
    assert_type(other.answer, Refund)

    asked = await sr.arun(atexts, "hello", model="m", response_format=Refund)
    assert_type(asked.answer, Refund)

    for event in sr.run_stream(client, "hello", model="m"):
        if isinstance(event, RunEnded):
            assert_type(event.run.answer, Refund)

    for event in sr.run_stream(texts, "hello", model="m", response_format=Refund):
        if isinstance(event, RunEnded):
            assert_type(event.run.answer, Refund)

    async for event in sr.arun_stream(atexts, "hello", model="m", response_format=Refund):
        if isinstance(event, RunEnded):
            assert_type(event.run.answer, Refund)

    async for event in sr.arun_stream(atexts, "hello", model="m", contract=contract):
        if isinstance(event, RunEnded):
            assert_type(event.run.answer, Refund)


def typed_calls(reply: sr.AssistantReply[str]) -> int:
    """Arguments are what the program says they are, without a cast."""
    match reply:
        case sr.ToolCall(args=Refund() as refund):
            return assert_type(refund, Refund).order
        case sr.ToolCall(tool="search", args=args):
            assert_type(args, Any)
            return len(args.query)
        case sr.ToolCall():
            return paid_back(reply) + either(reply)
        case _:
            return 0


def paid_back(call: sr.ToolCall[Refund]) -> int:
    """A program names the arguments of a call that it passes on."""
    assert_type(call.args, Refund)
    return call.args.order


def either(call: sr.ToolCall[Refund | str]) -> int:
    """A match over arguments that a program names is exhaustive."""
    match call.args:
        case Refund() as refund:
            return refund.order
        case str() as text:
            return len(text)


def wrong() -> None:
    """A misspelt keyword or value is an error before it runs."""
    sr.wrap(OpenAI(), tool=[search])  # type: ignore[arg-type]
    sr.Contract(channel="json")  # type: ignore[call-overload]
    sr.wrap(OpenAI()).reply(model="m", messages=[], temprature=1)  # type: ignore[call-arg]
    sr.run(sr.wrap(OpenAI()), "hello", model="m", temprature=1)  # type: ignore[call-arg]
    sr.run_stream(sr.wrap(OpenAI()), "hello", model="m", temprature=1)  # type: ignore[call-arg]
    sr.arun_stream(sr.wrap(AsyncOpenAI()), "hello", model="m", loop=3)  # type: ignore[arg-type]
