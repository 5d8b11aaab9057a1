"""Process rows through a DBOS queue on PostgreSQL, on many machines.

It needs no cluster. If a worker is killed, start it again under the same
name: it resumes its batch. Rows without a result are sent again, and each row
is in the result once. The database stores the result of each batch, so you
can also kill the whole run and start it again.

    export DATABASE_URL=postgresql://… MODEL_URL=https://…/v1

    # one or more of these
    python batch_queue.py work NAME

    # waits for the results, and prints the rows
    python batch_queue.py start RUN messages.jsonl
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Literal

from dbos import DBOS, SetWorkflowID
from openai import AsyncOpenAI
from pydantic import BaseModel

import strictreply as sr

BATCH = 20
QUEUE = "rows"
Row = dict[str, Any]


class Label(BaseModel):
    """The topic of a customer's message."""

    topic: Literal["delivery", "price", "other"]


def client() -> AsyncOpenAI:
    """Make the client of a process; called at its first batch."""
    return AsyncOpenAI(
        base_url=os.environ["MODEL_URL"],
        api_key=os.environ.get("MODEL_KEY", "none"),
    )


ASK = sr.batch.rows(
    sr.Contract(answer=Label),
    model="any",
    messages="text",
    client=client,
    concurrency=32,
)


@DBOS.step()
def asked(batch: list[Row]) -> list[Row]:
    """Process the rows of one batch; DBOS records the result once."""
    return ASK(batch)


@DBOS.workflow(max_recovery_attempts=None)
def label(batch: list[Row]) -> list[Row]:
    """Label one batch, on the worker that takes it."""
    return asked(batch)


@DBOS.workflow(max_recovery_attempts=None)
def label_all(rows: list[Row]) -> list[Row]:
    """Put all batches into the queue, and collect their results in order."""
    batches = [
        rows[start : start + BATCH] for start in range(0, len(rows), BATCH)
    ]
    handles = [
        DBOS.enqueue_workflow(QUEUE, label, batch) for batch in batches
    ]
    return [row for handle in handles for row in handle.get_result()]


def main(role: str, name: str, *messages: str) -> None:
    """Work until the process ends, or start a run and print its rows."""
    url = os.environ["DATABASE_URL"]
    DBOS(
        config={
            "name": "rows",
            "system_database_url": url,
            "executor_id": name,
            "application_version": "1",
        }
    )

    # the process that starts a run only waits for it
    DBOS.listen_queues([QUEUE] if role == "work" else [])
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=2, polling_interval_sec=0.2)
    if role == "work":
        threading.Event().wait()

    rows: list[Row] = []
    for path in messages:
        lines = Path(path).read_text().splitlines()
        rows += [json.loads(line) for line in lines]

    # if started again under the same name, the run continues
    with SetWorkflowID(name):
        for row in DBOS.start_workflow(label_all, rows).get_result():
            print(json.dumps(row))

    DBOS.destroy()


if __name__ == "__main__":
    main(*sys.argv[1:])
