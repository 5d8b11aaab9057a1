"""A real Prometheus scrapes a real program and answers all that the dashboard and the page ask.

``make test-prometheus`` runs this: elsewhere it is skipped.
"""

from __future__ import annotations

import json
import math
import os
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.loops import some
from support.pages import DOCS, Page
from support.prometheus.lane import DAYS, LANE, OUTCOMES, Lane, absent

pytestmark = pytest.mark.one_lane

if (missing := absent()) and LANE not in os.environ:
    pytest.skip(missing, allow_module_level=True)

DASHBOARD = json.loads((DOCS / "grafana-strictreply.json").read_text("utf-8"))
PAGE = Page.named("telemetry.md")
[RULES] = PAGE.blocks("yaml")


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    """Return the program after two days, both of them scraped."""
    with Lane.running(tmp_path_factory.mktemp("prometheus"), RULES) as lane:
        yield lane


def panel_lines() -> list[tuple[str, str]]:
    """Return the title and the expression of each line of the dashboard."""
    return [
        (panel["title"], target["expr"])
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
    ]


def in_window(expression: str, model: str = ".*", tool: str = ".*") -> str:
    """Return an expression of the dashboard as Grafana sends it, over all that was scraped."""
    given = {"$__rate_interval": "5m", "$model": model, "$tool": tool}
    for name, value in given.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def line_of(title: str, at: int = 0) -> str:
    """Return an expression of the panel with a title."""
    return in_window([expr for name, expr in panel_lines() if name == title][at])


def shares(values: dict[Any, float]) -> dict[Any, float]:
    """Return values as shares of their sum: what was played twice grows by the same factor."""
    return {name: value / sum(values.values()) for name, value in values.items()}


def test_each_call_was_scraped_by_its_outcome(lane: Lane) -> None:
    """The counter has exactly the calls that were made."""
    found = lane.scraped.query_by(
        "strictreply_call_outcome", "sum by (strictreply_call_outcome) (strictreply_calls_total)"
    )
    assert found == {outcome: DAYS * count for outcome, count in OUTCOMES.items()}


def test_each_call_was_scraped_by_its_mode(lane: Lane) -> None:
    """Enforced, observed and partly enforced clients of one program are told apart."""
    found = lane.scraped.query_by_all(
        ("strictreply_mode", "strictreply_call_outcome"),
        "sum by (strictreply_mode, strictreply_call_outcome) (strictreply_calls_total)",
    )
    not_enforced = {key: value for key, value in found.items() if key[0] != "enforce"}
    assert not_enforced == {
        ("observe", "ok"): DAYS,
        ("observe", "observed"): DAYS,
        ("observe", "unjudged"): DAYS * 3,
        ("partial", "ok"): DAYS,
        ("partial", "fixed"): DAYS,
        ("partial", "observed"): DAYS,
    }


@pytest.mark.parametrize(("title", "expression"), panel_lines())
def test_each_line_of_the_dashboard_is_answered(lane: Lane, title: str, expression: str) -> None:
    """It gives finite numbers, for all models and tools and for some of them."""
    found = lane.scraped.query(in_window(expression))
    assert found
    assert all(math.isfinite(value) and value >= 0 for value in some(found.values()))

    some_of_it = in_window(expression, "gpt-5-mini|gpt-5-nano", "find_order|")
    assert set(lane.scraped.query(some_of_it)) <= set(found)


def test_each_expression_of_the_page_is_answered_as_its_line(lane: Lane) -> None:
    """The page has the expressions of the panels, in their order, which give the same numbers."""
    of_page = PAGE.blocks("promql")
    lines = [expression for _, expression in panel_lines()]
    assert len(of_page) == len(lines)
    for mine, line in zip(of_page, some(lines), strict=True):
        ours = lane.scraped.query(mine)
        assert ours == pytest.approx(lane.scraped.query(in_window(line)))
        assert ours


@pytest.mark.parametrize(
    ("title", "label", "counts"),
    [
        ("Calls by outcome", "strictreply_call_outcome", OUTCOMES),
        ("Replies without a verdict", "strictreply_unjudged_reason", {"fault": 1, "request": 2}),
    ],
)
def test_rates_have_the_shares_of_what_was_counted(
    lane: Lane, title: str, label: str, counts: dict[str, int]
) -> None:
    """Per second, each kind has the part of all that it has of the known calls."""
    found = lane.scraped.query_by(label, line_of(title))
    expected = {name: count / sum(counts.values()) for name, count in counts.items()}
    assert shares(found) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("title", "label", "expected"),
    [
        (
            "Calls that are not ok, by model",
            "gen_ai_request_model",
            {"gpt-5": 2 / 10, "gpt-5-mini": 6 / 10, "gpt-5-nano": 0.0},
        ),
        (
            "Calls that are not ok, by tool",
            "gen_ai_tool_name",
            {"find_order": 6 / 15, "refund": 1 / 6},
        ),
        (
            "Calls that are not ok, by code",
            "strictreply_issue_code",
            {"args.type": 6 / 22, "json.incomplete": 1 / 22, "reply.refusal": 1 / 22},
        ),
    ],
)
def test_the_shares_are_those_of_the_known_calls(
    lane: Lane, title: str, label: str, expected: dict[str, float]
) -> None:
    """Of the judged calls, so many are not ok; 0 where all are."""
    assert lane.scraped.query_by(label, line_of(title)) == pytest.approx(expected)


def test_the_tokens_are_those_of_the_rejected_replies(lane: Lane) -> None:
    """Replies that were only observed are no waste: gpt-5-mini has 5 rejected, gpt-5 has 2."""
    total = "sum by (gen_ai_request_model, gen_ai_token_type) (strictreply_rejected_tokens_total)"
    names = ("gen_ai_request_model", "gen_ai_token_type")
    found = lane.scraped.query_by_all(names, total)
    assert found == {
        ("gpt-5", "input"): DAYS * 2 * 10,
        ("gpt-5", "output"): DAYS * 2 * 5,
        ("gpt-5-mini", "input"): DAYS * 5 * 10,
        ("gpt-5-mini", "output"): DAYS * 5 * 5,
    }

    rates = lane.scraped.query_by_all(names, line_of("Tokens of rejected replies"))
    assert shares(rates) == pytest.approx(shares(found))


@pytest.mark.parametrize(("at", "attempts"), [(0, 1), (1, 2)])
def test_the_attempts_of_a_call_are_whole(lane: Lane, at: int, attempts: int) -> None:
    """Half of the calls take one request, 95 % at most two."""
    found = lane.scraped.query(line_of("Attempts of a call", at))
    assert [*found.values()] == [attempts]


def test_the_durations_are_measured(lane: Lane) -> None:
    """Each model has one, and what judging cost is within the buckets."""
    waited = lane.scraped.query_by("gen_ai_request_model", line_of("Duration of a call, p95"))
    assert set(waited) == {"gpt-5", "gpt-5-mini", "gpt-5-nano"}
    assert all(value > 0 for value in some(waited.values()))

    [judging] = lane.scraped.query(line_of("Cost of judging, p99")).values()
    assert 0 < judging <= 1


def test_the_variables_have_values(lane: Lane) -> None:
    """What the dashboard offers to choose from is there: data source, models, tools."""
    found = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert found["datasource"]["query"] == "prometheus"
    values: dict[str, Any] = {}
    for name in ("model", "tool"):
        metric, label = found[name]["definition"].removeprefix("label_values(").split(", ")
        path = f"label/{label.removesuffix(')')}/values"
        values[name] = lane.scraped.ask(path, **{"match[]": metric})

    assert values["model"] == ["gpt-5", "gpt-5-mini", "gpt-5-nano"]
    assert {"find_order", "refund"} <= set(values["tool"])


def test_the_caller_s_attribute_is_a_label(lane: Lane) -> None:
    """Each metric of the program has it."""
    found = lane.scraped.query('count by (__name__, tenant) ({__name__=~"strictreply_.+"})')
    names = {dict(key)["__name__"] for key in found}
    assert {dict(key).get("tenant") for key in found} == {"shop"}
    assert len(names) == 5 + 3 * 3


def test_promtool_finds_no_fault_in_the_rules(lane: Lane) -> None:
    """``promtool check rules`` accepts what the page shows."""
    command = [lane.promtool, "check", "rules", str(lane.folder / "rules.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 rules found" in done.stdout


def test_prometheus_evaluates_the_rules(lane: Lane) -> None:
    """Both are healthy; the one model that is over the bound waits, the fault of ours fires."""
    [group] = lane.evaluated_rules()
    rules = {rule["name"]: rule for rule in group["rules"]}
    assert {name: rule["health"] for name, rule in rules.items()} == {
        "RepliesDoNotFit": "ok",
        "RepliesUnjudged": "ok",
    }
    [waiting] = rules["RepliesDoNotFit"]["alerts"]
    assert waiting["labels"]["gen_ai_request_model"] == "gpt-5-mini"
    assert waiting["state"] == "pending"
    assert float(waiting["value"]) == pytest.approx(0.6)

    [firing] = rules["RepliesUnjudged"]["alerts"]
    assert firing["state"] == "firing"


def test_the_picture_shows_what_is_scraped(lane: Lane) -> None:
    """The numbers behind docs/metrics.svg are those of this scrape."""
    tool = runpy.run_path(str(Path(DOCS).parent / "tools" / "draw_charts.py"))
    kept = json.loads(tool["SCRAPED"].read_text("utf-8"))
    assert kept == lane.calls_by_model()
