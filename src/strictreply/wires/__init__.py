"""How an API spells a reply: one module for each API, by the names that ``api=`` takes.

The packages that judge replies know none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from strictreply.values._errors import ContractError
from strictreply.wires._chat import CHAT
from strictreply.wires._responses import RESPONSES, is_response
from strictreply.wires._wire import Wire

Api: TypeAlias = Literal["chat", "responses"]

WIRES: Mapping[str, Wire] = {"chat": CHAT, "responses": RESPONSES}


def wire_named(api: object) -> Wire:
    """Return the wire that ``api=`` names; raise ContractError for any other word."""
    if not isinstance(api, str) or api not in WIRES:
        raise ContractError(f"api must be one of {', '.join(WIRES)}")

    return WIRES[api]


def wire_of(response: object) -> Wire:
    """Return the wire that a response came by, as far as it shows."""
    return RESPONSES if is_response(response) else CHAT


def wire_for(request: Mapping[str, object]) -> Wire:
    """Return the wire that a request is made for, as far as it shows."""
    return RESPONSES if "input" in request and "messages" not in request else CHAT
