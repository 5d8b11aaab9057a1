"""JSON as Python types, and the limits on how much of a reply is read and explained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, TypeGuard

from pydantic import JsonValue

from strictreply.values._mistakes import IN_POLICIES, helpful

JSON: TypeAlias = JsonValue
"""A JSON value."""

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object whose members are read by name."""

Message: TypeAlias = Mapping[str, Any]
"""One turn of a conversation, in the form of the Chat Completions API."""

Channel: TypeAlias = Literal["native", "text"]
"""Where the model writes calls: in ``tool_calls``, or in ``content`` as a JSON union."""

Extra: TypeAlias = Literal["forbid", "schema"]
"""Keys that a schema does not mention: ``forbid`` rejects them, ``schema`` follows JSON Schema."""

Formats: TypeAlias = Literal["assert", "annotate"]
"""Whether ``format`` in a schema is enforced, or only describes."""

Extraction: TypeAlias = Literal["strict", "fenced", "first_object", "after_think"]
"""Which text around the JSON of a reply is accepted."""

Dialects: TypeAlias = Literal["known", "strict"]
"""Whether strictreply reads known deviations of servers from the API's format."""

Mode: TypeAlias = Literal["enforce", "observe", "off"]
"""Whether an invalid reply is retried, only reported, or not validated at all."""

Strict: TypeAlias = Literal["auto"] | bool
"""Whether to request the provider's strict mode; ``auto`` does if its rules are known."""

AnswerStyle: TypeAlias = Literal["union", "tool"]
"""Whether an answer is ``{"answer": …}``, or a call of the tool ``final_answer``."""

TextCalls: TypeAlias = Literal["refuse", "answer"]
"""Whether a text answer that consists of a call of a declared tool is rejected or accepted."""

MAX_JSON_DEPTH = 200
"""The deepest nesting that the JSON parser can follow: the upper limit of ``Limits.depth``."""

MAX_NUMBER_DIGITS = 4300
"""The digits of one integer that CPython converts in bounded time (``sys.int_info``)."""


def is_count(value: object, least: int = 0) -> TypeGuard[int]:
    """Return whether a value is an integer, ``least`` or more; a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@helpful(IN_POLICIES)
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Size limits of one reply. A reply that exceeds one is rejected, and read no further.

    Validation takes linear time: about 100 ms at most with the defaults. Raises ValueError if a
    limit is not positive, or if ``depth`` is above 200.
    """

    reply_bytes: int = 1_000_000
    """UTF-8 bytes of a JSON text, of a text answer, and of all arguments of a message together.

    Text next to calls has the same limit.
    """
    depth: int = 64
    """Levels of nesting in one JSON text."""
    nodes: int = 100_000
    """Values of any kind in one JSON text."""
    calls: int = 128
    """Tool calls in one message."""
    # OpenAI accepts ids of 40 characters. LiteLLM puts a Gemini thought signature into an id, up to
    # 949 characters in a report (github.com/BerriAI/litellm/issues/41534); a signature grows with
    # the thinking.
    id_bytes: int = 16_384
    """UTF-8 bytes of the id of one call."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not is_count(value, 1):
                raise ValueError(f"Limits.{name} must be a whole number, at least 1, not {value!r}")

        if self.depth > MAX_JSON_DEPTH:
            raise ValueError(f"Limits.depth must be at most {MAX_JSON_DEPTH}, not {self.depth}")


def is_duration(seconds: object) -> bool:
    """Return whether a value is a number above 0; NaN and bools are not."""
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0


def utf8_size(text: object) -> int:
    """Return the bytes of a text in UTF-8; 0 for a value that is not a text.

    An unpaired surrogate counts as three bytes.
    """
    if not isinstance(text, str):
        return 0
    if str.isascii(text):
        return str.__len__(text)
    return len(str.encode(text, "utf-8", "surrogatepass"))


DEFAULT_LIMITS = Limits()
"""The limits of a contract for which you set none."""

MAX_WORK = 10_000
"""Steps that examining one reply may take, a few microseconds each.

A step checks one value against a schema, or compares some names.
"""


class Spent(Exception):
    """Raised when examining a reply has used up its steps."""


class Work:
    """Budget of steps for examining one reply.

    All calls of a reply share one budget, for judging and for explaining.
    """

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int = MAX_WORK) -> None:
        self.limit: int = limit
        """The most steps."""
        self.taken: int = 0
        """The steps so far."""

    def take(self, steps: int = 1) -> None:
        """Use some steps; raise Spent if fewer are left."""
        if not self.afford(steps):
            raise Spent

    def afford(self, steps: int) -> bool:
        """Use some steps if that many are left, and return whether they were: for optional work."""
        if self.taken + steps > self.limit:
            return False
        self.taken += steps
        return True
