"""The catalogue over the Messages API.

Every fault that exists there is refused by a strict reading; by default it is what its row says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import strictreply as sr
from streams.test_stream_faults_refused import TARGETS, contract_of, made
from strictreply.core import shape
from strictreply.testing import Fault, HTTPReply, Kind, faults, ok, writer_named
from strictreply.testing._anthropic_writer import MESSAGES_WRITER, as_message
from strictreply.testing._scripts import Demand
from strictreply.testing._serving import KitRequest, assembled, render
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import Entry, Reading
from support.loops import some
from support.messages import ASKED, MESSAGES, read
from support.served_faults import entries_over

pytestmark = [pytest.mark.one_lane, pytest.mark.sampled]

WITHOUT_COUNTERPART = {
    "arguments_not_encoded": "the input of a call is an object",
    "content_in_parts": "a content is blocks",
    "response_of_anthropic": "it is the right API",
    "stream_id_changes": "an id stands in the start of a block, and nowhere else",
}
"""Faults that a message cannot have, by name, and why."""

OTHER_CODES = {
    "empty_text": {"reply.empty"},  # no text is empty: there is none
    "arguments_in_parts": {"shape.wrong_type"},  # an input is JSON, not the text of one
    # a block of a type that nobody knows passes: the promised call is missing
    "unknown_call_type": {"reply.empty"},
    "custom_call": {"reply.empty"},
    "flat_call": {"reply.empty"},
    # a call without a name
    "missing_function": {"shape.wrong_type"},
    "null_function": {"shape.wrong_type"},
    "calls_as_object": {"shape.wrong_type"},
    "calls_as_text": {"shape.wrong_type"},
    "legacy_function_call": {"shape.wrong_type"},
    # a block that is no object
    "null_call": {"envelope.malformed", "reply.empty"},
    "call_as_text": {"envelope.malformed", "reply.empty"},
    "empty_message": {"reply.role"},
    "stream_name_missing": {"shape.wrong_type"},
    "stream_calls_no_list": {"json.not_text"},
}
"""What is said where the fault has another form here, by name."""

OF_ENVELOPE = {"envelope.malformed", "reply.broken_off"}
"""What is said of a response, or of an event, that is of no message."""

ENTRIES = [entry for entry in entries_over("messages") if entry.name not in WITHOUT_COUNTERPART]


def forms_of(entry: Entry) -> list[bool]:
    """Whether the faults of an entry are streamed: no, yes, or both."""
    return [form for form in (False, True) if entry.needs.get("stream", form) is form]


def is_a_body(fault: Fault) -> bool:
    """Whether a fault is one of the bytes of a reply, and they end."""
    served = fault.served
    if not isinstance(served, HTTPReply):
        return True

    return fault.kind is Kind.STREAM and not served.endless


def served_of(entry: Entry) -> Iterator[tuple[str, Fault, bool]]:
    """Yield the faults of an entry that are replies: the target, the fault, whether streamed."""
    for name in TARGETS:
        for fault in filter(is_a_body, made(entry, name)):
            for streamed in forms_of(entry):
                yield name, fault, streamed


def found(body: bytes, contract: sr.Contract[Any], *, streamed: bool) -> Any:
    """Return the codes of a refusal of what is served, or the reply without its ids."""
    is_strict = contract.dialects == "strict"
    response: Any = None
    if streamed:
        assembly = MESSAGES.assembly(contract.by_name, strict=is_strict)
        for plain in read(body):
            assembly.add(plain)
        if assembly.fault is not None:
            return {str(assembly.fault.code)}

        assembly.end()
        response = assembly.response()
    else:
        response = json.loads(body)

    verdict = contract.check(response, api="messages")
    if isinstance(verdict, sr.Invalid):
        return {str(issue.code) for issue in verdict.issues}

    reply: Any = verdict.reply
    calls = reply.calls if isinstance(reply, sr.ToolCalls) else (reply,)
    is_call = isinstance(calls[0], sr.ToolCall)
    return [(call.tool, call.args) for call in calls] if is_call else reply


def told(name: str, fault: Fault, served: Any, dialects: Any, *, streamed: bool) -> Any:
    """Return what a contract makes of what is served to a request of this API."""
    contract, _ = shape(contract_of(name, dialects), {"messages": [], **fault.needs})
    sent = render(served, {**ASKED, "stream": streamed}, MESSAGES_WRITER)
    return found(sent.body, contract, streamed=streamed)


def codes_for(fault: Fault) -> set[str]:
    """Return the codes of which a refusal says one."""
    codes = {fault.code, *OTHER_CODES.get(fault.name, ())}
    is_framing = fault.kind in (Kind.STREAM, Kind.ENVELOPE)
    return codes | OF_ENVELOPE if is_framing else codes


@pytest.mark.parametrize(
    "entry", [one for one in ENTRIES if any(served_of(one))], ids=lambda one: one.name
)
def test_each_fault_is_what_its_row_says(entry: Entry) -> None:
    """Whole and streamed: refused with its code by a strict reading; by default as its row says."""
    for name, fault, streamed in some(served_of(entry)):
        strict = told(name, fault, fault.served, "strict", streamed=streamed)
        assert isinstance(strict, set), (name, streamed)
        assert strict & codes_for(fault), (name, streamed, strict)

        known = told(name, fault, fault.served, "known", streamed=streamed)
        if entry.reading.is_good("messages", is_streamed=streamed):
            good = told(name, fault, fault.clean, "known", streamed=streamed)
            assert not isinstance(good, set)
            assert known == good, (name, streamed)
        else:
            assert isinstance(known, set), (name, streamed)


@pytest.mark.parametrize("name", WITHOUT_COUNTERPART)
def test_what_has_no_counterpart_is_served_to_no_app(name: str) -> None:
    """The request's own gate takes it, so that a probe leaves it out; all others are tried."""
    entry = CATALOGUE[name]
    target = next(one for one in ("prose", "a call") if made(entry, one))
    fault = made(entry, target)[0]
    tool, place = TARGETS[target]
    tools = [as_tool(tool)] if place == "call" else []
    asked = {**ASKED, "tools": tools, "stream": bool(entry.needs.get("stream"))}
    demand = Demand(KitRequest(MESSAGES_WRITER, asked))
    assert not demand.refuses(fault)
    assert demand.refuses(faults.user_role())
    assert demand.refuses(faults.bare_message())


def as_tool(tool: object) -> dict[str, Any]:
    """Return the definition of a tool as the API has it."""
    function = sr.Tool.of(tool).definition["function"]
    return {"name": function["name"], "input_schema": function["parameters"]}


OWN = [entry for entry in CATALOGUE.values() if entry.api == "messages"]


@pytest.mark.parametrize("entry", OWN, ids=lambda one: one.name)
def test_a_fault_of_its_own_is_one_of_no_other_api(entry: Entry) -> None:
    """A probe of an app of chat completions leaves it out; over Messages it is tried."""
    fault = entry()
    asked: dict[str, Any] = {"model": "m", "stream": True, "messages": ASKED["messages"]}
    assert not Demand(asked).refuses(fault)
    assert Demand(KitRequest(MESSAGES_WRITER, ASKED | {"stream": True})).refuses(fault)
    assert entry.to_dict()["api"] == "messages"


@pytest.mark.parametrize("name", TARGETS)
def test_a_stream_that_is_cut_anywhere_is_refused(name: str) -> None:
    """At each byte before its last event, strictly and by default."""
    tool, place = TARGETS[name]
    served: Any = ok.reply(tool, place=place).served
    parts = MESSAGES_WRITER.stream(as_message(served), {})
    body = b"".join(parts)
    for dialects in ("strict", "known"):
        contract = contract_of(name, dialects)
        assert not isinstance(found(body, contract, streamed=True), set)
        for at in range(len(body) - len(parts[-1]) + 1):
            assert isinstance(found(body[:at], contract, streamed=True), set), at


@pytest.mark.parametrize("name", TARGETS)
def test_a_recorded_stream_is_the_message_it_told(name: str) -> None:
    """Events are put together as the API means them; what broke off is no reply."""
    tool, place = TARGETS[name]
    served: Any = ok.reply(tool, place=place).served
    message: Any = as_message(served)
    parts = MESSAGES_WRITER.stream(message, {})
    assert assembled(b"".join(parts)) == message
    cut: Any = assembled(b"".join(parts[:-1]))
    assert cut["stop_reason"] == "error"


def test_readings_of_three_apis() -> None:
    """What one API reads as the good reply, another one may refuse."""
    apis = ("chat", "responses", "messages")
    told_by = {
        Reading.GOOD: (True, True, True),
        Reading.GOOD_BUT_IN_RESPONSES: (True, False, True),
        Reading.GOOD_BUT_IN_RESPONSE_STREAMS: (True, False, True),
        Reading.GOOD_BUT_IN_MESSAGES: (True, True, False),
        Reading.GOOD_IN_CHAT: (True, False, False),
        Reading.REFUSED: (False, False, False),
    }
    for reading, expected in told_by.items():
        assert tuple(reading.is_good(api, is_streamed=True) for api in apis) == expected

    assert writer_named("messages") is MESSAGES_WRITER
