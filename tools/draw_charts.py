"""Draw the charts of the pages: ``python tools/draw_charts.py`` writes docs/*.svg anew.

Survival is drawn from its page's own table, costs from what ``make bench`` measured
(benchmarks/results.json), the memory of a batch from benchmarks/batch.json, calls by outcome from
what a Prometheus scraped (benchmarks/scraped.json, which ``make scrape`` writes).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results.json"
BATCH = ROOT / "benchmarks" / "batch.json"
SCRAPED = ROOT / "benchmarks" / "scraped.json"
COLOURS = {
    "accepted": "#c02b2b",
    "leaked": "#c2258e",
    "hung": "#8250c4",
    "looped": "#5b4fc9",
    "crashed": "#d9730d",
    "answered without tool": "#9a7b12",
    "misbehaved": "#8a5a2b",
    "unknown": "#a3761c",
    "gave nothing": "#4a77b4",
    "read as meant": "#7fb069",
    "clean error": "#2d8a4e",
    "rejected": "#c02b2b",
    "halted": "#8250c4",
    "failed": "#d9730d",
    "observed": "#c2258e",
    "fixed": "#4a77b4",
    "ok": "#2d8a4e",
    "unjudged": "#9a7b12",
    "abandoned": "#97a2b5",
    "cost": "#4a77b4",
    "ours": "#2d8a4e",
}
OUTCOMES = ("ok", "fixed", "observed", "rejected", "halted", "failed", "unjudged", "abandoned")
OURS = frozenset({"reply", "reply, dict tool", "create"})
STYLE = (
    "text { font: 13px system-ui, sans-serif; fill: #1c2330 } "
    ".soft { fill: #5d6778 } line { stroke: #97a2b5 }"
    "@media (prefers-color-scheme: dark) { text { fill: #e4e9f1 } .soft { fill: #97a2b5 } }"
)
ROW = 26
BAR = 16


@dataclass(frozen=True, slots=True)
class Layout:
    """How wide a chart of bars is, and how much of it the names take, in pixels."""

    width: int
    names: int


WIDE = Layout(800, 250)
NARROW = Layout(400, 190)


def rows_of(page: str, heading: str) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the first table of a page below some words."""
    below = (DOCS / page).read_text(encoding="utf-8").partition(heading)[2]
    lines = re.search(r"(?:^\|.*\n)+", below, flags=re.MULTILINE)
    if lines is None:
        raise ValueError(f"docs/{page} has no table below {heading!r}")

    cells = [line.strip("|").split("|") for line in lines[0].splitlines()]
    head, _, *rows = ([cell.strip() for cell in row] for row in cells)
    return head, rows


def survival() -> str:
    """Draw the outcomes of each app under malformed replies."""
    head, rows = rows_of("survival.md", "<!-- survival:begin -->")
    columns = {name: head.index(name) for name in COLOURS if name in head}

    apps: dict[str, Mapping[str, float]] = {}
    for row in rows:
        app = re.sub(r"\[`(.*?)`\].*", r"\1", row[0])
        apps[app] = {name: int(row[place]) for name, place in columns.items()}

    whole = max(sum(parts.values()) for parts in apps.values())
    title = "Malformed replies by what each app did; the number counts what none should do"
    return drawn(title, apps, whole, [*columns])


def costs(row: str, title: str) -> str:
    """Draw a row of the benchmark: each way of it beside the raw SDK, whose cost is 1."""
    lines = json.loads(RESULTS.read_text(encoding="utf-8"))["lines"]
    bars: dict[str, Mapping[str, float]] = {"raw SDK": {"cost": 1.0}}

    for line in lines:
        if line.get("row") == row and "ratio" in line and line["peer"] != "raw":
            part = "ours" if line["peer"] in OURS else "cost"
            bars[line["peer"]] = {part: round(line["ratio"], 2)}

    whole = max(value for parts in bars.values() for value in parts.values())
    return drawn(title, bars, whole, [], NARROW)


def batch_memory() -> str:
    """Draw the memory of a batch over its rows, from its results: pairs of rows and MB."""
    points = json.loads(BATCH.read_text(encoding="utf-8"))["memory_megabytes_at_rows"]
    most_rows = max(rows for rows, _ in points)
    most = max(mib for _, mib in points)

    left = 48.0
    top = 34.0
    width = 336.0
    height = 150.0
    title = "Memory of a batch, MB over rows"
    svg = _opened(NARROW.width, int(top + height) + 30, title)
    _text(svg, 8, 20, title)

    for share in (0.0, 0.5, 1.0):
        y = top + height * (1 - share)
        ET.SubElement(svg, "line", x1=f"{left}", y1=f"{y}", x2=f"{left + width}", y2=f"{y}")
        _text(svg, 8, y + 4, f"{most * share:.0f}", soft=True)
        x = left + (width - 48) * share
        _text(svg, x, top + height + 20, f"{most_rows * share:,.0f}", soft=True)

    places = [
        f"{left + width * rows / most_rows:.1f},{top + height * (1 - mib / most):.1f}"
        for rows, mib in points
    ]
    line = {"points": " ".join(places), "fill": "none", "stroke": COLOURS["ours"]}
    ET.SubElement(svg, "polyline", line)
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def scraped() -> str:
    """Draw the calls of each model by their outcome, as a Prometheus has them."""
    models = json.loads(SCRAPED.read_text(encoding="utf-8"))
    bars: dict[str, Mapping[str, float]] = {
        model: {name: counts[name] for name in OUTCOMES if name in counts}
        for model, counts in models.items()
    }

    whole = max(sum(parts.values()) for parts in bars.values())
    title = "Calls by outcome, as a Prometheus scraped them; the number counts those not ok"
    return drawn(title, bars, whole, OUTCOMES)


def drawn(
    title: str,
    bars: Mapping[str, Mapping[str, float]],
    whole: float,
    legend: Sequence[str],
    layout: Layout = WIDE,
) -> str:
    """Draw named bars of coloured parts, all on one scale."""
    lines = [*_legend(legend, layout.width)]
    top = 34 + 22 * (1 + max((row for row, _, _ in lines), default=-1))
    height = top + ROW * len(bars) + 8
    svg = _opened(layout.width, height, title)
    _text(svg, 8, 20, title)

    for row, x, name in lines:
        ET.SubElement(
            svg, "rect", x=str(x), y=str(34 + 22 * row), width="11", height="11", fill=COLOURS[name]
        )
        _text(svg, x + 16, 44 + 22 * row, name, soft=True)

    for number, (name, parts) in enumerate(bars.items()):
        at: float = layout.names
        y = top + ROW * number
        _text(svg, 8, y + 13, name)

        for part, value in parts.items():
            width = (layout.width - layout.names - 60) * value / whole
            shape = {
                "x": f"{at:.1f}",
                "y": str(y),
                "width": f"{width:.1f}",
                "height": str(BAR),
                "fill": COLOURS[part],
            }
            bar = ET.SubElement(svg, "rect", shape)
            ET.SubElement(bar, "title").text = f"{name}: {part} {value:g}"
            at += width

        harmless = {"clean error", "gave nothing", "ok"}
        bad = sum(value for part, value in parts.items() if part not in harmless)
        _text(svg, at + 6, y + 13, f"{bad:g}", soft=True)

    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def _opened(width: int, height: int, title: str) -> ET.Element:
    svg = ET.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width} {height}", role="img"
    )
    svg.set("width", str(width))  # without one a page shows it as wide as itself
    ET.SubElement(svg, "title").text = title
    ET.SubElement(svg, "style").text = STYLE
    return svg


def _legend(names: Sequence[str], width: int) -> Iterator[tuple[int, int, str]]:
    row = 0
    x = 8

    for name in names:
        room = 34 + 7 * len(name)
        if x + room > width:
            row += 1
            x = 8

        yield row, x, name
        x += room


def _text(svg: ET.Element, x: float, y: float, words: str, *, soft: bool = False) -> None:
    attributes = {"x": f"{x:.1f}", "y": str(y)}
    if soft:
        attributes["class"] = "soft"
    ET.SubElement(svg, "text", attributes).text = words


CHARTS: dict[str, Callable[[], str]] = {
    "survival.svg": survival,
    "costs.svg": partial(costs, "realistic", "CPU of a validated call; a raw one is 1"),
    "costs-retry.svg": partial(
        costs, "realistic, one retry", "CPU of a call with one retry; two raw calls are 1"
    ),
}
CHARTS["metrics.svg"] = scraped
if BATCH.exists():
    CHARTS["batch-memory.svg"] = batch_memory

if __name__ == "__main__":
    for name, draw in CHARTS.items():
        (DOCS / name).write_text(draw(), encoding="utf-8")
