"""Styles of retry: each makes one next request for a recorded first reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from strictreply import (
    Contract,
    ContractError,
    CorrectionContext,
    Issue,
    RetryPolicy,
    Steering,
    TieredSteering,
    Verdict,
)
from strictreply.core import FORMAT, JSON, JSONObject
from strictreply.core.judging import union_schema

JudgeReply: TypeAlias = Callable[[JSON], "Verdict[Any] | None"]
"""Judges the response to a request; None if it has no reply."""

_SCHEMA_TIER = 2
_EXAMPLE_TIER = 3
_TOOL_MEMBERS = ("tools", "tool_choice", "parallel_tool_calls")
_OURS = TieredSteering()


class _FormatRefused(Exception):
    """The error that an SDK raises for an endpoint that refuses ``response_format``."""

    status_code = 400
    body: JSONObject = {"error": {"message": "response_format is not supported"}}  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class Reask:
    """The retry of an invalid reply: the request, and the function that judges its response."""

    request: JSONObject
    """The request to send."""
    judge: JudgeReply = field(repr=False)
    """Judges the response to it."""


@dataclass(frozen=True, slots=True)
class RowRequest:
    """The first request for a row, and the contract of its reply."""

    asked: JSONObject
    """The keywords of the row, without the contract's own."""
    contract: Contract[Any]
    """The contract with the demands of the request."""
    given: Contract[Any]
    """The contract without the demands of the request."""
    before: tuple[Exception, ...]
    """The refusal of ``response_format`` if it is left out; otherwise empty."""
    request: JSONObject
    """The request as it is sent."""

    @classmethod
    def of(
        cls, given: Contract[Any], held: Contract[Any], asked: JSONObject, *, plain: bool
    ) -> RowRequest:
        """Make the first request.

        ``plain`` leaves out the ``response_format`` that the contract adds.
        """
        before: tuple[Exception, ...] = ()
        request = given.next_request(asked).request or {}
        if plain and FORMAT in request and FORMAT not in asked:
            before = (_FormatRefused(),)
            request = given.next_request(asked, *before).request or {}

        return cls(asked, held, given, before, dict(request))

    def after(
        self, response: JSON, steering: Steering = _OURS
    ) -> RecordedReply | Verdict[Any] | None:
        """Judge the response: return an invalid reply that can be retried, else the verdict."""
        step = self.given.next_request(
            self.asked, *self.before, response, policy=_ONE_RETRY, steering=steering
        )
        if step.request is None:
            return step.verdict

        issues = step.attempts[-1].issues
        return RecordedReply(self, response, issues) if issues else None


_ONE_RETRY = RetryPolicy(max_retries=1, transport_retries=1, constrain_retries=False)


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A recorded invalid first reply, from which a style makes its request."""

    first: RowRequest
    """The request of the reply, with its contract."""
    response: JSON = field(repr=False)
    """The response, unchanged."""
    issues: tuple[Issue, ...]
    """The faults of the reply."""

    @property
    def request(self) -> JSONObject:
        """The first request as it was sent."""
        return self.first.request

    @property
    def contract(self) -> Contract[Any]:
        """The contract that the reply was checked against."""
        return self.first.contract

    def corrected(self, steering: Steering = _OURS) -> Reask | None:
        """Return the request that a wrapped client with this steering sends next.

        Return None if it would send none.
        """
        first = self.first
        step = first.given.next_request(
            first.asked, *first.before, self.response, policy=_ONE_RETRY, steering=steering
        )
        following = step.request
        if following is None:
            return None

        def judge(response: JSON) -> Verdict[Any] | None:
            return first.given.next_request(following, response).verdict

        return Reask(following, judge)

    def contexts(self) -> list[CorrectionContext]:
        """Return the contexts of the corrections, one for each faulty part."""
        listener = _Listener()
        self.corrected(listener)
        return listener.heard


@dataclass(frozen=True, slots=True)
class _Listener:
    """A steering that records the contexts of corrections."""

    heard: list[CorrectionContext] = field(default_factory=list[CorrectionContext])

    def correction(self, context: CorrectionContext) -> str:
        self.heard.append(context)
        return "Not valid."


@dataclass(frozen=True, slots=True)
class Style:
    """A style of retry: its name, and the function that makes its request.

    The function returns None for a reply to which the style does not apply.
    """

    name: str
    """The name of the style."""
    reask: Callable[[RecordedReply], Reask | None]
    """Makes the one request for a bad reply; None if the style does not apply."""


@dataclass(frozen=True, slots=True)
class _AtTier:
    """Our corrections of a later tier."""

    tier: int

    def correction(self, context: CorrectionContext) -> str:
        return _OURS.correction(replace(context, tier=self.tier, number=1))


@dataclass(frozen=True, slots=True)
class _Echoing:
    """Our corrections, followed by the model's own text at the faulty places."""

    def correction(self, context: CorrectionContext) -> str:
        found = [f"- {issue.found}" for issue in context.issues if issue.found]
        words = [_OURS.correction(context)]
        return "\n".join([*words, "You wrote:", *found] if found else words)


def _again(bad: RecordedReply) -> Reask:
    """Send the first request once more, without mentioning the invalid reply."""
    return Reask(dict(bad.request), bad.contract.check)


def _fresh(bad: RecordedReply) -> Reask | None:
    """Send the first request, with the correction in its last message; leave out the bad reply."""
    lines: list[str] = []
    for context in bad.contexts():
        # leave out the first line, which refers to the bad reply, unless it is the only one
        _, *more = _AtTier(_SCHEMA_TIER).correction(context).splitlines()
        lines += more or [_OURS.correction(context)]

    turns: list[Any] = list(bad.request["messages"])
    last = turns[-1]
    if not lines or last.get("role") != "user" or not isinstance(last.get("content"), str):
        return None

    told = "\n".join([last["content"], "", "An earlier reply was not valid:", *lines])
    request = {**bad.request, "messages": [*turns[:-1], {**last, "content": told}]}
    return Reask(request, bad.contract.check)


def _forced(bad: RecordedReply) -> Reask | None:
    """Send the first request with the faulty call's tool forced, or else with any tool required."""
    contract = bad.contract
    if contract.channel != "native" or not contract.tools or contract.choice in contract.by_name:
        return None

    named = next((context.tool for context in bad.contexts() if context.tool), None)
    if named is None and len(contract.tools) == 1:
        named = contract.tools[0].name
    if named is None and contract.choice == "required":
        return None

    choice: JSON = "required"
    if named is not None:
        choice = {"type": "function", "function": {"name": named}}

    held = contract.with_choice(named or "required")
    return Reask({**bad.request, "tool_choice": choice}, held.check)


def _constrained(bad: RecordedReply) -> Reask | None:
    """Send the first request with the schema of all valid replies as ``response_format``.

    With tools it is the union of their calls and the answer, as JSON in the text.
    """
    contract = bad.contract
    if FORMAT in bad.request:
        return None

    if contract.tools or contract.channel == "text":
        return _union(bad)

    unrefused = bad.first.given.next_request(bad.first.asked).request or {}
    if FORMAT not in unrefused:
        return None  # the answer may be any text

    return Reask({**bad.request, FORMAT: unrefused[FORMAT]}, contract.check)


def _union(bad: RecordedReply) -> Reask:
    held = bad.contract.replace(channel="text")
    asked = {name: value for name, value in bad.first.asked.items() if name not in _TOOL_MEMBERS}
    request = held.next_request(asked).request or {}
    described: JSONObject = {"name": "reply", "schema": union_schema(held)}
    constraint: JSON = {"type": "json_schema", "json_schema": described}
    return Reask({**request, FORMAT: constraint}, held.check)


def _steered(steering: Steering, bad: RecordedReply) -> Reask | None:
    return bad.corrected(steering)


STYLES: Mapping[str, Style] = {
    style.name: style
    for style in (
        Style("again", _again),
        Style("ours", partial(_steered, _OURS)),
        Style("echo", partial(_steered, _Echoing())),
        Style("schema", partial(_steered, _AtTier(_SCHEMA_TIER))),
        Style("example", partial(_steered, _AtTier(_EXAMPLE_TIER))),
        Style("fresh", _fresh),
        Style("forced", _forced),
        Style("constrained", _constrained),
    )
}
"""The styles by name.

- ``again`` sends the same request once more without a correction; it shows what chance fixes.
- ``ours`` adds the first correction of a wrapped client after the invalid reply; ``echo`` adds the
  model's own text to it, ``schema`` the broken sub-schema, and ``example`` a valid example.
- ``fresh`` leaves out the invalid reply, and says in the user's message what was wrong.
- ``forced`` sends the first request with ``tool_choice``, ``constrained`` with
  ``response_format``.
"""


def styles_of(given: Iterable[str | Style]) -> tuple[Style, ...]:
    """Return styles that are given by name or as values.

    Raises ContractError for an unknown name, for a repeated name, and for an empty list.
    """
    styles: list[Style] = []
    for one in given:
        if isinstance(one, str) and one not in STYLES:
            raise ContractError(f"there is no style {one!r}; the styles are {', '.join(STYLES)}")
        styles.append(STYLES[one] if isinstance(one, str) else one)

    names = [style.name for style in styles]
    if not names:
        raise ContractError("styles is empty: pass at least one")
    if len(set(names)) < len(names):
        raise ContractError(f"two styles have the same name: {', '.join(names)}")

    return tuple(styles)
