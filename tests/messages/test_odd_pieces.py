"""Pieces of a stream that are lost nowhere: a text that is no text, an input that is no text."""

from __future__ import annotations

from typing import Any

import pytest

import strictreply as sr
from strictreply.wires import WIRES

MESSAGES = WIRES["messages"]
START: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
}
ENDED: dict[str, Any] = {"stop_reason": "end_turn", "stop_sequence": None}


def verdict(block: dict[str, Any], deltas: list[dict[str, Any]], ended: Any = ENDED) -> Any:
    """Return the codes of the refusal of one streamed block, or the reply."""
    assembly = MESSAGES.assembly()
    assembly.add({"type": "message_start", "message": START})
    assembly.add({"type": "content_block_start", "index": 0, "content_block": block})
    for delta in deltas:
        assembly.add({"type": "content_block_delta", "index": 0, "delta": delta})

    assembly.add({"type": "content_block_stop", "index": 0})
    if ended is not None:
        assembly.add({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 5}})

    assembly.add({"type": "message_stop"})
    if assembly.fault is not None:
        return {str(assembly.fault.code)}

    tool = sr.Tool.from_json_schema("ping", {"type": "object", "properties": {}})
    judged = sr.Contract(tools=[tool]).check(assembly.response(), api="messages")
    if isinstance(judged, sr.Invalid):
        return {str(issue.code) for issue in judged.issues}

    return judged.reply


CALL = {"type": "tool_use", "id": "toolu_1", "name": "ping", "input": {}}


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_piece_of_a_text_in_another_type_is_refused(at: int) -> None:
    """Wherever it comes, what follows does not stand in its place."""
    pieces: list[Any] = ["We", " have", " tea."]
    pieces[at] = [{"type": "text", "text": pieces[at]}]
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    assert verdict({"type": "text", "text": ""}, deltas) == {"reply.content"}


@pytest.mark.parametrize("piece", [{"query": "tea"}, [1], 7, True])
def test_a_piece_of_an_input_in_another_type_is_refused(piece: Any) -> None:
    """It is not passed over: the call would have run without it."""
    delta = {"type": "input_json_delta", "partial_json": piece}
    assert verdict(CALL, [delta]) == {"json.not_text"}


@pytest.mark.parametrize("ended", [None, {"stop_reason": None}, {}])
def test_an_end_without_a_reason_is_a_reply_broken_off(ended: Any) -> None:
    """Nobody says that the limit of tokens did not cut it."""
    said = {"type": "text_delta", "text": "We have tea."}
    assert verdict({"type": "text", "text": ""}, [said], ended) == {"reply.broken_off"}
    assert verdict({"type": "text", "text": ""}, [said]) == sr.DirectAnswer("We have tea.")
