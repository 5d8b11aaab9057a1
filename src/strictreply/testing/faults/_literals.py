"""Faults of one value or member in the text: what JSON does not know, what passes a cap, and where the text breaks off.

A reader refuses them before any schema is asked. Where a reply has no value of the sort that is spoiled, another one
gives its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Target
from strictreply.testing.faults._catalogue import WRITTEN, Entry, Spoiled
from strictreply.testing.faults._making import entry_of, spoiled
from strictreply.testing.faults._writing import Slot, invented_member, members, slots, written
from strictreply.values._json import JSON
from strictreply.values._limits import DEFAULT_LIMITS, MAX_NUMBER_DIGITS

_Sort: TypeAlias = Literal["number", "string", "word", "any", "first"]
"""Which values are spoiled: those of a sort, every one, or but the first, where the place makes no difference."""

_Literal: TypeAlias = Callable[[str], str]
"""Writes a value anew; what it is given is the inside of a string, without the quotes, and the canary for others."""


def _value_fault(code: str, sort: _Sort = "any", *, cut: bool = False) -> Callable[[_Literal], Entry]:
    """Put a literal in place of each value of one sort; with ``cut`` the text ends there."""

    def decorate(literal: _Literal) -> Entry:
        """Make the entry of the literal."""

        def make(target: Target) -> Iterator[Spoiled]:
            """Write it in each slot."""
            for slot in _slots_of(target, sort):
                value = literal(_inside(slot.value))
                yield spoiled(target.completion(slot.cut(value) if cut else slot.write(value)), slot.at)

        return entry_of(literal, make, Kind.JSON, code, WRITTEN)

    return decorate


def _member_fault(code: str, *, cut: bool = False) -> Callable[[Callable[[str, str], str]], Entry]:
    """Write each member anew, given its name and its value as they are written; with ``cut`` the text ends there."""

    def decorate(member: Callable[[str, str], str]) -> Entry:
        """Make the entry of the member."""

        def make(target: Target) -> Iterator[Spoiled]:
            """Write it in each slot."""
            for slot in members(target):
                text = member(slot.key, written(slot.value))
                yield spoiled(target.completion(slot.before + text if cut else slot.write_member(text)), slot.at)

        return entry_of(member, make, Kind.JSON, code, WRITTEN)

    return decorate


def _slots_of(target: Target, sort: _Sort) -> list[Slot]:
    """Choose the values of a sort, else the first of another sort, else one that the model made up."""
    every = slots(target) or [invented_member(target)]
    return [slot for slot in every if sort in {"any", _sort_of(slot.value)}] or every[:1]


def _sort_of(value: JSON) -> _Sort:
    """Tell numbers, strings and the words of JSON; containers are of no sort."""
    match value:
        case None | bool():
            return "word"
        case int() | float():
            return "number"
        case str():
            return "string"
        case _:
            return "any"


def _inside(value: JSON) -> str:
    """Give the inside of a string as it is written, the canary for anything else."""
    return written(value)[1:-1] if isinstance(value, str) else CANARY


# Numbers


@_value_fault("json.not_finite", "number")
def nan(_: str) -> str:
    """NaN stands for a number, as Python's json writes it."""
    return "NaN"


@_value_fault("json.not_finite", "number")
def infinity(_: str) -> str:
    """Infinity stands for a number."""
    return "Infinity"


@_value_fault("json.not_finite", "number")
def negative_infinity(_: str) -> str:
    """-Infinity stands for a number."""
    return "-Infinity"


@_value_fault("json.not_finite", "number")
def number_overflow(_: str) -> str:
    """A number is beyond the largest double: 1e400."""
    return "1e400"


@_value_fault("json.number_too_long", "number")
def long_integer(_: str) -> str:
    """An integer has 5,000 digits."""
    return "7" * max(5_000, MAX_NUMBER_DIGITS + 1)


@_value_fault("json.syntax", "number")
def leading_zero(_: str) -> str:
    """A number starts with a zero: 007."""
    return "007"


@_value_fault("json.syntax", "number")
def leading_plus(_: str) -> str:
    """A number starts with a plus sign: +7."""
    return "+7"


@_value_fault("json.syntax", "number")
def hex_number(_: str) -> str:
    """A number is hexadecimal: 0x1F."""
    return "0x1F"


@_value_fault("json.syntax", "number")
def bare_decimal_point(_: str) -> str:
    """A fraction has no digit before its point: .5."""
    return ".5"


@_value_fault("json.syntax", "number")
def trailing_decimal_point(_: str) -> str:
    """A number ends with its point: 5. and nothing more."""
    return "5."


@_value_fault("json.syntax", "number")
def digit_separator(_: str) -> str:
    """The digits of a number are grouped as in program code: 1_000."""
    return "1_000"


@_value_fault("json.syntax", "number")
def fullwidth_digit(_: str) -> str:
    """A digit is the full-width one of East Asian typefaces."""
    return "\uff17"


@_value_fault("json.syntax", "number")
def arithmetic(_: str) -> str:
    """A calculation stands where its result should: 60 * 24."""
    return "60 * 24"


@_value_fault("json.syntax", "number")
def number_with_unit(_: str) -> str:
    """A number carries its unit: 5 km."""
    return "5 km"


# Words


@_value_fault("json.syntax", "word")
def python_literal(_: str) -> str:
    """A word of Python stands for true, false or null."""
    return "None"


@_value_fault("json.syntax", "word")
def undefined(_: str) -> str:
    """JavaScript's undefined stands for a value."""
    return "undefined"


# Strings


@_value_fault("json.syntax", "string")
def single_quotes(inside: str) -> str:
    """A string is in single quotes."""
    return f"'{inside}'"


@_value_fault("json.syntax", "string")
def backticks(inside: str) -> str:
    """A string is in backticks, as a template literal of JavaScript."""
    return f"`{inside}`"


@_value_fault("json.syntax", "string")
def triple_quotes(inside: str) -> str:
    """A string is in triple quotes, as in Python."""
    return f'"""{inside}"""'


@_value_fault("json.syntax", "string")
def unquoted_string(_: str) -> str:
    """A string has no quotes."""
    return CANARY


@_value_fault("json.syntax", "string")
def unescaped_quotes(inside: str) -> str:
    """A string quotes a word and does not escape the quotes."""
    return f'"{inside} "{CANARY}""'


@_value_fault("json.syntax", "string")
def raw_newline(inside: str) -> str:
    """A string runs over two lines."""
    return f'"{inside}\n{CANARY}"'


@_value_fault("json.syntax", "string")
def raw_control_character(inside: str) -> str:
    """A string holds a control character as it is: U+001B, which starts a terminal's escape sequences."""
    return f'"{inside}\x1b[31m"'


@_value_fault("json.syntax", "string")
def bad_escape(inside: str) -> str:
    r"""A backslash is not escaped, as in a regular expression or a Windows path: \d."""
    return rf'"{inside}\d+"'


@_value_fault("json.syntax", "string")
def escaped_apostrophe(inside: str) -> str:
    r"""An apostrophe is escaped, as in JavaScript: \'."""
    return rf'"{inside}\'s"'


@_value_fault("json.syntax", "string")
def braced_unicode_escape(inside: str) -> str:
    r"""A character is escaped as in JavaScript or Rust: \u{1F600}."""
    return rf'"{inside}\u{{1F600}}"'


@_value_fault("json.surrogate", "string")
def lone_high_surrogate(inside: str) -> str:
    r"""The first half of a surrogate pair is escaped, the second is missing: \ud83d."""
    return rf'"{inside}\ud83d"'


@_value_fault("json.surrogate", "string")
def lone_low_surrogate(inside: str) -> str:
    r"""The second half of a surrogate pair is escaped, the first is missing: \ude00."""
    return rf'"\ude00{inside}"'


@_value_fault("json.syntax", "string")
def string_concatenation(inside: str) -> str:
    """A string is put together by an expression of program code."""
    return f'"{inside}" + "{CANARY}".repeat(3)'


# Any value


@_value_fault("json.syntax")
def placeholder(_: str) -> str:
    """A template's placeholder was not filled in: <your value>."""
    return f"<your {CANARY}>"


@_value_fault("json.syntax")
def python_tuple(inside: str) -> str:
    """A tuple of Python stands for a value."""
    return f'("{inside}", 1)'


@_value_fault("json.syntax")
def trailing_comma_in_array(inside: str) -> str:
    """A comma stands before the closing bracket of an array."""
    return f'["{inside}",]'


@_value_fault("json.duplicate_key")
def nested_duplicate_key(inside: str) -> str:
    """An object inside the value names the same key twice."""
    return f'{{"{CANARY}": "{inside}", "{CANARY}": 1}}'


@_value_fault("json.too_deep", "first")
def too_deep(_: str) -> str:
    """Arrays are nested deeper than any cap."""
    return "[" * (DEFAULT_LIMITS.depth + 1) + "]" * (DEFAULT_LIMITS.depth + 1)


@_value_fault("json.too_large", "first")
def too_large(inside: str) -> str:
    """A string makes the text larger than its cap: a little more than 1 MB."""
    return f'"{inside}{"x" * DEFAULT_LIMITS.reply_bytes}"'


@_value_fault("json.too_many_nodes", "first")
def too_many_values(_: str) -> str:
    """An array holds more values than any cap: a little more than 100,000."""
    return f"[{'0,' * DEFAULT_LIMITS.nodes}0]"


# Cut


@_value_fault("json.incomplete", "string", cut=True)
def cut_in_string(inside: str) -> str:
    """The text ends inside a string."""
    return f'"{inside}'


@_value_fault("json.incomplete", "string", cut=True)
def cut_in_escape(inside: str) -> str:
    """The text ends inside an escape."""
    return rf'"{inside}\u00'


@_value_fault("json.incomplete", "number", cut=True)
def cut_in_number(_: str) -> str:
    """The text ends after the point of a number."""
    return "12."


@_value_fault("json.incomplete", "word", cut=True)
def cut_in_word(_: str) -> str:
    """The text ends inside true, false or null."""
    return "tru"


# Members


@_member_fault("json.duplicate_key")
def duplicate_key(key: str, value: str) -> str:
    """An object names the same key twice, with another value: parsers take the first or the last."""
    return f'{key}: {value}, {key}: "{CANARY}"'


@_member_fault("json.duplicate_key")
def escaped_duplicate_key(key: str, value: str) -> str:
    """An object names the same key twice, once with its first letter escaped."""
    return f'{key}: {value}, "\\u{ord(key[1]):04x}{key[2:]}: "{CANARY}"'


@_member_fault("json.syntax")
def unquoted_key(key: str, value: str) -> str:
    """A key has no quotes, as in JavaScript."""
    return f"{key[1:-1]}: {value}"


@_member_fault("json.syntax")
def missing_colon(key: str, value: str) -> str:
    """No colon stands between a key and its value."""
    return f"{key} {value}"


@_member_fault("json.syntax")
def missing_value(key: str, _: str) -> str:
    """Nothing follows a key and its colon."""
    return f"{key}: "


@_member_fault("json.syntax")
def block_comment(key: str, value: str) -> str:
    """A comment stands before a value: /* … */."""
    return f"{key}: /* {CANARY} */ {value}"


@_member_fault("json.syntax")
def line_comment(key: str, value: str) -> str:
    """A comment stands after a value, up to the end of the line: // …."""
    return f"{key}: {value} // {CANARY}\n"


@_member_fault("json.incomplete", cut=True)
def cut_after_key(key: str, _: str) -> str:
    """The text ends after a key and its colon."""
    return f"{key}:"
