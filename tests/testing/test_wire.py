"""Completions and HTTP responses, how requests are routed, and the bytes that leave a server."""

from __future__ import annotations

import json
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from strictreply.core import JSONObject
from strictreply.testing import (
    HTTPReply,
    Pause,
    Responder,
    WireEnding,
    assistant,
    completion,
    error_reply,
    native_call,
)
from strictreply.testing._wire import ending_of, wire
from support.streamed_replies import events
from support.testing.asking import pieces_sent, sent


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (assistant("hi"), "stop"),
        (assistant(None, [native_call("f", "{}")]), "tool_calls"),
        ({}, "stop"),
    ],
)
def test_the_usual_finish_reason_follows_from_the_message(
    message: dict[str, object], reason: str
) -> None:
    """A message with calls ends for them, any other stops; one that is given stays."""
    assert completion(message)["choices"][0]["finish_reason"] == reason
    assert completion(message, finish_reason="length")["choices"][0]["finish_reason"] == "length"


def test_a_completion_is_what_the_sdk_calls_one() -> None:
    """The SDK's strict model takes it, and the tokens add up."""
    parsed = ChatCompletion.model_validate(
        completion(assistant(None, [native_call("f", "{}")]), usage=(3, 4))
    )
    assert parsed.usage is not None
    assert parsed.usage.total_tokens == 7


def test_a_message_names_calls_only_when_there_are_any() -> None:
    """An answer has no member ``tool_calls``; further members stand beside the usual ones."""
    assert "tool_calls" not in assistant("hi")
    assert assistant("hi", reasoning_content="hm")["reasoning_content"] == "hm"


def test_an_error_is_openais() -> None:
    """The body of an error has its four members, the response its status and headers."""
    error = error_reply(
        429, "slow down", kind="rate_limit_error", code="slow", headers={"Retry-After": "7"}
    )
    wanted = {"message": "slow down", "type": "rate_limit_error", "param": None, "code": "slow"}
    assert json.loads(error.body) == {"error": wanted}
    assert (error.status, error.headers) == (
        429,
        {"Content-Type": "application/json", "Retry-After": "7"},
    )


def test_a_body_is_its_parts_without_the_pauses() -> None:
    """Pauses take time and no bytes."""
    assert HTTPReply(parts=(b"a", Pause(1), b"", b"b")).body == b"ab"


GOOD = completion(assistant("hi"))
ASK: JSONObject = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
CHAT_PATH = "/v1/chat/completions"
CUT_SHORT = [WireEnding.CUT, WireEnding.RESET, WireEnding.HANG]


def written(reply: HTTPReply, **options: Any) -> list[bytes | Pause]:
    """Return all bytes that a server sends for a reply."""
    return list(wire(reply, **options))


def posted(responder: Responder, body: bytes, path: str = CHAT_PATH) -> Any:
    """Post a body; gives the response."""
    return sent(responder, "POST", path, body)


def test_a_completion_is_json() -> None:
    """Without ``stream`` it goes out as it is."""
    plain = posted(lambda _: GOOD, json.dumps(ASK).encode())
    assert plain.json() == GOOD
    assert (plain.status_code, plain.headers["Content-Type"]) == (200, "application/json")


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
    """With ``stream`` it goes out as events, each a chunk of the body, with the usage when that is
    asked for.
    """
    request = {**ASK, "stream": True, **options}
    assert pieces_sent(lambda _: GOOD, CHAT_PATH, request) == [*events(GOOD, usage=usage)]
    streamed = posted(lambda _: GOOD, json.dumps(request).encode())
    assert streamed.headers["Content-Type"].startswith("text/event-stream")
    assert streamed.headers["Transfer-Encoding"] == "chunked"


@pytest.mark.parametrize("stream", [True, False])
def test_a_response_passes(stream: bool) -> None:
    """A value that is a response already is sent as it is, whatever was asked for."""
    reply = HTTPReply(502, {"X-Made": "up"}, (b"<html>",))
    came = posted(lambda _: reply, json.dumps({**ASK, "stream": stream}).encode())
    assert (came.status_code, came.headers["X-Made"], came.content) == (502, "up", b"<html>")


@pytest.mark.parametrize(
    ("reply", "options", "wanted"),
    [
        (
            HTTPReply(200, {}, (b"ab", b"c")),
            {},
            [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", b"ab", b"c"],
        ),
        (HTTPReply(200), {}, [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]),
        (
            HTTPReply(200),
            {"close": True},
            [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"],
        ),
        (
            HTTPReply(200, {"connection": "x"}),
            {"close": True},
            [b"HTTP/1.1 200 OK\r\nconnection: x\r\nContent-Length: 0\r\n\r\n"],
        ),
        (HTTPReply(529, {"A": "b"}), {}, [b"HTTP/1.1 529 \r\nA: b\r\nContent-Length: 0\r\n\r\n"]),
        (HTTPReply(204, {}, (b"x",)), {}, [b"HTTP/1.1 204 No Content\r\n\r\n"]),
        (
            HTTPReply(200, {}, (b"ab",)),
            {"bodiless": True},
            [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"],
        ),
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
        (
            HTTPReply(404, {"A": "b"}, (b"raw", Pause(1)), framing="raw"),
            {"close": True},
            [b"raw", Pause(1)],
        ),
        (HTTPReply(204, {}, (b"r",), framing="raw", endless=True), {"most": 2}, [b"r", b"r", b"r"]),
        (
            HTTPReply(200, endless=True),
            {},
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"],
        ),
    ],
)
def test_the_bytes_of_a_response(
    reply: HTTPReply, options: dict[str, Any], wanted: list[bytes | Pause]
) -> None:
    """Status line, headers, body and framing, and nothing that the reply does not say."""
    assert written(reply, **options) == wanted


@pytest.mark.parametrize("ending", CUT_SHORT)
def test_a_response_that_ends_early_can_be_seen_to(ending: WireEnding) -> None:
    """Its declared length is one more than what comes, its chunks have no last one, and without
    parts nothing comes.
    """
    assert b"Content-Length: 3\r\n" in written(HTTPReply(200, {}, (b"ab",), ending))[0]  # type: ignore[operator]
    assert written(HTTPReply(200, {}, (b"ab",), ending, "chunked"))[-1] == b"2\r\nab\r\n"
    assert written(HTTPReply(200, {}, (), ending)) == []


@pytest.mark.parametrize("ending", CUT_SHORT)
def test_an_ending_that_is_given_follows(ending: WireEnding) -> None:
    """Whatever the framing, a reply ends as it says."""
    for reply in (
        HTTPReply(),
        HTTPReply(framing="raw"),
        HTTPReply(framing="chunked"),
        HTTPReply(endless=True),
    ):
        assert ending_of(HTTPReply(200, {}, (), ending, reply.framing, reply.endless)) is ending


@pytest.mark.parametrize(
    ("reply", "ending"),
    [
        (HTTPReply(), WireEnding.WHOLE),
        (HTTPReply(framing="chunked"), WireEnding.WHOLE),
        (HTTPReply(framing="raw"), WireEnding.CUT),
        (HTTPReply(endless=True), WireEnding.CUT),
    ],
)
def test_a_whole_response_leaves_the_connection_open_if_it_can(
    reply: HTTPReply, ending: WireEnding
) -> None:
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


def answer(request: JSONObject) -> JSONObject:
    """Answer with the last turn's text."""
    return completion(assistant(request["messages"][-1]["content"]))


def asked(method: str, target: str, body: object = ASK) -> tuple[int, Any]:
    """Make one request; gives the status and the JSON of the response."""
    reply = sent(answer, method, target, json.dumps(body).encode())
    return reply.status_code, reply.json()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/chat/completions",
        "/openai/deployments/m/chat/completions/",
        "/api/v1/models",
    ],
)
def test_any_prefix_will_do(path: str) -> None:
    """The API is found wherever a base URL puts it, with or without a query."""
    method = "GET" if "models" in path else "POST"
    for target in (path, f"{path}?api-version=1"):
        assert asked(method, target)[0] == 200


def test_the_models_are_listed() -> None:
    """One model, whatever model requests name."""
    status, listed = asked("GET", "/v1/models")
    assert (status, [model["id"] for model in listed["data"]]) == (200, ["scripted"])
    assert asked("GET", "/health") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "unknown_url"),
        ("POST", "/", 404, "unknown_url"),
        ("POST", "/v1/assistants", 404, "unknown_url"),
        ("PUT", "/v1/chat/completions", 405, "method_not_allowed"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
    ],
)
def test_what_is_not_served_says_what_is(method: str, path: str, status: int, code: str) -> None:
    """Other paths and methods are refused in OpenAI's shape, and the message names those that are
    served.
    """
    answered, body = asked(method, path)
    assert (answered, body["error"]["code"]) == (status, code)
    assert ("chat/completions" in body["error"]["message"]) is (status == 404)
    assert ("Responses API" in body["error"]["message"]) is path.endswith("responses")


def test_a_wrong_method_is_told_the_right_one() -> None:
    """A 405 carries Allow."""
    assert sent(answer, "GET", CHAT_PATH).headers["Allow"] == "POST"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"{", None),
        (b"[" * 100_000, None),
        (b"\xff", None),
        (b"[]", None),
        (b'{"messages": []}', "model"),
        (b'{"model": 1, "messages": [{}]}', "model"),
        (b'{"model": "m"}', "messages"),
        (b'{"model": "m", "messages": []}', "messages"),
        (b'{"model": "m", "messages": ["hi"]}', "messages"),
    ],
)
def test_a_bad_body_is_refused(body: bytes, param: str | None) -> None:
    """A body that is no request is a 400 in OpenAI's shape with the member at fault, and reaches no
    responder.
    """
    refused = posted(lambda _: pytest.fail("it was asked"), body)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


@pytest.mark.parametrize("member", [{"text": "x"}, {"background": True}])
def test_a_request_that_no_response_answers_is_refused(member: dict[str, Any]) -> None:
    """A Responses request that no reply could honour is a 400, and reaches no responder."""
    body = json.dumps({"model": "m", "input": "hi", **member}).encode()
    refused = posted(lambda _: pytest.fail("it was asked"), body, "/v1/responses")
    assert refused.status_code == 400
    assert next(iter(member)) in refused.json()["error"]["message"]


def test_a_good_body_is_read() -> None:
    """The responder is given the parsed JSON."""
    asked: list[JSONObject] = []

    def answered(request: JSONObject) -> JSONObject:
        asked.append(request)
        return GOOD

    posted(answered, json.dumps(ASK).encode())
    assert asked == [ASK]


def test_streams_are_served() -> None:
    """``stream`` gives the same answer as events."""
    streamed = posted(answer, json.dumps(ASK | {"stream": True}).encode())
    assert streamed.headers["Content-Type"].startswith("text/event-stream")
    assert b'"content": "h"' in streamed.content


def test_a_failing_responder_is_a_500() -> None:
    """An exception of a responder becomes a server error that names its type and nothing else."""

    def crash(request: JSONObject) -> HTTPReply:
        raise KeyError("secret")

    failed = posted(crash, json.dumps(ASK).encode())
    error = failed.json()["error"]
    assert (failed.status_code, error["type"]) == (500, "server_error")
    assert "KeyError" in error["message"]
    assert "secret" not in error["message"]


def test_a_request_that_cannot_be_translated_has_a_response() -> None:
    """Texts that are none, in a request of the Responses API, never raise out of a server's thread
    or a transport.
    """
    item = {"role": "user", "content": [{"type": "input_text", "text": 5}]}
    body = json.dumps({"model": "m", "input": [item]}).encode()
    assert posted(lambda _: GOOD, body, "/v1/responses").status_code == 500
