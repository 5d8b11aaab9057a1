"""A scripted weak model for measurements, and the real SDK's client over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from strictreply.core import JSONObject
from strictreply.testing import assistant, completion
from strictreply.testing.mounting import openai_client

GOOD = '{"name": "Ann", "age": 41}'
BAD = '{"name": "Ann", "age": "old"}'


class Person(BaseModel):
    """The answer that is measured."""

    name: str
    age: int


class WeakModel:
    """Answers well only where a grammar constrains it, or ``fixing`` stands in the last turn.

    ``good`` are questions that it answers well at once. It keeps what it was asked.
    """

    def __init__(self, *good: str, fixing: str = "", bad: str = BAD) -> None:
        self.requests: list[JSONObject] = []
        self._good = good
        self._fixing = fixing
        self._bad = bad

    def __call__(self, request: JSONObject) -> JSONObject:
        """Answer one request."""
        self.requests.append(request)
        last = request["messages"][-1]["content"]
        is_fixed = bool(self._fixing) and self._fixing in last
        is_good = "response_format" in request or is_fixed or last in self._good
        return completion(assistant(GOOD if is_good else self._bad), usage=(100, 10))

    def client(self) -> Any:
        """Return the real SDK's client, in memory."""
        return openai_client(self)


def replayed(requests: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the texts that stand as the assistant's in some requests."""
    return {
        turn["content"]
        for request in requests
        for turn in request["messages"]
        if turn["role"] == "assistant"
    }
