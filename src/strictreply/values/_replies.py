"""What one call comes to: replies and verdicts, and the record of its attempts, which never holds a credential."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeAlias
from urllib.parse import parse_qsl, unquote

from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from strictreply.values._issues import Issue
from strictreply.values._limits import JSON, MAX_NUMBER_DIGITS, JSONObject

A_co = TypeVar("A_co", covariant=True, default=Any)
"""What a contract's answers are: ``str``, an instance of its ``answer`` type, or JSON that fits its schema."""

REDACTED = "[redacted]"  # what replaces a credential in a text
NOT_KEPT = "[not kept]"  # what replaces the value of a keyword that may hold a credential
MIN_CREDENTIAL_CHARS = (
    8  # a shorter one is a placeholder (``none``, ``EMPTY``), and its letters may occur anywhere
)
_MIN_UNNAMED_CHARS = 12
_TRANSPORT_KEYWORDS = frozenset(
    {"extra_headers", "extra_query", "extra_body"}
).union(  # the openai SDK's own
    ("headers", "default_headers", "default_query", "query", "params", "cookies"),  # other clients'
    ("auth", "proxy", "proxies", "base_url", "api_base", "client", "http_client"),
)
_CREDENTIAL_NAME = re.compile(
    r"(?i)(?:api|access|private|secret|signing|auth)[-_]?key|auth(?!or(?!iz))|cookie|credential|passphrase|passwd|"
    r"password|secret|session|signature|token(?:_provider)?$"  # not max_tokens
)
_PLAIN_HEADER = re.compile(
    r"(?i)accept.*|connection|content-.*|host|idempotency-key|transfer-encoding|user-agent|x-stainless-.*|.*version.*"
)
_ADDRESS = re.compile(r"[A-Za-z0-9+.-]+://(?:(?P<user>[^/?#]*)@)?[^?#]*(?:\?(?P<query>[^#]*))?")
_SEPARATORS = re.compile(r"[\s;,:=&]+")
_UNGUESSABLE = re.compile(r"(?=\S*[0-9])(?=\S*[A-Za-z])\S+")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a declared tool, its arguments valid for that tool.

    ``args`` is an instance of the tool's pydantic model for a tool made from a model or a function,
    else a dict. ``id`` is the provider's call id, or None in the text channel, which has none.
    """

    tool: str
    args: Any
    id: str | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """This call alone: every reply says its calls in this way."""
        return (self,)

    def to_dict(self) -> JSONObject:
        """Return the call as JSON, typed arguments included; the id only when there is one."""
        written = {"tool": self.tool, "args": to_jsonable_python(self.args, by_alias=True)}
        return written if self.id is None else written | {"id": self.id}


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Several native calls of one message, in the model's order; only with ``parallel=True``."""

    calls: tuple[ToolCall, ...]

    def to_dict(self) -> JSONObject:
        """Return the calls as JSON."""
        return {"calls": [call.to_dict() for call in self.calls]}


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

    ``leniency`` names each way of servers that was read as the API's, and each step that an
    opted-in ``extraction`` took.
    """

    reply: AssistantReply[A_co]
    leniency: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Invalid:
    """The reply does not fit; ``issues`` holds every fault found, at least one."""

    issues: tuple[Issue, ...]
    leniency: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """All faults on one line, ``dotted.path: message`` joined by semicolons (requirement T37)."""
        return "; ".join(issue.dotted for issue in self.issues)


Verdict: TypeAlias = Valid[A_co] | Invalid


MAX_DEPTH = (
    200  # of a copy of a request: far beyond any that can be sent, and short of Python's own limit
)
_ENDLESS: int = (
    10**MAX_NUMBER_DIGITS
)  # the least integer that ``str`` and ``json.dumps`` refuse to print
MAX_TOKENS = (
    2**53 - 1
)  # the largest count that is believed: JSON has no larger exact integer (RFC 7493 section 2.2)
UsageNames: TypeAlias = tuple[str, str, str]
OUR_NAMES: UsageNames = ("prompt_tokens", "completion_tokens", "total_tokens")
_COUNTS = operator.attrgetter(*OUR_NAMES)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; zero where it did not say."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of two counts."""
        return Usage(*map(operator.add, _COUNTS(self), _COUNTS(other)))

    @classmethod
    def of(cls, response: JSON, names: UsageNames = OUR_NAMES) -> Usage:
        """Read the ``usage`` of a response under its API's ``names``.

        What is no count up to 2^53 - 1 is zero.
        """
        usage = response.get("usage") if isinstance(response, dict) else None
        if not isinstance(usage, dict):
            return cls()
        prompt, answer, total = (_count(usage.get(name)) for name in names)
        return cls(prompt, answer, max(total, prompt + answer))


def _count(value: object) -> int:
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_TOKENS
        else 0
    )


@dataclass(frozen=True, slots=True)
class Vetoed:
    """Where a stream was closed because nothing that could follow would have made its reply valid.

    ``at`` counts the bytes of the reply that had come; ``saved`` is the least number of tokens,
    four characters each, that the rest of a valid reply would have taken; None where that is not
    known.
    """

    at: int
    saved: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to the model and its outcome.

    ``number`` counts from 1. ``raw`` is the unchanged response, or None when the transport failed
    and ``failure`` says how. ``correction`` is the text that asked for this attempt, None for the
    first ask and for a plain resend. ``tier`` is how far its correction had escalated, 0 for none;
    ``escalation`` the step of the policy that was applied last for it: ``forced_tool``,
    ``response_format``, ``model:<name>``, ``human`` or ``keywords``. ``scope`` is what alone was
    re-asked: tools, the pointer to a value inside an answer, or a tool and a pointer into its
    arguments. ``leniency`` names the deviations of servers that were accepted (``dialects`` of a
    contract), and the steps that an opted-in extraction took; ``seconds`` is the time the call
    took. ``refused`` names what we had added to the request and the endpoint refused: the next
    attempt is the same request without it. ``vetoed`` says where its stream was closed before its
    end, None when it was not. The request and the raw reply stay out of ``repr``: they hold the
    prompt and what the model wrote. ``request`` is what was asked, without how it was sent: the
    values of ``extra_headers``, ``extra_query``, ``extra_body`` and of every keyword named like a
    credential are replaced by ``"[not kept]"``.
    """

    number: int
    request: Mapping[str, Any] = field(repr=False)
    raw: JSON = field(default=None, repr=False)
    issues: tuple[Issue, ...] = ()
    failure: str | None = None
    correction: str | None = field(default=None, repr=False)
    tier: int = 0
    scope: str | None = None
    leniency: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    vetoed: Vetoed | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    escalation: str | None = None

    def __post_init__(self) -> None:
        # here, because every watcher, pickle and explanation takes the request from an attempt
        object.__setattr__(self, "request", without_transport(self.request))

    @property
    def accepted(self) -> bool:
        """Whether this attempt's reply was the one let through."""
        return not self.issues and self.failure is None

    def to_dict(self, *, raw: bool = False) -> dict[str, Any]:
        """Return the attempt as JSON-safe values.

        The request and the raw reply only when ``raw`` is true.
        """
        record: dict[str, Any] = {
            "number": self.number,
            "issues": [issue.to_dict() for issue in self.issues],
        }
        record |= {
            name: getattr(self, name)
            for name in ("failure", "correction", "tier", "scope", "escalation")
        }
        record |= {"leniency": list(self.leniency), "refused": list(self.refused)}
        record |= {
            "vetoed": self.vetoed and asdict(self.vetoed),
            "usage": asdict(self.usage),
            "seconds": self.seconds,
        }

        return (
            record | {"request": plain_request(self.request), "raw": plain(self.raw)}
            if raw
            else record
        )


def plain_request(request: Mapping[str, Any]) -> dict[str, JSON]:
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
    return str(
        plain(name) if isinstance(name, str | int | float) or name is None else type_name(name)
    )


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
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_TOKENS
    )


def summed_usage(attempts: tuple[Attempt, ...], names: UsageNames = OUR_NAMES) -> JSONObject:
    """Return what providers wrote as ``usage`` of all attempts, added up, details and costs too, else the last."""
    written: JSONObject = {}
    for attempt in attempts:
        written = _added(
            written, attempt.raw.get("usage") if isinstance(attempt.raw, dict) else None
        )
    return written | dict(zip(names, astuple(total_usage(attempts)), strict=True))


def without_transport(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a request with ``"[not kept]"`` for keywords of the transport and those named like a credential."""
    hidden = {name for name in request if _may_be_credential(name)}
    return (
        {name: NOT_KEPT if name in hidden else request[name] for name in request}
        if hidden
        else request
    )


@lru_cache
def _may_be_credential(name: str) -> bool:
    return name in _TRANSPORT_KEYWORDS or _CREDENTIAL_NAME.search(name) is not None


def without_credentials(words: str, cause: BaseException) -> str:
    """Return ``words`` without the credentials that the request of ``cause`` was sent with: servers repeat them."""
    try:
        request = getattr(cause, "request", None)
    except RuntimeError:  # HTTP libraries raise it where an exception was given no request
        return words
    for secret in credentials_of(request):
        words = words.replace(secret, REDACTED)
    return words


def credentials_of(request: Any) -> tuple[str, ...]:
    """Collect what may be a credential in the headers and the address of an HTTP request, the longest first.

    Under a name such as ``authorization`` these are the value and each part of it; under any other
    name, a value of at least twelve characters with letters and digits, and no blank.
    """
    headers = getattr(request, "headers", None)
    named = (
        [(str(name), str(headers[name])) for name in headers]
        if isinstance(headers, Mapping)
        else []
    )

    address = _ADDRESS.match(str(getattr(request, "url", "")))
    if address is not None:
        named += [("password", unquote(address["user"] or "")), *parse_qsl(address["query"] or "")]

    found: set[str] = set()
    for name, value in named:
        if _CREDENTIAL_NAME.search(name):
            found |= {
                part
                for part in (*value.split(), *_SEPARATORS.split(value))
                if len(part) >= MIN_CREDENTIAL_CHARS
            }
        elif (
            len(value) >= _MIN_UNNAMED_CHARS
            and _UNGUESSABLE.fullmatch(value)
            and not _PLAIN_HEADER.fullmatch(name)
        ):
            found.add(value)

    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))
