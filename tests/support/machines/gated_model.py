"""A model that holds its answers back until a gate is opened.

It knows which rows it was asked about.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from strictreply.testing import ok

ANSWER = ok.answer({"topic": "price"}).served
PATIENCE = 300.0  # seconds: clusters and databases start slowly on a busy machine


class GatedModel:
    """Answers each row's question; the text of a row is its number.

    Until ``open`` is called nothing is answered, but for the first ``free`` requests.
    """

    def __init__(self, free: int = 0) -> None:
        self.asked: Counter[int] = Counter()
        self._free = free
        self._changed = threading.Condition()
        self._is_open = False

    def __call__(self, request: Any) -> Any:
        """Answer one request when the gate is open."""
        row = int(request["messages"][-1]["content"])
        with self._changed:
            self.asked[row] += 1
            self._changed.notify_all()
            held = self.asked.total() > self._free
            assert not held or self._changed.wait_for(lambda: self._is_open, PATIENCE)
        return ANSWER

    def open(self) -> None:
        """Answer everything from now on."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def wait_for_batches(self, count: int, size: int) -> None:
        """Wait until rows of so many batches have been asked about."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: len({row // size for row in self.asked}) >= count, PATIENCE
            )
