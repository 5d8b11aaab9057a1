"""The SDK itself: its own ``parse``, and its ``create`` with pydantic put behind it by hand."""

from __future__ import annotations

from typing import Any

import openai
from cases import Ask, Wire

from peers import ACall, Call, Peer, Raw


class ByHand(Peer):
    """The raw call, then ``Model.model_validate_json``, without retries."""

    asks_again = False

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Call, then validate."""
        raw = Raw("raw").call(wire, ask)
        validate = ask.tool.model_validate_json
        return lambda: validate(raw())

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Do the same on an event loop."""
        raw = Raw("raw").acall(wire, ask)
        validate = ask.tool.model_validate_json

        async def call() -> Any:
            return validate(await raw())

        return call

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Validate at the end."""
        raw = Raw("raw").stream(wire, ask)
        validate = ask.tool.model_validate_json

        async def call() -> Any:
            return validate(await raw())

        return call


class Parse(Peer):
    """``chat.completions.parse`` with the tools as models, without retries."""

    asks_again = False

    @staticmethod
    def _keywords(ask: Ask) -> dict[str, Any]:
        tools = [openai.pydantic_function_tool(tool, name=tool.__name__) for tool in ask.tools]
        return {**ask.keywords, "messages": list(ask.messages), "tools": tools}

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Parse."""
        parse = wire.client().chat.completions.parse
        keywords = self._keywords(ask)
        return lambda: parse(**keywords).choices[0].message.tool_calls[0].function.parsed_arguments

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Parse on an event loop."""
        parse = wire.aclient().chat.completions.parse
        keywords = self._keywords(ask)

        async def call() -> Any:
            return (
                (await parse(**keywords)).choices[0].message.tool_calls[0].function.parsed_arguments
            )

        return call

    def kept(self, wire: Wire, ask: Ask) -> Call:
        """Keep the parsed completion."""
        parse = wire.client().chat.completions.parse
        keywords = self._keywords(ask)
        return lambda: parse(**keywords)

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Follow the events of ``chat.completions.stream``."""
        stream = wire.aclient().chat.completions.stream
        keywords = self._keywords(ask)

        async def call() -> Any:
            async with stream(**keywords) as events:
                async for _ in events:
                    pass
                final = await events.get_final_completion()
            return final.choices[0].message.tool_calls[0].function.parsed_arguments

        return call


PEERS = [ByHand("raw, then pydantic by hand"), Parse("openai .parse()")]
IMPORTS = "import openai"
DISTRIBUTIONS = ["openai"]
