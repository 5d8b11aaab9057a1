"""V8: a reply that ended at the token limit of its own request is cut, whatever its ending says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Contract, Invalid
from support.openai_shapes import call, completion, message
from support.scripted import USER

SEARCH = {
    "name": "search",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}
NATIVE = Contract(tools=[SEARCH])
TEXT = Contract(tools=[SEARCH], channel="text")
ANSWER = Contract(answer={"type": "object", "properties": {"query": {"type": "string"}}})
FENCED = Contract(answer={"type": "object"}, extraction="fenced")
GOOD = message(None, [call("search", {"query": "x"})])
BROKEN = message(None, [call("search", '{"query": "x')])


def used(of: dict[str, Any], tokens: object) -> dict[str, Any]:
    """Return a completion whose usage reports this number of tokens."""
    return completion(of) | {
        "usage": {"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": 1}
    }


def is_cut(contract: Contract, of: dict[str, Any], tokens: object, **request: Any) -> bool:
    """Return whether a message of this many tokens counts as cut under this request."""
    asked = {"model": "m", "messages": USER, **request}
    verdict = contract.next_request(asked, used(of, tokens)).verdict
    issues = verdict.issues if isinstance(verdict, Invalid) else ()
    places = [(issue.code, issue.path) for issue in issues]
    cut = ("reply.truncated", "/usage/completion_tokens")
    assert places == [cut] or cut not in places
    return places == [cut]


@pytest.mark.parametrize("key", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize(
    ("contract", "of", "cut"),
    [
        (NATIVE, GOOD, True),
        (NATIVE, BROKEN, True),
        (NATIVE, message("It is don"), True),
        (NATIVE, message('{"a": 1}'), True),
        (NATIVE, message(None), True),
        (ANSWER, message('{"query": "x"}'), False),
        (ANSWER, message('{"query": "x"}\n'), False),
        (ANSWER, message('{"query": 5}'), False),
        (ANSWER, message('{"query": "x'), True),
        (ANSWER, message("12"), True),
        (ANSWER, message(None), True),
        (FENCED, message('```json\n{"query": "x"}\n```'), False),
        (FENCED, message('```json\n{"query": "x"}'), True),
        (TEXT, message('{"answer": "x"}'), False),
        (TEXT, message('{"tool": "search", "args": {"query": "x"}}'), False),
        (TEXT, message('{"tool": "search", "args": {"que'), True),
        (TEXT, message("Sure, here"), True),
    ],
)
def test_v8_at_the_limit_only_closed_json_is_whole(
    key: str, contract: Contract, of: dict[str, Any], cut: bool
) -> None:
    """Exactly at the limit a text, a number and a call prove nothing; JSON that its last bracket
    closes does.
    """
    assert is_cut(contract, of, 50, **{key: 50}) is cut


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_v8_below_the_limit_a_whole_reply_is_believed(limit: int, tokens: int) -> None:
    """A token count other than the limit is no evidence against a readable call or a text."""
    for of in (GOOD, message("It is done.")):
        assert is_cut(NATIVE, of, tokens, max_tokens=limit) is (tokens == limit)


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_v8_near_the_limit_json_that_breaks_off_was_cut(limit: int, tokens: int) -> None:
    """From nine tenths of the limit on, JSON that is not complete is no mistake in JSON."""
    near = tokens >= 0.9 * limit and tokens > 0
    for contract, of in (
        (NATIVE, BROKEN),
        (TEXT, message('{"answer": "x')),
        (ANSWER, message('{"query": "x')),
    ):
        assert is_cut(contract, of, tokens, max_tokens=limit) is near


def test_the_limit_is_the_one_that_was_sent() -> None:
    """``extra_body`` has the last word, as in the SDK; of two limits either may be the server's."""
    assert is_cut(NATIVE, GOOD, 50, max_tokens=80, extra_body={"max_tokens": 50})
    assert not is_cut(NATIVE, GOOD, 80, max_tokens=80, extra_body={"max_tokens": 50})
    assert is_cut(NATIVE, GOOD, 50, max_tokens=80, max_completion_tokens=50)
    assert is_cut(NATIVE, GOOD, 80, max_tokens=80, max_completion_tokens=50)


@pytest.mark.parametrize("limit", [None, True, 0, -5, 5.0, "5", [5]])
@pytest.mark.parametrize("tokens", [5, True, None, "5", 5.0, -5])
def test_what_is_no_limit_cuts_nothing(limit: object, tokens: object) -> None:
    """Without a limit, or without a count, only what the response itself says counts."""
    assert not is_cut(NATIVE, GOOD, tokens, max_tokens=limit)
    assert not is_cut(NATIVE, GOOD, None if tokens == 5 else tokens, max_tokens=5)


def test_check_has_no_request() -> None:
    """``contract.check`` knows no limit: a count alone proves nothing."""
    assert not isinstance(NATIVE.check(used(GOOD, 50)), Invalid)


def test_v2_calls_beyond_the_caps_are_not_read_for_where_they_break_off() -> None:
    """A call that exceeds the caps is not searched for its end."""
    contract = Contract(
        tools=[{"type": "function", "function": {"name": "big", "parameters": {"type": "object"}}}]
    )
    function = {"name": "big", "arguments": '{"q":[' + "1," * 450_000}
    calls: list[Any] = [
        {"id": f"c{index}", "type": "function", "function": function} for index in range(2)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": calls}
    response: dict[str, Any] = {
        "choices": [{"message": message}],
        "usage": {"completion_tokens": 95},
    }
    asked = {"model": "m", "messages": USER, "max_tokens": 100}
    verdict = contract.next_request(asked, response).verdict
    assert isinstance(verdict, Invalid)
    assert "reply.truncated" not in {issue.code for issue in verdict.issues}
