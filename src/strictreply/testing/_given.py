"""Replies that a user gives: a response's body, a stream of events, or the content of a message."""

from __future__ import annotations

import json
from http import HTTPStatus

from strictreply.core import JSON, JSONObject
from strictreply.testing._chat_writer import CHAT_WRITER
from strictreply.testing._serving import WRITERS, sent_of, writer_of
from strictreply.testing._steps import Step
from strictreply.testing._wire import HTTPReply, Served, assistant, completion
from strictreply.wires import wire_of

GIVEN = ("body", "stream", "content")
"""What a given reply may be, each a member of its step."""

_OF_A_BODY = frozenset({"choices", "output", "error", "object"})
_OF_A_STREAM = ("data:", "event:", ":")


def given_in(text: str, status: int | None = None) -> JSONObject:
    """Return the step of a reply that stands in a file, by its form.

    A JSON object with a member that responses have is a body, as is anything under the status of an
    error; what begins as an event is a stream, and anything else the content of a message.
    """
    record: JSONObject = {} if status is None else {"status": status}
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        value = None

    is_of_other = wire_of(value) is not CHAT_WRITER.wire
    if isinstance(value, dict) and (is_of_other or not _OF_A_BODY.isdisjoint(value)):
        return {"body": value, **record}
    if status is not None and status != HTTPStatus.OK:
        return {"body": text if value is None else value, **record}
    if text.lstrip("\ufeff\r\n").startswith(_OF_A_STREAM):
        return {"stream": text, **record}

    return {"content": text, **record}


def given_step(plan: JSONObject, request: JSONObject) -> Step:
    """Make the step of a given reply for a request.

    A body under a status of success comes plain or as events, as the request asks; everything else
    comes as it was given. Raises ValueError for a stream that was not asked for.
    """
    status = plan.get("status", HTTPStatus.OK)
    served: Served
    if "stream" in plan:
        served = _streamed(plan["stream"], status, request)
    elif "body" in plan:
        served = _body(plan["body"], status, request)
    else:
        served = _content(plan["content"], status, request)

    return Step("given", served, "")


def _streamed(text: str, status: int, request: JSONObject) -> HTTPReply:
    if not request.get("stream"):
        raise ValueError('a given stream needs a request with {"stream": true}')

    writer = writer_of(request)
    events = tuple(writer.given_events(text))
    return HTTPReply(status, writer.stream_headers, events, framing="chunked")


def _body(body: JSON, status: int, request: JSONObject) -> Served:
    if isinstance(body, str):
        return HTTPReply(status, {"Content-Type": "text/plain; charset=utf-8"}, (body.encode(),))
    if status != HTTPStatus.OK:
        return HTTPReply.json(status, body)

    written_by = WRITERS.get(wire_of(body).name, CHAT_WRITER)
    if written_by is CHAT_WRITER:
        return body
    if not request.get("stream"):
        return HTTPReply.json(status, body)

    asked_by = writer_of(request)
    parts: tuple[bytes, ...] = (written_by.wire.event_bytes(body),)
    if written_by is asked_by:
        parts = asked_by.stream(body, sent_of(request))

    return HTTPReply(status, asked_by.stream_headers, parts, framing="chunked")


def _content(content: JSON, status: int, request: JSONObject) -> Served:
    return _body(completion(assistant(content)), status, request)
