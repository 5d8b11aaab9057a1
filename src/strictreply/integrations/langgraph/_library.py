"""LangGraph itself, imported late: it is an extra, and the core never knows of it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(name: str = "langgraph.graph") -> Any:
    """Import a module of LangGraph, or of what it stands on; ImportError says what to install when there is none."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"langgraph", "langchain_core"}:
            raise
        message = "this needs langgraph 1.0 or newer: pip install 'strictreply[langgraph]'"
        raise ImportError(message) from error
