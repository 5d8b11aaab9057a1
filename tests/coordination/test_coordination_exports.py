"""What ``strictreply.coordination`` exports: the documented names.

What these names need or return is in public modules.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strictreply import coordination
from strictreply.coordination import (
    END,
    END_NODE,
    HUMAN_INPUT,
    USER,
    Topology,
    request_human_input,
    route_next,
)
from support.coordination.tutor import state_with
from support.loops import some

MODULES = (
    "actions",
    "formats",
    "graph",
    "metrics",
    "routing",
    "state",
    "steering",
    "topology",
    "validation",
)
"""The public modules."""


def test_all_is_what_is_public() -> None:
    """``__all__`` names everything that the facade imports, once; a room is reached by its own
    path.
    """
    public = {
        name
        for name, value in vars(coordination).items()
        if not name.startswith("_") and name != "annotations" and not inspect.ismodule(value)
    }
    assert sorted(coordination.__all__) == sorted(public)


OTHERS = ("integrations", "testing")
"""The packages that stand on this one."""


def taken_by_others() -> Iterator[tuple[str, str]]:
    """Yield the module and the name of each import of coordination in another package."""
    for package in OTHERS:
        for path in (Path(coordination.__file__).parents[1] / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                module = getattr(node, "module", None) or ""
                if module.startswith(coordination.__name__) and isinstance(node, ast.ImportFrom):
                    yield from ((module, alias.name) for alias in node.names)


def test_other_packages_take_public_names() -> None:
    """What stands on coordination imports only what a module of it names in ``__all__``."""
    taken = sorted(set(taken_by_others()))
    assert len(taken) > 40
    assert [
        (module, name)
        for module, name in taken
        if name not in getattr(importlib.import_module(module), "__all__", ())
        or any(part.startswith("_") for part in module.split("."))
    ] == []


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_says_what_is_public(name: str) -> None:
    """It has words, and a sorted ``__all__`` without a name that is private or missing."""
    module = importlib.import_module(f"{coordination.__name__}.{name}")
    assert module.__doc__
    assert len(set(module.__all__)) == len(module.__all__)
    assert all(hasattr(module, one) and not one.startswith("_") for one in module.__all__)

    defined = [one for one in module.__all__ if inspect.isroutine(getattr(module, one))]
    homes = {getattr(module, one).__module__ for one in defined}
    assert homes <= {module.__name__}


def test_one_thing_has_one_name() -> None:
    """No object is exported under two names."""
    exported = [getattr(coordination, name) for name in coordination.__all__]
    assert len({id(value) for value in exported}) == len(exported)


def functions_of(exported: object) -> Iterator[Any]:
    """Return the functions whose annotations say what an exported object takes and gives."""
    if not isinstance(exported, type):
        yield exported
        return
    for name, member in vars(exported).items():
        made = name == "__init__" and not dataclasses.is_dataclass(exported)
        plain = getattr(member, "__func__", member.fget if isinstance(member, property) else member)
        if inspect.isfunction(plain) and (made or not name.startswith("_")):
            yield plain


def classes_in(annotation: object) -> Iterator[type]:
    """Return every class of the coordination that an annotation names, at any depth."""
    if isinstance(annotation, type) and annotation.__module__.startswith(coordination.__name__):
        yield annotation
    parts = annotation if isinstance(annotation, list | tuple) else typing.get_args(annotation)
    for part in parts:
        yield from classes_in(part)


def named_by(name: str) -> set[type]:
    """Return every class of ours that the annotations of an export name."""
    exported = getattr(coordination, name)
    hints = [typing.get_type_hints(function) for function in functions_of(exported)]

    if isinstance(exported, type):
        hints.append(
            {
                key: hint
                for key, hint in typing.get_type_hints(exported).items()
                if not key.startswith("_")
            }
        )

    return {one for found in hints for hint in found.values() for one in classes_in(hint)}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in coordination.__all__
        if callable(getattr(coordination, name)) and named_by(name)
    ],
)
def test_what_an_export_names_can_be_imported(name: str) -> None:
    """Every class of ours that the annotations of an export name is found where it says it is,
    under a public name.
    """
    for one in some(named_by(name)):
        assert getattr(importlib.import_module(one.__module__), one.__name__) is one
        assert not one.__name__.startswith("_")


def test_two_ends_have_two_names() -> None:
    """``END`` is what ``route_next`` gives, as ``HUMAN_INPUT`` is; ``END_NODE`` is a topology's, as
    ``USER`` is.
    """
    assert (route_next(state_with(is_complete=True)), END) == ("end", "end")
    assert (route_next(request_human_input(state_with(next_agent="coordinator"))), HUMAN_INPUT) == (
        "human_input",
        "human_input",
    )

    topology = Topology.of({"A": [USER], USER: ["B"], "B": ["A", END_NODE]})
    assert (END_NODE, topology.may_finish("B"), topology.may_ask_user("B")) == ("End", True, False)

    with pytest.raises(coordination.DeclarationError) as mixed:
        Topology.of({"A": [END]})

    assert (mixed.value.issues[0].code, "End" in mixed.value.issues[0].hint) == (
        "topology.unknown_agent",
        True,
    )
