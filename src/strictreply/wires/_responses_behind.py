"""What comes behind the end of a streamed response: repeats, further calls, or another meaning.

Which event may follow the terminal one: the events of an item once more, or of a further call that
is whole; the same end once more; what nothing judges; a whole other response, which is not read.
Anything else contradicts the end.
"""

from __future__ import annotations

from typing import Any

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._members import peek
from strictreply.wires._responses_items import WRITTEN, Item, is_same_call
from strictreply.wires._responses_requests import is_awaited, kind_of, parts_in, text_of

_GOOD_END = "response.completed"
_BAD_ENDS = ("response.failed", "response.incomplete", "error", "response.error")
"""The events that contradict an end behind which they come."""


def further_calls(behind: list[Item], output: list[JSONObject]) -> list[JSONObject] | None:
    """Return the calls that came behind the end of a response, beside those of its output.

    None where something that came there contradicts the output: a text that is not all of its text,
    or of one of its messages, a call of the output with something else in it, or one that is not
    whole. What nothing judges contradicts nothing.
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
    """Return whether texts are those of an output, each of a message or all of them together."""
    said = [text_of([item | {"phase": None}]) for item in output if peek(item, "type") == "message"]
    together = "".join(one for one in said if one)
    return "".join(texts) == together or all(text in said for text in texts if text.strip())


def _call_in(held: Item, output: list[JSONObject]) -> JSONObject | None:
    """Return the call of an output that a call is, by an id; None where it is none of them.

    What no event has named is the one that holds the same, or was told under its index.
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
    """Return whether a call behind the end is the same once more; a further one must be whole."""
    if same is None:
        return held.is_done and (held.kind not in WRITTEN or not held.disagrees)
    if held.kind not in WRITTEN:
        return not held.is_done or held.item == same

    return is_same_call(held, same) and not held.disagrees


def is_of_other(event: JSON, around: JSONObject) -> bool:
    """Return whether an event that ends a response is of another one than that ``around`` it."""
    if peek(event, "type") not in (_GOOD_END, *_BAD_ENDS):
        return False

    ids = (peek(peek(event, "response"), "id"), around.get("id"))
    return all(ids) and ids[0] != ids[1]


def contradicts(event: JSON, around: JSONObject) -> bool:
    """Return whether an event behind the end of a response is another end of it, or an error.

    An end that comes once more and says nothing else is none.
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
    """Return what is judged of an output: its texts, its refusals, and its calls in order."""
    items: list[Any] = output if isinstance(output, list) else []
    refusals = [text for item in items for text in parts_in(item, ("refusal",))]
    calls = [
        [item.get(name) for name in ("type", "call_id", "namespace", "name", WRITTEN[item["type"]])]
        for item in items
        if kind_of(item) in WRITTEN
    ]
    return [text_of(items, beside_calls=True), refusals, calls]
