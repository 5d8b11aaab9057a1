"""CPU time of a durable turn beside plain DBOS with as many steps, and of an idle worker.

Run: ``python benchmarks/durable_turn.py [postgresql://…]``; a SQLite file by default. Needs
strictreply[durable].

A turn asks four times and runs three tools, so it has seven steps. The plain workflow has the same
seven, which make the same requests with the raw SDK, read the calls with ``json.loads``, and run
the same tool. Both go through a queue of the same worker; batches of both are worked on in turn,
each ratio is that of neighbours. The transport is a mock.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from dbos import DBOS, DBOSClient
from tool_loop import CALLS, QUESTION, look, sync_client

import strictreply as sr
from strictreply.integrations.dbos import DurableRuns

ROUNDS = 7
BATCH = 10
IDLE_SECONDS = 10.0
PLAIN = "plain"
TURN_TARGET = 2.0
IDLE_TARGET = 10.0


def plain_workflow() -> None:
    """Register the plain workflow: the loop by hand, each request and each tool a step."""
    raw = sync_client()
    tools = [sr.tool(look).definition]

    def ask(messages: list[Any]) -> str:
        response = raw.chat.completions.create(model="m", messages=messages, tools=tools)
        return response.choices[0].message.model_dump_json(exclude_none=True)

    def run_tool(arguments: str) -> str:
        return look(**json.loads(arguments))

    @DBOS.workflow(name=PLAIN)
    def turn(question: str) -> str:
        messages: list[Any] = [{"role": "user", "content": question}]
        while True:
            message = json.loads(DBOS.run_step({"name": "ask"}, ask, messages))
            messages.append(message)

            for call in message.get("tool_calls", ()):
                told = DBOS.run_step({"name": "look"}, run_tool, call["function"]["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": told})

            if "tool_calls" not in message:
                return str(message["content"])


def batch_cpu(client: DBOSClient, start: Callable[[str], object]) -> float:
    """Run a batch; return the CPU milliseconds of one turn, from its start to its end."""
    begun = time.process_time()
    ids = [uuid4().hex for _ in range(BATCH)]
    workflows = list({str(start(id_)) for id_ in ids})

    while True:
        time.sleep(0.25)
        done = client.list_workflows(workflow_ids=workflows, load_input=False, load_output=False)
        if {status.status for status in done} == {"SUCCESS"} and len(done) == BATCH:
            return (time.process_time() - begun) / BATCH * 1e3


def idle_cpu() -> float:
    """Return the CPU milliseconds a second of this process while nothing happens."""
    time.sleep(1.0)
    begun = time.process_time()
    time.sleep(IDLE_SECONDS)
    return (time.process_time() - begun) / IDLE_SECONDS * 1e3


def measured(url: str) -> tuple[list[tuple[float, float]], float]:
    """Return the pairs of plain and ours, and the idle worker."""
    with DurableRuns("bench", sr.wrap(sync_client(), tools=[look]), url=url, model="m") as runs:
        plain_workflow()

        with runs.worker():
            idle = idle_cpu()
            client = runs.database

            def ours(id_: str) -> str:
                runs.start(QUESTION, id=id_)
                return f"{runs.workflow}/{id_}"

            def plain(id_: str) -> str:
                options = {"queue_name": runs.workflow, "workflow_name": PLAIN, "workflow_id": id_}
                client.enqueue(options, QUESTION)
                return id_

            for start in (plain, ours):
                batch_cpu(client, start)

            pairs = [(batch_cpu(client, plain), batch_cpu(client, ours)) for _ in range(ROUNDS)]
            return pairs, idle


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder, 'runs.sqlite')}"
        pairs, idle = measured(url)

    plain, ours = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(two / one for one, two in pairs)
    print(
        f"{url.partition(':')[0]}; CPU milliseconds of a turn of {CALLS} calls and an answer, "
        f"{2 * CALLS + 1} steps"
    )
    print("                plain     ours     x  target")
    print(f"durable turn {plain:>8.1f} {ours:>8.1f} {ratio:>5.2f} <={TURN_TARGET:>5.2f}")
    print(f"idle worker, CPU milliseconds a second: {idle:.1f} (target <= {IDLE_TARGET:.0f})")


if __name__ == "__main__":
    main()
