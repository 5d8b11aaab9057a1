"""What ``strictreply check`` found: counts by tool, model and issue code, and the first replies of each cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from strictreply.testing._harm import Harm
from strictreply.testing._recordings import NO_NAME
from strictreply.values._json import JSONObject

MAX_CAUSES = 200
"""So many causes are told apart: of a file of any size no more is kept."""
SHOWN_OF_A_CAUSE = 3  # replies


class JudgedLine(NamedTuple):
    """What was found in one line; ``reason`` says why it holds no reply, ``tool`` is the one that was called first.

    ``shown`` is for a page: an excerpt of the reply, and what would have been asked; of few replies with one cause.
    """

    line: int
    model: str = NO_NAME
    tool: str = NO_NAME
    issues: Sequence[JSONObject] = ()
    reason: str = ""
    shown: tuple[str, str] | None = None

    @property
    def cause(self) -> ReplyCause:
        """What invalid replies stand together by."""
        return ReplyCause(self.tool, tuple(sorted({str(issue["code"]) for issue in self.issues})))


class ReplyCause(NamedTuple):
    """The first tool that was called, and all that was wrong."""

    tool: str
    codes: tuple[str, ...]

    @property
    def harm(self) -> Harm:
        """What an app does that goes on with such a reply."""
        return min((Harm.accepting(code) for code in self.codes), key=lambda harm: harm.rank)


class ShownReply(NamedTuple):
    """An invalid reply on a page: where it was recorded, what was wrong, an excerpt, and what would have been asked."""

    where: str
    model: str
    faults: Sequence[str]
    reply: str
    asked: str


@dataclass
class CauseTally:
    """The replies of one cause: how many, and the first few."""

    replies: int = 0
    shown: list[ShownReply] = field(default_factory=list[ShownReply])


@dataclass
class ReplyTally:
    """What was found in the files read so far: counts, and of each code the place where it was seen first.

    ``by_model`` and ``by_tool`` count by name; ``empty`` are the files that held no reply. ``tell`` is given each
    invalid reply: none is kept but the few that a page shows of each cause.
    """

    tell: Callable[[JSONObject], None]
    complete: bool = False
    replies: int = 0
    invalid: int = 0
    by_code: Counter[str] = field(default_factory=Counter[str])
    by_model: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    by_tool: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    unreadable: list[JSONObject] = field(default_factory=list[JSONObject])
    first: dict[str, str] = field(default_factory=dict[str, str])
    empty: list[str] = field(default_factory=list[str])
    causes: dict[ReplyCause, CauseTally] = field(default_factory=dict["ReplyCause", "CauseTally"])

    def add(self, path: Path, judged: JudgedLine) -> None:
        """Count one line; a code counts once a reply."""
        if judged.reason:
            self.unreadable.append({"file": str(path), "line": judged.line, "reason": judged.reason})
            return
        self.replies += 1
        for rates, name in ((self.by_model, judged.model), (self.by_tool, judged.tool)):
            rate = rates.setdefault(name, {"replies": 0, "invalid": 0})
            rate["replies"] += 1
            rate["invalid"] += bool(judged.issues)
        for code in {str(issue["code"]) for issue in judged.issues}:
            self.by_code[code] += 1
            self.first.setdefault(code, f"{path.name}:{judged.line}")
        if judged.issues:
            self.invalid += 1
            where = {"file": str(path), "line": judged.line, "model": judged.model, "tool": judged.tool}
            self.tell({**where, "issues": list(judged.issues)})
            self._add_cause(path, judged)

    def _add_cause(self, path: Path, judged: JudgedLine) -> None:
        if judged.cause in self.causes or len(self.causes) < MAX_CAUSES:
            cause = self.causes.setdefault(judged.cause, CauseTally())
            cause.replies += 1
            if judged.shown is not None and len(cause.shown) < SHOWN_OF_A_CAUSE:
                faults = [f"{issue['path'] or 'the whole'}: {issue['message']}" for issue in judged.issues]
                cause.shown.append(ShownReply(f"{path.name}:{judged.line}", judged.model, faults, *judged.shown))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON-safe values, the most frequent first."""
        return {
            "complete": self.complete,
            "replies": self.replies,
            "valid": self.replies - self.invalid,
            "invalid": self.invalid,
            "by_code": dict(self.by_code.most_common()),
            "by_model": worst_first(self.by_model),
            "by_tool": worst_first(self.by_tool),
            "unreadable": self.unreadable,
            "empty": self.empty,
        }


def worst_first(rates: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Sort rates by what was invalid, then by how many there were, then by name."""
    order = sorted(rates.items(), key=lambda pair: (-pair[1]["invalid"], -pair[1]["replies"], pair[0]))
    return dict(order)
