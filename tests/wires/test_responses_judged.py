"""What is judged of a response of the Responses API.

That is items, their statuses, and how the response ended.
"""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response

import strictreply as sr
from support.scripted import SCHEMA, Server, completion
from support.scripted_responses import (
    FLAT_SEARCH,
    call_item,
    reasoning_item,
    response,
    text_item,
    wrap,
)

CONTRACT = sr.Contract(tools=[sr.Tool.from_json_schema("search", SCHEMA)])
GOOD = {"query": "tea"}
ENDED = {"status": "incomplete"}


def codes(contract: sr.Contract, given: Any) -> list[tuple[str, str]]:
    """The code and path of each fault, the same for the SDK's own object where it can be one."""
    verdict = contract.check(given)
    return (
        [(issue.code, issue.path) for issue in verdict.issues]
        if isinstance(verdict, sr.Invalid)
        else []
    )


def item(of: dict[str, Any], **members: Any) -> dict[str, Any]:
    """An item with other members; None takes one away."""
    return {name: value for name, value in (of | members).items() if value is not None}


@pytest.mark.parametrize(
    ("given", "reply"),
    [
        (response(text_item("hello")), sr.DirectAnswer("hello")),
        (response(text_item("a"), text_item("b")), sr.DirectAnswer("ab")),
        (
            response(
                reasoning_item(),
                text_item("hm", phase="commentary"),
                text_item("so", phase="final_answer"),
            ),
            sr.DirectAnswer("so"),
        ),
        (response(call_item("search", GOOD)), sr.ToolCall("search", GOOD, "call_a")),
        (
            response(text_item("I look.", phase="commentary"), call_item("search", GOOD)),
            sr.ToolCall("search", GOOD, "call_a"),
        ),
        (
            response(
                {"type": "web_search_call", "id": "ws_1", "status": "completed"}, text_item("found")
            ),
            sr.DirectAnswer("found"),
        ),
        (response({"type": "acme:telemetry", "id": "x"}, text_item("hi")), sr.DirectAnswer("hi")),
        (
            response(
                {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}, text_item("hi")
            ),
            sr.DirectAnswer("hi"),
        ),
        (response(text_item("hi", status=None), status=None), sr.DirectAnswer("hi")),
        (response(text_item("x", content=None), text_item("hi")), sr.DirectAnswer("hi")),
        (
            response(
                text_item("x", content=[{"type": "output_text", "text": None}]), text_item("a")
            ),
            sr.DirectAnswer("a"),
        ),
        (
            response({"type": "image_generation_call", "id": "ig_1", "result": "cG5n"}),
            sr.DirectAnswer(""),
        ),
    ],
)
def test_a_good_response_is_its_reply(given: dict[str, Any], reply: object) -> None:
    """Texts that answer are one answer, calls are calls by their ``call_id``; the rest passes."""
    for form in (given, Response.model_construct(**given)):
        verdict = CONTRACT.check(form)
        assert isinstance(verdict, sr.Valid)
        assert verdict.reply == reply


@pytest.mark.parametrize(
    ("given", "code", "path"),
    [
        (response(), "reply.empty", ""),
        (response(reasoning_item()), "reply.empty", ""),
        (response(text_item("hm", phase="commentary")), "reply.empty", ""),
        (
            response(call_item("search", {"query": 1})),
            "args.type",
            "/tool_calls/0/function/arguments/query",
        ),
        (response(call_item("serach", GOOD)), "tool.unknown", "/tool_calls/0/function/name"),
        (
            response(call_item("search", '{"query": "a", "query": "b"}')),
            "json.duplicate_key",
            "/tool_calls/0/function/arguments/query",
        ),
        (
            response(call_item("search", GOOD), call_item("search", GOOD, "call_b")),
            "tool.several",
            "/tool_calls",
        ),
        (
            response(text_item("x"), **ENDED, incomplete_details={"reason": "max_output_tokens"}),
            "reply.truncated",
            "/incomplete_details/reason",
        ),
        (
            response(text_item("x"), **ENDED, incomplete_details={"reason": "content_filter"}),
            "reply.content_filter",
            "/incomplete_details/reason",
        ),
        (response(text_item("x"), **ENDED), "reply.truncated", "/incomplete_details/reason"),
        (response(call_item("search", GOOD), status="in_progress"), "reply.broken_off", "/status"),
        (response(call_item("search", GOOD), status="queued"), "reply.broken_off", "/status"),
        (response(call_item("search", GOOD), status="cancelled"), "reply.broken_off", "/status"),
        (
            response(status="failed", error={"code": "server_error", "message": "x"}),
            "envelope.error",
            "/error",
        ),
        (
            response(text_item("x"), error={"code": "server_error", "message": "x"}),
            "envelope.error",
            "/error",
        ),
        (
            response(call_item("search", GOOD, status="incomplete")),
            "reply.truncated",
            "/output/0/status",
        ),
        (response(text_item("x", status="in_progress")), "reply.broken_off", "/output/0/status"),
        (response(text_item("x", role="user")), "reply.role", "/output/0/role"),
        (
            response(text_item("x", content=[{"type": "input_image"}])),
            "reply.content",
            "/output/0/content/0",
        ),
        (response(text_item("x", content=1)), "reply.content", "/output/0/content"),
        (response(text_item("x", content=None)), "reply.empty", ""),
        (
            response(text_item("x", content=[{"type": "output_text", "text": 1}])),
            "reply.content",
            "/output/0/content/0",
        ),
        (
            response(text_item("x", content=[{"type": "refusal", "refusal": "no"}])),
            "reply.refusal",
            "/output/0",
        ),
        (
            response(
                text_item("x"), text_item("y", content=[{"type": "refusal", "refusal": "no"}])
            ),
            "reply.refusal",
            "/output/1",
        ),
        (response(item(text_item("x"), type=None)), "envelope.malformed", "/output/0"),
        (response("x"), "envelope.malformed", "/output/0"),  # type: ignore[arg-type]
        (response() | {"output": None}, "envelope.malformed", "/output"),
        (response() | {"output": "x"}, "envelope.malformed", "/output"),
        (response(call_item("search", None)), "call.malformed", ""),
    ],
)
def test_a_fault_is_named_where_it_is(given: dict[str, Any], code: str, path: str) -> None:
    """Each constructed fault has its code, and a path into the response or into the one message
    that is judged.
    """
    found = codes(CONTRACT, given)
    if code == "call.malformed":  # null as arguments is no text
        assert found
        return
    assert found[0] == (code, path)


def test_calls_without_an_id_or_name_are_refused() -> None:
    """The item's own ``id`` is no ``call_id``; in the strict dialect none is made up."""
    strict = CONTRACT.replace(dialects="strict")
    nameless = item(call_item("search", GOOD), name=None)
    idless = item(call_item("search", GOOD), call_id=None)
    assert codes(strict, response(idless)) == [("call.id_missing", "/tool_calls/0/id")]
    assert codes(CONTRACT, response(nameless))
    known = CONTRACT.check(response(idless))
    assert isinstance(known, sr.Valid)
    assert known.lenient == ("call_id_missing",)


@pytest.mark.parametrize(
    "kind", ["computer_call", "mcp_approval_request", "local_shell_call", "shell_call"]
)
def test_what_the_api_asks_the_program_for_is_a_call(kind: str) -> None:
    """A call of a tool that only the API knows: nothing in it is judged, as the verdict says."""
    asked = {"type": kind, "id": "x_1", "call_id": "call_x", "action": {"type": "click"}}
    structured = sr.Contract(answer={"type": "object", "properties": {}})
    for contract in (CONTRACT, structured):
        verdict = contract.check(response(reasoning_item(), asked))
        assert isinstance(verdict, sr.Valid)
        assert verdict.reply == sr.ToolCall(kind, asked, "call_x")
        assert verdict.lenient == (f"unjudged_{kind}",)

    beside = CONTRACT.check(response(asked, call_item("search", {"query": 1})))
    assert isinstance(beside, sr.Invalid)


def custom(grammar: dict[str, Any] | None, name: str = "sql") -> dict[str, Any]:
    """A flat definition of a tool that takes free text."""
    return {"type": "custom", "name": name} | (
        {"format": {"type": "grammar", **grammar}} if grammar else {}
    )


def custom_item(text: object, name: str = "sql") -> dict[str, Any]:
    """A call of it."""
    return {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_c",
        "name": name,
        "input": text,
    }


def test_free_text_is_held_to_a_regular_expression() -> None:
    """A custom tool's input fits its pattern as a whole; a bad one is retried."""
    tools = [custom({"syntax": "regex", "definition": "SELECT [a-z]+"})]
    server = Server(response(custom_item("SELECT a; DROP")), response(custom_item("SELECT tea")))
    made: Any = wrap(server.client()).responses.create(model="m", input="x", tools=tools)
    assert made.output[0].input == "SELECT tea"

    assert len(server.requests) == 2
    reply = wrap(
        Server(response(custom_item("SELECT tea"))).client(), tools=tools, api="responses"
    ).exchange(model="m", input="x")
    assert reply.reply == sr.ToolCall("sql", "SELECT tea", "call_c")
    assert reply.attempts[0].lenient == ()


def test_free_text_that_nothing_checks_is_named() -> None:
    """Another grammar, or none: the text passes, and the attempt says that it was not checked."""
    for tool in (custom(None), custom({"syntax": "lark", "definition": "start: /a/"})):
        verdict = sr.Contract(tools=[tool]).check(response(custom_item("anything")))
        assert isinstance(verdict, sr.Valid)
        assert verdict.lenient == ("unchecked_sql",)


def test_a_call_is_of_the_kind_that_its_tool_is() -> None:
    """Text for a function and arguments for a custom tool are malformed; an unknown custom tool is
    unknown.
    """
    contract = sr.Contract(tools=[custom(None), sr.Tool.from_json_schema("search", SCHEMA)])
    assert codes(contract, response(custom_item("x", "search"))) == [
        ("call.malformed", "/tool_calls/0")
    ]
    assert codes(contract, response(call_item("sql", {}))) == [("call.malformed", "/tool_calls/0")]
    assert codes(contract, response(custom_item("x", "other"))) == [
        ("tool.unknown", "/tool_calls/0/custom/name")
    ]

    assert codes(contract, response(custom_item(1))) == [
        ("call.malformed", "/tool_calls/0/custom/input")
    ]


def test_the_api_of_a_response_can_be_said() -> None:
    """Asked of the other API, a response is refused."""
    assert [code for code, _ in codes(CONTRACT, {"choices": []})] == ["envelope.choices"]
    verdict = CONTRACT.check(response(text_item("x")), api="chat")
    assert isinstance(verdict, sr.Invalid)
    with pytest.raises(sr.ContractError):
        CONTRACT.check(response(text_item("x")), api="other")


def test_tools_of_both_kinds_are_sent_by_either_api() -> None:
    """``custom`` definitions are flat in one API and nested in the other."""
    tools = [custom({"syntax": "regex", "definition": "a+"}), FLAT_SEARCH]
    for api, nested in (("responses", False), ("chat", True)):
        server = Server(response(text_item("hi")) if api == "responses" else _chat("hi"))
        wrap(server.client(), tools=tools).reply(
            api=api, model="m", messages=[{"role": "user", "content": "x"}]
        )
        sent = server.bodies[0].decode()
        assert ('"custom":{' in sent.replace(" ", "")) is nested

        assert ('"function":{' in sent.replace(" ", "")) is nested


def _chat(text: str) -> dict[str, Any]:
    from support.scripted import completion  # noqa: PLC0415 - of the other API

    return completion(text)


@pytest.mark.parametrize(
    ("contract", "code"),
    [
        (CONTRACT.with_choice("search"), "reply.empty"),
        (sr.Contract(answer=int), "reply.empty"),
    ],
)
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_an_image_or_speech_is_no_call_and_no_structured_answer(
    contract: sr.Contract, code: str, api: Any
) -> None:
    """A reply without text answers only where any text would do, and the verdict says that nothing
    judged it.
    """
    image = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "cG5n"}
    spoken = completion(None)
    spoken["choices"][0]["message"]["audio"] = {
        "id": "a",
        "data": "cG5n",
        "transcript": "hello",
        "expires_at": 1,
    }

    given = spoken if api == "chat" else response(image)
    assert [found for found, _ in codes(contract, given)] == [code]
    verdict = CONTRACT.check(given)
    assert verdict.lenient == (
        ("unjudged_audio",) if api == "chat" else ("unjudged_image_generation_call",)
    )

    assert isinstance(verdict, sr.Valid)


@pytest.mark.parametrize("choice", ["required", "allowed"])
def test_a_tool_that_the_server_called_is_a_tool_that_was_called(choice: str) -> None:
    """Where some tool is required, an answer may follow a call that the server made itself, and
    only then.
    """
    web: Any = {"type": "web_search"}
    allowed = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "search"}, web],
    }

    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    server = Server(response(text_item("no")), response(searched, text_item("found")))
    made = wrap(server.client()).responses.create(
        model="m",
        input="x",
        tools=[web, FLAT_SEARCH],
        tool_choice="required" if choice == "required" else allowed,
    )
    assert (made.output_text, len(server.bodies)) == ("found", 2)
