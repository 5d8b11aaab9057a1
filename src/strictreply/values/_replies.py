"""Results of a call: replies, verdicts, and the record of its attempts.

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
"""The type of a contract's answers: ``str``, its ``answer`` type, or JSON that fits its schema."""

Args_co = TypeVar("Args_co", covariant=True, default=Any)
"""The type of a call's arguments."""

REDACTED = "[redacted]"
"""What replaces a credential in a text."""

NOT_KEPT = "[not kept]"  # replaces the value of a keyword that may hold a credential
MIN_CREDENTIAL_CHARS = 8
"""The shortest text that is treated as a credential.

A shorter one is a placeholder (``none``, ``EMPTY``), whose letters may occur anywhere.
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
    """Allow ``ToolCall[Refund](…)`` to create instances of a frozen class.

    Python tries to set the type parameters on each instance, and ignores only an AttributeError.
    Before 3.12 a frozen class with slots raises a TypeError instead.
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
    """One call of a declared tool, with arguments that are valid for that tool.

    For type checkers ``args`` is Any by default. ``case ToolCall(args=Refund() as refund)`` narrows
    it to ``Refund``, and so does the annotation ``ToolCall[Refund]``.
    """

    tool: str
    """The name of the tool."""
    args: Args_co
    """The arguments: an instance of the tool's pydantic model, or a dict for a tool without one.

    A tool made from a function has such a model, too.
    """
    id: str | None = None
    """The provider's id of the call; None in the text channel, where calls have no ids."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of the reply: this one."""
        return (self,)

    def to_dict(self) -> JSONObject:
        """Return the call as JSON, typed arguments included; without an id that is None."""
        written = {"tool": self.tool, "args": to_jsonable_python(self.args, by_alias=True)}
        return written if self.id is None else written | {"id": self.id}


@with_hints(ON_REPLIES)
@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Several native calls of one message; only with ``parallel=True``."""

    calls: tuple[ToolCall, ...]
    """The calls, in the model's order."""

    def to_dict(self) -> JSONObject:
        """Return the calls as JSON."""
        return {"calls": [call.to_dict() for call in self.calls]}


@with_hints(ON_REPLIES)
@_subscriptable
@dataclass(frozen=True, slots=True)
class DirectAnswer(Generic[A_co]):
    """An answer to the user."""

    answer: A_co
    """A str, an instance of the contract's ``answer`` type, or JSON that fits its schema."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls of the reply: none."""
        return ()

    def to_dict(self) -> JSONObject:
        """Return the answer as JSON; a typed answer is serialized."""
        return {"answer": to_jsonable_python(self.answer, by_alias=True)}


AssistantReply: TypeAlias = ToolCall | ToolCalls | DirectAnswer[A_co]
"""Every reply that a contract accepts is one of these."""


@dataclass(frozen=True, slots=True)
class Valid(Generic[A_co]):
    """The verdict on a reply that fits the contract."""

    reply: AssistantReply[A_co]
    """The typed reply."""
    lenient: tuple[str, ...] = ()
    """Names of the lenient steps that were needed to read the reply; see ``Attempt.lenient``."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """The verdict on a reply that does not fit the contract."""

    issues: tuple[Issue, ...]
    """Every fault that was found, at least one."""
    lenient: tuple[str, ...] = ()
    """Names of the lenient steps that were needed to read the reply; see ``Attempt.lenient``."""

    @property
    def summary(self) -> str:
        """All faults on one line: ``dotted.path: message``, joined by semicolons."""
        return "; ".join(issue.dotted for issue in self.issues)


Verdict: TypeAlias = Valid[A_co] | Invalid
"""The result of a check: :class:`Valid` or :class:`Invalid`."""


# The deepest copy of a request: far deeper than any real one, below Python's own recursion limit.
MAX_DEPTH = 200
# The least integer that ``str`` and ``json.dumps`` refuse to print.
_ENDLESS: int = 10**MAX_NUMBER_DIGITS
# The largest count that is trusted: larger integers are not exact in JSON (RFC 7493 section 2.2).
MAX_TOKENS = 2**53 - 1


@dataclass(frozen=True, slots=True)
class UsageNames:
    """The names under which an API reports the tokens of a response."""

    prompt: str
    """The member for the tokens of the request."""
    completion: str
    """The member for the tokens of the reply."""
    total: str
    """The member for the sum of both; empty if the API has none."""
    holder: str = "usage"
    """The member of the response that contains the others."""
    prompt_beside: tuple[str, ...] = ()
    """The members for tokens of the request that ``prompt`` does not count, such as cached ones."""

    @property
    def counts(self) -> tuple[str, str, str]:
        """The names of the three counts."""
        return (self.prompt, self.completion, self.total)


OUR_NAMES = UsageNames("prompt_tokens", "completion_tokens", "total_tokens")
"""The names of the counts in strictreply's own form, the same as in chat completions."""

TOKEN_BYTES = 4  # of JSON, for an estimate when the provider reports no tokens
_COUNTS = operator.attrgetter(*OUR_NAMES.counts)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counted them.

    If the provider does not report them, they are estimated: one token for every four bytes of the
    JSON of the request and of the reply, rounded up. Without a reply they are zero.
    """

    prompt_tokens: int = 0
    """Tokens of the request."""
    completion_tokens: int = 0
    """Tokens of the reply."""
    total_tokens: int = 0
    """Tokens of both."""
    is_estimate: bool = False
    """Whether any of the counts is estimated."""

    def __add__(self, other: Usage) -> Usage:
        """Return the sum; it is an estimate if one of the two is."""
        prompt, answer, total = map(operator.add, _COUNTS(self), _COUNTS(other))
        return Usage(prompt, answer, total, self.is_estimate or other.is_estimate)

    @classmethod
    def of(cls, response: JSON, names: UsageNames = OUR_NAMES) -> Usage:
        """Return the usage of a response, read by the ``names`` of its API.

        Anything but an integer from 0 to 2^53 - 1 is read as zero.
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
        """Return the counts, with estimates for those that the provider left out.

        ``sent`` and ``came`` are the JSON of the request and of the message. A count of zero is
        trusted if another count is not zero. If the provider reports only a sum, it is divided in
        proportion to the estimates.
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
    """Return the estimated tokens of a JSON value: one for every four bytes of JSON, rounded up."""
    written = json.dumps(value, ensure_ascii=False, default=_written, skipkeys=True)
    return -(-utf8_size(written) // TOKEN_BYTES)


def _written(value: object) -> JSON:
    """Return an SDK object as the JSON that is sent; any other object as the name of its type."""
    dump = getattr(value, "model_dump", None)
    if not callable(dump) or isinstance(value, type):
        return type_name(value)

    try:
        return cast("JSON", dump(mode="json", exclude_unset=True, warnings=False))
    except (TypeError, ValueError):
        return type_name(value)  # some part of it is not JSON


def _count(value: object) -> int:
    return value if isinstance(value, int) and _is_told(value) else 0


def _is_told(value: object) -> bool:
    """Return whether a value is a count of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS


@dataclass(frozen=True, slots=True)
class StoppedEarly:
    """Where a stream was closed early, because its reply could no longer become valid."""

    at: int
    """The bytes of the reply that had been received."""
    saved: int | None = None
    """The least number of tokens that a valid reply would still have needed; None if unknown.

    Four characters count as a token.
    """


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to the model and its outcome.

    ``repr`` leaves out the request and the raw reply, which hold the prompt and the model's words.
    """

    number: int
    """Position of the attempt, counted from 1."""
    request: Mapping[str, Any] = field(repr=False)
    """The request, without transport settings.

    The values of ``extra_headers``, ``extra_query``, ``extra_body`` and of every keyword named like
    a credential are replaced by ``"[not kept]"``. ``to_dict`` includes it only with ``raw=True``.
    """
    raw: JSON = field(default=None, repr=False)
    """The unchanged response; None if the transport failed.

    ``to_dict`` includes it only with ``raw=True``.
    """
    issues: tuple[Issue, ...] = ()
    """The faults of the reply; empty if it was accepted, or if the transport failed."""
    failure: str | None = None
    """How the transport failed; None if a response was received."""
    correction: str | None = field(default=None, repr=False)
    """The correction that requested this attempt; None for the first request and a plain resend."""
    tier: int = 0
    """How far the correction had escalated, from 1; 0 without a correction."""
    scope: str | None = None
    """The part of the reply that was requested again; None for a whole reply.

    It names tools, a JSON Pointer to a value in the answer, or a tool and a pointer into its
    arguments.
    """
    lenient: tuple[str, ...] = ()
    """Names of the lenient steps that were needed to read the reply.

    They are accepted deviations of servers (``dialects`` of a contract) and the steps of an
    ``extraction`` that you enabled.
    """
    dropped_params: tuple[str, ...] = ()
    """The keywords that strictreply added and the endpoint rejected.

    The next attempt is the same request without them.
    """
    stopped_early: StoppedEarly | None = None
    """Where strictreply closed the stream before its end; None if it did not."""
    usage: Usage = Usage()
    """The tokens as the provider counted them, or an estimate."""
    seconds: float = 0.0
    """How long the request took, in seconds."""
    escalation: str | None = None
    """The step of the policy that was applied last; None if none was.

    It is ``forced_tool``, ``response_format``, ``constrained_call``, ``model:<name>``, ``human`` or
    ``keywords``.
    """
    api: str = "chat"
    """The API of the request: ``chat``, ``responses`` or ``messages``."""
    reply_at: str = ""
    """JSON Pointer to the reply in the response; empty if the whole response is the reply.

    ``to_dict`` includes it only with ``raw=True``.
    """
    observed: bool = False
    """Whether the caller got a reply that does not fit, because faults are only observed."""

    def __post_init__(self) -> None:
        # here, because all watchers, pickles and explanations read the request from an attempt
        object.__setattr__(self, "request", without_transport(self.request))

    @property
    def accepted(self) -> bool:
        """Whether the reply of this attempt fits the contract."""
        return not self.issues and self.failure is None

    def to_dict(self, *, raw: bool = False) -> JSONObject:
        """Return the attempt as JSON-safe values.

        ``raw=True`` includes the request and the raw reply.
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
    """Copy a request, with every value as JSON."""
    return {name: plain(value) for name, value in request.items()}


def type_name(value: object) -> str:
    """Return the name of a value's type, in angle brackets."""
    return f"<{type(value).__name__}>"


def plain(
    value: object, *, other: Callable[[object], str] = type_name, above: tuple[int, ...] = ()
) -> JSON:
    """Copy a value as plain JSON: dicts, lists, and exactly str, int and float.

    ``other`` converts what JSON cannot hold. A value that contains itself, one more than 200 levels
    deep, and an integer that Python refuses to print become the names of their types. ``above``
    has the identities of the containers around this value.
    """
    if value is None or isinstance(value, bool):
        return value
    # not as a subclass: a member of an Enum would pickle as its class, which a reader may not have
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
    """Return the sum of the tokens of all attempts."""
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
    """Return the sum of what the provider reported as usage in all attempts.

    All amounts are added, details and costs included. Of any other value the last one is returned.
    Estimates are not included.
    """
    written: JSONObject = {}
    counted = Usage()
    for attempt in attempts:
        usage = attempt.raw.get(names.holder) if isinstance(attempt.raw, dict) else None
        written = _added(written, usage)
        counted += Usage.of(attempt.raw, names)

    # an API without a sum has no other counts than those that were added
    return (
        written
        if not names.total
        else written | dict(zip(names.counts, _COUNTS(counted), strict=True))
    )


def without_transport(request: Mapping[str, object]) -> Mapping[str, object]:
    """Return a request in which ``"[not kept]"`` replaces every value that may be a credential.

    These are the transport's keywords, and keywords named like a credential.
    """
    hidden = {name for name in request if _may_be_credential(name)}
    if not hidden:
        return request
    return {name: NOT_KEPT if name in hidden else request[name] for name in request}


@lru_cache
def _may_be_credential(name: str) -> bool:
    return name in _TRANSPORT_KEYWORDS or _CREDENTIAL_NAME.search(name) is not None


def without_credentials(words: str, cause: BaseException) -> str:
    """Return a text without the credentials of the request that caused an exception.

    Servers repeat credentials in their error messages.
    """
    try:
        request = getattr(cause, "request", None)
    except RuntimeError:  # HTTP libraries raise it if the exception has no request
        return words

    for secret in credentials_of(request):
        words = words.replace(secret, REDACTED)
    return words


def credentials_of(request: object) -> tuple[str, ...]:
    """Return the possible credentials in the headers and the URL of an HTTP request, longest first.

    Under a name such as ``authorization`` these are the value and each part of it. Under any other
    name, it is a value of at least twelve characters with letters and digits, and without a space.
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
