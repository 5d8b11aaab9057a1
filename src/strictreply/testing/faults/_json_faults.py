r"""Faults of a reply's JSON text: instead of it, around it, within it, in one of its values, or where it breaks off.

A strict reader refuses them before any schema is asked. A row of a table is ``name = factory(code, summary, change)``.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import ReplyPlace, Target
from strictreply.testing.faults._catalogue import WRITTEN, Entry, Spoiled, written
from strictreply.values._issues import pointer
from strictreply.values._json import JSON
from strictreply.values._limits import DEFAULT_LIMITS, MAX_NUMBER_DIGITS

Rewriting: TypeAlias = str | Callable[[str], str]
"""Another text for a text: always the same, or made from what stands there."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one value in the text of a reply.

    ``at`` is its JSON Pointer in the arguments or the answer. ``key`` is the name of the member as it is written,
    quotes included; empty for an item of an array, and for a value that stands alone.
    """

    at: str
    key: str
    value: JSON
    before: str
    after: str

    def write(self, value: str) -> str:
        """Return the whole text, with this in place of the value."""
        return self.cut(value) + self.after

    def write_member(self, member: str) -> str:
        """Return the whole text, with this in place of the member, its name included."""
        return self.before + member + self.after

    def cut(self, value: str) -> str:
        """Return the text as far as this in place of the value."""
        return f"{self.before}{f'{self.key}: ' if self.key else ''}{value}"


def slots(target: Target) -> list[Slot]:
    """Return every member or item of the arguments or the answer, or the value itself when it holds none."""
    before, after = _around(target)
    match target.value:
        case dict() as members:
            named = [(pointer("", key), written(key), member) for key, member in members.items()]
            return list(_in_row(named, before, after, "{}"))
        case list() as items:
            return list(_in_row([(f"/{index}", "", item) for index, item in enumerate(items)], before, after, "[]"))
        case scalar:
            return [Slot("", "", scalar, before, after)]


def members(target: Target) -> list[Slot]:
    """Return the members of the arguments or the answer, or one that the model made up when there is none."""
    return [slot for slot in slots(target) if slot.key] or [invented_member(target)]


def invented_member(target: Target) -> Slot:
    """Return the only member of an object that the model made up: its name is free, its value a text."""
    before, after = _around(target)
    return Slot("", written(CANARY), CANARY, f"{before}{{", f"}}{after}")


def _around(target: Target) -> tuple[str, str]:
    before, _, after = target.text("here").rpartition(written("here"))
    return before, after


def _in_row(values: list[tuple[str, str, JSON]], before: str, after: str, brackets: str) -> Iterator[Slot]:
    texts = [(f"{key}: " if key else "") + written(value) for _, key, value in values]
    for index, (at, key, value) in enumerate(values):
        left = "".join(f"{text}, " for text in texts[:index])
        right = "".join(f", {text}" for text in texts[index + 1 :])
        yield Slot(at, key, value, f"{before}{brackets[0]}{left}", f"{right}{brackets[1]}{after}")


_Sort: TypeAlias = Literal["number", "string", "word", "any", "first"]


def _literal(sort: _Sort, code: str, summary: str, literal: Rewriting, *, cut: bool = False) -> Entry:
    """Put a literal in place of each value of one sort, else of the first value; with ``cut`` the text ends there.

    A function is given the inside of a string as it is written, without its quotes, and the canary for other values.
    """

    def make(target: Target) -> Iterator[Spoiled]:
        every = slots(target) or [invented_member(target)]
        for slot in [slot for slot in every if sort in {"any", _sort_of(slot.value)}] or every[:1]:
            inside = written(slot.value)[1:-1] if isinstance(slot.value, str) else CANARY
            value = _rewritten(literal, inside)
            yield Spoiled.of(target.completion(slot.cut(value) if cut else slot.write(value)), slot.at)

    return Entry("", Kind.JSON, code, summary, WRITTEN, make)


def _member(code: str, summary: str, member: Callable[[str, str], str], *, cut: bool = False) -> Entry:
    """Write each member anew, given its name and its value as they are written; with ``cut`` the text ends there."""

    def make(target: Target) -> Iterator[Spoiled]:
        for slot in members(target):
            text = member(slot.key, written(slot.value))
            yield Spoiled.of(target.completion(slot.before + text if cut else slot.write_member(text)), slot.at)

    return Entry("", Kind.JSON, code, summary, WRITTEN, make)


def _text(code: str, summary: str, text: Rewriting, places: tuple[ReplyPlace, ...] = WRITTEN) -> Entry:
    """Write the whole text anew; where that changes nothing, the text of an object that the model made up."""

    def make(target: Target) -> Iterator[Spoiled]:
        texts = (target.text(target.value), target.text({CANARY: CANARY}))
        changed = (after for before in texts if (after := _rewritten(text, before)) != before)
        for first in [*changed][:1]:
            yield Spoiled.of(target.completion(first))

    return Entry("", Kind.JSON, code, summary, places, make)


def _rewritten(rewriting: Rewriting, text: str) -> str:
    return rewriting if isinstance(rewriting, str) else rewriting(text)


def _sort_of(value: JSON) -> _Sort:
    match value:
        case None | bool():
            return "word"
        case int() | float():
            return "number"
        case str():
            return "string"
        case _:
            return "any"  # an array or an object


_number = partial(_literal, "number")
_string = partial(_literal, "string")
_word = partial(_literal, "word")
_any_value = partial(_literal, "any")
_first_value = partial(_literal, "first")

# Numbers

nan: Entry = _number("json.not_finite", "NaN stands for a number, as Python's json writes it.", "NaN")
infinity: Entry = _number("json.not_finite", "Infinity stands for a number.", "Infinity")
negative_infinity: Entry = _number("json.not_finite", "-Infinity stands for a number.", "-Infinity")
number_overflow: Entry = _number("json.not_finite", "A number is beyond the largest double: 1e400.", "1e400")
long_integer: Entry = _number(
    "json.number_too_long", "An integer has 5,000 digits.", "7" * max(5_000, MAX_NUMBER_DIGITS + 1)
)
leading_zero: Entry = _number("json.syntax", "A number starts with a zero: 007.", "007")
leading_plus: Entry = _number("json.syntax", "A number starts with a plus sign: +7.", "+7")
hex_number: Entry = _number("json.syntax", "A number is hexadecimal: 0x1F.", "0x1F")
bare_decimal_point: Entry = _number("json.syntax", "A fraction has no digit before its point: .5.", ".5")
trailing_decimal_point: Entry = _number("json.syntax", "A number ends with its point: 5. and nothing more.", "5.")
digit_separator: Entry = _number(
    "json.syntax", "The digits of a number are grouped as in program code: 1_000.", "1_000"
)
fullwidth_digit: Entry = _number("json.syntax", "A digit is the full-width one of East Asian typefaces.", "\uff17")
arithmetic: Entry = _number("json.syntax", "A calculation stands where its result should: 60 * 24.", "60 * 24")
number_with_unit: Entry = _number("json.syntax", "A number carries its unit: 5 km.", "5 km")

# Words

python_literal: Entry = _word("json.syntax", "A Python literal stands for true, false or null.", "None")
undefined: Entry = _word("json.syntax", "JavaScript's undefined stands for a value.", "undefined")

# Strings

single_quotes: Entry = _string("json.syntax", "A string is in single quotes.", lambda inside: f"'{inside}'")
backticks: Entry = _string(
    "json.syntax", "A string is in backticks, as a template literal of JavaScript.", lambda inside: f"`{inside}`"
)
triple_quotes: Entry = _string(
    "json.syntax", "A string is in triple quotes, as in Python.", lambda inside: f'"""{inside}"""'
)
unquoted_string: Entry = _string("json.syntax", "A string has no quotes.", CANARY)
unescaped_quotes: Entry = _string(
    "json.syntax", "A string quotes a word and does not escape the quotes.", lambda inside: f'"{inside} "{CANARY}""'
)
raw_newline: Entry = _string("json.syntax", "A string runs over two lines.", lambda inside: f'"{inside}\n{CANARY}"')
raw_control_character: Entry = _string(
    "json.syntax",
    "A string holds a control character as it is: U+001B, which starts a terminal's escape sequences.",
    lambda inside: f'"{inside}\x1b[31m"',
)
bad_escape: Entry = _string(
    "json.syntax",
    r"A backslash is not escaped, as in a regular expression or a Windows path: \d.",
    lambda inside: rf'"{inside}\d+"',
)
escaped_apostrophe: Entry = _string(
    "json.syntax", r"An apostrophe is escaped, as in JavaScript: \'.", lambda inside: rf'"{inside}\'s"'
)
braced_unicode_escape: Entry = _string(
    "json.syntax",
    r"A character is escaped as in JavaScript or Rust: \u{1F600}.",
    lambda inside: rf'"{inside}\u{{1F600}}"',
)
lone_high_surrogate: Entry = _string(
    "json.surrogate",
    r"The first half of a surrogate pair is escaped, the second is missing: \ud83d.",
    lambda inside: rf'"{inside}\ud83d"',
)
lone_low_surrogate: Entry = _string(
    "json.surrogate",
    r"The second half of a surrogate pair is escaped, the first is missing: \ude00.",
    lambda inside: rf'"\ude00{inside}"',
)
string_concatenation: Entry = _string(
    "json.syntax",
    "A string is put together by an expression of program code.",
    lambda inside: f'"{inside}" + "{CANARY}".repeat(3)',
)

# Any value

placeholder: Entry = _any_value(
    "json.syntax", "A template's placeholder was not filled in: <your value>.", f"<your {CANARY}>"
)
python_tuple: Entry = _any_value("json.syntax", "A Python tuple stands for a value.", lambda inside: f'("{inside}", 1)')
trailing_comma_in_array: Entry = _any_value(
    "json.syntax", "A comma stands before the closing bracket of an array.", lambda inside: f'["{inside}",]'
)
nested_duplicate_key: Entry = _any_value(
    "json.duplicate_key",
    "An object inside the value names the same key twice.",
    lambda inside: f'{{"{CANARY}": "{inside}", "{CANARY}": 1}}',
)
too_deep: Entry = _first_value(
    "json.too_deep",
    "Arrays are nested deeper than any cap.",
    "[" * (DEFAULT_LIMITS.depth + 1) + "]" * (DEFAULT_LIMITS.depth + 1),
)
too_large: Entry = _first_value(
    "json.too_large",
    "A string makes the text larger than its cap: a little more than 1 MB.",
    lambda inside: f'"{inside}{"x" * DEFAULT_LIMITS.reply_bytes}"',
)
too_many_values: Entry = _first_value(
    "json.too_many_nodes",
    "An array holds more values than any cap: a little more than 100,000.",
    lambda _: f"[{'0,' * DEFAULT_LIMITS.nodes}0]",
)

# Cut

cut_in_string: Entry = _string(
    "json.incomplete", "The text ends inside a string.", lambda inside: f'"{inside}', cut=True
)
cut_in_escape: Entry = _string(
    "json.incomplete", "The text ends inside an escape.", lambda inside: rf'"{inside}\u00', cut=True
)
cut_in_number: Entry = _number("json.incomplete", "The text ends after the point of a number.", "12.", cut=True)
cut_in_word: Entry = _word("json.incomplete", "The text ends inside true, false or null.", "tru", cut=True)

# Members

duplicate_key: Entry = _member(
    "json.duplicate_key",
    "An object names the same key twice, with another value: parsers take the first or the last.",
    lambda key, value: f'{key}: {value}, {key}: "{CANARY}"',
)
escaped_duplicate_key: Entry = _member(
    "json.duplicate_key",
    "An object names the same key twice, once with its first letter escaped.",
    lambda key, value: f'{key}: {value}, "\\u{ord(key[1]):04x}{key[2:]}: "{CANARY}"',
)
unquoted_key: Entry = _member(
    "json.syntax", "A key has no quotes, as in JavaScript.", lambda key, value: f"{key[1:-1]}: {value}"
)
missing_colon: Entry = _member(
    "json.syntax", "No colon stands between a key and its value.", lambda key, value: f"{key} {value}"
)
missing_value: Entry = _member("json.syntax", "Nothing follows a key and its colon.", lambda key, _: f"{key}: ")
block_comment: Entry = _member(
    "json.syntax", "A comment stands before a value: /* … */.", lambda key, value: f"{key}: /* {CANARY} */ {value}"
)
line_comment: Entry = _member(
    "json.syntax",
    "A comment stands after a value, up to the end of the line: // ….",
    lambda key, value: f"{key}: {value} // {CANARY}\n",
)
cut_after_key: Entry = _member(
    "json.incomplete", "The text ends after a key and its colon.", lambda key, _: f"{key}:", cut=True
)

# Instead of the JSON


def _members_of(text: str) -> list[tuple[str, Any]]:
    value = json.loads(text)
    return list(value.items()) if isinstance(value, dict) else []


def _as_python_call(text: str) -> str:
    return f"dict({', '.join(f'{key}={value!r}' for key, value in _members_of(text))})"


def _as_xml(text: str) -> str:
    elements = (f"<parameter={key}>{html.escape(str(value))}</parameter>" for key, value in _members_of(text))
    return f"<function>{''.join(elements)}</function>"


def _as_yaml(text: str) -> str:
    return "\n".join(f"{key}: {written(value)}" for key, value in _members_of(text)) or text


empty_text: Entry = _text(  # an empty content is no reply at all: see empty_content
    "json.empty", "The text is empty.", "", ("call", "union")
)
blank_text: Entry = _text("json.empty", "The text is white space.", " \n")
prose: Entry = _text(
    "json.syntax",
    "The model thinks aloud where JSON belongs.",
    f"We need to call it now. The {CANARY} was asked for, so let me do that.",
)
python_repr: Entry = _text(
    "json.syntax",
    "The text is what Python's repr gives: single quotes, True, False and None.",
    lambda text: repr(json.loads(text)),
)
python_call: Entry = _text("json.syntax", "The text is a call in Python, with keyword arguments.", _as_python_call)
xml: Entry = _text("json.syntax", "The text is XML, an element for each member.", _as_xml)
yaml: Entry = _text("json.syntax", "The text is YAML, a line for each member.", _as_yaml)
base64_text: Entry = _text(
    "json.syntax", "The text is encoded as base64.", lambda text: base64.b64encode(text.encode()).decode()
)
whitespace_flood: Entry = _text(
    "json.incomplete",
    "After the opening bracket only line breaks come, a known failure of JSON modes.",
    lambda text: text[:1] + "\n" * 2_000 if text[:1] in {"{", "["} else text,
)

# Around the JSON

prose_before: Entry = _text(
    "json.syntax",
    "A sentence stands before the JSON.",
    lambda text: f"Sure! Here is the {CANARY} you asked for:\n\n{text}",
)
prose_after: Entry = _text(
    "json.trailing_data",
    "A sentence stands after the JSON.",
    lambda text: f"{text}\n\nLet me know if you need more {CANARY}.",
)
fenced: Entry = _text("json.syntax", "The JSON is in a Markdown fence.", lambda text: f"```json\n{text}\n```")
think_block: Entry = _text(
    "json.syntax",
    "The model's thoughts stand before the JSON, in think tags.",
    lambda text: f"<think>\nThe user wants {CANARY}.\n</think>\n\n{text}",
)
tool_call_tags: Entry = _text(
    "json.syntax",
    "The JSON is in tool_call tags that the server did not remove.",
    lambda text: f"<tool_call>\n{text}\n</tool_call>",
)
template_token: Entry = _text(
    "json.trailing_data", "A token of the chat template stands after the JSON.", lambda text: f"{text}<|im_end|>"
)
byte_order_mark: Entry = _text("json.syntax", "A byte order mark stands before the JSON.", lambda text: f"\ufeff{text}")
nul_byte: Entry = _text(
    "json.trailing_data", "A NUL stands after the JSON, as a program in C ends a text.", lambda text: f"{text}\x00"
)
empty_object_before: Entry = _text(
    "json.several_values",
    "An empty object stands before the JSON, left there by a server that joined the pieces of a stream.",
    lambda text: f"{{}}{text}",
)
json_lines: Entry = _text("json.several_values", "Two JSON values stand on two lines.", lambda text: f"{text}\n{text}")
extra_closing_bracket: Entry = _text(
    "json.trailing_data",
    "One more bracket is closed than was opened.",
    lambda text: text + text[-1] if text[-1] in "}]" else text,
)

# Within the JSON


def _before_brace(more: str) -> Callable[[str], str]:
    """Put a text before the brace that closes an object, unless it is empty."""
    return lambda text: f"{text[:-1]}{more}}}" if text[-1] == "}" and text != "{}" else text


def _after_bracket(more: str) -> Callable[[str], str]:
    return lambda text: text[0] + more + text[1:] if text[0] in "{[" else text


missing_closing_bracket: Entry = _text(
    "json.incomplete", "The last bracket is not closed.", lambda text: text[:-1] if text[-1] in "}]" else text
)
missing_opening_brace: Entry = _text(
    "json.syntax",
    "The first brace is missing, as when a server prefills it and leaves it out of the reply.",
    lambda text: text.removeprefix("{"),
)
mismatched_bracket: Entry = _text(
    "json.syntax",
    "An object is closed by the bracket of an array, or the other way round.",
    lambda text: text[:-1] + text[-1].translate(str.maketrans("}]", "]}")),
)
trailing_comma: Entry = _text(
    "json.syntax", "A comma stands before the closing brace of an object.", _before_brace(",")
)
missing_comma: Entry = _text("json.syntax", "No comma stands between two members.", _before_brace(f' "{CANARY}": true'))
ellipsis: Entry = _text("json.syntax", "Three dots stand for what the model left out.", _before_brace(", ..."))
smart_quotes: Entry = _text(
    "json.syntax",
    "Keys and strings are in typographic quotes.",
    lambda text: re.sub(r'"((?:[^"\\]|\\.)*)"', r"“\1”", text),
)
html_escaped: Entry = _text("json.syntax", "The quotes are escaped as in HTML.", html.escape)
escaped_quotes: Entry = _text(
    "json.syntax",
    "The quotes are escaped as if the text stood in a string, but it does not.",
    lambda text: text.replace('"', '\\"'),
)
escaped_line_breaks: Entry = _text(
    "json.syntax", r"The escape \n stands between the members, not a line break.", _after_bracket(r"\n  ")
)
no_break_space: Entry = _text(
    "json.syntax", "The white space between the members is a no-break space.", _after_bracket("\u00a0")
)
