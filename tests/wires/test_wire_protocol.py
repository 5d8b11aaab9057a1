"""What a wire says of its API, so that nobody else has to guess it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

import strictreply as sr
from strictreply.sdks._known import SDKS
from strictreply.testing import writer_named
from strictreply.testing.mounting import library_of
from strictreply.values._errors import explained
from strictreply.wires import WIRES, wire_for, wire_of
from support.scripted import SCHEMA, Server, call, completion

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
CONTRACT = sr.Contract(tools=[SEARCH])
GOOD = completion(calls=[call("search", {"query": "tea"})])
WRONG = completion(calls=[call("search", {"query": 1})])
USER: list[Any] = [{"role": "user", "content": "find tea"}]
CHAT_REQUEST: dict[str, Any] = {"model": "m", "messages": USER}
OF_ITS_OWN: dict[str, dict[str, Any]] = {"messages": {"system": "be brief"}}
"""What a request holds that only its API has, where another one has its conversation, too."""


def of_api(api: str, reply: dict[str, Any]) -> Any:
    """Return a completion as a response of an API."""
    return writer_named(api).written(reply, {"model": "m"})


def asked_of(api: str) -> dict[str, Any]:
    """Return a request of an API."""
    return {"model": "m", WIRES[api].conversation: USER, **OF_ITS_OWN.get(api, {})}


def client_of(api: str, server: Server) -> Any:
    """Return a client of an API that a server answers: that of the SDK which has it."""
    known = {door.wire.name for sdk in SDKS for door in sdk.doors.values()}
    if api not in known:
        pytest.skip(f"no SDK is known that has {api}")
    if api != "messages":
        return server.client(max_retries=0)

    anthropic: Any = pytest.importorskip("anthropic")
    http: Any = library_of(anthropic.DefaultHttpxClient)
    client = http.Client(transport=http.MockTransport(partial(answered, http, server)))
    return anthropic.Anthropic(api_key="none", max_retries=0, http_client=client)


def answered(http: Any, server: Server, request: Any) -> Any:
    """Answer a request by a server, as a response of the library that asked."""
    response = server.handle(request)
    return http.Response(200, content=response.content, headers=dict(response.headers))


@pytest.mark.parametrize("api", WIRES)
def test_each_wire_recognises_its_own_responses_alone(api: str) -> None:
    """A response without a word of its API is read by the one wire that recognises it."""
    response = of_api(api, GOOD)
    assert wire_of(response).name == api
    assert [name for name, wire in WIRES.items() if wire.recognises(response)] == [api]
    assert WIRES[api].is_whole(response)


@pytest.mark.parametrize("api", WIRES)
def test_a_request_is_of_the_wire_whose_conversation_it_holds(api: str) -> None:
    """The keyword of the conversation names the API."""
    assert wire_for(asked_of(api)).name == api


@pytest.mark.parametrize("api", WIRES)
def test_attempts_know_their_api(api: Any) -> None:
    """Each attempt says which API it asked, also one that brought no response, as JSON too."""
    server = Server(of_api(api, WRONG), ConnectionError("gone"), of_api(api, GOOD))
    policy = sr.RetryPolicy(transport_retries=1, wait=lambda _: 0.0)
    client: Any = sr.wrap(client_of(api, server), contract=CONTRACT, policy=policy, api=api)
    attempts = client.exchange(**asked_of(api), max_tokens=100).attempts
    assert [attempt.api for attempt in attempts] == [api] * 3
    assert [attempt.to_dict()["api"] for attempt in attempts] == [api] * 3


@pytest.mark.parametrize("api", WIRES)
def test_an_explanation_shows_the_reply_and_not_what_is_around_it(api: Any) -> None:
    """Each attempt says where its response holds the reply; JSON of it does beside the response."""
    server = Server(of_api(api, WRONG))
    policy = sr.RetryPolicy(max_retries=0)
    client: Any = sr.wrap(client_of(api, server), contract=CONTRACT, policy=policy, api=api)
    with pytest.raises(sr.ReplyRejected) as raised:
        client.exchange(**asked_of(api), max_tokens=100)

    shown = raised.value.explain().partition("reply received:\n")[2].partition("\n")[0]
    begins = {"chat": '    {"role": "assistant"', "responses": '    [{"', "messages": '    [{"'}
    assert shown.startswith(begins[api])
    (attempt,) = raised.value.attempts
    assert attempt.to_dict(raw=True)["reply_at"] == WIRES[api].reply_at
    assert "reply_at" not in attempt.to_dict()


@pytest.mark.parametrize("api", WIRES)
def test_a_response_without_a_reply_is_shown_whole(api: str) -> None:
    """Also one that has the place of the reply, and nothing there."""
    responses: list[Any] = [{"id": "r"}, {"choices": [{"message": None}], "output": []}]
    for raw in responses:
        attempt = sr.Attempt(1, {}, raw=raw, reply_at=WIRES[api].reply_at)
        assert json.dumps(raw) in explained("h", (attempt,))


@pytest.mark.parametrize("api", WIRES)
def test_the_next_request_is_of_the_api_that_is_named(api: Any) -> None:
    """``api=`` names the API of a request, and those that follow it stay with it."""
    asked: Any = asked_of(api)
    first = CONTRACT.next_request(asked, api=api)
    assert first.request is not None
    again = CONTRACT.next_request(first.request, of_api(api, WRONG))
    assert again.request is not None
    assert len(again.request[WIRES[api].conversation]) > len(USER)
    assert [attempt.api for attempt in again.attempts] == [api]

    done = CONTRACT.next_request(again.request, of_api(api, GOOD))
    assert isinstance(done.verdict, sr.Valid)


def test_another_word_for_an_api_is_refused() -> None:
    """``api=`` takes the names of the wires."""
    wrong: Any = "completions"
    with pytest.raises(sr.ContractError):
        CONTRACT.next_request(CHAT_REQUEST, api=wrong)


@pytest.mark.parametrize("api", WIRES)
def test_a_wire_reads_what_it_writes(api: str) -> None:
    """The events of a wire come out of its own reader, its end as the end or as nothing."""
    wire = WIRES[api]
    chunk: Any = {"type": "response.created", "sequence_number": 0, "choices": []}
    reader = wire.reader()
    found = [*reader.feed(wire.event_bytes(chunk) + wire.end_bytes), *reader.end()]
    read = [wire.read_event(one, sr.Limits()) for one in found]
    assert [one.plain for one in read if not one.is_end] == [chunk]
    assert [one.is_end for one in read][1:] == ([True] if wire.end_bytes else [])
