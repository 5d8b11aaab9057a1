"""Responses as plain JSON, whatever form they came in."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import jiter

from strictreply.reading._decoding import decode
from strictreply.values._issues import Code
from strictreply.values._json import JSON
from strictreply.values._limits import MAX_JSON_DEPTH, Limits
from strictreply.values._replies import Invalid

ENVELOPE_FACTOR = 16
"""How many times as large as a reply a whole response may be: it also carries log probabilities and usage."""


def read_body(body: bytes, limits: Limits) -> JSON:
    """Read the body of a response; None when it is not strict JSON, or beyond the caps.

    ``limits`` are those of the reply in it. Only numbers that are not finite are tolerated, as null: servers send them
    in what is not ours, such as log probabilities. The reply itself is text in the body, and read strictly afterwards.
    """
    value = decode(body, _around(limits))
    if not isinstance(value, Invalid):
        return value
    if any(issue.code != Code.JSON_NOT_FINITE.value for issue in value.issues):
        return None
    return _finite(cast("JSON", jiter.from_json(body, allow_inf_nan=True)))


@lru_cache
def _around(limits: Limits) -> Limits:
    nodes, size = limits.nodes * ENVELOPE_FACTOR, limits.reply_bytes * ENVELOPE_FACTOR
    return Limits(reply_bytes=size, depth=MAX_JSON_DEPTH, nodes=nodes, calls=limits.calls)


def _finite(value: JSON) -> JSON:
    """Replace each number that is not finite by null; the value is no deeper than the reader allowed."""
    match value:
        case dict():
            finite = {name: _finite(member) for name, member in value.items()}
            if "arguments" in finite and finite["arguments"] != value["arguments"]:
                finite["arguments"] = json.dumps(value["arguments"])  # of a call: null would be another value
            return finite
        case list():
            return [_finite(member) for member in value]
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value


def as_json(value: Any) -> JSON:
    """Return an SDK object or a mapping as plain JSON; raise TypeError for anything else, as json.dumps does."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast("JSON", dump(mode="json", exclude_unset=True, warnings=False))
    if isinstance(value, Mapping):
        return {str(name): as_json(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(member) for member in cast("Sequence[object]", value)]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__name__} is not JSON")
