"""Assembles the calls of a streamed choice from their pieces.

- The *index* of a piece is a label. A new label starts a call, and so does a new id that comes with
  a name. A piece without a label belongs to the call with its id, else to the last call.
- A repeated name or id adds nothing, and neither do null and empty values. The first id stays.
- The pieces of *arguments* are joined. An object counts as its JSON text if nothing else follows.
  An empty value may be a placeholder for the text after it, so it is not examined before that.
- A call with a new label and the id of another call is a copy of it, if both say the same. So is a
  call with its own id that is already complete.
- Other members *around* a call, such as the signature of a thought, may come in a piece of their
  own: they are added to the call with that label or id, else to the last one.

Ambiguous pieces are rejected: a different name for a call, arguments in two forms, a complete call
again without an id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, TypeAlias

from strictreply.values._limits import JSON, JSONObject
from strictreply.wires._chat_content import Members
from strictreply.wires._dialects import (
    is_blank,
    is_same_call,
    is_same_json,
    with_others_of,
    written,
)
from strictreply.wires._members import peek

Reads: TypeAlias = Callable[[str], bool]
"""Records that a row of the dialects is needed, and returns whether it may be applied."""

_PIECE_MEMBERS = 2  # of a call that continues: its index and its function
_READ = frozenset({"index", "id", "function", "type"})
_MOST_DIGITS = 9
_MOST_TIMES = 8  # as long as another text of the same JSON is
_SHORT = 100
_PLACES = ("{}", "null")  # texts of arguments without content


def label_in(part: JSONObject) -> int | None:
    """Return the index of a choice or a call; None if it has no readable one."""
    index = part.get("index")
    if isinstance(index, str) and len(index) <= _MOST_DIGITS and index.isascii():
        return int(index) if index.isdecimal() else None
    if isinstance(index, float) and index.is_integer():
        index = int(index)
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        return None

    return index


@dataclass(slots=True)
class CallDraft:
    """One call so far."""

    is_late: bool = False
    """Whether it was started after a finish reason."""
    id: JSON = None
    """The id that was received, even if it is blank."""
    has_id: bool = False
    """Whether an id was received."""
    name: JSON = None
    """The name that was received, even if it is blank."""
    is_named: bool = False
    """Whether a name was received."""
    text: StringIO = field(default_factory=StringIO)
    """The pieces of its arguments, joined."""
    is_text: bool = False
    """Whether its arguments are a text."""
    is_waiting: bool = True
    """Whether its text may still be a placeholder for another one."""
    value: JSON = None
    """A value in place of a text; None if there is none."""
    has_arguments: bool = False
    """Whether the member for the arguments was received."""
    around: Members = field(default_factory=Members)
    """The other members of the call."""
    beside: Members = field(default_factory=Members)
    """The other members of its function."""
    kind: JSON = None
    """The type of the call; None if not yet received."""
    twin: CallDraft | None = None
    """An earlier call with the same id; None if there is none."""

    def add_id(self, id_: JSON, reads: Reads) -> bool:
        """Add an id; return whether it is allowed here. The first one stays."""
        self.has_id = True
        if is_blank(self.id):
            self.id = id_
            return True
        if is_blank(id_) or id_ == self.id:
            return True

        return reads("call_id_changes")

    def add_name(self, name: JSON, reads: Reads, declared: Collection[str]) -> str | None:
        """Add a name; return its new part, None if it contradicts the earlier name."""
        self.is_named = True
        if not self.name:
            self.name = name
            return name if isinstance(name, str) else ""
        if not name or name == self.name:
            return "" if reads("call_name_repeated") else None
        if not isinstance(name, str) or not isinstance(self.name, str):
            return None

        # the name so far is not a tool's name, but this piece continues it, in one of two ways
        if self.name in declared or self.says_arguments():
            return None

        before = self.name
        grows = name.startswith(before) and _begins_any(name, declared)
        goes_on = _begins_any(before + name, declared)
        if grows == goes_on or not reads("call_name_grows" if grows else "call_name_in_pieces"):
            return None

        self.name = name if grows else before + name
        return self.name[len(before) :]

    def add_arguments(self, arguments: JSON, reads: Reads) -> str | None:
        """Add a piece of the arguments; return the new part of their text.

        A text that may be a placeholder is held back. None if the piece contradicts the earlier
        ones.
        """
        if arguments is None:
            return ""

        if not isinstance(arguments, str):
            if self.says_arguments():
                return None

            self.value = arguments
            return ""

        if self.value is not None and arguments:
            # an empty object may come before the texts, as their placeholder
            if self.value != {} or not reads("arguments_object"):
                return None

            self.value = None

        self.is_text = True
        if not self.is_waiting:
            self.text.write(arguments)
            return arguments

        so_far = self.text.getvalue()
        if _is_place(so_far) and arguments.lstrip().startswith("{"):
            if not reads("arguments_object"):
                return None

            so_far = ""
            self.text = StringIO()

        self.text.write(arguments)
        text = so_far + arguments
        self.is_waiting = any(place.startswith(text.strip()) for place in _PLACES)
        return "" if self.is_waiting else text

    def says_arguments(self) -> bool:
        """Whether any of its arguments were received."""
        return self.value is not None or self.text.tell() > 0

    def is_complete(self) -> bool:
        """Whether its arguments are a complete JSON object, which no text can follow."""
        try:
            return isinstance(json.loads(self.text.getvalue()), dict)
        except (ValueError, RecursionError):
            return False

    @property
    def whole(self) -> JSONObject:
        """The call in the form of a message."""
        function: JSONObject = {"name": self.name} if self.is_named else {}
        function |= self.beside.whole
        if self.has_arguments:
            came_as_text = self.is_text and self.value is None
            function["arguments"] = self.text.getvalue() if came_as_text else self.value

        call: JSONObject = {"id": self.id} if self.has_id else {}
        call |= {"type": self.kind or "function"}
        return call | self.around.whole | {"function": function}

    def is_repetition(self) -> bool:
        """Whether it says the same as its twin; other members around them may differ."""
        if self.twin is None:
            return False

        # so that a long call is not compared again for each short one
        least = self.twin.text.tell() // _MOST_TIMES - _SHORT
        if self.value is None and self.text.tell() < least:
            return False

        return is_same_call(self.whole, self.twin.whole)

    def add_others(self, part: JSONObject, function: JSONObject) -> None:
        """Add the members of a piece other than its id, its name and its arguments."""
        for member, value in _around(part).items():
            self.around.add(member, value)

        for member, value in _beside(function).items():
            self.beside.add(member, value)

    def comes_again(self, function: JSONObject) -> bool:
        """Return whether a function repeats the call, which is already complete."""
        arguments = function.get("arguments")
        if not function.get("name") or function["name"] != self.name:
            return False
        if self.value is not None:
            return arguments == self.value

        return arguments == self.text.getvalue() and self.is_complete()

    def is_again(self, part: JSONObject, function: JSONObject) -> bool:
        """Return whether a piece is the complete call again, with its own id."""
        is_same = not is_blank(self.id) and part.get("id") == self.id
        is_kind = not part.get("type") or part["type"] == (self.kind or "function")
        arguments = function.get("arguments")
        if not is_same or not is_kind or not _is_whole(arguments):
            return False
        if not function.get("name") or function["name"] != self.name:
            return False
        if self.value is None and not self.is_complete():
            return False

        so_far = self.text.getvalue() if self.value is None else written(self.value)
        return is_same_json(written(arguments) or arguments, so_far)

    def repeats(self, part: JSONObject, function: JSONObject) -> bool:
        """Return whether a piece adds nothing to the call."""
        id_ = part.get("id")
        name = function.get("name")
        is_known = (is_blank(id_) or id_ == self.id) and (is_blank(name) or name == self.name)
        return is_known and is_blank(function.get("arguments"))


@dataclass(slots=True)
class CallDrafts:
    """The calls of one choice so far, in the order in which they started."""

    reads: Reads
    """Records the deviations that are needed, and returns whether they may be accepted."""
    declared: Collection[str]
    """Names of the tools that may be called."""
    drafts: list[CallDraft] = field(default_factory=list[CallDraft])
    """The calls."""
    is_unplaced: bool = False
    """Whether the last piece may belong to several calls."""
    _early: dict[int | None, tuple[int, Members]] = field(
        default_factory=dict[int | None, tuple[int, Members]]
    )
    """Members received without a call, by label, each with the place of the call before them."""
    _places: dict[int, int] = field(default_factory=dict[int, int])
    """Places of the calls by their label."""
    _by_id: dict[str, int] = field(default_factory=dict[str, int])
    """Places of the calls by their id."""
    _has_open: bool = False
    """Whether a call before the last one was not complete."""

    def add_piece(self, call: object) -> int:
        """Add a piece that only continues arguments; return its size, or 0 for any other piece.

        It runs once for each token of a call, so it compares exact types, which is fastest.
        """
        if type(call) is not dict or len(call) != _PIECE_MEMBERS:
            return 0

        index = call.get("index")
        function = call.get("function")
        if type(function) is not dict or len(function) != 1:
            return 0
        if type(index) is not int or self._places.get(index) != index:
            return 0

        arguments = function.get("arguments")
        draft = self.drafts[index]
        if type(arguments) is not str or not draft.is_named or draft.is_waiting:
            return 0
        if draft.value is not None or draft.twin is not None:
            return 0

        draft.is_text = draft.has_arguments = True
        draft.text.write(arguments)
        return len(arguments)

    def add(self, part: Any, *, behind_end: bool) -> JSONObject | None:
        """Add a piece; return the new part of its call, None if the piece is ambiguous.

        The new part is a piece in the form of the API, with the position of the call as its index.
        ``behind_end`` says that a finish reason was received.
        """
        is_null = part is None and self.reads("call_empty")
        part = {} if is_null else part
        function = self._function_in(part)
        if function is None:
            return None

        place = self._place_of(part, function)
        if place is None:
            return None

        if place == len(self.drafts):
            if is_blank([part.get("id"), function]) and self.reads("call_empty"):
                self._keep_early(part)
                return {"index": place}
            if behind_end and not self.reads("call_behind_end"):
                return None

            self._open(part.get("id"), label_in(part), is_late=behind_end)

        label = label_in(part)
        if label is None:
            self._places.setdefault(place, place)
        else:
            self._places[label] = place

        draft = self.drafts[place]
        if draft.is_again(part, function) and self.reads("call_repeated"):
            draft.around.repeat(_around(part))
            draft.beside.repeat(_beside(function))
            return {"index": place}

        if behind_end and not draft.is_late:
            # the finish reason has completed this call
            if not draft.repeats(part, function) or not self.reads("call_name_repeated"):
                return None

            draft.add_others(part, function)
            return {"index": place}

        piece = self._grown(place, draft, part, function)
        # whether a call with another one's id adds anything shows only at its end
        return {"index": place} if piece and draft.twin else piece

    @property
    def whole(self) -> list[JSON]:
        """The calls in the form of a message, without copies."""
        calls = [draft.whole for draft in self.drafts]
        for place, members in self._early.values():
            if calls:
                calls[place] = members.whole | calls[place]

        places = {id(draft): place for place, draft in enumerate(self.drafts)}
        left: list[int] = []
        for place, draft in enumerate(self.drafts):
            if draft.is_repetition():
                twin = places[id(draft.twin)]
                calls[twin] = with_others_of(calls[place], calls[twin])
            else:
                left.append(place)

        return [calls[place] for place in left]

    def are(self, calls: object) -> bool:
        """Return whether the calls of a message are these; their ids may differ."""
        if not isinstance(calls, list):
            return False

        came = [draft.whole for draft in self._single()]
        if len(came) != len(calls):
            return False

        pairs = zip(came, _in_order_of(came, calls), strict=True)
        return all(is_same_call(one, call) or _are_bare(one, call) for one, call in pairs)

    def add_missing(self, calls: Sequence[JSONObject] | None) -> None:
        """Add the members that only the calls of a message have."""
        single = self._single()
        came = [draft.whole for draft in single]
        for draft, call in zip(single, _in_order_of(came, calls or ()), strict=False):
            draft.around.add_missing(_around(call))

    def _single(self) -> list[CallDraft]:
        return [draft for draft in self.drafts if not draft.is_repetition()]

    def _keep_early(self, part: JSONObject) -> None:
        """Keep members without a call, for the call with their label or the last one."""
        around = _around(part)
        if is_blank(around):
            return

        last = max(len(self.drafts) - 1, 0)
        _, members = self._early.setdefault(label_in(part), (last, Members()))
        for name, value in around.items():
            members.add(name, value)

    def _function_in(self, part: object) -> JSONObject | None:
        """Return the function of a piece; None if it has no readable one."""
        if not isinstance(part, dict):
            return None

        function: Any = part.get("function", {})
        if function is None and self.reads("call_function_null"):
            return {}

        return function if isinstance(function, dict) else None

    def _open(self, id_: JSON, label: int | None, *, is_late: bool) -> None:
        taken = self._with_id(id_)
        may_repeat = taken is not None and self.reads("call_repeated")
        twin = self.drafts[taken] if taken is not None and may_repeat else None

        if self.drafts:
            self._has_open |= not self.drafts[-1].is_complete()

        _, around = self._early.pop(label, (0, Members()))
        self.drafts.append(CallDraft(is_late=is_late, twin=twin, around=around))

    def _grown(
        self, place: int, draft: CallDraft, part: JSONObject, function: JSONObject
    ) -> JSONObject | None:
        """Add a piece to its call; return its new part, None if it contradicts the call."""
        if "id" in part and not draft.add_id(part["id"], self.reads):
            return None
        if not is_blank(draft.id):
            self._by_id.setdefault(json.dumps(draft.id), place)

        kind = part.get("type")
        if kind and draft.kind and draft.kind != kind:
            return None

        draft.kind = draft.kind or kind

        piece: JSONObject = {}
        if "name" in function:
            piece["name"] = draft.add_name(function["name"], self.reads, self.declared)
            if piece["name"] is None:
                return None

        draft.has_arguments |= "arguments" in function
        piece["arguments"] = draft.add_arguments(function.get("arguments"), self.reads)
        if piece["arguments"] is None:
            return None
        says_arguments = not is_blank(function.get("arguments"))
        if says_arguments and not draft.is_named and not self.reads("call_name_late"):
            return None

        draft.add_others(part, function)
        return {"index": place, "function": piece}

    def _place_of(self, part: JSONObject, function: JSONObject) -> int | None:
        """Return the position of the call that a piece belongs to, or of a new call.

        None if its index cannot be read, or if it may belong to several calls.
        """
        label = label_in(part)
        if label is None and part.get("index") is not None:
            return None

        id_ = part.get("id")
        name = function.get("name")
        known = self._known_place(label, id_, name)
        if known is None and label is None and self.drafts and not (id_ and name):
            self.is_unplaced = self._may_be_of_several(function)
            if self.is_unplaced:
                return None

            known = len(self.drafts) - 1

        place = len(self.drafts)
        if known is not None:
            draft = self.drafts[known]
            has_ids = not is_blank(id_) and not is_blank(draft.id)
            is_again = not has_ids and draft.comes_again(function)
            if is_again:
                self.is_unplaced = True  # a copy, or another call that says the same
                return None
            if not _opens_another(draft, id_, name, function):
                place = known
            elif name == draft.name and not draft.says_arguments():
                self.is_unplaced = True
                return None  # the same call with another id, or a second call without arguments

        # the API counts calls from 0, and each piece has its number
        counts = type(part.get("index")) is not float and part.get("index") == place
        if not counts and not self.reads("call_index"):
            return None

        return place

    def _known_place(self, label: int | None, id_: JSON, name: JSON) -> int | None:
        """Return the position of the call with a label or an id; an id takes precedence.

        A name with a new label starts a call, even if its id is already used.
        """
        known = None if label is None else self._places.get(label)
        named = self._with_id(id_)
        opens_one = label is not None and known is None and bool(name)
        is_of_label = known is not None and self.drafts[known].id == id_  # which others share
        return known if named is None or opens_one or is_of_label else named

    def _may_be_of_several(self, function: JSONObject) -> bool:
        """Return whether a piece without a label and an id may also belong to an earlier call."""
        if function.get("name") or is_blank(function):
            return False

        return self._has_open

    def _with_id(self, id_: JSON) -> int | None:
        if is_blank(id_):
            return None

        return self._by_id.get(json.dumps(id_))


def _in_order_of(came: list[JSONObject], calls: Sequence[JSONObject]) -> Sequence[JSONObject]:
    """Return the calls of a message in the order in which they were received, by their ids."""
    named = {id_: call for call in calls if isinstance(id_ := peek(call, "id"), str)}
    ids = [call.get("id") for call in came]
    is_told = len(named) == len(calls) == len(ids) and set(named) == set(map(str, ids))
    return [named[str(id_)] for id_ in ids] if is_told else calls


def _are_bare(one: JSONObject, other: object) -> bool:
    """Return whether two calls have the same name and no arguments."""
    functions = (one["function"], peek(other, "function"))
    is_named = peek(functions[0], "name") == peek(functions[1], "name")
    return is_named and all(is_blank(peek(function, "arguments")) for function in functions)


def _around(part: JSONObject) -> JSONObject:
    return {name: part[name] for name in part if name not in _READ}


def _beside(function: JSONObject) -> JSONObject:
    return {name: function[name] for name in function if name not in {"name", "arguments"}}


def _is_whole(arguments: JSON) -> bool:
    """Return whether arguments may be a complete object, also as text."""
    if not isinstance(arguments, str):
        return isinstance(arguments, dict)

    text = arguments.strip()
    return text.startswith("{") and text.endswith("}")


def _opens_another(draft: CallDraft, id_: JSON, name: JSON, function: JSONObject) -> bool:
    """Return whether a piece for a known call starts another call with the same label."""
    if not name:
        return False
    if id_ and draft.id:
        return id_ != draft.id

    # without ids: a name with arguments, after complete arguments, is another call
    arguments = function.get("arguments")
    says_none = arguments is None or (isinstance(arguments, str) and not arguments.strip())
    if draft.id or id_ or says_none:
        return False

    so_far = draft.text.getvalue() if draft.value is None else draft.value
    if name == draft.name and (arguments == so_far or _is_place(so_far)):
        return False  # a copy, or the text for which an empty object was the placeholder

    return isinstance(so_far, dict) or draft.is_complete()


def _is_place(arguments: JSON) -> bool:
    """Return whether arguments are empty, as an object or a text: a placeholder."""
    return arguments == {} or (isinstance(arguments, str) and arguments.strip() in _PLACES)


def _begins_any(name: str, declared: Collection[str]) -> bool:
    return any(one.startswith(name) for one in declared)
