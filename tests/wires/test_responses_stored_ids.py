"""A conversation that goes on by ``previous_response_id`` behind a corrected stream.

The server knows the responses that it has made, under its own ids, and no other.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai._models import FinalRequestOptions
from openai.types.responses import Response

import strictreply as sr
from strictreply.client._stored_ids import MAX_IDS, StoredIds
from strictreply.wires import WIRES
from support.responses_rules import refusals
from support.scripted import Server, http
from support.scripted_responses import (
    FLAT_SEARCH,
    call_item,
    reasoning_item,
    response,
    text_item,
    wrap,
)
from support.streamed_replies import policy, streamed_response

USER = [{"role": "user", "content": "find tea"}]
ASK: dict[str, Any] = {"model": "m", "tools": [FLAT_SEARCH], "stream": True}
GOOD = {"query": "tea"}


class Stateful(Server):
    """A server that stores what it has made, and refuses what the API would refuse."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        super().__init__(*answers)
        self.stored: dict[str, list[Any]] = {}
        self.replies: dict[str, dict[str, Any]] = {}
        self.asked: list[dict[str, Any]] = []

    def handle(self, request: Any) -> Any:
        """Answer one request."""
        if request.method == "GET":
            return http.Response(200, json=self.replies[request.url.path.rpartition("/")[2]])

        asked = json.loads(request.content)
        self.asked.append(asked)
        before = asked.get("previous_response_id")
        told = [*refusals(asked, self.stored)]
        if before is not None and before not in self.stored:
            told.append(f"Previous response with id {before!r} not found.")
        if told:
            return http.Response(400, json={"error": {"message": told[0], "code": None}})

        reply: Any = self.answers.pop(0)
        self.replies[reply["id"]] = reply | {"tools": asked.get("tools") or []}
        self.stored[reply["id"]] = [
            *self.stored.get(str(before), []),
            *asked["input"],
            *reply["output"],
        ]
        if not asked.get("stream"):
            return http.Response(200, json=reply)

        return streamed_response(reply)


def bad_reply(**members: Any) -> dict[str, Any]:
    """A text that goes out, and a call that is refused."""
    thought = reasoning_item(**members)
    return response(thought, text_item("I will look."), call_item("search", {"query": 1}, "c_bad"))


def good_reply(**members: Any) -> dict[str, Any]:
    """The call that is asked for instead."""
    return response(reasoning_item(**members), call_item("search", GOOD, "c_good"))


ANSWER = {"type": "function_call_output", "call_id": "c_good", "output": "[]"}
IS_ASYNC = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
IDS = pytest.mark.parametrize("taken", [0, -1], ids=["the first id", "the last id"])


def client_of(server: Server, *, is_async: bool, **held: Any) -> Any:
    """A wrapped client."""
    raw: Any = server.async_client() if is_async else server.client()
    return wrap(raw, policy=policy(), **held)


def events_of(client: Any, **ask: Any) -> list[Any]:
    """All events of one streamed call."""
    request = ASK | ask
    if not isinstance(client, openai.AsyncOpenAI):
        return list(client.responses.create(**request))

    async def main() -> list[Any]:
        return [one async for one in await client.responses.create(**request)]

    return asyncio.run(main())


def text_of(events: list[Any]) -> str:
    """The text of a stream at its end."""
    text: str = events[-1].response.output_text
    return text


@IDS
@IS_ASYNC
def test_the_next_turn_goes_on_behind_the_accepted_reply(is_async: bool, taken: int) -> None:
    """By either id of the stream; the server is asked with its own id of the reply."""
    bad, good, last = bad_reply(), good_reply(), response(text_item("Tea is sold out."))
    server = Stateful(bad, good, last)
    client = client_of(server, is_async=is_async)
    events = events_of(client, input=USER)
    told = [one for one in events if hasattr(one, "response")]
    assert {one.response.id for one in told} == {bad["id"]}

    id_ = told[taken].response.id
    assert text_of(events_of(client, input=[ANSWER], previous_response_id=id_)) == (
        "Tea is sold out."
    )
    assert server.asked[-1]["previous_response_id"] == good["id"]


def test_a_further_turn_is_not_changed() -> None:
    """An id that the server has told itself is sent as it is."""
    server = Stateful(bad_reply(), good_reply(), *(response(text_item(one)) for one in "abc"))
    client = client_of(server, is_async=False)
    first = events_of(client, input=USER)[-1].response.id
    second = events_of(client, input=[ANSWER], previous_response_id=first)[-1].response.id
    events_of(client, input=USER, previous_response_id=second)
    assert server.asked[-1]["previous_response_id"] == second


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "create": lambda client, asked: client.responses.create(**asked).output_text,
    "parse": lambda client, asked: client.responses.parse(**asked).output_text,
    "raw": lambda client, asked: (
        client.responses.with_raw_response.create(**asked).parse().output_text
    ),
    "post": lambda client, asked: (
        client.post("/responses", cast_to=Response, body=asked).output_text
    ),
    "extra_body": lambda client, asked: (
        client.responses.create(
            **{name: asked[name] for name in asked if name != "previous_response_id"},
            extra_body={"previous_response_id": asked["previous_response_id"]},
        ).output_text
    ),
    "a copy": lambda client, asked: (
        client.with_options(timeout=5).responses.create(**asked).output_text
    ),
    "reply": lambda client, asked: client.reply(**asked, api="responses").answer,
    "typed stream": lambda client, asked: (
        [*client.stream(**asked, api="responses")][-1].reply.answer
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_asking_goes_on(way: str) -> None:
    """Whichever method makes the next request."""
    server = Stateful(bad_reply(), good_reply(), response(text_item("Tea is sold out.")))
    client = client_of(server, is_async=False)
    id_ = events_of(client, input=USER)[-1].response.id
    asked = {"model": "m", "input": [ANSWER], "previous_response_id": id_}
    assert WAYS[way](client, asked) == "Tea is sold out."


def _requested(client: Any, id_: str) -> Any:
    options = FinalRequestOptions.construct(method="GET", url=f"/responses/{id_}")
    return client.request(Response, options)


RETRIEVE: dict[str, Callable[[Any, str], Any]] = {
    "retrieve": lambda client, id_: client.responses.retrieve(id_),
    "include": lambda client, id_: client.responses.retrieve(id_, include=["x"]),
    "get": lambda client, id_: client.get(f"/responses/{id_}?a=b", cast_to=Response),
    "request": _requested,
}


@pytest.mark.parametrize("way", RETRIEVE)
def test_the_accepted_reply_is_retrieved(way: str) -> None:
    """The refused one is stored under the id that was told, and does not come out."""
    good = good_reply()
    server = Stateful(bad_reply(), good)
    client = client_of(server, is_async=False)
    id_ = events_of(client, input=USER)[-1].response.id
    assert RETRIEVE[way](client, id_).output[-1].call_id == "c_good"


def test_another_client_knows_no_other_id() -> None:
    """What a client was told is known to it and its copies alone: the server refuses the id."""
    server = Stateful(bad_reply(), good_reply())
    id_ = events_of(client_of(server, is_async=False), input=USER)[-1].response.id
    other = client_of(server, is_async=False)
    with pytest.raises(openai.BadRequestError):
        events_of(other, input=[ANSWER], previous_response_id=id_)


@IS_ASYNC
def test_items_go_on_without_a_store(is_async: bool) -> None:
    """With ``store=False`` the items of the reply are sent, and no id is changed."""
    sealed = {"encrypted_content": "x"}
    bad, good = bad_reply(**sealed), good_reply(**sealed)
    server = Stateful(bad, good, response(text_item("Tea is sold out.")))
    client = client_of(server, is_async=is_async)
    kept: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
    final = events_of(client, input=USER, **kept)[-1].response
    assert final.id == bad["id"]

    items = [one.to_dict(exclude_unset=True) for one in final.output]
    assert text_of(events_of(client, input=[*USER, *items, ANSWER], **kept)) == "Tea is sold out."

    server.stored[bad["id"]] = []
    server.answers.append(response(text_item("Yes.")))
    events_of(client, input=USER, previous_response_id=bad["id"])
    assert server.asked[-1]["previous_response_id"] == bad["id"]


SHAPES: dict[str, tuple[list[Any], list[Any], list[str]]] = {
    "a thought each": (
        [reasoning_item(id="rs_1"), text_item("Hm."), call_item("search", {"query": 1})],
        [reasoning_item(id="rs_2"), call_item("search", GOOD, "c_good")],
        ["rs_1", "message", "rs_2", "function_call"],
    ),
    "a thought that led to the refused call": (
        [text_item("Hm."), reasoning_item(id="rs_1"), call_item("search", {"query": 1})],
        [reasoning_item(id="rs_2"), call_item("search", GOOD, "c_good")],
        ["message", "rs_2", "function_call"],
    ),
    "a thought that led to the text that is left out": (
        [reasoning_item(id="rs_1"), text_item("Hm."), call_item("search", {"query": 1})],
        [
            reasoning_item(id="rs_2"),
            text_item("Hm, again."),
            call_item("search", GOOD, "c_good"),
        ],
        ["rs_1", "message", "function_call"],
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_thought_is_handed_back_before_what_it_led_to(name: str) -> None:
    """The items of the reply are a turn that the API takes."""
    first, second, right = SHAPES[name]
    server = Stateful(response(*first), response(*second), response(text_item("Tea is sold out.")))
    client = client_of(server, is_async=False)
    final = events_of(client, input=USER)[-1].response
    kinds = [one.id if one.type == "reasoning" else one.type for one in final.output]
    assert kinds == right

    items = [one.to_dict(exclude_unset=True) for one in final.output]
    assert text_of(events_of(client, input=[*USER, *items, ANSWER])) == "Tea is sold out."


def test_the_ids_that_are_kept_are_bounded() -> None:
    """The oldest is forgotten, and one that a server tells anew is its own again."""
    ids = StoredIds()
    for number in range(MAX_IDS + 1):
        ids.note({"id": f"b{number}"}, f"a{number}")

    def known(id_: object) -> object:
        read = WIRES["responses"].read({"input": "x", "previous_response_id": id_})
        return WIRES["responses"].written(ids.known_to_server(read))["previous_response_id"]

    assert known("a0") == "a0"
    assert known("a1") == "b1"
    assert ids.path_known_to_server("/responses/a1/cancel?x=a1") == "/responses/b1/cancel?x=a1"

    ids.note({"id": "a1"}, None)
    assert known("a1") == "a1"
    odd: list[object] = [None, 1, ["a1"], {}]
    assert [known(one) for one in odd] == odd


def test_a_reply_that_was_mended_in_place_keeps_its_id() -> None:
    """Where only arguments were asked for, the server has the same call ids under it."""
    bad = response(call_item("search", {"query": 1}, "c_1"), call_item("search", GOOD, "c_2"))
    mended = response(call_item("search", GOOD, "c_new"))
    server = Stateful(bad, mended, response(text_item("Done.")))
    client = client_of(server, is_async=False)
    final = events_of(client, input=USER)[-1].response
    outputs = [ANSWER | {"call_id": one.call_id} for one in final.output]
    assert text_of(events_of(client, input=outputs, previous_response_id=final.id)) == "Done."
    assert server.asked[-1]["previous_response_id"] == final.id


def test_the_error_of_a_refused_reply_leaves_no_id() -> None:
    """A stream that ends in an exception was accepted under no id."""
    bad = bad_reply()
    server = Stateful(bad)
    client = wrap(server.client(), policy=policy(max_retries=0))
    with pytest.raises(sr.ReplyRejected):
        events_of(client, input=USER)

    with pytest.raises(openai.BadRequestError):
        events_of(client, input=[ANSWER], previous_response_id=bad["id"])
