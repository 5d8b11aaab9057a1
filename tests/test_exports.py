"""``strictreply.__all__`` is the truth about what is public."""

from __future__ import annotations

import inspect
from importlib.metadata import version

import pytest

import strictreply

NOT_EXPORTS = {"annotations"}  # what ``from __future__ import annotations`` leaves behind


def test_all_is_what_is_public() -> None:
    """Every public name of the package is in ``__all__`` once, and nothing else is."""
    public = {
        name
        for name, value in vars(strictreply).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name not in NOT_EXPORTS
    }
    assert sorted(public) == sorted(name for name in strictreply.__all__ if name != "__version__")


def test_all_names_each_once() -> None:
    """``__all__`` holds no name twice."""
    assert len(set(strictreply.__all__)) == len(strictreply.__all__)


@pytest.mark.parametrize("name", strictreply.__all__)
def test_export_is_documented(name: str) -> None:
    """Every exported class and function has its own docstring, and comes from this library."""
    value = getattr(strictreply, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        assert value.__doc__
        assert not value.__doc__.startswith(f"{name}(")  # what dataclasses write when nobody did
        assert value.__module__.partition(".")[0] == "strictreply"


def test_version_is_the_installed_one() -> None:
    """``__version__`` is what the installed metadata says, so that it stands in one place."""
    assert strictreply.__version__ == version("strictreply")


def test_unknown_names_are_refused() -> None:
    """A name that does not exist raises AttributeError, whatever is looked up on demand."""
    missing = "no_such_name"
    with pytest.raises(AttributeError):
        getattr(strictreply, missing)
