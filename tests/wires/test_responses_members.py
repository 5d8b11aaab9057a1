"""Members that the API always writes, and servers leave out: programs find them all the same."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import strictreply as sr
from support.scripted import SCHEMA, Server
from support.scripted_responses import FLAT_SEARCH, wrap
from support.streamed_replies import ONCE
from wires.test_responses_attacks import (
    BOTH,
    CREATED,
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

ASK: dict[str, Any] = {"model": "m", "input": "x", "tools": [FLAT_SEARCH]}
HELLO = text("m", "Hello")
CALL = item("a", TEA)
THOUGHT: dict[str, Any] = {"type": "reasoning", "id": "r"}
SPOKEN = {"text": HELLO, "call": CALL}


def without(of: dict[str, Any], *names: str, null: bool = False) -> dict[str, Any]:
    """An object without some members, or with null for them."""
    left = {name: value for name, value in of.items() if name not in names}
    return left | dict.fromkeys(names if null else ())


def handed_on(sent: dict[str, Any], *, is_streamed: bool, is_async: bool = False) -> Any:
    """The response that the drop-in gives, of a body or of a stream that only ends with it."""
    asked = ASK | {"stream": is_streamed}
    server = Server(body(CREATED, told("completed", response=sent)) if is_streamed else sent)
    if not is_async:
        came = wrap(server.client(), policy=ONCE).responses.create(**asked)
        return list(came)[-1].response if is_streamed else came

    async def main() -> Any:
        came = await wrap(server.async_client(), policy=ONCE).responses.create(**asked)
        return [one async for one in came][-1].response if is_streamed else came

    return asyncio.run(main())


MEMBERS = ("created_at", "object", "status")


@BOTH
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("null", [False, True], ids=["missing", "null"])
@pytest.mark.parametrize("spoken", SPOKEN)
@pytest.mark.parametrize("names", [*((one,) for one in MEMBERS), MEMBERS], ids=str)
def test_a_response_has_what_the_api_says_around_it(
    names: tuple[str, ...], spoken: str, null: bool, is_async: bool, is_streamed: bool
) -> None:
    """A time that is a number, its object, and the status of one that completed."""
    sent = without(whole(SPOKEN[spoken]), *names, null=null)
    given = handed_on(sent, is_streamed=is_streamed, is_async=is_async)
    expected = {"created_at": 0, "object": "response", "status": "completed"}
    told_around = whole() | {name: expected[name] for name in names}
    assert [getattr(given, name) for name in MEMBERS] == [told_around[name] for name in MEMBERS]
    assert given.output_text == ("Hello" if spoken == "text" else "")
    assert [one.to_dict() for one in given.output] == [SPOKEN[spoken]]


@BOTH
def test_the_time_of_a_completion_is_that_of_the_response(is_streamed: bool) -> None:
    """Servers that write chat completions have the time under ``created``."""
    sent = without(whole(HELLO), "created_at") | {"created": 1_767_225_600}
    assert handed_on(sent, is_streamed=is_streamed).created_at == 1_767_225_600


@BOTH
@pytest.mark.parametrize("names", [("id",), ("model",), ("id", "model")], ids=str)
def test_no_id_and_no_model_are_made_up(names: tuple[str, ...], is_streamed: bool) -> None:
    """The server knows no response of another id, so a request that names it would be refused."""
    sent = without(whole(HELLO), *names)
    server = Server(body(told("completed", response=sent)) if is_streamed else sent)
    came = wrap(server.client(), policy=ONCE).responses.create(**ASK, stream=is_streamed)
    given = list(came)[-1].response if is_streamed else came
    assert [getattr(given, name) for name in names] == [None] * len(names)
    assert given.output_text == "Hello"


ITEMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a message without a role": (without(HELLO, "role"), HELLO),
    "a message without content": (without(text("n"), "content"), text("n")),
    "a message with null as its content": (text("n") | {"content": None}, text("n")),
    "a text without annotations": (
        HELLO | {"content": [{"type": "output_text", "text": "Hello"}]},
        HELLO,
    ),
    "a text that is null": (
        text("n") | {"content": [{"type": "output_text", "text": None, "annotations": []}]},
        text("n", ""),
    ),
    "an empty part": (HELLO | {"content": [{}, *HELLO["content"]]}, HELLO),
    "a part that is null": (HELLO | {"content": [*HELLO["content"], None]}, HELLO),
    "a part of nulls": (HELLO | {"content": [{"type": None, "text": ""}]}, text("m")),
    "a thought without a summary": (THOUGHT, THOUGHT | {"summary": []}),
    "a message with a blank role": (HELLO | {"role": ""}, HELLO),
    "a message with a blank text as its content": (text("n") | {"content": ""}, text("n")),
    "a message with an empty object as its content": (text("n") | {"content": {}}, text("n")),
    "a text with a blank text as its annotations": (
        HELLO | {"content": [{"type": "output_text", "text": "Hello", "annotations": ""}]},
        HELLO,
    ),
    "a text that is an empty list": (
        text("n") | {"content": [{"type": "output_text", "text": [], "annotations": {}}]},
        text("n", ""),
    ),
    "a thought with a blank summary": (THOUGHT | {"summary": ""}, THOUGHT | {"summary": []}),
}


@BOTH
@pytest.mark.parametrize("name", ITEMS)
def test_an_item_has_what_the_api_says_in_it(name: str, is_streamed: bool) -> None:
    """The SDK's own ``output_text`` and ``parse`` raise a TypeError without."""
    came, expected = ITEMS[name]
    given = handed_on(whole(came, CALL), is_streamed=is_streamed)
    assert [one.to_dict() for one in given.output] == [expected, CALL]
    assert given.output_text == ("Hello" if expected == HELLO else "")

    server = Server(whole(came, CALL))
    strict = {**FLAT_SEARCH, "strict": True}
    parsed = wrap(server.client(), policy=ONCE).responses.parse(**ASK | {"tools": [strict]})
    assert parsed.output[1].parsed_arguments == json.loads(TEA)


NOTHING: dict[str, Any] = {
    "empty": {},
    "null": None,
    "blank": {"type": None, "id": "", "content": []},
}


@BOTH
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("spoken", SPOKEN)
@pytest.mark.parametrize("name", NOTHING)
def test_an_item_that_says_nothing_is_none(
    name: str, spoken: str, is_first: bool, is_streamed: bool
) -> None:
    """The reply is that of the others, and the item is not handed on."""
    item_ = SPOKEN[spoken]
    output = [NOTHING[name], item_] if is_first else [item_, NOTHING[name]]
    given = handed_on(whole(*output), is_streamed=is_streamed)
    assert [one.to_dict() for one in given.output] == [item_]


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_but_such_items_is_an_empty_reply(name: str) -> None:
    """It is retried as one, since the model can answer."""
    client = wrap(Server(whole(NOTHING[name]), whole(HELLO)).client())
    exchange = client.exchange(model="m", input="x", api="responses")
    assert [one.code for one in exchange.attempts[0].issues] == ["reply.empty"]
    assert exchange.reply.answer == "Hello"


@pytest.mark.parametrize("sent", [{"id": "x"}, {"type": "", "text": "Hello"}, [], "", 0, False])
def test_an_item_that_says_something_has_a_type(sent: Any) -> None:
    """What it is cannot be told, so that it is refused."""
    client = wrap(Server(whole(sent, HELLO)).client(), policy=ONCE)
    with pytest.raises(sr.TransportFailed) as refused:
        client.responses.create(**ASK)

    assert codes_of(refused) == {"envelope.malformed"}


BARE: dict[str, Any] = {
    "a time": without(whole(HELLO), "created_at"),
    "an object": without(whole(HELLO), "object"),
    "a status": without(whole(HELLO), "status"),
    "annotations": whole(HELLO | {"content": [{"type": "output_text", "text": "Hello"}]}),
    "a blank time": whole(HELLO) | {"created_at": ""},
    "a blank status": whole(HELLO) | {"status": ""},
    "an item": whole({}, HELLO),
    "a part": whole(HELLO | {"content": [{}, *HELLO["content"]]}),
}


@BOTH
@pytest.mark.parametrize("name", BARE)
def test_the_row_is_recorded_and_a_strict_reading_refuses_it(name: str, is_streamed: bool) -> None:
    """The typed doors and the drop-in alike."""
    search = sr.Tool.from_json_schema("search", SCHEMA)
    row = "item_empty" if name in ("an item", "a part") else "member_missing"
    sent = [body(CREATED, told("completed", response=BARE[name]))] if is_streamed else [BARE[name]]
    held: dict[str, Any] = {"tools": [search], "api": "responses", "policy": ONCE}
    ask = {"model": "m", "input": "x"}

    def exchange(**more: Any) -> sr.Exchange[Any]:
        client: Any = wrap(Server(*sent).client(), **held, **more)
        if not is_streamed:
            return client.exchange(**ask)  # type: ignore[no-any-return]

        with client.stream(**ask) as stream:
            for _ in stream:
                pass
        return stream.exchange  # type: ignore[no-any-return]

    assert row in exchange().attempts[-1].lenient
    with pytest.raises(sr.CallFailed) as refused:
        exchange(dialects="strict")

    assert codes_of(refused) <= {"envelope.malformed", "reply.content"}


T = text_events()
C = call_events()


@pytest.mark.parametrize("bare", [..., None])
@pytest.mark.parametrize("own", ["m", "n"])
def test_a_message_without_an_id_at_first_has_one_in_the_response(bare: Any, own: str) -> None:
    """A live text goes out before its id is known: its events are of one item to the SDK's own
    ``stream``, and the response has the id.
    """
    begun = without(T[0]["item"], "id") if bare is ... else T[0]["item"] | {"id": bare}
    events = [CREATED, T[0] | {"item": begun}, *T[1:6], T[6] | {"item": HELLO | {"id": own}}]
    server = Server(body(*events, end(HELLO)))
    with wrap(server.client()).responses.stream(model="m", input="x") as stream:
        response = stream.get_final_response()

    assert response.output_text == "Hello"
    assert [one.to_dict()["id"] for one in response.output] == [HELLO["id"]]


BEGUN = told("created", response=without(whole(), "created_at", "status", "object"))
STREAMS: dict[str, list[dict[str, Any]]] = {
    "a beginning": [BEGUN, *T, end(HELLO)],
    "a part": [
        CREATED,
        T[0],
        T[1] | {"part": {"type": "output_text"}},
        *T[2:5],
        T[5] | {"part": {"type": "output_text", "text": "Hello"}},
        T[6],
        end(HELLO),
    ],
    "a message": [
        CREATED,
        T[0] | {"item": without(text("m"), "content", "role")},
        *T[1:6],
        T[6] | {"item": HELLO | {"content": [{"type": "output_text", "text": "Hello"}]}},
        end(HELLO),
    ],
    "a beginning with a blank time": [
        told("created", response=whole() | {"created_at": "", "status": "", "object": {}}),
        *T,
        end(HELLO),
    ],
    "a message with a blank content": [
        CREATED,
        T[0] | {"item": text("m") | {"content": "", "role": ""}},
        *T[1:],
        end(HELLO),
    ],
    "a call": [CREATED, C[0] | {"item": without(C[0]["item"], "arguments")}, *C[1:], end(CALL)],
    "the arguments of a call are null": [
        CREATED,
        C[0] | {"item": C[0]["item"] | {"arguments": None}},
        *C[1:],
        end(CALL),
    ],
}


@pytest.mark.parametrize("name", STREAMS)
def test_each_event_has_what_the_api_says_in_it(name: str) -> None:
    """Frameworks read each event by itself, and the text is live as without."""
    events = STREAMS[name]
    passed = [one.to_dict() for one in events_of(*events)]
    plain = [CREATED, *(C if "call" in name else T), end(CALL if "call" in name else HELLO)]
    usual = [one.to_dict() for one in events_of(*plain)]
    for one in (*passed, *usual):
        if one["type"] == "response.created":
            one["response"]["created_at"] = 0

    assert passed == usual
    assert "member_missing" in exchange_of(*events).attempts[-1].lenient


@pytest.mark.parametrize("name", STREAMS)
def test_the_helper_of_the_sdk_takes_the_events(name: str) -> None:
    """Its own accumulator adds pieces to what the first event of an item has."""
    client = wrap(Server(body(*STREAMS[name])).client(), policy=ONCE)
    with client.responses.stream(**ASK) as stream:
        final = stream.get_final_response()

    assert [one.id for one in final.output] == ["a" if "call" in name else "m"]
    assert final.output_text == ("" if "call" in name else "Hello")


def test_an_item_that_is_nested_beyond_reading_is_refused() -> None:
    """A response that a program made may be as deep as memory allows."""
    deep: Any = None
    for _ in range(3_000):
        deep = [deep]

    contract: sr.Contract[Any] = sr.Contract()
    for output in ([{"a": deep}, HELLO], [HELLO | {"content": [{"a": deep}]}]):
        verdict = contract.check(whole(*output))
        assert isinstance(verdict, sr.Invalid)
        assert verdict.issues[0].code in ("envelope.malformed", "reply.content")
