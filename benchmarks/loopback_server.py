"""A server on this machine that answers every request alike, after a delay.

1,000 concurrent calls talk to it.

The first line of stdin is ``{"body": …, "delay": seconds}``; the first line of stdout is the base
URL. It ends when its stdin does, so it never outlives who started it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any


class Answering(asyncio.Protocol):
    """Read requests of one connection one after the other, and answer each after the delay."""

    def __init__(self, response: bytes, delay: float) -> None:
        """Keep the whole response, head and body."""
        self.response = response
        self.delay = delay
        self.received = bytearray()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer when a request is whole."""
        self.received += data
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return

        lines = bytes(self.received[:end]).lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        if len(self.received) >= end + 4 + length:
            del self.received[: end + 4 + length]
            asyncio.get_running_loop().call_later(self.delay, self._answer)

    def _answer(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(self.response)


async def main() -> None:
    """Serve until stdin ends."""
    told = json.loads(sys.stdin.readline())
    body = told["body"].encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    response = head % len(body) + body

    def answering() -> Answering:
        return Answering(response, told["delay"])

    loop = asyncio.get_running_loop()
    server = await loop.create_server(answering, "127.0.0.1", 0, backlog=2048)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)

    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(main())
