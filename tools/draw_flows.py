"""Draw the flows of the pages: ``python tools/draw_flows.py`` writes docs/*.svg anew.

A flow is a list of boxes on a grid, and of arrows between them. A test fails while a picture and
its list differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree as ET

DOCS = Path(__file__).resolve().parents[1] / "docs"

WIDTH = 156
HEIGHT = 66
GAP = 52
ROW_GAP = 44
MARGIN = 20
CAPTION = 26
MOST_OF_HEAD = 18
MOST_OF_LINE = 24
"""How many characters fit into a box."""

STYLE = """
svg { --panel: #fbfcfe; --edge: #c5ccd8; --line: #5b6575; --text: #1b2a41; --soft: #4d586a;
  --box: #e6edf8; --rim: #4a6fa5; --good: #e0f2e4; --good-rim: #2e7d46;
  --bad: #fbe7e3; --bad-rim: #b3412e; --ask: #fdf3d8; --ask-rim: #a5771a; }
@media (prefers-color-scheme: dark) {
  svg { --panel: #1d2430; --edge: #3c4656; --line: #9aa5b5; --text: #eef2f8; --soft: #b9c2d0;
    --box: #2a3a55; --rim: #7ea3dc; --good: #1f4630; --good-rim: #6cc58a;
    --bad: #572a24; --bad-rim: #ec8d7d; --ask: #4d3f1c; --ask-rim: #e0b85a; }
}
.panel { fill: var(--panel); stroke: var(--edge); }
.box { fill: var(--box); stroke: var(--rim); stroke-width: 1.5; }
.good { fill: var(--good); stroke: var(--good-rim); stroke-width: 1.5; }
.bad { fill: var(--bad); stroke: var(--bad-rim); stroke-width: 1.5; }
.ask { fill: var(--ask); stroke: var(--ask-rim); stroke-width: 1.5; }
.line { fill: none; stroke: var(--line); stroke-width: 1.5; marker-end: url(#tip); }
.tip { fill: var(--line); }
text { font-family: system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; font-size: 14px;
  fill: var(--text); text-anchor: middle; }
.head { font-weight: 600; }
.small { font-size: 12px; fill: var(--soft); }
.left { text-anchor: start; }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """What happens at one place: a few words, and one or two lines about it."""

    column: int
    row: int
    head: str
    lines: tuple[str, ...]
    kind: Literal["box", "good", "bad", "ask"] = "box"

    @property
    def left(self) -> int:
        """Where it begins."""
        return MARGIN + self.column * (WIDTH + GAP)

    @property
    def top(self) -> int:
        """Where it begins, below the caption."""
        return MARGIN + CAPTION + self.row * (HEIGHT + ROW_GAP)

    @property
    def middle(self) -> tuple[int, int]:
        """Its middle."""
        return self.left + WIDTH // 2, self.top + HEIGHT // 2


@dataclass(frozen=True, slots=True)
class Flow:
    """A picture: its caption, its boxes by name, and arrows as (from, to, words)."""

    caption: str
    boxes: dict[str, Box]
    arrows: tuple[tuple[str, str, str], ...]


FLOWS = {
    "roll-out.svg": Flow(
        "From left to right, one keyword or one variable at a time; each step can be taken back.",
        {
            "off": Box(0, 0, 'mode="off"', ("nothing is judged",)),
            "observe": Box(1, 0, 'mode="observe"', ("each reply is judged,", "none is changed")),
            "one": Box(2, 0, 'enforce=["refund"]', ("one tool is enforced,", "the rest observed")),
            "all": Box(3, 0, 'mode="enforce"', ("every reply is enforced",)),
            "as before": Box(0, 1, "a bad reply", ("reaches your code,", "unseen"), "bad"),
            "seen": Box(1, 1, "a bad reply", ("reaches your code;", "the ledger has it"), "ask"),
            "split": Box(
                2, 1, "a bad refund", ("is retried; other calls", "are only judged"), "ask"
            ),
            "stopped": Box(3, 1, "a bad reply", ("is retried, then an", "exception"), "good"),
        },
        (
            ("off", "observe", ""),
            ("observe", "one", ""),
            ("one", "all", ""),
            ("off", "as before", ""),
            ("observe", "seen", ""),
            ("one", "split", ""),
            ("all", "stopped", ""),
        ),
    ),
    "tool-loop.svg": Flow(
        "One run: requests and tool calls until there is an answer.",
        {
            "messages": Box(0, 1, "your messages", ("a text, or a", "conversation")),
            "model": Box(1, 1, "the model", ("any server",)),
            "judged": Box(2, 1, "the whole reply", ("is checked by the", "contract")),
            "correction": Box(2, 0, "a correction", ("each place, each rule",), "ask"),
            "answer": Box(3, 1, "the answer", ("run.answer",), "good"),
            "tools": Box(2, 2, "your tools run", ("with valid arguments",)),
            "paused": Box(3, 2, "the run pauses", ("for your client, or for", "a person"), "ask"),
        },
        (
            ("messages", "model", ""),
            ("model", "judged", ""),
            ("judged", "correction", "not valid"),
            ("correction", "model", ""),
            ("judged", "answer", "answer"),
            ("judged", "tools", "calls"),
            ("tools", "model", "results"),
            ("tools", "paused", "or"),
        ),
    ),
    "durable.svg": Flow(
        "A run that survives its process: each step is recorded when it has ended.",
        {
            "start": Box(0, 0, "runs.start(…)", ("puts the run into", "the queue")),
            "request": Box(1, 0, "request 1", ("made once",)),
            "call": Box(2, 0, "tool call 1", ("made once",)),
            "killed": Box(3, 0, "the process dies", ("in request 2",), "bad"),
            "database": Box(2, 1, "the database", ("has request 1 and", "tool call 1"), "ask"),
            "again": Box(2, 2, "another worker", ("reads both steps, then", "makes request 2")),
            "answer": Box(3, 2, "the answer", ("the same in every", "process"), "good"),
        },
        (
            ("start", "request", ""),
            ("request", "call", ""),
            ("call", "killed", ""),
            ("call", "database", "recorded"),
            ("database", "again", "read"),
            ("again", "answer", ""),
        ),
    ),
    "streams.svg": Flow(
        "What your program gets of a stream, and when.",
        {
            "text": Box(0, 0, "text", ("any text is a valid", "answer")),
            "calls": Box(0, 1, "tool calls, or a", ("structured answer",)),
            "held": Box(1, 1, "held back", ("until the reply ends,", "then checked"), "ask"),
            "program": Box(2, 0, "your program", ("the SDK's own chunks",), "good"),
            "retried": Box(2, 1, "retried", ("what was shown stays",), "ask"),
            "raised": Box(2, 2, "an exception", ("with every attempt in it",), "bad"),
        },
        (
            ("text", "program", "live, chunk by chunk"),
            ("calls", "held", ""),
            ("held", "program", "valid"),
            ("held", "retried", "invalid"),
            ("retried", "raised", "exhausted"),
        ),
    ),
    "testing.svg": Flow(
        "One test for each fault that your tool's replies can have.",
        {
            "fault": Box(0, 0, "a fault", ("of the catalogue, made", "for your tool")),
            "model": Box(1, 0, "a scripted model", ("serves it, in memory or", "on loopback")),
            "app": Box(2, 0, "your app", ("with the real SDK",)),
            "passes": Box(3, 0, "refused or retried", ("the test passes",), "good"),
            "fails": Box(
                3, 1, "accepted, crashed", ("the test fails, and", "names the fault"), "bad"
            ),
        },
        (
            ("fault", "model", ""),
            ("model", "app", ""),
            ("app", "passes", ""),
            ("app", "fails", ""),
        ),
    ),
}


def drawn(flow: Flow) -> str:
    """Return the picture."""
    boxes = flow.boxes.values()
    width = max(box.left for box in boxes) + WIDTH + MARGIN
    height = max(box.top for box in boxes) + HEIGHT + MARGIN
    size = {"viewBox": f"0 0 {width} {height}", "width": str(width), "height": str(height)}
    svg = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size, "role": "img"})
    ET.SubElement(svg, "title").text = flow.caption
    ET.SubElement(svg, "desc").text = told(flow)
    ET.SubElement(svg, "style").text = STYLE

    place = {"viewBox": "0 0 10 10", "refX": "9", "refY": "5", "orient": "auto-start-reverse"}
    tip = {"id": "tip", "markerWidth": "7", "markerHeight": "7", **place}
    marker = ET.SubElement(ET.SubElement(svg, "defs"), "marker", tip)
    ET.SubElement(marker, "path", {"class": "tip", "d": "M0 0 10 5 0 10z"})
    panel = {"x": "1", "y": "1", "width": str(width - 2), "height": str(height - 2), "rx": "8"}
    ET.SubElement(svg, "rect", {"class": "panel", **panel})
    _write(svg, MARGIN, MARGIN + 10, flow.caption, "small left")

    for begin, end, words in flow.arrows:
        _draw_arrow(svg, flow.boxes[begin], flow.boxes[end], words)
    for box in boxes:
        _draw_box(svg, box)

    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def told(flow: Flow) -> str:
    """Return the picture in words: each arrow as a sentence."""
    names = {name: f"{box.head} ({' '.join(box.lines)})" for name, box in flow.boxes.items()}
    steps = (
        f"{names[begin]} leads to {names[end]}{f': {words}' if words else ''}."
        for begin, end, words in flow.arrows
    )
    return " ".join(steps)


def _draw_box(svg: ET.Element, box: Box) -> None:
    if len(box.head) > MOST_OF_HEAD or any(len(line) > MOST_OF_LINE for line in box.lines):
        raise ValueError(f"the words of {box.head!r} do not fit into its box")

    shape = {"x": str(box.left), "y": str(box.top), "width": str(WIDTH), "height": str(HEIGHT)}
    ET.SubElement(svg, "rect", {"class": box.kind, **shape, "rx": "6"})
    x, y = box.middle
    top = y + 5 - 8 * len(box.lines)
    _write(svg, x, top, box.head, "head")
    for number, line in enumerate(box.lines, 1):
        _write(svg, x, top + 1 + 16 * number, line, "small")


def _draw_arrow(svg: ET.Element, begin: Box, end: Box, words: str) -> None:
    (x, y), *rest = points = list(_way(begin, end))
    turns = " ".join(f"L{right} {down}" for right, down in rest)
    ET.SubElement(svg, "path", {"class": "line", "d": f"M{x} {y} {turns}"})
    if not words:
        return

    (left, above), (right, below) = points[0], points[1]
    if above == below:
        _write(svg, (left + right) // 2, above - 6, words, "small")
    else:
        _write(svg, left + 8, (above + below) // 2 + 4, words, "small left")


def _write(svg: ET.Element, x: int, y: int, words: str, kind: str) -> None:
    place = {"class": kind, "x": str(x), "y": str(y)}
    ET.SubElement(svg, "text", place).text = words


def _way(begin: Box, end: Box) -> Iterator[tuple[int, int]]:
    """Yield the corners of an arrow.

    It is straight in a row or a column. Else it leaves a box at its side if that leads to the left,
    and below or above if it leads to the right; it always turns once.
    """
    (x, y), (to_x, to_y) = begin.middle, end.middle
    right = 1 if to_x > x else -1
    down = 1 if to_y > y else -1
    side = WIDTH // 2 * right
    foot = HEIGHT // 2 * down

    if begin.row == end.row:
        yield x + side, y
        yield to_x - side - 2 * right, y
    elif begin.column == end.column:
        yield x, y + foot
        yield x, to_y - foot - 2 * down
    elif right < 0:
        yield x + side, y
        yield to_x, y
        yield to_x, to_y - foot - 2 * down
    else:
        yield x, y + foot
        yield x, to_y
        yield to_x - side - 2 * right, to_y


CHARTS = {name: drawn(flow) for name, flow in FLOWS.items()}

if __name__ == "__main__":
    for name, picture in CHARTS.items():
        (DOCS / name).write_text(picture, encoding="utf-8")
