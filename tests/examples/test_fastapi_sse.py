"""The example of server-sent events, over real sockets: events, a failure, a browser that leaves.

It needs FastAPI and uvicorn.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import openai
import pytest

import strictreply as sr
from strictreply.testing import ScriptedModel, faults, ok
from support.pages import Page
from support.programs import ran

pytest.importorskip("fastapi", reason="FastAPI is not installed")
uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import fastapi_sse  # noqa: E402 - it imports both

if TYPE_CHECKING:
    from fastapi import FastAPI

pytestmark = pytest.mark.one_lane

PROGRAM = Path(fastapi_sse.__file__)
GUARD = "def main() -> None:"
GOOD = {"text": "Take the green tea.", "products": [7]}
BAD = faults.number_as_text(fastapi_sse.Advice, "/products/0", place="json")
SECONDS = 30.0
"""How long a test waits for what must come, before it fails."""


@asynccontextmanager
async def served(app: FastAPI) -> AsyncGenerator[int]:
    """Serve an app by uvicorn on a free port of loopback."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve([listening]))
        yield listening.getsockname()[1]
        server.should_exit = True
        await serving


@asynccontextmanager
async def asked(port: int) -> AsyncGenerator[asyncio.StreamReader]:
    """Post a question, and read the response; the connection is closed at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"text": "Which tea?"}).encode()
    head = (
        "POST /ask HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    try:
        yield reader
    finally:
        writer.close()
        await writer.wait_closed()


def events_of(model: ScriptedModel, *, max_retries: int = 3) -> list[tuple[str, object]]:
    """Ask the app over a scripted model, and return all events, in order."""

    async def asking() -> str:
        client = sr.wrap(model.async_openai(), answer=fastapi_sse.Advice, max_retries=max_retries)
        async with served(fastapi_sse.create_app(client)) as port, asked(port) as reader:
            return (await reader.read()).decode()

    text = asyncio.run(asking())
    assert "content-type: text/event-stream" in text.lower()
    return [
        (name, json.loads(data)) for name, data in re.findall(r"event: (\w+)\r?\ndata: (.*)", text)
    ]


def test_a_browser_sees_the_reply_and_what_to_discard() -> None:
    """Provisional values come first, a retraction after the bad reply, the accepted one last."""
    told = events_of(ScriptedModel(BAD, ok.answer(GOOD)))
    names = [name for name, _ in told]
    assert (names[0], names[-1], names.count("accepted")) == ("provisional", "accepted", 1)
    assert told[names.index("retracted")] == ("retracted", ["answer.type"])
    assert told[-1] == ("accepted", GOOD)
    assert ("provisional", GOOD) in told[names.index("retracted") :]


def test_a_failure_is_one_event() -> None:
    """When no reply fits, the last event names the reason, with none of the model's words."""
    told = events_of(ScriptedModel(then=BAD), max_retries=1)
    assert told[-1] == ("failed", {"reason": "retries"})
    assert [name for name, _ in told].count("failed") == 1
    assert not any(name == "accepted" for name, _ in told)


def test_an_api_that_is_down_is_an_event() -> None:
    """An error of the API comes in the stream, too, because the response has begun."""
    down = faults.bad_request()
    assert events_of(ScriptedModel(then=down))[-1][0] == "failed"


def test_a_browser_that_leaves_ends_the_generation() -> None:
    """When the browser closes its connection, the request to the API is closed at once."""

    async def leaving() -> bytes:
        left = asyncio.get_running_loop().create_future()

        async def generate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Send the beginning of a reply, and nothing more until the client leaves."""
            await reader.readuntil(b"\r\n\r\n")
            delta = {"role": "assistant", "content": '{"text": "Take'}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            chunk["choices"] = [{"index": 0, "delta": delta}]
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            writer.write(f"data: {json.dumps(chunk)}\n\n".encode())
            # the body of the request, and then the end of the connection
            left.set_result(await reader.read())
            writer.close()

        api = await asyncio.start_server(generate, "127.0.0.1", 0)
        base_url = f"http://127.0.0.1:{api.sockets[0].getsockname()[1]}/v1"
        raw = openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
        app = fastapi_sse.create_app(sr.wrap(raw, answer=fastapi_sse.Advice))

        async with api, served(app) as port:
            async with asked(port) as reader:
                await asyncio.wait_for(reader.readuntil(b"Take"), SECONDS)
                assert not left.done()
            return await asyncio.wait_for(left, SECONDS)

    assert b"messages" in asyncio.run(leaving())


def test_the_program_runs_without_a_key(tmp_path: Path) -> None:
    """Run from anywhere it serves, asks, prints the events and ends."""
    status, stdout, stderr = ran(PROGRAM, tmp_path)
    assert (status, stderr) == (0, "")
    assert re.search(r"event: retracted\ndata: .*\n(.*\n)*\nevent: accepted\n", stdout)


def test_the_page_shows_the_program() -> None:
    """The page shows the example up to its ``main``."""
    shown = Page.named("howto/fastapi.md").programs[0]
    imports_and_app = PROGRAM.read_text("utf-8").partition(GUARD)[0]
    app = imports_and_app[imports_and_app.index("MODEL = ") :]
    assert app.strip() in shown
