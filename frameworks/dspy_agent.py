"""DSPy's ReActV2, over a BaseLM of your own."""

from collections.abc import Callable
from typing import Any

import dspy
from openai import AsyncOpenAI, OpenAI

import strictreply as sr

ADAPTER = dspy.ChatAdapter(use_native_function_calling=True)


class GuardedLM(dspy.BaseLM):
    """A model that sends its requests through wrapped clients."""

    supports_function_calling = True

    def __init__(self, model: str) -> None:
        super().__init__(model, cache=False)
        self.client = sr.wrap(OpenAI())
        self.async_client = sr.wrap(AsyncOpenAI())

    def forward(
        self, prompt: Any = None, messages: Any = None, **given: Any
    ) -> Any:
        """Ask; DSPy passes the API's own keywords."""
        asked = messages or [{"role": "user", "content": prompt}]
        create = self.client.chat.completions.create
        return create(model=self.model, messages=asked, **given)

    async def aforward(
        self, prompt: Any = None, messages: Any = None, **given: Any
    ) -> Any:
        """Do the same with async calls."""
        asked = messages or [{"role": "user", "content": prompt}]
        create = self.async_client.chat.completions.create
        return await create(model=self.model, messages=asked, **given)


def agent(search: Callable[[str], str]) -> dspy.ReActV2:
    """Make an agent; it answers by a call of its tool submit."""
    shop = dspy.ReActV2("question -> answer", tools=[search])
    shop.set_lm(GuardedLM("gpt-5"))
    return shop


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer."""
    with dspy.context(adapter=ADAPTER):
        return agent(search)(question="Find tea.").answer


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    with dspy.context(adapter=ADAPTER):
        return (await agent(search).acall(question="Find tea.")).answer
