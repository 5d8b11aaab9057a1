"""``strictreply check --html``: the page of recorded replies is for a person.

Hostile text stays text.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.test_cli_check import BAD, GOOD, LINES, UNKNOWN, record, written
from support.browser import SCHEMES, Page, measured, needs_chromium, picture
from support.cli.running import TOOLS, Command, Status
from support.openai_shapes import completion, message
from support.shared_data import SHARED, needs_shared

pytestmark = pytest.mark.one_lane

HOSTILE = "</pre><script>alert(1)</script>" + "x" * 500


def page_of(command: Command, folder: Path, lines: list[str], *words: str) -> str:
    """Write lines, check them with a page, and read it."""
    path = folder / "page.html"
    command("check", str(written(folder, lines)), "--html", str(path), *words)
    return path.read_text("utf-8")


def test_it_tells_what_the_tables_tell(command: Command, tmp_path: Path) -> None:
    """Counts, rates by code, model and tool, what was unreadable, and of each cause where, what,
    and what is wrong.
    """
    text = Page(page_of(command, tmp_path, LINES)).text
    assert "2 of 4 recorded replies did not fit." in text
    assert all(
        word in text
        for word in ("By issue code", "By model", "By tool", "args.type", "m2", "search")
    )

    assert "replies.jsonl:2" in text
    assert "replies.jsonl:5" in text
    assert all(f"replies.jsonl:{line}" in text for line in (3, 7, 8))


def test_it_shows_what_would_have_been_asked(command: Command, tmp_path: Path) -> None:
    """The page shows each reply with the correction that a wrapped client would have sent, for both
    APIs.
    """
    tools = [{"type": "function", **json.loads(TOOLS)[0]["function"]}]
    item = {"type": "function_call", "call_id": "c", "name": "search", "arguments": '{"query": 1}'}
    responses = {
        "request": {"input": "x", "tools": tools},
        "response": {"object": "response", "output": [item]},
    }
    text = Page(page_of(command, tmp_path, [BAD, json.dumps(responses)])).text
    assert text.count("Call search again, corrected:") == 2

    assert "- /limit: must be an integer (write it without quotes)" in text


def test_the_worst_come_first(command: Command, tmp_path: Path) -> None:
    """Causes stand by harm, then by how often they came; a choice by harm is there where there are
    several.
    """
    empty = json.dumps({"tools": json.loads(TOOLS), **completion(message(None))})
    page = page_of(command, tmp_path, [empty, empty, UNKNOWN, BAD, BAD])
    told = Page(page).text[Page(page).text.index("The worst replies first") :]
    order = [
        told.index(cause)
        for cause in ("args.required, args.type · 2", "tool.unknown · 1", "reply.empty · 2")
    ]
    assert order == sorted(order)

    assert page.count('type="radio"') > 2


def test_only_a_few_of_each_cause_are_shown(command: Command, tmp_path: Path) -> None:
    """A thousand replies of one cause are counted, and shown a few times."""
    page = page_of(
        command, tmp_path, [record("search", "{}", f"m{number % 3}") for number in range(1000)]
    )
    assert "args.required · 1000 replies" in Page(page).text
    assert page.count('class="finding') < 10


def test_several_processes_make_the_same_page(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replies judged by a worker process appear on the page like those of this process."""
    lines = [GOOD, BAD, UNKNOWN] * 300
    monkeypatch.setattr("strictreply.testing.recordings.MIN_SHARED_BYTES", 0)
    pages = [page_of(command, tmp_path, lines, "--jobs", jobs) for jobs in ("1", "2")]
    assert [Page(page).text.count("What would have been sent") for page in pages] == [2, 2]
    counts = [[part for part in Page(page).text.split("·") if "replies" in part] for page in pages]
    assert counts[0] == counts[1]


def test_hostile_text_stays_text(command: Command, tmp_path: Path) -> None:
    """Text of a model is shown and never executed; the page loads nothing."""
    arguments = json.dumps({"query": 1, HOSTILE: "\x1b[31m"})
    page = Page(page_of(command, tmp_path, [record("search", arguments, HOSTILE)]))
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(page.tags)
    assert "alert(1)" in page.text
    assert "\x1b" not in page.text


def test_a_page_that_cannot_be_written_is_said_at_once(command: Command, tmp_path: Path) -> None:
    """A folder that is not there ends the command before anything is judged."""
    done = command(
        "check", str(written(tmp_path, LINES)), "--html", str(tmp_path / "none" / "page.html")
    )
    assert (done.exit_code, done.stdout) == (Status.USAGE, "")
    assert "does not exist" in done.stderr


def test_a_page_takes_the_place_of_no_recording(command: Command, tmp_path: Path) -> None:
    """A page that is one of the files is refused, and the file stays."""
    path = written(tmp_path, LINES)
    before = path.read_bytes()
    done = command("check", str(path), "--html", str(tmp_path / "." / path.name))
    assert (done.exit_code, path.read_bytes()) == (Status.USAGE, before)


def test_all_valid_is_a_good_verdict(command: Command, tmp_path: Path) -> None:
    """If every reply is valid, the page says so; if there is none, it does not claim it."""
    assert "verdict good" in page_of(command, tmp_path, [GOOD])
    assert "verdict bad" in page_of(command, tmp_path, [])


@needs_chromium
@pytest.mark.parametrize(
    "lines", [[*LINES, record("search", json.dumps({HOSTILE: 1}), HOSTILE)], [GOOD]]
)
def test_it_is_readable_on_a_phone(command: Command, tmp_path: Path, lines: list[str]) -> None:
    """Nothing is wider than 400 pixels, and a picture can be taken."""
    page = page_of(command, tmp_path, lines)
    assert measured(tmp_path, page)["wide"] == []
    assert picture(tmp_path, page).startswith(b"\x89PNG")


@needs_chromium
@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_column_is_cut_in_a_window(command: Command, tmp_path: Path, scheme: str) -> None:
    """At 1100 pixels every column is seen without scrolling sideways."""
    option, paper = SCHEMES[scheme]
    page = page_of(command, tmp_path, [*LINES, record("search", json.dumps({HOSTILE: 1}), HOSTILE)])
    seen = measured(tmp_path, page, option, width=1100)
    assert (seen["wide"], seen["scrolls"], seen["paper"]) == ([], False, paper)


@needs_shared
@needs_chromium
def test_real_replies_fit_on_a_phone(command: Command, tmp_path: Path) -> None:
    """The page of thousands of recorded replies is as readable, and as short; nobody is warned of
    others' schemas.
    """
    path = tmp_path / "page.html"
    done = command("check", str(SHARED / "corpus" / "replies.jsonl.gz"), "--html", str(path))
    assert done.exit_code == Status.INVALID
    assert path.stat().st_size < 1_000_000
    assert measured(tmp_path, path.read_text("utf-8"))["wide"] == []
