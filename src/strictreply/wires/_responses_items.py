"""The items of a streamed response, and which repeated statements about them agree.

A statement about an item agrees if it neither adds to nor contradicts what was received.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._members import peek
from strictreply.wires._responses_requests import text_of

WRITTEN: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
"""The member of a call's item with what the model wrote."""

SPOKEN = ("message", *WRITTEN)
ANSWERING = (None, "final_answer")
"""The phases of a message that is an answer."""

WITH_ID = (
    "output_text.",
    "refusal.",
    "content_part.",
    "function_call_arguments.",
    "custom_tool_call_input.",
)
"""The prefixes of events that have the id of their item."""

_IDENTITY = ("type", "id", "call_id", "name", "namespace")
_NO_ARGUMENTS = "{}"


@dataclass(slots=True, eq=False)
class Item:
    """One item so far."""

    item: JSONObject
    """The item as stated last."""
    place: int
    """Its position among the items."""
    call: int | None = None
    """Its position among the calls; None for any other item."""
    texts: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """The pieces of its texts, by part."""
    written: list[str] = field(default_factory=list[str])
    """The pieces of a call's arguments or input."""
    label: int | None = None
    """The index of its events; None if it is missing."""
    free: int | None = None
    """The index that replaces a missing one, or one of another item; None otherwise."""
    parts: set[int] = field(default_factory=set[int])
    """The parts that were added."""
    ended: set[int] = field(default_factory=set[int])
    """The parts that were done."""
    moved: dict[JSON, int] = field(default_factory=dict[JSON, int])
    """New indexes of parts that are passed on under another index."""
    names: list[JSON] = field(default_factory=list[JSON])
    """All names of a call, in the order received."""
    spaces: list[JSON] = field(default_factory=list[JSON])
    """All namespaces of a call, in the order received."""
    told: list[JSON] = field(default_factory=list[JSON])
    """All statements of a call's arguments or input."""
    id: JSON = None
    """Its first id; None if there is none yet."""
    begun: str = ""
    """The arguments or input that a call had when it was added."""
    seen: set[str] = field(default_factory=set[str])
    """The types of its events."""
    later: list[str] = field(default_factory=list[str])
    """The pieces received after it was declared complete."""
    before: str | None = None
    """The JSON of the messages before it, as long as this one may be a copy; None otherwise."""
    again: int = 0
    """How many characters of ``before`` were repeated."""
    is_judged: bool = True
    """Whether it may reach the caller only after the reply is accepted."""
    is_strict: bool = False
    """Whether repetitions are forbidden."""
    is_written: bool = False
    """Whether the arguments or input of a call are complete."""
    is_done: bool = False
    """Whether it was done."""
    disagrees: bool = False
    """Whether a later statement about it differs."""

    @property
    def kind(self) -> str:
        """The type of the item."""
        return str(self.item.get("type"))

    @property
    def index(self) -> int:
        """The index under which its events are passed on."""
        if self.free is not None:
            return self.free

        return self.place if self.label is None else self.label

    @property
    def is_answer(self) -> bool:
        """Whether its text is an answer; commentary is not."""
        return self.kind == "message" and self.item.get("phase") in ANSWERING

    @property
    def whole_text(self) -> str:
        """All of its text so far."""
        return "".join(map("".join, self.texts.values()))

    @property
    def whole_written(self) -> str:
        """All of a call's arguments or input so far."""
        pieces = "".join(self.written)
        return pieces if self.is_again else self.begun + pieces

    @property
    def is_again(self) -> bool:
        """Whether the arguments that a call had when it was added were repeated in its pieces."""
        if self.is_strict or not self.begun or not self.written:
            return False

        pieces = "".join(self.written)
        return pieces.startswith(self.begun) or self.begun.strip() == _NO_ARGUMENTS

    @property
    def is_whole(self) -> bool:
        """Whether an event declared a call's arguments complete, and they were not empty."""
        return (self.is_done or self.is_written) and bool(self.whole_written or self.told)

    @property
    def is_repeated(self) -> bool:
        """Whether the pieces after that declaration are a copy."""
        later = "".join(self.later)
        if self.kind in WRITTEN:
            return not later or self.may_be(later) or later in self.told

        return not later.strip() or later in (self.whole_text, text_of([self.item]))

    def part_in(self, event: JSONObject) -> Any:
        """Return the index of the part of an event, in the form that is passed on."""
        index = event.get("content_index")
        return self.moved.get(index, index) if self.moved and isinstance(index, int) else index

    def may_be(self, written: object) -> bool:
        """Return whether a call may have these arguments, given what was received."""
        came = (self.whole_written, self.begun + "".join(self.written))
        return any(is_same_written(one, written) for one in came)

    def text(self, index: int) -> str:
        """Return the text of one part."""
        return "".join(self.texts.get(index, ()))

    @property
    def is_ended(self) -> bool:
        """Whether an event declared its content complete."""
        return any(kind.endswith(".done") for kind in self.seen)

    def whole(self) -> JSONObject:
        """Return the item so far."""
        if self.is_done or self.kind not in SPOKEN:
            return self.item
        if self.kind in WRITTEN:
            written = {WRITTEN[self.kind]: self.whole_written, "status": "in_progress"}
            return self.item | written

        parts: list[JSON] = [
            {"type": "output_text", "text": self.text(index), "annotations": []}
            for index in sorted(self.texts)
        ]
        return self.item | {
            "content": parts or self.item.get("content") or [],
            "status": "in_progress",
        }


def kind_told(event: JSONObject) -> str:
    """Return the type of the item of an event without index and id."""
    short = str(event.get("type")).removeprefix("response.")
    part = str(peek(event.get("part"), "type"))
    if short.startswith("reasoning_") or part.startswith("reasoning"):
        return "reasoning"
    if short.startswith(("output_text.", "content_part.", "refusal.")):
        return "message"

    return short.partition(".")[0]


def labels_of(held: Item, event: JSONObject) -> JSONObject:
    """Return which labels of an event differ from those of its item: index and id."""
    labels: JSONObject = {}
    index = event.get("output_index")
    if type(index) is not int or index != held.index:
        labels["output_index"] = held.index

    item = event.get("item")
    short = str(event.get("type")).removeprefix("response.")
    has_id = "item_id" in event or short.startswith(WITH_ID)
    if held.id is not None and has_id and event.get("item_id") != held.id:
        labels["item_id"] = held.id
    if held.id is not None and isinstance(item, dict) and item.get("id") != held.id:
        labels["item"] = item | {"id": held.id}
    if _is_told_bare(held) and isinstance(item, dict) and short == "output_item.done":
        labels["item"] = item | {"id": None}  # the SDK's stream treats another id as another item

    return labels


def _is_told_bare(held: Item) -> bool:
    """Return whether a message was announced without an id, which the response has."""
    return held.kind == "message" and held.id is None and "output_item.added" in held.seen


def is_json(text: str) -> bool:
    """Return whether a text starts like an object or an array of JSON."""
    return text.lstrip().startswith(("{", "["))


def is_spoken(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") in SPOKEN


def agrees(held: Item, item: JSONObject) -> bool:
    """Return whether a later statement about an item agrees with what was received."""
    own = held.item
    if any(item.get(name) != own[name] for name in _IDENTITY if own.get(name)):
        return False

    if held.kind in WRITTEN:
        member = WRITTEN[held.kind]
        if held.is_done:
            written = own.get(member)
            return written in (None, "") or is_same_written(written, item.get(member))
        return not held.whole_written or held.may_be(item.get(member))

    if held.kind != "message":
        return True
    if held.is_done:
        text = text_of([item | {"phase": None}])
        has_come = not held.texts or held.whole_text == (text or "")
        return has_come and text == text_of([own | {"phase": None}])

    content = item.get("content")
    parts = content if isinstance(content, list) else []
    texts = {index: peek(part, "text") for index, part in enumerate(parts)}
    return all(texts.get(index) == held.text(index) for index in held.texts)


def is_same_call(held: Item, item: JSONObject) -> bool:
    """Return whether a call of the output is the one that its events streamed."""
    if any(item.get("name") != name for name in held.names):
        return False
    if any(item.get("namespace") != space for space in held.spaces):
        return False

    last = item.get(WRITTEN[item["type"]])
    fits = not held.whole_written or held.may_be(last)
    return fits and is_as_told(held, item)


def is_same_written(one: object, other: object) -> bool:
    """Return whether two statements of arguments are equal, as text or as an object."""
    if isinstance(one, dict) and isinstance(other, str):
        return is_same_written(other, one)
    if not (isinstance(one, str) and isinstance(other, dict)):
        return one == other

    try:
        value = json.loads(one, object_pairs_hook=_members)
        return json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True)
    except (ValueError, RecursionError):
        return False


def _members(pairs: list[tuple[str, JSON]]) -> JSONObject:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member occurs twice")

    return members


def paired(calls: list[Item], last: list[JSONObject]) -> list[tuple[Item, JSONObject]]:
    """Return each call with its item in a terminal output: by their ids, else in order."""
    for name in ("call_id", "id"):
        ids = [held.item.get(name) for held in calls]
        named = {id_: item for item in last if isinstance(id_ := item.get(name), str)}
        own = {id_: held for held, id_ in zip(calls, ids, strict=True) if isinstance(id_, str)}
        if len(own) == len(calls) == len(last) and own.keys() == named.keys():
            return [(held, named[id_]) for id_, held in own.items()]

    return list(zip(calls, last, strict=False))


def is_as_told(held: Item, item: JSONObject) -> bool:
    """Return whether an item agrees with all statements about a call."""
    return all(is_same_written(item.get(WRITTEN[held.kind]), said) for said in held.told)


def left_out(held: Item, item: JSONObject) -> JSONObject:
    """Return the members that a terminal item lacks but complete events had."""
    left = {
        name: held.item[name]
        for name in ("name", "call_id")
        if held.item.get(name) and item.get(name) in (None, "") and held.kind in WRITTEN
    }
    if not held.is_ended:
        return left

    member = WRITTEN.get(held.kind, "content")
    if held.kind in WRITTEN and held.whole_written and item.get(member) in (None, ""):
        left[member] = held.whole_written
    elif held.kind == "message" and held.whole_text and not text_of([item | {"phase": None}]):
        has_parts = any(map(_says_something, item.get("content") or ()))
        left |= {} if has_parts else {member: held.whole()["content"]}

    return left


def _says_something(part: object) -> bool:
    return bool(peek(part, "text") or peek(part, "refusal"))


def is_late_for(held: Item, item: JSONObject) -> bool:
    """Return whether an added item is the one whose events were received before it."""
    is_bare = held.item.keys() <= {"type", "id"} and not held.is_done
    return is_bare and held.kind == item.get("type") and held.id in (None, item.get("id"))


def is_same_item(held: Item, item: JSONObject) -> bool:
    """Return whether an item is a copy of an added one: same ids and name."""
    if item.get("id") is None and item.get("call_id") is None:
        return False

    return all(item.get(name) == held.item.get(name) for name in _IDENTITY)


def is_renamed(held: Item, item: JSONObject) -> bool:
    """Return whether an item is a call that was added before, under another name."""
    is_call = held.kind in WRITTEN and held.kind == item.get("type")
    is_same = any(item.get(name) == held.item.get(name) is not None for name in ("id", "call_id"))
    names = (held.item.get("name"), item.get("name"))
    return is_call and is_same and all(names) and names[0] != names[1]


def remember(held: Item, item: JSONObject) -> None:
    """Record the name and the arguments of a call, to compare them at the end."""
    if item.get("name"):
        held.names.append(item["name"])
    if item.get("namespace"):
        held.spaces.append(item["namespace"])

    said = item.get(WRITTEN.get(held.kind, ""))
    if said not in (None, "", {}, "{}"):
        held.told.append(said)


def with_streamed(held: Item, item: JSONObject) -> JSONObject:
    """Return the last statement of an item, completed with what was received."""
    member = WRITTEN.get(held.kind)
    if member is not None and held.written and not item.get(member):
        return item | {member: held.whole_written}

    return item
