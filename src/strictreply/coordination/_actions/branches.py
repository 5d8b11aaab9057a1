"""The branch of a run that an agent replies in: values that a run keeps, never changed in place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BranchType(StrEnum):
    """What kind of branch it is; some actions are permitted in some kinds only (requirement M44)."""

    SIMPLE = "simple"
    CONVERSATION = "conversation"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of a run.

    ``agents`` are those that take part in a conversation, ``turns`` how many it has had, ``max_turns`` how many it may
    have. ``is_parallel_spawn`` says that the agent may hand over to several at once only with a request for each.
    """

    id: str = "main"
    type: BranchType = BranchType.SIMPLE
    agents: tuple[str, ...] = ()
    turns: int = 0
    max_turns: int = 5
    is_parallel_spawn: bool = False
