"""No backoff: ours, the SDK's and tenacity's retries come at once, and wait again afterwards."""

from __future__ import annotations

import asyncio

import pytest
import tenacity

import strictreply as sr
from strictreply.testing import no_backoff
from support.scripted import USER, AsyncClient, Client, Server, StatusError, completion, status

LONG = 3600.0
GOOD = completion('{"answer":"x"}')
POLICY = sr.RetryPolicy(wait=tenacity.wait_fixed(LONG))


def test_our_waits_take_no_time() -> None:
    """A policy that waits an hour between two asks is done at once, with all its attempts."""
    client = sr.wrap(Client(StatusError(500), GOOD), channel="text", policy=POLICY)
    with no_backoff():
        exchange = client.exchange(model="m", messages=USER)
    assert [attempt.failure is None for attempt in exchange.attempts] == [False, True]


def test_our_async_waits_take_no_time() -> None:
    """The async twin does not wait either."""
    client = sr.wrap(AsyncClient(StatusError(500), GOOD), channel="text", policy=POLICY)
    with no_backoff():
        exchange = asyncio.run(client.exchange(model="m", messages=USER))
    assert len(exchange.attempts) == 2


def test_the_sdk_retries_at_once() -> None:
    """The SDK's own retry obeys no Retry-After of a minute."""
    server = Server(status(429, **{"retry-after": "59"}), completion("hello"))
    with no_backoff():
        given = server.client(max_retries=1).chat.completions.create(model="m", messages=USER)
    assert given.choices[0].message.content == "hello"
    assert len(server.requests) == 2


def test_the_async_sdk_retries_at_once() -> None:
    """The async SDK obeys none either."""
    server = Server(status(429, **{"retry-after": "59"}), completion("hello"))
    with no_backoff():
        asyncio.run(
            server.async_client(max_retries=1).chat.completions.create(model="m", messages=USER)
        )
    assert len(server.requests) == 2


def test_tenacity_retries_at_once() -> None:
    """A function that tenacity retries after an hour is retried at once."""
    tries: list[int] = []

    @tenacity.retry(wait=tenacity.wait_fixed(LONG), stop=tenacity.stop_after_attempt(3))
    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError
        return "done"

    with no_backoff():
        assert flaky() == "done"


def test_async_tenacity_retries_at_once() -> None:
    """A coroutine that tenacity retries after an hour is retried at once."""
    tries: list[int] = []

    @tenacity.retry(wait=tenacity.wait_fixed(LONG), stop=tenacity.stop_after_attempt(2))
    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 2:
            raise OSError
        return "done"

    with no_backoff():
        assert asyncio.run(flaky()) == "done"


def test_afterwards_everything_waits_again() -> None:
    """The patched waits are put back, also when the test inside failed."""
    before = tenacity.DoSleep
    with pytest.raises(KeyError), no_backoff():
        raise KeyError
    assert tenacity.DoSleep is before
    assert tenacity.DoSleep(2.0) == 2.0
