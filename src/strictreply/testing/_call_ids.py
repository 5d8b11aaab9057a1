"""The ids of served calls: as no server repeats one, none is given out twice in a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import count
from threading import Lock
from typing import Any, cast

from strictreply.testing._wire import HTTPReply, Served
from strictreply.values._json import JSONObject
from strictreply.wires._opening import ids_in, peek

_WRITTEN_ID = re.compile(rb'(?<="id": ")call_[0-9]+(?=")')  # in the body of a raw response


class CallIds:
    """The ids that one run has given out; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._given: set[str] = set()

    def fresh(self, served: Served, request: JSONObject) -> Served:
        """Return a copy whose ids neither this run gave out nor the conversation has: taken ones are counted on.

        Equal ids of one reply stay equal, and what is no id stays: a fault about ids is still what it says. In the
        bytes of a raw response only ids such as ``call_1`` are known.
        """
        copied: Served = served if isinstance(served, HTTPReply) else deepcopy(served)
        own = dict.fromkeys(_ids(copied))
        messages: Any = request.get("messages")
        with self._lock:
            taken = self._given.union(ids_in(messages if isinstance(messages, list) else ()))
            free = (id_ for number in count(1) if (id_ := f"call_{number}") not in taken and id_ not in own)
            renamed = {id_: next(free) for id_ in own if id_ in taken}
            self._given.update(own, renamed.values())
        if isinstance(copied, HTTPReply):
            return _rewritten(copied, renamed) if renamed else copied
        for call in _calls(copied):
            if peek(call, "id") in own:
                call["id"] = renamed.get(str(call["id"]), call["id"])
        return copied


def _calls(served: Served) -> Iterator[JSONObject]:
    """Return the calls in every choice of a completion, however odd it is."""
    choices = peek(served, "choices")
    for choice in choices if isinstance(choices, list) else ():
        calls = peek(peek(choice, "message"), "tool_calls")
        yield from (call for call in (calls if isinstance(calls, list) else [calls]) if isinstance(call, dict))


def _ids(served: Served) -> list[str]:
    if isinstance(served, HTTPReply):
        return [id_.decode() for id_ in _WRITTEN_ID.findall(served.body)]
    return [id_ for call in _calls(served) if isinstance(id_ := call.get("id"), str) and id_]


def _rewritten(reply: HTTPReply, renamed: dict[str, str]) -> HTTPReply:
    def other(found: re.Match[bytes]) -> bytes:
        return renamed.get(found[0].decode(), found[0].decode()).encode()

    parts = (_WRITTEN_ID.sub(other, part) if isinstance(part, bytes) else part for part in reply.parts)
    return replace(reply, parts=tuple(cast("Iterator[bytes]", parts)))
