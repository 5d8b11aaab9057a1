"""The tasks of the measurement, and the rows of each: texts that a seeded generator makes.

``python benchmarks/recovery/tasks.py`` writes rows.jsonl anew; the same seed gives the same rows.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

import strictreply as sr

ROWS = Path(__file__).with_name("rows.jsonl")
SEED = 33

_NAMES = ("Anna Weber", "Jonas Lind", "Mara Costa", "Peter Novak", "Lea Martin", "Omar Haddad")
_CITIES = ("Oslo", "Porto", "Graz", "Leeds", "Turin", "Ghent", "Lyon", "Krakow")
_GOODS = ("lamp", "kettle", "desk chair", "backpack", "tent", "mug", "carpet", "mirror")
_TOPICS = ("billing", "delivery", "quality")


class Order(BaseModel):
    """An order that a customer writes of."""

    customer: str
    product: str
    quantity: int
    city: str
    urgent: bool


class Buyer(BaseModel):
    """Who buys."""

    name: str
    city: str


class Line(BaseModel):
    """One line of an invoice."""

    product: str
    quantity: int
    price: float


class Invoice(BaseModel):
    """An invoice."""

    buyer: Buyer
    lines: Annotated[list[Line], Field(max_length=3)]
    currency: Literal["EUR", "USD"]
    paid: bool


def track_parcel(number: int, postcode: str) -> str:
    """Look up where a parcel is."""
    return f"{number} to {postcode}"


def open_ticket(topic: Literal["billing", "delivery", "quality"], message: str) -> str:
    """Open a ticket for a complaint."""
    return f"{topic}: {message}"


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked of the model."""

    declared: Mapping[str, Any]
    """The contract: tools or an answer."""
    text: Callable[[random.Random], str]
    """Makes the text of a row."""
    rows: int
    """How many rows there are of it."""
    request: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further keywords of each request."""


def _order(dice: random.Random) -> str:
    count = dice.randint(2, 9)
    product = dice.choice(_GOODS)
    when = dice.choice(("It is urgent.", "There is no hurry."))
    said = (
        f"{dice.choice(_NAMES)} from {dice.choice(_CITIES)} wants {count} pieces of the {product}."
    )
    return f"Extract the order as JSON. {said} {when}"


def _support(dice: random.Random) -> str:
    if dice.random() < 0.5:  # noqa: PLR2004 - one tool as often as the other
        number = dice.randint(10_000, 99_999)
        return f"Where is my parcel {number}? My postcode is {dice.randint(1000, 9999)}."

    product = dice.choice(_GOODS)
    complaint = {
        "billing": f"I was charged twice for the {product}.",
        "delivery": f"The {product} came three days late.",
        "quality": f"The {product} broke on the first day.",
    }[dice.choice(_TOPICS)]
    return f"{complaint} Please open a ticket."


def _invoice(dice: random.Random) -> str:
    products = dice.sample(_GOODS, dice.randint(1, 2))
    currency = dice.choice(("EUR", "USD"))
    lines = ", ".join(
        f"{dice.randint(1, 5)} x {product} at {dice.randint(5, 90)}.{dice.choice(('00', '50'))}"
        for product in products
    )
    state = dice.choice(("It is paid.", "It is not paid yet."))
    buyer = f"{dice.choice(_NAMES)} in {dice.choice(_CITIES)}"
    return f"Write this invoice as JSON. Buyer: {buyer}. Lines: {lines}, in {currency}. {state}"


TASKS: Mapping[str, Task] = {
    "extraction": Task({"answer": Order}, _order, 90, {"max_tokens": 96}),
    "tool": Task(
        {"tools": (sr.tool(track_parcel), sr.tool(open_ticket))},
        _support,
        90,
        {"max_tokens": 80, "tool_choice": "required"},
    ),
    "nested": Task({"answer": Invoice}, _invoice, 30, {"max_tokens": 176}),
}
"""An object from a text, one tool of two that must be called, and an answer of objects in lists."""


def made_rows() -> Iterator[dict[str, Any]]:
    """Make all rows, each with the seed that its requests send."""
    dice = random.Random(SEED)  # noqa: S311 - texts, no secrets
    number = 0
    for name, task in TASKS.items():
        for _ in range(task.rows):
            yield {"task": name, "messages": task.text(dice), "seed": SEED + 2 * number}
            number += 1


if __name__ == "__main__":
    lines = (json.dumps(row) for row in made_rows())
    ROWS.write_text("\n".join(lines) + "\n", encoding="utf-8")
