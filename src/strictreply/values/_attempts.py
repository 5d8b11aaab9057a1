"""The story of one call: what was asked, what came, what was wrong with it, what that cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from strictreply.values._credentials import without_transport
from strictreply.values._issues import Issue
from strictreply.values._json import JSON, Request
from strictreply.values._limits import MAX_NUMBER_DIGITS

MAX_DEPTH = 200
"""How deep a copy of a request goes: far beyond any that can be sent, and short of Python's own limit."""

_ENDLESS: int = 10**MAX_NUMBER_DIGITS
"""The least integer that ``str`` and ``json.dumps`` refuse to spell."""

MAX_TOKENS = 2**53 - 1
"""The largest count of tokens that is believed: JSON has no larger exact integer (RFC 7493 section 2.2)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; zero where it did not say."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Sum two bills."""
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.total_tokens + other.total_tokens,
        )

    @classmethod
    def of(cls, completion: JSON) -> Usage:
        """Read the ``usage`` of a completion; what is not a count of tokens, or one above 2^53 - 1, counts as zero."""
        usage = completion.get("usage") if isinstance(completion, dict) else None
        if not isinstance(usage, dict):
            return cls()
        prompt, answer, total = (
            _count(usage.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
        )
        return cls(prompt, answer, max(total, prompt + answer))


def _count(value: object) -> int:
    """Take a whole number of tokens, zero for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_TOKENS else 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One ask and what became of it.

    ``number`` counts from 1. ``raw`` is the response as it came, or None when the transport failed and ``failure``
    says how. ``correction`` is the text that asked for this attempt, None for the first ask and for a plain resend.
    ``tier`` is the escalation it was asked at, 0 for none; ``scope`` the one tool whose arguments were re-asked.
    ``leniency`` names the steps that an opted-in extraction took; ``seconds`` is the time the call took.
    The request and the raw reply stay out of ``repr``: they hold the prompt and what the model wrote.
    ``request`` is what was asked, without how it was sent: in place of ``extra_headers``, ``extra_query``,
    ``extra_body`` and every keyword named like a credential stands ``"[not kept]"``.
    """

    number: int
    request: Request = field(repr=False)
    raw: JSON = field(default=None, repr=False)
    issues: tuple[Issue, ...] = ()
    failure: str | None = None
    correction: str | None = field(default=None, repr=False)
    tier: int = 0
    scope: str | None = None
    leniency: tuple[str, ...] = ()
    usage: Usage = Usage()
    seconds: float = 0.0

    def __post_init__(self) -> None:
        """Leave out credentials here, where every watcher, pickle and story takes the request from."""
        object.__setattr__(self, "request", without_transport(self.request))

    @property
    def accepted(self) -> bool:
        """Whether this attempt's reply was the one let through."""
        return not self.issues and self.failure is None

    def to_dict(self, *, raw: bool = False) -> dict[str, Any]:
        """Give the attempt as JSON-safe values; the request and the raw reply only when ``raw`` is true."""
        told: dict[str, Any] = {
            "number": self.number,
            "issues": [issue.to_dict() for issue in self.issues],
            "failure": self.failure,
            "correction": self.correction,
            "tier": self.tier,
            "scope": self.scope,
            "leniency": list(self.leniency),
            "usage": {
                "prompt_tokens": self.usage.prompt_tokens,
                "completion_tokens": self.usage.completion_tokens,
                "total_tokens": self.usage.total_tokens,
            },
            "seconds": self.seconds,
        }
        return told | {"request": plain_request(self.request), "raw": plain(self.raw)} if raw else told


def plain_request(request: Request) -> dict[str, JSON]:
    """Copy a request into what JSON can hold."""
    return {name: plain(value) for name, value in request.items()}


def type_name(value: object) -> str:
    """Name a value by its type."""
    return f"<{type(value).__name__}>"


def plain(value: object, *, other: Callable[[object], str] = type_name, above: tuple[int, ...] = ()) -> JSON:
    """Copy mappings and sequences into dicts and lists, and scalars as exactly str, int and float.

    ``other`` spells what JSON cannot hold. A value inside itself, or more than 200 levels deep, is named by its type,
    and so is an integer that Python refuses to spell; ``above`` holds the identities of the values around this one.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str | int | float):
        return type_name(value) if isinstance(value, int) and abs(value) >= _ENDLESS else _exact(value)
    if not isinstance(value, Mapping | list | tuple):
        return other(value)
    if id(value) in above or len(above) >= MAX_DEPTH:
        return type_name(value)
    inside = (*above, id(value))
    if isinstance(value, Mapping):
        return {_key(name): plain(member, other=other, above=inside) for name, member in value.items()}
    return [plain(member, other=other, above=inside) for member in value]


def _key(name: object) -> str:
    """Spell the name of a member; one that is neither text nor a number is named by its type."""
    return str(plain(name) if isinstance(name, str | int | float) or name is None else type_name(name))


def _exact(value: str | float) -> str | int | float:
    """Take the value out of a subclass: a member of an Enum pickles as its class, which a reader may not have."""
    if isinstance(value, str):
        return str.__str__(value)
    return int.__int__(value) if isinstance(value, int) else float.__float__(value)


def total_usage(attempts: tuple[Attempt, ...]) -> Usage:
    """Sum the bills of all attempts."""
    return sum((attempt.usage for attempt in attempts), Usage())
