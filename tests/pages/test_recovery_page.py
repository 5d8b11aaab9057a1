"""docs/recovery.md and its chart say what was measured, and the rows are those of their seed."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

from strictreply.measuring import STYLES
from support.loops import some
from support.pages import Page

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "benchmarks" / "recovery"
TOOL = runpy.run_path(str(ROOT / "tools" / "write_recovery.py"))
TASKS: dict[str, Any] = runpy.run_path(str(MEASURED / "tasks.py"))


def test_the_page_is_what_was_measured() -> None:
    """The tables and the chart are those of results.json and said.json."""
    text = TOOL["PAGE"].read_text("utf-8")
    assert TOOL["page"](text) == text, "run `python tools/write_recovery.py`"
    chart = TOOL["CHART"].read_text("utf-8")
    assert chart == TOOL["recovery_chart"](TOOL["report"]())


def test_what_was_measured_adds_up() -> None:
    """No style asked for more replies than there were bad ones, and no row counts twice."""
    report = TOOL["report"]()
    assert report.rows + report.unfinished <= len(TASKS["ROWS"].read_text("utf-8").splitlines())

    bad = {first.task: first.n - first.valid for first in report.first}
    for one in some(report.by_task()):
        assert one.recovered <= one.n <= bad[one.task]
        assert one.style in STYLES


def test_the_rows_are_made_by_their_seed() -> None:
    """The committed rows are those that the generator makes, each asked with a seed of its own."""
    made = [*TASKS["made_rows"]()]
    assert made == [json.loads(line) for line in TASKS["ROWS"].read_text("utf-8").splitlines()]
    assert len({row["seed"] for row in made}) == len(made) >= 200
    assert {row["task"] for row in made} == set(TASKS["TASKS"])
    assert len(TASKS["TASKS"]) >= 3


def test_the_page_describes_each_style() -> None:
    """The table of styles has each of them, in their order."""
    rows = Page.named("howto/measure.md").table("## The styles")
    assert [row[0].strip("`") for row in rows] == [*STYLES]
