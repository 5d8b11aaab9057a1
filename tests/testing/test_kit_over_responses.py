"""The catalogue over the Responses API.

Every fault that exists there is refused, and nothing of it is acted on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

import strictreply as sr
from streams.test_stream_faults_refused import TARGETS, contract_of, made
from strictreply.core import shape
from strictreply.testing import (
    HTTPReply,
    Kind,
    ScriptedModel,
    WireEnding,
    faults,
    no_backoff,
    ok,
    record,
    writer_named,
)
from strictreply.testing._scripts import Demand
from strictreply.testing._serving import assembled, render
from strictreply.testing.faults import CATALOGUE, Entry
from strictreply.testing.mounting import openai_client
from support.loops import some
from support.streamed_replies import CHAT, events, policy
from support.testing.recorded_lines import judged

RESPONSES = writer_named("responses")
ASK: dict[str, Any] = {"model": "m", "input": "find tea"}
WITHOUT_COUNTERPART: dict[str, str] = {
    "content_in_parts": "the content of an item is parts",
    "response_of_responses_api": "it is one",
    "stream_index_gap": "an item stands where its response has it, whatever number its events had",
}
"""Faults that a response cannot have, by name, and why."""

OF_NO_ITEM = {("user_role", "a call"), ("user_role", "a call with a list")}
"""A call is an item of its own, which has no role."""

pytestmark = [pytest.mark.one_lane, pytest.mark.sampled]


def targets_of(entry: Entry) -> Iterator[str]:
    """The kinds of reply that a fault can be made of, by this API."""
    if entry.name not in WITHOUT_COUNTERPART:
        yield from (
            name for name in TARGETS if (entry.name, name) not in OF_NO_ITEM and made(entry, name)
        )


ENTRIES = [
    pytest.param(entry, id=entry.name) for entry in CATALOGUE.values() if any(targets_of(entry))
]


def is_of_form(entry: Entry, *, streamed: bool) -> bool:
    """Whether an entry has faults of whole responses, or of streamed ones."""
    return streamed == bool(entry.needs.get("stream", streamed)) and not (
        streamed and entry.name == "unasked_stream"
    )


def shaped_by(entry: Entry) -> dict[str, Any]:
    """What a request says for the faults of an entry to be faults, beside the form."""
    return {word: value for word, value in entry.needs.items() if word != "stream"}


def failed(
    source: Any, name: str, needs: Any, *, streamed: bool
) -> tuple[sr.CallFailed | None, list[Any]]:
    """What a fault ends in, and the events that came of a stream."""
    held: dict[str, Any] = {
        "contract": contract_of(name),
        "policy": policy(max_retries=0, transport_retries=0),
    }
    client: Any = sr.wrap(source, api="responses", **held)

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


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_fault_is_accepted(entry: Entry) -> None:
    """At each target, whole and streamed: the exception is ours and the SDK's, and nothing of the
    reply came out.
    """
    for name in some(targets_of(entry)):
        forms = [form for form in (False, True) if is_of_form(entry, streamed=form)]
        for streamed in some(forms):
            for fault in some(made(entry, name)):
                served = openai_client(ScriptedModel(fault), timeout=0.2)
                error, seen = failed(served, name, shaped_by(entry), streamed=streamed)
                assert error is not None, (name, streamed)
                assert isinstance(error, openai.OpenAIError)

                assert "response.completed" not in {event.type for event in seen}
                # prose beside calls is live, and thoughts are passed on as they came
                judged = [event for event in seen if tells(event)]
                assert name == "prose" or not judged or entry.name == "answer_for_required_call", (
                    name,
                    streamed,
                )


TELLING = {"response.output_text.delta", "response.function_call_arguments.delta"}


def tells(event: Any) -> bool:
    """Whether an event tells something of the reply: a text, or a call."""
    item = getattr(event, "item", None)
    return event.type in TELLING or getattr(item, "type", "") in {"message", "function_call"}


def bodies_of(entry: Entry) -> Iterator[tuple[str, HTTPReply]]:
    """Yield what is served for an entry and is a reply, with the name of its target.

    What ends on the way (a status, a cut, a wrong type) is none.
    """
    for name in targets_of(entry):
        for fault in made(entry, name):
            for streamed in (False, True):
                is_reply = fault.kind is Kind.STREAM or not isinstance(fault.served, HTTPReply)
                if not is_reply or not is_of_form(entry, streamed=streamed):
                    continue

                sent = render(fault.served, {**ASK, "stream": streamed}, RESPONSES)
                # a stream in another type is no stream
                if is_stream(sent) or fault.kind is not Kind.STREAM:
                    yield name, sent


def is_stream(sent: HTTPReply) -> bool:
    """Whether a server's answer is a stream."""
    return sent.headers.get("Content-Type", "").startswith("text/event-stream")


@pytest.mark.parametrize(
    "entry",
    [pytest.param(one, id=one.name) for one in CATALOGUE.values() if any(bodies_of(one))],
)
def test_every_reply_that_is_served_is_invalid(entry: Entry) -> None:
    """The gate refuses the bytes themselves."""
    for name, sent in some(bodies_of(entry)):
        contract, _ = shape(contract_of(name), {"messages": [], **shaped_by(entry)})
        reply = assembled(sent.body) if is_stream(sent) else json.loads(sent.body)
        assert isinstance(contract.check(reply, api="responses"), sr.Invalid)


def test_no_fault_is_accepted_over_a_socket() -> None:
    """A server on loopback serves the same: one fault of each entry, in its own form."""
    model = ScriptedModel()
    with (
        model.serve() as server,
        openai.OpenAI(base_url=server.base_url, api_key="none", timeout=0.2) as source,
    ):
        firsts = ((one, next(targets_of(one), None)) for one in CATALOGUE.values())
        for entry, name in some((one, first) for one, first in firsts if first is not None):
            model.script(made(entry, name)[0])
            error, _ = failed(
                source, name, shaped_by(entry), streamed=bool(entry.needs.get("stream"))
            )
            assert error is not None, entry.name


@pytest.mark.parametrize(
    ("fault", "name"), [*((fault, "") for fault in WITHOUT_COUNTERPART), *sorted(OF_NO_ITEM)]
)
def test_what_has_no_counterpart_is_served_to_no_app(fault: str, name: str) -> None:
    """A probe leaves out what the request's own gate does not refuse; such faults exist."""
    entry = CATALOGUE[fault]
    name = name or next(name for name in ("a call", "prose") if made(entry, name))
    tools = [sr.Tool.of(TARGETS[name][0]).definition] if name != "prose" else None
    asked = {**ASK, "tools": tools, "stream": bool(entry.needs.get("stream"))}
    demand = Demand(RESPONSES.asked(asked))
    assert not any(demand.refuses(one) for one in made(entry, name))
    assert made(entry, name)


@pytest.mark.parametrize("name", TARGETS)
def test_a_good_stream_is_told_as_events_and_accepted(name: str) -> None:
    """The same bytes without a fault are good, and come through."""
    tool, place = TARGETS[name]
    good = ok.reply(tool, place=place).served
    assert not isinstance(good, HTTPReply)
    model = openai_client(
        lambda _: HTTPReply(200, CHAT.stream_headers, events(good), WireEnding.WHOLE, "chunked")
    )
    client: Any = sr.wrap(model, contract=contract_of(name))
    kinds = [event.type for event in client.responses.create(**ASK, stream=True)]
    assert kinds[-1] == "response.completed"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_what_was_recorded_is_judged(tmp_path: Path, streamed: bool) -> None:
    """A recording of this API holds the responses, also of streams: each is judged as it was
    served.
    """
    tool, place = TARGETS["a call"]
    fault = faults.wrong_type(tool, "limit")
    tools = [{"type": "function", **sr.Tool.of(tool).definition["function"]}]
    path = tmp_path / "shop.jsonl"
    model = ScriptedModel(fault, ok.reply(tool, place=place))
    client: Any = record(openai_client(model), path)

    for _ in range(2):
        given = client.responses.create(
            **{**ASK, "tools": tools, "tool_choice": "required", "stream": streamed}
        )
        assert not streamed or list(given)

    assert judged(path) == [[fault.code], []]


def test_a_stream_of_the_api_itself_is_served_as_it_is() -> None:
    """A recorded stream of the API itself, with a ``[DONE]`` or an error, is not translated."""
    parts = (
        b'data: {"type": "response.created"}\n\n',
        b'event: error\ndata: {"message": "x"}\n\ndata: [DONE]\n\n',
    )
    served = HTTPReply(200, CHAT.stream_headers, parts)
    assert render(served, ASK, RESPONSES) == served
