"""How the benchmarks measure: interleaved blocks of CPU time beside a baseline, in one process.

A block is as many calls as take a few hundredths of a second. Every round runs one block of each
work, the baseline among them, in alternating order, so that a busy machine disturbs all alike; a
ratio is the median of the rounds'. Garbage is handled alike: what was built before the first round
is frozen, every block begins collected, and the collector stays on inside of a block, as it is in a
program.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

Block = Callable[[int], float]
"""Runs a work so many times and returns the seconds it took."""

LEAST_ROUNDS = 3
MOST_TIMES = 10_000


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a row is measured.

    ``block`` is the CPU seconds of a block, ``seconds`` the CPU seconds after which three rounds
    are enough.
    """

    rounds: int
    block: float
    seconds: float


FULL = Effort(rounds=11, block=0.02, seconds=5)
QUICK = Effort(rounds=3, block=0.005, seconds=0.3)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call of a work costs.

    It is the median of its seconds, and the median and quartiles of its ratios to the baseline.
    """

    seconds: float
    ratio: float
    low: float
    high: float


def block(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> Block:
    """Return the block of a work: in CPU seconds, unless another clock is given."""

    def run(times: int) -> float:
        begun = clock()
        for _ in range(times):
            work()
        return clock() - begun

    return run


def async_block(runner: asyncio.Runner, work: Callable[[], Awaitable[object]]) -> Block:
    """Return the block of an async work, on the loop of a runner."""

    async def run(times: int) -> float:
        begun = time.process_time()
        for _ in range(times):
            await work()
        return time.process_time() - begun

    return lambda times: runner.run(run(times))


def interleaved(blocks: Sequence[Block], effort: Effort) -> list[Cost]:
    """Measure works in turn; the first is the baseline of the ratios."""
    times = [_times(one, effort.block) for one in blocks]
    gc.unfreeze()
    gc.collect()
    gc.freeze()

    rounds: list[list[float]] = []
    begun = time.process_time()

    while len(rounds) < effort.rounds:
        if len(rounds) >= LEAST_ROUNDS and time.process_time() - begun > effort.seconds:
            break

        taken = [0.0] * len(blocks)
        order = range(len(blocks)) if len(rounds) % 2 else reversed(range(len(blocks)))
        for index in order:
            gc.collect()
            taken[index] = blocks[index](times[index]) / times[index]

        rounds.append(taken)

    return costs(rounds)


def _times(one: Block, seconds: float) -> int:
    """Warm a work up, and find how often it runs in a block."""
    first = one(1)
    if first > 10 * seconds:
        return 1
    return max(1, min(MOST_TIMES, round(seconds / max(one(5) / 5, 1e-7))))


def costs(rounds: Sequence[Sequence[float]]) -> list[Cost]:
    """Return the cost of each work from the seconds of each round.

    The first work is the baseline.
    """
    found: list[Cost] = []
    for seconds in zip(*rounds, strict=True):
        ratios = [one / taken[0] for one, taken in zip(seconds, rounds, strict=True)]
        quartiles = ratios * 3
        if len(ratios) > 1:
            quartiles = statistics.quantiles(ratios, n=4, method="inclusive")

        low, middle, high = quartiles
        found.append(Cost(statistics.median(seconds), middle, low, high))

    return found


def held_bytes(make: Callable[[], object], count: int) -> float:
    """Return how many bytes each of ``count`` things holds that are made and kept."""
    make()
    gc.collect()
    tracemalloc.start()

    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = [make() for _ in range(count)]
        gc.collect()
        return (tracemalloc.get_traced_memory()[0] - before) / len(kept)
    finally:
        tracemalloc.stop()


def import_costs(python: str, statements: Sequence[str], times: int) -> list[tuple[float, float]]:
    """Return the CPU seconds and MiB that importing takes.

    They are medians over fresh processes of an environment, the statements in turn.
    """
    # Not getrusage: its peak is that of the process which started this one, where that was larger.
    program = (
        "import time; begun = time.process_time(); {}\n"
        "taken = time.process_time() - begun\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(taken, int(status['VmHWM'].split()[0]) / 1024)"
    )
    taken: list[list[list[float]]] = [[] for _ in statements]

    for _ in range(times):
        for statement, found in zip(statements, taken, strict=True):
            command = [python, "-I", "-c", program.format(statement)]
            done = subprocess.run(  # noqa: S603 - ours
                command, capture_output=True, text=True, check=True
            )
            found.append([float(one) for one in done.stdout.split()])

    return [
        (statistics.median(a for a, _ in found), statistics.median(b for _, b in found))
        for found in taken
    ]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of all values does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 1000) // 1000) - 1)]


def print_pairs(works: Mapping[str, tuple[Callable[[], object], Callable[[], object]]]) -> None:
    """Print a line for each row: our way beside the plain one, quickly with ``--quick``."""
    effort = QUICK if "--quick" in sys.argv else FULL
    for name, (plain, ours) in works.items():
        raw, cost = interleaved([block(plain), block(ours)], effort)
        print(
            f"{name}: {cost.ratio:.2f} x ({cost.low:.2f} to {cost.high:.2f}), "
            f"{cost.seconds * 1e6:.0f} us beside {raw.seconds * 1e6:.0f} us"
        )
