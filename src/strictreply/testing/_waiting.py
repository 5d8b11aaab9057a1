"""Retries without their waits: what a test of retries needs and a program never does."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Self

import tenacity

from strictreply.contract._driving import skipped


class _NoSleep(tenacity.DoSleep):
    """tenacity's word for a wait; sync and async retrying both obey it."""

    def __new__(cls, _seconds: float = 0.0) -> Self:
        return super().__new__(cls, 0.0)


@contextmanager
def no_backoff() -> Generator[None, None, None]:
    """Let retries come at once: ours, the openai SDK's own and those of anything built on tenacity.

    It holds for the whole process while it is open. Neither ``time.sleep`` nor an event loop is touched: an app that
    waits by itself waits. Raises RuntimeError when the installed SDK keeps its waits where they are not known.
    """
    sdk = import_module("openai._base_client")  # late: a second of import, for tests that use it
    with ExitStack() as stack:
        stack.enter_context(skipped())
        stack.enter_context(_replaced(tenacity, "DoSleep", _NoSleep))
        stack.enter_context(_replaced(sdk.BaseClient, "_calculate_retry_timeout", _at_once))
        yield


def _at_once(*_given: object, **_named: object) -> float:
    return 0.0


@contextmanager
def _replaced(owner: Any, name: str, value: object) -> Generator[None, None, None]:
    if not hasattr(owner, name):
        raise RuntimeError(f"no_backoff() cannot patch {owner.__name__}: it has no {name} in the installed version")
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
