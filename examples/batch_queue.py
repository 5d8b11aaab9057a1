"""Send rows through a DBOS queue on PostgreSQL: any number of machines work.

It is for those who have no cluster. A batch whose worker was killed is
resumed when that worker is started again under the same name: rows that had
no result yet are asked about once more, and each row is in the result once.
The result of a batch is stored in the database, so the whole run can be
killed and started again, too.

    export DATABASE_URL=postgresql://… MODEL_URL=https://…/v1

    # one or more of these
    python batch_queue.py work NAME

    # this waits, and prints the rows
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
    """What a customer's message is about."""

    topic: Literal["delivery", "price", "other"]


def client() -> AsyncOpenAI:
    """Make the client of a process, at its first batch."""
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
    """Ask about the rows of one batch; the result is recorded once."""
    return ASK(batch)


@DBOS.workflow(max_recovery_attempts=None)
def label(batch: list[Row]) -> list[Row]:
    """Label one batch, on whichever worker takes it."""
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

    # who starts a run only waits
    DBOS.listen_queues([QUEUE] if role == "work" else [])
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=2, polling_interval_sec=0.2)
    if role == "work":
        threading.Event().wait()

    rows: list[Row] = []
    for path in messages:
        lines = Path(path).read_text().splitlines()
        rows += [json.loads(line) for line in lines]

    # started again under the same name, the run goes on
    with SetWorkflowID(name):
        for row in DBOS.start_workflow(label_all, rows).get_result():
            print(json.dumps(row))

    DBOS.destroy()


if __name__ == "__main__":
    main(*sys.argv[1:])
