"""openai-agents: an agent that stops at its tool's first result.

Its sync calls run an event loop.
"""

from __future__ import annotations

from typing import Any

import agents
from agents import (
    Agent,
    FunctionTool,
    ModelSettings,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
)
from agents.agent import ToolsToFinalOutputResult
from cases import MODEL, QUESTION, Ask, Wire, look
from pydantic import BaseModel

from peers import ACall, Call, Peer

agents.set_tracing_disabled(disabled=True)


def _tool(model: type[BaseModel]) -> FunctionTool:
    """Make the tool that takes the model's fields.

    It validates them by pydantic and gives the model.
    """
    schema = model.model_json_schema()
    for at in [schema, *schema.get("$defs", {}).values()]:
        at["additionalProperties"] = False

    async def invoke(_: Any, given: str) -> Any:
        return model.model_validate_json(given)

    return FunctionTool(
        name=model.__name__,
        description=model.__doc__ or "Find things by name.",
        params_json_schema=schema,
        on_invoke_tool=_told(invoke),
        strict_json_schema=False,
    )


def _told(invoke: Any) -> Any:
    """Return what tells the model of a failure, as ``function_tool`` does by itself."""

    async def guarded(context: Any, given: str) -> Any:
        try:
            return await invoke(context, given)
        except ValueError as error:
            return agents.default_tool_error_function(context, error)

    return guarded


class OpenAIAgents(Peer):
    """``Runner.run`` of an agent.

    After invalid arguments it tells the model and retries.
    """

    def _made(self, wire: Wire, ask: Ask) -> tuple[Any, dict[str, Any], list[Any]]:
        got: list[Any] = [None]

        def use(_: Any, results: list[Any]) -> ToolsToFinalOutputResult:
            got[0] = results[0].output
            done = isinstance(got[0], BaseModel)
            return ToolsToFinalOutputResult(is_final_output=done, final_output=got[0])

        settings = ModelSettings(tool_choice=ask.tool.__name__, temperature=ask.temperature)
        agent = Agent(
            name="desk",
            model=OpenAIChatCompletionsModel(model=MODEL, openai_client=wire.aclient()),
            tools=[_tool(model) for model in ask.tools],
            tool_use_behavior=use,
            model_settings=settings,
            reset_tool_choice=False,
        )
        return agent, {"input": list(ask.messages), "max_turns": ask.attempts}, got

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Run."""
        agent, keywords, got = self._made(wire, ask)

        def call() -> Any:
            Runner.run_sync(agent, **keywords)
            return got[0]

        return call

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Run on an event loop."""
        agent, keywords, got = self._made(wire, ask)

        async def call() -> Any:
            await Runner.run(agent, **keywords)
            return got[0]

        return call

    def kept(self, wire: Wire, ask: Ask) -> Call:
        """Keep the result."""
        agent, keywords, _ = self._made(wire, ask)
        return lambda: Runner.run_sync(agent, **keywords)

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Follow the events of ``run_streamed``."""
        agent, keywords, got = self._made(wire, ask)

        async def call() -> Any:
            async for _ in Runner.run_streamed(agent, **keywords).stream_events():
                pass
            return got[0]

        return call

    def _looper(self, wire: Wire) -> Any:
        model = OpenAIChatCompletionsModel(model=MODEL, openai_client=wire.aclient())
        return Agent(name="desk", model=model, tools=[function_tool(look)])

    def loop(self, wire: Wire) -> Call:
        """Run an agent with the tool."""
        agent = self._looper(wire)
        return lambda: Runner.run_sync(agent, QUESTION).final_output

    def aloop(self, wire: Wire) -> ACall:
        """Run it on an event loop."""
        agent = self._looper(wire)

        async def turn() -> Any:
            return (await Runner.run(agent, QUESTION)).final_output

        return turn


PEERS = [OpenAIAgents("openai-agents")]
IMPORTS = "import agents; agents.Runner"
DISTRIBUTIONS = ["openai-agents", "openai", "pydantic"]
