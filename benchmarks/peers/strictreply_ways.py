"""Ours: the typed reply, the same with a tool of a JSON Schema, and the SDK's own completion."""

from __future__ import annotations

from typing import Any

from cases import MODEL, QUESTION, Ask, Wire, definition, look

import strictreply as sr
from peers import ACall, Call, Cannot, Peer

LIMITS = sr.Limits(reply_bytes=8_000_000, nodes=1_000_000)


class Ours(Peer):
    """The guarded client, its tools declared once."""

    def __init__(self, name: str, *, typed: bool) -> None:
        """Keep whether the tools are models, or definitions as the API takes them."""
        super().__init__(name)
        self.typed = typed

    def wrapped(self, client: Any, ask: Ask) -> Any:
        """Wrap a client for a case."""
        tools = ask.tools if self.typed else [definition(tool) for tool in ask.tools]
        return sr.wrap(
            client, tools=tools, policy=sr.RetryPolicy(max_retries=ask.attempts - 1), limits=LIMITS
        )

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Reply."""
        reply = self.wrapped(wire.client(), ask).reply
        keywords = {**ask.keywords, "messages": list(ask.messages)}
        return lambda: reply(**keywords).args

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Reply on an event loop."""
        reply: Any = self.wrapped(wire.aclient(), ask).reply
        keywords = {**ask.keywords, "messages": list(ask.messages)}

        async def call() -> Any:
            return (await reply(**keywords)).args

        return call

    def kept(self, wire: Wire, ask: Ask) -> Call:
        """Keep the exchange."""
        exchange = self.wrapped(wire.client(), ask).exchange
        keywords = {**ask.keywords, "messages": list(ask.messages)}
        return lambda: exchange(**keywords)

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Follow the events to the reply that was accepted."""
        stream = self.wrapped(wire.aclient(), ask).stream
        keywords = {**ask.keywords, "messages": list(ask.messages)}

        async def call() -> Any:
            async with stream(**keywords) as events:
                async for event in events:
                    if isinstance(event, sr.Accepted):
                        accepted: Any = event.reply
                        return accepted.args
            return None

        return call

    def loop(self, wire: Wire) -> Call:
        """Run."""
        if not self.typed:
            raise Cannot("as `reply`")
        client = sr.wrap(wire.client(), tools=[look])
        return lambda: sr.run(client, QUESTION, model=MODEL).answer

    def aloop(self, wire: Wire) -> ACall:
        """Run on an event loop."""
        if not self.typed:
            raise Cannot("as `reply`")
        client = sr.wrap(wire.aclient(), tools=[look])

        async def turn() -> Any:
            return (await sr.arun(client, QUESTION, model=MODEL)).answer

        return turn


class Create(Ours):
    """The drop-in method, which gives the SDK's own completion or chunks."""

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Create."""
        create = self.wrapped(wire.client(), ask).chat.completions.create
        keywords = {**ask.keywords, "messages": list(ask.messages)}
        return lambda: create(**keywords)

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Create on an event loop."""
        create = self.wrapped(wire.aclient(), ask).chat.completions.create
        keywords = {**ask.keywords, "messages": list(ask.messages)}
        return lambda: create(**keywords)

    def kept(self, wire: Wire, ask: Ask) -> Call:
        """Keep the completion."""
        return self.call(wire, ask)

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Join the pieces of the arguments, all of them validated."""
        create = self.wrapped(wire.aclient(), ask).chat.completions.create
        keywords = {**ask.keywords, "messages": list(ask.messages)}

        async def call() -> Any:
            parts: list[str] = []
            async for chunk in await create(**keywords, stream=True):
                parts += (
                    piece.function.arguments or ""
                    for piece in chunk.choices[0].delta.tool_calls or ()
                )
            return "".join(parts)

        return call


PEERS = [
    Ours("reply", typed=True),
    Ours("reply, dict tool", typed=False),
    Create("create", typed=False),
]
IMPORTS = "import strictreply as sr; sr.wrap, sr.tool"
DISTRIBUTIONS = ["strictreply", "openai", "pydantic", "httpx2"]
