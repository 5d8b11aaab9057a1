"""What a rule of AGN-036 is, and how it reads the content that it judges: any content at all, without ever raising.

An object's own code may raise anything, so a rule never holds one: it reads texts, numbers and arrays of the builtin
kinds, and a dict or an :class:`Object` for what has members. The words are those of AGN-036: present, empty, null,
populated. The rules themselves stand in ``_validator`` and ``_manifest_rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, Unpack

from strictreply.contract._tool import Tool
from strictreply.pipeline._invoke_result import Breach, InvokeCode, InvokeError
from strictreply.pipeline._values import PipelineStep, Value
from strictreply.values._issues import pointer, pointer_tokens
from strictreply.wires._opening import peek

ARRAYS = (list, tuple)


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """Something that can have members, and is no plain dict; they are read by :func:`member_of` alone."""

    value: object


UNREADABLE: Final = object()
"""Stands for a member that cannot be read: it is there, and of no kind that a rule asks for."""


def inert(value: object) -> object:
    """Return what a rule may compare, count and go through without running a line of the content's own code.

    A text that UTF-8 cannot encode is unreadable: no JSON holds it, and no error could report it.
    """
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
    text = str.__str__(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return UNREADABLE
    return text


def _tuple(value: tuple[object, ...]) -> object:
    return tuple(tuple.__iter__(value))


_PLAIN: Final[tuple[tuple[type, Callable[[Any], object]], ...]] = (
    (str, _text),
    (int, int.__int__),
    (float, float.__float__),
    (list, list.copy),
    (tuple, _tuple),
    (bytes, lambda value: bytes.__getitem__(value, slice(None))),
    (bytearray, bytearray.copy),
)
"""How a value of a builtin kind, or of one made of it, becomes a plain one."""


def member_of(value: object, name: str) -> object:
    """Read a member by its name; None where there is none, UNREADABLE where reading it raises."""
    if type(value) is dict:
        return inert(value.get(name))
    if not isinstance(value, Object):
        return UNREADABLE if value is UNREADABLE else None
    try:
        held = value.value
        # of our own values the attribute, as ``peek`` would find after it has asked whether this is a mapping
        return inert(getattr(held, name, None) if issubclass(type(held), Value) else peek(held, name))
    except Exception:  # noqa: BLE001 - an object's own code may raise anything
        return UNREADABLE


@lru_cache(maxsize=256)
def _tokens(path: str) -> tuple[str, ...]:
    return tuple(pointer_tokens(path))


def is_present(value: object) -> bool:
    """Return whether a text is there: one that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def is_empty(value: object) -> bool:
    """Return whether nothing is there: null, a blank text, an array without entries. Other kinds are something."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, ARRAYS) and not value)


def is_null(value: object) -> bool:
    """Return whether a member is null, or not there at all."""
    return value is None


def is_object(value: object) -> bool:
    """Return whether something can have members."""
    return isinstance(value, dict | Object)


def is_populated(value: object) -> bool:
    """Return whether a session, a turn or one of the contexts is there: each is known by its id."""
    return is_present(member_of(value, "id"))


def has_entries(value: object) -> bool:
    """Return whether an array holds at least one entry."""
    return isinstance(value, ARRAYS) and bool(value)


def is_one_of(kinds: type[StrEnum]) -> Predicate:
    """Ask for a member of an enum, or its name as JSON spells it."""
    names = frozenset(kinds)
    return lambda value: isinstance(value, str) and value in names


def entries(value: object) -> list[object]:
    """Return the entries of an array; none of anything else."""
    return list(map(inert, value)) if isinstance(value, ARRAYS) else []


Profile: TypeAlias = Literal["published", "extended"]
"""``published`` is what AGN-036 says; ``extended`` adds what only its first implementation asks for (X21)."""


class RuleStage(StrEnum):
    """When a rule is asked, and what its content is."""

    ENTRY = "entry"  # first of all, of the step that was named
    CORE = "core"  # of every context, and before the rules of any step
    PRE = "pre"  # of the context that a step is given
    POST = "post"  # of the context that a step leaves behind
    MANIFEST = "manifest"  # of a tool-call manifest, by itself or inside a context
    RESPONSE = "response"  # of the response that was built


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValidatorOptions:
    """The options of a validator; see :class:`strictreply.pipeline.AgentPipelineContextValidator`."""

    allow_error_results: bool = False
    allow_server_tool_calls: bool = False
    profile: Profile = "published"
    first_only: bool = False
    tools: Mapping[str, Tool] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RuleEntry:
    """One entry of a list, whatever its members are; ``path`` leads to it from the content that is judged."""

    value: object
    index: int
    path: str

    def __getitem__(self, member: str) -> object:
        """Read a member by its name; None where there is none."""
        return member_of(self.value, member)

    def text(self, member: str) -> str | None:
        """Read a member that is a text; None for anything else."""
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
        entry = Breach(path=pointer(self.path, member), index=self.index, tool_call_id=self.id, name=self.name)
        return {**entry, **facts}


@dataclass(frozen=True, slots=True)
class RuleSubject:
    """What a rule is asked of: any content whatever, the options, and ``at``, the JSON Pointer to the content."""

    content: object
    options: ValidatorOptions
    at: str = ""
    _known: dict[str, object] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __getitem__(self, path: str) -> object:
        """Read the member at a JSON Pointer into the content, through values and mappings; see :func:`member_of`.

        It is read once, for all rules together.
        """
        if path not in self._known:
            outer = path.rpartition("/")[0]
            self._known[path] = member_of(self[outer], _tokens(path)[-1]) if path else inert(self.content)
        return self._known[path]

    def entries_at(self, path: str) -> Iterator[RuleEntry]:
        """Return the entries of a list that are objects."""
        for index, value in enumerate(entries(self[path])):
            if is_object(value):
                yield RuleEntry(value, index, pointer(path, index))


Predicate: TypeAlias = Callable[[object], bool]
RuleCondition: TypeAlias = Callable[[RuleSubject], bool]
Breaches: TypeAlias = Callable[[RuleSubject], Iterable[Breach]]


def always(_: RuleSubject) -> bool:
    """Ask a rule of every content of its stage."""
    return True


@dataclass(frozen=True, slots=True, eq=False)
class PipelineRule:
    """One rule: ``breaches`` finds every place of a subject where it does not hold; its words are those of its code.

    ``id`` is stable and unique, ``section`` the one of AGN-036 that it stands in or, for a rule of the extended
    profile, belongs to: :func:`placed` sets both. ``step`` is None where the stage is not PRE or POST. ``when`` says of
    which subjects the rule is asked.
    """

    id: str
    code: InvokeCode
    breaches: Breaches = field(repr=False)
    when: RuleCondition = field(default=always, repr=False)
    profile: Profile = "published"
    section: str = ""
    stage: RuleStage = RuleStage.ENTRY
    step: PipelineStep | None = None

    @property
    def message(self) -> str:
        """What must hold."""
        return self.code.template

    def judge(self, subject: RuleSubject) -> Iterator[InvokeError]:
        """Report an error for each place where the rule does not hold; none where it is not asked."""
        if self.profile in ("published", subject.options.profile) and self.when(subject):
            for breach in self.breaches(subject):
                placed_breach: Breach = {**breach, "path": subject.at + breach.get("path", "")}
                yield self.code.error(self.id, **placed_breach)


@dataclass(frozen=True, slots=True)
class Included:
    """A reference: the member at ``path`` must satisfy the rules of another section, whose errors come as they are."""

    path: str
    groups: tuple[RuleGroup, ...]
    when: RuleCondition = always

    def judge(self, subject: RuleSubject) -> Iterator[InvokeError]:
        """Report the errors of the member."""
        if self.when(subject):
            member = replace(subject, content=subject[self.path], at=subject.at + self.path)
            yield from judged_in_turn(member, self.groups)


RuleGroup: TypeAlias = tuple[PipelineRule | Included, ...]
"""Rules that are asked together: each reports its errors, whatever the others find (requirement P6)."""


def judged_in_turn(subject: RuleSubject, groups: Iterable[RuleGroup]) -> Iterator[InvokeError]:
    """Ask one group after the other; the first that finds an error is the last that is asked (P5, P6)."""
    for group in groups:
        broken = False
        for rule in group:
            for error in rule.judge(subject):
                broken = True
                yield error
        if broken:
            return


def placed(
    prefix: str, *rules: PipelineRule | Included, section: str, stage: RuleStage, step: PipelineStep | None = None
) -> RuleGroup:
    """Return the rules of one place: the id of each is ``prefix`` and its own."""
    return tuple(
        replace(rule, id=f"{prefix}.{rule.id}", section=section, stage=stage, step=step)
        if isinstance(rule, PipelineRule)
        else rule
        for rule in rules
    )


def extended(*rules: PipelineRule) -> tuple[PipelineRule, ...]:
    """Ask the same in the extended profile alone."""
    return tuple(replace(rule, profile="extended") for rule in rules)


def asked_when(when: RuleCondition, *rules: PipelineRule) -> tuple[PipelineRule, ...]:
    """Ask the same of some subjects alone."""
    return tuple(replace(rule, when=when) for rule in rules)


def member_rule(id_: str, code: InvokeCode, path: str, holds: Predicate) -> PipelineRule:
    """Ask one member: the rule is broken at ``path`` when ``holds`` denies what stands there."""
    return members_rule(id_, code, (path,), holds)


def members_rule(id_: str, code: InvokeCode, paths: tuple[str, ...], holds: Predicate) -> PipelineRule:
    """Ask several members: each that ``holds`` denies is a breach."""
    return PipelineRule(id_, code, lambda subject: [Breach(path=path) for path in paths if not holds(subject[path])])


def entries_rule(id_: str, code: InvokeCode, path: str, member: str, holds: Predicate) -> PipelineRule:
    """Ask one member of every entry of a list."""

    def breaches(subject: RuleSubject) -> list[Breach]:
        return [entry.breach(member) for entry in subject.entries_at(path) if not holds(entry[member])]

    return PipelineRule(id_, code, breaches)


def whole_rule(id_: str, code: InvokeCode, path: str, holds: RuleCondition) -> PipelineRule:
    """Ask the whole subject; what is reported is ``path``."""
    return PipelineRule(id_, code, lambda subject: () if holds(subject) else (Breach(path=path),))
