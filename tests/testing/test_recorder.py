"""Recording: the SDK works as before, sync and async.

Each exchange is a line when it ended, however it did.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import strictreply as sr
from strictreply.core import JSON
from strictreply.testing import (
    HTTPReply,
    Responder,
    ScriptedModel,
    WireEnding,
    error_reply,
    ok,
    record,
)
from strictreply.testing.mounting import async_openai_client, openai_client, transport
from support.scripted import http
from support.streamed_replies import CHAT, events
from support.testing.recorded_lines import judged, lines_in


def search(query: str, limit: int = 5) -> None:
    """Search the shop."""


USER: list[Any] = [{"role": "user", "content": "find tea für zwei"}]
TOOLS: list[Any] = [sr.Tool.of(search).definition]
ASK: dict[str, Any] = {"model": "m", "messages": USER, "tools": TOOLS}
GOOD: Any = ok.reply(search).served
PACKED = {"Content-Encoding": "gzip"}


def always(served: JSON | HTTPReply) -> Responder:
    """Serve the same for every request."""
    return lambda _: served


def outcome(call: Any) -> Any:
    """Return the result of a call, or the type of the exception it raised."""
    try:
        return call()
    except (openai.APIError, http.TransportError, http.DecodingError, ValueError) as error:
        return type(error)


def sync_use(responder: Responder, path: Path, **more: Any) -> Any:
    """Make one request through a recorded client, and read what comes to its end."""
    client = record(openai_client(responder, api_key="own-key-hunter2"), path)

    def use() -> Any:
        """Ask."""
        given: Any = client.chat.completions.create(**ASK, **more)
        return [chunk.to_dict() for chunk in given] if more.get("stream") else given.to_dict()

    return outcome(use)


def async_use(responder: Responder, path: Path, **more: Any) -> Any:
    """Do the same with the async client."""
    client = record(async_openai_client(responder, api_key="own-key-hunter2"), path)

    async def use() -> Any:
        """Ask."""
        given: Any = await client.chat.completions.create(**ASK, **more)
        return [chunk.to_dict() async for chunk in given] if more.get("stream") else given.to_dict()

    return outcome(lambda: asyncio.run(use()))


def plain_use(responder: Responder, _: Path, **more: Any) -> Any:
    """Make the same request without recording."""
    given: Any = outcome(lambda: openai_client(responder).chat.completions.create(**ASK, **more))
    if isinstance(given, type):
        return given
    return (
        outcome(lambda: [chunk.to_dict() for chunk in given])
        if more.get("stream")
        else given.to_dict()
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path to record to."""
    return tmp_path / "shop.jsonl"


SERVED: dict[str, JSON | HTTPReply] = {
    "completion": GOOD,
    "refused": error_reply(429, "slow down", headers={"retry-after": "2"}),
    "down": HTTPReply(503, {"Content-Type": "text/html"}, (b"<h1>down</h1>",)),
    "packed": HTTPReply(
        200,
        {"Content-Type": "application/json", **PACKED},
        (gzip.compress(json.dumps(GOOD).encode()),),
    ),
    "not packed": HTTPReply(200, {"Content-Type": "application/json", **PACKED}, (b"{}",)),
    "cut": HTTPReply(200, {"Content-Type": "application/json"}, (b'{"choices": ',), WireEnding.CUT),
    "reset": HTTPReply(
        200, {"Content-Type": "application/json"}, (b'{"choices": ',), WireEnding.RESET
    ),
    "hang": HTTPReply(
        200, {"Content-Type": "application/json"}, (b'{"choices": ',), WireEnding.HANG
    ),
    "never begun": HTTPReply(ending=WireEnding.RESET),
    "never comes": HTTPReply(ending=WireEnding.HANG),
    "no json": HTTPReply(200, {"Content-Type": "application/json"}, (b"{broken",)),
    "bytes": HTTPReply(200, {"Content-Type": "application/json"}, (b"\xff\xfe",)),
    "stream cut": HTTPReply(
        200,
        CHAT.stream_headers,
        (events(GOOD)[0], events(GOOD)[1][:30]),
        WireEnding.RESET,
        "chunked",
    ),
}


@pytest.mark.parametrize("use", [sync_use, async_use], ids=["sync", "async"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("served", SERVED.values(), ids=SERVED)
def test_an_app_sees_no_difference_and_one_line_is_written(
    path: Path, use: Any, stream: bool, served: JSON | HTTPReply
) -> None:
    """The app meets the same as without recording, whatever is served, and the exchange is one
    line.
    """
    more = {"stream": True} if stream else {}
    given = use(always(served), path, **more)
    expected = plain_use(always(served), path, **more)
    assert given == expected
    (line,) = lines_in(path)
    assert line.request == ASK | more
    assert "hunter2" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("use", [sync_use, async_use], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("name", "stream", "ending", "status", "complete"),
    [
        ("completion", False, WireEnding.WHOLE, 200, True),
        ("completion", True, WireEnding.WHOLE, 200, True),
        ("packed", False, WireEnding.WHOLE, 200, True),
        ("refused", False, WireEnding.WHOLE, 429, False),
        ("down", True, WireEnding.WHOLE, 503, False),
        ("cut", False, WireEnding.CUT, 200, False),
        ("reset", False, WireEnding.RESET, 200, False),
        ("hang", False, WireEnding.HANG, 200, False),
        ("never begun", False, WireEnding.RESET, 200, False),
        ("never comes", True, WireEnding.HANG, 200, False),
        ("not packed", False, WireEnding.CUT, 200, False),
        ("no json", False, WireEnding.WHOLE, 200, False),
    ],
)
def test_a_line_says_how_it_ended(
    path: Path, use: Any, name: str, stream: bool, ending: WireEnding, status: int, complete: bool
) -> None:
    """The ending, the status, and the completion where one came: judged, it is what was served."""
    use(always(SERVED[name]), path, **({"stream": True} if stream else {}))
    (line,) = lines_in(path)
    assert (line.ending, line.status) == (ending.value, status)
    assert (line.response is not None) == complete

    if complete:
        assert judged(path) == [[]]


def test_a_packed_body_is_written_unpacked(path: Path) -> None:
    """A recorded line can be read, and holds no secret that packing would hide."""
    body = json.dumps(
        {"error": {"message": "Incorrect API key provided: own-key-hunter2"}}
    ).encode()
    served = HTTPReply(401, {"Content-Type": "application/json", **PACKED}, (gzip.compress(body),))
    assert sync_use(always(served), path) is openai.AuthenticationError
    (line,) = lines_in(path)
    assert b"Incorrect API key provided: [redacted]" in line.body
    assert "content-encoding" not in line.headers


class Held:
    """A body that knows how much of it was read, and whether it was closed."""

    def __init__(self) -> None:
        """Begin."""
        self.read = 0
        self.closed = 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield the events in turn."""
        for event in events(GOOD):
            self.read += 1
            yield event

    async def __aiter__(self) -> Any:
        """Yield the events in turn."""
        for event in self:
            yield event

    def close(self) -> None:
        """Note it."""
        self.closed += 1

    async def aclose(self) -> None:
        """Note it."""
        self.closed += 1


def held() -> tuple[Any, Any]:
    """Make a body, and a transport whose response has it."""
    body: Any = type("HeldBody", (Held, http.SyncByteStream, http.AsyncByteStream), {})()
    headers = {"content-type": "text/event-stream"}
    return body, http.MockTransport(lambda _: http.Response(200, headers=headers, stream=body))


def test_closing_a_stream_closes_it_upstream_at_once(path: Path) -> None:
    """A reader that goes away early ends the response underneath before anything more is read; the
    line is written.
    """
    body, mock = held()
    sdk = openai.OpenAI(
        api_key="none", base_url="http://model.invalid/v1", http_client=http.Client(transport=mock)
    )
    stream = record(sdk, path).chat.completions.create(**ASK, stream=True)
    next(iter(stream))

    assert (path.read_bytes(), body.closed) == (b"", 0)
    stream.close()
    assert (body.read, body.closed) == (1, 1)
    (line,) = lines_in(path)
    assert (line.ending, line.response) == (WireEnding.CUT.value, None)


def test_closing_an_async_stream_closes_it_upstream_at_once(path: Path) -> None:
    """The async client does the same, also when its task is cancelled."""

    async def use() -> Any:
        """Read one chunk, and go."""
        body, mock = held()
        client = http.AsyncClient(transport=mock)
        sdk = openai.AsyncOpenAI(
            api_key="none", base_url="http://model.invalid/v1", http_client=client
        )
        async with await record(sdk, path).chat.completions.create(**ASK, stream=True) as stream:
            await anext(aiter(stream))
            assert (lines(), body.closed) == (0, 0)

        return body

    def lines() -> int:
        """Count what was written."""
        return len(lines_in(path))

    body = asyncio.run(use())
    assert (body.read, body.closed) == (1, 1)
    (line,) = lines_in(path)
    assert (line.ending, line.response) == (WireEnding.CUT.value, None)


def test_nothing_of_the_headers_is_written(path: Path) -> None:
    """Of a request only the body; of a response few headers, and no cookie."""
    headers = {
        "Content-Type": "application/json",
        "Set-Cookie": "session=hunter2",
        "x-request-id": "hunter2",
    }
    client = openai_client(
        always(HTTPReply(200, headers, (json.dumps(GOOD).encode(),))), organization="hunter2"
    )
    record(client, path).chat.completions.create(**ASK, extra_headers={"X-Secret": "hunter2"})
    (line,) = lines_in(path)
    assert set(line.headers) <= {"content-type"}

    assert "hunter2" not in path.read_text(encoding="utf-8")


def test_a_key_that_is_made_for_each_request_is_not_written(path: Path) -> None:
    """The credentials that were really sent are taken out, wherever the client had them from."""
    client = openai_client(
        always(error_reply(401, "Incorrect API key provided: own-key-hunter2")), api_key="other"
    )
    sdk = record(client, path).with_options(
        default_headers={"Authorization": "Bearer own-key-hunter2"}
    )

    with pytest.raises(openai.AuthenticationError):
        sdk.chat.completions.create(**ASK)

    assert "hunter2" not in path.read_text(encoding="utf-8")


def test_a_placeholder_key_spoils_no_recording(path: Path) -> None:
    """Local servers are given a word for a key, which is a word of requests too."""
    client = record(openai_client(always(ok.answer("none").served), api_key="none"), path)
    client.chat.completions.create(**ASK, tool_choice="none")
    (line,) = lines_in(path)
    assert (line.request["tool_choice"], line.response) == ("none", ok.answer("none").served)


def test_the_users_redaction_is_used(path: Path) -> None:
    """``redact`` sees every text of what is written, and nothing of what passes."""
    client = record(
        openai_client(always(GOOD)), path, redact=lambda text: text.replace("tea", "t**")
    )
    given = client.chat.completions.create(**ASK)
    assert given.to_dict()["choices"] == GOOD["choices"]
    assert "tea" not in path.read_text(encoding="utf-8")


def test_what_is_no_chat_completion_passes_by(path: Path) -> None:
    """Models, files and the like work through a recorded client, and are no lines."""
    client = record(openai_client(always(GOOD)), path)
    assert [model.id for model in client.models.list()] == ["scripted"]
    with pytest.raises(openai.NotFoundError):
        client.files.create(file=b"hello", purpose="assistants")
    assert lines_in(path) == []


def test_the_clients_own_settings_stay(path: Path) -> None:
    """Default headers, query and cookies of the HTTP client go out; its hooks may even read the
    response.
    """
    seen: list[Any] = []

    def respond(request: Any) -> Any:
        """Note the request."""
        seen.append(request)
        return transport(always(GOOD)).handler(request)

    client = http.Client(
        transport=http.MockTransport(respond),
        headers={"X-Team": "shop"},
        params={"tier": "1"},
        cookies={"a": "b"},
        event_hooks={"response": [lambda response: response.read()]},
    )
    sdk = openai.OpenAI(
        api_key="none", base_url="http://model.invalid/v1", http_client=client, timeout=7.0
    )
    given = record(sdk, path).chat.completions.create(**ASK)
    assert given.to_dict()["choices"] == GOOD["choices"]

    (request,) = seen
    assert (request.headers["x-team"], request.headers["cookie"], request.url.params["tier"]) == (
        "shop",
        "a=b",
        "1",
    )

    assert request.extensions["timeout"]["read"] == 7.0
    (line,) = lines_in(path)
    assert line.response == GOOD


def test_closing_the_copy_closes_the_client(path: Path) -> None:
    """As with the SDK's own copies, the connections are shared: whoever has only the copy can close
    them.
    """
    client = openai_client(always(GOOD))
    with record(client, path) as copy:
        copy.chat.completions.create(**ASK)
    assert client.is_closed()


def test_closing_the_async_copy_closes_the_client(path: Path) -> None:
    """The async twin does the same."""
    client = async_openai_client(always(GOOD))

    async def use() -> None:
        """Ask once."""
        async with record(client, path) as copy:
            await copy.chat.completions.create(**ASK)

    asyncio.run(use())
    assert client.is_closed()


def test_every_retry_is_a_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that the SDK repeats by itself are recorded as often, in that order."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    steps: list[JSON | HTTPReply] = [error_reply(500, "no", headers={"retry-after-ms": "1"}), GOOD]
    client = record(openai_client(lambda _: steps.pop(0), max_retries=1), path)
    client.chat.completions.create(**ASK)

    assert [line.status for line in lines_in(path)] == [500, 200]


def test_under_wrap_every_attempt_is_a_line(path: Path) -> None:
    """The wrapped client over a recorded one: the bad reply and the good one are both there, and
    judged so.
    """
    from strictreply.testing import faults  # noqa: PLC0415 - the whole catalogue, for one test

    model = ScriptedModel(faults.wrong_type(search, "limit"), ok.call(search, query="tea"))
    client = sr.wrap(record(model.openai(), path), tools=[search])
    assert isinstance(client.reply(model="m", messages=USER), sr.ToolCall)
    assert judged(path) == [["args.type"], []]


def test_a_wrapped_client_is_recorded_below_its_guard(path: Path) -> None:
    """Recording a wrapped client gives a wrapped client, and every request is in the recording."""
    from strictreply.testing import faults  # noqa: PLC0415 - the whole catalogue, for one test

    model = ScriptedModel(faults.wrong_type(search, "limit"), ok.call(search, query="tea"))
    client = record(sr.wrap(model.openai(), tools=[search]), path)
    assert client.chat.completions.create(model="m", messages=USER).choices[0].message.tool_calls
    assert judged(path) == [["args.type"], []]


def test_async_under_wrap(path: Path) -> None:
    """The async twin over a recorded async client."""
    client = sr.wrap(record(async_openai_client(always(GOOD)), path), tools=[search])
    assert isinstance(asyncio.run(client.reply(model="m", messages=USER)), sr.ToolCall)
    assert len(lines_in(path)) == 1


@pytest.mark.parametrize("client", [object(), None, ScriptedModel().client()])
def test_another_client_is_refused(path: Path, client: Any) -> None:
    """Only the SDK's clients can be recorded."""
    with pytest.raises(TypeError, match="OpenAI"):
        record(client, path)


def test_a_path_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    """Not when the first reply has been paid for."""
    with pytest.raises(OSError, match="nowhere"):
        record(openai_client(always(GOOD)), tmp_path / "nowhere" / "shop.jsonl")


@pytest.mark.one_lane
def test_lines_stay_whole_under_threads(path: Path) -> None:
    """Several clients in several threads write to one file, line by line."""
    clients = [
        record(openai_client(always(ok.answer("é" * 20_000).served)), path) for _ in range(2)
    ]

    def work(client: Any) -> None:
        """Ask five times."""
        for _ in range(5):
            client.chat.completions.create(**ASK)

    threads = [threading.Thread(target=work, args=(client,)) for client in clients * 2]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join()

    lines = lines_in(path)
    assert len(lines) == 20
    assert all(line.response == ok.answer("é" * 20_000).served for line in lines)


def test_lines_stay_whole_under_tasks(path: Path) -> None:
    """Tasks that ask at the same time write a line each."""
    client = record(async_openai_client(always(GOOD)), path)

    async def use() -> None:
        """Ask ten times at once, half of them streamed."""

        async def one(number: int) -> None:
            more: Any = {"stream": True} if number % 2 else {}
            given: Any = await client.chat.completions.create(**ASK, **more)
            if number % 2:
                assert [chunk async for chunk in given]

        await asyncio.gather(*(one(number) for number in range(10)))

    asyncio.run(use())
    assert len(lines_in(path)) == 10
