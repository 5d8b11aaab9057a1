"""instructor: a model for the answer instead of a tool."""

from collections.abc import Callable

import instructor
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

import strictreply as sr


# instructor names the tool after the class
class search(BaseModel):  # noqa: N801
    """The query of a search."""

    query: str


ASK = {
    "model": "gpt-5",
    "response_model": search,
    "messages": [{"role": "user", "content": "Find tea."}],
}


def run(search: Callable[[str], str]) -> str:
    """Extract the query, and search."""
    client = instructor.from_openai(sr.wrap(OpenAI()))
    return search(client.create(**ASK).query)


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    client = instructor.from_openai(sr.wrap(AsyncOpenAI()))
    return search((await client.create(**ASK)).query)


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show each partial query, and search with the last."""
    client = instructor.from_openai(sr.wrap(OpenAI()))
    for partial in client.create_partial(**ASK):
        show(str(partial.query))
    show(search(partial.query))


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    client = instructor.from_openai(sr.wrap(AsyncOpenAI()))
    async for partial in client.create_partial(**ASK):
        show(str(partial.query))
    show(search(partial.query))
