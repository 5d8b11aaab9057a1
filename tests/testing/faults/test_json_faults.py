"""The faults of a reply's JSON text.

The laws that hold for all of them are in ``test_reply_laws``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import Tool
from strictreply.core import DEFAULT_LIMITS
from strictreply.core.text import pointer
from strictreply.testing import faults
from strictreply.testing._steps import Target
from strictreply.testing.faults import FaultNotMade
from strictreply.testing.faults._json_faults import slots
from support.loops import some
from support.testing.faults.spoken import CANARY

SCHEMA: dict[str, Any] = {
    "properties": {"q": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"}}
}
ORDER = Tool.from_json_schema("order", SCHEMA)
SEARCH = Tool.from_json_schema(
    "search", {"properties": {"query": {"type": "string"}}, "required": ["query"]}
)
PING = Tool.from_json_schema("ping", {"type": "object", "properties": {}})
HERE = Tool.from_json_schema("here", {"type": "object"})
ARGS: dict[str, Any] = {"q": "tea", "n": 5, "b": True}
TEA = {"query": "tea"}
CLEAN = '{"query": "tea"}'
SCALARS = st.none() | st.booleans() | st.integers() | st.text()
VALUES = (
    SCALARS
    | st.lists(SCALARS, max_size=4)
    | st.dictionaries(st.text(), SCALARS | st.lists(SCALARS), max_size=4)
)


def text_of(name: str, at: str = "", *, tool: Tool = ORDER, args: Any = None) -> str:
    """Return the arguments' text that one fault writes."""
    fault = getattr(faults, name)(tool, at, args=args)
    text: str = fault.served["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    return text


@given(value=VALUES.filter(lambda value: value not in ([], {})))
def test_a_slot_gives_the_text_back_when_its_own_value_is_put_in(value: Any) -> None:
    """Writing what was there changes nothing, in every slot of an answer."""
    target = Target(value, "json")
    for slot in some(slots(target)):
        own = json.dumps(slot.value, ensure_ascii=False)
        assert slot.before + own + slot.after == target.text(value)


@given(value=st.dictionaries(st.text(), SCALARS, min_size=1, max_size=4))
def test_a_slot_is_where_its_pointer_says(value: dict[str, Any]) -> None:
    """Putting another value in changes that member of the arguments, in the union too, and nothing
    else.
    """
    target = Target(value, "union", tool=HERE)
    for slot, key in some(zip(slots(target), value, strict=True)):
        assert slot.at == pointer("", key)
        assert json.loads(slot.before + '["new"]' + slot.after) == {
            "tool": "here",
            "args": value | {key: ["new"]},
        }


@pytest.mark.parametrize("value", [{}, [], 5])
def test_a_member_can_always_be_had(value: Any) -> None:
    """Where the value has no member the model makes one up, the only one of an object."""
    target = Target(value, "json")
    [spoiled] = faults.unquoted_key.make(target)
    assert spoiled == (target.completion(f'{{{CANARY}: "{CANARY}"}}'), "", None, None)


def test_the_text_before_a_slot_ends_at_its_value() -> None:
    """The text before the value is kept, its key included; the value and the rest are not part of
    it.
    """
    first, second = slots(Target({"a": 1, "b": 2}, "json"))
    assert (first.before, second.before) == ('{"a": ', '{"a": 1, "b": ')


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("nan", "NaN"),
        ("infinity", "Infinity"),
        ("negative_infinity", "-Infinity"),
        ("number_overflow", "1e400"),
        ("leading_zero", "05"),
        ("leading_plus", "+5"),
        ("hex_number", "0x5"),
        ("bare_decimal_point", ".5e1"),
        ("trailing_decimal_point", "5."),
        ("digit_separator", "0_5"),
        ("arithmetic", "5 * 1"),
        ("number_with_unit", "5 km"),
    ],
)
def test_a_number_is_written_as_json_does_not_know_it(name: str, number: str) -> None:
    """The literal stands in place of the number, and all else is as it was."""
    assert text_of(name, args=ARGS) == f'{{"q": "tea", "n": {number}, "b": true}}'


@pytest.mark.parametrize(
    ("name", "string"),
    [
        ("single_quotes", "'tea'"),
        ("backticks", "`tea`"),
        ("triple_quotes", '"""tea"""'),
        ("unquoted_string", "tea"),
        ("unescaped_quotes", f'"tea "{CANARY}""'),
        ("raw_newline", f'"tea\n{CANARY}"'),
        ("raw_control_character", '"tea\x1b[31m"'),
        ("bad_escape", r'"tea\d+"'),
        ("escaped_apostrophe", r'"tea\'s"'),
        ("braced_unicode_escape", r'"tea\u{1F600}"'),
        ("lone_high_surrogate", r'"tea\ud83d"'),
        ("lone_low_surrogate", r'"\ude00tea"'),
    ],
)
def test_a_string_is_written_as_json_does_not_know_it(name: str, string: str) -> None:
    """The literal holds the good text, and all else is as it was."""
    assert text_of(name, args=ARGS) == f'{{"q": {string}, "n": 5, "b": true}}'


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("duplicate_key", f'"q": "tea", "q": "{CANARY}"'),
        ("escaped_duplicate_key", rf'"q": "tea", "\u0071": "{CANARY}"'),
        ("unquoted_key", 'q: "tea"'),
        ("missing_colon", '"q" "tea"'),
        ("missing_value", '"q": '),
        ("block_comment", f'"q": /* {CANARY} */ "tea"'),
        ("line_comment", f'"q": "tea" // {CANARY}\n'),
    ],
)
def test_a_member_is_spoiled_in_one_way(name: str, member: str) -> None:
    """The name and the value are changed; everything else stays as it was."""
    assert text_of(name, args=ARGS) == f'{{{member}, "n": 5, "b": true}}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cut_in_string", '{"q": "tea'),
        ("cut_in_escape", r'{"q": "tea\u00'),
        ("cut_in_number", '{"q": "tea", "n": 5.'),
        ("cut_in_word", '{"q": "tea", "n": 5, "b": tru'),
        ("cut_after_key", '{"q":'),
    ],
)
def test_a_text_breaks_off(name: str, text: str) -> None:
    """Up to the cut the text is the good one."""
    assert text_of(name, args=ARGS) == text


@pytest.mark.parametrize(
    ("name", "value", "spelled"),
    [
        ("leading_zero", -3, "-03"),
        ("leading_plus", 40, "+40"),
        ("leading_plus", -3, "+-3"),
        ("hex_number", 255, "0xFF"),
        ("hex_number", -5, "-0x5"),
        ("hex_number", 29.9, "0x1.de66666666666p+4"),
        ("bare_decimal_point", 29.9, ".299e2"),
        ("bare_decimal_point", 5, ".5e1"),
        ("digit_separator", 29.9, "0_29.9"),
        ("bare_decimal_point", -0.25, "-.25"),
        ("trailing_decimal_point", 40, "40."),
        ("digit_separator", 1234567, "1_234_567"),
        ("fullwidth_digit", 10, "\uff11\uff10"),
        ("arithmetic", 1.5, "1.5 * 1"),
        ("number_with_unit", 40, "40 km"),
        ("python_literal", False, "False"),
        ("python_literal", None, "None"),
        ("cut_in_number", 1.5, "1."),
        ("cut_in_word", False, "fals"),
        ("unquoted_string", "5", CANARY),
        ("python_tuple", ["a", "b"], '("a", "b",)'),
        ("trailing_comma_in_array", ["a", "b"], '["a", "b",]'),
    ],
)
def test_a_spelling_is_of_the_value_that_was_given(name: str, value: Any, spelled: str) -> None:
    """A fault of notation writes the good value; a text that is JSON without quotes is made up."""
    tool = Tool.from_json_schema("f", {"type": "object", "properties": {"x": {}}})
    served: Any = faults.entry_named(name)(tool, "x", args={"x": value}).served
    text = served["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert text.removesuffix("}") == f'{{"x": {spelled}'


def test_the_place_can_be_chosen() -> None:
    """``at`` names the member to spoil, and the fault tells its pointer."""
    assert faults.duplicate_key(ORDER, "n", args=ARGS).at == "/n"
    assert (
        text_of("duplicate_key", "n", args=ARGS)
        == f'{{"q": "tea", "n": 5, "n": "{CANARY}", "b": true}}'
    )


def test_only_values_of_the_sort_are_spoiled() -> None:
    """A fault of numbers is made only on numbers."""
    assert [fault.at for fault in faults.nan.all_for(ORDER, args=ARGS)] == ["/n"]
    with pytest.raises(FaultNotMade):
        faults.nan(ORDER, "q", args=ARGS)


@pytest.mark.parametrize(
    ("args", "text"), [({"q": "tea"}, '{"q": NaN}'), ({"q": []}, '{"q": NaN}')]
)
def test_another_value_gives_its_place_where_there_is_none_of_the_sort(
    args: Any, text: str
) -> None:
    """A reader refuses the literal before the schema is asked, so any place will do."""
    open_tool = Tool.from_json_schema("open", {"properties": {"q": {}}})
    assert text_of("nan", tool=open_tool, args=args) == text


@pytest.mark.parametrize(
    "name", ["nan", "single_quotes", "duplicate_key", "too_deep", "cut_in_string"]
)
def test_a_member_is_made_up_where_there_is_none(name: str) -> None:
    """Of a tool without parameters the fault is made of a member that the model invented."""
    assert text_of(name, tool=PING).startswith(f'{{"{CANARY}": ')
    assert getattr(faults, name)(PING).at == ""


def test_the_caps_are_passed_by_little() -> None:
    """A text that is too large, too deep or too long is so by about one, so that it costs no more
    than it must.
    """
    assert len(text_of("too_large", args=ARGS)) < DEFAULT_LIMITS.reply_bytes + 100
    assert text_of("too_deep", args=ARGS).count("[") == DEFAULT_LIMITS.depth + 1
    assert text_of("too_many_values", args=ARGS).count("0") == DEFAULT_LIMITS.nodes + 1
    assert text_of("long_integer", args=ARGS).count("7") == 5_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty_text", ""),
        ("python_repr", "{'query': 'tea'}"),
        ("python_call", "dict(query='tea')"),
        ("xml", "<function><parameter=query>tea</parameter></function>"),
        ("yaml", 'query: "tea"'),
        ("base64_text", "eyJxdWVyeSI6ICJ0ZWEifQ=="),
        ("fenced", f"```json\n{CLEAN}\n```"),
        ("tool_call_tags", f"<tool_call>\n{CLEAN}\n</tool_call>"),
        ("template_token", f"{CLEAN}<|im_end|>"),
        ("byte_order_mark", f"\ufeff{CLEAN}"),
        ("nul_byte", f"{CLEAN}\0"),
        ("empty_object_before", f"{{}}{CLEAN}"),
        ("json_lines", f"{CLEAN}\n{CLEAN}"),
        ("extra_closing_bracket", f"{CLEAN}}}"),
        ("missing_closing_bracket", CLEAN[:-1]),
        ("missing_opening_brace", CLEAN[1:]),
        ("mismatched_bracket", '{"query": "tea"]'),
        ("trailing_comma", '{"query": "tea",}'),
        ("missing_comma", f'{{"query": "tea" "{CANARY}": true}}'),
        ("ellipsis", '{"query": "tea", ...}'),
        ("smart_quotes", "{“query”: “tea”}"),
        ("html_escaped", "{&quot;query&quot;: &quot;tea&quot;}"),
        ("escaped_quotes", r"{\"query\": \"tea\"}"),
        ("escaped_line_breaks", r'{\n  "query": "tea"}'),
        ("no_break_space", '{\u00a0"query": "tea"}'),
    ],
)
def test_a_text_is_spoiled_in_one_way(name: str, text: str) -> None:
    """Nothing but what the fault is named for changes in the good text."""
    assert text_of(name, tool=SEARCH, args=TEA) == text


@pytest.mark.parametrize("name", ["prose_before", "think_block", "prose_after"])
def test_what_stands_around_the_json_leaves_it_whole(name: str) -> None:
    """The good JSON is in the text as it was, and what was added is told as invented."""
    fault = getattr(faults, name)(SEARCH, args={"query": "tea"})
    assert CLEAN in text_of(name, tool=SEARCH, args=TEA)
    assert fault.invented[:1] == (CANARY,)


@pytest.mark.parametrize("name", ["fenced", "byte_order_mark", "extra_closing_bracket"])
def test_arguments_without_members_are_spoiled_as_they_are(name: str) -> None:
    """A fault that needs no member of the text makes none up: a lenient reader finds the good
    arguments.
    """
    assert "{}" in text_of(name, tool=PING)
    assert CANARY not in text_of(name, tool=PING)


@pytest.mark.parametrize("name", ["python_repr", "trailing_comma", "smart_quotes", "yaml"])
def test_a_text_of_a_made_up_member_is_spoiled_where_there_is_none(name: str) -> None:
    """A fault that needs a member is made of an invented one, which is listed as invented."""
    assert CANARY in text_of(name, tool=PING)
    assert getattr(faults, name)(PING).invented[:1] == (CANARY,)


def test_the_union_is_spoiled_as_one_text() -> None:
    """In the content the whole union is the text, not the arguments in it."""
    fault = faults.trailing_comma(SEARCH, place="union", args={"query": "tea"})
    content: Any = fault.served
    target = Target.of(SEARCH, place="union", args={"query": "tea"})
    assert content["choices"][0]["message"]["content"] == f"{target.text(target.value)[:-1]},}}"


def test_an_empty_text_is_a_fault_of_any_tool() -> None:
    """It is no JSON, not even for a tool without parameters: that clients may read it so is a
    leniency of theirs.
    """
    assert list(faults.empty_text.all_for(PING))
    assert list(faults.empty_text.all_for(SEARCH))
