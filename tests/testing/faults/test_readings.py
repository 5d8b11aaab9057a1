"""What the guard makes of each fault, as its row says: strictly, and by default.

A strict reading refuses each with its code. By default its row says whether it is refused, or read
as the good reply, and then it is that reply however it was asked for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import pytest

import strictreply as sr
from streams.test_stream_faults_refused import INSTEAD, TARGETS, contract_of, made
from strictreply.core import shape
from strictreply.testing import (
    Fault,
    HTTPReply,
    Kind,
    ScriptedModel,
    Step,
    WireEnding,
    no_backoff,
    writer_named,
)
from strictreply.testing.faults import CATALOGUE, Entry, Reading
from strictreply.testing.mounting import async_openai_client, openai_client
from strictreply.wires import Api
from support.loops import some
from support.served_faults import entries_of
from support.streamed_replies import policy
from support.strict_streams import codes_of
from testing.test_kit_over_responses import WITHOUT_COUNTERPART

Dialects: TypeAlias = Literal["known", "strict"]

ASKED: dict[Api, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "find tea"}]},
    "responses": {"model": "m", "input": "find tea"},
}
APIS: tuple[Api, ...] = ("chat", "responses")
STREAMED = entries_of(Kind.STREAM)
SILENT = {"stream_hang", "stream_comments_forever"}
"""They take the time that a client waits: they are tried on one kind of reply."""

PING = sr.Tool.from_json_schema("ping", {"type": "object", "properties": {}})
OVER_RESPONSES = {
    "stream_done_at_once": {"reply.broken_off"},
    "stream_name_missing": {"shape.wrong_type"},
    "stream_name_changes": {"tool.unknown"},
    "stream_name_in_pieces": {"tool.unknown"},
    "stream_chunk_of_second_choice": {"json.syntax", "call.malformed"},
    "stream_goes_on_after_finish": {"json.trailing_data"},
}
"""What is said over Responses where it is neither the row's code nor that its events disagree."""

pytestmark = [pytest.mark.one_lane, pytest.mark.sampled]


def chunks_told(chunks: list[Any]) -> Any:
    """What a caller reads in the chunks of a drop-in stream."""
    content = ""
    calls: dict[int, list[str]] = {}
    reason = None
    for chunk in chunks:
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, ["", ""])
                call[0] += part.function.name or ""
                call[1] += part.function.arguments or ""

    return parsed(content), [(name, json.loads(text)) for name, text in calls.values()], reason


def parsed(content: str) -> Any:
    """A content that is JSON, however that is spelled; any other text as it is."""
    try:
        return json.loads(content)
    except ValueError:
        return content


def events_told(events: list[Any]) -> Any:
    """What a caller reads in the events of a drop-in stream: its deltas, and its last response."""
    text = ""
    arguments: dict[int, str] = {}
    for one in events:
        if one.type == "response.output_text.delta":
            text += one.delta
        elif one.type == "response.function_call_arguments.delta":
            arguments[one.output_index] = arguments.get(one.output_index, "") + one.delta

    response = events[-1].response
    items = [
        (item.name, json.loads(item.arguments))
        for item in response.output
        if item.type == "function_call"
    ]
    written = [json.loads(one) for one in arguments.values()]
    return text, written, events[-1].type, response.output_text, items


def reply_told(reply: Any) -> Any:
    """An accepted reply, without the ids that differ from script to script."""
    calls = reply.calls if isinstance(reply, sr.ToolCalls) else (reply,)
    if isinstance(calls[0], sr.ToolCall):
        return [(call.tool, call.args) for call in calls]

    return reply


def dropped_in(client: Any, api: Api, **asked: Any) -> Any:
    """Read a drop-in stream to its end."""
    if api == "chat":
        return chunks_told(list(client.chat.completions.create(**ASKED[api], **asked, stream=True)))

    return events_told(list(client.responses.create(**ASKED[api], **asked, stream=True)))


async def dropped_in_async(client: Any, api: Api, **asked: Any) -> Any:
    """Read an async drop-in stream to its end."""
    if api == "chat":
        chunks = await client.chat.completions.create(**ASKED[api], **asked, stream=True)
        return chunks_told([one async for one in chunks])

    events = await client.responses.create(**ASKED[api], **asked, stream=True)
    return events_told([one async for one in events])


def replied(client: Any, api: Api, **asked: Any) -> Any:
    """Ask for a typed reply, which the policy has streamed."""
    return reply_told(client.reply(**ASKED[api], **asked))


async def replied_async(client: Any, api: Api, **asked: Any) -> Any:
    """Ask an async client for a typed reply, which the policy has streamed."""
    return reply_told(await client.reply(**ASKED[api], **asked))


def streamed(client: Any, api: Api, **asked: Any) -> Any:
    """Read a typed stream: what it showed, and its reply."""
    with client.stream(**ASKED[api], **asked) as events:
        shown = [one.delta for one in events if isinstance(one, sr.Provisional)]
        return "".join(shown), reply_told(events.reply)


async def streamed_async(client: Any, api: Api, **asked: Any) -> Any:
    """Read an async typed stream: what it showed, and its reply."""
    async with client.stream(**ASKED[api], **asked) as events:
        shown = [one.delta async for one in events if isinstance(one, sr.Provisional)]
        return "".join(shown), reply_told(events.reply)


DOORS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "drop-in": (dropped_in, dropped_in_async),
    "reply": (replied, replied_async),
    "stream": (streamed, streamed_async),
}


def told(
    step: Step, name: str, api: Api, door: str, dialects: Dialects, *, is_async: bool, **asked: Any
) -> tuple[Any, set[str]]:
    """What comes of a step, or the codes of its refusal."""
    held: dict[str, Any] = {
        "contract": contract_of(name, dialects),
        "policy": policy(max_retries=0, transport_retries=0, early_stop="always"),
        "api": api,
    }
    sync, asynchronous = DOORS[door]
    model = ScriptedModel(step)
    timeout = 0.2 if step.name in SILENT else 30.0

    try:
        with no_backoff():
            if is_async:
                client = sr.wrap(async_openai_client(model, timeout=timeout), **held)
                return asyncio.run(asynchronous(client, api, **asked)), set()
            return sync(sr.wrap(openai_client(model, timeout=timeout), **held), api, **asked), set()
    except sr.CallFailed as error:
        last = error.attempts[-1]
        failure = {str(last.failure).partition(":")[0]} if last.failure else set[str]()
        return None, {issue.code for issue in last.issues} | failure


def codes_for(fault: Fault, name: str, api: Api) -> set[str]:
    """The codes of which a refusal says one: the row's, or of another fault of the same bytes."""
    assert isinstance(fault.served, HTTPReply)
    entry = CATALOGUE[fault.name]
    codes = {entry.code, *INSTEAD.get(fault.name, ())}
    codes |= set(codes_of(fault.served, contract_of(name)))
    if entry.reading is Reading.REFUSED and entry.default_code:
        codes |= {entry.default_code}
    if fault.served.ending in {WireEnding.CUT, WireEnding.RESET}:
        codes |= {"connection"}
    if api == "responses":  # what is one fault of a chunk are several of its events
        codes |= {"envelope.malformed", *OVER_RESPONSES.get(fault.name, ())}

    return codes


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("entry", STREAMED, ids=lambda entry: entry.name)
def test_each_stream_fault_is_what_its_row_says(
    entry: Entry, api: Api, door: str, is_async: bool
) -> None:
    """Refused with its code by a strict reading; by default refused, or the good reply."""
    names = [name for name in TARGETS if made(entry, name)]
    for name in some(names[:1] if entry.name in SILENT else names):
        for fault in some(made(entry, name)):
            # as the API has it, where a typed reply is one call
            asked: dict[str, Any] = {"parallel_tool_calls": True} if fault.place == "call" else {}
            if api == "chat" or entry.name not in WITHOUT_COUNTERPART:
                found, codes = told(fault, name, api, door, "strict", is_async=is_async, **asked)
                assert found is None, name
                assert codes & codes_for(fault, name, api), (name, codes)

            found, codes = told(fault, name, api, door, "known", is_async=is_async, **asked)
            if entry.reading.is_good(api, is_streamed=True):
                clean = Step("clean", fault.clean, "")
                good, _ = told(clean, name, api, door, "known", is_async=is_async, **asked)
                assert good is not None
                assert found == good, name
            else:
                assert found is None, name
                assert codes & codes_for(fault, name, api), (name, codes)


def judged(entry: Entry, api: Api) -> list[tuple[str, Fault]]:
    """The faults of an entry that are replies of an API, each with the name of its target.

    "" is the tool that requires no arguments.
    """
    faults = [(name, fault) for name in TARGETS for fault in made(entry, name)]
    if "call" in entry.places:
        faults += [("", fault) for fault in entry.all_for(PING, place="call")]

    return [
        (name, fault)
        for name, fault in faults
        if not isinstance(fault.served, HTTPReply) and not has_no_counterpart(fault, api)
    ]


def has_no_counterpart(fault: Fault, api: Api) -> bool:
    """Whether a response cannot have a fault: it is a good one."""
    is_of_no_item = fault.name == "user_role" and fault.place == "call"
    return api == "responses" and (fault.name in WITHOUT_COUNTERPART or is_of_no_item)


WHOLE = [
    pytest.param(entry, api, id=f"{entry.name}-{api}")
    for entry in CATALOGUE.values()
    for api in APIS
    if entry.kind is not Kind.STREAM and any(name for name, _ in judged(entry, api))
]
"""The entries that have a fault of whole replies, of a target of this file, in each API."""


@pytest.mark.parametrize(("entry", "api"), WHOLE)
def test_each_whole_fault_is_what_its_row_says(entry: Entry, api: Api) -> None:
    """The same of the replies that come whole, of a tool that requires no arguments, too."""
    for name, fault in some(judged(entry, api)):
        contract = sr.Contract(tools=[PING]) if not name else contract_of(name, "known")
        held, _ = shape(contract, {"messages": [], **fault.needs})
        reply = reply_of(held, fault.served, api)
        if entry.reading.is_good(api, requires_arguments=bool(name)):
            assert reply == reply_of(held, fault.clean, api)
            assert reply is not None, name
        else:
            assert reply is None, name


@pytest.mark.parametrize(("entry", "api"), WHOLE)
def test_a_whole_fault_in_a_stream_is_what_its_row_says(entry: Entry, api: Api) -> None:
    """The same of a reply that a server streams: one fault of each kind of reply."""
    firsts = {name: fault for name, fault in reversed(judged(entry, api)) if name}
    for name, fault in some(firsts.items()):
        asked: dict[str, Any] = {"parallel_tool_calls": True} if fault.place == "call" else {}
        asked |= fault.needs
        found, _ = told(fault, name, api, "drop-in", "known", is_async=False, **asked)
        if entry.reading.is_good(api, is_streamed=True):
            clean = Step("clean", fault.clean, "")
            good, _ = told(clean, name, api, "drop-in", "known", is_async=False, **asked)
            assert good is not None
            assert found == good, name
        else:
            assert found is None, name


def reply_of(contract: sr.Contract[Any], served: Any, api: Api) -> Any:
    """The reply in what is served, without ids; None where it is refused."""
    response = served if api == "chat" else writer_named("responses").written(served, {})
    verdict = contract.check(response, api=api)
    return reply_told(verdict.reply) if isinstance(verdict, sr.Valid) else None


def test_a_row_tells_its_reading_in_words() -> None:
    """A refusal is told with its code, by default where that is another."""
    assert CATALOGUE["nan"].by_default == "refused: json.not_finite"
    assert CATALOGUE["stream_name_missing"].by_default == "refused: shape.wrong_type"
    assert CATALOGUE["stream_id_missing"].by_default == "read as the good reply"
    assert CATALOGUE["stream_without_done"].by_default.endswith("other APIs: reply.broken_off")
    assert CATALOGUE["empty_text"].to_dict()["by_default"] == CATALOGUE["empty_text"].by_default
