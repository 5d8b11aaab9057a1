"""Write the Grafana dashboard and the expressions of docs/telemetry.md anew from one table.

``python tools/write_dashboard.py`` writes docs/grafana-strictreply.json and the part of the page
that lists its panels. Names are those that OpenTelemetry's exporter for Prometheus gives the
metrics. A test fails while a file and the table differ; ``make test-prometheus`` asks a real
Prometheus for each expression.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"
DASHBOARD = DOCS / "grafana-strictreply.json"
PAGE = DOCS / "telemetry.md"
BEGIN = "<!-- panels:begin -->\n"
END = "<!-- panels:end -->"

SCHEMA_VERSION = 41
COLUMNS = 24
HEIGHT = 8
RANGE = "[5m]"
METRIC = re.compile(r"(strictreply_\w+)(?:\{([^}]*)\})?" + re.escape(RANGE))
MODEL = 'gen_ai_request_model=~"$model"'
TOOL = 'gen_ai_tool_name=~"$tool"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Line:
    """One expression, and how Grafana names its series."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One question, and what answers it."""

    title: str
    answers: str
    unit: str
    lines: tuple[Line, ...]
    filters: tuple[str, ...] = (MODEL, TOOL)
    is_stacked: bool = False


JUDGED = """strictreply_calls_total{
    strictreply_call_outcome=~"ok|fixed|observed|rejected|halted"
  }[5m]"""
NOT_OK = """strictreply_calls_total{
    strictreply_call_outcome=~"fixed|observed|rejected|halted"
  }[5m]"""


def share_not_ok(label: str) -> str:
    """Return the expression of the share of judged calls that are not ok, by a label.

    It is 0, and not missing, where all are.
    """
    every = f"sum by ({label}) (rate(\n  {JUDGED}\n))"
    bad = f"sum by ({label}) (rate(\n  {NOT_OK}\n))"
    return f"(\n{bad}\nor 0 * {every}\n)\n/ {every}"


PANELS = (
    Panel(
        "Calls by outcome",
        "How many calls succeed with the first reply, after corrections, or not at all?",
        "suffix: calls/s",
        (
            Line(
                "sum by (strictreply_call_outcome) (rate(\n  strictreply_calls_total[5m]\n))",
                "{{strictreply_call_outcome}}",
            ),
        ),
        is_stacked=True,
    ),
    Panel(
        "Calls that are not ok, by model",
        "Which model writes invalid replies, and since when? The share of the judged calls that "
        "were fixed, observed, rejected or halted.",
        "percentunit",
        (Line(share_not_ok("gen_ai_request_model"), "{{gen_ai_request_model}}"),),
    ),
    Panel(
        "Calls that are not ok, by tool",
        "Which tool do models call wrongly? Its description or schema may need a change.",
        "percentunit",
        (
            Line(
                share_not_ok("gen_ai_tool_name").replace("{\n", '{\n    gen_ai_tool_name!="",\n'),
                "{{gen_ai_tool_name}}",
            ),
        ),
    ),
    Panel(
        "Calls that are not ok, by code",
        "What is wrong with these calls? The first issue of each, as a share of all judged calls.",
        "percentunit",
        (
            Line(
                f"sum by (strictreply_issue_code) (rate(\n  {NOT_OK}\n))\n"
                f"/ on () group_left () sum(rate(\n  {JUDGED}\n))",
                "{{strictreply_issue_code}}",
            ),
        ),
        is_stacked=True,
    ),
    Panel(
        "Tokens of rejected replies",
        "How many tokens were spent on replies that nobody used?",
        "suffix: tokens/s",
        (
            Line(
                "sum by (gen_ai_request_model, gen_ai_token_type) (rate(\n"
                "  strictreply_rejected_tokens_total[5m]\n))",
                "{{gen_ai_request_model}} {{gen_ai_token_type}}",
            ),
        ),
        is_stacked=True,
    ),
    Panel(
        "Attempts of a call",
        "How many requests does a call take? At most this many for half of the calls, and for "
        "95 % of them.",
        "none",
        tuple(
            Line(
                f"ceil(histogram_quantile({quantile}, sum by (le) (rate(\n"
                "  strictreply_call_attempts_bucket[5m]\n))))",
                name,
            )
            for quantile, name in ((0.5, "p50"), (0.95, "p95"))
        ),
    ),
    Panel(
        "Duration of a call, p95",
        "How long do callers wait, with corrections and repeats?",
        "s",
        (
            Line(
                "histogram_quantile(0.95, sum by (le, gen_ai_request_model) (rate(\n"
                "  strictreply_call_duration_seconds_bucket[5m]\n)))",
                "{{gen_ai_request_model}}",
            ),
        ),
    ),
    Panel(
        "Cost of judging, p99",
        "How much time does observing add to a call? Measured on replies passed on unchanged.",
        "s",
        (
            Line(
                "histogram_quantile(0.99, sum by (le) (rate(\n"
                "  strictreply_judge_duration_seconds_bucket[5m]\n)))",
                "p99",
            ),
        ),
    ),
    Panel(
        "Replies without a verdict",
        "What passes without a check, and why? A fault of strictreply, a request that gives "
        "nothing to check by, or a stream that its caller left.",
        "suffix: calls/s",
        (
            Line(
                "sum by (strictreply_unjudged_reason) (rate(\n  strictreply_unjudged_total[5m]\n))",
                "{{strictreply_unjudged_reason}}",
            ),
        ),
        filters=(MODEL,),
        is_stacked=True,
    ),
)
"""What the dashboard shows, from left to right, two in a row."""


def for_grafana(panel: Panel, line: Line) -> str:
    """Return an expression with the dashboard's variables in it."""

    def filtered(found: re.Match[str]) -> str:
        own = (found[2] or "").strip().rstrip(",")
        labels = [*panel.filters, *([re.sub(r"\s+", " ", own)] if own else [])]
        return f"{found[1]}{{{', '.join(labels)}}}[$__rate_interval]"

    return METRIC.sub(filtered, line.expression)


def drawn_panel(number: int, panel: Panel) -> dict[str, Any]:
    """Return the panel of a dashboard at its place in the grid."""
    width = COLUMNS // 2
    custom = {
        "drawStyle": "line",
        "fillOpacity": 30 if panel.is_stacked else 0,
        "showPoints": "never",
        "stacking": {"group": "A", "mode": "normal" if panel.is_stacked else "none"},
    }
    targets = [
        {
            "datasource": SOURCE,
            "editorMode": "code",
            "expr": for_grafana(panel, line),
            "legendFormat": line.legend,
            "range": True,
            "refId": chr(ord("A") + at),
        }
        for at, line in enumerate(panel.lines)
    ]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.answers,
        "datasource": SOURCE,
        "gridPos": {
            "x": width * (number % 2),
            "y": HEIGHT * (number // 2),
            "w": width,
            "h": HEIGHT,
        },
        "fieldConfig": {
            "defaults": {"custom": custom, "min": 0, "unit": panel.unit},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": targets,
    }


def variable(name: str, label: str, of: str) -> dict[str, Any]:
    """Return a variable with the values of a label of the calls."""
    query = f"label_values(strictreply_calls_total, {of})"
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
    }


def dashboard() -> str:
    """Return the dashboard as Grafana imports it."""
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "refresh": 1,
    }
    whole = {
        "uid": "strictreply",
        "title": "strictreply",
        "description": "Replies of models, and what strictreply did with them.",
        "tags": ["llm", "strictreply"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                source,
                variable("model", "Model", "gen_ai_request_model"),
                variable("tool", "Tool", "gen_ai_tool_name"),
            ]
        },
        "panels": [drawn_panel(number, panel) for number, panel in enumerate(PANELS)],
    }
    return json.dumps(whole, indent=2) + "\n"


def page(text: str) -> str:
    """Return the page with its panels as the table has them."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return "".join([before, BEGIN, *_told(), END, after])


def _told() -> Iterator[str]:
    for panel in PANELS:
        yield f"\n**{panel.title}.** {panel.answers}\n"
        for line in panel.lines:
            yield f"\n```promql\n{line.expression}\n```\n"
    yield "\n"


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard(), "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
