"""The anthropic SDK reads what the kit serves, and its exchanges are recorded."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import strictreply as sr
from strictreply.batch.lines import open_lines
from strictreply.testing import (
    HTTPReply,
    Kind,
    ScriptedModel,
    Step,
    faults,
    mounting,
    no_backoff,
    ok,
    record,
)
from strictreply.testing._anthropic_writer import MESSAGES_WRITER, as_message
from strictreply.testing._recordings import RecordedVerdict, RecordingJudge, UnreadableLine
from strictreply.testing._wire import WireEnding
from strictreply.testing.faults._catalogue import Entry
from support.loops import some
from support.messages import ASKED, SEARCH, message, use
from support.served_faults import entries_of

anthropic: Any = pytest.importorskip("anthropic")

TOOL = sr.Tool.from_json_schema("search", SEARCH["input_schema"])
ASK: dict[str, Any] = {**ASKED, "tools": [SEARCH]}
GOOD = ok.call(TOOL, query="tea and milk")
SILENT = {"stream_hang", "stream_comments_forever"}
STREAMED = [one for one in entries_of(Kind.STREAM, "messages") if one.name != "stream_id_changes"]
"""An id stands in the start of a block alone: that fault is none here."""


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_the_sdk_over_a_socket(prefix: str) -> None:
    """Whole, as events and through its helper it reads the same call, of either namespace."""
    with ScriptedModel(then=GOOD).serve() as server:
        address = server.base_url.removesuffix("/v1") + prefix
        client = anthropic.Anthropic(base_url=address, api_key="none", max_retries=0)
        whole = client.messages.create(**ASK)
        events = list(client.messages.create(**ASK, stream=True))
        with client.messages.stream(**ASK) as stream:
            final = stream.get_final_message()

        beta = client.beta.messages.create(**ASK)

    assert [event.type for event in events][:2] == ["message_start", "content_block_start"]
    assert events[-1].type == "message_stop"
    for reply in (whole, final, beta):
        (block,) = reply.content
        assert (block.type, block.name, block.input) == (
            "tool_use",
            "search",
            {"query": "tea and milk"},
        )
        assert (reply.stop_reason, reply.usage.output_tokens) == ("tool_use", 5)


def test_the_clients_in_memory() -> None:
    """``llm.anthropic()`` and its async twin need no socket; they do not retry by themselves."""
    model = ScriptedModel(then=ok.answer("We have tea."))
    with model.anthropic().messages.stream(**ASK) as stream:
        assert "".join(stream.text_stream) == "We have tea."

    async def asked() -> Any:
        async with model.async_anthropic().messages.stream(**ASK) as events:
            return await events.get_final_message()

    assert asyncio.run(asked()).content[0].text == "We have tea."
    model.script(faults.overloaded(), ok.answer("tea"))
    with pytest.raises(anthropic.APIStatusError) as raised:
        model.anthropic().messages.create(**ASK)

    assert (raised.value.status_code, len(model.requests)) == (529, 1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("unauthorized", "AuthenticationError"),
        ("rate_limited", "RateLimitError"),
        ("model_not_found", "NotFoundError"),
        ("internal_server_error", "InternalServerError"),
        ("closed_in_body", "APIConnectionError"),
        ("no_response", "APITimeoutError"),
    ],
)
def test_a_fault_is_the_sdks_own_exception(name: str, kind: str) -> None:
    """Of a status, and of the connection."""
    model = ScriptedModel(faults.CATALOGUE[name]())
    with pytest.raises(getattr(anthropic, kind)):
        model.anthropic().messages.create(**ASK)


def test_an_error_in_a_stream_is_the_sdks_own_exception() -> None:
    """It is an event of the type ``error``, which the SDK raises."""
    model = ScriptedModel(faults.stream_error(TOOL))
    with (
        pytest.raises(anthropic.APIError, match="server had an error"),
        model.anthropic().messages.stream(**ASK) as stream,
    ):
        stream.get_final_message()


def test_the_sdks_own_retries_come_at_once() -> None:
    """``no_backoff`` takes the waits out of this SDK, too."""
    model = ScriptedModel(faults.rate_limited_hour(), faults.overloaded(), ok.answer("tea"))
    client = model.anthropic(max_retries=2)
    with no_backoff() as skipped:
        assert client.messages.create(**ASK).content[0].text == "tea"

    assert len(model.requests) == 3
    assert skipped.seconds > 0


def seen(step: Step, dialects: Any) -> tuple[Any, list[Any]]:
    """Return what a guarded stream of a step told, or its refusal, and the events that came."""
    contract = sr.Contract(tools=[TOOL], dialects=dialects, parallel=True)
    policy = sr.RetryPolicy(max_retries=0, transport_retries=0)
    source = ScriptedModel(step).anthropic(timeout=0.2 if step.name in SILENT else 30.0)
    client: Any = sr.wrap(source, contract=contract, policy=policy)
    events: list[Any] = []
    try:
        with no_backoff():
            events.extend(client.messages.create(**ASK, stream=True))
    except sr.CallFailed as error:
        return error, events

    calls: dict[int, list[str]] = {}
    for event in events:
        if event.type == "content_block_start":
            calls[event.index] = [event.content_block.name, ""]
        elif event.type == "content_block_delta":
            calls[event.index][1] += event.delta.partial_json

    return [(name, json.loads(text)) for name, text in calls.values()], events


@pytest.mark.parametrize("entry", STREAMED, ids=lambda entry: entry.name)
def test_each_stream_fault_through_the_guard(entry: Entry) -> None:
    """A strict reading refuses it; by default it is refused, or the good reply, as its row says."""
    fault = entry(TOOL) if "call" in entry.places else entry(TOOL, place=entry.places[0])
    is_good = entry.reading.is_good("messages", is_streamed=True)
    for dialects in ("strict", "known"):
        told, events = seen(fault, dialects)
        if is_good and dialects == "known":
            assert told == seen(Step("clean", fault.clean, ""), dialects)[0]
            assert isinstance(told, list)
        else:
            assert isinstance(told, anthropic.AnthropicError)
            assert "message_stop" not in {event.type for event in events}


@pytest.mark.malformed(tools=[TOOL], kinds=["args"])
def test_a_guarded_program_survives(llm: ScriptedModel) -> None:
    """A bad call is retried: the program sees the good one alone."""
    client: Any = sr.wrap(llm.anthropic(), tools=[TOOL])
    (block,) = client.messages.create(**ASK).content
    assert isinstance(sr.Contract(tools=[TOOL]).check(called(block), api="messages"), sr.Valid)
    assert len(llm.requests) == 2
    assert llm.requests[1].correction
    llm.assert_no_echo()


def called(block: Any) -> Any:
    """Return a message that holds a block of the SDK alone."""
    return message(use(block.input, block.id, block.name))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_what_the_sdk_was_told_is_recorded(tmp_path: Path, streamed: bool, is_async: bool) -> None:
    """Each exchange is a line, which is judged as a message by the tools of its request."""
    path = tmp_path / "shop.jsonl"
    model = ScriptedModel(faults.wrong_type(TOOL, "limit"), GOOD)

    async def asked() -> None:
        client = record(model.async_anthropic(), path)
        for _ in range(2):
            reply: Any = await client.messages.create(**ASK, stream=streamed)
            if streamed:
                assert [event async for event in reply]

    if is_async:
        asyncio.run(asked())
    else:
        client = record(model.anthropic(), path)
        for _ in range(2):
            reply: Any = client.messages.create(**ASK, stream=streamed)
            assert not streamed or list(reply)

    judge = RecordingJudge()
    told = [judge.judge(number, line) for number, line, _ in open_lines(path)]
    bad, good = (one for one in told if isinstance(one, RecordedVerdict))
    assert (bad.recording.api, bad.recording.called) == ("messages", "search")
    assert isinstance(bad.verdict, sr.Invalid)
    assert [issue.code for issue in bad.verdict.issues] == ["args.type"]
    assert isinstance(good.verdict, sr.Valid)
    assert isinstance(good.verdict.reply, sr.ToolCall)
    assert good.verdict.reply.args == {"query": "tea and milk"}


def test_what_was_broken_off_is_no_reply(tmp_path: Path) -> None:
    """A stream that ends early and a status are lines without a reply; the key is in none."""
    path = tmp_path / "shop.jsonl"
    model = ScriptedModel(faults.stream_cut_between_events(TOOL), faults.overloaded())
    client = record(model.anthropic(api_key="sk-ant-api03-" + "k" * 30), path)
    library: Any = mounting.library_of(anthropic.DefaultHttpxClient)
    with pytest.raises(library.RemoteProtocolError):
        list(client.messages.create(**ASK, stream=True))
    with pytest.raises(anthropic.APIStatusError):
        client.messages.create(**ASK)

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["http"]["ending"] == WireEnding.CUT.value
    assert lines[1]["http"]["status"] == 529
    assert "sk-ant" not in path.read_text()
    second = RecordingJudge().judge(2, json.dumps(lines[1]).encode())
    assert isinstance(second, UnreadableLine)
    assert "HTTP 529" in second.reason


def test_a_secret_in_the_pieces_of_a_stream_is_not_written(tmp_path: Path) -> None:
    """The stream is written anew without it, with the events of the API."""
    path = tmp_path / "shop.jsonl"
    secret = "sk-" + "a1" * 20
    said: Any = ok.answer(f"The key is {secret} and no other.").served
    parts = MESSAGES_WRITER.stream(as_message(said), {})
    assert not any(secret.encode() in part for part in some(parts))
    served = HTTPReply(200, {"Content-Type": "text/event-stream"}, parts, framing="chunked")
    client = record(mounting.anthropic_client(lambda _: served), path)
    assert list(client.messages.create(**ASK, stream=True))

    (line,) = map(json.loads, path.read_text().splitlines())
    assert "a1a1" not in json.dumps(line).replace('"', "")
    assert line["response"]["content"][0]["text"].startswith("The key is ")
    assert "event: message_stop" in line["http"]["body"]


def test_another_client_is_refused() -> None:
    """Only clients whose requests are of the recorded paths are taken."""
    wrong: Any = anthropic
    with pytest.raises(TypeError, match="Anthropic or AsyncAnthropic"):
        record(wrong, "shop.jsonl")
