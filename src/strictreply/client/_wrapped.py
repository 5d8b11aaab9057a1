"""What the sync and the async wrapped client share: keywords, exchanges, the original client."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, TypedDict, Unpack, cast

from pydantic import BaseModel

from strictreply.client._kept_shapes import KeptShapes
from strictreply.client._ledger import Ledger, LedgerOfCall
from strictreply.client._observing import Observation
from strictreply.client._relay import ChunkRelay, EventRelay, PartialRelay, Relay
from strictreply.client._rollout import WHOLE, Enforcement, Rollout
from strictreply.client._sending import (
    NOTHING,
    CallIO,
    CallObserver,
    RetryBucket,
    Telemetry,
)
from strictreply.client._stored_ids import StoredIds
from strictreply.contract._contract import Contract, ContractKeywords
from strictreply.contract._correcting import Steering
from strictreply.contract._definitions import given
from strictreply.contract._driving import unharmed
from strictreply.retry._asking import CallPlan
from strictreply.retry._constraining import unheld_by
from strictreply.retry._flow import Ended, HandedOn, Outcome
from strictreply.retry._next_request import undressed
from strictreply.retry._policy import RetryPolicy, end_at, is_transport_fault
from strictreply.retry._shaping import own_request, shaped
from strictreply.retry._steering import TieredSteering
from strictreply.sdks._errors import as_sdks_too
from strictreply.sdks._known import sdk_behind, sdk_for, strict_provider
from strictreply.sdks._namespaces import FORMS, Call, Namespaces, class_over, no_door
from strictreply.sdks._transport import CallForm
from strictreply.values._errors import ContractError, must_be, must_have
from strictreply.values._issues import printable
from strictreply.values._limits import JSONObject, Message
from strictreply.values._mistakes import ON_CLIENTS, no_attribute
from strictreply.values._replies import (
    A_co,
    AssistantReply,
    Attempt,
    Usage,
    plain,
    summed_usage,
    total_usage,
)
from strictreply.values._requests import AnswerFormat, Request
from strictreply.wires import WIRES, Api, wire_named
from strictreply.wires._members import peek
from strictreply.wires._requests import settled
from strictreply.wires._wire import Wire

if TYPE_CHECKING:
    from strictreply.sdks._types import Completion, Timeout


class SentKeywords(TypedDict, total=False):
    """The keywords of ``create``, except the messages and the format of the answer.

    Other keywords of the API are passed on, too; for a type checker put them into ``extra_body``.
    """

    api: Api | str
    """The API to use."""
    tools: Iterable[object]
    """The tools that may be called, as in a contract."""
    tool_choice: str | Mapping[str, Any]
    """Which tool the model must call."""
    model: str
    """Name of the model."""
    audio: Mapping[str, Any] | None
    """Parameters of a spoken answer."""
    frequency_penalty: float | None
    """Penalty for tokens by their frequency so far."""
    logit_bias: Mapping[str, int] | None
    """Bias of each token, by its id."""
    logprobs: bool | None
    """Whether the probabilities of tokens are returned."""
    max_completion_tokens: int | None
    """Most tokens of the reply, thoughts included."""
    max_tokens: int | None
    """Most tokens of the reply, of Messages and of older models of chat completions."""
    metadata: Mapping[str, str] | None
    """The caller's own labels of the request."""
    modalities: list[str] | None
    """The kinds of output: text or audio."""
    moderation: Mapping[str, Any] | None
    """How the provider moderates the request."""
    n: int | None
    """Number of replies."""
    parallel_tool_calls: bool
    """Whether the model may call several tools at once."""
    prediction: Mapping[str, Any] | None
    """A text that the reply is expected to repeat for the most part."""
    presence_penalty: float | None
    """Penalty for tokens that already occurred."""
    prompt_cache_key: str
    """Key of the requests that share a cached prompt."""
    prompt_cache_options: Mapping[str, Any]
    """How the prompt is cached."""
    prompt_cache_retention: str | None
    """How long the prompt stays cached."""
    reasoning_effort: str | None
    """How much the model thinks."""
    safety_identifier: str
    """Names the end user to the provider's safety systems."""
    seed: int | None
    """Makes sampling repeatable, as far as the provider can."""
    service_tier: str | None
    """The tier that serves the request."""
    stop: str | list[str] | None
    """Texts that end the reply."""
    store: bool | None
    """Whether the provider stores the reply."""
    stream: bool | None
    """Whether the reply is streamed."""
    stream_options: Mapping[str, Any] | None
    """What a stream reports in addition, such as its usage."""
    temperature: float | None
    """Randomness of sampling."""
    top_logprobs: int | None
    """How many of the likeliest tokens are returned."""
    top_p: float | None
    """Probability mass of the likeliest tokens to sample from."""
    verbosity: str | None
    """How long the answer should be."""
    web_search_options: Mapping[str, Any]
    """How the model searches the web."""
    context_management: Iterable[Mapping[str, Any]] | None
    """How a long conversation is shortened."""
    conversation: str | Mapping[str, Any] | None
    """The stored conversation that the reply continues."""
    include: list[Any] | None
    """What the response contains in addition to the reply."""
    instructions: str | None
    """The system prompt."""
    max_output_tokens: int | None
    """Most tokens of the reply, thoughts included."""
    max_tool_calls: int | None
    """Most calls of the API's own tools."""
    previous_response_id: str | None
    """The stored response that is continued."""
    prompt: Mapping[str, Any] | None
    """A prompt that the provider stores."""
    reasoning: Mapping[str, Any] | None
    """How the model thinks, and how much of it the response shows."""
    text: Mapping[str, Any]
    """The form of the text, such as its JSON Schema."""
    truncation: Literal["auto", "disabled"] | None
    """What the API does with a conversation that is too long."""
    cache_control: Mapping[str, Any] | None
    """How the prompt is cached, of Messages."""
    container: str | Mapping[str, Any] | None
    """The container of the server's own tools to use again."""
    inference_geo: str | None
    """Where the model runs."""
    output_config: Mapping[str, Any]
    """The format of the answer and the effort for it, of Messages."""
    stop_sequences: Iterable[str]
    """Texts that end the reply, of Messages."""
    system: str | Iterable[Mapping[str, Any]]
    """The system prompt, of Messages."""
    thinking: Mapping[str, Any]
    """How the model thinks, of Messages."""
    extra_headers: Mapping[str, str] | None
    """HTTP headers in addition to the SDK's."""
    extra_query: Mapping[str, object] | None
    """Query parameters in addition to the SDK's."""
    extra_body: object | None
    """Members of the request that the SDK does not know."""
    timeout: float | Timeout | None
    """Seconds that one request may take, or the SDK's timeout."""


class ApiKeywords(SentKeywords, total=False):
    """The keywords of ``create``, except the messages."""

    response_format: type | Mapping[str, Any]
    """The form of the answer: a type, or the API's own member."""


class RequestKeywords(SentKeywords, total=False):
    """The keywords of ``create`` that a tool loop takes, too, and those of strictreply."""

    policy: RetryPolicy | None
    """The budgets of the call; None for the client's policy."""
    max_retries: int
    """Short for the client's policy with this many retries."""
    deadline: float | None
    """Short for the client's policy with this total time, in seconds."""
    steering: Steering | None
    """Writes the corrections; None for the client's steering."""


class CallKeywords(RequestKeywords, total=False):
    """The keywords of one call.

    ``messages`` and ``input`` may be a text, or a list that may contain the SDK's own objects.
    """

    contract: Contract | None
    """What the reply is checked against; None for the client's contract."""
    response_format: type | Mapping[str, Any]
    """The form of the answer: a type, or the API's own member."""
    messages: str | Iterable[Mapping[str, Any] | BaseModel]
    """The conversation, of chat completions and of Messages."""
    input: str | Iterable[Mapping[str, Any] | BaseModel]
    """The conversation, of the Responses API."""
    user: str
    """Names the end user to the provider."""


SHORT_FOR_POLICY = ("max_retries", "deadline")
"""The budgets of a policy that are also keywords of their own."""

_UNBOUNDED = RetryPolicy(deadline=None)
"""The policy of a call that is only observed, which sends no request of its own."""

MAX_ENDPOINTS = 256
"""For how many pairs of endpoint and model a client remembers what they refuse."""

logger = logging.getLogger("strictreply")

OnAttempt = Callable[[Attempt], Awaitable[None] | None]
"""Called with every attempt as soon as it is judged; may be async with an async client.

An ``Exception`` that it raises does not change the call. Only its type is logged, because its text
may contain text of the model. Other exceptions, such as KeyboardInterrupt and cancellation, are
raised.
"""

Redact = Callable[[str], str]
"""Takes the raw reply as JSON text, and returns the text to log."""

UsageMode: TypeAlias = Literal["last", "total"]
"""What ``completion.usage`` is: the API's report of the last request, or the sum of all."""

_OF_CONTRACTS = frozenset({"answer", *ContractKeywords.__annotations__}) - {"tools"}


@dataclass(frozen=True, slots=True)
class Exchange(Generic[A_co]):
    """The result of a call: the reply, all attempts, and the SDK's completion."""

    reply: AssistantReply[A_co]
    """The valid reply."""
    attempts: tuple[Attempt, ...]
    """All attempts, in order."""
    transcript: list[Message] = field(repr=False)
    """The caller's messages and the accepted assistant message.

    It contains no rejected replies.
    """
    contract: Contract[A_co] = field(repr=False)
    """The contract that the reply was checked against."""
    _complete: Callable[[], Any] = field(repr=False)
    """Makes the completion that contains the reply."""

    @property
    def completion(self) -> Completion:
        """The SDK's own ``ChatCompletion`` with the valid reply.

        ``wrap(usage_mode=…)`` determines its ``usage``.
        """
        return cast("Completion", self._complete())

    @property
    def usage(self) -> Usage:
        """The tokens of all attempts together."""
        return total_usage(self.attempts)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a wrapped client, except its contract."""

    policy: RetryPolicy = RetryPolicy()
    """The budgets of a call."""
    steering: Steering = TieredSteering()
    """Writes the corrections."""
    on_attempt: OnAttempt | None = None
    """Called with each attempt; None for no function."""
    log_replies: Redact | None = None
    """Redacts raw replies for the DEBUG log; None logs no reply."""
    usage_mode: UsageMode = "last"
    """What ``completion.usage`` is: the API's report of the last attempt, or the sum of all."""
    api: Api | str = "chat"
    """The default API."""
    telemetry: Telemetry | None = None
    """Gets spans and counters; None for no telemetry."""
    rollout: Rollout = field(default_factory=Rollout)
    """How far replies are enforced."""
    ledger: Ledger | None = None
    """Gets a line for each attempt; None for no ledger."""

    def __post_init__(self) -> None:
        must_be(
            "policy", self.policy, RetryPolicy, "a RetryPolicy, as in RetryPolicy(max_retries=3)"
        )
        must_have("steering", self.steering, "correction", "an object with correction(context)")
        must_have("on_attempt", self.on_attempt, "__call__", "a function of an Attempt, or None")
        redacts = "a function of a raw reply as text, or None"
        must_have("log_replies", self.log_replies, "__call__", redacts)


class EndpointRefusals:
    """The members of our requests that endpoints refuse or ignore, by address and model.

    A client learns that a member is refused once a request without it succeeds, and that it is
    ignored once a reply breaks the constraint that it states. Each kind is kept for at most
    :data:`MAX_ENDPOINTS` endpoints. ``warned`` has the warnings already given about schemas of
    requests.
    """

    __slots__ = ("_known", "_unheld", "warned")

    def __init__(self) -> None:
        self.warned: set[str] = set()
        self._known: OrderedDict[tuple[str, str], frozenset[str]] = OrderedDict()
        self._unheld: OrderedDict[tuple[str, str], frozenset[str]] = OrderedDict()

    def unwanted(self, client: object, base: Request) -> frozenset[str]:
        """Return the members that an endpoint is known to refuse."""
        if not self._known:
            return frozenset()

        return self._known.get(_endpoint(client, base), frozenset())

    def unheld(self, client: object, base: Request) -> frozenset[str]:
        """Return the constraints that an endpoint is known to accept and not to enforce."""
        if not self._unheld:
            return frozenset()

        return self._unheld.get(_endpoint(client, base), frozenset())

    def learn(self, client: object, base: Request, attempts: tuple[Attempt, ...]) -> None:
        """Remember what was refused in a call if a later attempt without it succeeded.

        Remember the constraints that its replies broke, too.
        """
        if not attempts[1:]:
            return

        endpoint = _endpoint(client, base)
        _remember(self._unheld, endpoint, unheld_by(attempts))
        served = [number for number, one in enumerate(attempts) if one.failure is None]
        refused = {
            name for one in attempts[: max(served, default=0)] for name in one.dropped_params
        }
        _remember(self._known, endpoint, frozenset(refused))


def _remember(
    known: OrderedDict[tuple[str, str], frozenset[str]],
    endpoint: tuple[str, str],
    names: frozenset[str],
) -> None:
    """Add names to those of an endpoint; forget the oldest endpoint if there are too many."""
    if not names:
        return

    known[endpoint] = known.pop(endpoint, frozenset()) | names
    while len(known) > MAX_ENDPOINTS:
        known.popitem(last=False)


def _endpoint(client: object, base: Request) -> tuple[str, str]:
    return str(getattr(client, "base_url", "")), str(base.model)


@dataclass(slots=True)
class Guard:
    """The state of a wrapped client in addition to that of the original client."""

    inner: Any
    """The original client."""
    contract: Contract[Any]
    """The contract that replies are checked against."""
    settings: Settings
    """All settings except the contract."""
    bucket: RetryBucket
    """What the client's calls have spent of the retry budget."""
    namespaces: Namespaces
    """The wrapped namespaces of the client."""
    learnt: EndpointRefusals
    """The members that endpoints are known to refuse or ignore."""
    stored_ids: StoredIds
    """The ids of stored replies."""
    shapes: KeptShapes = field(default_factory=KeptShapes)
    """The contracts made from observed requests."""


class Wrapped(Generic[A_co]):
    """The base of both wrapped clients: it reads a call's keywords, and ends a call.

    The outcome of a call becomes a return value or an exception.
    """

    __slots__ = ("_guard",)
    _guard: Guard

    # the sync and the async client each make the calls of the SDK's guarded methods
    _drop_in: Call
    _is_async = False

    def __init__(
        self,
        client: object,
        contract: Contract[A_co],
        settings: Settings,
        origin: Guard | None = None,
    ) -> None:
        """Guard a client with a contract.

        ``origin`` is the guard of the client that this one is a copy of; None if it is not a copy.
        A copy shares the origin's retry budget, its knowledge of endpoints and its stored ids.
        """
        if sdk_behind(client) is not None:
            object.__setattr__(self, "__dict__", client.__dict__)

        copied = None if origin is None or origin.inner is not client else origin.namespaces
        namespaces = Namespaces(client, self, self._drop_in, self._beside, copied)
        namespaces.way_to(WIRES[settings.api])  # raises for a client without this API

        bucket = RetryBucket() if origin is None else origin.bucket
        learnt = EndpointRefusals() if origin is None else origin.learnt
        stored_ids = StoredIds() if origin is None else origin.stored_ids
        guard = Guard(client, contract, settings, bucket, namespaces, learnt, stored_ids)
        object.__setattr__(self, "_guard", guard)

    @classmethod
    def over(cls, client: object, *held: object) -> Self:
        """Wrap a client.

        If the client's class is the SDK's or derived from it, the result is an instance of that
        class, too.
        """
        kind: Any = cls
        inner: Any = type(client)
        if sdk_behind(client) is not None:
            kind = class_over(kind, inner)

        made: Self = kind(client, *held)
        return made

    def __getattr__(self, name: str) -> Any:
        """Read every attribute that is not ours from the original client.

        The special methods that Python itself looks up are not passed on.
        """
        if name.startswith("__") or name == "_guard":
            raise AttributeError(name)

        inner = self._guard.inner
        if self._guard.namespaces.is_guarded(name) and hasattr(inner, name):
            return self._guard.namespaces.kept(name)
        if name in FORMS and hasattr(inner, name) and not self._is_beside:
            way = sdk_for(inner).path_of(wire_named(self._guard.settings.api))
            raise AttributeError(no_door(name, way))
        if name in ON_CLIENTS and not hasattr(inner, name):
            no_attribute("a wrapped client", name, ON_CLIENTS, ())

        return getattr(inner, name)

    def __repr__(self) -> str:
        """Show the class of the original client, and the contract."""
        kind = type(self._guard.inner)
        twin = "AsyncStrictClient" if self._is_async else "StrictClient"
        return f"<{twin} over {kind.__module__}.{kind.__qualname__}: {self._guard.contract!r}>"

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._guard.inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._guard.inner, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._guard.inner)})

    @property
    def contract(self) -> Contract[A_co]:
        """The contract that replies are checked against."""
        return self._guard.contract

    @property
    def api(self) -> str:
        """The API of calls that do not name one."""
        return self._guard.settings.api

    @property
    def policy(self) -> RetryPolicy:
        """The policy of calls that do not pass one."""
        return self._guard.settings.policy

    @property
    def unwrapped(self) -> Any:
        """The original client, whose replies are not checked."""
        return self._guard.inner

    @property
    def beta(self) -> Any:
        """The SDK's ``beta`` namespace, with a guarded ``chat``."""
        return self._guard.namespaces.kept("beta")

    def __copy__(self) -> Self:
        return self._remade()

    def with_options(self, **options: object) -> Self:
        """Return a copy with other SDK options (``timeout``, ``api_key``, …), same contract."""
        return self._remade(client=self._guard.inner.with_options(**options))

    copy = with_options
    """The SDK's other name of ``with_options``."""

    def contract_for(self, **keywords: Unpack[CallKeywords]) -> Contract[Any]:
        """Return the contract of a call with these keywords, without making the call."""
        given: JSONObject = {**keywords}
        given.pop("stream", None)
        replay = wire_named(given.get("api") or self.api).replay
        now = self._guard.settings.rollout.now()
        return self._ask({replay.keyword: [], **given}, now).contract

    def watched(self, on_attempt: OnAttempt) -> Self:
        """Return a copy that also calls ``on_attempt`` with every attempt.

        It is called before the ``on_attempt`` of this client.
        """
        settings = self._guard.settings
        both = partial(_tell_each, on_attempt, settings.on_attempt)
        return self._remade(settings=replace(settings, on_attempt=both))

    def observed_by(self, telemetry: Telemetry | None) -> Self:
        """Return a copy whose calls are reported to ``telemetry``; None reports them to nobody.

        See :func:`strictreply.integrations.otel.instrument`.
        """
        return self._remade(settings=replace(self._guard.settings, telemetry=telemetry))

    def counting_in(self, bucket: RetryBucket) -> Self:
        """Return a copy that counts its repeats (``RetryPolicy.retry_budget``) in a shared bucket.

        Several clients can share one bucket, and so one budget.
        """
        return self._remade(bucket=bucket)

    def _remade(self, *, client: object = None, **changed: Any) -> Self:
        guard = replace(self._guard, **changed)
        inner = guard.inner if client is None else client

        # sync or async
        twin: Any = next(kind for kind in type(self).__mro__ if Wrapped in kind.__bases__)
        made: Self = twin.over(inner, guard.contract, guard.settings, guard)
        return made

    def _beside(self) -> Observation | None:
        """Return what judges the next call without changing it; None if its reply is enforced."""
        settings = self._guard.settings
        now = settings.rollout.now()
        if not now.is_beside:
            return None

        # without a listener the verdict would be wasted work
        watching = (settings.on_attempt, settings.ledger, settings.telemetry)
        is_watched = watching != (None, None, None) or logger.isEnabledFor(logging.DEBUG)
        return Observation(self, is_judged=now.is_judged and is_watched)

    @property
    def _is_beside(self) -> bool:
        """Whether nothing is enforced now, so that replies that cannot be judged pass."""
        return self._guard.settings.rollout.now().is_beside

    def _typed(self, keywords: JSONObject) -> CallPlan:
        """Read the keywords of a call by our own methods, which return valid replies only.

        Raises ContractError if this client observes any replies.
        """
        guard = self._guard
        if not guard.settings.rollout.now().is_whole:
            wire = wire_named(keywords.get("api") or guard.settings.api)
            path = sdk_for(guard.inner).path_of(wire)
            raise ContractError(
                "reply(), answer(), exchange(), stream() and run() return only valid replies, but "
                "this client does not enforce every reply: "
                f'call client.{path}.create(), or wrap the client with mode="enforce"'
            )

        return self._ask(keywords, WHOLE)

    def _ask(
        self,
        keywords: JSONObject,
        enforcement: Enforcement,
        drop_in: Wire | None = None,
        answer_format: AnswerFormat | None = None,
        answer: type | None = None,
        way: CallForm | None = None,
    ) -> CallPlan:
        """Read one call's keywords, ours and the API's.

        ``drop_in`` is the API if the SDK's own method was called, in the form ``way``. ``answer``
        is the class that a stored reply is parsed into.
        """
        guard = self._guard
        settings = guard.settings
        wire = drop_in or wire_named(keywords.pop("api", None) or settings.api)

        policy = policy_of(keywords, settings.policy)
        steering = keywords.pop("steering", None) or settings.steering
        if policy is not settings.policy or steering is not settings.steering:
            settings = replace(settings, policy=policy, steering=steering)

        contract = self._sent_to_server(self._contract_in(keywords), wire)
        warned = None if drop_in is None else guard.learnt.warned
        request = self._request_in(wire, keywords, answer)

        enforced = enforcement.tools
        own = own_request(request, warned) if enforced else None
        if enforced is not None:
            # a declared tool judges its calls, even if the request has its own definition of it
            request = undressed(contract, request)

        # the API's own method allows parallel calls unless the request forbids them
        if drop_in is not None and not contract.parallel and not isinstance(request.parallel, bool):
            contract = contract.replace(parallel=True)

        contract, base = shaped(contract, request, warned)
        if enforced:
            settings.rollout.note(enforced, contract.callable_names)

        base = guard.stored_ids.known_to_server(base)
        if answer_format is not None:
            base = replace(base, format=answer_format)

        if base.is_stream and not drop_in:
            raise ContractError(
                "stream=True is a keyword of create(); for a typed stream call client.stream()"
            )

        way = way or CallForm()
        owned, is_repeating = guard.namespaces.way_to(wire, way.path).retries(way)
        policy = settings.policy
        if is_repeating and policy.transport_retries:
            policy = replace(policy, transport_retries=None)

        unwanted = guard.learnt.unwanted(guard.inner, base)
        return CallPlan(
            contract,
            base,
            policy,
            settings.steering,
            unwanted,
            owned,
            wire,
            unheld=guard.learnt.unheld(guard.inner, base),
            enforced=enforced,
            own_request=own,
        )

    def _sent_to_server(self, contract: Contract, wire: Wire) -> Contract:
        """Return a contract for calls to the client's server.

        For an unknown server, a strict mode that must be requested is the one of the API's own
        provider.
        """
        if contract.strict is False and not contract.asks_strictly:
            return contract

        provider = strict_provider(self._guard.inner)
        if provider is None and contract.asks_strictly:
            provider = "anthropic" if wire.name == "messages" else "openai"

        return contract.sent_to(provider)

    def _beside_plan(self, wire: Wire, keywords: JSONObject, answer: type | None) -> CallPlan:
        """Read what an observed call demands of its reply; this plan sends nothing."""
        guard = self._guard
        settings = guard.settings
        contract = self._contract_in(keywords)
        request = self._request_in(wire, keywords, answer)
        contract, base = guard.shapes.shaped(contract, request, guard.learnt.warned)
        return CallPlan(
            contract, base, _UNBOUNDED, settings.steering, wire=wire, enforced=frozenset()
        )

    def _request_in(self, wire: Wire, keywords: JSONObject, answer: type | None) -> Request:
        request = wire.read(settled(given(keywords)))
        return request if answer is None else replace(request, format=answer)

    def _contract_in(self, keywords: JSONObject) -> Contract:
        contract: Contract = keywords.pop("contract", None) or self._guard.contract
        must_be("contract", contract, Contract, "a Contract, as in Contract(tools=[…])")

        for name in _OF_CONTRACTS.intersection(keywords):
            remedy = f"pass it to wrap(), or pass contract=Contract({name}=…) to this call"
            raise ContractError(f"{name} belongs to a contract: {remedy}")

        return contract

    def _to_stream(self, keywords: JSONObject) -> tuple[CallPlan, CallIO, EventRelay]:
        ask = _streamed(self._typed(keywords))
        sending = self._sending(ask)
        relay = EventRelay(ask.contract, ask.wire, stops_early=_stops_early(ask))
        return ask, sending, relay

    def _note(self, attempt: Attempt, sending: CallIO) -> Awaitable[None] | None:
        """Log an attempt and call ``on_attempt``; a raw reply is logged only redacted."""
        # a completion, whether valid or not, gives its tokens back to the retry budget
        if not is_transport_fault(attempt):
            sending.bucket.give_back(repeated=sending.repeats > 0)
            sending.repeats = 0

        if sending.observer is not None:
            sending.observer.judged(attempt)

        return self._told(attempt, sending.ledger)

    def _told(self, attempt: Attempt, ledger: LedgerOfCall | None) -> Awaitable[None] | None:
        """Log an attempt, and call ``on_attempt``; return its awaitable, None if it has none."""
        settings = self._guard.settings
        if ledger is not None:
            ledger.write(attempt)

        if logger.isEnabledFor(logging.DEBUG):
            codes = ", ".join(issue.code for issue in attempt.issues)
            verdict = codes or attempt.failure or "accepted"
            logger.debug("attempt %d: %s (%.3f s)", attempt.number, verdict, attempt.seconds)

            if settings.log_replies is not None:
                with unharmed("log_replies"):
                    shown = printable(settings.log_replies(json.dumps(plain(attempt.raw))))
                    logger.debug("attempt %d: raw reply %s", attempt.number, shown)

        return None if settings.on_attempt is None else settings.on_attempt(attempt)

    def _sending(self, ask: CallPlan, way: CallForm | None = None) -> CallIO:
        """Return the I/O of one call.

        By default it goes through a function that has replaced ``create``, if there is one.
        """
        guard = self._guard
        if way is None:
            way = CallForm(through=guard.namespaces.patched_create(ask.wire))

        transport = guard.namespaces.way_to(ask.wire, way.path)
        limits = ask.contract.limits
        sending = CallIO(transport, limits, guard.bucket, way=way, is_async=self._is_async)
        sending.is_literate = ask.contract.dialects != "strict"
        sending.ledger = self._ledger_of(ask)
        return sending

    def _ledger_of(self, ask: CallPlan) -> LedgerOfCall | None:
        """Return the ledger for the attempts of a call; None for no ledger."""
        ledger = self._guard.settings.ledger
        if ledger is None:
            return None

        return LedgerOfCall(ledger, ask.mode, str(ask.base.model or ""), ask.contract)

    def _observing(
        self, ask: CallPlan, sending: CallIO
    ) -> AbstractContextManager[CallObserver | None]:
        telemetry = self._guard.settings.telemetry
        if telemetry is None:
            return NOTHING

        transport = sending.transport
        return telemetry.call(ask, transport.client, seen=transport.is_seen(sending.way))

    def _streamed_inside(self, ask: CallPlan, sending: CallIO) -> CallPlan | None:
        """Return the call as a stream if the policy wants to stop it early, else None.

        A call for a raw response is not streamed.
        """
        is_whole = ask.enforced is None and sending.way.form is None
        wanted = ask.policy.early_stop == "always" and is_whole
        return _streamed(ask) if wanted else None

    def _chunk_relay(self, ask: CallPlan) -> ChunkRelay:
        # a fault that is only observed does not end a stream
        kind = ChunkRelay if ask.enforced is None else PartialRelay
        return kind(
            ask.contract,
            ask.wire,
            wants_usage=bool(ask.base.wants_usage),
            stops_early=_stops_early(ask),
            # the next request refers to the response by its id, so the id must be the reply's
            waits=ask.base.follows is not None,
        )

    def _end(
        self,
        ask: CallPlan,
        outcome: Outcome,
        sending: CallIO,
        ended: list[Exchange[A_co]],
        relay: Relay | None = None,
    ) -> Iterable[object]:
        """Put the exchange of a call into ``ended``; return what its relay still has to pass on.

        Raise the call's error if it ended without a reply.
        """
        self._guard.learnt.learn(self._guard.inner, ask.base, outcome.attempts)

        if isinstance(outcome, Ended):
            end = outcome.end
            if end.how == "rejected" and peek(sending.way.posting, "is_stored"):
                end = end_at("stored")

            error = end.error(outcome.attempts, outcome.failure, outcome.tool)
            raise as_sdks_too(error, sending.transport, sending.last, sending.raised)

        sending.settle()
        if isinstance(outcome, HandedOn):
            return self._hand_on(ask, outcome, sending, ended, relay)

        reply = outcome.reply
        attempts = outcome.attempts
        response = outcome.response
        if sending.is_literate:
            response = ask.wire.completed(response, ask.base.model)

        spliced = outcome.spliced or response is not outcome.response

        is_summed = self._guard.settings.usage_mode == "total" and len(attempts) > 1
        if is_summed:
            names = ask.wire.usage
            response = response | {names.holder: summed_usage(attempts, names)}
            spliced = True

        complete = cache(partial(sending.completion, response, spliced=spliced, reply=reply))
        transcript: list[Message] = [*ask.base.conversation, outcome.turn]
        ended.append(Exchange(reply, attempts, transcript, ask.contract, complete))

        if ask.base.is_stored:
            told_id = None if relay is None else relay.told_id(response)
            self._guard.stored_ids.note(response, told_id)

        return () if relay is None else relay.released(reply, response)

    def _hand_on(
        self,
        ask: CallPlan,
        outcome: HandedOn,
        sending: CallIO,
        ended: list[Exchange[A_co]],
        relay: Relay | None,
    ) -> Iterable[object]:
        """Put an exchange without a reply into ``ended``: only its completion is passed on."""
        response = outcome.response
        complete = cache(partial(sending.completion, response, spliced=outcome.spliced))
        no_reply: Any = None
        transcript: list[Message] = [*ask.base.conversation]
        ended.append(Exchange(no_reply, outcome.attempts, transcript, ask.contract, complete))
        if isinstance(relay, PartialRelay):
            return relay.handed_on(response, spliced=outcome.spliced)

        return ()


def _stops_early(ask: CallPlan) -> bool:
    """Return whether a stream may be closed early; an observed fault never closes it."""
    return ask.policy.early_stop != "off" and ask.enforced is None


def _streamed(ask: CallPlan) -> CallPlan:
    return replace(ask, base=replace(ask.base, is_stream=True))


def policy_of(keywords: JSONObject, otherwise: RetryPolicy) -> RetryPolicy:
    """Take the policy out of keywords: a whole policy, or the parts that change ``otherwise``.

    Raises ContractError if both are given.
    """
    policy: RetryPolicy | None = keywords.pop("policy", None)
    parts = {name: keywords.pop(name) for name in SHORT_FOR_POLICY if name in keywords}
    if not parts:
        return policy or otherwise
    if policy is None:
        return replace(otherwise, **parts)

    given = min(parts)
    raise ContractError(
        f"give {given}= or policy=, not both: policy=RetryPolicy({given}={parts[given]!r}, …)"
    )


def _tell_each(
    first: OnAttempt, second: OnAttempt | None, attempt: Attempt
) -> Awaitable[None] | None:
    """Call both functions with an attempt; return their awaitables as one, None if none."""
    waiting: list[Awaitable[None]] = []
    for watcher in (first, second):
        with unharmed("on_attempt"):
            noted = None if watcher is None else watcher(attempt)
            if noted is not None:
                waiting.append(noted)

    async def await_each() -> None:
        for one in waiting:
            with unharmed("on_attempt"):
                await one

    return await_each() if waiting else None
