"""Stream a reply to a browser: FastAPI and server-sent events.

Runs offline: a scripted model stands in for the API. With a key in
OPENAI_API_KEY ``uvicorn --app-dir examples --factory fastapi_sse:app`` serves
a real one.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.client import HTTPConnection

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI
from pydantic import BaseModel

import strictreply as sr
from strictreply.testing import ScriptedModel, faults, ok

MODEL = "gpt-5-mini"
# a proxy in between must not collect what is streamed
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
log = logging.getLogger(__name__)


class Question(BaseModel):
    """What the browser sends."""

    text: str


class Advice(BaseModel):
    """What the model answers."""

    text: str
    products: list[int]


def sse(event: str, data: object) -> str:
    """Write one server-sent event."""
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


async def events(
    client: sr.AsyncStrictClient[Advice], question: str
) -> AsyncGenerator[str]:
    """Ask, and yield the events of the call; the last says if it failed."""
    try:
        async with client.stream(model=MODEL, messages=question) as stream:
            async for update in stream:
                match update:
                    case sr.Provisional(partial=sr.Partial(value=value)):
                        yield sse("provisional", value)
                    case sr.Retracted(issues=issues):
                        yield sse("retracted", [one.code for one in issues])
                    case sr.Accepted(reply=sr.DirectAnswer(answer=advice)):
                        yield sse("accepted", advice.model_dump(mode="json"))
                    case _:
                        pass  # this client has no tools to call
    except sr.CallFailed as error:
        log.warning("%s", error)
        yield sse("failed", {"reason": error.reason})


def create_app(client: sr.AsyncStrictClient[Advice]) -> FastAPI:
    """Build the app; it closes the wrapped client when it shuts down."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with client:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/ask")
    async def ask(question: Question) -> StreamingResponse:
        return StreamingResponse(
            events(client, question.text),
            media_type="text/event-stream",
            headers=HEADERS,
        )

    return app


def app() -> FastAPI:
    """Build the app over the API, for uvicorn's ``--factory``."""
    return create_app(sr.wrap(AsyncOpenAI(), answer=Advice, deadline=60))


def main() -> None:
    """Serve the app over a scripted model, and ask it once."""
    good = ok.answer({"text": "Take the green tea.", "products": [7]})
    bad = faults.number_as_text(Advice, "/products/0", place="json")
    model = ScriptedModel(bad, good)
    client = sr.wrap(model.async_openai(), answer=Advice)
    config = uvicorn.Config(create_app(client), log_level="warning")
    server = uvicorn.Server(config)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        asking = HTTPConnection(*listening.getsockname())
        question = json.dumps({"text": "Which tea do you have?"})
        kind = {"Content-Type": "application/json"}
        asking.request("POST", "/ask", question, kind)
        for line in asking.getresponse():
            print(line.decode(), end="")

        asking.close()
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
