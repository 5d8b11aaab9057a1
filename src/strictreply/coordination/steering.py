"""Steering: texts that correct an agent's replies, and the guard against endless replies of text.

The texts are made from codes and permissions, never from a model's text. (``retry_with_steering``,
which sends them, is in ``validation``.)
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

from strictreply import Category, ContractError, Issue, Tool
from strictreply.coordination.actions import Permitted, ValidationResult, listed
from strictreply.coordination.formats import (
    DEFAULT_FORMAT,
    BaseResponseFormat,
    CoordinationContext,
    JSONResponseFormat,
    format_of,
)
from strictreply.core import JSONObject
from strictreply.core.calls import (
    MAX_CORRECTION_BYTES,
    MAX_LISTED_FAULTS,
    fault_lines,
    fitted,
    fitted_before,
    verdict_words,
)

__all__ = [
    "AgentSteering",
    "CallModel",
    "ContentLoop",
    "ContentLoopGuard",
    "ContentStreak",
    "LikelyCause",
    "SteeringContext",
    "SteeringMode",
    "SteeringStats",
    "generate_steering",
]

# From this retry on the agent must choose an action; the next one shows it how (M75).
MUST_SELECT_RETRY: Final = 3
NOTHING: Final = "(none — review topology)"
JSON_FORMAT: Final = JSONResponseFormat()


class SteeringMode(StrEnum):
    """When an agent is steered."""

    NEVER = "never"
    ERROR = "error"  # after an invalid reply
    AUTO = "auto"  # at every retry
    ALWAYS = "always"  # at every request


@dataclass(frozen=True, slots=True, kw_only=True)
class SteeringContext:
    """The input of a steering text."""

    permitted: Permitted
    """What the agent may do."""
    issues: tuple[Issue, ...] = ()
    """The faults of the last reply; empty when there was none."""
    retry_count: int = 0
    """Number of the coming retry; 0 for a first request."""
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """The agent's tools by name, for examples."""
    response_format: BaseResponseFormat = JSON_FORMAT
    """The format that the agent writes."""


@dataclass(frozen=True, slots=True)
class SteeringStats:
    """How often agents were steered, and for which categories of faults."""

    total_injections: int = 0
    """How often agents were steered."""
    by_mode: Mapping[SteeringMode, int] = field(default_factory=dict[SteeringMode, int])
    """The same, by the mode."""
    by_category: Mapping[Category, int] = field(default_factory=dict[Category, int])
    """The same, by the category of the fault."""


class AgentSteering:
    """Steers agents according to its mode, and counts; safe for threads and tasks."""

    __slots__ = ("_by_category", "_by_mode", "_lock", "mode")

    def __init__(self, mode: SteeringMode | str = SteeringMode.ERROR) -> None:
        if mode not in tuple(SteeringMode):
            raise ContractError(f"a steering mode must be one of {', '.join(SteeringMode)}")
        self.mode: SteeringMode = SteeringMode(mode)
        """When agents are steered."""
        self._by_mode: Counter[SteeringMode] = Counter()
        self._by_category: Counter[Category] = Counter()
        self._lock = threading.Lock()

    def prompt(self, context: SteeringContext) -> str | None:
        """Return the text to add to an agent's prompt; None to add nothing."""
        steers = {
            SteeringMode.ERROR: bool(context.issues),
            SteeringMode.AUTO: context.retry_count > 0,
            SteeringMode.ALWAYS: True,
        }
        if not steers.get(self.mode):
            return None

        with self._lock:
            self._by_mode[self.mode] += 1
            self._by_category.update({issue.category for issue in context.issues})

        return steering_text(context)

    def stats(self) -> SteeringStats:
        """Copy the counters at one moment."""
        with self._lock:
            total = self._by_mode.total()
            return SteeringStats(total, dict(self._by_mode), dict(self._by_category))


def generate_steering(
    result: ValidationResult,
    permitted: Permitted | None = None,
    *,
    retry_count: int = 1,
    response_format: str | BaseResponseFormat = DEFAULT_FORMAT,
) -> str | None:
    """Return the correction of a reply; None if the reply is valid.

    ``permitted`` is what the agent may do; None for the permissions that the reply was judged by.
    ``response_format`` is the format of the agent's replies. Raises ContractError for an unknown
    format.
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
    """Return a text of at most 2 KB on what to change, or what is permitted (M68, M75).

    The text says more with each retry, and is never empty.
    """
    issues = context.issues
    allowed = context.permitted
    count = context.retry_count

    categories = list(dict.fromkeys(issue.category for issue in issues))
    if categories == [Category.API_TRANSIENT]:  # there is nothing to change
        failures = ", ".join(dict.fromkeys(issue.code.rpartition(".")[2] for issue in issues))
        return f"The call before this one failed ({failures}). Please do the same step again."

    agents = listed(allowed.agents) if allowed.agents else NOTHING
    actions = listed(allowed.actions) if allowed.actions else NOTHING
    reminder = context.response_format.reminder()
    remedies = " ".join(_REMEDIES[category] for category in categories) or _NO_FAULT
    helpful = remedies.format(agents=agents, actions=actions, reminder=reminder)

    opening = f"{verdict_words(count)} " if issues and count else ""
    faults = fault_lines(issues)[:MAX_LISTED_FAULTS]
    lines = [opening + helpful, *faults, *_demand(context, actions)]

    if len(lines) == 1:
        return fitted(lines, MAX_CORRECTION_BYTES)
    return fitted_before(lines[:-1], lines[-1], MAX_CORRECTION_BYTES)


def _demand(context: SteeringContext, actions: str) -> list[str]:
    """Return what an agent that fails again and again must do now (M75).

    It must select an action; after one more failure, follow an example.
    """
    allowed = context.permitted
    count = context.retry_count
    if count > MUST_SELECT_RETRY:
        offered = CoordinationContext.of_permitted(allowed, context.tools)
        if examples := context.response_format.get_examples(allowed.actions, offered)[:1]:
            demand = f"{allowed.agent}, {count} replies were invalid. Reply in exactly this form:"
            return [demand, *examples]

    if count < MUST_SELECT_RETRY:
        return []

    lines = [f"You must select exactly one of these actions now: {actions}."]
    if allowed.tools:
        lines.append(f"The tools are: {listed(allowed.tools)}.")
    return lines


# The names in braces are those of what is permitted; the reminder is the format's own.
_REMEDIES: Final[Mapping[Category, str]] = {
    Category.FORMAT_ERROR: "{reminder}",
    Category.PERMISSION_ERROR: (
        "You may hand over to these agents: {agents}. Please choose from them."
    ),
    Category.ACTION_ERROR: "The actions here are: {actions}. Please choose one of them.",
    Category.API_TRANSIENT: "The API did not respond correctly. Please do the same step again.",
    Category.API_TERMINAL: (
        "The provider stopped the reply. Please choose another action: {actions}."
    ),
    Category.TOOL_ERROR: (
        "A tool failed. Please call it in another way, or choose another action: {actions}."
    ),
    Category.UNKNOWN: (
        "The reply could not be used. Please reply again with one of the actions: {actions}."
    ),
}
_NO_FAULT: Final = "Please go on with one of the actions: {actions}."

MAX_SNIPPET_CHARS: Final = 200


class LikelyCause(StrEnum):
    """Why an agent may never have acted."""

    # Neither an action nor a tool is permitted: review the topology.
    NOTHING_TO_CALL = "nothing_to_call"
    # Actions or tools are permitted: check that the request has them and the prompt mentions them.
    TOOLS_IGNORED = "tools_ignored"


@dataclass(frozen=True, slots=True)
class ContentStreak:
    """The number of consecutive replies of ``agent`` that contained only text.

    ``snippet`` is the beginning of the last one.
    """

    agent: str
    """The name of the agent."""
    count: int = 0
    """How many such replies it gave in a row."""
    snippet: str = field(default="", repr=False)
    """The beginning of the last one."""

    def after_content(self, text: str) -> ContentStreak:
        """Count one more reply that contained only text."""
        # a checkpoint cannot store a lone surrogate
        snippet = text[:MAX_SNIPPET_CHARS].encode(errors="replace").decode()
        return ContentStreak(self.agent, self.count + 1, snippet)

    def after_action(self) -> ContentStreak:
        """Start again at zero, because the agent called a tool or chose an action."""
        return ContentStreak(self.agent)


@dataclass(frozen=True, slots=True)
class CallModel:
    """Call the model again; with ``steer``, first add a steering text.

    The text's ``retry_count`` is the count of the streak.
    """

    steer: bool = False
    """Whether a steering goes before the request."""


@dataclass(frozen=True, slots=True)
class ContentLoop:
    """The agent only writes text: do not retry, the branch fails."""

    agent: str
    """The agent that replied only with text."""
    count: int
    """Number of its consecutive replies."""
    actions: tuple[str, ...]
    """The actions that it could have chosen."""
    tools: tuple[str, ...]
    """The tools that it could have called."""
    snippet: str = field(repr=False)
    """The beginning of the model's text, at most 200 characters."""
    likely_cause: LikelyCause
    """Why the agent did not act."""

    def __str__(self) -> str:
        listed = ", ".join((*self.actions, *self.tools)) or "nothing; review the topology"
        return (
            f"{self.agent} gave {self.count} consecutive replies without an action; "
            f"allowed: {listed}"
        )

    def to_dict(self) -> JSONObject:
        """Return the report as JSON."""
        names = {"actions": [str(one) for one in self.actions], "tools": list(self.tools)}
        return asdict(self) | names | {"likely_cause": self.likely_cause.value}


@dataclass(frozen=True, slots=True)
class ContentLoopGuard:
    """The limits on consecutive replies that contain only text.

    Raises ContractError unless 1 <= ``steering_threshold`` < ``hard_limit``.
    """

    steering_threshold: int = 2
    """After how many such replies in a row the agent is steered."""
    hard_limit: int = 10
    """After how many the loop ends."""

    def __post_init__(self) -> None:
        if not 1 <= self.steering_threshold < self.hard_limit:
            raise ContractError("ContentLoopGuard needs 1 <= steering_threshold < hard_limit")

    def next(
        self, streak: ContentStreak, *, actions: Iterable[str] = (), tools: Iterable[str] = ()
    ) -> CallModel | ContentLoop:
        """Return, before a request, whether to make it.

        ``actions`` and ``tools`` are the ones that the agent may call.
        """
        if streak.count < self.hard_limit:
            return CallModel(steer=streak.count >= self.steering_threshold)
        return self.loop(streak, actions=actions, tools=tools)

    def talks_on(self, streak: ContentStreak) -> bool:
        """Return whether an agent replied only with text again after it was steered.

        More requests would be a loop.
        """
        return streak.count > self.steering_threshold

    def loop(
        self, streak: ContentStreak, *, actions: Iterable[str] = (), tools: Iterable[str] = ()
    ) -> ContentLoop:
        """Return the report on an agent that is not retried.

        ``actions`` and ``tools`` are as for :meth:`next`.
        """
        actions = tuple(actions)
        tools = tuple(tools)
        cause = LikelyCause.TOOLS_IGNORED if actions or tools else LikelyCause.NOTHING_TO_CALL
        return ContentLoop(streak.agent, streak.count, actions, tools, streak.snippet, cause)
