"""DBOS itself, imported late: it is an extra, and the core never knows of it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(name: str = "dbos") -> Any:
    """Import DBOS, or a module of what it stands on; ImportError says what to install when there is none."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"dbos", "psycopg", "sqlalchemy"}:
            raise
        message = "durable runs need dbos 3.4 or newer: pip install 'strictreply[durable]'"
        raise ImportError(message) from error
