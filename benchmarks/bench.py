"""Compares a validated call with the raw SDK and other libraries: ``make bench``.

Each environment runs in its own process, one after the other; each process alternates with the raw
SDK. A full run writes ``results.json``, and ``report.py`` makes ``results.md`` and the tables of
the pages from it. ``--quick`` prints rough tables and writes nothing; ``--only=NAME,…`` measures
some environments again and keeps the other results.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import report
from results import RESULTS, Results

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "benchmarks"
RUNS: dict[str, tuple[str, list[str]]] = {
    "strictreply": ("strictreply", ["worker.py", "strictreply_ways"]),
    "own": ("strictreply", ["own.py"]),
    "openai": ("strictreply", ["worker.py", "openai_ways"]),
    "instructor": ("instructor", ["worker.py", "instructor_ways"]),
    "pydantic-ai": ("pydantic-ai", ["worker.py", "pydantic_ai_ways"]),
    "langchain": ("langchain", ["worker.py", "langchain_ways"]),
    "openai-agents": ("openai-agents", ["worker.py", "openai_agents_ways"]),
    "mirascope": ("mirascope", ["worker.py", "mirascope_ways"]),
}
"""The runs: a name, its environment, and the script with its arguments."""

END_SECONDS = 5
ESTIMATE = "Estimated as one token for four bytes, since no tokenizer was at hand"
COUNTED = "Counted by tiktoken, o200k_base"


class RunFailed(Exception):
    """A process ended before its work was done."""


def python_of(environment: str) -> str:
    """Return the Python of an environment of the benchmark."""
    return str(ROOT / f".venv-bench-{environment}" / "bin" / "python")


def told(name: str, *, quick: bool) -> Iterator[dict[str, Any]]:
    """Run one process and yield its lines; the process ends together with this one."""
    environment, (script, *arguments) = RUNS[name]
    full = [python_of(environment), str(HERE / script), *arguments]
    if quick:
        full.append("--quick")

    process = subprocess.Popen(full, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ours
    assert process.stdout is not None
    try:
        for line in process.stdout:
            yield json.loads(line)
    finally:
        if process.poll() is None:
            try:
                process.wait(END_SECONDS if sys.exc_info()[0] is None else 0.1)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    if process.returncode:
        raise RunFailed(f"{name} ended with status {process.returncode}")


def shown(number: int, count: int, name: str, line: Mapping[str, Any]) -> None:
    """Show the progress: one line on a terminal, one for each environment elsewhere."""
    what = line.get("row") or line.get("malformed") or "…"
    if sys.stderr.isatty():
        print(f"\r\x1b[K[{number}/{count}] {name}: {what}", end="", file=sys.stderr, flush=True)


def measured(names: Sequence[str], *, quick: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Run the processes in turn; return all their lines, and the failures."""
    lines: list[dict[str, Any]] = []
    failed: list[str] = []

    for number, name in enumerate(names, start=1):
        begun = time.monotonic()
        try:
            for line in told(name, quick=quick):
                shown(number, len(names), name, line)
                lines.append(line | {"run": name})
        except RunFailed as error:
            failed.append(str(error))

        start = "\r\x1b[K" if sys.stderr.isatty() else ""
        took = f"{time.monotonic() - begun:.0f} s"
        print(f"{start}[{number}/{len(names)}] {name}: {took}", file=sys.stderr, flush=True)

    return lines, failed


def tokens(lines: Sequence[Mapping[str, Any]]) -> tuple[str, dict[str, dict[str, list[int]]]]:
    """Count the tokens of the requests of each retry.

    Return how they were counted, and the counts by case and way.
    """
    told_of = [line for line in lines if "bodies" in line]
    pairs = json.dumps([line["requests"] for line in told_of])
    command = [python_of("tokens"), str(HERE / "count_tokens.py")]

    how = COUNTED
    try:
        done = subprocess.run(  # noqa: S603 - ours
            command, input=pairs, capture_output=True, text=True, check=True
        )
        counts = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError):
        how = ESTIMATE
        counts = [estimated(line["requests"]) for line in told_of]

    found: dict[str, dict[str, list[int]]] = {}
    for line, counted in zip(told_of, counts, strict=True):
        found.setdefault(line["bodies"], {})[line["peer"]] = counted

    return how, found


def estimated(pair: Sequence[str]) -> list[int]:
    """Estimate the tokens of a pair of requests as ``count_tokens.py`` counts them.

    They are a quarter of the bytes.
    """
    messages = [json.dumps(json.loads(body)["messages"], ensure_ascii=False) for body in pair]
    return [round(len(text.encode()) / 4) for text in (*messages, *pair)]


def machine() -> str:
    """Describe this machine."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        named = [line for line in lines if line.startswith("model name")]
        model = named[0].partition(":")[2].strip() if named else model

    python = platform.python_version()
    return f"{os.cpu_count()} cores of {model}, Python {python}, {platform.system()}"


def results_of(
    lines: Sequence[dict[str, Any]], begun: float, load: float, command: str
) -> dict[str, Any]:
    """Return the content of ``results.json``."""
    how, counts = tokens(lines)
    environments = {line["run"]: line["versions"] for line in lines if "versions" in line}
    about = {
        "command": command,
        "date": f"{datetime.now(tz=UTC):%Y-%m-%d}",
        "took": f"{(time.monotonic() - begun) / 60:.0f} minutes",
        "machine": machine(),
        "load": f"{load:.1f} at the beginning, {os.getloadavg()[0]:.1f} at the end",
        "tokens": how,
    }

    told_lines = [line for line in lines if "versions" not in line]
    return {"about": about, "environments": environments, "lines": told_lines, "tokens": counts}


def kept(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the lines of the last results that other runs wrote."""
    if not RESULTS.exists():
        return []

    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    versions = [
        {"versions": libraries, "run": name} for name, libraries in found["environments"].items()
    ]
    return [line for line in (*versions, *found["lines"]) if line["run"] not in names]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="measure roughly, print the tables, write nothing"
    )
    parser.add_argument("--only", default="", metavar="NAME,…", help=f"of {', '.join(RUNS)}")

    given = parser.parse_args()
    given.names = given.only.split(",") if given.only else list(RUNS)
    if unknown := [name for name in given.names if name not in RUNS]:
        parser.error(f"no such environment: {', '.join(unknown)}; there are {', '.join(RUNS)}")

    return given


def main() -> int:
    """Run the command line; return 1 if a process failed."""
    given = arguments()
    begun = time.monotonic()
    load = os.getloadavg()[0]
    lines, failed = measured(given.names, quick=given.quick)
    if given.only and not given.quick:
        lines = sorted([*kept(given.names), *lines], key=lambda line: list(RUNS).index(line["run"]))

    found = results_of(lines, begun, load, "make bench" + " ARGS=--quick" * given.quick)
    if given.only and not given.quick and RESULTS.exists():
        # The page still names the run of the other results, then what was measured again.
        about = json.loads(RESULTS.read_text(encoding="utf-8"))["about"]
        new = found["about"]
        anew = f"{', '.join(given.names)} again on {new['date']}, load {new['load']}"
        found["about"] = about | {
            "tokens": new["tokens"],
            "took": f"{about['took'].partition(';')[0]}; {anew}",
        }

    if given.quick:
        print(report.results_page(Results(**found)))
    else:
        written = "".join(f"{json.dumps(key)}: {_lines(value)},\n" for key, value in found.items())
        RESULTS.write_text("{" + written.rstrip(",\n") + "\n}\n", encoding="utf-8")
        report.write(Results.read())
        charts = [sys.executable, str(ROOT / "tools" / "draw_charts.py")]
        subprocess.run(charts, check=True)  # noqa: S603 - ours
        print(
            f"Wrote {report.PAGE.relative_to(ROOT)}, the tables of docs/evidence.md and "
            "docs/guide.md, and the charts."
        )

    for words in failed:
        print(f"bench: {words}", file=sys.stderr)

    return 1 if failed else 0


def _lines(value: Any) -> str:
    """Write a value as JSON, the elements of a list one to a line.

    So a change of results reads as one.
    """
    if isinstance(value, list):
        return "[\n" + ",\n".join(json.dumps(one) for one in value) + "\n]"
    return json.dumps(value, indent=1)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("bench: stopped")
