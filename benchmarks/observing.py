"""CPU time of one observed call beside the raw SDK's, in the same run.

Run: ``python benchmarks/observing.py [--quick]``. The transport is a mock: only our work and
the SDK's is measured. Every verdict is told to an ``on_attempt``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import openai
from measuring import print_pairs

import strictreply as sr

http: Any = getattr(openai._base_client, "httpx2", None) or openai._base_client.httpx  # type: ignore[attr-defined]  # noqa: SLF001

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20},
    },
    "required": ["query"],
}
TURNS: list[Any] = [{"role": "user", "content": "Find red shoes."}]
FUNCTION: Any = {"type": "function", "function": {"name": "search", "parameters": SCHEMA}}
TOOL: Any = {"name": "search", "input_schema": SCHEMA}
GIVEN = {"query": "red shoes", "limit": 3}
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "search", "arguments": json.dumps(GIVEN)},
                    }
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42},
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "tool_use", "id": "toolu_1", "name": "search", "input": GIVEN}],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 30, "output_tokens": 12},
}


def mock(reply: dict[str, Any]) -> Any:
    """Return a client of the HTTP library that is answered with a reply, over and over."""
    body = json.dumps(reply).encode()
    headers = {"content-type": "application/json"}
    answer = http.MockTransport(lambda _: http.Response(200, content=body, headers=headers))
    return http.Client(transport=answer)


def observing(client: Any) -> Any:
    """Return a client that observes, and tells each verdict."""
    seen: list[sr.Attempt] = []

    def watch(attempt: sr.Attempt) -> None:
        seen[:] = [attempt]

    return sr.wrap(client, mode="observe", on_attempt=watch)


def works() -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """Return the rows: what it is, the raw client's way to it, and the observed one."""
    chat = openai.OpenAI(api_key="none", max_retries=0, http_client=mock(COMPLETION))
    claude = anthropic.Anthropic(api_key="none", max_retries=0, http_client=mock(MESSAGE))

    def completed(client: Any) -> Callable[[], object]:
        return lambda: client.chat.completions.create(model="m", messages=TURNS, tools=[FUNCTION])

    def sent(client: Any) -> Callable[[], object]:
        return lambda: client.messages.create(
            model="m", max_tokens=100, messages=TURNS, tools=[TOOL]
        )

    return {
        "chat.completions.create": (completed(chat), completed(observing(chat))),
        "messages.create": (sent(claude), sent(observing(claude))),
        "chat.completions.create, mode off": (
            completed(chat),
            completed(sr.wrap(chat, mode="off")),
        ),
    }


def main() -> None:
    """Print a line for each row."""
    print_pairs(works())


if __name__ == "__main__":
    main()
