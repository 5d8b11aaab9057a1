"""What is given of a wrong type is refused where it is given.

The error has its name, and what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

import strictreply as sr
from strictreply import Limits
from support.scripted import Server, completion


class Answer(BaseModel):
    """A structured answer."""

    query: str


def wrapped(**keywords: Any) -> Any:
    """Wrap a client."""
    return sr.wrap(Server(completion("hello")).client(), **keywords)


def asked(**keywords: Any) -> Any:
    """Make one call."""
    return wrapped().reply(**{"model": "m", "messages": "hi"} | keywords)


UNTYPED: Any = sr
"""The library, as somebody without a type checker uses it."""

LIMITS: Any = Limits


WRONG: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "a policy of wrap": (lambda: wrapped(policy=3), ("policy", "RetryPolicy(", "int")),
    "a policy of a call": (lambda: asked(policy=3), ("policy", "RetryPolicy(", "int")),
    "a policy of a next request": (
        lambda: UNTYPED.Contract().next_request({"model": "m", "messages": "hi"}, policy=3),
        ("policy", "RetryPolicy(", "int"),
    ),
    "a contract of wrap": (lambda: wrapped(contract=3), ("contract", "Contract(", "int")),
    "a contract of a call": (lambda: asked(contract=3), ("contract", "Contract(", "int")),
    "a steering": (lambda: asked(steering=3), ("steering", "correction", "int")),
    "a watcher": (lambda: wrapped(on_attempt=3), ("on_attempt", "function", "int")),
    "limits": (lambda: wrapped(limits=3), ("limits", "Limits(", "int")),
    "parallel": (lambda: wrapped(parallel="yes"), ("parallel", "True", "str")),
    "retries": (lambda: UNTYPED.RetryPolicy(max_retries="3"), ("max_retries", "number", "str")),
    "a deadline": (lambda: UNTYPED.RetryPolicy(deadline="3"), ("deadline", "number", "str")),
    "a limit": (lambda: LIMITS(depth="3"), ("depth", "whole number", "'3'")),
    "what is the contract's": (lambda: asked(answer=Answer), ("answer", "wrap()", "Contract(")),
    "messages": (lambda: asked(messages=3), ("messages", "list", "int")),
    "no messages": (lambda: wrapped().reply(model="m"), ("messages", "list")),
    "an API": (lambda: asked(api="x"), ("api", "chat", "responses")),
    "a loop": (
        lambda: UNTYPED.run(wrapped(), "hi", model="m", loop=3),
        ("loop", "LoopPolicy(", "int"),
    ),
    "one tool": (lambda: wrapped(tools=3), ("tools", "list", "int")),
    "no tool": (lambda: wrapped(tools=[3]), ("int", "function")),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_type_is_refused_by_its_name(name: str) -> None:
    """A ValueError, at once: what was given, and what to give."""
    make, facts = WRONG[name]
    with pytest.raises(ValueError, match=r".") as refused:
        make()
    assert all(fact in str(refused.value) for fact in facts), str(refused.value)


def test_a_text_is_a_turn_of_the_user() -> None:
    """In every method of ours, the tool loop and the requests that are made for others."""
    server = Server(completion("hello"))
    client: Any = sr.wrap(server.client())
    client.reply(model="m", messages="hi")
    client.exchange(model="m", messages="hi")

    sr.run(client, "hi", model="m")
    assert len(set(server.bodies)) == 1
    assert b'"messages":[{"role":"user","content":"hi"}]' in server.bodies[0]
    following: Any = sr.Contract().next_request({"model": "m", "messages": "hi"})
    assert following.request["messages"] == [{"role": "user", "content": "hi"}]
