"""How requests are served: which writer answers, at which path, and in which form.

It also has all known writers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

from strictreply import ContractError
from strictreply.batch.lines import LINE_LIMITS
from strictreply.core import JSON, EventReader, JSONObject, decode
from strictreply.core.forms import DONE_DATA
from strictreply.testing._anthropic_writer import MESSAGES_WRITER
from strictreply.testing._chat_writer import CHAT_WRITER
from strictreply.testing._responses_writer import RESPONSES_WRITER
from strictreply.testing._wire import HTTPReply, Responder, Served, error_reply, http_error
from strictreply.testing._writer import BaseWriter
from strictreply.wires import WIRES

WRITERS: dict[str, BaseWriter] = {
    "chat": CHAT_WRITER,
    "responses": RESPONSES_WRITER,
    "messages": MESSAGES_WRITER,
}
"""The known writers, by the names of their wires."""


def register_writer(writer: BaseWriter) -> None:
    """Make the kit serve another API, at the path of its wire.

    ``writer`` reads and writes this API. Raises ContractError when the API has another writer.
    """
    if WRITERS.setdefault(writer.wire.name, writer) is not writer:
        raise ContractError(f"another writer is registered for {writer.wire.name!r}")


def writer_named(api: str) -> BaseWriter:
    """Return the writer of an API.

    ``api`` is the name of its wire. Raises ContractError for an API without a writer.
    """
    if api not in WRITERS:
        raise ContractError(f"api must be one of {', '.join(WRITERS)}, which have a writer")

    return WRITERS[api]


class KitRequest(dict[str, Any]):
    """A request in the form of chat completions that knows its own API."""

    def __init__(self, writer: BaseWriter, sent: JSONObject) -> None:
        super().__init__(writer.asked(sent))
        self.api: str = writer.wire.name
        self.sent: JSONObject = sent


def writer_of(request: Mapping[str, Any]) -> BaseWriter:
    """Return the writer of the API of a request.

    A request without a mark of its API belongs to the API of its conversation.
    """
    if isinstance(request, KitRequest):
        return WRITERS[request.api]

    own = CHAT_WRITER.wire.conversation
    others = (one for one in WRITERS.values() if one.wire.conversation != own)
    return next((one for one in others if one.wire.conversation in request), CHAT_WRITER)


def sent_of(request: JSONObject) -> JSONObject:
    """Return a request as it was sent."""
    return request.sent if isinstance(request, KitRequest) else request


def render(served: Served, request: JSONObject, writer: BaseWriter = CHAT_WRITER) -> HTTPReply:
    """Make the response to a request, as it was sent.

    A completion is plain or a stream, depending on the request.
    """
    if isinstance(served, HTTPReply):
        return served if served.verbatim else writer.over_http(served, request)

    response = writer.written(served, request)
    if not writer.is_streamed(request):
        return HTTPReply.json(HTTPStatus.OK, response)

    parts = writer.stream(response, request)
    return HTTPReply(HTTPStatus.OK, writer.stream_headers, parts, framing="chunked")


def routes() -> Mapping[str, str]:
    """Return the end of each path that is served, with its method."""
    asked = {f"/{writer.wire.path}": "POST" for writer in WRITERS.values()}
    return {**asked, "/models": "GET", "/health": "GET"}


def respond(
    responder: Responder,
    method: str,
    target: str,
    body: bytes,
    _headers: Mapping[str, str] | None = None,
) -> HTTPReply:
    """Answer one request at any path with a known end; a :data:`Control`.

    A responder that raises is a 500.
    """
    route = routed(method, target, routes())
    if isinstance(route, HTTPReply):
        return route
    if route == "/health":
        return HTTPReply.json(200, {"status": "ok"})

    if route == "/models":
        model: JSON = {"id": "scripted", "object": "model", "created": 0, "owned_by": "strictreply"}
        return HTTPReply.json(200, {"object": "list", "data": [model]})

    writer = next(one for one in WRITERS.values() if route == f"/{one.wire.path}")
    request = _object_in(body)
    if isinstance(request, HTTPReply):
        return render(request, {}, writer)

    refusal = writer.refusal(request)
    if refusal is not None:
        return render(http_error(refusal), request, writer)

    served: Served
    try:
        try:
            asked = KitRequest(writer, request)
        except (
            ContractError
        ) as error:  # the contract's own message about a request that no reply can fit
            served = error_reply(400, str(error))
        else:
            served = responder(asked)

        return render(served, request, writer)
    except Exception as error:  # noqa: BLE001 - a responder that raises is a 500
        words = f"the responder raised {type(error).__name__}"
        return render(error_reply(500, words, kind="server_error"), request, writer)


def routed(method: str, target: str, routes: Mapping[str, str]) -> str | HTTPReply:
    """Return the one of ``routes`` that the path ends with.

    Otherwise return a 404 that lists them, or a 405 that names the right method.
    """
    path = target.partition("?")[0].rstrip("/")
    route = next((route for route in routes if path.endswith(route)), None)
    if route is None:
        served = ", ".join(f"{method} …{route}" for route, method in routes.items())
        return error_reply(404, f"unknown path; what is served: {served}", code="unknown_url")

    if method != routes[route]:
        words = f"use {routes[route]} here"
        allowed = {"Allow": routes[route]}
        return error_reply(405, words, code="method_not_allowed", headers=allowed)

    return route


def _object_in(body: bytes) -> JSONObject | HTTPReply:
    """Read the body of a request, or return the 400 that says what is wrong."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return error_reply(400, "the body is not valid JSON", code="invalid_json")

    if not isinstance(value, dict):
        return error_reply(400, "the body must be a JSON object", code="invalid_type")

    return cast("JSONObject", value)


_FIRST_EVENTS = {"response.": "responses", "message_": "messages", "content_block_": "messages"}
"""The name of a stream's first event, and its API; without a name it is chat completions."""


def assembled(body: bytes) -> JSON:
    """Assemble a recorded stream; None when it is empty.

    A faulty stream gets a finish reason that every contract refuses.
    """
    reader = EventReader()
    sent = [*reader.feed(body), *reader.last()]
    first = sent[0].name if sent else ""
    api = next((api for begun, api in _FIRST_EVENTS.items() if first.startswith(begun)), "chat")
    assembly = WIRES[api].assembly(strict=True)

    is_empty = True
    for name, data, _ in sent:
        if data == DONE_DATA:
            assembly.is_done = True
        if assembly.is_done and api != "messages":  # for a message, what follows it is counted
            break

        chunk: Any = decode(data, LINE_LIMITS)
        if isinstance(chunk, dict) and name == "error" and "error" not in chunk:
            chunk = {"error": chunk, "choices": []}

        assembly.add(chunk)
        is_empty = False

    return None if is_empty else assembly.response(is_whole=assembly.fault is None)
