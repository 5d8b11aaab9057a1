"""How the kit writes the Responses API: scripts in chat completions, translated.

Requests become those of chat completions; completions and streams become the API's own. A fault in
them is in the same place after the translation.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from strictreply.core import JSON, JSONObject
from strictreply.core.forms import read_request, reason_code
from strictreply.testing._chat_writer import pieces_of, wrong_model
from strictreply.testing._retelling import Retelling, respelt, retold
from strictreply.testing._wire import HTTPReply, ServedError, member
from strictreply.testing._writer import BaseWriter
from strictreply.wires import wire_named

RESPONSES = wire_named("responses")
_DELTAS = frozenset({"response.output_text.delta", "response.function_call_arguments.delta"})


def as_chat_request(request: JSONObject) -> JSONObject:
    """Return a request of the Responses API as chat completions have it, with its ``input``.

    Raises ContractError for a request that is not of that API.
    """
    read = read_request(request)
    messages: list[JSONObject] = []
    if isinstance(read.get("instructions"), str):
        messages.append({"role": "system", "content": read["instructions"]})

    for item in read["messages"]:
        match item:
            case {"type": "function_call"}:
                if not messages or messages[-1]["role"] != "assistant":
                    messages.append({"role": "assistant", "content": None})

                function = {name: item.get(name) for name in ("name", "arguments")}
                made = {"id": item.get("call_id"), "type": "function", "function": function}
                messages[-1].setdefault("tool_calls", []).append(made)
            case {"type": "function_call_output"}:
                id_ = item.get("call_id")
                result = {"role": "tool", "tool_call_id": id_, "content": item.get("output")}
                messages.append(result)
            case {"role": role} if role is not None:
                content = item.get("content")
                parts = content if isinstance(content, list) else []
                texts = [part.get("text", "") for part in parts if isinstance(part, dict)]
                messages.append({"role": role, "content": "".join(texts) if texts else content})
            case _:
                pass

    members = {
        name: value for name, value in read.items() if name not in {"server_tools", "server_choice"}
    }
    return members | {"input": request.get("input"), "messages": messages}


# What a response repeats of its request, with what the API says where the request says nothing.
_ECHOED: JSONObject = {
    "background": False,
    "frequency_penalty": 0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1,
    "tool_choice": "auto",
    "top_logprobs": 0,
    "top_p": 1,
    "truncation": "disabled",
}
_REASONING: JSONObject = {"effort": None, "summary": None}
_TEXT: JSONObject = {"format": {"type": "text"}}
_OUTPUT_TEXT: JSONObject = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
_FUNCTION_TOOL: JSONObject = {"description": None, "parameters": None, "strict": None}


def as_response(completion: JSON, request: JSONObject) -> JSON:
    """Return a completion as a response.

    What does not have one choice with a message is returned as it is.
    """
    choices: Any = completion.get("choices") if isinstance(completion, dict) else None
    choice: Any = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    message: Any = member(choice, "message")
    if not (isinstance(completion, dict) and isinstance(message, dict)):
        return completion

    mark = hashlib.sha256(json.dumps(completion, default=str).encode()).hexdigest()[:24]
    status, why = _ending(choice)
    status_of_items = "incomplete" if why == "max_output_tokens" else "completed"

    created = completion.get("created", 0)

    return {
        "id": f"resp_{mark}",
        "object": "response",
        "created_at": created,
        "completed_at": created if status == "completed" else None,
        "status": status,
        "error": completion.get("error") or choice.get("error"),
        "incomplete_details": {"reason": why} if why else None,
        "model": completion.get("model"),
        **_echoed(request),
        "output": list(_items(message, mark, status_of_items)),
        "usage": _usage(completion.get("usage")),
    }


def _echoed(request: JSONObject) -> JSONObject:
    """Return what a response repeats of its request, all members that the API has."""
    stated = {name: request[name] for name in _ECHOED if request.get(name) is not None}
    if stated.get("service_tier") == "auto":
        del stated["service_tier"]

    listed: Any = request.get("tools")
    tools = [
        (_FUNCTION_TOOL | tool if member(tool, "type") == "function" else tool)
        for tool in (listed if isinstance(listed, list) else ())
    ]
    objects: JSONObject = {
        name: usual | given if isinstance(given := request.get(name), dict) else usual
        for name, usual in (("reasoning", _REASONING), ("text", _TEXT))
    }
    return {**_ECHOED, **stated, **objects, "tools": tools}


def _ending(choice: JSONObject) -> tuple[JSON, JSON]:
    """Return the status of a response, and why it is incomplete.

    A finish reason that is not a text is the status.
    """
    native = choice.get("native_finish_reason")
    reason = (native if reason_code(native) else None) or choice.get("finish_reason")
    if reason_code(reason):
        return "incomplete", "max_output_tokens" if reason == "length" else reason

    return "completed" if isinstance(reason, str | None) else reason, None


def _usage(usage: JSON) -> JSON:
    if not isinstance(usage, dict):
        return usage

    return {
        "input_tokens": usage.get("prompt_tokens"),
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
        "output_tokens": usage.get("completion_tokens"),
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.get("total_tokens"),
    }


def _items(message: JSONObject, mark: str, status: str) -> Iterator[JSON]:
    if isinstance(message.get("reasoning_content"), str):
        summary: list[JSON] = [{"type": "summary_text", "text": message["reasoning_content"]}]
        yield {"id": f"rs_{mark}", "type": "reasoning", "summary": summary}

    content = message.get("content")
    refusal = message.get("refusal")
    calls = message.get("tool_calls")
    legacy = message.get("function_call")

    if refusal or content is not None or not (calls or legacy):
        parts: JSON = [] if content is None else content
        if refusal:
            parts = [{"type": "refusal", "refusal": refusal}]
        elif isinstance(content, str):
            parts = [_OUTPUT_TEXT | {"text": content}]

        yield {
            "id": f"msg_{mark}",
            "type": "message",
            "role": message.get("role"),
            "status": status,
            "content": parts,
        }

    odd: JSONObject = {"id": f"fc_{mark}", "type": "function_call", "status": status}
    if legacy:
        yield odd | {"function_call": legacy}
    if calls is not None and not isinstance(calls, list):
        yield odd | {"tool_calls": calls}

    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        yield _call(call, f"fc_{mark}{index}", status)


def _call(call: JSON, id_: str, status: str) -> JSON:
    if not isinstance(call, dict):
        return call

    function = call.get("function")
    named: JSONObject = dict(function) if isinstance(function, dict) else {"function": function}
    kind = "function_call" if call.get("type") == "function" else f"{call.get('type')}_call"
    ids = {"call_id": call["id"]} if "id" in call else {}
    beside = {name: call[name] for name in call if name not in {"id", "type", "function"}}
    return {"id": id_, "type": kind, "status": status, **beside, **ids, **named}


def response_pieces(response: JSON) -> list[JSON]:
    """Take a response apart into the events of a stream, numbered.

    What is not a response is one event, as it is.
    """
    sent: list[Any]
    try:
        sent = [response]
        if isinstance(response, dict):
            sent = [*RESPONSES.sent(True).rest(response, None)]
    except (AttributeError, KeyError, TypeError):  # too spoiled to be written piece by piece
        sent = [{"type": "response.completed", "response": response, "sequence_number": 0}]

    pieces: list[Any] = []
    for one in sent:
        text: Any = member(one, "delta")
        is_text = isinstance(text, str) and member(one, "type") in _DELTAS
        pieces += [one | {"delta": piece} for piece in pieces_of(text)] if is_text else [one]

    return [
        one | {"sequence_number": number} if isinstance(one, dict) else one
        for number, one in enumerate(pieces)
    ]


_OF_AN_ERROR = ("code", "message", "param")
_OWN = re.compile(rb'"type": ?"response\.')


class _Translation(Retelling):
    """The chunks of one stream so far, as items.

    A text is a message; a call is an item under its own index.
    """

    own = _OWN

    def __init__(self, request: JSONObject, *, numbered: bool) -> None:
        self._request = request
        self._response: Any = as_response({"choices": [{"message": {}}]}, request)
        # where each stands, and what came of it
        self._items: dict[Any, tuple[JSONObject, JSONObject]] = {}
        self._unadded: dict[Any, str] = {}  # what came of a call before it was added
        self._latest: dict[Any, Any] = {}  # under an index that several calls have, the last one
        self._number = -1
        self._reason: JSON = None
        self._is_numbered = numbered

    def whole(self, completion: JSON) -> JSON:
        """Return a completion as a response."""
        return as_response(completion, self._request)

    def error(self, value: JSON, *, is_named: bool) -> JSON:
        """Return an event that is named an error with the members of one; None for any other."""
        if not is_named:
            return None

        return {"type": "error", **{name: member(value, name) for name in _OF_AN_ERROR}}

    def events(self, chunk: JSONObject) -> Iterator[JSON]:
        """Yield the events of a chunk, which may be spoiled."""
        yield from self._begun(chunk)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            yield self._event({})  # an event without a type
            return

        for choice in choices:
            yield from self._choice(choice) if isinstance(choice, dict) else [choice]

    def ended(self) -> Iterator[JSON]:
        """Yield the end of the stream.

        A stream that gave no reason for its end leaves its items and itself in progress.
        """
        yield from self._begun({})

        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        why = reasons.get(str(self._reason))
        if why:
            status = "incomplete"
        elif self._reason:
            status = "completed"
        else:
            status = "in_progress"

        added: JSONObject = {
            "status": status,
            "incomplete_details": {"reason": why} if why else None,
            "output": [item for _, item in self._items.values()],
        }
        kind = "response.incomplete" if why else "response.completed"
        yield self._event({"type": kind, "response": self._response | added})

    def _begun(self, chunk: JSONObject) -> Iterator[JSON]:
        if self._number < 0:
            known = {"created_at": chunk.get("created", 0), "model": chunk.get("model")}
            self._response |= {"output": [], "status": "in_progress", **known}
            for kind in ("created", "in_progress"):
                yield self._event({"type": f"response.{kind}", "response": self._response})

    def _event(self, event: JSONObject) -> JSONObject:
        self._number += 1
        return event | ({"sequence_number": self._number} if self._is_numbered else {})

    def _choice(self, choice: JSONObject) -> Iterator[JSON]:
        delta: Any = choice.get("delta")
        if choice.get("index", 0) != 0:  # a reply beside the reply: an item that nobody announced
            content: Any = member(delta, "content")
            yield self._piece("beside", content)
        else:
            yield from self._delta(delta) if isinstance(delta, dict) else [self._spoilt(delta)]

        if choice.get("finish_reason") is not None:
            self._reason = choice["finish_reason"]

            # also of those that were at their end before
            for place, item in self._items.values():
                item["status"] = "incomplete" if self._reason == "length" else "completed"
                yield from self._about(place, item, "done")

    def _delta(self, delta: JSONObject) -> Iterator[JSON]:
        _, item = self._items.get("text", ({}, {"role": "assistant"}))
        role = delta.get("role", item["role"])
        content = delta.get("content")
        calls = delta.get("tool_calls")

        if role != "assistant" or content is not None:
            if "text" not in self._items:
                about = {
                    "id": "msg_1",
                    "type": "message",
                    "status": "in_progress",
                    "role": role,
                    "content": [dict(_OUTPUT_TEXT)],
                }
                yield from self._added("text", len(self._items), about)

            self._items["text"][1]["role"] = role  # a later word on it counts
            if content is not None and content != "":
                yield self._piece("text", content)

        if calls is not None and not isinstance(calls, list):
            yield self._spoilt(calls)
        for call in calls if isinstance(calls, list) else ():
            yield from self._call(call)

    def _call(self, call: Any) -> Iterator[JSON]:
        function: Any = member(call, "function")
        if not isinstance(function, dict):
            yield self._spoilt(function)
            return

        label = call.get("index", "none")
        key = self._latest.get(label, label)
        ids = {"call_id": call.get("id"), "name": function.get("name"), "type": call.get("type")}
        stated = {name: value for name, value in ids.items() if value is not None}
        id_ = stated.get("call_id")
        is_other = key in self._items and id_ not in (None, self._items[key][1].get("call_id"))

        if is_other and "name" not in stated:  # the id that a delta has is that of its item
            place, item = self._items[key]
            yield self._delta_event("", place, item | {"id": f"fc_{id_}"})
        elif stated:
            if is_other:
                key = self._latest[label] = (label, id_)

            about: JSONObject = {
                "id": f"fc_{len(self._items)}",
                "status": "in_progress",
                **stated,
                "arguments": "",
            }
            is_counted = isinstance(label, int)
            index = label + ("text" in self._items) if is_counted else call.get("index")
            yield from self._added(key, index, about | {"type": "function_call"})

        if function.get("arguments") not in (None, ""):
            yield self._piece(key, function["arguments"])

    def _added(self, key: object, index: JSON, item: JSONObject) -> Iterator[JSON]:
        place: JSONObject = {} if index is None else {"output_index": index}
        yield from self._about(place, item, "added")
        if key not in self._items:
            self._items[key] = place, item
            if key in self._unadded:
                item["arguments"] = self._unadded.pop(key)

    def _about(self, place: JSONObject, item: JSONObject, end: str) -> Iterator[JSON]:
        """Yield the events of an item that add it, or those that end it."""
        for one in RESPONSES.sent(True).rest({"output": [item]}, None):
            if one["type"].endswith(end):
                members = {name: value for name, value in one.items() if name != "output_index"}
                yield self._event(members | place)

    def _spoilt(self, value: JSON) -> JSON:
        """Return an event, of the item that is being written, whose delta is not a delta."""
        return self._piece(next(reversed(self._items), "text"), value)

    def _piece(self, key: object, value: JSON) -> JSON:
        """Return an event of a delta; of an item that was never added, where it would be."""
        place, item = self._items.get(key, ({"output_index": len(self._items)}, {"id": "fc_0"}))
        text = value if isinstance(value, str) else ""

        if key not in self._items:
            self._unadded[key] = self._unadded.get(key, "") + text
        elif self._reason is None:  # behind the finish, the item is what it was
            self._extend(item, text)

        return self._delta_event(value, place, item)

    def _extend(self, item: JSONObject, text: str) -> None:
        if item.get("type") == "message":
            item["content"][0]["text"] += text
        else:
            item["arguments"] = item.get("arguments", "") + text

    def _delta_event(self, delta: JSON, place: JSONObject, item: JSONObject) -> JSON:
        piece: JSONObject = {"type": "response.function_call_arguments.delta"}
        if item.get("type") == "message":
            piece = {"type": "response.output_text.delta", "content_index": 0, "logprobs": []}

        return self._event(piece | place | {"item_id": item["id"], "delta": delta})


class ResponsesWriter(BaseWriter):
    """The server of the Responses API."""

    def refusal(self, body: JSONObject) -> ServedError | None:
        """Return why the server refuses the body of a request; None if it does not."""
        error = wrong_model(body)
        given: Any = body.get("input")
        items = [given] if isinstance(given, str) else given
        is_list = isinstance(items, list) and bool(items)
        if error or (is_list and all(isinstance(one, str | dict) for one in items)):
            return error

        return ServedError(400, "'input' must be a text or a list of items", param="input")

    def asked(self, body: JSONObject) -> JSONObject:
        """Return a request as chat completions have it, with its ``input``."""
        return as_chat_request(body)

    def written(self, served: JSON, body: JSONObject) -> JSON:
        """Return a completion as a response, and what is not one as it is."""
        return as_response(served, body)

    def events(self, response: JSON, body: JSONObject) -> Iterable[JSON]:  # noqa: ARG002
        """Take a response apart into its events."""
        return response_pieces(response)

    def over_http(self, reply: HTTPReply, body: JSONObject) -> HTTPReply:
        """Return an HTTP response with the completions and chunks in its body translated."""
        # the last events of an endless body are repeated, so that they have no numbers
        return retold(reply, _Translation(body, numbered=not reply.endless))

    def given_events(self, text: str) -> Iterator[bytes]:
        """Cut a stream that a user gives into events; chunks are spelt as the kit does."""
        return map(respelt, super().given_events(text))


RESPONSES_WRITER = ResponsesWriter(RESPONSES)
