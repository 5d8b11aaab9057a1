"""instructor: a model for the answer instead of a tool."""

from collections.abc import Callable

import instructor
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

import strictreply as sr


class search(BaseModel):  # noqa: N801 - the name is that of the tool which instructor makes of it
    """What is searched for."""

    query: str


ASK = {
    "model": "gpt-5",
    "response_model": search,
    "messages": [{"role": "user", "content": "Find tea."}],
}


def run(search: Callable[[str], str]) -> str:
    """Extract what is searched for, and search."""
    return search(instructor.from_openai(sr.wrap(OpenAI())).create(**ASK).query)


async def arun(search: Callable[[str], str]) -> str:
    """Do the same, awaiting."""
    return search((await instructor.from_openai(sr.wrap(AsyncOpenAI())).create(**ASK)).query)


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show each partial of what is searched for, and search with the last."""
    for partial in instructor.from_openai(sr.wrap(OpenAI())).create_partial(**ASK):
        show(str(partial.query))
    show(search(partial.query))


async def astream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Do the same, awaiting."""
    async for partial in instructor.from_openai(sr.wrap(AsyncOpenAI())).create_partial(**ASK):
        show(str(partial.query))
    show(search(partial.query))
