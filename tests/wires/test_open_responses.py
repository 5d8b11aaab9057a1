"""The form of Responses that other servers speak (Open Responses).

It has sparse items, extensions and a final ``[DONE]``.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import strictreply as sr
from support.scripted import Server, http
from support.scripted_responses import (
    FLAT_SEARCH,
    call_item,
    reasoning_item,
    response,
    text_item,
    wrap,
)
from support.streamed_replies import DONE, response_events, typed_event

TOOLS = [FLAT_SEARCH, {"type": "acme:document_search", "documents": []}]
SPARSE_TEXT = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi."}],
}
PARTS = [{"type": "output_text", "text": "Hi.", "annotations": []}]
SPARSE_CALL = {
    "type": "function_call",
    "id": "fc_1",
    "name": "search",
    "call_id": "call_a",
    "arguments": '{"query": "a"}',
}
SEARCHED = {
    "type": "openai:web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"query": "tea"},
}
RECEIPT = {
    "type": "acme:document_search",
    "id": "ds_1",
    "status": "acme:cached",
    "results": [{"chunk": "x"}],
}
THOUGHT = reasoning_item(
    status="completed", content=[{"type": "output_text", "text": "A thought is no answer."}]
)
SHOWN: Any = {"type": "acme:trace_event", "phase": "tools", "latency_ms": 34}


def asked(server: Server, **keywords: Any) -> Any:
    """Make one call of a wrapped client."""
    return wrap(server.client(), policy=sr.RetryPolicy(max_retries=0)).responses.create(
        model="m", input="find tea", tools=TOOLS, **keywords
    )


@pytest.mark.parametrize(
    "items",
    [[SPARSE_TEXT], [SPARSE_CALL], [SEARCHED, SPARSE_TEXT], [RECEIPT, THOUGHT, SPARSE_CALL]],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_sparse_items_and_extensions_pass(items: list[Any], streamed: bool) -> None:
    """A member that a server leaves out or adds is no fault, and comes through as it came.

    A text without annotations has an empty list of them.
    """
    whole = response(*items)
    expected = [SPARSE_TEXT | {"content": PARTS} if one is SPARSE_TEXT else one for one in items]

    if not streamed:
        assert [item.to_dict() for item in asked(Server(whole)).output] == expected
        return

    written = [*response_events(whole), DONE]
    written.insert(1, typed_event(SHOWN))
    body = http.Response(
        200, content=b"".join(written), headers={"content-type": "text/event-stream"}
    )
    last = list(asked(Server(body), stream=True))[-1]
    assert last.type == "response.completed"

    assert [item.to_dict() for item in last.response.output] == expected


@pytest.mark.parametrize(
    ("items", "code"),
    [
        ([THOUGHT], "reply.empty"),
        ([RECEIPT], "reply.empty"),
        ([SEARCHED, call_item("search", {"query": 1})], "args.type"),
        ([text_item("Hi.", status="incomplete")], "reply.truncated"),
        ([SPARSE_CALL | {"status": "failed"}], "reply.broken_off"),
    ],
)
def test_what_is_no_reply_there_is_none_here(items: list[Any], code: str) -> None:
    """A thought or a receipt answers nothing; an item that did not come to its end is cut."""
    with pytest.raises(sr.CallFailed) as failed:
        asked(Server(response(*items)))
    assert failed.value.attempts[-1].issues[0].code == code


def test_a_request_of_the_specification_goes_out_whole() -> None:
    """A choice without a mode, a tool of the implementor, parts of input: all are sent as they were
    said.
    """
    server = Server(response(SPARSE_CALL))
    choice: Any = {"type": "allowed_tools", "tools": [{"type": "function", "name": "search"}]}
    parts = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "x"},
                {"type": "input_file", "file_id": "f"},
            ],
        }
    ]
    wrap(server.client()).responses.create(
        model="m", input=parts, tools=TOOLS, tool_choice=choice, truncation="auto"
    )

    sent = json.loads(server.bodies[0])
    assert (sent["input"], sent["truncation"]) == (parts, "auto")
    assert sent["tools"][1] == TOOLS[1]
    assert sent["tool_choice"] == {"mode": "auto"} | choice
