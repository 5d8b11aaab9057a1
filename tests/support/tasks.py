"""The asyncio Tasks that a test leaves behind."""

from __future__ import annotations

import asyncio.tasks
from pathlib import Path
from typing import Any

# The first is the name in Python 3.11, the other one that in 3.12 and later.
_ALIVE = "_all_tasks" if hasattr(asyncio.tasks, "_all_tasks") else "_scheduled_tasks"


def unretrieved() -> list[asyncio.Task[Any]]:
    """Return the Tasks that ended by an exception which nobody retrieved.

    The exceptions are forgotten. asyncio logs such an exception when the Task is collected, which
    may be amid another test: its traceback is made by ``ast.parse``, and CPython 3.11 dies of that
    when it strikes amid another ``ast.parse``.
    """
    found = [
        task for task in list(getattr(asyncio.tasks, _ALIVE)) if task.done() and task._log_traceback
    ]
    for task in found:
        task.exception()
    return found


def is_of_dbos(task: asyncio.Task[Any]) -> bool:
    """Return whether a Task runs a workflow of DBOS.

    Its exception is retrieved by a callback in DBOS's own event loop, which may be behind: the
    outcome of a workflow is read from the database.
    """
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "dbos" in Path(code.co_filename).parts
