"""An agent that talks and does nothing: counted over its replies, steered after some, stopped before one more is paid.

Pure: the count is a value that the executor keeps for each agent, and no model is asked here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from strictreply.values._errors import ContractError
from strictreply.values._json import JSONObject

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
    """Do not ask again: the branch fails, and this is what is known of it.

    ``actions`` are the coordination actions and ``tools`` the tools that the agent could have called. ``snippet`` is
    the model's own words, at most 200 characters, kept out of ``repr``.
    """

    agent: str
    count: int
    actions: tuple[str, ...]
    tools: tuple[str, ...]
    snippet: str = field(repr=False)
    likely_cause: LikelyCause

    def __str__(self) -> str:
        """Say it in our words, for a log."""
        listed = ", ".join((*self.actions, *self.tools)) or "nothing; review the topology"
        return f"{self.agent} gave {self.count} replies in a row without acting; it could have called: {listed}"

    def to_dict(self) -> JSONObject:
        """Return it as JSON."""
        names = {"actions": [str(one) for one in self.actions], "tools": list(self.tools)}
        return asdict(self) | names | {"likely_cause": self.likely_cause.value}


Next: TypeAlias = CallModel | ContentLoop


@dataclass(frozen=True, slots=True)
class ContentLoopGuard:
    """The limits on replies of words alone (requirement M78).

    From ``steering_threshold`` replies in a row on the agent is steered; at ``hard_limit`` it is not asked again.

    Raises ContractError when the threshold is below 1, or not below the limit.
    """

    steering_threshold: int = 2
    hard_limit: int = 10

    def __post_init__(self) -> None:
        """Refuse limits that could never steer, or never stop."""
        if not 1 <= self.steering_threshold < self.hard_limit:
            raise ContractError("ContentLoopGuard needs 1 <= steering_threshold < hard_limit")

    def next(self, streak: ContentStreak, *, actions: Iterable[str] = (), tools: Iterable[str] = ()) -> Next:
        """Decide, before the model is asked, whether it is; ``actions`` and ``tools`` are what the agent may call."""
        if streak.count < self.hard_limit:
            return CallModel(steer=streak.count >= self.steering_threshold)
        return self.loop(streak, actions=actions, tools=tools)

    def talks_on(self, streak: ContentStreak) -> bool:
        """Tell whether an agent gave words alone once more after it was steered: asking it further is a loop."""
        return streak.count > self.steering_threshold

    def loop(self, streak: ContentStreak, *, actions: Iterable[str] = (), tools: Iterable[str] = ()) -> ContentLoop:
        """Return what is known of an agent that is not asked again; ``actions`` and ``tools`` as for :meth:`next`."""
        actions, tools = tuple(actions), tuple(tools)
        cause = LikelyCause.TOOLS_IGNORED if actions or tools else LikelyCause.NOTHING_TO_CALL
        return ContentLoop(streak.agent, streak.count, actions, tools, streak.snippet, cause)
