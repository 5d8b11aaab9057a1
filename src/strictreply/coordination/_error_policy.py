"""What a run does about bad replies: reactions by category, the budget, and the limit on replies of words alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from strictreply.retry._policy import RetryPolicy
from strictreply.values._errors import ContractError
from strictreply.values._issues import Category, Issue, Remedy
from strictreply.values._json import JSONObject


class Reaction(StrEnum):
    """What follows a fault, from the mildest to the gravest."""

    RETRY = "retry"  # ask the same agent again, within the budget
    ESCALATE = "escalate"  # bring it to the human
    TERMINATE = "terminate"  # end the branch


DEFAULT_REACTIONS: Final[Mapping[Category, Reaction]] = MappingProxyType(
    {
        Category.FORMAT_ERROR: Reaction.RETRY,
        Category.PERMISSION_ERROR: Reaction.RETRY,
        Category.ACTION_ERROR: Reaction.RETRY,
        Category.API_TRANSIENT: Reaction.RETRY,
        Category.API_TERMINAL: Reaction.TERMINATE,
        Category.TOOL_ERROR: Reaction.ESCALATE,
        Category.UNKNOWN: Reaction.RETRY,
    }
)
"""The published reactions; a target that is not permitted is asked for again and never run (requirement X5)."""


def _ending(reactions: Mapping[Category, Reaction]) -> frozenset[Category]:
    return frozenset(category for category, reaction in reactions.items() if reaction is not Reaction.RETRY)


DEFAULT_BUDGET: Final = RetryPolicy(max_retries=3, transport_retries=3, stop_on=_ending(DEFAULT_REACTIONS))
"""Three corrections, and three repeats of a failed call, which do not use each other up (requirement M89)."""

_GRAVITY = list(Reaction)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """Reactions and the budget that bounds them.

    ``reactions`` change single categories of :data:`DEFAULT_REACTIONS`; ContractError for any other key or value. With
    ``strict_permissions`` a target that is not permitted ends the branch at once. ``budget`` is the core's:
    ``max_retries`` bounds corrections of a reply and ``transport_retries`` repeats of a failed call, in the loop of a
    client and in a router alike. Its ``stop_on`` is made of the table.
    """

    reactions: Mapping[Category, Reaction] = field(default_factory=dict[Category, Reaction])
    strict_permissions: bool = False
    budget: RetryPolicy = DEFAULT_BUDGET

    def __post_init__(self) -> None:
        try:
            changes = {Category(key): Reaction(value) for key, value in self.reactions.items()}
        except ValueError as error:
            raise ContractError(f"reactions map a Category to a Reaction: {error}") from None
        strict = {Category.PERMISSION_ERROR: Reaction.TERMINATE} if self.strict_permissions else {}
        reactions = MappingProxyType({**DEFAULT_REACTIONS, **changes, **strict})
        object.__setattr__(self, "reactions", reactions)
        object.__setattr__(self, "budget", replace(self.budget, stop_on=_ending(reactions)))

    def reaction(self, issues: Iterable[Issue]) -> Reaction:
        """Return what follows these faults: the gravest reaction to any of them, that to UNKNOWN for none."""
        found = [(self.reactions[issue.category], issue.remedy) for issue in issues]
        if (Reaction.RETRY, Remedy.STOP) in found:  # where another ask would not help, none is made
            return Reaction.TERMINATE
        return max((reaction for reaction, _ in found), key=_GRAVITY.index, default=self.reactions[Category.UNKNOWN])

    def changed(self, category: Category) -> Reaction | None:
        """Return the reaction that replaces the published one for a category; None where the published one stands."""
        reaction = self.reactions[category]
        return None if reaction is DEFAULT_REACTIONS[category] else reaction


MAX_SNIPPET_CHARS: Final = 200


class LikelyCause(StrEnum):
    """Why an agent may never have acted: what to look at first."""

    NOTHING_TO_CALL = "nothing_to_call"  # neither an action nor a tool is permitted: review the topology
    TOOLS_IGNORED = "tools_ignored"  # there is something to call: is it in the request, and does the prompt ask for it?


@dataclass(frozen=True, slots=True)
class ContentStreak:
    """How many replies in a row ``agent`` gave that were words alone, and the beginning of the last one."""

    agent: str
    count: int = 0
    snippet: str = field(default="", repr=False)

    def after_content(self, text: str) -> ContentStreak:
        """Count one more reply of words alone."""
        snippet = text[:MAX_SNIPPET_CHARS].encode(errors="replace").decode()  # a lone surrogate fits into no checkpoint
        return ContentStreak(self.agent, self.count + 1, snippet)

    def after_action(self) -> ContentStreak:
        """Begin again: the agent called a tool or asked for an action."""
        return ContentStreak(self.agent)


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the agent again; with ``steer``, behind a steering whose ``retry_count`` is the streak's count."""

    steer: bool = False


@dataclass(frozen=True, slots=True)
class ContentLoop:
    """Do not ask again: the branch fails. ``snippet`` are the model's own words, at most 200 characters."""

    agent: str
    count: int
    actions: tuple[str, ...]
    tools: tuple[str, ...]
    snippet: str = field(repr=False)
    likely_cause: LikelyCause

    def __str__(self) -> str:
        listed = ", ".join((*self.actions, *self.tools)) or "nothing; review the topology"
        return f"{self.agent} gave {self.count} replies in a row without acting; it could have called: {listed}"

    def to_dict(self) -> JSONObject:
        """Return it as JSON."""
        names = {"actions": [str(one) for one in self.actions], "tools": list(self.tools)}
        return asdict(self) | names | {"likely_cause": self.likely_cause.value}


@dataclass(frozen=True, slots=True)
class ContentLoopGuard:
    """The limits on replies of words alone (M78): 1 <= ``steering_threshold`` < ``hard_limit``, else ContractError."""

    steering_threshold: int = 2
    hard_limit: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.steering_threshold < self.hard_limit:
            raise ContractError("ContentLoopGuard needs 1 <= steering_threshold < hard_limit")

    def next(
        self, streak: ContentStreak, *, actions: Iterable[str] = (), tools: Iterable[str] = ()
    ) -> CallModel | ContentLoop:
        """Decide, before the model is asked, whether it is; ``actions`` and ``tools`` are what the agent may call."""
        if streak.count < self.hard_limit:
            return CallModel(steer=streak.count >= self.steering_threshold)
        return self.loop(streak, actions=actions, tools=tools)

    def talks_on(self, streak: ContentStreak) -> bool:
        """Return whether an agent gave words alone once more after it was steered: asking it further is a loop."""
        return streak.count > self.steering_threshold

    def loop(self, streak: ContentStreak, *, actions: Iterable[str] = (), tools: Iterable[str] = ()) -> ContentLoop:
        """Return what is known of an agent that is not asked again; ``actions`` and ``tools`` as for :meth:`next`."""
        actions, tools = tuple(actions), tuple(tools)
        cause = LikelyCause.TOOLS_IGNORED if actions or tools else LikelyCause.NOTHING_TO_CALL
        return ContentLoop(streak.agent, streak.count, actions, tools, streak.snippet, cause)
