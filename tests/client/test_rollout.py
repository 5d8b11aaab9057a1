"""How far replies are enforced: values, functions and the environment, read for each call."""

from __future__ import annotations

import copy
import json
import logging
import random
from pathlib import Path
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
        ({"mode": lambda: "enforce", "enforce": {"look"}}, 1),
        ({"mode": "enforce", "enforce": {"search"}}, 2),
        ({"mode": "enforce", "enforce": ""}, 2),
        ({"enforce": lambda: "search, look"}, 2),
    ],
)
def test_what_is_enforced(rollout: dict[str, Any], expected: int) -> None:
    """Each setting, and each pair of them, says by itself what is enforced."""
    assert requests(**rollout) == expected


def broken() -> Any:
    """A flag service that has never answered."""
    raise ConnectionError("no flags")


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        ({"mode": broken}, 2),
        ({"enforce": broken}, 2),
        ({"observe": broken}, 2),
        ({"mode": broken, "enforce": {"look"}}, 1),
        ({"mode": "observe", "enforce": broken}, 1),
    ],
)
def test_a_flag_without_a_good_value_counts_as_not_given(
    rollout: dict[str, Any], expected: int
) -> None:
    """With no other setting, everything is enforced; ``mode="observe"`` prevents it."""
    assert requests(**rollout) == expected


@pytest.mark.parametrize("given", [True, "*", ["*"], 1, b"refund"])
def test_what_names_no_tool_is_refused_with_the_way_to_enforce_all(given: Any) -> None:
    """The error says what was given, and how everything is enforced."""
    with pytest.raises(sr.ContractError) as caught:
        sr.wrap(Server(GOOD).client(), enforce=given)
    assert 'mode="enforce"' in str(caught.value)


@pytest.mark.parametrize(("mode", "is_sent"), [("observe", False), ("enforce", True)])
def test_declared_tools_are_sent_when_everything_is_enforced(mode: Any, is_sent: bool) -> None:
    """While a client observes, a request goes out as the program makes it."""
    server = Server(GOOD)
    sr.wrap(server.client(), tools=[SEARCH], mode=mode).chat.completions.create(**ASK)
    assert ("tools" in json.loads(server.requests[0].content)) is is_sent


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
    place = [f"{__file__}:" in record.getMessage() for record in caplog.records]
    assert place == [wrong == "raise"]
    assert "no flags" not in caplog.text


@pytest.mark.parametrize(
    ("variable", "wrong", "hint"),
    [
        ("STRICTREPLY_MODE", "observ", "'observe'"),
        ("STRICTREPLY_MODE", "Observe", "'observe'"),
        ("STRICTREPLY_MODE", "enforced", "'enforce'"),
        ("STRICTREPLY_MODE", "1", "enforce, observe, off"),
        ("STRICTREPLY_OBSERVE", "1%", "from 0 to 1"),
        ("STRICTREPLY_OBSERVE", "yes", "from 0 to 1"),
        ("STRICTREPLY_LEDGER", "no-such-folder/ledger.jsonl", "does not exist"),
        ("STRICTREPLY_LEDGER", " ", "unset it"),
        ("STRICTREPLY_ENFORCE", " , ", "unset it"),
    ],
)
def test_a_wrong_variable_is_refused_by_wrap(
    variable: str, wrong: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typo in a variable must not silently choose a mode: the error names what is wrong."""
    monkeypatch.setenv(variable, wrong)
    with pytest.raises(sr.ContractError) as caught:
        sr.wrap(Server(GOOD).client(), tools=[SEARCH])

    assert variable in str(caught.value)
    assert repr(wrong) in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize(("first", "expected"), [("observe", 1), ("enforce", 2), (None, 2)])
def test_a_variable_that_becomes_wrong_keeps_the_last_mode(
    first: str | None,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While a program runs, a wrong variable is logged once, and changes no mode."""
    monkeypatch.delenv("STRICTREPLY_MODE", raising=False)
    if first is not None:
        monkeypatch.setenv("STRICTREPLY_MODE", first)

    server = Server(WRONG, GOOD, WRONG, GOOD) if expected == 2 else Server(WRONG)
    client = sr.wrap(server.client(), tools=[SEARCH])
    monkeypatch.setenv("STRICTREPLY_MODE", "obsreve")
    with caplog.at_level(logging.WARNING, "strictreply"):
        client.chat.completions.create(**ASK)
        client.chat.completions.create(**ASK)

    assert len(server.requests) == 2 * expected
    assert ["STRICTREPLY_MODE" in record.getMessage() for record in caplog.records] == [True]


def test_a_variable_that_is_removed_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value from before the variable was removed is not the last valid one."""
    monkeypatch.setenv("STRICTREPLY_MODE", "observe")
    server = Server(WRONG, GOOD, WRONG, GOOD)
    client = sr.wrap(server.client(), tools=[SEARCH])
    monkeypatch.delenv("STRICTREPLY_MODE")
    client.chat.completions.create(**ASK)
    monkeypatch.setenv("STRICTREPLY_MODE", "obsreve")
    client.chat.completions.create(**ASK)

    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("STRICTREPLY_MODES", "STRICTREPLY_MODE"),
        ("STRICTREPLY_OBSERVED", "STRICTREPLY_OBSERVE"),
        ("STRICTREPLY_LEGDER", "STRICTREPLY_LEDGER"),
        ("STRICT_REPLY_MODE", "STRICTREPLY_MODE"),
    ],
)
def test_a_misspelt_variable_is_logged_once(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A variable that nothing reads is logged if its name resembles one that is read."""
    monkeypatch.setenv(name, "observe")
    with caplog.at_level(logging.WARNING, "strictreply"):
        sr.wrap(Server(GOOD).client())
        sr.wrap(Server(GOOD).client())

    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert f"{name};" in messages[0]
    assert f"{meant}?" in messages[0]


def test_other_variables_with_the_prefix_are_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A program may have variables of its own, and every variable that is read is known."""
    monkeypatch.setenv("STRICTREPLY_SHOP_URL", "x")
    monkeypatch.setenv("STRICTREPLY_CONTRACT", "x")
    monkeypatch.setenv("STRICTREPLY_MAX_LOOP_COUNT", "3")
    with caplog.at_level(logging.WARNING, "strictreply"):
        sr.wrap(Server(GOOD).client())

    assert not caplog.records


def test_a_misspelt_tool_in_a_variable_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The variable is for all clients of a process, so a request without its tool is no error."""
    monkeypatch.setenv("STRICTREPLY_ENFORCE", "serach")
    client = sr.wrap(Server(GOOD).client(), tools=[SEARCH])
    with caplog.at_level(logging.WARNING, "strictreply"):
        client.chat.completions.create(**ASK)

    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert "STRICTREPLY_ENFORCE" in messages[0]
    assert "'search'" in messages[0]


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
    ],
)
def test_a_wrong_value_is_refused_where_it_is_given(wrong: dict[str, Any]) -> None:
    """``wrap`` names the setting that is wrong."""
    named = next(iter(wrong))
    with pytest.raises(sr.ContractError, match=named):
        sr.wrap(Server(GOOD).client(), tools=[SEARCH], **wrong)


def test_a_misspelt_tool_is_refused() -> None:
    """It would never be enforced: the error has the name that was meant."""
    with pytest.raises(sr.ContractError, match="did you mean 'search'"):
        sr.wrap(Server(GOOD).client(), tools=[SEARCH], enforce={"serach"})

    # a request may declare it
    sr.wrap(Server(GOOD).client(), enforce={"serach"})
    sr.wrap(Server(GOOD).client(), tools=[SEARCH], enforce={"refund"})


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


def test_an_enforced_tool_that_no_request_has_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A name that may be misspelt is said at the first request with tools, and not again."""
    client = sr.wrap(Server(GOOD).client(), tools=[SEARCH], enforce=lambda: "refnd")
    with caplog.at_level(logging.WARNING, "strictreply"):
        client.chat.completions.create(**ASK)
        client.chat.completions.create(**ASK)

    assert ["refnd" in record.getMessage() for record in caplog.records] == [True]


def test_an_async_flag_is_refused() -> None:
    """Nothing would await it, so it would never count."""

    async def flag() -> str:
        return "observe"

    wrong: Any = flag
    for name in ("mode", "enforce", "observe"):
        with pytest.raises(sr.ContractError, match=name):
            sr.wrap(Server(GOOD).client(), tools=[SEARCH], **{name: wrong})


def test_a_flag_that_changes_within_a_call_gives_no_unjudged_reply() -> None:
    """A call that begins as an enforced one of ours ends as one."""
    modes = iter(["enforce", *["observe"] * 9])
    mode: Any = lambda: next(modes)  # noqa: E731 - as a program writes it
    server = Server(WRONG, GOOD)
    client = sr.wrap(server.client(), tools=[SEARCH], mode=mode)

    assert isinstance(client.reply(**ASK), sr.ToolCall)
    assert len(server.requests) == 2


COPIES: dict[str, Any] = {
    "wrapped again": lambda client: sr.wrap(client, tools=[SEARCH]),
    "with other options": lambda client: client.with_options(timeout=3),
    "copied": copy.copy,
    "watched": lambda client: client.watched(lambda _: None),
    "observed": lambda client: client.observed_by(None),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_keeps_the_mode_and_the_ledger(way: str, tmp_path: Path) -> None:
    """Whatever copies a client, it goes on observing, and writes where it wrote."""
    server = Server(WRONG)
    ledger = tmp_path / "ledger.jsonl"
    client = sr.wrap(server.client(), tools=[SEARCH], mode="observe", ledger=ledger)
    COPIES[way](client).chat.completions.create(**ASK)

    assert len(server.requests) == 1
    assert b'"observed"' in ledger.read_bytes()


def test_a_mode_that_is_given_counts_when_a_client_is_wrapped_again() -> None:
    """Only what ``wrap`` is not told stays as it was."""
    server = Server(WRONG, GOOD)
    client = sr.wrap(server.client(), tools=[SEARCH], mode="observe")
    sr.wrap(client, tools=[SEARCH], mode="enforce").chat.completions.create(**ASK)

    assert len(server.requests) == 2
