"""magentic's Chat, with calls and text in one streamed response."""

from collections.abc import Callable

from magentic import (
    AsyncStreamedResponse,
    Chat,
    FunctionCall,
    FunctionResultMessage,
    OpenaiChatModel,
    StreamedResponse,
    UserMessage,
)
from openai import AsyncOpenAI, OpenAI

import strictreply as sr


class GuardedModel(OpenaiChatModel):
    """A model over wrapped clients; its base class takes none."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._client = sr.wrap(OpenAI())
        self._async_client = sr.wrap(AsyncOpenAI())


def chat(search: Callable[[str], str], kind: type) -> Chat:
    """Begin a chat with one type of output."""
    return Chat(
        messages=[UserMessage("Find tea.")],
        functions=[search],
        output_types=[kind],
        model=GuardedModel("gpt-5"),
    )


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Ask, show the text, and run the calls until a reply has no call."""
    shop = chat(search, StreamedResponse)
    results = [None]
    while results:
        shop = shop.submit()
        results = []
        for item in shop.last_message.content:
            if isinstance(item, FunctionCall):
                results.append(FunctionResultMessage(item(), item))
            else:
                for piece in item:
                    show(piece)
        for result in results:
            shop = shop.add_message(result)


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    shop = chat(search, AsyncStreamedResponse)
    results = [None]
    while results:
        shop = await shop.asubmit()
        results = []
        async for item in shop.last_message.content:
            if isinstance(item, FunctionCall):
                results.append(FunctionResultMessage(item(), item))
            else:
                async for piece in item:
                    show(piece)
        for result in results:
            shop = shop.add_message(result)


def run(search: Callable[[str], str]) -> str:
    """Run the chat to its answer; all its requests are streamed."""
    pieces: list[str] = []
    stream(search, pieces.append)
    return "".join(pieces)


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    pieces: list[str] = []
    await astream(search, pieces.append)
    return "".join(pieces)
