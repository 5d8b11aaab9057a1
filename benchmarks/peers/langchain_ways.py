"""LangChain: a chat model that gives structured output, and an agent whose answer is a tool.

The agent asks again.
"""

from __future__ import annotations

from typing import Any

from cases import MODEL, QUESTION, Ask, Wire, look
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.output_parsers import PydanticToolsParser
from langchain_core.tools import StructuredTool, tool
from langchain_openai import ChatOpenAI

from peers import ACall, Call, Peer


def _model(wire: Wire, ask: Ask | None = None) -> ChatOpenAI:
    return ChatOpenAI(
        model=MODEL,
        api_key="none",
        base_url=wire.base_url,
        http_client=wire.http,
        http_async_client=wire.ahttp,
        max_retries=0,
        use_responses_api=False,
        temperature=None if ask is None else ask.temperature,
    )


class Structured(Peer):
    """``ChatOpenAI.with_structured_output(Model, method="function_calling")``.

    It does not retry.
    """

    asks_again = False

    def _chain(self, wire: Wire, ask: Ask) -> Any:
        model = _model(wire, ask)
        if not ask.further:
            return model.with_structured_output(ask.tool, method="function_calling")

        bound = model.bind_tools(ask.tools, tool_choice=ask.tool.__name__)
        return bound | PydanticToolsParser(tools=[ask.tool], first_tool_only=True)

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Invoke."""
        chain = self._chain(wire, ask)
        messages = list(ask.messages)
        return lambda: chain.invoke(messages)

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Invoke on an event loop."""
        chain = self._chain(wire, ask)
        messages = list(ask.messages)
        return lambda: chain.ainvoke(messages)

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Stream what is parsed so far, up to the whole."""
        chain = self._chain(wire, ask)
        messages = list(ask.messages)

        async def call() -> Any:
            last = None
            async for given in chain.astream(messages):
                last = given
            return last

        return call


class AgentPeer(Peer):
    """``create_agent(response_format=ToolStrategy(Model))``."""

    def _made(self, wire: Wire, ask: Ask) -> tuple[Any, dict[str, Any]]:
        tools = [
            StructuredTool.from_function(
                func=lambda **_: "found",
                name=further.__name__,
                description="Find things by name.",
                args_schema=further,
            )
            for further in ask.tools[1:]
        ]
        agent = create_agent(_model(wire, ask), tools=tools, response_format=ToolStrategy(ask.tool))

        # It asks without end; the graph's limit of steps is what bounds it.
        return agent, {
            "input": {"messages": list(ask.messages)},
            "config": {"recursion_limit": ask.attempts},
        }

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Invoke."""
        agent, keywords = self._made(wire, ask)
        return lambda: agent.invoke(**keywords)["structured_response"]

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Invoke on an event loop."""
        agent, keywords = self._made(wire, ask)

        async def call() -> Any:
            return (await agent.ainvoke(**keywords))["structured_response"]

        return call

    def kept(self, wire: Wire, ask: Ask) -> Call:
        """Keep the state."""
        agent, keywords = self._made(wire, ask)
        return lambda: agent.invoke(**keywords)

    def loop(self, wire: Wire) -> Call:
        """Invoke an agent with the tool."""
        agent = create_agent(_model(wire), tools=[tool(look)])
        return lambda: agent.invoke({"messages": [("user", QUESTION)]})["messages"][-1].content

    def aloop(self, wire: Wire) -> ACall:
        """Invoke it on an event loop."""
        agent = create_agent(_model(wire), tools=[tool(look)])

        async def turn() -> Any:
            return (await agent.ainvoke({"messages": [("user", QUESTION)]}))["messages"][-1].content

        return turn


PEERS = [Structured("LangChain structured output"), AgentPeer("LangChain agent")]
IMPORTS = "import langchain_openai; from langchain.agents import create_agent"
DISTRIBUTIONS = ["langchain", "langchain-openai", "langgraph", "openai", "pydantic"]
