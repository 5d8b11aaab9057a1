"""Loops of tests that may not be empty: a test that asserts nothing passes for no reason."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def some(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, and fail where there was none."""
    count = 0
    for item in items:
        count += 1
        yield item

    assert count, "there was nothing to look at"


async def some_async(items: AsyncIterable[T]) -> AsyncIterator[T]:
    """Yield what comes, and fail where nothing came."""
    count = 0
    async for item in items:
        count += 1
        yield item

    assert count, "there was nothing to look at"
