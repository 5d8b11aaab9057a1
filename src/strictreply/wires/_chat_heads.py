"""The head of a chat completion and of its chunks: id, object, created and model.

Programs that check the SDK's objects need all four. What a server leaves out is told as the API
would have told it: the kind of the object, the model of the request, the time of the reading, and
an id that no other completion has.
"""

from __future__ import annotations

import json
import math
import time
from functools import partial
from typing import Any
from uuid import uuid4

from strictreply.values._limits import JSONObject
from strictreply.wires._members import peek

COMPLETION = "chat.completion"
CHUNK = "chat.completion.chunk"

HEAD = ("id", "object", "created", "model")
_MOST_DIGITS = 15


def is_headed(given: object, kind: str) -> bool:
    """Return whether a completion or a chunk has its whole head as the API writes it."""
    member: Any = given.get if type(given) is dict else partial(peek, given)  # nearly always
    id_ = member("id")
    model = member("model")
    has_names = isinstance(id_, str) and isinstance(model, str) and id_.strip() and model.strip()
    return bool(has_names) and member("object") == kind and type(member("created")) is int


def head_in(given: JSONObject) -> JSONObject:
    """Return what is told of a head, in the API's form; a number is an id as its text."""
    told: JSONObject = {}
    id_ = given.get("id")
    if isinstance(id_, int | float) and not isinstance(id_, bool):
        id_ = json.dumps(id_)
    if isinstance(id_, str) and id_.strip():
        told["id"] = id_

    created = _seconds_in(given.get("created"))
    if created is not None:
        told["created"] = created

    model = given.get("model")
    if isinstance(model, str) and model.strip():
        told["model"] = model

    return told


def _seconds_in(created: object) -> int | None:
    """Return the seconds since 1970 that a server wrote, also as a fraction or as their digits."""
    if isinstance(created, str) and created.isdecimal() and len(created) <= _MOST_DIGITS:
        return int(created)
    if isinstance(created, bool) or not isinstance(created, int | float):
        return None

    return int(created) if math.isfinite(created) else None


def made_head(model: object) -> JSONObject:
    """Return a head for a completion of a server that tells none; ``model`` is the request's."""
    return {
        "id": f"chatcmpl-{uuid4().hex}",
        "created": int(time.time()),
        "model": model if isinstance(model, str) else "",
    }


def headed(given: JSONObject, kind: str, otherwise: JSONObject) -> JSONObject:
    """Return a completion or a chunk with its whole head.

    ``otherwise`` is the head of which it has what the server does not tell.
    """
    return given | otherwise | head_in(given) | {"object": kind}
