"""Which formats there are by name: one table for the process, and the functions the published API names."""

from __future__ import annotations

from typing import Final

from strictreply.coordination.formats._interface import BaseResponseFormat
from strictreply.coordination.formats._json_format import JSONResponseFormat
from strictreply.values._errors import ContractError


class FormatRegistry:
    """Formats by name, one of them the default: JSON, until another is set (requirement M61)."""

    __slots__ = ("_classes", "_default")

    def __init__(self) -> None:
        """Begin with JSON."""
        self._classes: dict[str, type[BaseResponseFormat]] = {JSONResponseFormat.name: JSONResponseFormat}
        self._default = JSONResponseFormat.name

    def register_format(self, name: str, format_class: type[BaseResponseFormat], *, replace: bool = False) -> None:
        """Register a format; ``replace`` puts it in the place of one of the same name.

        Raises ContractError (a ValueError) for a name that is taken or blank, and for what is no format class.
        """
        if not name.strip():
            raise ContractError("a format's name must not be blank")
        _refuse_non_format(name, format_class)
        if name in self._classes and not replace:
            raise ContractError(f"a format {name!r} is registered; give replace=True to put this one in its place")
        self._classes = {**self._classes, name: format_class}

    def get_format(self, name: str | None = None) -> BaseResponseFormat:
        """Make a format by its name, None for the default; ContractError (a ValueError) lists those there are."""
        self._require(self._default if name is None else name)
        return self._classes[self._default if name is None else name]()

    def list_formats(self) -> list[str]:
        """Name the registered formats, in the order they were registered."""
        return list(self._classes)

    def set_default_format(self, name: str) -> None:
        """Make a registered format the default; ContractError (a ValueError) for any other."""
        self._require(name)
        self._default = name

    def is_format_registered(self, name: str) -> bool:
        """Tell whether there is a format of this name."""
        return name in self._classes

    def _require(self, name: str) -> None:
        """Refuse an unknown name."""
        if name not in self._classes:
            raise ContractError(f"there is no format {name!r}; registered are: {', '.join(self._classes)}")


_SHARED = FormatRegistry()

register_format = _SHARED.register_format
get_format = _SHARED.get_format
list_formats = _SHARED.list_formats
set_default_format = _SHARED.set_default_format
is_format_registered = _SHARED.is_format_registered


class _Default(str):
    """The published default of a parameter: equal to ``json``, and known from a name that a caller wrote."""

    __slots__ = ()


DEFAULT_FORMAT: Final = _Default(JSONResponseFormat.name)
"""Stands for the default format, which is ``json`` until another is set."""


def format_of(given: str | BaseResponseFormat | None) -> BaseResponseFormat:
    """Take a format, the name of a registered one, or None for the default; ContractError lists those there are."""
    if isinstance(given, BaseResponseFormat):
        return given
    return get_format(None if isinstance(given, _Default) else given)


def _refuse_non_format(name: str, given: object) -> None:
    """Refuse what is no class of formats."""
    if not (isinstance(given, type) and issubclass(given, BaseResponseFormat)):
        raise ContractError(f"the format {name!r} must be a subclass of BaseResponseFormat")
