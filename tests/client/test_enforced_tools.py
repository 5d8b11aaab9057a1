"""``enforce={…}``: a fault of these tools is corrected, any other is reported and handed on."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from pydantic import BaseModel

import strictreply as sr
from support import scripted_responses as sdk
from support.scripted import SCHEMA, USER, Server, call, completion, http, refusal
from support.streamed_replies import streamed, streamed_response

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
    deltas = [choice.delta for one in given for choice in one.choices]
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


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("other", [reply(look=FAULTY), reply(look=FITS), completion("A text.")])
def test_a_reply_to_a_correction_is_never_handed_on(
    other: dict[str, Any], *, is_streamed: bool
) -> None:
    """Whatever else the model writes in place of the corrected call is retried, too."""
    steps = [reply(search=FAULTY), other, reply(search=FITS)]
    server = Server(*(map(streamed, steps) if is_streamed else steps))
    seen: list[sr.Attempt] = []
    given = client(server, seen).chat.completions.create(**ASK, stream=is_streamed)

    came = "".join(_pieces(given)) if is_streamed else arguments(given)[0]
    assert came.replace(" ", "") == '{"query":"tea"}'
    assert [one.observed for one in seen] == [False] * 3


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


def _malformed(**message: Any) -> dict[str, Any]:
    made = completion("x")
    made["choices"][0]["message"].update(message)
    return made


def _of_two() -> dict[str, Any]:
    made = completion("hello")
    made["choices"].append(reply(search=FAULTY)["choices"][0] | {"index": 1})
    return made


def _called(name: str, arguments: Any = None, **given: Any) -> dict[str, Any]:
    return completion(calls=[call(name, FAULTY if arguments is None else arguments)], **given)


WRITTEN = '{"name": "search", "arguments": {"query": 1}}'
ENFORCED: dict[str, dict[str, Any]] = {
    "JSON that is cut": _called("search", '{"query": '),
    "another case": _called("Search"),
    "a namespace": _called("functions.search"),
    "blanks around": _called(" search\n"),
    "misspelt": _called("serach"),
    "a marker behind": _called("search<|channel|>commentary"),
    "one of two that are cut": completion(
        calls=[call("look", FITS, "a"), call("search", '{"qu', "b")], finish_reason="length"
    ),
    "an error as its end": _called("search", '{"query": ', finish_reason="error"),
    "JSON as text": completion(WRITTEN),
    "a template as text": completion(f"so: <tool_call>{WRITTEN}</tool_call>"),
    "text that is cut": completion('<tool_call>{"name": "search", "argu', finish_reason="length"),
    "the older form": _malformed(
        function_call={"name": "search", "arguments": '{"query": 1}'}, content=None
    ),
    "the form of Messages": _malformed(
        content=[{"type": "tool_use", "id": "a", "name": "search", "input": FAULTY}]
    ),
    "a second choice": _of_two(),
}
WAYS = [(form, False) for form in ENFORCED]
# a stream has no such form
WAYS += [(form, True) for form in ENFORCED if form != "the form of Messages"]


@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "in the request"])
@pytest.mark.parametrize(("form", "is_streamed"), WAYS)
def test_a_fault_of_an_enforced_tool_is_never_handed_on(
    form: str, is_streamed: bool, is_declared: bool
) -> None:
    """However its call is spelt, cut or written, the reply is refused, and the next one counts."""
    steps = [ENFORCED[form], reply(search=FITS)]
    server = Server(*(map(streamed, steps) if is_streamed else steps))
    seen: list[sr.Attempt] = []
    declared = {"tools": [SEARCH, LOOK] if is_declared else [], "parallel": True}
    asked = {} if is_declared else {"tools": [SEARCH.definition, LOOK.definition]}
    given = client(server, seen, **declared).chat.completions.create(
        **ASK, **asked, stream=is_streamed
    )

    if is_streamed:
        list(given)
    assert [one.accepted for one in seen] == [False, True]
    assert not any(one.observed for one in seen)


def test_a_call_behind_those_that_were_read_is_enforced() -> None:
    """Behind eight faulty calls no more are judged: one of an enforced tool is not handed on."""
    faulty = [call("look", FAULTY, f"call_{number}") for number in range(9)]
    server = Server(completion(calls=[*faulty, call("search", FAULTY)]))
    with pytest.raises(sr.ReplyRejected):
        client(server, [], max_retries=0, parallel=True).chat.completions.create(**ASK)


def test_calls_that_share_an_id_are_enforced_together() -> None:
    """A result would reach both calls: that of the other tool does not hide the enforced one."""
    shared = completion(calls=[call("search", FITS, "call_1"), call("look", FITS, "call_1")])
    server = Server(shared, reply(search=FITS))
    client(server, [], parallel=True, dialects="strict").chat.completions.create(**ASK)

    assert len(server.requests) == 2


@pytest.mark.parametrize("body", [b'"hi"', b"[]", b"null", b"5"])
def test_what_is_no_object_is_not_handed_on(body: bytes) -> None:
    """The SDK makes no completion of it: the call fails, as where the body is no JSON."""
    server = Server(http.Response(200, headers={"content-type": "application/json"}, content=body))
    with pytest.raises(sr.TransportFailed):
        client(server, [], policy=sr.RetryPolicy(transport_retries=0)).chat.completions.create(
            **ASK
        )


HANDED_ON: dict[str, dict[str, Any]] = {
    "a call": _called("look"),
    "two calls": completion(calls=[call("look", FAULTY, "a"), call("look", FAULTY, "b")]),
    "text and a call": completion("hello there", calls=[call("look", FAULTY)]),
    "an unknown tool": _called("no_such_tool"),
    "a call that is cut": _called("look", '{"que', finish_reason="length"),
    "a call without a name": _malformed(
        content=None, tool_calls=[{"index": 0, "id": "a", "type": "function"}]
    ),
    "a refusal": refusal(),
}


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("has_usage", [False, True], ids=["", "with usage"])
@pytest.mark.parametrize("came", HANDED_ON)
def test_a_stream_is_handed_on_in_its_own_chunks(
    came: str, has_usage: bool, is_async: bool
) -> None:
    """Each chunk of a reply whose faults are only observed is the raw client's, in its order."""
    servers = [Server(streamed(HANDED_ON[came], usage=has_usage)) for _ in range(2)]
    clients: list[Any] = [one.async_client() if is_async else one.client() for one in servers]
    seen: list[sr.Attempt] = []
    wrapped = sr.wrap(clients[1], tools=[SEARCH, LOOK], enforce={"search"}, on_attempt=seen.append)

    expected = _chunks(clients[0], is_async=is_async)
    assert _chunks(wrapped, is_async=is_async) == expected
    assert len(expected) > 1
    assert [one.observed for one in seen] == [True]


def _chunks(asked: Any, *, is_async: bool) -> list[Any]:
    if not is_async:
        return [one.model_dump() for one in asked.chat.completions.create(**ASK, stream=True)]

    async def main() -> list[Any]:
        given = await asked.chat.completions.create(**ASK, stream=True)
        return [one.model_dump() async for one in given]

    return asyncio.run(main())


def test_a_stored_reply_is_handed_on() -> None:
    """A stored reply whose faults are only observed is what the raw client fetches."""
    wrong = sdk.response(sdk.call_item("look", FAULTY))
    found: list[Any] = []
    for is_streamed in (False, True):
        servers = [Server(streamed_response(wrong) if is_streamed else wrong) for _ in range(2)]
        for asked in (servers[0].client(), client(servers[1], [])):
            given: Any = asked.responses.retrieve("resp_1", stream=is_streamed)
            found.append([one.model_dump() for one in (given if is_streamed else [given])])

    assert found[0] == found[1]
    assert found[2] == found[3]


def test_the_lines_of_a_stream_are_handed_on_once() -> None:
    """Raw lines are the server's, its end included."""
    servers = [Server(streamed(_called("look"))) for _ in range(2)]
    found: list[list[str]] = []
    for asked in (servers[0].client(), client(servers[1], [])):
        opening = asked.chat.completions.with_streaming_response.create(**ASK, stream=True)
        with opening as opened:
            found.append(list(opened.iter_lines()))

    assert found[1] == found[0]


def test_a_stream_of_the_responses_api_is_handed_on_in_its_own_events() -> None:
    """The same holds of the events of another API."""
    wrong = sdk.response(sdk.call_item("look", FAULTY))
    servers = [Server(streamed_response(wrong)), Server(streamed_response(wrong))]
    found: list[list[Any]] = []
    for asked in (servers[0].client(), client(servers[1], [])):
        given = asked.responses.create(model="m", input="find", stream=True)
        found.append([one.model_dump() for one in given])

    assert found[1] == found[0]
    assert len(found[0]) > 1
