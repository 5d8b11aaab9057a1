"""Recorded exchanges of providers, beside the checkout."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

from support.shared_data import SHARED


@cache
def messages_recorded(kind: str) -> list[dict[str, Any]]:
    """Return the answered requests of Anthropic's Messages whose responses are of one format."""
    path = SHARED / "traffic" / "traffic-anthropic-messages.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        every = [json.loads(line) for line in lines]

    return [
        one
        for one in every
        if one["status"] < 300
        and one["format"] == kind
        and isinstance(one["request"], dict)
        and "/messages" in one["path"]
    ]
