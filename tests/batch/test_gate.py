"""The bound on what is asked at once: halved when the API is overloaded, slowly raised again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strictreply as sr
from strictreply.batch._asking import Gate
from support.batch.topics import CONTRACT, Model
from support.loops import some
from support.scripted import StatusError

GOOD = sr.Attempt(1, {})


def failed(status: int, seconds: float = 0.0) -> sr.Attempt:
    """Return the attempt of a request that an API refused, as attempts do."""
    kind = "rate_limit" if status == 429 else "server_error"
    return sr.Attempt(1, {}, failure=f"{kind} (HTTP {status})", seconds=seconds)


class Clock:
    """A clock that goes on by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.mark.parametrize(
    ("status", "limit"), [(429, 32), (503, 32), (529, 32), (500, 64), (400, 64), (408, 64)]
)
def test_what_halves_the_bound(status: int, limit: int) -> None:
    """Only the statuses of an overloaded API halve the bound, in a tenth of its last requests."""
    gate = Gate(64, Clock())
    for _ in range(6):
        gate.note(failed(status))
    assert gate.limit == 64

    gate.note(failed(status))
    assert gate.limit == limit


@pytest.mark.parametrize("most", [1, 4, 16, 64, 500])
def test_a_few_refusals_leave_the_bound(most: int) -> None:
    """One refusal in fifty, for ten thousand requests, is no overload, however small the bound."""
    clock = Clock()
    gate = Gate(most, clock)
    for number in range(10_000):
        clock.now += 0.1
        gate.note(failed(429, 0.1) if number % 50 == 0 else GOOD)
        assert gate.limit == most


def test_it_falls_in_an_overload_and_recovers() -> None:
    """While a third is refused it falls to the least; then as many successes as it takes raise it
    to where it was, though one in fifty is refused.
    """
    clock = Clock()
    gate = Gate(64, clock)
    for number in range(300):
        clock.now += 1
        gate.note(failed(503, 0.5) if number % 3 == 0 else GOOD)
    assert gate.limit <= 4

    for number in range(3_000):
        clock.now += 1
        gate.note(failed(429, 0.5) if number % 50 == 0 else GOOD)
    assert gate.limit == 64


def test_requests_that_were_under_way_together_halve_it_once() -> None:
    """Failures of requests sent before the bound fell do not halve it again; those of later
    requests do.
    """
    clock = Clock()
    gate = Gate(64, clock)

    for now, seconds, limit in (
        (10, 1, 32),
        (10.5, 1, 32),
        (10.9, 1, 32),
        (11.5, 1, 16),
        (20, 1, 8),
        (30, 1, 4),
    ):
        clock.now = now
        for _ in range(7):
            gate.note(failed(429, seconds))
        assert gate.limit == limit

    for now in range(40, 140, 2):
        clock.now = now
        gate.note(failed(429, 1))

    assert gate.limit == 1


def test_it_grows_again_slowly() -> None:
    """As many successes as the bound raise it by one, up to where it began and no further."""
    gate = Gate(4, Clock())
    for _ in range(5):
        gate.note(failed(429))
    limits: list[int] = []
    for _ in range(12):
        gate.note(GOOD)
        limits.append(gate.limit)
    assert limits == [2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4]


@given(
    st.lists(st.sampled_from(["enter", "leave", "busy", "good", "cancel"]), min_size=1, max_size=60)
)
def test_never_more_than_the_bound(steps: list[str]) -> None:
    """There are never more requests inside than the bound, and none waits while there is a free
    place.
    """

    async def main() -> None:
        clock = Clock()
        gate = Gate(5, clock)
        waiting: list[asyncio.Task[None]] = []
        inside = 0

        for step in some(steps):
            clock.now += 1

            match step:
                case "enter":
                    waiting.append(asyncio.create_task(gate.enter()))
                case "leave" if inside:
                    gate.leave()
                    inside -= 1
                case "busy":
                    gate.note(failed(429))
                case "good":
                    gate.note(GOOD)
                case "cancel" if waiting:
                    waiting.pop().cancel()
                case _:
                    pass

            before = inside

            for _ in range(3):
                await asyncio.sleep(0)

            entered = [task for task in waiting if task.done()]
            waiting = [task for task in waiting if not task.done()]
            inside += len(entered)
            assert gate.running == inside

            assert inside <= max(gate.limit, before)
            assert not waiting or inside >= gate.limit

        for task in waiting:
            task.cancel()

        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(main())


def test_a_busy_api_is_met_with_patience() -> None:
    """With an API that refuses more than 3 requests at once, no row fails, and the bound falls."""
    served = 0

    async def refuse_many(_: str) -> None:
        nonlocal served
        is_busy = served >= 3
        served += not is_busy
        await asyncio.sleep(0)
        if is_busy:
            raise StatusError(429, {"retry-after-ms": "0"})
        served -= 1

    async def main() -> tuple[list[str], int]:
        least = 16
        statuses: list[str] = []
        stream = ask.stream({"text": str(number)} for number in range(300))
        async for result in stream:
            statuses.append(result.status)
            least = min(least, stream.limit)
        return statuses, least

    model: Any = Model(refuse_many)
    policy = sr.RetryPolicy(transport_retries=20, retry_budget=None)
    ask = sr.batch.rows(
        CONTRACT, model="m", messages="text", client=model, concurrency=16, policy=policy
    )
    statuses, least = asyncio.run(main())
    assert statuses == ["ok"] * 300

    assert least <= 8
    refused = model.asked.total() - 300
    assert refused < 300
