"""One module for each environment.

It defines how a library makes the calls of ``cases``, over a client of the SDK.

A module lists its ways in ``PEERS``; the first import of the library happens there, so a module is
imported in its own environment only. What a library has no way for, its peer leaves to
:class:`Peer`, which says so; ``WHY`` has the words.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from cases import Ask, Wire, definition, loop_requests

Call = Callable[[], Any]
ACall = Callable[[], Awaitable[Any]]


class Cannot(Exception):
    """A library has no way to do what a row measures; the text is the reason in a word or two."""


class Peer:
    """One way to make a validated call: a column of the tables."""

    name: str
    """The head of the column."""

    reply_tool: str | None = None
    """The name that the model's reply calls where the library names the tool itself."""

    asks_again = True
    """Whether the library corrects a reply by itself."""

    def __init__(self, name: str) -> None:
        """Keep the name."""
        self.name = name

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Return a sync call that gives the validated arguments: a model, a dict, a completion."""
        raise Cannot("async only")

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Return an async call that gives the same."""
        raise Cannot("sync only")

    def kept(self, wire: Wire, ask: Ask) -> Call:
        """Return a sync call that gives what a program keeps of it: the result with its story."""
        return self.call(wire, ask)

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Return an async call that reads a stream to its end and gives the validated arguments."""
        raise Cannot("no such stream")

    def loop(self, wire: Wire) -> Call:
        """Return a sync turn of the tool loop that gives the model's answer."""
        raise Cannot("no tool loop")

    def aloop(self, wire: Wire) -> ACall:
        """Return an async turn that gives the same."""
        raise Cannot("no tool loop")


class Raw(Peer):
    """The SDK alone, which validates nothing: the baseline."""

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Call and take the arguments' text."""
        create = wire.client().chat.completions.create
        keywords = _keywords(ask)
        return lambda: create(**keywords).choices[0].message.tool_calls[0].function.arguments

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Do the same on an event loop."""
        create = wire.aclient().chat.completions.create
        keywords = _keywords(ask)

        async def call() -> Any:
            return (await create(**keywords)).choices[0].message.tool_calls[0].function.arguments

        return call

    def kept(self, wire: Wire, ask: Ask) -> Call:
        """Keep the completion."""
        create = wire.client().chat.completions.create
        keywords = _keywords(ask)
        return lambda: create(**keywords)

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Join the pieces of the arguments."""
        create = wire.aclient().chat.completions.create
        keywords = _keywords(ask)

        async def call() -> Any:
            parts: list[str] = []
            async for chunk in await create(**keywords, stream=True):
                parts += (
                    piece.function.arguments or ""
                    for piece in chunk.choices[0].delta.tool_calls or ()
                )
            return "".join(parts)

        return call

    def loop(self, wire: Wire) -> Call:
        """Make the four requests of the turn; no tool runs."""
        create = wire.client().chat.completions.create
        requests = loop_requests()
        return lambda: [create(**request) for request in requests][-1].choices[0].message.content

    def aloop(self, wire: Wire) -> ACall:
        """Do the same on an event loop."""
        create = wire.aclient().chat.completions.create
        requests = loop_requests()

        async def turn() -> Any:
            return [await create(**request) for request in requests][-1].choices[0].message.content

        return turn


def _keywords(ask: Ask) -> dict[str, Any]:
    return {
        **ask.keywords,
        "messages": list(ask.messages),
        "tools": [definition(tool) for tool in ask.tools],
    }


def arguments(value: Any) -> Any:
    """Return the arguments in whatever a peer gives as plain JSON values."""
    if isinstance(value, str):
        return json.loads(value)
    if calls := getattr(value, "choices", None):
        return json.loads(calls[0].message.tool_calls[0].function.arguments)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value
