"""A request, independent of any API: a wire reads it, and writes it into a body.

Attempts report what strictreply adds to a request by the names of chat completions, on every API.
The places in a reply are named in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, Self

from strictreply.values._limits import JSON, JSONObject, Message

CHOICE: Final = "tool_choice"
"""Name of the tool choice."""

PARALLEL: Final = "parallel_tool_calls"
"""Name of the permission to make several calls in one reply."""

FORMAT: Final = "response_format"
"""Name of the format of the answer."""

USAGE: Final = "stream_options"
"""Name of the request for usage in a stream."""

STRICT: Final = "strict"
"""Name of a strict mode. An addition is named by it, a colon, and a key for the schemas sent."""

SHAPING: Final[tuple[str, ...]] = (CHOICE, PARALLEL, FORMAT)
"""The parts of a request that shape the verdict, in addition to the tools."""


class Declared(Protocol):
    """A tool that a request declares."""

    @property
    def name(self) -> str:
        """Name of the tool."""
        ...

    @property
    def definition(self) -> JSONObject:
        """The tool in the form of chat completions; shared, so do not change it."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """The tool choice of a request."""

    mode: str = "auto"
    """``auto``, ``required`` or ``none``, or another word of the caller's."""
    tool: str = ""
    """The one tool that must be called; empty if only the mode counts."""
    allowed: tuple[str, ...] | None = None
    """Which of the declared tools may be called; None for all."""


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The format that a request demands of an answer."""

    kind: str
    """``text``, ``json_object`` or ``json_schema``."""
    schema: JSON = None
    """The schema of the answer; None if the format has none."""
    name: str | None = None
    """The name of the schema."""
    others: tuple[str, ...] = ()
    """The names of the other members next to the schema."""
    source: JSONObject | None = field(default=None, compare=False)
    """The format as the caller wrote it, read only by its wire; None if strictreply made it."""
    is_strict: bool = False
    """Whether a format that strictreply made requests strict mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: the caller's part, and what a contract and a correction add to it."""

    source: JSONObject = field(default_factory=dict[str, Any])
    """The caller's other keywords, read only by their wire."""
    model: object = None
    """The model."""
    conversation: list[Any] = field(default_factory=list[Any])
    """The caller's turns, in the form of their API."""
    prefill: str = ""
    """The beginning of the reply, if the caller wrote it; the model's reply does not repeat it."""
    behind: tuple[Message, ...] = ()
    """The turns after the caller's: an invalid reply and its correction."""
    instructions: str = ""
    """What strictreply adds to the caller's instructions; may be empty."""
    given_tools: object = None
    """The tools that the caller declares, of any kind; None if they come from the contract."""
    elsewhere: tuple[JSONObject, ...] = ()
    """The tools declared in another part of the request, which is sent unchanged."""
    tools: tuple[Declared, ...] = ()
    """The tools that are declared to the model."""
    choice: Choice | None = None
    """The tool choice; None if the request has none."""
    parallel: object = None
    """Whether one reply may hold several calls; None if the request does not say."""
    format: AnswerFormat | type | None = None
    """The format of the answer, or the caller's type for it; None if the request has none."""
    limits: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    """Limits on the tokens of the reply, by the keywords of the API."""
    is_stream: bool = False
    """Whether the request is for a stream."""
    wants_usage: bool | None = None
    """Whether the caller wants the usage in a stream; None if the request does not say."""
    asks_usage: bool = False
    """Whether strictreply requests the usage in a stream."""
    is_kept: bool = False
    """Whether the server keeps each reply in a conversation, so replies cannot be merged."""
    is_stored: bool = True
    """Whether the server may store the reply."""
    follows: str | None = None
    """The id of the stored response that this request continues; None if there is none."""
    keywords: JSONObject = field(default_factory=dict[str, Any])
    """Keywords of the API that a policy sends in place of the caller's."""
    added: frozenset[str] = frozenset()
    """Names of what strictreply added; it is left out if the endpoint rejects it."""
    undressed: Request | None = field(default=None, repr=False)
    """The same request with its schemas as declared; None if they are already sent as declared."""

    @property
    def turns(self) -> list[object]:
        """All turns, the caller's first."""
        return [*self.conversation, *self.behind]

    @property
    def is_strict(self) -> bool:
        """Whether strict mode is requested, with schemas converted for it."""
        return any(name.startswith(STRICT) for name in self.added)

    def without(self, names: Collection[str]) -> Self:
        """Return the same request without these additions of strictreply's."""
        held = self
        if self.undressed is not None and any(name.startswith(STRICT) for name in names):
            held = replace(self, tools=self.undressed.tools, format=self.undressed.format)

        return replace(
            held,
            choice=None if CHOICE in names else self.choice,
            parallel=None if PARALLEL in names else self.parallel,
            format=None if FORMAT in names else held.format,
            asks_usage=self.asks_usage and USAGE not in names,
            added=self.added.difference(names),
        )


class Definitions(list[JSONObject]):
    """The definitions of declared tools in a body: plain JSON, shared with the tools.

    Do not change it.
    """
