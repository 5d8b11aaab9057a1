"""The engine: instructor makes the request and reaches the provider, our loop reads the raw reply and owns the retries.

No loop is here: a call wraps its seam with :func:`strictreply.wrap`, and turns the reply into a typed value. instructor
tells the model of the type, in a tool or in prose; the reply is held to the same type by a contract that is made here.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, Final, Generic, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

from pydantic import BaseModel, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import to_json

from strictreply.client._client import Exchange, OnAttempt, Redact
from strictreply.client._transport import RetryBucket
from strictreply.client._wrap import wrap as wrap_client
from strictreply.contract._contract import Contract, ContractKeywords
from strictreply.contract._tool import Tool
from strictreply.integrations._extras import load
from strictreply.integrations.instructor._provider_seam import MADE_BY_INSTRUCTOR, Seam, dialect_of
from strictreply.retry._policy import RetryPolicy
from strictreply.retry._steering import Steering
from strictreply.values._attempts import Attempt, Usage, total_usage
from strictreply.values._errors import CallFailed, ContractError
from strictreply.values._json import Extra, Extraction, Formats, JSONObject, Message
from strictreply.values._limits import DEFAULT_LIMITS, Limits
from strictreply.values._replies import AssistantReply, DirectAnswer, Invalid, calls_of

T = TypeVar("T")

MAX_REMEMBERED: Final = 256
"""How many response models an engine keeps compiled, the last used ones."""

_JSON_MODES: Final[Mapping[str, tuple[Extraction, ...]]] = {
    "JSON": ("strict",),
    "JSON_SCHEMA": ("strict",),
    "MD_JSON": ("fenced",),
}
"""The modes whose reply is JSON in the content; MD_JSON asks for a Markdown fence around it."""

_MODES: Final = ("TOOLS", *_JSON_MODES)
"""The modes of instructor's that are served: one forced call, or JSON in the content."""

_Context: TypeAlias = dict[str, Any]
"""What instructor fills templates with, and what validators read as ``info.context``."""

_FOR_INSTRUCTOR: Final = ("context", "hooks")
_ADVICE: Final[Mapping[str, str]] = {
    **dict.fromkeys(MADE_BY_INSTRUCTOR, "instructor makes it of response_model; leave it out"),
    "max_retries": "give policy=RetryPolicy(max_retries=…)",
    "token_budget": "give policy=RetryPolicy(max_tokens_total=…)",
    "strict": "nothing is coerced; leave it out",
    "cache": "each reply is read anew; leave it out",
}
"""The keywords of instructor's ``create`` that an engine refuses, and what to do instead."""

_LEFT_TO_THE_SDK: Final = RetryPolicy(transport_retries=0)


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


class EngineOptions(TypedDict, total=False):
    """The keywords of :func:`wrap`, as :func:`strictreply.wrap` takes them."""

    policy: RetryPolicy | None
    steering: Steering | None
    on_attempt: OnAttempt | None
    log_replies: Redact | None
    extraction: Extraction | Sequence[Extraction] | None
    extra: Extra | None
    formats: Formats | None
    limits: Limits


@dataclass(frozen=True, slots=True)
class _EngineSettings:
    """What an engine was given beside its client; all its calls share the ``bucket`` that bounds repeats."""

    policy: RetryPolicy
    steering: Steering | None
    on_attempt: OnAttempt | None
    log_replies: Redact | None
    declared: ContractKeywords
    bucket: RetryBucket = field(default_factory=RetryBucket)


@dataclass(frozen=True, slots=True)
class ResponseModel:
    """A type that was asked for: its contract, what the request adds to it, and how a valid reply becomes a value."""

    contract: Contract
    demands: JSONObject

    def value(self, reply: AssistantReply) -> Any:
        """Return the typed value of a reply that fits, out of the model that instructor put around another type."""
        value = reply.answer if isinstance(reply, DirectAnswer) else calls_of(reply)[0].args  # one call was demanded
        if isinstance(value, load("instructor.v2.dsl.simple_type").AdapterBase):
            return value.content
        return list(value.tasks) if isinstance(value, load("instructor.v2.dsl.iterable").IterableBase) else value


def response_model(kind: Any, mode: str, declared: ContractKeywords, context: _Context | None = None) -> ResponseModel:
    """Compile a type as it is asked for in one of instructor's modes.

    A pydantic model's reply becomes its instance; other types are wrapped by instructor (``{"content": …}``,
    ``{"tasks": […]}``) and unwrapped again. Raises ContractError for what is not a type, or has no JSON Schema.
    """
    shown = load("instructor.utils").prepare_response_model(kind)
    if not isinstance(shown, type) or not issubclass(shown, BaseModel):
        message = "response_model must be a type that instructor takes: a pydantic model, list[…], a TypedDict, int, …"
        raise ContractError(message)
    own = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else shown
    typed: Any = own if context is None else _in_context(own, context)
    keywords: ContractKeywords
    if mode != "TOOLS":
        keywords = {"extraction": _JSON_MODES[mode], **declared}
        return ResponseModel(Contract(answer=typed, **keywords), {})
    told = load("instructor").generate_openai_schema(shown)
    tool = Tool.from_model(typed, name=told["name"], description=told["description"])
    keywords = {**declared, "tools": [tool]}
    return ResponseModel(Contract(**keywords), {"tool_choice": {"type": "function", "function": {"name": tool.name}}})


def _in_context(kind: type[BaseModel], context: _Context) -> Any:
    """Return a type whose validators read ``context`` as ``info.context``."""
    adapter = TypeAdapter(kind)

    def validated(value: Any, _: ValidatorFunctionWrapHandler) -> Any:
        return adapter.validate_json(to_json(value), context=context)

    return Annotated[kind, WrapValidator(validated)]


@dataclass(slots=True)
class _EngineCall:
    """One call of an engine: the seam that it goes through, its keywords, and its attempts so far."""

    seam: Seam
    wanted: ResponseModel
    settings: _EngineSettings
    keywords: JSONObject
    client: Any
    attempts: list[Attempt] = field(default_factory=list[Attempt])

    def wrapped(self) -> Any:
        """Put the seam under our own client: its loop, its policy, its errors."""
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
        """Keep an attempt with what was really sent; report a bad reply to instructor's hooks, and call the watcher."""
        sent = replace(attempt, request=self.seam.sent)
        self.attempts.append(sent)
        if sent.issues:
            retries = (self.keywords.get("policy") or self.settings.policy).max_retries
            summary = Invalid(sent.issues).summary  # holds no words of the model's
            self.client.hooks.emit_parse_error(
                load("instructor.core").ResponseParsingError(summary, raw_response=self.seam.came),
                attempt_number=sent.number,
                max_attempts=retries + 1,
                is_last_attempt=sent.tier >= retries,
            )
        watcher = self.settings.on_attempt
        return None if watcher is None else watcher(sent)

    @contextmanager
    def reported(self) -> Generator[None]:
        """Set the attempts of an error as they were sent."""
        try:
            yield
        except CallFailed as error:
            error.attempts = tuple(self.attempts)
            raise

    def extracted(self, exchange: Exchange) -> Extracted[Any]:
        """Return the typed value with its story."""
        return Extracted(self.wanted.value(exchange.reply), self.seam.came, tuple(self.attempts))


class _EngineBase:
    """What the sync and the async engine share: reading keywords, and making the seam of a call."""

    def __init__(self, client: Any, settings: _EngineSettings) -> None:
        """Raise ContractError for an instructor client of a mode or a provider that is not supported."""
        if client.mode.name not in _MODES:
            raise ContractError(
                f"instructor's mode {client.mode.name} is not supported; use one of {', '.join(_MODES)}"
            )
        self.client = client
        self._settings = settings
        self._dialect = dialect_of(client.provider.value)
        self._compiled = lru_cache(MAX_REMEMBERED)(self._compile)

    def _compile(self, kind: Any, context: _Context | None = None) -> ResponseModel:
        return response_model(kind, self.client.mode.name, self._settings.declared, context)

    def _call(self, kind: Any, messages: Sequence[Message], given: JSONObject) -> _EngineCall:
        """Read the keywords of one call: ours (``policy``), instructor's and the API's."""
        defaults = (name for name in self.client.kwargs if name in MADE_BY_INSTRUCTOR)
        refused = next((name for name in (*defaults, *given) if name in _ADVICE), None)
        if refused is not None:
            raise ContractError(f"{refused!r} is not accepted here: {_ADVICE[refused]}")
        own = {name: given[name] for name in _FOR_INSTRUCTOR if name in given} | {"response_model": kind}
        context = own.get("context")
        wanted = self._compiled(kind) if context is None else self._compile(kind, context)
        asked = list(messages)
        seam = Seam(self.client, self._dialect, asked, own)
        keywords = self.client.kwargs | {name: value for name, value in given.items() if name not in own}
        return _EngineCall(seam, wanted, self._settings, keywords | wanted.demands | {"messages": asked}, self.client)


class InstructorEngine(_EngineBase):
    """A sync engine over an instructor client; safe to share between threads."""

    def create(self, *, response_model: type[T], messages: Sequence[Message], **keywords: Any) -> T:
        """Ask for a value of ``response_model``; whatever is returned has passed the strict reader.

        ``messages`` and ``keywords`` are as instructor's ``create`` takes them (``model``, ``context``, ``hooks``, the
        provider's own), and ``policy`` for this call alone. Raises ReplyRejected, ReplyHalted or TransportFailed when
        nothing fits, ContractError when the request itself is wrong; nothing has been sent then.
        """
        return self.extract(response_model=response_model, messages=messages, **keywords).value

    def extract(self, *, response_model: type[T], messages: Sequence[Message], **keywords: Any) -> Extracted[T]:
        """Ask like :meth:`create`, and return the value with its story."""
        call = self._call(response_model, messages, keywords)
        with call.reported():
            exchange = call.wrapped().exchange(**call.keywords)
        return call.extracted(exchange)


class AsyncInstructorEngine(_EngineBase):
    """The async twin of :class:`InstructorEngine`."""

    async def create(self, *, response_model: type[T], messages: Sequence[Message], **keywords: Any) -> T:
        """Ask for a value of ``response_model``; see :meth:`InstructorEngine.create`."""
        return (await self.extract(response_model=response_model, messages=messages, **keywords)).value

    async def extract(self, *, response_model: type[T], messages: Sequence[Message], **keywords: Any) -> Extracted[T]:
        """Ask like :meth:`create`, and return the value with its story."""
        call = self._call(response_model, messages, keywords)
        with call.reported():
            exchange = await call.wrapped().exchange(**call.keywords)
        return call.extracted(exchange)


class AsyncInstructorLike(Protocol):
    """An ``AsyncInstructor``, told from an ``Instructor`` without importing either."""

    async def create_with_completion(self, *args: Any, **keywords: Any) -> tuple[Any, Any]:
        """Return a value and the completion."""
        ...


@overload
def wrap(client: AsyncInstructorLike, **keywords: Unpack[EngineOptions]) -> AsyncInstructorEngine: ...  # pyright: ignore[reportOverlappingOverload] - the first that fits counts
@overload
def wrap(client: Any, **keywords: Unpack[EngineOptions]) -> InstructorEngine: ...
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
) -> InstructorEngine | AsyncInstructorEngine:
    """Make an engine of an instructor client, such as ``instructor.from_provider("anthropic/…")``.

    An ``AsyncInstructor`` gives an :class:`AsyncInstructorEngine`. The client is not changed; its mode determines how
    the model is asked: TOOLS, JSON, JSON_SCHEMA or MD_JSON. ``policy`` None means ``RetryPolicy(transport_retries=0)``:
    the provider's SDK repeats failed requests by itself; give the SDK ``max_retries=0`` before you pass a policy with
    transport retries. ``extraction`` None is strict, but for MD_JSON ``fenced``. All other keywords are those of
    :func:`strictreply.wrap`.

    Raises ContractError for a provider or a mode that is not supported and for an async ``on_attempt`` of a sync
    engine, TypeError when ``client`` is no instructor client, ImportError when instructor is not installed.
    """
    library = load("instructor")
    if not isinstance(client, library.Instructor):
        raise TypeError("wrap() needs an instructor client, such as instructor.from_provider('openai/…')")
    is_async = isinstance(client, library.AsyncInstructor)
    if not is_async and inspect.iscoroutinefunction(on_attempt):
        raise ContractError("on_attempt must be a sync function, or client an AsyncInstructor")
    declared: ContractKeywords = {"extra": extra, "formats": formats, "limits": limits}
    if extraction is not None:
        declared["extraction"] = extraction
    settings = _EngineSettings(policy or _LEFT_TO_THE_SDK, steering, on_attempt, log_replies, declared)
    return (AsyncInstructorEngine if is_async else InstructorEngine)(client, settings)
