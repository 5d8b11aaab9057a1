"""What a call asks for, in no API's form: read by a wire, and written by it into a body.

The names by which attempts report what we add to requests are those of chat completions on every
API, as the places in a reply are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, Self

from strictreply.values._limits import JSON, JSONObject, Message

CHOICE: Final = "tool_choice"
"""The choice of tools."""

PARALLEL: Final = "parallel_tool_calls"
"""Whether several calls at once are allowed."""

FORMAT: Final = "response_format"
"""The format of the answer."""

USAGE: Final = "stream_options"
"""That a stream reports its usage."""

STRICT: Final = "strict"
"""A strict mode. What is added has this name, a colon, and what stands for the schemas sent."""

SHAPING: Final[tuple[str, ...]] = (CHOICE, PARALLEL, FORMAT)
"""What shapes a verdict, beside the tools."""


class Declared(Protocol):
    """A tool as a request declares it."""

    @property
    def name(self) -> str:
        """Name of the tool."""
        ...

    @property
    def definition(self) -> JSONObject:
        """The tool as chat completions declare it, shared: nobody changes it."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """Which tools a request demands."""

    mode: str = "auto"
    """``auto``, ``required`` or ``none``, or another word of the caller's."""
    tool: str = ""
    """The one tool that must be called; empty where the mode says what is demanded."""
    allowed: tuple[str, ...] | None = None
    """The tools that may be called of those that are declared; None for all."""


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The format that a request demands of an answer."""

    kind: str
    """``text``, ``json_object`` or ``json_schema``."""
    schema: JSON = None
    """The schema of the answer; None where none is said."""
    name: str | None = None
    """What the schema is called."""
    others: tuple[str, ...] = ()
    """The names of what else is said of the schema."""
    source: JSONObject | None = field(default=None, compare=False)
    """The format as the caller wrote it, which its wire alone reads; None for one of ours."""
    is_strict: bool = False
    """Whether its strict mode is asked for, of one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request: what its caller said, and what a contract and a correction add to it."""

    source: JSONObject = field(default_factory=dict[str, Any])
    """The caller's keywords but for those below, which their wire alone reads."""
    model: object = None
    """The model that is asked."""
    conversation: list[Any] = field(default_factory=list[Any])
    """The caller's turns, as their API has them."""
    prefill: str = ""
    """The text with which the caller has begun the reply, which comes without it."""
    behind: tuple[Message, ...] = ()
    """The turns behind them: a bad reply and its correction."""
    instructions: str = ""
    """What we add to the caller's own instructions; empty for nothing."""
    given_tools: object = None
    """The tools that the caller declares, of any kind; None where the contract has them."""
    elsewhere: tuple[JSONObject, ...] = ()
    """The tools that are declared in another place of the request, which is sent as it is."""
    tools: tuple[Declared, ...] = ()
    """The tools that are declared to the model."""
    choice: Choice | None = None
    """Which tools are demanded; None where nothing is said."""
    parallel: object = None
    """Whether several calls at once are allowed; None where nothing is said."""
    format: AnswerFormat | type | None = None
    """The format of the answer, or the caller's type of it; None where nothing is said."""
    limits: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    """What limits the tokens of the reply, by the keywords of the API."""
    is_stream: bool = False
    """Whether a stream is asked for."""
    wants_usage: bool | None = None
    """Whether the caller wants the usage in a stream; None where nothing is said."""
    asks_usage: bool = False
    """Whether we ask for the usage in a stream."""
    is_kept: bool = False
    """Whether the server keeps each reply in a conversation: none is put together of several."""
    is_stored: bool = True
    """Whether the server may store the reply."""
    follows: str | None = None
    """The id of the stored response that the conversation continues; None for none."""
    keywords: JSONObject = field(default_factory=dict[str, Any])
    """The keywords of the API that a policy sends in place of the caller's."""
    added: frozenset[str] = frozenset()
    """The names of what is ours in it, and may be left out where the endpoint refuses it."""
    undressed: Request | None = field(default=None, repr=False)
    """The same request with its schemas as they are declared; None where they are sent so."""

    @property
    def turns(self) -> list[object]:
        """All turns, the caller's first."""
        return [*self.conversation, *self.behind]

    @property
    def is_strict(self) -> bool:
        """Whether a strict mode is asked for, with schemas in the form that it takes."""
        return any(name.startswith(STRICT) for name in self.added)

    def without(self, names: Collection[str]) -> Self:
        """Return the same request without these additions of ours."""
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
    """The definitions of declared tools as a body has them.

    They are plain JSON that belongs to the tools: nobody may change it.
    """
