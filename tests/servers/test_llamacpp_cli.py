"""The command line against llama.cpp's own server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli.running import tools_file

pytestmark = pytest.mark.one_lane


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own.

    It does not have the key and the address of whoever runs the tests.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")} | {
        "COLUMNS": "80"
    }
    command = [sys.executable, "-m", "strictreply", *words]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", env=env, check=False, timeout=300
    )


def test_random_weights_are_refused_after_bounded_attempts(llamacpp: str, tmp_path: Path) -> None:
    """Noise in the text channel passes only as a text that a constrained retry made: so many asks
    as the budgets allow, then one clear last line.
    """
    words = (
        "--tools",
        tools_file(tmp_path),
        "--base-url",
        llamacpp,
        "--channel",
        "text",
        "--max-retries",
        "1",
    )
    done = run("ask", "Find boots", *words)
    lines = done.stderr.splitlines()
    replies = sum(line.startswith("  reply ") for line in lines)
    assert replies <= 2
    assert done.stderr.count("  error ") <= 3

    if done.returncode == 0:  # the grammar of the constrained retry made a text of the noise
        assert replies == 2
        assert any(line.startswith("  issue ") for line in lines)
        assert isinstance(json.loads(done.stdout)["answer"], str)
    else:
        assert done.stdout == ""
        assert lines[-1].startswith(("strictreply: ReplyRejected", f"strictreply: {llamacpp}"))

    assert "Traceback" not in done.stderr
