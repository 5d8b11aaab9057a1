"""The early stop: no beginning of a reply that the judge accepts is stopped early.

What is stopped early the judge refuses.
"""

from __future__ import annotations

import json
import random
import warnings
from typing import Any, get_args

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from strictreply import Contract, ContractError, ContractWarning, Invalid, Issue, Limits, Valid
from strictreply.contract._early_stop import EarlyStop
from strictreply.core import Extraction
from strictreply.core.judging import IncrementalReader
from strictreply.schema._live import LiveCheck
from support.live_documents import NAMES, ROOTS, SCALARS, SCHEMAS, VALUES, pieces, spelled
from support.loops import some

EXTRA = ["forbid", "schema"]
MEMBERED = st.dictionaries(NAMES, SCALARS, max_size=3)


def stopped_early(
    early_stop: EarlyStop, text: str, dice: random.Random, *, tool: str | None = None
) -> tuple[Issue, int] | None:
    """Feed a text; return the issue with the characters that were fed when it came."""
    fed = 0

    if tool is not None:
        assert early_stop.call(0, tool, "") is None

    for piece in pieces(text, dice):
        fed += len(piece)
        issue = early_stop.text(piece) if tool is None else early_stop.call(0, None, piece)
        if issue is not None:
            return issue, fed

    return None


def answering(schema: Any, **keywords: Any) -> Contract[Any]:
    """A contract with an answer of the given schema; one that contradicts itself is passed over."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ContractWarning)
            return Contract(answer=schema, **keywords)
    except ContractError:
        reject()


def called(schema: Any, **keywords: Any) -> Contract[Any]:
    """A contract with one tool of the given parameters."""
    tool = {"type": "function", "function": {"name": "act", "parameters": schema}}
    return Contract(tools=[tool], **keywords)


def message(name: str, arguments: str) -> dict[str, Any]:
    """An assistant message with one call."""
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.one_lane
@given(SCHEMAS, st.lists(VALUES, min_size=8, max_size=8), st.sampled_from(EXTRA), st.randoms())
@settings(max_examples=300)
def test_nothing_that_the_judge_accepts_is_stopped_early(
    schema: Any, values: Any, extra: Any, dice: random.Random
) -> None:
    """An answer by any schema, in any spelling and cutting: what is stopped early the judge
    refuses.
    """
    contract = answering(schema, extra=extra)
    for value in some(values):  # about a third of them fit
        text = spelled(value, dice)
        if stopped_early(EarlyStop(contract), text, dice) is not None:
            assert isinstance(contract.check({"role": "assistant", "content": text}), Invalid)


@pytest.mark.one_lane
@given(
    SCHEMAS | ROOTS | ROOTS,
    st.lists(VALUES | MEMBERED, min_size=20, max_size=20),
    st.sampled_from(EXTRA),
)
@settings(max_examples=300)
def test_live_nodes_admit_what_the_schema_admits(
    schema: Any, values: list[Any], extra: Any
) -> None:
    """No value that fits is refused on the way, even where the judge, who is asked before an early
    stop, would not hide it.
    """
    compiled = answering(schema, extra=extra).answer.schema
    assert compiled is not None
    for value in values:
        if not compiled.check(value):
            assert IncrementalReader(LiveCheck(compiled.live.root)).feed(json.dumps(value)) is None


TOOL = {
    "type": "object",
    "properties": {
        "q": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"},
        "n": {"type": "integer", "maximum": 9},
        "c": {"enum": ["red", "green"]},
        "l": {"type": "array", "items": {"type": "string", "format": "date"}, "maxItems": 2},
        "o": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]},
        "u": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}
ARGS = "/tool_calls/0/function/arguments"
FAULTS = [
    ('{"q": 1', "args.type", "/q"),
    ('{"q": n', "args.type", "/q"),
    ('{"q": "abcdef', "args.max_length", "/q"),
    ('{"q": "A"', "args.pattern", "/q"),
    ('{"n": 10,', "args.maximum", "/n"),
    ('{"n": 1.5,', "args.type", "/n"),
    ('{"c": "gx', "args.enum", "/c"),
    ('{"c": "re"', "args.enum", "/c"),
    ('{"l": ["x"', "args.format", "/l/0"),
    ('{"l": ["2025-01-31", "2025-01-31",', "args.max_items", "/l"),
    ('{"o": {"b', "args.extra_key", "/o"),
    ('{"o": {}', "args.required", "/o/a"),
    ('{"o": {"a": 2}', "args.const", "/o/a"),
    ('{"u": 1', "args.type", "/u"),
    ('{"x', "args.extra_key", ""),
    ('{"q": "", "q"', "json.duplicate_key", "/q"),
    ('{"n": 01', "json.syntax", "/n"),
    ('{"n": 1e999,', "json.not_finite", "/n"),
    ('{"n": -Infinity', "json.not_finite", "/n"),
    ('{"q": "\\ud800x', "json.surrogate", "/q"),
    ('{"q": "\\x', "json.syntax", "/q"),
    ("{} x", "json.trailing_data", ""),
    ('{"q";', "json.syntax", ""),
    ("[", "shape.wrong_type", ""),
]


@pytest.mark.parametrize(("text", "code", "path"), FAULTS)
@pytest.mark.parametrize("most", [1, 3, 100])
def test_a_fault_is_stopped_early_at_its_character_with_the_judges_code(
    text: str, code: str, path: str, most: int
) -> None:
    """Nothing is stopped early before the last character of the text, and then with the code and
    place that the judge has.
    """
    contract = called(TOOL)
    early_stop = EarlyStop(contract)
    assert early_stop.call(0, "act", "") is None
    cut = [text[at : at + most] for at in range(0, len(text), most)]
    issues = [early_stop.call(0, None, piece) for piece in cut]
    assert not any(issues[:-1])

    found = issues[-1]
    assert found is not None
    assert (found.code, found.path) == (code, ARGS + path)
    verdict = contract.check(message("act", text))
    assert isinstance(verdict, Invalid)


@pytest.mark.one_lane
@given(schema=SCHEMAS, value=VALUES, dice=st.randoms(use_true_random=True))
@settings(max_examples=200)
def test_a_whole_call_is_stopped_early_only_when_refused(
    schema: Any, value: Any, dice: random.Random
) -> None:
    """In both channels and as ``final_answer``: what the judge accepts passes."""
    contract = answering(schema, answer_style="tool")
    args = {"answer": value}
    text = spelled(args, dice)
    found = stopped_early(EarlyStop(contract), text, dice, tool="final_answer")
    assert found is None or isinstance(contract.check(message("final_answer", text)), Invalid)

    for union in (args, {"args": args, "tool": "final_answer"}, {"args": value, "tool": "act"}):
        text = spelled(union, dice)
        for style in ("union", "tool"):
            of_text = contract.replace(channel="text", answer_style=style)
            found = stopped_early(EarlyStop(of_text), text, dice)
            assert found is None or isinstance(of_text.check(text), Invalid)


UNION = [
    ('{"tool": "ax', "tool.unknown", "/tool"),
    ('{"args": {"q": 1', "args.type", "/args/q"),
    ('{"answer": "yes", "tool"', "shape.tool_and_answer", ""),
    ('{"tool": "act", "x', "shape.extra_key", ""),
    ('{"answer": 1', "shape.wrong_type", "/answer"),
    ("Sure", "json.syntax", ""),
    ("[", "shape.not_object", ""),
]


@pytest.mark.parametrize(("text", "code", "path"), UNION)
def test_the_union_of_the_text_channel_is_stopped_early(text: str, code: str, path: str) -> None:
    """A call or an answer in any key order; arguments before the tool are held to every tool."""
    contract = called(TOOL, channel="text")
    early_stop = EarlyStop(contract)
    found = next(filter(None, map(early_stop.text, text)))
    assert (found.code, found.path) == (code, path)


def test_names_of_tools_grow_until_the_arguments_begin() -> None:
    """A name is stopped early as soon as it can become none of the tools', or as it is none when
    the arguments begin.
    """
    contract = called(TOOL)
    assert EarlyStop(contract).call(0, "ac", "") is None
    assert [issue.code for issue in [EarlyStop(contract).call(0, "ax", "")] if issue] == [
        "tool.unknown"
    ]
    early_stop = EarlyStop(contract)
    assert early_stop.call(0, "ac", "") is None
    found = early_stop.call(0, None, "{")
    assert found is not None
    assert (found.code, found.path) == ("tool.unknown", "/tool_calls/0/function/name")


def test_a_name_that_a_server_repeats_is_no_fault() -> None:
    """Some servers write the name in every chunk; the judge decides what it means."""
    early_stop = EarlyStop(called(TOOL))
    for piece in ("{", '"n": ', "1}"):
        assert early_stop.call(0, "act", piece) is None


def test_doubled_letters_of_a_name_are_no_repetition() -> None:
    """A name that comes letter by letter may begin with the same two."""
    tool = {"type": "function", "function": {"name": "aab", "parameters": TOOL}}
    early_stop = EarlyStop(Contract(tools=[tool]))
    assert [early_stop.call(0, char, "") for char in "aab"] == [None] * 3
    found = early_stop.call(0, None, "[")
    assert found is not None
    assert found.code == "shape.wrong_type"


def test_calls_are_interleaved_by_their_index() -> None:
    """Each call has a reader of its own; a second one is a fault where calls are not parallel."""
    early_stop = EarlyStop(called(TOOL, parallel=True))
    for index in (0, 1):
        assert early_stop.call(index, "act", '{"n"') is None

    assert early_stop.call(0, None, ":1}") is None
    found = early_stop.call(1, None, ':"')
    assert found is not None
    assert found.path == "/tool_calls/1/function/arguments/n"

    early_stop = EarlyStop(called(TOOL))
    assert early_stop.call(0, "act", "{}") is None
    second = early_stop.call(1, "act", "")
    assert second is not None

    assert second.code == "tool.several"


def test_caps_are_stopped_early() -> None:
    """More calls or more bytes than the contract allows."""
    contract = called(TOOL, parallel=True, limits=Limits(calls=1, reply_bytes=20))
    early_stop = EarlyStop(contract)
    assert early_stop.call(0, "act", "{" + " " * 18) is None
    codes = [
        issue.code
        for issue in (early_stop.call(1, "act", ""), early_stop.call(0, None, "é "))
        if issue
    ]
    assert codes == ["tool.too_many", "json.too_large"]
    found = EarlyStop(contract).text("x" * 21)
    assert found is not None
    assert found.code == "reply.too_large"


ANSWER = {"type": "object", "properties": {"n": {"type": "integer"}, "t": {"type": "string"}}}


@pytest.mark.parametrize(
    ("extraction", "text", "is_stopped_early"),
    [
        ("strict", "Sure", True),
        ("strict", "```json\n{}", True),
        ("fenced", '``` json\n{"n": "', False),
        ("fenced", '```json\n{"n": 1}\n```', False),
        ("fenced", '\u00a0```\r\n{"n": "', True),
        ("fenced", "Sure", True),
        ("after_think", "  <think>{} 1 </think>\n", False),
        ("after_think", '<think>a</think> {"n": "', True),
        ("after_think", "<thin}", True),
        ("first_object", 'Sure {"n": "x', False),
    ],
)
def test_what_extraction_may_strip_is_undecided(
    extraction: Any, text: str, is_stopped_early: bool
) -> None:
    """Around the JSON only what no mode of extraction strips is a fault."""
    for contract in (Contract(answer=ANSWER, extraction=extraction),):
        early_stop = EarlyStop(contract)
        assert any(map(early_stop.text, text)) == is_stopped_early


LENIENT: dict[Extraction, str] = {
    "strict": '{"n": 1}',
    "fenced": '```json\n{"n": 1}\n```',
    "first_object": 'Sure, {"n": 1} it is.',
    "after_think": '<think>one?</think>{"n": 1}',
}


@pytest.mark.parametrize("mode", get_args(Extraction))
def test_what_a_mode_of_extraction_accepts_is_never_stopped_early(mode: Extraction) -> None:
    """Each mode of extraction makes its text valid, and the early stop lets every character of that
    text pass.
    """
    contract: Contract[Any] = Contract(answer=ANSWER, extraction=mode)
    assert isinstance(contract.check({"role": "assistant", "content": LENIENT[mode]}), Valid)
    assert not any(map(EarlyStop(contract).text, LENIENT[mode]))


def test_content_beside_possible_calls_is_never_stopped_early() -> None:
    """Where a tool may be called the content may be prose; where none may it must be the answer."""
    contract = called(TOOL, answer=ANSWER)
    assert EarlyStop(contract).text("Let me see") is None
    assert EarlyStop(contract.with_choice("none")).text("Let me see") is not None
    assert EarlyStop(called(TOOL)).text("Let me see") is None


def test_partial_is_of_the_structured_answer() -> None:
    """The value so far with the pointers of what is open; of plain text there is none."""
    early_stop = EarlyStop(Contract(answer=ANSWER))
    assert early_stop.partial() is None
    early_stop.text('{"n": 1, "t": "a\\u00e')
    partial = early_stop.partial()
    assert partial is not None

    assert (partial.value, partial.open) == ({"n": 1, "t": "a"}, ("", "/t"))
    early_stop = EarlyStop(Contract(answer=ANSWER, channel="text"))
    early_stop.text('{"answer": {"t": "x')
    partial = early_stop.partial()
    assert partial is not None

    assert (partial.value, partial.open) == ({"t": "x"}, ("", "/t"))
    assert EarlyStop(Contract()).partial() is None
