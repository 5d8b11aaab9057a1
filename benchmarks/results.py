"""What a run of the benchmark measured, as ``results.json`` holds it.

How its figures are written is defined here as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
BATCH = "batch.json"
PROXY = "litellm_proxy.md"
"""What ``batch.py`` writes and ``litellm_proxy.py`` prints, kept beside ``results.json``."""

CURVE = "memory_megabytes_at_rows"

MILLI = 1e3
MICRO = 1e6

STREAMS = ("stream of 200 chunks", "stream of 2,000 chunks")
SOCKETS = "1,000 at once, over sockets"
MEMORY = "1,000 at once, in memory"
SESSION = "turn with a session in SQLite, wall"
IDLE = "idle durable worker, CPU a second"

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Results:
    """What one run measured: where, when, by which versions, and the lines of the environments."""

    about: Mapping[str, Any]
    environments: Mapping[str, Mapping[str, str]]
    lines: Sequence[Line]
    tokens: Mapping[str, Mapping[str, Sequence[int]]]
    batch: Mapping[str, Any] = field(default_factory=dict)
    proxy: str = ""

    @classmethod
    def read(cls, path: Path = RESULTS) -> Results:
        """Read the results of the last full run, and those of the batch and the proxy, if any."""
        batch = path.with_name(BATCH)
        proxy = path.with_name(PROXY)
        return cls(
            **json.loads(path.read_text(encoding="utf-8")),
            batch=json.loads(batch.read_text(encoding="utf-8")) if batch.exists() else {},
            proxy=proxy.read_text(encoding="utf-8").strip() if proxy.exists() else "",
        )

    @cached_property
    def ways(self) -> list[str]:
        """The columns in the order that they were measured in, without the raw SDK."""
        return list(dict.fromkeys(line["peer"] for line in self.lines if "malformed" in line))

    @cached_property
    def _found(self) -> dict[tuple[str, str], Line]:
        # The raw SDK was measured in every environment; the first one is ours.
        found: dict[tuple[str, str], Line] = {}
        for line in self.lines:
            if "row" in line:
                found.setdefault((line["row"], line["peer"]), line)

        return found

    def line(self, row: str, peer: str) -> Line:
        """Return the line of a cell, an empty one when there is none."""
        return self._found.get((row, peer), {})

    def ratio(self, row: str, peer: str = "reply") -> float | None:
        """Return the ratio of a cell to the raw SDK of its own process; None when there is none."""
        return self.line(row, peer).get("ratio")

    def seconds(self, row: str, peer: str = "reply") -> float | None:
        """Return the seconds of a cell."""
        return self.line(row, peer).get("seconds")

    def above(self, row: str, peer: str = "reply") -> float | None:
        """Return the seconds that a cell takes more than the raw SDK of its process."""
        line = self.line(row, peer)
        if line.get("ratio") is None:
            return None
        return float(line["seconds"] - line["seconds"] / line["ratio"])

    def above_kib(self, row: str, peer: str = "reply") -> float | None:
        """Return the KiB that a cell holds more than the raw SDK."""
        held = self.line(row, peer).get("kib")
        raw = self.line(row, "raw").get("kib")
        return None if held is None or raw is None else held - raw

    def proxy_above(self) -> float | None:
        """Return the milliseconds that the guard adds to the p99 of LiteLLM's proxy, unstreamed."""
        lines = [line for line in self.proxy.splitlines() if line.startswith("|")]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        found = {row[0]: row for row in rows}
        if not {"plain, the proxy alone", "plain, with the guard"} <= found.keys():
            return None

        place = rows[0].index("p99 ms")
        guarded = float(found["plain, with the guard"][place])
        return guarded - float(found["plain, the proxy alone"][place])

    def added(self, ask: str, peer: str = "reply") -> float | None:
        """Return the tokens that a retry adds to the messages."""
        counted = self.tokens.get(ask, {}).get(peer)
        return None if counted is None else counted[1] - counted[0]


def cells(results: Results, row: str, show: Callable[[Line], str]) -> list[str]:
    """Return the cells of a row, one for each way: a figure, or why there is none."""
    return [cell(results.line(row, way), show) for way in results.ways]


def cell(line: Line, show: Callable[[Line], str]) -> str:
    """Return a cell: its figure, or why there is none."""
    if why := line.get("why"):
        return f"- ({why})"
    return show(line) if line else "-"


def shown_ratio(line: Line) -> str:
    """Show a ratio with two digits that count."""
    ratio = line["ratio"]
    # a decimal of 12 says nothing
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"  # noqa: PLR2004


def shown_seconds(seconds: float) -> str:
    """Show a time in the unit that fits."""
    for unit, factor in (("s", 1.0), ("ms", MILLI)):
        if seconds * factor >= 1:
            return f"{seconds * factor:,.1f} {unit}"
    return f"{seconds * MICRO:,.0f} µs"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; its first column is of words."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)
