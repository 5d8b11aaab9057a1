"""What a verdict reads of a conversation's state: the format that each agent replies in, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from strictreply.coordination._replies.results import ValidationResult
from strictreply.coordination._runs.states import S, changed
from strictreply.values._json import JSON
from strictreply.wires._chat import peek


def format_in(exec_state: object, agent: str) -> str | None:
    """Give the format that an agent began a conversation in, None when the state says nothing of it."""
    known = _formats(exec_state).get(agent)
    return known if isinstance(known, str) else None


def with_reply_format(state: S, agent: str, result: ValidationResult) -> S:
    """Remember the format of an agent's first valid reply, for the verdicts that are given this state (M119).

    Native calls are in no format. The state is left as it was when there is nothing to remember.
    """
    spoken = result.source.response_format if result.is_valid else ""
    if not spoken or format_in(state, agent) is not None:
        return state
    return changed(state, reply_formats={**_formats(state), agent: spoken})


def place_in(exec_state: object) -> tuple[JSON, ...]:
    """Return where a conversation stands: its id, and how far it has come; empty when the state says nothing of it."""
    conversation, count, messages = (peek(exec_state, key) for key in ("conversation_id", "loop_count", "messages"))
    said = len(cast("list[object]", messages)) if isinstance(messages, list) else 0
    known: tuple[JSON, ...] = (
        conversation if isinstance(conversation, str) else "",
        count if isinstance(count, int) else 0,
        said,
    )
    return known if any(known) else ()


def _formats(state: object) -> Mapping[str, object]:
    """Read what a state, a mapping or an object, remembers of formats."""
    formats = peek(state, "reply_formats")
    return cast("Mapping[str, object]", formats) if isinstance(formats, Mapping) else {}
