"""Every stream fault of the catalogue through the drop-in stream.

A strict reading refuses it as the reference reader does; what is read by default is held in
``tests/testing/faults/test_readings.py``.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Annotated, Any, Literal

import openai
import pytest
from pydantic import BaseModel, Field

import strictreply as sr
from strictreply.testing import (
    Fault,
    HTTPReply,
    Kind,
    ReplyPlace,
    ScriptedModel,
    WireEnding,
    no_backoff,
    ok,
)
from strictreply.testing.faults import Entry
from strictreply.testing.mounting import async_openai_client, openai_client
from support.loops import some
from support.served_faults import entries_of
from support.streamed_replies import Told, aread, policy, read
from support.strict_streams import codes_of
from support.testing.faults.spoken import strict_contract


@sr.Tool.from_function
def search(query: str, limit: Annotated[int, Field(ge=1, le=20)] = 5) -> None:
    """Search the shop."""


class Refund(BaseModel):
    """Refund an order."""

    order: int
    notes: list[str]


pytestmark = pytest.mark.sampled

TARGETS: dict[str, tuple[object, ReplyPlace]] = {
    "a call": (search, "call"),
    "a call with a list": (Refund, "call"),
    "text that holds a call": (search, "union"),
    "a structured answer": (Refund, "json"),
    "prose": (None, "prose"),
}
ENTRIES = entries_of(Kind.STREAM)

INSTEAD = {
    "stream_calls_interleaved": {"json.trailing_data"},
    "stream_empty": {"envelope.choices"},
    "stream_not_utf8": {"envelope.malformed"},
    "stream_html_page": {"envelope.choices"},
    "stream_plain_json": {"envelope.choices"},
    "stream_json_lines": {"envelope.choices"},
    "stream_hang": {"timeout"},
    "stream_comments_forever": {"timeout", "response_too_large"},
    "stream_endless_event": {"timeout", "response_too_large"},
    "stream_endless_text": {"reply.too_large", "shape.extra_key"},
}
"""What is said where it is not the oracle's code: of another fault that the same bytes have, or of
the connection.
"""


@cache
def made(entry: Entry, name: str) -> list[Fault]:
    """The faults of one entry at one kind of reply."""
    tool, place = TARGETS[name]
    return list(entry.all_for(tool, place=place))


CASES = [
    pytest.param(entry, name, id=f"{entry.name}-{name}")
    for entry in ENTRIES
    for name in TARGETS
    if made(entry, name)
]


def contract_of(name: str, dialects: Literal["known", "strict"] = "strict") -> sr.Contract[Any]:
    """The contract of a kind of reply."""
    tool, place = TARGETS[name]
    strict = strict_contract(tool, place)
    if dialects == "strict":
        return strict

    answer = tool if place == "json" else str
    return sr.Contract(tools=strict.tools, answer=answer, channel=strict.channel)


def served(
    model: ScriptedModel,
    name: str,
    *,
    is_async: bool = False,
    dialects: Literal["known", "strict"] = "strict",
    **changed: Any,
) -> Told:
    """Stream from a model; silence lasts a fraction of a second."""
    contract = contract_of(name, dialects)
    held: dict[str, Any] = {"contract": contract, "policy": policy(**changed)}
    with no_backoff():
        if is_async:
            return asyncio.run(aread(sr.wrap(async_openai_client(model, timeout=0.2), **held)))
        return read(sr.wrap(openai_client(model, timeout=0.2), **held))


def expected(fault: Fault, name: str) -> set[str]:
    """The codes of which one must be said."""
    assert isinstance(fault.served, HTTPReply)
    codes = set(codes_of(fault.served, contract_of(name)))
    assert codes, "the oracle refuses it, too"
    broken = {"connection"} if fault.served.ending in {WireEnding.CUT, WireEnding.RESET} else set()
    return codes | broken | INSTEAD.get(fault.name, set())


@pytest.mark.parametrize(("entry", "name"), CASES)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_no_fault_of_a_stream_is_acted_on(entry: Entry, name: str, is_async: bool) -> None:
    """Neither a call nor a finish nor a letter of an answer that is held comes out, and the
    exception is the SDK's.
    """
    for fault in some(made(entry, name)):
        told = served(
            ScriptedModel(fault), name, is_async=is_async, max_retries=0, transport_retries=0
        )
        error: object = told.error  # by its class an exception of ours is no exception of the SDK
        assert isinstance(error, openai.OpenAIError)
        assert (told.calls, told.reason, told.usage) == ([], None, None)

        assert not told.content or name == "prose"
        (codes,) = told.codes
        assert expected(fault, name).intersection(codes)


@pytest.mark.parametrize(("entry", "name"), CASES)
def test_the_good_reply_comes_in_place_of_a_bad_one(entry: Entry, name: str) -> None:
    """Exactly the second reply, in well-formed chunks; behind live text the exception instead,
    after one request.
    """
    tool, place = TARGETS[name]
    for fault in some(made(entry, name)):
        good = ok.reply(tool, place=place)
        model = ScriptedModel(fault, good)
        told = served(model, name, max_retries=1, transport_retries=1)
        if told.error is not None:
            assert name == "prose"
            assert told.content
            assert len(model.requests) == 1
            continue

        assert model.spent
        alone = served(ScriptedModel(good), name)
        # A script has an id for each reply, so the ids differ.
        assert [one[1:] for one in told.calls] == [one[1:] for one in alone.calls]
        assert told._replace(calls=alone.calls) == alone

        assert isinstance(contract_of(name).check(_message(told)), sr.Valid)


def _message(told: Told) -> dict[str, Any]:
    calls = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id_, name, arguments in told.calls
    ]
    return {"role": "assistant", "content": told.content or None} | (
        {"tool_calls": calls} if calls else {}
    )
