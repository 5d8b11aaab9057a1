"""What was measured, as values: counts with their intervals, a table, JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self

from strictreply.core import JSONObject
from strictreply.core.text import printable

Z_95 = 1.959963984540054
"""The standard normal quantile of 97.5 %: an interval of 95 % leaves 2.5 % on each side."""

Stop = Literal["", "rows", "seconds", "failures"]
"""Why a measurement ended before its rows did; empty where it did not."""


def wilson(good: int, of: int) -> tuple[float, float]:
    """Return the Wilson score interval of a share at 95 %, as two numbers from 0 to 1.

    It is 0 to 1 where nothing was counted (E. B. Wilson, JASA 22, 1927). Raises ValueError for a
    count below 0 or above ``of``.
    """
    if not 0 <= good <= of:
        raise ValueError(f"{good} of {of} is no share")
    if of == 0:
        return 0.0, 1.0

    share = good / of
    square = Z_95**2 / of
    middle = (share + square / 2) / (1 + square)
    half = Z_95 / (1 + square) * math.sqrt(share * (1 - share) / of + square / (4 * of))

    # exactly 0 and 1 where rounding would leave a trace
    low = 0.0 if good == 0 else middle - half
    high = 1.0 if good == of else middle + half
    return low, high


@dataclass(frozen=True, slots=True)
class Recovery:
    """How often one style fixed the bad first replies of one kind in one task."""

    task: str
    """The task of the rows."""
    kind: str
    """The code of the first fault of these replies; empty where several kinds are summed."""
    style: str
    """The style that asked again."""
    n: int
    """Bad replies that it asked again."""
    recovered: int
    """Those after which the reply fitted."""
    prompt_tokens: int = 0
    """Tokens of these requests, as the server counted them."""
    completion_tokens: int = 0
    """Tokens of the replies to them."""
    seconds: float = 0.0
    """Seconds of these calls together."""
    refused: int = 0
    """Requests that the endpoint refused, such as for their ``response_format``: not recovered."""

    @property
    def share(self) -> float:
        """The share that was recovered, from 0 to 1; 0 where nothing was asked."""
        return self.recovered / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson interval of the share at 95 %, from 0 to 1."""
        return wilson(self.recovered, self.n)

    @property
    def tokens_each(self) -> float:
        """Tokens of one request and its reply on average; 0 where nothing was asked."""
        return (self.prompt_tokens + self.completion_tokens) / max(self.n, 1)

    @property
    def seconds_each(self) -> float:
        """Seconds of one call on average; 0 where nothing was asked."""
        return self.seconds / max(self.n, 1)

    def to_dict(self) -> JSONObject:
        """Return the counts and the interval as JSON."""
        low, high = self.interval
        return {**asdict(self), "low": low, "high": high}

    def __add__(self, other: Recovery) -> Recovery:
        """Sum the counts of two; what they are about is that of the first."""
        return replace(self, **_summed(self, other))


@dataclass(frozen=True, slots=True)
class FirstReplies:
    """What the first replies of one task came to."""

    task: str
    """The task of the rows."""
    n: int
    """Rows with a first reply."""
    valid: int
    """Those whose first reply fitted."""
    kinds: Mapping[str, int] = field(default_factory=dict[str, int])
    """The others by the code of their first fault."""
    prompt_tokens: int = 0
    """Tokens of the first requests, as the server counted them."""
    completion_tokens: int = 0
    """Tokens of the first replies."""
    seconds: float = 0.0
    """Seconds of the first calls together."""

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson interval of the valid share at 95 %, from 0 to 1."""
        return wilson(self.valid, self.n)

    def to_dict(self) -> JSONObject:
        """Return the counts and the interval as JSON."""
        low, high = self.interval
        return {**asdict(self), "kinds": dict(self.kinds), "low": low, "high": high}

    def __add__(self, other: FirstReplies) -> FirstReplies:
        """Sum the counts of two; the task is that of the first."""
        kinds = dict(self.kinds)
        for kind, count in other.kinds.items():
            kinds[kind] = kinds.get(kind, 0) + count

        return replace(self, **_summed(self, other), kinds=kinds)


def _summed(one: Any, other: Any) -> dict[str, Any]:
    """Return the sums of the numbers of two values."""
    numbers = [
        each.name for each in fields(one) if isinstance(getattr(one, each.name), int | float)
    ]
    return {name: getattr(one, name) + getattr(other, name) for name in numbers}


@dataclass(frozen=True, slots=True)
class MeasureReport:
    """What the first replies of rows came to, and which style of asking again fixed bad ones.

    It is paired: every style asked again for the same recorded replies. A bad reply at which a
    call of any style failed counts for no style. Reports of several measurements are added.
    """

    model: str
    """The model that was asked."""
    first: tuple[FirstReplies, ...]
    """The first replies by task."""
    recoveries: tuple[Recovery, ...]
    """What each style came to, by task and by kind of fault."""
    rows: int = 0
    """Rows that were measured to the end."""
    unfinished: int = 0
    """Rows that were not, as calls failed or the measurement stopped."""
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    """Calls that failed in this run, by what failed; the next run with the journal repeats them."""
    requests: int = 0
    """Requests that were sent in this run; the others were in the journal."""
    stopped: Stop = ""
    """Why the measurement ended early: ``rows``, ``seconds`` or ``failures``; empty if not."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in the order of their first row."""
        return tuple(each.task for each in self.first)

    @property
    def styles(self) -> tuple[str, ...]:
        """The styles that asked again, in their order."""
        return tuple(dict.fromkeys(each.style for each in self.recoveries))

    def by_task(self) -> tuple[Recovery, ...]:
        """Sum the recoveries over the kinds of faults."""
        return _grouped(self.recoveries, ("task", "style"))

    def by_style(self) -> tuple[Recovery, ...]:
        """Sum the recoveries over the tasks and the kinds of faults."""
        return _grouped(self.recoveries, ("style",))

    def by_kind(self) -> tuple[Recovery, ...]:
        """Sum the recoveries over the tasks."""
        return _grouped(self.recoveries, ("kind", "style"))

    def to_dict(self) -> JSONObject:
        """Return everything as JSON; :meth:`from_dict` reads it."""
        return {
            "model": self.model,
            "rows": self.rows,
            "unfinished": self.unfinished,
            "requests": self.requests,
            "failures": dict(self.failures),
            "stopped": self.stopped,
            "first": [each.to_dict() for each in self.first],
            "recoveries": [each.to_dict() for each in self.recoveries],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` has written."""
        said = dict(value)
        first = [FirstReplies(**_own(FirstReplies, each)) for each in said.pop("first")]
        recoveries = [Recovery(**_own(Recovery, each)) for each in said.pop("recoveries")]
        return cls(first=tuple(first), recoveries=tuple(recoveries), **said)

    def __add__(self, other: MeasureReport) -> MeasureReport:
        """Put two reports together, as of several tasks; the model is that of the first."""
        failures = dict(self.failures)
        for kind, count in other.failures.items():
            failures[kind] = failures.get(kind, 0) + count

        return MeasureReport(
            model=self.model,
            first=_summed_firsts((*self.first, *other.first)),
            recoveries=_grouped((*self.recoveries, *other.recoveries), ("task", "kind", "style")),
            rows=self.rows + other.rows,
            unfinished=self.unfinished + other.unfinished,
            failures=failures,
            requests=self.requests + other.requests,
            stopped=self.stopped or other.stopped,
        )

    def __str__(self) -> str:
        """Return the tables for a terminal."""
        firsts = [_first_cells(each) for each in self.first]
        parts = [_table(("task", "rows", "valid first", "95 %", "faults"), firsts)]
        recovered = [_recovery_cells(each) for each in self.by_task()]
        if recovered:
            heads = ("task", "style", "asked", "recovered", "95 %", "tokens each", "seconds each")
            parts.append(_table(heads, recovered))

        refused = [one for one in self.by_style() if one.refused]
        if refused:
            said = ", ".join(f"{one.refused} of {one.style}" for one in refused)
            parts.append(f"requests that the endpoint refused: {said}")
        if self.failures:
            said = ", ".join(f"{count} {kind}" for kind, count in self.failures.items())
            parts.append(f"failed calls: {said}")
        if self.unfinished:
            parts.append(f"rows measured only in part: {self.unfinished}")

        return "\n\n".join(parts)


def _own(kind: type, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a value that are fields, which leaves out the intervals."""
    names = {each.name for each in fields(kind)}
    return {name: member for name, member in value.items() if name in names}


def _grouped(recoveries: Iterable[Recovery], names: Sequence[str]) -> tuple[Recovery, ...]:
    """Sum recoveries that are about the same; what they are not grouped by is emptied."""
    found: dict[tuple[str, ...], Recovery] = {}

    for each in recoveries:
        key = tuple(getattr(each, name) for name in names)
        task = each.task if "task" in names else ""
        one = replace(each, task=task, kind=each.kind if "kind" in names else "")
        found[key] = found[key] + one if key in found else one

    return tuple(found.values())


def _summed_firsts(firsts: Iterable[FirstReplies]) -> tuple[FirstReplies, ...]:
    found: dict[str, FirstReplies] = {}
    for each in firsts:
        found[each.task] = found[each.task] + each if each.task in found else each

    return tuple(found.values())


def percent(interval: tuple[float, float]) -> str:
    """Return an interval in whole percent: ``12-34 %``."""
    low, high = interval
    return f"{100 * low:.0f}-{100 * high:.0f} %"


def _first_cells(first: FirstReplies) -> tuple[str, ...]:
    kinds = sorted(first.kinds.items(), key=lambda item: -item[1])
    said = ", ".join(f"{count} {kind}" for kind, count in kinds)
    return first.task, str(first.n), str(first.valid), percent(first.interval), said


def _recovery_cells(one: Recovery) -> tuple[str, ...]:
    counts = (str(one.n), str(one.recovered), percent(one.interval))
    costs = (f"{one.tokens_each:.0f}", f"{one.seconds_each:.2f}")
    return one.task, one.style, *counts, *costs


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table of text, its columns two spaces apart."""
    lines = [[printable(cell) for cell in line] for line in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
