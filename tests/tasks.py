"""The asyncio Tasks that a test leaves behind."""

from __future__ import annotations

import asyncio.tasks
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
