"""What the README and the guide print runs as printed, and what they link is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from strictreply.testing import LoopbackServer
from support.loops import some
from support.openai_shapes import call, completion, message
from support.pages import DOCS, Page

pytestmark = pytest.mark.one_lane

ROOT = DOCS.parent
README = Page((ROOT / "README.md").read_text(encoding="utf-8"))
MOST_LINES = 115


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key but a made-up one, in a folder of its own."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [README, Page.named("index.md")], ids=["README", "index"])
def test_the_readme_runs(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its program, as printed, fixes a wrong call and pays back once; it is one screen long."""
    bad = call("refund", '{"order": "1042", "amount": 29.9}')
    good = call("refund", '{"order": 1042, "amount": 29.9}')
    replies = iter(
        [
            completion(message(None, [bad]), "tool_calls"),
            completion(message(None, [good]), "tool_calls"),
        ]
    )
    with LoopbackServer(lambda _: next(replies)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        page.run_and_close()

    assert capsys.readouterr().out == "order 1042: 29.90 EUR\n"
    assert len(page.text.splitlines()) <= MOST_LINES


def test_the_guide_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its programs run in order, each with the names of those before it."""
    bad = call("search", '{"query": "shoes", "limit": "2", "colour": "red"}')
    wrong = completion(message(None, [bad]), "tool_calls")
    Path("completion.json").write_text(json.dumps(wrong), encoding="utf-8")
    good = completion(
        message(None, [call("search", '{"query": "shoes", "limit": 2}')]), "tool_calls"
    )
    replies = iter([wrong, good, good, good, completion(message("It is on its way."))])
    with LoopbackServer(lambda _: next(replies)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        Page.named("guide.md").run_and_close()

    assert next(replies, None) is None
    assert capsys.readouterr().out == "['shoes 0', 'shoes 1']\nIt is on its way.\n"


LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
LINKING = [
    page
    for page in [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]
    if LINK.search(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link is a file, and its anchor a heading of that page."""
    for target, anchor in some(LINK.findall(page.read_text(encoding="utf-8"))):
        linked = (page.parent / target).resolve() if target else page
        assert linked.exists(), target

        if anchor and linked.suffix == ".md":
            headings = re.findall(
                r"^#+ (.+)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE
            )
            slugs = {
                re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
            }
            assert anchor in slugs, f"{target}#{anchor}"
