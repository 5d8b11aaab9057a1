"""The Python blocks of the README and of every page pass a strict type checker, as a reader's copy of them must."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pages import DOCS, Page

pytest.importorskip("mypy", reason="the type checker is not installed")

pytestmark = pytest.mark.one_lane

ROOT = DOCS.parent
CONFIG = """[mypy]
python_version = 3.11
[mypy-strictreply.*]
follow_imports = silent
[mypy-docs_testing_page]
disallow_untyped_defs = False
disallow_untyped_calls = False
"""
"""The page about testing shows test files as people write them, without annotations."""
# where an optional library is not installed, what it gives is unknown
OPTIONAL = "".join(
    f"[mypy-{name}.*]\nignore_missing_imports = True\n"
    for name in ("dbos", "hypothesis", "instructor", "langchain", "langchain_core", "langchain_openai", "langgraph")
)


def test_the_pages_pass_a_strict_type_checker(tmp_path: Path) -> None:
    """Of each page, its blocks one after the other are a program without a type error."""
    names = []
    for path in (ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))):
        if programs := Page(path.read_text(encoding="utf-8")).programs:
            name = "_".join(path.relative_to(ROOT).with_suffix("").parts).lower().replace("-", "_")
            names.append(f"{name}_page.py")
            program = "\n\n".join(["from __future__ import annotations\n", *programs])
            (tmp_path / names[-1]).write_text(program, encoding="utf-8")
    assert "readme_page.py" in names
    (tmp_path / "mypy.ini").write_text(CONFIG + OPTIONAL, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=mypy.ini", "--cache-dir=.cache", *names],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
