"""pydantic-ai, streamed: the agent of ``pydantic_ai_app``, followed by its events."""

from __future__ import annotations

from pydantic_ai import AgentRunResultEvent

from probes.job import QUESTION, Shop
from probes.pydantic_ai_app import agent_for


async def app(base_url: str) -> object:
    """Follow the run until the tool has run, or to the structured output."""
    shop = Shop()
    async with agent_for(shop, base_url).run_stream_events(QUESTION) as events:
        async for event in events:
            if shop.calls:
                return shop.accepted()
            if isinstance(event, AgentRunResultEvent):
                return {"answer": event.result.output.model_dump()}
    return None
