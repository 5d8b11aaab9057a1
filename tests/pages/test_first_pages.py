"""The pages that people read first hold.

Their programs run as printed, offline, and print what the page shows.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli.running import Status, run_command
from support.pages import DOCS, Page

pytestmark = pytest.mark.one_lane

HOWTO = [page.relative_to(DOCS).as_posix() for page in sorted((DOCS / "howto").glob("*.md"))]
FIRST = (
    "tutorial.md",
    "which-method.md",
    "migration.md",
    "coming-from-agents.md",
    "faq.md",
    "why.md",
)
PAGES = [*FIRST, *HOWTO]
OWN_API = "howto/own-api.md"
REGISTERING = ("howto/own-format.md", OWN_API)
"""They register a format or an API for the whole process: each has an interpreter of its own."""
ELSEWHERE = (
    "fastapi",
    "langchain.agents",
    "langchain_core",
    "langchain_openai",
    "opentelemetry.sdk",
)
"""Libraries that not every environment has."""
LONGEST_LINE = 200
TUTORIAL = Page.named("tutorial.md")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key, no endpoint, an empty folder."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", [name for name in PAGES if name not in REGISTERING])
def test_the_page_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The programs of the page, run in order, print the page's text blocks and nothing else."""
    page = Page.named(name)
    for library in ELSEWHERE:
        if any(
            re.search(rf"^(?:from|import) {library}\b", program, re.MULTILINE)
            for program in page.programs
        ):
            pytest.importorskip(library, reason="not installed here")

    page.run_and_close()
    assert capsys.readouterr().out == "".join(page.shown)


def test_the_page_of_an_own_api_runs(tmp_path: Path) -> None:
    """Its program makes an API and a client library known, and prints what the page shows."""
    page = Page.named(OWN_API)
    program = tmp_path / "house.py"
    program.write_text("\n\n".join(page.programs), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("".join(page.shown), "")


@pytest.mark.parametrize("name", PAGES)
def test_lines_can_be_read_in_an_editor(name: str) -> None:
    """No line of prose is longer than a wide editor; a table, and what a program prints, may be."""
    prose = re.sub(r"```.*?```", "", Page.named(name).text, flags=re.DOTALL)
    lines = [line for line in prose.splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > LONGEST_LINE] == []


def told_by_pytest(
    pytester: pytest.Pytester, program: str, *options: str, name: str = "test_shop"
) -> str:
    """Run a test file as a newcomer does, and give what is printed."""
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(**{name: program})
    return pytester.runpytest_inprocess(
        *("-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:xdist"), *options
    ).stdout.str()


def shown_by_pytest(page: Page = TUTORIAL) -> list[list[str]]:
    """Return the lines that a page shows of each run of pytest, without the command."""
    runs = re.findall(r"```console\n\$ pytest.*\n((?:.*\n)+?)```", page.text)
    return [[line for line in run.splitlines() if line != "…"] for run in runs]


APP, TEST, QUOTES = (f"{program}\n\n" for program in TUTORIAL.programs[4:7])


@pytest.mark.parametrize(("run", "options"), [(0, ()), (1, ("--malformed=all",))])
def test_the_tutorial_catches_the_bug(
    pytester: pytest.Pytester, run: int, options: tuple[str, ...]
) -> None:
    """The app of the tutorial fails the marked test as the page shows."""
    told = told_by_pytest(pytester, APP + TEST, *options)
    assert [line for line in shown_by_pytest()[run] if line not in told] == []


def test_the_tutorial_mends_the_bug(pytester: pytest.Pytester) -> None:
    """With the changes of the page the tests of the tutorial pass; without them its last test
    fails.
    """
    whole = APP + TEST + QUOTES
    assert "1 failed" in told_by_pytest(pytester, whole, "-k", "in_quotes")
    [change] = re.findall(r"```diff\n(.*?)```", TUTORIAL.text, flags=re.DOTALL)
    before = "".join(f"{line[1:]}\n" for line in change.splitlines() if line[0] != "+")
    after = "".join(f"{line[1:]}\n" for line in change.splitlines() if line[0] != "-")

    assert before in whole
    mended = (
        whole.replace(before, after)
        .replace(', kinds=["args"]', "")
        .replace("llm.openai()", "sr.wrap(llm.openai())")
    )
    told = told_by_pytest(
        pytester,
        mended.replace("import openai\n", "").replace(
            "import json\n", "import strictreply as sr\n"
        ),
    )
    missing = [line for line in shown_by_pytest()[2] if line not in told]
    assert missing == [], "write the lines of this run on the page"


UNGUARDED = """
def ask_the_shop(model):
    completion = model.chat.completions.create(
        model="gpt-5",
        messages=[{"role": "user", "content": "Refund it."}],
        tools=[refund.definition],
    )
    for call in completion.choices[0].message.tool_calls or ():
        REFUNDED.append(json.loads(call.function.arguments)["order"])
"""


def test_the_test_of_the_readme_fails_without_a_guard(pytester: pytest.Pytester) -> None:
    """Its marked test fails for an app that trusts the model, and passes over a guarded client."""
    page = Page((DOCS.parent / "README.md").read_text(encoding="utf-8"))
    program, test = page.programs
    declared = program.partition("client = ")[0]
    unguarded = re.sub(r"def ask_the_shop.*", lambda _: UNGUARDED, test)
    assert unguarded != test
    whole = f"import json\n{declared}\n{unguarded}"
    assert re.search(r"= \d+ failed, \d+ passed", told_by_pytest(pytester, whole))

    guarded = whole.replace("ask_the_shop(llm.openai())", "ask_the_shop(sr.wrap(llm.openai()))")
    assert re.search(r"= \d+ passed in", told_by_pytest(pytester, guarded))


def test_the_roll_out_shows_what_check_prints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The lines that the page shows of ``strictreply check`` are those of its own ledger."""
    monkeypatch.chdir(tmp_path)
    page = Page.named("howto/roll-out.md")
    Page(f"```python\n{page.programs[0]}```").run()

    result = run_command("check", "ledger.jsonl")
    assert result.exit_code == Status.INVALID
    [shown] = [block for block in page.blocks("console") if "By tool and issue code" in block]
    lines = [line for line in shown.splitlines() if line != "…" and line[0] != "$"]
    assert len(lines) > 5
    assert [line for line in lines if line not in result.stdout.splitlines()] == []


def test_the_langchain_app_is_caught_and_mended(pytester: pytest.Pytester) -> None:
    """The app of the page fails its test as the page shows, and passes it over a guarded client."""
    pytest.importorskip("langchain_openai", reason="not installed here")
    page = Page.named("howto/test-my-langchain-app.md")
    app, test, mended = (f"{program}\n\n" for program in page.programs)
    told = told_by_pytest(pytester, app + test, name="test_hotel")
    assert [line for line in shown_by_pytest(page)[0] if line not in told] == []

    assert re.search(
        r"= \d+ passed, \d+ deselected",
        told_by_pytest(pytester, app + test + mended, "-k", "guarded"),
    )


def test_the_typed_answer_passes_the_test_of_its_page(pytester: pytest.Pytester) -> None:
    """The marked test of a type with a validator runs as it stands, and passes."""
    program = "\n\n".join(Page.named("howto/typed-answer.md").programs)
    assert re.search(r"= \d+ passed in", told_by_pytest(pytester, program, name="test_invoice"))
