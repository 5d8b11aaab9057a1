"""The results of a measurement: counts with their intervals, a table, JSON."""

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
"""Why a measurement ended early; empty if it did not."""


def wilson(good: int, of: int) -> tuple[float, float]:
    """Return the Wilson score interval of a share at 95 %, as two numbers from 0 to 1.

    It is 0 to 1 if nothing was counted (E. B. Wilson, JASA 22, 1927). Raises ValueError for a count
    below 0 or above ``of``.
    """
    if not 0 <= good <= of:
        raise ValueError(f"{good} of {of} is not a share")
    if of == 0:
        return 0.0, 1.0

    share = good / of
    square = Z_95**2 / of
    middle = (share + square / 2) / (1 + square)
    half = Z_95 / (1 + square) * math.sqrt(share * (1 - share) / of + square / (4 * of))

    # exactly 0 and 1, without rounding errors
    low = 0.0 if good == 0 else middle - half
    high = 1.0 if good == of else middle + half
    return low, high


@dataclass(frozen=True, slots=True)
class Recovery:
    """How often one style fixed the invalid first replies of one kind in one task."""

    task: str
    """The task of the rows."""
    kind: str
    """The code of the first fault of these replies; empty if several kinds are summed."""
    style: str
    """The style of the retries."""
    n: int
    """Number of invalid replies that it retried."""
    recovered: int
    """Number of retries with a valid reply."""
    prompt_tokens: int = 0
    """Tokens of these requests, as the server counted them."""
    completion_tokens: int = 0
    """Tokens of the replies to them."""
    seconds: float = 0.0
    """Seconds of these calls together."""
    refused: int = 0
    """Requests that the endpoint refused, for example for their ``response_format``."""

    @property
    def share(self) -> float:
        """The share of fixed replies, from 0 to 1; 0 if there were no retries."""
        return self.recovered / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson interval of the share at 95 %, from 0 to 1."""
        return wilson(self.recovered, self.n)

    @property
    def tokens_each(self) -> float:
        """Average tokens of one request and its reply; 0 if there were no retries."""
        return (self.prompt_tokens + self.completion_tokens) / max(self.n, 1)

    @property
    def seconds_each(self) -> float:
        """Average seconds of one call; 0 if there were no retries."""
        return self.seconds / max(self.n, 1)

    def to_dict(self) -> JSONObject:
        """Return the counts and the interval as JSON."""
        low, high = self.interval
        return {**asdict(self), "low": low, "high": high}

    def __add__(self, other: Recovery) -> Recovery:
        """Sum the counts; task, kind and style are those of the first."""
        return replace(self, **_summed(self, other))


@dataclass(frozen=True, slots=True)
class FirstReplies:
    """The counts of the first replies of one task."""

    task: str
    """The task of the rows."""
    n: int
    """Number of rows with a first reply."""
    valid: int
    """Number of valid first replies."""
    kinds: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of invalid ones by the code of their first fault."""
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
        """Sum the counts; the task is that of the first."""
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
    """How many first replies were valid, and which style of retry fixed the others.

    The comparison is paired: every style retried the same recorded replies. An invalid reply counts
    for no style if a call of any style failed. Add reports to combine several measurements.
    """

    model: str
    """The measured model."""
    first: tuple[FirstReplies, ...]
    """The first replies by task."""
    recoveries: tuple[Recovery, ...]
    """The results of each style, by task and by kind of fault."""
    rows: int = 0
    """Number of completely measured rows."""
    unfinished: int = 0
    """Number of other rows, because calls failed or the measurement stopped."""
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    """Failed calls of this run by kind; the next run with the journal repeats them."""
    requests: int = 0
    """Requests that this run sent; the other responses were in the journal."""
    stopped: Stop = ""
    """Why the measurement ended early: ``rows``, ``seconds`` or ``failures``; empty if not."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks, in the order of their first row."""
        return tuple(each.task for each in self.first)

    @property
    def styles(self) -> tuple[str, ...]:
        """The styles with retries, in order."""
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
        """Read the result of :meth:`to_dict`."""
        said = dict(value)
        first = [FirstReplies(**_own(FirstReplies, each)) for each in said.pop("first")]
        recoveries = [Recovery(**_own(Recovery, each)) for each in said.pop("recoveries")]
        return cls(first=tuple(first), recoveries=tuple(recoveries), **said)

    def __add__(self, other: MeasureReport) -> MeasureReport:
        """Combine two reports, for example of two tasks; the model is that of the first."""
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
        parts = [_table(("task", "rows", "valid first", "95 %", "issues"), firsts)]
        recovered = [_recovery_cells(each) for each in self.by_task()]
        if recovered:
            heads = (
                "task",
                "style",
                "retried",
                "recovered",
                "95 %",
                "tokens per retry",
                "seconds per retry",
            )
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
    """Return the members that are fields, without the intervals."""
    names = {each.name for each in fields(kind)}
    return {name: member for name, member in value.items() if name in names}


def _grouped(recoveries: Iterable[Recovery], names: Sequence[str]) -> tuple[Recovery, ...]:
    """Sum recoveries by these fields; other fields become empty."""
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
