"""Stored replies: whether there is one, and what it shows of the request that it answers."""

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
    """One demand of the original request that a stored reply shows."""

    keyword: str
    """The keyword of a request for the demand."""
    label: str
    """Its name in a warning."""
    versions: tuple[JSON, ...]
    """The demand, then versions with less and less of its schema."""
    is_item: bool = False
    """Whether it is an item of the keyword's list."""

    def added_to(self, keywords: JSONObject, version: JSON) -> JSONObject:
        """Return the keywords with this demand added."""
        if not self.is_item:
            return {**keywords, self.keyword: version}

        return {**keywords, self.keyword: [*keywords.get(self.keyword, ()), version]}


def _echoes(reply: JSON, about_tools: bool, about_answer: bool) -> list[Echo]:
    """Return the demands that a stored reply shows: on its tools, on its answer."""
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
    """Return whether a stored completion that was fetched must be judged.

    Below the path of chat completions, a server may return other values to a read.
    """
    if not isinstance(plain, dict):
        return True

    return is_read or "choices" in plain or bool(error_in(plain))


def _has_response(plain: JSON, _is_read: bool) -> bool:
    """Return whether a stored response that was fetched must be judged.

    Its status shows that it has no reply, or its error if it has no status. An error in place of a
    response has no id.
    """
    if not isinstance(plain, Mapping):
        return True

    status = plain.get("status")
    if status is None:
        has_failed = isinstance(plain.get("error"), Mapping) and not plain.get("output")
        return not (has_failed and isinstance(plain.get("id"), str))

    return not (isinstance(status, str) and status in _WITHOUT_REPLY)


def _without_output(plain: JSON) -> JSONObject | None:
    """Return an unfinished response without its partial output; None if there is none."""
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
