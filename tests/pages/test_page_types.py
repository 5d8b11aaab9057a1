"""The Python blocks of the README and of every page pass a strict type checker.

A reader's copy of them must do so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.pages import DOCS, Page

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
    for name in (
        *(
            "dbos",
            "fastapi",
            "hypothesis",
            "instructor",
            "langchain",
            "langchain_core",
            "langchain_openai",
            "langgraph",
        ),
        *("litellm", "ray"),
    )
)


CACHE = ROOT / ".mypy_cache" / "pages"
"""What mypy knows of the libraries, from one run to the next: to read them anew takes half a
minute.
"""

ELSEWHERE = ("batch_engines", "dbos", "instructor", "langchain", "langgraph", "testing")
"""Pages that basedpyright is not asked of: their libraries are not here, or leave types unknown."""
PYRIGHT = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "extraPaths": [str(ROOT / "src")],
    # some pages print several files, one after the other
    "reportDuplicateImport": False,
    "reportUnusedImport": False,
}


def programs(folder: Path) -> list[str]:
    """Write the blocks of each page, one after the other, as a program; gives the names."""
    names = []
    for path in (ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))):
        if blocks := Page(path.read_text(encoding="utf-8")).programs:
            name = "_".join(path.relative_to(ROOT).with_suffix("").parts).lower().replace("-", "_")
            names.append(f"{name}_page.py")
            program = "\n\n".join(["from __future__ import annotations\n", *blocks])
            (folder / names[-1]).write_text(program, encoding="utf-8")

    assert "readme_page.py" in names
    return names


def test_the_pages_pass_mypy(tmp_path: Path) -> None:
    """The blocks of each page, one after the other, are a program that passes strict mypy."""
    names = programs(tmp_path)
    (tmp_path / "mypy.ini").write_text(CONFIG + OPTIONAL, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=mypy.ini",
            f"--cache-dir={CACHE}",
            *names,
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_pages_pass_pyright(tmp_path: Path) -> None:
    """Nor is there one for pyright, strict: where a value's type is known, the page knows it."""
    pytest.importorskip("basedpyright", reason="the type checker is not installed")
    names = [name for name in programs(tmp_path) if not any(word in name for word in ELSEWHERE)]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(PYRIGHT), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, *names],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
