"""Laws of the faults of the connection.

In memory and on a real socket each ends a call, and none hangs it.
"""

from __future__ import annotations

import openai
import pytest

import strictreply as sr
from strictreply.testing import HTTPReply, Kind, LoopbackServer, ScriptedModel
from strictreply.testing.faults import Entry
from support.served_faults import (
    ASKED,
    CALL,
    CALLED,
    SEARCH,
    ask,
    ask_in_memory,
    codes_of,
    entries_of,
)
from support.testing.faults.spoken import CANARY

IMPATIENT = 0.2
PATIENT = 30.0
"""Seconds: only where silence is the fault does a test wait for the end of its patience."""

RAISED: dict[str, type[Exception]] = {
    "connection": openai.APIConnectionError,
    "timeout": openai.APITimeoutError,
    "envelope.malformed": ValueError,
}
"""What the SDK itself raises for a code."""

entries = pytest.mark.parametrize("entry", entries_of(Kind.TRANSPORT), ids=lambda entry: entry.name)


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
def test_a_good_reply_after_it_recovers(entry: Entry) -> None:
    """A connection that broke is worth one more: the same request is sent again, and its reply
    taken.
    """
    model = ScriptedModel(entry(SEARCH), CALL)
    assert ask_in_memory(model, 1) == CALLED
    first, second = model.requests
    assert first.body == second.body


@entries
def test_on_a_real_socket_the_sdk_raises_in_time(entry: Entry) -> None:
    """The SDK alone raises what the code means; nothing but its own read timeout ends a silence."""
    fault = entry(SEARCH)
    timeout = IMPATIENT if fault.code == "timeout" else PATIENT
    with (
        LoopbackServer(ScriptedModel(fault), patience=PATIENT) as server,
        raw(server, timeout) as client,
    ):
        with pytest.raises(RAISED[fault.code]) as caught:
            client.chat.completions.create(**ASKED)
        assert isinstance(caught.value, openai.APITimeoutError) == (fault.code == "timeout")


@entries
def test_on_a_real_socket_the_next_request_is_not_harmed(entry: Entry) -> None:
    """After the fault, which an impatient server ends by itself, a wrapped client gets its reply
    from the same one.
    """
    model = ScriptedModel(entry(SEARCH), CALL)
    with LoopbackServer(model, patience=IMPATIENT) as server, raw(server, PATIENT) as client:
        assert ask(client, 1) == CALLED
    model.assert_spent()


@entries
def test_a_socket_fault_needs_no_tool(entry: Entry) -> None:
    """Without a tool it is made of a plain answer; it is an HTTP response or less either way."""
    for fault in (entry(), entry(SEARCH)):
        assert fault.kind is Kind.TRANSPORT
        assert isinstance(fault.served, HTTPReply)
        assert not fault.needs


def raw(server: LoopbackServer, timeout: float) -> openai.OpenAI:
    """Make the SDK's own client for a server, without retries."""
    return openai.OpenAI(
        api_key="made-up", base_url=server.base_url, timeout=timeout, max_retries=0
    )
