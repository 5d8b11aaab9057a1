"""Recorded-style streams in every spelling of server-sent events.

They are whole however they come, and nothing when cut.
"""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import openai
import pytest

import strictreply as sr
from support.loops import some
from support.scripted import Server, call, completion
from support.streamed_replies import (
    ASK,
    DONE,
    ONCE,
    SEARCH,
    WEATHER,
    Body,
    chunk,
    end_of,
    event,
    message_of,
    over,
    part,
    read,
)

INVOICE = {
    "type": "object",
    "properties": {
        "total": {"type": "number"},
        "lines": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["total", "lines"],
}
REPLIES: dict[str, dict[str, Any]] = {
    "text": completion("Oh — «tea» is sold out."),
    "a letter": completion("!"),
    "a call": completion(calls=[call("search", {"query": "té", "limit": 5})]),
    "parallel calls": completion(
        calls=[call("search", {"query": "a"}), call("weather", {"city": "Zürich"}, "call_b")]
    ),
    "text and a call": completion("I'll look.\n\n", [call("search", '{ "query" : "\\u00e9\\n" }')]),
    "text and calls": completion(
        "Oh,", [call("search", {"query": ""}), call("weather", {"city": "\r\n"}, "call_b")]
    ),
    "structured": completion('{"total": 1e0, "lines": ["two\\nmugs", ""]}'),
}
SIZES = (1, 5, 1000)


def lines_apart(body: bytes) -> bytes:
    """Spread the data of each event over two lines."""
    return body.replace(b', "object"', b',\ndata: "object"')


def unescaped(line: bytes) -> bytes:
    """Write a line's JSON without escaped letters."""
    if not line.startswith(b"data: {"):
        return line
    return b"data: " + json.dumps(json.loads(line[6:]), ensure_ascii=False).encode() + b"\n"


SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "as the API": bytes,
    "CRLF": lambda body: body.replace(b"\n", b"\r\n"),
    "CR": lambda body: body.replace(b"\n", b"\r"),
    "no blank": lambda body: body.replace(b"data: ", b"data:"),
    "comments": lambda body: b": hi\n\n" + body.replace(b"\n\n", b"\n\n: still there\n\n", 2),
    "other fields": lambda body: body.replace(
        b"data: ", b"event: message\nid: 7\nretry: 10\ndata: "
    ),
    "several lines of data": lines_apart,
    "a byte order mark": lambda body: b"\xef\xbb\xbf" + body,
    "several lines, CRLF": lambda body: lines_apart(body).replace(b"\n", b"\r\n"),
    "letters as they are": lambda body: b"".join(map(unescaped, body.splitlines(keepends=True))),
}


def events_of(reply: dict[str, Any], size: int) -> Iterator[bytes]:
    """The events of a reply whose texts come in deltas of a size."""
    message = reply["choices"][0]["message"]
    content = message["content"]
    calls = message.get("tool_calls") or ()
    yield chunk({"role": "assistant", "content": None if content is None else ""})

    for start in range(0, len(content or ""), size):
        yield chunk({"content": content[start : start + size]})

    for index, one in enumerate(calls):
        text = one["function"]["arguments"]
        yield chunk(part(index, one["id"], name=one["function"]["name"], arguments=""))
        yield from (
            chunk(part(index, arguments=text[at : at + size])) for at in range(0, len(text), size)
        )

    yield chunk({}, reply["choices"][0]["finish_reason"])
    yield event(
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [],
            "usage": None,
        }
    )

    yield DONE


STREAMS = [
    pytest.param(
        reply, spell(b"".join(events_of(REPLIES[reply], size))), id=f"{reply}-{spelling}-{size}"
    )
    for reply in REPLIES
    for spelling, spell in SPELLINGS.items()
    for size in SIZES
]


def served(body: Body, name: str) -> Any:
    """A wrapped client whose server gives a body, once."""
    held: dict[str, Any] = (
        {"answer": INVOICE} if name == "structured" else {"tools": [SEARCH, WEATHER]}
    )
    return sr.wrap(Server(over(body)).client(), policy=ONCE, parallel=True, **held)


def last_cut(body: bytes) -> int:
    """Return from where on a cut leaves the reply whole, before the last bytes of that event."""
    end = end_of(body)
    return len(body[:end].rstrip(b"\r\n"))


ALL_CUTS = bool(os.environ.get("STRICTREPLY_ALL_CUTS"))
"""Whether every stream is cut at every byte: that takes ten minutes."""


def cuts_of(body: bytes, name: str) -> list[int]:
    """Return where a stream is cut.

    It is at some of its lines' ends and beside them, and at some bytes, the same in every run.
    """
    if ALL_CUTS:
        return list(range(len(body)))
    dice = random.Random(name + str(len(body)))
    ends = dice.sample([at for at, byte in enumerate(body) if byte in b"\r\n"], 4)
    return sorted(
        {0, *ends, *(at + 1 for at in ends), *dice.sample(range(len(body)), 6)} - {len(body)}
    )


def refused(body: bytes, cut: int, name: str) -> None:
    """Check one cut stream against the law."""
    told = read(served(Body([body[:cut]]), name))
    assert isinstance(told.error, sr.CallFailed)
    assert isinstance(told.error, openai.OpenAIError)
    assert (told.calls, told.reason, told.usage) == ([], None, None)
    whole = message_of(REPLIES[name]).content
    assert whole.startswith(told.content)
    assert not told.content or name != "structured"


@pytest.mark.one_lane
def test_there_are_two_hundred_streams() -> None:
    """Every reply in every spelling, in deltas of three sizes."""
    assert len(STREAMS) >= 200


@pytest.mark.one_lane
@pytest.mark.parametrize(("name", "body"), STREAMS)
def test_a_cut_stream_is_no_reply(name: str, body: bytes) -> None:
    """Cut anywhere: no finish, no call, at most a text's beginning, and an exception of ours."""
    last = last_cut(body)
    for cut in some(cut for cut in cuts_of(body, name) if cut < last):
        refused(body, cut, name)


@pytest.mark.parametrize(
    ("name", "body"), STREAMS[2 :: len(SIZES) * len(SPELLINGS) * 2 + len(SIZES)]
)
def test_a_stream_cut_at_any_byte_is_no_reply(name: str, body: bytes) -> None:
    """At every byte of some of them, up to the end of the event with the finish reason."""
    for cut in some(range(last_cut(body))):
        refused(body, cut, name)


@pytest.mark.parametrize(
    ("name", "body"), STREAMS[2 :: len(SIZES) * len(SPELLINGS) * 2 + len(SIZES)]
)
def test_a_stream_cut_behind_its_finish_reason_is_whole(name: str, body: bytes) -> None:
    """Wherever it ends then, the reply is the whole one: some servers never send ``[DONE]``."""
    for cut in some(range(end_of(body), len(body) + 1)):
        told = read(served(Body([body[:cut]]), name))
        assert told.error is None
        assert told.outcome == message_of(REPLIES[name]).outcome


@pytest.mark.parametrize(("name", "body"), STREAMS[:: len(SIZES) + 1])
def test_every_chunking_is_the_same_stream(name: str, body: bytes) -> None:
    """In pieces of one byte up, the reply comes out; of what is held nothing before the last event
    has come.
    """
    for size in (1, 2, 7, 64, len(body)):
        came = Body([body[start : start + size] for start in range(0, len(body), size)])
        assert read(served(came, name)).outcome == message_of(REPLIES[name]).outcome


@pytest.mark.parametrize(("name", "body"), STREAMS[1 :: len(SIZES) * 2])
def test_what_is_held_waits_for_the_last_event(name: str, body: bytes) -> None:
    """Before the last line has arrived, no call, no finish and no part of a structured answer is
    delivered.
    """
    came = Body([body[at : at + 1] for at in range(len(body))])
    client = served(came, name)
    for one in some(client.chat.completions.create(**ASK, stream=True)):
        (choice,) = one.choices
        if (
            choice.finish_reason
            or choice.delta.tool_calls
            or (name == "structured" and choice.delta.content)
        ):
            assert came.taken > len(body.rstrip(b"\r\n"))


def endless(count: int, more: bytes) -> Iterator[bytes]:
    """A stream of so many chunks that are alike, and its end."""
    yield chunk({"role": "assistant", "content": ""})
    yield chunk({"content": "Oh, "})
    yield from islice(iter(lambda: more, None), count)
    yield chunk({}, "stop")
    yield DONE


def kept(count: int, more: bytes) -> int:
    """How many bytes are kept at most while so many chunks come."""
    chunks = served(Body(endless(count, more)), "text").chat.completions.create(**ASK, stream=True)
    for _ in islice(chunks, 200):
        pass

    tracemalloc.start()

    try:
        for _ in chunks:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.one_lane
def test_memory_grows_with_the_text_alone() -> None:
    """Of thousands of chunks only the text is kept; comments and empty deltas are not."""
    assert (
        kept(4_000, chunk({"content": "tea "})) - kept(1_000, chunk({"content": "tea "}))
        < 3_000 * 100
    )
    for nothing in (b": still there\n\n", chunk({})):
        assert kept(4_000, nothing) - kept(1_000, nothing) < 16_000
