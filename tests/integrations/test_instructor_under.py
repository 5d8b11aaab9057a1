"""A wrapped client under instructor.

What instructor asks for is guarded, and its own retries have little left to do.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("instructor", reason="instructor is an extra with a lane of its own")

import strictreply as sr
from strictreply.integrations.instructor import from_instructor
from support.integrations.providers import ADA, QUESTION, Twin, User, codes, instructor, reply
from support.scripted import Server, status

ONE_RETRY = sr.RetryPolicy(max_retries=1, transport_retries=0)


@pytest.fixture(params=["sync", "async"])
def twin(request: pytest.FixtureRequest) -> Twin:
    """Ask in both ways."""
    return Twin(request.param)


def patched(twin: Twin, server: Server, mode: str) -> Any:
    """Put a wrapped client under instructor as its documentation patches a function."""
    client = sr.wrap(twin.sdk(server), policy=ONE_RETRY)
    return instructor.patch(create=client.chat.completions.create, mode=instructor.Mode[mode])


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA"])
@pytest.mark.parametrize(
    "value",
    [
        '{"name": "Ada", "name": "Eve", "age": 36}',
        {"name": "Ada", "age": 36, "admin": True},
        {"name": "Ada", "age": "36"},
        '{"name": "Ada", "age": NaN}',
        '{"name": "Ada", "age": 36} {}',
    ],
)
def test_what_does_not_fit_never_reaches_instructor(twin: Twin, mode: str, value: object) -> None:
    """If the request holds the schema, a reply that breaks it is corrected below instructor."""
    server = Server(reply(mode, value), reply(mode, ADA))
    user = twin.run(
        patched(twin, server, mode),
        model="m",
        response_model=User,
        messages=QUESTION,
        max_retries=0,
    )
    assert user.model_dump() == ADA
    last = json.loads(server.bodies[1])["messages"]
    assert [turn["role"] for turn in last][:2] == ["user", "assistant"]

    assert "Validation Error" not in last[-1]["content"]


def test_a_rejected_reply_is_not_asked_for_by_both(twin: Twin) -> None:
    """When our retries are spent instructor asks no more; its exception carries our error with the
    attempts.
    """
    server = Server(reply("TOOLS", {}))
    with pytest.raises(instructor.core.InstructorRetryException) as caught:
        twin.run(
            patched(twin, server, "TOOLS"),
            model="m",
            response_model=User,
            messages=QUESTION,
            max_retries=5,
        )

    error = from_instructor(caught.value)
    assert isinstance(error, sr.ToolArgumentsError)
    assert error is caught.value.__cause__
    assert len(server.requests) == len(error.attempts) == 2


def test_a_failed_transport_is_told_as_ours(twin: Twin) -> None:
    """A failure of the API comes through instructor as our error with its status."""
    create = patched(twin, Server(status(503)), "TOOLS")
    with pytest.raises(instructor.core.InstructorRetryException) as caught:
        twin.run(create, model="m", response_model=User, messages=QUESTION)
    error = from_instructor(caught.value)
    assert isinstance(error, sr.TransportFailed)
    assert error.status_code == 503


def test_instructors_class_stands_on_the_patched_function(twin: Twin) -> None:
    """``Instructor(client, create)`` gives the whole of instructor's client over a wrapped one."""
    kind = instructor.Instructor if twin.kind == "sync" else instructor.AsyncInstructor
    server = Server(reply("TOOLS", {"name": "Ada"}), reply("TOOLS", ADA))
    client = kind(client=None, create=patched(twin, server, "TOOLS"))
    user, completion = twin.run(
        client.create_with_completion, model="m", response_model=User, messages=QUESTION
    )
    assert user.model_dump() == ADA
    assert json.loads(completion.choices[0].message.tool_calls[0].function.arguments) == ADA


def test_a_models_own_validators_are_left_to_instructor(twin: Twin) -> None:
    """The request tells the schema, not the validators: what those refuse instructor asks for
    again.
    """
    server = Server(reply("TOOLS", {"name": "Ada", "age": 3}), reply("TOOLS", ADA))
    user = twin.run(
        patched(twin, server, "TOOLS"), model="m", response_model=User, messages=QUESTION
    )
    assert user.model_dump() == ADA
    assert "must be of age" in json.loads(server.bodies[1])["messages"][-1]["content"]


def test_json_mode_is_held_to_one_strict_object_only(twin: Twin) -> None:
    """In JSON mode the schema stands in prose: strict JSON is held, an extra key is not."""
    server = Server(
        reply("JSON", '{"name": "Ada", "name": "Eve", "age": 36}'),
        reply("JSON", {**ADA, "admin": True}),
    )
    user = twin.run(
        patched(twin, server, "JSON"), model="m", response_model=User, messages=QUESTION
    )
    assert user.model_dump() == ADA
    assert len(server.requests) == 2


def test_a_wrapped_client_is_an_openai_client_for_instructor(twin: Twin) -> None:
    """``from_openai`` takes a wrapped client, and what comes out of it is guarded."""
    server = Server(reply("TOOLS", {"name": "Ada"}), reply("TOOLS", ADA))
    client = instructor.from_openai(sr.wrap(twin.sdk(server), policy=ONE_RETRY))
    user, completion = twin.run(
        client.create_with_completion, model="m", response_model=User, messages=QUESTION
    )
    assert user.model_dump() == ADA
    assert json.loads(completion.choices[0].message.tool_calls[0].function.arguments) == ADA
    assert "Validation Error" not in json.loads(server.bodies[1])["messages"][-1]["content"]


def test_the_attempts_of_a_call_are_told_to_the_watcher(twin: Twin) -> None:
    """``on_attempt`` of the wrapped client sees every ask that instructor never heard of."""
    told: list[sr.Attempt] = []
    server = Server(reply("TOOLS", {}), reply("TOOLS", ADA))
    client = sr.wrap(twin.sdk(server), on_attempt=told.append)
    create = instructor.patch(create=client.chat.completions.create)
    twin.run(create, model="m", response_model=User, messages=QUESTION)
    assert codes(told) == [["args.required", "args.required"], []]
