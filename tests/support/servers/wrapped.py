"""The wrapped client as these tests use it.

One call is made in each of the two ways, with small budgets and no waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import openai
from tenacity import wait_none

import strictreply as sr

POLICY = sr.RetryPolicy(max_retries=2, transport_retries=1, wait=wait_none())
KEY = "none"

Exchanging = Callable[..., sr.Exchange]
"""Makes one call through the wrapped client: a contract, then the request's keywords."""


def sync_exchange(base_url: str, contract: sr.Contract, **keywords: Any) -> sr.Exchange:
    """Make one call with the sync client."""
    with openai.OpenAI(base_url=base_url, api_key=KEY) as client:
        wrapped = sr.wrap(client, contract=contract, policy=POLICY)
        return wrapped.exchange(model="any", **keywords)


def async_exchange(base_url: str, contract: sr.Contract, **keywords: Any) -> sr.Exchange:
    """Make one call with the async client, in an event loop of its own."""

    async def call() -> sr.Exchange:
        async with openai.AsyncOpenAI(base_url=base_url, api_key=KEY) as client:
            wrapped = sr.wrap(client, contract=contract, policy=POLICY)
            return await wrapped.exchange(model="any", **keywords)

    return asyncio.run(call())
