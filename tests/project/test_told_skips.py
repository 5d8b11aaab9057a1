"""A run says what it did not try: nothing is skipped in silence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ABSENT = """
import pytest

@pytest.mark.skipif(True, reason="no chromium here")
def test_seen(): ...

def test_stored():
    pytest.skip("no PostgreSQL")

def test_installed():
    pytest.importorskip("strictreply_has_no_such_module", reason="no npm")
"""


@pytest.mark.one_lane
def test_a_run_lists_what_it_skipped_with_its_reason(tmp_path: Path) -> None:
    """With the options of this project each reason stands in the summary, also where nothing
    failed.
    """
    tests = tmp_path / "test_absent.py"
    tests.write_text(ABSENT, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tests)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    told = re.findall(r"^SKIPPED \[1\] .*: (.*)$", done.stdout, re.MULTILINE)
    assert sorted(told) == ["no PostgreSQL", "no chromium here", "no npm"]


def test_no_command_of_the_project_hides_them() -> None:
    """Neither a lane nor the CI gives pytest another choice of what its summary shows."""
    for name in ("Makefile", ".ci/run"):
        told = (ROOT / name).read_text("utf-8") if (ROOT / name).exists() else ""
        assert re.findall(r"pytest[^\n]* (?:-r\w*|--no-summary|-qq)\b", told) == []
