r"""Faults of a reply's JSON text: instead of it, around it, within it, in one of its values, or where it breaks off.

A strict reader refuses them before any schema is asked. A row of a table is ``name = factory(summary, text, code)``:
``$text`` in it is what stood there, without the quotes of a string, ``$key`` and ``$value`` are those of a member.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from string import Template
from typing import Any, Literal, TypeAlias

from strictreply.testing._steps import CANARY, Kind, ReplyPlace, Target
from strictreply.testing.faults._catalogue import WRITTEN, Entry, Spoiled, written
from strictreply.values._issues import pointer
from strictreply.values._limits import DEFAULT_LIMITS, JSON, MAX_NUMBER_DIGITS

_MARK = f"the place of a value {CANARY}"  # stands for a value while its place in a text is looked for


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one value in the text of a reply.

    ``key`` is the member's name as it is written, empty for an item and for a value alone. ``before`` and ``after`` are
    the text around the member, its name included, or around the value.
    """

    at: str
    key: str
    value: JSON
    before: str
    after: str

    @classmethod
    def marked(cls, target: Target, whole: JSON, value: JSON, at: str = "", key: str = "") -> Slot:
        """Find the place of a value in the text of a whole that has the mark there."""
        before, _, after = target.text(whole).partition(written(_MARK))
        return cls(at, key, value, before.removesuffix(f"{key}: ") if key else before, after)

    def cut(self, value: str) -> str:
        """Return the text as far as this in place of the value."""
        return f"{self.before}{f'{self.key}: ' if self.key else ''}{value}"


def slots(target: Target) -> list[Slot]:
    """Return every member or item of the arguments or the answer, or the value itself when it holds none."""
    match target.value:
        case dict() as members:
            pairs = members.items()
            return [Slot.marked(target, {**members, k: _MARK}, v, pointer("", k), written(k)) for k, v in pairs]
        case list() as items:
            marked = (([*items[:n], _MARK, *items[n + 1 :]], item, f"/{n}") for n, item in enumerate(items))
            return [Slot.marked(target, *each) for each in marked]
        case scalar:
            return [Slot.marked(target, _MARK, scalar)]


def invented_member(target: Target) -> Slot:
    """Return the only member of an object that the model made up: its name is free, its value a text."""
    return Slot.marked(target, {CANARY: _MARK}, CANARY, key=written(CANARY))


def members(target: Target) -> list[Slot]:
    """Return the members of the arguments or the answer, or one that the model made up when there is none."""
    return [slot for slot in slots(target) if slot.key] or [invented_member(target)]


_Sort: TypeAlias = Literal["number", "string", "word", "any", "first", "member"]
_SORTS: dict[type, _Sort] = {type(None): "word", bool: "word", int: "number", float: "number", str: "string"}


def _literal(sort: _Sort, summary: str, literal: str, code: str = "json.syntax", *, cut: bool = False) -> Entry:
    """Put a literal in place of each value of one sort, else of the first value; with ``cut`` the text ends there.

    ``$text`` is the inside of a string, or the canary. In place of a ``member``, ``$key`` and ``$value`` are as
    written, ``$name`` is the key without quotes, ``$escaped`` the key with its first letter escaped. ``$other`` is
    Python's False for a good true, else True.
    """

    def make(target: Target) -> Iterator[Spoiled]:
        every = members(target) if sort == "member" else slots(target) or [invented_member(target)]
        for slot in [one for one in every if sort in {"any", "member", _SORTS.get(type(one.value))}] or every[:1]:
            key, value = slot.key, written(slot.value)
            parts = {"key": key, "value": value, "text": value[1:-1] if isinstance(slot.value, str) else CANARY}
            parts["other"] = str(slot.value is not True)
            if key:
                parts |= {"name": key[1:-1], "escaped": f'"\\u{ord(key[1]):04x}{key[2:]}'}
            text = (slot.before if sort == "member" else slot.cut("")) + Template(literal).substitute(parts)
            yield Spoiled(target.completion(text if cut else text + slot.after), slot.at)

    return Entry("", Kind.JSON, code, summary, WRITTEN, make)


def _text(
    summary: str, text: str | Callable[[str], str], code: str = "json.syntax", places: tuple[ReplyPlace, ...] = WRITTEN
) -> Entry:
    """Write the whole text anew; where that changes nothing, the text of an object that the model made up."""

    def make(target: Target) -> Iterator[Spoiled]:
        for before in (target.text(target.value), target.text({CANARY: CANARY})):
            after = text(before) if callable(text) else Template(text).substitute(text=before)
            if after != before:
                yield Spoiled(target.completion(after))
                return

    return Entry("", Kind.JSON, code, summary, places, make)


_number = partial(_literal, "number")
_string = partial(_literal, "string")
_word = partial(_literal, "word")
_any_value = partial(_literal, "any")
_first_value = partial(_literal, "first")
_member = partial(_literal, "member")
_duplicate = partial(_member, code="json.duplicate_key")
_trailing = partial(_text, code="json.trailing_data")

# Numbers
nan: Entry = _number("NaN stands for a number, as Python's json writes it.", "NaN", "json.not_finite")
infinity: Entry = _number("Infinity stands for a number.", "Infinity", "json.not_finite")
negative_infinity: Entry = _number("-Infinity stands for a number.", "-Infinity", "json.not_finite")
number_overflow: Entry = _number("A number is beyond the largest double: 1e400.", "1e400", "json.not_finite")
long_integer: Entry = _number(
    "An integer has 5,000 digits.", "7" * max(5_000, MAX_NUMBER_DIGITS + 1), "json.number_too_long"
)
leading_zero: Entry = _number("A number starts with a zero: 007.", "007")
leading_plus: Entry = _number("A number starts with a plus sign: +7.", "+7")
hex_number: Entry = _number("A number is hexadecimal: 0x1F.", "0x1F")
bare_decimal_point: Entry = _number("A fraction has no digit before its point: .5.", ".5")
trailing_decimal_point: Entry = _number("A number ends with its point: 5. and nothing more.", "5.")
digit_separator: Entry = _number("The digits of a number are grouped as in program code: 1_000.", "1_000")
fullwidth_digit: Entry = _number("A digit is the full-width one of East Asian typefaces.", "\uff17")
arithmetic: Entry = _number("A calculation stands where its result should: 60 * 24.", "60 * 24")
number_with_unit: Entry = _number("A number carries its unit: 5 km.", "5 km")

# Words
python_literal: Entry = _word(
    "A Python literal stands for true, false or null, and for another one than the good.", "$other"
)
undefined: Entry = _word("JavaScript's undefined stands for a value.", "undefined")

# Strings
single_quotes: Entry = _string("A string is in single quotes.", "'$text'")
backticks: Entry = _string("A string is in backticks, as a template literal of JavaScript.", "`$text`")
triple_quotes: Entry = _string("A string is in triple quotes, as in Python.", '"""$text"""')
unquoted_string: Entry = _string("A string has no quotes.", CANARY)
unescaped_quotes: Entry = _string("A string quotes a word and does not escape the quotes.", f'"$text "{CANARY}""')
raw_newline: Entry = _string("A string runs over two lines.", f'"$text\n{CANARY}"')
raw_control_character: Entry = _string(
    "A string holds a control character as it is: U+001B, which starts a terminal's escape sequences.",
    '"$text\x1b[31m"',
)
bad_escape: Entry = _string(
    r"A backslash is not escaped, as in a regular expression or a Windows path: \d.", r'"$text\d+"'
)
escaped_apostrophe: Entry = _string(r"An apostrophe is escaped, as in JavaScript: \'.", r'"$text\'s"')
braced_unicode_escape: Entry = _string(
    r"A character is escaped as in JavaScript or Rust: \u{1F600}.", r'"$text\u{1F600}"'
)
lone_high_surrogate: Entry = _string(
    r"The first half of a surrogate pair is escaped, the second is missing: \ud83d.", r'"$text\ud83d"', "json.surrogate"
)
lone_low_surrogate: Entry = _string(
    r"The second half of a surrogate pair is escaped, the first is missing: \ude00.", r'"\ude00$text"', "json.surrogate"
)
string_concatenation: Entry = _string(
    "A string is put together by an expression of program code.", f'"$text" + "{CANARY}".repeat(3)'
)

# Any value
placeholder: Entry = _any_value("A template's placeholder was not filled in: <your value>.", f"<your {CANARY}>")
python_tuple: Entry = _any_value("A Python tuple stands for a value.", '("$text", 1)')
trailing_comma_in_array: Entry = _any_value("A comma stands before the closing bracket of an array.", '["$text",]')
nested_duplicate_key: Entry = _any_value(
    "An object inside the value names the same key twice.",
    f'{{"{CANARY}": "$text", "{CANARY}": 1}}',
    "json.duplicate_key",
)
too_deep: Entry = _first_value(
    "Arrays are nested deeper than any cap.",
    "[" * (DEFAULT_LIMITS.depth + 1) + "]" * (DEFAULT_LIMITS.depth + 1),
    "json.too_deep",
)
too_large: Entry = _first_value(
    "A string makes the text larger than its cap: a little more than 1 MB.",
    f'"${{text}}{"x" * DEFAULT_LIMITS.reply_bytes}"',
    "json.too_large",
)
too_many_values: Entry = _first_value(
    "An array holds more values than any cap: a little more than 100,000.",
    f"[{'0,' * DEFAULT_LIMITS.nodes}0]",
    "json.too_many_nodes",
)

# Cut
cut_in_string: Entry = _string("The text ends inside a string.", '"$text', "json.incomplete", cut=True)
cut_in_escape: Entry = _string("The text ends inside an escape.", r'"$text\u00', "json.incomplete", cut=True)
cut_in_number: Entry = _number("The text ends after the point of a number.", "12.", "json.incomplete", cut=True)
cut_in_word: Entry = _word("The text ends inside true, false or null.", "tru", "json.incomplete", cut=True)

# Members
duplicate_key: Entry = _duplicate(
    "An object names the same key twice, with another value: parsers take the first or the last.",
    f'$key: $value, $key: "{CANARY}"',
)
escaped_duplicate_key: Entry = _duplicate(
    "An object names the same key twice, once with its first letter escaped.", f'$key: $value, $escaped: "{CANARY}"'
)
unquoted_key: Entry = _member("A key has no quotes, as in JavaScript.", "$name: $value")
missing_colon: Entry = _member("No colon stands between a key and its value.", "$key $value")
missing_value: Entry = _member("Nothing follows a key and its colon.", "$key: ")
block_comment: Entry = _member("A comment stands before a value: /* … */.", f"$key: /* {CANARY} */ $value")
line_comment: Entry = _member(
    "A comment stands after a value, up to the end of the line: // ….", f"$key: $value // {CANARY}\n"
)
cut_after_key: Entry = _member("The text ends after a key and its colon.", "$key:", "json.incomplete", cut=True)

# Instead of the JSON


def _of_members(between: str, member: Callable[[str, Any], str]) -> Callable[[str], str]:
    """Write each member of an object, if it is one, in another format."""

    def write(text: str) -> str:
        value = json.loads(text)
        return between.join(member(*each) for each in value.items()) if isinstance(value, dict) else ""

    return write


_keywords = _of_members(", ", "{}={!r}".format)
_elements = _of_members("", lambda key, value: f"<parameter={key}>{html.escape(str(value))}</parameter>")
_lines = _of_members("\n", lambda key, value: f"{key}: {written(value)}")

# An empty content is no reply at all: see empty_content.
empty_text: Entry = _text("The text is empty.", "", "json.empty", ("call", "union"))
blank_text: Entry = _text("The text is white space.", " \n", "json.empty")
prose: Entry = _text(
    "The model thinks aloud where JSON belongs.",
    f"We need to call it now. The {CANARY} was asked for, so let me do that.",
)
python_repr: Entry = _text(
    "The text is what Python's repr gives: single quotes, True, False and None.", lambda text: repr(json.loads(text))
)
python_call: Entry = _text(
    "The text is a call in Python, with keyword arguments.", lambda text: f"dict({_keywords(text)})"
)
xml: Entry = _text(
    "The text is XML, an element for each member.", lambda text: f"<function>{_elements(text)}</function>"
)
yaml: Entry = _text("The text is YAML, a line for each member.", lambda text: _lines(text) or text)
base64_text: Entry = _text("The text is encoded as base64.", lambda text: base64.b64encode(text.encode()).decode())
whitespace_flood: Entry = _text(
    "After the opening bracket only line breaks come, a known failure of JSON modes.",
    lambda text: text[:1] + "\n" * 2_000 if text[:1] in {"{", "["} else text,
    "json.incomplete",
)

# Around the JSON
prose_before: Entry = _text("A sentence stands before the JSON.", f"Sure! Here is the {CANARY} you asked for:\n\n$text")
prose_after: Entry = _trailing("A sentence stands after the JSON.", f"$text\n\nLet me know if you need more {CANARY}.")
fenced: Entry = _text("The JSON is in a Markdown fence.", "```json\n$text\n```")
think_block: Entry = _text(
    "The model's thoughts stand before the JSON, in think tags.",
    f"<think>\nThe user wants {CANARY}.\n</think>\n\n$text",
)
tool_call_tags: Entry = _text(
    "The JSON is in tool_call tags that the server did not remove.", "<tool_call>\n$text\n</tool_call>"
)
template_token: Entry = _trailing("A token of the chat template stands after the JSON.", "$text<|im_end|>")
byte_order_mark: Entry = _text("A byte order mark stands before the JSON.", "\ufeff$text")
nul_byte: Entry = _trailing("A NUL stands after the JSON, as a program in C ends a text.", "$text\x00")
empty_object_before: Entry = _text(
    "An empty object stands before the JSON, left there by a server that joined the pieces of a stream.",
    "{}$text",
    "json.several_values",
)
json_lines: Entry = _text("Two JSON values stand on two lines.", "$text\n$text", "json.several_values")
extra_closing_bracket: Entry = _trailing(
    "One more bracket is closed than was opened.", lambda text: text + text[-1] if text[-1] in "}]" else text
)

# Within the JSON


def _before_brace(more: str) -> Callable[[str], str]:
    """Put a text before the brace that closes an object, unless it is empty."""
    return lambda text: f"{text[:-1]}{more}}}" if text[-1] == "}" and text != "{}" else text


def _after_bracket(more: str) -> Callable[[str], str]:
    return lambda text: text[0] + more + text[1:] if text[0] in "{[" else text


missing_closing_bracket: Entry = _text(
    "The last bracket is not closed.", lambda text: text[:-1] if text[-1] in "}]" else text, "json.incomplete"
)
missing_opening_brace: Entry = _text(
    "The first brace is missing, as when a server prefills it and leaves it out of the reply.",
    lambda text: text.removeprefix("{"),
)
mismatched_bracket: Entry = _text(
    "An object is closed by the bracket of an array, or the other way round.",
    lambda text: text[:-1] + text[-1].translate(str.maketrans("}]", "]}")),
)
trailing_comma: Entry = _text("A comma stands before the closing brace of an object.", _before_brace(","))
missing_comma: Entry = _text("No comma stands between two members.", _before_brace(f' "{CANARY}": true'))
ellipsis: Entry = _text("Three dots stand for what the model left out.", _before_brace(", ..."))
smart_quotes: Entry = _text(
    "Keys and strings are in typographic quotes.", lambda text: re.sub(r'"((?:[^"\\]|\\.)*)"', r"“\1”", text)
)
html_escaped: Entry = _text("The quotes are escaped as in HTML.", html.escape)
escaped_quotes: Entry = _text(
    "The quotes are escaped as if the text stood in a string, but it does not.", lambda text: text.replace('"', '\\"')
)
escaped_line_breaks: Entry = _text(
    r"The escape \n stands between the members, not a line break.", _after_bracket(r"\n  ")
)
no_break_space: Entry = _text("The white space between the members is a no-break space.", _after_bracket("\u00a0"))
