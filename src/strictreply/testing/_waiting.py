"""Retries without their waits: what a test of retries needs and a program never does."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Self
from unittest import mock

import tenacity

from strictreply.contract._driving import skipped

_SDK_WAIT = "_calculate_retry_timeout"


class Skipped:
    """The waits that were skipped; ``seconds`` is what they come to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.seconds += seconds


@contextmanager
def no_backoff() -> Generator[Skipped, None, None]:
    """Let retries come at once: ours, the openai SDK's own and those of anything built on tenacity.

    It holds for the whole process while it is open, and gives what was skipped. Neither ``time.sleep`` nor an event
    loop is touched: an app that waits by itself waits. Raises RuntimeError when the installed SDK keeps its waits where
    they are not known.
    """
    client: Any = import_module("openai._base_client").BaseClient  # late: a second of import, for tests that use it
    told = Skipped()

    class NoSleep(tenacity.DoSleep):
        """tenacity's word for a wait; sync and async retrying both obey it."""

        def __new__(cls, seconds: float = 0.0) -> Self:
            told.add(seconds)
            return super().__new__(cls, 0.0)

    def no_seconds(*given: Any, **named: Any) -> float:
        told.add(waits(*given, **named))
        return 0.0

    with ExitStack() as stack:
        stack.enter_context(skipped(told.add))
        waits: Callable[..., float] = getattr(client, _SDK_WAIT, float)
        for owner, name, value in ((tenacity, "DoSleep", NoSleep), (client, _SDK_WAIT, no_seconds)):
            if not hasattr(owner, name):
                raise RuntimeError(f"no_backoff() cannot patch {owner.__name__}: it has no {name} as installed")
            stack.enter_context(mock.patch.object(owner, name, value))
        yield told
