"""Adds the members that the API writes into every response, item and part, if a server omits them.

Programs read these members without checking: the SDK's own ``output_text`` needs a content and its
texts, frameworks need the creation time and the annotations. Each gets the value that the API would
send; ``created_at`` is 0 if unknown. An id or a model is not made up, because the server would not
know it. Empty items and parts are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import is_
from typing import Any

from strictreply.values._issues import pointer
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._dialects import is_blank
from strictreply.wires._responses_items import WRITTEN
from strictreply.wires._responses_requests import kind_of

_OF_ITEMS: Mapping[str, JSONObject] = {
    "message": {"role": "assistant", "content": []},
    "reasoning": {"summary": []},
}
_OF_PARTS: Mapping[str, JSONObject] = {
    "output_text": {"text": "", "annotations": []},
    "refusal": {"refusal": ""},
}
_STATUSES = ("queued", "in_progress", "incomplete", "failed")


class Completing:
    """Completes responses and events; ``rows`` has the rows that were needed, with first places."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}

    def response(self, response: JSONObject, status: str = "completed") -> JSONObject:
        """Return a complete response; the same object if nothing was missing."""
        created = response.get("created")  # chat completions name it so
        is_time = isinstance(created, int | float) and not isinstance(created, bool)
        at = created if is_time else 0
        around: JSONObject = {"object": "response", "created_at": at, "status": status}
        read = self._with_members(response, around, "")
        output = read.get("output")
        if not isinstance(output, list):
            return read

        items = self._listed(output, "/output", self.item)
        return read if items is output else read | {"output": items}

    def event(self, event: JSONObject) -> JSONObject:
        """Return an event with a complete response, item or part."""
        short = str(event.get("type")).removeprefix("response.")
        item = event.get("item")
        response = event.get("response")
        read = event
        if isinstance(response, dict):
            status = short if short in _STATUSES else "completed"
            status = "in_progress" if short == "created" else status
            whole: JSON = self.response(response, status)
            read = read if whole is response else read | {"response": whole}

        if isinstance(item, dict) and short.startswith("output_item."):
            whole = self.item(item, "/item", is_begun=short.endswith(".added"))
            read = read if whole is item else read | {"item": whole}

        part = event.get("part")
        if isinstance(part, dict) and short.startswith("content_part."):
            whole = self._part(part, "/part")
            read = read if whole is part else read | {"part": whole}

        return read

    def item(self, item: JSONObject, at: str, *, is_begun: bool = False) -> JSONObject:
        """Return a complete item; a call that has only started has no arguments yet."""
        kind = kind_of(item)
        members = _OF_ITEMS.get(kind, {})
        if is_begun and kind in WRITTEN:
            members = {WRITTEN[kind]: ""}

        read = self._with_members(item, members, at)
        content = read.get("content")
        if kind != "message" or not isinstance(content, list):
            return read

        parts = self._listed(content, pointer(at, "content"), self._part)
        return read if parts is content else read | {"content": parts}

    def _part(self, part: JSONObject, at: str) -> JSONObject:
        return self._with_members(part, _OF_PARTS.get(kind_of(part), {}), at)

    def _listed(
        self, given: list[object], at: str, completed: Callable[[JSONObject, str], JSONObject]
    ) -> list[object]:
        """Return a list without empty entries and with complete ones; the same if unchanged."""
        said: list[Any] = []
        for index, one in enumerate(given):
            place = pointer(at, index)
            if _says_nothing(one):
                self._note("item_empty", place)
            else:
                said.append(completed(one, place) if isinstance(one, dict) else one)

        is_same = len(said) == len(given) and all(map(is_, said, given))
        return given if is_same else said

    def _with_members(self, given: JSONObject, members: JSONObject, at: str) -> JSONObject:
        missing = {
            name: said for name, said in members.items() if _is_missing(given.get(name), said)
        }
        for name in missing:
            self._note("member_missing", pointer(at, name))

        return given | missing if missing else given

    def _note(self, row: str, place: str) -> None:
        self.rows.setdefault(row, place)


def _is_missing(value: object, said: object) -> bool:
    """Return whether a member is null, or empty but not in the form of the API."""
    return value in (None, "", [], {}) and value != said


def _says_nothing(value: object) -> bool:
    """Return whether an item or a part is null or empty, or contains nothing else."""
    if not isinstance(value, dict | None):
        return False

    try:
        return is_blank(value)
    except RecursionError:
        return False
