"""Reads one server-sent event of a stream: a chunk, an error in any form, or the end."""

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
    """One chunk of a stream."""

    plain: JSON
    """Its JSON; None if it is not JSON."""
    kept: Any
    """What is passed on: bytes, or an object of the SDK."""
    is_end: bool = False
    """Whether the stream ends with it."""
    is_exact: bool = False
    """Whether the SDK reads the same JSON from its bytes."""


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
        is_exact = not event.name.startswith("thread.")  # the SDK reads those in another way
    except ValueError:
        # read again with the tolerant reader for foreign bodies
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
    """Return the error in an event of any form, in the form of the API.

    None if it is not an error, or already has the API's own ``error``.
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
    """Return whether an event has the members of the API's error, but no type.

    They are ``message``, ``code`` and ``param``, which may be null (openai-python,
    ResponseErrorEvent).
    """
    has_members = isinstance(told.get("message"), str) and not told.keys().isdisjoint(_OF_ERRORS)
    return has_members and not told.get("type")


def _says_what(error: JSONObject) -> bool:
    """Return whether an error has a code or a status; a mere message may be a heartbeat."""
    if error.get("object") == "error" or error.get("code") is not None:
        return True

    return isinstance(error.get("status"), int) or phrase_status(error["message"]) is not None
