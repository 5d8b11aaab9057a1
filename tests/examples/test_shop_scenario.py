"""The scenario's tools are small real functions; their schemas describe them."""

from __future__ import annotations

from datetime import UTC, datetime

from shop_scenario import (
    SCENARIO,
    create_refund,
    get_weather,
    schedule_meeting,
    search_products,
)

from strictreply import Tool


def test_the_tools_work() -> None:
    """Each tool computes its result from data of its own."""
    assert search_products("running shoes", limit=2) == [
        "Fell Runner, 89.90 EUR",
        "Road Runner, 74.50 EUR",
    ]
    assert search_products("hats") == []
    assert get_weather("Oslo") == "4 degrees celsius in Oslo today"
    assert get_weather("Phoenix", "fahrenheit", 3) == "100 degrees fahrenheit in Phoenix for 3 days"

    assert create_refund(1042, "broken", 29.9) == "refunded 29.90 EUR for order 1042 (broken)"
    meeting = schedule_meeting(
        "Kick-off", datetime(2026, 3, 2, 10, tzinfo=UTC), 30, ["Ada", "Linus"]
    )
    assert meeting == "Kick-off, 2026-03-02 10:00 to 10:30, with Ada, Linus"


def test_every_tool_can_be_declared() -> None:
    """Each tool has a schema of its parameters, defaults optional."""
    documents = {tool.name: tool.parameters.source for tool in map(Tool.of, SCENARIO.tools)}
    assert list(documents) == [tool.__name__ for tool in SCENARIO.tools]
    assert documents["search_products"]["required"] == ["query"]  # type: ignore[index]


def test_questions_are_found_by_their_text() -> None:
    """A dozen questions, one of them hopeless, each found by its text alone."""
    assert len({question.text for question in SCENARIO.questions}) == 12
    assert sum(question.hopeless for question in SCENARIO.questions) == 1
    assert all(
        SCENARIO.question(f" {question.text}\n") is question for question in SCENARIO.questions
    )
    assert SCENARIO.question("What?") is None
