"""The events of a response itself show none of its items before these are judged.

A server may repeat in ``response.created``, ``queued`` or ``in_progress`` what it wrote so far.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import strictreply as sr
from support.scripted import Server
from support.scripted_responses import call_item, response, text_item, wrap
from support.streamed_replies import ONCE
from wires.test_responses_beside import (
    ASK,
    GOOD,
    body,
    calling,
    frame,
    given,
    plain,
    speaking,
    stream,
)

LIFECYCLE = ("response.created", "response.queued", "response.in_progress")
MESSAGE = text_item("Here is the tea.")


def told(kind: str, whole: Any, **members: Any) -> dict[str, Any]:
    """An event of the response that repeats its items."""
    return {"type": kind, "response": whole | {"status": "in_progress"} | members}


def refused(server: Server, *, is_async: bool) -> tuple[list[Any], sr.ReplyRejected]:
    """Return the events of a stream up to the error that refuses its reply, and the error."""
    came: list[Any] = []
    raw: Any = server.async_client() if is_async else server.client()
    client = wrap(raw, policy=ONCE)

    async def main() -> None:
        async for event in await client.responses.create(**ASK, stream=True):
            came.append(event)  # noqa: PERF401 - those before the error count

    try:
        if is_async:
            asyncio.run(main())
        else:
            came.extend(client.responses.create(**ASK, stream=True))
    except sr.ReplyRejected as error:
        return came, error

    raise AssertionError("the reply was accepted")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("kind", LIFECYCLE)
@pytest.mark.parametrize("is_behind_text", [False, True])
def test_a_snapshot_shows_no_call_that_is_refused(
    kind: str, is_behind_text: bool, is_async: bool
) -> None:
    """The live text goes out, and with it no event that holds the call of an unknown tool."""
    whole = response(MESSAGE, call_item("drop_table", {}))
    snapshot = [told(kind, whole, output_text="Here is the tea.")]
    spoken = speaking(MESSAGE, 0)
    first = [*spoken[:4], *snapshot] if is_behind_text else [*snapshot, *spoken[:4]]
    events = stream(whole, first, spoken[4:], calling(whole["output"][1]))

    came, error = refused(Server(body(events)), is_async=is_async)
    assert [issue.code for issue in error.issues] == ["tool.unknown"]
    lifecycle = [event.response for event in came if event.type in LIFECYCLE]
    assert len(lifecycle) == 3
    assert not any(one.output or one.to_dict().get("output_text") for one in lifecycle)
    assert "drop_table" not in str(came)


@pytest.mark.parametrize("kind", LIFECYCLE)
@pytest.mark.parametrize("has_pieces", [False, True])
def test_a_good_response_that_repeats_its_items_is_read(kind: str, has_pieces: bool) -> None:
    """The drop-in ends with the response as it came, and the SDK's own stream reads its events,
    also where the items came whole and their events are written anew.
    """
    called = call_item("search", GOOD)
    whole = response(MESSAGE, called)
    items = [frame(MESSAGE, 0, content=[]), frame(called, 1, arguments="")]
    if has_pieces:
        items = [speaking(MESSAGE, 0), calling(called)]

    events = stream(whole, *items)
    begun = told(kind, whole, output=[MESSAGE | {"status": "in_progress", "content": []}])
    events.insert(2, begun)
    events = [event | {"sequence_number": number} for number, event in enumerate(events)]

    assert given(events)[-1]["response"] == whole
    client = wrap(Server(body(events)).client(), policy=ONCE)
    with client.responses.stream(**ASK) as streamed:
        (final,) = plain([streamed.get_final_response()])

    assert [item["id"] for item in final["output"]] == [item["id"] for item in whole["output"]]
