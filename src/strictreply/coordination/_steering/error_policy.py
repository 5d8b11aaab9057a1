"""What a run does about a reply that does not fit: one table from category to reaction, and the budget of a router."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from strictreply.retry._policy import RetryPolicy
from strictreply.values._errors import ContractError
from strictreply.values._issues import Category, Issue, Remedy


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
    """Give the categories that are not asked for again."""
    return frozenset(category for category, reaction in reactions.items() if reaction is not Reaction.RETRY)


DEFAULT_BUDGET: Final = RetryPolicy(max_retries=3, transport_retries=3, stop_on=_ending(DEFAULT_REACTIONS))
"""Three corrections, and three repeats of a failed call, which do not use each other up (requirement M89)."""

_GRAVITY = list(Reaction)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """Reactions and the budget that bounds them.

    ``reactions`` change single categories of :data:`DEFAULT_REACTIONS`. With ``strict_permissions`` a target that is
    not permitted ends the branch at once. ``budget`` is the core's: ``max_retries`` bounds corrections of a reply and
    ``transport_retries`` repeats of a failed call, in the loop of a client and in a router alike. Its ``stop_on`` is
    made of the table, so that a client's loop ends where the table says that nothing is asked again.

    Raises ContractError for a table that names anything but categories and reactions.
    """

    reactions: Mapping[Category, Reaction] = field(default_factory=dict[Category, Reaction])
    strict_permissions: bool = False
    budget: RetryPolicy = DEFAULT_BUDGET

    def __post_init__(self) -> None:
        """Complete the table."""
        try:
            changes = {Category(key): Reaction(value) for key, value in self.reactions.items()}
        except ValueError as error:
            raise ContractError(f"reactions map a Category to a Reaction: {error}") from None
        strict = {Category.PERMISSION_ERROR: Reaction.TERMINATE} if self.strict_permissions else {}
        reactions = MappingProxyType({**DEFAULT_REACTIONS, **changes, **strict})
        object.__setattr__(self, "reactions", reactions)
        object.__setattr__(self, "budget", replace(self.budget, stop_on=_ending(reactions)))

    def reaction(self, issues: Iterable[Issue]) -> Reaction:
        """Tell what follows these faults: the gravest reaction to any of them; that to UNKNOWN when there are none."""
        found = [self._to(issue) for issue in issues] or [self.reactions[Category.UNKNOWN]]
        return max(found, key=_GRAVITY.index)

    def changed(self, category: Category) -> Reaction | None:
        """Give the reaction that this table has for a category in place of the published one, None when it has none."""
        reaction = self.reactions[category]
        return None if reaction is DEFAULT_REACTIONS[category] else reaction

    def _to(self, issue: Issue) -> Reaction:
        """React to one fault; where another ask would not help, none is made."""
        reaction = self.reactions[issue.category]
        return Reaction.TERMINATE if reaction is Reaction.RETRY and issue.remedy is Remedy.STOP else reaction
