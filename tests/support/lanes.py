"""Which tests run where.

What reaches an SDK runs on every SDK's lane; what takes long does not run in ``make quick``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SDK_WORDS = re.compile(
    r"\bopenai\b|\b(async_)?openai_client\b|httpx|respx|LoopbackServer|[\"'](examples|ask|demo|probe)[\"']"
)
"""What code mentions that calls an SDK, serves one, or runs a program that uses one."""

SLOW_WORDS = re.compile("subprocess|multiprocessing|LoopbackServer|pytester|langgraph|faults")
"""What a file mentions that starts processes or servers, or goes through the whole catalogue of
faults.
"""


ONE_LANE_FIXTURES = frozenset({"postgres", "postgres_url", "pytester"})
"""Who asks for one of these starts a server or another pytest: that takes long, and holds whatever
the SDK.
"""


def is_for_one_lane(item: pytest.Item) -> bool:
    """Report whether a test takes long and holds whatever the SDK.

    Its mark, its fixtures, or a file that kills processes tell it.
    """
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return (
        bool(item.get_closest_marker("one_lane"))
        or not ONE_LANE_FIXTURES.isdisjoint(fixtures)
        or kills(item.path)
    )


@cache
def kills(path: Path) -> bool:
    """Report whether a test file kills processes."""
    return "SIGKILL" in path.read_text("utf-8")


@cache
def touches_sdk(path: Path, name: str | None = None) -> bool:
    """Report whether a test file, or the test of a name in it, reaches the SDK.

    It does when it, or what it uses under ``tests/``, mentions the SDK. A helper that has fakes
    beside a server for the real client counts for those alone who use the server. The fixtures of a
    test are what its arguments name, in its file or in a ``conftest.py`` above it.
    """
    left: list[tuple[Path, str | None]] = [(path, name)]
    seen = set(left)

    while left:
        source, name = left.pop()
        for statement in _statements(source):
            if name is None or name in statement.names or not statement.names:
                if statement.mentions_sdk:
                    return True
                left += statement.used - seen
                seen |= statement.used

    return False


def is_quick(path: Path) -> bool:
    """Report whether a test file is quick.

    It is when it neither starts processes or servers nor goes through the catalogue of faults.
    """
    return not any(
        SLOW_WORDS.search(each.read_text("utf-8")) for each in _reached(path, frozenset())
    )


@dataclass(frozen=True)
class _Statement:
    """One statement at the top of a file.

    It says what is defined, and which definitions are used, here and in helpers.
    """

    names: frozenset[str]
    used: frozenset[tuple[Path, str | None]]
    mentions_sdk: bool


@cache
def _statements(path: Path) -> list[_Statement]:
    text = path.read_text("utf-8")
    lines = text.splitlines()
    found = []

    for one in ast.parse(text).body:
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            continue  # words alone

        used = {(path, node.id) for node in ast.walk(one) if isinstance(node, ast.Name)}
        fixtures = [node.arg for node in ast.walk(one) if isinstance(node, ast.arg)]
        used |= {(place, name) for name in fixtures for place in (path, *_conftests(path))}
        begins = min(node.lineno for node in [one, *getattr(one, "decorator_list", [])])
        mentions = SDK_WORDS.search("\n".join(lines[begins - 1 : one.end_lineno]))
        found.append(
            _Statement(
                frozenset(_names_of(one)), frozenset({*used, *_imported(one)}), bool(mentions)
            )
        )

    return found


def _names_of(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (
            node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
        )


def _imported(statement: ast.AST) -> Iterator[tuple[Path, str | None]]:
    """Yield the helpers that a statement imports, each with the name taken from it.

    The name is None when the whole helper is imported.
    """
    for node in ast.walk(statement):
        named: list[tuple[str, str | None]] = []

        if isinstance(node, ast.Import):
            named = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = [(node.module, alias.name) for alias in node.names]
            named += [(f"{node.module}.{alias.name}", None) for alias in node.names]

        for module, name in named:
            if (path := _helper(module)) is not None:
                yield path, name


@cache
def _conftests(path: Path) -> list[Path]:
    above = [folder / "conftest.py" for folder in path.parents if folder.is_relative_to(TESTS)]
    return [each for each in above if each.is_file()]


def _helper(module: str) -> Path | None:
    path = TESTS.joinpath(*module.split(".")).with_suffix(".py")
    return path if path.is_file() else None


def _reached(path: Path, seen: frozenset[Path]) -> frozenset[Path]:
    """Return a file and the helpers that it imports, directly or through others."""
    seen |= {path}
    for helper in _helpers_of(path) - seen:
        seen = _reached(helper, seen)
    return seen


@cache
def _helpers_of(path: Path) -> frozenset[Path]:
    return frozenset(helper for helper, _ in _imported(ast.parse(path.read_text("utf-8"))))
