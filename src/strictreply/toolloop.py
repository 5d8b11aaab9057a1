"""The tool loop: ask, run the tools that were called, hand back their results, until there is an answer.

A flow of its own over exchanges; a tool runs only when the whole reply that calls it has passed (requirement T43).
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic_core import to_json

from strictreply.attempts import plain, type_name
from strictreply.client import AsyncStrictClient, Exchange, StrictClient
from strictreply.driving import adrive, drive
from strictreply.errors import StepsExceeded
from strictreply.replies import DirectAnswer, ToolCall, calls_of
from strictreply.tools import Tool
from strictreply.typing import JSONObject, Message

MAX_STEPS = 8
MAX_RESULT_CHARS = 16_000
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class AskModel:
    """Effect: make one exchange with these messages."""

    messages: list[Message] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunTool:
    """Effect: run one validated call with the tool it names."""

    tool: Tool
    call: ToolCall


ToolEffect: TypeAlias = AskModel | RunTool
ToolEvent: TypeAlias = "Exchange | Any"


@dataclass(frozen=True, slots=True)
class Run:
    """What a tool loop came to: the answer, the whole transcript, and every exchange in order."""

    answer: Any
    transcript: list[Message] = field(repr=False)
    exchanges: tuple[Exchange, ...]


def tool_flow(
    messages: list[Message], *, max_steps: int, max_result_chars: int, awaited: bool = False
) -> Generator[ToolEffect, Any, Run]:
    """Ask until there is an answer; StepsExceeded after ``max_steps`` asks without one.

    ``awaited`` says whether async tools can be run. No tool of a reply runs before all of them are known to be able to.
    """
    transcript = list(messages)
    exchanges: tuple[Exchange, ...] = ()
    while len(exchanges) < max_steps:
        exchange: Exchange = yield AskModel(transcript)
        exchanges = (*exchanges, exchange)
        transcript = list(exchange.transcript)
        if isinstance(exchange.reply, DirectAnswer):
            return Run(exchange.reply.answer, transcript, exchanges)
        runs = [RunTool(exchange.terms.tools[call.tool], call) for call in calls_of(exchange.reply)]
        for effect in runs:
            effect.tool.refuse_unrunnable(awaited=awaited)
        for effect in runs:
            result = yield effect
            transcript.append(_result_turn(effect.call, result, max_result_chars))
    raise StepsExceeded(max_steps)


def run(
    client: StrictClient,
    messages: list[Message],
    *,
    max_steps: int = MAX_STEPS,
    max_result_chars: int = MAX_RESULT_CHARS,
    **keywords: Any,
) -> Run:
    """Run a conversation to its answer, executing the tools the model calls.

    ``keywords`` go to every exchange (``model`` at least). Results over ``max_result_chars`` characters are cut, and
    say so. Raises what :meth:`StrictClient.exchange` raises, ToolExecutionError when a tool's code does, StepsExceeded
    after ``max_steps`` asks, and ContractError when a reply calls a tool that cannot be run; no other of its calls is.
    """

    def perform(effect: ToolEffect) -> Any:
        if isinstance(effect, AskModel):
            return client.exchange(messages=effect.messages, **keywords)
        return effect.tool.run(effect.call.args, call_id=effect.call.id)

    return drive(tool_flow(messages, max_steps=max_steps, max_result_chars=max_result_chars), perform)


async def arun(
    client: AsyncStrictClient,
    messages: list[Message],
    *,
    max_steps: int = MAX_STEPS,
    max_result_chars: int = MAX_RESULT_CHARS,
    **keywords: Any,
) -> Run:
    """Run a conversation to its answer with an async client; see :func:`run`."""

    async def perform(effect: ToolEffect) -> Any:
        if isinstance(effect, AskModel):
            return await client.exchange(messages=effect.messages, **keywords)
        return await effect.tool.arun(effect.call.args, call_id=effect.call.id)

    flow = tool_flow(messages, max_steps=max_steps, max_result_chars=max_result_chars, awaited=True)
    return await adrive(flow, perform)


def _result_turn(call: ToolCall, result: object, limit: int) -> JSONObject:
    """Give a tool's result as the turn that answers its call, cut to ``limit`` characters."""
    text = _result_text(result)
    if len(text) > limit:
        text = f"{text[:limit]}… (cut: {len(text)} characters in all)"
    if call.id is None:
        return {"role": "user", "content": f"Result of {call.tool}: {text}"}
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def _result_text(result: object) -> str:
    """Spell a result that UTF-8 can hold: text as it is, everything else as JSON."""
    try:
        text = str.__str__(result) if isinstance(result, str) else to_json(result, fallback=str).decode()
    except Exception:  # noqa: BLE001 - cycles, bytes, surrogates; and an object's own code may raise anything
        text = _plain_text(result)
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _plain_text(result: object) -> str:
    """Spell what pydantic cannot: value by value, or by its type when it holds a number too long to spell."""
    try:
        return json.dumps(plain(result, other=_other_text), ensure_ascii=False)
    except ValueError:
        return type_name(result)


def _other_text(value: object) -> str:
    """Spell what JSON has no word for: bytes as far as they are UTF-8, and everything else as its ``str``."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - an object's own code may raise anything
        return type_name(value)
