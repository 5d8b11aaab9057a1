"""The reference is made from the code, and nothing public is missing in it."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from inspect import ismodule
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from project.test_architecture import PUBLIC
from strictreply.client._client import WrapKeywords
from support.cli.running import run_command
from support.pages import DOCS, Page

pytestmark = pytest.mark.one_lane


def source_of(name: str) -> str:
    """Read a module without importing it."""
    path = DOCS.parent.joinpath("src", *name.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")


NAMING = sorted(name for name in PUBLIC if "\n__all__ = " in source_of(name))
"""The public modules that say in ``__all__`` what is public in them."""

TESTING = ("faults", "mounting", "ok", "strategies")
"""Modules of the kit whose every function and class without an underscore is public."""


def module_of(name: str) -> ModuleType:
    """Import a module, or skip where its extra is not installed."""
    return (
        pytest.importorskip(name, reason="an extra is not installed")
        if "integrations" in name
        else import_module(name)
    )


def shown() -> list[str]:
    """Return the names that the pages of the reference show, in order."""
    text = "".join(path.read_text("utf-8") for path in sorted((DOCS / "reference").glob("*.md")))
    return re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)


def looked_up(name: str) -> Any:
    """Find what a dotted name stands for."""
    module, _, last = name.rpartition(".")
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return getattr(import_module(module), last)


def members(module: ModuleType) -> list[Any]:
    """Return what a module without ``__all__`` makes public."""
    return [
        value
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


@pytest.mark.parametrize("name", NAMING)
def test_nothing_public_is_missing(name: str) -> None:
    """What a module names in ``__all__`` stands in the reference, under this path or another."""
    module = module_of(name)
    paths = [path for path in shown() if "integrations" not in path or path.startswith(name)]
    shown_here = [looked_up(path) for path in paths]
    found = [one for each in shown_here for one in (members(each) if ismodule(each) else [each])]
    missing = [
        public
        for public in module.__all__
        if not ismodule(value := getattr(module, public))
        and f"{name}.{public}" not in paths
        and not any(value is one for one in found)
    ]
    assert missing == []


@pytest.mark.parametrize("name", ["strictreply.loop.values", "strictreply.loop.invoke_result"])
def test_the_values_of_a_run_have_a_line_each(name: str) -> None:
    """Each name of a public module of the loop stands in a table of the loop's page."""
    page = (Path(DOCS) / "reference" / "loop.md").read_text("utf-8")
    table = page.partition(f"`{name}` holds")[2].partition("\n\n`strictreply")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert sorted(rows) == sorted(import_module(name).__all__)


def test_the_kit_is_shown_by_its_modules() -> None:
    """The kit's modules without ``__all__`` are shown whole, each fault in its catalogue."""
    whole = {path.removeprefix("strictreply.testing.") for path in shown()}
    assert set(TESTING) - {"faults"} <= whole
    assert all(members(import_module(f"strictreply.testing.{name}")) for name in TESTING)


@cache
def declared() -> dict[tuple[str, str | None], ast.ClassDef]:
    """Return the classes of the package as they are written, by their names and docstrings."""
    sources = [path.read_text("utf-8") for path in (DOCS.parent / "src").rglob("*.py")]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    kinds = [node for node in nodes if isinstance(node, ast.ClassDef)]
    return {(kind.name, ast.get_docstring(kind)): kind for kind in kinds}


def fields_in(kind: type) -> Iterator[tuple[str, bool]]:
    """Yield the public fields of a class, each with whether a sentence stands below it.

    They stand in its body, or are set when it is made. A TypedDict that is written as a call has
    no body.
    """
    written = declared().get((kind.__name__, inspect.getdoc(kind)))
    body: Any = written.body if written else []
    made = [one.body for one in body if getattr(one, "name", "") == "__init__"]
    for lines in (body, *made):
        for line, below in pairwise([*lines, None]):
            if not isinstance(line, ast.Assign | ast.AnnAssign):
                continue
            target = line.target if isinstance(line, ast.AnnAssign) else line.targets[0]
            name = ast.unparse(target)
            is_field = name.isidentifier() if lines is body else name.startswith("self.")
            if is_field and not name.removeprefix("self.").startswith("_"):
                words = getattr(getattr(below, "value", None), "value", None)
                yield name, isinstance(below, ast.Expr) and isinstance(words, str)


def classes_shown() -> list[type]:
    """Return the classes that the reference shows field by field; an enum is shown as a table."""
    here = [looked_up(name) for name in shown() if "integrations" not in name]
    found = [one for each in here for one in (members(each) if ismodule(each) else [each])]
    return [one for one in found if isinstance(one, type) and not issubclass(one, Enum)]


def test_every_field_has_a_sentence() -> None:
    """Each field of each class of the reference has a sentence below it, in its source."""
    found = {kind: dict(fields_in(kind)) for kind in classes_shown()}
    assert sum(map(len, found.values())) > 500
    empty = [
        f"{kind.__qualname__}.{name}"
        for kind, fields in found.items()
        for name, has_words in fields.items()
        if not has_words
    ]
    assert empty == []


def test_nothing_is_shown_twice() -> None:
    """Each name stands once."""
    names = shown()
    assert sorted(names) == sorted(set(names))


def test_the_pages_of_codes_are_current() -> None:
    """The page of issue codes is what the code makes; ``tools/write_codes.py`` writes it anew."""
    tool = runpy.run_path(str(DOCS.parent / "tools" / "write_codes.py"))
    assert tool["PAGE"].read_text("utf-8") == tool["codes_page"](), "run `make pages`"


def test_the_table_of_keywords_is_current() -> None:
    """The keywords of ``wrap`` are those of the code; ``tools/write_keywords.py`` writes them."""
    tool = runpy.run_path(str(DOCS.parent / "tools" / "write_keywords.py"))
    page = tool["PAGE"].read_text("utf-8")
    assert page == tool["keywords_page"](page), "run `make pages`"


def test_the_table_of_keywords_is_whole() -> None:
    """Each keyword has a type, a default and a sentence."""
    rows = Page.named("reference/client.md").table("<!-- keywords:begin -->")
    names = {name.strip("`") for name, *_ in rows}
    assert names == {"contract", "answer", *WrapKeywords.__annotations__}
    assert [row for row in rows if not all(row)] == []


def test_the_charts_are_drawn_from_their_tables() -> None:
    """A table that changes changes its chart; ``tools/draw_charts.py`` draws them anew."""
    charts = runpy.run_path(str(DOCS.parent / "tools" / "draw_charts.py"))["CHARTS"]
    assert len(charts) > 3
    assert [
        name for name, draw in charts.items() if draw() != (DOCS / name).read_text("utf-8")
    ] == []


def test_the_flows_are_drawn_from_their_lists() -> None:
    """A flow that changes changes its picture; ``tools/draw_flows.py`` draws them anew."""
    flows = runpy.run_path(str(DOCS.parent / "tools" / "draw_flows.py"))["CHARTS"]
    assert len(flows) > 3
    assert [
        name for name, picture in flows.items() if picture != (DOCS / name).read_text("utf-8")
    ] == []


PICTURES = sorted(DOCS.glob("*.svg"))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_every_picture_is_described(picture: Path) -> None:
    """A picture that a page shows has words there for those who do not see it."""
    shown = re.compile(rf"!\[([^\]]+)\]\((?:\.\./|docs/)*{re.escape(picture.name)}\)")
    beside = (DOCS.parent / "README.md", DOCS.parent / "benchmarks" / "results.md")
    pages = [*beside, *DOCS.rglob("*.md")]
    words = [found[1] for page in pages for found in shown.finditer(page.read_text("utf-8"))]
    assert words
    assert all(len(one.split()) > 3 for one in words)


def helps(*words: str) -> dict[str, str]:
    """Return the help of a command and of all below it, by their words."""
    text = run_command(*words, "--help").stdout
    listed = text.partition("\nCommands:\n")[2].partition("\n\n")[0]
    below = re.findall(r"^  ([a-z-]+) ", listed, flags=re.MULTILINE)
    return {" ".join(words): text} | {
        name: known for one in below for name, known in helps(*words, one).items()
    }


HELPS = {words: text for words, text in helps().items() if words}


def test_the_commands_are_found() -> None:
    """Every command is there, those below ``batch`` too."""
    assert HELPS.keys() >= {"ask", "batch run", "batch validate", "check", "probe", "serve-script"}


@pytest.mark.parametrize("words", sorted(HELPS))
def test_every_option_is_told(words: str) -> None:
    """The page of the command line names each command and each option that its help lists."""
    page = (DOCS / "cli.md").read_text("utf-8")
    options = re.findall(r"^  (--[a-z-]+)", HELPS[words], flags=re.MULTILINE)
    assert all(name in page for name in words.split())
    assert f"`{words.split(maxsplit=1)[0]}`" in page
    assert [name for name in options if name not in page] == []


def test_every_program_is_run() -> None:
    """A page that prints a program has a test that runs it."""
    tests = "".join(path.read_text("utf-8") for path in (DOCS.parent / "tests").rglob("test_*.py"))
    pages = [
        path.relative_to(DOCS).as_posix()
        for path in DOCS.rglob("*.md")
        if Page.named(str(path)).programs
    ]
    assert len(pages) > 10
    assert [page for page in pages if f'"{page}"' not in tests and "howto/" not in page] == []


def test_every_page_is_in_the_menu() -> None:
    """The site's menu leads to each page."""
    menu = (DOCS.parent / "mkdocs.yml").read_text("utf-8")
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert [page for page in pages if page not in menu] == []


def test_the_errors_are_drawn_as_the_code_draws_them() -> None:
    """The tree of exceptions on the page is the one of the module."""
    module = import_module("strictreply.values._errors")
    (tree,) = re.findall(r"::\n\n((?:    .*\n)+)", str(module.__doc__))
    drawn = "".join(f"{line[4:]}\n" for line in tree.splitlines()).replace("``", "")
    assert drawn in (Path(DOCS) / "reference" / "errors.md").read_text("utf-8")
