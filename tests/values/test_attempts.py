"""The story of a call.

Tokens are summed whatever a server wrote, and prompts stay out of a repr.
"""

from __future__ import annotations

import json
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Attempt, Code, Issue, Usage
from strictreply.core.calls import total_usage
from strictreply.core.text import plain


@pytest.mark.parametrize(
    ("completion", "usage"),
    [
        (
            {"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
            Usage(3, 4, 7),
        ),
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
    """The request and the reply are on the attempt, not in its repr."""
    assert not any(word in repr(ATTEMPT) for word in ("PROMPT", "RAW", "CORRECTION", "FOUND"))


def test_an_attempt_is_json_with_and_without_the_raw_parts() -> None:
    """``to_dict`` leaves request and reply out unless they are asked for; both forms are JSON."""
    told = json.dumps(ATTEMPT.to_dict())
    whole = json.dumps(ATTEMPT.to_dict(raw=True))
    assert "PROMPT" not in told
    assert "RAW" not in told
    assert "PROMPT" in whole
    assert "RAW" in whole
    assert json.loads(whole)["request"]["handle"] == "<object>"


@pytest.mark.parametrize(
    ("issues", "failure", "accepted"),
    [((), None, True), (ATTEMPT.issues, None, False), ((), "timeout", False)],
)
def test_an_attempt_was_accepted_without_fault_and_failure(
    issues: Any, failure: str | None, accepted: bool
) -> None:
    """An attempt is accepted exactly when it has no issue and no failure."""
    assert Attempt(1, {}, issues=issues, failure=failure).accepted is accepted


def test_plain_copies_into_json() -> None:
    """Mappings and sequences become dicts and lists; what JSON cannot hold is named by its type."""
    value = {"a": MappingProxyType({1: (1, 2.5, None, True)}), "b": {3}}
    assert plain(value) == {"a": {"1": [1, 2.5, None, True]}, "b": "<set>"}


class Model(str, Enum):  # noqa: UP042 - a StrEnum is spelt by its value, this is not
    """Names of models, as programs declare them."""

    SMALL = "small"


class Level(IntEnum):
    """A number with a name."""

    HIGH = 3


class Share(float):
    """A number of a class of its own."""


@pytest.mark.parametrize(
    ("value", "exact"), [(Model.SMALL, "small"), (Level.HIGH, 3), (Share(0.5), 0.5), (True, True)]
)
def test_plain_takes_scalars_out_of_their_classes(value: Any, exact: Any) -> None:
    """Members of an Enum and other subclasses become plain JSON, as values and as names."""
    assert (plain(value), type(plain(value))) == (exact, type(exact))
    copied: Any = plain({value: None})
    assert [(name, type(name)) for name in copied] == [(str(exact), str)]


def test_plain_ends_whatever_it_is_given() -> None:
    """A value inside itself, or deeper than any request, is named by its type; the same value twice
    is no cycle.
    """
    cycle: dict[str, Any] = {"two": [[1]] * 2}
    cycle |= {"self": cycle, "list": [cycle]}
    assert plain(cycle) == {"two": [[1], [1]], "self": "<dict>", "list": ["<dict>"]}
    deep: list[Any] = []

    for _ in range(50_000):
        deep = [deep]

    told = json.dumps(Attempt(1, {"deep": deep}).to_dict(raw=True))
    assert json.dumps(plain(deep)).count("[") == 200
    assert '"<list>"' in told


def test_v14_a_count_beyond_all_counts_is_none() -> None:
    """A number of 4,300 digits is no count of tokens, so sums of counts can always be spelled."""
    for digits in (16, 4_300):
        nines = 10**digits - 1
        counts = {"prompt_tokens": nines, "completion_tokens": nines, "total_tokens": nines}
        assert Usage.of({"usage": counts}) == Usage()

    most = 2**53 - 1
    assert Usage.of({"usage": {"prompt_tokens": most}}).total_tokens == most
    assert Usage.of({"usage": {"prompt_tokens": most + 1}}) == Usage()


@given(st.integers() | st.integers(min_value=10**4_299, max_value=10**4_301))
def test_v14_plain_is_always_spelled(number: int) -> None:
    """An integer that Python will not spell is named by its type; every other stays what it was."""
    told = json.loads(json.dumps(plain({"n": [number, -number]})))["n"]
    assert told == ([number, -number] if abs(number) < 10**4_300 else ["<int>", "<int>"])
