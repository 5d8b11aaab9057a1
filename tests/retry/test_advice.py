"""The advice of an error is the one of its reason, and the server's words are in its story."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import strictreply as sr
from strictreply.core import classify
from strictreply.testing import ScriptedModel, faults, ok
from strictreply.values._errors import ADVICE
from support.scripted import Server, StatusError, http, status
from wires.test_errors_in_200 import EVENTS, WAYS, WORDS, failed, served

FAILURES = re.compile(
    r'Failure\("(\w+)"|End\("failed", "(\w+)"\)|\d: "([a-z_]+)",|^    \("(\w+)", \{'
)
SHOWN_BY_FAULTS = {"malformed_response", "deadline", "stop"}
"""Of the first a fault tells what came; the others are budgets'."""

STATUSES = [*range(400, 430), *range(500, 512), 520, 529]
ABOUT: dict[str, tuple[str, str]] = {
    "authentication_failed": ("key", "max_tokens"),
    "permission_denied": ("key", "max_tokens"),
    "not_found": ("model's name", "key"),
    "insufficient_credits": ("credit", "later"),
    "invalid_request": ("error.cause", "later"),
    "context_length_exceeded": ("Shorten the conversation", "later"),
    "request_too_large": ("shorter conversation", "later"),
    "rate_limit": ("later", "key"),
    "server_error": ("later", "key"),
    "timeout": ("later", "key"),
    "conflict": ("later", "key"),
    "api_error": ("base URL", "later"),
}
"""What the advice of a reason says, and what it must not say."""


def reasons() -> set[str]:
    """Return every reason for which a transport can fail, as the sources name them."""
    sources = [
        *(Path(sr.__file__).parent / "retry").glob("*.py"),
        *(Path(sr.__file__).parent / "client").glob("*.py"),
        *(Path(sr.__file__).parent / "sdks").glob("*.py"),
    ]
    found: set[str] = set()
    for source in sources:
        for line in source.read_text("utf-8").splitlines():
            found |= {name for match in FAILURES.finditer(line) for name in match.groups() if name}

    return found


def test_each_reason_of_a_failed_transport_has_its_advice() -> None:
    """None ends without words of its own, which stand alone in the error and its story."""
    found = reasons()
    assert {"connection", "rate_limit", "redirect_refused", "invalid_request"} <= found
    for reason in found - SHOWN_BY_FAULTS:
        error = sr.TransportFailed("it failed", reason=reason, attempts=())
        told = str(error)
        advice = sr.Reason(reason).advice
        assert advice, reason
        assert advice in told
        assert advice in error.explain()

        others = {*ADVICE.values(), *(one.advice for one in sr.Reason)} - {advice, ""}
        assert [one for one in others if one in told] == []


@pytest.mark.parametrize("number", STATUSES)
def test_each_status_has_the_advice_of_its_reason(number: int) -> None:
    """From the status to the advice: what it says, and what it does not."""
    failure = classify(StatusError(number, body={"message": "no"}))
    assert failure is not None
    says, never = ABOUT[failure.kind]
    advice = sr.Reason(failure.kind).advice
    assert says in advice
    assert never not in advice


TOO_LONG: list[dict[str, Any]] = [
    {"code": "context_length_exceeded", "message": WORDS},
    {"code": 400, "type": "exceed_context_size_error", "message": WORDS, "n_ctx": 4096},
    {"message": f"{WORDS}: maximum context length is 4096 tokens", "type": "BadRequestError"},
    {"type": "invalid_request_error", "message": f"prompt is too long: {WORDS}"},
    {"type": "too_many_prompt_tokens", "code": 400, "message": WORDS},
    {"code": "model_max_prompt_tokens_exceeded", "message": WORDS},
]


@pytest.mark.parametrize(("wire", "streamed", "is_async"), WAYS)
@pytest.mark.parametrize("error", TOO_LONG)
@pytest.mark.parametrize("place", ["status", "whole"])
def test_a_context_that_is_too_long_has_a_reason_of_its_own(
    error: dict[str, Any], place: str, wire: str, streamed: bool, is_async: bool
) -> None:
    """At once, by status and in a 200 alike, with what to do about it."""
    body = {"error": error}
    server = Server(served(body) if place == "whole" else status(400, body))
    told = failed(server, wire, streamed=streamed, is_async=is_async)

    assert isinstance(told, sr.TransportFailed)
    assert (told.reason, told.status_code) == ("context_length_exceeded", 400)
    assert len(server.requests) == 1
    assert sr.Reason.CONTEXT_LENGTH_EXCEEDED.advice in str(told)
    assert WORDS in told.explain()


BODIES: dict[str, tuple[bytes, str]] = {
    "an error of the API": (b'{"error": {"message": "%s"}}', "application/json"),
    "an error without a status": (b'{"code": 77777, "message": "%s"}', "application/json"),
    "a text": (b"%s", "text/plain"),
    "a page": (b"<html><body>%s</body></html>", "text/html"),
    "an event": (b'event: error\ndata: {"message": "%s"}\n\n', EVENTS),
    "an event of text": (b"event: error\ndata: %s\n\n", EVENTS),
    "a field of its own": (b'error: {"message": "%s"}\n\n', EVENTS),
    "another JSON": (b'{"result": "%s"}', "application/json"),
}


@pytest.mark.parametrize(("wire", "streamed", "is_async"), WAYS)
@pytest.mark.parametrize("name", BODIES)
def test_the_servers_words_are_in_the_story(
    name: str, wire: str, streamed: bool, is_async: bool
) -> None:
    """Of each body that is no reply, also in answer to another form, and not in the message."""
    body, kind = BODIES[name]
    server = Server(*[served(body % WORDS.encode(), kind)] * 2)
    told = failed(server, wire, streamed=streamed, is_async=is_async)
    assert WORDS in told.explain()
    assert WORDS not in str(told)


@pytest.mark.parametrize("number", [400, 401, 404, 429, 500, 503])
@pytest.mark.parametrize("name", BODIES)
def test_the_words_beside_a_status_are_in_the_story(name: str, number: int) -> None:
    """Whatever the body of the error is."""
    body, kind = BODIES[name]
    headers = {"content-type": kind}
    answer = http.Response(number, content=body % WORDS.encode(), headers=headers)
    told = failed(Server(*[answer] * 2), "chat", streamed=False, is_async=False)
    assert WORDS in told.explain()


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
def test_the_content_type_of_an_empty_body_is_in_the_story(kind: str) -> None:
    """It is all that there is to tell."""
    told = failed(Server(*[served(b"", kind)] * 2), "chat", streamed=False, is_async=False)
    assert "an empty body" in str(told)
    assert kind in told.explain()


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        (sr.RetryPolicy(max_retries=0), "max_retries"),
        (sr.RetryPolicy(arg_retries=0), "arg_retries"),
        (sr.RetryPolicy(max_invalid_calls=1), "max_invalid_calls"),
        (sr.RetryPolicy(stop_on=[sr.Category.FORMAT_ERROR]), "stop_on"),
        (sr.RetryPolicy(max_tokens_total=1), "max_tokens_total"),
    ],
)
def test_the_advice_names_the_budget_that_ended_the_call(
    policy: sr.RetryPolicy, field: str
) -> None:
    """The error's text and its story name this field of the policy, and no other budget."""

    @sr.tool
    def refund(order: int) -> None:
        """Refund an order."""

    model = ScriptedModel(then=faults.number_as_text(refund, "order"))
    client = sr.wrap(model.openai(), tools=[refund], policy=policy)
    with pytest.raises(sr.CallFailed) as raised:
        client.reply(model="m", messages="hi")

    others = {"max_retries", "arg_retries", "max_invalid_calls", "max_tokens_total"} - {field}
    for told in (str(raised.value), raised.value.explain()):
        assert re.search(rf"\b{field}\b", told)
        assert [one for one in others if re.search(rf"\b{one}\b", told)] == []
    assert "1 attempt, 15 tokens" in raised.value.explain()


@sr.tool
def find(order: int) -> str:
    """Find an order."""
    return f"order {order}"


class Bill(BaseModel):
    """An answer."""

    total: float


@pytest.mark.parametrize(
    ("reply", "declared", "about"),
    [
        (faults.wrong_type(find, "order"), {"tools": [find]}, "the tool's description"),
        (faults.unknown_tool(find), {"tools": [find]}, "the tool's description"),
        (ok.answer({"total": "many"}), {"answer": Bill}, "the answer's type"),
        (ok.answer("a lot"), {"answer": Bill}, "the answer's type"),
        (faults.legacy_function_call(find), {"tools": [find]}, "the tool's description"),
    ],
)
def test_the_advice_is_on_what_is_wrong(reply: Any, declared: Any, about: str) -> None:
    """A fault of a call is about a tool; a fault of an answer is about the answer's type."""
    client = sr.wrap(ScriptedModel(then=reply).openai(), max_retries=1, **declared)
    with pytest.raises(sr.ReplyRejected) as caught:
        client.reply(model="m", messages="x")

    named = ("the tool's description", "the answer's type")
    for told in (str(caught.value), caught.value.explain()):
        assert told.count("What to do:") == 1
        assert [one for one in named if one in told] == [about]
