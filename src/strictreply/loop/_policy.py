"""The bounds of a turn, and which calls repeat too often."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Final

from strictreply import ContractError, Invalid, Tool
from strictreply.core import DEFAULT_LIMITS, decode
from strictreply.core.arguments import IN_POLICIES, helpful, is_count, is_duration
from strictreply.loop._result_texts import RESULT_CHARS
from strictreply.loop.values import AgentToolCall

# At six bytes a character, the worst case, this stays within the limits of a reply.
MOST_RESULT_CHARS: Final = 150_000

_NO_TOOLS: Final[Mapping[str, Tool]] = {}


@helpful(IN_POLICIES)
@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPolicy:
    """The bounds of one turn.

    Raises ContractError when a bound is not a whole number or below 1, ``suppress_at`` is not above
    ``warn_at``, ``max_result_chars`` is above 150,000, or ``tool_timeout`` is not a number above 0.
    """

    max_iterations: int = 8
    """Most requests to the model in one turn."""
    warn_at: int = 2
    """Number of equal calls in a turn from which the model is warned.

    Calls are equal if their names and arguments are equal. Calls of ``repeatable`` tools are not
    counted.
    """
    suppress_at: int = 3
    """Number of equal calls in a turn from which calls are not run.

    The model gets a note instead of the result.
    """
    concurrency: int = 4
    """Most calls of one reply that run at the same time."""
    tool_timeout: float | None = None
    """Seconds for a tool without a timeout of its own; None for no limit."""
    max_result_chars: int = RESULT_CHARS
    """Most characters of a result; a longer one is cut."""
    max_tokens_total: int | None = None
    """Tokens of a run's attempts after which it ends; None for no limit.

    A continuation starts a new count.
    """
    max_tool_failures: int | None = None
    """Consecutive failures of one tool, with any arguments, that end the run with AbortRun.

    The tool's own ``max_failures`` takes precedence. None for no limit.
    """

    def __post_init__(self) -> None:
        may_be_none = ("max_tokens_total", "max_tool_failures")
        for name in (member.name for member in fields(LoopPolicy) if member.name != "tool_timeout"):
            bound: object = getattr(self, name)
            if not is_count(bound, 1) and (name not in may_be_none or bound is not None):
                raise ContractError(f"{name} must be a whole number, 1 or more, not {bound!r}")

        if self.max_result_chars > MOST_RESULT_CHARS:
            raise ContractError(
                f"max_result_chars must be {MOST_RESULT_CHARS} or less, "
                f"not {self.max_result_chars!r}"
            )

        if self.suppress_at <= self.warn_at:
            raise ContractError(
                f"suppress_at must be above warn_at, {self.warn_at}; it is {self.suppress_at}"
            )

        if self.tool_timeout is not None and not is_duration(self.tool_timeout):
            raise ContractError(
                "tool_timeout must be a number of seconds above 0, or None, "
                f"not {self.tool_timeout!r}"
            )

    def suppressed(
        self,
        calls: Iterable[AgentToolCall],
        earlier: Iterable[AgentToolCall],
        *,
        tools: Mapping[str, Tool] = _NO_TOOLS,
    ) -> list[tuple[AgentToolCall, bool]]:
        """Return each call with whether it is suppressed.

        The turn's ``earlier`` calls count, and the ones in ``calls`` before it.
        """
        before = list(earlier)
        asked = list(calls)
        if len(before) + len(asked) < self.suppress_at:  # as in most turns
            return [(call, False) for call in asked]

        named = Counter(call.name for call in (*before, *asked) if not _is_repeatable(call, tools))
        made = Counter(signature(call) for call in before if named[call.name] >= self.suppress_at)

        judged: list[tuple[AgentToolCall, bool]] = []
        for call in asked:
            is_spent = False
            if named[call.name] >= self.suppress_at:
                key = signature(call)
                made[key] += 1
                is_spent = made[key] >= self.suppress_at

            judged.append((call, is_spent))

        return judged

    def repeated(
        self, calls: Iterable[AgentToolCall], *, tools: Mapping[str, Tool] = _NO_TOOLS
    ) -> list[str]:
        """Return the tools that were called with the same arguments ``warn_at`` times or more."""
        made = list(calls)
        if len(made) < self.warn_at:  # as in most turns
            return []

        counted = [call for call in made if not _is_repeatable(call, tools)]
        named = Counter(call.name for call in counted)
        frequent = [call for call in counted if named[call.name] >= self.warn_at]

        equal = Counter((call.name, signature(call)) for call in frequent)
        names = (name for (name, _), times in equal.items() if times >= self.warn_at)
        return list(dict.fromkeys(names))


def signature(call: AgentToolCall) -> str:
    """Return the name and the canonical arguments of a call, equal for equal calls (P71, P73)."""
    args = decode(call.arguments_json, DEFAULT_LIMITS)
    if isinstance(args, Invalid):
        return f"{call.name} {call.arguments_json}"
    return f"{call.name} {json.dumps(args, sort_keys=True, separators=(',', ':'))}"


def _is_repeatable(call: AgentToolCall, tools: Mapping[str, Tool]) -> bool:
    tool = tools.get(call.name)
    return tool is not None and tool.repeatable
