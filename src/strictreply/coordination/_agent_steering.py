"""What an agent is told about its bad reply, or before any: from codes, what is permitted and the topology alone.

Nothing that a model wrote is in it. Each retry is told more: what was wrong; that it must choose; and whom, and how.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from strictreply.contract._tool import Tool
from strictreply.coordination._action_answer import ActionAnswer
from strictreply.coordination._action_shapes import listed
from strictreply.coordination._actions import ActionType, Permitted, ValidationResult
from strictreply.coordination.formats._action_formats import (
    DEFAULT_FORMAT,
    BaseResponseFormat,
    CoordinationContext,
    JSONResponseFormat,
    format_of,
)
from strictreply.retry._steering import (
    MAX_CORRECTION_BYTES,
    MAX_LISTED_FAULTS,
    Situation,
    Steering,
    TieredSteering,
    fault_lines,
    fitted,
    fitted_before,
    verdict_words,
)
from strictreply.values._errors import ContractError
from strictreply.values._issues import Category, Issue, Remedy

MUST_SELECT_RETRY: Final = 3
"""The retry at which an agent is told that it must choose; from the next one on it is shown how (requirement M75)."""

NOTHING: Final = "(none — review topology)"
JSON_FORMAT: Final = JSONResponseFormat()


class SteeringMode(StrEnum):
    """When an agent is told anything (requirement M73)."""

    NEVER = "never"
    ERROR = "error"  # after a reply that did not fit
    AUTO = "auto"  # whenever it is asked again
    ALWAYS = "always"  # whenever it is asked


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringContext:
    """What there is to say: to whom, about which faults, and at which retry.

    ``issues`` are the faults of the last reply, none when it was valid or there was none. ``retry_count`` says which
    retry the coming ask is, 0 for a first ask. ``tools`` are the agent's own, for an example of a call, and
    ``response_format`` is how it writes its replies.
    """

    permitted: Permitted
    issues: tuple[Issue, ...] = ()
    retry_count: int = 0
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    response_format: BaseResponseFormat = JSON_FORMAT


class SteeringTier(StrEnum):
    """How much an agent is told: more with each retry, so that no two ask in the same words (requirement M75)."""

    FAULTS = "faults"  # what was wrong, and what helps
    CHOICE = "choice"  # besides, that it must choose, and among what
    EXAMPLE = "example"  # besides, a reply of its own that is valid


@dataclass(frozen=True, slots=True)
class Advice:
    """What an agent is told, before it is put into words; every name in it comes from what is permitted.

    ``categories`` are those of the faults, each once, and ``failures`` the classes of failed calls when nothing else
    was wrong: then there is nothing to change, and nothing more is said. ``reminder`` is how the agent's format says
    that replies are written, ``example`` a reply as the agent writes it, in tier EXAMPLE alone.
    """

    permitted: Permitted
    reminder: str
    tier: SteeringTier = SteeringTier.FAULTS
    retry_count: int = 0
    categories: tuple[Category, ...] = ()
    faults: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    example: str | None = None

    @property
    def _opening(self) -> tuple[str, ...]:
        return (verdict_words(self.retry_count),) if self.categories and self.retry_count else ()

    def __str__(self) -> str:
        """Put it into words, in at most 2 KB; never empty (requirement M68)."""
        if self.failures:
            return f"The call before this one failed ({', '.join(self.failures)}). Please do the same step again."
        lines = [" ".join([*self._opening, *_remedies(self)]), *self.faults, *_insisted(self)]
        if len(lines) == 1:
            return fitted(lines, MAX_CORRECTION_BYTES)
        return fitted_before(lines[:-1], lines[-1], MAX_CORRECTION_BYTES)


@dataclass(frozen=True, slots=True)
class SteeringStats:
    """How often agents were told something, at one moment, and about which categories of faults (requirement M77)."""

    total_injections: int = 0
    by_mode: Mapping[SteeringMode, int] = field(default_factory=dict[SteeringMode, int])
    by_category: Mapping[Category, int] = field(default_factory=dict[Category, int])


class AgentSteering:
    """Tells agents what to change when its mode says so, and counts it; any thread or task may ask.

    It is the published API's, for agents with or without a client; a wrapped client takes an :class:`ActionSteering`.

    Raises ContractError for a mode that does not exist.
    """

    __slots__ = ("_by_category", "_by_mode", "_lock", "mode")

    def __init__(self, mode: SteeringMode | str = SteeringMode.ERROR) -> None:
        try:
            self.mode: SteeringMode = SteeringMode(mode)
        except ValueError:
            raise ContractError(f"a steering mode is one of {', '.join(SteeringMode)}") from None
        self._by_mode: Counter[SteeringMode] = Counter()
        self._by_category: Counter[Category] = Counter()
        self._lock = threading.Lock()

    def prompt(self, context: SteeringContext) -> str | None:
        """Return the text to put to the agent behind its prompt, None for none.

        It is for one ask: it replaces the text before it and is not kept in any memory (requirements M69, M72).
        """
        if not self._speaks(context):
            return None
        with self._lock:
            self._by_mode[self.mode] += 1
            self._by_category.update({issue.category for issue in context.issues})
        return steering_text(context)

    def stats(self) -> SteeringStats:
        """Copy the counters at one moment."""
        with self._lock:
            return SteeringStats(self._by_mode.total(), dict(self._by_mode), dict(self._by_category))

    def _speaks(self, context: SteeringContext) -> bool:
        spoken = {
            SteeringMode.NEVER: False,
            SteeringMode.ERROR: bool(context.issues),
            SteeringMode.AUTO: context.retry_count > 0,
            SteeringMode.ALWAYS: True,
        }
        return spoken[self.mode]


@dataclass(frozen=True, slots=True)
class ActionSteering:
    """The words of a client's corrections when its contract asks for an action: ``wrap(…, steering=ActionSteering())``.

    One serves all agents: what is permitted, and how it is written, comes with the contract of each call. What is no
    matter of coordination (the arguments of one tool, a reply that was cut, another contract) is worded by
    ``otherwise``, and so is everything where the mode of ``speaking`` is ``never``. ``speaking`` counts what was said.
    """

    otherwise: Steering = TieredSteering()
    speaking: AgentSteering = field(default_factory=AgentSteering)

    @property
    def corrects(self) -> bool:
        """Whether bad replies are corrected at all."""
        return self.speaking.mode is not SteeringMode.NEVER

    def opening(self, answer: ActionAnswer, *, streak: int = 0) -> str | None:
        """Return the text to put behind an agent's prompt before the first ask; None outside of the mode ``always``.

        After a ``streak`` of so many replies that were words alone it is told what it may do, unless nothing is said at
        all.
        """
        context = self._context(answer, (), streak)
        return steering_text(context) if streak and self.corrects else self.speaking.prompt(context)

    def correction(self, situation: Situation) -> str:
        """Return what to change, for the model to read: more with each tier (requirement M75)."""
        answer, issues = situation.contract.answer, situation.issues
        cut = any(issue.remedy is Remedy.SHORTEN for issue in issues)
        if cut or situation.tool is not None or not isinstance(answer, ActionAnswer):
            return self.otherwise.correction(situation)
        said = self.speaking.prompt(self._context(answer, issues, situation.tier))
        return self.otherwise.correction(situation) if said is None else said

    def _context(self, answer: ActionAnswer, issues: tuple[Issue, ...], retry_count: int) -> SteeringContext:
        return SteeringContext(
            permitted=answer.terms.permitted,
            issues=issues,
            retry_count=retry_count,
            tools=answer.terms.tools.by_name,
            response_format=answer.written,
        )


def generate_steering(
    result: ValidationResult,
    permitted: Permitted | None = None,
    *,
    retry_count: int = 1,
    response_format: str | BaseResponseFormat = DEFAULT_FORMAT,
) -> str | None:
    """Return what to change in a reply, None when it is valid (requirement M67).

    ``permitted`` None stands for what the reply was held to; ``response_format`` is how the agent writes its replies.
    Raises ContractError for an unknown format.
    """
    if result.is_valid:
        return None
    context = SteeringContext(
        permitted=permitted or result.permitted or Permitted(""),
        issues=result.issues,
        retry_count=retry_count,
        response_format=format_of(response_format),
    )
    return steering_text(context)


def steering_text(context: SteeringContext) -> str:
    """Return what to change, or what is permitted, in at most 2 KB; never empty (requirement M68)."""
    return str(advice(context))


def advice(context: SteeringContext) -> Advice:
    """Work out what there is to say to an agent."""
    issues = context.issues
    example = _example(context) if context.retry_count > MUST_SELECT_RETRY else None
    insisting = SteeringTier.CHOICE if example is None else SteeringTier.EXAMPLE
    transient = bool(issues) and all(issue.category is Category.API_TRANSIENT for issue in issues)
    told = Advice(
        context.permitted,
        context.response_format.reminder(),
        retry_count=context.retry_count,
        categories=tuple(dict.fromkeys(issue.category for issue in issues)),
    )
    if transient:
        classes = (issue.code.rpartition(".")[2] for issue in issues)
        return replace(told, failures=tuple(dict.fromkeys(classes)))
    tier = SteeringTier.FAULTS if context.retry_count < MUST_SELECT_RETRY else insisting
    return replace(told, tier=tier, faults=tuple(fault_lines(issues)[:MAX_LISTED_FAULTS]), example=example)


_REMEDIES: Final[Mapping[Category, str]] = {
    Category.FORMAT_ERROR: "{reminder}",
    Category.PERMISSION_ERROR: "You may hand over to these agents: {agents}. Please choose from them.",
    Category.ACTION_ERROR: "The actions here are: {actions}. Please choose one of them.",
    Category.API_TRANSIENT: "The API did not answer as it should. Please do the same step again.",
    Category.API_TERMINAL: "The provider stopped the reply. Please choose another action: {actions}.",
    Category.TOOL_ERROR: "A tool failed. Please call it in another way, or choose another action: {actions}.",
    Category.UNKNOWN: "The reply could not be used. Please reply again with one of the actions: {actions}.",
}
"""What helps against each category of faults: names of what is permitted, and the format's own reminder."""

_NO_FAULT: Final = "Please go on with one of the actions: {actions}."


def _remedies(told: Advice) -> list[str]:
    """Return what helps against the faults, each category once; with no fault, what is permitted."""
    allowed = told.permitted
    words = {"agents": _named(allowed.agents), "actions": _named(allowed.actions), "reminder": told.reminder}
    helpful = [_REMEDIES[category] for category in told.categories]
    return [remedy.format(**words) for remedy in helpful or [_NO_FAULT]]


def _insisted(told: Advice) -> list[str]:
    """Return the words that a choice must be made, then of whom and how (requirement M75)."""
    allowed = told.permitted
    if told.tier is SteeringTier.FAULTS:
        return []
    if told.example is not None:
        return [f"{allowed.agent}, {told.retry_count} replies were invalid. Reply in exactly this form:", told.example]
    tools = [f"The tools are: {_named(allowed.tools)}."] if allowed.tools else []
    return [f"You must select exactly one of these actions now: {_named(allowed.actions)}.", *tools]


def _example(context: SteeringContext) -> str | None:
    allowed = context.permitted
    finishes = ActionType.FINAL_RESPONSE in allowed.actions
    offered = CoordinationContext(list(allowed.agents), finishes, allowed.actions, context.tools)
    return next(iter(context.response_format.get_examples(allowed.actions, offered)), None)


def _named(names: tuple[str, ...]) -> str:
    """List names; where there are none, nothing that an agent says can help."""
    return listed(names) if names else NOTHING
