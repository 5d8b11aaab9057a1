"""smolagents' ToolCallingAgent."""

from collections.abc import Callable

from openai import OpenAI
from smolagents import (
    ChatMessageStreamDelta,
    FinalAnswerStep,
    OpenAIModel,
    ToolCallingAgent,
    tool,
)

import strictreply as sr


class GuardedModel(OpenAIModel):
    """A model that sends its requests through a wrapped client."""

    def create_client(self) -> OpenAI:
        """Wrap the client that smolagents would make."""
        return sr.wrap(super().create_client())


def run(search: Callable[[str], str]) -> str:
    """Run the agent to its answer: a call of its tool final_answer."""
    agent = ToolCallingAgent(
        tools=[tool(search)],
        model=GuardedModel("gpt-5"),
        max_steps=4,
        verbosity_level=0,
    )
    return str(agent.run("Find tea."))


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show the text as it arrives, and the answer, which is a call."""
    model = GuardedModel("gpt-5")
    agent = ToolCallingAgent(
        tools=[tool(search)],
        model=model,
        max_steps=4,
        verbosity_level=0,
        stream_outputs=True,
    )
    for event in agent.run("Find tea.", stream=True):
        if isinstance(event, ChatMessageStreamDelta):
            show(event.content or "")
        elif isinstance(event, FinalAnswerStep):
            show(str(event.output))
