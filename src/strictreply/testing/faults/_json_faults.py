"""Faults of a reply's JSON text, which a strict parser refuses before the schema is used."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from string import Template
from typing import Any, Literal, NamedTuple, TypeAlias

from strictreply.core import DEFAULT_LIMITS, JSON
from strictreply.core.judging import MAX_NUMBER_DIGITS
from strictreply.core.text import pointer
from strictreply.testing._steps import CANARY, Kind, ReplyPlace, Target
from strictreply.testing.faults._catalogue import WRITTEN, Entry, Reading, Spoiled, written

# Stands for a value while its place in a text is looked for.
_MARK = f"the place of a value {CANARY}"


class Slot(NamedTuple):
    """One value, and the text of the reply around it."""

    at: str
    """JSON Pointer of the value."""
    key: str
    """Name of the member as written; empty for an item or the whole."""
    value: JSON
    """The value."""
    before: str
    """The text of the reply up to the value."""
    after: str
    """The text of the reply after the value."""


def _slot(target: Target, marked: JSON, value: JSON, at: str = "", key: str = "") -> Slot:
    """Find the place of a value in the text of a whole that has the mark there."""
    before, _, after = target.text(marked).partition(written(_MARK))
    return Slot(at, key, value, before, after)


def slots(target: Target) -> list[Slot]:
    """Return every member or item of the arguments or the answer.

    A value that is neither an object nor an array is returned itself.
    """
    match target.value:
        case dict() as members:
            return [
                _slot(target, {**members, key: _MARK}, value, pointer("", key), written(key))
                for key, value in members.items()
            ]
        case list() as items:
            found: list[Slot] = []
            for index, item in enumerate(items):
                marked = [*items[:index], _MARK, *items[index + 1 :]]
                found.append(_slot(target, marked, item, f"/{index}"))
            return found
        case scalar:
            return [_slot(target, _MARK, scalar)]


_Sort: TypeAlias = Literal["number", "string", "word", "any", "first", "member"]
_SORTS: dict[type, _Sort] = {
    type(None): "word",
    bool: "word",
    int: "number",
    float: "number",
    str: "string",
}


def _literal(
    sort: _Sort, summary: str, literal: str, code: str = "json.syntax", *, cut: bool = False
) -> Entry:
    """Put a literal in place of each value of one sort, else of the first value.

    With ``cut`` the text ends there. ``$text`` is the inside of a string, or the canary. In place
    of a ``member``, ``$key`` and ``$value`` are as written, ``$name`` is the key without quotes,
    ``$escaped`` the key with its first letter escaped. The other names are those of
    :func:`_spellings`.
    """

    def make(target: Target) -> Iterator[Spoiled]:
        every = [one for one in slots(target) if one.key or sort != "member"]
        if not every:
            # The only member of an object that the model made up: a free name, and a text.
            every.append(_slot(target, {CANARY: _MARK}, CANARY, key=written(CANARY)))

        of_sort = [one for one in every if sort in {"any", "member", _SORTS.get(type(one.value))}]
        for slot in of_sort or every[:1]:
            key = slot.key
            value = written(slot.value)
            parts = {
                "key": key,
                "value": value,
                "text": value[1:-1] if isinstance(slot.value, str) else CANARY,
                **_spellings(slot.value),
            }
            if key:
                parts |= {"name": key[1:-1], "escaped": f'"\\u{ord(key[1]):04x}{key[2:]}'}

            before = slot.before.removesuffix(f"{key}: ") if sort == "member" else slot.before
            text = before + Template(literal).substitute(parts)
            yield Spoiled(target.completion(text if cut else text + slot.after), slot.at)

    return Entry("", Kind.JSON, code, summary, WRITTEN, make)


_FULL_WIDTH = {ord("0") + digit: 0xFF10 + digit for digit in range(10)}


def _spellings(value: JSON) -> dict[str, str]:
    """Spell one value in the ways of other languages.

    In place of a value of another type stands a made-up number, word, string or array.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    number: Any = value if is_number else 7
    text = written(number)
    sign = "-" if text.startswith("-") else ""
    digits = text.removeprefix("-")
    magnitude = abs(number)
    hexadecimal = f"0x{magnitude:X}" if isinstance(magnitude, int) else magnitude.hex()
    grouped = f"{number:_}"

    is_word = value is None or isinstance(value, bool)
    bare = written(value)[1:-1] if isinstance(value, str) else ""
    items = written(value)[1:-1] if isinstance(value, list) else ""
    return {
        "number": text,
        "zeros": f"{sign}0{digits}",
        "plus": f"+{text}",
        "hex": f"{sign}{hexadecimal}",
        "bare": f"{sign}{_without_leading_digit(digits)}",
        "trailing": f"{text.partition('.')[0]}.",
        "grouped": grouped if "_" in grouped else f"{sign}0_{digits}",
        "wide": text.translate(_FULL_WIDTH),
        "python": str(value) if is_word else "True",
        "word": written(value)[:-1] if is_word else "tru",
        "unquoted": CANARY if _is_json(bare) else bare,
        "items": items or f'"{bare or CANARY}", 1',
        "array": f"[{items}" if items else f'["{bare or CANARY}"',
    }


def _without_leading_digit(digits: str) -> str:
    """Write a positive number with nothing before its point: 29.9 as .299e2."""
    if digits.startswith("0."):
        return digits[1:]

    _, figures, exponent = Decimal(digits).as_tuple()
    return f".{''.join(map(str, figures))}e{len(figures) + int(exponent)}"


def _is_json(text: str) -> bool:
    """Report whether a text is JSON, or nothing."""
    try:
        json.loads(text or "null")
    except ValueError:
        return False

    return True


_Rewrite: TypeAlias = Callable[[str], str]


def _text(
    summary: str,
    text: str | _Rewrite,
    code: str = "json.syntax",
    places: tuple[ReplyPlace, ...] = WRITTEN,
    reading: Reading = Reading.REFUSED,
) -> Entry:
    """Write the whole text anew.

    Where that changes nothing, the text of an object that the model made up is written instead.
    """

    def make(target: Target) -> Iterator[Spoiled]:
        for before in (target.text(target.value), target.text({CANARY: CANARY})):
            after = text(before) if callable(text) else Template(text).substitute(text=before)
            if after != before:
                yield Spoiled(target.completion(after))
                return

    return Entry("", Kind.JSON, code, summary, places, make, reading=reading)


def _of_members(between: str, member: Callable[[str, Any], str]) -> _Rewrite:
    """Write each member of an object, if it is one, in another format."""

    def write(text: str) -> str:
        value = json.loads(text)
        if not isinstance(value, dict):
            return ""
        return between.join(member(*each) for each in value.items())

    return write


def _at_end(rewrite: _Rewrite) -> _Rewrite:
    """Write the last character anew where it is a bracket."""
    return lambda text: text[:-1] + rewrite(text[-1]) if text[-1] in "}]" else text


def _before_brace(more: str) -> _Rewrite:
    """Put a text before the brace that closes an object, unless it is empty."""
    return lambda text: f"{text[:-1]}{more}}}" if text[-1] == "}" and text != "{}" else text


def _after_bracket(more: str) -> _Rewrite:
    return lambda text: text[0] + more + text[1:] if text[0] in "{[" else text


_number = partial(_literal, "number")
_infinite = partial(_number, code="json.not_finite")
_string = partial(_literal, "string")
_surrogate = partial(_string, code="json.surrogate")
_word = partial(_literal, "word")
_any = partial(_literal, "any")
_first = partial(_literal, "first")
_member = partial(_literal, "member")
_repeated = partial(_member, code="json.duplicate_key")
_trailing = partial(_text, code="json.trailing_data")
_several = partial(_text, code="json.several_values")
_incomplete = partial(_text, code="json.incomplete")

# Numbers
nan: Entry = _infinite("A number is written as NaN, as Python's json module does.", "NaN")
infinity: Entry = _infinite("A number is written as Infinity.", "Infinity")
negative_infinity: Entry = _infinite("A number is written as -Infinity.", "-Infinity")
number_overflow: Entry = _infinite("A number is larger than the largest double: 1e400.", "1e400")
_DIGITS = max(5_000, MAX_NUMBER_DIGITS + 1)
long_integer: Entry = _number("An integer has 5,000 digits.", "7" * _DIGITS, "json.number_too_long")
leading_zero: Entry = _number("A number starts with a zero: 07.", "$zeros")
leading_plus: Entry = _number("A number starts with a plus sign: +7.", "$plus")
hex_number: Entry = _number("A number is hexadecimal: 0x1F.", "$hex")
bare_decimal_point: Entry = _number("A fraction has no digit before its point: .5.", "$bare")
trailing_decimal_point: Entry = _number("A number ends with its decimal point.", "$trailing")
digit_separator: Entry = _number(
    "The digits of a number are grouped as in program code: 1_000.", "$grouped"
)
fullwidth_digit: Entry = _number(
    "A number is written with full-width digits, as in East Asian typefaces.", "$wide"
)
arithmetic: Entry = _number("A number is written as a calculation: 7 * 1.", "$number * 1")
number_with_unit: Entry = _number("A number is followed by its unit: 5 km.", "$number km")

# Words
python_literal: Entry = _word("A value is written as in Python: True, False or None.", "$python")
undefined: Entry = _word("A value is written as JavaScript's undefined.", "undefined")

# Strings
single_quotes: Entry = _string("A string has single quotes.", "'$text'")
backticks: Entry = _string(
    "A string has backticks, like a template literal in JavaScript.", "`$text`"
)
triple_quotes: Entry = _string("A string has triple quotes, as in Python.", '"""$text"""')
unquoted_string: Entry = _string("A string has no quotes.", "$unquoted")
unescaped_quotes: Entry = _string(
    "A string contains quotes that are not escaped.", f'"$text "{CANARY}""'
)
raw_newline: Entry = _string(
    "A string contains a line break that is not escaped.", f'"$text\n{CANARY}"'
)
raw_control_character: Entry = _string(
    "A string contains a control character that is not escaped: U+001B.", '"$text\x1b[31m"'
)
bad_escape: Entry = _string(
    r"A backslash is not escaped, as in a regular expression: \d.", r'"$text\d+"'
)
escaped_apostrophe: Entry = _string(
    r"An apostrophe is escaped, as in JavaScript: \'.", r'"$text\'s"'
)
braced_unicode_escape: Entry = _string(
    r"A character is escaped as in JavaScript: \u{1F600}.", r'"$text\u{1F600}"'
)
lone_high_surrogate: Entry = _surrogate(
    r"A surrogate pair lacks its second half: \ud83d.", r'"$text\ud83d"'
)
lone_low_surrogate: Entry = _surrogate(
    r"A surrogate pair lacks its first half: \ude00.", r'"\ude00$text"'
)
string_concatenation: Entry = _string(
    "A string is written as an expression of code.", f'"$text" + "{CANARY}".repeat(3)'
)

# Any value
placeholder: Entry = _any(
    "A template's placeholder was not filled in: <your value>.", f"<your {CANARY}>"
)
python_tuple: Entry = _any("A value is written as a Python tuple.", "($items,)")
trailing_comma_in_array: Entry = _any(
    "An array has a comma before its closing bracket.", "$array,]"
)
_TWICE = f'{{"{CANARY}": "$text", "{CANARY}": 1}}'
nested_duplicate_key: Entry = _any(
    "A nested object has the same key twice.", _TWICE, "json.duplicate_key"
)
_DEPTH = DEFAULT_LIMITS.depth + 1
too_deep: Entry = _first(
    "Arrays are nested deeper than any limit allows.", "[" * _DEPTH + "]" * _DEPTH, "json.too_deep"
)
_TOO_LARGE = f'"${{text}}{"x" * DEFAULT_LIMITS.reply_bytes}"'
too_large: Entry = _first(
    "A string is larger than the limit for the whole text, about 1 MB.",
    _TOO_LARGE,
    "json.too_large",
)
_TOO_MANY = f"[{'0,' * DEFAULT_LIMITS.nodes}0]"
too_many_values: Entry = _first(
    "An array has more than 100,000 values.", _TOO_MANY, "json.too_many_nodes"
)

# Cut
cut_in_string: Entry = _string(
    "The text ends inside a string.", '"$text', "json.incomplete", cut=True
)
cut_in_escape: Entry = _string(
    "The text ends inside an escape.", r'"$text\u00', "json.incomplete", cut=True
)
cut_in_number: Entry = _number(
    "The text ends after the decimal point of a number.", "$trailing", "json.incomplete", cut=True
)
cut_in_word: Entry = _word(
    "The text ends inside true, false or null.", "$word", "json.incomplete", cut=True
)

# Members
duplicate_key: Entry = _repeated(
    "The same key is written twice; parsers differ in which value they use.",
    f'$key: $value, $key: "{CANARY}"',
)
escaped_duplicate_key: Entry = _repeated(
    "The same key is written twice, once with an escape.", f'$key: $value, $escaped: "{CANARY}"'
)
unquoted_key: Entry = _member("A key has no quotes, as in JavaScript.", "$name: $value")
missing_colon: Entry = _member("The colon between a key and its value is missing.", "$key $value")
missing_value: Entry = _member("A key has no value after its colon.", "$key: ")
block_comment: Entry = _member(
    "A value has a comment before it: /* … */.", f"$key: /* {CANARY} */ $value"
)
line_comment: Entry = _member(
    "A value has a comment after it: // ….", f"$key: $value // {CANARY}\n"
)
cut_after_key: Entry = _member(
    "The text ends after a key and its colon.", "$key:", "json.incomplete", cut=True
)

# Instead of the JSON
_keywords = _of_members(", ", "{}={!r}".format)
_elements = _of_members(
    "", lambda key, value: f"<parameter={key}>{html.escape(str(value))}</parameter>"
)
_lines = _of_members("\n", lambda key, value: f"{key}: {written(value)}")
_flooded = partial(re.sub, r"(?s)^([{\[]).*", r"\1" + "\n" * 2_000)
# An empty content is not a reply: see empty_content.
_OF_NOTHING = Reading.GOOD_WITHOUT_ARGUMENTS
empty_text: Entry = _text(
    "The text is empty.", "", "json.empty", ("call", "union"), reading=_OF_NOTHING
)
blank_text: Entry = _text("The text is only whitespace.", " \n", "json.empty", reading=_OF_NOTHING)
_THOUGHTS = f"We need to call it now. The {CANARY} was asked for, so let me do that."
prose: Entry = _text("The text is the model's reasoning, not JSON.", _THOUGHTS)
python_repr: Entry = _text(
    "The text is a Python repr: single quotes, True, None.", lambda text: repr(json.loads(text))
)
python_call: Entry = _text(
    "The text is a Python call with keyword arguments.", lambda text: f"dict({_keywords(text)})"
)
xml: Entry = _text("The text is XML.", lambda text: f"<function>{_elements(text)}</function>")
yaml: Entry = _text("The text is YAML.", lambda text: _lines(text) or text)
base64_text: Entry = _text(
    "The text is encoded as base64.", lambda text: base64.b64encode(text.encode()).decode()
)
whitespace_flood: Entry = _incomplete(
    "After the first bracket there are only line breaks; some JSON modes do this.", _flooded
)

# Around the JSON
prose_before: Entry = _text(
    "The JSON has a sentence before it.", f"Sure! Here is the {CANARY} you asked for:\n\n$text"
)
prose_after: Entry = _trailing(
    "The JSON has a sentence after it.", f"$text\n\nLet me know if you need more {CANARY}."
)
fenced: Entry = _text("The JSON is in a Markdown code fence.", "```json\n$text\n```")
_THINKING = f"<think>\nThe user wants {CANARY}.\n</think>\n\n$text"
think_block: Entry = _text(
    "The JSON has the model's reasoning before it, in think tags.", _THINKING
)
tool_call_tags: Entry = _text(
    "The JSON is in tool_call tags that the server did not remove.",
    "<tool_call>\n$text\n</tool_call>",
)
template_token: Entry = _trailing(
    "The JSON has a token of the chat template after it.", "$text<|im_end|>"
)
byte_order_mark: Entry = _text("The JSON has a byte order mark before it.", "\ufeff$text")
nul_byte: Entry = _trailing(
    "The JSON has a NUL after it, as at the end of a string in C.", "$text\x00"
)
empty_object_before: Entry = _several(
    "The JSON has an empty object before it, as when chunks are joined wrongly.", "{}$text"
)
json_lines: Entry = _several("The text is two JSON values on two lines.", "$text\n$text")

# Within the JSON
_smart = partial(re.sub, r'"((?:[^"\\]|\\.)*)"', r"“\1”")
extra_closing_bracket: Entry = _trailing(
    "The text ends with one closing bracket too many.", _at_end(lambda end: end * 2)
)
missing_closing_bracket: Entry = _incomplete(
    "The last closing bracket is missing.", _at_end(lambda _: "")
)
missing_opening_brace: Entry = _text(
    "The opening brace is missing.", lambda text: text.removeprefix("{")
)
mismatched_bracket: Entry = _text(
    "The last closing bracket is of the wrong kind.",
    _at_end(lambda end: "]" if end == "}" else "}"),
)
trailing_comma: Entry = _text("An object has a comma before its closing brace.", _before_brace(","))
missing_comma: Entry = _text(
    "The comma between two members is missing.", _before_brace(f' "{CANARY}": true')
)
ellipsis: Entry = _text("The model left out a part and wrote three dots.", _before_brace(", ..."))
smart_quotes: Entry = _text("Keys and strings have typographic quotes.", _smart)
html_escaped: Entry = _text("The quotes are written as HTML entities.", html.escape)
escaped_quotes: Entry = _text(
    "The quotes around keys and strings are escaped.", lambda text: text.replace('"', '\\"')
)
escaped_line_breaks: Entry = _text(
    r"Members are separated by the escape \n instead of a line break.", _after_bracket(r"\n  ")
)
no_break_space: Entry = _text(
    "Members are separated by a no-break space.", _after_bracket("\u00a0")
)
