"""What the guard adds to a request through LiteLLM's proxy.

The proxy alone and the proxy with the guard are measured in turn.

Run it in the proxy's environment, on a machine that does nothing else: `make bench-litellm`. Both
proxies run at once, before scripted models on loopback; requests go to one and the other in turn,
so that what the machine does meanwhile hits both. Beside the wall time of each request, the CPU
time of each proxy's process is counted. On a busy machine the wall times say little: then the CPU
time of the guard's own hooks, measured in this process, is what counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import strictreply as sr
from strictreply.integrations.litellm import Guard
from strictreply.testing import ok
from support.gateways.proxy import (  # before litellm: it keeps that from looking prices up
    Proxy,
    running,
)

from litellm.types.utils import ModelResponse  # isort: skip

PARAMETERS: Any = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["query"],
}
SEARCH = sr.Tool.from_json_schema("search", PARAMETERS)
TOOLS: Any = [{"type": "function", "function": {"name": "search", "parameters": PARAMETERS}}]


def asked(proxy: Proxy, key: str, *, stream: bool) -> float:
    """Ask once; return the milliseconds until the reply was whole."""
    began = time.perf_counter()
    messages: Any = [{"role": "user", "content": key}]
    given: Any = proxy.client.chat.completions.create(
        model="own", messages=messages, tools=TOOLS, stream=stream
    )
    for _ in given if stream else ():
        pass
    return (time.perf_counter() - began) * 1000


def cpu_of(proxy: Proxy) -> float:
    """Return the CPU milliseconds that a proxy's process has used."""
    fields = Path(f"/proc/{proxy.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 10.0


def percentile(times: list[float], share: float) -> float:
    """Return a percentile of sorted times."""
    return times[min(len(times) - 1, int(len(times) * share))]


def main() -> None:
    """Measure, and print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--requests", type=int, default=2000, help="to each proxy, plain and streamed"
    )
    count: int = options.parse_args().requests

    hooks = sorted(asyncio.run(of_hooks(count)))
    print(
        f"the guard's hooks, CPU ms a plain request: p50 {hooks[count // 2]:.3f}, "
        f"p99 {percentile(hooks, 0.99):.3f}"
    )

    with ExitStack() as stack:
        proxies: dict[str, Proxy] = {}
        for name in ("the proxy alone", "with the guard"):
            folder = Path(stack.enter_context(TemporaryDirectory()))
            proxy = running(folder, guard=name == "with the guard")
            proxies[name] = stack.enter_context(proxy)

        print("| | p50 ms | p90 ms | p99 ms | CPU ms a request |")
        print("|---|---|---|---|---|")

        for stream in (False, True):
            measured = measure(list(proxies.values()), count, stream=stream)
            for name, (times, cpu) in zip(proxies, measured, strict=True):
                row = (
                    statistics.median(times),
                    percentile(times, 0.9),
                    percentile(times, 0.99),
                    cpu / count,
                )
                cells = " | ".join(f"{value:.2f}" for value in row)
                what = "streamed" if stream else "plain"
                print(f"| {what}, {name} | {cells} |", flush=True)


class Logged:
    """Stands for LiteLLM's log of one call."""


async def of_hooks(count: int) -> list[float]:
    """Return the CPU milliseconds of the guard's hooks, for each of so many good plain replies."""
    guard = Guard(usage_mode="total")
    whole = ModelResponse(**cast("Any", ok.call(SEARCH, query="tea").served))
    taken: list[float] = []

    for _ in range(count):
        tools = json.loads(json.dumps(TOOLS))  # a proxy reads each request anew
        messages = [{"role": "user", "content": "tea"}]
        data = {
            "model": "own",
            "messages": messages,
            "tools": tools,
            "litellm_logging_obj": Logged(),
        }

        began = time.thread_time()
        await guard.async_pre_call_hook(data=data, call_type="acompletion")
        assert await guard.async_post_call_success_hook(data=data, response=whole) is None
        taken.append((time.thread_time() - began) * 1000)

    return taken


def measure(proxies: list[Proxy], count: int, *, stream: bool) -> list[tuple[list[float], float]]:
    """Send requests to the proxies in turn.

    Return for each the sorted times and the CPU time of its process.
    """
    good = ok.call(SEARCH, query="tea").served
    keys = [proxy.upstream.answer(lambda _: good) for proxy in proxies]

    for proxy, key in zip(proxies, keys, strict=True):
        for _ in range(50):
            asked(proxy, key, stream=stream)

    before = [cpu_of(proxy) for proxy in proxies]
    times: list[list[float]] = [[] for _ in proxies]

    for number in range(count):
        order = [0, 1] if number % 2 else [1, 0]
        for which in order:
            times[which].append(asked(proxies[which], keys[which], stream=stream))

    after = [cpu_of(proxy) for proxy in proxies]
    return [
        (sorted(each), then - now) for each, then, now in zip(times, after, before, strict=True)
    ]


if __name__ == "__main__":
    main()
