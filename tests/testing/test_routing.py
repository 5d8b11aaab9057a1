"""What a request is answered with: paths, methods and bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strictreply.testing._routing import read_request, respond
from strictreply.testing._wire import HTTPReply, assistant, completion
from strictreply.values._json import JSONObject

ASK: JSONObject = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def answer(request: JSONObject) -> JSONObject:
    """Answer with the last turn's text."""
    return completion(assistant(request["messages"][-1]["content"]))


def asked(method: str, target: str, body: object = ASK) -> tuple[int, Any]:
    """Make one request; gives the status and the JSON of the response."""
    reply = respond(answer, method, target, json.dumps(body).encode())
    return reply.status, json.loads(reply.body)


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/chat/completions", "/openai/deployments/m/chat/completions/", "/api/v1/models"]
)
def test_any_prefix_will_do(path: str) -> None:
    """The API is found wherever a base URL puts it, with or without a query."""
    method = "GET" if "models" in path else "POST"
    for target in (path, f"{path}?api-version=1"):
        assert asked(method, target)[0] == 200


def test_the_models_are_listed() -> None:
    """One model, whatever model requests name."""
    status, listed = asked("GET", "/v1/models")
    assert (status, [model["id"] for model in listed["data"]]) == (200, ["scripted"])
    assert asked("GET", "/health") == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "unknown_url"),
        ("POST", "/", 404, "unknown_url"),
        ("POST", "/v1/responses", 404, "unknown_url"),
        ("PUT", "/v1/chat/completions", 405, "method_not_allowed"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
    ],
)
def test_what_is_not_served_says_what_is(method: str, path: str, status: int, code: str) -> None:
    """Other paths and methods are refused in OpenAI's shape, and the message names those that are served."""
    answered, body = asked(method, path)
    assert (answered, body["error"]["code"]) == (status, code)
    assert ("chat/completions" in body["error"]["message"]) is (status == 404)
    assert ("Responses API" in body["error"]["message"]) is path.endswith("responses")


def test_a_wrong_method_is_told_the_right_one() -> None:
    """A 405 carries Allow."""
    assert respond(answer, "GET", "/v1/chat/completions", b"").headers["Allow"] == "POST"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", None),
        (b"{", None),
        (b"[" * 100_000, None),
        (b"\xff", None),
        (b"[]", None),
        (b'{"messages": []}', "model"),
        (b'{"model": 1, "messages": [{}]}', "model"),
        (b'{"model": "m"}', "messages"),
        (b'{"model": "m", "messages": []}', "messages"),
        (b'{"model": "m", "messages": ["hi"]}', "messages"),
    ],
)
def test_a_bad_body_is_refused(body: bytes, param: str | None) -> None:
    """What is no request gets a 400 in OpenAI's shape that names the member at fault, and reaches no responder."""
    refused = respond(lambda _: pytest.fail("it was asked"), "POST", "/v1/chat/completions", body)
    assert refused.status == 400
    error = json.loads(refused.body)["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


def test_a_good_body_is_read() -> None:
    """The responder is given the parsed JSON."""
    assert read_request(json.dumps(ASK).encode()) == ASK


def test_streams_are_served() -> None:
    """``stream`` gives the same answer as events."""
    streamed = respond(answer, "POST", "/v1/chat/completions", json.dumps(ASK | {"stream": True}).encode())
    assert streamed.headers["Content-Type"].startswith("text/event-stream")
    assert b'"content": "h"' in streamed.body


def test_a_failing_responder_is_a_500() -> None:
    """What a responder raises becomes a server error that names the type and nothing else."""

    def crash(request: JSONObject) -> HTTPReply:
        raise KeyError("secret")

    failed = respond(crash, "POST", "/v1/chat/completions", json.dumps(ASK).encode())
    error = json.loads(failed.body)["error"]
    assert (failed.status, error["type"]) == (500, "server_error")
    assert "KeyError" in error["message"]
    assert "secret" not in error["message"]
