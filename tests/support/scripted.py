"""Scripted fakes at the one seam.

They are clients that give replies or raise in order, and the real SDK over a mock transport. A
script is a sequence of steps: a mapping is a completion, an exception is raised. Nothing here
sleeps or connects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import Any, TypeAlias

import openai

http: Any = getattr(openai._base_client, "httpx2", None) or openai._base_client.httpx  # type: ignore[attr-defined]
"""The HTTP library under the installed SDK: httpx2 under openai 3, httpx under openai 2."""

JSONObject: TypeAlias = dict[str, Any]
Step: TypeAlias = "JSONObject | BaseException"

SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20},
    },
    "required": ["query"],
}
USER: list[Any] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "find tea"},
]
OTHER_SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


def call(name: str, arguments: object, id_: str = "call_a") -> JSONObject:
    """Return one native tool call; arguments other than text are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}


def completion(
    content: str | None = None,
    calls: Sequence[JSONObject] = (),
    *,
    finish_reason: str | None = None,
    tokens: tuple[int, int] = (10, 5),
    **message: Any,
) -> JSONObject:
    """Return a whole chat completion around one assistant message.

    ``message`` holds further members of it.
    """
    turn: JSONObject = {"role": "assistant", "content": content, **message}

    if calls:
        turn["tool_calls"] = list(calls)

    reason = finish_reason or ("tool_calls" if calls else "stop")
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": reason, "message": turn}],
        "usage": {
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            "total_tokens": sum(tokens),
        },
    }


class Script:
    """The steps that are left, and every request that was made, as it was at that moment."""

    def __init__(self, steps: Iterable[Step]) -> None:
        """Keep the steps in order."""
        self.steps = list(steps)
        self.requests: list[JSONObject] = []

    def take(self, request: JSONObject) -> JSONObject:
        """Record a request, and give or raise the next step."""
        self.requests.append(deepcopy(request))
        step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return deepcopy(step)

    @property
    def messages(self) -> list[list[JSONObject]]:
        """The messages of each request."""
        return [request["messages"] for request in self.requests]


class Client:
    """A client that follows a script, without HTTP and without SDK."""

    def __init__(self, *steps: Step) -> None:
        """Offer ``chat.completions.create``."""
        self.script = Script(steps)
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    def create(self, **request: Any) -> JSONObject:
        """Return the next step."""
        return self.script.take(request)


class AsyncClient:
    """The async twin of :class:`Client`."""

    def __init__(self, *steps: Step) -> None:
        """Offer ``chat.completions.create``."""
        self.script = Script(steps)
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    async def create(self, **request: Any) -> JSONObject:
        """Return the next step."""
        return self.script.take(request)


class StatusError(Exception):
    """What an SDK raises for an HTTP error.

    Its ``status_code`` and the response's headers tell it.
    """

    def __init__(
        self,
        status: int,
        headers: dict[str, str] | None = None,
        code: str | None = None,
        body: object = None,
    ) -> None:
        """Store the status, the headers, and the error in the body."""
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.code = code
        self.body = body
        self.response = SimpleNamespace(headers=headers or {})


Answer: TypeAlias = "JSONObject | bytes | BaseException | Any"
"""What the mock server gives: a completion, a raw body, a ready response, or an exception to raise.
"""


class Server:
    """A mock server under the real SDK.

    It answers in order (the last answer stays), and keeps every request.
    """

    def __init__(self, *answers: Answer) -> None:
        """Keep the answers in order."""
        self.answers = list(answers)
        self.requests: list[Any] = []

    @property
    def bodies(self) -> list[bytes]:
        """The body of each request, as it was sent."""
        return [bytes(request.content) for request in self.requests]

    def handle(self, request: Any) -> Any:
        """Answer one request."""
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, http.Response):
            return answer
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return http.Response(200, content=content, headers={"content-type": "application/json"})

    async def ahandle(self, request: Any) -> Any:
        """Answer one request of an async client."""
        return self.handle(request)

    def client(self, **options: Any) -> openai.OpenAI:
        """Make a real sync SDK client over this server."""
        transport = http.Client(transport=http.MockTransport(self.handle))
        return openai.OpenAI(**_options(options), http_client=transport)

    def async_client(self, **options: Any) -> openai.AsyncOpenAI:
        """Make a real async SDK client over this server."""
        transport = http.AsyncClient(transport=http.MockTransport(self.ahandle))
        return openai.AsyncOpenAI(**_options(options), http_client=transport)


def _options(given: JSONObject) -> JSONObject:
    """Complete a client's options with a made-up key and address."""
    return {"api_key": "none", "base_url": "http://model.invalid/v1", **given}


def status(code: int, body: object = None, **headers: str) -> Any:
    """Return a response with an HTTP status; ``_`` in a header's name stands for ``-``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return http.Response(code, json=body, headers=named)


def truncated(text: str = '{"answer":"so f') -> JSONObject:
    """Return a reply that was cut at the token limit."""
    return completion(text, finish_reason="length")


def refusal(words: str = "I will not") -> JSONObject:
    """Return a refusal."""
    return completion(None, refusal=words)


def filtered() -> JSONObject:
    """Return a reply that the provider's content filter stopped."""
    return completion("", finish_reason="content_filter")
