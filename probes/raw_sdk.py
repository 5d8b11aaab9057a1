"""The openai SDK by itself: ``json.loads`` of the arguments, a check by pydantic, the call."""

from __future__ import annotations

import json

from openai import OpenAI
from openai.types.chat import ChatCompletionFunctionToolParam

from probes.job import MODEL, QUESTION, TIMEOUT, Search, Shop

TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search the shop.",
        "parameters": Search.model_json_schema(),
    },
}


def app(base_url: str) -> object:
    """Ask once and run what was called; without a call the text is the answer."""
    client = OpenAI(base_url=base_url, api_key="none", timeout=TIMEOUT)
    completion = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": QUESTION}], tools=[TOOL]
    )
    message = completion.choices[0].message
    if not message.tool_calls:
        return {"answer": message.content}

    shop = Shop()
    for call in message.tool_calls:
        # as the guides have it: no custom tool was offered
        function = call.function  # type: ignore[union-attr]
        run(shop, function.name, function.arguments)

    return shop.accepted()


def run(shop: Shop, name: str, arguments: str) -> None:
    """Run one tool call."""
    tools = {"search": (Search, shop.search)}
    model, function = tools[name]
    args = model(**json.loads(arguments))
    function(args.query, args.limit)
