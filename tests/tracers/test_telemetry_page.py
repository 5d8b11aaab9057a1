"""docs/telemetry.md is true.

Its program prints what it shows, its tables name all that is recorded, and its panels are those of
the dashboard.
"""

from __future__ import annotations

import inspect
import json
import re
import runpy

import pytest

from strictreply.integrations import _otel_metrics, otel
from support.loops import some
from support.pages import DOCS, Page
from support.tracers.recorders import RECORDERS, needs

PAGE = Page.named("telemetry.md")


def test_the_program_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    """The page's program runs without a key and a network."""
    needs("opentelemetry.sdk")
    PAGE.run()
    assert [capsys.readouterr().out] == PAGE.shown


def test_the_tables_name_all_that_is_recorded() -> None:
    """Every name in the source is in a table of the page, and no other."""
    source = inspect.getsource(otel) + inspect.getsource(_otel_metrics)
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


def test_the_dashboard_and_its_panels_are_written_from_one_table() -> None:
    """``tools/write_dashboard.py`` writes both anew."""
    tool = runpy.run_path(str(DOCS.parent / "tools" / "write_dashboard.py"))
    assert tool["DASHBOARD"].read_text("utf-8") == tool["dashboard"](), "run `make pages`"
    assert tool["page"](PAGE.text) == PAGE.text, "run `make pages`"


def test_the_dashboard_asks_for_what_is_recorded() -> None:
    """Each panel has a description, a unit and legends, filters by the variables, and asks for a
    metric of the page as OpenTelemetry's exporter names it.
    """
    whole = json.loads((DOCS / "grafana-strictreply.json").read_text("utf-8"))
    recorded = {name.strip("`").replace(".", "_") for name, *_ in PAGE.table("### Metrics")}
    suffixes = r"(_total|(_seconds)?_bucket)$"
    assert whole["uid"] == "strictreply"
    assert [one["name"] for one in whole["templating"]["list"]] == ["datasource", "model", "tool"]

    asked: set[str] = set()
    for panel in some(whole["panels"]):
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in some(panel["targets"]):
            assert target["legendFormat"]
            assert '=~"$model"' in target["expr"]
            assert "[$__rate_interval]" in target["expr"]
            asked |= {
                re.sub(suffixes, "", name)
                for name in re.findall(r"(strictreply_\w+)\{", target["expr"])
            }

    assert asked <= recorded
    assert recorded - asked == {"strictreply_attempts", "strictreply_issues"}
