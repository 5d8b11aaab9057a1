"""``strictreply batch`` beside a bare asyncio loop over the raw SDK, and one long run.

The long run has a curve of memory.

``python benchmarks/batch.py --rows 1000000`` writes benchmarks/batch.json and prints it as a table.
Both write a line for each row; the bare loop checks nothing, retries nothing and cannot go on after
a kill. The model is ``loopback_model.py`` in a process of its own, which answers after 20 ms.
Blocks of both are interleaved, each in a process of its own; a rate is that of the rows alone,
without the start. On Linux: memory is read from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SHOP = """
from typing import Literal
from pydantic import BaseModel

class Label(BaseModel):
    topic: Literal["delivery", "price"]
"""
BLOCKS = 3
POINTS = 20  # of the curve of memory


def write_rows(path: Path, number: int) -> None:
    """Write rows as somebody has them: an id and a text."""
    with path.open("w") as file:
        for index in range(number):
            text = f"Where is order {index}? It should have come on Monday."
            file.write(json.dumps({"id": index, "text": text}) + "\n")


async def bare(source: Path, out: Path, base_url: str, concurrency: int) -> None:
    """Ask about every row with as many workers, over the SDK as it is."""
    from openai import AsyncOpenAI  # noqa: PLC0415 - the time is measured from here

    schema = {
        "type": "object",
        "properties": {"topic": {"enum": ["delivery", "price"]}},
        "required": ["topic"],
    }
    wanted: Any = {"type": "json_schema", "json_schema": {"name": "Label", "schema": schema}}

    with source.open() as lines, out.open("w") as results:
        async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:

            async def work() -> None:
                for line in lines:
                    row = json.loads(line)
                    messages: Any = [{"role": "user", "content": row["text"]}]
                    done = await client.chat.completions.create(
                        model="m", messages=messages, response_format=wanted
                    )
                    answer = json.loads(done.choices[0].message.content or "")
                    results.write(json.dumps(row | {"answer": answer}) + "\n")
                    results.flush()

            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(work())


def ours(source: Path, out: Path, base_url: str, concurrency: int) -> None:
    """Ask about every row with the command."""
    from strictreply.cli._app import app  # noqa: PLC0415 - the time is measured from here

    given = {
        "out": out,
        "answer": "batch_shop:Label",
        "messages": "text",
        "model": "m",
        "base-url": base_url,
        "concurrency": concurrency,
    }
    options: list[str] = []
    for name, value in given.items():
        options += [f"--{name}", str(value)]
    app(["batch", str(source), *options], standalone_mode=False)


def child(way: str, source: Path, base_url: str, concurrency: int) -> None:
    """Run one way over a file of rows, and print the seconds that it took.

    They are those of the clock, and those of this processor.
    """
    import openai  # noqa: F401, PLC0415 - before the clock starts

    import strictreply.batch  # noqa: PLC0415
    import strictreply.cli._app  # noqa: PLC0415
    import strictreply.cli._batch_command  # noqa: F401, PLC0415

    out = source.with_name(f"{way}.jsonl")
    began = time.perf_counter()
    worked = time.process_time()

    if way == "bare":
        asyncio.run(bare(source, out, base_url, concurrency))
    else:
        ours(source, out, base_url, concurrency)

    print(json.dumps([time.perf_counter() - began, time.process_time() - worked]), file=sys.stderr)


def start(way: str, source: Path, base_url: str, concurrency: int) -> subprocess.Popen[str]:
    """Start one way in a process of its own."""
    for name in (f"{way}.jsonl", f"{way}.jsonl.manifest.json"):
        source.with_name(name).unlink(missing_ok=True)

    words = [sys.executable, __file__, "--child", way, str(source), base_url, str(concurrency)]
    return subprocess.Popen(  # noqa: S603 - this file
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=source.parent
    )


def seconds(process: subprocess.Popen[str]) -> list[float]:
    """Wait for the end of a process; return what it measured."""
    _, told = process.communicate()
    if process.returncode:
        raise SystemExit(told)

    measured: list[float] = json.loads(told.splitlines()[-1])
    return measured


def memory_of(process: subprocess.Popen[str], out: Path, rows: int) -> Iterator[tuple[int, float]]:
    """Yield the resident memory in MB as rows are done, at some points of the run."""
    size = 0.0
    point = 1

    while process.poll() is None:
        time.sleep(0.2)
        try:
            manifest = json.loads(out.with_name(f"{out.name}.manifest.json").read_text())
            status = Path(f"/proc/{process.pid}/status").read_text()
        except (OSError, ValueError):
            continue

        found = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
        size = int(found[0]) / 1024 if found else size
        if manifest["low"] * POINTS >= point * rows:
            point = manifest["low"] * POINTS // rows + 1
            yield manifest["low"], round(size, 1)


def measure(rows: int, compared: int, concurrency: int, delay: float) -> dict[str, Any]:
    """Measure the rates of both, and one long run."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "some.jsonl")
        long = Path(folder, "all.jsonl")
        Path(folder, "batch_shop.py").write_text(SHOP)
        write_rows(source, compared)
        write_rows(long, rows)

        server = [sys.executable, str(HERE / "loopback_model.py"), "--delay", str(delay)]
        with subprocess.Popen(  # noqa: S603 - ours
            server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as model:
            assert model.stdout is not None
            base_url = f"http://127.0.0.1:{int(model.stdout.readline())}/v1"
            blocks: dict[str, list[list[float]]] = {"bare": [], "ours": []}

            for _ in range(BLOCKS):
                for way, measured in blocks.items():
                    measured.append(seconds(start(way, source, base_url, concurrency)))

            process = start("ours", long, base_url, concurrency)
            curve = list(memory_of(process, long.with_name("ours.jsonl"), rows))
            wall, _ = seconds(process)
            model.communicate()

    rates = {way: [compared / wall for wall, _ in measured] for way, measured in blocks.items()}
    cpu = {way: [1e6 * used / compared for _, used in measured] for way, measured in blocks.items()}
    ratios = [mine / raw for mine, raw in zip(rates["ours"], rates["bare"], strict=True)]
    python = platform.python_version()

    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, Python {python}",
        "rows": rows,
        "rows_compared": compared,
        "concurrency": concurrency,
        "server_seconds": delay,
        "bare_rows_per_second": round(statistics.median(rates["bare"])),
        "ours_rows_per_second": round(statistics.median(rates["ours"])),
        "ratio_of_rates": round(statistics.median(ratios), 2),
        "bare_cpu_microseconds_per_row": round(min(cpu["bare"])),
        "ours_cpu_microseconds_per_row": round(min(cpu["ours"])),
        "long_run_seconds": round(wall, 1),
        "long_run_rows_per_second": round(rows / wall),
        "memory_megabytes_at_rows": curve,
    }


def main() -> None:
    """Measure, write the JSON, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the long run")
    parser.add_argument("--compared", type=int, default=4_000, help="rows of a block")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--delay", type=float, default=0.02)
    parser.add_argument("--child", nargs=4)

    options = parser.parse_args()
    if options.child:
        way, source, base_url, concurrency = options.child
        sys.path.insert(0, str(Path.cwd()))
        child(way, Path(source), base_url, int(concurrency))
        return

    measured = measure(options.rows, options.compared, options.concurrency, options.delay)
    (HERE / "batch.json").write_text(json.dumps(measured, indent=2) + "\n")

    for name, value in measured.items():
        print(f"| {name.replace('_', ' ')} | {value} |")


if __name__ == "__main__":
    main()
