"""Sending one request through the wrapped client, and reading what came as plain JSON.

Plain JSON messages and tools go past the SDK's type-driven transform (``extra_body``), which gives the same bytes for
a fraction of the time; anything else takes the SDK's own way. The response is read from its raw body by the strict
reader, so the SDK's model of it is only built when somebody wants it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strictreply.decoding import decode
from strictreply.limits import MAX_JSON_DEPTH, Limits
from strictreply.replies import Invalid
from strictreply.typing import JSON, JSONObject

ENVELOPE_FACTOR = 16
"""How much larger than a reply a whole response may be: it also carries log probabilities and usage."""

_PAST_TRANSFORM = ("messages", "tools", "response_format")


@dataclass(frozen=True, slots=True)
class Sent:
    """A response: ``plain`` is its JSON, None when its body is none; ``source`` is what the SDK gave us."""

    plain: JSON
    source: Any


class Transport:
    """The one seam to the API: a client with ``chat.completions.create``, its own retries turned off.

    Raises TypeError when the object has no such method.
    """

    __slots__ = ("client", "limits", "raw")

    def __init__(self, client: Any, limits: Limits) -> None:
        """Copy the client without retries of its own: they have one owner."""
        self.client = _without_retries(client)
        completions = getattr(getattr(client, "chat", None), "completions", None)
        if not callable(getattr(completions, "create", None)):
            message = "wrap() needs a client with chat.completions.create, such as openai.OpenAI()"
            raise TypeError(message)
        self.raw = hasattr(completions, "with_raw_response")
        self.limits = Limits(
            reply_bytes=limits.reply_bytes * ENVELOPE_FACTOR,
            depth=MAX_JSON_DEPTH,
            nodes=limits.nodes * ENVELOPE_FACTOR,
            calls=limits.calls,
        )

    def send(self, request: JSONObject, timeout: float | None) -> Any:
        """Make the call; gives what the SDK gives, an awaitable from an async client."""
        keywords = dict(request)
        if timeout is not None:
            given = keywords.get("timeout")
            keywords["timeout"] = min(given, timeout) if isinstance(given, int | float) else timeout
        completions = self.client.chat.completions
        if not self.raw:
            return completions.create(**keywords)
        return completions.with_raw_response.create(**_past_transform(keywords))

    def read(self, source: Any) -> Sent:
        """Read a response as plain JSON."""
        if not self.raw:
            return Sent(as_json(source), source)
        value = decode(source.content, self.limits)
        return Sent(None if isinstance(value, Invalid) else value, source)

    def completion(self, sent: Sent, response: JSONObject, *, spliced: bool) -> Any:
        """Give the SDK's own completion for a response, or the response itself where there is no SDK model."""
        given = sent.source.parse() if self.raw else sent.source
        if not spliced:
            return given
        construct = getattr(type(given), "construct", None)
        return construct(**response) if callable(construct) else response


def as_json(value: Any) -> JSON:
    """Read an SDK object or a mapping as plain JSON; what is neither is given as it is, for the contract to refuse."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped: JSON = dump(mode="json", exclude_unset=True, warnings=False)
        return dumped
    if isinstance(value, Mapping):
        return {str(name): as_json(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(member) for member in value]
    plain: JSON = value
    return plain


def _without_retries(client: Any) -> Any:
    """Turn off the SDK's own retries in a copy, where it has any."""
    with_options = getattr(client, "with_options", None)
    return with_options(max_retries=0) if callable(with_options) and hasattr(client, "max_retries") else client


def _past_transform(keywords: JSONObject) -> JSONObject:
    """Move what is plain JSON into ``extra_body``; the caller's own ``extra_body`` keeps the last word."""
    moved = {name: keywords[name] for name in _PAST_TRANSFORM if name in keywords and _is_plain(keywords[name])}
    kept = {name: value for name, value in keywords.items() if name not in moved}
    if "messages" in moved:
        kept["messages"] = []
    given = keywords.get("extra_body")
    kept["extra_body"] = moved | dict(given) if isinstance(given, Mapping) else moved
    return kept


def _is_plain(value: Any) -> bool:
    """Tell whether a value is JSON through and through, without recursion."""
    pending = [value]
    while pending:
        one = pending.pop()
        kind = type(one)
        if kind is dict:
            if not all(type(name) is str for name in one):
                return False
            pending.extend(one.values())
        elif kind is list:
            pending.extend(one)
        elif kind not in _SCALARS:
            return False
    return True


_SCALARS = frozenset({str, int, float, bool, type(None)})
