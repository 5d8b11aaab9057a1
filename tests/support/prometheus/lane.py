"""The lane of Prometheus: what it needs, and a program that was scraped for two days.

``python -m support.prometheus.lane FILE`` writes how many calls there were, as a real Prometheus
has them after a scrape.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.prometheus.scraping import (
    PATIENCE,
    PAUSE,
    PROMETHEUS,
    PROMTOOL,
    Scraped,
    playing,
    scraping,
)

LANE = "STRICTREPLY_PROMETHEUS_LANE"
"""Set where Prometheus and its exporter must be: nothing skips there."""
DAYS = 2
"""How often the program plays its day: before the first scrape, and between two."""
OUTCOMES = {"ok": 14, "fixed": 4, "observed": 2, "rejected": 1, "halted": 1, "failed": 1}
OUTCOMES |= {"unjudged": 3, "abandoned": 1}
"""The calls of one day, by their end."""


def absent() -> str:
    """Return what this Python and this machine lack, and where it is; "" where nothing is."""
    if PROMETHEUS is None or PROMTOOL is None:
        return "no prometheus: install Debian's package, then make test-prometheus"
    if importlib.util.find_spec("prometheus_client") is None:
        return "the exporter is in an environment of its own: make test-prometheus"
    return ""


@dataclass(frozen=True)
class Lane:
    """The program and its Prometheus, after two days."""

    scraped: Scraped
    folder: Path

    @property
    def promtool(self) -> str:
        """The path of promtool."""
        assert PROMTOOL is not None
        return PROMTOOL

    @classmethod
    @contextmanager
    def running(cls, folder: Path, rules: str) -> Generator[Lane]:
        """Play a day, scrape it, play the same day again, and scrape that.

        Each series has then a first sample of one day, and a last one of two.
        """
        assert absent() == ""
        calls = sum(OUTCOMES.values())
        counted = "strictreply_calls_total"
        with playing() as program:
            program.play()
            with scraping(folder, program, rules) as scraped:
                scraped.await_value(counted, calls)
                program.play()
                yield cls(scraped.await_value(counted, DAYS * calls), folder)

    def evaluated_rules(self) -> Any:
        """Return the groups of rules, once each rule was evaluated on what is there now."""
        until = time.monotonic() + PATIENCE
        groups: Any = []
        while time.monotonic() < until:
            groups = self.scraped.ask("rules")["groups"]
            if all(rule.get("alerts") for group in groups for rule in group["rules"]):
                break
            time.sleep(PAUSE)
        return groups

    def calls_by_model(self) -> dict[str, dict[str, int]]:
        """Return how many calls of each model there were, by outcome."""
        expression = (
            "sum by (gen_ai_request_model, strictreply_call_outcome) (strictreply_calls_total)"
        )
        found: dict[str, dict[str, int]] = {}
        for labels, value in sorted(self.scraped.query(expression).items(), key=str):
            named = dict(labels)
            of_model = found.setdefault(named["gen_ai_request_model"], {})
            of_model[named["strictreply_call_outcome"]] = int(value)
        return {model: dict(sorted(of_model.items())) for model, of_model in sorted(found.items())}


def main(path: Path) -> None:
    """Write what a scrape gives."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Lane.running(Path(folder), "groups: []") as lane,
    ):
        told = json.dumps(lane.calls_by_model(), indent=2) + "\n"
        path.write_text(told, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
