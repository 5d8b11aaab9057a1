"""CPU time of one run of the tool loop beside the raw SDK calls that it makes, in the same run.

Run: ``python benchmarks/tool_loop.py``. Three replies call a tool, the fourth is the answer. The
raw side sends the same four requests, with the conversation as it grows, and runs no tool. The
transport is a mock: only our work and the SDK's is measured. Sides are sampled in turn, and the
best samples are compared. Sessions in a file are measured by the clock, since they wait for the
disk: what a turn takes longer, in the median, than one whose session is in memory.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import openai

import strictreply as sr

http: Any = getattr(openai._base_client, "httpx2", None) or openai._base_client.httpx  # noqa: SLF001

ROUNDS = 300
WARM = 20
SESSIONS = 25
TURNS = 4
CALLS = 3
QUESTION = "What is the weather in three towns?"


def look(town: str, days: int = 1) -> str:
    """Look the weather up."""
    return f"{town}: fine for {days} days"


def completion(message: dict[str, Any]) -> bytes:
    """Write a response that holds one message."""
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choice = {
        "index": 0,
        "finish_reason": reason,
        "message": {"role": "assistant", "content": None, **message},
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    response = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    return json.dumps(response).encode()


def call(number: int) -> dict[str, Any]:
    """Write the assistant's turn with one call."""
    arguments = json.dumps({"town": f"town {number}", "days": number + 1})
    function = {"name": "look", "arguments": arguments}
    return {"tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]}


REPLIES = [completion(call(number)) for number in range(CALLS)]
REPLIES.append(completion({"content": "Fine in all three."}))


def handle(request: Any) -> Any:
    """Serve the reply that follows the results which stand behind the last user's turn."""
    told = request.content.rpartition(b'"user"')[2].count(b'"tool_call_id"')
    return http.Response(200, content=REPLIES[told], headers={"content-type": "application/json"})


def sync_client() -> openai.OpenAI:
    """Make an SDK client over the mock transport."""
    transport = http.Client(transport=http.MockTransport(handle))
    return openai.OpenAI(api_key="none", base_url="http://model.invalid/v1", http_client=transport)


def async_client() -> openai.AsyncOpenAI:
    """Make its async twin."""
    transport = http.AsyncClient(transport=http.MockTransport(handle))
    return openai.AsyncOpenAI(
        api_key="none", base_url="http://model.invalid/v1", http_client=transport
    )


def requests() -> list[dict[str, Any]]:
    """List the four requests of one run."""
    tools = [sr.tool(look).definition]
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    sent = []

    for number in range(CALLS + 1):
        sent.append({"model": "m", "messages": list(messages), "tools": tools})
        result = {
            "role": "tool",
            "tool_call_id": f"call_{number}",
            "content": look(f"town {number}", number + 1),
        }
        messages += [{"role": "assistant", "content": None, **call(number)}, result]

    return sent


def sampled(function: Callable[[], object]) -> float:
    """Take one sample: the CPU microseconds of one call."""
    begun = time.process_time()
    function()
    return (time.process_time() - begun) * 1e6


def compared(raw: Callable[[], object], ours: Callable[[], object]) -> tuple[float, float, float]:
    """Sample both in turn.

    Return the best of each, and their ratio: what a busy machine adds is in no best one.
    """
    for function in (raw, ours) * WARM:
        function()

    pairs = [(sampled(raw), sampled(ours)) for _ in range(ROUNDS)]
    by_hand, run = (min(side) for side in zip(*pairs, strict=True))
    return by_hand, run, run / by_hand


def measure_sync() -> tuple[float, float, float]:
    """Compare ``run`` with four raw calls."""
    sent = requests()
    raw = sync_client()
    wrapped = sr.wrap(sync_client(), tools=[look])

    def by_hand() -> None:
        for request in sent:
            raw.chat.completions.create(**request)

    return compared(by_hand, lambda: sr.run(wrapped, QUESTION, model="m"))


def measure_async() -> tuple[float, float, float]:
    """Compare ``arun`` with four raw async calls, both on one event loop."""
    sent = requests()
    raw = async_client()
    wrapped = sr.wrap(async_client(), tools=[look])

    async def by_hand() -> None:
        for request in sent:
            await raw.chat.completions.create(**request)

    async def run() -> None:
        await sr.arun(wrapped, QUESTION, model="m")

    with asyncio.Runner() as runner:
        return compared(lambda: runner.run(by_hand()), lambda: runner.run(run()))


def measure_sessions() -> tuple[float, float, float]:
    """Compare turns that are kept in a file with turns in memory, in wall milliseconds.

    Return the difference, what a plain file of that size takes, and the turn in memory.
    """
    memory = list[float]()
    kept = list[float]()
    plain = list[float]()

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "plain")
        with (
            closing(sr.SQLiteSessionStore(Path(folder, "sessions.sqlite"))) as store,
            file.open("wb") as written,
        ):
            for sessions, walls in ((None, memory), (store, kept)) * SESSIONS:
                client = sr.wrap(sync_client(), tools=[look])
                run = sr.run(client, QUESTION, model="m", sessions=sessions)

                for _ in range(TURNS):
                    begun = time.perf_counter()
                    run = sr.run(client, QUESTION, model="m", after=run)
                    walls.append((time.perf_counter() - begun) * 1e3)

                begun = time.perf_counter()
                written.write(bytes(16_384))  # about what one turn writes
                written.flush()
                os.fsync(written.fileno())
                plain.append((time.perf_counter() - begun) * 1e3)

    in_memory = statistics.median(memory)
    in_file = statistics.median(kept)
    return in_file - in_memory, statistics.median(plain), in_memory


def main() -> None:
    """Print the table."""
    print(
        f"openai {openai.__version__}; CPU microseconds of {CALLS} calls and an answer, best of "
        f"{ROUNDS} samples"
    )
    print("            4 raw      run     x  target")

    for name, measure, target in (("sync", measure_sync, 0.8), ("async", measure_async, 0.95)):
        raw, ours, ratio = measure()
        print(f"{name:<8} {raw:>8.0f} {ours:>8.0f} {ratio:>5.2f} <={target:>5.2f}")

    more, disk, memory = measure_sessions()
    print(
        f"sessions in SQLite: {more:+.1f} ms wall a turn (target <= 5) beside one of {memory:.1f} "
        "ms in memory;"
    )
    print(f"writing and syncing 16 KiB to a plain file on this disk: {disk:.1f} ms")


if __name__ == "__main__":
    main()
