"""The text channel: the published union of a tool call and an answer, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Category, Contract, DirectAnswer, Invalid, ToolCall, Valid
from strictreply.core import Extraction
from support.openai_shapes import ADD, NOW, call, message

CONTRACT = Contract(tools=[ADD, NOW], channel="text")
STRICT = CONTRACT.replace(dialects="strict")
FINAL = Contract(tools=[ADD, NOW], channel="text", answer_style="tool")


def faults(contract: Contract, text: object) -> list[tuple[str, str]]:
    """Return the code and path of every fault of a reply that must be refused."""
    verdict = contract.check(text)
    assert isinstance(verdict, Invalid)
    return [(issue.code, issue.path) for issue in verdict.issues]


def spelled(value: object) -> str:
    """Return a value as JSON."""
    return json.dumps(value)


VALID_CALL = {"tool": "add", "args": {"a": 1, "b": 2}}
EXTRA = "shape.extra_key"
EMPTY = "shape.empty"
MISSING = "shape.missing_key"
WRONG = "shape.wrong_type"
UNION = [
    # the four cases of a tool call, the four of an answer and the six of the union, as the
    # original's tests have them
    pytest.param(VALID_CALL, [], id="call"),
    pytest.param(VALID_CALL | {"foo": 99}, [(EXTRA, "")], id="call-extra-key"),
    pytest.param({"tool": "add"}, [(MISSING, "/args")], id="call-without-args"),
    pytest.param(
        {"tool": 123, "args": "not-an-object"},
        [(WRONG, "/tool"), (WRONG, "/args")],
        id="call-wrong-types",
    ),
    pytest.param({"answer": "42"}, [], id="answer"),
    pytest.param({"answer": "42", "foo": "bar"}, [(EXTRA, "")], id="answer-extra-key"),
    pytest.param({}, [(MISSING, "/tool"), (MISSING, "/args")], id="nothing"),
    pytest.param({"answer": 42}, [(WRONG, "/answer")], id="answer-wrong-type"),
    pytest.param({"tool": "now", "args": {}}, [], id="union-accepts-a-call"),
    pytest.param({"answer": "hello"}, [], id="union-accepts-an-answer"),
    pytest.param(
        VALID_CALL | {"answer": "x"}, [("shape.tool_and_answer", "")], id="union-is-exclusive"
    ),
    pytest.param({"args": {}}, [(MISSING, "/tool")], id="union-args-alone"),
    pytest.param(
        {"foo": 1}, [(EXTRA, ""), (MISSING, "/tool"), (MISSING, "/args")], id="union-neither"
    ),
    pytest.param([{"answer": "x"}], [("shape.not_object", "")], id="union-array"),
]


@pytest.mark.req("T39")
@pytest.mark.parametrize(("value", "expected"), UNION)
def test_union_table(value: object, expected: list[tuple[str, str]]) -> None:
    """The fourteen cases of the original's schema tests give the same verdicts here."""
    verdict = CONTRACT.check(spelled(value))
    assert [(issue.code, issue.path) for issue in getattr(verdict, "issues", ())] == expected
    assert isinstance(verdict, Invalid if expected else Valid)


@pytest.mark.req("T1", "T2", "T3")
def test_union_members() -> None:
    """A call and an answer both pass, and the type of the reply tells which it was."""
    assert CONTRACT.check('{"tool":"add","args":{"a":1,"b":2}}') == Valid(
        ToolCall("add", {"a": 1, "b": 2})
    )
    assert CONTRACT.check('{"answer":"42"}') == Valid(DirectAnswer("42"))


@pytest.mark.req("T4", "T5")
@pytest.mark.parametrize(
    "text", ['{"tool":"add","args":{"a":1,"b":2},"foo":99}', '{"answer":"42","foo":"bar"}']
)
def test_no_extra_keys(text: str) -> None:
    """A key beside the allowed ones is refused, and ``found`` names it."""
    verdict = CONTRACT.check(text)
    assert isinstance(verdict, Invalid)
    assert [(issue.code, issue.found) for issue in verdict.issues] == [("shape.extra_key", '"foo"')]


@pytest.mark.req("T6")
@pytest.mark.parametrize(
    "text", ['{"tool":"now","args":{},"answer":"x"}', '{"args":{},"answer":"x"}']
)
def test_union_is_exclusive(text: str) -> None:
    """An object with members of both a call and an answer is neither."""
    assert faults(CONTRACT, text) == [("shape.tool_and_answer", "")]


@pytest.mark.req("T7")
def test_tool_name_is_not_empty() -> None:
    """A tool has a name."""
    assert faults(CONTRACT, '{"tool":"","args":{}}') == [("shape.empty", "/tool")]


@pytest.mark.req("T8")
@pytest.mark.parametrize("answer", ["", "  ", "\n\t"])
def test_answer_is_not_blank(answer: str) -> None:
    """An answer says something; white space passes only where ``allow_blank_answers`` admits it."""
    text = spelled({"answer": answer})
    assert faults(CONTRACT, text) == [("shape.empty", "/answer")]
    lenient = Contract(channel="text", allow_blank_answers=True).check(text)
    assert isinstance(lenient, Valid if answer else Invalid)


@pytest.mark.req("T9")
def test_args_may_be_empty() -> None:
    """A tool without parameters is called with no arguments."""
    assert CONTRACT.check('{"tool":"now","args":{}}') == Valid(ToolCall("now", {}))


@pytest.mark.req("T10")
@pytest.mark.parametrize("args", ["[1]", "null", '"x"', "3", "true", "[]"])
def test_args_are_an_object(args: str) -> None:
    """Arguments that are no object are refused at ``args``."""
    assert faults(CONTRACT, f'{{"tool":"now","args":{args}}}') == [("shape.wrong_type", "/args")]


@pytest.mark.req("T11")
@pytest.mark.parametrize(
    ("text", "missing"),
    [('{"tool":"add"}', ["/args"]), ('{"args":{}}', ["/tool"]), ("{}", ["/tool", "/args"])],
)
def test_keys_are_required(text: str, missing: list[str]) -> None:
    """Each missing key is a fault of its own, at its own place."""
    assert faults(CONTRACT, text) == [("shape.missing_key", path) for path in missing]


@pytest.mark.req("T12")
def test_nothing_is_coerced() -> None:
    """Wrong types are faults, one each; a number is no answer."""
    assert faults(CONTRACT, '{"tool":123,"args":"not-an-object"}') == [
        ("shape.wrong_type", "/tool"),
        ("shape.wrong_type", "/args"),
    ]
    assert faults(CONTRACT, '{"answer":42}') == [("shape.wrong_type", "/answer")]


@pytest.mark.req("T13")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('[{"answer":"x"}]', "shape.not_object"),
        ('"hi"', "shape.not_object"),
        ("null", "shape.not_object"),
        ("3", "shape.not_object"),
        ('{"answer":"x"}{"answer":"y"}', "json.several_values"),
        ('{"answer":"x"}\n{"answer":"y"}', "json.several_values"),
    ],
)
def test_the_reply_is_one_object(text: str, code: str) -> None:
    """Arrays, scalars, null and several objects are no reply."""
    assert faults(CONTRACT, text) == [(code, "")]


@pytest.mark.req("T14")
def test_final_answer_is_the_only_way_to_answer() -> None:
    """With ``answer_style="tool"`` an answer is a call of ``final_answer`` with exactly one
    argument.
    """
    assert FINAL.check('{"tool":"final_answer","args":{"answer":"ok"}}') == Valid(
        DirectAnswer("ok")
    )
    assert faults(FINAL, '{"tool":"final_answer","args":{"foo":1}}') == [
        (EXTRA, "/args"),
        (MISSING, "/args/answer"),
    ]
    assert faults(FINAL, '{"answer":"x"}') == [(EXTRA, ""), (MISSING, "/tool"), (MISSING, "/args")]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"answer": ""}, [(EMPTY, "/args/answer")]),
        ({"answer": 3}, [(WRONG, "/args/answer")]),
        ([], [(WRONG, "/args")]),
        ({"answer": "x"} | {f"k{n}": 1 for n in range(1000)}, [(EXTRA, "/args")] * 16),
    ],
)
def test_final_answer_is_held_to_its_shape(args: object, expected: list[tuple[str, str]]) -> None:
    """The arguments of ``final_answer`` are judged like any answer, and no more than 16 extra keys
    are listed.
    """
    assert faults(FINAL, spelled({"tool": "final_answer", "args": args})) == expected


@pytest.mark.req("T17")
def test_white_space_around_is_no_fault() -> None:
    """White space around the object is trimmed; an empty or missing content is a fault of the
    format.
    """
    assert CONTRACT.check('\n {"answer":"x"} ') == Valid(DirectAnswer("x"))
    for empty, code in [("", "json.empty"), (" \n", "json.empty"), (message(None), "reply.empty")]:
        verdict = CONTRACT.check(empty)
        assert isinstance(verdict, Invalid)
        assert [(issue.code, issue.category) for issue in verdict.issues] == [
            (code, Category.FORMAT_ERROR)
        ]


def test_native_calls_have_no_place_here() -> None:
    """A reply that uses ``tool_calls`` or ``function_call`` in the text channel is refused,
    whatever its content.
    """
    for misplaced in (
        {"tool_calls": [call("now", {})]},
        {"function_call": {"name": "now", "arguments": "{}"}},
    ):
        assert [code for code, _ in faults(CONTRACT, message('{"answer":"x"}', **misplaced))] == [
            "call.malformed"
        ]


def test_content_is_text() -> None:
    """Content that came parsed or in parts is refused, not interpreted."""
    for content in ({"answer": "x"}, [{"type": "text", "text": '{"answer":"x"}'}], 3, True):
        assert faults(STRICT, message(content)) == [("reply.content", "")]


@pytest.mark.parametrize(
    ("choice", "text", "expected"),
    [
        ("auto", '{"answer":"x"}', []),
        ("none", '{"answer":"x"}', []),
        ("required", '{"answer":"x"}', [("tool.required", "")]),
        ("now", '{"answer":"x"}', [("tool.required", "")]),
        ("none", '{"tool":"now","args":{}}', [("tool.forbidden", "/tool")]),
        ("required", '{"tool":"now","args":{}}', []),
        ("now", '{"tool":"now","args":{}}', []),
        ("add", '{"tool":"now","args":{}}', [("tool.forced", "/tool")]),
    ],
)
def test_tool_choice_shapes_the_verdict(
    choice: str, text: str, expected: list[tuple[str, str]]
) -> None:
    """The reply must satisfy ``tool_choice``."""
    verdict = CONTRACT.with_choice(choice).check(text)
    assert [(issue.code, issue.path) for issue in getattr(verdict, "issues", ())] == expected


@pytest.mark.parametrize(
    ("choice", "admitted"), [("auto", True), ("required", True), ("none", True), ("now", False)]
)
def test_final_answer_is_an_answer_to_tool_choice(choice: str, *, admitted: bool) -> None:
    """``final_answer`` is the way to answer even where no tool may be called, but not where another
    one is forced.
    """
    verdict = FINAL.with_choice(choice).check('{"tool":"final_answer","args":{"answer":"x"}}')
    assert isinstance(verdict, Valid) == admitted


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize(
    ("text", "modes", "steps"),
    [
        ('```json\n{"answer":"x"}\n```', ("fenced",), ("fenced",)),
        ('<think>hm {"answer":"no"}</think>\n{"answer":"x"}', ("after_think",), ("after_think",)),
        ('Sure: {"answer":"x"} Bye.', ("first_object",), ("first_object",)),
        (
            '<think>a</think>```\n{"answer":"x"}\n```',
            ("after_think", "fenced", "first_object"),
            ("after_think", "fenced"),
        ),
        ('{"answer":"x"}', ("after_think", "fenced", "first_object"), ()),
    ],
)
def test_leniency_is_recorded(
    text: str, modes: tuple[Extraction, ...], steps: tuple[str, ...], *, as_bytes: bool
) -> None:
    """Text around the JSON passes only by a named leniency, which the verdict records; bytes are
    text.
    """
    reply = text.encode() if as_bytes else text
    lenient = CONTRACT.replace(extraction=modes)
    assert lenient.check(reply) == Valid(DirectAnswer("x"), steps)
    assert isinstance(CONTRACT.check(reply), Invalid if steps else Valid)


def test_leniency_is_recorded_on_refusals() -> None:
    """A refused reply says as well what was forgiven before it was read."""
    verdict = Contract(channel="text", extraction="fenced").check('```json\n{"answer":1}\n```')
    assert isinstance(verdict, Invalid)
    assert verdict.lenient == ("fenced",)


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
nested = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
ANYTHING = Contract(
    tools=[{"name": "any", "parameters": {"type": "object"}}], channel="text", extra="schema"
)
replies = st.builds(lambda text: {"answer": text + "."}, st.text()) | st.builds(
    lambda args: {"tool": "any", "args": args}, st.dictionaries(st.text(), nested, max_size=3)
)


def without_surrogates(value: object) -> bool:
    """Return whether a value can be written as strict JSON."""
    return not any("\ud800" <= char <= "\udfff" for char in json.dumps(value, ensure_ascii=False))


@given(replies.filter(without_surrogates), st.booleans(), st.sampled_from([None, 2]))
def test_no_prefix_is_a_reply(value: object, ascii_only: bool, indent: int | None) -> None:
    """A reply cut anywhere is refused: only the whole text is accepted."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert isinstance(ANYTHING.check(text), Valid)
    assert [end for end in range(len(text)) if isinstance(ANYTHING.check(text[:end]), Valid)] == []
