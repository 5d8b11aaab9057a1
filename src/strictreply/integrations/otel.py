"""OpenTelemetry for wrapped clients.

It records a span for each reply, a span for each ask of that reply, and counters of what went
wrong.

Names are those of the semantic conventions for generative AI, at the version of ``SCHEMA_URL``, and
``strictreply.…`` where these have none; docs/telemetry.md lists them. No message, argument or
answer is recorded.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from strictreply import Attempt, CallFailed, Issue
from strictreply.core import CallPlan, JSONObject, Wrapped
from strictreply.core.forms import peek
from strictreply.integrations import load
from strictreply.wires import wire_named

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

W = TypeVar("W", bound=Wrapped[Any])

__all__ = ["instrument"]

_NAME = "strictreply"
# as model/manifest.yaml of open-telemetry/semantic-conventions-genai has it at 67dff024, which is
# the form that its RELEASING.md names
SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

# values of ``gen_ai.provider.name`` by the end of a host; any other is named for the API it speaks
_PROVIDERS = {
    "amazonaws.com": "aws.bedrock",
    "api.anthropic.com": "anthropic",
    "openai.azure.com": "azure.ai.openai",
    "api.deepseek.com": "deepseek",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
}

_OF_APIS = {"messages": "anthropic"}

_PARAMETERS = (
    "frequency_penalty",
    "max_tokens",
    "presence_penalty",
    "seed",
    "temperature",
    "top_k",
    "top_p",
)
_TOKEN_LIMITS = ("max_completion_tokens", "max_output_tokens")
ASKED = {
    **dict.fromkeys(_TOKEN_LIMITS, "gen_ai.request.max_tokens"),
    **{name: f"gen_ai.request.{name}" for name in _PARAMETERS},
}
# what the Messages API counts beside its input tokens, and the conventions among them
_CACHED = {
    "cache_read_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_creation_input_tokens": "gen_ai.usage.cache_creation.input_tokens",
}
OF_ATTEMPT = ("number", "tier", "scope", "escalation", "lenient", "dropped_params")
# exceptions are not recorded: they hold words of others
_QUIET: dict[str, Any] = {"record_exception": False, "set_status_on_exception": False}
_PORTS = {"http": 80, "https": 443}
_CALL = re.compile(r"/tool_calls/(\d+)")


def instrument(
    client: W,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    asks: bool | None = None,
) -> W:
    """Return a copy of a wrapped client whose replies are recorded with OpenTelemetry.

    Without providers the global ones are used. ``asks`` says whether each ask gets a span with its
    usage; None means where nobody else records it: not when ``create`` or a request passes what
    another program put in its way. A client that is instrumented already is returned as it is.

    Raises TypeError for a client that is not wrapped, and for an invalid provider (such as a
    tracer), ValueError for a client that is instrumented with other providers or another ``asks``,
    ImportError without ``strictreply[otel]``.
    """
    if getattr(client, "observed_by", None) is None:
        raise TypeError("instrument() takes a wrapped client: instrument(strictreply.wrap(client))")

    _refuse_other("tracer_provider", tracer_provider, "get_tracer")
    _refuse_other("meter_provider", meter_provider, "get_meter")

    wrapped: Any = client
    present = wrapped._guard.settings.telemetry  # noqa: SLF001 - who observes is not for users
    if not isinstance(present, OpenTelemetry):
        return client.observed_by(OpenTelemetry(tracer_provider, meter_provider, asks=asks))

    given = {"tracer_provider": tracer_provider, "meter_provider": meter_provider, "asks": asks}
    other = [name for name, value in given.items() if value not in (None, present.given[name])]
    if other:
        raise ValueError(
            f"the client is instrumented already, with another {' and another '.join(other)}: "
            "instrument the client that wrap() returned instead"
        )
    return client


def _refuse_other(name: str, provider: object, method: str) -> None:
    """Raise TypeError for what is given as a provider, but makes no tracer or meter."""
    if provider is None or callable(getattr(provider, method, None)):
        return

    kind = "TracerProvider" if method == "get_tracer" else "MeterProvider"
    raise TypeError(
        f"instrument() takes a {kind} as {name}=, not {type(provider).__name__}: "
        "give the provider, not what it makes"
    )


class OpenTelemetry:
    """The tracer and the counters of an instrumented client."""

    def __init__(
        self, tracers: TracerProvider | None, meters: MeterProvider | None, *, asks: bool | None
    ) -> None:
        self.trace: ModuleType = load("opentelemetry.trace")
        self._context: ModuleType = load("opentelemetry.context")
        # what the client was instrumented with, None for what was not given
        self.given: Mapping[str, Any] = {
            "tracer_provider": tracers,
            "meter_provider": meters,
            "asks": asks,
        }
        own = version(_NAME)
        self.tracer: Tracer = self.trace.get_tracer(_NAME, own, tracers, SCHEMA_URL)

        meter = load("opentelemetry.metrics").get_meter(_NAME, own, meters, SCHEMA_URL)
        counter = meter.create_counter
        rejected = "Tokens spent on replies that were not accepted."
        self.attempts: Counter = counter("strictreply.attempts", "{attempt}", "Asks, by outcome.")
        self.issues: Counter = counter("strictreply.issues", "{issue}", "Faults, by code and tool.")
        self.tokens: Counter = counter("strictreply.rejected.tokens", "{token}", rejected)
        self._asks = asks

    @contextmanager
    def call(self, ask: CallPlan, client: object, *, seen: bool) -> Generator[ObservedCall | None]:
        """Record one call: nothing of it where instrumentation is suppressed."""
        # the key has no public name yet; instrumentations import this one
        key = getattr(self._context, "_SUPPRESS_INSTRUMENTATION_KEY", "")
        if any(map(self._context.get_value, ("suppress_instrumentation", key))):
            yield None
            return

        common = _endpoint(client, ask.wire.name) | {
            "gen_ai.request.model": str(ask.base.model or "")
        }
        attributes = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": _NAME,
            **common,
        }
        span = self.tracer.start_span(f"invoke_workflow {_NAME}", attributes=attributes)
        is_recorded = not seen if self._asks is None else self._asks
        observed = ObservedCall(self, ask, common, span, is_recorded=is_recorded)

        # between the chunks of a stream the caller's own code runs, in the caller's own span
        try:
            with nullcontext() if ask.base.is_stream else self.trace.use_span(span, **_QUIET):
                yield observed
        except GeneratorExit:  # of a stream: the caller left, which is not a failure
            observed.close(())
            raise
        except BaseException as error:
            self.fail(span, error.reason if isinstance(error, CallFailed) else type(error).__name__)
            raise
        finally:
            observed.close()
            span.set_attribute("strictreply.attempts", observed.count)
            span.end()

    def fail(self, span: Span, kind: str) -> None:
        """Mark a span as failed, without a description."""
        span.set_attribute("error.type", kind)
        span.set_status(self.trace.StatusCode.ERROR)


class ObservedCall:
    """The asks of one call, as spans and counts."""

    def __init__(
        self,
        telemetry: OpenTelemetry,
        ask: CallPlan,
        common: JSONObject,
        parent: Span,
        *,
        is_recorded: bool,
    ) -> None:
        self._telemetry = telemetry
        self._common = common
        self._is_recorded = is_recorded
        self._parent: Context = telemetry.trace.set_span_in_context(parent)
        self._is_streamed = ask.base.is_stream
        self._declared = {tool.name for tool in ask.contract.tools}

        self._open: Span | None = None
        self._until: int | None = None
        self._cut = "_OTHER"
        self.count: int = 0

    @contextmanager
    def asking(self, request: JSONObject) -> Generator[None]:
        """Open the span of an ask and make it current; it is closed when the reply was judged."""
        if not self._is_recorded:
            yield
            return

        self.close()
        model = _model(request)
        attributes = {
            "gen_ai.operation.name": "chat",
            **self._common,
            "gen_ai.request.model": model,
        }
        for key, attribute in ASKED.items():
            if type(request.get(key)) in (int, float):
                attributes[attribute] = request[key]

        trace = self._telemetry.trace
        name = f"chat {model}".strip()
        start = self._telemetry.tracer.start_span
        self._open = start(name, self._parent, trace.SpanKind.CLIENT, attributes)

        try:
            with trace.use_span(self._open, end_on_exit=False, **_QUIET):
                yield
        except BaseException as error:
            self._cut = type(error).__name__
            raise
        finally:
            # a stream ends when it is judged
            self._until = None if self._is_streamed else time.time_ns()

    def judged(self, attempt: Attempt) -> None:
        """Count an attempt, and close its span with the outcome."""
        self.count += 1
        self._count(attempt)
        if self._open is not None:
            self._open.set_attributes(_of_response(attempt) | _of_attempt(attempt))

        codes = [issue.code for issue in attempt.issues]
        self.close(codes or re.findall(r"^\w+", attempt.failure or ""))

    def close(self, kinds: Sequence[str] | None = None) -> None:
        """Close the span of an ask, failed with the first of ``kinds``.

        ``kinds`` is None when the ask was never judged.
        """
        span = self._open
        self._open = None
        if span is None:
            return

        failed = [self._cut] if kinds is None else kinds
        if failed:
            self._telemetry.fail(span, failed[0])
        span.end(self._until)

    def _count(self, attempt: Attempt) -> None:
        names = ("gen_ai.provider.name", "gen_ai.request.model")
        attributes = {name: self._common[name] for name in names}

        if attempt.accepted:
            outcome = "accepted"
        else:
            outcome = "rejected" if attempt.failure is None else "failed"
        self._telemetry.attempts.add(1, attributes | {"strictreply.attempt.outcome": outcome})

        for issue in attempt.issues:
            tool = self._tool_of(issue, attempt)
            named = {} if tool is None else {"gen_ai.tool.name": tool}
            self._telemetry.issues.add(
                1, attributes | {"strictreply.issue.code": issue.code} | named
            )

        if not attempt.accepted:
            for kind, counted in _tokens(attempt):
                self._telemetry.tokens.add(counted, attributes | {"gen_ai.token.type": kind})

    def _tool_of(self, issue: Issue, attempt: Attempt) -> str | None:
        """Return the declared tool that an issue is about.

        None when it is about the reply itself, or about a name that the model made up.
        """
        place = _CALL.match(issue.path)
        if place is None or attempt.scope is not None:
            # a scope of several tools names none of them
            tool = (attempt.scope or "").partition("/")[0]
            return tool if tool in self._declared else None

        draft = wire_named(attempt.api).draft_in(attempt.raw)
        index = int(place[1])
        if draft is None or index >= len(draft.calls):
            return None

        name = draft.calls[index].name
        return name if isinstance(name, str) and name in self._declared else None


def _endpoint(client: object, api: str) -> JSONObject:
    """Return the attributes of where a client's requests go."""
    url = urlsplit(str(getattr(client, "base_url", "")))
    host = url.hostname or ""
    ends = (end for end in _PROVIDERS if host == end or host.endswith((f".{end}", f"-{end}")))
    provider = _PROVIDERS.get(next(ends, ""), _OF_APIS.get(api, "openai"))
    attributes: JSONObject = {"gen_ai.provider.name": provider}
    if host:
        attributes |= {"server.address": host, "server.port": url.port or _PORTS.get(url.scheme, 0)}
    return attributes


def _model(request: Mapping[str, object]) -> str:
    return str(request.get("model", ""))


def _of_response(attempt: Attempt) -> JSONObject:
    """Return the attributes of a response, with counts of tokens only where the API gave some."""
    reasons = wire_named(attempt.api).reasons(attempt.raw)
    attributes = {
        "gen_ai.response.id": peek(attempt.raw, "id"),
        "gen_ai.response.model": peek(attempt.raw, "model"),
    }

    found: JSONObject = {
        name: value for name, value in attributes.items() if isinstance(value, str)
    }
    if reasons:
        found["gen_ai.response.finish_reasons"] = reasons
    if attempt.usage.total_tokens:
        found |= {f"gen_ai.usage.{kind}_tokens": counted for kind, counted in _tokens(attempt)}
        found |= {_CACHED[name]: counted for name, counted in _cached(attempt).items()}

    return found


def _tokens(attempt: Attempt) -> tuple[tuple[str, int], ...]:
    asked = attempt.usage.prompt_tokens + sum(_cached(attempt).values())
    return ("input", asked), ("output", attempt.usage.completion_tokens)


def _cached(attempt: Attempt) -> dict[str, int]:
    """Return the tokens of a cache that are not among those of the request."""
    usage = peek(attempt.raw, "usage")
    counts = {name: peek(usage, name) for name in _CACHED} if attempt.api == "messages" else {}
    return {name: count for name, count in counts.items() if type(count) is int and count > 0}


def _of_attempt(attempt: Attempt) -> JSONObject:
    """Return the attributes of the outcome of an ask, without those that say nothing."""
    attributes = {f"strictreply.attempt.{name}": getattr(attempt, name) for name in OF_ATTEMPT}
    attributes["strictreply.issue.codes"] = tuple(
        dict.fromkeys(issue.code for issue in attempt.issues)
    )
    return {name: value for name, value in attributes.items() if value is not None and value != ()}
