"""Bodies of responses that stand before the body of an HTTP library, and close what it holds."""

from __future__ import annotations

from functools import cache
from typing import Any


class OuterBody:
    """A body, sync or async as the one behind it, which it closes and whose members it has."""

    def __init__(self, behind: object) -> None:
        self._behind: Any = behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def close(self) -> None:
        self._behind.close()  # of a body that was not read to its end, the connection

    async def aclose(self) -> None:
        await self._behind.aclose()


@cache
def body_class(outer: type[OuterBody], kind: type[object]) -> Any:
    """Return the class of an outer body around one of this class.

    It is derived from that: HTTP libraries know sync and async bodies by their class.
    """
    return type(kind.__name__, (outer, kind), {})
