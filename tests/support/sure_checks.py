"""Which tests check something for sure: a check in a loop over nothing never runs.

A check is an ``assert``, a ``pytest.raises``, ``warns`` or ``fail``, or a call of a function under
``tests/`` that has one. It is sure where it stands in no loop, or in loops alone over what is not
empty: a display with members, a ``range`` of numbers, what ``loops.some`` yields, and what a
generator under ``tests/`` yields outside such a loop.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
PYTEST_CHECKS = frozenset({"raises", "warns", "fail", "deprecated_call"})
SOME = frozenset({"some", "some_async"})
KEEPS_ITEMS = frozenset(
    {"chain", "cycle", "dict", "enumerate", "items", "keys", "list", "map", "pairwise", "product"}
    | {"reversed", "set", "sorted", "tuple", "values", "zip"}
)
"""What gives something where all that it is given has something."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor)
COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp, ast.SetComp)


@dataclass(frozen=True)
class Known:
    """What is known where a function stands.

    ``checking`` are the names of functions that check for sure, ``yielding`` of generators that
    yield for sure, ``constants`` the values of names.
    """

    checking: frozenset[str] = frozenset()
    yielding: frozenset[str] = frozenset()
    constants: Mapping[str, ast.expr] | None = None

    def value_of(self, name: str) -> ast.expr | None:
        """Return what a name was given, None where that is not known."""
        return (self.constants or {}).get(name)

    def without(self, name: str) -> Known:
        """Return the same without the value of a name, which may have been made of itself."""
        left = {key: value for key, value in (self.constants or {}).items() if key != name}
        return replace(self, constants=left)


def unsure_tests(source: str, known: Known | None = None) -> list[str]:
    """List the tests of a file that check nothing for sure, as ``line name``."""
    tree = ast.parse(source)
    known = known_in(tree, known or Known())
    tests = [each for each in functions_in(tree) if each.name.startswith("test_")]
    return [f"{test.lineno} {test.name}" for test in tests if not is_sure(test, known)]


@cache
def known_of(path: Path) -> Known:
    """Return what a file under ``tests/`` offers, with what it imports from there."""
    tree = ast.parse(path.read_text("utf-8"))
    return known_in(tree, imported(tree))


def imported(tree: ast.Module) -> Known:
    """Return what a file takes from helpers: the functions that it names, and all methods."""
    checking = set[str]()
    yielding = set[str]()

    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue

        path = TESTS.joinpath(*node.module.split(".")).with_suffix(".py")
        if not path.is_file():
            continue

        theirs = known_of(path)
        methods = {method.name for method in methods_in(ast.parse(path.read_text("utf-8")))}
        taken = {alias.name: alias.asname or alias.name for alias in node.names}
        taken |= {name: name for name in methods}
        checking |= {taken[name] for name in theirs.checking & taken.keys()}
        yielding |= {taken[name] for name in theirs.yielding & taken.keys()}

    return Known(frozenset(checking), frozenset(yielding))


def known_in(tree: ast.Module, known: Known) -> Known:
    """Add what the functions and methods of a file are, which may be by what others of it are."""
    own = [*(node for node in tree.body if isinstance(node, FUNCTIONS)), *methods_in(tree)]
    helpers = [each for each in own if not each.name.startswith("test_")]
    hidden = {each.name for each in helpers}
    known = Known(known.checking - hidden, known.yielding - hidden, dict(assigned(tree.body)))
    return grown(helpers, known)


def grown(functions: list[Function], known: Known) -> Known:
    """Add the functions that check or yield for sure, until there is no more of them."""
    while True:
        checking = {each.name for each in functions if is_sure(each, known)}
        yielding = {each.name for each in functions if yields(each, known)}
        more = replace(
            known, checking=known.checking | checking, yielding=known.yielding | yielding
        )
        if more == known:
            return known
        known = more


def functions_in(tree: ast.Module) -> list[Function]:
    """List the functions at the top of a file, and the methods of its classes."""
    return [*(node for node in tree.body if isinstance(node, FUNCTIONS)), *methods_in(tree)]


def methods_in(tree: ast.Module) -> list[Function]:
    """List the methods of all classes of a file."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return [node for each in classes for node in each.body if isinstance(node, FUNCTIONS)]


def assigned(nodes: list[ast.stmt] | list[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that are assigned, each with its value."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case _:
                pass


def is_sure(function: Function, known: Known) -> bool:
    """Return whether a function checks something whenever it is run."""
    known = inside(function, known)
    return any(is_check(node, known) for node in sure_nodes(function.body, known))


def yields(function: Function, known: Known) -> bool:
    """Return whether a generator yields something whenever it is run."""
    known = inside(function, known)
    return any(
        isinstance(node, ast.Yield)
        or (isinstance(node, ast.YieldFrom) and has_items(node.value, known))
        for node in sure_nodes(function.body, known)
    )


def inside(function: Function, known: Known) -> Known:
    """Return what is known inside a function: its own names and inner functions as well."""
    nodes = list(ast.walk(function))
    constants = {**(known.constants or {}), **dict(assigned(nodes))}
    inner = [node for node in nodes if isinstance(node, FUNCTIONS) and node is not function]
    hidden = {each.name for each in inner}
    known = Known(known.checking - hidden, known.yielding - hidden, constants)
    return grown(inner, known) if inner else known


def sure_nodes(nodes: list[ast.stmt] | list[ast.AST], known: Known) -> Iterator[ast.AST]:
    """Yield nodes and what stands in them, but not what a loop may pass over.

    Bodies of inner functions and classes are left out: whoever calls them runs them.
    """
    for node in nodes:
        if isinstance(node, SCOPES):
            continue

        yield node
        skipped = passed_over(node, known)
        inner = [child for child in ast.iter_child_nodes(node) if child not in skipped]
        yield from sure_nodes(inner, known)


def passed_over(node: ast.AST, known: Known) -> list[ast.AST]:
    """List the parts of a loop that may never run."""
    if isinstance(node, LOOPS):
        return [] if has_items(node.iter, known) else [*node.body]
    if isinstance(node, ast.While):
        runs = isinstance(node.test, ast.Constant) and bool(node.test.value)
        return [] if runs else [*node.body]
    if isinstance(node, COMPREHENSIONS):
        runs = all(has_items(each.iter, known) for each in node.generators)
        return [] if runs else [node.elt]

    return []


def is_check(node: ast.AST, known: Known) -> bool:
    """Return whether a node checks something."""
    if isinstance(node, ast.Assert):
        return not is_empty_truth(node.test, known)
    if not isinstance(node, ast.Call):
        return False

    called = [name_of(node.func)]
    if called == ["run"]:  # of an event loop: it runs what it is given
        called += [name_of(argument) for argument in node.args]

    checks = PYTEST_CHECKS | (known.checking - SOME)
    return any(name in checks or name.startswith("assert") for name in called)


def is_empty_truth(test: ast.expr, known: Known) -> bool:
    """Return whether an asserted expression is ``all(…)`` of what may be empty."""
    match test:
        case ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp() | ast.ListComp() as made]):
            return not all(has_items(each.iter, known) for each in made.generators)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(is_empty_truth(each, known) for each in values)
        case _:
            return False


def has_items(iterated: ast.expr, known: Known) -> bool:
    """Return whether what is iterated is never empty, as far as the text shows."""
    match iterated:
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return any(
                not isinstance(item, ast.Starred) or has_items(item.value, known) for item in items
            )
        case ast.Dict(keys=keys):
            return any(key is not None for key in keys)
        case ast.Constant(value=str() | bytes() as value):
            return bool(value)
        case ast.Name(id=name):
            given = known.value_of(name)
            return given is not None and has_items(given, known.without(name))
        case ast.BinOp(op=ast.Add() | ast.BitOr(), left=left, right=right):
            return has_items(left, known) or has_items(right, known)
        case ast.Call(func=func, args=args):
            return gives_items(func, args, known)
        case _:
            return False


def gives_items(func: ast.expr, args: list[ast.expr], known: Known) -> bool:
    """Return whether what a call gives is never empty."""
    name = name_of(func)
    if name in SOME or name in known.yielding:
        return True
    if name == "range":
        return all(isinstance(bound, ast.Constant) for bound in args)
    if name not in KEEPS_ITEMS:
        return False
    if isinstance(func, ast.Attribute) and not args:
        return has_items(func.value, known)

    given = args[1:] if name == "map" else args
    return bool(given) and all(has_items(each, known) for each in given)


def name_of(func: ast.expr) -> str:
    """Return the last name of a function, "" for what has none."""
    match func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
