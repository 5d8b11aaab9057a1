"""Events after the end of a streamed response: copies, further calls, or contradictions.

After the terminal event the following may come: copies of the events of an item, or the events of
another complete call; a copy of the end; events that are not judged; another whole response, which
is not read. Anything else contradicts the end.
"""

from __future__ import annotations

from typing import Any

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._members import peek
from strictreply.wires._responses_items import WRITTEN, Item, is_same_call
from strictreply.wires._responses_requests import is_awaited, kind_of, parts_in, text_of

_GOOD_END = "response.completed"
_BAD_ENDS = ("response.failed", "response.incomplete", "error", "response.error")
"""The events that contradict an end before them."""


def further_calls(behind: list[Item], output: list[JSONObject]) -> list[JSONObject] | None:
    """Return the calls after the end of a response that are not in its output.

    None if something there contradicts the output: a text that is neither all of its text nor that
    of a message, a call of the output with different contents, or an incomplete call. Events that
    are not judged contradict nothing.
    """
    texts = [held.whole_text for held in behind if held.kind == "message"]
    if "".join(texts).strip() and not _are_repeated(texts, output):
        return None

    further: list[JSONObject] = []
    for held in behind:
        if held.kind == "message" or not (held.kind in WRITTEN or is_awaited(held.item)):
            continue

        same = _call_in(held, output)
        if same is None:
            further.append(held.item)
        if not _is_repeated(held, same):
            return None

    return further


def _are_repeated(texts: list[str], output: list[JSONObject]) -> bool:
    """Return whether texts are those of an output, of one message each or of all together."""
    said = [text_of([item | {"phase": None}]) for item in output if peek(item, "type") == "message"]
    together = "".join(one for one in said if one)
    return "".join(texts) == together or all(text in said for text in texts if text.strip())


def _call_in(held: Item, output: list[JSONObject]) -> JSONObject | None:
    """Return the call of an output that a call is, by an id; None if it is none of them.

    A call without ids is the one with the same contents, or with its index.
    """
    alike: list[JSONObject] = [item for item in output if peek(item, "type") == held.kind]
    for name in ("call_id", "id"):
        id_ = held.item.get(name)
        found = next((item for item in alike if id_ and item.get(name) == id_), None)
        if found is not None:
            return found

    if held.names or held.item.get("call_id"):
        return None

    index = held.label
    at = output[index] if index is not None and index < len(output) else None
    holds_same = (item for item in alike if is_same_call(held, item))
    return next(holds_same, None) or next((item for item in alike if item is at), None)


def _is_repeated(held: Item, same: JSONObject | None) -> bool:
    """Return whether a call after the end is a copy; any other call must be complete."""
    if same is None:
        return held.is_done and (held.kind not in WRITTEN or not held.disagrees)
    if held.kind not in WRITTEN:
        return not held.is_done or held.item == same

    return is_same_call(held, same) and not held.disagrees


def is_of_other(event: JSON, around: JSONObject) -> bool:
    """Return whether an event that ends a response is of another response than ``around``."""
    if peek(event, "type") not in (_GOOD_END, *_BAD_ENDS):
        return False

    ids = (peek(peek(event, "response"), "id"), around.get("id"))
    return all(ids) and ids[0] != ids[1]


def contradicts(event: JSON, around: JSONObject) -> bool:
    """Return whether an event after the end of a response is a different end, or an error.

    A copy of the end is not.
    """
    kind = peek(event, "type")
    if peek(event, "error") or kind in _BAD_ENDS:
        return True

    return kind == _GOOD_END and not _repeats_end(peek(event, "response"), around)


def _repeats_end(told: object, around: JSONObject) -> bool:
    status = peek(told, "status")
    if peek(told, "error") or status not in (None, around.get("status")):
        return False

    output = peek(told, "output")
    return output in (None, []) or _said_in(output) == _said_in(around.get("output"))


def _said_in(output: object) -> list[object]:
    """Return the judged parts of an output: its texts, its refusals, and its calls in order."""
    items: list[Any] = output if isinstance(output, list) else []
    refusals = [text for item in items for text in parts_in(item, ("refusal",))]
    calls = [
        [item.get(name) for name in ("type", "call_id", "namespace", "name", WRITTEN[item["type"]])]
        for item in items
        if kind_of(item) in WRITTEN
    ]
    return [text_of(items, beside_calls=True), refusals, calls]
