"""The entries of the catalogue: how they are declared, and how they make faults.

Each fault is checked to be invalid before it is served.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from string import Template
from typing import Any, NamedTuple

from strictreply import Invalid, Issue
from strictreply.core import JSON, JSONObject, shape
from strictreply.core.text import pointer
from strictreply.testing._steps import CANARY, Fault, Kind, ReplyPlace, Target
from strictreply.testing._wire import HTTPReply, Served, member, native_call

ANYWHERE: tuple[ReplyPlace, ...] = ("call", "union", "json", "prose")
WRITTEN: tuple[ReplyPlace, ...] = ("call", "union", "json")  # the places where a reply is JSON
# A token of a chat template. Prompts do not contain it, so in a reply only the model wrote it.
LEAKED_MARKER = "<|channel|>commentary"
# The length of the texts of a reply that are looked for in prompts: a shorter one may be in a
# prompt by chance.
MIN_OWN_CHARS = 12
MAX_OWN_CHARS = 2_000
MAX_LISTED = 20  # how many places an error names


class FaultNotMade(ValueError):
    """A fault cannot be made from the given tool, place or arguments.

    The message says why, and what can be made.
    """


class Reading(StrEnum):
    """What a wrapped client does with a fault by default.

    With ``dialects="strict"`` it refuses every fault. The value is a text for people.
    """

    REFUSED = "refused"
    """It is invalid over every API."""
    GOOD = "read as the good reply"
    """It has one meaning over every API."""
    GOOD_BUT_IN_RESPONSES = "read as the good reply, refused over Responses"
    """It is invalid over the Responses API alone, streamed or not."""
    GOOD_BUT_IN_RESPONSE_STREAMS = "read as the good reply, refused in a stream of Responses"
    """It is invalid in a stream of the Responses API alone."""
    GOOD_BUT_IN_MESSAGES = "read as the good reply, refused over Messages"
    """It is invalid over Anthropic's Messages API alone."""
    GOOD_IN_CHAT = "read as the good reply over chat completions, refused over other APIs"
    """It is valid over chat completions alone."""
    GOOD_WITHOUT_ARGUMENTS = (
        "read as a good native call of a tool that requires no arguments, refused of any other"
    )
    """It stands for empty arguments, so it is valid for a tool without required arguments."""

    def is_good(
        self, api: str, *, is_streamed: bool = False, requires_arguments: bool = True
    ) -> bool:
        """Report whether a client reads the fault as the good reply over an API.

        ``api`` is the name of its wire. ``is_streamed`` says whether the reply is a stream,
        ``requires_arguments`` whether the tool has required arguments.
        """
        is_response = api == "responses"
        read_in: Mapping[Reading, bool] = {
            Reading.REFUSED: False,
            Reading.GOOD: True,
            Reading.GOOD_BUT_IN_RESPONSES: not is_response,
            Reading.GOOD_BUT_IN_RESPONSE_STREAMS: not (is_response and is_streamed),
            Reading.GOOD_BUT_IN_MESSAGES: api != "messages",
            Reading.GOOD_IN_CHAT: api == "chat",
            Reading.GOOD_WITHOUT_ARGUMENTS: not requires_arguments,
        }
        return read_in[self]


class Spoiled(NamedTuple):
    """A faulty reply, the place of the fault as a JSON Pointer, and its good arguments.

    ``ground`` is None when the good arguments are those of the target; ``clean`` is None when the
    good reply is that of the target.
    """

    served: Served
    at: str = ""
    ground: JSON = None
    clean: JSON = None


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One named fault of the catalogue; call it to make the fault of a tool."""

    name: str
    """The name of the entry in :mod:`strictreply.testing.faults`."""
    kind: Kind
    """What the fault is about."""
    code: str
    """The issue code that a strict contract reports.

    ``args.…`` becomes ``answer.…`` in a structured answer.
    """
    summary: str
    """What is wrong with the reply, in one sentence."""
    places: tuple[ReplyPlace, ...]
    """Where the fault can be written, the usual place first."""
    make: Callable[[Target], Iterable[Spoiled]] = field(repr=False)
    """Makes the faulty replies from a good one."""
    needs: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    """Request keywords that the fault needs: with others the reply is valid."""
    reading: Reading = Reading.REFUSED
    """What a wrapped client does with it by default."""
    default_code: str = ""
    """The code of a refusal by default; empty if it is ``code``."""
    api: str = ""
    """The only API that can have the fault, by the name of its wire; empty for all."""

    @property
    def by_default(self) -> str:
        """What a wrapped client does with it by default, in words, with the code of a refusal."""
        code = "" if self.reading is Reading.GOOD else self.default_code or self.code
        return f"{self.reading}: {code}" if code else str(self.reading)

    @property
    def usual(self) -> ReplyPlace | None:
        """Where the reply is written if no place is given: ``call`` or ``union``.

        None when the fault cannot be written as a call.
        """
        return next((place for place in self.places if place in {"call", "union"}), None)

    def __call__(
        self,
        tool: object = None,
        at: str = "",
        *,
        place: ReplyPlace | None = None,
        args: JSON = None,
    ) -> Fault:
        """Make the fault of a tool, or of a structured answer (``place="json"``).

        - ``tool`` is a function, a model, a definition or the type of an answer; faults of the HTTP
          response or the connection need none.
        - ``at`` is the place in the arguments, a key or a JSON Pointer. If empty, it is the first
          place where the fault can be made.
        - ``place`` is where the reply is written; None for the usual place.
        - ``args`` are the good arguments that the fault changes; None for an example made from the
          schema.

        Raises FaultNotMade when the fault cannot be made from the tool at this place.
        """
        path = at if at[:1] in {"", "/"} else pointer("", at)
        others: list[str] = []

        for fault in self.all_for(tool, place=place, args=args):
            if not path or fault.at == path:
                return fault
            others.append(fault.at or "the whole")

        raise FaultNotMade(
            f"faults.{self.name} ({self.summary}) {self._obstacle(tool, place, path, others)}"
        )

    def all_for(
        self, tool: object = None, *, place: ReplyPlace | None = None, args: JSON = None
    ) -> Iterator[Fault]:
        """Make the fault at every place of a tool's arguments where it can be made.

        The parameters are those of a call of the entry. Each fault is checked to be invalid.
        """
        chosen = place
        if chosen is None:
            chosen = "prose" if tool is None else self.usual
        if chosen not in self.places or (tool is None and chosen != "prose"):
            return

        target = Target.of(tool, place=chosen, args=args)
        known: set[str] = set()

        for spoiled in self.make(target):
            fault = self._fault(target, spoiled, again=spoiled.at in known)
            if is_refused(fault, target):
                known.add(fault.at)
                yield fault

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry as JSON; it has ``api`` only if a single API can have the fault."""
        of_one: dict[str, JSON] = {"api": self.api} if self.api else {}
        return {
            **of_one,
            "name": self.name,
            "kind": self.kind.value,
            "code": self.code,
            "places": [*self.places],
            "summary": self.summary,
            "needs": {**self.needs},
            "by_default": self.by_default,
        }

    def _fault(self, target: Target, spoiled: Spoiled, *, again: bool) -> Fault:
        at = [repr(spoiled.at)] if spoiled.at else []
        # A place can be changed twice, with other good arguments: then the source names them.
        grounded = target
        if again and spoiled.ground is not None:
            grounded = replace(target, value=spoiled.ground, given=True)

        return Fault(
            name=self.name,
            served=spoiled.served,
            source=f"faults.{self.name}({grounded.call(*at, place=target.place != self.usual)})",
            invented=_invented(spoiled, target),
            kind=self.kind,
            code=target.code(self.code),
            place=target.place,
            at=spoiled.at,
            needs=self.needs,
            api=self.api,
            clean=grounded.clean if spoiled.clean is None else spoiled.clean,
        )

    def _obstacle(
        self, tool: object, place: ReplyPlace | None, path: str, others: list[str]
    ) -> str:
        if (place or self.usual) not in self.places:
            fix = f"not as {place!r}" if place else "so give place="
            return f"is written as {', '.join(self.places)}, {fix}"

        if tool is None:
            return f"needs a tool: faults.{self.name}(search)"

        if others:
            more = f" and {len(others) - MAX_LISTED} more" if len(others) > MAX_LISTED else ""
            return f"cannot be made at {path}, but at {', '.join(others[:MAX_LISTED])}{more}"

        target = Target.of(tool, place=place or self.usual or "call")
        return f"cannot be made of {target.name or 'this answer'}: {self._unmade(target)}"

    def _unmade(self, target: Target) -> str:
        tried = (self._fault(target, spoiled, again=False) for spoiled in self.make(target))
        codes = sorted({issue.code for fault in tried for issue in judged(fault, target) or ()})
        refused = f"it would be refused with {', '.join(codes)}, not with its code {self.code}"
        return refused if codes else "nothing in its schema can be broken in this way"


def response_entry(
    kind: Kind,
    code: str,
    summary: str,
    response: Served | Callable[[Target], Served],
    places: tuple[ReplyPlace, ...] = ANYWHERE,
    needs: Mapping[str, JSON] | None = None,
    write: Callable[[Target, Any], Served] = lambda _, response: response,
    reading: Reading = Reading.REFUSED,
    default_code: str = "",
) -> Entry:
    """Declare a fault that serves a response.

    ``response`` is a template for :func:`filled`, or a function that makes the response from the
    good reply. ``write`` turns it into the served value.
    """

    def make(target: Target) -> Iterator[Spoiled]:
        ready = response(target) if callable(response) else filled(response, target)
        yield Spoiled(write(target, ready))

    return Entry("", kind, code, summary, places, make, needs or {}, reading, default_code)


def collected(namespace: Mapping[str, object]) -> dict[str, Entry]:
    """Return the entries of a namespace, sorted by kind.

    An entry without a name gets the name of its variable.
    """
    entries = [(name, value) for name, value in namespace.items() if isinstance(value, Entry)]

    for name, entry in entries:
        object.__setattr__(entry, "name", entry.name or name)

    return {entry.name: entry for kind in Kind for _, entry in entries if entry.kind is kind}


def filled(template: object, target: Target) -> object:
    """Fill the ``$names`` in JSON or a response from a good reply; see :func:`substituted`.

    ``$value`` are the good arguments or the answer, ``$written`` is their JSON text; ``$json`` and
    ``$text`` are the same with the union around them, if there is one. ``$call`` is the JSON text
    of a native call. ``$completion`` is the good response, with ``$message`` and
    ``$finish_reason``; ``$body`` is its JSON, ``$half`` that up to the middle.
    """
    clean = target.clean
    args = written(target.value)
    choice = clean["choices"][0]
    body = json.dumps(clean)
    half = body[: len(body) // 2]

    names: dict[str, JSON] = {
        "tool": target.name,
        "value": target.value,
        "written": args,
        "json": target.around(target.value),
        "text": target.text(target.value),
        "call": written(native_call(target.name, args)),
        "completion": clean,
        "message": choice["message"],
        "finish_reason": choice["finish_reason"],
        "body": body,
        "half": half,
        "length": len(body),
        "half_length": len(half),
    }
    return substituted(template, names)


def substituted(template: Any, names: Mapping[str, JSON]) -> Any:
    """Fill the ``$names`` in JSON or a response.

    A name that is the whole string becomes the value itself; inside a longer text it becomes text.
    """
    match template:
        case str() if template[:1] == "$" and template[1:] in names:
            return names[template[1:]]
        case str():
            return Template(template).substitute(names)
        case bytes():
            return Template(template.decode("latin-1")).substitute(names).encode("latin-1")
        case list() | tuple():
            return type(template)(substituted(item, names) for item in template)
        case dict():
            return {
                substituted(name, names): substituted(member, names)
                for name, member in template.items()
            }
        case HTTPReply(headers=headers, parts=parts):
            sent = {name: str(substituted(value, names)) for name, value in headers.items()}
            return replace(template, headers=sent, parts=substituted(parts, names))
        case _:
            return template


def without(whole: JSONObject, name: str) -> JSONObject:
    """Return an object without one of its members."""
    return {key: member for key, member in whole.items() if key != name}


def written(value: JSON) -> str:
    """Write JSON as a model does: characters beyond ASCII as they are."""
    return json.dumps(value, ensure_ascii=False)


def _invented(spoiled: Spoiled, target: Target) -> tuple[str, ...]:
    """Return the words and texts of a faulty reply that only the model can have written."""
    good = target.text(target.value if spoiled.ground is None else spoiled.ground)
    served = str(spoiled.served)
    words = tuple(word for word in (CANARY, LEAKED_MARKER) if word in served and word not in good)

    definition = json.dumps(target.tool.definition) if target.tool else ""
    known = f"{target.text(target.value)}\n{definition}"
    own = (text for text in _texts_of(spoiled.served) if text not in known and text not in words)

    return (*words, *(text for text in own if MIN_OWN_CHARS <= len(text) <= MAX_OWN_CHARS))


def _texts_of(served: Served) -> list[str]:
    """Return the content of a completion and the arguments of its calls, if they are strings."""
    choices = member(served, "choices")
    message = member(choices[0], "message") if isinstance(choices, list) and choices else None
    calls = member(message, "tool_calls")

    found = [member(message, "content")]
    if isinstance(calls, list):
        found += [member(member(call, "function"), "arguments") for call in calls]
    return [text for text in found if isinstance(text, str)]


def judged(fault: Fault, target: Target) -> tuple[Issue, ...] | None:
    """Return the issues that a strict contract reports for a fault.

    None when it is not a completion.
    """
    if isinstance(fault.served, HTTPReply):
        return None

    contract, _ = shape(target.contract, {"messages": [], **fault.needs})
    verdict = contract.check(fault.served, api="chat")
    return verdict.issues if isinstance(verdict, Invalid) else ()


def is_refused(fault: Fault, target: Target) -> bool:
    """Report whether a strict contract refuses a fault with its code.

    A fault that is not a completion counts as refused.
    """
    issues = judged(fault, target)
    return issues is None or fault.code in {issue.code for issue in issues}
