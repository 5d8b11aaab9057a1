"""Serve a model of random weights with llama.cpp's own HTTP server.

It listens on a free loopback port until stdin is closed. ``python -m support.servers.llamacpp.serve MODEL``
writes the model to that path, and prints the server's address as soon as it listens. Runs where
``xllamacpp`` is (``make llamacpp``).
"""

from __future__ import annotations

import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]  # of the serving environment

from support.servers.llamacpp.random_model import CONTEXT, write_model


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


def main(model: Path) -> None:
    """Write the model, serve it, and end with whoever started this."""
    write_model(model)
    server = xllamacpp.Server(parameters(model))
    print(server.listening_address, flush=True)  # noqa: T201 - what the tests wait for
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
