"""The code stays unpacked: one thing a statement, and room between the steps of a function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strictreply

SOURCES = sorted(Path(strictreply.__file__).parent.rglob("*.py"))
WIDTH = 100
MOST_PAIRS = 30
LEAST_BLANK = 0.06
LONG_FUNCTION = 8
PAIRS = (ast.Tuple, ast.List)


def is_pair_of_values(node: ast.AST) -> bool:
    """Report an assignment of several values at once, such as ``a, b = 1, 2``."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(target, ast.Tuple) for target in node.targets)
    )


def is_nested_condition(node: ast.AST) -> bool:
    """Report a conditional expression inside of another."""
    return isinstance(node, ast.IfExp) and any(
        isinstance(part, ast.IfExp) for part in (node.test, node.body, node.orelse)
    )


def is_splat_of_literal(node: ast.AST) -> bool:
    """Report a literal that is unpacked where it is written, such as ``*(a, b)``."""
    return isinstance(node, ast.Starred) and isinstance(node.value, PAIRS)


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """Yield each node of the sources with its place."""
    assert SOURCES != []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield f"{path}:{getattr(node, 'lineno', 1)}", node


@pytest.mark.parametrize(
    ("finder", "fault", "sound"),
    [
        (is_pair_of_values, "a, b = 1, 2", "a, b = pair"),
        (is_nested_condition, "1 if a else 2 if b else 3", "1 if a else 2"),
        (is_splat_of_literal, "[*a, *(1, 2)]", "[*a, 1, 2]"),
    ],
)
def test_the_finders_find(finder: Callable[[ast.AST], bool], fault: str, sound: str) -> None:
    """Each finder sees its fault, and nothing in the sound form of it."""
    assert any(map(finder, ast.walk(ast.parse(fault))))
    assert not any(map(finder, ast.walk(ast.parse(sound))))


def test_pairs_of_assignments_are_rare() -> None:
    """Unrelated values are assigned one a line; what is left swaps or belongs together."""
    found = [place for place, node in nodes() if is_pair_of_values(node)]
    assert len(found) <= MOST_PAIRS, found


def test_no_conditional_expression_is_nested() -> None:
    """A conditional expression holds no other: the second choice is a statement."""
    assert [place for place, node in nodes() if is_nested_condition(node)] == []


def test_no_literal_is_unpacked_where_it_stands() -> None:
    """Nothing is written as ``*(a, b)``: its members are written themselves."""
    assert [place for place, node in nodes() if is_splat_of_literal(node)] == []


def test_no_line_is_wide() -> None:
    """No line of the sources is wider than 100 columns."""
    wide = [
        f"{path}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > WIDTH
    ]
    assert SOURCES != []
    assert wide == []


def test_long_functions_have_blank_lines() -> None:
    """Of the lines in functions over eight lines at least six in a hundred are blank."""
    lines: list[str] = []

    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = text.splitlines()[node.body[0].lineno - 1 : node.end_lineno]
                lines += body if len(body) > LONG_FUNCTION else []

    blank = sum(not line.strip() for line in lines)
    assert blank >= LEAST_BLANK * len(lines) > 0
