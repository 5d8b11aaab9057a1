"""The cost of the worst replies.

It is CPU time and memory of one ``Contract.check`` for each generated hostile input.

Prints a table, the worst first. Each input is judged in a process of its own; memory is the rise of
the resident set's peak over what it was before the check. Linux only. Run: ``python
benchmarks/hostile_cost.py [rows]``.
"""

from __future__ import annotations

import gc
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.hostile_inputs import INPUTS, HostileInput

RUNS = 3
TARGET_MS = 100
TARGET_MB = 64


def resident(field: str) -> int:
    """Read ``VmRSS`` (now) or ``VmHWM`` (peak) of this process, in kB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{field}:")[1].split()[0])


def measure(hostile: HostileInput, report: Connection) -> None:
    """Judge one input, and send its cost.

    It is the best CPU time of three runs in ms, and the peak of the first above its start in MB.
    """
    reply = hostile.make()
    hostile.contract.check("")  # what is made once is not the input's cost
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew

    before = resident("VmRSS")
    seconds = []
    risen = 0

    for run in range(RUNS):
        started = time.process_time()
        hostile.contract.check(reply)
        seconds.append(time.process_time() - started)
        if run == 0:
            risen = resident("VmHWM") - before

    report.send((min(seconds) * 1000, risen / 1024))


def main(rows: int) -> None:
    """Measure every input and print the dearest ones."""
    context = multiprocessing.get_context("fork")
    measured: list[tuple[float, float, str]] = []

    for hostile in INPUTS:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=measure, args=(hostile, sender))
        process.start()
        milliseconds, megabytes = receiver.recv()
        process.join()
        measured.append((milliseconds, megabytes, hostile.name))

    print(f"{'CPU ms':>8} {'MB':>8}  input")
    for milliseconds, megabytes, name in sorted(measured, reverse=True)[:rows]:
        print(f"{milliseconds:8.1f} {megabytes:8.1f}  {name}")

    over_time = sum(milliseconds > TARGET_MS for milliseconds, _, _ in measured)
    over_memory = sum(megabytes > TARGET_MB for _, megabytes, _ in measured)
    most = max(megabytes for _, megabytes, _ in measured)
    print(
        f"{len(measured)} inputs; over {TARGET_MS} ms: {over_time}; "
        f"over {TARGET_MB} MB: {over_memory} ({most:.1f} MB)"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
