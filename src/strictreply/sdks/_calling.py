"""Calls, sync and async, that are made while a context variable has a value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

V = TypeVar("V")
R = TypeVar("R")


def called_with(variable: ContextVar[V], value: V, call: Callable[[], R]) -> R:
    """Make a call, or return an awaitable of it, while a variable has a value.

    What can be iterated, too, as the pages of the SDK can, is returned itself.
    """
    token = variable.set(value)
    try:
        called = call()
    finally:
        variable.reset(token)

    if not inspect.isawaitable(called) or hasattr(called, "__aiter__"):
        return called

    async def called_later() -> object:
        token = variable.set(value)
        try:
            return await called
        finally:
            variable.reset(token)

    later: Any = called_later()
    awaitable: R = later
    return awaitable
