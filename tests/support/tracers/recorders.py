"""The real programs that record an SDK's calls, each attached in its own way.

What each recorded is read as asks. Nothing here connects: what they would send stays in memory.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import openai
import pytest
from openai.resources.chat.completions import AsyncCompletions, Completions

LANE = "STRICTREPLY_TRACERS_LANE"
"""Set where every recorder must be installed: nothing skips there."""

_PATCHED = (
    *(openai.OpenAI, openai.AsyncOpenAI, openai.AzureOpenAI, openai.AsyncAzureOpenAI),
    *(openai._base_client.SyncAPIClient, openai._base_client.AsyncAPIClient),
    *(Completions, AsyncCompletions),
)
_BEFORE = {kind: dict(vars(kind)) for kind in _PATCHED}


@dataclass(frozen=True)
class AcceptedReply:
    """One recorded ask.

    It has all that was recorded of what was sent and what came, as text, and its tokens.
    """

    seen: str
    tokens: tuple[int | None, int | None]


@dataclass
class Attached:
    """A recorder at work.

    ``patch`` gives the client to use, ``asked`` reads what was recorded so far.
    """

    asked: Callable[[], list[AcceptedReply]]
    patch: Callable[[Any], Any] = field(default=lambda client: client)


def needs(module: str) -> None:
    """Skip where a recorder is not installed; in its own lane it must be."""
    if LANE not in os.environ:
        pytest.importorskip(
            module, reason=f"{module} is in the lane of the tracers: make test-tracers"
        )


@contextmanager
def sdk_left_as_it_was() -> Iterator[None]:
    """Take every patch of the SDK's classes back."""
    try:
        yield
    finally:
        for kind, members in _BEFORE.items():
            for name in vars(kind).keys() - members.keys() - {"__abstractmethods__", "_abc_impl"}:
                delattr(kind, name)

            for name, member in members.items():
                if vars(kind)[name] is not member:
                    setattr(kind, name, member)


@contextmanager
def attached(recorder: str) -> Iterator[Attached]:
    """Put a recorder to work."""
    with sdk_left_as_it_was(), RECORDERS[recorder]() as at_work:
        yield at_work


def spans() -> tuple[Any, Any]:
    """Make a provider of spans that keeps them, and what it keeps."""
    needs("opentelemetry.sdk")
    sdk = importlib.import_module("opentelemetry.sdk.trace")
    export = "opentelemetry.sdk.trace.export"
    kept = importlib.import_module(f"{export}.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(importlib.import_module(export).SimpleSpanProcessor(kept))
    return provider, kept


def read_spans(kept: Any, of: str, prompt: str, completion: str) -> list[AcceptedReply]:
    """Read the spans that have the attribute ``of`` as asks.

    The other two arguments name the attributes of the tokens.
    """
    found = [dict(span.attributes) for span in kept.get_finished_spans()]
    return [
        AcceptedReply(json.dumps(each, default=str), (each.get(prompt), each.get(completion)))
        for each in found
        if of in each
    ]


_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")


@contextmanager
def openinference() -> Iterator[Attached]:
    """OpenInference patches ``OpenAI.request``."""
    needs("openinference.instrumentation.openai")
    provider, kept = spans()
    instrumentor = importlib.import_module(
        "openinference.instrumentation.openai"
    ).OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)

    tokens = ("llm.token_count.prompt", "llm.token_count.completion")
    yield Attached(lambda: read_spans(kept, "llm.model_name", *tokens))
    instrumentor.uninstrument()


@contextmanager
def opentelemetry() -> Iterator[Attached]:
    """OpenTelemetry's own instrumentation patches ``Completions.create``."""
    needs("opentelemetry.instrumentation.openai_v2")
    provider, kept = spans()
    chosen = {
        "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only",
    }

    with pytest.MonkeyPatch.context() as patch:
        for name, value in chosen.items():
            patch.setenv(name, value)

        stability = importlib.import_module("opentelemetry.instrumentation._semconv")
        patch.setattr(stability._OpenTelemetrySemanticConventionStability, "_initialized", False)
        instrumentor = importlib.import_module(
            "opentelemetry.instrumentation.openai_v2"
        ).OpenAIInstrumentor()
        instrumentor.instrument(tracer_provider=provider)

        yield Attached(lambda: read_spans(kept, "gen_ai.operation.name", *_TOKENS))
        instrumentor.uninstrument()


@contextmanager
def traceloop() -> Iterator[Attached]:
    """Traceloop's instrumentation patches ``Completions.create`` and ``Completions.parse``."""
    needs("opentelemetry.instrumentation.openai.v1")
    provider, kept = spans()
    instrumentor = importlib.import_module(
        "opentelemetry.instrumentation.openai"
    ).OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield Attached(lambda: read_spans(kept, "gen_ai.operation.name", *_TOKENS))
    instrumentor.uninstrument()


def _logfire(*, over_all: bool) -> Any:
    needs("logfire")
    _, kept = spans()
    logfire = importlib.import_module("logfire")
    export = importlib.import_module("opentelemetry.sdk.trace.export")

    chosen = {"send_to_logfire": False, "console": False, "inspect_arguments": False, "local": True}
    at_work = logfire.configure(
        **chosen, additional_span_processors=[export.SimpleSpanProcessor(kept)]
    )

    if over_all:
        at_work.instrument_openai()

    def patch(client: Any) -> Any:
        if not over_all:
            at_work.instrument_openai(client)
        return client

    return Attached(lambda: read_spans(kept, "gen_ai.operation.name", *_TOKENS), patch)


@contextmanager
def logfire_client() -> Iterator[Attached]:
    """Logfire puts an attribute ``request`` on the client that it is given."""
    yield _logfire(over_all=False)


@contextmanager
def logfire_classes() -> Iterator[Attached]:
    """Logfire patches ``OpenAI.request`` where it is given no client."""
    yield _logfire(over_all=True)


@cache
def _langfuse() -> tuple[Any, Any]:
    """Start langfuse once, since a key has one client in a process.

    Its import patches the SDK, which is taken back.
    """
    _, kept = spans()
    library = importlib.import_module("langfuse")
    at_work = library.Langfuse(
        public_key="pk", secret_key="none", base_url="http://127.0.0.1:9", span_exporter=kept
    )
    with sdk_left_as_it_was():
        importlib.import_module("langfuse.openai")
    return at_work, kept


@contextmanager
def langfuse() -> Iterator[Attached]:
    """Attach langfuse, a drop-in.

    It patches ``Completions.create`` and ``Completions.parse`` when it is imported.
    """
    needs("langfuse")
    at_work, kept = _langfuse()
    importlib.import_module("langfuse.openai").register_tracing()

    def asked() -> list[AcceptedReply]:
        at_work.flush()
        found = []

        for span in kept.get_finished_spans():
            usage = json.loads(span.attributes.get("langfuse.observation.usage_details", "{}"))
            tokens = (
                usage.get("prompt_tokens", usage.get("input")),
                usage.get("completion_tokens", usage.get("output")),
            )
            found.append(AcceptedReply(json.dumps(dict(span.attributes), default=str), tokens))

        return found

    kept.clear()
    yield Attached(asked)
    at_work.flush()


@contextmanager
def sentry() -> Iterator[Attached]:
    """Sentry patches ``Completions.create``."""
    needs("sentry_sdk")
    library = importlib.import_module("sentry_sdk")
    integration = importlib.import_module("sentry_sdk.integrations.openai").OpenAIIntegration
    kept: list[Mapping[str, Any]] = []

    def keep(event: Any, _hint: Any) -> None:
        kept.extend(event.get("spans", ()))

    library.init(
        dsn="http://none@127.0.0.1:9/1",
        traces_sample_rate=1.0,
        send_default_pii=True,
        default_integrations=False,
        integrations=[integration()],
        before_send_transaction=keep,
        transport=lambda _: None,
    )

    # It patches once in a process.
    if vars(Completions)["create"] is _BEFORE[Completions]["create"]:
        integration.setup_once()

    with library.start_transaction(op="test", name="test") as transaction:

        def asked() -> list[AcceptedReply]:
            transaction.finish()
            of_calls = [one["data"] for one in kept if one.get("op") == "gen_ai.chat"]
            return [
                AcceptedReply(json.dumps(each, default=str), tuple(map(each.get, _TOKENS)))
                for each in of_calls
            ]

        yield Attached(asked)

    library.get_client().close()


@contextmanager
def langsmith() -> Iterator[Attached]:
    """Attach langsmith to a client.

    It puts attributes ``create`` and ``parse`` on the completions of the client that it is given.
    """
    needs("langsmith")
    wrappers = importlib.import_module("langsmith.wrappers")
    runs: dict[Any, dict[str, Any]] = {}

    class Kept(importlib.import_module("langsmith").Client):  # type: ignore[misc]
        """A client of their service that keeps what it is given."""

        def create_run(self, *, id: Any, **run: Any) -> None:  # noqa: A002 - their name
            """Begin a run."""
            runs[id] = {**run}

        def update_run(self, run_id: Any, **run: Any) -> None:
            """End a run."""
            runs[run_id] |= {name: value for name, value in run.items() if value is not None}

    kept = Kept(api_url="http://127.0.0.1:9", api_key="none", auto_batch_tracing=False)

    def asked() -> list[AcceptedReply]:
        found = []
        for run in runs.values():
            usage = (run.get("outputs") or {}).get("usage_metadata") or {}
            found.append(
                AcceptedReply(
                    json.dumps(run, default=str),
                    (usage.get("input_tokens"), usage.get("output_tokens")),
                )
            )

        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANGSMITH_TRACING", "true")
        importlib.import_module("langsmith.utils").get_env_var.cache_clear()
        yield Attached(
            asked, lambda client: wrappers.wrap_openai(client, tracing_extra={"client": kept})
        )

    importlib.import_module("langsmith.utils").get_env_var.cache_clear()


RECORDERS: dict[str, Callable[[], Any]] = {
    each.__name__: each
    for each in (
        *(
            openinference,
            opentelemetry,
            traceloop,
            logfire_client,
            logfire_classes,
            langfuse,
            sentry,
            langsmith,
        ),
    )
}
