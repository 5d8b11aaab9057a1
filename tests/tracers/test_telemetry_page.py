"""docs/telemetry.md is true.

Its program prints what it shows, and its tables name all that is recorded.
"""

from __future__ import annotations

import inspect
import re

import pytest

from strictreply.integrations import otel
from support.pages import Page
from support.tracers.recorders import RECORDERS, needs

PAGE = Page.named("telemetry.md")


def test_the_program_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """The page's program runs without a key and a network."""
    needs("opentelemetry.sdk")
    PAGE.run()
    assert [capsys.readouterr().out] == PAGE.shown


def test_the_tables_name_all_that_is_recorded() -> None:
    """Every name in the source is in a table of the page, and no other."""
    source = inspect.getsource(otel)
    named = set(re.findall(r'"((?:gen_ai|strictreply|server|error)\.[a-z_.]+)"', source))
    named |= {f"gen_ai.usage.{kind}_tokens" for kind in ("input", "output")} | set(
        otel.ASKED.values()
    )
    named |= {f"strictreply.attempt.{name}" for name in otel.OF_ATTEMPT}

    told = set(
        re.findall(
            r"`((?:gen_ai|strictreply|server|error)\.[a-z_.]+)`",
            PAGE.text.partition("## Other tracing tools")[0],
        )
    )
    assert told - {"strictreply."} == named


def test_the_table_of_programs_lists_those_that_are_run() -> None:
    """One row for each real recorder of the lane."""
    assert len(PAGE.table("## Other tracing tools")) == len(RECORDERS)
