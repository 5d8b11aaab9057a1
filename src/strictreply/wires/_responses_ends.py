"""The terminal event of a streamed response: its output must agree with the events before it.

It contains the whole response, and takes precedence. The events before it must not contradict it:
their text must be its text, and their arguments those of its calls, call by call. If its output is
empty, the items are those of the events. Parts that it leaves out are taken from complete events.
Several messages with the same JSON are one answer. Ids, and items that are not judged, need not
agree.
"""

from __future__ import annotations

from typing import Any

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._endings import reason_code
from strictreply.wires._members import peek
from strictreply.wires._responses_items import (
    SPOKEN,
    WRITTEN,
    Item,
    agrees,
    is_as_told,
    is_json,
    is_same_call,
    is_spoken,
    left_out,
    paired,
)
from strictreply.wires._responses_requests import parts_in, text_of

DONE = "response.done"
"""An end of some servers, whose status names the kind; the realtime API uses it, too."""


def as_terminal(event: JSONObject) -> JSONObject:
    """Return an event of the type :data:`DONE`, with its response, as the API's own end.

    Without a status the response is completed.
    """
    response: JSONObject = event["response"]
    status = response.get("status")
    end = "completed"
    if status == "incomplete":
        end = "incomplete"
    elif reason_code(status) is not None:
        end = "failed"

    details = response.get("status_details")
    reason = peek(details, "reason")
    read = response | {"object": "response"}
    if end == "incomplete" and reason and not response.get("incomplete_details"):
        read["incomplete_details"] = {"reason": reason}
    if peek(details, "error") and not response.get("error"):
        read["error"] = peek(details, "error")

    return event | {"type": f"response.{end}", "response": read}


def with_written(items: list[Item], output: object) -> list[JSON] | None:
    """Return a terminal output with the parts that it leaves out, from its events.

    None if it leaves out nothing.
    """
    last: list[Any] = output if isinstance(output, list) else []
    written: dict[int, JSONObject] = {}
    for kinds in (tuple(WRITTEN), ("message",)):
        came = [held for held in items if held.kind in kinds]
        told = [item for item in last if peek(item, "type") in kinds]
        if len(came) == len(told):
            written |= {
                id(item): item | left
                for held, item in paired(came, told)
                if held.kind == item["type"] and (left := left_out(held, item))
            }

    return [written.get(id(item), item) for item in last] if written else None


def items_made(items: list[Item], *, is_completed: bool) -> list[JSONObject]:
    """Return the output that the events of a stream made, for a terminal event without one."""
    made = [held.whole() for held in items]
    for held, item in zip(items, made, strict=True):
        if is_completed and held.kind in SPOKEN and held.is_ended and not held.is_done:
            item["status"] = "completed"  # the response is completed, and so are its items

    return made


def is_as_streamed(items: list[Item], output: object) -> bool:
    """Return whether an output has the messages and calls of its events, item by item."""
    last = [item for item in output if is_spoken(item)] if isinstance(output, list) else []
    came = [held for held in items if held.kind in SPOKEN]
    if len(last) != len(came) or any(held.disagrees for held in came):
        return False

    pairs = list(zip(came, last, strict=True))
    return all(agrees(held, item) and is_as_told(held, item) for held, item in pairs)


def says_the_same(items: list[Item], output: object) -> bool:
    """Return whether an output has the same text and calls as its events."""
    if not isinstance(output, list):
        return False

    texts = [held.whole_text for held in items if held.is_answer]
    said = (text_of(output), text_of(output, beside_calls=True))
    shown = ["".join(texts)]
    if len(set(texts)) == 1 and is_json(texts[0]):
        shown.append(texts[0])  # it came more than once
    if shown[0] and not any(text in said for text in shown):
        return False

    calls = [held for held in items if held.kind in WRITTEN]
    last = [item for item in output if peek(item, "type") in tuple(WRITTEN)]
    if calls and len(calls) != len(last):
        return False

    return all(is_same_call(held, item) for held, item in paired(calls, last))


def refusals_in(output: object) -> list[str]:
    """Return the refusals of an output."""
    items: list[Any] = output if isinstance(output, list) else []
    return [text for item in items for text in parts_in(item, ("refusal",))]
