"""A shop's four small tools, and questions with their correct replies.

unreliable_model.py answers these questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from strictreply import ToolCall

_SHELVES = {
    "running shoes": {
        "Fell Runner": 89.9,
        "Road Runner": 74.5,
        "Trail Runner": 99.0,
    },
    "rain jacket": {"Drizzle": 59.0, "Downpour": 119.0},
    "water bottle": {"Half Litre": 14.0, "Litre": 19.5},
}
_CELSIUS = {"Bergen": 9, "Oslo": 4, "Paris": 14, "Phoenix": 38, "Tokyo": 21}
_DEFAULT_CELSIUS = 15


class OrderSummary(BaseModel):
    """A summary of an order: the structured answer of the scenario."""

    order: int
    customer: str
    status: Literal["open", "sent", "delivered"]
    total: Annotated[float, Field(ge=0)]


def search_products(
    query: str, limit: Annotated[int, Field(ge=1, le=20)] = 5
) -> list[str]:
    """Search the shop's products.

    Args:
        query: What to look for, such as "running shoes".
        limit: How many products to return at most.
    """
    words = query.lower().split()
    shelves = (
        shelf
        for kind, shelf in _SHELVES.items()
        if any(word in kind for word in words)
    )
    found = [
        f"{name}, {price:.2f} EUR"
        for shelf in shelves
        for name, price in shelf.items()
    ]
    return found[:limit]


def get_weather(
    city: str,
    unit: Literal["celsius", "fahrenheit"] = "celsius",
    days: Annotated[int, Field(ge=1, le=14)] = 1,
) -> str:
    """Forecast the weather of a city.

    Args:
        city: The city's name.
        unit: The unit of the temperatures.
        days: How many days from today.
    """
    degrees = _CELSIUS.get(city, _DEFAULT_CELSIUS)
    shown = degrees if unit == "celsius" else round(degrees * 9 / 5 + 32)
    span = "today" if days == 1 else f"for {days} days"
    return f"{shown} degrees {unit} in {city} {span}"


def create_refund(
    order: int,
    reason: Literal["late", "broken", "wrong_item"],
    amount: Annotated[float, Field(gt=0)],
) -> str:
    """Refund an order.

    Args:
        order: The order's number.
        reason: Why the customer gets money back.
        amount: How much, in EUR.
    """
    return f"refunded {amount:.2f} EUR for order {order} ({reason})"


def schedule_meeting(
    title: str,
    start: datetime,
    minutes: Annotated[int, Field(ge=5, le=480)],
    attendees: list[str],
) -> str:
    """Put a meeting into the calendar.

    Args:
        title: What the meeting is called.
        start: When it begins, with its offset from UTC.
        minutes: How long it lasts.
        attendees: The names of the participants.
    """
    end = start + timedelta(minutes=minutes)
    span = f"{start:%Y-%m-%d %H:%M} to {end:%H:%M}"
    return f"{title}, {span}, with {', '.join(attendees)}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, with its correct calls or its ``answer``.

    ``structured`` maps the name of a schema to the answer as JSON. A
    ``hopeless`` question never gets a valid reply, whatever the correction.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    structured: Mapping[str, Any] = field(default_factory=dict[str, Any])
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """Tools and questions; no two questions have the same text."""

    tools: tuple[Callable[..., Any], ...]
    questions: tuple[Question, ...]

    def question(self, text: str) -> Question | None:
        """Find a question by its text; None if there is none."""
        found = (
            question
            for question in self.questions
            if question.text == text.strip()
        )
        return next(found, None)


_OSLO = ToolCall(
    "get_weather", {"city": "Oslo", "unit": "celsius", "days": 3}
)
_PARIS = ToolCall(
    "get_weather", {"city": "Paris", "unit": "celsius", "days": 1}
)
_TOKYO = ToolCall(
    "get_weather", {"city": "Tokyo", "unit": "celsius", "days": 1}
)
_BERGEN = ToolCall("get_weather", {"city": "Bergen", "days": 1})
_PHOENIX = ToolCall(
    "get_weather", {"city": "Phoenix", "unit": "fahrenheit", "days": 1}
)
_SHOES = ToolCall("search_products", {"query": "running shoes", "limit": 2})
_JACKET = ToolCall("search_products", {"query": "rain jacket", "limit": 1})
_BOTTLES = ToolCall("search_products", {"query": "water bottle", "limit": 5})
_BROKEN = ToolCall(
    "create_refund", {"order": 1042, "reason": "broken", "amount": 29.9}
)
_LATE = ToolCall(
    "create_refund", {"order": 1077, "reason": "late", "amount": 12.5}
)
_WRONG = ToolCall(
    "create_refund", {"order": 1099, "reason": "wrong_item", "amount": 8.0}
)
_TIME: dict[str, Any] = {
    "title": "Kick-off",
    "start": "2026-03-02T10:00:00Z",
    "minutes": 30,
}
_MEETING = ToolCall(
    "schedule_meeting", _TIME | {"attendees": ["Ada", "Linus"]}
)
_POLICY = "You can send anything back within 30 days; we pay the postage."
_IN_SHORT = "Order 1042 of Grace Hopper, 29.90 EUR, was delivered."
_SUMMARY: dict[str, Any] = {
    "order": 1042,
    "customer": "Grace Hopper",
    "status": "delivered",
    "total": 29.9,
}

SCENARIO = Scenario(
    tools=(search_products, get_weather, create_refund, schedule_meeting),
    questions=(
        Question(
            "What will the weather be in Oslo "
            "over the next 3 days, in celsius?",
            (_OSLO,),
        ),
        Question("Find running shoes, at most 2.", (_SHOES,)),
        Question("Order 1042 arrived broken: refund 29.90 EUR.", (_BROKEN,)),
        Question(
            "Schedule a 30 minute kick-off with Ada and Linus "
            "on 2 March 2026 at 10:00 UTC.",
            (_MEETING,),
        ),
        Question(
            "Is it warmer in Paris or in Tokyo today?", (_PARIS, _TOKYO)
        ),
        Question(
            "Which rain jacket do you have, "
            "and how is the weather in Bergen?",
            (_JACKET, _BERGEN),
        ),
        Question("How hot is Phoenix today, in fahrenheit?", (_PHOENIX,)),
        Question("Order 1077 came late: give 12.50 EUR back.", (_LATE,)),
        Question("Show me up to 5 water bottles.", (_BOTTLES,)),
        Question("What is your return policy?", answer=_POLICY),
        Question(
            "Summarise order 1042.",
            answer=_IN_SHORT,
            structured={"OrderSummary": _SUMMARY},
        ),
        Question(
            "Order 1099 was the wrong item: refund 8.00 EUR.",
            (_WRONG,),
            hopeless=True,
        ),
    ),
)
"""A shop's assistant: the scenario of ``strictreply demo``."""
