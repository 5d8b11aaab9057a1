"""Streams of the Responses API: live text, held calls, one well-formed sequence of events.

A cut stream is nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from typing import Any, Literal

import openai
import pytest

import strictreply as sr
from strictreply.wires import WIRES
from support.loops import some
from support.scripted import Server, http
from support.scripted_responses import (
    FLAT_SEARCH,
    call_item,
    reasoning_item,
    response,
    text_item,
    wrap,
)
from support.streamed_replies import event, typed_event

ASK: dict[str, Any] = {"model": "m", "input": "find tea", "tools": [FLAT_SEARCH]}
GOOD = {"query": "tea"}
ONCE = sr.RetryPolicy(max_retries=0, transport_retries=0)
TEXT = response(reasoning_item(), text_item("Hello there, this is tea."))
CALLS = response(
    reasoning_item(summary=[{"type": "summary_text", "text": "hm"}]),
    call_item("search", GOOD),
    call_item("search", {"query": "b"}, "call_b"),
)
BESIDE = response(text_item("I will look.", phase="commentary"), call_item("search", GOOD))
REPLIES = {"text": TEXT, "calls": CALLS, "text and a call": BESIDE}
ALL_CUTS = bool(os.environ.get("STRICTREPLY_ALL_CUTS"))


def events_of(whole: dict[str, Any], size: int = 4) -> list[dict[str, Any]]:
    """The events of a response as the API sends them, its deltas cut into pieces."""
    told: list[dict[str, Any]] = []
    for one in WIRES["responses"].sent(False).rest(whole, None):
        if one["type"] in {"response.output_text.delta", "response.function_call_arguments.delta"}:
            text = one["delta"]
            told += [one | {"delta": text[at : at + size]} for at in range(0, len(text), size)]
        else:
            told.append(one)
    return [one | {"sequence_number": number} for number, one in enumerate(told)]


def served(told: list[dict[str, Any]], write: Callable[[Any], bytes] = typed_event) -> Any:
    """A response with these events as its body."""
    return http.Response(
        200, content=b"".join(map(write, told)), headers={"content-type": "text/event-stream"}
    )


JUDGED = {"message", "function_call"}


def well_formed(told: list[Any]) -> dict[str, Any]:
    """Check the emitted events against the API's rules; return the response at their end."""
    plain = [one.to_dict() for one in told]
    numbers = [one["sequence_number"] for one in plain]
    assert numbers == sorted(set(numbers))
    assert plain[0]["type"] == "response.created"
    ends = [
        one
        for one in plain
        if one["type"] in {"response.completed", "response.incomplete", "response.failed"}
    ]
    assert ends == plain[-1:]

    final = ends[0]["response"]
    assert {one["response"]["id"] for one in plain if "response" in one} == {final["id"]}
    open_items: dict[int, dict[str, Any]] = {}
    texts: dict[tuple[int, Any], str] = {}

    for one in plain:
        kind = one["type"].removeprefix("response.")
        index = one.get("output_index")

        if kind == "output_item.added":
            assert index == len(open_items)
            open_items[index] = one["item"]
        elif kind.endswith(".delta"):
            assert one["item_id"] == open_items[index]["id"]
            key = index, one.get("content_index", one.get("summary_index"))
            texts[key] = texts.get(key, "") + one["delta"]
        elif kind in {"output_text.done", "function_call_arguments.done"}:
            assert texts[index, one.get("content_index")] == one.get("text", one.get("arguments"))
        elif kind == "output_item.done" and one["item"]["type"] in JUDGED:
            assert one["item"] == final["output"][index]

    assert len(open_items) == len(final["output"])
    return dict(final)


def asked(
    *steps: Any,
    policy: sr.RetryPolicy | None = None,
    dialects: Literal["known", "strict"] = "known",
    **ask: Any,
) -> tuple[list[Any], Exception | None]:
    """Return what a stream passes on, and what it raises."""
    told: list[Any] = []
    client = wrap(Server(*steps).client(), policy=policy, dialects=dialects)
    try:
        for one in client.responses.create(**ASK | ask, stream=True):
            told.append(one)  # noqa: PERF402 - what came before an exception counts
    except Exception as error:  # noqa: BLE001 - whatever comes is looked at
        return told, error

    return told, None


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_good_stream_is_its_reply(name: str, size: int) -> None:
    """In deltas of any size: the events are well formed, and end in the accepted response."""
    told, error = asked(served(events_of(REPLIES[name], size)))
    assert error is None
    assert well_formed(told) == REPLIES[name]


def test_text_is_live_and_calls_are_not() -> None:
    """Text and arguments come in the server's own pieces, these once all of the reply has passed;
    thoughts before them do not wait.
    """
    told, _ = asked(served(events_of(TEXT)))
    assert sum(one.type == "response.output_text.delta" for one in told) > 3
    told, _ = asked(served(events_of(CALLS)))
    assert [one.to_dict() for one in told] == events_of(CALLS)
    told, error = asked(served(events_of(CALLS)[:-1]), policy=ONCE)
    assert isinstance(error, sr.CallFailed)
    assert {one.item.type for one in told if one.type == ADDED} == {"reasoning"}


def test_a_bad_call_behind_live_text_is_asked_for_again() -> None:
    """The text stays, the call that follows it is the good one, under one id of a response."""
    bad = response(text_item("I will look."), call_item("search", {"query": 1}))
    told, error = asked(
        served(events_of(bad)), served(events_of(response(call_item("search", GOOD, "call_n"))))
    )
    assert error is None
    final = well_formed(told)
    assert (final["id"], final["output"][0], final["output"][1]["call_id"]) == (
        bad["id"],
        bad["output"][0],
        "call_n",
    )


def test_what_ends_live_text_ends_the_stream() -> None:
    """A cut behind text that was shown cannot be mended: our exception, after the text."""
    cut = response(
        text_item("Tea is"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    )
    told, error = asked(served(events_of(cut)))
    assert (
        "".join(one.delta for one in told if one.type == "response.output_text.delta") == "Tea is"
    )
    assert isinstance(error, sr.CallFailed)

    assert isinstance(error, openai.OpenAIError)


def cuts_of(body: bytes) -> list[int]:
    """Return where a body is cut.

    It is behind each line, and at every seventh byte; with STRICTREPLY_ALL_CUTS at every byte.
    """
    places = range(len(body) - 2)
    return [at for at in places if ALL_CUTS or at % 7 == 0 or body[at - 1 : at] == b"\n"]


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.slow
def test_a_cut_stream_is_no_reply(name: str) -> None:
    """No terminal event, no call and no final item: at most the beginning of a text, and an
    exception of ours.
    """
    body = b"".join(map(typed_event, events_of(REPLIES[name], 7)))
    for at in some(cuts_of(body)):
        cut = http.Response(200, content=body[:at], headers={"content-type": "text/event-stream"})
        told, error = asked(cut, policy=ONCE)
        assert isinstance(error, sr.CallFailed)
        kinds = {one.type for one in told}
        assert not kinds & {"response.completed", "response.function_call_arguments.delta"}

        assert "function_call" not in {
            one.item.type for one in told if one.type == "response.output_item.added"
        }


def changed(told: list[dict[str, Any]], kind: str, **members: Any) -> list[dict[str, Any]]:
    """The events with other members in the first of a kind."""
    index = next(index for index, one in enumerate(told) if one["type"] == kind)
    return [*told[:index], told[index] | members, *told[index + 1 :]]


def without(told: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """The events but those of some kinds."""
    return [one for one in told if one["type"] not in kinds]


HELD = events_of(CALLS)
ADDED = "response.output_item.added"
DONE = "response.output_item.done"
DELTA = "response.function_call_arguments.delta"
WRITTEN = "response.function_call_arguments.done"
EVENT_FAULTS: dict[str, list[Any]] = {
    "a number repeated": changed(HELD, DELTA, sequence_number=3),
    "a number that falls": [*HELD[:4], HELD[4] | {"sequence_number": 1}, *HELD[5:]],
    "an index used twice": [
        *HELD[:-1],
        HELD[2] | {"sequence_number": 900},
        HELD[-1] | {"sequence_number": 901},
    ],
    "a delta of no item": changed(HELD, DELTA, output_index=7),
    "a delta of another item": changed(HELD, DELTA, item_id="fc_other"),
    "a delta that is no text": changed(HELD, DELTA, delta=None),
    "done is not its deltas": changed(HELD, WRITTEN, arguments='{"query": "poison"}'),
    "an item done is another": changed(HELD, DONE, item=HELD[2]["item"] | {"id": "rs_other"}),
    "the end has other arguments": changed(
        HELD,
        "response.completed",
        response=CALLS
        | {"output": [*CALLS["output"][:2], CALLS["output"][2] | {"arguments": '{"query": "c"}'}]},
    ),
    "the end lacks a call": changed(
        HELD, "response.completed", response=CALLS | {"output": CALLS["output"][:2]}
    ),
    "the end is of another response": changed(
        HELD, "response.completed", response=CALLS | {"id": "resp_other"}
    ),
    "no end": without(HELD, "response.completed"),
    "an error": [
        *HELD[:5],
        {"type": "error", "code": "server_error", "message": "x", "sequence_number": 99},
    ],
    "failed": [
        *HELD[:5],
        {
            "type": "response.failed",
            "response": CALLS
            | {"status": "failed", "error": {"code": "server_error", "message": "x"}},
            "sequence_number": 99,
        },
    ],
    "incomplete": [
        *HELD[:-1],
        {
            "type": "response.incomplete",
            "response": CALLS | {"status": "incomplete"},
            "sequence_number": 99,
        },
    ],
    "no type": [*HELD[:4], {"output_index": 1, "sequence_number": 50}, *HELD[60:]],
    "not an object": [*HELD[:4], 1],
}


@pytest.mark.parametrize("name", EVENT_FAULTS)
def test_a_faulty_stream_is_refused(name: str) -> None:
    """A stream that contradicts itself, or ends badly, is no reply: no call of it gets out, those
    of a good one do.
    """
    told, error = asked(served(EVENT_FAULTS[name]), policy=ONCE, dialects="strict")
    assert isinstance(error, sr.CallFailed)
    assert not {one.type for one in told} & {"response.completed", DELTA}
    assert {one.item.type for one in told if one.type == ADDED} <= {"reasoning"}
    told, error = asked(served(EVENT_FAULTS[name]), served(HELD), dialects="strict")
    if error is None:
        assert well_formed(told) == CALLS
    else:
        assert isinstance(error, sr.CallFailed)


READ = [
    "a number repeated",
    "a number that falls",
    "an index used twice",
    "a delta of no item",
    "a delta of another item",
    "done is not its deltas",
    "an item done is another",
    "the end is of another response",
]
"""What is read by default: the terminal event holds the text and the calls that were streamed."""


@pytest.mark.parametrize("name", EVENT_FAULTS)
def test_by_default_the_terminal_event_decides(name: str) -> None:
    """What contradicts neither the text nor the arguments that came is the good reply."""
    told, error = asked(served(EVENT_FAULTS[name]), policy=ONCE)
    if name not in READ:
        assert isinstance(error, sr.CallFailed)
        return

    assert error is None
    assert well_formed(told)["output"] == CALLS["output"]


@pytest.mark.parametrize(
    "told",
    [
        without(HELD, WRITTEN),
        without(HELD, DELTA),
        without(HELD, DELTA, WRITTEN),
        without(HELD, "response.in_progress"),
        changed(HELD, "response.completed", response=CALLS | {"output": []}),
        [one | {"sequence_number": 0} for one in HELD],
        [{name: one[name] for name in one if name != "sequence_number"} for one in HELD],
        [*HELD[:3], {"type": "response.unheard_of", "sequence_number": 2.5}, *HELD[3:]],
    ],
)
def test_known_ways_of_servers_pass(told: list[dict[str, Any]]) -> None:
    """No deltas, no ``done``, an end without items, numbers that never count, unknown events."""
    for write in (typed_event, event):
        given, error = asked(served(told, write))
        assert error is None
        assert well_formed(given)["output"] == CALLS["output"]


def test_comments_and_a_done_behind_the_end_are_no_matter() -> None:
    """What other servers put around events."""
    body = b": hi\n\n" + b"".join(map(typed_event, HELD)) + b"data: [DONE]\n\n"
    told, error = asked(
        http.Response(200, content=body, headers={"content-type": "text/event-stream"})
    )
    assert error is None
    assert well_formed(told) == CALLS


def test_the_sdks_own_stream_accumulates_it() -> None:
    """``responses.stream`` raises where events contradict each other; it gives the response that
    was accepted.
    """
    bad = response(call_item("search", {"query": 1}))
    server = Server(served(events_of(bad)), served(events_of(CALLS)))
    client = wrap(server.client())
    with client.responses.stream(**ASK) as stream:
        kinds = [one.type for one in stream]
        final = stream.get_final_response()

    assert kinds[-1] == "response.completed"
    assert [item.to_dict(exclude_unset=True)["type"] for item in final.output] == ["reasoning"] + [
        "function_call"
    ] * 2
    assert len(server.requests) == 2


def test_an_async_stream_is_the_same() -> None:
    """The async twin gives out the same events."""

    async def events() -> list[Any]:
        bad = response(text_item("I look."), call_item("search", {"query": 1}))
        server = Server(
            served(events_of(bad)), served(events_of(response(call_item("search", GOOD))))
        )
        stream = await wrap(server.async_client()).responses.create(**ASK, stream=True)
        return [one async for one in stream]

    assert well_formed(asyncio.run(events()))["output"][1]["arguments"] == json.dumps(GOOD)


def test_a_early_stop_closes_a_stream_of_this_api() -> None:
    """A call that cannot fit any more ends the stream before its end, with the attempt saying
    where.
    """
    bad = events_of(response(call_item("search", {"query": 1, "rest": "x" * 400})), 4)
    client = wrap(
        Server(served(bad), served(HELD)).client(),
        tools=[FLAT_SEARCH],
        parallel=True,
        api="responses",
    )
    with client.stream(model="m", input="x") as stream:
        for _ in stream:
            pass

    first = stream.exchange.attempts[0]
    assert first.stopped_early is not None
    assert first.stopped_early.at < 20
    assert [issue.code for issue in first.issues] == ["args.type"]


def live(count: int) -> Iterator[bytes]:
    """Never used up: the events of a text that goes on."""
    told = events_of(TEXT)
    yield from map(typed_event, told[:6])
    for number in range(count):
        yield typed_event(told[6] | {"sequence_number": 6 + number})


def test_text_comes_before_its_end() -> None:
    """The first words are there while the server still writes."""
    taken = 0

    def body() -> Iterator[bytes]:
        nonlocal taken
        for piece in live(100):
            taken += 1
            yield piece

    answer = http.Response(200, content=body(), headers={"content-type": "text/event-stream"})
    with wrap(Server(answer).client()).responses.create(**ASK, stream=True) as stream:
        next(one for one in stream if one.type == "response.output_text.delta")
        assert taken < 20
