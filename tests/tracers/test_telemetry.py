"""Our own telemetry: one golden trace, spans that always end, usage counted once.

Where another program records, it is silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
from types import SimpleNamespace
from typing import Any

import anyio
import openai
import pytest
from tenacity import wait_none

import strictreply as sr
from strictreply.integrations.otel import instrument
from strictreply.testing import ScriptedModel, ok
from support.scripted import SCHEMA, USER, Server, call, completion, http, status
from support.tracers.recorded import ASK, GOOD, PLACE, POLICY, SEARCH, WRONG, Recorded
from support.tracers.recorders import attached, needs, spans

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(params=["sync", "async"])
def twin(request: pytest.FixtureRequest) -> str:
    """Both twins."""
    needs("opentelemetry.sdk")
    return str(request.param)


def test_the_golden_trace(twin: str) -> None:
    """A reply with one correction: a parent without usage, and a client span for each ask with its
    own.
    """
    recorded = Recorded(Server(WRONG, GOOD), twin)
    assert recorded.reply().args == {"query": "tea", "limit": 9}
    parent, first, second = recorded.spans.values()
    assert [one.name for one in (parent, first, second)] == [
        "invoke_workflow strictreply",
        "chat m",
        "chat m",
    ]
    assert [one.kind.name for one in (parent, first, second)] == ["INTERNAL", "CLIENT", "CLIENT"]

    assert parent.parent is None
    assert {one.parent.span_id for one in (first, second)} == {parent.context.span_id}
    assert dict(parent.attributes) == PLACE | {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "strictreply",
        "gen_ai.request.model": "m",
        "strictreply.mode": "enforce",
        "strictreply.call.outcome": "fixed",
        "strictreply.attempts": 2,
    }

    asked = PLACE | {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "strictreply.mode": "enforce",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 40,
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "m",
        "gen_ai.response.finish_reasons": ("tool_calls",),
    }
    assert dict(first.attributes) == asked | {
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "strictreply.attempt.number": 1,
        "strictreply.attempt.tier": 0,
        "strictreply.issue.codes": ("args.maximum",),
        "error.type": "args.maximum",
    }

    assert dict(second.attributes) == asked | {
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 7,
        "strictreply.attempt.number": 2,
        "strictreply.attempt.tier": 1,
        "strictreply.attempt.scope": "search",
    }
    assert [one.status.status_code.name for one in (parent, first, second)] == [
        "UNSET",
        "ERROR",
        "UNSET",
    ]
    assert not any(one.events for one in (parent, first, second))
    assert recorded.counts == {
        ("strictreply.attempts", "search", "rejected"): 1,
        ("strictreply.attempts", "search", "accepted"): 1,
        ("strictreply.issues", "search", "args.maximum"): 1,
        ("strictreply.rejected.tokens", "input", "search", "args.maximum"): 10,
        ("strictreply.rejected.tokens", "output", "search", "args.maximum"): 5,
        ("strictreply.calls", "search", "fixed", "args.maximum"): 1,
        ("strictreply.call.attempts", "search", "fixed"): 1,
        ("strictreply.call.duration", "search", "fixed"): 1,
    }


def test_a_rejection_names_its_reason_and_its_codes(twin: str) -> None:
    """The parent ends with the reason of the error; each ask with the code of its first fault."""
    recorded = Recorded(Server(WRONG), twin, policy=sr.RetryPolicy(max_retries=1))
    with pytest.raises(sr.ReplyRejected):
        recorded.reply()
    parent, *asks = recorded.spans.values()
    assert parent.attributes["error.type"] == "retries"
    assert parent.status.status_code.name == "ERROR"
    assert [one.attributes["error.type"] for one in asks] == ["args.maximum", "args.maximum"]


def test_no_word_that_only_the_model_wrote_is_recorded() -> None:
    """A tool that was never declared has no name in spans and counters; messages and arguments are
    nowhere.
    """
    invented = completion(calls=[call("zq_invented", {"zq_key": "zq_value"})])
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(invented), policy=sr.RetryPolicy(max_retries=0))
    with pytest.raises(sr.ReplyRejected):
        recorded.reply()
    shown = str([span.to_json() for span in recorded.spans.values()]) + str(recorded.counts)
    assert "tool.unknown" in shown
    assert not [word for word in ("zq_", "find tea", "be brief") if word in shown]


def test_a_failure_of_the_transport_is_its_kind(twin: str) -> None:
    """The server's words are recorded nowhere, the kind of failure on each ask and on the reply."""
    down = status(503, {"error": {"message": "zq words of the server"}})
    recorded = Recorded(
        Server(down), twin, policy=sr.RetryPolicy(wait=wait_none(), transport_retries=1)
    )

    with pytest.raises(openai.InternalServerError):
        recorded.reply()

    parent, *asks = recorded.spans.values()
    assert parent.attributes["error.type"] == "server_error"
    assert [one.attributes["error.type"] for one in asks] == ["server_error", "server_error"]
    assert "zq words" not in str([span.to_json() for span in recorded.spans.values()])

    assert recorded.counts["strictreply.attempts", "failed"] == 2


def test_a_deadline_ends_the_spans() -> None:
    """An ask that is cut at the deadline ends as a timeout, and the reply with its reason."""
    needs("opentelemetry.sdk")
    server = Server(GOOD)

    async def forever(_request: Any) -> Any:
        await anyio.sleep_forever()

    server.ahandle = forever  # type: ignore[method-assign, assignment]
    recorded = Recorded(server, "async", policy=sr.RetryPolicy(deadline=0.01))

    with pytest.raises(sr.ReplyHalted):
        recorded.reply()

    parent, asked = recorded.spans.values()
    assert (parent.attributes["error.type"], asked.attributes["error.type"]) == (
        "deadline",
        "timeout",
    )


def test_cancellation_ends_the_spans() -> None:
    """A task that is cancelled while it asks leaves no span open, and nothing current."""
    needs("opentelemetry.sdk")
    server = Server(GOOD)
    asked = anyio.Event()

    async def forever(_request: Any) -> Any:
        asked.set()
        await anyio.sleep_forever()

    server.ahandle = forever  # type: ignore[method-assign, assignment]

    async def cancelled(recorded: Recorded) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: recorded.client.reply(**ASK))
            await asked.wait()
            tasks.cancel_scope.cancel()

    recorded = Recorded(server, "async")
    asyncio.run(cancelled(recorded))
    assert [one.attributes["error.type"] for one in recorded.spans.values()] == [
        "CancelledError",
        "CancelledError",
    ]


def test_a_bug_in_a_check_ends_the_spans(twin: str) -> None:
    """An exception that is no verdict passes through, and the ask that it was about is closed."""

    def broken(_args: Any) -> None:
        raise ZeroDivisionError

    recorded = Recorded(Server(GOOD), twin)
    with pytest.raises(ZeroDivisionError):
        recorded.reply(tools=[sr.Tool.from_json_schema("search", SCHEMA, check=broken)])
    assert [one.status.status_code.name for one in recorded.spans.values()] == ["ERROR", "ERROR"]


def test_what_is_made_inside_an_ask_is_its_child(twin: str) -> None:
    """The span of an ask is current while its request is sent, that of the reply between asks."""
    server = Server(WRONG, GOOD)
    recorded = Recorded(server, twin)
    tracer: Any = recorded.provider.get_tracer("test")
    handle = server.handle

    def traced(request: Any) -> Any:
        with tracer.start_as_current_span("HTTP"):
            return handle(request)

    async def atraced(request: Any) -> Any:
        return traced(request)

    server.handle, server.ahandle = traced, atraced  # type: ignore[method-assign]
    settings: dict[str, Any] = {
        "tools": [SEARCH],
        "policy": POLICY,
        "on_attempt": lambda _: tracer.start_span("between").end(),
    }

    inner: Any = server.client() if twin == "sync" else server.async_client()
    recorded.client = instrument(sr.wrap(inner, **settings), tracer_provider=recorded.provider)
    recorded.reply()
    found = recorded.spans
    parents = {name: span.parent and span.parent.span_id for name, span in found.items()}
    assert parents["HTTP"] == found["chat m"].context.span_id

    assert parents["HTTP*"] == found["chat m*"].context.span_id
    assert (
        parents["between"]
        == parents["between*"]
        == found["invoke_workflow strictreply"].context.span_id
    )


@pytest.mark.parametrize(
    "recorder", ["openinference", "opentelemetry", "traceloop", "logfire_client", "langsmith"]
)
def test_another_instrumentation_that_records_the_asks_is_left_alone_with_them(
    recorder: str, twin: str
) -> None:
    """Then only the reply has a span of ours, and the counters count; ``asks=True`` records all the
    same.
    """
    for asks, names in ((None, []), (True, ["chat m", "chat m*"])):
        with attached(recorder) as at_work:
            recorded = Recorded(Server(WRONG, GOOD), twin, patch=at_work.patch, asks=asks)
            recorded.reply()
            assert [one.tokens for one in at_work.asked()] == [(10, 5), (20, 7)]
        assert list(recorded.spans) == ["invoke_workflow strictreply", *names]
        assert recorded.spans["invoke_workflow strictreply"].attributes["strictreply.attempts"] == 2
        assert recorded.counts["strictreply.attempts", "search", "accepted"] == 1


def test_a_hook_of_a_subclass_is_no_tracer() -> None:
    """A client that signs what it sends, by the SDK's hook for that, is recorded as any."""
    needs("opentelemetry.sdk")

    class Signing(openai.OpenAI):
        """A client with a hook."""

        def _prepare_options(self, options: Any) -> Any:
            return super()._prepare_options(options)

    made: dict[str, Any] = {"api_key": "none", "base_url": "http://model.invalid/v1"}
    recorded = Recorded(
        Server(GOOD), patch=lambda client: Signing(**made, http_client=client._client)
    )
    recorded.reply()
    assert list(recorded.spans) == ["invoke_workflow strictreply", "chat m"]


def test_asks_are_left_out_when_told() -> None:
    """``asks=False`` is for those whose instrumentation stands where we cannot see it."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD), asks=False)
    recorded.reply()
    assert list(recorded.spans) == ["invoke_workflow strictreply"]


def test_nothing_is_recorded_where_instrumentation_is_suppressed(twin: str) -> None:
    """OpenTelemetry's own key silences us as it does every instrumentation."""
    context: Any = importlib.import_module("opentelemetry.context")
    recorded = Recorded(Server(GOOD), twin)

    token = context.attach(context.set_value("suppress_instrumentation", True))
    try:
        recorded.reply()
    finally:
        context.detach(token)

    assert not recorded.spans
    assert not recorded.counts


def test_the_http_spans_of_opentelemetry_are_children_of_the_asks(twin: str) -> None:
    """The real instrumentation of the HTTP library under the SDK, whose spans have the asks as
    parents.
    """
    needs("opentelemetry.instrumentation.httpx")
    module: Any = importlib.import_module("opentelemetry.instrumentation.httpx")
    instrumentor = getattr(module, "HTTPX2ClientInstrumentor", module.HTTPXClientInstrumentor)
    if http.__name__ == "httpx2" and instrumentor is module.HTTPXClientInstrumentor:
        pytest.skip("this instrumentation knows only httpx")

    recorded = Recorded(Server(WRONG, GOOD), twin)
    instrumentor.instrument_client(
        recorded.client.unwrapped._client, tracer_provider=recorded.provider
    )
    recorded.reply()
    found = recorded.spans
    assert found["POST"].parent.span_id == found["chat m"].context.span_id

    assert found["POST*"].parent.span_id == found["chat m*"].context.span_id


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("https://me.openai.azure.com/openai", ("azure.ai.openai", "me.openai.azure.com", 443)),
        ("https://api.groq.com/openai/v1", ("groq", "api.groq.com", 443)),
        (
            "https://europe-aiplatform.googleapis.com/v1",
            ("gcp.vertex_ai", "europe-aiplatform.googleapis.com", 443),
        ),
        ("http://127.0.0.1:8000/v1", ("openai", "127.0.0.1", 8000)),
        (
            "https://notapi.groq.com.evil.invalid/v1",
            ("openai", "notapi.groq.com.evil.invalid", 443),
        ),
    ],
)
def test_the_provider_is_told_by_the_address(address: str, told: tuple[str, str, int]) -> None:
    """A well-known host names its provider; any other speaks the API of openai."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD), patch=lambda client: client.with_options(base_url=address))
    recorded.reply()
    found = recorded.spans["chat m"].attributes
    assert (found["gen_ai.provider.name"], found["server.address"], found["server.port"]) == told


def test_a_client_that_is_not_wrapped_is_refused() -> None:
    """The error says what to do."""
    needs("opentelemetry.sdk")
    with pytest.raises(TypeError, match=r"strictreply\.wrap"):
        instrument(SimpleNamespace())  # type: ignore[type-var]


def test_copies_of_an_instrumented_client_record_too() -> None:
    """``with_options`` keeps the telemetry; the client that was instrumented stays as it was."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD))
    recorded.client.with_options(timeout=3).reply(**ASK)
    assert list(recorded.spans) == ["invoke_workflow strictreply", "chat m"]


SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"


def test_the_version_of_the_names_is_told() -> None:
    """Spans and counters carry the URL of the schema that their names are from."""
    needs("opentelemetry.sdk")
    recorded = Recorded(Server(GOOD))
    recorded.reply()
    scopes = [one.instrumentation_scope for one in recorded.kept.get_finished_spans()]
    data = recorded.reader.get_metrics_data()
    scopes += [one.scope for one in data.resource_metrics[0].scope_metrics]
    assert [(one.name, one.schema_url) for one in scopes] == [("strictreply", SCHEMA_URL)] * 3


@pytest.mark.parametrize("name", ["tracer_provider", "meter_provider"])
def test_what_a_provider_makes_is_no_provider(name: str) -> None:
    """A tracer or a meter in the place of its provider is refused, with what to give."""
    needs("opentelemetry.sdk")
    provider, _ = spans()
    wrong: Any = {name: provider.get_tracer("app")}
    refused = rf"{name}= must be a \w+, not \w*Tracer: pass the provider"
    with pytest.raises(TypeError, match=refused):
        instrument(sr.wrap(Server(GOOD).client()), **wrong)


def test_instrumenting_twice_keeps_the_first_providers(twin: str) -> None:
    """A second call without providers, or with the same, changes nothing; with others it is refused
    with what differs, and the first go on recording.
    """
    recorded = Recorded(Server(GOOD, GOOD), twin)
    first = recorded.client
    recorded.client = instrument(instrument(first), tracer_provider=recorded.provider)
    recorded.reply()
    assert list(recorded.spans) == ["invoke_workflow strictreply", "chat m"]
    assert recorded.counts["strictreply.attempts", "search", "accepted"] == 1

    other, _ = spans()
    with pytest.raises(ValueError, match="another tracer_provider and another asks"):
        instrument(first, tracer_provider=other, asks=False)
    with pytest.raises(ValueError, match="another tracer_provider"):
        instrument(first.with_options(timeout=3), tracer_provider=other)

    recorded.reply()
    assert len(recorded.spans) == 4


def left_early(client: Any, way: str, leave: str) -> None:
    """Open a stream in one of its ways, take one event, and leave it."""
    ask = {"model": "m", "messages": USER}
    source = client.stream(**ask) if way == "stream" else client.create(stream=True, **ask)
    next(iter(source))
    if leave == "close":
        source.close()
    del source
    gc.collect()


async def aleft_early(client: Any, way: str, leave: str) -> None:
    """Do the same with an async client."""
    ask = {"model": "m", "messages": USER}
    source = client.stream(**ask) if way == "stream" else await client.create(stream=True, **ask)
    await anext(aiter(source))
    if leave == "close":
        await (source.aclose() if hasattr(source, "aclose") else source.close())
    del source
    gc.collect()
    await asyncio.sleep(0)


@pytest.mark.parametrize("leave", ["close", "drop"])
@pytest.mark.parametrize("way", ["stream", "create"])
@pytest.mark.usefixtures("fresh_heap")
def test_a_stream_that_the_caller_leaves_is_no_error(twin: str, way: str, leave: str) -> None:
    """Closed early or dropped, the spans of a stream end without an error."""
    provider, kept = spans()
    model = ScriptedModel(then=ok.answer("a long answer of several words"))
    with model.openai() if twin == "sync" else contextlib.nullcontext(model.async_openai()) as sdk:
        client: Any = instrument(sr.wrap(sdk), tracer_provider=provider)
        if way == "create":
            client = client.chat.completions

        if twin == "sync":
            left_early(client, way, leave)
        else:
            asyncio.run(aleft_early(client, way, leave))

    found = kept.get_finished_spans()
    assert [one.name for one in found] == ["chat m", "invoke_workflow strictreply"]
    assert [one.status.status_code.name for one in found] == ["UNSET", "UNSET"]
    assert all("error.type" not in one.attributes for one in found)
