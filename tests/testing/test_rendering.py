"""From what is served to the bytes of a response."""

from __future__ import annotations

import json
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.testing._rendering import ending_of, render, wire
from strictreply.testing._sse import events
from strictreply.testing._wire import Ending, HTTPReply, Pause, assistant, completion

GOOD = completion(assistant("hi"))
CUT_SHORT = [Ending.CUT, Ending.RESET, Ending.HANG]


def sent(reply: HTTPReply, **options: Any) -> list[bytes | Pause]:
    """Give all that leaves a server for a reply."""
    return list(wire(reply, **options))


def test_a_completion_is_json() -> None:
    """Without ``stream`` it goes out as it is."""
    plain = render(GOOD, {})
    assert json.loads(plain.body) == GOOD
    assert (plain.status, plain.headers["Content-Type"]) == (200, "application/json")


@pytest.mark.parametrize(
    ("options", "usage"),
    [
        ({}, False),
        ({"stream_options": None}, False),
        ({"stream_options": "x"}, False),
        ({"stream_options": {"include_usage": False}}, False),
        ({"stream_options": {"include_usage": True}}, True),
    ],
)
def test_a_completion_is_streamed_when_asked_for(options: dict[str, Any], usage: bool) -> None:
    """With ``stream`` it goes out as events, each a chunk of the body, with the usage when that is asked for."""
    streamed = render(GOOD, {"stream": True, **options})
    assert streamed.parts == events(GOOD, usage=usage)
    assert streamed.headers["Content-Type"].startswith("text/event-stream")
    assert streamed.framing == "chunked"


@pytest.mark.parametrize("stream", [True, False])
def test_a_response_passes(stream: bool) -> None:
    """What is a response already is sent as it is, whatever was asked for."""
    reply = HTTPReply(500)
    assert render(reply, {"stream": stream}) is reply


@pytest.mark.parametrize(
    ("reply", "options", "wanted"),
    [
        (HTTPReply(200, {}, (b"ab", b"c")), {}, [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", b"ab", b"c"]),
        (HTTPReply(200), {}, [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]),
        (HTTPReply(200), {"close": True}, [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]),
        (
            HTTPReply(200, {"connection": "x"}),
            {"close": True},
            [b"HTTP/1.1 200 OK\r\nconnection: x\r\nContent-Length: 0\r\n\r\n"],
        ),
        (HTTPReply(529, {"A": "b"}), {}, [b"HTTP/1.1 529 \r\nA: b\r\nContent-Length: 0\r\n\r\n"]),
        (HTTPReply(204, {}, (b"x",)), {}, [b"HTTP/1.1 204 No Content\r\n\r\n"]),
        (HTTPReply(200, {}, (b"ab",)), {"bodiless": True}, [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"]),
        (
            HTTPReply(200, {"content-length": "9"}, (b"ab",)),
            {},
            [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", b"ab"],
        ),
        (
            HTTPReply(200, {}, (b"ab", b"", Pause(1), b"c" * 16), framing="chunked"),
            {},
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"2\r\nab\r\n",
                Pause(1),
                b"10\r\ncccccccccccccccc\r\n",
                b"0\r\n\r\n",
            ],
        ),
        (
            HTTPReply(200, {}, (b"a", Pause(1), b"bc"), endless=True),
            {"most": 7},
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"1\r\na\r\n",
                Pause(1),
                *[b"2\r\nbc\r\n"] * 4,
            ],
        ),
        (HTTPReply(404, {"A": "b"}, (b"raw", Pause(1)), framing="raw"), {"close": True}, [b"raw", Pause(1)]),
        (HTTPReply(204, {}, (b"r",), framing="raw", endless=True), {"most": 2}, [b"r", b"r", b"r"]),
        (HTTPReply(200, endless=True), {}, [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]),
    ],
)
def test_the_bytes_of_a_response(reply: HTTPReply, options: dict[str, Any], wanted: list[bytes | Pause]) -> None:
    """Status line, headers, body and framing, and nothing that the reply does not say."""
    assert sent(reply, **options) == wanted


@pytest.mark.parametrize("ending", CUT_SHORT)
def test_a_response_that_ends_early_can_be_seen_to(ending: Ending) -> None:
    """Its declared length is one more than what comes, its chunks have no last one, and without parts nothing comes."""
    assert b"Content-Length: 3\r\n" in sent(HTTPReply(200, {}, (b"ab",), ending))[0]  # type: ignore[operator]
    assert sent(HTTPReply(200, {}, (b"ab",), ending, "chunked"))[-1] == b"2\r\nab\r\n"
    assert sent(HTTPReply(200, {}, (), ending)) == []


@pytest.mark.parametrize("ending", CUT_SHORT)
def test_an_ending_that_is_given_follows(ending: Ending) -> None:
    """Whatever the framing, a reply ends as it says."""
    for reply in (HTTPReply(), HTTPReply(framing="raw"), HTTPReply(framing="chunked"), HTTPReply(endless=True)):
        assert ending_of(HTTPReply(200, {}, (), ending, reply.framing, reply.endless)) is ending


@pytest.mark.parametrize(
    ("reply", "ending"),
    [
        (HTTPReply(), Ending.WHOLE),
        (HTTPReply(framing="chunked"), Ending.WHOLE),
        (HTTPReply(framing="raw"), Ending.CUT),
        (HTTPReply(endless=True), Ending.CUT),
    ],
)
def test_a_whole_response_leaves_the_connection_open_if_it_can(reply: HTTPReply, ending: Ending) -> None:
    """Of a raw or an endless one only the connection's end tells that it is over."""
    assert ending_of(reply) is ending


def test_an_endless_body_is_lazy() -> None:
    """Its bytes are made as they are taken."""
    endless = wire(HTTPReply(200, {}, (b"x",), endless=True))
    assert [next(endless) for _ in range(3)][1:] == [b"1\r\nx\r\n"] * 2


@given(
    parts=st.lists(st.binary(max_size=8)),
    framing=st.sampled_from(["length", "chunked"]),
    status=st.sampled_from([200, 201, 307, 400, 429, 500, 529]),
)
def test_a_whole_response_is_http(parts: list[bytes], framing: Any, status: int) -> None:
    """An HTTP parser reads status, headers and body back, and the connection can go on."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="POST", target="/", headers=[("Host", "x")]))
    client.send(h11.EndOfMessage())
    for part in wire(HTTPReply(status, {"X-Made": "up"}, tuple(parts), framing=framing)):
        client.receive_data(part)  # type: ignore[arg-type]
    head = client.next_event()
    assert isinstance(head, h11.Response)
    assert head.status_code == status
    assert (b"x-made", b"up") in list(head.headers)
    body = b""
    while isinstance(event := client.next_event(), h11.Data):
        body += event.data
    assert body == b"".join(parts)
    client.start_next_cycle()
