"""What ``strictreply check`` counts: replies and faults by code, model and tool."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from strictreply.testing._recordings import Checked, Unreadable
from strictreply.values._replies import Invalid

Judged: TypeAlias = Checked | Unreadable

Rates: TypeAlias = dict[str, dict[str, int]]
"""For each name how many ``replies`` were seen and how many were ``invalid``, most invalid first."""


@dataclass
class Tally:
    """What was found in the files read so far; ``complete`` once all of them were read."""

    complete: bool = False
    replies: int = 0
    invalid: list[dict[str, Any]] = field(default_factory=list)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    models: Counter[str] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    bad_models: Counter[str] = field(default_factory=Counter)
    bad_tools: Counter[str] = field(default_factory=Counter)

    def add(self, path: Path, judged: Judged) -> None:
        """Count one line."""
        if isinstance(judged, Unreadable):
            self.unreadable.append({"file": str(path), "line": judged.line, "reason": judged.reason})
            return
        model, tool = judged.recording.model, judged.recording.called
        self.replies += 1
        self.models[model] += 1
        self.tools[tool] += 1
        if isinstance(judged.verdict, Invalid):
            self.bad_models[model] += 1
            self.bad_tools[tool] += 1
            self._add_invalid(path, judged, judged.verdict)

    def _add_invalid(self, path: Path, checked: Checked, verdict: Invalid) -> None:
        """Keep the faults of one reply; a code counts once a reply."""
        for code in {issue.code for issue in verdict.issues}:
            self.codes[code] += 1
            self.first.setdefault(code, f"{path.name}:{checked.line}")
        named = {"model": checked.recording.model, "tool": checked.recording.called}
        issues = [issue.to_dict() for issue in verdict.issues]
        self.invalid.append({"file": str(path), "line": checked.line, **named, "issues": issues})

    @property
    def by_model(self) -> Rates:
        """The rates of each model."""
        return _rates(self.models, self.bad_models)

    @property
    def by_tool(self) -> Rates:
        """The rates of each tool that was called first in a reply."""
        return _rates(self.tools, self.bad_tools)

    def to_dict(self) -> dict[str, Any]:
        """Give everything as JSON-safe values."""
        return {
            "complete": self.complete,
            "replies": self.replies,
            "valid": self.replies - len(self.invalid),
            "invalid": len(self.invalid),
            "by_code": dict(self.codes.most_common()),
            "by_model": self.by_model,
            "by_tool": self.by_tool,
            "unreadable": self.unreadable,
            "invalid_replies": self.invalid,
        }


def _rates(seen: Counter[str], bad: Counter[str]) -> Rates:
    """Set what was seen beside what was bad."""
    order = sorted(seen, key=lambda name: (-bad[name], -seen[name], name))
    return {name: {"replies": seen[name], "invalid": bad[name]} for name in order}
