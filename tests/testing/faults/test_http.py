"""Laws of the faults of HTTP responses.

The wrapped client names each, never takes one for a reply, and goes on.
"""

from __future__ import annotations

import json
import zlib

import openai
import pytest

import strictreply as sr
from strictreply.testing import HTTPReply, Kind, LoopbackServer, ReplyPlace, ScriptedModel, faults
from strictreply.testing.faults import Entry
from support.served_faults import CALL, CALLED, SEARCH, ask, ask_in_memory, codes_of, entries_of
from support.testing.faults.spoken import CANARY

FINAL = {
    *(
        "bad_request",
        "context_length_exceeded",
        "unauthorized",
        "forbidden",
        "model_not_found",
        "content_too_large",
    ),
    *("unprocessable_content", "quota_spent", "rate_limited_hour", "redirect_without_location"),
    *("gzip_bomb", "endless_body"),
}
"""After these the same request is not sent again."""

entries = pytest.mark.parametrize("entry", entries_of(Kind.HTTP), ids=lambda entry: entry.name)


@pytest.mark.parametrize("asynchronous", [False, True])
@entries
def test_the_wrapped_client_says_the_promised_code(entry: Entry, asynchronous: bool) -> None:
    """Each fault ends the call as a failure of the transport, of the promised kind or with the
    promised issue.
    """
    fault = entry(SEARCH)
    with pytest.raises(sr.TransportFailed) as caught:
        ask_in_memory(ScriptedModel(fault), asynchronous=asynchronous)
    assert fault.code in codes_of(caught.value)
    assert CANARY not in str(caught.value)


@entries
def test_on_a_real_socket_it_says_the_same(entry: Entry) -> None:
    """Over loopback the call ends with the same code."""
    fault = entry(SEARCH)
    with (
        LoopbackServer(ScriptedModel(fault)) as server,
        openai.OpenAI(api_key="made-up", base_url=server.base_url) as client,
        pytest.raises(sr.TransportFailed) as caught,
    ):
        ask(client)
    assert fault.code in codes_of(caught.value)


@entries
def test_a_good_reply_after_it_recovers_unless_it_is_final(entry: Entry) -> None:
    """One transport retry mends what can be mended; for the rest no second request is made."""
    model = ScriptedModel(entry(SEARCH), CALL)

    if entry.name in FINAL:
        with pytest.raises(sr.TransportFailed):
            ask_in_memory(model, 1)
        assert len(model.requests) == 1
    else:
        assert ask_in_memory(model, 1) == CALLED
        model.assert_spent()
        model.assert_no_echo()


@pytest.mark.parametrize(
    ("entry", "seconds"),
    [
        (faults.rate_limited, None),
        (faults.rate_limited_seconds, 2.0),
        (faults.rate_limited_milliseconds, 1.5),
        (faults.rate_limited_date, 5.0),
        (faults.rate_limited_zero, 0.0),
        (faults.rate_limited_negative, None),
        (faults.rate_limited_hour, 3600.0),
        (faults.rate_limited_garbage, None),
        (faults.service_unavailable, 1.0),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_error_carries_what_the_header_promises(entry: Entry, seconds: float | None) -> None:
    """``retry_after`` is what the fault's Retry-After means, and None when it means nothing."""
    with pytest.raises(sr.TransportFailed) as caught:
        ask_in_memory(ScriptedModel(entry()))
    assert caught.value.retry_after == seconds


@entries
def test_an_http_fault_needs_no_tool(entry: Entry) -> None:
    """Without a tool it is made of a plain answer, with one of a call of it; it is an HTTP response
    either way.
    """
    for fault in (entry(), entry(SEARCH)):
        assert fault.kind is Kind.HTTP
        assert isinstance(fault.served, HTTPReply)
        assert fault.needs == ({"stream": False} if entry is faults.unasked_stream else {})


@pytest.mark.parametrize(
    ("tool", "place"), [(SEARCH, "call"), (SEARCH, "union"), (int, "json"), (None, "prose")]
)
def test_the_bomb_is_bounded(tool: object, place: ReplyPlace) -> None:
    """Under 32 KB on the wire, in memory more than the gate's 16 MB and at most 32 MB of JSON."""
    served = faults.gzip_bomb(tool, place=place).served
    assert isinstance(served, HTTPReply)
    assert len(served.body) < 1 << 15
    expanded = zlib.decompress(served.body, wbits=31)
    assert 16_000_000 < len(expanded) < 32_000_000
    assert json.loads(expanded)["choices"]
