"""A reply before it is judged, independent of any API.

A wire (:class:`~strictreply.wires._wire.Wire`) reads it from a response, and writes changes back in
the form of its API. On every API, issues name places in a reply as in the message of a chat
completion, so the same fault has the same published path everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from strictreply.values._issues import Issue, pointer_tokens
from strictreply.values._limits import JSONObject

TEXT_PLACE = "/content"
"""JSON Pointer to the text of a reply."""

CALLS_PLACE = "/tool_calls"
"""JSON Pointer to the calls of a reply."""


@dataclass(frozen=True, slots=True)
class DraftCall:
    """One call of a reply before it is judged: each member may be any value."""

    name: object = None
    """The name of the tool, a string if it is correct."""
    arguments: object = None
    """The JSON text of the arguments, or the input of a tool that takes free text."""
    id: object = None
    """The provider's id of the call, a string if it is correct."""
    is_text: bool = False
    """Whether the input is free text, as for a custom tool."""
    is_whole: bool = True
    """Whether it has the form of a call at all."""
    namespace: object = None
    """Where the tool is declared; None for a tool in the request's own list."""
    source: object = None
    """The call in the form of its API, read only by its wire."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A reply before it is judged."""

    text: str | None = None
    """The text without thoughts; None if there is none."""
    calls: tuple[DraftCall, ...] = ()
    """The calls, in order."""
    refusal: object = None
    """The words with which the model refused; None if it did not."""
    other: object = None
    """A value in place of the text, if it is not a string; None otherwise."""
    fault: Issue | None = None
    """A fault that makes its calls unreadable; None if there is none."""
    source: object = None
    """The message in the form of its API, with its thoughts; None if strictreply made it.

    Only its wire reads it. It is sent back to the provider unchanged.
    """

    @property
    def bare(self) -> Draft:
        """The same reply without ``source``, for the wire of another API to write."""
        calls = tuple(replace(call, source=None) for call in self.calls)
        return replace(self, calls=calls, source=None)


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply that is sent back, with a result for each of its calls and a user's message."""

    draft: Draft
    """The reply; its calls have ids that the server accepts."""
    results: tuple[str, ...] = ()
    """The results, one for each call."""
    words: str | None = None
    """The user's message after them; None if there is none."""


@dataclass(frozen=True, slots=True)
class UserInput:
    """A user's turn, split into its parts."""

    text: str
    """The text."""
    artifacts: tuple[JSONObject, ...] = ()
    """The other parts, except images."""
    images: tuple[JSONObject, ...] = ()
    """The images."""


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
    """Return the index of the call whose arguments contain a place, and the pointer to them.

    None if the place is elsewhere.
    """
    match pointer_tokens(path):
        case ["tool_calls", index, "function", "arguments", *_]:
            return int(index), arguments_place(int(index))
        case _:
            return None
