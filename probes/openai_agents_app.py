"""The OpenAI Agents SDK over the chat-completions API.

It is an agent with the tool, ended once the tool has run.
"""

from __future__ import annotations

from agents import (
    Agent,
    FunctionToolResult,
    OpenAIChatCompletionsModel,
    RunContextWrapper,
    Runner,
    ToolsToFinalOutputResult,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from probes.job import MODEL, QUESTION, TIMEOUT, Shop

set_tracing_disabled(disabled=True)


async def app(base_url: str) -> object:
    """Run until the tool has run, or to the answer when the agent comes to it without the tool."""
    shop = Shop()

    def end_when_searched(
        _: RunContextWrapper[None], __: list[FunctionToolResult]
    ) -> ToolsToFinalOutputResult:
        return ToolsToFinalOutputResult(is_final_output=bool(shop.calls), final_output=shop.calls)

    async with AsyncOpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT) as client:
        agent = Agent(
            name="Shop assistant",
            model=OpenAIChatCompletionsModel(model=MODEL, openai_client=client),
            tools=[function_tool(shop.search)],
            tool_use_behavior=end_when_searched,
        )
        result = await Runner.run(agent, QUESTION)

    return shop.accepted() if shop.calls else {"answer": result.final_output}
