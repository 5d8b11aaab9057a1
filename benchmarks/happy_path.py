"""CPU time of one validated call over the real SDK, beside the raw SDK call, in the same run.

Run: ``python benchmarks/happy_path.py``. The transport is a mock: only our work and the SDK's is measured. The last
table is of clients that a tracer records, in both columns; ``.venv-tracers/bin/python`` has real ones.
"""

from __future__ import annotations

import importlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

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
    properties = {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": 20}}
    parameters = {"type": "object", "properties": properties, "required": ["query"]}
    function = {"name": f"tool_{number}", "description": "Find things by name.", "parameters": parameters}
    return {"type": "function", "function": function}


def completion(arguments: dict[str, Any]) -> bytes:
    """Spell the response: one call of the first tool."""
    call = {"id": "call_1", "type": "function", "function": {"name": "tool_0", "arguments": json.dumps(arguments)}}
    return completion_of({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


def completion_of(message: dict[str, Any], ending: str) -> bytes:
    """Return the response around a message."""
    choice = {"index": 0, "finish_reason": ending, "message": message}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    response = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return json.dumps(response).encode()


def response(arguments: dict[str, Any]) -> bytes:
    """Spell the same of the Responses API."""
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "tool_0", "status": "completed"}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    around = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    return json.dumps(around | {"output": [item | {"arguments": json.dumps(arguments)}], "usage": usage}).encode()


RIGHT, WRONG = completion({"query": "tea", "limit": 5}), completion({"query": "tea", "limit": 99})


RESPONSE, WRONG_RESPONSE = response({"query": "tea", "limit": 5}), response({"query": "tea", "limit": 99})


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
    """Give the best CPU time of one call of each, in microseconds; the rounds are interleaved."""
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
    """Measure the raw call, ours with the typed reply, ours with the SDK's completion, and one correction."""
    messages = [{"role": "user" if turn % 2 else "assistant", "content": f"turn {turn}"} for turn in range(turns)]
    definitions = [tool(number) for number in range(tools)]
    raw, wrapped = client_over(RIGHT), sr.wrap(client_over(RIGHT), tools=definitions)
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
    items = [{"role": "user" if turn % 2 else "assistant", "content": f"turn {turn}"} for turn in range(turns)]
    flat = [{"type": "function", **tool(number)["function"], "strict": None} for number in range(tools)]
    raw, wrapped = client_over(RESPONSE), sr.wrap(client_over(RESPONSE), tools=flat, api="responses")
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
    """Measure what a program gives with every call, against the raw SDK given the same; and definitions a tool."""
    messages = [{"role": "user", "content": "tea?"}]
    answer = completion_of({"role": "assistant", "content": '{"query": "tea", "limit": 5}'}, "stop")
    found = {"type": "json_schema", "json_schema": {"name": "found", "schema": Find.model_json_schema()}}
    model_tool = openai.pydantic_function_tool(Find, name="tool_0")
    tools = sr.wrap(client_over(RIGHT))
    raw_tools, raw_answer, ours = client_over(RIGHT), client_over(answer), sr.wrap(client_over(answer))
    few, many = [tool(number) for number in range(100)], [tool(number) for number in range(1000)]
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


def record_in_text(*_: Any, **__: Any) -> None:
    """Put over ``create`` what the least tracer does: it keeps request and completion as text."""
    original, kept = Completions.create, deque[str](maxlen=8)

    def create(self: Any, **keywords: Any) -> Any:
        kept.append(json.dumps(keywords["messages"]))
        given = original(self, **keywords)
        kept.append(given.model_dump_json())
        return given

    Completions.create = create  # type: ignore[method-assign]


def instrumentor(module: str) -> Callable[..., None] | None:
    """Return what attaches a real tracer to the SDK's classes; None where it is not installed."""
    try:
        attach: Callable[..., None] = importlib.import_module(module).OpenAIInstrumentor().instrument
    except ImportError:
        return None
    return attach


TRACERS = {
    "a function over create": record_in_text,
    "OpenInference": instrumentor("openinference.instrumentation.openai"),
    "OpenTelemetry openai-v2": instrumentor("opentelemetry.instrumentation.openai_v2"),
}


def measure_with_tracers() -> Iterator[tuple[str, float, float, float]]:
    """Measure the raw call, the typed reply and the completion, all under the same tracer; and under ours."""
    messages, definitions = [{"role": "user", "content": "tea?"}], [tool(0)]
    given: dict[str, Any] = {"model": "m", "messages": messages}
    providers: dict[str, Any] = {}
    with suppress(ImportError):
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        providers = {"tracer_provider": sdk.TracerProvider()}
        raw, plain = client_over(RIGHT), sr.wrap(client_over(RIGHT), tools=definitions)
        ours = importlib.import_module("strictreply.integrations.otel").instrument(plain, **providers)
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
        raw, wrapped = client_over(RIGHT), sr.wrap(client_over(RIGHT), tools=definitions)
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
    """Print the tables."""
    print(f"openai {openai.__version__}; CPU microseconds a call, best of {ROUNDS} rounds; x is the ratio to raw")
    for api, cases, measured in (("chat completions", CASES, measure), ("Responses", CASES[::2], measure_responses)):
        print(f"{api}\nmessages  tools      raw    reply     x   create     x  1 retry  x 2 raw")
        for turns, tools in cases:
            raw, reply, create, retry = measured(turns, tools)
            row = f"{turns:>8} {tools:>6} {raw:>8.0f} {reply:>8.0f} {reply / raw:>5.2f} {create:>8.0f}"
            print(f"{row} {create / raw:>5.2f} {retry:>8.0f} {retry / 2 / raw:>8.2f}")
    print("\ngiven with every call")
    for what, ratio in measure_given_per_call():
        print(f"{ratio:>8.2f}  {what}")
    print("\nrecorded by a tracer; 1 message, 1 tool, raw with the same tracer\n     raw    reply     x   create     x")
    for name, raw, reply, create in measure_with_tracers():
        print(f"{raw:>8.0f} {reply:>8.0f} {reply / raw:>5.2f} {create:>8.0f} {create / raw:>5.2f}  {name}")


if __name__ == "__main__":
    main()
