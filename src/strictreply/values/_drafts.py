"""A reply before it is judged, in no API's form: what a wire reads, and what is judged and retried.

A wire makes it (:class:`~strictreply.wires._wire.Wire`), and writes what was changed in it back
into the form of its API. The places in a reply that issues name are those of a chat completion's
message on every API: they are published, and the same fault has one place wherever it is found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from strictreply.values._issues import Issue, pointer_tokens
from strictreply.values._limits import JSONObject

TEXT_PLACE = "/content"
"""Where the text of a reply stands."""

CALLS_PLACE = "/tool_calls"
"""Where the calls of a reply stand."""


@dataclass(frozen=True, slots=True)
class DraftCall:
    """One call of a reply, as it came: nothing of it is judged, each member may be anything."""

    name: object = None
    """The name of the tool, a text where it is right."""
    arguments: object = None
    """The JSON text of the arguments, or the input of a tool that takes free text."""
    id: object = None
    """The provider's id of the call, a text where it is right."""
    is_text: bool = False
    """Whether the input is free text, as that of a custom tool."""
    is_whole: bool = True
    """Whether it has the form of a call at all."""
    namespace: object = None
    """Where the tool is declared; None for a tool of the request's own list."""
    source: object = None
    """The call in the form of its API, which its wire alone reads."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A reply before it is judged."""

    text: str | None = None
    """The text without thoughts; None where there is none."""
    calls: tuple[DraftCall, ...] = ()
    """The calls, in order."""
    refusal: object = None
    """The words by which the model refused; None where it did not."""
    other: object = None
    """What stands in the place of the text; None where that is a text, or nothing."""
    fault: Issue | None = None
    """What of its calls can be read in no way; None for nothing."""
    source: object = None
    """The message in the form of its API, with its thoughts; None where it is made by us.

    Only its wire reads it, and it goes back to the provider as it is.
    """

    @property
    def bare(self) -> Draft:
        """The same reply as if we had made it, for the wire of another API to write."""
        calls = tuple(replace(call, source=None) for call in self.calls)
        return replace(self, calls=calls, source=None)


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply as it is sent back: with an answer to each of its calls, and what a user says."""

    draft: Draft
    """The reply; its calls have ids that the server takes."""
    results: tuple[str, ...] = ()
    """The answers, one for each call."""
    words: str | None = None
    """What the user says behind them; None for nothing."""


@dataclass(frozen=True, slots=True)
class UserInput:
    """A user's turn, taken apart."""

    text: str
    """What the user says."""
    artifacts: tuple[JSONObject, ...] = ()
    """What stands beside it, but for images."""
    images: tuple[JSONObject, ...] = ()
    """The images beside it."""


def call_place(index: int) -> str:
    """Return the pointer to a call."""
    return f"{CALLS_PLACE}/{index}"


def id_place(index: int) -> str:
    """Return the pointer to the id of a call."""
    return f"{CALLS_PLACE}/{index}/id"


def name_place(index: int, *, is_text: bool = False) -> str:
    """Return the pointer to the name of a call."""
    return f"{CALLS_PLACE}/{index}/{'custom' if is_text else 'function'}/name"


def arguments_place(index: int) -> str:
    """Return the pointer to the arguments of a call."""
    return f"{CALLS_PLACE}/{index}/function/arguments"


def input_place(index: int) -> str:
    """Return the pointer to the free text of a call."""
    return f"{CALLS_PLACE}/{index}/custom/input"


def arguments_around(path: str) -> tuple[int, str] | None:
    """Return the index of the call in whose arguments a place lies, and the pointer to these.

    None where it lies elsewhere.
    """
    match pointer_tokens(path):
        case ["tool_calls", index, "function", "arguments", *_]:
            return int(index), arguments_place(int(index))
        case _:
            return None
