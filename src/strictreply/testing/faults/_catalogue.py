"""The catalogue: one entry a named fault, and the proof that what it makes is really refused.

How each fault is made stands in the other modules of this package; one definition there is one entry here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from strictreply.contract._shaping import shape
from strictreply.testing._steps import Fault, Kind
from strictreply.testing._targets import Place, Target
from strictreply.testing._wire import HTTPReply, Served
from strictreply.values._issues import Issue, pointer
from strictreply.values._json import JSON
from strictreply.values._replies import Invalid
from strictreply.wires._chat import peek

ANYWHERE: tuple[Place, ...] = ("call", "union", "json", "prose")
WRITTEN: tuple[Place, ...] = ("call", "union", "json")
"""The places where a reply is JSON."""


@dataclass(frozen=True, slots=True)
class Spoiled:
    """A reply that was spoiled: what is served, at which JSON Pointer, and the texts that only the model wrote.

    ``ground`` are the good arguments that it was made of, None for those of the target.
    """

    served: Served
    at: str = ""
    invented: tuple[str, ...] = ()
    ground: JSON = None


Maker: TypeAlias = Callable[[Target], Iterable[Spoiled]]
"""Spoils a good reply in every way that the fault's name covers; nothing when it cannot be made."""


MIN_OWN_CHARS, MAX_OWN_CHARS = 12, 2_000
"""How long a text of a reply is that is looked for in prompts: a shorter one may stand there by chance."""

MAX_LISTED = 20
"""How many places an error names."""


class FaultNotMade(ValueError):
    """A fault cannot be made of what was given: the message says why, and what can be."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One named fault of the catalogue; call it to make the fault of a tool.

    ``code`` is what a strict gate says; ``args.…`` codes are ``answer.…`` in a structured answer. ``places`` are where
    it can be written, the usual one first. ``needs`` holds the keywords of a request under which alone it is a fault.
    """

    name: str
    kind: Kind
    code: str
    summary: str
    places: tuple[Place, ...]
    make: Maker = field(repr=False)
    needs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])

    @property
    def usual(self) -> Place | None:
        """Where the reply is written unless a place is given: as a call; None when the fault is no call's."""
        return next((place for place in self.places if place in {"call", "union"}), None)

    def __call__(self, tool: object = None, at: str = "", *, place: Place | None = None, args: JSON = None) -> Fault:
        """Make the fault of a tool, a structured answer (``place="json"``), or of nothing where none is needed.

        ``at`` is the place in the arguments: a member's name or a JSON Pointer; empty takes the first that can be
        spoiled. ``args`` are the good arguments to spoil, None for an example made from the schema.

        Raises FaultNotMade when the tool has nothing that this fault could break.
        """
        path = at if not at or at.startswith("/") else pointer("", at)
        others: list[str] = []
        for fault in self.all_for(tool, place=place, args=args):
            if not path or fault.at == path:
                return fault
            others.append(fault.at or "the whole")
        raise FaultNotMade(f"faults.{self.name} ({self.summary}) {self._obstacle(tool, place, path, others)}")

    def all_for(self, tool: object = None, *, place: Place | None = None, args: JSON = None) -> Iterator[Fault]:
        """Make the fault at every place of a tool's arguments that it can spoil; each is proved to be refused."""
        chosen = self._place(tool, place)
        if chosen is None:
            return
        target = Target.of(tool, place=chosen, args=args)
        known: set[str] = set()
        for spoiled in self.make(target):
            fault = self._fault(target, spoiled, again=spoiled.at in known)
            if is_refused(fault, target):
                known.add(fault.at)
                yield fault

    def _place(self, tool: object, place: Place | None) -> Place | None:
        """Choose where to write the reply; None when it cannot be written there."""
        if tool is None:
            return "prose" if "prose" in self.places and place in {None, "prose"} else None
        return self.usual if place is None else place if place in self.places else None

    def _fault(self, target: Target, spoiled: Spoiled, *, again: bool) -> Fault:
        """Make the step; where a place is spoiled again, on other good arguments, those are part of its source."""
        at = [repr(spoiled.at)] if spoiled.at else []
        grounded = replace(target, value=spoiled.ground, given=True) if again and spoiled.ground is not None else target
        return Fault(
            name=self.name,
            served=spoiled.served,
            source=f"faults.{self.name}({grounded.call(*at, place=target.place != self.usual)})",
            invented=(*spoiled.invented, *_own_texts(spoiled, target)),
            kind=self.kind,
            code=target.code(self.code),
            place=target.place,
            at=spoiled.at,
            needs=self.needs,
        )

    def _obstacle(self, tool: object, place: Place | None, path: str, others: list[str]) -> str:
        """Say why no fault was made, and what would do."""
        if (place or self.usual) not in self.places:
            chosen = f"not as {place!r}" if place else "so give place="
            return f"is written as {', '.join(self.places)}, {chosen}"
        if tool is None:
            return f"needs a tool: faults.{self.name}(search)"
        if others:
            more = f" and {len(others) - MAX_LISTED} more" if len(others) > MAX_LISTED else ""
            return f"cannot be made at {path}, but at {', '.join(others[:MAX_LISTED])}{more}"
        return "cannot be made of this: nothing in it could be broken so"


def _own_texts(spoiled: Spoiled, target: Target) -> Iterator[str]:
    """Give the whole texts of a spoiled reply that can come from nowhere else: an app that quotes one echoes it."""
    known = f"{target.text(target.value)}\n{json.dumps(target.tool.definition) if target.tool else ''}"
    for text in _texts(spoiled.served):
        if MIN_OWN_CHARS <= len(text) <= MAX_OWN_CHARS and text not in known and text not in spoiled.invented:
            yield text


def _texts(served: Served) -> Iterator[str]:
    """Read what a completion says: its content and the arguments of its calls; what is spelled otherwise is none."""
    choices = peek(served, "choices")
    message = peek(choices[0], "message") if isinstance(choices, list) and choices else None
    calls = peek(message, "tool_calls")
    written = [peek(peek(call, "function"), "arguments") for call in calls] if isinstance(calls, list) else []
    yield from (text for text in (peek(message, "content"), *written) if isinstance(text, str))


def judged(fault: Fault, target: Target) -> tuple[Issue, ...] | None:
    """Ask the strict gate what is wrong with a fault; None when it is no completion, which the gate never sees."""
    if isinstance(fault.served, HTTPReply):
        return None
    contract, _ = shape(target.contract, {"messages": [], **fault.needs})
    verdict = contract.check(fault.served)
    return verdict.issues if isinstance(verdict, Invalid) else ()


def is_refused(fault: Fault, target: Target) -> bool:
    """Prove that the strict gate refuses a fault with the promised code; what is no completion is taken at its word."""
    issues = judged(fault, target)
    return issues is None or fault.code in {issue.code for issue in issues}
