"""Finds the items of a streamed response by their events, or creates them.

An item is found by its ``output_index``, else by its id, else by the order in which items were
added; ids may differ between events. The order of events:

- ``output_item.added`` comes first, once. A copy for the same item adds nothing. If it comes after
  the first events of its item, or without a type, it names the item of these events.
- An event of an item that is unknown, or done, starts a new item of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, TypeAlias

from strictreply.values._issues import Code, quote
from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._chat_calls import label_in
from strictreply.wires._declared_tools import called_name
from strictreply.wires._responses_items import (
    WRITTEN,
    Item,
    is_late_for,
    is_renamed,
    is_same_item,
    kind_told,
    remember,
)
from strictreply.wires._responses_requests import is_awaited, is_run_by_server
from strictreply.wires._wire import Assembly

Handler: TypeAlias = Callable[[Any, JSONObject], None]


class StreamedItems(Assembly):
    """The items of one stream so far.

    ``current`` is the item of the last event; None if it has none.
    """

    holds_pieces = True

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        super().__init__(names, strict=strict)
        self.items: list[Item] = []
        self.current: Item | None = None
        self._places: dict[int, int] = {}
        self._indexes: set[int] = set()
        self._calls = 0
        self._is_text = True  # as long as only text was received

    def at(self, index: int) -> Item | None:
        """Return the item under an index; None if there is none."""
        place = self._places.get(index)
        return None if place is None else self.items[place]

    def _about(self, event: JSONObject) -> Item | None:
        """Return the item of an event of any type; None if it is unknown."""
        label = label_in({"index": event.get("output_index")})
        held = None if label is None else self.at(label)
        if held is None:
            held = self._with_id(event.get("item_id"))
        if held is not None or label is not None:
            return held

        kind = kind_told(event)
        return next((one for one in self.items if one.kind == kind and not one.is_done), None)

    def _refuse(self, expected: str, found: object, at: str = "") -> None:
        self.refuse(Code.ENVELOPE_MALFORMED, at, expected=expected, found=quote(found))

    def _added(self, event: JSONObject) -> None:
        item = event.get("item")
        if item is None or item == {} or (isinstance(item, dict) and self._says_no_type(item)):
            return

        if not isinstance(item, dict):
            self._refuse("an item with its own index", event)
            return

        index = event.get("output_index")
        label = label_in({"index": index})
        late = None if label is None or self._strict else self.at(label)
        if late is not None and is_late_for(late, item):
            self._announce(late, item)
            return

        is_plain = label is not None and isinstance(index, int) and label not in self._places
        if not is_plain and not self.reads("output_index"):
            self._refuse("an item with its own index", event)
            return

        same = None if label is None else self.at(label)
        if same is not None and is_same_item(same, item):
            remember(same, item)
            self.is_ignored = True  # it is added again
            return
        if same is not None and is_renamed(same, item):
            self._refuse("one name for a call", event)
            return

        held = self._open(item, label)
        self.current = held
        if not is_plain:
            self.passed = event | {"output_index": held.index}

    def _says_no_type(self, item: JSONObject) -> bool:
        """Return whether an item has no type; its later events show it."""
        return not self._strict and item.get("type") in (None, "")

    def _announce(self, held: Item, item: JSONObject) -> None:
        """Handle an item that is added after its first events."""
        begun = held.item | item
        if held.kind in WRITTEN:
            begun[WRITTEN[held.kind]] = ""

        held.item = begun
        held.id = held.id or item.get("id")
        remember(held, item)
        self.is_ignored = True
        if held.kind == "function_call":
            self._tell_call(held, "", item.get("name"))

    def _open(self, item: JSONObject, label: int | None) -> Item:
        held = Item(item, len(self.items), label=label, id=item.get("id"))
        if held.index in self._indexes:
            held.free = max(self._indexes) + 1

        self._indexes.add(held.index)
        held.is_strict = self._strict
        held.is_judged = self._is_judged(held)
        self.items.append(held)
        self._places[held.index if label is None else label] = held.place
        if held.is_judged and held.kind != "message":
            self._is_text = False

        if held.kind in WRITTEN:
            begun = item.get(WRITTEN[held.kind])
            if isinstance(begun, str):
                held.begun = begun
                remember(held, item | {WRITTEN[held.kind]: ""})
            else:
                remember(held, item)

            if held.is_judged:
                held.call = self._calls
                self._calls = self._calls + 1
            if held.kind == "function_call":
                self._tell_call(held, "", item.get("name"))

        return held

    def _is_judged(self, held: Item) -> bool:
        """Return whether an item may reach the caller only after the whole reply is accepted."""
        if held.kind == "message":
            return held.is_answer
        if held.kind not in WRITTEN:
            return is_awaited(held.item)

        # declared tools are the program's
        is_theirs = is_run_by_server(held.item) and held.item.get("name") not in self.names
        return self._strict or not is_theirs

    def _tell_call(self, held: Item, arguments: str, name: object = None) -> None:
        function: JSONObject = {"arguments": arguments}
        if isinstance(name, str):
            function["name"] = called_name(name, held.item.get("namespace"), self.names)

        self.delta = {"tool_calls": [{"index": held.call, "function": function}]}
        self.size += len(arguments)

    def _found(self, event: JSONObject, kind: str) -> Item | None:
        """Return the item of an event, creating it if there is none; None if it is rejected."""
        self.current = self._find(event, kind)
        return self.current

    def _find(self, event: JSONObject, kind: str) -> Item | None:
        index = event.get("output_index")
        label = label_in({"index": index})
        is_plain = label is not None and isinstance(index, int)
        held = None if label is None else self.at(label)

        id_ = event.get("item_id")
        own = None if held is None else held.item.get("id")
        agrees = own is None or id_ is None or id_ == own
        if held is not None and is_plain and agrees and not held.is_done:
            return held

        if not is_plain:
            row = "output_index"
        elif not agrees:
            row = "item_id_changes"
        else:
            row = "item_unannounced"

        if not self.reads(row):
            self._refuse("an event of an item that was added and is not done", event)
            return None

        named = self._with_id(id_)
        if named is not None:
            return named
        if held is not None:
            return held

        return self._without_index(label, id_, kind)

    def _with_id(self, id_: JSON) -> Item | None:
        if id_ is None:
            return None

        return next((held for held in self.items if held.item.get("id") == id_), None)

    def _without_index(self, label: int | None, id_: JSON, kind: str) -> Item:
        """Return the first incomplete item of a kind; create one if there is none."""
        if label is None:
            for held in self.items:
                if held.kind == kind and not (held.is_written or held.is_done):
                    return held

        self._is_text = False  # it was not announced, so its text cannot be passed on
        return self._open({"type": kind, "id": id_}, label)

    handlers: ClassVar[Mapping[str, Handler]] = {"output_item.added": _added}
    """The handlers of events, by the type after ``response.``.

    Other events are not part of the reply.
    """
