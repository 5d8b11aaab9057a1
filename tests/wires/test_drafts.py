"""A message is read as a draft and written back: what was not changed stays as it came."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strictreply.core import Answered, Draft
from strictreply.core.forms import draft_of, message_of, plain_message
from strictreply.values._drafts import arguments_around, arguments_place
from strictreply.wires import WIRES

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
MEMBERS = st.dictionaries(st.text(max_size=5), SCALARS, max_size=2)
CALLS = st.builds(
    lambda beside, id_, name, text, kind: {
        **beside,
        "id": id_,
        "type": kind,
        kind: {"name": name, "input" if kind == "custom" else "arguments": text},
    },
    MEMBERS,
    st.text(max_size=5),
    st.text(max_size=5),
    st.text(max_size=9),
    st.sampled_from(["function", "custom"]),
)
CONTENTS = SCALARS | st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=5)})
    | st.fixed_dictionaries({"type": st.just("thinking"), "thinking": st.text(max_size=5)}),
    max_size=3,
)
MESSAGES = st.builds(
    lambda beside, content, calls: {**beside, "content": content, "tool_calls": calls},
    MEMBERS,
    CONTENTS,
    st.lists(CALLS | SCALARS, max_size=3) | SCALARS,
)


@given(MESSAGES)
def test_a_message_is_written_as_it_came(message: dict[str, Any]) -> None:
    """It is the same object, whatever is in it, and reading it changes nothing in it."""
    before = deepcopy(message)
    draft = draft_of(message)
    assert message_of(draft) is message
    assert message == before


@given(st.lists(CALLS, min_size=1, max_size=3), st.data())
def test_one_change_changes_one_member(calls: list[dict[str, Any]], data: st.DataObject) -> None:
    """Other arguments stand in their call; all else is what came, vendors' members too."""
    message = {"role": "assistant", "content": "x", "tool_calls": calls, "seal": "s"}
    draft = draft_of(message)
    index = data.draw(st.integers(0, len(calls) - 1))
    changed = [*draft.calls]
    changed[index] = replace(changed[index], arguments="{}")
    written = message_of(replace(draft, calls=tuple(changed)))

    expected = deepcopy(message)
    call: Any = expected["tool_calls"][index]
    call[call["type"]]["input" if call["type"] == "custom" else "arguments"] = "{}"
    assert written == expected


@given(MESSAGES, st.text(max_size=5))
def test_a_text_is_exchanged_behind_the_thoughts(message: dict[str, Any], text: str) -> None:
    """What the model thought stays before it, in its order."""
    draft = replace(draft_of(message), text=text, other=None)
    written = draft_of(message_of(draft))
    assert written.text == text

    def thoughts(content: object) -> list[Any]:
        parts = content if isinstance(content, list) else []
        return [part for part in parts if part["type"] == "thinking"]

    assert thoughts(message_of(draft)["content"]) == thoughts(message["content"])
    assert plain_message(draft)["content"] == text


@given(st.lists(CALLS, max_size=3), st.none() | st.text(max_size=5))
def test_each_call_is_answered_in_order(calls: list[dict[str, Any]], words: str | None) -> None:
    """One turn for each call, behind the assistant's; what a user says comes last."""
    draft = draft_of({"role": "assistant", "content": None, "tool_calls": calls})
    results = tuple(f"r{at}" for at in range(len(calls)))
    assistant, *answers = WIRES["chat"].replay.turns(Answered(draft, results, words))
    assert assistant["role"] == "assistant"

    told = answers if words is None else answers[:-1]
    assert [one["content"] for one in told] == list(results)
    assert [one["tool_call_id"] for one in told] == [call["id"] for call in calls]
    assert words is None or answers[-1] == {"role": "user", "content": words}


def test_a_draft_of_ours_is_a_plain_message() -> None:
    """Without a source nothing but the role and the text is written."""
    assert message_of(Draft("x")) == {"role": "assistant", "content": "x"}


@given(st.integers(0, 10**6), st.lists(st.text(max_size=3), max_size=3))
def test_a_place_inside_of_arguments_is_found(index: int, below: list[str]) -> None:
    """The place of the arguments is found from each place within."""
    place = arguments_place(index)
    escaped = [step.replace("~", "~0").replace("/", "~1") for step in below]
    assert arguments_around("/".join([place, *escaped])) == (index, place)
    assert arguments_around("/content") is None
