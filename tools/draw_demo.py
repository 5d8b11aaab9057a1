"""Draw the demo's screen for the README.

``python tools/draw_demo.py`` writes docs/demo.svg from a real run.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI

from strictreply.cli._demo import tell

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def draw() -> str:
    """Return the picture; it asks for no font of the network."""
    screen = Console(
        record=True,
        width=80,
        file=io.StringIO(),
        force_terminal=True,
        markup=False,
        emoji=False,
        highlight=False,
    )
    tell(screen)
    drawn = screen.export_svg(title="strictreply demo", theme=DIMMED_MONOKAI, unique_id="demo")
    return FONTS.sub("", drawn).replace("Fira Code, monospace", "monospace")


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
