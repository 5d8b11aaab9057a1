"""Faults of the text of a reply as a whole: what stands around the JSON, instead of it, or between its parts."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Place, Target
from strictreply.testing.faults._catalogue import WRITTEN, Entry, Spoiled
from strictreply.testing.faults._making import entry_of, spoiled
from strictreply.testing.faults._writing import written
from strictreply.values._json import JSON

_MADE_UP: JSON = {CANARY: CANARY}
"""What is spoiled when the reply itself offers nothing: an object that the model made up."""


def _text_fault(code: str, places: tuple[Place, ...] = WRITTEN) -> Callable[[Callable[[str], str]], Entry]:
    """Write the whole text anew; where that changes nothing, the text of an object that the model made up."""

    def decorate(spoil: Callable[[str], str]) -> Entry:
        """Make the entry of what is done to the text."""

        def make(target: Target) -> Iterator[Spoiled]:
            """Write the first text that changes."""
            texts = (target.text(target.value), target.text(_MADE_UP))
            changed = (after for before in texts if (after := spoil(before)) != before)
            for text in [*changed][:1]:
                yield spoiled(target.completion(text))

        return entry_of(spoil, make, Kind.JSON, code, places)

    return decorate


# Instead of the JSON


@_text_fault("json.empty", ("call", "union"))  # an empty content is no reply at all: see empty_content
def empty_text(_: str) -> str:
    """The text is empty."""
    return ""


@_text_fault("json.empty")
def blank_text(_: str) -> str:
    """The text is white space."""
    return " \n"


@_text_fault("json.syntax")
def prose(_: str) -> str:
    """The model thinks aloud where JSON belongs."""
    return f"We need to call it now. The {CANARY} was asked for, so let me do that."


@_text_fault("json.syntax")
def python_repr(text: str) -> str:
    """The text is what Python's repr gives: single quotes, True, False and None."""
    return repr(json.loads(text))


@_text_fault("json.syntax")
def python_call(text: str) -> str:
    """The text is a call in Python, with keyword arguments."""
    return f"dict({', '.join(f'{key}={value!r}' for key, value in _members(text))})"


@_text_fault("json.syntax")
def xml(text: str) -> str:
    """The text is XML, an element for each member."""
    elements = "".join(f"<parameter={key}>{html.escape(str(value))}</parameter>" for key, value in _members(text))
    return f"<function>{elements}</function>"


@_text_fault("json.syntax")
def yaml(text: str) -> str:
    """The text is YAML, a line for each member."""
    return "\n".join(f"{key}: {written(value)}" for key, value in _members(text)) or text


@_text_fault("json.syntax")
def base64_text(text: str) -> str:
    """The text is encoded as base64."""
    return base64.b64encode(text.encode()).decode()


@_text_fault("json.incomplete")
def whitespace_flood(text: str) -> str:
    """After the opening bracket nothing comes but line breaks, as JSON modes are known for."""
    return text[:1] + "\n" * 2_000 if text[:1] in {"{", "["} else text


# Around the JSON


@_text_fault("json.syntax")
def prose_before(text: str) -> str:
    """A sentence stands before the JSON."""
    return f"Sure! Here is the {CANARY} you asked for:\n\n{text}"


@_text_fault("json.trailing_data")
def prose_after(text: str) -> str:
    """A sentence stands after the JSON."""
    return f"{text}\n\nLet me know if you need more {CANARY}."


@_text_fault("json.syntax")
def fenced(text: str) -> str:
    """The JSON is in a Markdown fence."""
    return f"```json\n{text}\n```"


@_text_fault("json.syntax")
def think_block(text: str) -> str:
    """The model's thoughts stand before the JSON, in think tags."""
    return f"<think>\nThe user wants {CANARY}.\n</think>\n\n{text}"


@_text_fault("json.syntax")
def tool_call_tags(text: str) -> str:
    """The JSON is in tool_call tags, which the server did not take off."""
    return f"<tool_call>\n{text}\n</tool_call>"


@_text_fault("json.trailing_data")
def template_token(text: str) -> str:
    """A token of the chat template stands after the JSON."""
    return f"{text}<|im_end|>"


@_text_fault("json.syntax")
def byte_order_mark(text: str) -> str:
    """A byte order mark stands before the JSON."""
    return f"\ufeff{text}"


@_text_fault("json.trailing_data")
def nul_byte(text: str) -> str:
    """A NUL stands after the JSON, as a program in C ends a text."""
    return f"{text}\x00"


@_text_fault("json.several_values")
def empty_object_before(text: str) -> str:
    """An empty object stands before the JSON, as servers leave it that put pieces of a stream together."""
    return f"{{}}{text}"


@_text_fault("json.several_values")
def json_lines(text: str) -> str:
    """Two JSON values stand on two lines."""
    return f"{text}\n{text}"


@_text_fault("json.trailing_data")
def extra_closing_bracket(text: str) -> str:
    """One bracket more is closed than was opened."""
    return text + text[-1] if text[-1] in "}]" else text


# Within the JSON


@_text_fault("json.incomplete")
def missing_closing_bracket(text: str) -> str:
    """The last bracket is not closed."""
    return text[:-1] if text[-1] in "}]" else text


@_text_fault("json.syntax")
def missing_opening_brace(text: str) -> str:
    """The first brace is missing, as when a server put it into the model's mouth and leaves it out of the reply."""
    return text.removeprefix("{")


@_text_fault("json.syntax")
def mismatched_bracket(text: str) -> str:
    """An object is closed by the bracket of an array, or the other way round."""
    return text[:-1] + text[-1].translate(str.maketrans("}]", "]}"))


@_text_fault("json.syntax")
def trailing_comma(text: str) -> str:
    """A comma stands before the closing brace of an object."""
    return _before_brace(text, ",")


@_text_fault("json.syntax")
def missing_comma(text: str) -> str:
    """No comma stands between two members."""
    return _before_brace(text, f' "{CANARY}": true')


@_text_fault("json.syntax")
def ellipsis(text: str) -> str:
    """Three dots stand for what the model left out."""
    return _before_brace(text, ", ...")


@_text_fault("json.syntax")
def smart_quotes(text: str) -> str:
    """Keys and strings are in typographic quotes."""
    return _STRING.sub(r"“\1”", text)


@_text_fault("json.syntax")
def html_escaped(text: str) -> str:
    """The quotes are escaped as in HTML."""
    return html.escape(text)


@_text_fault("json.syntax")
def escaped_quotes(text: str) -> str:
    """The quotes are escaped as if the text stood in a string, but it does not."""
    return text.replace('"', '\\"')


@_text_fault("json.syntax")
def escaped_line_breaks(text: str) -> str:
    r"""Between the members stand \n and blanks: the escape, not the line break."""
    return text[0] + r"\n  " + text[1:] if text[0] in "{[" else text


@_text_fault("json.syntax")
def no_break_space(text: str) -> str:
    """White space between the members is the no-break space of typography."""
    return text[0] + "\u00a0" + text[1:] if text[0] in "{[" else text


_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def _members(text: str) -> list[tuple[str, Any]]:
    """Read the members of an object; none of another value."""
    value = json.loads(text)
    return list(value.items()) if isinstance(value, dict) else []


def _before_brace(text: str, more: str) -> str:
    """Put a text before the brace that closes an object, unless it is empty."""
    return f"{text[:-1]}{more}}}" if text[-1] == "}" and text != "{}" else text
