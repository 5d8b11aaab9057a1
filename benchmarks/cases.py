"""What every library is asked, and what the model replies.

The replies are the same canned ones for all, through the real SDK.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import openai
from pydantic import BaseModel, ConfigDict, Field

_sdk: Any = openai._base_client  # noqa: SLF001 - the only place that says which it is
http: Any = getattr(_sdk, "httpx2", None) or _sdk.httpx
"""The HTTP library of this SDK: openai 3 runs on httpx2, openai 2 on httpx."""

MODEL = "gpt-4o"
Args = dict[str, Any]


class Search(BaseModel):
    """Find things by name."""

    model_config = ConfigDict(extra="forbid")

    query: str
    limit: int = Field(ge=1, le=20)


class Line(BaseModel):
    """A line of an order."""

    model_config = ConfigDict(extra="forbid")

    sku: str
    quantity: int = Field(ge=1)
    price: float


class Ticket(BaseModel):
    """File a support ticket about an order."""

    model_config = ConfigDict(extra="forbid")

    order: int = Field(ge=1)
    customer: str
    email: str
    subject: str = Field(max_length=120)
    category: Literal["late", "broken", "wrong item", "refund", "other"]
    priority: int = Field(ge=1, le=5)
    lines: list[Line]
    tags: list[str]
    callback: bool
    note: str | None


class Order(BaseModel):
    """Record an order."""

    model_config = ConfigDict(extra="forbid")

    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Ask:
    """One call: the tool that the reply calls, the conversation, and the arguments.

    ``further`` is the number of tools beside that one.

    ``right`` fits the tool; ``wrong`` has one field that does not. ``attempts`` counts all requests
    of a call. ``named`` forces the tool by ``tool_choice``.
    """

    tool: type[BaseModel]
    messages: tuple[Mapping[str, str], ...]
    right: Args
    wrong: Args
    further: int = 0
    temperature: float | None = None
    named: bool = False
    attempts: int = 3

    @property
    def tools(self) -> list[type[BaseModel]]:
        """Return all tools as models."""
        further = [type(f"tool_{number}", (Search,), {}) for number in range(self.further)]
        return [self.tool, *further]

    @property
    def keywords(self) -> dict[str, Any]:
        """Return the keywords of the call beside messages and tools."""
        keywords: dict[str, Any] = {"model": MODEL}
        if self.temperature is not None:
            keywords["temperature"] = self.temperature
        if self.named:
            function = {"name": self.tool.__name__}
            keywords["tool_choice"] = {"type": "function", "function": function}

        return keywords

    def replied(
        self, name: str | None = None, *, arguments: str | None = None, number: int = 0
    ) -> bytes:
        """Write the response that calls the tool.

        Its arguments are the right ones when no text of others is given. ``number`` makes the
        call's id: within one conversation each call has its own.
        """
        text = json.dumps(self.right) if arguments is None else arguments
        return completion(call=(name or self.tool.__name__, text), number=number)


def definition(tool: type[BaseModel]) -> dict[str, Any]:
    """Write a tool as the API takes it."""
    schema = tool.model_json_schema()
    schema.pop("title", None)
    words = schema.pop("description", Search.__doc__)
    return {
        "type": "function",
        "function": {"name": tool.__name__, "description": words, "parameters": schema},
    }


SMALL = Ask(
    tool=Search,
    messages=(
        {"role": "system", "content": "You find things."},
        {"role": "user", "content": "Find me some tea."},
    ),
    right={"query": "tea", "limit": 5},
    wrong={"query": "tea", "limit": "many"},
)

SYSTEM = (
    "You are the support desk of a shop for household goods. "
    "Read what the customer writes and file exactly one\n"
    "ticket with the tool. "
    "Take the order number, the name and the address as written; never invent them. "
    "The subject is one\n"
    "short sentence. "
    "Choose the category by what the customer wants, not by his tone: "
    "a broken thing that he wants replaced\n"
    "is broken, a broken thing that he wants paid back is a refund. "
    "Priority 1 is a question, 3 a thing that does not work,\n"
    "5 a danger to people. "
    "List the lines of the order that the ticket is about, with the price of one piece. "
    "Tags are single\n"
    "words in lower case. "
    "Ask for a callback only when the customer asks for one. "
    "The note is for colleagues, or null."
)

REALISTIC = Ask(
    tool=Ticket,
    messages=(
        {"role": "system", "content": SYSTEM},
        {
            "role": "user",
            "content": (
                "Order 10427, Ada Lovelace, ada@example.com. "
                "Two of the mugs (MUG-4, 9.50 each) came in pieces "
                "and the kettle (KET-1, 39.00) leaks at the base. "
                "I'd like new ones. Please call me before noon."
            ),
        },
    ),
    right={
        "order": 10427,
        "customer": "Ada Lovelace",
        "email": "ada@example.com",
        "subject": "Two mugs came broken and the kettle leaks",
        "category": "broken",
        "priority": 3,
        "lines": [
            {"sku": "MUG-4", "quantity": 2, "price": 9.5},
            {"sku": "KET-1", "quantity": 1, "price": 39.0},
        ],
        "tags": ["mug", "kettle", "replacement"],
        "callback": True,
        "note": None,
    },
    wrong={
        "order": 10427,
        "customer": "Ada Lovelace",
        "email": "ada@example.com",
        "subject": "Two mugs came broken and the kettle leaks",
        "category": "broken",
        "priority": "high",
        "lines": [
            {"sku": "MUG-4", "quantity": 2, "price": 9.5},
            {"sku": "KET-1", "quantity": 1, "price": 39.0},
        ],
        "tags": ["mug", "kettle", "replacement"],
        "callback": True,
        "note": None,
    },
    temperature=0.0,
    named=True,
)


def with_messages(count: int) -> Ask:
    """Return the small call at the end of a conversation of so many messages of 200 characters."""
    sentence = (
        "What was said before stands here, some two hundred characters of it, "
        "as people write to a shop. "
    )
    between = [
        {"role": "assistant" if turn % 2 else "user", "content": sentence * 2}
        for turn in range(count - 2)
    ]
    return replace(SMALL, messages=(SMALL.messages[0], *between, SMALL.messages[-1]))


def with_arguments(size: int) -> Ask:
    """Return a call whose reply has arguments of about so many bytes."""
    lines = [
        {"sku": f"SKU-{number:06}", "quantity": number % 9 + 1, "price": number + 0.5}
        for number in range(size // 52)
    ]
    return replace(SMALL, tool=Order, right={"lines": lines}, wrong={"lines": "none"})


def completion(
    *, call: tuple[str, str] | None = None, content: str | None = None, number: int = 0
) -> bytes:
    """Write a response: a call of a tool (name and arguments as text), or a text."""
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    if call is not None:
        function = {"name": call[0], "arguments": call[1]}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]

    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": "stop" if call is None else "tool_calls",
    }
    whole = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": MODEL,
        "choices": [choice],
        "usage": {"prompt_tokens": 120, "completion_tokens": 60, "total_tokens": 180},
    }
    return json.dumps(whole).encode()


LOOP_CALLS = 3
QUESTION = "What is the weather in three towns?"
ANSWER = "Fine in all three."


def look(town: str, days: int) -> str:
    """Look the weather up."""
    return f"{town}: fine for {days} days"


def loop_arguments(number: int) -> Args:
    """Return the arguments of a call of the tool loop."""
    return {"town": f"town {number}", "days": number + 1}


def loop_replies() -> list[bytes]:
    """Write the responses of one turn of the tool loop.

    They are three calls, one after the other, and the answer.
    """
    called = [("look", json.dumps(loop_arguments(number))) for number in range(LOOP_CALLS)]
    return [
        *(completion(call=call, number=number) for number, call in enumerate(called)),
        completion(content=ANSWER),
    ]


def loop_requests() -> list[dict[str, Any]]:
    """List the four requests of that turn, as a program without a library sends them."""
    properties = {"town": {"type": "string"}, "days": {"type": "integer"}}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": ["town", "days"],
        "additionalProperties": False,
    }
    function = {"name": "look", "description": look.__doc__, "parameters": parameters}
    tools = [{"type": "function", "function": function}]

    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    sent: list[dict[str, Any]] = []
    for number in range(LOOP_CALLS + 1):
        sent.append({"model": MODEL, "messages": list(messages), "tools": tools})

        id_ = f"call_{number}"
        arguments = loop_arguments(number)
        called = {"name": "look", "arguments": json.dumps(arguments)}
        call = {"id": id_, "type": "function", "function": called}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": id_, "content": look(**arguments)})

    return sent


def streamed(ask: Ask, chunks: int, name: str | None = None) -> list[bytes]:
    """Write a stream that calls the tool, its arguments in about so many chunks."""
    text = json.dumps(ask.right)
    width = max(1, -(-len(text) // chunks))
    around = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": MODEL,
    }

    def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return b"data: " + json.dumps(around | {"choices": [choice]}).encode() + b"\n\n"

    function = {"name": name or ask.tool.__name__, "arguments": ""}
    opening = {"index": 0, "id": "call_0", "type": "function", "function": function}
    head = event({"role": "assistant", "content": None, "tool_calls": [opening]})
    parts = [
        event({"tool_calls": [{"index": 0, "function": {"arguments": text[at : at + width]}}]})
        for at in range(0, len(text), width)
    ]
    return [head, *parts, event({}, "tool_calls"), b"data: [DONE]\n\n"]


# the SDK's HTTP library
class Pieces(http.AsyncByteStream, http.SyncByteStream):  # type: ignore[misc]
    """A body that comes event by event."""

    def __init__(self, events: Sequence[bytes]) -> None:
        """Keep the events."""
        self.events = events

    def __iter__(self) -> Iterator[bytes]:
        """Yield one event after the other."""
        yield from self.events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield one event after the other."""
        for event in self.events:
            yield event


class Wire:
    """SDK clients on an in-memory transport that gives these responses in turn, without end.

    A response is a body, or the events of a stream. ``bodies`` keeps the requests when it is a
    list; ``delay`` is awaited before a response of async clients; ``pick`` chooses a response by
    the request instead of in turn.
    """

    base_url = "http://model.invalid/v1"

    def __init__(self, *responses: bytes | list[bytes]) -> None:
        """Make the transports."""
        self.responses = responses
        self.served = 0
        self.bodies: list[bytes] | None = None
        self.delay: Any = None
        self.pick: Callable[[bytes], int] | None = None
        self.http: Any = http.Client(transport=http.MockTransport(self._answered))
        self.ahttp: Any = http.AsyncClient(transport=http.MockTransport(self._aanswered))

    def _answered(self, request: Any) -> Any:
        if self.pick is None:
            turn = self.served % len(self.responses)
        else:
            turn = self.pick(request.content)

        response = self.responses[turn]
        self.served += 1
        if self.bodies is not None:
            self.bodies.append(request.content)

        if isinstance(response, list):
            headers = {"content-type": "text/event-stream"}
            return http.Response(200, headers=headers, stream=Pieces(response))
        return http.Response(200, headers={"content-type": "application/json"}, content=response)

    async def _aanswered(self, request: Any) -> Any:
        if self.delay is not None:
            await self.delay()
        return self._answered(request)

    def client(self) -> openai.OpenAI:
        """Make a sync client."""
        return openai.OpenAI(
            api_key="none", base_url=self.base_url, http_client=self.http, max_retries=0
        )

    def aclient(self) -> openai.AsyncOpenAI:
        """Make an async client."""
        return openai.AsyncOpenAI(
            api_key="none", base_url=self.base_url, http_client=self.ahttp, max_retries=0
        )


def loop_wire() -> Wire:
    """Make clients for turns of the tool loop, several at once too.

    A reply follows from the results that its request has.
    """
    wire = Wire(*loop_replies())
    wire.pick = lambda request: request.rpartition(b'"user"')[2].count(b'"tool_call_id"')
    return wire


class Loopback(Wire):
    """Async clients of a server on this machine, over real sockets."""

    def __init__(self, base_url: str) -> None:
        """Make the transport; it keeps as many connections as there are calls at once."""
        super().__init__(b"")
        self.base_url = base_url
        most = http.Limits(max_connections=1000, max_keepalive_connections=1000)
        self.ahttp = http.AsyncClient(limits=most, timeout=120, trust_env=False)
