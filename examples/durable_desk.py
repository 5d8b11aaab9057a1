"""A run that survives its worker.

The worker process is killed in the middle of a tool, and the next worker
finishes the run. A third process starts the run and waits for the answer. All
share an SQLite file; with PostgreSQL there may be many workers.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from openai import OpenAI

import strictreply as sr
from strictreply.integrations.dbos import DurableRuns, call_key
from strictreply.testing import LoopbackServer, ScriptedModel, faults, ok

POLL = 0.1


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of the desk, and the address of the model's server.

    The folder has the runs, the journal and the bank's book.
    """

    folder: Path
    base_url: str

    def runs(self, *, is_slow: bool = False) -> DurableRuns:
        """Open the runs; name and tools are the same in every process."""
        openai = OpenAI(base_url=self.base_url, api_key="none")
        client = sr.wrap(openai, tools=desk_tools(self, is_slow=is_slow))
        url = f"sqlite:///{self.folder}/runs.sqlite"
        return DurableRuns("desk", client, url=url, model="any")

    def note(self, tool: str) -> None:
        """Write to the journal that this process ran a tool."""
        with self.lines("journal").open("a", encoding="utf-8") as journal:
            journal.write(f"{os.getpid()} {tool}\n")

    def pay(self, key: str, text: str) -> None:
        """Pay once for each idempotency key, as a bank does."""
        with self.lines("bank").open("a+", encoding="utf-8") as book:
            book.seek(0)
            if not any(line.startswith(f"{key} ") for line in book):
                book.write(f"{key} {text}\n")

    def lines(self, name: str) -> Path:
        """Return the file of the journal, or of the bank's book."""
        return self.folder / f"{name}.txt"

    def ran(self, worker: BaseProcess) -> str:
        """Return the tools that a process ran."""
        journal = self.lines("journal").read_text("utf-8")
        lines = [line.split() for line in journal.splitlines()]
        return ", ".join(
            tool for pid, tool in lines if pid == str(worker.pid)
        )


def desk_tools(place: Place, *, is_slow: bool = False) -> list[sr.Tool]:
    """Declare the desk's tools; a slow desk waits for the bank."""

    @sr.tool
    def find_order(number: int) -> str:
        """Look up an order."""
        place.note("find_order")
        return f"order {number}: a mug, 29.90 EUR"

    @sr.tool
    def refund(order: int, amount: float) -> str:
        """Pay an order back, in EUR."""
        place.note("refund")
        place.pay(str(call_key()), f"{order} {amount:.2f}")
        if is_slow:
            time.sleep(60)
        return "paid"

    return [find_order, refund]


def work(place: Place, is_slow: bool) -> None:
    """Execute runs until this process is killed."""
    with place.runs(is_slow=is_slow).worker(poll_seconds=POLL):
        time.sleep(120)


def worker(place: Place, *, is_slow: bool = False) -> BaseProcess:
    """Start a worker in its own process."""
    process = get_context("spawn").Process(
        target=work, args=(place, is_slow), daemon=True
    )
    process.start()
    return process


def killed_half_way(place: Place, process: BaseProcess) -> None:
    """Kill a worker after the bank has paid, before that is recorded."""
    book = place.lines("bank")
    while not book.exists() or not book.read_text("utf-8"):
        time.sleep(POLL)

    process.kill()
    process.join()


def model(tools: list[sr.Tool]) -> ScriptedModel:
    """Script the model: one reply is invalid, and its correction valid."""
    find_order, refund = tools
    paying: dict[str, Any] = {"order": 1042, "amount": 29.9}
    script = [
        ok.call(find_order, number=1042),
        faults.extra_key(refund),
        ok.call(refund, **paying),
    ]
    return ScriptedModel(*script, ok.answer("I have refunded 29.90 EUR."))


def main() -> None:
    """Start a run and kill its worker; the next worker finishes it."""
    with tempfile.TemporaryDirectory() as folder:
        script = model(desk_tools(Place(Path(folder), "")))
        with (
            LoopbackServer(script) as server,
            Place(Path(folder), server.base_url).runs() as runs,
        ):
            place = Place(Path(folder), server.base_url)
            run = runs.start("My order 1042 arrived broken.", id="ticket-7")
            print(f"{run.id} is in the queue: {run.look()}")

            first = worker(place, is_slow=True)
            killed_half_way(place, first)
            print(
                f"a worker ran {place.ran(first)}, "
                f"and was killed while the bank answered: {run.look()}"
            )

            second = worker(place)
            answer = run.result(poll_seconds=POLL).answer
            print(
                f"the next worker ran {place.ran(second)}, "
                f"and the run answers: {answer}"
            )
            second.kill()
            second.join()

        book = place.lines("bank").read_text("utf-8")
        payments = [line.partition(" ")[2] for line in book.splitlines()]
        print(
            f"paid (order, EUR): {', '.join(payments)}; "
            f"{len(script.requests)} requests, one of them a correction"
        )


if __name__ == "__main__":
    main()
