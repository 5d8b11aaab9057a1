"""The story of a call: tokens are summed whatever a server wrote, and prompts stay out of a repr."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply.attempts import Attempt, Usage, plain, total_usage
from strictreply.issues import Code, Issue


@pytest.mark.parametrize(
    ("completion", "usage"),
    [
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}, Usage(3, 4, 7)),
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}, Usage(3, 4, 7)),
        ({"usage": {"total_tokens": 9}}, Usage(0, 0, 9)),
        ({"usage": {"prompt_tokens": -3, "completion_tokens": "4", "total_tokens": True}}, Usage()),
        ({"usage": {"prompt_tokens": 1.5, "total_tokens": None}}, Usage()),
        ({"usage": None}, Usage()),
        ({"usage": []}, Usage()),
        ({}, Usage()),
        (None, Usage()),
        ([], Usage()),
    ],
)
def test_usage_is_read_or_zero(completion: Any, usage: Usage) -> None:
    """Counts of tokens are taken, everything else is zero; a missing total is the sum."""
    assert Usage.of(completion) == usage


@given(st.lists(st.builds(Usage, st.integers(0, 99), st.integers(0, 99), st.integers(0, 999))))
def test_usage_of_a_call_is_the_sum(bills: list[Usage]) -> None:
    """Each column adds up over the attempts."""
    total = total_usage(tuple(Attempt(1, {}, usage=bill) for bill in bills))
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(total, name) == sum(getattr(bill, name) for bill in bills)


ATTEMPT = Attempt(
    2,
    {"messages": ({"role": "user", "content": "PROMPT"},), "handle": object()},
    raw={"choices": "RAW"},
    issues=(Issue.of(Code.REPLY_EMPTY, found="FOUND"),),
    correction="CORRECTION",
    tier=1,
)


def test_the_repr_holds_no_prompt_and_no_reply() -> None:
    """What was asked and what came are on the attempt, not in its repr."""
    assert not any(word in repr(ATTEMPT) for word in ("PROMPT", "RAW", "CORRECTION", "FOUND"))


def test_an_attempt_is_json_with_and_without_the_raw_parts() -> None:
    """``to_dict`` leaves request and reply out unless they are asked for; both forms are JSON."""
    told, whole = json.dumps(ATTEMPT.to_dict()), json.dumps(ATTEMPT.to_dict(raw=True))
    assert "PROMPT" not in told
    assert "RAW" not in told
    assert "PROMPT" in whole
    assert "RAW" in whole
    assert json.loads(whole)["request"]["handle"] == "<object>"


@pytest.mark.parametrize(
    ("issues", "failure", "accepted"),
    [((), None, True), (ATTEMPT.issues, None, False), ((), "timeout", False)],
)
def test_an_attempt_was_accepted_without_fault_and_failure(issues: Any, failure: str | None, accepted: bool) -> None:
    """Nothing else makes it so."""
    assert Attempt(1, {}, issues=issues, failure=failure).accepted is accepted


def test_plain_copies_into_json() -> None:
    """Mappings and sequences become dicts and lists; what JSON cannot hold is named by its type."""
    value = {"a": MappingProxyType({1: (1, 2.5, None, True)}), "b": {3}}
    assert plain(value) == {"a": {"1": [1, 2.5, None, True]}, "b": "<set>"}
