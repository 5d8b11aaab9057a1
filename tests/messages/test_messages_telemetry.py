"""Spans of calls over the Messages API are named as the conventions name those of Anthropic."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import strictreply as sr
from strictreply.integrations.otel import instrument
from support.anthropic_rules import RulesServer
from support.claude_runs import ASKED, memory_client, raw_client, search
from support.messages import use
from support.tracers.recorders import needs, spans

needs("opentelemetry.sdk")

BAD: Any = {
    "id": "msg_bad",
    "content": [use({"query": 1})],
    "usage": {
        "input_tokens": 20,
        "output_tokens": 7,
        "cache_read_input_tokens": 1000,
        "cache_creation_input_tokens": 300,
    },
}
GOOD: Any = {"id": "msg_good", "content": [use({"query": "tea"}, "toolu_b")]}


@pytest.mark.parametrize("kind", ["sync", "async", "stream"])
def test_a_call_and_its_asks_are_spans_of_anthropic(kind: str) -> None:
    """The provider, the operation, the parameters, the ends and the tokens of each ask."""
    provider, kept = spans()
    with RulesServer(BAD, GOOD) as server:
        asked: dict[str, Any] = {**ASKED, "messages": "find tea"}
        inner = memory_client(server) if kind == "async" else raw_client(server)
        client: Any = instrument(sr.wrap(inner, tools=[search]), tracer_provider=provider)
        if kind == "async":
            asyncio.run(client.reply(**asked))
        elif kind == "sync":
            client.reply(**asked)
        else:
            talk = [{"role": "user", "content": "find tea"}]
            events = list(client.messages.create(**asked | {"messages": talk}, stream=True))
            assert events[-1].type == "message_stop"

    assert server.refused == []
    call, first, second = sorted(kept.get_finished_spans(), key=lambda span: span.start_time)
    assert [call.name, first.name, second.name] == [
        "invoke_workflow strictreply",
        *["chat claude"] * 2,
    ]
    assert {span.attributes["gen_ai.provider.name"] for span in (call, first, second)} == {
        "anthropic"
    }
    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "claude",
        "gen_ai.request.max_tokens": 1000,
        "gen_ai.response.model": "claude",
    }
    for span in (first, second):
        assert {name: span.attributes[name] for name in said} == said

    ends = [span.attributes["gen_ai.response.finish_reasons"] for span in (first, second)]
    # the stream of a wrong call is stopped before its end
    assert ends == [("error",) if kind == "stream" else ("tool_use",), ("tool_use",)]
    assert first.attributes["gen_ai.response.id"] == "msg_bad"
    assert first.attributes["error.type"] == "args.type"
    counted = {
        name.removeprefix("gen_ai.usage."): value
        for name, value in first.attributes.items()
        if name.startswith("gen_ai.usage.")
    }
    cached = {"cache_read.input_tokens": 1000, "cache_creation.input_tokens": 300}
    assert counted == {"input_tokens": 1320, "output_tokens": 7} | cached
    assert second.attributes["gen_ai.usage.input_tokens"] == 10
    assert "gen_ai.usage.cache_read.input_tokens" not in second.attributes


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://api.anthropic.com", "anthropic"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock"),
        ("https://us-east5-aiplatform.googleapis.com", "gcp.vertex_ai"),
        ("http://localhost:4000", "anthropic"),
    ],
)
def test_the_provider_is_told_by_the_address(address: str, name: str) -> None:
    """Who serves a model of Anthropic's is known by the host; any other speaks its API."""
    provider, kept = spans()
    server = RulesServer(GOOD)
    inner = memory_client(server).with_options(base_url=address)
    client: Any = instrument(sr.wrap(inner, tools=[search]), tracer_provider=provider)
    asyncio.run(client.reply(**ASKED, messages="find tea"))
    assert {span.attributes["gen_ai.provider.name"] for span in kept.get_finished_spans()} == {name}
