"""Ways of servers, each read through the real SDK over a socket.

A row is refused under ``strict``, and changes no more than it says. What is harmful stays refused
under both settings.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionMessage

import strictreply as sr
from strictreply.testing import HTTPReply, LoopbackServer
from strictreply.wires._dialects import ANSWER_OBJECT, DIALECTS, in_api_form, text_in, thoughts_in
from strictreply.wires._stream_dialects import ENVELOPE_DIALECTS, RESPONSE_DIALECTS, STREAM_DIALECTS
from support.loops import some
from support.scripted import SCHEMA, USER, Server, completion

SEARCH = sr.Tool.from_json_schema("search", SCHEMA)
NOW = sr.Tool.from_json_schema(
    "now", {"type": "object", "properties": {"zone": {"type": ["string", "null"]}}}
)
PARALLEL: dict[str, Any] = {"tools": [SEARCH, NOW], "parallel": True}
ONCE = sr.RetryPolicy(max_retries=0, transport_retries=0)
ASK: dict[str, Any] = {"model": "m", "messages": USER}
TEA = {"query": "tea"}
MILK = '{"query": "milk"}'
THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
SUMMARY = {
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "hm", "signature": "s"}],
}
PAGE = Path(__file__).parents[2] / "docs" / "verdicts.md"


def turn(*calls: Any, content: Any = None, **more: Any) -> dict[str, Any]:
    """Return an assistant message; ``role=...`` in ``more`` leaves the role out."""
    message = {
        "role": "assistant",
        "content": content,
        **({"tool_calls": list(calls)} if calls else {}),
        **more,
    }
    return {name: value for name, value in message.items() if value is not ...}


def made(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    """Return a call; a member of ``more``, or arguments, that are ``...`` are left out."""
    function = {"name": name, "arguments": arguments}
    function = {key: value for key, value in function.items() if value is not ...}
    whole = {"id": "call_1", "type": "function", "function": function, **more}
    return {key: value for key, value in whole.items() if value is not ...}


def body(message: dict[str, Any]) -> dict[str, Any]:
    """Return a completion around a message."""
    whole = completion()
    is_text = message.get("content") or "tool_calls" not in message
    reason = "stop" if is_text else "tool_calls"
    whole["choices"][0] |= {"message": message, "finish_reason": reason}
    return whole


CALL = made("search", json.dumps(TEA))
HELLO = sr.DirectAnswer("hello")
FOUND = sr.ToolCall("search", TEA, "call_1")
NOTHING = sr.ToolCall("now", {}, "call_1")
LEGACY = {"name": "search", "arguments": json.dumps(TEA)}
ID = "any id"
SOME = sr.ToolCall("search", TEA, ID)
OTHER = sr.ToolCall("search", {"query": "milk"}, ID)

ROWS: list[tuple[tuple[str, ...], dict[str, Any], Any, str]] = [
    (("role_model",), turn(content="hello", role="model"), HELLO, "reply.role"),
    (("role_missing",), turn(content="hello", role=...), HELLO, "reply.role"),
    (("role_missing",), turn(CALL, role=None), FOUND, "reply.role"),
    (("role_missing",), turn(content="hello", role=""), HELLO, "reply.role"),
    (
        ("call_type_missing",),
        turn(made("search", json.dumps(TEA), type="")),
        FOUND,
        "call.malformed",
    ),
    (
        ("content_chunks",),
        turn(content=[{"type": "text", "text": "hello"}]),
        HELLO,
        "reply.content",
    ),
    (
        ("content_chunks",),
        turn(content=[THOUGHT, {"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]),
        HELLO,
        "reply.content",
    ),
    (
        ("content_chunks",),
        turn(content=[SUMMARY, {"type": "text", "text": "hello"}]),
        HELLO,
        "reply.content",
    ),
    (
        ("call_type_missing",),
        turn(made("search", json.dumps(TEA), type=...)),
        FOUND,
        "call.malformed",
    ),
    (
        ("call_type_missing",),
        turn(made("search", json.dumps(TEA), type=None)),
        FOUND,
        "call.malformed",
    ),
    (("arguments_object",), turn(made("search", TEA)), FOUND, "json.not_text"),
    (("arguments_object",), turn(made("now", {})), NOTHING, "json.not_text"),
    (("arguments_empty",), turn(made("now", "")), NOTHING, "json.empty"),
    (("arguments_empty",), turn(made("now", " \n")), NOTHING, "json.empty"),
    (("arguments_empty",), turn(made("now", None)), NOTHING, "json.not_text"),
    (("arguments_empty",), turn(made("now", ...)), NOTHING, "json.not_text"),
    (("arguments_empty",), turn(made("now", "null")), NOTHING, "shape.wrong_type"),
    (
        ("function_call_empty",),
        turn(CALL, function_call={"name": "", "arguments": ""}),
        FOUND,
        "call.malformed",
    ),
    (
        ("call_id_number",),
        turn(CALL | {"id": 0}),
        sr.ToolCall("search", TEA, "0"),
        "call.id_missing",
    ),
    (
        ("call_id_number",),
        turn(made("search", json.dumps(TEA), id=365174485)),
        sr.ToolCall("search", TEA, "365174485"),
        "call.id_missing",
    ),
    *(
        (("call_repeated",), turn(CALL, again), FOUND, "call.id_duplicate")
        for again in (
            CALL,
            made("search", '{"query":"tea"}'),
            CALL | {"extra_content": {"google": {"thought_signature": "B"}}},
        )
    ),
    (("call_repeated",), turn(CALL, CALL, CALL), FOUND, "call.id_duplicate"),
    (
        ("call_repeated", "arguments_object", "call_id_number"),
        turn(made("search", TEA, id=7), made("search", json.dumps(TEA), id=7)),
        sr.ToolCall("search", TEA, "7"),
        "call.id_missing",
    ),
    *(
        (("call_empty",), turn(*calls, content="hello", **more), HELLO, "call.")
        for calls, more in (
            ([{}], {}),
            ([None], {}),
            ([{}, None, {"index": 0}], {}),
            ([{"type": "function", "function": {"name": "", "arguments": ""}}], {}),
            ([{"id": None, "type": "function", "function": None}], {}),
            ((), {"tool_calls": {}}),
            ((), {"tool_calls": ""}),
        )
    ),
    (("call_empty",), turn({}, CALL, {"id": "", "function": {}}), FOUND, "call."),
    *(
        (rows, turn(*calls), sr.ToolCalls(right), code)
        for rows, calls, right, code in (
            (
                ("call_id_shared",),
                (CALL, made("search", MILK)),
                (FOUND, OTHER),
                "call.id_duplicate",
            ),
            (
                ("call_id_shared",),
                (CALL | {"index": 0}, made("search", MILK, index=1)),
                (FOUND, OTHER),
                "call.id_duplicate",
            ),
            (
                ("call_id_shared",),
                (made("search", MILK, id="b"), CALL, made("now", "{}")),
                (sr.ToolCall("search", {"query": "milk"}, "b"), FOUND, sr.ToolCall("now", {}, ID)),
                "call.id_duplicate",
            ),
            (
                ("call_repeated", "call_id_shared"),
                (CALL, CALL, made("search", MILK)),
                (FOUND, OTHER),
                "call.id_duplicate",
            ),
            (
                ("call_id_number", "call_id_shared"),
                (made("now", "{}", id=1), made("search", MILK, id="1")),
                (sr.ToolCall("now", {}, "1"), OTHER),
                "call.id_missing",
            ),
        )
    ),
    (("call_id_missing",), turn(CALL | {"id": ""}), SOME, "call.id_missing"),
    (("call_id_missing",), turn(CALL | {"id": None}), SOME, "call.id_missing"),
    (("call_id_missing",), turn(made("search", json.dumps(TEA), id=...)), SOME, "call.id_missing"),
    (("call_id_missing",), turn(CALL | {"id": "  "}), SOME, "call.id_missing"),
    (("function_call_repeated",), turn(CALL, function_call=LEGACY), FOUND, "call.malformed"),
    (
        ("function_call_repeated", "arguments_object"),
        turn(made("search", TEA), function_call={"name": "search", "arguments": TEA}),
        FOUND,
        "call.malformed",
    ),
    (
        # Ollama's own endpoint, Gemini behind a gateway
        ("call_type_missing", "arguments_object", "call_id_missing"),
        turn(
            {"function": {"name": "search", "arguments": TEA}},
            made("now", "", id=""),
            content=[],
            role=...,
        ),
        None,
        "reply.role",
    ),
]
HARMFUL: dict[str, tuple[dict[str, Any], str]] = {
    "another function_call": (turn(CALL, function_call=LEGACY | {"name": "now"}), "call.malformed"),
    "other arguments": (
        turn(CALL, function_call=LEGACY | {"arguments": '{"query":"milk"}'}),
        "call.malformed",
    ),
    "equal in Python alone": (
        turn(made("now", {"zone": 1}), function_call={"name": "now", "arguments": {"zone": True}}),
        "call.malformed",
    ),
    "a function_call alone": (turn(function_call=LEGACY), "call.malformed"),
    "a function_call beside text": (turn(content="hello", function_call=LEGACY), "call.malformed"),
    "an id twice under one index": (
        turn(CALL | {"index": 0}, made("search", MILK, index=0)),
        "call.id_duplicate",
    ),
    "an id twice, no arguments at first": (
        turn(made("now", "{}"), made("now", '{"zone": "x"}')),
        "call.id_duplicate",
    ),
    "an id twice, the beginning of a text at first": (
        turn(made("search", '{"query": "m"}'), made("search", MILK)),
        "call.id_duplicate",
    ),
    "an id twice, once cut": (turn(CALL, made("search", MILK[:-1])), "call.id_duplicate"),
    "an id twice, a key twice": (
        turn(CALL, made("search", '{"query": "milk", "query": "tea"}')),
        "call.id_duplicate",
    ),
    "an id twice, a number for a flag": (
        turn(made("now", '{"zone": 1}'), made("now", '{"zone": true}')),
        "call.id_duplicate",
    ),
    "an empty call, and nothing else": (turn({}), "reply.empty"),
    "an empty call with an id": (turn({"id": "a"}, content="hello"), "call.malformed"),
    "an id that is a flag": (turn(made("now", "{}", id=True)), "call.id_missing"),
    "an id that is a list": (turn(made("now", "{}", id=["a"])), "call.id_missing"),
    "a blank in the name": (turn(made("search ", json.dumps(TEA))), "tool.unknown"),
    "a namespace": (turn(made("functions.search", json.dumps(TEA))), "tool.unknown"),
    "a name without its arguments": (turn(made("now ", None)), "tool.unknown"),
    "a number as text": (turn(made("search", {"query": "a", "limit": "3"})), "args.type"),
    "a flag as text": (turn(made("search", '{"query": true}')), "args.type"),
    "an extra key": (turn(made("search", {**TEA, "more": 1})), "args.extra_key"),
    "missing arguments that are required": (turn(made("search", ...)), "json.not_text"),
    "null arguments that are required": (turn(made("search", None)), "json.not_text"),
    "blank arguments that are required": (turn(made("search", "")), "json.empty"),
    "arguments under another name": (
        turn(
            {
                "id": "a",
                "type": "function",
                "function": {"name": "now", "parameters": {"zone": "x"}},
            }
        ),
        "json.not_text",
    ),
    "arguments beside the function": (
        turn(made("now", ...) | {"arguments": '{"zone": "x"}'}),
        "json.not_text",
    ),
    "the word null": (turn(made("search", "null")), "shape.wrong_type"),
    "arguments in an array": (turn(made("now", [{}])), "json.not_text"),
    "arguments of parts": (turn(made("now", [{"type": "text", "text": "{}"}])), "json.not_text"),
    "a number as arguments": (turn(made("now", 0)), "json.not_text"),
    "another kind of call": (turn(made("now", "{}", type="custom")), "call.malformed"),
    "a flat call": (
        turn({"id": "a", "type": "function", "name": "now", "arguments": "{}"}),
        "call.malformed",
    ),
    "a chunk of another kind": (
        turn(content=[{"type": "tool_use", "name": "now", "input": {}}]),
        "reply.content",
    ),
    "an image": (
        turn(content=[{"type": "text", "text": "a"}, {"type": "image_url"}]),
        "reply.content",
    ),
    "a chunk without its text": (turn(content=[{"type": "text", "text": None}]), "reply.content"),
    "texts": (turn(content=["hello"]), "reply.content"),
    "content as an object": (turn(content={"type": "text", "text": "hello"}), "reply.content"),
    "nothing but thoughts": (turn(content=[THOUGHT]), "reply."),
    "no chunks": (turn(content=[]), "reply."),
    "another role": (turn(content="hello", role="user"), "reply.role"),
    "a tool's role": (turn(CALL, role="tool"), "reply.role"),
    "a role that is no text": (turn(content="hello", role=1), "reply.role"),
}


def codes(verdict: Any) -> list[str]:
    """Return the codes of a refusal; none for a verdict that is valid."""
    return [issue.code for issue in verdict.issues] if isinstance(verdict, sr.Invalid) else []


def exchanged(base_url: str, **declared: Any) -> Any:
    """Make one call with the sync client."""
    with openai.OpenAI(api_key="none", base_url=base_url) as inner:
        return sr.wrap(inner, policy=ONCE, **declared).exchange(**ASK)


def aexchanged(base_url: str, **declared: Any) -> Any:
    """Make one call with the async client."""

    async def main() -> Any:
        async with openai.AsyncOpenAI(api_key="none", base_url=base_url) as inner:
            return await sr.wrap(inner, policy=ONCE, **declared).exchange(**ASK)

    return asyncio.run(main())


both = pytest.mark.parametrize("send", [exchanged, aexchanged], ids=["sync", "async"])
rows = pytest.mark.parametrize(
    ("names", "message", "reply", "code"),
    ROWS,
    ids=lambda each: "+".join(each) if isinstance(each, tuple) else "",
)


def without_ids(reply: Any) -> Any:
    """Replace the ids of a reply: those that are made up are judged by their form."""
    calls = reply.calls if isinstance(reply, sr.ToolCalls) else (reply,)
    assert all(each.id and each.id == each.id.strip() for each in calls)
    return [sr.ToolCall(each.tool, each.args, ID) for each in calls]


@both
@rows
def test_a_dialect_is_read_as_the_api(
    names: tuple[str, ...], message: dict[str, Any], reply: Any, code: str, send: Callable[..., Any]
) -> None:
    """The reply is valid at once, the attempt names the rows, and the completion is as the API
    would have sent it.
    """
    with LoopbackServer(lambda _: body(message)) as server:
        exchange = send(server.base_url, **PARALLEL)
        with pytest.raises(sr.ReplyRejected) as raised:
            send(server.base_url, **PARALLEL, dialects="strict")

    (attempt,) = exchange.attempts

    if reply is None:
        assert without_ids(exchange.reply) == [
            sr.ToolCall("search", TEA, ID),
            sr.ToolCall("now", {}, ID),
        ]
    elif isinstance(reply, sr.ToolCalls):
        ids = [call.id for call in exchange.reply.calls]
        assert without_ids(exchange.reply) == without_ids(reply)
        assert (len(set(ids)), ids[0]) == (len(ids), reply.calls[0].id)
    elif getattr(reply, "id", None) == ID:
        assert without_ids(exchange.reply) == [reply]
    else:
        assert exchange.reply == reply

    assert set(names) <= set(attempt.lenient)
    assert attempt.raw["choices"][0]["message"] == message
    assert raised.value.attempts[0].issues[0].code.startswith(code)
    assert raised.value.attempts[0].lenient == ()

    given_back = exchange.completion
    assert isinstance(given_back, ChatCompletion)
    told = given_back.choices[0].message
    assert (told.role, told.function_call) == ("assistant", None)

    has_thoughts = bool(thoughts_in(message["content"]))
    assert told.content is None or isinstance(told.content, list if has_thoughts else str)

    for one in told.tool_calls or ():
        assert one.type == "function"
        assert isinstance(one.id, str)
        assert isinstance(json.loads(one.function.arguments), dict)

    assert has_thoughts or not codes(sr.Contract(**PARALLEL, dialects="strict").check(given_back))


@rows
def test_a_dialect_is_read_wherever_a_reply_is_judged(
    names: tuple[str, ...], message: dict[str, Any], reply: Any, code: str
) -> None:
    """A message, a completion, their JSON text and the SDK's objects are read alike; nothing given
    is changed.
    """
    contract = sr.Contract(**PARALLEL)
    strict = sr.Contract(**PARALLEL, dialects="strict")
    whole = body(message)
    forms = [
        message,
        whole,
        json.dumps(whole),
        ChatCompletion.construct(**whole),
        ChatCompletionMessage.construct(**message),
    ]

    before = deepcopy(whole)

    for form in forms:
        verdict = contract.check(form)
        assert not codes(verdict)
        assert reply is None or type(verdict.reply) is type(reply)  # type: ignore[union-attr]
        bare = form is message or isinstance(form, ChatCompletionMessage)
        assert bare or set(names) <= set(verdict.lenient)

        assert contract.check(form) == verdict

    assert codes(strict.check(whole))[0].startswith(code)
    assert whole == before


@both
@pytest.mark.parametrize(("message", "code"), HARMFUL.values(), ids=HARMFUL)
def test_what_is_harmful_stays_refused(
    message: dict[str, Any], code: str, send: Callable[..., Any]
) -> None:
    """A message of two readings is refused under both settings, through the client and by
    ``check``.
    """
    contract = sr.Contract(**PARALLEL)
    assert codes(contract.check(message))[0].startswith(code)
    assert codes(contract.replace(dialects="strict").check(message))

    with LoopbackServer(lambda _: body(message)) as server:
        with pytest.raises(sr.ReplyRejected) as raised:
            send(server.base_url, **PARALLEL)

        assert raised.value.issues[0].code.startswith(code)

        with pytest.raises(sr.ReplyRejected):
            send(server.base_url, **PARALLEL, dialects="strict")


BODY = json.dumps(body(turn(made("now", {"zone": None}))))


@both
@pytest.mark.parametrize(
    "arguments",
    [
        '{"zone": "a", "zone": null}',
        '{"zone": NaN}',
        '{"zone": 1e999}',
        '{"zone": {"a": 1, "a": 1}}',
        '{"zone": "\\ud800"}',
    ],
)
def test_an_object_of_arguments_is_read_strictly(arguments: str, send: Callable[..., Any]) -> None:
    """A key that is there twice, and a number that is none, are refused where the arguments are an
    object, too.
    """
    raw = BODY.replace('{"zone": null}', arguments)
    reply = HTTPReply(200, {"Content-Type": "application/json"}, (raw.encode(),))
    with LoopbackServer(lambda _: reply) as server, pytest.raises(sr.CallFailed) as raised:
        send(server.base_url, **PARALLEL)
    assert raised.value.issues
    assert codes(sr.Contract(**PARALLEL).check(raw))


def test_ids_made_up_are_unique_in_their_conversation() -> None:
    """An id of ours is not one of the conversation's, though the server says the same again; nor is
    a number's text.
    """
    for id_ in ("", 7):
        server = Server(body(turn(made("now", "{}", id=id_))))
        client = sr.wrap(server.client(), policy=ONCE, **PARALLEL)
        messages: list[Any] = [*USER]
        seen: list[str] = []

        for _ in range(3):
            exchange = client.exchange(model="m", messages=messages)
            assert len(exchange.attempts) == 1
            seen.append(exchange.reply.id)
            messages = [
                *exchange.transcript,
                {"role": "tool", "tool_call_id": seen[-1], "content": "noon"},
            ]

        assert len(set(seen)) == 3


def test_several_calls_without_an_id_are_told_apart() -> None:
    """Each call without an id has one of its own, also where another call has one."""
    message = turn(made("now", "{}", id=""), made("now", "{}", id="x"), made("now", "{}", id=None))
    verdict = sr.Contract(**PARALLEL).check(message)
    assert isinstance(verdict, sr.Valid)
    assert isinstance(verdict.reply, sr.ToolCalls)
    ids = [each.id for each in verdict.reply.calls]
    assert ids[1] == "x"
    assert len(set(ids)) == 3


def test_thoughts_in_the_content_go_back_with_the_transcript() -> None:
    """The completion has them as the raw client does, and the assistant's turn of the transcript is
    as the provider wants it back.
    """
    content: Any = [THOUGHT, {"type": "text", "text": "hello"}]
    exchange = sr.wrap(Server(body(turn(content=content))).client(), policy=ONCE).exchange(**ASK)
    assert exchange.reply == HELLO
    assert exchange.completion.choices[0].message.content == content
    assert exchange.transcript[-1] == turn(content=content)
    assert exchange.completion.choices[0].finish_reason == "stop"


def test_a_scoped_correction_keeps_what_the_provider_wants_back() -> None:
    """The frozen message keeps its thoughts, its signatures and its ids, in the correction and in
    the end.
    """
    state = {"extra_content": {"google": {"thought_signature": "s" * 20_000}}}
    content: Any = [THOUGHT, {"type": "text", "text": "let me see"}]
    bad = turn(
        made("search", {"query": 1}, id=5, **state),
        made("now", "", id=6),
        content=content,
        reasoning_content="r" * 20_000,
    )

    good = body(turn(made("search", TEA, id="")))
    server = Server(body(bad), good)
    exchange = sr.wrap(server.client(), policy=sr.RetryPolicy(max_retries=1), **PARALLEL).exchange(
        **ASK
    )
    assert exchange.attempts[1].scope == "search"

    replayed = json.loads(server.bodies[1])["messages"][-3]
    told = exchange.transcript[-1]
    for one in (replayed, told):
        assert (one["content"], one["reasoning_content"]) == (content, "r" * 20_000)
        assert [each["id"] for each in one["tool_calls"]] == ["5", "6"]
        assert one["tool_calls"][0]["extra_content"] == state["extra_content"]

    assert told["tool_calls"][0]["function"]["arguments"] == json.dumps(TEA, separators=(",", ":"))
    assert exchange.completion.choices[0].message.content == content
    assert [each.id for each in exchange.reply.calls] == ["5", "6"]


def test_structured_and_text_channel_contents_may_be_chunks() -> None:
    """Chunks of text are read as the JSON that they join to."""
    parts = [THOUGHT, {"type": "text", "text": '{"answer"'}, {"type": "text", "text": ': "hi"}'}]
    assert not codes(sr.Contract(channel="text").check(turn(content=parts)))
    answer = sr.Contract(answer={"type": "object", "properties": {"answer": {"type": "string"}}})
    assert not codes(answer.check(turn(content=parts)))

    called = [THOUGHT, {"type": "text", "text": '{"tool": "search", "args": {"query": 1}}'}]
    server = Server(
        body(turn(content=called)),
        body(turn(content='{"tool": "search", "args": {"query": "tea"}}')),
    )
    exchange = sr.wrap(server.client(), channel="text", tools=[SEARCH]).exchange(**ASK)
    assert exchange.attempts[1].scope == "search"

    assert json.loads(server.bodies[1])["messages"][-2]["content"] == called


JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
GOOD_CALLS = st.builds(
    lambda name, args, id_, more: made(name, json.dumps(args), id=id_) | more,
    st.sampled_from(["search", "now", "other"]),
    st.dictionaries(st.text(max_size=5), JSONS, max_size=2),
    st.text(min_size=1).filter(str.strip),
    st.dictionaries(st.sampled_from(["index", "extra_content"]), JSONS, max_size=1),
)
GOOD_TURNS = st.builds(
    lambda content, calls, more: turn(*calls, content=content) | more,
    st.none() | st.text(max_size=9),
    st.lists(GOOD_CALLS, max_size=3, unique_by=lambda call: str(call["id"])),
    st.dictionaries(
        st.sampled_from(["refusal", "reasoning_content", "annotations", "audio"]), JSONS, max_size=2
    ),
)
ODD_CALLS = st.fixed_dictionaries(
    {},
    optional={
        "id": JSONS,
        "type": st.sampled_from(["function", None, "custom"]) | JSONS,
        "function": JSONS
        | st.fixed_dictionaries(
            {}, optional={"name": st.sampled_from(["search", "now"]) | JSONS, "arguments": JSONS}
        ),
    },
)
CHUNKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "image"]), "text": JSONS}
)
ODD_TURNS = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["assistant", "model", "user", None]) | JSONS,
        "content": JSONS | st.lists(CHUNKS | JSONS, max_size=3),
        "tool_calls": JSONS | st.lists(ODD_CALLS | JSONS, max_size=3),
        "function_call": JSONS | st.just(LEGACY),
    },
)


def needs_nothing(name: str) -> bool:
    """Return whether a tool can be called without arguments."""
    return name == "now"


@given(GOOD_TURNS)
def test_a_well_formed_message_is_never_changed(message: dict[str, Any]) -> None:
    """A message in the API's own form stays the same object, and no row is named."""
    told, applied = in_api_form(message, needs_nothing)
    assert told is message
    assert applied == ()
    assert all(row.read(message, needs_nothing) is message for row in DIALECTS.values())


@given(ODD_TURNS | GOOD_TURNS)
def test_reading_a_dialect_twice_is_reading_it_once(message: dict[str, Any]) -> None:
    """Whatever came, the result is in the API's form as far as it will be; what came is not
    changed, nothing raises.
    """
    before = deepcopy(message)
    told, applied = in_api_form(message, needs_nothing)
    assert repr(message) == repr(before)
    assert in_api_form(told, needs_nothing) == (told, ())
    assert in_api_form(message, needs_nothing) == (told, applied)
    assert (told is message) == (not applied)


@given(ODD_TURNS | GOOD_TURNS)
def test_no_row_is_left_out(message: dict[str, Any]) -> None:
    """A message that is not looked at further is one that no row would change."""
    if in_api_form(message, needs_nothing)[0] is message:
        assert all(row.read(message, needs_nothing) is message for row in some(DIALECTS.values()))


def test_a_repeated_call_keeps_what_stands_around_either() -> None:
    """The call is there once, with the last signature; blank members take the place of none."""
    signed = {"extra_content": {"google": {"thought_signature": "A"}}}
    again = {"extra_content": {"google": {"thought_signature": "B"}}}
    for calls, left in (
        ([CALL | signed, CALL], signed),
        ([CALL, CALL | signed], signed),
        ([CALL | signed, CALL | again], again),
        ([CALL | signed, CALL | {"extra_content": None}], signed),
    ):
        exchange = sr.wrap(Server(body(turn(*calls))).client(), policy=ONCE, **PARALLEL).exchange(
            **ASK
        )
        assert exchange.transcript[-1]["tool_calls"] == [CALL | left]
        assert exchange.completion.choices[0].message.to_dict()["tool_calls"] == [CALL | left]


def test_calls_of_the_responses_api_stand_for_their_items() -> None:
    """A message whose items are kept has each call, or it would no longer fit these."""
    told, applied = in_api_form(turn(CALL, CALL, response={"output": []}), needs_nothing)
    assert (len(told["tool_calls"]), applied) == (2, ())  # type: ignore[index]


@given(ODD_TURNS)
def test_what_strict_accepts_is_accepted_the_same(message: dict[str, Any]) -> None:
    """Reading the ways of servers changes no verdict on what is in the API's own form."""
    verdict = sr.Contract(**PARALLEL, dialects="strict").check(message)
    if isinstance(verdict, sr.Valid) and message.get("role") == "assistant":
        assert sr.Contract(**PARALLEL).check(message) in (
            verdict,
            sr.Valid(verdict.reply, ("content_chunks",)),
        )


TOP: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 5, "model": "own"}
CHOICE: dict[str, Any] = {
    "index": 0,
    "finish_reason": "stop",
    "message": {"role": "assistant", "content": "hi"},
}
HEADS: list[tuple[set[str], dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"head_missing", "choice_index"}, {}, {"message": CHOICE["message"]}, {}),
    ({"head_missing"}, dict.fromkeys(TOP), CHOICE, {}),
    ({"head_missing"}, dict.fromkeys(TOP, ""), CHOICE, {}),
    ({"head_missing"}, TOP | {"id": 7}, CHOICE, TOP | {"id": "7"}),
    ({"head_missing"}, TOP | {"created": 5.5}, CHOICE, TOP),
    ({"head_missing"}, TOP | {"created": "5"}, CHOICE, TOP),
    ({"head_missing"}, TOP | {"object": "chat.completion.chunk"}, CHOICE, TOP),
    ({"head_missing"}, TOP | {"model": None}, CHOICE, TOP | {"model": "m"}),
    ({"head_missing"}, TOP | {"id": ["c"], "created": True, "model": {}}, CHOICE, {}),
    *(({"choice_index"}, TOP, CHOICE | {"index": index}, TOP) for index in (None, "0", 1, True)),
]


@both
@pytest.mark.parametrize(("names", "top", "choice", "told"), HEADS)
def test_what_stands_around_a_message_is_as_the_api_has_it(
    names: set[str],
    top: dict[str, Any],
    choice: dict[str, Any],
    told: dict[str, Any],
    send: Callable[..., Any],
) -> None:
    """Pydantic takes the completion: what the server tells is kept, the rest is made up."""
    whole = top | {"choices": [choice]}
    with LoopbackServer(lambda _: whole) as server:
        exchange = send(server.base_url)
        as_it_came = send(server.base_url, dialects="strict")

    (attempt,) = exchange.attempts
    assert set(attempt.lenient) == names
    assert attempt.raw == whole
    assert as_it_came.attempts[0].lenient == ()
    assert as_it_came.completion.to_dict(warnings=False) == whole

    completion = exchange.completion
    given_back = completion.model_dump()
    assert isinstance(completion, ChatCompletion)
    assert ChatCompletion.model_validate(given_back).choices[0].message.content == "hi"
    assert (completion.choices[0].index, completion.choices[0].finish_reason) == (0, "stop")
    assert {name: given_back[name] for name in told} == told
    assert completion.model == told.get("model", "m")
    assert told or time.time() - 60 < completion.created <= time.time()
    assert told or completion.id.startswith("chatcmpl-")
    assert not codes(sr.Contract(dialects="strict").check(completion))


def test_two_completions_without_an_id_have_two() -> None:
    """Also where they say the same: programs tell replies apart by it."""
    whole: dict[str, Any] = {"choices": [CHOICE]}
    with LoopbackServer(lambda _: whole) as server:
        ids = {exchanged(server.base_url).completion.id for _ in range(2)}

    assert len(ids) == 2


@given(JSONS | st.lists(CHUNKS | JSONS, max_size=4))
def test_text_and_thoughts_make_up_a_content(content: Any) -> None:
    """A list has a text only when each of its chunks is a text or a thought."""
    text = text_in(content)
    thoughts = thoughts_in(content)
    if isinstance(content, list) and text is not None:
        assert len(content) == len(thoughts) + sum(each["type"] == "text" for each in content)


def test_a_way_of_taking_dialects_is_one_of_two() -> None:
    """A misspelt setting is refused when the contract is made, by ``wrap``, too."""
    with pytest.raises(sr.ContractError):
        sr.Contract(dialects="lenient")  # type: ignore[call-overload]  # one of the two
    with pytest.raises(sr.ContractError):
        sr.wrap(Server(completion("hello")).client(), dialects="off")  # type: ignore[call-overload]


def test_every_row_has_its_source_and_stands_on_its_page() -> None:
    """Each row names a public thread, is played above, and stands on the page as it stands in the
    table.
    """
    played = {name for names, *_ in ROWS for name in names} | {ANSWER_OBJECT}
    assert played == DIALECTS.keys()
    page = PAGE.read_text(encoding="utf-8")
    assert {name for names, *_ in HEADS for name in names} == ENVELOPE_DIALECTS.keys()
    for name, row in [*ENVELOPE_DIALECTS.items(), *DIALECTS.items()]:
        assert "#" in row.source
        assert f"| `{name}` | {row.sends} | {row.becomes} | {row.source} |\n" in page
    assert page.count("\n| `call_") + page.count("\n| `arg") == sum(
        name.startswith(("call_", "arg"))
        for name in [*DIALECTS, *STREAM_DIALECTS, *RESPONSE_DIALECTS]
    )
