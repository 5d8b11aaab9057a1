"""A rule of AGN-036, and how it reads the content that it checks.

The content may be any object; reading it never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, Unpack, cast

from strictreply import Tool
from strictreply.core.forms import peek
from strictreply.core.text import pointer, pointer_tokens
from strictreply.loop.invoke_result import Breach, InvokeCode, InvokeError
from strictreply.loop.values import PipelineStep, Value

ARRAYS = (list, tuple)


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """An object with members that is not a plain dict; :func:`member_of` reads them."""

    value: object


UNREADABLE: Final = object()  # stands for a member that exists and cannot be read


def inert(value: object) -> object:
    """Return a plain form of a value, which a rule can use without running the value's own code."""
    kind = type(value)  # isinstance would ask the value, and a set would ask its class
    if value is None or kind is dict or kind is bool or kind is Object or value is UNREADABLE:
        return value
    if issubclass(kind, Value):
        return Object(value)

    for base, plain in _PLAIN:
        if issubclass(kind, base):
            return plain(value)

    return Object(value)


def _text(value: str) -> object:
    # JSON has no lone surrogates, and an error could not report one.
    text = str.__str__(value)
    return text if text.isascii() or not re.search("[\ud800-\udfff]", text) else UNREADABLE


# How each type and its subclasses are read without running their own code.
_PLAIN: Final[tuple[tuple[type, Callable[[Any], object]], ...]] = (
    (str, _text),
    (int, int.__int__),
    (float, float.__float__),
    (list, list.copy),
    (tuple, lambda value: tuple(cast("Iterator[object]", tuple.__iter__(value)))),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (bytearray, bytearray.copy),
)


def member_of(value: object, name: str) -> object:
    """Return a member by its name; None if it is missing, UNREADABLE if reading it raises."""
    if type(value) is dict:
        return inert(value.get(name))
    if not isinstance(value, Object):
        return UNREADABLE if value is UNREADABLE else None

    try:
        inner = value.value
        # Read our own values by attribute; ``peek`` would first check for a mapping.
        is_ours = issubclass(type(inner), Value)
        return inert(getattr(inner, name, None) if is_ours else peek(inner, name))
    except Exception:  # noqa: BLE001 - an object's own code may raise anything
        return UNREADABLE


@lru_cache(maxsize=256)
def _tokens(path: str) -> tuple[str, ...]:
    return tuple(pointer_tokens(path))


# Predicates in the words of AGN-036: present, empty, null, populated.
def is_present(value: object) -> bool:
    """Return whether a value is a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def is_empty(value: object) -> bool:
    """Return whether a value is null, a blank text or an array without entries."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, ARRAYS) and not value)


def is_null(value: object) -> bool:
    """Return whether a member is null or absent."""
    return value is None


def is_object(value: object) -> bool:
    """Return whether a value can have members."""
    return isinstance(value, dict | Object)


def is_populated(value: object) -> bool:
    """Return whether a session, a turn or one of the contexts has its id."""
    return is_present(member_of(value, "id"))


def has_entries(value: object) -> bool:
    """Return whether an array has at least one entry."""
    return isinstance(value, ARRAYS) and bool(value)


def is_one_of(kinds: type[StrEnum]) -> Predicate:
    """Return the predicate of a member of an enum, or its value as JSON."""
    names = frozenset(kinds)
    return lambda value: isinstance(value, str) and value in names


def member_is(path: str, *values: str) -> RuleCondition:
    """Return the condition that a member of the subject is one of ``values``."""
    return lambda subject: subject[path] in values


def entries(value: object) -> list[object]:
    """Return the entries of an array; an empty list for any other value."""
    return list(map(inert, value)) if isinstance(value, ARRAYS) else []


# AGN-036, or also its first implementation (X21).
Profile: TypeAlias = Literal["published", "extended"]


class RuleStage(StrEnum):
    """When a rule is checked, and on which content."""

    ENTRY = "entry"  # first, on the step that was named
    CORE = "core"  # on every context, before the rules of any step
    PRE = "pre"  # on the context before a step
    POST = "post"  # on the context after a step
    MANIFEST = "manifest"  # on a tool-call manifest, by itself or inside a context
    RESPONSE = "response"  # on the response that was built


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValidatorOptions:
    """The options of a validator."""

    allow_error_results: bool = False
    """Whether a result may have an error instead of its JSON, as in AGN-033."""
    allow_server_tool_calls: bool = False
    """Whether the model's calls may go back to the Reasoner."""
    profile: Profile = "published"
    """The set of rules; ``extended`` adds the rules of AGN-036's first implementation."""
    first_only: bool = False
    """Whether to stop at the first error."""
    tools: Mapping[str, Tool] | None = field(default=None, repr=False)
    """The tools, by name, to check the calls of a manifest against; None for no check."""


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """One entry of a list; ``path`` is its JSON Pointer in the content."""

    value: object
    index: int
    path: str

    def __getitem__(self, member: str) -> object:
        return member_of(self.value, member)

    def text(self, member: str) -> str | None:
        """Return a member if it is a text, else None."""
        value = self[member]
        return value if isinstance(value, str) else None

    @property
    def id(self) -> str | None:
        """The id of the call."""
        return self.text("tool_call_id")

    @property
    def name(self) -> str | None:
        """The name of the tool."""
        return self.text("name")

    def breach(self, member: str, **facts: Unpack[Breach]) -> Breach:
        """Report what is wrong with one member of this entry."""
        path = pointer(self.path, member)
        entry = Breach(path=path, index=self.index, tool_call_id=self.id, name=self.name)
        return {**entry, **facts}


@dataclass(frozen=True, slots=True)
class RuleSubject:
    """The subject of a rule: any content, and the options.

    ``at`` is the JSON Pointer to the content.
    """

    content: object
    options: ValidatorOptions
    at: str = ""
    _known: dict[str, object] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __getitem__(self, path: str) -> object:
        """Return the member at a JSON Pointer into the content; it is read once for all rules."""
        if path not in self._known:
            if path:
                outer = path.rpartition("/")[0]
                self._known[path] = member_of(self[outer], _tokens(path)[-1])
            else:
                self._known[path] = inert(self.content)
        return self._known[path]

    def entries_at(self, path: str) -> Iterator[RuleEntry]:
        """Return the entries of a list that are objects."""
        for index, value in enumerate(entries(self[path])):
            if is_object(value):
                yield RuleEntry(value, index, pointer(path, index))


Predicate: TypeAlias = Callable[[object], bool]
RuleCondition: TypeAlias = Callable[[RuleSubject], bool]


@dataclass(frozen=True, slots=True, eq=False)
class PipelineRule:
    """One rule; its message is that of its code, and :func:`placed` sets its place."""

    id: str
    """Stable and unique name."""
    code: InvokeCode
    """The kind of error that it reports."""
    breaches: Callable[[RuleSubject], Iterable[Breach]] = field(repr=False)
    """Finds every place where the rule is broken."""
    when: RuleCondition = field(default=lambda _: True, repr=False)
    """The condition under which it is checked."""
    profile: Profile = "published"
    """The set of rules that it belongs to; ``published`` rules are always checked."""
    section: str = ""
    """Its section of AGN-036; empty until the rule is placed."""
    stage: RuleStage = RuleStage.ENTRY
    """When it is checked, and on which content."""
    step: PipelineStep | None = None
    """The step before or after which it is checked; None unless its stage is PRE or POST."""

    @property
    def message(self) -> str:
        """The rule in words."""
        return self.code.template

    def judge(self, subject: RuleSubject) -> Iterator[InvokeError]:
        """Report an error for each place where the rule applies and is broken."""
        if self.profile in ("published", subject.options.profile) and self.when(subject):
            for breach in self.breaches(subject):
                placed_breach: Breach = {**breach, "path": subject.at + breach.get("path", "")}
                yield self.code.error(self.id, **placed_breach)


@dataclass(frozen=True, slots=True)
class Included:
    """A reference: the member at ``path`` must satisfy the rules of another section."""

    path: str
    groups: tuple[RuleGroup, ...]
    when: RuleCondition = lambda _: True

    def judge(self, subject: RuleSubject) -> Iterator[InvokeError]:
        """Report the errors of the member."""
        if self.when(subject):
            member = replace(subject, content=subject[self.path], at=subject.at + self.path)
            yield from judged_in_turn(member, self.groups)


RuleGroup: TypeAlias = tuple[PipelineRule | Included, ...]
"""Rules that are checked together: each reports its errors, whatever the others find (P6)."""


def judged_in_turn(subject: RuleSubject, groups: Iterable[RuleGroup]) -> Iterator[InvokeError]:
    """Check one group after the other, up to the first that finds an error (P5, P6)."""
    for group in groups:
        broken = False
        for rule in group:
            for error in rule.judge(subject):
                broken = True
                yield error

        if broken:
            return


def placed(
    prefix: str,
    *rules: PipelineRule | Included,
    section: str,
    stage: RuleStage,
    step: PipelineStep | None = None,
) -> RuleGroup:
    """Return the rules of one place: ``prefix`` goes before the id of each."""
    place: dict[str, Any] = {"section": section, "stage": stage, "step": step}
    return tuple(
        replace(r, id=f"{prefix}.{r.id}", **place) if isinstance(r, PipelineRule) else r
        for r in rules
    )


def extended(*rules: PipelineRule) -> tuple[PipelineRule, ...]:
    """Restrict rules to the extended profile."""
    return tuple(replace(rule, profile="extended") for rule in rules)


def asked_when(when: RuleCondition, *rules: PipelineRule) -> tuple[PipelineRule, ...]:
    """Restrict rules to some subjects."""
    return tuple(replace(rule, when=when) for rule in rules)


def member_rule(
    id_: str, code: InvokeCode, path: str | tuple[str, ...], holds: Predicate
) -> PipelineRule:
    """Make a rule for members: each one for which ``holds`` is false breaks it."""
    paths = (path,) if isinstance(path, str) else path
    return PipelineRule(
        id_, code, lambda subject: [Breach(path=each) for each in paths if not holds(subject[each])]
    )


def entries_rule(
    id_: str, code: InvokeCode, path: str, member: str, holds: Predicate
) -> PipelineRule:
    """Make a rule for one member of every entry of a list."""
    return PipelineRule(
        id_,
        code,
        lambda subject: [
            one.breach(member) for one in subject.entries_at(path) if not holds(one[member])
        ],
    )


def whole_rule(id_: str, code: InvokeCode, path: str, holds: RuleCondition) -> PipelineRule:
    """Make a rule for the whole subject; ``path`` is the place of its error."""
    return PipelineRule(id_, code, lambda subject: () if holds(subject) else (Breach(path=path),))
