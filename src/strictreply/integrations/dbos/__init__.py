"""Durable runs of the tool loop on DBOS (3.4 or newer; ``pip install 'strictreply[durable]'``).

Each turn is a workflow, each model call and each tool call a step of it: what was done before a process died is not
done again, and whoever goes on finds it in the database. SQLite serves one process, PostgreSQL any number of workers::

    runs = DurableRuns("support", sr.wrap(OpenAI(), tools=[…]), url="postgresql://…", model="…")
    with runs.worker():                                 # in every worker
        ...
    run = runs.start("Where is my order?", id="ticket-7")   # anywhere that reaches the database
    run.result().answer

A run that waits for its client holds no worker: it goes on, in any process, when it is answered.
"""

from __future__ import annotations

from strictreply.integrations.dbos._durable_records import DurableRunFailed
from strictreply.integrations.dbos._durable_runs import DurableRun, DurableRuns
from strictreply.integrations.dbos._turn_workflow import call_key

__all__ = ["DurableRun", "DurableRunFailed", "DurableRuns", "call_key"]
