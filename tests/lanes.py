"""Which tests run where: what reaches an SDK on every SDK's lane, what takes long not in ``make quick``."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SDK_WORDS = re.compile(r"openai|httpx|respx|LoopbackServer|[\"']examples[\"']")
"""What a file mentions that calls an SDK, serves one, or runs a program that uses one."""

SLOW_WORDS = re.compile("subprocess|multiprocessing|LoopbackServer|pytester|langgraph|faults")
"""What a file mentions that starts processes or servers, or goes through the whole catalogue of faults."""


ONE_LANE_FIXTURES = frozenset({"postgres", "postgres_url", "pytester"})
"""Who asks for one of these starts a server or another pytest: that takes long, and holds whatever the SDK."""


def is_for_one_lane(item: pytest.Item) -> bool:
    """Report whether a test takes long and holds whatever the SDK: by its mark, its fixtures, or as its file kills."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return bool(item.get_closest_marker("one_lane")) or not ONE_LANE_FIXTURES.isdisjoint(fixtures) or kills(item.path)


@cache
def kills(path: Path) -> bool:
    """Report whether a test file kills processes."""
    return "SIGKILL" in path.read_text("utf-8")


def touches_sdk(path: Path) -> bool:
    """Report whether a test file, or a helper under ``tests/`` that it imports, mentions the SDK."""
    return any(SDK_WORDS.search(each.read_text("utf-8")) for each in _reached(path, frozenset()))


def is_quick(path: Path) -> bool:
    """Report whether a test file neither starts processes or servers nor goes through the catalogue of faults."""
    return not any(SLOW_WORDS.search(each.read_text("utf-8")) for each in _reached(path, frozenset()))


def _reached(path: Path, seen: frozenset[Path]) -> frozenset[Path]:
    """Return a file and the helpers that it imports, directly or through others."""
    seen |= {path}
    for helper in _helpers_of(path) - seen:
        seen = _reached(helper, seen)
    return seen


@cache
def _helpers_of(path: Path) -> frozenset[Path]:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths = {TESTS.joinpath(*name.split(".")).with_suffix(".py") for name in imported}
    return frozenset(helper for helper in paths if helper.is_file())
