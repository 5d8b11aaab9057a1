"""The pages about support and upgrading: their tables are those of the project and the code."""

from __future__ import annotations

import inspect
import re
import tomllib
from importlib import import_module
from importlib.util import find_spec
from typing import Any, get_args

import pytest

from support.pages import DOCS, Page

pytestmark = pytest.mark.one_lane

PACKAGE = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))["project"]
SUPPORTED = {row[0]: row[1] for row in Page.named("support.md").table("## Versions")}
RENAMED = [
    tuple(re.findall(r"`([^`]+)`", cell)[0] for cell in row)
    for row in Page.named("upgrading.md").table("### Names")
]
MISSING = object()


def found(name: str) -> bool:
    """Report whether strictreply has a name, or the parameter that stands in its brackets."""
    path, _, parameter = name.rstrip("=)").partition("(")
    value: Any = import_module("strictreply")
    for part in path.split("."):
        value = member_of(value, part)
    return value is not MISSING and (not parameter or parameter in parameters_of(value))


def member_of(value: Any, name: str) -> Any:
    """Return what a package, a module or a class has under a name, or MISSING."""
    is_package = hasattr(value, "__path__")
    if is_package and find_spec(f"{value.__name__}.{name}"):
        return import_module(f"{value.__name__}.{name}")
    return getattr(value, name, MISSING)


def parameters_of(function: Any) -> set[str]:
    """Return the names of a function's parameters, with those that it unpacks."""
    names: set[str] = set()
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        unpacked = get_args(parameter.annotation)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and unpacked:
            names |= set(unpacked[0].__annotations__)
        names.add(name)
    return names


@pytest.mark.parametrize(("old", "new"), RENAMED)
def test_a_name_was_changed(old: str, new: str) -> None:
    """Of each row the new name or parameter is there, and the old one is gone."""
    assert found(new)
    assert not found(old)


def test_the_pythons_are_those_of_the_package() -> None:
    """The page names each Python that the classifiers name, and no other."""
    classified = re.findall(r"Python :: (3\.\d+)", " ".join(PACKAGE["classifiers"]))
    assert classified
    assert SUPPORTED["Python"].split(", ") == classified


@pytest.mark.parametrize(("name", "extra"), [("openai", ""), ("pydantic", ""), ("anthropic",) * 2])
def test_the_lower_bounds_are_those_of_the_package(name: str, extra: str) -> None:
    """The page names the lower bound of each SDK as the package declares it."""
    optional = PACKAGE["optional-dependencies"]
    declared = optional[extra] if extra else PACKAGE["dependencies"]
    bounds = [one.partition(">=")[2] for one in declared if one.startswith(f"{name}>=")]
    assert [SUPPORTED[name].split(" ")[0]] == bounds
