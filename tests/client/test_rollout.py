"""How far replies are enforced: values, functions and the environment, read for each call."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest

import strictreply as sr
from support.scripted import SCHEMA, USER, Server, call, completion

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
LOOK = sr.Tool.from_json_schema("look", SCHEMA)
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
ASK: dict[str, Any] = {"model": "m", "messages": USER}


def requests(*replies: Any, **rollout: Any) -> int:
    """Return how many requests a call makes whose first reply does not fit."""
    server = Server(*(replies or (WRONG, GOOD)))
    client = sr.wrap(server.client(), tools=[SEARCH, LOOK], **rollout)
    client.chat.completions.create(**ASK)
    return len(server.requests)


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        ({}, 2),
        ({"mode": "enforce"}, 2),
        ({"mode": "observe"}, 1),
        ({"mode": "off"}, 1),
        ({"enforce": {"search"}}, 2),
        ({"enforce": ["look"]}, 1),
        ({"enforce": set()}, 1),
        ({"mode": "observe", "enforce": {"search"}}, 2),
        ({"mode": "off", "enforce": {"search"}}, 1),
        ({"observe": 1.0}, 1),
        ({"observe": 0}, 1),
        ({"mode": lambda: "observe"}, 1),
        ({"mode": lambda: "enforce", "enforce": {"look"}}, 2),
        ({"enforce": lambda: "search, look"}, 2),
    ],
)
def test_what_is_enforced(rollout: dict[str, Any], expected: int) -> None:
    """Each setting, and each pair of them, says by itself what is enforced."""
    assert requests(**rollout) == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"STRICTREPLY_MODE": "observe"}, 1),
        ({"STRICTREPLY_MODE": "off"}, 1),
        ({"STRICTREPLY_MODE": ""}, 2),
        ({"STRICTREPLY_ENFORCE": "look, search"}, 2),
        ({"STRICTREPLY_ENFORCE": "look"}, 1),
        ({"STRICTREPLY_OBSERVE": "0.5"}, 1),
    ],
)
def test_the_environment_counts_where_nothing_is_given(
    variables: dict[str, str], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables are read for each call; a keyword of ``wrap`` counts before all of them."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert requests() == expected
    assert requests(mode="enforce") == 2


def test_a_flag_is_read_for_each_call() -> None:
    """A function switches the mode without a new client."""
    modes = iter(["observe", "enforce", "off", "observe"])
    now: list[str] = [next(modes)]
    server = Server(WRONG, WRONG, GOOD, WRONG, WRONG)
    mode: Any = lambda: now[0]  # noqa: E731 - as a program writes it
    client = sr.wrap(server.client(), tools=[SEARCH], mode=mode)
    made: list[int] = []
    for _ in range(4):
        before = len(server.requests)
        client.chat.completions.create(**ASK)
        made.append(len(server.requests) - before)
        now[0] = next(modes, "observe")

    assert made == [1, 2, 1, 1]


@pytest.mark.parametrize("wrong", ["on", None, 3, "raise"])
def test_a_wrong_flag_keeps_the_last_known_one(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What a function returns wrongly, or raises, is logged once and changes nothing."""
    answers: list[Any] = ["observe"]

    def flag() -> Any:
        if answers[0] == "raise":
            raise ConnectionError("no flags")
        return answers[0]

    server = Server(WRONG)
    client = sr.wrap(server.client(), tools=[SEARCH], mode=flag)
    client.chat.completions.create(**ASK)
    answers[0] = wrong
    with caplog.at_level(logging.ERROR, "strictreply"):
        client.chat.completions.create(**ASK)
        client.chat.completions.create(**ASK)

    assert len(server.requests) == 3
    assert len(caplog.records) == 1


def test_a_wrong_variable_enforces(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A misspelt variable is as if it were not there, and is logged."""
    monkeypatch.setenv("STRICTREPLY_MODE", "obsreve")
    with caplog.at_level(logging.ERROR, "strictreply"):
        assert requests() == 2

    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "on"},
        {"mode": "json"},
        {"mode": True},
        {"enforce": 3},
        {"enforce": [SEARCH]},
        {"enforce": b"search"},
        {"observe": 2},
        {"observe": -0.1},
        {"observe": True},
        {"observe": "often"},
        {"observe": float("nan")},
        {"mode": "enforce", "enforce": {"search"}},
    ],
)
def test_a_wrong_value_is_refused_where_it_is_given(wrong: dict[str, Any]) -> None:
    """``wrap`` names the setting that is wrong."""
    named = next(iter(wrong))
    with pytest.raises(sr.ContractError, match=named):
        sr.wrap(Server(GOOD).client(), tools=[SEARCH], **wrong)


def test_an_enforced_tool_must_be_declared() -> None:
    """A misspelt tool would never be enforced: it is refused, with the name that was meant."""
    with pytest.raises(sr.ContractError, match="did you mean 'search'"):
        sr.wrap(Server(GOOD).client(), tools=[SEARCH], enforce={"serach"})

    # without declared tools the requests have them
    sr.wrap(Server(GOOD).client(), enforce={"serach"})


def test_a_part_of_the_calls_is_judged() -> None:
    """``observe=0.25`` judges about a quarter, and changes none."""
    random.seed(7)
    seen: list[sr.Attempt] = []
    server = Server(WRONG)
    client = sr.wrap(server.client(), tools=[SEARCH], observe=0.25, on_attempt=seen.append)
    for _ in range(400):
        client.chat.completions.create(**ASK)

    assert len(server.requests) == 400
    assert 60 < len(seen) < 140
