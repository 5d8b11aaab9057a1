"""Reads the body of a response as strict JSON within limits, or reports what it is instead."""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import cast

import jiter

from strictreply.reading._decoding import decode
from strictreply.values._issues import Code, Issue, quote
from strictreply.values._limits import JSON, MAX_JSON_DEPTH, Limits
from strictreply.values._replies import Invalid
from strictreply.wires._endings import phrase_status
from strictreply.wires._server_events import (
    BYTE_ORDER_MARK,
    EVENT_FIELDS,
    MAX_BEGINNING,
    beginning_of,
)

ENVELOPE_FACTOR = 16
"""How many times larger than a reply a response may be, with log probabilities for example."""

_CONTENT_TYPE = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}")

_OTHER_TEXT = "another text"

JSON_OBJECT = "a JSON object"


def read_body(body: bytes, limits: Limits) -> JSON:
    """Return the JSON of a response's body; a byte order mark before it is ignored.

    None if it is not strict JSON, or beyond the limits for a reply of these ``limits``.
    """
    body = body.removeprefix(BYTE_ORDER_MARK)
    value = decode(body, _around(limits))
    if not isinstance(value, Invalid):
        return value
    if any(issue.code != Code.JSON_NOT_FINITE.value for issue in value.issues):
        return None

    # as null, because servers send them in other members, such as log probabilities
    return _finite(cast("JSON", jiter.from_json(body, allow_inf_nan=True)))


def told_body(body: bytes, limits: Limits, content_type: str = "") -> tuple[JSON, Issue | None]:
    """Return the result of :func:`read_body`, and the issue of a body that it cannot read.

    A body that only names a status, such as ``Unauthorized``, is read as an error.
    """
    value = read_body(body, limits)
    text = body[: MAX_BEGINNING + 1].decode("utf-8", "replace") if value is None else value
    if phrase_status(text) is not None:
        return {"error": text}, None
    if value is not None or body.strip() == b"null":
        return value, None

    return None, not_asked(JSON_OBJECT, content_type, body)


def not_asked(expected: str, content_type: str, body: bytes) -> Issue:
    """Return the issue of a body in the wrong form, with its content type and first bytes.

    ``expected`` is the requested form.
    """
    begun = beginning_of(body)
    named = _CONTENT_TYPE.match(content_type.strip().lower())
    kind = named[0] if named else _OTHER_TEXT

    if not begun:
        kind = "an empty body"
    elif begun[:9].lower().startswith((b"<!doctype", b"<html")):
        kind = "text/html"
    elif begun.startswith(EVENT_FIELDS):
        kind = "text/event-stream"
    elif begun.startswith((b"{", b"[")) and expected == JSON_OBJECT and _is_json(kind):
        kind = "JSON that is cut off, too large or not strict"

    words = f"{expected}, not {kind}"
    # an empty body has only its content type
    came = begun.decode("utf-8", "replace") if begun or not named else f"nothing, as {named[0]}"
    found = quote(came)
    return Issue.of(Code.ENVELOPE_MALFORMED, expected=words, found=found)


def _is_json(content_type: str) -> bool:
    return "json" in content_type or content_type == _OTHER_TEXT


@lru_cache
def _around(limits: Limits) -> Limits:
    nodes = limits.nodes * ENVELOPE_FACTOR
    size = limits.reply_bytes * ENVELOPE_FACTOR
    return Limits(reply_bytes=size, depth=MAX_JSON_DEPTH, nodes=nodes, calls=limits.calls)


def _finite(value: JSON) -> JSON:
    """Return a value with null for each number that is not finite.

    The value is not deeper than the reader allowed.
    """
    match value:
        case dict():
            finite = {name: _finite(member) for name, member in value.items()}
            if "arguments" in finite and finite["arguments"] != value["arguments"]:
                # in a call, null would be a different value
                finite["arguments"] = json.dumps(value["arguments"])

            return finite
        case list():
            return [_finite(member) for member in value]
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value
