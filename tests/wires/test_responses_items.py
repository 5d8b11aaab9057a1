"""What is said several times of one item: where it is the same, and where it is another."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from strictreply.wires._responses_items import is_same_written
from support.scripted import Server
from support.scripted_responses import response, wrap
from support.streamed_replies import ONCE
from wires.test_responses_beside import ASK, CALL, body, calling, stream

MEMBERS: Any = st.dictionaries(
    st.text(max_size=3),
    st.none() | st.integers(-9, 9) | st.text(max_size=3) | st.lists(st.booleans(), max_size=2),
    max_size=4,
)


@given(MEMBERS, MEMBERS)
def test_arguments_as_a_text_and_as_an_object_are_one(said: Any, other: Any) -> None:
    """In either order, whatever the spaces and the order of members; another object is another."""
    spelled = json.dumps(dict(reversed(said.items())), indent=2)
    assert is_same_written(spelled, said)
    assert is_same_written(said, spelled)
    assert is_same_written(spelled, other) == (json.dumps(said, sort_keys=True) == _sorted(other))


def _sorted(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '{"a": 1', "[" * 100_000, "", "1"])
def test_a_text_with_two_meanings_is_no_object(text: str) -> None:
    """A member that comes twice, and what is no JSON, are the same as nothing."""
    assert not is_same_written(text, {"a": 1})


@pytest.mark.parametrize(("query", "is_one"), [("tea", True), ("milk", False)])
def test_a_terminal_output_may_hold_arguments_as_an_object(query: str, is_one: bool) -> None:
    """Where it is the object of the text that came, the call is accepted; another is refused."""
    last = response(CALL | {"arguments": {"query": query}})
    client = wrap(Server(body(stream(last, calling(CALL, 0)))).client(), policy=ONCE)
    if is_one:
        *_, end = client.responses.create(**ASK, stream=True)
        assert json.loads(end.response.output[0].arguments) == {"query": "tea"}
        return

    with pytest.raises(sr.CallFailed):
        list(client.responses.create(**ASK, stream=True))
