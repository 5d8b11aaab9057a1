"""What a tool gives back, in its two spellings.

They are the JSON of a manifest, and the turn that tells the model.
"""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.core.forms import MESSAGES
from strictreply.core.judging import MAX_JSON_DEPTH, NotJSON, is_json
from strictreply.loop._conversation import result_messages
from strictreply.loop._result_texts import error_json, result_json
from strictreply.loop.values import AgentToolCall, AgentToolCallResult, ToolCallManifest
from strictreply.pipeline import AgentPipelineContextValidator

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.binary(max_size=5)
)
FINITE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
KEYS = st.text("abü", max_size=3) | st.integers(0, 3) | st.none() | st.booleans()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4)
)

NUMBERLESS = st.recursive(
    st.sampled_from([math.nan, math.inf, -math.inf]),
    lambda inner: (
        st.tuples(st.lists(FINITE, max_size=2), inner).map(lambda pair: [*pair[0], pair[1]])
        | st.dictionaries(st.text("ab", max_size=2), inner, min_size=1, max_size=3)
    ),
)

RESULT = AgentToolCallResult(tool_call_id="tc1", name="search", result_json='"found"')
LONGEST = 150_000
"""The most characters of a result that a policy may allow."""
DEEP: list[Any] = []
for _ in range(MAX_JSON_DEPTH + 10):
    DEEP = [DEEP]


@given(VALUES, st.integers(1, 60))
def test_whatever_a_tool_gives_is_a_bounded_json_text(value: Any, limit: int) -> None:
    """Any value becomes a text that the strict reader takes and UTF-8 can hold, so that a manifest
    stays valid.
    """
    text = result_json(value, limit)
    assert is_json(text)
    assert (
        len(str(json.loads(text))) <= limit + len("… (cut: 00000 characters in total)")
        or len(text) <= limit
    )

    result = AgentToolCallResult(tool_call_id="tc1", name="t", result_json=text)
    manifest = ToolCallManifest(
        tool_calls=(AgentToolCall(tool_call_id="tc1", name="t", arguments_json="{}"),),
        tool_call_results=(result,),
    )
    assert AgentPipelineContextValidator().validate_tool_call_manifest(manifest).successful


@given(
    st.recursive(
        FINITE, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner)
    )
)
def test_what_json_can_say_is_said_as_it_is(value: Any) -> None:
    """A JSON value comes back equal."""
    assert json.loads(result_json(value, 100_000)) == value


def test_what_strict_readers_refuse_is_told_as_a_text() -> None:
    """Too many levels are no JSON to share: the model reads them as a text."""
    said = "[" * (MAX_JSON_DEPTH + 11) + "]" * (MAX_JSON_DEPTH + 11)
    assert json.loads(result_json(DEEP, 10_000)) == said


@given(NUMBERLESS)
def test_numbers_that_are_none_are_refused(value: Any) -> None:
    """NaN and infinities anywhere in a value are never written, and their place is told."""
    with pytest.raises(NotJSON) as caught:
        result_json(value, 10_000)
    assert caught.value.kind in {"NaN", "Infinity", "-Infinity"}

    for token in caught.value.path.split("/")[1:]:
        value = value[int(token) if isinstance(value, list) else token]
    assert not math.isfinite(value)


@pytest.mark.parametrize("character", ["a", "\0", '"', "\N{GRINNING FACE}", "\ud800"])
def test_the_longest_result_is_within_the_limits(character: str) -> None:
    """A text as long as a policy allows is read back, be its every character six bytes of JSON."""
    assert is_json(result_json(character * (LONGEST + 1), LONGEST))
    assert is_json(error_json("ToolError", character * (LONGEST + 1), LONGEST))


def test_what_is_cut_says_so() -> None:
    """A result over the limit keeps its beginning, and tells how long it was; one at the limit
    stays whole.
    """
    assert json.loads(result_json("a" * 11, 10)) == "a" * 10 + "… (cut: 11 characters in total)"
    assert json.loads(result_json(list(range(10)), 5)) == "[0,1,… (cut: 21 characters in total)"
    assert json.loads(result_json("a" * 10, 10)) == "a" * 10


def test_a_failure_is_a_result() -> None:
    """An error is told as one member with its type and its words, cut to the limit."""
    assert json.loads(error_json("ValueError", "no such order", 100)) == {
        "error": {"type": "ValueError", "message": "no such order"}
    }
    assert json.loads(error_json("E", "abc", 1))["error"]["message"].startswith("a… (cut: 3")


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ({"result_json": '"found"'}, "found"),
        ({"result_json": '{"a":[1]}'}, '{"a":[1]}'),
        ({"result_json": "null"}, "null"),
        ({"error_message": "offline"}, '{"error":{"type":"ClientError","message":"offline"}}'),
    ],
)
def test_a_call_is_answered_by_its_id(said: dict[str, Any], content: str) -> None:
    """In the native channel each result is a tool turn: a text as it is, other values as JSON, an
    error as one.
    """
    result = AgentToolCallResult(tool_call_id="tc1", name="search", **said)
    turns = result_messages((result,), "native", MESSAGES)
    assert turns == [{"role": "tool", "tool_call_id": "tc1", "content": content}]


def test_a_call_of_the_text_channel_is_answered_by_its_name() -> None:
    """There the model knows no ids: the user's turn names the tool."""
    turns = result_messages((RESULT,), "text", MESSAGES)
    assert turns == [{"role": "user", "content": "Result of search: found"}]


def test_results_are_told_in_the_order_of_the_manifest() -> None:
    """There are as many turns as results, in their order."""
    results = tuple(
        AgentToolCallResult(tool_call_id=id_, name="t", result_json="1") for id_ in "bac"
    )
    turns = result_messages(results, "native", MESSAGES)
    assert [turn["tool_call_id"] for turn in turns] == ["b", "a", "c"]


CALL = AgentToolCall(tool_call_id="tc1", name="search", arguments_json="{}")


@pytest.mark.parametrize("kind", ["ApprovalDenied", "Interrupted", "Abandoned", "NotRun"])
def test_a_call_that_was_not_run_says_why(kind: str) -> None:
    """Each such kind has words of its own, which a message replaces."""
    plain = json.loads(CALL.failed(kind).text)["error"]
    told = json.loads(CALL.failed(kind, "too dear").text)["error"]
    assert plain["type"] == told["type"] == kind
    assert plain["message"] not in {"", "the tool failed"}
    assert told["message"] == "too dear"


@pytest.mark.parametrize(
    ("result", "text", "is_failure"),
    [
        (
            CALL.failed("KeyError"),
            '{"error":{"type":"KeyError","message":"the tool failed"}}',
            True,
        ),
        (CALL.answered("found"), "found", False),
        (CALL.answered({"error": "no"}), '{"error":"no"}', False),
        (CALL.answered({"error": {"type": "a"}}), '{"error":{"type":"a"}}', False),
        (
            AgentToolCallResult(tool_call_id="tc1", name="search", error_message="no"),
            '{"error":{"type":"ClientError","message":"no"}}',
            False,
        ),
    ],
)
def test_a_result_is_read_as_the_model_reads_it(
    result: AgentToolCallResult, text: str, *, is_failure: bool
) -> None:
    """A text stands without its quotes, and only what a failed call leaves is a failure."""
    assert (result.text, result.is_failure) == (text, is_failure)


def test_a_failure_is_cut() -> None:
    """The words of a failure are cut to the limit of results, or to a caller's own."""
    long = "x" * 20_000
    assert len(CALL.failed("E", long).text) in range(16_000, 16_200)
    assert len(CALL.failed("E", long, limit=10).text) in range(10, 120)


def test_decisions_name_where_their_call_waits() -> None:
    """A call that waits in a turn is equal to one that does not, and is pickled with its turn."""
    waiting = pickle.loads(pickle.dumps(CALL.waiting_in("s", "t")))  # noqa: S301 - our own
    decisions = (waiting.approved(), waiting.denied("no"))
    assert waiting == CALL
    assert [(one.session_id, one.turn_id) for one in decisions] == [("s", "t")] * 2
    assert [one.result.approval for one in decisions] == [(True, ""), (False, "no")]
    assert (CALL.approved().session_id, CALL.answered("yes").approval) == ("", None)
