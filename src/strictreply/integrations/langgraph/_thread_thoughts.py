"""The model's thoughts in the thread of an agent.

A turn with calls goes back with the thoughts that led to them. A signed thought is bound to the
system prompt and the tools that it was made behind, and an agent's prompt changes with what it is
permitted: under another prompt the turn goes back without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from strictreply import Contract
from strictreply.core import JSONObject, Message
from strictreply.core.forms import is_signed, with_thoughts_of, without_thoughts

_BOUND_TO = "bound_to"
"""The member of a stored turn that says which prompt and tools its thoughts are bound to."""


def with_kept_thoughts(
    turn: JSONObject, message: Message, request: JSONObject, contract: Contract
) -> JSONObject:
    """Return the turn to store for a message with calls, with its thoughts."""
    message_with_thoughts = with_thoughts_of(turn, message)
    if not is_signed(message):
        return message_with_thoughts

    return message_with_thoughts | {
        _BOUND_TO: _bound_to(request["messages"][0]["content"], contract)
    }


def with_sendable_thoughts(
    thread: Iterable[Message], prompt: str, contract: Contract
) -> list[Message]:
    """Return the turns of a thread as they are sent: each thought behind its own prompt."""
    turns = list(thread)
    if not any(_BOUND_TO in turn for turn in turns):
        return turns

    now = _bound_to(prompt, contract)
    sent: list[Message] = []
    for turn in turns:
        bare = {name: value for name, value in turn.items() if name != _BOUND_TO}
        is_bound_elsewhere = turn.get(_BOUND_TO, now) != now
        sent.append(without_thoughts(bare) if is_bound_elsewhere else bare)

    return sent


def _bound_to(prompt: str, contract: Contract) -> str:
    written = json.dumps([prompt, [tool.definition for tool in contract.tools]])
    return hashlib.blake2b(written.encode(), digest_size=8).hexdigest()
