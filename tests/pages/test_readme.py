"""What the README and the guide print runs as printed, and what they link is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import strictreply as sr
from strictreply.testing import LoopbackServer
from support.loops import some
from support.openai_shapes import call, completion, message
from support.pages import DOCS, Page

pytestmark = pytest.mark.one_lane

ROOT = DOCS.parent
README = Page((ROOT / "README.md").read_text(encoding="utf-8"))
MOST_LINES = 160


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key but a made-up one, in a folder of its own."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [README, Page.named("index.md")], ids=["README", "index"])
def test_the_readme_runs(
    page: Page, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its program, as printed, fixes a wrong call and pays back once; the page stays short."""
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


def test_the_failure_is_what_a_call_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error that the README shows is the one of its program when each reply is wrong."""
    bad = completion(message(None, [call("refund", '{"order": "1042"}')]), "tool_calls")
    with LoopbackServer(lambda _: bad) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        with pytest.raises(sr.ToolArgumentsError) as caught:
            README.run_and_close()

    shown = README.text.partition("<!-- failure:begin -->\n```text\n")[2].partition("```")[0]
    said = f"strictreply.{type(caught.value).__name__}: {caught.value}"
    assert shown.split() == said.split()


SIZES = ("small", "realistic")


def row_of(page: str, first: str) -> list[str]:
    """Return the cells of the one table row of a page that begins so."""
    rows = [line for line in Page.named(page).text.splitlines() if line.startswith(f"| {first}")]
    assert len(rows) == 1, (page, first, rows)
    return [cell.strip() for cell in rows[0].strip("|").split("|")]


def test_the_evidence_is_that_of_the_pages() -> None:
    """Each figure of the README's table of evidence stands on the page that it links to."""
    evidence = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", README.text, flags=re.MULTILINE))
    survived = evidence["no malformed reply gets through"]
    found = [int(number) for number in re.findall(r"\b\d+\b", survived)]
    apps = ["wrapped", "raw_sdk", "instructor_app", "pydantic_ai_app", "langchain_app"]
    rows = {app: row_of("survival.md", f"[`{app}`]") for app in apps}
    total = min(map(int, re.findall(r"(\d+) to \d+ faults an app", Page.named("survival.md").text)))
    accepted, crashed, not_applicable = 3, 7, -1  # columns
    possible = found.pop(1)
    assert all(abs(total - int(row[not_applicable]) - possible) <= 10 for row in rows.values())
    assert found == [
        total,
        *(int(rows["wrapped"][column]) for column in (accepted, crashed)),
        *(int(rows["raw_sdk"][column]) for column in (accepted, crashed)),
        *(int(rows[app][accepted]) for app in apps[2:]),
    ]

    cost = evidence["a valid reply of ordinary size takes less CPU than a raw call"]
    costs = re.search(r"one: (\d\.\d\d to \d\.\d\d) times", Page.named("evidence.md").text)
    assert costs is not None
    assert cost.startswith(f"{costs[1]} times the CPU")

    rows_traced = (row_of("../benchmarks/results.md", f"{size}, traced") for size in SIZES)
    traced = [float(figure) for row in rows_traced for figure in row[2:5]]
    assert f"{min(traced)} to {max(traced)} under a tracer" in cost

    stopped = "a stream is closed when its reply can no longer become valid, never by mistake"
    prefixes = re.match(r"0 of ([\d,]+) prefixes", evidence[stopped])
    assert prefixes is not None
    assert f"0 in {prefixes[1]}" in row_of("streams.md", "early stops of prefixes")[-1]

    suite = evidence["the SDK behaves as before, with listed differences"]
    passing = int(row_of("suites.md", "openai | passes raw and wrapped")[-1])
    rows_of_openai = re.findall(
        r"^\| openai \| .+ \| (\d+) \|$", Page.named("suites.md").text, flags=re.MULTILINE
    )
    of_all = sum(map(int, rows_of_openai))
    assert suite.startswith(f"{passing:,} of openai's own tests")
    assert f"of {of_all:,} that pass on the raw one" in suite
    assert f"the other {of_all - passing}," in suite

    frameworks = Page.named("frameworks.md").text.partition("<!-- frameworks:begin -->")[2]
    table = frameworks.partition("<!-- frameworks:end -->")[0]
    programs = len(re.findall(r"^\| ", table, flags=re.MULTILINE)) - 2
    assert evidence["frameworks keep working"].startswith(f"{programs} programs")


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
