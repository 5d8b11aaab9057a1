"""mirascope: a call whose format is a tool, validated with its own retries."""

from __future__ import annotations

from typing import Any

from cases import LOOP_CALLS, MODEL, QUESTION, Ask, Wire, look
from mirascope import llm
from mirascope.llm.providers.openai.completions.provider import OpenAICompletionsProvider

from peers import ACall, Call, Peer

ID = f"openai/{MODEL}:completions"
PROVIDER = OpenAICompletionsProvider(api_key="none")
llm.register_provider(PROVIDER, scope="openai/")


def _model(wire: Wire, ask: Ask | None = None) -> Any:
    """Return the model; its provider talks to this wire from now on, so each work sets it anew."""
    PROVIDER.client = wire.client()
    PROVIDER.async_client = wire.aclient()
    temperature = None if ask is None else ask.temperature
    return llm.model(ID, **({} if temperature is None else {"temperature": temperature}))


def _tool(number: int, *, is_async: bool) -> Any:
    def search(query: str, limit: int) -> str:
        """Find things by name."""
        return f"{query} {limit}"

    async def asearch(query: str, limit: int) -> str:
        """Find things by name."""
        return f"{query} {limit}"

    search.__name__ = asearch.__name__ = f"tool_{number}"
    return llm.tool(asearch if is_async else search)


def _messages(ask: Ask) -> list[Any]:
    made = {
        "system": llm.messages.system,
        "user": llm.messages.user,
        "assistant": lambda text: llm.messages.assistant(text, model_id=ID, provider_id="openai"),
    }
    return [made[turn["role"]](turn["content"]) for turn in ask.messages]


class Mirascope(Peer):
    """``model.call(format=…).validate(max_retries=…)``."""

    reply_tool = "__mirascope_formatted_output_tool__"

    def _made(self, wire: Wire, ask: Ask, *, is_async: bool) -> tuple[Any, dict[str, Any]]:
        tools = [_tool(number, is_async=is_async) for number in range(ask.further)]
        made = {"format": llm.format(ask.tool, mode="tool"), **({"tools": tools} if tools else {})}
        return _model(wire, ask), {"content": _messages(ask), **made}

    def call(self, wire: Wire, ask: Ask) -> Call:
        """Call, then validate."""
        model, keywords = self._made(wire, ask, is_async=False)
        retries = ask.attempts - 1
        return lambda: model.call(**keywords).validate(max_retries=retries)[0]

    def acall(self, wire: Wire, ask: Ask) -> ACall:
        """Do the same on an event loop."""
        model, keywords = self._made(wire, ask, is_async=True)
        retries = ask.attempts - 1

        async def call() -> Any:
            return (await (await model.call_async(**keywords)).validate(max_retries=retries))[0]

        return call

    def kept(self, wire: Wire, ask: Ask) -> Call:
        """Keep the response beside what was parsed."""
        model, keywords = self._made(wire, ask, is_async=False)
        return lambda: model.call(**keywords).validate()

    def stream(self, wire: Wire, ask: Ask) -> ACall:
        """Follow ``structured_stream`` to its last model."""
        model, keywords = self._made(wire, ask, is_async=True)

        async def call() -> Any:
            last = None
            async for given in (await model.stream_async(**keywords)).structured_stream():
                last = given
            return last

        return call

    def loop(self, wire: Wire) -> Call:
        """Call, run the tools and resume until there is an answer, as its pages write it."""
        model = _model(wire)
        tools = [llm.tool(look)]

        def turn() -> Any:
            response = model.call(QUESTION, tools=tools)
            for _ in range(LOOP_CALLS):
                response = response.resume(response.execute_tools())
            return response.text()

        return turn


PEERS = [Mirascope("mirascope")]
IMPORTS = "from mirascope import llm; import mirascope.llm.providers.openai.completions.provider"
DISTRIBUTIONS = ["mirascope", "openai", "pydantic"]
