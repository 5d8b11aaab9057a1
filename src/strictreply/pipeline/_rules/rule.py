"""What a rule is: one row of the table, which says of any content where the rule is broken.

No rule of its own lives here, and nothing that runs, waits or stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias, TypedDict

from strictreply.contract._tool import Tool
from strictreply.pipeline._kinds import PipelineStep
from strictreply.pipeline._results import InvokeCode, InvokeError
from strictreply.pipeline._rules.reading import member_at
from strictreply.values._issues import Issue

Profile: TypeAlias = Literal["published", "extended"]
"""``published`` is what AGN-036 says; ``extended`` adds what only its first implementation asks for (X21)."""


class Stage(StrEnum):
    """When a rule is asked, and what its content is."""

    ENTRY = "entry"
    """First of all, of the step that was named."""
    CORE = "core"
    """Of every context, and before the rules of any step."""
    PRE = "pre"
    """Of the context that a step is given."""
    POST = "post"
    """Of the context that a step leaves behind."""
    MANIFEST = "manifest"
    """Of a tool-call manifest, by itself or inside a context."""
    RESPONSE = "response"
    """Of the response that was built."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Options:
    """What a validator was told; see :class:`strictreply.pipeline._validator.AgentPipelineContextValidator`."""

    allow_error_results: bool = False
    allow_server_tool_calls: bool = False
    profile: Profile = "published"
    first_only: bool = False
    tools: Mapping[str, Tool] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rule is asked of: any content whatever, the options, and ``at``, the JSON Pointer to the content."""

    content: object
    options: Options
    at: str = ""

    def __getitem__(self, path: str) -> object:
        """Read the member at a JSON Pointer into the content, as :func:`.reading.member_at` gives it."""
        return member_at(self.content, path)

    def member(self, path: str) -> Subject:
        """Give the member at a JSON Pointer as a subject of its own."""
        return replace(self, content=self[path], at=self.at + path)


class Facts(TypedDict, total=False):
    """What an error says of one entry of a manifest or a response; see :class:`InvokeError`."""

    index: int
    tool_call_id: str | None
    name: str | None
    result_id: str | None
    result_name: str | None
    reason: str | None
    issues: tuple[Issue, ...]


@dataclass(frozen=True, slots=True)
class Breach:
    """One place where a rule does not hold: ``path`` is a JSON Pointer into the content."""

    path: str = ""
    facts: Facts = field(default_factory=Facts)


Condition: TypeAlias = Callable[[Subject], bool]
Breaches: TypeAlias = Callable[[Subject], Iterable[Breach]]


class Judge(Protocol):
    """Whatever can be asked for the errors of a subject: a rule, or a reference to the rules of another section."""

    def judge(self, subject: Subject) -> Iterator[InvokeError]:
        """Give an error for each place that is wrong; nothing is ever raised."""
        ...


def always(_: Subject) -> bool:
    """Tell that a rule is asked of every content of its stage."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """One rule: ``breaches`` gives every place of a subject where it does not hold.

    ``id`` is stable and unique, ``section`` the one of AGN-036 that it stands in or, for a rule of the extended
    profile, belongs to. ``step`` is None where the stage is not PRE or POST. ``message`` is in our words alone.
    ``when`` says of which subjects it is asked.
    """

    id: str
    section: str
    stage: Stage
    code: InvokeCode
    message: str
    breaches: Breaches = field(repr=False)
    step: PipelineStep | None = None
    when: Condition = field(default=always, repr=False)
    profile: Profile = "published"

    def judge(self, subject: Subject) -> Iterator[InvokeError]:
        """Give an error for each place where the rule does not hold; none where it is not asked."""
        if self.profile not in {"published", subject.options.profile} or not self.when(subject):
            return
        for breach in self.breaches(subject):
            path = subject.at + breach.path
            yield InvokeError(code=self.code, rule=self.id, message=self.message, path=path, **breach.facts)


Group: TypeAlias = tuple[Judge, ...]
"""Rules that are asked together: each gives its errors, whatever the others say (requirement P6)."""


def judged_in_turn(subject: Subject, groups: Iterable[Group]) -> Iterator[InvokeError]:
    """Ask one group after the other; the first that finds an error is the last that is asked (P5, P6)."""
    for group in groups:
        broken = False
        for judge in group:
            for error in judge.judge(subject):
                broken = True
                yield error
        if broken:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class Included:
    """A reference: the member at ``path`` must satisfy the rules of another section, whose errors come as they are."""

    path: str
    groups: tuple[Group, ...]
    when: Condition = always

    def judge(self, subject: Subject) -> Iterator[InvokeError]:
        """Give the errors of the member."""
        if self.when(subject):
            yield from judged_in_turn(subject.member(self.path), self.groups)


def where(path: str, holds: Callable[[object], bool]) -> Breaches:
    """Ask one member: it is broken at ``path`` when ``holds`` denies what stands there."""
    return lambda subject: () if holds(subject[path]) else (Breach(path),)


def where_each(paths: Iterable[str], holds: Callable[[object], bool]) -> Breaches:
    """Ask several members: each that ``holds`` denies is a breach."""
    asked = tuple(paths)
    return lambda subject: [Breach(path) for path in asked if not holds(subject[path])]


def unless(holds: Condition, path: str = "") -> Breaches:
    """Ask the whole subject; what is told is ``path``."""
    return lambda subject: () if holds(subject) else (Breach(path),)
