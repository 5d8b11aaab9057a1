"""Keeps what is made of pydantic's reader of a type on the reader itself.

For classes and functions, which may change, see ``kept_on`` in ``_models``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter

T = TypeVar("T")


class _Result(Generic[T]):
    """Holds one result; it is empty where its adapter is pickled or copied."""

    def __init__(self, *made: T) -> None:
        self.made = made

    def __reduce__(self) -> tuple[type[_Result[Any]], tuple[()]]:
        """Travel empty: a result may hold what cannot be pickled, and is made anew."""
        return _Result, ()


def kept_on_adapter(adapter: TypeAdapter[Any], name: str, make: Callable[[], T]) -> T:
    """Return what ``make`` makes of an adapter, kept in its attribute of this name.

    A table of adapters would never let a type go that its results refer to.
    """
    attribute = f"__strictreply_{name}__"
    held = cast("_Result[T] | None", vars(adapter).get(attribute))
    if held is None or not held.made:
        held = _Result(make())
        setattr(adapter, attribute, held)

    return held.made[0]
