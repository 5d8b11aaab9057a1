"""What a request to the model's API is answered with, by its method, path and body; no sockets and no HTTP library."""

from __future__ import annotations

import json
from typing import cast

from strictreply.testing._rendering import render
from strictreply.testing._wire import HTTPReply, Responder, error_reply
from strictreply.values._json import JSON, JSONObject

MODEL = "scripted"
"""The one model that ``GET /v1/models`` lists; requests may name any."""

_ROUTES = {"/chat/completions": "POST", "/models": "GET", "/health": "GET"}
_SERVED = "POST …/chat/completions, GET …/models and GET /health are served"


def respond(responder: Responder, method: str, target: str, body: bytes) -> HTTPReply:
    """Answer one request; the path may stand under any prefix, of which ``/v1`` is the usual one.

    What is no request of a chat completion is refused with a 400 that names the member at fault, and never reaches the
    responder; what the responder raises becomes a 500 that names the type alone.
    """
    path = target.partition("?")[0].rstrip("/")
    route = next((route for route in _ROUTES if path.endswith(route)), None)
    if route is None:
        only = "only Chat Completions is served, not the Responses API; " if path.endswith("/responses") else ""
        return error_reply(404, f"unknown path: {only}{_SERVED}", code="unknown_url")
    if method != _ROUTES[route]:
        allowed = {"Allow": _ROUTES[route]}
        return error_reply(405, f"use {_ROUTES[route]} here", code="method_not_allowed", headers=allowed)
    if route == "/health":
        return HTTPReply.json(200, {"status": "ok"})
    if route == "/models":
        model: JSON = {"id": MODEL, "object": "model", "created": 0, "owned_by": "strictreply"}
        return HTTPReply.json(200, {"object": "list", "data": [model]})
    return _complete(responder, body)


def read_request(body: bytes) -> JSONObject | HTTPReply:
    """Read the body of a chat completion, or give the 400 that says what is wrong with it."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return error_reply(400, "the body is not valid JSON", code="invalid_json")
    if not isinstance(value, dict):
        return error_reply(400, "the body must be a JSON object", code="invalid_type")
    request = cast("JSONObject", value)
    if not isinstance(request.get("model"), str):
        return error_reply(400, "'model' must be a string", param="model", code="invalid_type")
    messages: object = request.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(turn, dict) for turn in messages):
        return error_reply(400, "'messages' must be a list of objects, at least one", param="messages")
    return request


def _complete(responder: Responder, body: bytes) -> HTTPReply:
    """Let the responder answer one chat completion."""
    request = read_request(body)
    if isinstance(request, HTTPReply):
        return request
    try:
        return render(responder(request), request)
    except Exception as error:  # noqa: BLE001 - the edge of a server: a failing responder is a 500
        return error_reply(500, f"the responder raised {type(error).__name__}", kind="server_error")
