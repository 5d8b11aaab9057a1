"""What the SDK takes as an iterator is sent whole with every request of a call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel

import strictreply as sr
from support.scripted import SCHEMA, Server, call, completion
from support.scripted_responses import FLAT_SEARCH, call_item, response

WRONG = {"query": 1}
GOOD = {"query": "tea"}
ONCE_MORE = sr.RetryPolicy(max_retries=1, wait=lambda _: 0.0)
TOOL = {"type": "function", "function": {"name": "search", "parameters": SCHEMA}}


def parts(kind: str) -> Iterator[dict[str, Any]]:
    """The parts of one message."""
    yield {"type": kind, "text": "Find tea."}
    yield {"type": kind, "text": "Quickly."}


def turn(kind: str) -> Iterator[dict[str, Any]]:
    """The one message of a conversation."""
    yield {"role": "user", "content": parts(kind)}


def space() -> Iterator[dict[str, Any]]:
    """A namespace with one tool."""
    yield {"type": "namespace", "name": "shop", "description": "", "tools": iter([FLAT_SEARCH])}


def asked(server: Server, is_chat: bool, is_async: bool) -> Any:
    """Make one call whose first reply is wrong; return the arguments that came."""
    raw: Any = server.async_client() if is_async else server.client()
    client: Any = sr.wrap(raw, policy=ONCE_MORE)
    if is_chat:
        made = client.chat.completions.create(model="m", messages=turn("text"), tools=iter([TOOL]))
    else:
        made = client.responses.create(model="m", input=turn("input_text"), tools=space())

    if not is_async:
        return made

    async def main() -> Any:
        return await made

    return asyncio.run(main())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_chat", [True, False])
def test_a_correction_is_sent_behind_the_whole_conversation(is_chat: bool, is_async: bool) -> None:
    """The second request has each message, part and tool of the first one, which iterators gave."""
    if is_chat:
        server = Server(*(completion(calls=[call("search", one)]) for one in (WRONG, GOOD)))
    else:
        items = [call_item("search", one, namespace="shop") for one in (WRONG, GOOD)]
        server = Server(*map(response, items))

    asked(server, is_chat, is_async)

    first, second = map(json.loads, server.bodies)
    member = "messages" if is_chat else "input"
    assert len(first[member][0]["content"]) == 2
    assert second[member][0] == first[member][0]
    assert second["tools"] == first["tools"]
    assert len(second["tools"]) == 1
    assert is_chat or len(second["tools"][0]["tools"]) == 1


class Search(BaseModel):
    """Search the shop."""

    query: str


@pytest.mark.skipif(
    not hasattr(openai, "pydantic_responses_function_tool"), reason="openai 2 makes no such tool"
)
@pytest.mark.parametrize("is_async", [False, True])
def test_parse_declares_the_tools_that_an_iterator_gives(is_async: bool) -> None:
    """The SDK reads them to make the request, and strictreply to judge the call."""
    tools = [openai.pydantic_responses_function_tool(Search, name="search")]
    spaces = [{"type": "namespace", "name": "shop", "description": "", "tools": iter(tools)}]
    server = Server(response(call_item("search", GOOD, namespace="shop")))
    raw: Any = server.async_client() if is_async else server.client()
    made = sr.wrap(raw, policy=ONCE_MORE).responses.parse(model="m", input="tea", tools=spaces)

    async def main() -> Any:
        return await made

    parsed = asyncio.run(main()) if is_async else made
    assert parsed.output[0].parsed_arguments == Search(query="tea")
    (sent,) = map(json.loads, server.bodies)
    assert [tool["name"] for tool in sent["tools"][0]["tools"]] == ["search"]
