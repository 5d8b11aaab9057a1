"""Running the command line in this process, the types of its fixtures, its exit statuses.

The fixtures stand in ``conftest.py``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeAlias

from typer import Typer
from typer.testing import CliRunner, Result

from strictreply.cli import main
from strictreply.testing import HTTPReply, Responder

Command: TypeAlias = Callable[..., Result]
"""Runs the command in this process: words, then environment variables by keyword."""

Process: TypeAlias = Callable[..., "subprocess.Popen[str]"]
"""Starts the command as a process of its own: words, then what ``Popen`` takes by keyword."""

Serve: TypeAlias = Callable[[Responder], str]
"""Serves a responder on loopback and gives its base URL."""


FOREIGN = (
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "FORCE_COLOR",
    "PY_COLORS",
    "TTY_COMPATIBLE",
)
"""Variables of whoever runs the tests that would change what a command does."""


class Status(IntEnum):
    """The exit statuses, as ``strictreply --help`` lists them."""

    INVALID = 1
    USAGE = 2
    FAILED = 3
    INTERRUPTED = 130
    PIPE_CLOSED = 141


def run_command(*words: str, **env: str) -> Result:
    """Run the command in this process by its entry point, on a wide stand-in for a terminal."""
    entry = Typer(add_completion=False)

    @entry.command()
    def run() -> None:
        """Hand the words on to the entry point."""
        before = sys.argv
        sys.argv = ["strictreply", *words]
        try:
            main()
        finally:
            sys.argv = before

    variables = dict.fromkeys(FOREIGN) | {"COLUMNS": "200"} | env
    return CliRunner().invoke(entry, [], env=variables)


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
