"""Calls, sync and async, that are made while a context variable has a value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any


def called_with(variable: ContextVar[Any], value: Any, call: Callable[[], Any]) -> Any:
    """Make a call, or return an awaitable of it, while a variable has a value."""
    token = variable.set(value)
    try:
        called = call()
    finally:
        variable.reset(token)

    if not inspect.isawaitable(called):
        return called

    async def called_later() -> Any:
        token = variable.set(value)
        try:
            return await called
        finally:
            variable.reset(token)

    return called_later()
