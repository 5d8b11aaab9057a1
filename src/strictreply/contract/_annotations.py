"""The annotations of a function, as objects."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import FrameType
from typing import get_type_hints

from strictreply.contract._models import UNREADABLE, first_line
from strictreply.values._errors import ContractError


def hints_of(function: Callable[..., object]) -> Mapping[str, object]:
    """Return the annotations of a function by parameter.

    Types local to a function are found while that function runs. Raises ContractError if one cannot
    be found.
    """
    inner = documented(function)
    try:
        local = _enclosing_locals(inner)
        return get_type_hints(inner, localns=local, include_extras=True)
    except UNREADABLE as error:
        words = f"cannot be read ({first_line(error)}); use types that its module defines"
        raise ContractError(f"the annotations of {function_name(function)}() {words}") from error


def function_name(function: Callable[..., object]) -> str:
    """Return the name of a function for messages.

    A partial has the name of the wrapped function, a callable object the name of its class.
    """
    inner = function.func if isinstance(function, functools.partial) else function
    return getattr(inner, "__name__", type(inner).__name__)


def documented(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function inside a partial or a callable object, which has the annotations."""
    if isinstance(function, functools.partial):
        return documented(function.func)
    return function if inspect.isroutine(function) else type(function).__call__


def _enclosing_locals(function: Callable[..., object]) -> Mapping[str, object]:
    """Return the locals of the running function that defines this one.

    They are found on the stack, because a function keeps no reference to them.
    """
    inner = inspect.unwrap(function)
    place, _, _ = inner.__qualname__.rpartition(".<locals>.")

    frame: FrameType | None = inspect.currentframe() if place else None
    while frame is not None:
        if frame.f_code.co_qualname == place and frame.f_globals is inner.__globals__:
            return frame.f_locals
        frame = frame.f_back

    return {}
