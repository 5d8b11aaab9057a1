"""OpenTelemetry for wrapped clients.

It records a span for each call, a span for each request of the call, and metrics of faults, costs
and times.

The names are those of the semantic conventions for generative AI, at the version of ``SCHEMA_URL``;
other names begin with ``strictreply.``. docs/telemetry.md lists them. Messages, arguments and
answers are never recorded.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from strictreply import Attempt, CallFailed
from strictreply.core import CallPlan, JSONObject, Wrapped
from strictreply.core.calls import unharmed
from strictreply.core.forms import peek
from strictreply.integrations import load
from strictreply.integrations._otel_metrics import (
    Attributes,
    CallEnding,
    EndedCall,
    GivenAttributes,
    Metrics,
    is_attribute,
    read_attributes,
    tokens_of,
)
from strictreply.wires import wire_named

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

W = TypeVar("W", bound=Wrapped[Any])

__all__ = ["instrument"]

_NAME = "strictreply"
# from model/manifest.yaml of open-telemetry/semantic-conventions-genai at 67dff024, in the form of
# its RELEASING.md
SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

# ``gen_ai.provider.name`` by the end of a host name; for other hosts the API determines it
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
# tokens that the Messages API does not include in its input tokens
_CACHED = {
    "cache_read_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_creation_input_tokens": "gen_ai.usage.cache_creation.input_tokens",
}
OF_ATTEMPT = ("number", "tier", "scope", "escalation", "lenient", "dropped_params")
# exceptions are not recorded, because their text may contain foreign text
_QUIET: dict[str, Any] = {"record_exception": False, "set_status_on_exception": False}
_PORTS = {"http": 80, "https": 443}


def instrument(
    client: W,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    asks: bool | None = None,
    attributes: GivenAttributes | None = None,
) -> W:
    """Return a copy of a wrapped client whose calls are recorded with OpenTelemetry.

    - ``client`` is a client that ``wrap`` returned; it is not changed.
    - ``tracer_provider`` makes the spans; None means the global one.
    - ``meter_provider`` makes the metrics; None means the global one.
    - ``asks`` says whether each request gets a span with its usage. None means only if no other
      program records it: there is no such span if another program has patched ``create`` or the
      way of its requests.
    - ``attributes`` are added to all spans and metrics: a mapping of names to str, int, float or
      bool, or a sync function that returns one and is called once for each call. If it raises or
      returns a wrong value, the type of the error or value is logged and it is left out.

    A client that is already instrumented with the same arguments is returned unchanged.

    Raises TypeError for a client that is not wrapped, for a wrong provider (such as a tracer) and
    for a wrong mapping; ValueError for a client that is already instrumented with other arguments;
    ImportError without ``strictreply[otel]``.
    """
    if getattr(client, "observed_by", None) is None:
        raise TypeError("instrument() needs a wrapped client: instrument(strictreply.wrap(client))")

    _refuse_other("tracer_provider", tracer_provider, "get_tracer")
    _refuse_other("meter_provider", meter_provider, "get_meter")
    _refuse_attributes(attributes)

    wrapped: Any = client
    present = wrapped._guard.settings.telemetry  # noqa: SLF001 - who observes is not for users
    if not isinstance(present, OpenTelemetry):
        telemetry = OpenTelemetry(tracer_provider, meter_provider, asks=asks, attributes=attributes)
        return client.observed_by(telemetry)

    given = {
        "tracer_provider": tracer_provider,
        "meter_provider": meter_provider,
        "asks": asks,
        "attributes": attributes,
    }
    other = [name for name, value in given.items() if value not in (None, present.given[name])]
    if other:
        raise ValueError(
            f"the client is already instrumented with another {' and another '.join(other)}: "
            "instrument the client that wrap() returned instead"
        )
    return client


def _refuse_other(name: str, provider: object, method: str) -> None:
    """Raise TypeError for an object that is not a provider."""
    if provider is None or callable(getattr(provider, method, None)):
        return

    kind = "TracerProvider" if method == "get_tracer" else "MeterProvider"
    raise TypeError(
        f"{name}= must be a {kind}, not {type(provider).__name__}: pass the provider, not a "
        "tracer or meter of it"
    )


def _refuse_attributes(attributes: object) -> None:
    """Raise TypeError unless this is a mapping of attributes or a sync function."""
    if isinstance(attributes, Mapping):
        wrong = [value for name, value in attributes.items() if not is_attribute(name, value)]
        if wrong:
            raise TypeError(
                "the names in attributes= must be str, and the values str, int, float or bool, "
                f"not {type(wrong[0]).__name__}"
            )
    elif attributes is not None and (
        not callable(attributes) or inspect.iscoroutinefunction(attributes)
    ):
        raise TypeError(
            "attributes= must be a mapping, or a sync function that returns one, "
            f"not {type(attributes).__name__}"
        )


class OpenTelemetry:
    """The tracer and the metrics of an instrumented client."""

    def __init__(
        self,
        tracers: TracerProvider | None,
        meters: MeterProvider | None,
        *,
        asks: bool | None,
        attributes: GivenAttributes | None = None,
    ) -> None:
        self.trace: ModuleType = load("opentelemetry.trace")
        self._context: ModuleType = load("opentelemetry.context")
        # the arguments of instrument(), None for those that were not given
        self.given: Mapping[str, Any] = {
            "tracer_provider": tracers,
            "meter_provider": meters,
            "asks": asks,
            "attributes": attributes,
        }
        own = version(_NAME)
        self.tracer: Tracer = self.trace.get_tracer(_NAME, own, tracers, SCHEMA_URL)

        meter = load("opentelemetry.metrics").get_meter(_NAME, own, meters, SCHEMA_URL)
        self.metrics: Metrics = Metrics(meter)
        self._asks = asks
        self._attributes = attributes

    @contextmanager
    def call(self, ask: CallPlan, client: object, *, seen: bool) -> Generator[ObservedCall | None]:
        """Record one call, unless instrumentation is suppressed."""
        if self._is_suppressed():
            yield None
            return

        began = time.perf_counter()
        place = self._place(client, ask.wire.name, str(ask.base.model or ""), ask.mode)
        span = self._start_call(place)
        is_recorded = not seen if self._asks is None else self._asks
        observed = ObservedCall(self, ask, place, span, is_recorded=is_recorded)
        ended_by: BaseException | None = None

        # between the chunks of a stream the caller's own code runs, in the caller's own span
        try:
            with nullcontext() if ask.base.is_stream else self.trace.use_span(span, **_QUIET):
                yield observed
        except GeneratorExit as error:  # the caller left a stream, which is not a failure
            ended_by = error
            observed.close(())
            raise
        except BaseException as error:
            ended_by = error
            self.fail(span, error.reason if isinstance(error, CallFailed) else type(error).__name__)
            raise
        finally:
            observed.close()
            self._end_call(
                span, observed.ending.ended(time.perf_counter() - began, ended_by), place
            )

    def observed(self, ask: CallPlan, client: object, attempt: Attempt, *, judging: float) -> None:
        """Record a reply that was handed on unchanged, and the seconds that judging it took."""
        if self._is_suppressed():
            return

        with unharmed("telemetry"):
            place = self._place(client, ask.wire.name, str(ask.base.model or ""), ask.mode)
            declared = {tool.name for tool in ask.contract.tools}
            ending = CallEnding(declared)
            tool = ending.follow(attempt)
            ended = ending.ended(attempt.seconds)

            span = self._start_call(place, time.time_ns() - int(attempt.seconds * 1e9))
            span.set_attributes(_of_attempt(attempt))
            if attempt.failure is not None:
                self.fail(span, _kinds(attempt)[0])

            self.metrics.count_attempt(attempt, tool, place.attributes, declared)
            self.metrics.record_judging(judging, ended, place.attributes)
            self._end_call(span, ended, place)

    def unjudged(self, client: object, api: str, model: str, why: str) -> None:
        """Count a reply that was handed on without a verdict.

        ``why`` is ``fault`` (a bug in strictreply), ``request`` (replies to it cannot be judged) or
        ``abandoned`` (the caller left the stream).
        """
        if self._is_suppressed():
            return

        with unharmed("telemetry"):
            place = self._place(client, api, model, "observe")
            self.metrics.count_unjudged(why, place.attributes)

    def _is_suppressed(self) -> bool:
        # the key has no public name yet; instrumentations import this one
        key = getattr(self._context, "_SUPPRESS_INSTRUMENTATION_KEY", "")
        return any(map(self._context.get_value, ("suppress_instrumentation", key)))

    def _place(self, client: object, api: str, model: str, mode: str) -> CallPlace:
        endpoint = _endpoint(client, api)
        ours: Attributes = {
            "gen_ai.provider.name": endpoint["gen_ai.provider.name"],
            "gen_ai.request.model": model,
            "strictreply.mode": mode,
        }
        return CallPlace(endpoint, read_attributes(self._attributes) | ours)

    def _start_call(self, place: CallPlace, start: int | None = None) -> Span:
        attributes = {
            **place.on_spans,
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": _NAME,
        }
        return self.tracer.start_span(
            f"invoke_workflow {_NAME}", attributes=attributes, start_time=start
        )

    def _end_call(self, span: Span, ended: EndedCall, place: CallPlace) -> None:
        span.set_attribute("strictreply.attempts", ended.attempts)
        span.set_attribute("strictreply.call.outcome", ended.outcome)
        span.end()
        self.metrics.count_call(ended, place.attributes)

    def fail(self, span: Span, kind: str) -> None:
        """Mark a span as failed, without a description."""
        span.set_attribute("error.type", kind)
        span.set_status(self.trace.StatusCode.ERROR)


@dataclass(frozen=True, slots=True)
class CallPlace:
    """The attributes of one call: its address, and those of the caller."""

    endpoint: JSONObject
    """The attributes of the address."""
    attributes: Attributes
    """The attributes of its metrics."""

    @property
    def on_spans(self) -> JSONObject:
        """The attributes of its spans."""
        return {**self.attributes, **self.endpoint}


class ObservedCall:
    """The requests of one call, as spans and counts."""

    def __init__(
        self,
        telemetry: OpenTelemetry,
        ask: CallPlan,
        place: CallPlace,
        parent: Span,
        *,
        is_recorded: bool,
    ) -> None:
        self._telemetry = telemetry
        self._place = place
        self._is_recorded = is_recorded
        self._parent: Context = telemetry.trace.set_span_in_context(parent)
        self._is_streamed = ask.base.is_stream
        self._declared = {tool.name for tool in ask.contract.tools}

        self._open: Span | None = None
        self._until: int | None = None
        self._cut = "_OTHER"
        self.ending: CallEnding = CallEnding(self._declared)

    @contextmanager
    def asking(self, request: JSONObject) -> Generator[None]:
        """Open the span of a request and make it current; judging the reply closes it."""
        if not self._is_recorded:
            yield
            return

        self.close()
        model = _model(request)
        attributes = {
            **self._place.on_spans,
            "gen_ai.operation.name": "chat",
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
        tool = self.ending.follow(attempt)
        attributes = self._place.attributes
        self._telemetry.metrics.count_attempt(attempt, tool, attributes, self._declared)
        if self._open is not None:
            self._open.set_attributes(_of_response(attempt) | _of_attempt(attempt))

        self.close(_kinds(attempt))

    def close(self, kinds: Sequence[str] | None = None) -> None:
        """Close the span of a request; if there are ``kinds``, mark it as failed with the first.

        ``kinds`` is None if the reply was never judged.
        """
        span = self._open
        self._open = None
        if span is None:
            return

        failed = [self._cut] if kinds is None else kinds
        if failed:
            self._telemetry.fail(span, failed[0])
        span.end(self._until)


def _endpoint(client: object, api: str) -> JSONObject:
    """Return the attributes of the address of a client's requests."""
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
    """Return the attributes of a response, with counts of tokens only if the API reports them."""
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
        found |= {f"gen_ai.usage.{kind}_tokens": counted for kind, counted in tokens_of(attempt)}
        found |= {_CACHED[name]: counted for name, counted in _cached(attempt).items()}

    return found


def _kinds(attempt: Attempt) -> list[str]:
    """Return the codes of an attempt's issues, or the kind of its failure."""
    codes = [issue.code for issue in attempt.issues]
    return codes or re.findall(r"^\w+", attempt.failure or "")


def _cached(attempt: Attempt) -> dict[str, int]:
    """Return the cache's tokens, which the request's tokens do not include."""
    usage = peek(attempt.raw, "usage")
    counts = {name: peek(usage, name) for name in _CACHED} if attempt.api == "messages" else {}
    return {name: count for name, count in counts.items() if type(count) is int and count > 0}


def _of_attempt(attempt: Attempt) -> JSONObject:
    """Return the attributes of an attempt's outcome, without empty ones."""
    attributes = {f"strictreply.attempt.{name}": getattr(attempt, name) for name in OF_ATTEMPT}
    attributes["strictreply.issue.codes"] = tuple(
        dict.fromkeys(issue.code for issue in attempt.issues)
    )
    return {name: value for name, value in attributes.items() if value is not None and value != ()}
