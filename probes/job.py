"""The job that all apps do: find five pairs of running shoes with one tool.

It holds no library's code.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

MODEL = "gpt-4.1-mini"
QUESTION = "Find 5 pairs of running shoes."
TIMEOUT = 2.0
"""Seconds one request may take: short, so that a server that hangs is noticed."""

Query: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=80, description="What to look for.")
]
Limit: TypeAlias = Annotated[
    int, Field(ge=1, le=20, description="How many products to give at most.")
]


class Search(BaseModel):
    """Search the shop."""

    # Closed, as the schema that is sent then says: who validates with this model refuses other
    # keys.
    model_config = ConfigDict(extra="forbid")

    query: Query
    limit: Limit = 5


class Shop:
    """The shop and its one tool, ``search``.

    It remembers what the tool was called with: that is what an app accepted.
    """

    def __init__(self) -> None:
        """Open without a call."""
        self.calls: list[dict[str, object]] = []

    def search(self, query: Query, limit: Limit = 5) -> list[str]:
        """Search the shop."""
        self.calls.append({"tool": "search", "args": {"query": query, "limit": limit}})
        return [f"{query}, model {number}" for number in range(1, 6)]

    def accepted(self) -> object:
        """Give the call that ran, or the list of them when there were several."""
        return self.calls[0] if len(self.calls) == 1 else self.calls
