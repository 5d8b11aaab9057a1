"""Waiting between two asks: for real, unless a test says that no time need pass."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

import anyio

_skipping: list[object] = []
"""One entry for each :func:`skipped` that is open; for the whole process, as an app may wait in any thread."""


def pause(seconds: float) -> None:
    """Wait in this thread."""
    if not _skipping:
        time.sleep(seconds)


async def apause(seconds: float) -> None:
    """Wait in this task; others go on, also when no time passes."""
    await anyio.sleep(0 if _skipping else seconds)


@contextmanager
def skipped() -> Generator[None, None, None]:
    """Let no time pass: every wait inside, in any thread, ends at once."""
    _skipping.append(None)
    try:
        yield
    finally:
        _skipping.pop()
