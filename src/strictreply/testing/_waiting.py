"""Retries without their waits: what a test of retries needs and a program never does."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Self
from unittest import mock

import tenacity

from strictreply.contract._driving import skipped

_SDK_WAIT = "_calculate_retry_timeout"


class _NoSleep(tenacity.DoSleep):
    """tenacity's word for a wait; sync and async retrying both obey it."""

    def __new__(cls, _seconds: float = 0.0) -> Self:
        return super().__new__(cls, 0.0)


def _no_seconds(*_given: object, **_named: object) -> float:
    return 0.0


@contextmanager
def no_backoff() -> Generator[None, None, None]:
    """Let retries come at once: ours, the openai SDK's own and those of anything built on tenacity.

    It holds for the whole process while it is open. Neither ``time.sleep`` nor an event loop is touched: an app that
    waits by itself waits. Raises RuntimeError when the installed SDK keeps its waits where they are not known.
    """
    client: Any = import_module("openai._base_client").BaseClient  # late: a second of import, for tests that use it
    with ExitStack() as stack:
        stack.enter_context(skipped())
        for owner, name, value in ((tenacity, "DoSleep", _NoSleep), (client, _SDK_WAIT, _no_seconds)):
            if not hasattr(owner, name):
                raise RuntimeError(f"no_backoff() cannot patch {owner.__name__}: it has no {name} as installed")
            stack.enter_context(mock.patch.object(owner, name, value))
        yield
