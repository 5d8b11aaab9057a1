"""Rewrite the tables of docs/recovery.md and its chart from the measured results.

``benchmarks/recovery/results.json`` is written by ``make measure``, ``said.json`` by
``benchmarks/recovery/words.py``. A test fails while the page and they differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from strictreply import MeasureReport
from strictreply.measuring import Recovery, percent
from strictreply.testing.recovery import recovery_chart

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "benchmarks" / "recovery"
RESULTS = MEASURED / "results.json"
SAID = MEASURED / "said.json"
PAGE = ROOT / "docs" / "recovery.md"
CHART = ROOT / "docs" / "recovery.svg"


def report() -> MeasureReport:
    """Read the measured results."""
    written = json.loads(RESULTS.read_text("utf-8"))
    written.pop("how")
    return MeasureReport.from_dict(written)


def table(heads: Sequence[str], rows: Iterator[Sequence[object]], texts: int = 2) -> str:
    """Write a Markdown table; the first ``texts`` columns are text, the others numbers."""
    rules = [*["---"] * texts, *["--:"] * (len(heads) - texts)]
    lines = (heads, rules, *rows)
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def first_rows(found: MeasureReport) -> Iterator[Sequence[object]]:
    """Yield a row for the first replies of each task."""
    for first in found.first:
        kinds = sorted(first.kinds.items(), key=lambda item: -item[1])
        said = ", ".join(f"{count} `{kind}`" for kind, count in kinds)
        yield first.task, said, first.n, first.valid, percent(first.interval)


def recovered(rows: Sequence[Recovery], name: str) -> Iterator[Sequence[object]]:
    """Yield a row for each style, with the field ``name`` in the first column."""
    for one in rows:
        about = f"`{one.kind}`" if name == "kind" else one.task
        counts = (one.n, one.recovered, percent(one.interval))
        costs = (f"{one.tokens_each:.0f}", f"{one.seconds_each:.1f}")
        yield about, f"`{one.style}`", *counts, *costs


def measured() -> str:
    """Return the part of the page with the measured results."""
    found = report()
    how = json.loads(RESULTS.read_text("utf-8"))["how"]
    heads = ("retried", "recovered", "95 %", "tokens per retry", "seconds per retry")
    kinds = tuple(sorted(found.by_kind(), key=lambda one: one.kind))
    unfinished = f"; {found.unfinished} more are unfinished" * bool(found.unfinished)
    failed = sum(found.failures.values())
    words = (
        f"{found.rows} rows{unfinished}, {failed} calls failed; model {found.model}, "
        f"temperature {how['temperature']}, seed {how['seed']}, {how['date']}: `make measure`."
    )
    return "\n".join(
        (
            table(("task", "issues of first replies", "rows", "valid", "95 %"), first_rows(found)),
            "![Bad first replies that one more request fixed, by style](recovery.svg)\n",
            table(("task", "style", *heads), recovered(found.by_task(), "task")),
            "By the first issue of the first reply:\n",
            table(("issue", "style", *heads), recovered(kinds, "kind")),
            f"{words} Intervals are Wilson's.\n",
        )
    )


def said() -> str:
    """Return the part of the page with the length of each style."""
    styles = json.loads(SAID.read_text("utf-8"))["styles"]
    rows = (
        (f"`{name}`", one["n"], f"{one['tokens']:.0f}", one["most"], one["echoes"])
        for name, one in styles.items()
    )
    heads = ("style", "replies", "tokens (median)", "maximum", "with text of the model")
    return table(heads, rows, 1)


def page(text: str) -> str:
    """Return the page with both parts filled in."""
    for name, part in (("recovery", measured()), ("said", said())):
        text = re.sub(
            rf"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)",
            lambda found, part=part: f"{found[1]}{part}{found[2]}",  # type: ignore[misc]
            text,
            flags=re.DOTALL,
        )

    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    CHART.write_text(recovery_chart(report()), "utf-8")
