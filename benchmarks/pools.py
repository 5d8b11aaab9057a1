"""Rows that are asked at once through one client, and through clients of 25 rows each.

``python benchmarks/pools.py`` prints a table: what one row costs of this processor, in ms. The
HTTP library goes through all connections of a client for each request, so that the cost of one row
grows with the rows that are under way. Both ways are the row function over sockets: with a client
of the caller's, and without one. The model is ``loopback_model.py`` in a process of its own. Blocks
of both are interleaved, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

from openai import AsyncOpenAI
from pydantic import BaseModel

import strictreply as sr

HERE = Path(__file__).parent
BLOCKS = 3
WAYS = ("one client", "clients of 25")


class Label(BaseModel):
    """What a message is about."""

    topic: Literal["delivery", "price"]


def asked(way: str, concurrency: int, number: int) -> float:
    """Ask about rows, and return the milliseconds of this processor that one of them took."""
    client = AsyncOpenAI if way == WAYS[0] else None
    ask = sr.batch.rows(
        sr.Contract(answer=Label),
        model="m",
        messages="text",
        client=client,
        concurrency=concurrency,
    )
    rows = [{"text": f"Where is order {index}?"} for index in range(number)]
    ask(rows[:concurrency])  # the connections are there

    began = time.process_time()
    done = ask(rows)
    used = time.process_time() - began
    ask.close()

    if {row["status"] for row in done} != {"ok"}:
        raise SystemExit(f"not every row was answered by {way}")
    return 1_000 * used / number


def measure(concurrency: int, number: int, delay: float) -> dict[str, list[float]]:
    """Measure both ways in turn."""
    server = [sys.executable, str(HERE / "loopback_model.py"), "--delay", str(delay)]
    measured: dict[str, list[float]] = {way: [] for way in WAYS}

    with subprocess.Popen(  # noqa: S603 - ours
        server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as model:
        assert model.stdout is not None
        base_url = f"http://127.0.0.1:{int(model.stdout.readline())}/v1"
        env = os.environ | {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none"}

        for _ in range(BLOCKS):
            for way, found in measured.items():
                words = [sys.executable, __file__, "--child", way, str(concurrency), str(number)]
                told = subprocess.check_output(words, env=env, text=True)  # noqa: S603 - this file
                found.append(json.loads(told))

        model.communicate()
    return measured


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[25, 64, 200])
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--delay", type=float, default=0.1)
    parser.add_argument("--child", nargs=3)

    options = parser.parse_args()
    if options.child:
        way, concurrency, number = options.child
        print(json.dumps(asked(way, int(concurrency), int(number))))
        return

    print(f"| rows at once | {' | '.join(f'{way}, ms a row' for way in WAYS)} | ratio |")
    print("| --: | --: | --: | --: |")
    for concurrency in options.concurrency:
        measured = measure(concurrency, options.rows, options.delay)
        one, several = (statistics.median(measured[way]) for way in WAYS)
        print(f"| {concurrency} | {one:.2f} | {several:.2f} | {several / one:.2f} |")


if __name__ == "__main__":
    main()
