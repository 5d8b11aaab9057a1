"""How an API spells a reply: one module for each API, by the names that ``api=`` takes.

The packages that judge replies know none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from strictreply.values._errors import ContractError
from strictreply.wires._anthropic import MESSAGES_API
from strictreply.wires._chat import CHAT
from strictreply.wires._responses import RESPONSES
from strictreply.wires._wire import Wire

Api: TypeAlias = Literal["chat", "responses", "messages"]

WIRES: dict[str, Wire] = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES_API}
"""The known APIs, by name."""


def register_api(wire: Wire) -> None:
    """Make an API known under the name of its wire; raise ContractError where one has that name."""
    if WIRES.setdefault(wire.name, wire) is not wire:
        raise ContractError(
            f"another API is registered as {wire.name!r}; give this wire a name of its own"
        )


def wire_named(api: object) -> Wire:
    """Return the wire that ``api=`` names; raise ContractError for any other word."""
    if not isinstance(api, str) or api not in WIRES:
        raise ContractError(f"api must be one of {', '.join(WIRES)}")

    return WIRES[api]


def wire_of(response: object) -> Wire:
    """Return the wire that recognises a response which came without a word of its API.

    That of chat completions where none does: it says what is wrong.
    """
    # the first is the loosest: it takes a bare message
    last_first = reversed(tuple(WIRES.values()))
    return next((wire for wire in last_first if wire.recognises(response)), CHAT)


def wire_for(request: Mapping[str, object], responses: Iterable[object] = ()) -> Wire:
    """Return the wire of a request which came without a word of its API.

    It holds the wire's conversation. Where several have that keyword, a response to it tells them
    apart, or what else the request holds.
    """
    known = [wire for wire in WIRES.values() if wire.conversation in request]
    for wire in reversed(known):
        if any(not isinstance(one, str | bytes) and wire.recognises(one) for one in responses):
            return wire

    own = (wire for wire in known if wire.asks is not None and wire.asks(request))
    usual = (wire for wire in known if wire.asks is None)
    return next(own, None) or next(usual, CHAT)
