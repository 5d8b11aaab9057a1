"""instructor itself, imported late: it is an extra, and the core never knows of it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(name: str = "instructor") -> Any:
    """Import a module of instructor; ImportError says what to install when there is none."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "instructor":
            raise
        message = "this needs instructor 1.17 or newer: pip install 'strictreply[instructor]'"
        raise ImportError(message) from error
