"""What mypy and pyright, both strict, say of the public interface: its types, and one short error.

``public_api.py`` holds the types; the programs here are wrong on purpose.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path
from typing import Any, get_args, get_overloads, get_type_hints

import pytest

import strictreply as sr
from strictreply.client import _client
from strictreply.client._client import WrapKeywords
from strictreply.client._not_keywords import DidYouMean
from strictreply.values._mistakes import IN_WRAP

pytest.importorskip("mypy", reason="the type checker is not installed")
pytest.importorskip("basedpyright", reason="the type checker is not installed")

pytestmark = pytest.mark.one_lane

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".mypy_cache" / "pages"
"""What mypy knows of the libraries, as the tests of the pages keep it."""

CONFIG = "[mypy]\npython_version = 3.11\n[mypy-strictreply.*]\nfollow_imports = silent\n"
STRICT = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "extraPaths": [str(ROOT / "src")],
}
HEAD = """from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel
import strictreply as sr
class Refund(BaseModel):
    order: int
def search(query: str) -> list[str]:
    return [query]
"""
WRONG = {
    "response_model=Refund": "answer=",
    "output_type=Refund": "answer=",
    "response_model=list[Refund], tools=[search]": "answer=",
    "tool=search": "tools=",
    "tool=[search]": "tools=",
    "retries=3": "max_retries=",
    "retries=3, answer=Refund": "max_retries=",
    "tols=[search]": "help(strictreply.wrap)",
    "contract=sr.Contract(answer=Refund), tols=[search]": "help(strictreply.wrap)",
}
"""The keywords of one call of ``wrap``, and what the error names."""

CALLS = [f"sr.wrap({client}(), {given})" for client in ("OpenAI", "AsyncOpenAI") for given in WRONG]
KEYWORD = re.compile(r"\b(?!answer=|tools=|contract=)(\w+)=")
MEANT = [*WRONG.values(), *WRONG.values()]


def said_by_mypy(folder: Path, program: str) -> list[str]:
    """Return the lines that mypy prints of a program, without the summary."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    (folder / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    options = ["--strict", "--config-file=mypy.ini", "--no-error-summary", f"--cache-dir={CACHE}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "program.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def said_by_pyright(folder: Path, program: str) -> list[dict[str, Any]]:
    """Return the diagnostics of pyright of a program."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(json.dumps(STRICT), encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable),
            *("--outputjson", "program.py"),
        ],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["summary"]["filesAnalyzed"] == 1
    diagnostics: list[dict[str, Any]] = said["generalDiagnostics"]
    return diagnostics


@pytest.mark.slow
def test_the_types_of_the_interface_hold_for_pyright(tmp_path: Path) -> None:
    """``public_api.py``, which ``make types`` checks with mypy, passes pyright too."""
    program = (ROOT / "tests" / "typing" / "public_api.py").read_text(encoding="utf-8")
    assert program.count("assert_type(") > 30
    assert said_by_pyright(tmp_path, program) == []


@pytest.mark.slow
def test_mypy_says_one_line_of_a_wrong_keyword(tmp_path: Path) -> None:
    """It names the keyword and what was meant, and shows no overload."""
    lines = said_by_mypy(tmp_path, HEAD + "\n".join(CALLS) + "\n")

    for number, (line, meant) in enumerate(zip(lines, MEANT, strict=True), HEAD.count("\n") + 1):
        (keyword,) = KEYWORD.findall(CALLS[number - HEAD.count("\n") - 1])
        assert line.startswith(f'program.py:{number}: error: Argument "{keyword}" to "wrap"'), line
        assert f"DidYouMean[Literal['{meant}'], Never]" in line, line
        assert len(line) < 250


@pytest.mark.slow
def test_pyright_says_one_error_of_a_wrong_keyword(tmp_path: Path) -> None:
    """Its first line names the keyword and what was meant."""
    found = said_by_pyright(tmp_path, HEAD + "\n".join(CALLS) + "\n")
    about = [one for one in found if one["rule"] == "reportArgumentType"]
    lines = [one["range"]["start"]["line"] - HEAD.count("\n") for one in about]
    assert lines == [*range(len(CALLS))]

    # beside a contract there are two overloads that take any keyword, which it says, too
    others = {one["range"]["start"]["line"] - HEAD.count("\n") for one in found} - {*lines}
    several = [one for one in found if one["rule"] == "reportCallIssue"]
    assert (others, len(several)) == (set(), sum("contract=" in call for call in CALLS))
    assert len(found) == len(CALLS) + len(several)

    for one, meant in zip(about, MEANT, strict=True):
        first = one["message"].splitlines()[0]
        assert f"DidYouMean[Literal['{meant}'], Never]" in first, first


def test_what_the_editor_says_is_what_the_call_says() -> None:
    """Each word of the last overload has the words of the table, and its other keywords are ours,
    with their types.
    """
    *_, last = get_overloads(sr.wrap)
    hints = get_type_hints(last, vars(_client))
    del hints["return"], hints["client"], hints["unknown"], hints["contract"], hints["answer"]

    words = {name: kind for name, kind in hints.items() if name not in WrapKeywords.__annotations__}
    assert {given.partition("=")[0] for given in WRONG} - {"tols", "contract"} <= words.keys()
    for name, kind in words.items():
        assert kind.__origin__ is DidYouMean
        assert get_args(get_args(kind)[0])[0] in IN_WRAP[name]

    ours = {name: kind for name, kind in hints.items() if name not in words}
    assert ours == get_type_hints(WrapKeywords, vars(_client))
    assert [*signature(last).parameters][-1] == "unknown"
