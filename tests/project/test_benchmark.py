"""What ``make bench`` reports: its arithmetic, its verdicts and its pages.

The figures are canned; no speed is tested.
"""

# ruff: noqa: E402 - the benchmarks are scripts beside the package, found by their folder

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import bench
import measuring
import report
import worker
from cases import SMALL, Ask, Wire
from peers import Call, Peer, Raw
from peers.strictreply_ways import PEERS
from results import RESULTS, Results, shown_ratio, shown_seconds
from targets import TARGETS, Target

pytestmark = pytest.mark.one_lane


def canned(
    *lines: dict[str, Any], tokens: dict[str, dict[str, Sequence[int]]] | None = None
) -> Results:
    """Return results of two ways, with these lines beside."""
    about = {
        "command": "make bench",
        "date": "2026-01-02",
        "took": "1 minute",
        "machine": "a machine",
        "load": "none",
    }
    ways = [
        {"malformed": "wrong type", "peer": way, "outcome": "retried"}
        for way in ("reply", "instructor")
    ]

    return Results(
        about | {"tokens": "Counted"},
        {"strictreply": {"openai": "3"}},
        [*ways, *lines],
        tokens or {},
    )


def figure(row: str, peer: str, seconds: float, ratio: float) -> dict[str, Any]:
    """Return a line as a worker tells it."""
    return {
        "row": row,
        "peer": peer,
        "seconds": seconds,
        "ratio": ratio,
        "low": ratio,
        "high": ratio,
    }


def tables(page: str) -> list[list[list[str]]]:
    """Return the tables of a page, as rows of cells."""
    found = re.findall(r"(?:^\|.*\n)+", page + "\n", flags=re.MULTILINE)
    return [[line.strip("|").split("|") for line in table.splitlines()] for table in found]


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    """Each round is compared with its own baseline, so a slow round disturbs nothing."""
    base, ours = measuring.costs([[1.0, 2.0], [10.0, 20.0], [1.0, 2.5], [2.0, 3.0], [1.0, 2.1]])
    assert (base.seconds, base.ratio) == (1.0, 1.0)
    assert (ours.seconds, ours.ratio, ours.low, ours.high) == (2.5, 2.0, 2.0, 2.1)


def test_a_single_round_has_no_spread() -> None:
    """One round gives its ratio three times."""
    assert measuring.costs([[2.0, 3.0]])[1] == measuring.Cost(3.0, 1.5, 1.5, 1.5)


def test_blocks_are_interleaved_in_alternating_order() -> None:
    """Every round runs one block of each work, forth and back, and costs are told for one call."""
    ran: list[tuple[str, int]] = []

    def block(name: str, seconds: float) -> measuring.Block:
        def run(times: int) -> float:
            ran.append((name, times))
            return seconds * times

        return run

    effort = measuring.Effort(rounds=3, block=1.0, seconds=60)
    costs = measuring.interleaved(
        [block("raw", 0.01), block("ours", 0.05), block("slow", 20.0)], effort
    )
    assert [(cost.seconds, cost.ratio) for cost in costs] == [
        pytest.approx((0.01, 1)),
        pytest.approx((0.05, 5)),
        pytest.approx((20, 2000)),
    ]
    calibration = ran[:5]

    rounds = ran[5:]
    assert calibration == [("raw", 1), ("raw", 5), ("ours", 1), ("ours", 5), ("slow", 1)]
    forth = [("raw", 100), ("ours", 20), ("slow", 1)]
    assert rounds == [*forth[::-1], *forth, *forth[::-1]]


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100)])
def test_percentile(share: float, expected: int) -> None:
    """A percentile is one of the values, by nearest rank, whatever their order."""
    assert measuring.percentile([*range(100, 0, -1)], share) == expected


def test_percentile_of_one() -> None:
    """One value is every percentile."""
    assert measuring.percentile([7.0], 0.01) == measuring.percentile([7.0], 0.99) == 7.0


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(None, "-"), (0.5, "met"), (0.49, "met"), (0.6, "missed by 0.1 × (20%): of the weather")],
)
def test_a_verdict_is_computed(value: float | None, verdict: str) -> None:
    """A target is met up to its bound; beyond, its row says by how much, and why."""
    target = Target("a call", 0.5, lambda _: value, why="of the weather")
    assert target.cells(canned())[3] == verdict


def test_targets_read_the_results() -> None:
    """Each kind of target takes its figure from where it stands, in its own unit."""
    lines = [
        figure("small", "reply, dict tool", 0.0003, 0.5),
        figure("turn with a session in SQLite, wall", "reply", 0.012, 2.0),
        {"row": "memory of a kept exchange", "peer": "raw", "kib": 5.0},
        {"row": "memory of a kept exchange", "peer": "reply", "kib": 20.0},
        figure("stream of 2,000 chunks", "create", 0.12, 1.5),
        figure("import", "reply", 0.4, 1.25),
        {"row": "idle durable worker, CPU a second", "peer": "reply", "seconds": 0.009},
    ]
    results = canned(*lines, tokens={"realistic": {"reply": [100, 310, 500, 600]}})
    rows = {target.words: target.cells(results)[1] for target in TARGETS}
    assert {words: shown for words, shown in rows.items() if shown != "not measured"} == {
        "small call, `reply`": "0.50 ×",
        "session in SQLite, wall time added per turn": "6.00 ms",
        "memory of a stored exchange, beyond raw": "15 KiB",
        "stream, time added per chunk": "20 µs",
        "import, time added to `import openai`": "80 ms",
        "idle durable worker, CPU per second": "9.00 ms",
        "tokens that a retry adds, realistic call": "210 tokens",
    }


def test_the_page_shows_what_was_told() -> None:
    """A figure stands in its way's column, a reason where there is none; each table is whole."""
    results = canned(
        figure("small", "raw", 0.0006, 1.0),
        figure("small", "reply", 0.0003, 0.5),
        {"row": "small", "peer": "instructor", "why": "failed: ValueError"},
        figure("tool loop", "raw", 0.002, 1.0),
        {"row": "tool loop", "peer": "instructor", "why": "no tool loop"},
    )
    page = report.results_page(results)
    assert "| small | 600 µs | 0.50 | - (failed: ValueError) |" in page
    assert "| tool loop | 2.0 ms | - | - (no tool loop) |" in page

    assert [{len(row) for row in table} for table in tables(page)] == [
        {len(table[0])} for table in tables(page)
    ]
    assert "1 of" not in re.findall(r"## Targets\n\n(.*)", page)[0].replace("0 of", "")


PROXY = """| | p50 ms | p90 ms | p99 ms | CPU ms a request |
|---|---|---|---|---|
| plain, the proxy alone | 9.00 | 12.00 | 20.00 | 5.00 |
| plain, with the guard | 9.20 | 12.40 | 20.75 | 5.20 |
"""


def test_the_batch_and_the_proxy_have_their_places(tmp_path: Path) -> None:
    """What their programs leave beside the results is shown, with the curve of memory, and held to
    its targets.
    """
    batch = {
        "rows": 1_000_000,
        "ratio_of_rates": 0.76,
        "memory_megabytes_at_rows": [[0, 40.0], [10, 41.0]],
    }
    (tmp_path / "batch.json").write_text(json.dumps(batch), encoding="utf-8")
    (tmp_path / "litellm_proxy.md").write_text(PROXY, encoding="utf-8")
    about = dict.fromkeys(("command", "date", "took", "machine", "load", "tokens"), "")
    written = {"about": about, "environments": {}, "lines": [], "tokens": {}}
    (tmp_path / "results.json").write_text(json.dumps(written), encoding="utf-8")

    page = report.results_page(Results.read(tmp_path / "results.json"))
    assert "| rows | 1,000,000 |\n| ratio of rates | 0.76 |" in page
    assert "batch-memory.svg" in page
    missed = "missed by 0.04 × (5%)"
    assert (
        f"| batch, rows a second compared with a bare loop | 0.76 × | ≥ 0.8 × | {missed} |" in page
    )

    assert PROXY.strip() in page
    assert "| LiteLLM's proxy, time added at p99 | 0.75 ms | ≤ 1 ms | met |" in page


@pytest.mark.parametrize(
    ("ratio", "claim"),
    [(0.5, "costs less CPU than an unvalidated one: 0.50 times"), (1.2, "costs 1.20 times")],
)
def test_the_claim_is_computed(ratio: float, claim: str) -> None:
    """The sentence of the pages says less only when it is less."""
    results = canned(*(figure(row, "reply", 1.0, ratio) for row in ("small", "realistic")))
    assert claim in report.claim(results)


def test_no_page_disagrees_with_the_results() -> None:
    """``results.md``, docs/evidence.md and docs/guide.md are what the results make;
    ``benchmarks/report.py`` writes them.
    """
    pages = report.pages(Results.read(RESULTS))
    assert [
        path.name for path, text in pages.items() if path.read_text(encoding="utf-8") != text
    ] == []
    assert len(tables(report.PAGE.read_text(encoding="utf-8"))) > len(report.SECTIONS)


def test_the_results_are_of_a_full_run() -> None:
    """Every environment was measured, every way was shown to refuse or correct a wrong type, and
    none failed.
    """
    results = Results.read(RESULTS)
    met = {
        line["peer"]: line["outcome"]
        for line in results.lines
        if line.get("malformed") == "wrong type"
    }
    assert [
        way for way, outcome in met.items() if not outcome.startswith(("retried", "refused"))
    ] == []
    assert {line["run"] for line in results.lines} == set(bench.RUNS)
    assert [line for line in results.lines if str(line.get("why", "")).startswith("failed")] == []


@pytest.mark.parametrize(
    "page", ["", "<!-- a:begin -->", "<!-- a:end --><!-- a:begin -->", "<!-- a:begin -->" * 2]
)
def test_a_page_without_its_place_is_refused(page: str) -> None:
    """A page needs both marker lines, once and in order."""
    with pytest.raises(ValueError, match="a:begin"):
        report.placed(page, "a", "text")


def test_a_place_is_filled_anew() -> None:
    """The text between the marker lines is replaced; the rest of the page stays."""
    page = "before\n<!-- a:begin -->\nold\n<!-- a:end -->\nafter\n"
    assert report.placed(page, "a", "new") == page.replace("old", "new")


def test_units() -> None:
    """Ratios have two digits that count, times the unit that fits."""
    assert [shown_ratio({"ratio": ratio}) for ratio in (0.456, 1.0, 23.4)] == ["0.46", "1.00", "23"]
    assert [shown_seconds(seconds) for seconds in (2.0, 0.0123, 0.0004)] == [
        "2.0 s",
        "12.3 ms",
        "400 µs",
    ]


def test_tokens_can_be_estimated() -> None:
    """Without a tokenizer, a token is four bytes of the messages, and of the whole request."""
    body = json.dumps({"messages": ["é" * 6], "model": "m"})
    assert bench.estimated([body, body]) == [4, 4, round(len(body) / 4), round(len(body) / 4)]


class Fooled(Peer):
    """A way that believes everything."""

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Take the arguments as they come."""
        return Raw("raw").call(wire, ask)


@pytest.mark.parametrize("fault", worker.MALFORMED)
def test_the_harness_shows_who_validates(fault: str) -> None:
    """Each of our ways retries where a way that believes everything takes the malformed reply."""
    text = worker.MALFORMED[fault]
    assert {worker.outcome(peer, text) for peer in PEERS} == {"retried"}
    took = "refused: JSONDecodeError" if fault == "cut off" else "accepted"
    assert worker.outcome(Fooled("fooled"), text) == took


def test_a_way_that_gives_something_else_is_not_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A way must give what the model replied before its cost means anything."""
    rows = worker.Rows([Fooled("fooled")], replace(measuring.QUICK, rounds=1))
    rows.row(
        "small",
        lambda _: 1.0,
        lambda peer: rows.checked(peer.call(Wire(SMALL.replied()), SMALL), {"query": "?"}),
    )
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told[0] == {"row": "small", "peer": "fooled", "why": "failed: WrongValue", "detail": ""}
