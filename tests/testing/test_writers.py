"""Writers: what of a completion is a typed reply, and what a writer does by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

import strictreply as sr
from strictreply.core import AnswerFormat, Choice, Draft, DraftCall, Request, Wire
from strictreply.testing import (
    HTTPReply,
    ModelReply,
    RequestTurn,
    ServedError,
    Writer,
    assistant,
    completion,
    error_reply,
    faults,
    native_call,
    ok,
)
from strictreply.testing._serving import KitRequest, render, writer_of
from strictreply.wires import WIRES

CALL = native_call("search", '{"query": "tea"}')
SEARCH = sr.Tool.from_json_schema("search", {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("served", "reply"),
    [
        (completion(assistant("hi")), ModelReply(draft=Draft("hi"))),
        (
            completion(assistant(None, [CALL])),
            ModelReply(
                draft=Draft(calls=(DraftCall("search", '{"query": "tea"}', "call_1"),)),
                promised=True,
            ),
        ),
        (
            completion(assistant(None, [native_call(7, None, "")])),
            ModelReply(draft=Draft(calls=(DraftCall(7, None, ""),)), promised=True),
        ),
        (
            completion(assistant(["a"]), finish_reason="max_tokens"),
            ModelReply(draft=Draft(other=["a"]), ending=sr.Code.REPLY_TRUNCATED),
        ),
        (
            completion(assistant(None) | {"refusal": "no", "reasoning_content": "hm"}),
            ModelReply(draft=Draft(refusal="no"), thoughts="hm"),
        ),
    ],
)
def test_a_completion_of_one_message_is_a_typed_reply(served: Any, reply: ModelReply) -> None:
    """Nothing of it is judged: each member is there as it was written."""
    around: dict[str, Any] = {"usage": (10, 5), "id": "chatcmpl-scripted", "model": "scripted"}
    writer = Keeping(WRITER.wire)
    assert writer.written(served, BODY) == {"kept": 1}
    assert writer.kept == [replace(reply, **around)]


@pytest.mark.parametrize(
    "served",
    [
        None,
        {},
        HTTPReply(),
        faults.two_choices().served,
        faults.null_choice().served,
        faults.error_beside_choices().served,
        faults.error_in_choice().served,
        faults.user_role().served,
        faults.finish_reason_as_object().served,
        faults.chunk_for_response().served,
        faults.flat_call(SEARCH).served,
        faults.missing_call_id(SEARCH).served,
        faults.null_call(SEARCH).served,
        faults.calls_as_object(SEARCH).served,
        faults.legacy_function_call(SEARCH).served,
        faults.arguments_member_missing(SEARCH).served,
    ],
)
def test_what_is_spoiled_in_the_form_of_chat_goes_out_as_it_is(served: Any) -> None:
    """A fault of the envelope or of the form of a call has no counterpart to write."""
    writer = Keeping(WRITER.wire)
    assert writer.written(served, BODY) is served
    assert writer.kept == []


class Plain(Writer):
    """A writer of an API that is nearly chat's, which leaves all it can to the kit."""

    def turns(self, request: Request) -> Iterable[RequestTurn]:
        """Return the turns, in other words."""
        for turn in request.conversation:
            yield RequestTurn(turn["role"], turn["content"], call_id=turn.get("tool_call_id"))

    def response(self, reply: ModelReply, body: dict[str, Any]) -> dict[str, Any]:
        """Write the text alone."""
        return {"said": reply.draft.text, "to": body["model"]}

    def error(self, error: ServedError) -> tuple[int, dict[str, Any]]:
        """Write the words alone."""
        return error.status + 1, {"wrong": error.message}


class Keeping(Plain):
    """Keeps the replies that it is given to write."""

    def __init__(self, wire: Wire) -> None:
        """Begin with none."""
        super().__init__(wire)
        self.kept: list[ModelReply] = []

    def response(self, reply: ModelReply, body: dict[str, Any]) -> dict[str, Any]:
        """Keep the reply, and say how many there are."""
        self.kept.append(reply)
        return {"kept": len(self.kept)}


def read(keywords: dict[str, Any]) -> Request:
    """Read a request, with a choice and a format of its own."""
    return Request(
        source=keywords,
        model=keywords["model"],
        conversation=keywords["messages"],
        choice=Choice("required"),
        format=AnswerFormat("json_schema", {"type": "object"}),
        limits={"own_limit": 5},
        is_stream=bool(keywords.get("drip")),
    )


WRITER = Plain(replace(WIRES["chat"], name="plain", conversation="own", read=read))
BODY: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "tool", "content": "5", "tool_call_id": "c"},
    ],
    "own": 1,
}


def test_a_request_is_told_in_the_words_of_chat() -> None:
    """The turns, the demands and nothing else of the API's own; it knows by which API it came."""
    asked = KitRequest(WRITER, BODY)
    schema = {"name": "answer", "schema": {"type": "object"}}
    assert asked == {
        "model": "m",
        "messages": BODY["messages"],
        "tool_choice": "required",
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    assert (asked.api, asked.sent) == ("plain", BODY)


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ({"messages": []}, "chat"),
        ({"input": "hi"}, "responses"),
        ({"input": "hi", "messages": []}, "responses"),
        ({}, "chat"),
    ],
)
def test_a_request_without_a_word_of_its_api(request_: dict[str, Any], name: str) -> None:
    """It is of the API whose conversation stands in it."""
    assert writer_of(request_).wire.name == name


def test_a_reply_goes_out_plain_or_as_a_stream() -> None:
    """What the wire cannot take apart is one event; what is not a reply goes out as it is."""
    served = ok.answer("tea").served
    plain = render(served, BODY, WRITER)
    assert (plain.status, plain.body) == (200, b'{"said": "tea", "to": "m"}')

    streamed = render(served, BODY | {"drip": True}, WRITER)
    wire: Wire = WIRES["chat"]
    assert streamed.parts == (wire.event_bytes({"said": "tea", "to": "m"}), wire.end_bytes)
    assert render(faults.two_choices().served, BODY, WRITER).body.startswith(b'{"id": "chatcmpl')


def test_an_error_is_written_by_its_writer() -> None:
    """Its status, its body and its headers; every other HTTP response goes out as it is."""
    sent = render(error_reply(429, "slow", headers={"Retry-After": "7"}), BODY, WRITER)
    assert (sent.status, sent.body, sent.headers["Retry-After"]) == (430, b'{"wrong": "slow"}', "7")
    page = HTTPReply(502, {}, (b"<html>",))
    assert render(page, BODY, WRITER) is page
