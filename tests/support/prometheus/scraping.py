"""A real Prometheus that scrapes a real program, both on loopback and ended by their process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from support.ports import free_port

TESTS = Path(__file__).resolve().parents[2]
PROMETHEUS = shutil.which("prometheus")
PROMTOOL = shutil.which("promtool")
PATIENCE = 40.0
"""Seconds until a program listens, and until a scrape brings what was counted."""
PAUSE = 0.1
"""Seconds between two looks at it."""


class Program:
    """The guarded program: it plays a day when it is told to."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self._process = process
        self.address = address

    def play(self) -> None:
        """Play a day, and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("play\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "played\n"


@dataclass(frozen=True)
class Scraped:
    """A Prometheus at work, and the program that it scrapes."""

    program: Program
    url: str
    at: float | None = None
    """When queries are answered for, in seconds of Unix; None for now."""

    def ask(self, path: str, **parameters: str) -> Any:
        """Return the data of one answer of the HTTP API."""
        address = f"{self.url}/api/v1/{path}?{urlencode(parameters)}"
        with urlopen(address, timeout=PATIENCE) as response:  # noqa: S310 - loopback
            answer = json.load(response)
        assert answer["status"] == "success"
        return answer["data"]

    def query(self, expression: str) -> dict[frozenset[tuple[str, str]], float]:
        """Return the value of each series that an expression gives, by its labels."""
        when = {} if self.at is None else {"time": str(self.at)}
        data = self.ask("query", query=expression, **when)
        assert data["resultType"] == "vector"
        return {frozenset(row["metric"].items()): float(row["value"][1]) for row in data["result"]}

    def query_by(self, label: str, expression: str) -> dict[str, float]:
        """Return the same by the value of one label, "" where a series has none."""
        return {names[0]: value for names, value in self.query_by_all([label], expression).items()}

    def query_by_all(self, labels: Sequence[str], expression: str) -> dict[tuple[str, ...], float]:
        """Return the same by the values of several labels, which tell all series apart."""
        found: dict[tuple[str, ...], float] = {}
        for series, value in self.query(expression).items():
            named = dict(series)
            names = tuple(named.get(label, "") for label in labels)
            assert names not in found
            found[names] = value
        return found

    def await_value(self, counter: str, value: float) -> Scraped:
        """Wait until a counter has come to a value; return the same as of that scrape.

        A later scrape may fail on a busy machine: that one has all series.
        """
        until = time.monotonic() + PATIENCE
        last: list[float] = []
        while time.monotonic() < until:
            now = replace(self, at=time.time())
            last = [*now.query(f"sum({counter})").values()]
            if last == [value]:
                [scraped_at] = now.query(f"max(timestamp({counter}))").values()
                return replace(self, at=scraped_at)
            time.sleep(PAUSE)
        raise AssertionError(f"{counter} comes to {last}, and not to {value}")


@contextmanager
def playing() -> Generator[Program]:
    """Run the guarded program until its input is closed."""
    command = [sys.executable, "-m", "support.prometheus.desk"]
    with subprocess.Popen(
        command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, "the program ended before it listened"
            yield Program(process, address)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE)


@contextmanager
def scraping(folder: Path, program: Program, rules: str) -> Generator[Scraped]:
    """Scrape a program each second, with rules, by a Prometheus whose data is in a folder."""
    assert PROMETHEUS is not None
    (folder / "rules.yml").write_text(rules, encoding="utf-8")
    settings: Mapping[str, object] = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {"job_name": "desk", "static_configs": [{"targets": [program.address]}]}
        ],
    }
    # JSON is YAML
    (folder / "prometheus.yml").write_text(json.dumps(settings), encoding="utf-8")

    with free_port() as port, (folder / "prometheus.log").open("w") as said:
        command = [
            PROMETHEUS,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        try:
            url = f"http://127.0.0.1:{port}"
            _await_ready(f"{url}/-/ready", process)
            yield Scraped(program, url)
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _await_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            urlopen(url, timeout=PATIENCE).close()  # noqa: S310 - loopback
        except OSError:
            time.sleep(PAUSE)
        else:
            return

    raise RuntimeError("Prometheus does not listen: its folder's prometheus.log says why")
