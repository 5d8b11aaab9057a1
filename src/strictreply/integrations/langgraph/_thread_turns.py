"""The turns in the thread of an agent: kept as messages, sent in the form of the agent's API.

A thread holds messages of chat completions, whichever API answers for the agent, so that every
program that reads a state finds the same in it. On another API they are written anew for each
request.

A turn with calls goes back with the thoughts that led to them. A signed thought is bound to the
system prompt and the tools that it was made behind, and an agent's prompt changes with what it is
permitted: under another prompt the turn goes back without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from strictreply import Contract
from strictreply.core import DraftCall, JSONObject, Message, Wire
from strictreply.core.forms import MESSAGES, is_signed, with_thoughts_of, without_thoughts

_BOUND_TO = "bound_to"
"""The member of a stored turn that says which prompt and tools its thoughts are bound to."""

_CAME_AS = "came_as"
"""The member of a stored turn that has it as it came from another API, under the API's name."""


def spoken_message(turn: Message, wire: Wire) -> JSONObject:
    """Return an assistant's turn of an API as a message without its thoughts."""
    if wire.replay is MESSAGES:
        return without_thoughts(turn)

    return dict(MESSAGES.written(wire.replay.read(turn).bare))


def with_kept_thoughts(
    turn: JSONObject, came: Message, wire: Wire, opening: Message, contract: Contract
) -> JSONObject:
    """Return the turn to store for a reply with calls, with its thoughts.

    ``opening`` is the turn with the system prompt.
    """
    if wire.replay is MESSAGES:
        kept = with_thoughts_of(turn, came)
        is_bound = is_signed(came)
    else:
        draft = wire.replay.read(came)
        kept = turn | {_CAME_AS: {wire.name: dict(came)}} if draft.calls else turn
        is_bound = wire.replay.is_bound(draft)

    return kept | {_BOUND_TO: _bound_to(opening, contract)} if is_bound else kept


def sent_turns(
    thread: Iterable[Message], wire: Wire, prompt: str, contract: Contract
) -> list[Message]:
    """Return a prompt and the turns of a thread as they are sent.

    Each thought stands behind its own prompt.
    """
    opening = wire.replay.system(prompt)
    now = _bound_to(opening, contract)
    turns = [_Stored.of(turn, now) for turn in thread]
    if wire.replay is MESSAGES:
        return [opening, *(turn.message for turn in turns)]

    sent = [opening]
    names: dict[object, object] = {}
    for role, group in groupby(turns, lambda turn: turn.message.get("role")):
        together = list(group)
        if role == "tool":
            sent += _results(together, names, wire)
            continue

        for turn in together:
            sent.append(turn.written(wire))
            names |= {call.id: call.name for call in MESSAGES.read(turn.message).calls}

    return sent


@dataclass(frozen=True, slots=True)
class _Stored:
    """A turn of a thread."""

    message: Message
    """The turn as a message of chat completions; without its thoughts, if they are bound."""
    came_as: JSONObject
    """The turn as it came from another API, under the API's name."""
    is_bound_elsewhere: bool
    """Whether its thoughts are bound to another prompt."""

    @classmethod
    def of(cls, turn: Message, now: str) -> _Stored:
        """Read a turn; ``now`` is what the thoughts of today are bound to."""
        message = {name: turn[name] for name in turn if name not in (_BOUND_TO, _CAME_AS)}
        is_bound_elsewhere = turn.get(_BOUND_TO, now) != now
        if is_bound_elsewhere:
            message = without_thoughts(message)

        return cls(message, turn.get(_CAME_AS) or {}, is_bound_elsewhere)

    def written(self, wire: Wire) -> Message:
        """Return the turn of a user or an assistant in the form of an API."""
        replay = wire.replay
        role = self.message.get("role")
        if role != "assistant":
            write = replay.system if role == "system" else replay.user
            return write(MESSAGES.heard(self.message).text)

        came: Any = self.came_as.get(wire.name)
        if came is None:
            return replay.written(MESSAGES.read(self.message).bare)

        draft = replay.read(came)
        if self.is_bound_elsewhere:
            draft = replay.with_thoughts(draft, None)

        return replay.written(draft)


def _results(turns: list[_Stored], names: dict[object, object], wire: Wire) -> Iterator[Message]:
    """Yield the turns of an API that have these results."""
    ids = [turn.message.get("tool_call_id") for turn in turns]
    calls = [DraftCall(names.get(id_), id=id_) for id_ in ids]
    yield from wire.replay.results(calls, [str(turn.message.get("content")) for turn in turns])


def _bound_to(opening: Message, contract: Contract) -> str:
    written = json.dumps([opening, [tool.definition for tool in contract.tools]])
    return hashlib.blake2b(written.encode(), digest_size=8).hexdigest()
