"""The native channel: tool calls and content of an assistant message, judged as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from strictreply import (
    Category,
    Contract,
    DirectAnswer,
    Invalid,
    Limits,
    ToolCall,
    ToolCalls,
    Valid,
)
from strictreply.core import Extraction
from support.openai_shapes import call, completion, message

SEARCH = {
    "name": "search",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
        "required": ["query"],
    },
}
NOW = {"name": "now"}
CONTRACT = Contract(tools=[SEARCH, NOW])
STRICT = CONTRACT.replace(dialects="strict")
PARALLEL = Contract(tools=[SEARCH, NOW], parallel=True)
FINAL = Contract(tools=[SEARCH, NOW], answer_style="tool")
INVOICE = Contract(
    tools=[SEARCH], answer={"type": "object", "properties": {"total": {"type": "number"}}}
)
ARGUMENTS = "/tool_calls/0/function/arguments"


def faults(contract: Contract, reply: object) -> list[tuple[str, str]]:
    """Return the code and path of every fault, none when the reply is valid."""
    verdict = contract.check(reply)
    return (
        [(issue.code, issue.path) for issue in verdict.issues]
        if isinstance(verdict, Invalid)
        else []
    )


def test_one_call() -> None:
    """A good call comes back with its arguments parsed and the provider's id."""
    reply = message(None, [call("search", {"query": "x", "limit": 2}, "id-7")])
    assert CONTRACT.check(reply) == Valid(ToolCall("search", {"query": "x", "limit": 2}, "id-7"))


def test_text_is_an_answer() -> None:
    """Content without calls is the answer, as it was written."""
    assert CONTRACT.check(message(" hi ")) == Valid(DirectAnswer(" hi "))
    assert CONTRACT.check(message('{"now":{}}')) == Valid(DirectAnswer('{"now":{}}'))


def test_a_remark_may_stand_beside_calls() -> None:
    """Models comment on their calls; the calls are the reply."""
    assert CONTRACT.check(message("Let me look.", [call("now", {})])) == Valid(
        ToolCall("now", {}, "call_1")
    )


@pytest.mark.parametrize("calls", [None, [], ()])
def test_no_calls_are_no_calls(calls: object) -> None:
    """Null and empty ``tool_calls`` mean the same as none."""
    assert CONTRACT.check(message("hi", tool_calls=calls)) == Valid(DirectAnswer("hi"))
    assert faults(CONTRACT, message(None, tool_calls=calls)) == [("reply.empty", "")]


@pytest.mark.parametrize(
    ("calls", "path"),
    [
        ({"0": call("now", {})}, "/tool_calls"),
        ("now", "/tool_calls"),
        (3, "/tool_calls"),
        (["now"], "/tool_calls/0"),
        ([[]], "/tool_calls/0"),
        ([{"id": "call_1"}], "/tool_calls/0"),
        ([{"id": "call_1", "type": "function", "function": None}], "/tool_calls/0"),
        ([call("now", {}) | {"type": "custom"}], "/tool_calls/0"),
        ([call("now", {}) | {"type": ["function"]}], "/tool_calls/0"),
        ([call("now", {}) | {"type": {}}], "/tool_calls/0"),
    ],
)
def test_calls_have_the_shape_of_the_api(calls: object, path: str) -> None:
    """``tool_calls`` that is not a list of function calls is refused."""
    expected = ("call.malformed", path)
    assert expected in faults(CONTRACT, message(None, tool_calls=calls))


def test_the_type_of_a_call_may_be_left_out() -> None:
    """Several servers send calls without ``type``; there is only one kind to be."""
    untyped = call("now", {})
    del untyped["type"]
    read = Valid(ToolCall("now", {}, "call_1"), ("call_type_missing",))
    assert CONTRACT.check(message(None, [untyped])) == read
    assert faults(STRICT, message(None, [untyped])) == [("call.malformed", "/tool_calls/0")]


@pytest.mark.parametrize(
    ("name", "code", "category"),
    [
        (None, "shape.wrong_type", Category.FORMAT_ERROR),
        (3, "shape.wrong_type", Category.FORMAT_ERROR),
        (["search"], "shape.wrong_type", Category.FORMAT_ERROR),
        ("", "shape.empty", Category.FORMAT_ERROR),
        ("serch", "tool.unknown", Category.ACTION_ERROR),
        ("search ", "tool.unknown", Category.ACTION_ERROR),
        ("Search", "tool.unknown", Category.ACTION_ERROR),
        ("search<|channel|>commentary", "tool.unknown", Category.ACTION_ERROR),
        ("final_answer", "tool.unknown", Category.ACTION_ERROR),
    ],
)
def test_a_call_names_a_declared_tool(name: object, code: str, category: Category) -> None:
    """Only exactly the declared names are tools."""
    verdict = CONTRACT.check(message(None, [call(name, {"query": "x"})]))
    assert isinstance(verdict, Invalid)
    (issue,) = verdict.issues
    assert (issue.code, issue.path, issue.category) == (
        code,
        "/tool_calls/0/function/name",
        category,
    )


@pytest.mark.parametrize(
    ("arguments", "code", "path"),
    [
        ('{"query": ', "json.incomplete", "/query"),
        ("query=x", "json.syntax", ""),
        ('{"query": "x"} ok', "json.trailing_data", ""),
        ('{"query": "x", "query": "y"}', "json.duplicate_key", "/query"),
        ('```json\n{"query": "x"}\n```', "json.syntax", ""),
        ("null", "shape.wrong_type", ""),
        ("[]", "shape.wrong_type", ""),
        ('"{}"', "shape.wrong_type", ""),
        ('{"query": 5}', "args.type", "/query"),
        ('{"query": "x", "limit": 0}', "args.minimum", "/limit"),
        ('{"query": "x", "more": 1}', "args.extra_key", ""),
        ("{}", "args.required", "/query"),
    ],
)
def test_arguments_are_strict_json_that_fits(arguments: str, code: str, path: str) -> None:
    """The path of a fault goes on from the arguments into the JSON they hold."""
    reply = message(None, [call("search", arguments)])
    assert faults(CONTRACT, reply) == [(code, ARGUMENTS + path)]


def test_extraction_is_not_for_arguments() -> None:
    """Leniency speaks of the content; the arguments of a native call are JSON and nothing else."""
    lenient = Contract(tools=[SEARCH], extraction=("fenced", "first_object"))
    assert faults(lenient, message(None, [call("search", '```\n{"query": "x"}\n```')])) == [
        ("json.syntax", ARGUMENTS)
    ]


@pytest.mark.parametrize("arguments", [{"query": "x"}, None, 5, ["x"]])
def test_arguments_are_a_text(arguments: object) -> None:
    """Arguments that came parsed are refused, unless they are an object and the ways of servers are
    read.
    """
    reply = message(
        None, [call("search", {}) | {"function": {"name": "search", "arguments": arguments}}]
    )
    assert faults(STRICT, reply) == [("json.not_text", ARGUMENTS)]
    if not isinstance(arguments, dict):
        assert faults(CONTRACT, reply) == [("json.not_text", ARGUMENTS)]


def test_empty_arguments_of_a_tool_that_needs_none() -> None:
    """Servers send an empty text for no arguments; it means ``{}`` where ``{}`` would fit, and
    nothing elsewhere.
    """
    read = Valid(ToolCall("now", {}, "call_1"), ("arguments_empty",))
    assert (
        CONTRACT.check(message(None, [call("now", "")]))
        == CONTRACT.check(message(None, [call("now", " ")]))
        == read
    )

    assert faults(CONTRACT, message(None, [call("search", "")])) == [("json.empty", ARGUMENTS)]
    assert faults(STRICT, message(None, [call("now", "")])) == [("json.empty", ARGUMENTS)]
    assert faults(FINAL, message(None, [call("final_answer", "")])) == [("json.empty", ARGUMENTS)]


@pytest.mark.parametrize("id_", [None, "", "  ", 7, ["call_1"], {"id": 1}])
def test_a_call_has_an_id(id_: object) -> None:
    """Results are attached by the call's id: it is a text that is not blank."""
    assert faults(STRICT, message(None, [call("now", {}, id_)])) == [
        ("call.id_missing", "/tool_calls/0/id")
    ]


def test_ids_differ() -> None:
    """Each id that came before is a fault where it comes again, of another call, read strictly."""
    calls = [
        call("now", {}, "a"),
        call("now", {}, "b"),
        call("search", {"query": "x"}, "a"),
        call("search", {"query": "y"}, "a"),
    ]
    assert faults(PARALLEL.replace(dialects="strict"), message(None, calls)) == [
        ("call.id_duplicate", "/tool_calls/2/id"),
        ("call.id_duplicate", "/tool_calls/3/id"),
    ]


def test_several_calls_only_when_parallel() -> None:
    """Several calls are returned in the model's order where they are allowed, and are one fault
    where not.
    """
    reply = message(None, [call("now", {}, "a"), call("search", {"query": "x"}, "b")])
    calls = ToolCalls((ToolCall("now", {}, "a"), ToolCall("search", {"query": "x"}, "b")))
    assert PARALLEL.check(reply) == Valid(calls)
    assert faults(CONTRACT, reply) == [("tool.several", "/tool_calls")]
    assert PARALLEL.check(message(None, [call("now", {}, "a")])) == Valid(ToolCall("now", {}, "a"))


def test_one_bad_call_refuses_all() -> None:
    """Every call is judged, and one fault refuses the whole message."""
    calls = [
        call("now", {}, "a"),
        call("search", {"query": 1}, "b"),
        call("serch", {}, "c"),
        call("search", "{", "d"),
    ]
    assert faults(PARALLEL, message(None, calls)) == [
        ("args.type", "/tool_calls/1/function/arguments/query"),
        ("tool.unknown", "/tool_calls/2/function/name"),
        ("json.incomplete", "/tool_calls/3/function/arguments"),
    ]


def test_too_many_calls() -> None:
    """Beyond the cap on calls nothing is read."""
    few = Contract(tools=[NOW], parallel=True, limits=Limits(calls=2))
    calls = [call("now", {}, f"id{n}") for n in range(3)]
    assert isinstance(few.check(message(None, calls[:2])), Valid)
    assert faults(few, message(None, [*calls[:2], "x"])) == [("tool.too_many", "/tool_calls")]


def test_the_calls_share_the_cap_on_size() -> None:
    """All arguments of a message together may be as large as one reply."""
    tight = Contract(tools=[SEARCH], parallel=True, limits=Limits(reply_bytes=100))
    calls = [call("search", {"query": "x" * 30}, f"id{n}") for n in range(3)]
    assert isinstance(tight.check(message(None, calls[:2])), Valid)
    assert faults(tight, message(None, calls)) == [("json.too_large", "/tool_calls")]


def test_faulty_calls_are_listed_up_to_eight() -> None:
    """After eight faulty calls the rest is not read, so that the work stays bounded."""
    calls = [call("serch", {}, f"id{n}") for n in range(100)]
    listed = faults(PARALLEL, message(None, calls))
    assert listed == [("tool.unknown", f"/tool_calls/{n}/function/name") for n in range(8)]


def test_legacy_function_call() -> None:
    """The legacy ``function_call`` is refused, also beside content; null means none."""
    legacy = {"name": "now", "arguments": "{}"}
    assert faults(CONTRACT, message("hi", function_call=legacy)) == [
        ("call.malformed", "/function_call")
    ]
    assert CONTRACT.check(message("hi", function_call=None)) == Valid(DirectAnswer("hi"))


@pytest.mark.parametrize("content", [None, ""])
def test_nothing_is_no_reply(content: object) -> None:
    """A message without calls and content says nothing."""
    assert faults(CONTRACT, message(content)) == [("reply.empty", "")]
    assert faults(CONTRACT, {"role": "assistant"}) == [("reply.empty", "")]


@pytest.mark.parametrize(
    "content", [5, ["hi"], [{"type": "text", "text": "hi"}], {"answer": "hi"}, True]
)
def test_content_is_text(content: object) -> None:
    """Content that is no text is refused, not interpreted."""
    assert faults(STRICT, message(content)) == [("reply.content", "/content")]


def test_blank_content() -> None:
    """White space is no answer unless ``allow_blank_answers`` admits it; an empty text never is."""
    lenient = Contract(allow_blank_answers=True)
    assert faults(CONTRACT, message(" \n")) == [("shape.empty", "/content")]
    assert lenient.check(message(" \n")) == Valid(DirectAnswer(" \n"))
    assert faults(lenient, message("")) == [("reply.empty", "")]


CHOICES: list[tuple[str, Any, list[tuple[str, str]]]] = [
    ("auto", message("hi"), []),
    ("none", message("hi"), []),
    ("required", message("hi"), [("tool.required", "/tool_calls")]),
    ("now", message("hi"), [("tool.required", "/tool_calls")]),
    ("required", message(None), [("reply.empty", "")]),
    ("required", message(None, [call("now", {})]), []),
    ("now", message(None, [call("now", {})]), []),
    ("search", message(None, [call("now", {})]), [("tool.forced", "/tool_calls/0/function/name")]),
    ("none", message("hi", [call("now", {})]), [("tool.forbidden", "/tool_calls/0/function/name")]),
    (
        "none",
        message(None, [call("nope", {})]),
        [("tool.forbidden", "/tool_calls/0/function/name")],
    ),
    ("now", message(None, [call("nope", {})]), [("tool.unknown", "/tool_calls/0/function/name")]),
]


@pytest.mark.parametrize(("choice", "reply", "expected"), CHOICES)
def test_tool_choice_shapes_the_verdict(
    choice: str, reply: object, expected: list[tuple[str, str]]
) -> None:
    """The reply must satisfy ``tool_choice``."""
    verdict = CONTRACT.with_choice(choice).check(reply)
    assert [(issue.code, issue.path) for issue in getattr(verdict, "issues", ())] == expected


@pytest.mark.parametrize(
    ("choice", "admitted"), [("auto", True), ("required", True), ("none", True), ("now", False)]
)
def test_final_answer_and_tool_choice(choice: str, *, admitted: bool) -> None:
    """``final_answer`` is the way to answer even where no tool may be called, but not where another
    one is forced.
    """
    terms = FINAL.with_choice(choice)
    verdict = terms.check(message(None, [call("final_answer", {"answer": "x"})]))
    assert verdict == Valid(DirectAnswer("x")) if admitted else isinstance(verdict, Invalid)


@pytest.mark.req("T14")
def test_final_answer() -> None:
    """With ``answer_style="tool"`` only ``final_answer`` answers, with exactly one argument."""
    assert FINAL.check(message(None, [call("final_answer", {"answer": "ok"})])) == Valid(
        DirectAnswer("ok")
    )
    assert faults(FINAL, message("ok")) == [("tool.required", "/tool_calls")]
    assert faults(FINAL, message('{"answer":"x"}')) == [("tool.required", "/tool_calls")]
    assert faults(FINAL, message(None, [call("final_answer", {"foo": 1})])) == [
        ("shape.extra_key", ARGUMENTS),
        ("shape.missing_key", f"{ARGUMENTS}/answer"),
    ]

    assert faults(FINAL, message(None, [call("final_answer", {"answer": " "})])) == [
        ("shape.empty", f"{ARGUMENTS}/answer")
    ]


def test_final_answer_stands_alone() -> None:
    """An answer beside calls is neither the one nor the other."""
    both = [call("final_answer", {"answer": "ok"}, "a"), call("now", {}, "b")]
    parallel = Contract(tools=[NOW], answer_style="tool", parallel=True)
    assert faults(parallel, message(None, both)) == [("shape.tool_and_answer", "/tool_calls")]


def test_structured_answer() -> None:
    """With a schema for the answer, the content is strict JSON that fits it."""
    assert INVOICE.check(message('{"total": 3.5}')) == Valid(DirectAnswer({"total": 3.5}))
    assert faults(INVOICE, message('{"total": "3.5"}')) == [("answer.type", "/content/total")]
    assert faults(INVOICE, message('{"total": 1, "more": 2}')) == [("answer.extra_key", "/content")]
    assert faults(INVOICE, message('{"total": 1, "total": 2}')) == [
        ("json.duplicate_key", "/content/total")
    ]
    assert faults(INVOICE, message("three")) == [("json.syntax", "/content")]


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        ('```json\n{"total": 1}\n```', "fenced"),
        ('Here: {"total": 1}.', "first_object"),
        ('<think>…</think>{"total": 1}', "after_think"),
    ],
)
def test_structured_answer_leniency(content: str, mode: Extraction) -> None:
    """Leniency applies to structured answers, by name, and is recorded; other answers stay as
    written.
    """
    assert isinstance(INVOICE.check(message(content)), Invalid)
    lenient = INVOICE.replace(extraction=(mode,))
    assert lenient.check(message(content)) == Valid(DirectAnswer({"total": 1}), (mode,))
    plain = CONTRACT.replace(extraction=(mode,))
    assert plain.check(message(content)) == Valid(DirectAnswer(content))


def test_json_text_of_a_message() -> None:
    """A text is the JSON of a message or a completion here, read as strictly as any reply."""
    assert faults(CONTRACT, "hello") == [("json.syntax", "")]
    assert faults(CONTRACT, '{"role":"assistant","content":"a","content":"b"}') == [
        ("json.duplicate_key", "/*")
    ]
    assert CONTRACT.check('{"role":"assistant","content":"a"}') == Valid(DirectAnswer("a"))
    assert faults(CONTRACT, completion(message(None))) == [("reply.empty", "")]


def test_final_answer_is_among_the_names_that_are_listed() -> None:
    """With ``answer_style="tool"`` a model that answers in prose, or misspells the name, is led to
    ``final_answer``.
    """
    refused = [
        FINAL.check(message("ok")),
        FINAL.check(message(None, [call("final_anwser", {"answer": "x"})])),
    ]
    prose, misspelt = (
        issue for verdict in refused if isinstance(verdict, Invalid) for issue in verdict.issues
    )
    assert (prose.code, misspelt.code) == ("tool.required", "tool.unknown")
    assert all("final_answer" in issue.message for issue in (prose, misspelt))

    assert "final_answer" in misspelt.hint
    forced = FINAL.with_choice("final_answer")
    assert forced.check(message(None, [call("final_answer", {"answer": "x"})])) == Valid(
        DirectAnswer("x")
    )


SMALL = Limits(reply_bytes=40, id_bytes=12)


@pytest.mark.parametrize("text", ["x" * 40, "é" * 20, "x" * 41, "é" * 21, "\ud800" * 14])
@pytest.mark.parametrize("wrapped", [False, True])
def test_v14_a_text_answer_is_capped_in_bytes(text: str, wrapped: bool) -> None:
    """A plain answer has at most ``reply_bytes`` bytes of UTF-8, in a message and in a whole
    completion.
    """
    reply = message(text)
    wrong = (
        [("reply.too_large", "/content")] if len(text.encode("utf-8", "surrogatepass")) > 40 else []
    )
    assert faults(Contract(limits=SMALL), completion(reply) if wrapped else reply) == wrong


def test_v14_a_text_of_20_mb_is_no_answer() -> None:
    """At the default caps, too, and where tools might have been called."""
    assert faults(CONTRACT, message("x" * 20_000_000)) == [("reply.too_large", "/content")]


def test_v14_the_text_beside_calls_is_capped() -> None:
    """The text beside a good call joins the conversation, so it has the cap of an answer."""
    contract = Contract(tools=[NOW], limits=SMALL)
    assert faults(contract, message("é" * 21, [call("now", {})])) == [
        ("reply.too_large", "/content")
    ]
    assert faults(contract, message("é" * 20, [call("now", {})])) == []


@pytest.mark.parametrize(
    ("id_", "fits"), [("x" * 12, True), ("é" * 6, True), ("x" * 13, False), ("é" * 7, False)]
)
def test_v14_an_id_is_capped_in_bytes(id_: str, fits: bool) -> None:
    """An id has at most ``id_bytes`` bytes of UTF-8; nothing of a longer one is in the issue."""
    contract = Contract(tools=[NOW], limits=SMALL)
    assert faults(contract, message(None, [call("now", {}, id_)])) == (
        [] if fits else [("call.id_too_long", "/tool_calls/0/id")]
    )


@pytest.mark.parametrize("size", [949, 8_000, 16_384])
def test_v14_ids_that_carry_a_thought_signature_fit(size: int) -> None:
    """Ids of several kilobytes, as gateways make them of Gemini's thought signatures, are taken at
    the default caps.
    """
    id_ = f"call_{'a' * 28}__thought__".ljust(size, "A")
    assert faults(CONTRACT, message(None, [call("now", {}, id_)])) == []
    assert faults(CONTRACT, message(None, [call("now", {}, "x" * 2_000_000)])) == [
        ("call.id_too_long", "/tool_calls/0/id")
    ]


def test_v14_arguments_share_their_cap_in_bytes() -> None:
    """All arguments of a message together are counted in bytes, not in characters."""
    contract = Contract(tools=[SEARCH], parallel=True, limits=Limits(reply_bytes=60))
    # 22 characters, 31 bytes each
    calls = [call("search", '{"query": "ééééééééé"}', name) for name in ("a", "b")]
    assert faults(contract, message(None, calls)) == [("json.too_large", "/tool_calls")]
    assert faults(contract, message(None, calls[:1])) == []
