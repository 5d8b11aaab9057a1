"""Declare tools in five ways.

From a function, a pydantic model, a JSON Schema, an OpenAI definition, and an
entry of an MCP server's list.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

import strictreply as sr

Limit = Annotated[int, Field(ge=1, le=20)]


@sr.tool
def search(query: str, limit: Limit = 5) -> list[str]:
    """Search the catalogue."""
    return [f"{query} {number}" for number in range(1, limit + 1)]


class Refund(BaseModel):
    """Give money back."""

    order: int
    reason: Literal["late", "broken"]


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
weather = sr.Tool.from_json_schema(
    "weather", SCHEMA, description="Forecast the weather."
)
convert = sr.Tool.from_openai(
    {
        "type": "function",
        "function": {"name": "convert", "parameters": SCHEMA},
    }
)
lookup = sr.Tool.of(
    {
        "name": "lookup",
        "description": "From an MCP server's tools/list.",
        "inputSchema": SCHEMA,
    }
)


def reply(tool: str, arguments: str) -> dict[str, Any]:
    """Return an assistant message with one call, in the API's format."""
    function = {"name": tool, "arguments": arguments}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def main() -> None:
    """Check replies against one contract, without a client or I/O."""
    contract = sr.Contract(tools=[search, Refund, weather, convert, lookup])
    for tool in contract.tools:
        parameters = tool.definition["function"]["parameters"]
        print(f"{tool.name}: {json.dumps(parameters.get('properties'))}")

    for message in (
        reply("search", '{"query": "boots", "limit": 2}'),
        reply("Refund", '{"order": 7, "reason": "broken"}'),
        reply("weather", '{"city": "Oslo", "unit": "celsius"}'),
        reply("search", '{"query": "boots", "limit": "2"}'),
    ):
        match contract.check(message):
            case sr.Valid(reply=accepted):
                print("valid:", accepted)
            case sr.Invalid(issues=issues):
                found = [f"{issue.code} at {issue.path}" for issue in issues]
                print("invalid:", *found)


if __name__ == "__main__":
    main()
