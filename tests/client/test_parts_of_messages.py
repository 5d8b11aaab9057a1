"""Images, files and sound in messages: they are sent as the caller wrote them, every time."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import BaseModel

import strictreply as sr
from strictreply.testing import HTTPReply, ScriptedModel, assistant, completion, faults, ok
from strictreply.testing.mounting import openai_client

IMAGE = "iVBORw0KGgo="
PDF = "JVBERi0xLjQ="
DATA_URL = f"data:image/png;base64,{IMAGE}"


class Receipt(BaseModel):
    """What is read from the parts."""

    total: float


@sr.tool
def book(total: float) -> str:
    """Book an amount."""
    return f"booked {total}"


CHAT = {
    "role": "user",
    "content": [
        {"type": "text", "text": "Read it."},
        {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "high"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ],
}
RESPONSES = {
    "role": "user",
    "content": [
        {"type": "input_text", "text": "Read it."},
        {"type": "input_image", "image_url": DATA_URL, "detail": "high"},
        {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
    ],
}
CLAUDE = {
    "role": "user",
    "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        },
        {"type": "text", "text": "Read it."},
    ],
}
BAD = faults.number_as_text(Receipt, "/total", place="json")
GOOD = ok.answer({"total": 9.5})


def asked(api: str, model: ScriptedModel, **declared: Any) -> tuple[Any, str, Any, dict[str, Any]]:
    """Return a wrapped client, the member of the conversation, its turn, and the keywords."""
    if api == "messages":
        pytest.importorskip("anthropic", reason="the anthropic SDK is not installed")
        turn, client = CLAUDE, sr.wrap(model.anthropic(), **declared)
        return client, "messages", turn, {"messages": [turn], "max_tokens": 100}

    client = sr.wrap(model.openai(), api=api, **declared)
    if api == "responses":
        return client, "input", RESPONSES, {"input": [RESPONSES]}
    return client, "messages", CHAT, {"messages": [CHAT]}


def bodies(model: ScriptedModel) -> list[Any]:
    """Return the requests as they were sent, in the words of their API."""
    return [getattr(request.body, "sent", request.body) for request in model.requests]


APIS = pytest.mark.parametrize("api", ["chat", "responses", "messages"])


@APIS
def test_the_parts_are_in_the_first_request_and_in_each_correction(api: str) -> None:
    """Every request holds the turn as the caller wrote it; the caller's own is untouched."""
    model = ScriptedModel(BAD, BAD, GOOD)
    client, member, turn, keywords = asked(api, model, answer=Receipt)
    before = copy.deepcopy(turn)
    assert client.answer(model="any", **keywords) == Receipt(total=9.5)
    assert [body[member][0] for body in bodies(model)] == [before] * 3
    assert turn == before


@APIS
def test_a_correction_of_one_call_holds_the_parts(api: str) -> None:
    """The arguments of a call are asked for alone, with the user's turn before them."""
    model = ScriptedModel(faults.number_as_text(book, "total"), ok.call(book, total=9.5))
    client, member, turn, keywords = asked(api, model, tools=[book])
    exchange = client.exchange(model="any", **keywords)
    assert exchange.attempts[1].scope is not None
    assert [body[member][0] for body in bodies(model)] == [turn] * 2


@APIS
def test_a_stream_sends_the_parts(api: str) -> None:
    """A typed stream sends the same turn, again after a retraction."""
    model = ScriptedModel(BAD, GOOD)
    client, member, turn, keywords = asked(api, model, answer=Receipt)
    with client.stream(model="any", **keywords) as events:
        kinds = [type(event) for event in events]
    assert sr.Retracted in kinds
    assert [body[member][0] for body in bodies(model)] == [turn] * 2


def test_the_parts_of_chat_completions_are_written_for_responses() -> None:
    """Text, images and files are written as that API's parts, in each request."""
    model = ScriptedModel(BAD, GOOD)
    client = sr.wrap(model.openai(), answer=Receipt)
    turn = {"role": "user", "content": CHAT["content"][:3]}
    client.answer(model="any", input=[turn], api="responses")
    assert [body["input"][0]["content"] for body in bodies(model)] == [RESPONSES["content"]] * 2


def test_the_loop_keeps_the_parts() -> None:
    """A run sends them with each request, and its transcript begins with the caller's turn."""
    steps = ok.call(book, total=9.5), ok.answer("Booked.")
    model = ScriptedModel(faults.number_as_text(book, "total"), *steps)
    run = sr.run(sr.wrap(model.openai(), tools=[book]), [CHAT], model="any")
    assert [body["messages"][0] for body in bodies(model)] == [CHAT] * 3
    assert run.transcript[0]["content"] == CHAT["content"]


def test_an_estimate_counts_the_bytes_of_an_image() -> None:
    """Where no usage is reported, base64 counts as text: four bytes are a token."""

    def uncounted(_: object) -> HTTPReply:
        body = completion(assistant('{"total": 9.5}'))
        return HTTPReply.json(200, {name: body[name] for name in body if name != "usage"})

    client = sr.wrap(openai_client(uncounted), answer=Receipt)

    def tokens(data: str) -> int:
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        turn = {"role": "user", "content": [part]}
        usage = client.exchange(model="any", messages=[turn]).usage
        assert usage.is_estimate
        return usage.prompt_tokens

    assert tokens("A" * 4000) - tokens("") == 1000


def test_speech_is_an_answer_where_any_text_is() -> None:
    """A reply of sound alone is an empty answer, noted, and handed on with its sound."""
    audio = {"id": "a", "data": "UklGRg==", "expires_at": 1, "transcript": "Hello."}
    spoken = completion({"role": "assistant", "content": None, "audio": audio})
    exchange = sr.wrap(openai_client(lambda _: spoken)).exchange(model="any", messages="Speak.")
    assert exchange.reply == sr.DirectAnswer("")
    assert exchange.attempts[0].lenient == ("unjudged_audio",)
    heard = exchange.completion.choices[0].message.audio
    assert heard is not None
    assert heard.data == audio["data"]
