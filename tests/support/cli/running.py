"""The types of the fixtures that run the command line, and readers of their outputs.

The fixtures stand in ``conftest.py``.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from typer.testing import Result

from strictreply.testing import HTTPReply
from strictreply.testing._wire import Responder

Command: TypeAlias = Callable[..., Result]
"""Runs the command in this process: words, then environment variables by keyword."""

Process: TypeAlias = Callable[..., "subprocess.Popen[str]"]
"""Starts the command as a process of its own: words, then what ``Popen`` takes by keyword."""

Serve: TypeAlias = Callable[[Responder], str]
"""Serves a responder on loopback and gives its base URL."""

TOOLS = """[{"type": "function", "function": {"name": "search", "parameters": {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["query"]
}}}]"""
"""A file of tool definitions."""


def tools_file(folder: Path) -> str:
    """Write the tool definitions into a file, and give its path."""
    path = folder / "tools.json"
    path.write_text(TOOLS, encoding="utf-8")
    return str(path)


def answering(*responses: dict[str, Any] | HTTPReply) -> Responder:
    """Make a responder that gives these in order, the last one again and again."""
    left = list(responses)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]
