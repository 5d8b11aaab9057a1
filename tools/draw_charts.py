"""Draw the charts of the pages from their own tables: ``python tools/draw_charts.py`` writes docs/*.svg anew."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

DOCS = Path(__file__).resolve().parents[1] / "docs"
COLOURS = {
    "accepted": "#c02b2b",
    "leaked": "#c2258e",
    "hung": "#8250c4",
    "looped": "#5b4fc9",
    "crashed": "#d9730d",
    "answered without tool": "#9a7b12",
    "misbehaved": "#8a5a2b",
    "gave nothing": "#4a77b4",
    "clean error": "#2d8a4e",
    "cost": "#4a77b4",
}
STYLE = (
    "text { font: 13px system-ui, sans-serif; fill: #1c2330 } .soft { fill: #5d6778 } line { stroke: #97a2b5 }"
    "@media (prefers-color-scheme: dark) { text { fill: #e4e9f1 } .soft { fill: #97a2b5 } }"
)
WIDTH, NAMES, ROW, BAR = 800, 250, 26, 16


def rows_of(page: str, heading: str) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the first table of a page below some words."""
    below = (DOCS / page).read_text(encoding="utf-8").partition(heading)[2]
    lines = re.search(r"(?:^\|.*\n)+", below, flags=re.MULTILINE)
    if lines is None:
        raise ValueError(f"docs/{page} has no table below {heading!r}")
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines())
    return head, rows


def survival() -> str:
    """Draw what became of each app under malformed replies."""
    head, rows = rows_of("survival.md", "<!-- survival:begin -->")
    columns = {name: head.index(name) for name in COLOURS if name in head}
    apps: dict[str, Mapping[str, float]] = {
        re.sub(r"\[`(.*?)`\].*", r"\1", row[0]): {name: int(row[place]) for name, place in columns.items()}
        for row in rows
    }
    whole = max(sum(parts.values()) for parts in apps.values())
    return drawn(
        "Malformed replies by what each app did; the number counts what none should do", apps, whole, [*columns]
    )


def costs() -> str:
    """Draw what a validated call costs beside a raw one."""
    head, rows = rows_of("guide.md", "## What it costs")
    bars: dict[str, Mapping[str, float]] = {"raw SDK call": {"cost": 1.0}}
    for row in rows:
        messages, tools = row[0].split(", ")
        for name, cell in zip(head[1:3], row[1:3], strict=True):
            label = f"{name.strip('`').rpartition('.')[2]}: {messages} messages, {tools} tool{'s' * (tools != '1')}"
            bars[label] = {"cost": float(cell.split()[0])}
    return drawn("CPU time of a validated call; the raw SDK call of the same run is 1", bars, 1.0, [])


def drawn(title: str, bars: Mapping[str, Mapping[str, float]], whole: float, legend: Sequence[str]) -> str:
    """Draw named bars of coloured parts, all on one scale."""
    lines = [*_legend(legend)]
    top = 34 + 22 * (1 + max((row for row, _, _ in lines), default=-1))
    height = top + ROW * len(bars) + 8
    svg = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {height}", role="img")
    ET.SubElement(svg, "title").text = title
    ET.SubElement(svg, "style").text = STYLE
    _text(svg, 8, 20, title)
    for row, x, name in lines:
        ET.SubElement(svg, "rect", x=str(x), y=str(34 + 22 * row), width="11", height="11", fill=COLOURS[name])
        _text(svg, x + 16, 44 + 22 * row, name, soft=True)
    for number, (name, parts) in enumerate(bars.items()):
        at: float = NAMES
        y = top + ROW * number
        _text(svg, 8, y + 13, name)
        for part, value in parts.items():
            width = (WIDTH - NAMES - 60) * value / whole
            shape = {"x": f"{at:.1f}", "y": str(y), "width": f"{width:.1f}", "height": str(BAR), "fill": COLOURS[part]}
            bar = ET.SubElement(svg, "rect", shape)
            ET.SubElement(bar, "title").text = f"{name}: {part} {value:g}"
            at += width
        bad = sum(value for part, value in parts.items() if part not in {"clean error", "gave nothing"})
        _text(svg, at + 6, y + 13, f"{bad:g}", soft=True)
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def _legend(names: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    row, x = 0, 8
    for name in names:
        width = 34 + 7 * len(name)
        if x + width > WIDTH:
            row, x = row + 1, 8
        yield row, x, name
        x += width


def _text(svg: ET.Element, x: float, y: float, words: str, *, soft: bool = False) -> None:
    ET.SubElement(svg, "text", {"x": f"{x:.1f}", "y": str(y), **({"class": "soft"} if soft else {})}).text = words


CHARTS = {"survival.svg": survival, "costs.svg": costs}

if __name__ == "__main__":
    for name, draw in CHARTS.items():
        (DOCS / name).write_text(draw(), encoding="utf-8")
