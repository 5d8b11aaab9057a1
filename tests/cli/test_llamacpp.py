"""Against a third-party server: llama.cpp's own, with random weights, or the one at STRICTREPLY_LLAMACPP_URL."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.running import Process, tools_file
from shared_data import SHARED
from strictreply.cli.terminal import Status

URL = os.environ.get("STRICTREPLY_LLAMACPP_URL", "")
TOOLS = SHARED / "tools" / "llamacpp"
INSTALLED = all(importlib.util.find_spec(name) for name in ("xllamacpp", "gguf"))

pytestmark = pytest.mark.skipif(
    not URL and not (INSTALLED and TOOLS.is_dir()),
    reason="set STRICTREPLY_LLAMACPP_URL, or install xllamacpp and gguf and have ../shared beside the checkout",
)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a llama.cpp server; one with random weights is started when none is given."""
    if URL:
        yield URL
        return
    model = tmp_path_factory.mktemp("llama") / "tiny.gguf"
    make = [str(TOOLS / "make_gguf.py"), str(model), "2", "64", "4096", str(TOOLS / "chat_template.jinja")]
    subprocess.run([sys.executable, *make], check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    serve = [sys.executable, str(TOOLS / "serve.py"), str(model), port, "2", "8192"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        assert any("listening" in line for line in server.stdout)
        yield f"http://127.0.0.1:{port}/v1"
        server.kill()


def test_random_weights_are_refused_after_bounded_attempts(process: Process, llama: str, tmp_path: Path) -> None:
    """Noise in the text channel never passes: so many asks as the budgets allow, then one clear last line."""
    words = ("--tools", tools_file(tmp_path), "--base-url", llama, "--channel", "text", "--max-retries", "1")
    stdout, stderr = process("ask", "Find boots", *words).communicate(timeout=300)
    assert stdout == ""
    last = stderr.splitlines()[-1]
    assert last.startswith(("strictreply: ReplyRejected", f"strictreply: {llama}"))
    assert stderr.count("\n  came ") + stderr.startswith("  came ") <= 2
    assert stderr.count("  error ") <= 3
    assert "Traceback" not in stderr


def test_the_demo_comes_to_its_end(process: Process, llama: str) -> None:
    """All questions are asked, whatever noise comes back, and the summary says what became of each."""
    started = process("demo", "--base-url", llama, "--max-retries", "0", "--channel", "text")
    stdout, stderr = started.communicate(timeout=600)
    assert started.returncode in {0, Status.FAILED}
    assert "12 questions" in stdout.splitlines()[-2]
    assert all(line.isprintable() for line in stdout.splitlines())
    assert "Traceback" not in stderr
