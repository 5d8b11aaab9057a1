"""CPU time of one validated call over the real SDK, beside the raw SDK call, in the same run.

Run: ``python benchmarks/happy_path.py``. The transport is a mock: only our work and the SDK's is
measured. First come the figures that have a target, then the tables behind them. The last table is
of clients that a tracer records, in both columns; ``.venv-tracers/bin/python`` has real ones.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import openai
import pydantic
from openai.resources.chat.completions import Completions

import strictreply as sr

http: Any = getattr(openai._base_client, "httpx2", None) or openai._base_client.httpx  # noqa: SLF001

ROUNDS = 25
SAMPLE = 0.01  # seconds: short ones find quiet moments on a busy machine
CASES = [(2, 1), (2, 10), (200, 1), (2, 200), (200, 200)]


def tool(number: int) -> dict[str, Any]:
    """Define a tool as the API takes it."""
    properties = {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 20},
    }
    parameters = {"type": "object", "properties": properties, "required": ["query"]}
    function = {
        "name": f"tool_{number}",
        "description": "Find things by name.",
        "parameters": parameters,
    }
    return {"type": "function", "function": function}


def completion(arguments: dict[str, Any]) -> bytes:
    """Write the response: one call of the first tool."""
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "tool_0", "arguments": json.dumps(arguments)},
    }
    return completion_of({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


def completion_of(message: dict[str, Any], ending: str) -> bytes:
    """Return the response around a message."""
    choice = {"index": 0, "finish_reason": ending, "message": message}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    response = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    return json.dumps(response).encode()


def response(arguments: dict[str, Any]) -> bytes:
    """Write the same of the Responses API."""
    item = {
        "id": "fc_1",
        "type": "function_call",
        "call_id": "call_1",
        "name": "tool_0",
        "status": "completed",
        "arguments": json.dumps(arguments),
    }
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [item],
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    }
    return json.dumps(whole).encode()


RIGHT = completion({"query": "tea", "limit": 5})
WRONG = completion({"query": "tea", "limit": 99})
RESPONSE = response({"query": "tea", "limit": 5})
WRONG_RESPONSE = response({"query": "tea", "limit": 99})


def client_over(*bodies: bytes) -> openai.OpenAI:
    """Make an SDK client whose server answers with these bodies in turn."""
    served = 0

    def handle(_: Any) -> Any:
        nonlocal served
        served += 1
        body = bodies[served % len(bodies) - 1]
        return http.Response(200, content=body, headers={"content-type": "application/json"})

    transport = http.Client(transport=http.MockTransport(handle))
    return openai.OpenAI(api_key="none", base_url="http://model.invalid/v1", http_client=transport)


def microseconds(*functions: Callable[[], object]) -> list[float]:
    """Return the best CPU time of one call of each, in microseconds; the rounds are interleaved."""
    best = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for index, function in enumerate(functions):
            times = 0
            start = time.process_time()
            while time.process_time() - start < SAMPLE:
                function()
                times += 1

            best[index] = min(best[index], (time.process_time() - start) / times * 1e6)

    return best


def measure(turns: int, tools: int) -> tuple[float, ...]:
    """Measure the raw call, ours with the typed reply, ours with the completion, and one retry."""
    messages = [
        {"role": "user" if turn % 2 else "assistant", "content": f"turn {turn}"}
        for turn in range(turns)
    ]
    definitions = [tool(number) for number in range(tools)]
    raw = client_over(RIGHT)
    wrapped = sr.wrap(client_over(RIGHT), tools=definitions)
    corrected = sr.wrap(client_over(WRONG, RIGHT), tools=definitions)

    return tuple(
        microseconds(
            lambda: raw.chat.completions.create(model="m", messages=messages, tools=definitions),  # type: ignore[call-overload]
            lambda: wrapped.reply(model="m", messages=messages),
            lambda: wrapped.create(model="m", messages=messages),
            lambda: corrected.reply(model="m", messages=messages),
        )
    )


def measure_responses(turns: int, tools: int) -> tuple[float, ...]:
    """Measure the same of the Responses API."""
    items = [
        {"role": "user" if turn % 2 else "assistant", "content": f"turn {turn}"}
        for turn in range(turns)
    ]
    flat = [
        {"type": "function", **tool(number)["function"], "strict": None} for number in range(tools)
    ]
    raw = client_over(RESPONSE)
    wrapped = sr.wrap(client_over(RESPONSE), tools=flat, api="responses")
    corrected = sr.wrap(client_over(WRONG_RESPONSE, RESPONSE), tools=flat, api="responses")
    return tuple(
        microseconds(
            lambda: raw.responses.create(model="m", input=items, tools=flat),  # type: ignore[call-overload]
            lambda: wrapped.reply(model="m", input=items),
            lambda: wrapped.responses.create(model="m", input=items),  # type: ignore[call-overload]
            lambda: corrected.reply(model="m", input=items),
        )
    )


class Find(pydantic.BaseModel):
    """Find things by name."""

    query: str
    limit: int = pydantic.Field(ge=1, le=20)


def measure_given_per_call() -> Iterator[tuple[str, float]]:
    """Measure what a program gives with every call, against the raw SDK given the same.

    A call with many definitions of tools is measured for each of them.
    """
    messages = [{"role": "user", "content": "tea?"}]
    answer = completion_of({"role": "assistant", "content": '{"query": "tea", "limit": 5}'}, "stop")
    found = {
        "type": "json_schema",
        "json_schema": {"name": "found", "schema": Find.model_json_schema()},
    }

    model_tool = openai.pydantic_function_tool(Find, name="tool_0")
    tools = sr.wrap(client_over(RIGHT))
    raw_tools = client_over(RIGHT)
    raw_answer = client_over(answer)
    ours = sr.wrap(client_over(answer))

    few = [tool(number) for number in range(100)]
    many = [tool(number) for number in range(1000)]
    named: Any = type("tool_0", (Find,), {})
    given = {"model": "m", "messages": messages}
    raw, model, raw_format, format_dict, format_type, hundred, thousand = microseconds(
        lambda: raw_tools.chat.completions.create(**given, tools=[model_tool]),  # type: ignore[call-overload]
        lambda: tools.reply(**given, tools=[named]),
        lambda: raw_answer.chat.completions.create(**given, response_format=found),  # type: ignore[call-overload]
        lambda: ours.reply(**given, response_format=found),
        lambda: ours.reply(**given, response_format=Find),
        lambda: tools.reply(**given, tools=few),
        lambda: tools.reply(**given, tools=many),
    )

    yield "tools=[Model] / raw", model / raw
    yield "response_format={json_schema} / raw", format_dict / raw_format
    yield "response_format=Model / raw with its schema", format_type / raw_format
    yield "a tool of 1,000 / a tool of 100", thousand / 10 / hundred


class Row(NamedTuple):
    """A figure, its target, and what it is of."""

    figure: float
    target: float
    what: str


def targets() -> Iterator[Row]:
    """Measure what has a target.

    A figure without a unit is a ratio to the raw client, given the same, in the same run.
    """
    yield from small_and_realistic()
    yield from with_many_tools()

    for what, ratio in measure_given_per_call():
        if "raw" in what:
            yield Row(ratio, 0.9, what)

    for name, raw, reply, create in measure_with_tracers():
        yield Row(reply / raw, 0.95, f"reply, {name}")
        yield Row(create / raw, 0.95, f"create, {name}")

    what = "1,000 concurrent async calls, wall; the better of five runs of each"
    yield Row(concurrently(), 0.8, what)

    what = "tokens added by a retry, one wrong field of a short call"
    yield Row(tokens_of_retry(few=True), 150, what)
    what = "tokens added by a retry, one wrong field of a long call beside another"
    yield Row(tokens_of_retry(few=False), 150, what)

    yield Row(kept_kibibytes(2), 8, "KiB of a kept exchange of 2 messages, beyond the caller's own")
    what = "KiB of a kept exchange of 200 messages of 1 kB, beyond the caller's own"
    yield Row(kept_kibibytes(200), 8, what)


FIELDS: dict[str, Any] = {
    "query": {"type": "string", "minLength": 1},
    "limit": {"type": "integer", "minimum": 1, "maximum": 20},
    "language": {"enum": ["en", "de", "fr"]},
    "since": {"type": "string", "format": "date"},
    "sort": {"enum": ["price", "name"]},
    "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
    "exact": {"type": "boolean"},
    "least": {"type": "number"},
    "shop": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "city": {"type": "string"}},
    },
    "note": {"type": ["string", "null"]},
}
FOUND = {
    "query": "tea",
    "limit": 5,
    "language": "en",
    "since": "2026-01-31",
    "sort": "price",
    "tags": ["green", "loose"],
    "exact": True,
    "least": 1.5,
    "shop": {"name": "Ten Ren", "city": "Berlin"},
    "note": None,
}


def small_and_realistic() -> Iterator[Row]:
    """Measure today's small call, a realistic one, and one correction."""
    raw, reply, create, retry = measure(2, 1)
    yield Row(reply / raw, 0.46, "reply, small call")
    yield Row(create / raw, 0.65, "create, small call")
    yield Row(retry / 2 / raw, 0.6, "one retry / two raw calls")

    definition = tool(0)
    definition["function"]["parameters"] = {
        "type": "object",
        "properties": FIELDS,
        "required": list(FIELDS),
    }

    messages = [
        {"role": "system", "content": "You sell tea. " * 40},
        {"role": "user", "content": "Find me a tea."},
    ]
    given: dict[str, Any] = {"model": "m", "messages": messages, "temperature": 0.2}
    given["tool_choice"] = {"type": "function", "function": {"name": "tool_0"}}
    body = completion(FOUND)
    plain = client_over(body)
    wrapped = sr.wrap(client_over(body), tools=[definition])
    raw, reply, create = microseconds(
        lambda: plain.chat.completions.create(**given, tools=[definition]),
        lambda: wrapped.reply(**given),
        lambda: wrapped.create(**given),
    )

    yield Row(reply / raw, 0.55, "reply, realistic call")
    yield Row(create / raw, 0.75, "create, realistic call")


def with_many_tools() -> Iterator[Row]:
    """Measure 200 tools: encoded once, and on Azure, where the SDK reads each body."""
    raw, reply, *_ = measure(2, 200)
    yield Row(reply / raw, 0.1, "reply, 200 tools, encoded once")

    definitions = [tool(number) for number in range(200)]
    given: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "?"}]}

    def client() -> openai.AzureOpenAI:
        return openai.AzureOpenAI(
            api_key="none",
            api_version="1",
            azure_endpoint="http://model.invalid",
            http_client=client_over(RIGHT)._client,  # noqa: SLF001
        )

    plain = client()
    azure = sr.wrap(client(), tools=definitions)
    raw, reply = microseconds(
        lambda: plain.chat.completions.create(**given, tools=definitions),  # type: ignore[call-overload]
        lambda: azure.reply(**given),  # type: ignore[arg-type]
    )
    yield Row(reply / raw, 0.3, "reply, 200 tools, Azure")


def concurrently(calls: int = 1000) -> float:
    """Measure the wall time of concurrent async calls over that of the raw client's."""

    async def handle(_: Any) -> Any:
        await asyncio.sleep(0)
        return http.Response(200, content=RIGHT, headers={"content-type": "application/json"})

    def client() -> openai.AsyncOpenAI:
        transport = http.AsyncClient(transport=http.MockTransport(handle))
        return openai.AsyncOpenAI(
            api_key="none", base_url="http://model.invalid/v1", http_client=transport
        )

    async def seconds(call: Callable[[], Any]) -> float:
        gc.collect()
        start = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(calls)))
        return time.perf_counter() - start

    async def measured() -> float:
        raw = client()
        wrapped = sr.wrap(client(), tools=[tool(0)])
        definitions = [tool(0)]
        given: Any = {"model": "m", "messages": [{"role": "user", "content": "tea?"}]}
        best = [float("inf")] * 2

        def plain() -> Any:
            return raw.chat.completions.create(**given, tools=definitions)

        for _ in range(5):
            best[0] = min(best[0], await seconds(plain))
            best[1] = min(best[1], await seconds(lambda: wrapped.reply(**given)))

        return best[1] / best[0]

    return asyncio.run(measured())


def tokens_of_retry(*, few: bool) -> float:
    """Count what a correction adds to the conversation.

    Four characters of its JSON are a token.
    """
    bodies: list[Any] = []

    def handle(request: Any) -> Any:
        bodies.append(json.loads(request.content))
        return http.Response(200, content=wrong, headers={"content-type": "application/json"})

    arguments: dict[str, Any] = {"query": "tea", "limit": 99}
    definitions = [tool(0), tool(1)]
    if not few:
        arguments = FOUND | {"limit": 99, "query": "tea " * 300}
        definitions[0]["function"]["parameters"] = {
            "type": "object",
            "properties": FIELDS,
            "required": list(FIELDS),
        }

    told: Any = json.loads(completion(arguments))["choices"][0]["message"]
    if not few:
        function = {"name": "tool_1", "arguments": json.dumps({"query": "cups " * 100})}
        told["content"] = "I look for tea and for cups. " * 20
        told["tool_calls"].append({"id": "call_2", "type": "function", "function": function})

    wrong = completion_of(told, "tool_calls")
    transport = http.Client(transport=http.MockTransport(handle))
    client = openai.OpenAI(
        api_key="none", base_url="http://model.invalid/v1", http_client=transport
    )
    wrapped = sr.wrap(
        client, tools=definitions, parallel=True, policy=sr.RetryPolicy(max_retries=1)
    )

    with suppress(sr.ReplyRejected):
        wrapped.reply(model="m", messages=[{"role": "user", "content": "tea?"}])

    return len(json.dumps(bodies[1]["messages"][1:], ensure_ascii=False)) / 4


def kept_kibibytes(turns: int, kept: int = 50) -> float:
    """Measure the memory of an exchange that a program keeps."""
    messages = [
        {"role": "assistant" if turn % 2 else "user", "content": f"{turn} {'w' * 1000}"}
        for turn in range(turns)
    ]
    wrapped = sr.wrap(client_over(RIGHT), tools=[tool(0)])

    for _ in range(5):
        wrapped.exchange(model="m", messages=messages)

    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    held = [wrapped.exchange(model="m", messages=messages) for _ in range(kept)]
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(held) / 1024


def record_in_text(*_: Any, **__: Any) -> None:
    """Put over ``create`` what the least tracer does: it keeps request and completion as text."""
    original = Completions.create
    kept = deque[str](maxlen=8)

    def create(self: Any, **keywords: Any) -> Any:
        kept.append(json.dumps(keywords["messages"]))
        given = original(self, **keywords)
        kept.append(given.model_dump_json())
        return given

    Completions.create = create  # type: ignore[method-assign]


def instrumentor(module: str) -> Callable[..., None] | None:
    """Return what attaches a real tracer to the SDK's classes; None where it is not installed."""
    try:
        found = importlib.import_module(module)
        attach: Callable[..., None] = found.OpenAIInstrumentor().instrument
    except ImportError:
        return None
    return attach


TRACERS = {
    "a function over create": record_in_text,
    "OpenInference": instrumentor("openinference.instrumentation.openai"),
    "OpenTelemetry openai-v2": instrumentor("opentelemetry.instrumentation.openai_v2"),
}


def measure_with_tracers() -> Iterator[tuple[str, float, float, float]]:
    """Measure the raw call, the typed reply and the completion, all under the same tracer.

    They are measured under our own instrumentation as well.
    """
    messages = [{"role": "user", "content": "tea?"}]
    definitions = [tool(0)]
    given: dict[str, Any] = {"model": "m", "messages": messages}
    providers: dict[str, Any] = {}

    with suppress(ImportError):
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        providers = {"tracer_provider": sdk.TracerProvider()}
        raw = client_over(RIGHT)
        plain = sr.wrap(client_over(RIGHT), tools=definitions)
        otel = importlib.import_module("strictreply.integrations.otel")
        ours = otel.instrument(plain, **providers)
        yield (
            "strictreply's own, raw without",
            *microseconds(
                lambda: raw.chat.completions.create(**given, tools=definitions),  # type: ignore[call-overload]
                lambda: ours.reply(**given),
                lambda: ours.create(**given),
            ),
        )

    for name, attach in TRACERS.items():
        if attach is None:
            continue

        kept = {kind: dict(vars(kind)) for kind in (Completions, openai.OpenAI)}
        attach(**providers)
        raw = client_over(RIGHT)
        wrapped = sr.wrap(client_over(RIGHT), tools=definitions)
        functions = (
            partial(raw.chat.completions.create, **given, tools=definitions),
            partial(wrapped.reply, **given),
            partial(wrapped.create, **given),
        )
        measured = microseconds(*functions)
        yield name, measured[0], measured[1], measured[2]

        for kind, members in kept.items():
            for member in ("create", "request"):
                if member in members:
                    setattr(kind, member, members[member])
                elif member in vars(kind):
                    delattr(kind, member)


def main() -> None:
    """Print the figures that have a target, then the tables."""
    print(
        f"openai {openai.__version__}; CPU microseconds a call, best of {ROUNDS} rounds; x is the "
        "ratio to raw"
    )
    print("  figure  target")

    for row in targets():
        verdict = "met   " if row.figure <= row.target else "MISSED"
        print(f"{row.figure:>8.2f} {row.target:>7.2f}  {verdict}  {row.what}")

    for api, cases, measured in (
        ("chat completions", CASES, measure),
        ("Responses", CASES[::2], measure_responses),
    ):
        print(f"\n{api}\nmessages  tools      raw    reply     x   create     x  1 retry  x 2 raw")
        for turns, tools in cases:
            raw, reply, create, retry = measured(turns, tools)
            print(
                f"{turns:>8} {tools:>6} {raw:>8.0f} {reply:>8.0f} {reply / raw:>5.2f} "
                f"{create:>8.0f} {create / raw:>5.2f} {retry:>8.0f} {retry / 2 / raw:>8.2f}"
            )

    print("\ngiven with every call")
    for what, ratio in measure_given_per_call():
        print(f"{ratio:>8.2f}  {what}")

    print("\nrecorded by a tracer; 1 message, 1 tool, raw with the same tracer")
    print("     raw    reply     x   create     x")
    for name, raw, reply, create in measure_with_tracers():
        row = f"{raw:>8.0f} {reply:>8.0f} {reply / raw:>5.2f} {create:>8.0f} {create / raw:>5.2f}"
        print(f"{row}  {name}")


if __name__ == "__main__":
    main()
