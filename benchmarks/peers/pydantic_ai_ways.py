"""pydantic-ai: an agent whose output is a tool; its sync calls run an event loop."""

from __future__ import annotations

from typing import Any

from cases import MODEL, QUESTION, Ask, Wire, look
from pydantic_ai import Agent, Tool, ToolOutput
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from peers import ACall, Call, Peer


def _model(wire: Wire) -> OpenAIChatModel:
    return OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=wire.aclient()))


def _further(number: int) -> Tool:
    def search(query: str, limit: int) -> str:
        """Find things by name."""
        return f"{query} {limit}"

    return Tool(search, name=f"tool_{number}", takes_ctx=False)


def _history(ask: Ask) -> list[Any]:
    parts = {"system": SystemPromptPart, "user": UserPromptPart}
    history: list[Any] = []
    for turn in ask.messages[:-1]:
        content = turn["content"]
        if turn["role"] in parts:
            history.append(ModelRequest(parts=[parts[turn["role"]](content=content)]))
        else:
            history.append(ModelResponse(parts=[TextPart(content=content)]))

    return history


class PydanticAI(Peer):
    """``Agent(output_type=ToolOutput(Model)).run``."""

    def _made(self, wire: Wire, ask: Ask) -> tuple[Any, dict[str, Any]]:
        agent = Agent(
            _model(wire),
            output_type=ToolOutput(ask.tool, name=ask.tool.__name__),
            tools=[_further(number) for number in range(ask.further)],
            retries={"output": ask.attempts - 1, "tools": ask.attempts - 1},
            model_settings=None if ask.temperature is None else {"temperature": ask.temperature},
        )
        return agent, {"user_prompt": ask.messages[-1]["content"], "message_history": _history(ask)}

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Run."""
        agent, keywords = self._made(wire, ask)
        return lambda: agent.run_sync(**keywords).output

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Run on an event loop."""
        agent, keywords = self._made(wire, ask)

        async def call() -> Any:
            return (await agent.run(**keywords)).output

        return call

    def kept(self, wire: Wire, ask: Ask) -> Call:
        """Keep the result."""
        agent, keywords = self._made(wire, ask)
        return lambda: agent.run_sync(**keywords)

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Follow ``run_stream``, which by default validates a few times a second."""
        agent, keywords = self._made(wire, ask)

        async def call() -> Any:
            last = None
            async with agent.run_stream(**keywords) as result:
                async for given in result.stream_output():
                    last = given
            return last

        return call

    def loop(self, wire: Wire) -> Call:
        """Run an agent with the tool."""
        agent = Agent(_model(wire), tools=[Tool(look, takes_ctx=False)])
        return lambda: agent.run_sync(QUESTION).output

    def aloop(self, wire: Wire) -> ACall:
        """Run it on an event loop."""
        agent = Agent(_model(wire), tools=[Tool(look, takes_ctx=False)])

        async def turn() -> Any:
            return (await agent.run(QUESTION)).output

        return turn


PEERS = [PydanticAI("pydantic-ai")]
IMPORTS = "import pydantic_ai; from pydantic_ai.models.openai import OpenAIChatModel"
DISTRIBUTIONS = ["pydantic-ai-slim", "openai", "pydantic"]
