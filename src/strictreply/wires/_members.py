"""Reads members of mappings and of SDK objects in the same way, and as plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from strictreply.values._limits import JSON

_SCALARS = frozenset({str, int, float, bool, type(None)})


def peek(value: object, name: str) -> object:
    """Read a member of a mapping or an attribute of an SDK object; None if there is none."""
    if type(value) is dict or isinstance(value, Mapping):  # only the first is fast
        return value.get(name)
    return None if isinstance(value, str | bytes | list) else getattr(value, name, None)


def ids_in(messages: Iterable[object]) -> list[str]:
    """Return the ids of the calls in a conversation, in order.

    Calls are in messages, or are items of their own.
    """
    ids: list[str] = []
    for message in messages:
        if type(message) is dict and not message.get("tool_calls") and "call_id" not in message:
            continue  # most messages

        calls = peek(message, "tool_calls")
        found = [peek(one, "id") for one in calls] if isinstance(calls, list | tuple) else []
        if str(peek(message, "type")).endswith("_call"):
            found.append(peek(message, "call_id"))

        ids += [id_ for id_ in found if isinstance(id_, str)]

    return ids


def as_json(value: object) -> JSON:
    """Return an SDK object or a mapping as plain JSON.

    Raises TypeError for anything else, like json.dumps.
    """
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast("JSON", dump(mode="json", exclude_unset=True, warnings=False))
    # most members are scalars, which need no call
    if isinstance(value, Mapping):
        members = cast("Mapping[object, JSON]", value)
        return {
            str(name): member if type(member) in _SCALARS else as_json(member)
            for name, member in members.items()
        }
    if isinstance(value, list | tuple):
        return [as_json(item) for item in cast("Sequence[object]", value)]
    if value is None or isinstance(value, str | int | float):
        return value

    raise TypeError(f"{type(value).__name__} is not JSON")
