"""The turn that a wrapped client hands out is the raw client's, but for what the pages say.

``tools/compare_turns.py`` compares them, on recorded exchanges where these are here.
"""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from support.pages import DOCS
from support.scripted import call, completion
from support.scripted_responses import call_item, reasoning_item, response, text_item
from support.shared_data import SHARED

pytestmark = pytest.mark.one_lane

TOOL = runpy.run_path(str(DOCS.parent / "tools" / "compare_turns.py"))
NEEDED = pytest.mark.skipif(
    not (SHARED / "traffic").is_dir(), reason="../shared/traffic (recorded exchanges) is not here"
)
THINK: Any = {"reasoning_content": "The shop has tea."}
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Find tea."}]}
FORGETFUL = {"model": "m", "input": "Find tea.", "store": False}


def exchange(body: Any, request: Any = None, **told: Any) -> Any:
    """Make a recorded exchange."""
    is_chat = "choices" in body
    members = {
        "id": "one",
        "wire": "openai-chat" if is_chat else "openai-responses",
        "provider": "model.invalid",
        "streamed": False,
        "status": 200,
        "format": "json",
        "request": request,
        "response": body,
        "next": None,
    }
    return TOOL["Exchange"](**members | told)


@NEEDED
def test_recorded_turns_are_the_raw_clients() -> None:
    """Of every recorded exchange, as the caller gets it and as ``exchange`` sends it back; and the
    recorded next request has that turn, but for what its program changed by itself.
    """
    recorded = TOOL["exchanges"]()
    counts: dict[str, int] = {}
    for one in recorded.values():
        if one.is_judged:
            played = TOOL["play"](one, recorded.get(one.next or ""))
            assert played.faults == []
            counts = {name: counts.get(name, 0) + played.turns[name] for name in TURNS}

    assert all(counts.get(name, 0) > 0 for name in TURNS)


TURNS = ("as the caller gets it", "as it is sent back", "in the recorded next request")


def test_each_sentence_that_allows_a_difference_is_on_its_page() -> None:
    """A row holds as long as the documentation says what it says."""
    rows = [*TOOL["DOCUMENTED"], *TOOL["STREAMED"], *TOOL["SENT_BACK"]]
    assert rows
    for row in rows:
        assert row.sentence in (DOCS / row.page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("body", "request_", "rows"),
    [
        (completion("Here is tea.", **THINK), ASKED, 0),
        (completion(calls=[call("search", {})], **THINK), None, 0),
        (completion(calls=[call("search", {}) | {"type": None}]), None, 2),
        (response(text_item("Here is tea.")), None, 0),
        (response(reasoning_item(), call_item("search", {})), None, 0),
        (response(reasoning_item(encrypted_content=None), text_item("Tea.")), FORGETFUL, 1),
    ],
)
def test_a_turn_is_compared_in_both_ways(body: Any, request_: Any, rows: int) -> None:
    """What a row allows is counted, and nothing else differs."""
    played = TOOL["play"](exchange(body, request_))
    assert played.faults == []
    assert played.turns == {"as the caller gets it": 1, "as it is sent back": 1}
    assert sum(played.found.values()) == rows


def test_a_difference_without_a_row_is_a_fault() -> None:
    """A row allows it only where the attempt recorded its way of servers, and at its place."""
    (row,) = [row for row in TOOL["DOCUMENTED"] if row.rows == ("call_id_missing",)]
    ours = {"tool_calls": [{"id": "a", "name": "x"}]}
    (one,) = TOOL["differences"]([ours], [{"tool_calls": [{"id": "", "name": "x"}]}])
    assert row.allows(one, ("call_id_missing",))
    assert not row.allows(one, ())

    (other,) = TOOL["differences"]([ours], [{"tool_calls": [{"id": "a", "name": "y"}]}])
    assert not row.allows(other, ("call_id_missing",))


@pytest.mark.parametrize(
    ("turn", "rule"),
    [
        ({"content": "Here is tea."}, "the program left a member out"),
        ({"content": [{"type": "text", "text": "Here is tea."}], **THINK}, "another form"),
        ({"content": "Here is tea.", "thought": THINK["reasoning_content"]}, "another place"),
        ({"content": "Here is coffee.", **THINK}, None),
    ],
)
def test_what_the_program_changed_has_a_rule(turn: Any, rule: str | None) -> None:
    """The next request may drop, rewrite and move what the reply has, and invents no text."""
    following = ASKED | {"messages": [*ASKED["messages"], {"role": "assistant", **turn}]}
    body = completion("Here is tea.", **THINK)
    played = TOOL["play"](exchange(body, ASKED), exchange(body, following))

    told = [name for name in played.found if name.startswith("next: ") and rule and rule in name]
    assert (len(told), len(played.faults)) == ((1, 0) if rule else (0, 1))
