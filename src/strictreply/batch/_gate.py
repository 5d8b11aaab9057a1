"""How many rows are asked at once: fewer as soon as the API asks for it, slowly more again."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable

from strictreply.values._attempts import Attempt

_OVERLOADED = re.compile(r"\(HTTP (?:429|503|529)\)")
_BACKOFF = 2


class Gate:
    """Bounds how many rows are under way: additive increase, multiplicative decrease (as TCP, RFC 5681 §3.1).

    ``most`` is the highest bound and the first one; ``limit`` the bound of now. A 429, 503 or 529 halves it, once for
    all requests that were under way together; as many successes as the bound raise it by one. A row that waits out a
    ``Retry-After`` keeps its place, so nothing is begun instead of it. For one event loop.
    """

    __slots__ = ("_clock", "_good", "_halved_at", "_waiting", "limit", "most", "running")

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most: int = most
        self.limit: int = most
        self.running: int = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._good = 0
        self._halved_at = float("-inf")
        self._clock = clock

    async def enter(self) -> None:
        """Take a place, waiting for one in turn."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # it was given the place at the same time
                self.leave()
            raise

    def leave(self) -> None:
        """Leave a place to the next row."""
        self.running -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.running < self.limit:
            place = self._waiting.popleft()
            if not place.done():
                self.running += 1
                place.set_result(None)

    def note(self, attempt: Attempt) -> None:
        """Adapt the bound to what became of one request."""
        if attempt.failure is None:
            self._good += 1
            if self._good >= self.limit < self.most:
                self._good, self.limit = 0, self.limit + 1
                self._admit()
        elif _OVERLOADED.search(attempt.failure) and self._clock() - attempt.seconds >= self._halved_at:
            self._halved_at, self._good = self._clock(), 0
            self.limit = max(1, self.limit // _BACKOFF)
