"""The veto: a reply followed while it is streamed, and stopped when nothing that may follow can make it valid.

The judge has the only say: what is stopped is judged at once, as if everything that is open in it ended there, and
without a fault at the very place the stream goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from strictreply.contract._answer import Answer
from strictreply.contract._describing import admits_answer, union_schema
from strictreply.contract._judge_call import is_final_answer, judge_args, judge_name
from strictreply.contract._judge_text import judge_union
from strictreply.reading._decoding import decode, masked_pointer
from strictreply.reading._incremental import IncrementalReader, Partial
from strictreply.schema import Schema
from strictreply.schema._live import LiveValue
from strictreply.values._attempts import Vetoed
from strictreply.values._issues import Code, Issue, pointer
from strictreply.values._json import JSON
from strictreply.values._limits import Work
from strictreply.values._replies import Invalid

if TYPE_CHECKING:
    from strictreply.contract._contract import Contract

_Judged: TypeAlias = Callable[[JSON], object]

_ANSWER = "/answer"
_CHARS_PER_TOKEN = 4

_UNFINISHED = (".required", ".min_items", ".min_properties", ".min_length", ".contains", ".min_contains")
"""Faults that what may still follow can mend; a value that was completed early has them."""


class Veto:
    """Follows one reply: pieces of its content, and pieces of its calls by their index."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._calls: dict[int, _Call] = {}
        self._content = _content_of(contract)
        self._last: _Text | None = None
        # beside calls content is prose, and a kind of answer may judge a message as a whole
        self._is_answer = contract.channel == "text" or not contract.tools or contract.choice == "none"
        self._is_free = type(contract.answer) is not Answer

    def text(self, piece: str) -> Issue | None:
        """Take a piece of the content; return a fault that nothing can mend."""
        self._last = self._content
        fault = None if self._content is None else self._content.feed(piece)
        return fault if self._is_answer and not self._is_free else None

    def call(self, index: int, name: str, arguments: str) -> Issue | None:
        """Take a piece of a call: more of its name, more of its arguments; return a fault that nothing can mend."""
        contract = self._contract
        if contract.channel == "text" or self._is_free:
            return None
        if index >= contract.limits.calls:
            return Issue.of(Code.TOOL_TOO_MANY, "/tool_calls", limit=contract.limits.calls)
        if index and not contract.parallel:
            return Issue.of(Code.TOOL_SEVERAL, "/tool_calls")
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = _Call(contract, index)
        fault = call.feed(name, arguments)
        self._last = call.arguments
        return fault

    def partial(self) -> Partial | None:
        """Return the structured answer as far as it has come; None where there is none, or none that is JSON."""
        partial = None if self._content is None else self._content.partial()
        if partial is None or self._contract.channel == "native":
            return partial
        if not isinstance(partial.value, dict) or "answer" not in partial.value:
            return None
        places = [place.removeprefix(_ANSWER) for place in partial.open if place.startswith(_ANSWER)]
        return Partial(partial.value["answer"], tuple(places))

    def vetoed(self) -> Vetoed:
        """Return where the text that was followed last stands, and what the rest of it would have taken at least."""
        return Vetoed(0) if self._last is None else self._last.vetoed()


class _Call:
    """One call: its name until its arguments begin, then these."""

    def __init__(self, contract: Contract, index: int) -> None:
        self._contract = contract
        self._at = pointer("/tool_calls", index, "function")
        self._name = ""
        self.arguments: _Text | None = None

    def feed(self, name: str, arguments: str) -> Issue | None:
        self._name += name
        if self.arguments is None:
            is_open = not arguments and any(one.startswith(self._name) for one in self._contract.callable_names)
            faults = () if is_open else judge_name(self._contract, self._name, f"{self._at}/name", Work())
            if faults or not arguments:
                return faults[0] if faults else None
            self.arguments = self._followed()
        return self.arguments.feed(arguments)

    def _followed(self) -> _Text:
        contract, name, at = self._contract, self._name, f"{self._at}/arguments"
        is_answer = is_final_answer(contract, name)
        schema = None if is_answer else contract.by_name[name].parameters
        names = contract.names if schema is None else schema.names

        def judged(value: JSON) -> object:
            return judge_args(contract, name, value, at=at, id=None, work=Work())

        return _Text(contract, schema, names, at, judged)


class _Text:
    """One JSON text, followed along its schema."""

    def __init__(
        self,
        contract: Contract,
        schema: Schema | None,
        names: frozenset[str],
        at: str,
        judged: _Judged,
    ) -> None:
        self._contract = contract
        self._schema = schema
        self._names = names
        self._at = at
        self._judged = judged
        self._reader = IncrementalReader(_AnyValue() if schema is None else LiveValue(schema.live()))
        self._pieces: list[str] = []
        self._is_over = False

    def feed(self, piece: str) -> Issue | None:
        """Take a piece; return the fault that the judge finds where nothing can mend it."""
        if self._is_over:
            return None
        self._pieces.append(piece)
        if self._reader.feed(piece):
            return None
        self._is_over = True
        return self._schema_fault() if self._reader.is_sound else self._json_fault()

    def partial(self) -> Partial | None:
        return self._reader.partial() if self._reader.is_sound else None

    def vetoed(self) -> Vetoed:
        came = len("".join(self._pieces).encode(errors="replace"))
        example = None if self._schema is None else self._schema.example()
        whole = None if example is None else len(json.dumps(example, separators=(",", ":")))
        return Vetoed(came, None if whole is None else max(0, whole - came) // _CHARS_PER_TOKEN)

    def _json_fault(self) -> Issue | None:
        read = decode(
            "".join(self._pieces) + self._reader.closing(), self._contract.limits, at=self._at, names=self._names
        )
        faults = read.issues if isinstance(read, Invalid) else ()
        return next((one for one in faults if one.code != Code.JSON_INCOMPLETE.value), None)

    def _schema_fault(self) -> Issue | None:
        verdict = self._judged(self._reader.completed())
        place = masked_pointer(self._at, self._reader.place, self._names)
        faults = verdict.issues if isinstance(verdict, Invalid) else ()
        certain = (one for one in faults if not one.code.endswith(_UNFINISHED))
        return next((one for one in certain if _is_along(one.path, place)), None)


class _AnyValue:
    """Follows any JSON."""

    wants_text = False

    def begins(self, kind: str) -> bool:  # noqa: ARG002 - anything will do
        return True

    def named(self, name: str) -> bool:  # noqa: ARG002
        return True

    def says(self, text: str) -> bool:  # noqa: ARG002
        return True

    def ends(self, value: JSON) -> bool:  # noqa: ARG002
        return True


def _is_along(path: str, place: str) -> bool:
    """Return whether a fault lies at a place, inside of it, or at a value around it."""
    return path == place or place.startswith(f"{path}/") or path.startswith(f"{place}/")


def _content_of(contract: Contract) -> _Text | None:
    """Return how the content is followed; None where it is any text, or JSON that something may stand around."""
    if set(contract.extraction) != {"strict"}:
        return None
    if contract.channel == "text":
        schema = _compiled(json.dumps(union_schema(contract)))
        return _Text(contract, schema, contract.names, "", lambda value: judge_union(contract, value, Work()))
    answer = contract.answer
    if answer.schema is None or contract.answer_style != "union" or not admits_answer(contract):
        return None
    return _Text(contract, answer.schema, contract.names, "/content", lambda value: answer.judge(value, "/content"))


@lru_cache(maxsize=32)
def _compiled(document: str) -> Schema:
    return Schema.compile(json.loads(document), extra="schema")
