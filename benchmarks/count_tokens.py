"""Counts the tokens of requests by o200k_base.

The tables are those that litellm brings along: nothing is downloaded.

Runs in ``.venv-bench-tokens``. Stdin is a JSON list of pairs of requests, each the text of its
body; stdout is a list of [messages of the first, messages of the second, whole first, whole
second].
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path


def counted(pair: list[str], count: object) -> list[int]:
    """Count one pair of requests."""
    assert callable(count)
    messages = [json.dumps(json.loads(body)["messages"], ensure_ascii=False) for body in pair]
    return [count(text) for text in (*messages, *pair)]


def main() -> None:
    """Read, count and print."""
    found = importlib.util.find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("litellm is not installed here")

    tables = Path(found.submodule_search_locations[0], "litellm_core_utils", "tokenizers")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(tables)
    import tiktoken  # noqa: PLC0415 - it reads the environment

    encoding = tiktoken.get_encoding("o200k_base")

    def count(text: str) -> int:
        return len(encoding.encode(text))

    print(json.dumps([counted(pair, count) for pair in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
