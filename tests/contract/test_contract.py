"""The contract as its users meet it: what can be declared, and what every verdict keeps to."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Annotated, Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from pydantic import BaseModel, Field

from strictreply import (
    Category,
    Code,
    Contract,
    ContractError,
    DirectAnswer,
    Invalid,
    Limits,
    ReplyRejected,
    RetryPolicy,
    StrictReplyError,
    Tool,
    ToolCall,
    ToolCalls,
    Valid,
    run,
    wrap,
)
from support import messages as claude
from support.openai_shapes import ADD, NOW, call, completion, message
from support.scripted import Client

TEXT = Contract(tools=[ADD, NOW], channel="text")
NATIVE = Contract(tools=[ADD, NOW])
PARALLEL = Contract(tools=[ADD, NOW], parallel=True)
CONTRACTS = {
    "text": TEXT,
    "native": NATIVE,
    "parallel": PARALLEL,
    "final answer": Contract(tools=[ADD], channel="text", answer_style="tool"),
    "lenient": Contract(
        tools=[ADD], channel="text", extraction=("after_think", "fenced", "first_object")
    ),
    "structured": Contract(tools=[ADD], answer=ADD["parameters"], extraction="first_object"),
}


# -- every code ------------------------------------------------------------------------------


def tight(**caps: int) -> Contract:
    """Return the terms of the text channel with other caps."""
    return Contract(tools=[ADD, NOW], channel="text", limits=Limits(**caps))


SEVERAL = message(None, [call("now", {}, "a"), call("now", {}, "b")])
GOOD = completion(message("hi"))
PROVOKED: dict[Code, tuple[Contract, object]] = {
    Code.JSON_EMPTY: (TEXT, ""),
    Code.JSON_NOT_TEXT: (
        NATIVE,
        message(None, [call("now", {}) | {"function": {"name": "now", "arguments": 1}}]),
    ),
    Code.JSON_ENCODING: (TEXT, b'{"answer":"\xff"}'),
    Code.JSON_SYNTAX: (TEXT, '{"answer" "x"}'),
    Code.JSON_INCOMPLETE: (TEXT, '{"answer":"x"'),
    Code.JSON_TRAILING_DATA: (TEXT, '{"answer":"x"} ok'),
    Code.JSON_SEVERAL_VALUES: (TEXT, '{"answer":"x"} {}'),
    Code.JSON_DUPLICATE_KEY: (TEXT, '{"answer":"x","answer":"x"}'),
    Code.JSON_NOT_FINITE: (TEXT, '{"tool":"add","args":{"a":1e400,"b":1}}'),
    Code.JSON_SURROGATE: (TEXT, r'{"answer":"\ud800"}'),
    Code.JSON_TOO_LARGE: (tight(reply_bytes=13), '{"answer":"x"}'),
    Code.JSON_TOO_DEEP: (tight(depth=1), '{"tool":"now","args":{}}'),
    Code.JSON_TOO_MANY_NODES: (tight(nodes=1), '{"answer":"x"}'),
    Code.JSON_NUMBER_TOO_LONG: (TEXT, f'{{"tool":"add","args":{{"a":{"1" * 5000},"b":1}}}}'),
    Code.SHAPE_NOT_OBJECT: (TEXT, "[]"),
    Code.SHAPE_MISSING_KEY: (TEXT, '{"tool":"now"}'),
    Code.SHAPE_EXTRA_KEY: (TEXT, '{"answer":"x","foo":1}'),
    Code.SHAPE_WRONG_TYPE: (TEXT, '{"answer":42}'),
    Code.SHAPE_EMPTY: (TEXT, '{"answer":""}'),
    Code.SHAPE_BOTH: (TEXT, '{"tool":"now","args":{},"answer":"x"}'),
    Code.TOOL_UNKNOWN: (TEXT, '{"tool":"bogus","args":{}}'),
    Code.TOOL_REQUIRED: (TEXT.with_choice("required"), '{"answer":"x"}'),
    Code.TOOL_FORCED: (TEXT.with_choice("add"), '{"tool":"now","args":{}}'),
    Code.TOOL_FORBIDDEN: (TEXT.with_choice("none"), '{"tool":"now","args":{}}'),
    Code.TOOL_SEVERAL: (NATIVE, SEVERAL),
    Code.TOOL_TOO_MANY: (PARALLEL.replace(limits=Limits(calls=1)), SEVERAL),
    Code.CALL_MALFORMED: (NATIVE, message(None, [{"id": "a"}])),
    Code.CALL_ID_MISSING: (NATIVE, message(None, [call("now", {}, [])])),
    Code.CALL_ID_DUPLICATE: (
        PARALLEL.replace(dialects="strict"),
        message(None, [call("now", {}), call("add", {"a": 1, "b": 2})]),
    ),
    Code.CALL_ID_TOO_LONG: (
        NATIVE.replace(limits=Limits(id_bytes=3)),
        message(None, [call("now", {}, "é-é")]),
    ),
    Code.REPLY_TOO_LARGE: (NATIVE.replace(limits=Limits(reply_bytes=3)), message("é-é")),
    Code.CALL_AS_TEXT: (NATIVE, message('{"name": "now", "arguments": {}}')),
    Code.CALL_MISSING: (NATIVE, completion(message("hi"), "tool_calls")),
    Code.CALL_UNREADABLE: (NATIVE, completion(message("hi"), "MALFORMED_FUNCTION_CALL")),
    Code.REPLY_EMPTY: (NATIVE, message(None)),
    Code.REPLY_UNREADABLE: (NATIVE, {"error": {"code": "json_validate_failed"}}),
    Code.REPLY_ROLE: (NATIVE, message("hi", role="user")),
    Code.REPLY_CONTENT: (NATIVE, message(["hi"])),
    Code.REPLY_TRUNCATED: (NATIVE, completion(message("hi"), "length")),
    Code.REPLY_REFUSAL: (NATIVE, message(None, refusal="no")),
    Code.REPLY_BROKEN_OFF: (NATIVE, completion(message("hi"), "error")),
    Code.REPLY_PAUSED: (
        NATIVE,
        claude.message({"type": "server_tool_use", "id": "a", "name": "b"}, stop="pause_turn"),
    ),
    Code.REPLY_CONTENT_FILTER: (NATIVE, completion(message("hi"), "content_filter")),
    Code.ENVELOPE_MALFORMED: (NATIVE, []),
    Code.ENVELOPE_CHOICES: (NATIVE, GOOD | {"choices": []}),
    Code.ENVELOPE_ERROR: (NATIVE, GOOD | {"error": {"message": "overloaded"}}),
}
ELSEWHERE = {
    Code.JSON_UNEXAMINED,  # never alone: test_decoding
    Code.ENVELOPE_AMBIGUOUS,  # only a stream can have it: test_stream_dialects
    Code.TOOL_SWITCHED,  # only a corrective ask of one call can find it: see test_scoping
}


@pytest.mark.parametrize(("code", "case"), PROVOKED.items(), ids=PROVOKED)
def test_each_code_alone(code: Code, case: tuple[Contract, object]) -> None:
    """Each code has a reply that provokes it and nothing else, with its category and words."""
    contract, reply = case
    verdict = contract.check(reply)
    assert isinstance(verdict, Invalid)
    (issue,) = verdict.issues
    assert (issue.code, issue.category, issue.remedy) == (code, code.category, code.remedy)
    assert "{" not in issue.message.replace('{"id"', "").replace('{"name"', "")


def test_the_table_of_codes_is_complete() -> None:
    """No code is without its test."""
    missing = set(Code) - set(PROVOKED) - ELSEWHERE
    assert missing == set(), "add to PROVOKED a reply that has this fault alone"


# -- the arguments ---------------------------------------------------------------------------


class Refund(BaseModel):
    """Pay an order back."""

    order: int
    reason: Annotated[str, Field(min_length=3)] = "late"


@dataclass
class Point:
    """A point of the plane."""

    x: int
    y: int = 0


def greet(name: str, times: int = 1) -> str:
    """Greet somebody."""
    return name * times


def runs_of_add(*replies: dict[str, Any]) -> list[tuple[float, float]]:
    """Return what a tool was run with.

    The model sends these replies, and the call then fails.
    """
    ran: list[tuple[float, float]] = []

    def add(a: float, b: float) -> float:
        """Add two numbers."""
        ran.append((a, b))
        return a + b

    client = wrap(
        Client(*replies),
        tools=[add],
        channel="text",
        policy=RetryPolicy(max_retries=len(replies) - 1),
    )
    with pytest.raises(ReplyRejected):
        run(client, "go", model="m")

    return ran


@pytest.mark.req("T27")
def test_arguments_are_held_to_the_tools_schema() -> None:
    """A call of the right shape is refused when its arguments do not fit the tool."""
    verdict = TEXT.check('{"tool":"add","args":{"a":1}}')
    assert isinstance(verdict, Invalid)
    (issue,) = verdict.issues
    assert (issue.code, issue.path) == ("args.required", "/args/b")
    assert runs_of_add(completion(message('{"tool":"add","args":{"a":1}}'))) == []


@pytest.mark.req("T33")
def test_extra_arguments_are_refused_unless_the_schema_is_taken_as_written() -> None:
    """An argument that the tool does not know is refused and named, but with ``extra="schema"``."""
    text = '{"tool":"add","args":{"a":1,"b":2,"z":3}}'
    verdict = TEXT.check(text)
    assert isinstance(verdict, Invalid)
    assert [(issue.code, issue.path, issue.found) for issue in verdict.issues] == [
        ("args.extra_key", "/args", '"z"')
    ]
    open_contract = Contract(tools=[ADD], channel="text", extra="schema")
    assert open_contract.check(text) == Valid(ToolCall("add", {"a": 1, "b": 2, "z": 3}))


def test_extra_belongs_to_the_tool_unless_the_contract_says() -> None:
    """Without a word of the contract each tool keeps how it was declared."""
    tool = Tool.from_openai(ADD, extra="schema")
    text = '{"tool":"add","args":{"a":1,"b":2,"z":3}}'
    assert isinstance(Contract(tools=[tool], channel="text").check(text), Valid)
    assert isinstance(Contract(tools=[tool], channel="text", extra="forbid").check(text), Invalid)


@pytest.mark.parametrize(
    ("tool", "args", "expected"),
    [
        (Refund, {"order": 7}, Refund(order=7)),
        (Point, {"x": 1}, Point(1)),
        (ADD, {"a": 1, "b": 2.5}, {"a": 1, "b": 2.5}),
    ],
)
def test_arguments_come_as_declared(
    tool: object, args: dict[str, object], expected: object
) -> None:
    """A tool made from a type gives its instance, one made from a schema gives the dict, in both
    channels.
    """
    for channel in ("native", "text"):
        contract = Contract(tools=[tool], channel=channel)
        name = contract.tools[0].name
        text = json.dumps({"tool": name, "args": args})
        verdict = contract.check(text if channel == "text" else message(None, [call(name, args)]))
        assert isinstance(verdict, Valid)

        assert isinstance(verdict.reply, ToolCall)
        assert verdict.reply.args == expected
        assert type(verdict.reply.args) is type(expected)


def test_a_functions_arguments_come_as_an_instance() -> None:
    """A tool made from a function gives an instance with an attribute for each parameter, defaults
    included.
    """
    verdict = Contract(tools=[greet]).check(message(None, [call("greet", {"name": "Ada"})]))
    assert isinstance(verdict, Valid)
    assert isinstance(verdict.reply, ToolCall)
    assert isinstance(verdict.reply.args, BaseModel)
    assert (verdict.reply.args.name, verdict.reply.args.times) == ("Ada", 1)  # type: ignore[attr-defined]


@pytest.mark.req("T34")
def test_an_unknown_tool_is_named_and_the_tools_are_listed() -> None:
    """An unknown tool is a fault of its own, the correction lists the tools, and asking ends in an
    error.
    """
    verdict = TEXT.check('{"tool":"bogus","args":{}}')
    assert isinstance(verdict, Invalid)
    (issue,) = verdict.issues
    assert (issue.code, issue.path, issue.found) == ("tool.unknown", "/tool", '"bogus"')

    client = Client(*[completion(message('{"tool":"bogus","args":{}}'))] * 2)
    with pytest.raises(ReplyRejected) as caught:
        wrap(client, contract=TEXT, policy=RetryPolicy(max_retries=1)).reply(model="m", messages=[])

    assert len(client.script.requests) == 2
    correction = client.script.requests[1]["messages"][-1]["content"]
    assert TEXT.tool_list in correction
    assert [found.code for found in caught.value.issues] == ["tool.unknown"]


@pytest.mark.parametrize(("written", "near"), [("ad", True), ("nwo", True), ("bogus", False)])
def test_the_nearest_tool_is_hinted(written: str, near: bool) -> None:
    """A name that is almost a tool's brings a hint; another does not."""
    verdict = TEXT.check(json.dumps({"tool": written, "args": {}}))
    assert isinstance(verdict, Invalid)
    assert bool(verdict.issues[0].hint) == near
    assert written not in verdict.issues[0].message.split()


@pytest.mark.req("T37")
def test_the_summary_joins_dotted_paths() -> None:
    """All faults stand in one line, each as ``path: message``, the path's parts joined by dots."""
    verdict = TEXT.check('{"tool":"add","args":{"a":"x","b":true}}')
    assert isinstance(verdict, Invalid)
    first, second = verdict.issues
    assert verdict.summary == f"args.a: {first.message}; args.b: {second.message}"


@pytest.mark.req("T31")
def test_a_fixed_reply_is_judged_again_as_a_whole() -> None:
    """A correction that brings the right tool with still wrong arguments is refused like the first
    reply.
    """
    wrong = completion(message('{"tool":"add","args":{"a":1}}'))
    still = completion(message('{"tool":"add","args":{"a":1,"b":"2"}}'))
    assert runs_of_add(wrong, still) == []
    client = Client(wrong, still)

    with pytest.raises(ReplyRejected) as caught:
        wrap(client, contract=TEXT, policy=RetryPolicy(max_retries=1)).reply(model="m", messages=[])

    assert [[issue.code for issue in attempt.issues] for attempt in caught.value.attempts] == [
        ["args.required"],
        ["args.type"],
    ]


@pytest.mark.req("T32")
def test_a_mended_reply_gets_its_arguments_judged() -> None:
    """A text that is no JSON, then a call with bad arguments, then a good one: three asks within
    one budget.
    """
    client = Client(
        completion(message("not json")),
        completion(message('{"tool":"add","args":{"a":1}}')),
        completion(message('{"tool":"add","args":{"a":1,"b":2}}')),
    )
    reply = wrap(client, contract=TEXT, policy=RetryPolicy(max_retries=2)).reply(
        model="m", messages=[]
    )
    assert reply == ToolCall("add", {"a": 1, "b": 2})
    assert len(client.script.requests) == 3


# -- what can be declared --------------------------------------------------------------------


@pytest.mark.parametrize(
    "declared",
    [
        {"tools": [ADD, ADD]},
        {"tools": [3]},
        {"tools": [{"name": "bad name"}]},
        {"tools": [{"name": "none"}]},
        {"channel": "json"},
        {"extraction": "lenient"},
        {"extraction": ("strict", "lenient")},
        {"extra": "allow"},
        {"extra": "ignore"},
        {"formats": "ignore"},
        {"answer_style": "function"},
        {"answer_style": "tool", "tools": [{"name": "final_answer"}]},
        {"answer": {"type": "strnig"}},
    ],
)
def test_wrong_declarations(declared: dict[str, Any]) -> None:
    """A misspelt or contradictory declaration is refused, never taken for a laxer one."""
    with pytest.raises(ContractError):
        Contract(**declared)


def test_choice_names_what_is_declared() -> None:
    """A choice that no reply could meet is refused before anything is asked."""
    for terms, choice in ((TEXT, "bogus"), (Contract(), "required")):
        with pytest.raises(ContractError):
            terms.with_choice(choice)
    assert Contract(answer_style="tool").with_choice("required").choice == "required"


def test_tools_are_listed_in_order() -> None:
    """The tools stand as they were declared, and in the representation."""
    assert [tool.name for tool in NATIVE.tools] == ["add", "now"]
    assert "add, now" in repr(NATIVE)


def test_a_long_list_of_tools_is_cut() -> None:
    """Only the first twenty names are listed."""
    contract = Contract(tools=[{"name": f"tool{n}"} for n in range(25)])
    assert contract.tool_list.endswith("tool19 and 5 more")


@pytest.mark.parametrize("cap", ["reply_bytes", "depth", "nodes", "calls"])
def test_a_cap_is_positive(cap: str) -> None:
    """A cap of nothing would refuse every reply."""
    with pytest.raises(ValueError, match=cap):
        Limits(**{cap: 0})


@pytest.mark.parametrize(
    ("caps", "fits", "exceeds"),
    [
        ({"reply_bytes": 14}, '{"answer":"x"}', '{"answer":"x"} '),
        ({"reply_bytes": 15}, '{"answer":"é"}', '{"answer":"é" }'),
        ({"depth": 2}, '{"tool":"now","args":{}}', '{"tool":"add","args":{"a":[],"b":1}}'),
        ({"nodes": 3}, '{"tool":"now","args":{}}', '{"tool":"add","args":{"a":1,"b":1}}'),
    ],
)
def test_caps_are_exact(caps: dict[str, int], fits: str, exceeds: str) -> None:
    """A value at the cap passes, one beyond it does not."""
    contract = Contract(tools=[ADD, NOW], channel="text", limits=Limits(**caps))
    assert isinstance(contract.check(fits), Valid)
    verdict = contract.check(exceeds)
    assert isinstance(verdict, Invalid)
    assert verdict.issues[0].code.startswith("json.too_")


# -- laws for any input ----------------------------------------------------------------------

CANARY = "CANARY7f3a"
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(CANARY)
)
words = st.sampled_from(
    [
        CANARY,
        "tool",
        "args",
        "answer",
        "a",
        "b",
        "choices",
        "message",
        "role",
        "content",
        "error",
        "id",
    ]
)
keys = words | st.text(max_size=3)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
)
names = st.sampled_from(["add", "now", "ad", "", "final_answer", CANARY]) | json_values
texts = (
    st.sampled_from(
        [
            '{"a":1,"b":2}',
            "{}",
            "",
            '{"a":1',
            '{"a":1,"a":1}',
            '{"answer":"x"}',
            '```\n{"a":1,"b":2}\n```',
        ]
    )
    | st.text(max_size=12)
    | json_values.map(json.dumps)
)


def shaped(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw an object with these members, or with some of them.

    Each member is mostly of its own kind, else of any.
    """
    mostly = {name: st.one_of(kind, kind, kind, json_values) for name, kind in members.items()}
    return st.fixed_dictionaries(members) | st.fixed_dictionaries({}, optional=mostly)


functions = shaped(name=names, arguments=texts)
calls = shaped(id=st.sampled_from(["a", "b", ""]), type=st.just("function"), function=functions)
messages = shaped(
    role=st.just("assistant"),
    content=st.none() | texts,
    tool_calls=st.none() | st.lists(calls, max_size=3),
    refusal=st.sampled_from([None, None, "", "no"]),
    function_call=st.none() | st.none() | functions,
)
choices = shaped(
    message=messages, finish_reason=st.sampled_from(["stop", "length", "content_filter"])
)
completions = shaped(choices=st.lists(choices, min_size=1, max_size=2), error=st.none())
replies = texts | st.binary(max_size=12) | json_values | messages | completions


@pytest.mark.req("T42")
@pytest.mark.parametrize("contract", CONTRACTS.values(), ids=CONTRACTS)
@settings(max_examples=150)
@given(reply=replies)
def test_any_input_gives_a_verdict(contract: Contract, reply: object) -> None:
    """For any input the verdict is the same value each time, without the model's words; nothing is
    changed.
    """
    before = copy.deepcopy(reply)
    verdict = contract.check(reply)
    assert isinstance(verdict, Valid | Invalid)
    assert repr(reply) == repr(before)  # not ==: NaN differs from itself

    assert repr(contract.check(before)) == repr(verdict)

    if isinstance(verdict, Invalid):
        assert verdict.issues
        assert all(issue.found.isascii() and len(issue.found) <= 120 for issue in verdict.issues)
        assert CANARY not in repr(verdict)  # what the model wrote is in ``found`` alone
        assert CANARY not in "".join(
            issue.message + issue.hint + issue.path for issue in verdict.issues
        )


class Hostile:
    """An object that is neither a mapping nor the SDK's."""

    def __getattr__(self, name: str) -> object:
        """Have every attribute, of the most useless kind."""
        return Hostile() if not name.startswith("__") else super().__getattribute__(name)


@pytest.mark.req("T42")
@pytest.mark.parametrize(
    "reply",
    [
        object(),
        Hostile(),
        type,
        Code.JSON_EMPTY,
        {1, 2},
        b"",
        bytearray(b"{}"),
        memoryview(b"{}"),
        iter([]),
        1j,
        ...,
    ],
    ids=lambda reply: type(reply).__name__,
)
def test_any_object_gives_a_verdict(reply: object) -> None:
    """An object that is not a reply is refused like an invalid one."""
    for contract in CONTRACTS.values():
        assert isinstance(contract.check(reply), Invalid)


def deep(levels: int) -> list[Any]:
    """Nest lists without a reader's help."""
    nest: list[Any] = []
    for _ in range(levels):
        nest = [nest]
    return nest


@pytest.mark.parametrize(
    "place", ["response", "choice", "message", "role", "content", "calls", "id", "arguments"]
)
def test_deep_values_in_any_place(place: str) -> None:
    """A Python value nested 100,000 deep is refused wherever it stands: nothing follows it down."""
    nest = deep(100_000)
    placed: dict[str, object] = {
        "response": nest,
        "choice": {"choices": nest},
        "message": {"choices": [{"message": nest}]},
        "role": message("hi", role=nest),
        "content": message(nest),
        "calls": message(None, tool_calls=nest),
        "id": message(None, [call("now", "{}", nest)]),
        "arguments": message(None, [{"id": "a", "function": {"name": "now", "arguments": nest}}]),
    }

    for contract in CONTRACTS.values():
        assert isinstance(contract.check(placed[place]), Invalid)


def test_a_broken_object_is_no_reply() -> None:
    """An attribute that raises is a bug of the object, not of a model: it is not swallowed."""

    class Broken:
        """An object whose content cannot be read."""

        @property
        def content(self) -> str:
            """Fail."""
            raise RuntimeError

    with pytest.raises(RuntimeError):
        NATIVE.check(Broken())


def test_sdk_objects_are_not_changed() -> None:
    """A completion of the SDK is the same after it was judged."""
    response = ChatCompletion.model_validate(completion(SEVERAL))
    before = response.model_dump()
    assert isinstance(PARALLEL.check(response), Valid)
    assert response.model_dump() == before


KINDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 0, "maximum": 9},
        "word": {"enum": ["a", "b", None]},
        "list": {"type": "array", "items": {"type": ["number", "null"]}, "maxItems": 2},
        "inner": {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 2}},
            "required": ["text"],
        },
        "either": {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": "^x"}]},
    },
    "required": ["n"],
}
# Closed by hand: what the reference is held to owes nothing to our closing.
CLOSED: dict[str, Any] = copy.deepcopy(KINDS)
CLOSED["additionalProperties"] = False
CLOSED["properties"]["inner"]["additionalProperties"] = False
REFERENCE = jsonschema.Draft202012Validator(CLOSED)
SCHEMATIC = Contract(tools=[{"name": "kinds", "parameters": KINDS}], parallel=True)
values = (
    st.sampled_from(
        [None, True, 0, 5, 5.0, 10, -1, 0.5, "", "a", "x", "xy", [], [1, None], [1, 2, 3]]
    )
    | st.dictionaries(st.sampled_from(["text", "more"]), st.sampled_from(["", "ab", 3]), max_size=2)
    | st.text(max_size=3)
)
arguments = st.dictionaries(
    st.sampled_from(["n", "word", "list", "inner", "either", "more"]), values, max_size=4
) | st.fixed_dictionaries(
    {"n": st.integers(0, 9)},
    optional={
        "word": st.sampled_from(["a", "b", None]),
        "list": st.lists(st.none() | st.integers(), max_size=2),
        "inner": st.fixed_dictionaries({"text": st.text(min_size=2, max_size=4)}),
        "either": st.booleans() | st.just("xyz"),
    },
)


@settings(max_examples=300)
@given(st.lists(arguments, min_size=1, max_size=3))
def test_a_call_is_valid_exactly_when_its_arguments_fit(args: list[dict[str, Any]]) -> None:
    """A call passes exactly when the independent reference says its arguments fit the schema."""
    spoken = message(None, [call("kinds", one, f"id{index}") for index, one in enumerate(args)])
    verdict = SCHEMATIC.check(spoken)
    assert isinstance(verdict, Valid) == all(map(REFERENCE.is_valid, args))
    if isinstance(verdict, Valid):
        assert isinstance(verdict.reply, ToolCall | ToolCalls)


@settings(max_examples=50)
@given(st.text(min_size=1, max_size=30).filter(str.strip))
def test_no_answer_is_changed(text: str) -> None:
    """An answer comes back to the letter."""
    assert NATIVE.check(message(text)) == Valid(DirectAnswer(text))


def test_errors_are_ours() -> None:
    """ContractError is a StrictReplyError and a ValueError, so that both habits catch it."""
    assert issubclass(ContractError, StrictReplyError)
    assert issubclass(ContractError, ValueError)
    assert Category(Code.TOOL_UNKNOWN.category) is Category.ACTION_ERROR
