"""The catalogue over the Responses API: every fault that exists there is refused, and nothing of it is acted on."""

from __future__ import annotations

from typing import Any

import openai
import pytest

import strictreply as sr
from streamed_replies import policy
from streaming.test_stream_faults_refused import TARGETS, contract_of, made
from strictreply.testing import ok
from strictreply.testing._event_streams import events
from strictreply.testing._scripts import ScriptedModel
from strictreply.testing._steps import Fault
from strictreply.testing._waiting import no_backoff
from strictreply.testing._wire import EVENT_STREAM, HTTPReply, WireEnding
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import Entry
from strictreply.testing.mounting import openai_client

ASK: dict[str, Any] = {"model": "m", "input": "find tea"}
WITHOUT_COUNTERPART: dict[str, str] = {
    "content_in_parts": "the content of an item is parts",
    "response_of_responses_api": "it is one",
    "stream_index_gap": "an item stands where its response has it, whatever number its events had",
}
"""Faults that a response cannot have, by name, and why."""

OF_NO_ITEM = {("user_role", "a call"), ("user_role", "a call with a list")}
"""A call is an item of its own, which has no role."""

CASES = [
    pytest.param(entry, name, id=f"{entry.name}-{name}")
    for entry in CATALOGUE.values()
    for name in TARGETS
    if made(entry, name) and entry.name not in WITHOUT_COUNTERPART and (entry.name, name) not in OF_NO_ITEM
]


def failed(fault: Fault, name: str, needs: Any, *, streamed: bool) -> tuple[sr.CallFailed | None, list[Any]]:
    """What a fault ends in, and the events that came of a stream."""
    held: dict[str, Any] = {"contract": contract_of(name), "policy": policy(max_retries=0, transport_retries=0)}
    client: Any = sr.wrap(openai_client(ScriptedModel(fault), timeout=0.2), api="responses", **held)
    seen = list[Any]()
    try:
        with no_backoff():
            if streamed:
                seen.extend(client.responses.create(**ASK, **needs, stream=True))
            else:
                client.reply(**ASK, **needs)
    except sr.CallFailed as error:
        return error, seen
    return None, seen


@pytest.mark.parametrize(("entry", "name"), CASES)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_no_fault_is_accepted(entry: Entry, name: str, streamed: bool) -> None:
    """The exception is ours and the SDK's; no call, no finish and no letter of an answer that is held came out."""
    if streamed != bool(entry.needs.get("stream", streamed)) or (streamed and entry.name == "unasked_stream"):
        pytest.skip("no fault of this form")
    needs = {word: value for word, value in entry.needs.items() if word != "stream"}
    for fault in made(entry, name):
        error, seen = failed(fault, name, needs, streamed=streamed)
        assert error is not None
        assert isinstance(error, openai.OpenAIError)
        kinds = {event.type for event in seen}
        assert "response.completed" not in kinds
        assert name == "prose" or not seen or entry.name == "answer_for_required_call"  # prose beside calls is live


@pytest.mark.parametrize("name", TARGETS)
def test_a_good_stream_is_told_as_events_and_accepted(name: str) -> None:
    """What the faults are made of is good: the same bytes without a fault come through."""
    tool, place = TARGETS[name]
    good = ok.reply(tool, place=place).served
    assert not isinstance(good, HTTPReply)
    model = openai_client(lambda _: HTTPReply(200, EVENT_STREAM, events(good), WireEnding.WHOLE, "chunked"))
    client: Any = sr.wrap(model, contract=contract_of(name))
    kinds = [event.type for event in client.responses.create(**ASK, stream=True)]
    assert kinds[-1] == "response.completed"
