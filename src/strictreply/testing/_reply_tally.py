"""Results of recorded replies and ledgers: a line, its cause, and the counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from strictreply.core import JSONObject
from strictreply.testing._ledger_lines import LedgerEntry
from strictreply.testing._recordings import NO_NAME
from strictreply.testing._steps import Harm

MAX_CAUSES = 200  # that are counted separately; more are not kept, whatever the size of a file
SHOWN_OF_A_CAUSE = 3  # replies


class JudgedLine(NamedTuple):
    """The result of one line."""

    line: int
    """Number of the line, counted from 1."""
    model: str = NO_NAME
    """Name of the model that replied."""
    tool: str = NO_NAME
    """Name of the first tool that was called."""
    issues: Sequence[JSONObject] = ()
    """The issues of the reply as plain JSON; empty when it is valid."""
    reason: str = ""
    """Why the line has no reply; empty when it has one."""
    excerpt: tuple[str, str] | None = None
    """The reply and the next request; None when they are not kept."""
    entry: LedgerEntry | None = None
    """The attempt in the ledger; None for a line of a recording."""
    lacks_tools: bool = False
    """Whether it calls a tool although no tool was declared."""

    @property
    def is_observed(self) -> bool:
        """Whether an invalid reply was returned because calls were only observed."""
        return self.entry is not None and self.entry.outcome == "observed"

    @property
    def cause(self) -> ReplyCause:
        """The cause by which invalid replies are grouped."""
        return ReplyCause(self.tool, tuple(sorted({str(issue["code"]) for issue in self.issues})))


class ReplyCause(NamedTuple):
    """A cause of invalid replies: the first tool that was called, and all issue codes."""

    tool: str
    """The name of the first tool that was called."""
    codes: tuple[str, ...]
    """All issue codes of the reply."""

    @property
    def harm(self) -> Harm:
        """The harm in an app that accepts such a reply."""
        return min((Harm.accepting(code) for code in self.codes), key=lambda harm: harm.rank)


OUTCOMES = ("ok", "fixed", "observed", "rejected", "failed")
"""The outcomes of calls; ``fixed`` is a call with a valid reply after a rejected one."""


class CallState(NamedTuple):
    """The state of one call of a ledger, whose lines may be in any order."""

    attempt: int = 0
    """Number of its last attempt."""
    outcome: str = ""
    """The outcome of the last attempt."""
    is_corrected: bool = False
    """Whether one of its replies was rejected."""

    def after(self, entry: LedgerEntry) -> CallState:
        """Return the state with one more attempt of the call."""
        is_corrected = self.is_corrected or entry.outcome == "rejected" or entry.tier > 0
        last = max((self.attempt, self.outcome), (entry.attempt, entry.outcome))
        return CallState(*last, is_corrected)

    @property
    def word(self) -> str:
        """The outcome of the call, one of :data:`OUTCOMES`."""
        return "fixed" if self.outcome == "ok" and self.is_corrected else self.outcome


@dataclass
class ReplyTally:
    """Counts for the files read so far."""

    on_invalid: Callable[[JSONObject], object] = lambda _reply: None
    """Called with every invalid reply, as plain JSON."""
    complete: bool = False
    """Whether all files were read."""
    replies: int = 0
    """Replies that were read."""
    invalid: int = 0
    """Replies that are invalid."""
    observed: int = 0
    """Invalid replies that were returned because calls were only observed, by the ledger."""
    by_code: Counter[str] = field(default_factory=Counter[str])
    """Replies by code; a code counts once for each reply."""
    by_model: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Counts of all replies and of invalid ones, by model."""
    by_tool: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Counts of all replies and of invalid ones, by tool."""
    by_tool_and_code: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """Replies by code, for each tool; the tool is the first one that the reply calls."""
    unreadable: list[JSONObject] = field(default_factory=list[JSONObject])
    """The lines without a reply, each with its file and the reason."""
    first: dict[str, str] = field(default_factory=dict[str, str])
    """File and line where each code was seen first."""
    empty: list[str] = field(default_factory=list[str])
    """The files without a reply."""
    causes: Counter[ReplyCause] = field(default_factory=Counter[ReplyCause])
    """Invalid replies by their cause."""
    observed_causes: Counter[ReplyCause] = field(default_factory=Counter[ReplyCause])
    """Invalid replies that were only observed, by their cause."""
    without_tools: int = 0
    """Replies that call a tool although neither their line nor the caller declares any."""
    calls: dict[str, CallState] = field(default_factory=dict[str, CallState])
    """The calls of ledgers, by their ids."""
    tokens: Counter[str] = field(default_factory=Counter[str])
    """Tokens of the attempts in ledgers: ``input`` and ``output``."""
    rejected_tokens: Counter[str] = field(default_factory=Counter[str])
    """Tokens of the attempts whose reply was rejected."""
    observed_tokens: Counter[str] = field(default_factory=Counter[str])
    """Tokens of the attempts whose invalid reply was returned because calls were only observed."""
    seconds: float = 0.0
    """Seconds that the attempts in ledgers took."""

    samples: dict[ReplyCause, list[tuple[str, JudgedLine]]] = field(default_factory=dict[Any, Any])
    """The first replies of each cause, each with its file and line."""

    def add(self, path: Path, judged: JudgedLine) -> None:
        """Count one line; a code counts once for each reply."""
        if judged.reason:
            entry = {"file": str(path), "line": judged.line, "reason": judged.reason}
            self.unreadable.append(entry)
            return

        if judged.entry is not None:
            self._add_attempt(judged.entry)
            if judged.entry.outcome == "failed":
                return

        self.replies += 1
        self.without_tools += judged.lacks_tools
        for rates, name in ((self.by_model, judged.model), (self.by_tool, judged.tool)):
            rate = rates.setdefault(name, {"replies": 0, "invalid": 0})
            rate["replies"] += 1
            rate["invalid"] += bool(judged.issues)

        for code in {str(issue["code"]) for issue in judged.issues}:
            self.by_code[code] += 1
            self.by_tool_and_code.setdefault(judged.tool, Counter())[code] += 1
            self.first.setdefault(code, f"{path.name}:{judged.line}")

        if not judged.issues:
            return

        self.invalid += 1
        where = {"file": str(path), "line": judged.line, "model": judged.model, "tool": judged.tool}
        told = judged.entry
        if told is not None:
            where |= {"call": told.call, "attempt": told.attempt, "outcome": told.outcome}
        self.on_invalid({**where, "issues": list(judged.issues)})

        cause = judged.cause
        self.observed += judged.is_observed
        if cause in self.causes or len(self.causes) < MAX_CAUSES:
            self.causes[cause] += 1
            self.observed_causes[cause] += judged.is_observed
            lines = self.samples.setdefault(cause, [])
            if judged.excerpt is not None and len(lines) < SHOWN_OF_A_CAUSE:
                lines.append((f"{path.name}:{judged.line}", judged))

    def _add_attempt(self, entry: LedgerEntry) -> None:
        self.seconds += entry.seconds
        self.tokens.update(entry.tokens)
        if entry.outcome == "rejected":
            self.rejected_tokens.update(entry.tokens)
        if entry.outcome == "observed":
            self.observed_tokens.update(entry.tokens)

        self.calls[entry.call] = self.calls.get(entry.call, CallState()).after(entry)

    @property
    def by_outcome(self) -> dict[str, int]:
        """How many calls of ledgers have each outcome; empty without a ledger.

        The outcomes are ``ok``, ``fixed`` (valid after a rejected reply), ``observed`` (an invalid
        reply was returned), ``rejected`` and ``failed``.
        """
        counts = Counter(call.word for call in self.calls.values())
        return {word: counts[word] for word in OUTCOMES if counts[word]}

    def codes(self) -> list[tuple[str, int]]:
        """Return how many replies have each code, sorted by number, then by code."""
        return sorted(self.by_code.items(), key=lambda one: (-one[1], one[0]))

    def tools_and_codes(self) -> list[tuple[str, str, int]]:
        """Return how many replies have each code, by tool, sorted by number, tool and code."""
        found = [
            (tool, code, count)
            for tool, codes in self.by_tool_and_code.items()
            for code, count in codes.items()
        ]
        return sorted(found, key=lambda one: (-one[2], one[0], one[1]))

    def rates(self) -> Iterator[tuple[str, dict[str, dict[str, int]]]]:
        """Yield the rates by model and by tool.

        They are sorted by the number of invalid replies, then of all replies, then by name.
        """

        def rank(one: tuple[str, dict[str, int]]) -> tuple[int, int, str]:
            name, rate = one
            return -rate["invalid"], -rate["replies"], name

        for kind, rates in (("model", self.by_model), ("tool", self.by_tool)):
            yield kind, dict(sorted(rates.items(), key=rank))

    @property
    def lacking(self) -> str:
        """What the replies without tools need, in words for a person."""
        one = self.without_tools == 1
        calling = "reply calls a tool" if one else "replies call tools"
        declaring = "its line" if one else "their lines"
        remedy = "declare them by --tools=FILE or --tools=module:name"
        return f"{self.without_tools} {calling}, and {declaring} declared none: {remedy}"

    @property
    def spent(self) -> dict[str, str]:
        """The tokens of the attempts in ledgers by what they were spent on, for a person."""
        spent = {
            "tokens": self.tokens,
            "tokens of rejected replies": self.rejected_tokens,
            "tokens of observed replies that would have been rejected": self.observed_tokens,
        }
        if not self.tokens.total():
            return {"tokens": "no usage was reported"}

        return {name: _words(tokens) for name, tokens in spent.items() if tokens}

    @staticmethod
    def label(kind: str, name: str) -> str:
        """Return the name of a model or a tool for a person; ``kind`` says which it is."""
        return f"(no {kind})" if name == NO_NAME else name

    def to_dict(self) -> JSONObject:
        """Return the counts as JSON-safe values, the most frequent first."""
        return {
            "complete": self.complete,
            "replies": self.replies,
            "valid": self.replies - self.invalid,
            "invalid": self.invalid,
            "by_code": dict(self.codes()),
            **{f"by_{kind}": rates for kind, rates in self.rates()},
            "by_tool_and_code": {
                tool: dict(codes.most_common()) for tool, codes in self.by_tool_and_code.items()
            },
            "observed": self.observed,
            "without_tools": self.without_tools,
            "calls": len(self.calls),
            "by_outcome": self.by_outcome,
            "tokens": _both(self.tokens),
            "rejected_tokens": _both(self.rejected_tokens),
            "observed_tokens": _both(self.observed_tokens),
            "seconds": round(self.seconds, 6),
            "unreadable": self.unreadable,
            "empty": self.empty,
        }


def _both(tokens: Counter[str]) -> dict[str, int]:
    return {name: tokens[name] for name in ("input", "output")}


def _words(tokens: Counter[str]) -> str:
    return f"{tokens['input']} in, {tokens['output']} out"
