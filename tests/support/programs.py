"""Programs that end by themselves.

Each runs in a process of its own that does not import the SDK anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

STARTER = """
import json, os, runpy, sys
import openai, strictreply
import strictreply.testing.faults
from strictreply.testing import LoopbackServer

# Either imports more when it is used.
with strictreply.wrap(openai.OpenAI(api_key="none")) as client:
    client.chat.completions, client.responses

for line in sys.stdin:
    program, folder, *streams = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(folder)
    for number, stream in enumerate(streams, 1):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv, sys.path[0] = [program], os.path.dirname(program)
    runpy.run_path(program, run_name="__main__")
    break
"""
"""Runs a program for each line, in a fork of itself: to import the SDK costs more than most
programs do.
"""


PYTHON = [sys.executable, "-W", "error"]


def surroundings() -> dict[str, Any]:
    """Return how a program is started: without the variables that are for the SDK, in UTF-8."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    return {"env": env | {"PYTHONIOENCODING": "utf-8"}, "encoding": "utf-8"}


def ran(program: Path, folder: Path, *, timeout: float = 60) -> tuple[int, str, str]:
    """Run a program in a folder as a new Python.

    Its status is returned, and what it wrote to stdout and stderr.
    """
    words = [*PYTHON, str(program)]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, check=False, timeout=timeout, **surroundings()
    )
    return done.returncode, done.stdout, done.stderr


class Programs:
    """Runs programs as :func:`ran` does."""

    def __init__(self) -> None:
        """Start what runs them; where processes cannot fork, each is started as a new Python."""
        self._starter: subprocess.Popen[str] | None = None
        if hasattr(os, "fork"):
            words = [*PYTHON, "-c", STARTER]
            self._starter = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **surroundings()
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._starter is not None:
            self._starter.communicate()

    def run(self, program: Path, folder: Path) -> tuple[int, str, str]:
        """Run a program in a folder; gives its status and what it wrote to stdout and stderr."""
        if self._starter is None:
            return ran(program, folder)

        assert self._starter.stdin is not None
        assert self._starter.stdout is not None
        streams = folder / "stdout", folder / "stderr"
        print(
            json.dumps([str(program), str(folder), *map(str, streams)]),
            file=self._starter.stdin,
            flush=True,
        )

        status = int(self._starter.stdout.readline())
        stdout, stderr = (stream.read_text("utf-8") for stream in streams)
        return status, stdout, stderr
