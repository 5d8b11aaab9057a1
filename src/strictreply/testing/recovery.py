"""Show the results of :func:`strictreply.measure` as a chart and as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from strictreply import MeasureReport
from strictreply.measuring import FirstReplies, Recovery, percent
from strictreply.testing import _html as html
from strictreply.testing._html import element

__all__ = ["recovery_chart", "recovery_page"]

_WIDTH = 800  # pixels
_NAMES = 190
_ROW = 24
_BAR = 14
_RIGHT = 130
_STYLE = (
    "text { font: 13px system-ui, sans-serif; fill: #1c2330 } .soft { fill: #5d6778 } "
    "rect { fill: #2d8a4e } line { stroke: #1c2330 } "
    "@media (prefers-color-scheme: dark) { text { fill: #e4e9f1 } .soft { fill: #97a2b5 } "
    "line { stroke: #e4e9f1 } }"
)


def recovery_chart(report: MeasureReport) -> str:
    """Return a chart of the share of bad replies that each style fixed, by task, as SVG text.

    A line across a bar is the Wilson interval at 95 %.
    """
    tree = _chart(report)
    ET.indent(tree)
    return ET.tostring(tree, encoding="unicode") + "\n"


def recovery_page(report: MeasureReport) -> str:
    """Return a report as one HTML page without external resources."""
    facts = {
        "Model": report.model,
        "Rows": str(report.rows),
        "Unfinished rows": str(report.unfinished or ""),
        "Failed calls": ", ".join(f"{count} {kind}" for kind, count in report.failures.items()),
    }
    chart = element("figure", _chart(report))
    firsts = (_first_row(each) for each in report.first)
    recovered = (_recovery_row(each) for each in report.by_task())
    kinds = (_recovery_row(each) for each in report.by_kind())
    heads = ("style", "retried", "recovered", "95 %", "tokens per retry", "seconds per retry")

    return html.page(
        "Recovery of bad replies",
        html.facts(facts),
        element("h2", "First replies"),
        html.findings(("task", "rows", "valid", "95 %", "issues"), firsts),
        element("h2", "Recovered by one more request"),
        chart,
        html.findings(("task", *heads), recovered),
        element("h2", "By the first issue"),
        html.findings(("first issue", *heads), kinds),
        element("footer", "All styles retried the same recorded replies."),
    )


def _first_row(first: FirstReplies) -> ET.Element:
    said = ", ".join(f"{count} {kind}" for kind, count in first.kinds.items())
    cells = (first.task, str(first.n), str(first.valid), percent(first.interval), said)
    return html.row("td", *cells)


def _recovery_row(one: Recovery) -> ET.Element:
    counts = (str(one.n), str(one.recovered), percent(one.interval))
    cells = (one.task or one.kind, one.style, *counts)
    return html.row("td", *cells, f"{one.tokens_each:.0f}", f"{one.seconds_each:.2f}")


def _chart(report: MeasureReport) -> ET.Element:
    shown = list(_rows(report))
    height = 40 + _ROW * len(shown)
    title = "Bad first replies that one more request fixed; a line is the interval at 95 %"
    svg = ET.Element(
        "svg", xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {_WIDTH} {height}", role="img"
    )
    ET.SubElement(svg, "title").text = title
    ET.SubElement(svg, "style").text = _STYLE
    _text(svg, 8, 20, title)

    for number, one in enumerate(shown):
        y = 36 + _ROW * number
        if isinstance(one, str):
            _text(svg, 8, y + 12, one)
        else:
            _draw(svg, y, one)

    return svg


def _rows(report: MeasureReport) -> Iterator[str | Recovery]:
    """Yield each task, then the results of its styles."""
    recovered = report.by_task()
    for task in report.tasks:
        yield task
        yield from (one for one in recovered if one.task == task)


def _draw(svg: ET.Element, y: int, one: Recovery) -> None:
    scale = _WIDTH - _NAMES - _RIGHT
    low, high = one.interval
    _text(svg, 24, y + 12, one.style, soft=True)
    bar = {
        "x": str(_NAMES),
        "y": str(y),
        "width": f"{scale * one.share:.1f}",
        "height": str(_BAR),
    }
    ET.SubElement(svg, "rect", bar)

    middle = str(y + _BAR / 2)
    line = {"x1": f"{_NAMES + scale * low:.1f}", "x2": f"{_NAMES + scale * high:.1f}"}
    ET.SubElement(svg, "line", {**line, "y1": middle, "y2": middle})
    end = _NAMES + scale * high + 8
    _text(svg, end, y + 12, f"{one.recovered} of {one.n}", soft=True)


def _text(svg: ET.Element, x: float, y: float, words: str, *, soft: bool = False) -> None:
    attributes = {"x": f"{x:.1f}", "y": str(y)}
    if soft:
        attributes["class"] = "soft"
    ET.SubElement(svg, "text", attributes).text = words
