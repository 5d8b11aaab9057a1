"""The code stays unpacked: one thing a statement, and room between the steps of a function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import strictreply

SOURCES = sorted(Path(strictreply.__file__).parent.rglob("*.py"))
WIDTH = 100
MOST_PAIRS = 30
LEAST_BLANK = 0.06
LONG_FUNCTION = 8
MOST_SILENT = 4
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


def named_by(expression: ast.expr) -> str:
    """Return the last part of the name of a base class or a decorator, without what it is given."""
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return named_by(inner)
        case _:
            return ""


def classes_of(trees: Iterable[ast.Module]) -> list[ast.ClassDef]:
    """Return every class of some modules."""
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def typed_dicts(classes: Iterable[ast.ClassDef]) -> set[str]:
    """Return the names of the classes that are a TypedDict, also by another one."""
    bases = {declared.name: set(map(named_by, declared.bases)) for declared in classes}
    found: set[str] = set()
    reached = {"TypedDict"}

    while reached:
        found |= reached
        reached = {name for name, above in bases.items() if above & found} - found

    return found


def fields_without_words(declared: ast.ClassDef, dicts: set[str]) -> list[str]:
    """Return the fields of a large value that have no docstring below them.

    A value is a dataclass, a NamedTuple or a TypedDict.
    """
    is_made = "dataclass" in map(named_by, declared.decorator_list)
    if not is_made and not {"NamedTuple", *dicts} & set(map(named_by, declared.bases)):
        return []

    fields = [each for each in declared.body if isinstance(each, ast.AnnAssign)]
    described = [
        above
        for above, below in pairwise(declared.body)
        if isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
        and below.value.value.strip()
    ]
    if len(fields) <= MOST_SILENT:
        return []
    return [ast.unparse(each.target) for each in fields if each not in described]


def values_without_words(modules: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Return the fields without words by module."""
    dicts = typed_dicts(classes_of(modules.values()))
    found: dict[str, list[str]] = {}

    for name, tree in modules.items():
        for declared in classes_of([tree]):
            lacking = fields_without_words(declared, dicts)
            if lacking:
                found.setdefault(name, []).extend(f"{declared.name}.{each}" for each in lacking)

    return found


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Return each node of the sources that a finder may find, with its place."""
    found: list[tuple[str, ast.AST]] = [
        (f"{path}:{node.lineno}", node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign | ast.IfExp | ast.Starred)
    ]
    assert len(found) > len(SOURCES)
    return found


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


@pytest.mark.slow
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


FIELDS = "a: int", "b: int = 1", "c: str", "d: str", "e: str"
WORDS = '"""What it is."""'
HEADS = (
    "@dataclass\nclass Value:",
    "@dataclass(frozen=True)\nclass Value:",
    "@dataclasses.dataclass\nclass Value(Generic[T]):",
    "class Value(NamedTuple):",
    "class Value(TypedDict, total=False):",
    "class Base(TypedDict): ...\nclass Between(Base): ...\nclass Value(Between, Generic[T]):",
)


def silent_in(head: str, *statements: str) -> list[str]:
    """Return what is found in one class."""
    source = "\n".join((head, '    """A value."""', *(f"    {each}" for each in statements)))
    return values_without_words({"module": ast.parse(source)}).get("module", [])


@pytest.mark.parametrize("head", HEADS)
def test_a_field_without_words_is_found(head: str) -> None:
    """Of a value with more than four fields each one is found that has no docstring below it."""
    told = [line for each in FIELDS for line in (each, WORDS)]
    assert silent_in(head, *told) == []
    assert silent_in(head, *FIELDS) == [f"Value.{each[0]}" for each in FIELDS]
    assert silent_in(head, *told[:-1]) == ["Value.e"]
    assert silent_in(head, *told[:-1], '""""""') == ["Value.e"]
    assert silent_in(head, *told[:-1], "3") == ["Value.e"]
    assert silent_in(head, *told[:-1], "def run(self): ...", WORDS) == ["Value.e"]


@pytest.mark.parametrize("head", HEADS)
def test_a_small_value_may_say_all_in_its_own_docstring(head: str) -> None:
    """Up to four fields need no docstring each, and nor does what is no value."""
    assert silent_in(head, *FIELDS[:MOST_SILENT]) == []
    assert silent_in("class Plain:", *FIELDS) == []
    assert silent_in("class Plain(Protocol[T]):", *FIELDS) == []


@pytest.mark.slow
def test_each_field_of_a_large_value_has_words_of_its_own() -> None:
    """Of a dataclass, NamedTuple or TypedDict with over four fields each has a docstring below."""
    root = Path(strictreply.__file__).parent
    modules = {
        path.relative_to(root).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in SOURCES
    }
    found = values_without_words(modules)
    assert len(modules) > MOST_SILENT
    assert found == {}
