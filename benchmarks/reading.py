"""What reading and checking a reply costs beside ``json.loads`` and pydantic.

It is CPU time, medians of interleaved rounds.

PYTHONPATH=src python benchmarks/reading.py
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jiter
from pydantic import BaseModel

from strictreply import Contract
from strictreply.contract._channels import judge_args
from strictreply.core import Work, decode

ROUNDS = 15


def order(items: int) -> str:
    """Write an order of so many items as JSON."""
    lines = [
        {
            "sku": f"X{number}",
            "quantity": number,
            "price": number + 0.5,
            "name": "a name, as names are",
            "gift": True,
        }
        for number in range(items)
    ]
    return json.dumps({"items": lines})


def cpu_seconds(work: Callable[[], Any], repeat: int) -> float:
    """Measure so many runs in a row."""
    start = time.process_time()
    for _ in range(repeat):
        work()
    return time.process_time() - start


class Item(BaseModel):
    """An item of an order."""

    sku: str
    quantity: int
    price: float
    name: str = ""
    gift: bool = False


class Order(BaseModel):
    """An order."""

    items: list[Item]


AS_MODEL: Contract[Any] = Contract(tools=[Order])
FUNCTION = {"name": "Order", "parameters": Order.model_json_schema()}
AS_DICT: Contract[Any] = Contract(tools=[{"type": "function", "function": FUNCTION}])


def arguments_of(contract: Contract[Any], text: str) -> Any:
    """Read, check and build the arguments of a call, as a reply's are."""
    return judge_args(contract, "Order", decode(text), at="", call_id=None, work=Work())  # type: ignore[arg-type]


def row(items: int) -> None:
    """Measure one size, the readings in turn, so that noise of the machine falls on all of them."""
    text = order(items)
    encoded = text.encode()
    value = decode(text)
    repeat = max(1, 200_000 // len(text))
    works: dict[str, Callable[[], Any]] = {
        "json.loads": lambda: json.loads(text),
        "pydantic": lambda: Order.model_validate_json(text),
        "jiter": lambda: jiter.from_json(
            encoded, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys"
        ),
        "decode": lambda: decode(text),
        "check": lambda: AS_DICT.by_name["Order"].parameters.check(value),  # type: ignore[arg-type]
        "dict": lambda: arguments_of(AS_DICT, text),
        "typed": lambda: arguments_of(AS_MODEL, text),
    }
    seconds: dict[str, list[float]] = {name: [] for name in works}

    for _ in range(ROUNDS):
        for name, work in works.items():
            taken = cpu_seconds(work, repeat)
            seconds[name].append(taken / repeat)

    median = {name: statistics.median(times) for name, times in seconds.items()}
    loads = median["json.loads"]
    of_loads = [f"{median[name] / loads:.2f} x" for name in ("jiter", "decode", "check", "dict")]
    cells = [f"{len(text):,}", f"{loads * 1e6:,.1f} µs", *of_loads]
    print(f"| {' | '.join(cells)} | {median['typed'] / median['pydantic']:.2f} x |")


def main() -> None:
    """Print the table."""
    print(
        "| bytes | json.loads | jiter | decode | check | arguments as a dict | typed, of pydantic "
        "alone |"
    )
    print("| --: | --: | --: | --: | --: | --: | --: |")
    for items in (1, 10, 100, 1_000, 9_000):
        row(items)

    print("\nWanted: as a dict 1.3 x at 0.9 MB and 2 x at 1 kB; typed 1.25 x at 0.9 MB.")


if __name__ == "__main__":
    main()
