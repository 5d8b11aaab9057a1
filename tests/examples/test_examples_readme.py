"""The list of the examples names each of them, with what really starts it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from support.loops import some
from support.pages import Page

pytestmark = pytest.mark.one_lane

FOLDER = Path(__file__).resolve().parents[2] / "examples"
README = Page((FOLDER / "README.md").read_text("utf-8"))
LINK = re.compile(r"\[([\w./]+)\]\(([\w./]+)\)")
ROWS = {found[1]: row for row in README.table("# Examples") if (found := LINK.match(row[0]))}
HELPERS = {
    "langgraph_models.py",
    "shop_scenario.py",
    "support_desk_model.py",
    "unreliable_corrections.py",
}
"""Modules that programs import, and nobody starts."""


def test_every_example_stands_in_the_list() -> None:
    """Each program has a row, each module that is only imported is named below, nothing else."""
    programs = {path.name for path in FOLDER.glob("*.py")} - HELPERS
    folders = {f"{path.name}/" for path in FOLDER.iterdir() if (path / "package.json").exists()}
    assert set(ROWS) == programs | folders
    below = {name for name, _ in LINK.findall(README.text.rpartition("|\n")[2])}
    assert below == HELPERS


def test_what_is_started_is_a_program() -> None:
    """A file with a guarded ``main`` has a row, one without is a module for others."""
    guarded = {
        path.name
        for path in FOLDER.glob("*.py")
        if 'if __name__ == "__main__":' in path.read_text()
    }
    assert guarded == {name for name in ROWS if name.endswith(".py")}


def test_the_commands_name_their_files_and_the_links_lead_there() -> None:
    """A row starts the file that it is about, and its link has the same name."""
    for name, row in some(ROWS.items()):
        if name.endswith(".py"):
            assert f"python examples/{name}" in row[2]
    for name, target in some(LINK.findall(README.text)):
        assert name == target
        assert (FOLDER / target).exists()


def test_the_extras_exist() -> None:
    """What is to be installed is an extra of the package, or another package."""
    package = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text("utf-8"))["project"]
    named = set(re.findall(r"'\.\[(\w+)\]'", README.text))
    assert {"durable", "langgraph"} <= named <= set(package["optional-dependencies"])
