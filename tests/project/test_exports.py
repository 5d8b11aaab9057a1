"""``strictreply.__all__`` is the truth about what is public."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from importlib.metadata import version

import pytest

import strictreply
import strictreply.testing

SOURCE = ast.parse(inspect.getsource(strictreply))


def test_all_is_what_is_public() -> None:
    """``__all__`` names what type checkers see imported and what is imported on demand, from the
    same modules.
    """
    guarded = next(node for node in SOURCE.body if isinstance(node, ast.If))
    seen = {
        alias.name: str(node.module)
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    demanded = {name: f"strictreply.{module}" for name, module in strictreply._MODULE_OF.items()}
    demanded |= dict.fromkeys(strictreply._PACKAGES, "strictreply")
    assert seen == demanded
    assert sorted(seen) == sorted(strictreply.__all__)

    assert set(strictreply.__all__) <= set(dir(strictreply))


def test_all_names_each_once() -> None:
    """``__all__`` holds no name twice."""
    assert len(set(strictreply.__all__)) == len(strictreply.__all__)


@pytest.mark.parametrize("name", strictreply.__all__)
def test_each_is_there_when_it_is_the_first(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A public name is found when nothing else was used before, a package as its module."""
    monkeypatch.delitem(vars(strictreply), name, raising=False)
    value = getattr(strictreply, name)
    assert (value is not None, inspect.ismodule(value)) == (True, name in strictreply._PACKAGES)


@pytest.mark.parametrize("name", strictreply.__all__)
def test_export_is_documented(name: str) -> None:
    """Every exported class and function has its own docstring, and comes from this library."""
    value = getattr(strictreply, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        assert value.__doc__
        assert not value.__doc__.startswith(f"{name}(")  # what dataclasses write when nobody did
        assert value.__module__.partition(".")[0] == "strictreply"


@pytest.mark.parametrize("name", strictreply.testing.__all__)
def test_every_name_of_the_test_kit_is_found(name: str) -> None:
    """``strictreply.testing.__all__`` names what is there, in whichever module it is defined."""
    assert getattr(strictreply.testing, name) is not None


def test_version_is_the_installed_one() -> None:
    """``__version__`` is what the installed metadata says, so that it stands in one place."""
    assert strictreply.__version__ == version("strictreply")


def test_unknown_names_are_refused() -> None:
    """A name that does not exist raises AttributeError, whatever is looked up on demand."""
    missing = "no_such_name"
    with pytest.raises(AttributeError):
        getattr(strictreply, missing)


def roots_of(kind: type) -> set[str]:
    """Return the packages that a class is derived from."""
    return {base.__module__.partition(".")[0] for base in kind.__mro__}


def test_errors_show_where_they_are_imported_from() -> None:
    """The module that a traceback names for an error of ours is a public one, which has it."""
    for name in ("coordination", "pipeline", "loop", "integrations.dbos"):
        import_module(f"strictreply.{name}")

    pending: list[type[Exception]] = [strictreply.StrictReplyError]
    seen: list[type[Exception]] = []

    while pending:
        seen.append(pending.pop())
        ours = [
            kind for kind in seen[-1].__subclasses__() if kind.__module__.startswith("strictreply")
        ]
        # those that are an SDK's errors, too, are made where they are raised
        sdks = {"openai", "anthropic"}
        pending += [kind for kind in ours if sdks.isdisjoint(roots_of(kind))]

    assert {kind.__name__ for kind in seen} >= {
        "ReplyRejected",
        "StateError",
        "SessionConflict",
        "Unanswered",
    }

    for error in seen:
        assert "._" not in error.__module__
        assert getattr(import_module(error.__module__), error.__name__) is error
