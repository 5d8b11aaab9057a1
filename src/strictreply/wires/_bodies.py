"""The body of a response: read as strict JSON within bounds, or told what came in its place."""

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
"""How many times as large as a reply a response may be: it holds log probabilities too."""

_CONTENT_TYPE = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}")

_OTHER_TEXT = "another text"

JSON_OBJECT = "a JSON object"


def read_body(body: bytes, limits: Limits) -> JSON:
    """Return the JSON of a response's body; a byte order mark before it says nothing.

    None when it is not strict JSON, or beyond the caps for a reply of these ``limits``.
    """
    body = body.removeprefix(BYTE_ORDER_MARK)
    value = decode(body, _around(limits))
    if not isinstance(value, Invalid):
        return value
    if any(issue.code != Code.JSON_NOT_FINITE.value for issue in value.issues):
        return None

    # as null, since servers send them in what is not ours, such as log probabilities
    return _finite(cast("JSON", jiter.from_json(body, allow_inf_nan=True)))


def told_body(body: bytes, limits: Limits, content_type: str = "") -> tuple[JSON, Issue | None]:
    """Return what :func:`read_body` does, and what is wrong with a body that it cannot read.

    A body that names a status in words, such as ``Unauthorized``, is an error of these words.
    """
    value = read_body(body, limits)
    text = body[: MAX_BEGINNING + 1].decode("utf-8", "replace") if value is None else value
    if phrase_status(text) is not None:
        return {"error": text}, None
    if value is not None or body.strip() == b"null":
        return value, None

    return None, not_asked(JSON_OBJECT, content_type, body)


def not_asked(expected: str, content_type: str, body: bytes) -> Issue:
    """Report a body in another form than was asked for, with its content type and first bytes.

    ``expected`` is that form.
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
    # of an empty body the content type is all that there is
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

    The value is no deeper than the reader allowed.
    """
    match value:
        case dict():
            finite = {name: _finite(member) for name, member in value.items()}
            if "arguments" in finite and finite["arguments"] != value["arguments"]:
                # of a call: null would be another value
                finite["arguments"] = json.dumps(value["arguments"])

            return finite
        case list():
            return [_finite(member) for member in value]
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value
