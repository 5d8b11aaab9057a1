"""The head of a chat completion and of its chunks: id, object, created and model.

Programs that check the SDK's objects need all four. If a server leaves one out, it gets the value
that the API would send: the kind of the object, the model of the request, the current time, and an
id that no other completion has.
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
    """Return whether a completion or a chunk has a complete head in the form of the API."""
    member: Any = given.get if type(given) is dict else partial(peek, given)  # the common case
    id_ = member("id")
    model = member("model")
    has_names = isinstance(id_, str) and isinstance(model, str) and id_.strip() and model.strip()
    return bool(has_names) and member("object") == kind and type(member("created")) is int


def head_in(given: JSONObject) -> JSONObject:
    """Return the known part of a head, in the form of the API; a number as the id becomes text."""
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
    """Return the seconds since 1970 that a server wrote, also from a fraction or from digits."""
    if isinstance(created, str) and created.isdecimal() and len(created) <= _MOST_DIGITS:
        return int(created)
    if isinstance(created, bool) or not isinstance(created, int | float):
        return None

    return int(created) if math.isfinite(created) else None


def made_head(model: object) -> JSONObject:
    """Return a generated head for a completion; ``model`` is the model of the request."""
    return {
        "id": f"chatcmpl-{uuid4().hex}",
        "created": int(time.time()),
        "model": model if isinstance(model, str) else "",
    }


def headed(given: JSONObject, kind: str, otherwise: JSONObject) -> JSONObject:
    """Return a completion or a chunk with a complete head.

    ``otherwise`` is the head that supplies missing members.
    """
    return given | otherwise | head_in(given) | {"object": kind}
