"""What reading and checking a reply costs beside ``json.loads`` of the same text: CPU time, medians of one run.

PYTHONPATH=src python benchmarks/reading.py
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from strictreply.reading._decoding import decode
from strictreply.schema import Schema

ROUNDS = 15
ITEM = {
    "type": "object",
    "properties": {
        "sku": {"type": "string"},
        "quantity": {"type": "integer"},
        "price": {"type": "number"},
        "name": {"type": "string"},
        "gift": {"type": "boolean"},
    },
    "required": ["sku", "quantity", "price"],
}
SCHEMA = Schema.compile({"type": "object", "properties": {"items": {"type": "array", "items": ITEM}}})


def order(items: int) -> str:
    """Spell an order of so many items as JSON."""
    lines = [
        {"sku": f"X{number}", "quantity": number, "price": number + 0.5, "name": "a name, as names are", "gift": True}
        for number in range(items)
    ]
    return json.dumps({"items": lines})


def cpu_seconds(work: Callable[[], Any]) -> float:
    """Measure one run."""
    start = time.process_time()
    work()
    return time.process_time() - start


def row(items: int) -> None:
    """Measure one size, the three readings in turn, so that the machine's moods fall on all of them."""
    text = order(items)
    repeat = max(1, 200_000 // len(text))
    works: dict[str, Callable[[], Any]] = {
        "json.loads": lambda: [json.loads(text) for _ in range(repeat)],
        "decode": lambda: [decode(text) for _ in range(repeat)],
        "decode and check": lambda: [SCHEMA.check(decode(text)) for _ in range(repeat)],  # type: ignore[arg-type]
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            seconds[name].append(cpu_seconds(work) / repeat)
    base = statistics.median(seconds["json.loads"])
    cells = [f"{statistics.median(times) / base:5.2f} x" for times in seconds.values()]
    print(f"{len(text):>9,} bytes  {base * 1e6:>9,.1f} µs  " + "  ".join(cells[1:]))


def main() -> None:
    """Print the table."""
    print("           text  json.loads     decode   decode and check")
    for items in (1, 10, 100, 1_000, 10_000):
        row(items)


if __name__ == "__main__":
    main()
