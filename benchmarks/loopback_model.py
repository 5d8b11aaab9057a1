"""A model on loopback that costs almost nothing.

It is a raw protocol that answers every request after a pause.

``python benchmarks/loopback_model.py --delay 0.02`` prints the port it listens on and serves until
its stdin closes. Every reply is ``{"topic": "price"}``. A first text that holds ``bad`` gets an
invalid reply, a text that holds ``down`` an HTTP 400. ``--log FILE`` appends the last text of each
request, one to a line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any, TextIO

LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def response(content: str) -> bytes:
    """Return a whole HTTP response with a chat completion."""
    message = {"role": "assistant", "content": content}
    completion = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "loopback",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }
    body = json.dumps(completion).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


GOOD = response('{"topic": "price"}')
BAD = response('{"topic": 7}')
DOWN = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 429 Too Many Requests\r\nretry-after-ms: 20\r\ncontent-length: 0\r\n\r\n"


class Model(asyncio.Protocol):
    """Answers the requests of one connection, one after the other."""

    def __init__(self, delay: float, log: TextIO | None, most: int, running: list[int]) -> None:
        self.delay = delay
        self.log = log
        self.most = most
        self.running = running
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        """Take the connection."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer when a request is whole."""
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        size = int(length[1]) if length else 0
        if not separator or len(body) < size:
            return

        self.buffer = body[size:]
        if self.running[0] >= self.most:
            self.transport.write(BUSY)
            return

        self.running[0] += 1
        asyncio.get_running_loop().call_later(self.delay, self.answer, self.chosen(body[:size]))

    def chosen(self, body: bytes) -> bytes:
        """Choose the response, and log what was asked."""
        if self.log is None and b"bad" not in body and b"down" not in body:
            return GOOD

        messages = json.loads(body)["messages"]
        text = messages[-1]["content"]
        if self.log is not None:
            self.log.write(json.dumps(text) + "\n")
            self.log.flush()

        if "down" in text:
            return DOWN
        return BAD if "bad" in text and len(messages) == 1 else GOOD

    def answer(self, written: bytes) -> None:
        """Send a response, unless the caller has gone."""
        self.running[0] -= 1
        if not self.transport.is_closing():
            self.transport.write(written)


async def main() -> None:
    """Serve until stdin closes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay", type=float, default=0.02)
    parser.add_argument("--log", type=Path)
    parser.add_argument(
        "--most", type=int, default=1_000_000, help="requests at once; more are answered with a 429"
    )
    options = parser.parse_args()
    log = None if options.log is None else options.log.open("a", encoding="utf-8")

    loop = asyncio.get_running_loop()
    made = partial(Model, options.delay, log, options.most, [0])
    server = await loop.create_server(made, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)

    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
