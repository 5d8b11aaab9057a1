"""The faults of the response around a reply; the laws that hold for all of them are in ``test_reply_laws``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strictreply.testing._steps import CANARY
from strictreply.testing._targets import PROSE, Target
from strictreply.testing.faults import _envelopes as envelopes
from testing.faults.reply_laws import as_json

MESSAGE = {"role": "assistant", "content": PROSE, "refusal": None}


def served_by(name: str) -> Any:
    """Give the response that one fault serves."""
    return as_json(getattr(envelopes, name)().served)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("empty_choices", []),
        ("null_choices", None),
        ("null_choice", [None]),
        ("choices_as_object", {"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}),
    ],
)
def test_the_choices_are_something_else(name: str, choices: Any) -> None:
    """All but the choices is as it was."""
    assert served_by(name) == Target.of().clean | {"choices": choices}


def test_the_choices_are_missing_or_too_many() -> None:
    """None is there, or a second one that differs in its index."""
    assert "choices" not in served_by("missing_choices")
    assert [choice["index"] for choice in served_by("two_choices")["choices"]] == [0, 1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("null_message", None),
        ("empty_message", {}),
        ("message_as_text", PROSE),
        ("message_in_array", [MESSAGE]),
        ("user_role", MESSAGE | {"role": "user"}),
    ],
)
def test_the_message_is_something_else(name: str, message: Any) -> None:
    """All but the message is as it was."""
    (choice,) = served_by(name)["choices"]
    assert choice == {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("response_in_array", [Target.of().clean]),
        ("response_as_number", 42),
        ("null_response", None),
        ("empty_response", {}),
        ("bare_message", MESSAGE),
    ],
)
def test_the_response_is_something_else(name: str, response: Any) -> None:
    """The completion is not there, or not at the root."""
    assert served_by(name) == response


def test_a_response_may_be_the_text_of_the_completion() -> None:
    """The completion can be read, by who reads twice."""
    assert json.loads(served_by("response_as_text")) == Target.of().clean


@pytest.mark.parametrize(
    "name",
    ["error_for_response", "error_as_text", "error_members_for_response", "error_beside_choices", "error_in_choice"],
)
def test_what_an_error_says_is_invented(name: str) -> None:
    """The words of a server may hold the model's, so they may not come back in a prompt either."""
    assert getattr(envelopes, name)().invented[:1] == (CANARY,)


@pytest.mark.parametrize(
    "name",
    [
        *("message_as_text", "chunk_for_response", "text_completion", "response_of_responses_api"),
        *("response_of_ollama", "response_of_anthropic"),
    ],
)
def test_a_response_in_another_form_still_says_the_reply(name: str) -> None:
    """The good reply stands somewhere in it: a client that looks for it there would take it."""
    assert PROSE in json.dumps(served_by(name))
