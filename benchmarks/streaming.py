"""All figures of streams.

They are what a guarded one costs beside the raw SDK's in the same run, and what the early stop
does.

Run: ``make streams``, which has llguidance; ``python benchmarks/streaming.py [beginnings]`` does
without. The transport is a mock whose pieces hold one event each: only our work and the SDK's is
measured. The early stop's part is ``early_stop.py``.
"""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import openai
from early_stop import figures

import strictreply as sr

http: Any = getattr(openai._base_client, "httpx2", None) or openai._base_client.httpx  # noqa: SLF001

ROUNDS = 7
BEGINNINGS = 1_000_000
SIZES = (500, 2000, 8000)
ASKED: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
}


def search(query: str, limit: int = 5) -> str:
    """Find things by name."""
    return f"{query} {limit}"


class Pieces(http.SyncByteStream):  # type: ignore[misc]  # the SDK's HTTP library, whichever it is
    """A body that comes event by event."""

    def __init__(self, events: list[bytes]) -> None:
        """Keep the events."""
        self.events = events

    def __iter__(self) -> Iterator[bytes]:
        """Yield one event after the other."""
        yield from self.events


def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
    """Write a chunk as OpenAI's servers do."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    chunk = {
        "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
        "object": "chat.completion.chunk",
        "created": 1741570283,
        "model": "gpt-4o-2024-08-06",
        "service_tier": "default",
        "system_fingerprint": "fp_fc9f1d7035",
        "choices": [choice],
        "usage": None,
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def text(size: int) -> list[bytes]:
    """Return a stream of a text answer."""
    opening = event({"role": "assistant", "content": ""})
    words = [event({"content": " word"}) for _ in range(size)]
    return [opening, *words, event({}, "stop"), b"data: [DONE]\n\n"]


def call(size: int) -> list[bytes]:
    """Return a stream of one call."""
    arguments = json.dumps({"query": "word " * size, "limit": 3})
    width = -(-len(arguments) // size)
    opening = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "search", "arguments": ""},
    }

    head = [event({"role": "assistant", "content": None}), event({"tool_calls": [opening]})]
    parts = [arguments[start : start + width] for start in range(0, len(arguments), width)]
    deltas = [
        event({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}) for part in parts
    ]
    return [*head, *deltas, event({}, "tool_calls"), b"data: [DONE]\n\n"]


def client_over(events: list[bytes]) -> openai.OpenAI:
    """Make an SDK client whose server streams these events."""

    def handle(_: Any) -> Any:
        return http.Response(
            200, stream=Pieces(events), headers={"content-type": "text/event-stream"}
        )

    transport = http.Client(transport=http.MockTransport(handle))
    return openai.OpenAI(
        api_key="none", base_url="http://model.invalid/v1", http_client=transport, max_retries=0
    )


def read(client: openai.OpenAI) -> float:
    """Read a stream to its end; return its CPU time in seconds."""
    start = time.process_time()
    for _ in client.chat.completions.create(**ASKED):
        pass
    return time.process_time() - start


def peak(client: openai.OpenAI) -> int:
    """Return the most memory that reading a stream held, in bytes."""
    read(client)
    tracemalloc.start()
    read(client)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def main() -> None:
    """Print the tables."""
    costs()
    print()
    memory()
    print()
    figures(int(sys.argv[1]) if len(sys.argv) > 1 else BEGINNINGS)


def costs() -> None:
    """Print the CPU time of a chunk, the best of interleaved rounds, the early stop on."""
    print("| stream | chunks | raw, µs a chunk | wrapped, µs a chunk | more, µs | ratio |")
    print("| --- | --: | --: | --: | --: | --: |")

    for name, make in (("text, live", text), ("one call, held", call)):
        for size in SIZES:
            raw = client_over(make(size))
            wrapped = sr.wrap(client_over(make(size)), tools=[search])
            best = [float("inf"), float("inf")]

            for _ in range(ROUNDS):
                for index, client in enumerate((raw, wrapped)):
                    best[index] = min(best[index], read(client) / size * 1e6)

            more = best[1] - best[0]
            print(
                f"| {name} | {size} | {best[0]:.1f} | {best[1]:.1f} | {more:.1f} | "
                f"{best[1] / best[0]:.2f} |"
            )

    print(
        "\nCheap: text is wanted at 15 µs a chunk over the raw stream at most, flat from 500 to "
        "8,000 chunks."
    )


def memory() -> None:
    """Print the most memory that a stream takes.

    A guarded one keeps the reply, which is judged at its end.
    """
    print("| stream | chunks | raw, peak KiB | wrapped, peak KiB |")
    print("| --- | --: | --: | --: |")
    for name, make in (("text, live", text), ("one call, held", call)):
        for size in SIZES:
            raw = client_over(make(size))
            wrapped = sr.wrap(client_over(make(size)), tools=[search])
            print(f"| {name} | {size} | {peak(raw) / 1024:.0f} | {peak(wrapped) / 1024:.0f} |")


if __name__ == "__main__":
    main()
