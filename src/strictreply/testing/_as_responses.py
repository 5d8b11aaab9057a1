"""What is served to the Responses API: completions as responses, and requests as those of chat completions.

So everything that answers chat completions (scripts, faults, the unreliable model) answers this API as well: the path
of a request decides. What is wrong in a completion is wrong in the same place of the response.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from strictreply.testing._event_streams import pieces_of
from strictreply.values._json import JSON, JSONObject
from strictreply.wires._events import typed_event
from strictreply.wires._opening import peek, reason_code
from strictreply.wires._responses import RESPONSES
from strictreply.wires._responses_stream import ResponsesSent

_ECHOED = ("instructions", "metadata", "parallel_tool_calls", "previous_response_id", "reasoning", "store", "text")
_DELTAS = frozenset({"response.output_text.delta", "response.function_call_arguments.delta"})
_CUT: JSONObject = {"reason": "max_output_tokens"}
_CALL_MEMBERS = frozenset({"id", "type", "function"})


def as_chat_request(request: JSONObject) -> JSONObject:
    """Return the request that asks for the same by chat completions; ContractError where it is none of this API.

    ``input`` stays in it as it was sent: by that it is known as one of this API (see :func:`is_of_responses`).
    """
    read = RESPONSES.read(request)
    messages: list[JSONObject] = []
    if isinstance(read.get("instructions"), str):
        messages.append({"role": "system", "content": read["instructions"]})
    for item in read["messages"]:
        _add(messages, item)
    kept = {name: value for name, value in read.items() if name not in {"server_tools", "server_choice"}}
    return kept | {"input": request.get("input"), "messages": messages}


def is_of_responses(request: JSONObject) -> bool:
    """Report whether a request that a model was asked came by this API."""
    return "input" in request


def _add(messages: list[JSONObject], item: Any) -> None:
    kind = peek(item, "type")
    if kind == "function_call":
        if not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant", "content": None})
        last = messages[-1]
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        made = {"id": item.get("call_id"), "type": "function", "function": function}
        last["tool_calls"] = [*last.get("tool_calls", []), made]
    elif kind == "function_call_output":
        messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
    elif peek(item, "role") is not None:
        content = item.get("content")
        parts = content if isinstance(content, list) else []
        texts = [part.get("text", "") for part in parts if isinstance(part, dict)]
        messages.append({"role": item["role"], "content": "".join(texts) if texts else content})


def as_response(completion: JSON, request: JSONObject) -> JSON:
    """Return a completion as a response; what has no message in its one choice is served as it is."""
    choices: Any = completion.get("choices") if isinstance(completion, dict) else None
    choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(completion, dict) or not isinstance(choice, dict) or not isinstance(message, dict):
        return completion
    mark = hashlib.sha256(json.dumps(completion, default=str).encode()).hexdigest()[:24]
    status, details = _ending(choice)
    return {
        "id": f"resp_{mark}",
        "object": "response",
        "created_at": completion.get("created", 0),
        "status": status,
        "error": completion.get("error") or choice.get("error"),
        "incomplete_details": details,
        "model": completion.get("model"),
        **{name: request.get(name) for name in _ECHOED},
        "tools": request.get("tools") or [],
        "tool_choice": request.get("tool_choice") or "auto",
        "output": list(_items(message, mark, "incomplete" if details == _CUT else "completed")),
        "usage": _usage(completion.get("usage")),
    }


def _ending(choice: JSONObject) -> tuple[JSON, JSON]:
    """Return the status of a response and the details of an incomplete one; a reason that is bad is its reason."""
    native = next((reason for reason in (choice.get("native_finish_reason"),) if reason_code(reason)), None)
    reason = native or choice.get("finish_reason")
    if reason is not None and not isinstance(reason, str):
        return reason, None
    if reason == "length":
        return "incomplete", _CUT
    return ("incomplete", {"reason": reason}) if reason_code(reason) else ("completed", None)


def _items(message: JSONObject, mark: str, status: str) -> Iterator[JSON]:
    if isinstance(message.get("reasoning_content"), str):
        summary: list[JSON] = [{"type": "summary_text", "text": message["reasoning_content"]}]
        yield {"id": f"rs_{mark}", "type": "reasoning", "summary": summary}
    content, refusal, calls = message.get("content"), message.get("refusal"), message.get("tool_calls")
    legacy = message.get("function_call")
    if refusal or content is not None or not (calls or legacy):
        yield {
            "id": f"msg_{mark}",
            "type": "message",
            "role": message.get("role"),
            "status": status,
            "content": _content(content, refusal),
        }
    if legacy:
        yield {"id": f"fc_{mark}", "type": "function_call", "status": status, "function_call": legacy}
    if calls is not None and not isinstance(calls, list):
        yield {"id": f"fc_{mark}", "type": "function_call", "status": status, "tool_calls": calls}
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        yield _call(call, f"fc_{mark}{index}", status)


def _content(content: JSON, refusal: JSON) -> JSON:
    if refusal:
        return [{"type": "refusal", "refusal": refusal}]
    if content is None:
        return []
    return [{"type": "output_text", "text": content, "annotations": []}] if isinstance(content, str) else content


def _call(call: JSON, id_: str, status: str) -> JSON:
    if not isinstance(call, dict):
        return call
    function = call.get("function")
    named: JSONObject = dict(function) if isinstance(function, dict) else {"function": function}
    kind = "function_call" if call.get("type") == "function" else f"{call.get('type')}_call"
    told = {"call_id": call["id"]} if "id" in call else {}
    beside = {name: call[name] for name in call if name not in _CALL_MEMBERS}
    return {"id": id_, "type": kind, "status": status, **beside, **told, **named}


def _usage(usage: JSON) -> JSON:
    if not isinstance(usage, dict):
        return usage
    prompt, answer = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answer,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.get("total_tokens"),
    }


def response_events(response: JSON) -> tuple[bytes, ...]:
    """Write a response as the events of a stream; what is none is one event as it is."""
    try:
        told = [*ResponsesSent().rest(response, None)] if isinstance(response, dict) else [response]
    except (AttributeError, KeyError, TypeError):  # too spoiled to be told piece by piece
        told = [{"type": "response.completed", "response": response, "sequence_number": 0}]
    pieces = [piece for one in told for piece in _pieces(one)]
    counted = [one | {"sequence_number": number} if isinstance(one, dict) else one for number, one in enumerate(pieces)]
    return tuple(map(typed_event, counted))


def _pieces(event: Any) -> Iterator[Any]:
    text = peek(event, "delta")
    if peek(event, "type") not in _DELTAS or not isinstance(text, str):
        yield event
        return
    yield from (event | {"delta": piece} for piece in pieces_of(text))
