"""The runner of other projects' suites explains each failure once.

docs/suites.md shows what it found.
"""

from __future__ import annotations

import runpy
import tomllib
from typing import Any

import pytest

from support.pages import DOCS, Page

pytestmark = pytest.mark.one_lane

TOOLS = DOCS.parent / "tools"
RUNNER = runpy.run_path(str(TOOLS / "run_suites.py"))
REASONS = tomllib.loads((TOOLS / "suites.toml").read_text(encoding="utf-8"))
STREAMS = {"reason": "no streams", "tests": ["t.py::*stream*"], "says": "not served"}


def results(**ended: str) -> dict[str, Any]:
    """Make the results of one run: each test passed, or failed with these words."""
    failed = {f"t.py::{name}[a]": said for name, said in ended.items() if said != "passed"}
    passed = {f"t.py::{name}[a]": "passed" for name, said in ended.items() if said == "passed"}
    return {"ended": passed | dict.fromkeys(failed, "failed"), "said": failed}


@pytest.mark.parametrize(
    ("raw", "wrapped", "faults"),
    [
        ({"stream": "passed"}, {"stream": "not served"}, 0),
        ({"stream": "passed"}, {"stream": "another failure"}, 2),
        (
            {"create": "passed", "stream": "passed"},
            {"create": "not served", "stream": "not served"},
            1,
        ),
        ({"create": "passed", "stream": "passed"}, {"stream": "not served"}, 1),
        ({"create": "failed", "stream": "passed"}, {"create": "failed", "stream": "not served"}, 0),
        ({"stream": "passed"}, {"stream": "passed"}, 1),
        ({}, {}, 2),
    ],
)
def test_each_failure_needs_its_reason_and_each_reason_a_failure(
    raw: dict[str, str], wrapped: dict[str, str], faults: int
) -> None:
    """A reason holds for its tests and its words alone; what fails raw too counts for nothing."""
    _, wrong = RUNNER["compared"]("suite", results(**raw), results(**wrapped), [STREAMS])
    assert len(wrong) == faults


def test_the_page_shows_every_reason() -> None:
    """The table holds the reasons of the file, in order, none without a test that failed for it."""
    rows = Page.named("suites.md").table("suites:begin")
    reasons = [[suite, one["reason"]] for suite, each in REASONS.items() for one in each]
    assert [row[:2] for row in rows if not row[1].startswith("passes")] == reasons
    assert all(int(row[2]) > 0 for row in rows)
