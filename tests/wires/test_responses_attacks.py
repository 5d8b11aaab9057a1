"""Responses that say two things, and others that say one thing in an odd way."""

from __future__ import annotations

import json
from typing import Any

import pytest

import strictreply as sr
from support.scripted import SCHEMA, Server, http
from support.scripted_responses import FLAT_SEARCH, call_item, response, text_item, wrap
from support.streamed_replies import EVENTS, ONCE, policy, streamed_response, typed_event

TEA = '{"query":"tea"}'
MILK = '{"query":"milk"}'
SHOP = {"type": "namespace", "name": "shop", "description": "The shop.", "tools": [FLAT_SEARCH]}
WEB = SHOP | {"name": "web"}
BOTH = pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])


def item(id_: str, arguments: Any = "", **members: Any) -> dict[str, Any]:
    """A call."""
    call = {"type": "function_call", "id": id_, "call_id": f"call_{id_}", "name": "search"}
    return call | {"arguments": arguments, "status": "completed"} | members


def text(id_: str, *texts: str) -> dict[str, Any]:
    """A message."""
    parts = [{"type": "output_text", "text": one, "annotations": []} for one in texts]
    message = {"type": "message", "id": id_, "role": "assistant", "status": "completed"}
    return message | {"content": parts}


def whole(*output: Any, **members: Any) -> dict[str, Any]:
    """A response."""
    around = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m"}
    return around | {"status": "completed", "output": list(output)} | members


def told(kind: str, **members: Any) -> dict[str, Any]:
    """An event."""
    return {"type": f"response.{kind}", **members}


def end(*output: Any, **members: Any) -> dict[str, Any]:
    """The event of a completed response."""
    return told("completed", response=whole(*output, **members))


CREATED = told("created", response=whole(status="in_progress"))


def call_events(
    id_: str = "a", arguments: str = TEA, index: int = 0, *, is_done: bool = True
) -> list[dict[str, Any]]:
    """The events of a call."""
    place = {"output_index": index, "item_id": id_}
    added = item(id_, status="in_progress")
    events = [
        told("output_item.added", output_index=index, item=added),
        told("function_call_arguments.delta", delta=arguments[:5], **place),
        told("function_call_arguments.delta", delta=arguments[5:], **place),
        told("function_call_arguments.done", arguments=arguments, **place),
    ]
    if is_done:
        done = item(id_, arguments)
        events.append(told("output_item.done", output_index=index, item=done))

    return events


def text_events(id_: str = "m", index: Any = 0, said: str = "Hello") -> list[dict[str, Any]]:
    """The events of a message."""
    place = {"output_index": index, "item_id": id_, "content_index": 0}
    part = {"type": "output_text", "text": said, "annotations": []}
    return [
        told("output_item.added", output_index=index, item=text(id_)),
        told("content_part.added", part=part | {"text": ""}, **place),
        told("output_text.delta", delta=said[:2], logprobs=[], **place),
        told("output_text.delta", delta=said[2:], logprobs=[], **place),
        told("output_text.done", text=said, logprobs=[], **place),
        told("content_part.done", part=part, **place),
        told("output_item.done", output_index=index, item=text(id_, said)),
    ]


def body(*events: dict[str, Any]) -> Any:
    """A streamed body of these events."""
    numbered = [{"sequence_number": at, **event} for at, event in enumerate(events)]
    return http.Response(200, content=b"".join(map(typed_event, numbered)), headers=EVENTS)


def events_of(*events: dict[str, Any]) -> list[Any]:
    """The events that the drop-in passes on."""
    client = wrap(Server(body(*events)).client(), policy=ONCE)
    return list(client.responses.create(model="m", input="x", tools=[FLAT_SEARCH], stream=True))


def exchange_of(*events: dict[str, Any], **contract: Any) -> sr.Exchange[Any]:
    """What a typed stream makes of these events."""
    search = sr.Tool.from_json_schema("search", SCHEMA)
    held: Any = {"tools": [search], "parallel": True, "api": "responses", "policy": ONCE}
    client: Any = sr.wrap(Server(body(*events)).client(), **(held | contract))
    with client.stream(model="m", input="x") as stream:
        for _ in stream:
            pass

    exchange: sr.Exchange[Any] = stream.exchange
    return exchange


def codes_of(refused: Any) -> set[str]:
    """The codes of the last attempt."""
    return {issue.code for issue in refused.value.attempts[-1].issues}


FAILED = whole(status="failed", error={"code": "server_error", "message": "boom"})
CUT = whole(item("a", TEA), status="incomplete", incomplete_details={"reason": "max_output_tokens"})
CONTRADICTIONS = {
    "other arguments": end(item("a", MILK)),
    "a text": end(text("m", "Hello")),
    "failed": told("failed", response=FAILED),
    "incomplete": told("incomplete", response=CUT),
    "completed, by a failed response": end(item("a", TEA), status="failed"),
    "an error": {"type": "error", "code": "server_error", "message": "boom"},
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_what_contradicts_an_end_behind_it_is_refused(name: str) -> None:
    """A completed response is completed, and once."""
    events = (CREATED, *call_events(), end(item("a", TEA)), CONTRADICTIONS[name])
    with pytest.raises(sr.TransportFailed) as refused:
        exchange_of(*events)

    assert codes_of(refused) == {"envelope.malformed"}
    with pytest.raises(sr.TransportFailed):
        events_of(*events)


@pytest.mark.parametrize(
    ("behind", "rows"),
    [
        (end(item("a", TEA)), {"repeated_behind_end"}),
        (end(item("b", MILK), id="resp_2"), {"response_behind_end"}),
    ],
    ids=["the same again", "another response"],
)
def test_what_says_no_other_thing_behind_an_end_is_left(behind: Any, rows: set[str]) -> None:
    """The first response counts."""
    exchange: Any = exchange_of(CREATED, *call_events(), end(item("a", TEA)), behind)
    assert exchange.reply.args == {"query": "tea"}
    assert set(exchange.attempts[-1].lenient) == rows


def served(reply: dict[str, Any], *, is_streamed: bool) -> Any:
    """A response, or its events."""
    if not is_streamed:
        return reply

    return streamed_response(reply)


@pytest.mark.parametrize(
    ("tools", "space", "is_known"),
    [
        ([SHOP], "shop", True),
        ([SHOP], None, True),
        ([SHOP], "", True),
        ([SHOP], "search", True),
        ([SHOP], "other", False),
        ([SHOP], ["shop"], False),
        ([SHOP], {"name": "shop"}, False),
        ([SHOP, WEB], "web", True),
        ([SHOP, WEB], None, False),
        ([SHOP, WEB], "other", False),
        ([SHOP, FLAT_SEARCH], None, True),
        ([SHOP, FLAT_SEARCH], "shop", True),
        ([FLAT_SEARCH], "shop", False),
        ([FLAT_SEARCH], None, True),
    ],
)
@BOTH
def test_a_call_is_of_a_declared_namespace(
    tools: list[Any], space: Any, is_known: bool, is_streamed: bool
) -> None:
    """In another one, and in none where several declare its name, it calls no tool."""
    reply = whole(item("a", TEA, namespace=space))
    client = wrap(Server(served(reply, is_streamed=is_streamed)).client(), policy=ONCE)
    request = {"model": "m", "input": "x", "tools": tools, "stream": is_streamed}
    if is_known:
        given = client.responses.create(**request)
        last = list(given)[-1].response if is_streamed else given
        assert last.output[0].to_dict() == reply["output"][0]
        return

    with pytest.raises(sr.ReplyRejected) as refused:
        list(client.responses.create(**request))

    assert codes_of(refused) == {"tool.unknown"}


@BOTH
def test_a_call_of_no_namespace_is_asked_for_again(is_streamed: bool) -> None:
    """The next call is handed on in its own namespace."""
    bad = call_item("search", {"query": "tea"}, namespace="other")
    good = call_item("search", {"query": "tea"}, namespace="shop")
    replies = [served(response(one), is_streamed=is_streamed) for one in (bad, good)]
    client = wrap(Server(*replies).client(), policy=policy(max_retries=1))
    given = client.responses.create(model="m", input="x", tools=[SHOP], stream=is_streamed)
    last = list(given)[-1].response if is_streamed else given
    assert last.output[0].namespace == "shop"


def test_a_namespace_that_changes_is_refused() -> None:
    """A call is of the namespace that its first event says."""
    first, *others = call_events(is_done=False)
    spaced = first | {"item": first["item"] | {"namespace": "shop"}}
    last = end(item("a", TEA, namespace="web"))
    client = wrap(Server(body(CREATED, spaced, *others, last)).client(), policy=ONCE)
    with pytest.raises(sr.TransportFailed) as refused:
        list(client.responses.create(model="m", input="x", tools=[SHOP, WEB], stream=True))

    assert codes_of(refused) == {"envelope.malformed"}


def without_index(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events whose index stands only where an item is added or done."""
    return [
        event
        if "item" in event
        else {name: event[name] for name in event if name != "output_index"}
        for event in events
    ]


INDEXED: dict[str, tuple[list[tuple[str, Any]], dict[str, set[int]]]] = {
    "one, from 1": ([("a", 1)], {"a": {1}}),
    "two, from 1": ([("a", 1), ("b", 2)], {"a": {1}, "b": {2}}),
    "two, apart": ([("a", 3), ("b", 5)], {"a": {3}, "b": {5}}),
    "one behind without any": ([("a", 1), ("b", None)], {"a": {1}, "b": {2}}),
}


@pytest.mark.parametrize("name", INDEXED)
def test_events_without_an_index_have_that_of_their_item(name: str) -> None:
    """All events of an item are passed on under one index, which no other has."""
    items, right = INDEXED[name]
    events = [event for id_, at in items for event in without_index(text_events(id_, at))]
    last = end(*(text(id_, "Hello") for id_, _ in items))
    found: dict[str, set[int]] = {}
    for event in events_of(CREATED, *events, last):
        if hasattr(event, "output_index"):
            id_ = getattr(event, "item_id", None) or event.item.id
            found.setdefault(id_, set()).add(event.output_index)

    assert found == right


@BOTH
def test_a_message_has_parts(is_streamed: bool) -> None:
    """A text in place of the parts is refused: the SDK cannot read it."""
    odd = text("m") | {"content": "Hello"}
    sent = body(CREATED, *text_events(), end(odd)) if is_streamed else whole(odd)
    client = wrap(Server(sent).client(), policy=ONCE)
    with pytest.raises(sr.TransportFailed) as refused:
        list(client.responses.create(model="m", input="x", stream=is_streamed))

    assert codes_of(refused) == {"envelope.malformed"}


@pytest.mark.parametrize("left_out", ["created", "content_part.added", "output_item.added"])
def test_an_event_that_is_missing_is_put_in(left_out: str) -> None:
    """The SDK's own helper takes what is passed on."""
    events = [CREATED, *text_events(), end(text("m", "Hello"))]
    sent = [event for event in events if event["type"] != f"response.{left_out}"]
    client = sr.wrap(Server(body(*sent)).client(), policy=ONCE)
    with client.responses.stream(model="m", input="x") as stream:
        kinds: list[str] = [event.type for event in stream]
        assert stream.get_final_response().output_text == "Hello"

    assert kinds.count(f"response.{left_out}") == 1


OBJECT = json.loads(TEA)
CALL = call_events()
NULL = told("function_call_arguments.delta", output_index=0, item_id="a", delta=None)
TWO = (*call_events(), *call_events("b", MILK, 1))
ONE_MEANING: dict[str, tuple[list[Any], list[Any]]] = {
    "arguments as their object at the end": ([*CALL, end(item("a", OBJECT))], [TEA]),
    "arguments as their object in the done item, too": (
        [
            *CALL[:-1],
            told("output_item.done", output_index=0, item=item("a", OBJECT)),
            end(item("a", OBJECT)),
        ],
        [TEA],
    ),
    "null as a piece": ([CALL[0], NULL, *CALL[1:], end(item("a", TEA))], [TEA]),
    "another order at the end": ([*TWO, end(item("b", MILK), item("a", TEA))], [MILK, TEA]),
    "no done item and no output": ([*CALL[:-1], end()], [TEA]),
    "null at the end": ([*CALL, end(item("a", None))], [TEA]),
    "nothing at the end": ([*CALL, end(item("a", ""))], [TEA]),
    "nothing in the done item and at the end": (
        [
            *CALL[:-1],
            told("output_item.done", output_index=0, item=item("a", "")),
            end(item("a", "")),
        ],
        [TEA],
    ),
}


@pytest.mark.parametrize("name", ONE_MEANING)
def test_one_meaning_is_read(name: str) -> None:
    """What is said in another form, or not again, contradicts nothing."""
    events, right = ONE_MEANING[name]
    reply = exchange_of(CREATED, *events).reply
    assert [call.args for call in reply.calls] == [json.loads(one) for one in right]
    *_, last = events_of(CREATED, *events)
    assert [one.arguments for one in last.response.output] == right
    assert {one.status for one in last.response.output} == {"completed"}


TWO_MEANINGS: dict[str, list[Any]] = {
    "another object at the end": [*CALL, end(item("a", json.loads(MILK)))],
    "an object with a member more at the end": [*CALL, end(item("a", OBJECT | {"limit": 1}))],
    "arguments of the other call at the end": [*TWO, end(item("b", TEA), item("a", MILK))],
    "null at the end and no done event": [*CALL[:3], end(item("a", None))],
    "no done event and no output": [*CALL[:3], end()],
    "no arguments at the end": [*CALL, end(item("a", "{}"))],
    "no done item, no output, and not completed": [*CALL[:-1], end(status="in_progress")],
}


@pytest.mark.parametrize("name", TWO_MEANINGS)
def test_two_meanings_are_refused(name: str) -> None:
    """The forms that are read hide no contradiction."""
    with pytest.raises(sr.TransportFailed) as refused:
        exchange_of(CREATED, *TWO_MEANINGS[name])

    assert codes_of(refused) <= {"envelope.malformed", "reply.broken_off"}


@pytest.mark.parametrize("name", ["null as a piece", "null at the end"])
def test_a_strict_reading_takes_neither(name: str) -> None:
    """With ``dialects="strict"`` only the API's own form is read."""
    events, _ = ONE_MEANING[name]
    with pytest.raises(sr.TransportFailed):
        exchange_of(CREATED, *events, dialects="strict")


def test_a_text_is_read_beside_a_null_piece() -> None:
    """A piece of a text that is null says nothing."""
    first, part, *others = text_events()
    null = others[0] | {"delta": None}
    events = (CREATED, first, part, null, *others, end(text_item("Hello") | {"id": "m"}))
    reply: Any = exchange_of(*events).reply
    assert reply.answer == "Hello"
    deltas = [one.delta for one in events_of(*events) if one.type == "response.output_text.delta"]
    assert "".join(deltas) == "Hello"


HELLO = text_events()
ERRORS: dict[str, dict[str, Any]] = {
    "as the API sends it": {"type": "error", "code": None, "message": "boom", "param": None},
    "without a code": {"type": "error", "message": "boom"},
    "without anything": {"type": "error"},
    "without its type": {"code": None, "message": "boom", "param": None, "sequence_number": 3},
    "without a type and a code": {"message": "boom", "param": None},
    "with null as its type": {"type": None, "message": "boom", "code": None},
    "with a blank type": {"type": "", "message": "boom", "code": None},
    "under another type": {"type": "response.error", "code": None, "message": "boom"},
    "as a member of another type": {"type": "response.failure", "error": {"message": "boom"}},
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_event_of_an_error_is_one_however_it_is_spelled(name: str) -> None:
    """Its code and its param may be null in the API; a good end behind it does not undo it."""
    for events in ([*HELLO, ERRORS[name], end(text("m", "Hello"))], [ERRORS[name]]):
        with pytest.raises(sr.TransportFailed) as refused:
            exchange_of(CREATED, *events)

        assert codes_of(refused) == {"envelope.error"}
        assert "boom" in refused.value.explain() or name == "without anything"


def test_a_message_alone_is_an_error_where_nothing_follows() -> None:
    """It may be a heartbeat's; as the last word of a stream without an end it says why."""
    words = {"message": "still working"}
    reply: Any = exchange_of(CREATED, *HELLO, words, end(text("m", "Hello"))).reply
    assert reply.answer == "Hello"

    with pytest.raises(sr.TransportFailed) as refused:
        exchange_of(CREATED, *HELLO, words)
    assert codes_of(refused) == {"envelope.error"}
    assert "still working" in refused.value.explain()

    with pytest.raises(sr.TransportFailed) as refused:
        exchange_of(CREATED, words, *HELLO)
    assert codes_of(refused) == {"reply.broken_off"}
