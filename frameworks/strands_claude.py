"""Strands' Agent on its AnthropicModel."""

from collections.abc import Callable

from strands import Agent, tool
from strands.models.anthropic import AnthropicModel

import strictreply as sr


def agent(search: Callable[[str], str]) -> Agent:
    """Make an agent; its model takes no client, so wrap the one it makes."""
    model = AnthropicModel(
        model_id="claude-opus-4-8",
        max_tokens=4000,
        params={"thinking": {"type": "adaptive"}},
    )
    model.client = sr.wrap(model.client)
    return Agent(model=model, tools=[tool(search)], callback_handler=None)


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    return str(agent(search)("Find tea."))


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    return str(await agent(search).invoke_async("Find tea."))


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives."""
    shop = agent(search)
    shop.callback_handler = lambda **event: show(event.get("data", ""))
    shop("Find tea.")


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    async for event in agent(search).stream_async("Find tea."):
        show(event.get("data", ""))
