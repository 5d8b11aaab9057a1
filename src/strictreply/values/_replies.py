"""What one call comes to: replies, verdicts, and the record of its attempts.

The record never holds a credential.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, asdict, dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeAlias, cast
from urllib.parse import parse_qsl, unquote

from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from strictreply.values._issues import Issue
from strictreply.values._limits import JSON, MAX_NUMBER_DIGITS, JSONObject, utf8_size
from strictreply.values._mistakes import ON_REPLIES, Kind, with_hints

A_co = TypeVar("A_co", covariant=True, default=Any)
"""The type of a contract's answers.

It is ``str``, the contract's ``answer`` type, or JSON that fits its schema.
"""

Args_co = TypeVar("Args_co", covariant=True, default=Any)
"""The type of a call's arguments."""

REDACTED = "[redacted]"
"""What replaces a credential in a text."""

NOT_KEPT = "[not kept]"  # replaces the value of a keyword that may hold a credential
MIN_CREDENTIAL_CHARS = 8
"""The least length of a credential.

A shorter one is a placeholder (``none``, ``EMPTY``), and its letters may occur anywhere.
"""

_MIN_UNNAMED_CHARS = 12
_OPENAI_KEYWORDS = frozenset({"extra_headers", "extra_query", "extra_body"})
_TRANSPORT_KEYWORDS = _OPENAI_KEYWORDS.union(  # with those of other clients
    ("headers", "default_headers", "default_query", "query", "params", "cookies"),
    ("auth", "proxy", "proxies", "base_url", "api_base", "client", "http_client"),
)
_CREDENTIAL_NAME = re.compile(
    r"(?i)(?:api|access|private|secret|signing|auth)[-_]?key|auth(?!or(?!iz))|"
    r"cookie|credential|passphrase|passwd|password|secret|session|signature|"
    r"token(?:_provider)?$"  # not max_tokens
)
_PLAIN_HEADER = re.compile(
    r"(?i)accept.*|connection|content-.*|host|idempotency-key|transfer-encoding|"
    r"user-agent|x-stainless-.*|.*version.*"
)
_ADDRESS = re.compile(r"[A-Za-z0-9+.-]+://(?:(?P<user>[^/?#]*)@)?[^?#]*(?:\?(?P<query>[^#]*))?")
_SEPARATORS = re.compile(r"[\s;,:=&]+")
_UNGUESSABLE = re.compile(r"(?=\S*[0-9])(?=\S*[A-Za-z])\S+")


def _subscriptable(kind: Kind) -> Kind:
    """Let instances of a frozen class be made by ``ToolCall[Refund](…)``, too.

    Python notes the parameters on them, and expects an AttributeError where that is refused; before
    3.12 a frozen class with slots refuses it by a TypeError.
    """
    made: Any = kind

    def refuse(_self: object, name: str, _value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    made.__setattr__ = refuse
    return kind


@with_hints(ON_REPLIES)
@_subscriptable
@dataclass(frozen=True, slots=True)
class ToolCall(Generic[Args_co]):
    """One call of a declared tool, its arguments valid for that tool.

    ``args`` is an instance of the tool's pydantic model for a tool made from a model or a function,
    else a dict. ``id`` is the provider's call id, or None in the text channel, which has none.

    To type checkers ``args`` is what the program says: Any by default, since the model of a
    function's arguments has no name to write, narrowed by ``case ToolCall(args=Refund() as
    refund)``, and ``Refund`` in a ``ToolCall[Refund]``, as which any call may be passed on.
    """

    tool: str
    args: Args_co
    id: str | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """This call alone: every reply has its calls under this name."""
        return (self,)

    def to_dict(self) -> JSONObject:
        """Return the call as JSON, typed arguments included; the id only when there is one."""
        written = {"tool": self.tool, "args": to_jsonable_python(self.args, by_alias=True)}
        return written if self.id is None else written | {"id": self.id}


@with_hints(ON_REPLIES)
@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Several native calls of one message, in the model's order; only with ``parallel=True``."""

    calls: tuple[ToolCall, ...]

    def to_dict(self) -> JSONObject:
        """Return the calls as JSON."""
        return {"calls": [call.to_dict() for call in self.calls]}


@with_hints(ON_REPLIES)
@_subscriptable
@dataclass(frozen=True, slots=True)
class DirectAnswer(Generic[A_co]):
    """An answer to the user: a str, or an instance of the contract's ``answer`` type or schema."""

    answer: A_co

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """No call."""
        return ()

    def to_dict(self) -> JSONObject:
        """Return the answer as JSON, a typed one included."""
        return {"answer": to_jsonable_python(self.answer, by_alias=True)}


AssistantReply: TypeAlias = ToolCall | ToolCalls | DirectAnswer[A_co]
"""Everything a contract lets through (requirement T3)."""


@dataclass(frozen=True, slots=True)
class Valid(Generic[A_co]):
    """The reply fits the contract.

    ``lenient`` names each way of servers that was read as the API's, and each step that an
    opted-in ``extraction`` took.
    """

    reply: AssistantReply[A_co]
    lenient: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Invalid:
    """The reply does not fit; ``issues`` holds every fault found, at least one."""

    issues: tuple[Issue, ...]
    lenient: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """All faults on one line, ``dotted.path: message`` joined by semicolons (T37)."""
        return "; ".join(issue.dotted for issue in self.issues)


Verdict: TypeAlias = Valid[A_co] | Invalid


# The depth of a copy of a request: far beyond any that can be sent, short of Python's own limit.
MAX_DEPTH = 200
# The least integer that ``str`` and ``json.dumps`` refuse to print.
_ENDLESS: int = 10**MAX_NUMBER_DIGITS
# The largest count that is believed: JSON has no larger exact integer (RFC 7493 section 2.2).
MAX_TOKENS = 2**53 - 1


@dataclass(frozen=True, slots=True)
class UsageNames:
    """Where an API writes the tokens of a response."""

    prompt: str
    """The member for those of the request."""
    completion: str
    """The member for those of the reply."""
    total: str
    """The member for those of both; empty where the API writes no sum."""
    holder: str = "usage"
    """The member of a response that holds the others."""
    prompt_beside: tuple[str, ...] = ()
    """The members for tokens of the request that ``prompt`` does not count, such as cached ones."""

    @property
    def counts(self) -> tuple[str, str, str]:
        """The names of the three counts."""
        return (self.prompt, self.completion, self.total)


OUR_NAMES = UsageNames("prompt_tokens", "completion_tokens", "total_tokens")
"""The names of the counts in our own form, which is that of chat completions."""

TOKEN_BYTES = 4  # of JSON, where the provider counts no tokens
_COUNTS = operator.attrgetter(*OUR_NAMES.counts)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them.

    Where it did not say they are estimated: four bytes of the JSON of a request, or of the message
    that came, are a token, rounded up. They are zero where no message came.
    """

    prompt_tokens: int = 0
    """Tokens of the request."""
    completion_tokens: int = 0
    """Tokens of the reply."""
    total_tokens: int = 0
    """Tokens of both."""
    is_estimate: bool = False
    """Whether the counts are estimated."""

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of two counts, which is an estimate where one of them is."""
        prompt, answer, total = map(operator.add, _COUNTS(self), _COUNTS(other))
        return Usage(prompt, answer, total, self.is_estimate or other.is_estimate)

    @classmethod
    def of(cls, response: JSON, names: UsageNames = OUR_NAMES) -> Usage:
        """Read the usage of a response under its API's ``names``.

        Anything that is not a count up to 2^53 - 1 is read as zero.
        """
        usage = response.get(names.holder) if isinstance(response, dict) else None
        if not isinstance(usage, dict):
            return cls()

        prompt = _count(usage.get(names.prompt))
        answer = _count(usage.get(names.completion))
        total = _count(usage.get(names.total))
        for name in names.prompt_beside:
            prompt += _count(usage.get(name))

        return cls(prompt, answer, max(total, prompt + answer))

    def with_estimates(
        self, response: JSON, sent: object, came: object, names: UsageNames = OUR_NAMES
    ) -> Usage:
        """Return the counts with estimates of those that the provider left out.

        ``sent`` and ``came`` are the JSON of the request and of the message. A count of zero is
        believed beside another one, and a sum that is told alone is shared out by the estimates.
        """
        usage = response.get(names.holder) if isinstance(response, dict) else None
        said = usage if isinstance(usage, dict) and self.total_tokens else {}
        parts = self.prompt_tokens + self.completion_tokens
        has_prompt, has_answer = (_is_told(said.get(name)) for name in names.counts[:2])
        if parts and has_prompt and has_answer:
            return self

        more = self.total_tokens - parts
        if more and parts:
            prompt = self.prompt_tokens or more
            return Usage(prompt, self.total_tokens - prompt, self.total_tokens)
        if more:
            written = _estimate(came)
            answer = -(-more * written // (_estimate(sent) + written))
            return Usage(more - answer, answer, more, is_estimate=True)

        prompt = self.prompt_tokens if has_prompt else _estimate(sent)
        answer = self.completion_tokens if has_answer else _estimate(came)
        return Usage(prompt, answer, prompt + answer, is_estimate=True)


def _estimate(value: object) -> int:
    """Return the tokens of a JSON value: its bytes as JSON, four a token, rounded up."""
    written = json.dumps(value, ensure_ascii=False, default=_written, skipkeys=True)
    return -(-utf8_size(written) // TOKEN_BYTES)


def _written(value: object) -> JSON:
    """Return an object of the SDK's as it is sent, the name of its type for any other."""
    dump = getattr(value, "model_dump", None)
    if not callable(dump) or isinstance(value, type):
        return type_name(value)

    try:
        return cast("JSON", dump(mode="json", exclude_unset=True, warnings=False))
    except (TypeError, ValueError):
        return type_name(value)  # it holds what is not JSON


def _count(value: object) -> int:
    return value if isinstance(value, int) and _is_told(value) else 0


def _is_told(value: object) -> bool:
    """Return whether a value is a count of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS


@dataclass(frozen=True, slots=True)
class StoppedEarly:
    """Where a stream was closed, as nothing that could follow would have made its reply valid."""

    at: int
    """The bytes of the reply that had come."""
    saved: int | None = None
    """The tokens that the rest of a valid reply would have taken at least; None when unknown.

    Four characters are a token.
    """


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to the model and its outcome.

    The request and the raw reply stay out of ``repr``: they hold the prompt and what the model
    wrote.
    """

    number: int
    """Position of the attempt, counted from 1."""
    request: Mapping[str, Any] = field(repr=False)
    """The request, without how it was sent.

    The values of ``extra_headers``, ``extra_query``, ``extra_body`` and of every keyword named like
    a credential are replaced by ``"[not kept]"``. JSON has it only where raw replies are requested.
    """
    raw: JSON = field(default=None, repr=False)
    """The unchanged response; None when the transport failed.

    JSON has it only where raw replies are requested.
    """
    issues: tuple[Issue, ...] = ()
    """The faults of the reply; empty when it was accepted, or when the transport failed."""
    failure: str | None = None
    """How the transport failed; None when a response came."""
    correction: str | None = field(default=None, repr=False)
    """The text that asked for this attempt; None for the first request and a plain resend."""
    tier: int = 0
    """How far the correction had escalated, from 1; 0 without a correction."""
    scope: str | None = None
    """The part that alone was requested again; None for a whole reply.

    It is tools, the pointer to a value inside an answer, or a tool and a pointer into its
    arguments.
    """
    lenient: tuple[str, ...] = ()
    """Names of the lenient steps that were needed to read the reply.

    They are the deviations of servers that were accepted (``dialects`` of a contract), and the
    steps that an opted-in extraction took.
    """
    dropped_params: tuple[str, ...] = ()
    """The keywords that strictreply had added and the endpoint refused.

    The next attempt is the same request without them.
    """
    stopped_early: StoppedEarly | None = None
    """Where the stream was closed before its end; None when it was not."""
    usage: Usage = Usage()
    """The tokens as the provider counted them, else estimated: four bytes are a token."""
    seconds: float = 0.0
    """Seconds that the call took."""
    escalation: str | None = None
    """The step of the policy that was applied last; None when none was.

    It is ``forced_tool``, ``response_format``, ``constrained_call``, ``model:<name>``, ``human`` or
    ``keywords``.
    """
    api: str = "chat"
    """The API that was asked: ``chat``, ``responses`` or ``messages``."""
    reply_at: str = ""
    """Pointer to the reply in the response; empty for the whole of it.

    JSON has it only where raw replies are requested.
    """
    observed: bool = False
    """Whether the reply was handed on though it does not fit: its faults were only observed."""

    def __post_init__(self) -> None:
        # here, because every watcher, pickle and explanation takes the request from an attempt
        object.__setattr__(self, "request", without_transport(self.request))

    @property
    def accepted(self) -> bool:
        """Whether this attempt's reply fits, and was let through."""
        return not self.issues and self.failure is None

    def to_dict(self, *, raw: bool = False) -> JSONObject:
        """Return the attempt as JSON-safe values.

        The request and the raw reply are in it only when ``raw`` is true.
        """
        record: dict[str, Any] = {
            "number": self.number,
            "issues": [issue.to_dict() for issue in self.issues],
            "failure": self.failure,
            "correction": self.correction,
            "tier": self.tier,
            "scope": self.scope,
            "escalation": self.escalation,
            "lenient": list(self.lenient),
            "dropped_params": list(self.dropped_params),
            "stopped_early": self.stopped_early and asdict(self.stopped_early),
            "usage": asdict(self.usage),
            "seconds": self.seconds,
            "api": self.api,
            "observed": self.observed,
        }

        if raw:
            record["request"] = plain_request(self.request)
            record["raw"] = plain(self.raw)
            record["reply_at"] = self.reply_at
        return record


def plain_request(request: Mapping[str, object]) -> dict[str, JSON]:
    """Copy a request into what JSON can hold."""
    return {name: plain(value) for name, value in request.items()}


def type_name(value: object) -> str:
    """Return the type of a value, in angle brackets."""
    return f"<{type(value).__name__}>"


def plain(
    value: object, *, other: Callable[[object], str] = type_name, above: tuple[int, ...] = ()
) -> JSON:
    """Copy mappings and sequences into dicts and lists, and scalars as exactly str, int and float.

    ``other`` writes what JSON cannot hold. A value inside itself, or more than 200 levels deep,
    becomes the name of its type, as does an integer that Python refuses to print; ``above`` holds
    the identities of the values around this one.
    """
    if value is None or isinstance(value, bool):
        return value
    # out of its subclass: a member of an Enum pickles as its class, which a reader may not have
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return type_name(value) if abs(value) >= _ENDLESS else int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if not isinstance(value, Mapping | list | tuple):
        return other(value)
    if id(value) in above or len(above) >= MAX_DEPTH:
        return type_name(value)

    inside = (*above, id(value))

    if isinstance(value, Mapping):
        return {
            _key(name): plain(member, other=other, above=inside) for name, member in value.items()
        }

    return [plain(member, other=other, above=inside) for member in value]


def _key(name: object) -> str:
    if name is None or isinstance(name, str | int | float):
        return str(plain(name))
    return type_name(name)


def total_usage(attempts: tuple[Attempt, ...]) -> Usage:
    """Return the tokens of all attempts together."""
    return sum((attempt.usage for attempt in attempts), Usage())


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return one | {name: _added(one.get(name), value) for name, value in other.items()}
    if _is_amount(one) and _is_amount(other):
        return one + other
    return one if other is None or isinstance(one, dict) else other


def _is_amount(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= MAX_TOKENS


def summed_usage(attempts: tuple[Attempt, ...], names: UsageNames = OUR_NAMES) -> JSONObject:
    """Return what providers wrote of their tokens, of all attempts together.

    Amounts are added up, those of details and costs too; of anything else the last is taken.
    Estimates of ours are no part of it.
    """
    written: JSONObject = {}
    counted = Usage()
    for attempt in attempts:
        usage = attempt.raw.get(names.holder) if isinstance(attempt.raw, dict) else None
        written = _added(written, usage)
        counted += Usage.of(attempt.raw, names)

    # of an API without a sum each count is one of those that were added
    return (
        written
        if not names.total
        else written | dict(zip(names.counts, _COUNTS(counted), strict=True))
    )


def without_transport(request: Mapping[str, object]) -> Mapping[str, object]:
    """Return a request without what may be a credential.

    The values of the transport's keywords, and of those named like a credential, are replaced by
    ``"[not kept]"``.
    """
    hidden = {name for name in request if _may_be_credential(name)}
    if not hidden:
        return request
    return {name: NOT_KEPT if name in hidden else request[name] for name in request}


@lru_cache
def _may_be_credential(name: str) -> bool:
    return name in _TRANSPORT_KEYWORDS or _CREDENTIAL_NAME.search(name) is not None


def without_credentials(words: str, cause: BaseException) -> str:
    """Return ``words`` without the credentials that the request of ``cause`` was sent with.

    Servers repeat them in what they answer.
    """
    try:
        request = getattr(cause, "request", None)
    except RuntimeError:  # HTTP libraries raise it where an exception was given no request
        return words

    for secret in credentials_of(request):
        words = words.replace(secret, REDACTED)
    return words


def credentials_of(request: object) -> tuple[str, ...]:
    """Return what may be a credential in the headers and the address of an HTTP request.

    Under a name such as ``authorization`` these are the value and each part of it; under any other
    name, a value of at least twelve characters with letters and digits, and no blank. The longest
    stands first.
    """
    named: list[tuple[str, str]] = []
    headers = getattr(request, "headers", None)
    if isinstance(headers, Mapping):
        named = [(str(name), str(headers[name])) for name in headers]

    address = _ADDRESS.match(str(getattr(request, "url", "")))
    if address is not None:
        named += [("password", unquote(address["user"] or "")), *parse_qsl(address["query"] or "")]

    found: set[str] = set()
    for name, value in named:
        if _CREDENTIAL_NAME.search(name):
            parts = (*value.split(), *_SEPARATORS.split(value))
            found |= {part for part in parts if len(part) >= MIN_CREDENTIAL_CHARS}
        elif _is_unguessable(value) and not _PLAIN_HEADER.fullmatch(name):
            found.add(value)

    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def _is_unguessable(value: str) -> bool:
    return len(value) >= _MIN_UNNAMED_CHARS and _UNGUESSABLE.fullmatch(value) is not None
