"""Each example runs offline, as it stands, and prints what it promises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.programs import Programs

FOLDER = Path(__file__).resolve().parents[2] / "examples"
MAX_LINES = 90
APART = (
    "batch_queue",
    "batch_ray",
    "durable",
    "fastapi",
    "instructor",
    "langgraph",
    "route_next",
    "shop_scenario",
    "support_desk",
    "unreliable",
    "xml_format",
)
"""Tested elsewhere: examples of an extra or a library where it is installed, those with tests of
their own, and the shop and the unreliable model that the others use.
"""

PROMISES: dict[str, list[str]] = {
    "wrap_sync": [
        r"^typed reply: Oslo: 4 degrees celsius, 3 days$",
        r"^attempt 1: [a-z]+\.[a-z_]+",
        r"^attempt \d: valid$",
        r"^completion: \{.*Oslo.*\}$",
    ],
    "responses_api": [
        r"^typed reply: Oslo: 4 degrees celsius, 3 days$",
        r"^response: \{.*Oslo.*\"type\":\"function_call\".*\}$",
        r"^events: response\.created, .*, response\.completed$",
    ],
    "wrap_async": [
        r"^refunded 29\.90 EUR for order 1042 \(broken\)  \[attempts: [2-4]\]$",
        r"^refunded 12\.50 EUR for order 1077 \(late\)  \[attempts: [2-4]\]$",
        r"^You can send anything back .*\[attempts: 1\]$",
    ],
    "declare_tools": [
        *(rf"^{name}: \{{" for name in ("search", "Refund", "weather", "convert", "lookup")),
        r"^valid: ToolCall\(tool='search', args=.*limit=2",
        r"^valid: ToolCall\(tool='Refund', args=Refund\(order=7, reason='broken'\)",
        r"^invalid: args\.extra_key at /tool_calls/0/function/arguments$",
        r"^invalid: args\.type at /tool_calls/0/function/arguments/limit$",
    ],
    "structured_answer": [
        r"^attempt 1: [a-z]+\.[a-z_]+ at .*, found ",
        r"^order 1042 of Grace Hopper: delivered, 29\.90 EUR$",
        r"^\d+ tokens in [2-4] attempts$",
    ],
    "text_channel": [
        r"^attempt 1: [a-z]+\.[a-z_]+",
        r"^attempt \d: valid$",
        r"^call: search_products \['running shoes no\. 1', 'running shoes no\. 2'\]$",
        r"^strict about a fence: Invalid$",
        r"^lenient about a fence: Valid by \w+",
    ],
    "custom_steering": [
        r"^attempt 1 was sent with: no correction$",
        r"^attempt 2 was sent with: Our API refused that\.",
        r"^reply: ToolCall\(tool='get_weather', .*Phoenix",
    ],
    "error_handling": [
        r"^wrong declaration: .*create_refund",
        r"^reply: ToolCall\(tool='create_refund', .*order=1042, reason='broken', amount=29\.9",
        r"^rejected \(retries\) after 3 attempts: [a-z]+\.[a-z_]+",
        r"^halted \(tokens\) after \d+ tokens$",
        r"^transport failed \(connection\), HTTP status None, retry after: None$",
    ],
    "tool_loop": [
        r"^ +user: Is it warmer in Paris or in Tokyo today\?$",
        r"^ +tool: 14 degrees celsius in Paris",
        r"^ +tool: 21 degrees celsius in Tokyo",
        r"^answer: .*14 degrees celsius in Paris.*21 degrees celsius in Tokyo",
        r"^\d replies in \d+ requests, [1-9]\d* refused, none of them in the transcript$",
    ],
}


def test_every_example_is_run_here() -> None:
    """No example stands unread, and each is short."""
    paths = {path.stem: path for path in FOLDER.glob("*.py") if not path.stem.startswith(APART)}
    assert sorted(paths) == sorted(PROMISES)
    assert {
        name
        for name, path in paths.items()
        if len(path.read_text("utf-8").splitlines()) > MAX_LINES
    } == set()


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    """What runs the examples."""
    with Programs() as programs:
        yield programs


@pytest.mark.parametrize("name", PROMISES)
def test_an_example_keeps_its_promise(programs: Programs, name: str, tmp_path: Path) -> None:
    """Run from anywhere, without a key or a network, it ends well, warns of nothing and prints
    these lines in order.
    """
    status, stdout, stderr = programs.run(FOLDER / f"{name}.py", tmp_path)
    assert (status, stderr) == (0, "")
    left = iter(stdout.splitlines())
    for promise in PROMISES[name]:
        assert any(re.search(promise, line) for line in left), (
            f"{promise} is not in, or not in order:\n{stdout}"
        )
