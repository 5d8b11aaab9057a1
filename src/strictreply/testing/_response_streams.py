"""What was made for chat completions as bytes (streams, odd bodies), made again for the Responses API.

What can be read in the bytes is translated, event by event, so that what is wrong stays wrong in the same place; what
cannot be read (half an event, a page, a comment) stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from strictreply.testing._as_responses import as_response
from strictreply.values._json import JSON, JSONObject
from strictreply.wires._opening import peek

Part = TypeVar("Part")

_CHUNK = "chat.completion.chunk"
_OBJECT = re.compile(rb'\{"(?:id|error|message)": ')
_OWN = re.compile(rb'"type": ?"response\.')
_DONE = re.compile(rb"data: \[DONE\]\s*")
_LOST = re.compile(rb"\\udc([89a-f][0-9a-f])")  # how a byte that is not UTF-8 is written, once it was read
_ENDED = {"length": ("incomplete", "max_output_tokens"), "content_filter": ("incomplete", "content_filter")}


def retold(parts: tuple[bytes | Part, ...], request: JSONObject, *, endless: bool = False) -> tuple[bytes | Part, ...]:
    """Translate the parts of a body; the last one of an ``endless`` body has no number, as it comes again and again."""
    if any(isinstance(part, bytes) and _OWN.search(part) for part in parts):
        return parts  # recorded of the API itself
    stream = _Translation()
    last = len(parts) - 1
    return tuple(
        _retold(part, request, stream, numbered=not (endless and at == last)) if isinstance(part, bytes) else part
        for at, part in enumerate(parts)
    )


def _retold(part: bytes, request: JSONObject, stream: _Translation, *, numbered: bool) -> bytes:
    if done := _DONE.search(part):
        prefix = part[: done.start()] + b"data: "
        return _written(stream.ended(), prefix, b"\n" if part.endswith(b"\n") and part[-2:] != b"\n\n" else b"\n\n")
    out, at = b"", 0
    while found := _OBJECT.search(part, at):
        value, end = _read(part, found.start())
        before = part[at : found.start()]
        if peek(value, "object") == "chat.completion" and isinstance(value, dict):
            out += before + _bytes_of(as_response(value, request), part)
        elif peek(value, "object") == _CHUNK and _is_utf8(part):
            return out + _written(stream.events(value, numbered=numbered), before, part[end:])
        elif before.startswith(b"event: error"):
            return out + before + _bytes_of({"type": "error", **_error_of(value)}, part) + part[end:]
        else:
            out += before + part[found.start() : end]
        at = end
    return out + part[at:]


def _error_of(value: Any) -> JSONObject:
    return {name: value.get(name) for name in ("code", "message", "param")} if isinstance(value, dict) else {}


def _read(part: bytes, start: int) -> tuple[Any, int]:
    """Read the JSON that begins at a byte, and where it ends; None and the next byte where there is none."""
    text = part[start:].decode("utf-8", "surrogateescape")
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None, start + 1
    return value, start + len(text[:end].encode("utf-8", "surrogateescape"))


def _is_utf8(part: bytes) -> bool:
    try:
        part.decode()
    except UnicodeDecodeError:
        return False
    return True


def _bytes_of(value: JSON, part: bytes) -> bytes:
    body = json.dumps(value).encode()
    return body if _is_utf8(part) else _LOST.sub(lambda byte: bytes.fromhex(byte[1].decode()), body)


def _written(events: Iterator[JSON], before: bytes, after: bytes) -> bytes:
    """Write events between the bytes that stood around a chunk; named, where those are an event's."""
    lines = list[bytes]()
    for one in events:
        kind = peek(one, "type")
        name = b"event: %b\n" % kind.encode() if isinstance(kind, str) and before else b""
        lines.append(name + before + json.dumps(one).encode() + after)
    return b"".join(lines)


class _Translation:
    """The chunks of one stream so far, as items: a text is a message, a call is one under its own index."""

    def __init__(self) -> None:
        self._around: JSONObject = {"id": "resp_1", "object": "response", "created_at": 0, "model": None, "error": None}
        self._items: dict[Any, JSONObject] = {}
        self._places: dict[Any, JSONObject] = {}
        self._number = -1
        self._reason: JSON = None
        self._is_numbered = True

    def events(self, chunk: JSONObject, *, numbered: bool = True) -> Iterator[JSON]:
        """Yield the events of a chunk, which may be spoiled."""
        self._is_numbered = numbered
        yield from self._begun(chunk)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            yield self._event(None)  # an event without a type
        for choice in choices if isinstance(choices, list) else ():
            yield from self._choice(choice)

    def ended(self) -> Iterator[JSON]:
        """Yield the end; a stream that gave no reason for it leaves its items and itself in progress."""
        yield from self._begun({})
        self._is_numbered = True
        status, why = _ENDED.get(str(self._reason), ("completed" if self._reason else "in_progress", None))
        output = list(self._items.values())
        details: JSON = {"reason": why} if why else None
        yield self._event("completed" if why is None else status, response=self._response(status, output, details))

    def _begun(self, chunk: JSONObject) -> Iterator[JSON]:
        if self._number < 0:
            self._around |= {"created_at": chunk.get("created", 0), "model": chunk.get("model")}
            for kind in ("created", "in_progress"):
                yield self._event(kind, response=self._response("in_progress", [], None))

    def _response(self, status: str, output: list[Any], details: JSON) -> JSONObject:
        told: JSONObject = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "usage": None}
        return self._around | {"status": status, "incomplete_details": details, "output": output} | told

    def _event(self, kind: str | None, **members: JSON) -> JSONObject:
        self._number += 1
        named: JSONObject = {} if kind is None else {"type": f"response.{kind}"}
        return named | members | ({"sequence_number": self._number} if self._is_numbered else {})

    def _choice(self, choice: Any) -> Iterator[JSON]:
        if not isinstance(choice, dict):
            yield choice
            return
        delta: Any = choice.get("delta")
        if choice.get("index", 0) != 0:  # a reply beside the reply: an item that nobody announced
            content: Any = peek(delta, "content")
            place: JSONObject = {"output_index": len(self._items) + 1, "item_id": "msg_2", "content_index": 0}
            yield self._event("output_text.delta", **place, delta=content, logprobs=[])
        elif not isinstance(delta, dict):
            yield self._spoilt(delta)
        else:
            yield from self._delta(delta)
        if choice.get("finish_reason") is not None:
            self._reason = choice["finish_reason"]
            yield from self._closed()

    def _delta(self, delta: JSONObject) -> Iterator[JSON]:
        held = self._items.get("text", {}).get("role", "assistant")
        role, content, calls = delta.get("role", held), delta.get("content"), delta.get("tool_calls")
        if role != "assistant" or content is not None:
            yield from self._text(content, role)
        if calls is not None and not isinstance(calls, list):
            yield self._spoilt(calls)
        for call in calls if isinstance(calls, list) else ():
            yield from self._call(call)

    def _text(self, text: JSON, role: JSON) -> Iterator[JSON]:
        if "text" not in self._items:
            part: JSONObject = {"type": "output_text", "text": "", "annotations": []}
            index = len(self._items)
            about = {"id": "msg_1", "type": "message", "role": role, "status": "in_progress", "content": []}
            yield from self._added("text", index, about)
            yield self._event("content_part.added", **self._place("text"), content_index=0, part=part)
            self._items["text"]["content"] = [part]
        self._items["text"]["role"] = role  # a later word on it counts
        if text is not None and text != "":
            own = self._items["text"]["content"][0]
            own["text"] += text if isinstance(text, str) else ""
            yield self._event("output_text.delta", **self._place("text"), content_index=0, delta=text, logprobs=[])

    def _call(self, call: Any) -> Iterator[JSON]:
        function: Any = peek(call, "function")
        if not isinstance(function, dict):
            yield self._spoilt(function)
            return
        key = call.get("index", "none")
        if any(value is not None for value in (call.get("id"), function.get("name"), call.get("type"))):
            index = key + ("text" in self._items) if isinstance(key, int) else call.get("index")
            told = {"call_id": call.get("id"), "name": function.get("name")}
            about: JSONObject = {"id": f"fc_{len(self._items)}", "type": "function_call", "status": "in_progress"}
            about |= {name: value for name, value in told.items() if value is not None} | {"arguments": ""}
            yield from self._added(key, index, about)
        written = function.get("arguments")
        if written is not None and written != "":
            if key in self._items and isinstance(written, str):
                self._items[key]["arguments"] += written
            yield self._event("function_call_arguments.delta", **self._place(key), delta=written)

    def _added(self, key: Any, index: JSON, item: JSONObject) -> Iterator[JSON]:
        place: JSONObject = {} if index is None else {"output_index": index}
        yield self._event("output_item.added", **place, item=dict(item))
        if key not in self._items:
            self._items[key] = item
            self._places[key] = place | {"item_id": item["id"]}

    def _spoilt(self, value: JSON) -> JSON:
        """Return an event whose delta is what is no delta, of the item that is being written."""
        key = next(reversed(self._items), "text")
        is_text = key == "text"
        kind = "output_text.delta" if is_text else "function_call_arguments.delta"
        return self._event(kind, **self._place(key), **({"content_index": 0} if is_text else {}), delta=value)

    def _place(self, key: Any) -> JSONObject:
        """Return where an item stands; of one that was never added, where it would."""
        nowhere: JSONObject = {"output_index": key if isinstance(key, int) else 0, "item_id": "fc_0"}
        return self._places.get(key, nowhere)

    def _closed(self) -> Iterator[JSON]:
        """Yield the ends of all items, also of those that were at their end before."""
        status = "incomplete" if self._reason == "length" else "completed"
        for key, item in self._items.items():
            place = self._place(key)
            item["status"] = status
            if item["type"] == "message":
                part = item["content"][0]
                at = place | {"content_index": 0}
                yield self._event("output_text.done", **at, text=part["text"], logprobs=[])
                yield self._event("content_part.done", **at, part=part)
            else:
                told = {"name": item["name"]} if "name" in item else {}
                yield self._event("function_call_arguments.done", **place, arguments=item["arguments"], **told)
            index = {"output_index": place["output_index"]} if "output_index" in place else {}
            yield self._event("output_item.done", **index, item=item)
