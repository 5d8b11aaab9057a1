"""A structured answer that a server sends as an object, not as its JSON text."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import strictreply as sr
from support.scripted import Server, completion
from support.streamed_replies import ASK, DONE, ONCE, Body, chunk, over

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "pages": {"type": "integer"}},
    "required": ["title"],
}
BOOK: dict[str, Any] = {"title": "Tea", "pages": 3}
NAMED = {
    "type": "json_schema",
    "json_schema": {"name": "book", "schema": SCHEMA},
}


def whole(content: Any) -> dict[str, Any]:
    """A completion with this content, as Cloudflare's Workers AI sends it."""
    made = completion("")
    made["choices"][0]["message"] = {"role": "assistant", "content": content, "refusal": None}
    return made


def streamed(*contents: Any) -> Any:
    """The same in a stream."""
    pieces = [chunk({"content": one}) for one in contents]
    return over(Body([chunk({"role": "assistant"}), *pieces, chunk({}, "stop"), DONE]))


def exchanged(*contents: Any, is_stream: bool, is_async: bool = False, **declared: Any) -> Any:
    """Make one call, and return its exchange."""
    server = Server(streamed(*contents) if is_stream else whole(*contents))
    if is_async:
        return asyncio.run(_exchanged(sr.wrap(server.async_client(), policy=ONCE, **declared)))

    client: Any = sr.wrap(server.client(), policy=ONCE, **declared)
    if not is_stream:
        return client.exchange(**ASK)

    with client.stream(**ASK) as events:
        for _ in events:
            pass

    return events.exchange


async def _exchanged(client: Any) -> Any:
    return await client.exchange(**ASK)


both = pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])


@both
def test_an_object_is_the_json_of_an_answer(is_stream: bool) -> None:
    """It is the answer, the attempt names the row, and a strict reading refuses it."""
    exchange = exchanged(BOOK, is_stream=is_stream, answer=SCHEMA)
    assert exchange.reply == sr.DirectAnswer(BOOK)
    assert exchange.attempts[0].lenient == ("content_object",)

    with pytest.raises(sr.ReplyRejected) as raised:
        exchanged(BOOK, is_stream=is_stream, answer=SCHEMA, dialects="strict")

    (attempt,) = raised.value.attempts
    assert [(issue.code, issue.path) for issue in attempt.issues] == [("reply.content", "/content")]
    assert attempt.lenient == ()


def test_an_async_client_reads_it_alike() -> None:
    """The twin of the sync client."""
    exchange = exchanged(BOOK, is_stream=False, is_async=True, answer=SCHEMA)
    assert exchange.reply == sr.DirectAnswer(BOOK)


@both
@pytest.mark.parametrize("format_", [NAMED, {"type": "json_object"}], ids=["schema", "object"])
def test_the_drop_in_gets_its_text(is_stream: bool, format_: Any) -> None:
    """With a ``response_format`` of JSON the caller gets the text that the API would have sent."""
    client = sr.wrap(Server(streamed(BOOK) if is_stream else whole(BOOK)).client(), policy=ONCE)
    given: Any = client.chat.completions.create(**ASK, response_format=format_, stream=is_stream)
    if is_stream:
        text = "".join(one.choices[0].delta.content or "" for one in given)
    else:
        text = given.choices[0].message.content

    assert text == '{"title":"Tea","pages":3}'


@both
def test_it_is_judged_like_a_text(is_stream: bool) -> None:
    """Its faults are those of the JSON."""
    with pytest.raises(sr.ReplyRejected) as raised:
        exchanged({"title": 1}, is_stream=is_stream, answer=SCHEMA)

    (issue,) = raised.value.issues
    assert (issue.code, issue.path) == ("answer.type", "/content/title")


@both
def test_an_object_is_no_text(is_stream: bool) -> None:
    """Where an answer is any text, an object is refused."""
    with pytest.raises(sr.ReplyRejected) as raised:
        exchanged(BOOK, is_stream=is_stream)

    assert [issue.code for issue in raised.value.issues] == ["reply.content"]


def test_in_the_text_channel_it_is_the_union() -> None:
    """There every reply is a JSON object."""
    union = {"answer": BOOK}
    exchange = exchanged(union, is_stream=False, answer=SCHEMA, channel="text")
    assert exchange.reply == sr.DirectAnswer(BOOK)


@pytest.mark.parametrize(
    "contents", [("{", BOOK), (BOOK, "}"), (BOOK, BOOK)], ids=["before", "behind", "twice"]
)
def test_an_object_beside_anything_else_is_refused(contents: tuple[Any, ...]) -> None:
    """Two pieces of which one is an object have no one meaning."""
    with pytest.raises(sr.ReplyRejected) as raised:
        exchanged(*contents, is_stream=True, answer=SCHEMA)

    assert [issue.code for issue in raised.value.issues] == ["reply.content"]
