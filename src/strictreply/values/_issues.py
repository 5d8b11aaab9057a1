"""The faults of a reply: their codes, the value that reports one, and how places are shown.

``Issue.found`` quotes the model. Everything else is safe in a prompt, an exception or a log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

FOUND_CHARS = 120
PLACE_TOKENS = 6
TOKEN_CHARS = 64
_LONG_INTEGER_BITS = 400  # some 120 digits
_BARE = re.compile(r"[\w$@-]+|\*")
# an escape is matched whole or not at all, those of a surrogate pair together
_WHOLE_CHARS = re.compile(
    r"(?:[^\\]|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|\\u(?!d[89ab])[0-9a-f]{4}|\\[^u])*+"
)


class Category(StrEnum):
    """Class of a failure: what policies decide on, for example in ``RetryPolicy.stop_on``."""

    FORMAT_ERROR = "FORMAT_ERROR"
    """The reply is not written as the contract asks."""
    PERMISSION_ERROR = "PERMISSION_ERROR"
    """The reply does what is not permitted here."""
    ACTION_ERROR = "ACTION_ERROR"
    """The reply calls a tool or asks for an action that is not available here."""
    API_TRANSIENT = "API_TRANSIENT"
    """The server failed in a way that may pass."""
    API_TERMINAL = "API_TERMINAL"
    """The server or the model declined; the same request would fail again."""
    TOOL_ERROR = "TOOL_ERROR"
    """The code of a tool raised."""
    UNKNOWN = "UNKNOWN"
    """None of the others."""


class Remedy(StrEnum):
    """What to do about a kind of issue."""

    CORRECT = "correct"  # retry, saying what to change
    SHORTEN = "shorten"  # the reply was cut off: retry with more tokens, or for a shorter reply
    RESEND = "resend"  # the server's fault, not the model's: send the same request again
    STOP = "stop"  # a retry would not help


class Guidance(NamedTuple):
    """Text on a code for the page of codes (``tools/write_codes.py``), next to its message."""

    to_do: str = ""
    """What a reader should do about it; empty if the text for its family fits."""
    comes: str = ""
    """When the code occurs; empty if a fault of the test kit shows that."""


_NO_GUIDANCE = Guidance()
CORRECTED = (Category.FORMAT_ERROR, Remedy.CORRECT)
"""The usual category and remedy, written out if a guidance follows them."""


class Worded(StrEnum):
    """A stable code with its message.

    A member is written ``"code", "template"``, then a category and a remedy if they are not the
    usual ones, then a :class:`Guidance` if one is needed. The names in braces in ``template`` are
    filled from a declaration or a schema, never from a reply.
    """

    template: str
    """The words that report it; names in braces are filled from a declaration or a schema."""
    category: Category
    """The class of failure."""
    remedy: Remedy
    """What to do about it."""
    guidance: Guidance
    """What the page of codes says of it."""

    def __new__(
        cls,
        value: str,
        template: str,
        category: Category = Category.FORMAT_ERROR,
        remedy: Remedy = Remedy.CORRECT,
        guidance: Guidance = _NO_GUIDANCE,
    ) -> Self:
        """Attach template, category, remedy and guidance to the code."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.template = template
        member.category = category
        member.remedy = remedy
        member.guidance = guidance
        return member


_CUT = (Category.FORMAT_ERROR, Remedy.SHORTEN)
_BROKEN_RESPONSE = (Category.API_TRANSIENT, Remedy.RESEND)
_DECLINED = (Category.API_TERMINAL, Remedy.STOP)
_BOUND = "Raise the limit in `Limits` if your app needs such replies."


class Code(Worded):
    """All issue codes except schema rules.

    A broken schema rule has the code ``args.<rule>`` or ``answer.<rule>``; the rules are
    :class:`strictreply.schema.SchemaRule`. Each member defines the message, the category and the
    remedy of its code, and its text on the page of codes.
    """

    JSON_EMPTY = "json.empty", "the text is empty; a JSON value is expected"
    JSON_NOT_TEXT = "json.not_text", "a JSON text is expected here, not another type"
    JSON_ENCODING = (
        "json.encoding",
        "the text is not valid UTF-8",
        *CORRECTED,
        Guidance(
            to_do="Check the server: JSON must be UTF-8.",
            comes="A reply, or a file that `check` reads, is not UTF-8.",
        ),
    )
    JSON_SYNTAX = "json.syntax", "not valid JSON at line {line} column {column}{expected}"
    JSON_INCOMPLETE = "json.incomplete", "the JSON ends before it is complete{expected}"
    JSON_TRAILING_DATA = (
        "json.trailing_data",
        "text follows the JSON value at line {line} column {column}",
    )
    JSON_SEVERAL_VALUES = "json.several_values", "several JSON values; exactly one is expected"
    JSON_DUPLICATE_KEY = (
        "json.duplicate_key",
        "an object has the same key twice; write each key once",
    )
    JSON_NOT_FINITE = "json.not_finite", "NaN, Infinity and numbers beyond a double are not JSON"
    JSON_SURROGATE = "json.surrogate", "a string contains an unpaired surrogate"
    JSON_TOO_LARGE = (
        "json.too_large",
        "more than {limit} bytes; write less",
        *CORRECTED,
        Guidance(to_do=_BOUND),
    )
    JSON_TOO_DEEP = (
        "json.too_deep",
        "nested deeper than {limit} levels; nest less",
        *CORRECTED,
        Guidance(to_do=_BOUND),
    )
    JSON_TOO_MANY_NODES = (
        "json.too_many_nodes",
        "more than {limit} values; write fewer",
        *CORRECTED,
        Guidance(to_do=_BOUND),
    )
    JSON_UNEXAMINED = (
        "json.unexamined",
        "may have more faults: it is too large to examine all of it",
        *CORRECTED,
        Guidance(
            to_do="Nothing: the reply is rejected and retried.",
            comes="Added to other issues if a text is too large to look for more of them.",
        ),
    )
    JSON_NUMBER_TOO_LONG = (
        "json.number_too_long",
        "a number of more than {limit} digits; write a shorter one",
        *CORRECTED,
        Guidance(to_do=_BOUND),
    )

    SHAPE_NOT_OBJECT = "shape.not_object", "must be a JSON object"
    SHAPE_MISSING_KEY = "shape.missing_key", "is required ({expected})"
    SHAPE_EXTRA_KEY = "shape.extra_key", "remove the other keys; allowed: {names}"
    SHAPE_WRONG_TYPE = (
        "shape.wrong_type",
        "must be {expected}",
        *CORRECTED,
        Guidance(
            to_do=(
                "Nothing, if it is rare: in the text channel `tool` and a text `answer` are "
                "strings, `args` is an object."
            )
        ),
    )
    SHAPE_EMPTY = "shape.empty", "must not be empty"
    SHAPE_BOTH = "shape.tool_and_answer", "must be a tool call or an answer, not both"

    TOOL_UNKNOWN = "tool.unknown", "no such tool; the tools are: {names}", Category.ACTION_ERROR
    TOOL_REQUIRED = (
        "tool.required",
        "Call one of the tools now: {names}",
        Category.ACTION_ERROR,
        Remedy.CORRECT,
        Guidance(
            to_do=(
                "Nothing: your `tool_choice` requires a call. "
                "Leave it out if an answer is fine, too."
            )
        ),
    )
    TOOL_FORCED = (
        "tool.forced",
        "call the tool {name}, no other",
        Category.PERMISSION_ERROR,
        Remedy.CORRECT,
        Guidance(comes="`tool_choice` names one tool, and the reply calls another."),
    )
    TOOL_FORBIDDEN = (
        "tool.forbidden",
        "no tool may be called here; answer instead",
        Category.PERMISSION_ERROR,
        Remedy.CORRECT,
        Guidance(to_do="Nothing: your `tool_choice` forbids calls."),
    )
    TOOL_SWITCHED = (
        "tool.switched",
        "call {name} again with corrected arguments, nothing else",
        Category.ACTION_ERROR,
        Remedy.CORRECT,
        Guidance(
            to_do=(
                "Nothing: the correction requested one tool. "
                "`RetryPolicy(allow_other_tool=True)` accepts another tool there."
            ),
            comes="A correction requested one tool, and the reply calls another.",
        ),
    )
    TOOL_SEVERAL = (
        "tool.several",
        "make exactly one tool call",
        Category.ACTION_ERROR,
        Remedy.CORRECT,
        Guidance(to_do="Pass `parallel=True` if several calls are fine."),
    )
    TOOL_TOO_MANY = (
        "tool.too_many",
        "make at most {limit} tool calls",
        Category.ACTION_ERROR,
        Remedy.CORRECT,
        Guidance(to_do="Raise `Limits.calls` if your app needs so many calls."),
    )

    CALL_MALFORMED = "call.malformed", "a tool call must be {expected}"
    CALL_ID_MISSING = "call.id_missing", "give each tool call an id of its own"
    CALL_ID_DUPLICATE = (
        "call.id_duplicate",
        "another tool call has the same id; give each call an id of its own",
    )
    CALL_AS_TEXT = (
        "call.as_text",
        "the tool call is written as text; call the tool itself instead",
        *CORRECTED,
        Guidance(
            to_do='Use `channel="text"` with a server that cannot call tools natively.',
            comes=(
                "The text of the reply contains a call in the format of some model's template, "
                "such as `<tool_call>…`."
            ),
        ),
    )
    CALL_MISSING = (
        "call.missing",
        "the reply announced a tool call, but contains none; call the tool now",
        *CORRECTED,
        Guidance(comes="The finish reason is `tool_calls`, but the reply has no calls."),
    )
    CALL_UNREADABLE = (
        "call.unreadable",
        (
            "the provider could not read the call; "
            "name a declared tool, with one JSON object as its arguments"
        ),
        *CORRECTED,
        Guidance(
            to_do=(
                "Nothing: the server's own parser rejected the model's call, and strictreply "
                "retries it."
            ),
            comes="The endpoint returns an error such as Groq's `tool_use_failed`.",
        ),
    )
    CALL_ID_TOO_LONG = (
        "call.id_too_long",
        "the id of a tool call has more than {limit} bytes; write a short one",
        *CORRECTED,
        Guidance(comes="The id of a call is longer than `Limits.id_bytes`."),
    )

    REPLY_EMPTY = (
        "reply.empty",
        "the reply is empty; write an answer, or call a tool",
        *CORRECTED,
        Guidance(
            to_do=(
                "If the model thinks before it answers, raise `max_tokens`: its thinking may have "
                "used them all."
            ),
        ),
    )
    REPLY_ROLE = "reply.role", "the role must be assistant"
    REPLY_CONTENT = "reply.content", "write the answer as text"
    REPLY_TOO_LARGE = (
        "reply.too_large",
        "the content has more than {limit} bytes; write less",
        *CORRECTED,
        Guidance(
            to_do=_BOUND,
            comes="The text of a reply is longer than `Limits.reply_bytes`.",
        ),
    )
    REPLY_UNREADABLE = (
        "reply.unreadable",
        "the provider could not read the reply; it must have the form asked for",
        *CORRECTED,
        Guidance(
            comes="The endpoint returns an error because its own parser could not read the reply."
        ),
    )
    REPLY_TRUNCATED = (
        "reply.truncated",
        "the reply was cut off at the token limit",
        *_CUT,
        Guidance(
            to_do=(
                "Raise `max_tokens`, or let `RetryPolicy(max_reply_tokens=…)` raise it for the "
                "retry."
            ),
        ),
    )
    REPLY_BROKEN_OFF = "reply.broken_off", "the server ended the reply early", *_BROKEN_RESPONSE
    REPLY_PAUSED = (
        "reply.paused",
        "the API paused the turn; it must be continued",
        *_BROKEN_RESPONSE,
        Guidance(
            to_do=(
                "Nothing, with a wrapped client: it continues the turn. In your own loop, send the "
                "reply back as the last turn (`next_request` returns that request)."
            ),
            comes="The API's own tools took longer than one turn allows (Anthropic, `pause_turn`).",
        ),
    )
    REPLY_REFUSAL = (
        "reply.refusal",
        "the model refused",
        *_DECLINED,
        Guidance(
            to_do=(
                "Change the prompt, or let a person decide: `error.attempts[-1].raw` holds what "
                "the model wrote."
            ),
        ),
    )
    REPLY_CONTENT_FILTER = (
        "reply.content_filter",
        "the provider's content filter stopped the reply",
        *_DECLINED,
        Guidance(to_do="Change the prompt: the provider would filter a retry, too."),
    )

    ENVELOPE_MALFORMED = (
        "envelope.malformed",
        "the response is malformed: expected {expected}",
        *_BROKEN_RESPONSE,
    )
    ENVELOPE_AMBIGUOUS = (
        "envelope.ambiguous",
        "the response has two meanings: {what}",
        *_DECLINED,
        Guidance(
            to_do=(
                "Make the request without a stream: a whole reply may be unambiguous. If it is "
                "not, use another server or another model: a retry would bring the same."
            ),
            comes=(
                "A stream does not say to which call a piece belongs, or its last message "
                "contradicts its deltas."
            ),
        ),
    )
    ENVELOPE_CHOICES = (
        "envelope.choices",
        "the response must have exactly one choice",
        *_BROKEN_RESPONSE,
    )
    ENVELOPE_ERROR = (
        "envelope.error",
        "the response holds an error, alone or next to a reply",
        *_BROKEN_RESPONSE,
    )


CODES = {code.value: code for code in Code}


@dataclass(frozen=True, slots=True)
class Issue:
    """One fault of a reply.

    ``message`` and ``hint`` are always printable: control characters, which a third-party schema or
    a check of yours may contain, are escaped. ``path`` is not escaped; to display it, use ``place``
    or ``dotted``. ``repr`` leaves out ``found``, because a ``repr`` may be logged.
    """

    code: str
    """What is wrong: a stable dotted code, such as ``args.type``."""
    category: Category
    """The class of failure, for decisions such as whom to alert."""
    path: str
    """JSON Pointer (RFC 6901) to the fault.

    In the native channel it starts at the assistant message, and continues through the JSON in
    ``arguments``. In the text channel it starts at the JSON in ``content``. For ``envelope.*``
    codes it starts at the response.
    """
    message: str
    """The rule that was broken. It never quotes the model."""
    hint: str = ""
    """A likely fix, such as the name that was meant; empty if unknown. Never quotes the model."""
    found: str = field(default="", repr=False)
    """Excerpt of what the model wrote, escaped and capped; empty if there is none.

    Keep it out of prompts.
    """

    def __post_init__(self) -> None:
        """Escape unprintable characters in the message and the hint.

        They could control a terminal, forge a line of a log, or add a line to a correction.
        """
        for name in ("message", "hint"):
            text = getattr(self, name)
            if not text.isprintable():
                object.__setattr__(self, name, printable(text))

    @classmethod
    def of(
        cls, code: Worded, path: str = "", *, hint: str = "", found: str = "", **words: object
    ) -> Issue:
        """Return an issue with this code at ``path``.

        ``words`` fill the template of the code, and must not come from the reply.
        """
        return cls(code.value, code.category, path, code.template.format(**words), hint, found)

    @property
    def remedy(self) -> Remedy:
        """What to do about this fault; ``CORRECT`` for a code of your own."""
        known = CODES.get(self.code)
        return Remedy.CORRECT if known is None else known.remedy

    @property
    def place(self) -> str:
        """The path in the form for people and models; ``/`` for the whole reply.

        It is printable: unusual names are quoted as JSON, and long paths are shortened.
        """
        return shown_place(self.path) or "/"

    @property
    def dotted(self) -> str:
        """``path: message`` with the path's parts joined by dots; printable."""
        place = printable(".".join(pointer_tokens(self.path)))
        return f"{place}: {self.message}" if place else self.message

    def to_dict(self) -> dict[str, str]:
        """Return the fields as JSON-safe strings."""
        return asdict(self)


def printable(text: str) -> str:
    """Escape unprintable characters, such as control sequences and line breaks."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def printable_lines(text: str) -> str:
    """Escape unprintable characters except line feeds."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    r"""Escape unprintable characters as ``\u`` escapes of JSON (RFC 8259 section 7).

    JSON in the text keeps its meaning.
    """
    if text.isprintable():
        return text

    # by UTF-16 code units; json.dumps would leave DEL as it is
    units = [
        "" if char.isprintable() else char.encode("utf-16-be", "surrogatepass").hex()
        for char in text
    ]
    pairs = zip(text, units, strict=True)
    return "".join(
        f"\\u{unit[:4]}" + (unit[4:] and f"\\u{unit[4:]}") if unit else char for char, unit in pairs
    )


def counted(count: int, noun: str) -> str:
    """Return a noun with its number: ``1 key``, ``2 keys``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def quote(value: object) -> str:
    """Return an excerpt for ``Issue.found``: ASCII, escaped, one line, at most 120 characters.

    A container is described by its size.
    """
    if isinstance(value, dict):
        return f"an object with {counted(len(value), 'key')}"
    if isinstance(value, list):
        return f"an array of {counted(len(value), 'item')}"

    if isinstance(value, str):
        value = value[:FOUND_CHARS]
    elif isinstance(value, int) and value.bit_length() >= _LONG_INTEGER_BITS:
        value = "a long integer"
    elif value is not None and not isinstance(value, bool | int | float):
        value = type(value).__name__

    text = printable_json(json.dumps(value))
    return text if len(text) <= FOUND_CHARS else text[: FOUND_CHARS - 1] + "~"


def came_words(value: object, place: str = "args") -> str:
    """Describe the kind of a value in a reply: ``the arguments were an object without keys``.

    Any other ``place`` reads ``the <place> was …``.
    """
    if place == "args":
        return f"the arguments were {kind_words(value)}"
    return f"the {place} was {kind_words(value)}"


def kind_words(value: object) -> str:
    """Return words for the kind of a JSON value, and whether it is empty."""
    if isinstance(value, dict):
        return "an object" if value else "an object without keys"
    if isinstance(value, list | tuple):
        return "an array" if value else "an array without items"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if value is None:
        return "null"

    return "a string" if isinstance(value, str) else "another type"


def pointer(path: str, *tokens: str | int) -> str:
    """Append ``tokens`` to a JSON Pointer, escaped as in RFC 6901 section 3."""
    for token in tokens:
        path += "/" + str(token).replace("~", "~0").replace("/", "~1")
    return path


def shown_place(path: str) -> str:
    """Return a JSON Pointer for display, such as ``/filter/0/""/"a b"``; printable.

    A name that is not one word is quoted as JSON; ``*`` replaces a name that must stay hidden. Only
    the last six steps of a deep place are shown, and only the start of a long name.
    """
    tokens = pointer_tokens(path)
    shown = [
        token if _BARE.fullmatch(token) else json_words(token) for token in tokens[-PLACE_TOKENS:]
    ]
    above = "…" if len(tokens) > PLACE_TOKENS else ""
    return above + "".join(f"/{capped(token, TOKEN_CHARS)}" for token in shown)


def json_words(value: object, separators: tuple[str, str] = (", ", ": ")) -> str:
    """Return a value of the contract as JSON, with unprintable characters escaped."""
    return printable_json(json.dumps(value, ensure_ascii=False, separators=separators))


def compact(value: object) -> str:
    """Return JSON without spaces, to save tokens; unprintable characters are escaped."""
    return json_words(value, (",", ":"))


def capped(text: str, limit: int) -> str:
    """Return a text that was written by :func:`json_words`, cut to ``limit`` characters.

    The cut does not split an escape.
    """
    whole = _WHOLE_CHARS.match(text, 0, limit - 1) if len(text) > limit else None
    return f"{whole[0]}…" if whole else text


def pointer_tokens(path: str) -> list[str]:
    """Split a JSON Pointer into its unescaped reference tokens (RFC 6901 section 4)."""
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


NOWHERE: Any = object()
"""Stands for the value at a place that a document does not have."""


def value_at(value: Any, tokens: Sequence[str]) -> Any:
    """Return the value at a place of a document, or ``NOWHERE`` if there is none."""
    for token in tokens:
        if isinstance(value, dict):
            value = value.get(token, NOWHERE)
        elif isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        else:
            return NOWHERE

    return value
