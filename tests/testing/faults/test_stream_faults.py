"""Laws of the faults of streams: a strict reader says the promised code.

What the SDK alone does is on record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

import openai
import pytest
from pydantic import BaseModel, Field

import strictreply as sr
from strictreply.testing import (
    Fault,
    HTTPReply,
    Kind,
    LoopbackServer,
    ReplyPlace,
    ScriptedModel,
    faults,
    ok,
)
from strictreply.testing._steps import Target
from strictreply.testing.faults import Entry, FaultNotMade
from strictreply.testing.faults._stream_faults import GoodStream, stream_fault
from strictreply.testing.faults._stream_faults import stream as streamed
from strictreply.testing.mounting import async_openai_client, openai_client
from support.loops import some
from support.served_faults import entries_of
from support.streamed_replies import CHAT, events
from support.strict_streams import codes_of
from support.testing.faults.spoken import strict_contract


def search(query: str, limit: Annotated[int, Field(ge=1, le=20)] = 5) -> None:
    """Search the shop."""


class Refund(BaseModel):
    """Refund an order."""

    order: int
    notes: list[str]


pytestmark = pytest.mark.sampled

SEARCH = sr.Tool.from_function(search)
PING = sr.Tool.from_json_schema("p", {"type": "object", "properties": {}})
NESTED = sr.Tool.from_json_schema(
    "nested",
    {
        "type": "object",
        "properties": {
            "a": {
                "type": "object",
                "properties": {"é": {"type": "array", "items": {"type": "number"}}},
            }
        },
        "required": ["a"],
    },
)
TARGETS: list[tuple[object, ReplyPlace]] = [
    *((tool, place) for tool in (SEARCH, Refund, NESTED, PING) for place in ("call", "union")),
    (Refund, "json"),
    (int, "json"),
    (None, "prose"),
]
ENTRIES = entries_of(Kind.STREAM)
ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "find tea"}], "stream": True}
MOST_CHUNKS = 50
"""A reader that bounds itself leaves after so many chunks."""

entries = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
targets = pytest.mark.parametrize(("tool", "place"), TARGETS)

GOOD = "good"
ENDLESS = "endless"
BROKEN = "APIConnectionError RemoteProtocolError ReadError"
SILENT = "APITimeoutError ReadTimeout"
"""openai 3 has its own exceptions for a stream that breaks, openai 2 lets those of httpx through.
"""

THE_SDK = {
    "stream_cut_in_event": BROKEN,
    "stream_cut_in_character": BROKEN,
    "stream_cut_between_events": BROKEN,
    "stream_reset": BROKEN,
    "stream_hang": SILENT,
    "stream_comments_forever": BROKEN,
    "stream_ends_early": "json.incomplete",
    "stream_without_done": GOOD,
    "stream_without_finish": GOOD,
    "stream_empty": "reply.empty",
    "stream_done_at_once": "reply.empty",
    "stream_not_json": "JSONDecodeError",
    "stream_prefix_twice": "JSONDecodeError",
    "stream_events_run_together": "JSONDecodeError",
    "stream_not_utf8": "UnicodeDecodeError",
    "stream_not_object": "AttributeError",
    "stream_error": "APIError",
    "stream_error_event": "TypeError",
    "stream_html_page": "reply.empty",
    "stream_plain_json": "reply.empty",
    "stream_json_lines": "reply.empty",
    "stream_endless_event": BROKEN,
    "stream_endless_text": ENDLESS,
    "stream_goes_on_after_finish": "json.trailing_data",
    "stream_finishes_twice": GOOD,
    "stream_chunk_without_choices": "TypeError",
    "stream_chunk_of_second_choice": GOOD,
    "stream_choice_null": "AttributeError",
    "stream_delta_null": "AttributeError",
    "stream_delta_of_user": GOOD,
    "stream_delta_content_list": "TypeError",
    "stream_finish_before_end": "json.incomplete",
    "stream_delta_repeated": "json.trailing_data",
    "stream_deltas_out_of_order": "json.syntax",
    "stream_index_missing": GOOD,
    "stream_index_gap": GOOD,
    "stream_index_text": GOOD,
    "stream_arguments_before_name": GOOD,
    "stream_name_missing": "shape.empty",
    "stream_name_changes": "tool.unknown",
    "stream_name_in_pieces": GOOD,
    "stream_id_missing": "call.id_missing",
    "stream_id_changes": GOOD,
    "stream_id_repeated": "call.id_duplicate",
    "stream_calls_share_index": "tool.unknown",
    "stream_calls_interleaved": "json.incomplete",
    "stream_call_null": "AttributeError",
    "stream_calls_no_list": "AttributeError",
    "stream_function_null": "AttributeError",
    "stream_arguments_object": "TypeError",
}
"""What becomes of each fault with the SDK alone, of a call put together as its documentation shows.

It is the exception that comes, or what a contract says of what was put together, ``good`` when it
notices nothing.
"""

UNNOTICED_IN_PROSE = {
    *(
        "stream_ends_early",
        "stream_without_done",
        "stream_without_finish",
        "stream_goes_on_after_finish",
    ),
    *("stream_finishes_twice", "stream_chunk_of_second_choice", "stream_delta_of_user"),
}
"""What passes for a plain answer with the SDK alone."""


def put_together(chunks: Iterable[Any]) -> dict[str, Any]:
    """Put chunks together as the SDK's documentation shows it.

    Texts are joined, and calls go by their index.
    """
    content = ""
    calls: dict[Any, dict[str, Any]] = {}

    for chunk in chunks:
        delta = chunk.choices[0].delta
        content += delta.content or ""

        for part in delta.tool_calls or []:
            call = calls.setdefault(
                part.index,
                {"id": None, "type": "function", "function": {"name": "", "arguments": ""}},
            )
            call["id"] = part.id or call["id"]
            call["function"]["name"] += part.function.name or ""
            call["function"]["arguments"] += part.function.arguments or ""

    return {"content": content or None, "tool_calls": list(calls.values())}


def outcome(fault: Fault, chunks: list[Any]) -> str:
    """Return the result of reading the chunks."""
    if len(chunks) == MOST_CHUNKS:
        return ENDLESS

    message = put_together(chunks)
    contract = sr.Contract(tools=[SEARCH] if fault.place == "call" else [], dialects="strict")
    verdict = contract.check(message)

    return (
        " ".join(issue.code for issue in verdict.issues)
        if isinstance(verdict, sr.Invalid)
        else GOOD
    )


def told_by_the_sdk(fault: Fault, client: openai.OpenAI) -> str:
    """Stream from the SDK's sync client."""
    try:
        with client.chat.completions.create(**ASKED) as stream:
            return outcome(fault, list(islice(stream, MOST_CHUNKS)))
    except Exception as error:  # noqa: BLE001 - whatever comes is what the table is about
        return type(error).__name__


async def told_by_the_async_sdk(fault: Fault, client: openai.AsyncOpenAI) -> str:
    """Stream from the SDK's async client."""
    chunks: list[Any] = []
    try:
        async with await client.chat.completions.create(**ASKED) as stream:
            async for chunk in stream:
                chunks.append(chunk)
                if len(chunks) == MOST_CHUNKS:
                    break

        return outcome(fault, chunks)
    except Exception as error:  # noqa: BLE001 - whatever comes is what the table is about
        return type(error).__name__


def is_as_recorded(told: str, fault: Fault) -> bool:
    """Check the outcome against the table.

    It is one of the table's exceptions, or its code is among those reported.
    """
    recorded = (
        GOOD if fault.place == "prose" and fault.name in UNNOTICED_IN_PROSE else THE_SDK[fault.name]
    )
    return not set(told.split()).isdisjoint(recorded.split())


def test_the_table_is_of_every_entry() -> None:
    """Each fault of streams has its row, and each row its fault."""
    assert {entry.name for entry in ENTRIES} == set(THE_SDK)


@entries
def test_what_the_sdk_alone_does_with_a_call_is_as_recorded(entry: Entry) -> None:
    """Sync and async, openai 2 and 3: it raises or gives what the table says, and never hangs."""
    fault = next(entry.all_for(SEARCH))
    assert is_as_recorded(told_by_the_sdk(fault, openai_client(ScriptedModel(fault))), fault)
    assert is_as_recorded(
        asyncio.run(told_by_the_async_sdk(fault, async_openai_client(ScriptedModel(fault)))), fault
    )


@pytest.mark.parametrize(
    "entry", [one for one in ENTRIES if "prose" in one.places], ids=lambda entry: entry.name
)
def test_what_the_sdk_alone_does_with_an_answer_is_as_recorded(entry: Entry) -> None:
    """A plain answer has less to go wrong in: more passes unnoticed."""
    fault = entry()
    assert is_as_recorded(told_by_the_sdk(fault, openai_client(ScriptedModel(fault))), fault)


MADE = [
    pytest.param(entry, tool, place, id=f"{entry.name}-{number}-{place}")
    for entry in ENTRIES
    for number, (tool, place) in enumerate(TARGETS)
    if any(entry.all_for(tool, place=place))
]
"""The faults, each with the replies that can have it."""


@pytest.mark.parametrize(("entry", "tool", "place"), MADE)
def test_a_strict_reader_says_the_promised_code(
    entry: Entry, tool: object, place: ReplyPlace
) -> None:
    """No fault is read as a good reply, and the promised code is among those reported."""
    contract = strict_contract(tool, place)
    for fault in some(entry.all_for(tool, place=place)):
        assert isinstance(fault.served, HTTPReply)
        assert fault.code in codes_of(fault.served, contract)


@targets
def test_a_strict_reader_takes_the_good_stream(tool: object, place: ReplyPlace) -> None:
    """The stream that faults are made on is valid, as it is cut here and as a serving streams the
    same reply.
    """
    target = Target.of(tool, place=place)
    assert codes_of(streamed(*GoodStream(target).events), target.contract) == []
    good: Any = ok.reply(tool, place=place).served
    sent = HTTPReply(200, CHAT.stream_headers, events(good), framing="chunked")
    assert codes_of(sent, strict_contract(tool, place)) == []


def test_a_fault_that_is_none_is_found() -> None:
    """The strict reader takes an entry that streams the good reply: the law above would fail."""
    nothing_wrong = stream_fault(
        "reply.broken_off", "Nothing is wrong.", lambda good: streamed(*good.events)
    )
    served = nothing_wrong(SEARCH).served
    assert isinstance(served, HTTPReply)
    assert codes_of(served, strict_contract(SEARCH, "call")) == []


@entries
def test_a_fault_of_streams_needs_a_stream(entry: Entry) -> None:
    """Its kind and what the request must say are on it, and it names itself as it is made again."""
    fault = next(entry.all_for(SEARCH))
    assert fault.kind is Kind.STREAM
    assert fault.needs["stream"] is True
    assert fault.source.startswith(f"faults.{entry.name}(")


@pytest.mark.parametrize("entry", [faults.stream_finish_before_end, faults.stream_index_gap])
def test_what_needs_a_bracket_or_a_call_is_not_made_of_prose(entry: Entry) -> None:
    """A plain answer has no JSON to break and no call."""
    with pytest.raises(FaultNotMade):
        entry()


def test_a_name_of_one_letter_has_no_pieces() -> None:
    """The name of a call cannot come in pieces when it has only one."""
    assert list(faults.stream_name_in_pieces.all_for(PING)) == []


@pytest.mark.parametrize(
    "entry",
    [
        *(
            faults.stream_cut_in_event,
            faults.stream_reset,
            faults.stream_hang,
            faults.stream_comments_forever,
        ),
        *(
            faults.stream_ends_early,
            faults.stream_endless_text,
            faults.stream_html_page,
        ),
    ],
    ids=lambda entry: entry.name,
)
def test_on_a_real_socket_the_same_happens(entry: Entry) -> None:
    """A broken connection does the same to the SDK over loopback, and ends in time."""
    fault = entry(SEARCH)
    timeout = 0.2 if THE_SDK[entry.name] == SILENT else 30.0
    with (
        LoopbackServer(ScriptedModel(fault)) as server,
        openai.OpenAI(
            api_key="made-up", base_url=server.base_url, timeout=timeout, max_retries=0
        ) as client,
    ):
        assert is_as_recorded(told_by_the_sdk(fault, client), fault)
