"""Providers for the tests of the instructor integration.

They are real SDKs over mock transports, with the replies they give.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from support.scripted import Answer, JSONObject, Server, call, completion

instructor: Any = pytest.importorskip(
    "instructor", reason="instructor is an extra with a lane of its own"
)
# It is an attribute of the package from when somebody has imported it.
pytest.importorskip("instructor.core")
MODES = ("TOOLS", "JSON", "JSON_SCHEMA", "MD_JSON")
QUESTION: list[Any] = [{"role": "user", "content": "Who is {{ who }}?"}]


class User(BaseModel):
    """Somebody of age."""

    name: str
    age: int

    @field_validator("age")
    @classmethod
    def of_age(cls, age: int) -> int:
        """State a rule that no schema states."""
        if age < 18:
            raise ValueError("must be of age")
        return age


ADA = {"name": "Ada", "age": 36}


def reply(mode: str, value: object, tool: str = "User") -> JSONObject:
    """Return a completion that carries ``value`` in one of instructor's modes.

    A text is used as it is.
    """
    text = value if isinstance(value, str) else json.dumps(value)
    if mode == "TOOLS":
        return completion(calls=[call(tool, text)])
    return completion(f"```json\n{text}\n```" if mode == "MD_JSON" else text)


class Twin:
    """One of the two ways to ask, so that a test states its law for both: ``sync`` or ``async``."""

    def __init__(self, kind: str) -> None:
        """Choose the way."""
        self.kind = kind

    def sdk(self, server: Server, **options: Any) -> Any:
        """Make an SDK client over a mock server, without retries of its own."""
        make = server.client if self.kind == "sync" else server.async_client
        return make(**{"max_retries": 0, **options})

    def client(self, server: Server, mode: str = "TOOLS", **options: Any) -> Any:
        """Make an instructor client over a mock server."""
        return instructor.from_openai(
            self.sdk(server), mode=instructor.Mode[mode], model="m", **options
        )

    def run(self, function: Callable[..., Any], **keywords: Any) -> Any:
        """Call, and await what is to be awaited."""
        return function(**keywords) if self.kind == "sync" else asyncio.run(function(**keywords))


class AnthropicServer:
    """A mock server under the real Anthropic SDK: answers in order, the last one stays."""

    def __init__(self, *answers: Answer) -> None:
        """Keep the answers in order."""
        self.sdk: Any = pytest.importorskip(
            "anthropic", reason="the anthropic SDK is not installed"
        )
        self.http: Any = (
            getattr(self.sdk._base_client, "httpx2", None) or self.sdk._base_client.httpx
        )
        self.answers = list(answers)
        self.requests: list[JSONObject] = []

    def handle(self, request: Any) -> Any:
        """Answer one request."""
        self.requests.append(json.loads(request.content))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        content = body if isinstance(body, str) else json.dumps(body)
        return self.http.Response(
            status, content=content, headers={"content-type": "application/json"}
        )

    def client(self, mode: str = "TOOLS", **options: Any) -> Any:
        """Make an instructor client over this server."""
        transport = self.http.Client(transport=self.http.MockTransport(self.handle))
        sdk = self.sdk.Anthropic(
            api_key="none", base_url="http://model.invalid", max_retries=0, http_client=transport
        )
        kept = {"max_tokens": 99, "model": "claude", **options}
        return instructor.from_anthropic(sdk, mode=instructor.Mode[mode], **kept)


def blocks(*content: JSONObject, stop_reason: str = "tool_use") -> JSONObject:
    """Return an Anthropic message of these blocks."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 2},
    }


def text(words: str) -> JSONObject:
    """Return a block of text."""
    return {"type": "text", "text": words}


def use(value: object, tool: str = "User") -> JSONObject:
    """Return a block that uses a tool."""
    return {"type": "tool_use", "id": "toolu_1", "name": tool, "input": value}


def codes(attempts: Sequence[Any]) -> list[list[str]]:
    """Return the codes of each attempt."""
    return [[issue.code for issue in attempt.issues] for attempt in attempts]
