"""instructor on Claude: a model for the answer instead of a tool."""

from collections.abc import Callable
from typing import Any

import instructor
from anthropic import Anthropic, AsyncAnthropic
from pydantic import BaseModel

import strictreply as sr


# instructor names the tool after the class
class search(BaseModel):  # noqa: N801
    """The query of a search."""

    query: str


class Answer(BaseModel):
    """A structured answer."""

    answer: str


ASK: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 1000,
    "max_retries": 0,
    "response_model": search,
    "messages": [{"role": "user", "content": "Find tea."}],
}


def run(search: Callable[[str], str]) -> str:
    """Extract the query, and search."""
    client = instructor.from_anthropic(sr.wrap(Anthropic()))
    return search(client.create(**ASK).query)


async def arun(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    client = instructor.from_anthropic(sr.wrap(AsyncAnthropic()))
    return search((await client.create(**ASK)).query)


def answer(search: Callable[[str], str]) -> str:
    """Extract in the mode JSON, where the schema is only in the prompt.

    So declare the model as the answer of the wrapped client, too.
    """
    wrapped = sr.wrap(Anthropic(), answer=Answer)
    client = instructor.from_anthropic(wrapped, mode=instructor.Mode.JSON)
    asked = f"What is here? {search('tea')}"
    turns = [{"role": "user", "content": asked}]
    wanted = {"response_model": Answer, "messages": turns}
    return client.create(**(ASK | wanted)).answer


async def aanswer(search: Callable[[str], str]) -> str:
    """Do the same with async calls."""
    wrapped = sr.wrap(AsyncAnthropic(), answer=Answer)
    client = instructor.from_anthropic(wrapped, mode=instructor.Mode.JSON)
    asked = f"What is here? {search('tea')}"
    turns = [{"role": "user", "content": asked}]
    wanted = {"response_model": Answer, "messages": turns}
    return (await client.create(**(ASK | wanted))).answer


def stream(search: Callable[[str], str], show: Callable[[str], None]) -> None:
    """Show each partial query, and search with the last."""
    client = instructor.from_anthropic(sr.wrap(Anthropic()))
    for partial in client.create_partial(**ASK):
        show(str(partial.query))
    show(search(partial.query))


async def astream(
    search: Callable[[str], str], show: Callable[[str], None]
) -> None:
    """Do the same with async calls."""
    client = instructor.from_anthropic(sr.wrap(AsyncAnthropic()))
    async for partial in client.create_partial(**ASK):
        show(str(partial.query))
    show(search(partial.query))
