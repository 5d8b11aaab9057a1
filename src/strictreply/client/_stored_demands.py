"""What a stored reply says of the request that it answers, as far as a verdict can honour it.

The caller has declared none of it now: a part that cannot be checked is left out, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from strictreply.contract._contract import Contract
from strictreply.retry._shaping import shape
from strictreply.values._errors import ContractError, warn_of_declaration
from strictreply.values._issues import quote
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._members import peek
from strictreply.wires._wire import Wire

_ABOUT_TOOLS = ("tools", "tool_choice")
_ABOUT_ANSWERS = ("response_format", "text")
_MOST_WARNED = 1_000
_ANY_OBJECT = {"type": "object", "additionalProperties": True}


def demands(contract: Contract, wire: Wire, reply: JSON) -> JSONObject:
    """Return what a stored reply says of its request, as far as the contract leaves it open.

    Warns once, with ContractWarning, of each part that no verdict can honour.
    """
    names = ["parallel_tool_calls"]
    if not contract.tools:
        names += _ABOUT_TOOLS
    if contract.answer.is_text:
        names += _ABOUT_ANSWERS

    told: JSONObject = {name: value for name in names if (value := peek(reply, name)) is not None}
    try:
        _shaped(contract, wire, told)
    except ContractError:
        return _honoured(told, lambda given: _shaped(contract, wire, given))

    return told


def _shaped(contract: Contract, wire: Wire, told: JSONObject) -> None:
    shape(contract, {"messages": [], "model": "", **told}, wire)


def _honoured(told: JSONObject, shaped: Callable[[JSONObject], None]) -> JSONObject:
    """Return the demands that can be honoured together, each as strictly as it can be."""
    kept: JSONObject = {}
    for name, value in told.items():
        if name != "tools" or not isinstance(value, list):
            given = ({**kept, name: one} for one in _versions(name, value))
            kept = _first_honoured(given, shaped, name) or kept
            continue

        for tool in value:
            given = ({**kept, name: [*kept.get(name, ()), one]} for one in _versions(name, tool))
            kept = _first_honoured(given, shaped, f"the tool {quote(_name_in(tool))}") or kept

    return kept


def _first_honoured(
    given: Iterator[JSONObject], shaped: Callable[[JSONObject], None], what: str
) -> JSONObject | None:
    """Return the first demands that can be honoured, and warn where they are not the first."""
    found: JSONObject | None = None
    unheld = ""
    for one in given:
        try:
            shaped(one)
        except ContractError as error:
            unheld = unheld or str(error)
        else:
            found = one
            break

    if unheld:
        _warn_once(f"a stored reply is not checked against all of its {what}: {unheld}")

    return found


def _name_in(tool: object) -> object:
    return peek(peek(tool, "function"), "name") or peek(tool, "name")


def _versions(name: str, value: Any) -> Iterator[Any]:
    """Yield what a stored reply says, and then what is left of it without its schema."""
    yield value

    if name == "tools":
        function = peek(value, "function")
        if isinstance(function, dict):
            yield {**value, "function": {**function, "parameters": _ANY_OBJECT, "strict": None}}
        elif isinstance(value, dict):
            yield {**value, "parameters": _ANY_OBJECT, "strict": None}
    elif name == "response_format" and peek(value, "type") == "json_schema":
        yield {"type": "json_object"}
    elif name == "text" and peek(peek(value, "format"), "type") == "json_schema":
        yield {**value, "format": {"type": "json_object"}}


@lru_cache(maxsize=_MOST_WARNED)
def _warn_once(words: str) -> None:
    warn_of_declaration(words)
