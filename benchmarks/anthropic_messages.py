"""CPU time of one validated call of Anthropic's Messages, beside the raw SDK's, in the same run.

Run: ``python benchmarks/anthropic_messages.py [--quick]``. The transport is a mock: only our work
and the SDK's is measured. The floor is what the HTTP library takes for the same exchange.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import anthropic
from measuring import print_pairs

import strictreply as sr

http: Any = getattr(anthropic._base_client, "httpx2", None) or anthropic._base_client.httpx  # noqa: SLF001

TOOL = {
    "name": "search",
    "description": "Find things by name.",
    "input_schema": {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 20},
        },
        "required": ["query"],
    },
}
ASK: dict[str, Any] = {
    "model": "claude-sonnet-5",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Find red shoes."}],
}


def message(given: dict[str, Any]) -> bytes:
    """Write a message that calls the tool."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": given}
    reply = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": [call],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 30, "output_tokens": 12},
    }
    return json.dumps(reply).encode()


GOOD = message({"query": "red shoes", "limit": 3})
BAD = message({"query": "red shoes", "limit": 99})


def client(*bodies: bytes) -> anthropic.Anthropic:
    """Return a client that is answered with these bodies, over and over."""
    answers: Iterator[bytes] = cycle(bodies)
    headers = {"content-type": "application/json"}

    def answer(_: object) -> object:
        return http.Response(200, content=next(answers), headers=headers)

    held = http.Client(transport=http.MockTransport(answer))
    return anthropic.Anthropic(api_key="none", max_retries=0, http_client=held)


def works() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return the rows: what it is, the plain way to it, and ours."""
    raw = client(GOOD)
    with_tools = {**ASK, "tools": [TOOL]}
    once = sr.wrap(client(GOOD), tools=[TOOL])
    retried = sr.wrap(client(BAD, GOOD), tools=[TOOL])
    plain = sr.wrap(client(GOOD))

    def create() -> object:
        return raw.messages.create(**with_tools)

    def twice() -> object:
        create()
        return create()

    floor: Any = raw._client  # noqa: SLF001
    body = json.dumps(with_tools).encode()

    def exchange() -> object:
        return floor.post("https://api.anthropic.com/v1/messages", content=body).json()

    return {
        "the HTTP library alone": (create, exchange),
        "reply": (create, lambda: once.reply(**ASK)),
        "messages.create": (create, lambda: plain.messages.create(**with_tools)),
        "one retry, of two raw calls": (twice, lambda: retried.reply(**ASK)),
    }


def main() -> None:
    """Print a line for each row."""
    print_pairs(works())


if __name__ == "__main__":
    main()
