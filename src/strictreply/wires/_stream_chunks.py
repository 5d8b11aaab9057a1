"""What one server-sent event of a stream says: a chunk, an error in any form, or the end."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jiter

from strictreply.values._limits import JSON, JSONObject, Limits
from strictreply.wires._bodies import read_body
from strictreply.wires._endings import error_in, phrase_status
from strictreply.wires._error_forms import error_beside, error_of
from strictreply.wires._server_events import DONE_DATA, Event

_OF_ERRORS = ("code", "param")


class ChunkRead(NamedTuple):
    """One chunk of a stream, as it was read.

    ``plain`` is its JSON, None when it is not JSON; ``kept`` is what is passed on. ``is_end``: the
    stream ends with it. ``is_exact``: the SDK reads its bytes as that JSON.
    """

    plain: JSON
    kept: Any
    is_end: bool = False
    is_exact: bool = False


def read_event(event: Event, limits: Limits) -> ChunkRead:
    """Read one server-sent event of a stream."""
    data = event.data.strip()
    if data == DONE_DATA:
        return ChunkRead(None, event.raw, is_end=True)
    if not data:
        return ChunkRead({}, event.raw)  # a heartbeat

    plain: JSON
    try:
        plain = jiter.from_json(event.data, allow_inf_nan=False, catch_duplicate_keys=True)
        is_exact = not event.name.startswith("thread.")  # the SDK reads those another way
    except ValueError:
        # it is read once more, by what tolerates a little in what is not ours
        plain = read_body(event.data, limits)
        is_exact = False

    told = data.decode("utf-8", "replace") if plain is None else plain
    error = _error_of(event.name, told)
    return (
        ChunkRead(plain, event.raw, is_exact=is_exact)
        if error is None
        else ChunkRead(error, event.raw)
    )


def _error_of(name: str, told: JSON) -> JSONObject | None:
    """Return the error that an event is, in whichever form, as the API would have sent it.

    None when it is none, or holds the API's own ``error``.
    """
    if not isinstance(told, dict):
        is_error = name == "error" or phrase_status(told) is not None
        return {"error": told} if is_error else None

    if told.get("choices"):
        beside = error_beside(told) if "base_resp" in told else None
        return None if beside is None or told.get("error") else {**told, "error": beside}
    if told.get("error"):
        return {"error": cast("JSON", error_in(told))} if isinstance(told["error"], str) else None
    if name == "error" or told.get("type") == "error" or _is_untyped_error(told):
        return {"error": told}

    # an event with a type or a name of its own is not an error
    is_other = bool(name) or ("type" in told and told.get("object") != "error")
    error = None if is_other else error_of(told)
    return {"error": error} if error is not None and _says_what(error) else None


def _is_untyped_error(told: JSONObject) -> bool:
    """Return whether an event has the members of the API's error, which may be null, and no type.

    They are ``message``, ``code`` and ``param`` (openai-python, ResponseErrorEvent).
    """
    has_members = isinstance(told.get("message"), str) and not told.keys().isdisjoint(_OF_ERRORS)
    return has_members and not told.get("type")


def _says_what(error: JSONObject) -> bool:
    """Return whether an error has a code or a status: a message alone may be a heartbeat's."""
    if error.get("object") == "error" or error.get("code") is not None:
        return True

    return isinstance(error.get("status"), int) or phrase_status(error["message"]) is not None
