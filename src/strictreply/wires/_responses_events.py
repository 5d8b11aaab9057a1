"""A response as events: what of it has been passed on, and what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._chat_calls import label_in
from strictreply.wires._responses_requests import CALLS, kind_of
from strictreply.wires._responses_stream import WRITTEN, ResponsesAssembly

_BEGUN: Mapping[str, JSONObject] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    **{call: {member: ""} for call, member in WRITTEN.items()},
}
"""What an item holds when it is added, before its texts."""

_BAD_ENDS = ("incomplete", "failed", "cancelled")


class ResponsesSent:
    """How much of a response has been passed on as events.

    See :class:`~strictreply.wires._opening.SentSoFar`.
    """

    def __init__(self, _usage: bool = True) -> None:  # every stream ends with its usage
        self._texts: list[str] = []
        self._came = ResponsesAssembly()
        self._number = -1
        self._parts: set[tuple[int | None, int | None]] = set()
        self._ended: set[tuple[int | None, int | None]] = set()

    @property
    def text(self) -> str:
        """The text of the answer that was passed on."""
        return "".join(self._texts)

    def add(self, event: JSON) -> None:
        """Take an event that is passed on."""
        self._came.add(event)
        if "content" in self._came.delta:
            self._texts.append(self._came.delta["content"])

        told: Any = event
        number = told.get("sequence_number")
        self._number = number if isinstance(number, int) else self._number + 1

        at = (
            label_in({"index": told.get("output_index")}),
            label_in({"index": told.get("content_index")}),
        )
        if told.get("type") == "response.content_part.added":
            self._parts.add(at)
        if told.get("type") == "response.content_part.done":
            self._ended.add(at)

    def rest(
        self,
        response: JSONObject,
        came: JSONObject | None,  # noqa: ARG002
    ) -> Iterator[JSONObject]:
        """Yield the events that are left; see :class:`~strictreply.wires._opening.SentSoFar`."""
        for event in self._events(self._one_with_sent(response)):
            self._number += 1
            yield event | {"sequence_number": self._number}

    def _one_with_sent(self, response: JSONObject) -> JSONObject:
        """Return the response with the items that were passed on.

        Those of a later response follow them.
        """
        around = self._came.around
        if not self.text or around.get("id") == response.get("id"):
            return response

        closed: list[JSON] = []
        for item in self._came.response(is_whole=False)["output"]:
            is_message = item.get("type") == "message"
            closed.append(item | {"status": "completed"} if is_message else item)

        behind = list(response["output"])
        if any(kind_of(item) in CALLS for item in behind):
            behind = [item for item in behind if item.get("type") != "message"]

        return response | {
            "id": around.get("id"),
            "created_at": around.get("created_at"),
            "output": [*closed, *behind],
        }

    def _events(self, response: JSONObject) -> Iterator[JSONObject]:
        if self._number < 0:
            begun = response | {"status": "in_progress", "output": [], "usage": None}
            if "completed_at" in response:
                begun["completed_at"] = None

            yield {"type": "response.created", "response": begun}
            yield {"type": "response.in_progress", "response": begun}

        for index, item in enumerate(response["output"]):
            yield from self._item_events(index, item)

        # a status that the API does not have is that of a reply that was accepted
        status = response.get("status")
        end = status if status in _BAD_ENDS else "completed"
        yield {"type": f"response.{end}", "response": response}

    def _item_events(self, index: int, item: JSONObject) -> Iterator[JSONObject]:
        kind = kind_of(item)
        sent = self._sent_as(index, item)
        if sent is not None and sent.label is not None:
            index = sent.label  # the caller knows it under this index
        if sent is not None and sent.is_done:
            return

        if sent is None:
            begun = item | _BEGUN.get(kind, {})
            if item.get("status"):
                begun["status"] = "in_progress"

            yield {"type": "response.output_item.added", "output_index": index, "item": begun}

        place = {"output_index": index, "item_id": item.get("id")}
        if kind == "message":
            for at, part in enumerate(_parts_in(item, "content")):
                text = "" if sent is None else sent.text(at)
                yield from self._part_events(place | {"content_index": at}, part, text)
        elif kind == "reasoning":
            for at, part in enumerate(_parts_in(item, "summary")):
                yield from _summary_events(place | {"summary_index": at}, part)
        elif kind in WRITTEN:
            yield from _written_events(place, item, kind, WRITTEN[kind])

        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    def _sent_as(self, index: int, item: JSONObject) -> Any:
        """Return the item that was passed on and is this one; None when none was."""
        sent = self._came.at(index)
        if sent is not None and sent.kind == kind_of(item):
            return sent

        for held in self._came.items:
            if held.kind == "message" == kind_of(item) and held.whole_text:
                return held

        return None

    def _part_events(self, place: JSONObject, part: JSONObject, sent: str) -> Iterator[JSONObject]:
        at = place["output_index"], place["content_index"]
        if at in self._ended:
            return

        if at not in self._parts:
            begun = part
            if "text" in part:
                begun = part | {"text": "", "annotations": []}

            yield {"type": "response.content_part.added", **place, "part": begun}

        written = part.get("text")
        if isinstance(written, str):
            left = written[len(sent) :]
            if left:
                yield {"type": "response.output_text.delta", **place, "delta": left, "logprobs": []}

            done = {"text": written, "logprobs": part.get("logprobs") or []}
            yield {"type": "response.output_text.done", **place, **done}

        yield {"type": "response.content_part.done", **place, "part": part}


def _parts_in(item: JSONObject, member: str) -> list[JSONObject]:
    """Return the parts of a member that are objects; a server may have written anything there."""
    parts = item.get(member)
    if not isinstance(parts, list):
        return []

    return [part for part in parts if isinstance(part, dict)]


def _written_events(
    place: JSONObject, item: JSONObject, kind: str, member: str
) -> Iterator[JSONObject]:
    event = f"response.{kind}_{member}"
    yield {"type": f"{event}.delta", **place, "delta": item[member]}

    named = {"name": item["name"]} if kind == "function_call" and "name" in item else {}
    yield {"type": f"{event}.done", **place, member: item[member], **named}


def _summary_events(place: JSONObject, part: JSONObject) -> Iterator[JSONObject]:
    yield {"type": "response.reasoning_summary_part.added", **place, "part": part | {"text": ""}}
    yield {"type": "response.reasoning_summary_text.delta", **place, "delta": part.get("text", "")}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": part.get("text", "")}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
