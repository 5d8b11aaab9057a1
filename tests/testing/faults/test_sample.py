"""The main law of the catalogue.

Every fault, made of every tool of the sample, is refused with the promised code.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import strictreply as sr
from strictreply import Tool
from strictreply.testing import Fault, HTTPReply, Kind, ReplyPlace, ScriptedModel, faults
from strictreply.testing._steps import Target
from strictreply.testing.faults import Entry
from strictreply.testing.faults._catalogue import is_refused
from strictreply.testing.mounting import ScriptedClient, openai_client
from support.scripted import USER
from support.testing.faults.reply_laws import Client as JSONClient
from support.testing.tool_sample import SAMPLE

POLICY = sr.RetryPolicy(max_retries=1, transport_retries=0)
WITHOUT_TOOLS = (Kind.TRANSPORT, Kind.HTTP)
"""Nothing of a tool is in these, so that one of them stands for all."""

BULKY = ("json.too_large", "json.too_many_nodes", "json.too_deep")
"""Neither is much in these, and each takes tens of milliseconds."""

LEFT_OUT = {
    # Where no keys are known, or the answer is not an object, another rule breaks first.
    ("answer_in_object", ""),
}
"""The entries that also make what would be no such fault, with the tool of which they do; the proof
leaves it out.
"""

STREAMED = Kind.STREAM
"""The wrapped client does not stream yet: tests/testing/faults/test_stream_faults.py holds these to
the SDK.
"""

ENTRIES = [entry for entry in faults.CATALOGUE.values() if entry.kind is not STREAMED]

pytestmark = pytest.mark.sampled

entries = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def targets(entry: Entry) -> Iterator[Target]:
    """Aim an entry at every tool of the sample, in every place that it can be written."""
    for place in entry.places:
        aimed = targets_in(place)
        yield from aimed[:1] if entry.kind in WITHOUT_TOOLS or entry.code in BULKY else aimed


@cache
def targets_in(place: ReplyPlace) -> list[Target]:
    """Aim at every tool of the sample in one place; as an answer each is what its arguments are."""
    if place == "prose":
        return [Target.of()]
    if place == "json":
        return [Target.of(sr.Tool.of(one).parameters.source, place=place) for one in SAMPLE]
    return [Target.of(one, place=place) for one in SAMPLE]


def made(entry: Entry) -> Iterator[tuple[Target, Fault]]:
    """Make every fault of an entry.

    What the catalogue would leave out, because it is not a fault, fails the test.
    """
    for target in targets(entry):
        for spoiled in entry.make(target):
            fault = entry._fault(target, spoiled, again=False)
            if is_refused(fault, target):
                yield target, fault
            else:
                assert (entry.name, target.name) in LEFT_OUT, fault.source


def client_of(model: ScriptedModel, fault: Fault, *, as_json: bool) -> Any:
    """Return a client of the model.

    It returns the SDK's objects, or the same as JSON, which takes half the time.
    """
    if isinstance(fault.served, HTTPReply):
        return openai_client(model)
    return JSONClient(model) if as_json else ScriptedClient(model)


def ending_of(unwrapped: Any, target: Target, fault: Fault) -> sr.CallFailed:
    """Return the strictreply error that a wrapped client's call ends in.

    Other exceptions propagate.
    """
    client = sr.wrap(unwrapped, contract=target.contract, policy=POLICY)
    try:
        reply = client.reply(model="m", messages=USER, **fault.needs)
    except sr.CallFailed as error:
        return error
    raise AssertionError(f"{fault.source} was accepted: {type(reply).__name__}")


def codes_of(error: sr.CallFailed) -> list[set[str]]:
    """Return the codes of each attempt that asked as the app did, with the error's reason.

    A failure before any reply has no attempts: then the error alone stands.
    """
    as_asked = [attempt.issues for attempt in error.attempts if attempt.escalation is None]
    found = [{issue.code for issue in issues} | {error.reason} for issues in as_asked]
    return found or [{error.reason}]


@pytest.mark.one_lane
@entries
def test_every_fault_is_refused_with_its_code(entry: Entry) -> None:
    """The bare gate gives the code, and a wrapped client's call ends in our error with the code.

    It does so however often the model makes the fault, and nothing invented gets out: neither in
    the error nor in the prompt of the next ask. In each place the first fault comes in the SDK's
    objects; of other tools' only the text differs. A retry that asks in another way, for the call
    as JSON, may refuse the same text with another code.
    """
    places = set()
    for target, fault in made(entry):
        model = ScriptedModel(fault, then=fault)
        error = ending_of(client_of(model, fault, as_json=target.place in places), target, fault)
        for codes in codes_of(error):
            assert fault.code in codes, f"{fault.source} in {target.place} gives {sorted(codes)}"

        assert not [word for word in fault.invented if word in f"{error}{error!r}"], fault.source
        model.assert_no_echo()
        places.add(target.place)

    assert places, "no tool of the sample can be spoiled so"


def test_names_are_unique() -> None:
    """No module of the catalogue defines a name that another one has: star imports would hide one
    of them.
    """
    names = [
        name
        for module in pkgutil.iter_modules(faults.__path__)
        for name, value in vars(importlib.import_module(f"{faults.__name__}.{module.name}")).items()
        if isinstance(value, Entry)
    ]
    assert sorted(names) == sorted(faults.CATALOGUE)


@pytest.mark.parametrize("tool", SAMPLE, ids=lambda tool: sr.Tool.of(tool).name)
def test_the_source_of_a_fault_makes_it_again(tool: object) -> None:
    """The source that a report prints is Python that serves the same bytes, for every fault of the
    arguments.
    """
    names = vars(importlib.import_module("support.testing.tool_sample")) | {
        "faults": faults,
        "Tool": Tool,
    }
    made = list(faults.all_for(tool))
    again = [eval(fault.source, dict(names)) for fault in made]  # noqa: S307 - our own words
    assert [fault.served for fault in again] == [fault.served for fault in made]
