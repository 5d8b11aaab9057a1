"""Stored replies: whether one is there, and what it says of the request that it answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strictreply.values._issues import quote
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._requests import CHOICE, FORMAT, PARALLEL
from strictreply.wires._endings import error_in
from strictreply.wires._members import peek
from strictreply.wires._wire import Storing

_TOOLS = "tools"
_TEXT = "text"
_ANY_OBJECT: JSON = {"type": "object", "additionalProperties": True}
_WITHOUT_REPLY = frozenset({"queued", "in_progress", "cancelled", "failed"})
"""The states of a response that has no reply (OpenAI's API reference, ``status``)."""


@dataclass(frozen=True, slots=True)
class Echo:
    """One thing that a stored reply says of its request."""

    keyword: str
    """The keyword of a request that says it."""
    label: str
    """What it is called in a warning."""
    versions: tuple[JSON, ...]
    """What is said, and then with less and less of its schema."""
    is_item: bool = False
    """Whether it is one of the list that the keyword holds."""

    def added_to(self, keywords: JSONObject, version: JSON) -> JSONObject:
        """Return keywords that say this, too."""
        if not self.is_item:
            return {**keywords, self.keyword: version}

        return {**keywords, self.keyword: [*keywords.get(self.keyword, ()), version]}


def _echoes(reply: JSON, about_tools: bool, about_answer: bool) -> list[Echo]:
    """Return what a stored reply says of its request: of its tools, of its answer."""
    names = [PARALLEL]
    if about_tools:
        names += [_TOOLS, CHOICE]
    if about_answer:
        names += [FORMAT, _TEXT]

    return [echo for name in names for echo in _echoes_of(name, peek(reply, name))]


def _echoes_of(name: str, value: object) -> Iterator[Echo]:
    if value is None:
        return

    if name != _TOOLS or not isinstance(value, list):
        yield Echo(name, name, tuple(_versions(name, value)))
        return

    tools: list[Any] = value
    for tool in tools:
        label = f"the tool {quote(peek(peek(tool, 'function'), 'name') or peek(tool, 'name'))}"
        yield Echo(name, label, tuple(_versions(name, tool)), is_item=True)


def _versions(name: str, value: Any) -> Iterator[JSON]:
    yield value

    if name == _TOOLS:
        function = peek(value, "function")
        if isinstance(function, dict):
            yield {**value, "function": {**function, "parameters": _ANY_OBJECT, "strict": None}}
        elif isinstance(value, dict):
            yield {**value, "parameters": _ANY_OBJECT, "strict": None}
    elif name == FORMAT and peek(value, "type") == "json_schema":
        yield {"type": "json_object"}
    elif name == _TEXT and peek(peek(value, "format"), "type") == "json_schema":
        yield {**value, "format": {"type": "json_object"}}


def _has_completion(plain: JSON, is_read: bool) -> bool:
    """Return whether what came for a stored completion is to be judged.

    Below the path of chat completions a server may answer what is not read in another way.
    """
    if not isinstance(plain, dict):
        return True

    return is_read or "choices" in plain or bool(error_in(plain))


def _has_response(plain: JSON, _is_read: bool) -> bool:
    """Return whether what came for a stored response is to be judged.

    It has no reply by its status, or without one by its own error; an error in place of a response
    has no id.
    """
    if not isinstance(plain, Mapping):
        return True

    status = plain.get("status")
    if status is None:
        has_failed = isinstance(plain.get("error"), Mapping) and not plain.get("output")
        return not (has_failed and isinstance(plain.get("id"), str))

    return not (isinstance(status, str) and status in _WITHOUT_REPLY)


def _without_output(plain: JSON) -> JSONObject | None:
    """Return a response that has no reply without what was written so far; None: as it is."""
    is_begun = isinstance(plain, dict) and bool(plain.get("output"))
    return {**plain, "output": []} if is_begun and isinstance(plain, dict) else None


def _response_in(event: JSON) -> JSON:
    response = event.get("response") if isinstance(event, dict) else None
    return response if isinstance(response, dict) else None


COMPLETIONS = Storing(
    demands=_echoes,
    has_reply=_has_completion,
    response_in=_response_in,
    emptied=_without_output,
)
"""How chat completions are stored."""

RESPONSES_KEPT = Storing(
    demands=_echoes,
    has_reply=_has_response,
    response_in=_response_in,
    emptied=_without_output,
)
"""How responses are stored."""
