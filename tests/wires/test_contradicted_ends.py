"""What comes behind the end of a reply, or beside its last piece, may not contradict it."""

from __future__ import annotations

from typing import Any

import pytest

from strictreply import Code
from strictreply.core import Assembly
from strictreply.wires import WIRES
from support.scripted import call, completion
from support.scripted_responses import call_item, response

TEA: dict[str, Any] = call_item("search", {"query": "tea"})
END: dict[str, Any] = {"type": "response.completed", "response": response(TEA, id="resp_1")}
OTHER: dict[str, Any] = response(call_item("search", {"query": "milk"}), id="resp_1")
SECOND: dict[str, Any] = response(call_item("search", {"query": "milk"}), id="resp_2")


def _ended(*events: dict[str, Any]) -> Assembly:
    assembly: Assembly = WIRES["responses"].assembly()
    assembly.add({"type": "response.created", "response": response(id="resp_1", status=None)})
    item: dict[str, Any] = {"output_index": 0, "item": TEA}
    assembly.add({"type": "response.output_item.added", **item})
    assembly.add({"type": "response.output_item.done", **item})
    assembly.add(END)
    for event in events:
        assembly.add(event)

    assembly.end()
    return assembly


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.completed", "response": OTHER},
        {"type": "response.failed", "response": response(id="resp_1", status="failed")},
        {"type": "response.incomplete", "response": response(id="resp_1", status="incomplete")},
        {"type": "error", "code": "server_error", "message": "boom"},
        {"error": {"message": "boom"}},
    ],
)
@pytest.mark.req("T10")
def test_an_end_is_not_contradicted(event: dict[str, Any]) -> None:
    """Another end, or an error, behind the end of a response leaves it two meanings."""
    fault = _ended(event).fault

    assert fault is not None
    assert fault.code == Code.ENVELOPE_MALFORMED


@pytest.mark.parametrize(
    "events",
    [
        [END],
        [{"type": "response.completed", "response": response(id="resp_1")}],
        [{"type": "ping"}],
        [{"type": "response.created", "response": SECOND}],
        [
            {"type": "response.created", "response": SECOND},
            {"type": "response.completed", "response": SECOND},
            {"type": "error", "message": "of the second"},
        ],
        [{"type": "response.completed", "response": SECOND}],
    ],
)
def test_what_says_nothing_of_a_response_leaves_it(events: list[dict[str, Any]]) -> None:
    """An end that comes again says nothing, and what follows is of another response."""
    assembly = _ended(*events)

    assert assembly.fault is None
    assert assembly.response()["output"] == [TEA]


def _chunk(delta: Any, reason: str | None = None, **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason, **choice}]}


def _message(content: str | None = None, *calls: Any) -> dict[str, Any]:
    return dict(completion(content, calls)["choices"][0]["message"])


@pytest.mark.parametrize(
    "last",
    [
        _chunk({"content": "you"}, "stop", message=_message("Bye")),
        _chunk({"content": "you"}, "stop", message=_message("Hi you", call("search", {}))),
        _chunk({"role": "assistant", "content": ""}, "stop", message=_message("Bye")),
    ],
)
@pytest.mark.req("T10")
def test_a_message_beside_a_delta_is_what_the_deltas_were(last: dict[str, Any]) -> None:
    """A message that says other than the deltas leaves the reply two meanings."""
    assembly: Assembly = WIRES["chat"].assembly(["search"])
    assembly.add(_chunk({"role": "assistant", "content": "Hi "}))
    assembly.add(last)

    assert assembly.fault is not None
    assert assembly.fault.code == Code.ENVELOPE_AMBIGUOUS


@pytest.mark.parametrize(
    "chunks",
    [
        [
            _chunk({"content": "Hi "}),
            _chunk({"content": "you"}, "stop", message=_message("Hi you")),
        ],
        [
            _chunk({"content": "Hi "}, message=_message("Hi ")),
            _chunk({"content": "you"}, "stop", message=_message("you")),
        ],
        [_chunk({"role": "assistant"}, "stop", message=_message("Hi you"))],
        [_chunk({"role": "assistant", "content": ""}, "stop", message=_message("Hi you"))],
    ],
)
def test_a_message_beside_a_delta_may_say_the_same(chunks: list[dict[str, Any]]) -> None:
    """A message that repeats the deltas, or stands for an empty one, is read."""
    assembly: Assembly = WIRES["chat"].assembly()
    for chunk in chunks:
        assembly.add(chunk)

    assembly.end()
    assert assembly.fault is None
    assert assembly.response()["choices"][0]["message"]["content"] == "Hi you"
