"""Measure which style of retrying fixes the bad replies of a real weak model: ``make measure``.

It serves SmolLM2-135M-Instruct by llama.cpp, asks about rows.jsonl, and writes results.json, of
which ``tools/write_recovery.py`` makes docs/recovery.md. A run that was ended goes on where its
journal ends: ``--journal``, ``.measure.jsonl`` beside the results.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from openai import OpenAI
from tasks import ROWS, SEED, TASKS

from strictreply.measuring import MeasureProgress, MeasureReport, measure

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.json"
SERVING = ROOT / ".venv-measure" / "bin" / "python"
MODEL = "SmolLM2-135M-Instruct.Q4_1"
TEMPERATURE = 0.7
TIMEOUT = 120.0  # seconds for one call


@contextmanager
def served(threads: int) -> Generator[str]:
    """Serve the model, and give the address of the API."""
    command = [str(SERVING), str(HERE / "serve.py"), str(threads)]
    with subprocess.Popen(  # noqa: S603 - our own script
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            assert address, "the server ended before it listened"
            yield f"{address}/v1"
        finally:
            server.kill()


def measured(base_url: str, journal: Path, most: int | None) -> MeasureReport:
    """Measure each task, and put the reports together."""
    rows = [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]
    client = OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=TIMEOUT)

    def tell(progress: MeasureProgress) -> None:
        print(progress, file=sys.stderr, flush=True)

    def one(name: str) -> MeasureReport:
        task = TASKS[name]
        declared: dict[str, Any] = dict(task.declared)
        return measure(
            client,
            [row for row in rows if row["task"] == name][:most],
            model=MODEL,
            request={"temperature": TEMPERATURE, **task.request},
            plain=True,
            journal=journal,
            on_progress=tell,
            **declared,
        )

    return reduce(add, map(one, TASKS))


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, help="rows of each task; all when not given")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--base-url", help="a server that runs already")
    parser.add_argument("--journal", type=Path, default=HERE / ".measure.jsonl")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()

    if options.base_url:
        report = measured(options.base_url, options.journal, options.rows)
    else:
        with served(options.threads) as base_url:
            report = measured(base_url, options.journal, options.rows)

    day = datetime.now(UTC).date().isoformat()
    how = {"seed": SEED, "temperature": TEMPERATURE, "date": day}
    written = json.dumps({"how": how, **report.to_dict()}, indent=1)
    options.out.write_text(written + "\n", encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
