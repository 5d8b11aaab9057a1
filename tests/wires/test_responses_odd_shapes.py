"""Null, empty, repeated, missing and late events of responses: one meaning is read, two are not.

The raw SDK takes the terminal event as it is; what comes out here is that, or what it leaves out.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import strictreply as sr
from support.scripted import Server
from support.scripted_responses import FLAT_SEARCH, wrap
from support.streamed_replies import ONCE
from wires.test_responses_attacks import (
    CREATED,
    MILK,
    TEA,
    body,
    call_events,
    codes_of,
    end,
    events_of,
    exchange_of,
    item,
    text,
    text_events,
    told,
    whole,
)

T = text_events()
C = call_events()
TEXT_END = end(text("m", "Hello"))
CALL_END = end(item("a", TEA))
AT = {"output_index": 0, "item_id": "m", "content_index": 0}


def changed(event: dict[str, Any], **members: Any) -> dict[str, Any]:
    """An event with other members; an ellipsis leaves one out."""
    new = event | members
    return {name: value for name, value in new.items() if value is not ...}


def added(event: dict[str, Any], **members: Any) -> dict[str, Any]:
    """An event whose item has other members."""
    return event | {"item": changed(event["item"], **members)}


TEXTS: dict[str, list[dict[str, Any]]] = {
    "an item that is null": [changed(T[0], item=None), *T[1:], TEXT_END],
    "an item that is empty": [changed(T[0], item={}), *T[1:], TEXT_END],
    "an item without a type": [added(T[0], type=...), *T[1:], TEXT_END],
    "an item whose type is blank": [added(T[0], type=""), *T[1:], TEXT_END],
    "a done item that is null": [*T[:6], changed(T[6], item=None), TEXT_END],
    "a done item that is missing": [*T[:6], changed(T[6], item=...), TEXT_END],
    "a done item that is empty": [*T[:6], changed(T[6], item={}), TEXT_END],
    "no content at the end": [*T, end(text("m") | {"content": None})],
    "an empty content at the end": [*T, end(text("m"))],
    "an empty text at the end": [*T, end(text("m", ""))],
    "all of it twice": [*T, *T, TEXT_END],
    "the done item first": [*T[:2], T[6], *T[2:4], TEXT_END],
    "pieces before the item": [T[1], T[2], T[0], *T[3:], TEXT_END],
    "a refusal that says nothing": [*T, told("refusal.done", **AT, refusal=""), TEXT_END],
}
EMPTY_REFUSAL = text("m", "Hello")
EMPTY_REFUSAL["content"] = [*EMPTY_REFUSAL["content"], {"type": "refusal", "refusal": ""}]
TEXTS["a refusal that says nothing at the end"] = [*T, end(EMPTY_REFUSAL)]
CALLS: dict[str, list[dict[str, Any]]] = {
    "pieces before the item": [C[1], C[0], *C[2:], CALL_END],
    "all of it before its pieces": [C[0], C[3], *C[1:3], C[4], CALL_END],
    "all of it twice": [*C, *C, CALL_END],
    "the pieces again behind the item": [*C, *C[1:3], CALL_END],
    "an item without a type": [added(C[0], type=...), *C[1:], CALL_END],
    "no name at the end": [*C, end(item("a", TEA, name=None))],
    "no id of the call at the end": [*C, end(changed(item("a", TEA), call_id=...))],
    "a blank id of the call at the end": [*C, end(item("a", TEA, call_id=""))],
}


@pytest.mark.parametrize("name", TEXTS)
def test_one_text_is_read(name: str) -> None:
    """What is null or empty says nothing, and what repeats says nothing new."""
    events = TEXTS[name]
    reply: Any = exchange_of(CREATED, *events).reply
    assert reply.answer == "Hello"

    passed = events_of(CREATED, *events)
    assert passed[-1].response.output_text == "Hello"
    deltas = [one.delta for one in passed if one.type == "response.output_text.delta"]
    assert "".join(deltas) == "Hello"


@pytest.mark.parametrize("name", CALLS)
def test_one_call_is_read(name: str) -> None:
    """Its arguments, its name and its id are those that its events said."""
    events = CALLS[name]
    reply = exchange_of(CREATED, *events).reply
    assert [(call.id, call.args) for call in reply.calls] == [("call_a", json.loads(TEA))]

    (call,) = events_of(CREATED, *events)[-1].response.output
    assert (call.name, call.call_id, call.arguments) == ("search", "call_a", TEA)


@pytest.mark.parametrize("name", [*TEXTS, *CALLS])
def test_a_strict_reading_has_no_leniency(name: str) -> None:
    """What needed a row is refused; the others are the API's own form, or say nothing there."""
    events = {**CALLS, **TEXTS}[name]
    if not exchange_of(CREATED, *events).attempts[-1].lenient:
        assert exchange_of(CREATED, *events, dialects="strict").attempts[-1].lenient == ()
        return

    with pytest.raises(sr.CallFailed):
        exchange_of(CREATED, *events, dialects="strict")


TWO_MEANINGS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "other pieces behind the done item": ([*T, changed(T[2], delta="Bye"), TEXT_END], "envelope"),
    "half of it again": ([*T, T[2], TEXT_END], "envelope"),
    "other arguments behind the item": ([*C, changed(C[1], delta=MILK), CALL_END], "envelope"),
    "half of the arguments again": ([*C, C[1], CALL_END], "envelope"),
    "arguments that are not those of the done event": (
        [C[0], C[3], changed(C[1], delta=MILK), C[4], CALL_END],
        "envelope",
    ),
    "another item under the index": ([C[1], T[0], *C[2:], CALL_END], "envelope"),
    "another name at the end": ([C[1], C[0], *C[2:], end(item("a", TEA, name="x"))], "envelope"),
    "a refusal beside the text": ([*T, told("refusal.done", **AT, refusal="No."), TEXT_END], "env"),
    "no text at the end, and no end of the text": ([*T[:4], end(text("m"))], "envelope"),
    "a refusal in place of the text": (
        [*T, end(text("m") | {"content": [{"type": "refusal", "refusal": "No."}]})],
        "",
    ),
}


@pytest.mark.parametrize("name", TWO_MEANINGS)
def test_two_meanings_are_refused(name: str) -> None:
    """What contradicts is no repeat."""
    events, family = TWO_MEANINGS[name]
    with pytest.raises(sr.CallFailed) as refused:
        exchange_of(CREATED, *events)

    assert all(code.startswith(family) for code in codes_of(refused))
    with pytest.raises(sr.CallFailed):
        events_of(CREATED, *events)


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("reason", "code"),
    [("max_output_tokens", "reply.truncated"), ("content_filter", "reply.content_filter")],
)
def test_a_completed_response_that_was_cut_was_cut(
    reason: str, code: str, is_streamed: bool
) -> None:
    """Of two words on its end the worse counts."""
    cut = whole(text("m", "Hello"), incomplete_details={"reason": reason})
    sent = body(CREATED, *T, told("completed", response=cut)) if is_streamed else cut
    client = wrap(Server(sent).client(), policy=ONCE)
    asked = {"model": "m", "input": "x", "tools": [FLAT_SEARCH], "stream": is_streamed}
    with pytest.raises(sr.CallFailed) as refused:
        list(client.responses.create(**asked))

    assert codes_of(refused) == {code}


def test_a_refusal_that_is_empty_is_none() -> None:
    """In a whole body as in a stream."""
    client = wrap(Server(whole(EMPTY_REFUSAL)).client(), policy=ONCE)
    assert client.responses.create(model="m", input="x").output_text == "Hello"

    alone = text("m") | {"content": [{"type": "refusal", "refusal": ""}]}
    client = wrap(Server(whole(alone)).client(), policy=ONCE)
    with pytest.raises(sr.ReplyRejected) as refused:
        client.responses.create(model="m", input="x")

    assert codes_of(refused) == {"reply.empty"}


def without(events: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Events without members, of their own and of their items and of the items of a response."""
    events = json.loads(json.dumps(events))
    for one in events:
        output = one.get("response", {}).get("output", [])
        for told_of in (one, one.get("item", {}), *output):
            for name in names:
                told_of.pop(name, None)

    return events


def final_of(*events: dict[str, Any]) -> Any:
    """What the SDK's own helper for streams makes of these events."""
    client = wrap(Server(body(*events)).client(), policy=ONCE)
    with client.responses.stream(model="m", input="x", tools=[FLAT_SEARCH]) as stream:
        return stream.get_final_response()


@pytest.mark.parametrize("value", [..., None, "", "  "])
@pytest.mark.parametrize("at", [[0], [4], [0, 4]], ids=["added", "done", "both"])
def test_the_id_of_a_call_is_the_same_in_each_event(at: list[int], value: Any) -> None:
    """A program takes it from the first or the last event of the call, or from the response."""
    events: list[Any] = [*C, end(item("a", TEA))]
    for index in at:
        events[index] = added(events[index], call_id=value)
    if len(at) > 1:
        events[-1] = end(changed(item("a", TEA), call_id=value))

    passed = events_of(CREATED, *events)
    (call,) = passed[-1].response.output
    assert call.call_id.strip()

    ids = [one.item.call_id for one in passed if one.type.startswith("response.output_item.")]
    assert ids == [call.call_id] * 2

    (final,) = final_of(CREATED, *events).output
    assert (final.name, final.arguments) == ("search", TEA)
    assert final.call_id.strip()


@pytest.mark.parametrize("names", [("id",), ("id", "item_id")], ids=["the item's", "all"])
def test_an_item_without_an_id_has_none_in_any_event(names: tuple[str, ...]) -> None:
    """A program finds the arguments of a call by the id of its item."""
    events = without([*C, end(item("a", TEA))], *names)
    passed = events_of(CREATED, *events)
    (call,) = passed[-1].response.output
    items = {one.item.id for one in passed if one.type.startswith("response.output_item.")}
    pieces = [one for one in passed if one.type.startswith("response.function_call_")]
    assert items == {call.id}
    assert {one.item_id for one in pieces} == {call.id}
    assert [one.arguments for one in pieces if one.type.endswith(".done")] == [TEA]

    (final,) = final_of(CREATED, *events).output
    assert (final.call_id, final.arguments) == ("call_a", TEA)


@pytest.mark.parametrize("kept", [(), ("content_part",), ("output_text",)])
def test_a_text_without_an_index_of_its_part_is_of_the_only_one(kept: tuple[str, ...]) -> None:
    """It is live, and the SDK's own helper finds the part."""
    bare = without(T, "content_index")
    events = [one if kept and kept[0] in one["type"] else bare[at] for at, one in enumerate(T)]
    passed = events_of(CREATED, *events, TEXT_END)
    of_parts = [one for one in passed if "content_part" in one.type or "output_text" in one.type]
    assert len(of_parts) == len(T) - 2
    assert {one.content_index for one in of_parts} == {0}
    assert [one.delta for one in of_parts if one.type.endswith("text.delta")] == ["He", "llo"]

    final = final_of(CREATED, *events, TEXT_END)
    assert final.output_text == "Hello"


@pytest.mark.parametrize("index", [..., None, 0])
def test_another_text_at_the_end_of_a_part_is_none_of_it(index: Any) -> None:
    """The terminal event decides, and a text is not added to the one that has come."""
    other = changed(T[4], text="Other", content_index=index)
    passed = events_of(CREATED, *T[:4], other, *T[5:], TEXT_END)
    assert passed[-1].response.output_text == "Hello"
    deltas = [one.delta for one in passed if one.type == "response.output_text.delta"]
    assert "".join(deltas) == "Hello"
