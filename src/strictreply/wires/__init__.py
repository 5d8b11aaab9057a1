"""The formats of the APIs: one wire for each API, by its name for ``api=``.

The packages that judge replies are independent of any API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal, TypeAlias

from strictreply.values._errors import ContractError
from strictreply.values._issues import printable
from strictreply.values._limits import JSON
from strictreply.wires._anthropic import MESSAGES_API
from strictreply.wires._chat import CHAT
from strictreply.wires._responses import RESPONSES
from strictreply.wires._wire import Wire

Api: TypeAlias = Literal["chat", "responses", "messages"]

ReplyPart: TypeAlias = Literal["name", "arguments", "text", "other"]
"""A part of a reply that is displayed: a tool's name, arguments, text, or anything else."""

WIRES: dict[str, Wire] = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES_API}
"""The known APIs, by name."""


def register_api(wire: Wire) -> None:
    """Register an API under the name of its wire; raise ContractError if the name is taken."""
    if WIRES.setdefault(wire.name, wire) is not wire:
        raise ContractError(
            f"another API is already registered as {wire.name!r}; give this wire another name"
        )


def wire_named(api: object) -> Wire:
    """Return the wire that ``api=`` names; raise ContractError for any other word."""
    if not isinstance(api, str) or api not in WIRES:
        raise ContractError(f"api must be one of {', '.join(WIRES)}")

    return WIRES[api]


def wire_of(response: object) -> Wire:
    """Return the wire for a response whose API is not named.

    If no wire recognises it, return that of chat completions, which reports what is wrong.
    """
    # the first wire is the most tolerant: it accepts a bare message
    last_first = reversed(tuple(WIRES.values()))
    return next((wire for wire in last_first if wire.recognises(response)), CHAT)


def wire_for(request: Mapping[str, object], responses: Iterable[object] = ()) -> Wire:
    """Return the wire for a request whose API is not named.

    The keyword of the conversation decides. If several wires have that keyword, a response decides,
    or the other keywords of the request.
    """
    known = [wire for wire in WIRES.values() if wire.conversation in request]
    for wire in reversed(known):
        if any(not isinstance(one, str | bytes) and wire.recognises(one) for one in responses):
            return wire

    own = (wire for wire in known if wire.asks is not None and wire.asks(request))
    usual = (wire for wire in known if wire.asks is None)
    return next(own, None) or next(usual, CHAT)


UNKNOWN_TOOL = "<unknown tool>"
"""Written in place of a tool's name that is not declared: the model's text may be personal."""


def declared_tool(name: object, declared: Collection[str]) -> str:
    """Return the name of a tool if it is declared, else :data:`UNKNOWN_TOOL`."""
    return name if isinstance(name, str) and name in declared else UNKNOWN_TOOL


def called_tool(raw: JSON, api: str, declared: Collection[str]) -> str | None:
    """Return the name of the declared tool that a response calls first.

    It is :data:`UNKNOWN_TOOL` for a tool that is not declared, and None if there is no call.
    """
    draft = wire_named(api).draft_in(raw)
    if draft is None or not draft.calls:
        return None

    return declared_tool(draft.calls[0].name, declared)


def show_whole(value: object, _part: ReplyPart) -> str:
    """Show a part of a reply in full, printable."""
    return printable(value) if isinstance(value, str) else json.dumps(value, default=str)


def excerpt(raw: JSON, api: str, show: Callable[[object, ReplyPart], str] = show_whole) -> str:
    """Return the reply in a response as printable text.

    It is the calls as ``name(arguments)``, else the refusal or the content. ``show`` formats each
    part.
    """
    draft = wire_named(api).draft_in(raw)
    if draft is None:
        return show(raw, "other")

    if draft.calls:
        calls: list[str] = []
        for call in draft.calls:
            arguments = show(call.arguments, "text" if call.is_text else "arguments")
            calls.append(f"{show(call.name, 'name')}({arguments})")

        return ", ".join(calls)

    if draft.refusal:
        return f"refusal: {show(draft.refusal, 'text')}"

    return show(draft.text, "text") if draft.other is None else show(draft.other, "other")
