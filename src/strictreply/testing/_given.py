"""Raw replies of the user: a body, bytes, a stream, the content of a message, a recording."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Literal, Self, TypeAlias, cast

from strictreply.core import JSON, JSONObject
from strictreply.schema import Schema
from strictreply.testing._chat_writer import CHAT_WRITER
from strictreply.testing._retelling import chunk_in
from strictreply.testing._serving import WRITERS, assembled, render, sent_of, writer_of
from strictreply.testing._steps import Step
from strictreply.testing._wire import (
    BODILESS,
    HTTPReply,
    Served,
    WireEnding,
    assistant,
    completion,
)
from strictreply.wires import wire_of

_NAMED: JSON = {"type": "string", "maxLength": 200}
_HEADERS: JSON = {
    "type": "object",
    "propertyNames": {"pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"},
    "additionalProperties": {"type": "string", "pattern": "^[\\t\\u0020-\\u007e\\u0080-\\u00ff]*$"},
}
_OF_HTTP: JSONObject = {
    "status": {"type": "integer", "minimum": 200, "maximum": 599},
    "headers": _HEADERS,
    "ending": {"enum": [*WireEnding]},
}
_RECORDED: JSON = {
    "type": "object",
    "properties": {**_OF_HTTP, "body": {"type": "string"}, "body_base64": {"type": "string"}},
    "required": ["status", "headers"],
    "additionalProperties": False,
}
_Framing: TypeAlias = Literal["length", "chunked", "raw"]
_EVENTS: JSON = {"type": "array", "items": {"type": ["object", "string"]}}


def closed(required: str, **members: JSON) -> Schema:
    """Return the schema of a step with one required member and these optional ones."""
    return Schema.compile(
        {
            "type": "object",
            "properties": members,
            "required": [required],
            "additionalProperties": False,
        }
    )


class ScriptError(ValueError):
    """What is wrong with a script or a step, and what to write."""


GIVEN: Mapping[str, Schema] = {
    "body": closed("body", body=True, **_OF_HTTP),
    "body_base64": closed("body_base64", body_base64={"type": "string"}, **_OF_HTTP),
    "stream": closed("stream", stream={"anyOf": [{"type": "string"}, _EVENTS]}, **_OF_HTTP),
    "content": closed("content", content=True, **_OF_HTTP),
    "http": closed("http", http=_RECORDED, request=True, response=True),
}
"""The forms of a raw reply: the member that identifies each, and the step's schema."""

_OF_A_BODY = frozenset({"choices", "output", "error", "object"})
_OF_A_STREAM = ("data:", "event:", ":")
_OF_EVENTS = ("response.", "message_", "content_block_")
_TEXTS = frozenset({"content", "text", "arguments", "output_text"})
# Shorter texts may be in a prompt by chance.
_LEAST_OWN_CHARS = 12


@dataclass(frozen=True, slots=True)
class GivenStep(Step):
    """A step with a raw reply; the served form depends on the request."""

    plan: JSONObject = field(default_factory=dict[str, Any], repr=False)
    """The step in the form of a script."""

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Self:
        """Read a step in the form of a script; its body may also be bytes.

        Raises ScriptError with a hint.
        """
        plan: JSONObject = {**cast("JSONObject", given)}
        if isinstance(body := given.get("body"), bytes):
            del plan["body"]
            plan["body_base64"] = base64.b64encode(body).decode()

        form = read_form(plan, GIVEN)
        name = "recorded exchange" if form == "http" else f"given {form}"
        own = tuple(dict.fromkeys(_own_texts(plan)))
        return cls(name, None, repr({**given}), own, plan=plan)


def given_in(given: str | bytes, status: int | None = None) -> JSONObject:
    """Return the step for the reply in a file, recognised by its form.

    A JSON object with a member of a response is a body, and so is anything with the status of an
    error, and what is not UTF-8. A text that begins like an event is a stream. Anything else is the
    content of a message. Raises ScriptError for a status that has no body.
    """
    step = _step_for(given, {} if status is None else {"status": status})
    read_form(step, GIVEN)
    return step


def _step_for(given: str | bytes, record: JSONObject) -> JSONObject:
    try:
        text = given if isinstance(given, str) else given.decode()
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(cast("bytes", given)).decode(), **record}

    status = record.get("status")
    value = _json_in(text)

    is_of_other = wire_of(value) is not CHAT_WRITER.wire
    if isinstance(value, dict) and (is_of_other or not _OF_A_BODY.isdisjoint(value)):
        return {"body": text, **record}
    if status is not None and status != HTTPStatus.OK:
        return {"body": text, **record}
    if text.lstrip("\ufeff\r\n").startswith(_OF_A_STREAM):
        return {"stream": text, **record}

    return {"content": text, **record}


def read_form(step: Mapping[str, object], forms: Mapping[str, Schema]) -> str:
    """Return which of the ``forms`` a step has; raise ScriptError with a hint."""
    found = [form for form in forms if form in step]
    if not found or "role" in step:
        raise ScriptError(_advice(step, forms))
    if len(found) > 1:
        members = ", ".join(found)
        raise ScriptError(f"a step is one reply, and this has {members}; write a step for each")

    check(forms[found[0]], dict(step), "step")
    for holder in (step, step.get("http")):
        if isinstance(holder, Mapping):
            _check_http(holder)

    return found[0]


def _check_http(step: Mapping[str, Any]) -> None:
    """Raise ScriptError for what HTTP cannot send, and for text that is not base64."""
    encoded = step.get("body_base64")
    if isinstance(encoded, str):
        _bytes_in(encoded)

    written = [step.get("body"), *_listed(step.get("stream"))]
    if not all(_is_utf8(one) for one in written if isinstance(one, str)):
        raise ScriptError(
            "a text has half of a surrogate pair, which UTF-8 cannot write; "
            "give the bytes: body_base64"
        )

    names = [name.lower() for name in step.get("headers", {})]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise ScriptError(f"headers has {twice} twice")

    members = ("body", "body_base64", "stream", "content")
    has_body = any(name in step and step[name] not in ("", []) for name in members)
    if has_body and step.get("status") in BODILESS:
        raise ScriptError(
            f"a response with status {int(step['status'])} has no body; "
            'write {"body": ""}, or another status'
        )


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False

    return True


def check(schema: Schema, value: Any, what: str) -> None:
    """Raise ScriptError with the first violation of a schema in a script or a step."""
    for issue in schema.check(value, place=what):
        found = f" (got {issue.found})" if issue.found else ""
        hint = f", {issue.hint}" if issue.hint else ""
        raise ScriptError(f"{issue.dotted}{found}{hint}")


def _advice(step: Mapping[str, object], forms: Mapping[str, Schema]) -> str:
    """Return a hint for a value that is not a step: a body, an event, a message or a call."""
    value: Any = dict(step)
    kind = value.get("type")
    is_event = isinstance(kind, str) and kind.startswith(_OF_EVENTS)

    if is_event or value.get("object") == "chat.completion.chunk":
        return 'this is an event of a stream; write {"stream": [{…}, …]} with all of its events'
    if wire_of(value) is not CHAT_WRITER.wire or not _OF_A_BODY.isdisjoint(value):
        return 'this is the body of a response; write {"body": {…}}'
    if "role" in value:
        return 'this is a message; write {"body": {…}} with the whole response around it'
    if "request" in value or "response" in value:
        return 'a recorded exchange also has "http"; of a response alone write {"body": {…}}'

    return f"a step has one of the members {', '.join(forms)}"


def given_reply(plan: JSONObject, request: JSONObject) -> Served:
    """Return the raw reply of a step to a request.

    A reply in the form of the request's own API is sent byte for byte. A completion, content or
    chunks of chat completions are translated for another API, and a body becomes events when the
    request streams. Raises ScriptError for a stream when the request does not stream.
    """
    if "http" in plan:
        return _replayed(plan, request)

    status = int(plan.get("status", HTTPStatus.OK))  # JSON Schema counts 200.0 as an integer
    if "stream" in plan:
        served: Served = _streamed(_sse(plan["stream"]), status, request)
    elif "body_base64" in plan:
        served = HTTPReply(status, parts=(_bytes_in(plan["body_base64"]),), verbatim=True)
    elif "body" in plan:
        served = _body(plan["body"], status, request)
    else:
        served = _body(completion(assistant(plan["content"])), status, request)

    headers: dict[str, str] = plan.get("headers", {})
    ending = WireEnding(plan.get("ending", WireEnding.WHOLE))
    if not headers and ending is WireEnding.WHOLE:
        return served

    reply = render(served, sent_of(request), writer_of(request))
    replaced = {name.lower() for name in headers}
    kept = {name: text for name, text in reply.headers.items() if name.lower() not in replaced}
    return replace(
        reply,
        headers={**kept, **headers},
        ending=ending,
        framing=_framing(headers, reply.framing),
        verbatim=True,
    )


def _framing(headers: Mapping[str, str], otherwise: _Framing) -> _Framing:
    """Return how the client learns where the body ends: as the user's headers say."""
    names = {name.lower() for name in headers}
    if "transfer-encoding" in names:
        return "chunked"
    return "length" if "content-length" in names else otherwise


def _replayed(exchange: JSONObject, request: JSONObject) -> Served:
    """Serve a recorded exchange again: its status, headers, bytes and ending."""
    http = exchange["http"]
    body = http.get("body")
    if body is None and "body_base64" not in http:
        return given_reply({"body": exchange.get("response"), "headers": http["headers"]}, request)

    sent = _bytes_in(http["body_base64"]) if body is None else body.encode()
    ending = WireEnding(http.get("ending", WireEnding.WHOLE))
    kinds = (text for name, text in http["headers"].items() if name.lower() == "content-type")
    status = int(http["status"])
    if not next(kinds, "").startswith("text/event-stream"):
        return HTTPReply(status, http["headers"], (sent,) if sent else (), ending, verbatim=True)

    _refuse_unasked(request)
    framing = _framing(http["headers"], "chunked")
    return HTTPReply(status, http["headers"], (sent,), ending, framing, verbatim=True)


def _refuse_unasked(request: JSONObject) -> None:
    if not request.get("stream"):
        raise ScriptError('a given stream needs a request with {"stream": true}')


def _sse(stream: JSON) -> str:
    """Write events as they are sent; a text is sent unchanged."""
    if isinstance(stream, str):
        return stream

    events: list[Any] = stream if isinstance(stream, list) else []
    return "".join(one if isinstance(one, str) else _sse_of(one) for one in events)


def _sse_of(event: JSONObject) -> str:
    kind = event.get("type")
    name = f"event: {kind}\n" if isinstance(kind, str) else ""
    data = json.dumps(event, ensure_ascii=False)
    if not _is_utf8(data):
        data = json.dumps(event)  # half of a surrogate pair is written as an escape
    return f"{name}data: {data}\n\n"


def _streamed(text: str, status: int, request: JSONObject) -> HTTPReply:
    _refuse_unasked(request)
    writer = writer_of(request)
    events = tuple(writer.given_events(text))
    is_own = writer is CHAT_WRITER or not any(map(chunk_in, events))
    return HTTPReply(status, writer.stream_headers, events, framing="chunked", verbatim=is_own)


def _body(body: JSON, status: int, request: JSONObject) -> Served:
    asked_by = writer_of(request)
    value = _json_in(body) if isinstance(body, str) else body
    written_by = WRITERS.get(wire_of(value).name, CHAT_WRITER)
    is_good_status = status == HTTPStatus.OK
    is_whole = written_by is asked_by and not request.get("stream")

    if isinstance(body, str) and (is_whole or not is_good_status or not isinstance(value, dict)):
        kind = "text/plain; charset=utf-8" if value is None else "application/json"
        return HTTPReply(status, {"Content-Type": kind}, (body.encode(),), verbatim=True)
    if not is_good_status:
        return replace(HTTPReply.json(status, value), verbatim=True)
    if written_by is CHAT_WRITER:
        return value
    if not request.get("stream"):
        return replace(HTTPReply.json(status, value), verbatim=True)

    parts: tuple[bytes, ...] = (written_by.wire.event_bytes(value),)
    if written_by is asked_by:
        parts = asked_by.stream(value, sent_of(request))

    return HTTPReply(status, asked_by.stream_headers, parts, framing="chunked", verbatim=True)


def _json_in(text: str) -> JSON:
    """Return the JSON in a text; None if it is not JSON, and for null."""
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return None

    return value


def _bytes_in(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ScriptError("body_base64 is not base64") from None


def _own_texts(plan: JSONObject) -> Iterator[str]:
    """Yield the texts in a reply that the model wrote: contents, and arguments of calls."""
    value: Any = plan.get("response") if "http" in plan else plan.get("body", plan)
    if isinstance(value, str):
        value = _json_in(value)
    if "stream" in plan:
        value = assembled(_sse(plan["stream"]).encode("utf-8", "replace"))

    pending: list[Any] = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            texts = [one[name] for name in one.keys() & _TEXTS]
            yield from (
                text for text in texts if isinstance(text, str) and len(text) >= _LEAST_OWN_CHARS
            )
            pending += one.values()
        elif isinstance(one, list):
            pending += one
