"""A choice of tools that demands a call demands it of the first reply of a turn alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

import strictreply as sr
from support.loop.loops import DONE, Opened, asking, spy
from support.scripted import Server
from support.scripted_responses import call_item, response, text_item

NAMED = {"type": "function", "function": {"name": "search"}}
LISTED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
FREE = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}


@pytest.mark.parametrize(
    ("choice", "behind"),
    [
        ("required", None),
        ("any", None),
        (NAMED, None),
        (LISTED, FREE),
        (FREE, FREE),
        ("none", "none"),
    ],
)
@pytest.mark.parametrize("is_extra", [False, True], ids=["keyword", "extra_body"])
def test_a_demand_is_for_the_first_ask(
    opened: Opened, choice: Any, behind: Any, *, is_extra: bool
) -> None:
    """Behind a call the model may answer, and what else was said of its tools still holds."""
    replies = [DONE] if choice == "none" else [asking("s"), DONE]
    loop = opened(*replies, tools=[spy("search", [])])
    given = {"tool_choice": choice}
    done = loop.run(**({"extra_body": given} if is_extra else given))

    assert done.answer == "done"
    first, *later = [_chosen(request) for request in loop.script.requests]
    assert first == ("required" if choice == "any" else choice)
    assert later == [behind] * (len(replies) - 1)


@pytest.mark.parametrize(
    ("choice", "behind"),
    [
        ("required", None),
        ({"type": "function", "name": "search"}, None),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [NAMED]},
            {"type": "allowed_tools", "mode": "auto", "tools": [NAMED]},
        ),
    ],
)
def test_a_demand_is_for_the_first_ask_of_responses(choice: Any, behind: Any) -> None:
    """The same holds in the form of the Responses API."""
    named = {"type": "function", "name": "search"}
    choice, behind = (_with_tools(one, [named]) for one in (choice, behind))
    server = Server(
        response(call_item("search", {"query": "tea"})), response(text_item("There is tea."))
    )
    client: Any = sr.wrap(server.client(), tools=[spy("search", [])], api="responses")
    done = sr.run(client, "find tea", model="m", tool_choice=choice)

    assert done.answer == "There is tea."
    assert [json.loads(body).get("tool_choice") for body in server.bodies] == [choice, behind]


def _chosen(request: dict[str, Any]) -> Any:
    return request.get("tool_choice") or (request.get("extra_body") or {}).get("tool_choice")


def _with_tools(choice: Any, tools: list[Any]) -> Any:
    return {**choice, "tools": tools} if isinstance(choice, dict) and "tools" in choice else choice
