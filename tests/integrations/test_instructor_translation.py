"""Errors both ways between instructor and us, with what is kept and what is lost."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("instructor", reason="instructor is an extra with a lane of its own")

import strictreply as sr
from strictreply.integrations.instructor import from_instructor, to_instructor, wrap
from support.integrations.providers import (
    ADA,
    QUESTION,
    AnthropicServer,
    Twin,
    User,
    blocks,
    codes,
    instructor,
    reply,
    use,
)
from support.scripted import Server, completion, refusal, status, truncated

SYNC = Twin("sync")
BAD = {"name": "Ada", "age": "canary"}


def given_up(*answers: Any, mode: str = "TOOLS", **keywords: Any) -> sr.CallFailed:
    """Run instructor until it stops retrying; return our error that replaces its exception."""
    client = SYNC.client(Server(*answers), mode)
    with pytest.raises(instructor.core.InstructorError) as caught:
        client.create(response_model=User, messages=QUESTION, **{"max_retries": 1, **keywords})
    return from_instructor(caught.value)


def failed(answer: Any) -> sr.CallFailed:
    """Run an engine until it fails and return its error."""
    engine = wrap(
        SYNC.client(Server(answer)), policy=sr.RetryPolicy(max_retries=1, transport_retries=0)
    )
    with pytest.raises(sr.CallFailed) as caught:
        engine.create(response_model=User, messages=QUESTION)
    return caught.value


def test_there_and_back_is_the_same_error() -> None:
    """An error of ours is found whole in the exception of instructor's that was made of it."""
    error = failed(reply("TOOLS", BAD))
    assert from_instructor(to_instructor(error)) is error


def test_code_that_catches_instructors_exception_finds_what_it_reads() -> None:
    """The attempts, the last completion, the request and the tokens stand where instructor puts
    them.
    """
    error = failed(reply("TOOLS", BAD))
    told = to_instructor(error)
    assert isinstance(told, instructor.core.InstructorRetryException)
    assert (told.n_attempts, told.total_usage.total_tokens) == (2, 30)

    assert [each.attempt_number for each in told.failed_attempts] == [1, 2]
    assert {type(each.exception).__name__ for each in told.failed_attempts} == {
        "ResponseParsingError"
    }
    assert told.last_completion["choices"][0]["message"]["tool_calls"]
    assert told.create_kwargs["model"] == "m"

    assert told.messages == told.create_kwargs["messages"]


def test_a_failed_transport_keeps_the_sdks_exception() -> None:
    """The exception of the SDK is the failed attempt's."""
    told = to_instructor(failed(status(503)))
    assert type(told.failed_attempts[0].exception).__name__ == "InternalServerError"
    assert told.last_completion is None


def test_an_error_without_attempts_is_translated() -> None:
    """An error that somebody made by hand carries no request."""
    told = to_instructor(sr.ReplyHalted("halted", reason="tokens", attempts=()))
    assert (told.n_attempts, told.create_kwargs, told.last_completion) == (0, {}, None)


def test_instructors_attempts_are_read_again_by_our_reader() -> None:
    """Where the request tells the schema, each failed attempt gets our codes and paths; the tokens
    stand at the end.
    """
    error = given_up(reply("TOOLS", BAD), reply("TOOLS", {**ADA, "age": "1", "admin": 1}))
    assert isinstance(error, sr.ReplyRejected)
    assert codes(error.attempts) == [["args.type"], ["args.type", "args.extra_key"]]
    assert [attempt.usage.total_tokens for attempt in error.attempts] == [0, 30]
    assert error.attempts[0].raw is not None


@pytest.mark.parametrize("mode", ["JSON", "MD_JSON"])
def test_what_our_reader_cannot_hold_is_told_without_the_models_words(mode: str) -> None:
    """Where the schema stood in prose, pydantic's words are kept but for those that the model
    wrote.
    """
    error = given_up(reply(mode, {"name": "Ada", "age": "canary"}), mode=mode)
    assert codes(error.attempts) == [["args.check"], ["args.check"]]
    assert "canary" not in str(error)


def test_a_validators_words_are_kept() -> None:
    """The message of a validator is kept."""
    error = given_up(reply("TOOLS", {**ADA, "age": 3}))
    assert [issue.message for issue in error.issues] == ["must be of age"]


@pytest.mark.parametrize(
    ("answers", "keywords", "kind", "reason", "last"),
    [
        ((truncated(),), {}, sr.ReplyRejected, "retries", ["reply.truncated"]),
        ((refusal("canary"),), {}, sr.ReplyRejected, "retries", ["args.check"]),
        ((completion("canary"),), {}, sr.ReplyRejected, "retries", ["tool.required"]),
        ((reply("TOOLS", BAD),), {"token_budget": 5}, sr.ReplyHalted, "tokens", ["args.type"]),
        ((reply("TOOLS", BAD), status(503)), {}, sr.TransportFailed, "server_error", []),
        ((status(429, retry_after="7"),), {}, sr.TransportFailed, "rate_limit", []),
    ],
)
def test_each_end_of_instructors_has_its_error(
    answers: tuple[Any, ...],
    keywords: dict[str, Any],
    kind: type[sr.CallFailed],
    reason: str,
    last: list[str],
) -> None:
    """Why instructor ended chooses the error, and no word of the model's is in its text."""
    error = given_up(*answers, **keywords)
    assert (type(error), error.reason, codes(error.attempts)[-1]) == (kind, reason, last)
    assert "canary" not in str(error)


def test_anthropics_attempts_and_tokens_are_read() -> None:
    """A request of another shape is no contract, but its attempts and its tokens are told."""
    client = AnthropicServer(blocks(use(BAD))).client()
    with pytest.raises(instructor.core.InstructorRetryException) as caught:
        client.create(response_model=User, messages=QUESTION, max_retries=1)
    error = from_instructor(caught.value)
    assert codes(error.attempts) == [["args.check"], ["args.check"]]
    assert error.usage.completion_tokens == 10
    assert "canary" not in str(error)


def test_a_completion_that_is_no_json_is_left_out() -> None:
    """A completion that cannot be read as JSON is not a raw reply."""
    core = instructor.core
    kept = core.FailedAttempt(1, ValueError("canary"), object())
    error = core.InstructorRetryException(
        "x", n_attempts=1, total_usage=None, failed_attempts=[kept]
    )
    ours = from_instructor(error)
    assert (ours.attempts[0].raw, codes(ours.attempts)) == (None, [["args.check"]])
    assert "canary" not in str(ours)


def test_what_instructor_never_raised_is_refused() -> None:
    """Only an exception by which instructor gives up has attempts to tell of."""
    with pytest.raises(TypeError, match="ClientError"):
        from_instructor(instructor.core.ClientError("x"))
