"""How the kit writes the Messages API: scripts in chat completions, translated.

Requests become those of chat completions; completions and streams become the API's own. A fault in
them is in the same place after the translation.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from strictreply.core import JSON, JSONObject, Request, decode
from strictreply.testing._chat_writer import pieces_of, wrong_model
from strictreply.testing._retelling import Retelling, respelt, retold
from strictreply.testing._wire import HTTPReply, ServedError, member
from strictreply.testing._writer import BaseWriter, RequestTurn, in_chat_words
from strictreply.wires import wire_named

MESSAGES = wire_named("messages")

_REASONS: Mapping[object, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
}
"""The reasons for an end, by the words of chat completions; any other word stays as it is."""

_KINDS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.PAYMENT_REQUIRED: "billing_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.REQUEST_TIMEOUT: "timeout_error",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout_error",
    529: "overloaded_error",
}
"""The types of errors by their status (Anthropic, errors)."""

_OWN_ERRORS: Mapping[str | None, tuple[int, str, str]] = {
    "context_length_exceeded": (
        HTTPStatus.BAD_REQUEST,
        "invalid_request_error",
        "prompt is too long: 200001 tokens > 200000 maximum",
    ),
    "insufficient_quota": (
        HTTPStatus.BAD_REQUEST,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API",
    ),
}
"""What the API answers where OpenAI has a code: the status, the type, and the beginning."""

_TEXTS = ("text", "thinking", "partial_json")
"""The members of a delta that come in several pieces."""

_USAGE: JSONObject = {"input_tokens": 10, "output_tokens": 1}


def error_form(kind: str, message: JSON) -> JSONObject:
    """Write an error as the API does."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def as_message(completion: JSON) -> JSON:
    """Return a completion as a message.

    An error is one in the API's form. What has not one choice with a message is returned as it is.
    """
    choices: Any = member(completion, "choices")
    choice: Any = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
    message: Any = member(choice, "message")
    if not (isinstance(completion, dict) and isinstance(message, dict)):
        error: Any = member(completion, "error")
        is_error = isinstance(error, dict) and choices is None
        return _as_error(error) if is_error else completion

    mark = hashlib.sha256(json.dumps(completion, default=str).encode()).hexdigest()[:24]
    refusal = message.get("refusal")
    given: JSONObject = {"role": message["role"]} if "role" in message else {}
    error = completion.get("error") or choice.get("error")
    calls = message.get("tool_calls")

    written: JSONObject = {
        "id": f"msg_{mark}",
        "type": "message",
        **given,
        "model": completion.get("model"),
        "content": [*_thoughts(message, mark), *_said(message), *_calls(message, calls)],
        "stop_reason": "refusal" if refusal else _reason(choice),
        "stop_sequence": None,
        **_usage(completion),
    }
    if refusal:
        details = {"type": "refusal", "category": None, "explanation": refusal}
        written["stop_details"] = details

    return written | {"error": error} if error else written


def _as_error(error: JSONObject) -> JSON:
    kind = error.get("type")
    return error_form(str("api_error" if kind == "server_error" else kind), error.get("message"))


def _reason(choice: JSONObject) -> JSON:
    reason = choice.get("finish_reason")
    return _REASONS.get(reason, reason) if isinstance(reason, str) else reason


def _usage(completion: JSONObject) -> JSONObject:
    usage = completion.get("usage")
    if not isinstance(usage, dict):
        return {"usage": usage} if "usage" in completion else {}

    counts = {"input_tokens": usage.get("prompt_tokens")}
    return {"usage": {**counts, "output_tokens": usage.get("completion_tokens")}}


def _thoughts(message: JSONObject, mark: str) -> Iterator[JSON]:
    thoughts = message.get("reasoning_content")
    if isinstance(thoughts, str):
        yield {"type": "thinking", "thinking": thoughts, "signature": mark}


def _said(message: JSONObject) -> Iterator[JSON]:
    """Yield the blocks of a content; the API has no empty ones."""
    content = message.get("content")
    if isinstance(content, list):
        yield from content
    elif content is not None and content != "":
        yield {"type": "text", "text": content}


def _calls(message: JSONObject, calls: JSON) -> Iterator[JSON]:
    """Yield the blocks of calls; what is not one, and a list of none, keep their members."""
    legacy = message.get("function_call")
    if legacy:
        yield {"type": "tool_use", "function_call": legacy}
    if calls is not None and not isinstance(calls, list):
        yield {"type": "tool_use", "tool_calls": calls}

    for call in calls if isinstance(calls, list) else ():
        yield _call(call) if isinstance(call, dict) else call


def _call(call: JSONObject) -> JSON:
    kind = call.get("type")
    named: Any = call.get("function")
    given: JSONObject = dict(named) if isinstance(named, dict) else {"function": named}
    beside = {name: call[name] for name in call if name not in ("type", "function")}
    if "arguments" in given:
        given["input"] = _input(given.pop("arguments"))

    return {"type": "tool_use" if kind == "function" else f"{kind}_call", **beside, **given}


def _input(arguments: JSON) -> JSON:
    """Return the input of a call: what is not the JSON of an object stands there as it is."""
    value = decode(arguments) if isinstance(arguments, str) else arguments
    return value if isinstance(value, dict) else arguments


def message_pieces(response: JSON) -> Iterator[JSON]:
    """Take a message apart into the events of a stream, its texts and inputs in several pieces.

    What is not a message is one event, as it is.
    """
    if not isinstance(response, dict) or response.get("type") != "message":
        yield response
        return

    try:
        events = [*MESSAGES.sent(True).rest(response, None)]
    except (AttributeError, KeyError, TypeError):  # too spoiled to be written piece by piece
        events = [{"type": "message_start", "message": response}, {"type": "message_stop"}]

    is_pinged = False
    for one in events:
        yield from _pieces(one)
        if one["type"] == "content_block_start" and not is_pinged:
            is_pinged = True
            yield {"type": "ping"}


def _pieces(event: JSONObject) -> Iterator[JSON]:
    """Yield an event, a delta of a text in pieces; an input has an empty one before them."""
    delta = event.get("delta")
    name = next((one for one in _TEXTS if isinstance(member(delta, one), str)), None)
    if name is None or not isinstance(delta, dict) or event["type"] != "content_block_delta":
        yield event
        return

    first = [""] if name == "partial_json" else []
    for piece in (*first, *pieces_of(delta[name])):
        yield event | {"delta": {**delta, name: piece}}


class _MessageRetelling(Retelling):
    """The chunks of one stream so far, as blocks.

    A text is a block; a call is one under its own index.
    """

    own = re.compile(rb'"type": ?"(?:message_(?:start|delta|stop)|content_block_)')

    def __init__(self) -> None:
        self._places: dict[object, JSONObject] = {}  # the index of each block, by what it is of
        self._open: object = None  # what the last block is of; None where none is open
        self._is_begun = False

    def whole(self, completion: JSON) -> JSON:
        """Return a completion as a message."""
        return as_message(completion)

    def error(self, value: JSON, *, is_named: bool) -> JSON:
        """Return an error as the API's event of one."""
        told = value if is_named else member(value, "error")
        return _as_error(told) if isinstance(told, dict) and "choices" not in told else None

    def events(self, chunk: JSONObject) -> Iterator[JSON]:
        """Yield the events of a chunk, which may be spoiled."""
        if not self._is_begun:
            self._is_begun = True
            yield self._start(chunk)
            yield {"type": "ping"}

        choices = chunk.get("choices")
        if not isinstance(choices, list):
            yield {}  # an event without a type
            return

        for choice in choices:
            yield from self._choice(choice) if isinstance(choice, dict) else [choice]

    def ended(self) -> Iterator[JSON]:
        """Yield the end of the stream, and of the block that is open."""
        if self._open is not None:
            yield {"type": "content_block_stop", **self._places[self._open]}

        yield {"type": "message_stop"}

    def _start(self, chunk: JSONObject) -> JSON:
        about = {"id": "msg_1", "type": "message", "role": "assistant", "model": chunk.get("model")}
        ends: JSONObject = {"content": [], "stop_reason": None, "stop_sequence": None}
        return {"type": "message_start", "message": {**about, **ends, "usage": _USAGE}}

    def _choice(self, choice: JSONObject) -> Iterator[JSON]:
        delta: Any = choice.get("delta")
        if choice.get("index", 0) != 0:  # a reply beside the reply: a block that nobody began
            yield self._delta("beside", {"type": "text_delta", "text": member(delta, "content")})
        elif isinstance(delta, dict):
            yield from self._added(delta)
        else:
            yield self._delta(self._last, delta)

        if choice.get("finish_reason") is not None:
            yield from self._finished(choice)

    def _finished(self, choice: JSONObject) -> Iterator[JSON]:
        if self._places:  # also of one that was at its end before
            yield {"type": "content_block_stop", **self._places[self._last]}

        self._open = None
        ended = {"stop_reason": _reason(choice), "stop_sequence": None}
        yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}}

    def _added(self, delta: JSONObject) -> Iterator[JSON]:
        role = delta.get("role", "assistant")
        content = delta.get("content")
        calls = delta.get("tool_calls")

        if role != "assistant":
            yield {"type": "message_delta", "delta": {"role": role}, "usage": {}}
        if content is not None and content != "":
            if "text" not in self._places:
                place = {"index": len(self._places)}
                yield from self._begun("text", place, {"type": "text", "text": ""})

            yield self._delta("text", {"type": "text_delta", "text": content})

        if calls is not None and not isinstance(calls, list):
            yield self._delta(self._last, {"type": "input_json_delta", "partial_json": calls})
        for call in calls if isinstance(calls, list) else ():
            yield from self._call(call)

    def _call(self, call: Any) -> Iterator[JSON]:
        function: Any = member(call, "function")
        if not isinstance(function, dict):
            yield self._delta(self._last, function)
            return

        label = call.get("index", "none")
        is_counted = isinstance(label, int)
        index = label + ("text" in self._places) if is_counted else call.get("index")
        place: JSONObject = {} if index is None else {"index": index}
        about = {"id": call.get("id"), "name": function.get("name")}
        stated = {name: value for name, value in about.items() if value is not None}

        # an id that comes later has no place: it stands in the start of a block alone
        if "name" in stated or (stated and label not in self._places):
            yield from self._begun(label, place, {"type": "tool_use", **stated, "input": {}})
            yield self._delta(label, {"type": "input_json_delta", "partial_json": ""})

        arguments = function.get("arguments")
        if arguments is not None and arguments != "":
            yield self._delta(label, {"type": "input_json_delta", "partial_json": arguments})

    @property
    def _last(self) -> object:
        return next(reversed(self._places), "text")

    def _begun(self, key: object, place: JSONObject, block: JSONObject) -> Iterator[JSON]:
        """Yield the start of a block, behind the end of the one before it."""
        if self._open is not None and self._open != key:
            yield {"type": "content_block_stop", **self._places[self._open]}

        self._open = key
        self._places[key] = place
        yield {"type": "content_block_start", **place, "content_block": block}

    def _delta(self, key: object, delta: JSON) -> JSON:
        """Return a delta; of a block that was never begun, where it would be."""
        place = self._places.get(key, {"index": len(self._places)})
        return {"type": "content_block_delta", **place, "delta": delta}


class MessagesWriter(BaseWriter):
    """The server of the Messages API."""

    def refusal(self, body: JSONObject) -> ServedError | None:
        """Return why the server refuses the body of a request; None if it does not."""
        error = wrong_model(body)
        if error is not None:
            return error

        limit = body.get("max_tokens")
        if type(limit) is not int or limit < 1:
            return ServedError(400, "max_tokens: a number is required", param="max_tokens")

        messages: Any = body.get("messages")
        is_list = isinstance(messages, list) and bool(messages)
        if is_list and all(isinstance(one, dict) for one in messages):
            return None

        return ServedError(400, "messages: at least one message is required", param="messages")

    def asked(self, body: JSONObject) -> JSONObject:
        """Return a request as chat completions have it."""
        request = self.wire.read(body)
        return in_chat_words(request, self._turns(request))

    def _turns(self, request: Request) -> Iterator[RequestTurn]:
        """Yield the conversation: each result is a turn, before what the user says beside them."""
        system = _text_of(request.source.get("system"))
        if system:
            yield RequestTurn("system", system)

        for one in request.turns:
            turn: Any = one
            role = str(turn.get("role"))
            content = turn.get("content")
            if role == "assistant":
                draft = self.wire.replay.read(turn)
                yield RequestTurn(role, draft.text, draft.calls)
                continue

            blocks: list[Any] = content if isinstance(content, list) else []
            results = [block for block in blocks if member(block, "type") == "tool_result"]
            for result in results:
                words = _text_of(result.get("content"))
                yield RequestTurn("tool", words, call_id=result.get("tool_use_id"))

            if len(results) < len(blocks) or not blocks:
                yield RequestTurn(role, _text_of(content))

    def written(self, served: JSON, body: JSONObject) -> JSON:  # noqa: ARG002
        """Return a completion as a message, and what is not one as it is."""
        return as_message(served)

    def events(self, response: JSON, body: JSONObject) -> Iterable[JSON]:  # noqa: ARG002
        """Take a message apart into its events."""
        return message_pieces(response)

    def over_http(self, reply: HTTPReply, body: JSONObject) -> HTTPReply:  # noqa: ARG002
        """Return an HTTP response of a script: an error, completions and chunks translated."""
        if reply.error is None:
            return retold(reply, _MessageRetelling())

        error = reply.error
        is_of_server = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        usual = "api_error" if is_of_server else "invalid_request_error"
        kind = _KINDS.get(error.status, usual)
        status, kind, begun = _OWN_ERRORS.get(error.code, (error.status, kind, ""))
        message = f"{begun} ({error.message})" if begun else error.message
        return HTTPReply.json(status, error_form(kind, message), reply.headers)

    def given_events(self, text: str) -> Iterator[bytes]:
        """Cut a stream that a user gives into events; chunks are spelt as the kit does."""
        return map(respelt, super().given_events(text))


def _text_of(content: Any) -> str:
    """Return the text of a content, of its blocks of text alone."""
    if isinstance(content, str):
        return content

    blocks: Iterable[Any] = content if isinstance(content, list) else ()
    texts = (member(block, "text") for block in blocks)
    return "\n".join(text for text in texts if isinstance(text, str))


MESSAGES_WRITER = MessagesWriter(MESSAGES)
