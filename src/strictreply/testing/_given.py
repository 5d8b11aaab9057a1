"""Replies that a user gives: a response's body, a stream of events, or the content of a message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from strictreply.core import JSON, EventReader, JSONObject
from strictreply.core.forms import event, typed_event
from strictreply.testing._event_streams import is_of_responses, response_events
from strictreply.testing._steps import Step
from strictreply.testing._wire import EVENT_STREAM, HTTPReply, Served, assistant, completion

GIVEN = ("body", "stream", "content")
"""What a given reply may be, each a member of its step."""

_OF_A_BODY = frozenset({"choices", "output", "error", "object"})
_OF_A_STREAM = ("data:", "event:", ":")
_BLANK_LINE = re.compile(r"(?<=\n\n)|(?<=\r\n\r\n)")


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

    if isinstance(value, dict) and not _OF_A_BODY.isdisjoint(value):
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

    written = _translatable(text) if is_of_responses(request) else _events_in(text)
    return HTTPReply(status, EVENT_STREAM, tuple(written), framing="chunked")


def _events_in(text: str) -> Iterator[bytes]:
    """Cut a stream behind its blank lines."""
    return (piece.encode() for piece in _BLANK_LINE.split(text) if piece)


def _translatable(text: str) -> Iterator[bytes]:
    """Spell the chunks of chat completions in a stream as the kit does, which can translate them.

    All other events are as they were.
    """
    for piece in _events_in(text):
        reader = EventReader()
        found = [*reader.feed(piece), *reader.last()]
        chunk = _chunk(found[0].data) if len(found) == 1 and not found[0].name else None
        yield piece if chunk is None else event(chunk)


def _chunk(data: Any) -> JSONObject | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None

    if not isinstance(value, dict) or "choices" not in value:
        return None

    return {"id": value.get("id"), **value, "object": "chat.completion.chunk"}


def _body(body: JSON, status: int, request: JSONObject) -> Served:
    if isinstance(body, str):
        return HTTPReply(status, {"Content-Type": "text/plain; charset=utf-8"}, (body.encode(),))
    if status != HTTPStatus.OK:
        return HTTPReply.json(status, body)

    is_response = isinstance(body, dict) and "output" in body and "choices" not in body
    if not is_response:
        return body
    if not request.get("stream"):
        return HTTPReply.json(status, body)

    parts = response_events(body) if is_of_responses(request) else (typed_event(body),)
    return HTTPReply(status, EVENT_STREAM, parts, framing="chunked")


def _content(content: JSON, status: int, request: JSONObject) -> Served:
    return _body(completion(assistant(content)), status, request)
