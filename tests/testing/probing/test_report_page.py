"""The page is for a person: self-contained, with the counts and the findings, and hostile text stays text."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from strictreply.testing._probing.survival_report import FINDINGS, ProbeOutcome, Report, report_page
from testing.probing.reports import FULL, HOSTILE, SURVIVED

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")


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


def browsed(folder: Path, report: Report, *options: str) -> bytes:
    """Open the page in a browser that is thrown away afterwards."""
    path = folder / "report.html"
    path.write_text(report_page(report), encoding="utf-8")
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder / 'browser'}", *options, path.as_uri()]
    return subprocess.run(command, capture_output=True, check=True, timeout=120).stdout


def test_nothing_runs_and_nothing_is_loaded() -> None:
    """No script, no link, no image, no frame: one file, and a policy that would stop them."""
    page = Page(report_page(FULL))
    assert not {"script", "link", "img", "iframe", "object", "form", "a"} & set(page.tags)
    assert not {"src", "href", "onclick", "onerror"} & {name for name, _ in page.attributes}
    assert any(value and value.startswith("default-src 'none'") for _, value in page.attributes)


def test_hostile_text_stays_text() -> None:
    """What was served is shown to the letter, in the text and nowhere else."""
    page = Page(report_page(FULL))
    assert page.text.count(f"arguments reads {HOSTILE}") == len(FULL.findings)
    assert f"Survival report: shop:app {HOSTILE}" in page.text


def test_every_finding_is_told_with_what_to_do() -> None:
    """Each finding has its fault, its code, its lines to look and reproduce; each outcome what it means."""
    text = Page(report_page(FULL)).text
    for run in FULL.findings:
        assert all(word in text for word in (run.id, run.detail, f"llm.script({run.source})", f"--show {run.fault}"))
    assert text.count("What to do:") == len(FINDINGS)
    assert all(name in text for name in FULL.versions)
    assert FULL.verdict in text


def test_the_survived_are_folded() -> None:
    """What needs no look is there, but closed; a good report has nothing else."""
    page = Page(report_page(SURVIVED))
    assert page.tags.count("details") == 2
    assert ("open", None) not in page.attributes
    assert "What to do:" not in page.text
    assert "verdict good" in {value for name, value in page.attributes if name == "class"}


@needs_chromium
def test_a_browser_shows_the_counts(tmp_path: Path) -> None:
    """The rendered document holds the numbers of the report, no script ran, and a picture can be taken."""
    dom = browsed(tmp_path, FULL, "--dump-dom").decode()
    rows = re.findall(r"<tfoot><tr>.*?</tr></tfoot>", dom, re.DOTALL)
    assert re.findall(r'"number[^"]*">(\d+)<', rows[0]) == ["7"] * (len(FINDINGS) + 2)
    assert "<title>Survival report" in dom
    assert "<script" not in dom
    picture = tmp_path / "report.png"
    browsed(tmp_path, FULL, "--window-size=1200,1600", f"--screenshot={picture}")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert FULL.of(ProbeOutcome.CLEAN)
