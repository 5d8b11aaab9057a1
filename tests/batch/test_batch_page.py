"""The page about batches runs as printed, and its tables are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

import strictreply as sr
from support.pages import Page

PAGE = Page.named("batch.md")


def test_the_page_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The programs of the page print what it shows."""
    monkeypatch.chdir(tmp_path)
    PAGE.run()
    assert capsys.readouterr().out == "".join(PAGE.shown)


def test_its_tables() -> None:
    """Each column and each status stands in the page with the words of the code."""
    told = {
        name.strip("`"): words.replace("`", "")
        for name, words in PAGE.table("The result has the same form")
    }
    assert told == dict(sr.batch.COLUMNS)
    assert {
        name.strip("`"): words for name, words in PAGE.table("The status says how the row ended")
    } == dict(sr.batch.STATUSES)
