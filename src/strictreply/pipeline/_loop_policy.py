"""How far a turn may go: how often the model is asked, how often it may call the same, how tools are run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from strictreply.contract._describing import compact
from strictreply.contract._tool import Tool, is_duration
from strictreply.pipeline._values import AgentToolCall, AgentToolCallResult, canonical
from strictreply.reading._decoding import decode
from strictreply.values._errors import ContractError
from strictreply.values._json import JSON
from strictreply.values._limits import DEFAULT_LIMITS, is_count
from strictreply.values._replies import Invalid

REPEATED: Final = "repeat_tool_call_detected"

MOST_RESULT_CHARS: Final = 150_000
"""The most that ``max_result_chars`` may be: so many characters, six bytes each at worst, stay within the limits."""

_COUNTS: Final = ("max_iterations", "warn_at", "suppress_at", "concurrency", "max_result_chars", "max_tokens_total")
_NO_TOOLS: Final[Mapping[str, Tool]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPolicy:
    """The bounds of one turn.

    The model is asked at most ``max_iterations`` times (requirement P68). A call that was made before in the turn, the
    same name with the same arguments, is run with a warning when it is the ``warn_at``-th, and not run any more from
    the ``suppress_at``-th on: the model is told so instead of a result (requirement P72); calls of tools that are
    ``repeatable`` are never counted. At most ``concurrency`` calls of one reply run at the same time. ``tool_timeout``
    (seconds, None waits) is for tools that have none of their own. A result of more than ``max_result_chars`` is cut.
    A run whose attempts have taken ``max_tokens_total`` tokens asks no more (None for no bound); a continuation counts
    anew.

    Raises ContractError when a bound is no whole number or below 1, ``suppress_at`` is not above ``warn_at``,
    ``max_result_chars`` is above 150,000, or ``tool_timeout`` is no number above 0.
    """

    max_iterations: int = 8
    warn_at: int = 2
    suppress_at: int = 3
    concurrency: int = 4
    tool_timeout: float | None = None
    max_result_chars: int = 16_000
    max_tokens_total: int | None = None

    def __post_init__(self) -> None:
        for name in _COUNTS:
            bound: object = getattr(self, name)
            if not is_count(bound, 1) and (name != "max_tokens_total" or bound is not None):
                raise ContractError(f"{name} must be a whole number, 1 or more, not {bound!r}")
        if self.max_result_chars > MOST_RESULT_CHARS:
            raise ContractError(f"max_result_chars must be {MOST_RESULT_CHARS} or less, not {self.max_result_chars!r}")
        if self.suppress_at <= self.warn_at:
            raise ContractError(f"suppress_at must be above warn_at, {self.warn_at}; it is {self.suppress_at}")
        if self.tool_timeout is not None and not is_duration(self.tool_timeout):
            raise ContractError(f"tool_timeout must be a number of seconds above 0, or None, not {self.tool_timeout!r}")

    def suppressed(
        self, calls: Iterable[AgentToolCall], earlier: Iterable[AgentToolCall], *, tools: Mapping[str, Tool] = _NO_TOOLS
    ) -> Iterator[tuple[AgentToolCall, bool]]:
        """Return each call with whether it is not to be run, after the turn's ``earlier`` calls and those before it.

        ``tools``, by name, say which calls may be repeated; one that is not among them may not.
        """
        before, asked = list(earlier), list(calls)
        named = Counter(call.name for call in (*before, *asked) if not _is_repeatable(call, tools))
        made = Counter(signature(call) for call in before if named[call.name] >= self.suppress_at)
        for call in asked:
            if named[call.name] < self.suppress_at:  # as in most turns: no arguments have to be read
                yield call, False
                continue
            spelled = signature(call)
            made[spelled] += 1
            yield call, made[spelled] >= self.suppress_at

    def repeated(self, calls: Iterable[AgentToolCall], *, tools: Mapping[str, Tool] = _NO_TOOLS) -> list[str]:
        """Return the names of the tools that were called with the same arguments ``warn_at`` times or more, each once.

        ``tools`` are those of :meth:`suppressed`.
        """
        counted = [call for call in calls if not _is_repeatable(call, tools)]
        named = Counter(call.name for call in counted)
        made = Counter((call.name, signature(call)) for call in counted if named[call.name] >= self.warn_at)
        return list(dict.fromkeys(name for (name, _), times in made.items() if times >= self.warn_at))


def signature(call: AgentToolCall) -> str:
    """Return what makes two calls the same: the name and the canonical arguments, case and all (P71, P73)."""
    args = decode(call.arguments_json, DEFAULT_LIMITS)
    return f"{call.name} {call.arguments_json if isinstance(args, Invalid) else canonical(args)}"


def suppressed_result(call: AgentToolCall) -> AgentToolCallResult:
    """Make the result of a call that was not run; it keeps the manifest valid (requirement P74)."""
    told: dict[str, JSON] = {
        "suppressed": True,
        "reason": REPEATED,
        "tool": call.name,
        "guidance": "This call was made before with the same arguments. Use the results above, or answer the user.",
    }
    return AgentToolCallResult(tool_call_id=call.tool_call_id, name=call.name, result_json=compact(told))


def _is_repeatable(call: AgentToolCall, tools: Mapping[str, Tool]) -> bool:
    tool = tools.get(call.name)
    return tool is not None and tool.repeatable
