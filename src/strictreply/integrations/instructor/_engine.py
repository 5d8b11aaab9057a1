"""The engine over an instructor client.

Instructor prepares the request and calls the provider; strictreply reads the reply and does the
retries.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Annotated, Any, Final, Generic, Protocol, TypedDict, TypeVar, Unpack, overload

from pydantic import BaseModel, TypeAdapter, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import to_json

from strictreply import (
    Attempt,
    Contract,
    ContractError,
    DirectAnswer,
    Exchange,
    Limits,
    RetryPolicy,
    Steering,
    Tool,
    Usage,
)
from strictreply import wrap as wrap_client
from strictreply.core import (
    DEFAULT_LIMITS,
    Extra,
    Extraction,
    Formats,
    JSONObject,
    Message,
    OnAttempt,
    Redact,
    RetryBucket,
)
from strictreply.core.calls import total_usage
from strictreply.core.judging import ContractKeywords
from strictreply.integrations import load
from strictreply.integrations.instructor._provider_seam import MADE_BY_INSTRUCTOR, Seam, dialect_of

T = TypeVar("T")

MAX_REMEMBERED: Final = 256  # compiled response models of an engine, most recently used

# the leniency of each mode; TOOLS is one forced call, the others are content
_MODES: Final[Mapping[str, Extraction]] = {
    **dict.fromkeys(("TOOLS", "JSON", "JSON_SCHEMA"), "strict"),
    "MD_JSON": "fenced",
}

# the keywords of instructor's ``create`` that an engine rejects, and what to use instead
_ADVICE: Final = {
    **dict.fromkeys(MADE_BY_INSTRUCTOR, "instructor makes it from response_model; leave it out"),
    "max_retries": "pass policy=RetryPolicy(max_retries=…)",
    "token_budget": "pass policy=RetryPolicy(max_tokens_total=…)",
    "strict": "values are never coerced; leave it out",
    "cache": "replies are not cached; leave it out",
}


@dataclass(frozen=True, slots=True)
class Extracted(Generic[T]):
    """A value, with its completion and attempts.

    ``completion`` is the provider's own object that contains the value. ``attempts`` has every
    attempt as instructor sent it.
    """

    value: T
    """The typed value."""
    completion: Any = field(repr=False)
    """The provider's object that the value was read from."""
    attempts: tuple[Attempt, ...]
    """Every attempt, as instructor sent it."""

    @property
    def usage(self) -> Usage:
        """The tokens of all attempts together."""
        return total_usage(self.attempts)


class EngineOptions(TypedDict, total=False):
    """The keywords of :func:`wrap`, most of which are also those of :func:`strictreply.wrap`."""

    policy: RetryPolicy | None
    """The retry policy; None for one without transport retries."""
    steering: Steering | None
    """Writes the corrections; None for the default."""
    on_attempt: OnAttempt | None
    """Called with each attempt; None for no function."""
    log_replies: Redact | None
    """Redacts raw replies for the DEBUG log; None logs no reply."""
    extraction: Extraction | Sequence[Extraction] | None
    """The lenient steps that are allowed to find JSON in a text; None for those of the mode."""
    extra: Extra | None
    """Whether extra keys are allowed; None for the default."""
    formats: Formats | None
    """Whether ``format`` in a schema is checked; None for the default."""
    limits: Limits
    """The size limits of a reply."""


class _EngineBase:
    def __init__(
        self,
        client: Any,
        declared: ContractKeywords,
        policy: RetryPolicy,
        on_attempt: OnAttempt | None,
        **loop: Any,
    ) -> None:
        """Raise ContractError for a mode or a provider that is not supported."""
        if (mode := client.mode.name) not in _MODES:
            raise ContractError(
                f"instructor's mode {mode} is not supported; use one of {', '.join(_MODES)}"
            )
        dialect_of(client)

        self.client = client
        self._declared = declared
        self._policy = policy
        self._on_attempt = on_attempt
        self._loop = loop
        self._bucket = RetryBucket()  # limits the repeats of all calls together
        self._remembered = lru_cache(MAX_REMEMBERED)(self._compiled)

    def _compiled(
        self, kind: object, context: JSONObject | None = None
    ) -> tuple[Contract, JSONObject]:
        """Return the contract of a type, and the members of a request that it requires.

        The type's validators read ``context``.
        """
        model = load("instructor.utils").prepare_response_model(kind)
        if not isinstance(model, type) or not issubclass(model, BaseModel):
            known = "a pydantic model, list[…], a TypedDict, int, …"
            raise ContractError(f"response_model must be a type that instructor takes: {known}")

        own: Any = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else model
        if context is not None:
            adapter = TypeAdapter(own)

            def validated(value: object, _: ValidatorFunctionWrapHandler) -> object:
                return adapter.validate_json(to_json(value), context=context)

            own = Annotated[own, WrapValidator(validated)]

        keywords: ContractKeywords = {"extraction": _MODES[self.client.mode.name], **self._declared}
        if self.client.mode.name != "TOOLS":
            return Contract(answer=own, **keywords), {}

        definition = load("instructor").generate_openai_schema(model)
        tool = Tool.from_model(own, name=definition["name"], description=definition["description"])
        keywords["tools"] = [tool]
        choice = {"type": "function", "function": {"name": tool.name}}
        return Contract(**keywords), {"tool_choice": choice}

    def _call(
        self, kind: object, messages: Sequence[Message], given: JSONObject
    ) -> tuple[Seam, Callable[[], Any]]:
        defaults = (name for name in self.client.kwargs if name in MADE_BY_INSTRUCTOR)
        refused = next((name for name in (*defaults, *given) if name in _ADVICE), None)
        if refused is not None:
            raise ContractError(f"{refused!r} is not accepted here: {_ADVICE[refused]}")

        own: JSONObject = {name: given[name] for name in ("context", "hooks") if name in given}
        own["response_model"] = kind

        context = own.get("context")
        if context is None:
            contract, demands = self._remembered(kind)
        else:
            contract, demands = self._compiled(kind, context)

        asked = list(messages)
        passed = {name: value for name, value in given.items() if name not in own}
        keywords = self.client.kwargs | passed | demands | {"messages": asked}

        retries = (keywords.get("policy") or self._policy).max_retries
        seam = Seam(self.client, asked, own, max_retries=retries, watcher=self._on_attempt)
        client: Any = wrap_client(
            seam, contract=contract, policy=self._policy, on_attempt=seam.note, **self._loop
        )
        return seam, partial(client.counting_in(self._bucket).exchange, **keywords)


def _extracted(seam: Seam, exchange: Exchange) -> Extracted[Any]:
    reply = exchange.reply
    # the request demanded exactly one call
    value = reply.answer if isinstance(reply, DirectAnswer) else reply.calls[0].args

    if isinstance(value, load("instructor.v2.dsl.simple_type").AdapterBase):
        value = value.content
    elif isinstance(value, load("instructor.v2.dsl.iterable").IterableBase):
        value = list(value.tasks)

    return Extracted(value, seam.came, tuple(seam.attempts))


class InstructorEngine(_EngineBase):
    """A sync engine over an instructor client; safe to share between threads."""

    def create(
        self, *, response_model: type[T], messages: Sequence[Message], **keywords: object
    ) -> T:
        """Make one call, and return a valid value of ``response_model``.

        ``messages`` and ``keywords`` are those of instructor's ``create`` (``model``, ``context``,
        ``hooks``, the provider's own), and ``policy`` for this call. Raises ReplyRejected,
        ReplyHalted or TransportFailed if there is no valid reply. Raises ContractError, before
        anything is sent, if the request itself is wrong.
        """
        return self.extract(response_model=response_model, messages=messages, **keywords).value

    def extract(
        self, *, response_model: type[T], messages: Sequence[Message], **keywords: object
    ) -> Extracted[T]:
        """Call like :meth:`create`, and return the value with its completion and attempts."""
        seam, ask = self._call(response_model, messages, keywords)
        with seam.reported():
            return _extracted(seam, ask())


class AsyncInstructorEngine(_EngineBase):
    """An async engine over an instructor client: :class:`InstructorEngine` with async methods."""

    async def create(
        self, *, response_model: type[T], messages: Sequence[Message], **keywords: object
    ) -> T:
        """Make one call, and return a valid value; see :meth:`InstructorEngine.create`."""
        extracted = await self.extract(response_model=response_model, messages=messages, **keywords)
        return extracted.value

    async def extract(
        self, *, response_model: type[T], messages: Sequence[Message], **keywords: object
    ) -> Extracted[T]:
        """Call like :meth:`create`, and return the value with its completion and attempts."""
        seam, ask = self._call(response_model, messages, keywords)
        with seam.reported():
            return _extracted(seam, await ask())


class AsyncInstructorLike(Protocol):
    """An ``AsyncInstructor``, distinguished from an ``Instructor`` without importing either."""

    async def create_with_completion(
        self, *args: object, **keywords: object
    ) -> tuple[Any, Any]: ...


@overload
def wrap(  # pyright: ignore[reportOverlappingOverload] - the first that fits counts
    client: AsyncInstructorLike, **keywords: Unpack[EngineOptions]
) -> AsyncInstructorEngine: ...
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
    """Make an engine from an instructor client.

    ``client`` is, for example, ``instructor.from_provider("anthropic/…")``. An ``AsyncInstructor``
    makes an :class:`AsyncInstructorEngine`. The client's mode determines the form of the requests:
    TOOLS, JSON, JSON_SCHEMA or MD_JSON.

    - ``policy`` None means ``RetryPolicy(transport_retries=0)``, because the provider's SDK repeats
      failed requests itself. Before you pass a policy with transport retries, set the SDK's
      ``max_retries=0``.
    - ``extraction`` None means ``strict``, and ``fenced`` for MD_JSON.
    - The other keywords are those of :func:`strictreply.wrap`.

    Raises ContractError for a provider or mode that is not supported, and for an async
    ``on_attempt`` of a sync engine; TypeError if ``client`` is not an instructor client;
    ImportError if instructor is not installed.
    """
    library = load("instructor")
    if not isinstance(client, library.Instructor):
        raise TypeError(
            "wrap() needs an instructor client, such as instructor.from_provider('openai/…')"
        )

    is_async = isinstance(client, library.AsyncInstructor)
    if not is_async and inspect.iscoroutinefunction(on_attempt):
        raise ContractError(
            "on_attempt is async: pass a sync function, or an AsyncInstructor as client"
        )

    declared: ContractKeywords = {"extra": extra, "formats": formats, "limits": limits}
    if extraction is not None:
        declared["extraction"] = extraction

    engine = AsyncInstructorEngine if is_async else InstructorEngine
    policy = policy or RetryPolicy(transport_retries=0)
    return engine(client, declared, policy, on_attempt, steering=steering, log_replies=log_replies)
