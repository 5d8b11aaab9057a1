"""What tests of the command line share.

The command runs in this process or in one of its own, and there are servers to call.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from strictreply.testing import LoopbackServer, Responder
from support.cli.running import FOREIGN, Command, Process, Serve, run_command


@pytest.fixture
def command() -> Command:
    """Run the command in this process, on a wide stand-in for a terminal.

    For example ``command("schema", "issue")``.
    """
    return run_command


@pytest.fixture
def process() -> Iterator[Process]:
    """Start the command as a process of its own, with pipes for its output.

    The process is gone when the test ends.
    """
    started: list[subprocess.Popen[str]] = []
    # A shell starts background jobs with Ctrl-C ignored, and what is ignored is inherited: not by
    # these.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(*words: str, **options: Any) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        env = options.pop("env", kept | {"COLUMNS": "80"})
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "strictreply", *words],
                text=True,
                encoding="utf-8",
                env=env,
                **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options),
            )
        )
        return started[-1]

    yield start
    signal.signal(signal.SIGINT, before)

    for one in started:
        one.kill()
        one.communicate()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a responder on loopback for the time of the test; gives its base URL."""
    servers: list[LoopbackServer] = []

    def start(responder: Responder) -> str:
        servers.append(LoopbackServer(responder).__enter__())
        return servers[-1].base_url

    yield start

    for server in servers:
        server.__exit__(None, None, None)
