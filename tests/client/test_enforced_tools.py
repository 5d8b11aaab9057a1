"""``enforce={…}``: a fault of these tools is corrected, any other is reported and handed on."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from pydantic import BaseModel

import strictreply as sr
from support import scripted_responses as sdk
from support.scripted import SCHEMA, USER, Server, call, completion, refusal
from support.streamed_replies import streamed

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
LOOK = sr.Tool.from_json_schema("look", SCHEMA)
FITS = {"query": "tea"}
FAULTY = {"query": 1}
ASK: dict[str, Any] = {"model": "m", "messages": USER}


class Invoice(BaseModel):
    """What an answer is parsed into."""

    total: int


def reply(search: Any = None, look: Any = None) -> dict[str, Any]:
    """Return a reply that calls one tool or both."""
    given = {"search": search, "look": look}
    calls = [call(name, args, f"call_{name}") for name, args in given.items() if args is not None]
    return completion(calls=calls)


def client(server: Server, seen: list[sr.Attempt], **declared: Any) -> Any:
    """Return a client that enforces ``search``."""
    declared = {"tools": [SEARCH, LOOK]} | declared
    return sr.wrap(server.client(), enforce={"search"}, on_attempt=seen.append, **declared)


def arguments(given: Any) -> list[str]:
    """Return the arguments of all calls of a completion."""
    return [one.function.arguments for one in given.choices[0].message.tool_calls or ()]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_fault_of_another_tool_is_handed_on(is_streamed: bool) -> None:
    """One request is made, the reply is as it came, and its faults are told as observed."""
    server = Server(streamed(reply(look=FAULTY)) if is_streamed else reply(look=FAULTY))
    seen: list[sr.Attempt] = []
    given = client(server, seen).chat.completions.create(**ASK, stream=is_streamed)

    came = "".join(_pieces(given)) if is_streamed else arguments(given)[0]
    assert came == '{"query": 1}'
    assert len(server.requests) == 1
    assert [(one.observed, one.accepted, len(one.issues)) for one in seen] == [(True, False, 1)]


def _pieces(given: Any) -> list[str]:
    deltas = [one.choices[0].delta for one in given]
    calls = [one for delta in deltas for one in delta.tool_calls or ()]
    return [one.function.arguments or "" for one in calls]


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_fault_of_an_enforced_tool_is_corrected(is_streamed: bool) -> None:
    """The retry brings the arguments that fit; the rejected attempt is no observed one."""
    steps = [reply(search=FAULTY), reply(search=FITS)]
    server = Server(*(map(streamed, steps) if is_streamed else steps))
    seen: list[sr.Attempt] = []
    given = client(server, seen).chat.completions.create(**ASK, stream=is_streamed)

    came = "".join(_pieces(given)) if is_streamed else arguments(given)[0]
    assert came in {'{"query": "tea"}', '{"query":"tea"}'}
    assert [(one.observed, one.accepted) for one in seen] == [(False, False), (False, True)]


def test_one_enforced_fault_makes_the_whole_reply_enforced() -> None:
    """Faults of both tools are told, and both calls are retried."""
    steps = [reply(search=FAULTY, look=FAULTY), reply(search=FITS, look=FITS)]
    server = Server(*steps)
    seen: list[sr.Attempt] = []
    given = client(server, seen, parallel=True).chat.completions.create(**ASK)

    assert len(server.requests) == 2
    assert [len(one.issues) for one in seen] == [2, 0]
    assert [one for one in arguments(given) if "1" in one] == []


def test_the_first_request_is_the_callers_own() -> None:
    """Nothing that is declared is added to it; the correction says what is declared."""
    servers = [Server(reply(search=FITS)), Server(reply(search=FAULTY), reply(search=FITS))]
    servers[0].client().chat.completions.create(**ASK)
    client(servers[1], []).chat.completions.create(**ASK)

    assert servers[1].bodies[0] == servers[0].bodies[0]
    assert servers[1].requests[0].headers == servers[0].requests[0].headers
    assert b'"search"' in servers[1].bodies[1]


@pytest.mark.parametrize(
    "came",
    [
        completion("free text"),
        completion(""),
        completion(calls=[call("no_such_tool", {})]),
        refusal(),
        {"id": "x", "object": "chat.completion", "choices": []},
        completion(calls=[call("look", '{"query": ')], finish_reason="length"),
    ],
    ids=["text", "blank", "unknown tool", "refusal", "no choice", "cut call of another"],
)
def test_a_fault_of_no_enforced_tool_is_handed_on(came: dict[str, Any]) -> None:
    """What concerns no enforced tool comes as the raw client gives it."""
    servers = [Server(came), Server(came)]
    expected = servers[0].client().chat.completions.create(**ASK)
    given = client(servers[1], []).chat.completions.create(**ASK)

    assert given.model_dump() == expected.model_dump()
    assert len(servers[1].requests) == 1


def test_a_cut_call_of_an_enforced_tool_is_enforced() -> None:
    """A reply that was cut in a call of it is retried, as any fault of it."""
    cut = completion(calls=[call("search", FITS)], finish_reason="length")
    server = Server(cut, reply(search=FITS))
    client(server, []).chat.completions.create(**ASK)

    assert len(server.requests) == 2


def test_a_demanded_call_that_does_not_come_is_enforced() -> None:
    """A request that demands the enforced tool and gets a text is asked again."""
    server = Server(completion("no"), reply(search=FITS))
    choice: Any = {"type": "function", "function": {"name": "search"}}
    tools: Any = [SEARCH.definition, LOOK.definition]
    client(server, []).chat.completions.create(**ASK, tools=tools, tool_choice=choice)

    assert len(server.requests) == 2


def test_an_enforced_fault_that_stays_raises() -> None:
    """When the retries are spent the call fails, as any enforced one."""
    server = Server(reply(search=FAULTY))
    with pytest.raises(sr.ReplyRejected) as raised:
        client(server, [], max_retries=1).chat.completions.create(**ASK)

    assert len(raised.value.attempts) == 2
    assert isinstance(raised.value, openai.OpenAIError)


def test_parse_gives_what_the_sdk_parses_of_an_observed_answer() -> None:
    """An answer of a class that does not fit raises what the raw client raises."""
    wrong = completion('{"total": "x"}')
    servers = [Server(wrong), Server(wrong)]
    raised: list[type] = []
    for one in (servers[0].client(), client(servers[1], [])):
        with pytest.raises(ValueError) as error:  # noqa: PT011 - pydantic's own
            one.chat.completions.parse(**ASK, response_format=Invoice)
        raised.append(type(error.value))

    assert raised[0] is raised[1]
    assert len(servers[1].requests) == 1


def test_the_responses_api_is_enforced_by_tool() -> None:
    """The same holds on another API."""
    wrong = sdk.response(sdk.call_item("look", FAULTY))
    server = Server(wrong)
    seen: list[sr.Attempt] = []
    given = client(server, seen).responses.create(model="m", input="find")

    assert given.output[0].arguments == '{"query": 1}'
    assert [one.observed for one in seen] == [True]

    server = Server(
        sdk.response(sdk.call_item("search", FAULTY)), sdk.response(sdk.call_item("search", FITS))
    )
    client(server, []).responses.create(model="m", input="find")
    assert len(server.requests) == 2


def test_an_async_client_enforces_by_tool() -> None:
    """The twin hands on and corrects as the sync client does."""
    found: list[int] = []
    for name in ("search", "look"):
        server = Server(reply(**{name: FAULTY}), reply(**{name: FITS}))
        wrapped: Any = sr.wrap(server.async_client(), tools=[SEARCH, LOOK], enforce={"search"})
        asyncio.run(wrapped.chat.completions.create(**ASK))
        found.append(len(server.requests))

    assert found == [2, 1]
