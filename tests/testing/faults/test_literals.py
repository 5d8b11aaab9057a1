"""The faults of one value or member; the laws that hold for all of them are in ``test_reply_laws``."""

from __future__ import annotations

from typing import Any

import pytest

from strictreply.contract._tool import Tool
from strictreply.testing._steps import CANARY
from strictreply.testing.faults import _literals as literals
from strictreply.testing.faults._catalogue import FaultNotMade
from strictreply.values._limits import DEFAULT_LIMITS

SCHEMA: dict[str, Any] = {"properties": {"q": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"}}}
ORDER = Tool.from_json_schema("order", SCHEMA)
PING = Tool.from_json_schema("ping", {"type": "object", "properties": {}})
ARGS: dict[str, Any] = {"q": "tea", "n": 5, "b": True}


def text_of(name: str, at: str = "", *, tool: Tool = ORDER, args: Any = None) -> str:
    """Give the arguments' text that one fault writes."""
    fault = getattr(literals, name)(tool, at, args=args)
    text: str = fault.served["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    return text


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("nan", "NaN"),
        ("infinity", "Infinity"),
        ("negative_infinity", "-Infinity"),
        ("number_overflow", "1e400"),
        ("leading_zero", "007"),
        ("leading_plus", "+7"),
        ("hex_number", "0x1F"),
        ("bare_decimal_point", ".5"),
        ("trailing_decimal_point", "5."),
        ("digit_separator", "1_000"),
        ("arithmetic", "60 * 24"),
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
        ("unquoted_string", CANARY),
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
    """Name and value are written otherwise, and all else is as it was."""
    assert text_of(name, args=ARGS) == f'{{{member}, "n": 5, "b": true}}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cut_in_string", '{"q": "tea'),
        ("cut_in_escape", r'{"q": "tea\u00'),
        ("cut_in_number", '{"q": "tea", "n": 12.'),
        ("cut_in_word", '{"q": "tea", "n": 5, "b": tru'),
        ("cut_after_key", '{"q":'),
    ],
)
def test_a_text_breaks_off(name: str, text: str) -> None:
    """Up to the cut the text is the good one."""
    assert text_of(name, args=ARGS) == text


def test_the_place_can_be_chosen() -> None:
    """``at`` names the member to spoil, and the fault tells its pointer."""
    assert literals.duplicate_key(ORDER, "n", args=ARGS).at == "/n"
    assert text_of("duplicate_key", "n", args=ARGS) == f'{{"q": "tea", "n": 5, "n": "{CANARY}", "b": true}}'


def test_only_values_of_the_sort_are_spoiled() -> None:
    """Where there is a number, a fault of numbers spoils no string."""
    assert [fault.at for fault in literals.nan.all_for(ORDER, args=ARGS)] == ["/n"]
    with pytest.raises(FaultNotMade):
        literals.nan(ORDER, "q", args=ARGS)


@pytest.mark.parametrize(("args", "text"), [({"q": "tea"}, '{"q": NaN}'), ({"q": []}, '{"q": NaN}')])
def test_another_value_gives_its_place_where_there_is_none_of_the_sort(args: Any, text: str) -> None:
    """A reader refuses the literal before the schema is asked, so any place will do."""
    open_tool = Tool.from_json_schema("open", {"properties": {"q": {}}})
    assert text_of("nan", tool=open_tool, args=args) == text


@pytest.mark.parametrize("name", ["nan", "single_quotes", "duplicate_key", "too_deep", "cut_in_string"])
def test_a_member_is_made_up_where_there_is_none(name: str) -> None:
    """Of a tool without parameters the fault is made of a member that the model invented."""
    assert text_of(name, tool=PING).startswith(f'{{"{CANARY}": ')
    assert getattr(literals, name)(PING).at == ""


def test_the_caps_are_passed_by_little() -> None:
    """What is too large, too deep or too much is so by about one, lest it cost more than it must."""
    assert len(text_of("too_large", args=ARGS)) < DEFAULT_LIMITS.reply_bytes + 100
    assert text_of("too_deep", args=ARGS).count("[") == DEFAULT_LIMITS.depth + 1
    assert text_of("too_many_values", args=ARGS).count("0") == DEFAULT_LIMITS.nodes + 1
    assert text_of("long_integer", args=ARGS).count("7") == 5_000
