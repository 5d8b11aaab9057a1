"""What tests of batches ask for, and an async model in memory that answers when it is told to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Literal

from pydantic import BaseModel

import strictreply as sr
from support.scripted import StatusError, completion


class Label(BaseModel):
    """What a message is about."""

    topic: Literal["delivery", "price"]


CONTRACT = sr.Contract(answer=Label)
GOOD = '{"topic": "price"}'
BAD = '{"topic": "cost"}'
PRICE = {"answer": {"topic": "price"}}


def said_in(request: dict[str, Any]) -> str:
    """Return the text of the user's first turn of a request."""
    text: str = request["messages"][0]["content"]
    return text


class Model:
    """A client whose replies are good, except for texts that name a failure.

    A text with ``bad`` is fixed by one correction, one with ``refuse`` by none; ``halt`` ends in a
    filter, ``down`` in an HTTP 400. ``before`` is awaited before each reply. ``asked`` counts the
    texts, ``most`` is the greatest number of requests at once.
    """

    def __init__(self, before: Callable[[str], Awaitable[object]] | None = None) -> None:
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))
        self.asked: Counter[str] = Counter()
        self.requests: list[dict[str, Any]] = []
        self.running = self.most = self.closed = self.cancelled = 0
        self._before = before

    async def create(self, **request: Any) -> dict[str, Any]:
        """Answer one request."""
        text = said_in(request)
        self.requests.append(request)
        self.asked[text] += 1
        self.running += 1

        self.most = max(self.most, self.running)

        try:
            await (asyncio.sleep(0) if self._before is None else self._before(text))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

        if "down" in text:
            raise StatusError(400)
        if "halt" in text:
            return completion(None, finish_reason="content_filter")

        is_bad = "refuse" in text or ("bad" in text and len(request["messages"]) == 1)
        return completion(BAD if is_bad else GOOD)

    async def close(self) -> None:
        """Count how often it was closed."""
        self.closed += 1
