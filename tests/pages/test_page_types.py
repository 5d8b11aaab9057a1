"""The Python blocks of the README and of every page pass a strict type checker.

A reader's copy of them must do so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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

OTHER_LANES = {
    "frameworks-newest": ("docs_howto_guard_langchain", "docs_howto_test_my_langchain_app"),
    "instructor": ("docs_instructor", "examples/instructor_engine"),
    "ray": ("docs_batch_engines", "examples/batch_ray"),
}
"""The pages and examples whose libraries are in the environment of another lane, by its name."""
UNKNOWN = ("Member", "Variable", "Argument", "Parameter", "Lambda")
"""What these libraries leave unknown themselves; their imports of each other, too."""
UNANNOTATED = "docs_testing_page.py"
"""The page about testing shows test files as people write them, without annotations."""
PYRIGHT = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "extraPaths": [str(ROOT / "src"), str(ROOT / "examples")],
    # some pages print several files, one after the other
    "reportDuplicateImport": False,
    "reportUnusedImport": False,
}


REVEALED = {
    "readme": {"client": "StrictClient[str]"},
    "docs_tutorial": {"receipt": "Receipt", "receipts": "StrictClient[Receipt]"},
    "docs_howto_typed_answer": {"invoice": "Invoice", "checked": "StrictClient[CheckedInvoice]"},
    "docs_tool_loop": {"run": "Run[str]", "run.answer": "str"},
    "docs_streams": {"invoices": "StrictClient[Invoice]"},
    "docs_which_method": {"parsed.choices[0].message.parsed": "Invoice | None"},
}
"""What pages call typed: by page, expressions after its last block, and their types."""


def programs(folder: Path) -> list[str]:
    """Write the blocks of each page, one after the other, as a program; gives the names.

    What the page calls typed is revealed at the end.
    """
    names = []
    for path in (ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))):
        if blocks := Page(path.read_text(encoding="utf-8")).programs:
            name = "_".join(path.relative_to(ROOT).with_suffix("").parts).lower().replace("-", "_")
            names.append(f"{name}_page.py")
            reveals = [f"reveal_type({known})" for known in REVEALED.get(name, {})]
            program = "\n\n".join(["from __future__ import annotations\n", *blocks, *reveals])
            (folder / names[-1]).write_text(program, encoding="utf-8")

    assert "readme_page.py" in names
    return names


def types_in(output: str, pattern: str) -> list[tuple[str, str]]:
    """Find each revealed type with its program, without the modules of its names."""
    found = re.findall(rf"(\w+)_page\.py:\d+.*?{pattern}", output)
    return sorted((name, re.sub(r"\b[\w.]+\.(?=\w)", "", shown)) for name, shown in found)


def expected_types() -> list[tuple[str, str]]:
    """List what is to be revealed."""
    return sorted((name, shown) for name in REVEALED for shown in REVEALED[name].values())


def test_the_pages_pass_mypy(tmp_path: Path) -> None:
    """The blocks of each page, one after the other, are a program that passes strict mypy, and
    what the page calls typed has its type.
    """
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
    assert types_in(done.stdout, r'Revealed type is "(.*)"') == expected_types()


def pyright(folder: Path, names: Sequence[str], settings: dict[str, Any], python: Path) -> str:
    """Check programs with pyright; they have no error. Return what it prints."""
    pytest.importorskip("basedpyright", reason="the type checker is not installed")
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--pythonpath", str(python), *names],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_other_lanes(name: str) -> bool:
    """Whether a program is checked with the libraries of another lane."""
    begins = tuple(begin for listed in OTHER_LANES.values() for begin in listed)
    return name.startswith(begins)


@pytest.mark.slow
def test_the_pages_pass_pyright(tmp_path: Path) -> None:
    """Nor is there an error for pyright, strict: where a value's type is known, the page knows
    it.
    """
    names = [
        name for name in programs(tmp_path) if name != UNANNOTATED and not in_other_lanes(name)
    ]
    printed = pyright(tmp_path, names, PYRIGHT, Path(sys.executable))
    assert types_in(printed, r'Type of ".*" is "(.*)"') == expected_types()


@pytest.mark.slow
def test_the_page_about_testing_passes_pyright(tmp_path: Path) -> None:
    """Its test files, which have no annotations, pass pyright's standard mode."""
    programs(tmp_path)
    settings = {**PYRIGHT, "typeCheckingMode": "standard"}
    pyright(tmp_path, [UNANNOTATED], settings, Path(sys.executable))


@pytest.mark.slow
def test_the_examples_pass_pyright(tmp_path: Path) -> None:
    """Each example passes pyright, strict."""
    paths = sorted((ROOT / "examples").glob("*.py"))
    names = [str(path) for path in paths if not in_other_lanes(f"examples/{path.stem}")]
    assert len(names) > 15
    pyright(tmp_path, names, PYRIGHT, Path(sys.executable))


@pytest.mark.slow
@pytest.mark.parametrize("lane", OTHER_LANES)
def test_pages_of_other_lanes_pass_pyright(tmp_path: Path, lane: str) -> None:
    """A page or an example of a library that only another lane has passes pyright there, strict
    but for what the library itself leaves unknown.
    """
    python = ROOT / f".venv-{lane}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"the environment .venv-{lane} is not made")

    programs(tmp_path)
    names = [
        str(ROOT / f"{begin}.py") if begin.startswith("examples/") else f"{begin}_page.py"
        for begin in OTHER_LANES[lane]
    ]
    unknown = {f"reportUnknown{what}Type": False for what in UNKNOWN}
    settings = {
        **PYRIGHT,
        **unknown,
        "reportMissingImports": False,
        "reportUntypedFunctionDecorator": False,
    }
    pyright(tmp_path, names, settings, python)
