"""The texts of results, as the model reads them."""

from __future__ import annotations

import json
import re
from typing import Final

from strictreply.core.judging import NotJSON, is_json, jsonable
from strictreply.core.text import compact

RESULT_CHARS: Final = 16_000
"""Characters after which a result is cut, unless a policy says another number."""

NOT_RUN: Final = {
    "ApprovalDenied": "the call was not allowed",
    "Interrupted": "the call was started and may or may not have taken effect",
    "Abandoned": "the user went on without the result of this call",
    "NotRun": "the call was not run, because an earlier one of this reply failed",
}
"""The text for a call that has no result of its own, by the type of its error."""

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def result_json(value: object, limit: int) -> str:
    """Return a tool's result as a JSON text that UTF-8 can hold.

    It is cut to ``limit`` characters, with a note. Raises NotJSON, see :func:`jsonable`.
    """
    if isinstance(value, str):
        return compact(cut(encodable_text(str.__str__(value)), limit))

    try:
        written = json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":"))
    except ValueError:  # a number too long to write
        raise NotJSON("", type(value).__name__) from None

    text = encodable_text(written)
    if len(text) <= limit and is_json(text):
        return text
    # What strict readers refuse (too many levels) is sent as a text.
    return compact(cut(text, limit))


def error_json(kind: str, message: str, limit: int) -> str:
    """Return a failure as a result (X11)."""
    return compact({"error": {"type": kind, "message": cut(encodable_text(message), limit)}})


def cut(text: str, limit: int) -> str:
    """Cut a text to ``limit`` characters, with a note."""
    return text if len(text) <= limit else f"{text[:limit]}… (cut: {len(text)} characters in total)"


def encodable_text(text: str) -> str:
    """Replace what UTF-8 cannot encode."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
