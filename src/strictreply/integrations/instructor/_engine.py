"""The engine: instructor makes the request and reaches the provider, our loop reads the raw reply and owns the retries.

No loop is here: a call puts its seam under :func:`strictreply.wrap`, and turns what comes of it into a typed value.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack, overload

from strictreply.client._client import Exchange, OnAttempt, Redact
from strictreply.client._client import wrap as wrap_client
from strictreply.client._transport import RetryBucket
from strictreply.contract._contract import ContractKeywords
from strictreply.integrations.instructor._dialects import dialect_of
from strictreply.integrations.instructor._library import load
from strictreply.integrations.instructor._response_models import MODES, Context, ResponseModel, response_model
from strictreply.integrations.instructor._seam import MADE_BY_INSTRUCTOR, AsyncSeam, Seam, SyncSeam
from strictreply.retry._policy import RetryPolicy
from strictreply.retry._steering import Steering
from strictreply.values._attempts import Attempt, Usage, total_usage
from strictreply.values._errors import CallFailed, ContractError
from strictreply.values._json import Extra, Extraction, Formats, JSONObject, Message
from strictreply.values._limits import DEFAULT_LIMITS, Limits
from strictreply.values._replies import Invalid

T = TypeVar("T")

MAX_REMEMBERED = 256
"""How many response models an engine keeps compiled, the last used ones."""

_FOR_INSTRUCTOR = ("context", "hooks")
_ADVICE: Mapping[str, str] = {
    **dict.fromkeys(MADE_BY_INSTRUCTOR, "instructor makes it of response_model; leave it out"),
    "max_retries": "give policy=RetryPolicy(max_retries=…)",
    "token_budget": "give policy=RetryPolicy(max_tokens_total=…)",
    "strict": "nothing is coerced; leave it out",
    "cache": "each reply is read anew; leave it out",
}
"""The keywords of instructor's ``create`` that an engine refuses, and what to do instead."""

_LEFT_TO_THE_SDK = RetryPolicy(transport_retries=0)


@dataclass(frozen=True, slots=True)
class Extracted(Generic[T]):
    """What was asked for, with its story.

    ``completion`` is the provider's own object that ``value`` was read from; ``attempts`` every ask in order, each
    ``request`` as instructor sent it; ``usage`` the tokens of all of them.
    """

    value: T
    completion: Any = field(repr=False)
    attempts: tuple[Attempt, ...]

    @property
    def usage(self) -> Usage:
        """The tokens of all attempts together."""
        return total_usage(self.attempts)


class Wrapping(TypedDict, total=False):
    """The keywords of :func:`wrap`: how to go about a call, and how strictly replies are read."""

    policy: RetryPolicy | None
    steering: Steering | None
    on_attempt: OnAttempt | None
    log_replies: Redact | None
    extraction: Extraction | Sequence[Extraction] | None
    extra: Extra | None
    formats: Formats | None
    limits: Limits


@dataclass(frozen=True, slots=True)
class _Settings:
    """What an engine was given beside its client; the strictness is compiled into the response models."""

    policy: RetryPolicy
    steering: Steering | None
    on_attempt: OnAttempt | None
    log_replies: Redact | None
    declared: ContractKeywords
    bucket: RetryBucket = field(default_factory=RetryBucket)


@dataclass(slots=True)
class _Call:
    """One call of an engine: the wrapped seam it goes through, its keywords, and its attempts so far."""

    seam: Seam
    wanted: ResponseModel
    settings: _Settings
    keywords: JSONObject
    client: Any
    attempts: list[Attempt] = field(default_factory=list[Attempt])

    def wrapped(self) -> Any:
        """Put the seam under our own client: its loop, its policy, its errors; all calls of an engine share a quota."""
        client: Any = wrap_client(
            self.seam,
            contract=self.wanted.contract,
            policy=self.settings.policy,
            steering=self.settings.steering,
            on_attempt=self.note,
            log_replies=self.settings.log_replies,
        )
        return client.counting_in(self.settings.bucket)

    def note(self, attempt: Attempt) -> Awaitable[None] | None:
        """Keep an attempt with what was really sent; tell instructor's hooks of a bad reply, and the watcher."""
        told = replace(attempt, request=self.seam.sent)
        self.attempts.append(told)
        if told.issues:
            self._emit(told)
        watcher = self.settings.on_attempt
        return None if watcher is None else watcher(told)

    def _emit(self, attempt: Attempt) -> None:
        """Tell the hooks of ``parse:error``, in words that hold none of the model's."""
        retries = (self.keywords.get("policy") or self.settings.policy).max_retries
        self.client.hooks.emit_parse_error(
            load("instructor.core").ResponseParsingError(Invalid(attempt.issues).summary, raw_response=self.seam.came),
            attempt_number=attempt.number,
            max_attempts=retries + 1,
            is_last_attempt=attempt.tier >= retries,
        )

    @contextmanager
    def told(self) -> Generator[None]:
        """Let an error carry the attempts as they were sent."""
        try:
            yield
        except CallFailed as error:
            error.attempts = tuple(self.attempts)
            raise

    def extracted(self, exchange: Exchange) -> Extracted[Any]:
        """Give the typed value with its story."""
        return Extracted(self.wanted.value(exchange.reply), self.seam.came, tuple(self.attempts))


class _Engine:
    """What both twins share: reading keywords, and making the seam of a call."""

    _seam: type[Seam]

    def __init__(self, client: Any, settings: _Settings) -> None:
        """Hold an instructor client; raises ContractError for a mode or a provider that is not served."""
        if client.mode.name not in MODES:
            message = f"instructor's mode {client.mode.name} is not served here; take {', '.join(MODES)}"
            raise ContractError(message)
        self.client = client
        self._settings = settings
        self._dialect = dialect_of(client.provider.value)
        self._compiled = lru_cache(MAX_REMEMBERED)(self._compile)

    def _compile(self, kind: Any, context: Context | None = None) -> ResponseModel:
        """Compile what is asked for, in the mode of the client."""
        return response_model(kind, self.client.mode.name, self._settings.declared, context)

    def _call(self, kind: Any, messages: Sequence[Message], given: JSONObject) -> _Call:
        """Read the keywords of one call: ours (``policy``), instructor's and the API's."""
        defaults = (name for name in self.client.kwargs if name in MADE_BY_INSTRUCTOR)
        refused = next((name for name in (*defaults, *given) if name in _ADVICE), None)
        if refused is not None:
            message = f"{refused!r} is not taken here: {_ADVICE[refused]}"
            raise ContractError(message)
        own = {name: given[name] for name in _FOR_INSTRUCTOR if name in given} | {"response_model": kind}
        context = own.get("context")
        wanted = self._compiled(kind) if context is None else self._compile(kind, context)
        asked = list(messages)
        seam = self._seam(self.client, self._dialect, asked, own)
        keywords = self.client.kwargs | {name: value for name, value in given.items() if name not in own}
        return _Call(seam, wanted, self._settings, keywords | wanted.demands | {"messages": asked}, self.client)


class Engine(_Engine):
    """A sync engine over an instructor client; safe to share between threads."""

    _seam = SyncSeam

    def create(self, *, response_model: type[T], messages: Sequence[Message], **keywords: Any) -> T:
        """Ask for a value of ``response_model``; whatever comes back has passed the strict reader.

        ``messages`` and ``keywords`` are as instructor's ``create`` takes them (``model``, ``context``, ``hooks``, the
        provider's own), and ``policy`` for this call alone. Raises ReplyRejected, ReplyHalted or TransportFailed when
        nothing fits, ContractError when the request itself is wrong; nothing has been sent then.
        """
        return self.extract(response_model=response_model, messages=messages, **keywords).value

    def extract(self, *, response_model: type[T], messages: Sequence[Message], **keywords: Any) -> Extracted[T]:
        """Ask like :meth:`create`, and give the value with its story."""
        call = self._call(response_model, messages, keywords)
        with call.told():
            exchange = call.wrapped().exchange(**call.keywords)
        return call.extracted(exchange)


class AsyncEngine(_Engine):
    """The async twin of :class:`Engine`."""

    _seam = AsyncSeam

    async def create(self, *, response_model: type[T], messages: Sequence[Message], **keywords: Any) -> T:
        """Ask for a value of ``response_model``; see :meth:`Engine.create`."""
        return (await self.extract(response_model=response_model, messages=messages, **keywords)).value

    async def extract(self, *, response_model: type[T], messages: Sequence[Message], **keywords: Any) -> Extracted[T]:
        """Ask like :meth:`create`, and give the value with its story."""
        call = self._call(response_model, messages, keywords)
        with call.told():
            exchange = await call.wrapped().exchange(**call.keywords)
        return call.extracted(exchange)


class AsyncClient(Protocol):
    """An ``AsyncInstructor``, told from an ``Instructor`` without importing either."""

    async def create_with_completion(self, *args: Any, **keywords: Any) -> tuple[Any, Any]:
        """Give a value and the completion."""
        ...


@overload
def wrap(client: AsyncClient, **keywords: Unpack[Wrapping]) -> AsyncEngine: ...  # pyright: ignore[reportOverlappingOverload] - the first that fits counts
@overload
def wrap(client: Any, **keywords: Unpack[Wrapping]) -> Engine: ...
def wrap(
    client: Any,
    *,
    policy: RetryPolicy | None = None,
    steering: Steering | None = None,
    on_attempt: OnAttempt | None = None,
    log_replies: Redact | None = None,
    extraction: Extraction | Sequence[Extraction] | None = None,
    extra: Extra | None = None,
    formats: Formats | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Engine | AsyncEngine:
    """Make an engine of an instructor client, such as ``instructor.from_provider("anthropic/…")``.

    An ``AsyncInstructor`` gives an :class:`AsyncEngine`. The client is not changed; its mode says how the model is
    asked: TOOLS, JSON, JSON_SCHEMA or MD_JSON. ``policy`` None means ``RetryPolicy(transport_retries=0)``: what the
    network loses the provider's SDK repeats by itself; give the SDK ``max_retries=0`` before you give a policy with
    transport retries. ``extraction`` None is strict, but for MD_JSON ``fenced``. All other keywords are those of
    :func:`strictreply.wrap`.

    Raises ContractError for a provider or a mode that is not served and for an async ``on_attempt`` of a sync engine,
    TypeError when ``client`` is no instructor client, ImportError when there is no instructor.
    """
    library = load()
    if not isinstance(client, library.Instructor):
        message = "wrap() needs an instructor client, such as instructor.from_provider('openai/…')"
        raise TypeError(message)
    is_async = isinstance(client, library.AsyncInstructor)
    if not is_async and inspect.iscoroutinefunction(on_attempt):
        message = "on_attempt is async; give an AsyncInstructor"
        raise ContractError(message)
    declared: ContractKeywords = {"extra": extra, "formats": formats, "limits": limits}
    if extraction is not None:
        declared["extraction"] = extraction
    settings = _Settings(policy or _LEFT_TO_THE_SDK, steering, on_attempt, log_replies, declared)
    return AsyncEngine(client, settings) if is_async else Engine(client, settings)
