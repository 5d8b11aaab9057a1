"""What we want a validated call to cost; ``results.md`` says of each target whether it is met."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from results import IDLE, MEMORY, MICRO, MILLI, SESSION, SOCKETS, STREAMS, Results


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that we set ourselves.

    ``words`` say what it bounds, ``measured`` reads it from the results, ``why`` says why it is
    missed, if it is.
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
    "a tracer must see the request that is sent, so the transform of the SDK is paid in full, and "
    "its own work beside"
)
RETRY = (
    "a fault is explained, a correction written and sent: the profile shows no single cost behind "
    "it"
)
SOCKETS_WHY = (
    "not profiled; the pool of the HTTP library and the sockets, the same for both, are the guess"
)
CAPS = (
    "the strict parser, which sees a key given twice, takes about 1.0 by itself; caps and check "
    "are the rest"
)
TYPED = (
    "parsed strictly, checked by the schema, and built by pydantic, which is then held to what "
    "was written"
)
WHOLE = (
    "measured through all of `Contract.check`, which opens the message; reading alone: "
    "benchmarks/reading.py"
)
IDLE_WHY = (
    "the queue looks for work twice a second; which thread the rest belongs to was not isolated"
)
IMPORT_WHY = "measured with `wrap` and `tool` in use; which module takes it was not isolated"
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
        "small call with one retry, of two raw",
        0.6,
        _of("small, one retry", "reply, dict tool"),
        why=RETRY,
    ),
    Target(
        "realistic call with one retry, of two raw",
        0.6,
        _of("realistic, one retry", "reply, dict tool"),
        why=RETRY,
    ),
    Target("200 tools", 0.3, _of("200 tools", "reply, dict tool")),
    Target("200 tools, encoded once", 0.1, _of("200 tools", "reply, dict tool")),
    Target("1,000 calls at once, in memory, wall", 0.8, _of(f"{MEMORY}: wall")),
    Target(
        "1,000 calls at once, over sockets, wall", 0.8, _of(f"{SOCKETS}: wall"), why=SOCKETS_WHY
    ),
    Target(
        "tokens that a retry adds, realistic call",
        150,
        lambda results: results.added("realistic"),
        "tokens",
    ),
    Target(
        "parse and check 0.9 MB as a dict, of `json.loads`",
        1.3,
        _of("0.9 MB: dict / json.loads"),
        why=CAPS,
    ),
    Target(
        "parse and check 0.9 MB typed, of pydantic alone",
        1.25,
        _of("0.9 MB: typed / pydantic"),
        why=TYPED,
    ),
    Target(
        "parse and check 1 kB as a dict, of `json.loads`",
        2,
        _of("1 kB: dict / json.loads"),
        why=WHOLE,
    ),
    Target(
        "parse and check 1 kB typed, of pydantic alone", 2, _of("1 kB: typed / pydantic"), why=WHOLE
    ),
    Target("`sr.run`, of its four raw calls", 0.8, _of("tool loop")),
    Target("`sr.arun`, of its four raw calls", 0.95, _of("tool loop, async")),
    Target("durable turn, of plain DBOS with as many steps", 2, _of("durable turn")),
    Target(
        "idle durable worker, CPU a second",
        10,
        lambda results: _scaled(results.seconds(IDLE), MILLI),
        "ms",
        why=IDLE_WHY,
    ),
    Target(
        "session in SQLite, wall a turn",
        5,
        lambda results: _scaled(results.above(SESSION), MILLI),
        "ms",
    ),
    Target(
        "kept exchange", 8, lambda results: results.above_kib("memory of a kept exchange"), "KiB"
    ),
    Target("stream, a chunk more than raw", 15, _chunk_cost, "µs"),
    Target(
        "batch, rows a second of a bare loop's",
        0.8,
        lambda results: results.batch.get("ratio_of_rates"),
        at_least=True,
    ),
    Target("LiteLLM's proxy, p99 more than alone", 1, Results.proxy_above, "ms", why=PROXY_WHY),
    Target(
        "import, more than `import openai`",
        60,
        lambda results: _scaled(results.above("import"), MILLI),
        "ms",
        why=IMPORT_WHY,
    ),
)
"""What we want a validated call to cost.

It is against the raw SDK of the same run, unless a row says otherwise.
"""
