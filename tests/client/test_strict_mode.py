"""``strict=``: a declared schema is sent as the provider enforces it, and judged as declared."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from collections.abc import Iterable
from typing import Any

import openai
import pytest
from pydantic import BaseModel, Field

import strictreply as sr
from support import scripted_responses as sdk
from support.scripted import SCHEMA, USER, Server, call, completion, http, status
from support.streamed_replies import streamed

ASK: dict[str, Any] = {"model": "m", "messages": USER}
OPENAI = "https://api.openai.com/v1"
REFUSAL = {
    "error": {
        "message": "Invalid schema for function 'book': In context=('properties', 'nights')",
        "type": "invalid_request_error",
        "param": "tools[0].function.parameters",
        "code": "invalid_function_parameters",
    }
}


class Invoice(BaseModel):
    """An answer with members that may be absent."""

    number: str
    total: float = 0
    tags: list[str] = []


class Place(BaseModel):
    """A part of an answer."""

    city: str


class Noted(BaseModel):
    """An answer of which one value is small."""

    lines: list[Place]
    note: str = Field(min_length=3)


@sr.tool
def book(city: str = Field(min_length=2), nights: int = 1) -> str:
    """Book a room."""
    return f"{city}: {nights}"


SENT = {"city": "Bern", "nights": None}
DECLARED = {"city": "Bern"}


def served(*answers: Any) -> Server:
    """Return a server that answers in order."""
    return Server(*answers)


def wrapped(server: Server, **declared: Any) -> Any:
    """Return a client of OpenAI's own server."""
    return sr.wrap(server.client(base_url=OPENAI), **declared)


def body(server: Server, number: int = -1) -> dict[str, Any]:
    """Return what was sent."""
    found: dict[str, Any] = json.loads(server.bodies[number])
    return found


def function(server: Server, number: int = -1) -> dict[str, Any]:
    """Return the first tool as it was sent."""
    found: dict[str, Any] = body(server, number)["tools"][0]["function"]
    return found


def test_a_declared_tool_is_sent_strictly_and_comes_back() -> None:
    """All members are demanded, and what came as null is absent again, everywhere."""
    server = served(completion(calls=[call("book", SENT)]))
    exchange = wrapped(server, tools=[book]).exchange(**ASK)

    sent = function(server)
    assert sent["strict"] is True
    assert sent["parameters"]["required"] == ["city", "nights"]
    assert exchange.reply.args.nights == 1
    assert exchange.reply.args.model_fields_set == {"city"}
    written = exchange.completion.choices[0].message.tool_calls[0].function.arguments
    assert json.loads(written) == DECLARED


def test_a_declared_answer_is_asked_for_strictly() -> None:
    """``answer=`` sends ``strict: true``, and the text of the completion is the declared form."""
    server = served(completion('{"number": "7", "total": null, "tags": null}'))
    exchange = wrapped(server, answer=Invoice).exchange(**ASK)

    assert body(server)["response_format"]["json_schema"]["strict"] is True
    assert exchange.reply.answer == Invoice(number="7")
    assert json.loads(exchange.completion.choices[0].message.content) == {"number": "7"}


def test_an_answer_that_is_no_object_is_wrapped() -> None:
    """A list is asked for as the member of an object, and is a list again."""
    server = served(completion('{"value": [{"number": "7", "total": 2, "tags": null}]}'))
    answer = wrapped(server, answer=list[Invoice]).answer(**ASK)

    assert answer == [Invoice(number="7", total=2)]


def test_what_the_provider_drops_is_judged() -> None:
    """A bound that strict mode does not take stands in the description, and is held."""
    wrong = completion(calls=[call("book", {"city": "B", "nights": None})])
    server = served(wrong, completion(calls=[call("book", SENT)]))
    exchange = wrapped(server, tools=[book]).exchange(**ASK)

    assert "minLength" in function(server, 0)["parameters"]["properties"]["city"]["description"]
    assert [issue.path for issue in exchange.attempts[0].issues] == [
        "/tool_calls/0/function/arguments/city"
    ]
    # the bad turn goes back in the form in which the model was asked
    turn = body(server)["messages"][-2]
    assert json.loads(turn["tool_calls"][0]["function"]["arguments"])["nights"] is None


def test_a_stream_comes_back_in_the_declared_form() -> None:
    """The chunks of an accepted call hold the declared arguments."""
    server = served(streamed(completion(calls=[call("book", SENT)])))
    chunks = wrapped(server, tools=[book]).chat.completions.create(**ASK, stream=True)
    deltas = [one.choices[0].delta for one in chunks if one.choices]
    pieces = [each for delta in deltas for each in delta.tool_calls or ()]

    assert json.loads("".join(each.function.arguments or "" for each in pieces)) == DECLARED


def test_a_typed_stream_grows_in_the_declared_form() -> None:
    """The part of an answer that is shown while it comes has its type, nulls or not."""
    server = served(streamed(completion('{"number": "7", "total": null, "tags": ["a"]}')))
    with wrapped(server, answer=Invoice).stream(**ASK) as events:
        shown = [
            event.partial.answer
            for event in events
            if isinstance(event, sr.Provisional) and event.partial is not None
        ]
        reply = events.reply

    assert reply.answer == Invoice(number="7", tags=["a"])
    assert isinstance(shown[-1], Invoice)
    assert shown[-1].tags == ["a"]


def test_a_refused_schema_is_sent_as_it_is_declared_and_remembered() -> None:
    """A 400 about the schema takes the form back once, for this schema, model and endpoint."""
    server = served(
        status(400, REFUSAL), completion(calls=[call("book", DECLARED)]), completion("x")
    )
    server.answers[2:] = [completion(calls=[call("book", DECLARED)])]
    client = wrapped(server, tools=[book])
    exchange = client.exchange(**ASK)

    assert [bool(one.dropped_params) for one in exchange.attempts] == [True, False]
    assert "strict" not in function(server)
    assert function(server)["parameters"]["required"] == ["city"]

    client.reply(**ASK)
    assert len(server.requests) == 3
    client.reply(**{**ASK, "model": "other"})
    assert function(server)["strict"] is True


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"strict": "auto"}, True),
        ({}, True),
        ({"strict": False}, None),
        ({"tools": [sr.Tool.from_json_schema("book", SCHEMA, strict=False)]}, None),
    ],
)
def test_who_decides(declared: dict[str, Any], expected: bool | None) -> None:
    """The contract says whether strict mode is asked for; a tool counts before it."""
    tool = sr.Tool.from_json_schema("book", {**SCHEMA, "required": ["query", "limit"]})
    given = {"tools": [tool], **declared}
    server = served(completion("done"))
    wrapped(server, **given).reply(**ASK)
    assert function(server).get("strict") is expected


def test_an_unknown_server_is_sent_what_is_declared() -> None:
    """``auto`` changes nothing where nobody knows what the server takes; ``True`` asks."""
    asked: tuple[tuple[Any, bool | None], ...] = (("auto", None), (True, True))
    for strict, expected in asked:
        server = served(completion(calls=[call("book", SENT if strict is True else DECLARED)]))
        client: Any = sr.wrap(server.client(), tools=[book], strict=strict)
        assert client.reply(**ASK).args.nights == 1
        assert function(server).get("strict") is expected


def test_a_schema_without_a_form_is_refused_where_strict_mode_must_be_asked() -> None:
    """The error says which part has no form; nothing is sent."""
    server = served(completion("{}"))
    with pytest.raises(sr.ContractError, match="strict"):
        wrapped(server, answer=dict[str, int], strict=True).reply(**ASK)
    with pytest.raises(sr.ContractError, match="strict"):
        sr.wrap(server.client(), strict="yes")  # type: ignore[call-overload]

    assert server.requests == []


def test_the_schemas_of_a_request_go_as_they_came() -> None:
    """Tools and formats of the API's own form are neither converted nor made strict."""
    loose = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": []}
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": loose}}
    format_: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": loose}}
    server = served(completion("{}"))
    sr.wrap(server.client(base_url=OPENAI)).chat.completions.create(
        **ASK, tools=[tool], response_format=format_
    )

    assert "strict" not in function(server)
    assert "strict" not in body(server)["response_format"]["json_schema"]
    assert function(server)["parameters"]["required"] == []


def test_a_definition_that_says_it_itself_is_kept() -> None:
    """``strict`` of a declared definition is the caller's word."""
    schema = {**SCHEMA, "additionalProperties": False}
    said = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": False}}
    server = served(completion("done"))
    wrapped(server, tools=[said]).reply(**ASK)

    assert function(server)["strict"] is False
    assert function(server)["parameters"]["required"] == ["query"]


def test_the_responses_api_is_asked_strictly() -> None:
    """The same on the Responses API, in its own words."""
    server = served(sdk.response(sdk.call_item("book", SENT)))
    client: Any = wrapped(server, tools=[book], answer=Invoice, api="responses")
    reply = client.reply(model="m", input="book")

    assert body(server)["tools"][0]["strict"] is True
    assert body(server)["text"]["format"]["strict"] is True
    assert reply.args.model_fields_set == {"city"}


def test_an_async_client_asks_strictly() -> None:
    """The twin sends and reads the same."""
    server = served(completion(calls=[call("book", SENT)]))
    client: Any = sr.wrap(server.async_client(base_url=OPENAI), tools=[book])
    reply = asyncio.run(client.reply(**ASK))

    assert function(server)["strict"] is True
    assert reply.args.nights == 1


def messages_client(answers: Iterable[Any], requests: list[Any]) -> Any:
    """Return a client of Anthropic's own server."""
    anthropic = pytest.importorskip("anthropic", reason="needs the anthropic SDK")
    library = __import__(anthropic.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
    left = iter(answers)

    def answer(request: Any) -> Any:
        requests.append(json.loads(request.content))
        return library.Response(200, json=next(left))

    held = library.Client(transport=library.MockTransport(answer))
    return anthropic.Anthropic(api_key="none", max_retries=0, http_client=held)


def message(*content: dict[str, Any]) -> dict[str, Any]:
    """Return a message of Claude's."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def test_claude_is_asked_strictly_with_what_may_be_absent() -> None:
    """Anthropic's strict mode takes members that are not demanded; bounds go to words."""
    requests: list[Any] = []
    client = sr.wrap(
        messages_client([message({"type": "text", "text": '{"number": "7"}'})], requests),
        tools=[book],
        answer=Invoice,
    )
    reply: Any = client.reply(
        model="claude", max_tokens=9, messages=[{"role": "user", "content": "x"}]
    )

    assert reply.answer == Invoice(number="7")
    assert requests[0]["tools"][0]["strict"] is True
    assert requests[0]["tools"][0]["input_schema"]["required"] == ["city"]
    assert requests[0]["output_config"]["format"]["schema"]["required"] == ["number"]


def test_claude_is_asked_in_words_for_an_answer_that_it_would_refuse() -> None:
    """No request is spent on a format that the API does not take."""
    requests: list[Any] = []
    client: Any = sr.wrap(
        messages_client([message({"type": "text", "text": '{"a": 1}'})], requests),
        answer=dict[str, int],
    )
    answer = client.answer(
        model="claude", max_tokens=9, messages=[{"role": "user", "content": "x"}]
    )

    assert answer == {"a": 1}
    assert len(requests) == 1
    assert "output_config" not in requests[0]


def test_the_sdk_is_the_real_one() -> None:
    """These clients are the SDK's, over a mock of its HTTP library."""
    assert isinstance(wrapped(served(completion("x"))), openai.OpenAI)
    assert http.Response


def test_an_example_is_in_the_form_that_is_sent() -> None:
    """A later correction shows all members, as the model has to write them."""
    wrong = completion(calls=[call("book", {"city": "B", "nights": None})])
    other = completion(calls=[call("book", {"city": "C", "nights": None})])
    server = served(wrong, other, wrong, completion(calls=[call("book", SENT)]))
    exchange = wrapped(server, tools=[book], max_retries=3).exchange(**ASK)

    examples = [one.correction for one in exchange.attempts if "example" in (one.correction or "")]
    assert examples
    assert all('"nights":null' in one.replace(" ", "") for one in examples)


@sr.tool
def look(room: int, floor: int = 0) -> str:
    """Look at a room."""
    return f"{room} {floor}"


@pytest.mark.parametrize("parallel", [False, True])
def test_a_retry_of_one_tool_of_several_comes_back(parallel: bool) -> None:
    """A correction that sends the faulty tool alone is in its form, and so is the reply to it."""
    calls = [call("book", {"city": "B", "nights": None})]
    if parallel:
        calls.append(call("look", {"room": 1, "floor": None}, "call_b"))

    server = served(completion(calls=calls), completion(calls=[call("book", SENT)]))
    exchange = wrapped(server, tools=[book, look], parallel=parallel).exchange(**ASK)

    assert [one["function"]["strict"] for one in body(server)["tools"]] == [True]
    assert len(exchange.attempts) == 2
    first = exchange.completion.choices[0].message.tool_calls[0]
    assert json.loads(first.function.arguments) == DECLARED


def test_a_refused_schema_stays_refused_in_a_retry_of_one_tool() -> None:
    """What the endpoint refused of all tools is not sent again of one."""
    wrong = completion(calls=[call("book", {"city": "B"})])
    server = served(
        status(400, REFUSAL),
        wrong,
        completion(calls=[call("book", DECLARED)]),
    )
    wrapped(server, tools=[book, look]).exchange(**ASK)

    sent = [json.loads(one)["tools"] for one in server.bodies]
    assert [[tool["function"].get("strict") for tool in tools] for tools in sent] == [
        [True, True],
        [None, None],
        [None],
    ]


def test_tools_that_may_not_be_called_are_sent_in_the_same_form() -> None:
    """``allowed_tools`` changes none of the tools that the model is shown."""
    server = served(completion("x"), completion("x"))
    client = wrapped(server, tools=[book, look])
    client.reply(**ASK)
    one = {"type": "function", "function": {"name": "book"}}
    allowed = {"mode": "auto", "tools": [one]}
    client.reply(**ASK, tool_choice={"type": "allowed_tools", "allowed_tools": allowed})

    assert body(server)["tools"] == body(server, 0)["tools"]


@pytest.mark.parametrize(
    "around",
    ["```json\n{}\n```", '<think>{{"total": null}}</think>\n{}', "Here it is: {} Done."],
)
def test_an_answer_that_is_extracted_comes_back(around: str) -> None:
    """What stands around the JSON stays, and what was made null in it is absent again."""
    text = around.format('{"number": "7", "total": null, "tags": null}')
    server = served(completion(text))
    lenient = ["after_think", "fenced", "first_object"]
    client = wrapped(server, answer=Invoice, extraction=lenient)
    exchange = client.exchange(**ASK)

    assert exchange.reply.answer == Invoice(number="7")
    assert exchange.completion.choices[0].message.content == around.format('{"number": "7"}')


def test_a_text_that_does_not_change_comes_byte_for_byte() -> None:
    """White space, order, escapes and numbers stay where nothing was left out."""
    text = '{ "total":1.0,\n "number": "\\u0041", "tags": [] }'
    server = served(completion(text))
    exchange = wrapped(server, answer=Invoice).exchange(**ASK)

    assert exchange.completion.choices[0].message.content == text


def test_a_stream_after_a_refusal_grows_in_the_declared_form() -> None:
    """A list that comes as itself is shown while it comes, though it was asked for wrapped."""
    refusal = {"error": {**REFUSAL["error"], "message": "Invalid schema for response_format"}}
    plain = completion('[{"number": "7", "total": 1, "tags": []}]')
    server = served(status(400, refusal), streamed(plain))
    with wrapped(server, answer=list[Invoice]).stream(**ASK) as events:
        shown = [
            event.partial.answer
            for event in events
            if isinstance(event, sr.Provisional) and event.partial is not None
        ]

    assert shown
    assert shown[-1] == [Invoice(number="7", total=1)]


def test_a_contract_is_pickled_and_copied_after_its_use() -> None:
    """What was made for a provider is made anew where a contract goes."""
    contract = sr.Contract(tools=[sr.Tool.from_json_schema("book", SCHEMA)], answer=Invoice)
    server = served(completion('{"number": "7", "total": null, "tags": null}'))
    client: Any = sr.wrap(server.client(base_url=OPENAI))
    client.chat.completions.create(**ASK, contract=contract)
    sent = contract.sent_to("openai").sent
    assert sent is not None

    loaded = pickle.loads(pickle.dumps(contract))  # noqa: S301 - of our own
    for other in (loaded, copy.deepcopy(contract)):
        again = other.sent_to("openai").sent
        assert again is not None
        assert again.name == sent.name


def test_a_remark_of_a_format_is_not_enforced() -> None:
    """``formats="annotate"`` sends the format in words, as the provider would enforce it."""
    schema = {**SCHEMA, "properties": {"query": {"type": "string", "format": "date"}}}
    declared = {**schema, "required": ["query"]}
    for formats in ("assert", "annotate"):
        tool = sr.Tool.from_json_schema("book", declared, formats=formats)
        server = served(completion("x"))
        wrapped(server, tools=[tool]).reply(**ASK)
        sent = function(server)["parameters"]["properties"]["query"]
        assert ("format" in sent) is (formats == "assert")


def test_claude_is_asked_in_words_for_one_value() -> None:
    """A retry of one value sends no schema that the API refuses, as it keeps a bound."""
    lines = [{"city": "Bern"}] * 60
    wrong = {"lines": lines, "note": "x"}
    requests: list[Any] = []
    answers = [json.dumps(wrong), '{"value": "note"}']
    client: Any = sr.wrap(
        messages_client([message({"type": "text", "text": one}) for one in answers], requests),
        answer=Noted,
    )
    answer = client.answer(
        model="claude", max_tokens=999, messages=[{"role": "user", "content": "x"}]
    )

    assert answer.note == "note"
    assert "minLength" not in json.dumps(requests[1].get("output_config", {}))


def test_what_is_beyond_the_limits_of_a_request_is_sent_as_it_is_declared() -> None:
    """Anthropic counts the optional members of all tools: the first ones are sent strictly."""
    members = {f"m{number}": {"type": "integer"} for number in range(10)}
    schema = {"type": "object", "properties": members, "additionalProperties": False}
    tools = [sr.Tool.from_json_schema(f"t{number}", schema) for number in range(4)]
    requests: list[Any] = []
    client: Any = sr.wrap(
        messages_client([message({"type": "text", "text": "x"})], requests), tools=tools
    )
    client.reply(model="claude", max_tokens=9, messages=[{"role": "user", "content": "x"}])

    assert [tool.get("strict") for tool in requests[0]["tools"]] == [True, True, None, None]


def test_a_request_that_the_caller_sends_is_in_the_declared_form() -> None:
    """``next_request`` knows no server: null is judged, and nothing is converted."""
    client = wrapped(served(completion("x")), tools=[book])
    contract = client.contract_for(**ASK)
    found = contract.next_request(ASK, completion(calls=[call("book", SENT)]))

    assert [issue.code for issue in found.verdict.issues] == ["args.type"]
    assert '"strict"' not in json.dumps(found.request)


class Other(BaseModel):
    """Another answer."""

    name: str


def test_a_refused_form_of_an_answer_leaves_the_format() -> None:
    """The schema goes once more as it is declared, and other schemas are still asked for."""
    refusal = {"error": {**REFUSAL["error"], "message": "Invalid schema for response_format"}}
    server = served(status(400, refusal), completion('{"number": "7"}'), completion("x"))
    server.answers[2:] = [completion('{"name": "x"}')]
    client = wrapped(server, answer=Invoice)
    client.reply(**ASK)

    declared = body(server)["response_format"]["json_schema"]
    assert "strict" not in declared
    assert declared["schema"]["required"] == ["number"]

    contract = sr.Contract(answer=Other)
    client.chat.completions.create(**ASK, contract=contract)
    assert body(server)["response_format"]["json_schema"]["strict"] is True


def test_an_example_is_in_the_declared_form_after_a_refusal() -> None:
    """What the endpoint was sent is what a correction shows."""
    wrong = [completion(calls=[call("book", {"city": city})]) for city in "BCD"]
    server = served(status(400, REFUSAL), *wrong, completion(calls=[call("book", DECLARED)]))
    exchange = wrapped(server, tools=[book], max_retries=4).exchange(**ASK)

    examples = [one.correction for one in exchange.attempts if "example" in (one.correction or "")]
    assert examples
    assert not any("null" in one for one in examples)
