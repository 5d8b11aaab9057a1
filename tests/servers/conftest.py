"""What the tests against a third party's server share.

That is the server, and a client that talks to it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from support.servers.wrapped import Exchanging, async_exchange, sync_exchange

TESTS = Path(__file__).parents[1]
OWN_PYTHON = TESTS.parent / ".venv-llamacpp" / "bin" / "python"


@pytest.fixture(scope="session")
def llamacpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the base URL of llama.cpp's server.

    It is the one at STRICTREPLY_LLAMACPP_URL, or one of random weights.
    """
    given = os.environ.get("STRICTREPLY_LLAMACPP_URL")
    if given:
        yield given
        return

    model = tmp_path_factory.mktemp("llamacpp") / "random.gguf"
    with _served(str(model)) as address:
        yield address


@pytest.fixture(scope="session")
def smollm2() -> Iterator[str]:
    """Return the base URL of llama.cpp's server with SmolLM2, whose template knows no tools."""
    with _served("smollm2") as address:
        yield address


@contextmanager
def _served(model: str) -> Iterator[str]:
    """Serve a model as long as the context lasts; skip where there is no server."""
    python = _serving_python()
    if python is None:
        absent = pytest.fail if os.environ.get("STRICTREPLY_REQUIRE_LLAMACPP") else pytest.skip
        absent(
            "no llama.cpp: run `make llamacpp`, "
            "or set STRICTREPLY_LLAMACPP_URL to a server's base URL"
        )

    command = [str(python), "-m", "support.servers.llamacpp.serve", model]
    with subprocess.Popen(
        command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            assert address, "the server ended before it listened"
            yield f"{address}/v1"
        finally:
            server.kill()


def _serving_python() -> Path | None:
    """Find the Python that has the server, or None."""
    if OWN_PYTHON.exists():
        return OWN_PYTHON
    installed = all(importlib.util.find_spec(name) for name in ("xllamacpp", "gguf"))
    return Path(sys.executable) if installed else None


@pytest.fixture(params=[sync_exchange, async_exchange], ids=["sync", "async"])
def exchange(request: pytest.FixtureRequest, llamacpp: str) -> Exchanging:
    """Make one call through a wrapped client, in each of the two ways."""
    return partial(request.param, llamacpp)
