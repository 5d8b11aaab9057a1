"""Errors in a provider's own form, inside a 200, are read as the API would have sent them.

Each row of the table has a body here, in the shape that its source publishes.
"""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from strictreply.wires import WIRES
from strictreply.wires._error_forms import ERROR_FORMS, PHRASES, STATUSES, error_of
from support.loops import some
from support.scripted import Server, call, completion
from support.scripted_responses import FLAT_SEARCH, call_item, response
from support.streamed_replies import policy
from wires.test_errors_in_200 import (
    ASKS,
    CONTRACT,
    EVENTS,
    SEARCH,
    WAYS,
    WORDS,
    as_stream,
    failed,
    in_events,
    served,
)

Told = tuple[str, int | None, int]
"""The reason, the status and the number of requests."""

REFUSED: Told = ("authentication_failed", 401, 1)
LIMITED: Told = ("rate_limit", 429, 2)
SPENT: Told = ("insufficient_credits", 429, 1)

BODIES: list[tuple[str, Any, Told]] = [
    ("base_resp", {"base_resp": {"status_code": 1004, "status_msg": WORDS}}, REFUSED),
    (
        "base_resp",
        {"id": "x", "choices": None, "base_resp": {"status_code": 1002, "status_msg": WORDS}},
        LIMITED,
    ),
    ("base_resp", {"base_resp": {"status_code": 1008, "status_msg": WORDS}}, SPENT),
    (
        "base_resp",
        {"choices": [], "base_resp": {"status_code": 2013, "status_msg": WORDS}},
        ("invalid_request", 400, 1),
    ),
    ("error_msg", {"error_code": 110, "error_msg": WORDS}, REFUSED),
    ("error_msg", {"error_code": 18, "error_msg": WORDS, "id": "as-1"}, LIMITED),
    (
        "error_code",
        {"error_code": "PERMISSION_DENIED", "message": WORDS},
        ("permission_denied", 403, 1),
    ),
    ("error_code", {"error_code": "REQUEST_LIMIT_EXCEEDED", "message": WORDS}, LIMITED),
    ("code_msg", {"code": 401, "msg": WORDS, "success": False}, REFUSED),
    ("code_msg", {"code": 1113, "msg": WORDS, "success": False}, SPENT),
    ("status_code", {"statusCode": 401, "message": WORDS}, REFUSED),
    ("code_message", {"code": "InvalidApiKey", "message": WORDS, "request_id": "r"}, REFUSED),
    ("code_message", {"code": "Throttling.AllocationQuota", "message": WORDS}, LIMITED),
    ("code_message", {"object": "error", "message": WORDS, "type": "x", "code": 401}, REFUSED),
    (
        "errors",
        {"success": False, "errors": [{"code": 10000, "message": WORDS}], "result": None},
        REFUSED,
    ),
    ("errors", {"success": False, "errors": [{"code": 3040, "message": WORDS}]}, LIMITED),
    ("problem", {"status": 401, "title": "Unauthorized", "detail": WORDS}, REFUSED),
    ("problem", {"status": 429, "title": WORDS}, LIMITED),
    ("detail", {"detail": {"code": "invalid_api_key", "message": WORDS}}, REFUSED),
    (
        "detail",
        {"detail": [{"loc": ["body", "tools"], "msg": WORDS, "type": "missing"}]},
        ("invalid_request", 422, 1),
    ),
    (
        "fault",
        {"fault": {"faultstring": WORDS, "detail": {"errorcode": "oauth.v2.InvalidApiKey"}}},
        REFUSED,
    ),
    (
        "fault",
        {
            "fault": {
                "faultstring": WORDS,
                "detail": {"errorcode": "policies.ratelimit.QuotaViolation"},
            }
        },
        LIMITED,
    ),
    ("message", {"message": WORDS, "__type": "com.aws#ThrottlingException"}, LIMITED),
    # the API's own form, with a provider's codes or in other clothes
    ("", {"error": {"code": "1302", "message": WORDS}}, LIMITED),
    ("", {"error": {"code": "1113", "message": WORDS}}, SPENT),
    ("", {"error": {"code": "1261", "message": WORDS}}, ("context_length_exceeded", 400, 1)),
    ("", {"error": {"type": "bad_request_error", "message": WORDS, "http_code": "401"}}, REFUSED),
    ("", {"error": [{"code": 401, "message": WORDS}], "success": False}, REFUSED),
    ("", {"error": WORDS, "error_type": "overloaded"}, ("server_error", 503, 2)),
    ("", {"error": "Unauthorized", "status": 401, "requestId": WORDS}, REFUSED),
]


@pytest.mark.parametrize(("wire", "streamed", "is_async"), WAYS)
@pytest.mark.parametrize(
    ("form", "body", "told"), BODIES, ids=lambda one: one if isinstance(one, str) else ""
)
def test_each_form_is_read_by_its_code(
    form: str, body: Any, told: Told, wire: str, streamed: bool, is_async: bool
) -> None:
    """Reason, status and requests are those of the code; the words are in the explanation alone."""
    if form == "message" and streamed:
        pytest.skip("a message alone in a stream may be a heartbeat's")

    server = Server(*[in_events(body) if streamed else served(body)] * 2)
    error = failed(server, wire, streamed=streamed, is_async=is_async)
    assert isinstance(error, sr.TransportFailed)
    assert (error.reason, error.status_code, len(server.requests)) == told, form

    assert WORDS in error.explain()
    assert WORDS not in str(error)


def test_each_row_has_a_body_here() -> None:
    """No row of the table is without a case, a source and a server, and each reads its own body."""
    assert {form for form, _, _ in BODIES} - {""} == ERROR_FORMS.keys()
    for name, row in ERROR_FORMS.items():
        assert all((row.sends, row.source, row.servers)), name

    for form, body, _ in BODIES:
        reading = [name for name, row in ERROR_FORMS.items() if row.read(body) is not None]
        assert reading[:1] == [form] * bool(form), body


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("wire", ASKS)
@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        (b'"Unauthorized"', "application/json", REFUSED),
        (b"Unauthorized", "text/plain", REFUSED),
        (b"Too Many Requests\n", "text/plain", LIMITED),
        (b"Service Unavailable", "", ("server_error", 503, 2)),
        (b'{"detail": "Invalid API Key"}', "application/json", REFUSED),
        (b'{"detail": "Not authenticated"}', "application/json", REFUSED),
        (b'{"message": "invalid api token"}', "application/json", REFUSED),
        (b'{"message": "Forbidden"}', "application/json", ("permission_denied", 403, 1)),
        (b'{"error": "Not Found"}', "application/json", ("not_found", 404, 1)),
        (
            b'{"detail": "The model is loading."}',
            "application/json",
            ("malformed_response", None, 2),
        ),
    ],
)
def test_a_status_in_words_is_read(
    body: bytes, kind: str, told: Told, wire: str, is_async: bool
) -> None:
    """The whole message names the status; other words say nothing, and are told all the same."""
    server = Server(*[served(body, kind)] * 2)
    error = failed(server, wire, streamed=False, is_async=is_async)
    assert (error.reason, getattr(error, "status_code", None), len(server.requests)) == told
    assert body.decode().strip().split(":")[-1].strip(' {}"\n') in error.explain()


@pytest.mark.parametrize(
    "body",
    [
        b"Unauthorized",
        b'"Unauthorized"',
        b"data: Unauthorized\n\n",
        b'data: "Unauthorized"\n\n',
        b"event: error\ndata: Unauthorized\n\n",
        b'{"detail": "Not authenticated"}',
        b'{"message": "Unauthorized"}',
        b'data: {"message": "Unauthorized"}\n\n',
        b'id:1\nevent:error\n:HTTP_STATUS/401\ndata:{"code":"InvalidApiKey","message":"x"}\n\n',
    ],
)
@pytest.mark.parametrize("wire", ASKS)
def test_a_status_in_words_is_read_in_answer_to_a_stream(body: bytes, wire: str) -> None:
    """As the body, as an event, or as the data of an error's event."""
    kind = "text/plain" if body[:1] == b"U" else EVENTS
    server = Server(served(body, kind))
    error = failed(server, wire, streamed=True, is_async=False)
    assert (error.reason, error.status_code, len(server.requests)) == REFUSED
    assert isinstance(error, openai.AuthenticationError)


FILTERED = [
    {"base_resp": {"status_code": 1026, "status_msg": WORDS}},
    {"choices": None, "base_resp": {"status_code": 1027, "status_msg": WORDS}},
    {"error": {"code": "1301", "message": WORDS}},
    {"error": {"message": f"input new_sensitive (1026) {WORDS}", "http_code": "422"}},
    {"code": "DataInspectionFailed", "message": WORDS},
]


@pytest.mark.parametrize(("wire", "streamed", "is_async"), WAYS)
@pytest.mark.parametrize("body", FILTERED)
def test_a_filter_of_a_providers_halts_the_call(
    body: Any, wire: str, streamed: bool, is_async: bool
) -> None:
    """A code that stands for the content filter ends the call, as the API's own word does."""
    server = Server(in_events(body) if streamed else served(body))
    error = failed(server, wire, streamed=streamed, is_async=is_async)
    assert isinstance(error, sr.ReplyHalted)
    assert (error.reason, len(server.requests)) == ("content_filter", 1)


GOOD: dict[str, Any] = completion(calls=[call("search", {"query": "tea"})])
EMPTIES: list[dict[str, Any]] = [
    {"error": None},
    {"error": {}},
    {"errors": []},
    {"base_resp": {"status_code": 0, "status_msg": ""}},
    {"base_resp": None},
    {"error_code": 0, "error_msg": ""},
    {"code": 0, "message": "Success", "sid": "x"},
    {"detail": None, "message": "ok", "success": True},
]


@pytest.mark.parametrize("beside", EMPTIES)
def test_a_good_reply_beside_an_empty_error_stays_good(beside: dict[str, Any]) -> None:
    """Zero, null and empty say that nothing went wrong, whole and streamed, on both wires."""
    chunks = [json.loads(one[6:]) for one in as_stream(GOOD).decode().split("\n\n")[:2]]
    server = Server(served(GOOD | beside), in_events(*(chunk | beside for chunk in chunks)))
    client: Any = sr.wrap(server.client(), tools=[SEARCH], policy=policy(max_retries=0))
    assert client.chat.completions.create(**ASKS["chat"]).choices[0].message.tool_calls
    came = list(client.chat.completions.create(stream=True, **ASKS["chat"]))
    assert came[-1].choices[0].finish_reason == "tool_calls"

    items = response(call_item("search", {"query": "tea"})) | beside
    asked = sr.wrap(Server(served(items)).client(), policy=policy(max_retries=0))
    flat: Any = {"tools": [FLAT_SEARCH], **ASKS["responses"]}
    assert asked.responses.create(**flat).output[0].type == "function_call"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_error_beside_a_good_end_is_believed(streamed: bool) -> None:
    """The worst signal counts: MiniMax's filter stands beside choices, too."""
    beside = {"base_resp": {"status_code": 1027, "status_msg": WORDS}}
    chunks = [json.loads(one[6:]) for one in as_stream(GOOD).decode().split("\n\n")[:2]]
    chunks[-1] |= beside
    server = Server(in_events(*chunks) if streamed else served(GOOD | beside))
    error = failed(server, "chat", streamed=streamed, is_async=False)
    assert (error.reason, len(server.requests)) == ("content_filter", 1)


def test_a_heartbeat_with_a_message_is_no_error() -> None:
    """An event that says something without a code is nothing of the reply."""
    beat = b'data: {"message": "still working"}\n\ndata: {"detail": "step 2"}\n\n'
    server = Server(served(beat + as_stream(GOOD), EVENTS))
    client: Any = sr.wrap(server.client(), tools=[SEARCH], policy=policy(max_retries=0))
    came = list(client.chat.completions.create(stream=True, **ASKS["chat"]))
    assert came[-1].choices[0].finish_reason == "tool_calls"


_NAMES = (
    "error errors code message msg base_resp status_code status_msg error_code error_msg detail "
    "status title fault faultstring errorcode statusCode type choices output __type"
)
NAMES = st.sampled_from(_NAMES.split())
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), NAMES)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)


@given(VALUES)
def test_no_body_breaks_the_reading(body: Any) -> None:
    """Whatever stands under the names of the forms, an error is read or there is none."""
    error = error_of(body)
    assert error is None or isinstance(error, dict)
    for wire in some(WIRES.values()):
        wire.error_in(body)

    followed = CONTRACT.next_request(ASKS["chat"], body)
    assert len(followed.attempts) == 1
    assert followed.verdict is not None or followed.attempts[0].failure


def test_the_words_of_the_tables_are_in_their_form() -> None:
    """A word that is written otherwise would never be found."""
    assert all(
        word == word.lower() and "-" not in word and " " not in word for word in some(STATUSES)
    )
    assert all(word == word.lower().strip() for word in some(PHRASES))
