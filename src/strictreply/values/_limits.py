"""JSON as Python types, and the limits on how much of it is read and explained."""

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
"""Whether calls stand in ``tool_calls``, or as a JSON union in ``content``."""

Extra: TypeAlias = Literal["forbid", "schema"]
"""Whether objects whose schema is silent about other members are closed, or taken as written."""

Formats: TypeAlias = Literal["assert", "annotate"]
"""Whether ``format`` is enforced."""

Extraction: TypeAlias = Literal["strict", "fenced", "first_object", "after_think"]
"""What text is tolerated around JSON."""

Dialects: TypeAlias = Literal["known", "strict"]
"""Whether known deviations of servers from the API's form are read."""

Mode: TypeAlias = Literal["enforce", "observe", "off"]
"""Whether what does not fit is retried, only reported, or not judged at all."""

Strict: TypeAlias = Literal["auto"] | bool
"""Whether a provider's strict mode is asked for: ``auto`` where it is known what that takes."""

AnswerStyle: TypeAlias = Literal["union", "tool"]
"""Whether an answer is ``{"answer": …}``, or a call of ``final_answer`` (requirement T14)."""

TextCalls: TypeAlias = Literal["refuse", "answer"]
"""What becomes of a text answer that is, as a whole, a call of a declared tool."""

MAX_JSON_DEPTH = 200
"""The nesting that the parser underneath can follow; ``Limits.depth`` may not exceed it."""

MAX_NUMBER_DIGITS = 4300
"""The digits of one integer that CPython converts in bounded time (``sys.int_info``)."""


def is_count(value: object, least: int = 0) -> TypeGuard[int]:
    """Return whether a value is a whole number, ``least`` or more; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@helpful(IN_POLICIES)
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The size limits of one reply; a reply that exceeds one is refused and not read further.

    Work stays linear, and some 100 ms at the defaults. Raises ValueError when a limit is not
    positive, or ``depth`` is above 200.
    """

    reply_bytes: int = 1_000_000
    """UTF-8 bytes of one JSON text, and of all arguments of one message together.

    They also hold for a text answer, and for the text beside calls.
    """
    depth: int = 64
    """Nested containers of one JSON text."""
    nodes: int = 100_000
    """Values of every kind in one JSON text."""
    calls: int = 128
    """Tool calls of one message."""
    # OpenAI takes back 40 characters, but ids with a Gemini thought signature in them, as LiteLLM
    # makes them, were seen with 949 (github.com/BerriAI/litellm/issues/41534), and a signature
    # grows with the thinking.
    id_bytes: int = 16_384
    """UTF-8 bytes of one call's id."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not is_count(value, 1):
                raise ValueError(f"Limits.{name} must be a whole number, at least 1, not {value!r}")

        if self.depth > MAX_JSON_DEPTH:
            raise ValueError(f"Limits.depth must be at most {MAX_JSON_DEPTH}, not {self.depth}")


def is_duration(seconds: object) -> bool:
    """Return whether something is a number above 0, which NaN is not."""
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0


def utf8_size(text: object) -> int:
    """Return how many bytes a text has in UTF-8, 0 for what is not a text.

    A lone surrogate counts three bytes.
    """
    if not isinstance(text, str):
        return 0
    if str.isascii(text):
        return str.__len__(text)
    return len(str.encode(text, "utf-8", "surrogatepass"))


DEFAULT_LIMITS = Limits()
"""The limits of a contract that is given none."""

# The steps of one reply, each a few microseconds: a value checked against a schema, some
MAX_WORK = 10_000
"""comparisons of names."""


class Spent(Exception):
    """Raised when the work that one reply may cost is used up."""


class Work:
    """What examining one reply may still cost, in steps.

    One counter serves all calls of the reply, for judging and explaining.
    """

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int = MAX_WORK) -> None:
        self.limit: int = limit
        self.taken: int = 0

    def take(self, steps: int = 1) -> None:
        """Use some steps; raise Spent when fewer are left."""
        if not self.afford(steps):
            raise Spent

    def afford(self, steps: int) -> bool:
        """Use some steps if so many are left, and return whether they were.

        It is for work that can be left out.
        """
        if self.taken + steps > self.limit:
            return False
        self.taken += steps
        return True
