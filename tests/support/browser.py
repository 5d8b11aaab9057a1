"""Pages as a browser sees them.

They are read without a browser, opened in headless Chromium, and measured on a phone's width.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",
)
# What a browser prefers, and the colour of the paper of our pages then.
SCHEMES = {
    "light": ("--blink-settings=preferredColorScheme=1", "rgb(255, 255, 255)"),
    "dark": ("--blink-settings=preferredColorScheme=0", "rgb(20, 24, 31)"),
}
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
_MEASURE = """
<meta name="color-scheme" content="light dark">
<iframe id="frame" src="page.html" style="width: WIDTHpx; height: 800px; border: 0"></iframe>
<script>
  const frame = document.getElementById("frame");
  frame.onload = () => {
    const inner = frame.contentDocument;
    const rows = () => [...inner.querySelectorAll(".finding")];
    const shown = () => rows().filter((row) => row.checkVisibility()).length;
    inner.querySelectorAll("details").forEach((one) => { one.open = true; });
    const over = (one) => one.getBoundingClientRect().right > WIDTH
      || one.scrollWidth > Math.max(one.clientWidth, 1);
    const wide = [...inner.querySelectorAll("html, body *")]
      .filter((one) => one.checkVisibility() && over(one));
    const root = inner.documentElement;
    const told = {
      wide: wide.map((one) => one.outerHTML.slice(0, 200)),
      scrolls: root.scrollWidth > root.clientWidth,
      paper: frame.contentWindow.getComputedStyle(inner.body).backgroundColor,
      shown: { all: shown() },
    };
    for (const input of inner.querySelectorAll("input[type=radio]")) {
      input.checked = true;
      told.shown[input.id] = shown();
      inner.getElementById(`only-${input.name}-`).checked = true;
    }
    document.body.innerHTML = "<pre></pre>";
    document.querySelector("pre").textContent = JSON.stringify(told);
  };
</script>
"""


class Page(HTMLParser):
    """Reads a page as a browser does: its elements, their attributes, and its text."""

    def __init__(self, html: str) -> None:
        """Read all of it."""
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an element."""
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        """Remember text."""
        self.text += data


def opened(folder: Path, html: str, *options: str, name: str = "page.html") -> bytes:
    """Open a page in a throw-away browser, and return what it writes to stdout."""
    path = folder / name
    path.write_text(html, encoding="utf-8")
    command = [
        str(CHROMIUM),
        *FLAGS,
        f"--user-data-dir={folder / 'browser'}",
        *options,
        path.as_uri(),
    ]

    return subprocess.run(command, capture_output=True, check=True, timeout=120).stdout


def measured(folder: Path, html: str, *options: str, width: int = 400) -> dict[str, Any]:
    """Unfold a page at a width in pixels, and measure it.

    The result says what is wider, whether the page scrolls sideways, the colour of its paper, and
    how many findings are seen under each choice of the filters.
    """
    (folder / "page.html").write_text(html, encoding="utf-8")
    frame = _MEASURE.replace("WIDTH", str(width))
    dom = opened(folder, frame, "--dump-dom", *options, name="measure.html").decode()
    (told,) = Page(dom).text.strip().splitlines() if "<pre>" in dom else [""]
    return dict(json.loads(told))


def picture(folder: Path, html: str) -> bytes:
    """Take a picture of a page, as PNG."""
    path = folder / "page.png"
    opened(folder, html, "--window-size=1200,1600", f"--screenshot={path}")
    return path.read_bytes()


def numbers(row: str) -> list[str]:
    """Return the numbers in the cells of a table's row."""
    return re.findall(r'"number[^>]*>(\d+)<', row)
