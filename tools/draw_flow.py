"""Draw the flow of coordination: ``python tools/draw_flow.py`` writes docs/coordination.svg anew.

The steps, the categories and what follows each of them are read from strictreply.coordination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from strictreply.coordination import ErrorPolicy, Reaction, StepType

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "coordination.svg"
TITLE = "From a reply to the next step"
WIDTH = 860
HEIGHT = 412
LINE = 17
STYLE = """
svg { --box: #e6edf8; --rim: #4a6fa5; --text: #1b2a41; --soft: #4d586a; --line: #5b6575;
  --good: #e0f2e4; --good-rim: #2e7d46; --bad: #fbe7e3; --bad-rim: #b3412e;
  --ask: #fdf3d8; --ask-rim: #a5771a; }
@media (prefers-color-scheme: dark) {
  svg { --box: #2a3a55; --rim: #7ea3dc; --text: #eef2f8; --soft: #b9c2d0; --line: #9aa5b5;
    --good: #1f4630; --good-rim: #6cc58a; --bad: #572a24; --bad-rim: #ec8d7d;
    --ask: #4d3f1c; --ask-rim: #e0b85a; }
}
text { font: 12.5px system-ui, sans-serif; fill: var(--soft) }
.name { font-weight: 600; fill: var(--text) }
.step { fill: var(--box); stroke: var(--rim) }
.good { fill: var(--good); stroke: var(--good-rim) }
.ask { fill: var(--ask); stroke: var(--ask-rim) }
.bad { fill: var(--bad); stroke: var(--bad-rim) }
.line { fill: none; stroke: var(--line); stroke-width: 1.5; marker-end: url(#tip) }
.tip { fill: var(--line) }
"""
NEXT = tuple(
    step for step in StepType if step not in (StepType.ERROR_RECOVERY, StepType.RETRY_WITH_STEERING)
)
"""What follows a valid reply; the two others follow an invalid one."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box with a name and lines below it; ``kind`` is its class of the style."""

    x: int
    y: int
    width: int
    kind: str
    name: str
    lines: Sequence[str]

    @property
    def height(self) -> int:
        """The height of its text, and a margin."""
        return 34 + LINE * len(self.lines)

    @property
    def middle(self) -> int:
        """Where an arrow meets its sides."""
        return self.y + self.height // 2


def categories(reaction: Reaction) -> tuple[str, ...]:
    """Return the categories that lead to a reaction where a policy says nothing else."""
    reactions = ErrorPolicy().reactions
    return tuple(category.value for category, one in reactions.items() if one is reaction)


def in_pairs(words: Sequence[str]) -> Iterator[str]:
    """Yield lines of two words each."""
    for start in range(0, len(words), 2):
        yield ", ".join(words[start : start + 2])


def boxes() -> dict[str, Box]:
    """Return the boxes of the picture, by what stands in them."""
    reads = ("a processor reads the action", "the topology permits it", "its schema and tools fit")
    routes = ("checks the edges again", "chooses the next steps")
    corrects = f"{StepType.RETRY_WITH_STEERING.value}, but for API errors"
    ends = ("the decision has its reason",)
    right = 530

    return {
        "reply": Box(10, 88, 120, "step", "agent's reply", ("text, mapping", "or SDK object")),
        "processor": Box(170, 80, 210, "step", "ValidationProcessor", reads),
        "router": Box(170, 226, 210, "step", "Router", routes),
        "valid": Box(right, 30, 300, "good", "valid: the next steps", [*in_pairs(NEXT)]),
        "retry": Box(
            right,
            136,
            300,
            "ask",
            "retry",
            [*in_pairs(categories(Reaction.RETRY)), corrects],
        ),
        "user": Box(
            right,
            252,
            300,
            "ask",
            f"{StepType.ERROR_RECOVERY.value}: the User",
            [*in_pairs(categories(Reaction.ESCALATE))],
        ),
        "end": Box(
            right,
            316,
            300,
            "bad",
            "the branch ends",
            [*in_pairs(categories(Reaction.TERMINATE)), *ends],
        ),
    }


def picture() -> str:
    """Draw the flow as an SVG."""
    svg = ET.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=str(WIDTH),
        role="img",
    )
    ET.SubElement(svg, "title").text = TITLE
    ET.SubElement(svg, "style").text = STYLE
    size = {"markerWidth": "8", "markerHeight": "8", "refX": "7", "refY": "4", "orient": "auto"}
    marker = ET.SubElement(ET.SubElement(svg, "defs"), "marker", {"id": "tip"} | size)
    ET.SubElement(marker, "path", {"d": "M0,0 L8,4 L0,8 z", "class": "tip"})

    drawn = boxes()
    for box in drawn.values():
        shape = {"x": box.x, "y": box.y, "width": box.width, "height": box.height, "rx": 6}
        rect = {name: str(value) for name, value in shape.items()}
        ET.SubElement(svg, "rect", rect | {"class": box.kind})
        write(svg, box.x + 12, box.y + 21, box.name, kind="name")
        for number, line in enumerate(box.lines, 1):
            write(svg, box.x + 12, box.y + 21 + LINE * number, line)

    reply, processor, router = drawn["reply"], drawn["processor"], drawn["router"]
    arrow(svg, f"M{reply.x + reply.width},{reply.middle} H{processor.x}")
    down = processor.x + processor.width // 2
    arrow(svg, f"M{down},{processor.y + processor.height} V{router.y}")
    write(svg, down + 10, (processor.y + processor.height + router.y) // 2 + 4, "ValidationResult")

    fork = router.x + router.width + 40
    for name in ("valid", "retry", "user", "end"):
        way = f"M{router.x + router.width},{router.middle} H{fork} V{drawn[name].middle}"
        arrow(svg, f"{way} H{drawn[name].x}")
    write(svg, fork + 8, drawn["valid"].middle - 8, "valid")
    write(svg, fork + 8, drawn["retry"].middle - 8, "by category")
    write(svg, fork + 8, drawn["retry"].middle + 18, "of the fault")

    # a retry goes back to the agent, around the boxes
    retry = drawn["retry"]
    side = retry.x + retry.width
    low = HEIGHT - 14
    left = reply.x + reply.width // 2
    arrow(svg, f"M{side},{retry.middle} H{side + 16} V{low} H{left} V{reply.y + reply.height}")
    write(svg, left + 12, low - 8, "a retry goes to the same agent, within the budget")
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def arrow(svg: ET.Element, path: str) -> None:
    """Draw an arrow along a path."""
    ET.SubElement(svg, "path", {"d": path, "class": "line"})


def write(svg: ET.Element, x: int, y: int, words: str, *, kind: str = "") -> None:
    """Write a line of text."""
    attributes = {"x": str(x), "y": str(y)} | ({"class": kind} if kind else {})
    ET.SubElement(svg, "text", attributes).text = words


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
