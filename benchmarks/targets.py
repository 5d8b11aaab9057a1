"""The targets for the cost of a validated call; ``results.md`` says for each whether it is met."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from results import IDLE, MEMORY, MICRO, MILLI, SESSION, SOCKETS, STREAMS, Results


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on one figure.

    ``words`` name the figure, ``measured`` reads it from the results, ``why`` explains a miss.
    """

    words: str
    bound: float
    measured: Callable[[Results], float | None]
    unit: str = "×"
    why: str = ""
    at_least: bool = False

    def cells(self, results: Results) -> list[str]:
        """Return the row: what, measured, target, and whether it is met."""
        value = self.measured(results)
        bound = f"{'≥' if self.at_least else '≤'} {self.bound:g} {self.unit}"
        if value is None:
            return [self.words, "not measured", bound, "-"]

        shown = f"{value:.2f} {self.unit}" if value < 10 else f"{value:.0f} {self.unit}"  # noqa: PLR2004
        over = self.bound - value if self.at_least else value - self.bound
        if over <= 0:
            return [self.words, shown, bound, "met"]

        missed = f"missed by {over:.2g} {self.unit} ({over / self.bound:.0%})"
        return [self.words, shown, bound, f"{missed}{': ' * bool(self.why)}{self.why}"]


def _of(row: str, peer: str = "reply") -> Callable[[Results], float | None]:
    return lambda results: results.ratio(row, peer)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _chunk_cost(results: Results) -> float | None:
    more = results.above(STREAMS[-1], "create")
    chunks = int(re.sub(r"\D", "", STREAMS[-1]))
    return None if more is None else more / chunks * MICRO


TRACED = (
    "a tracer must see the request that is sent, so the SDK's full transform runs, in addition to "
    "strictreply's own work"
)
RETRY = (
    "explaining an issue, writing a correction and sending it: the profile shows no single large "
    "cost"
)
SOCKETS_WHY = (
    "not profiled; the likely cause is the HTTP library's pool and the sockets, the same for both"
)
CAPS = (
    "the strict parser, which detects duplicate keys, takes about 1.0 by itself; limits and check "
    "take the rest"
)
TYPED = "parsed strictly, checked by the schema, built by pydantic, and compared with the JSON"
WHOLE = (
    "measured for all of `Contract.check`, which also opens the message; for reading alone see "
    "benchmarks/reading.py"
)
IDLE_WHY = "the queue looks for work twice a second; the thread of the rest was not isolated"
IMPORT_WHY = "measured with `wrap` and `tool` in use; the module that takes it was not isolated"
PROXY_WHY = (
    "wall time on two cores that client, proxy and model share; the guard's own hooks take 0.2 ms "
    "of CPU at the median"
)

TARGETS = (
    Target(
        "small call, `reply`",
        0.46,
        _of("small", "reply, dict tool"),
        why="within what two runs differ by",
    ),
    Target("realistic call, `reply`", 0.55, _of("realistic", "reply, dict tool")),
    Target("realistic call, `reply` with a typed tool", 0.55, _of("realistic")),
    Target("small call, `create`", 0.65, _of("small", "create")),
    Target("realistic call, `create`", 0.75, _of("realistic", "create")),
    Target(
        "small call under a tracer, `reply`",
        0.95,
        _of("small, traced", "reply, dict tool"),
        why=TRACED,
    ),
    Target("small call under a tracer, `create`", 0.95, _of("small, traced", "create"), why=TRACED),
    Target(
        "realistic call under a tracer, `reply`",
        0.95,
        _of("realistic, traced", "reply, dict tool"),
        why=TRACED,
    ),
    Target(
        "realistic call under a tracer, `create`",
        0.95,
        _of("realistic, traced", "create"),
        why=TRACED,
    ),
    Target(
        "small call with one retry, compared with two raw calls",
        0.6,
        _of("small, one retry", "reply, dict tool"),
        why=RETRY,
    ),
    Target(
        "realistic call with one retry, compared with two raw calls",
        0.6,
        _of("realistic, one retry", "reply, dict tool"),
        why=RETRY,
    ),
    Target("200 tools", 0.3, _of("200 tools", "reply, dict tool")),
    Target("200 tools, encoded once", 0.1, _of("200 tools", "reply, dict tool")),
    Target("1,000 concurrent calls, in memory, wall", 0.8, _of(f"{MEMORY}: wall")),
    Target(
        "1,000 concurrent calls, over sockets, wall", 0.8, _of(f"{SOCKETS}: wall"), why=SOCKETS_WHY
    ),
    Target(
        "tokens that a retry adds, realistic call",
        150,
        lambda results: results.added("realistic"),
        "tokens",
    ),
    Target(
        "parse and check 0.9 MB as a dict, compared with `json.loads`",
        1.3,
        _of("0.9 MB: dict / json.loads"),
        why=CAPS,
    ),
    Target(
        "parse and check 0.9 MB typed, compared with pydantic alone",
        1.25,
        _of("0.9 MB: typed / pydantic"),
        why=TYPED,
    ),
    Target(
        "parse and check 1 kB as a dict, compared with `json.loads`",
        2,
        _of("1 kB: dict / json.loads"),
        why=WHOLE,
    ),
    Target(
        "parse and check 1 kB typed, compared with pydantic alone",
        2,
        _of("1 kB: typed / pydantic"),
        why=WHOLE,
    ),
    Target("`sr.run`, compared with its four raw calls", 0.8, _of("tool loop")),
    Target("`sr.arun`, compared with its four raw calls", 0.95, _of("tool loop, async")),
    Target("durable turn, compared with plain DBOS with as many steps", 2, _of("durable turn")),
    Target(
        "idle durable worker, CPU per second",
        10,
        lambda results: _scaled(results.seconds(IDLE), MILLI),
        "ms",
        why=IDLE_WHY,
    ),
    Target(
        "session in SQLite, wall time added per turn",
        5,
        lambda results: _scaled(results.above(SESSION), MILLI),
        "ms",
    ),
    Target(
        "memory of a stored exchange, beyond raw",
        8,
        lambda results: results.above_kib("memory of a kept exchange"),
        "KiB",
    ),
    Target("stream, time added per chunk", 15, _chunk_cost, "µs"),
    Target(
        "batch, rows a second compared with a bare loop",
        0.8,
        lambda results: results.batch.get("ratio_of_rates"),
        at_least=True,
    ),
    Target("LiteLLM's proxy, time added at p99", 1, Results.proxy_above, "ms", why=PROXY_WHY),
    Target(
        "import, time added to `import openai`",
        60,
        lambda results: _scaled(results.above("import"), MILLI),
        "ms",
        why=IMPORT_WHY,
    ),
)
"""The targets. Each compares with the raw SDK in the same run, unless its row says otherwise."""
