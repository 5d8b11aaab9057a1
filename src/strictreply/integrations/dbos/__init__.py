"""Durable runs of the tool loop on DBOS (3.4 or newer; ``pip install 'strictreply[durable]'``).

Each turn is a workflow. Each model call and each tool call is a step of it, which is not repeated
when a process dies. SQLite serves one process, PostgreSQL any number of workers. A run that waits
for its client occupies no worker.
"""

from __future__ import annotations

from strictreply.integrations.dbos._durable_records import DurableRunFailed
from strictreply.integrations.dbos._durable_runs import DurableRun, DurableRuns
from strictreply.integrations.dbos._turn_workflow import call_key

__all__ = ["DurableRun", "DurableRunFailed", "DurableRuns", "call_key"]
