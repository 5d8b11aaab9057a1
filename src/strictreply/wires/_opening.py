"""What a wire is, and what opening a response needs on every one: plain JSON, its members, and bad endings."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, cast

import jiter

from strictreply.reading._decoding import decode
from strictreply.values._issues import Code, Issue, quote
from strictreply.values._limits import JSON, MAX_JSON_DEPTH, JSONObject, Limits
from strictreply.values._replies import Invalid, ToolCall, UsageNames
from strictreply.wires._dialects import NeedsNothing
from strictreply.wires._endings import ERROR_OPENINGS, ERRORS, REASONS, WORST_FIRST


@dataclass(frozen=True, slots=True)
class Opened:
    """The assistant message of a response, a mapping or an SDK object, in the one form that is judged.

    ``promised``: the response ended to have a tool called. ``leniency`` names the ways of servers it was written in,
    ``came`` is the message before that, None where it is no plain JSON. Nothing judges ``server_calls`` (of tools of
    the API's that the program answers), ``served`` (it called one itself) and ``medium`` (an answer that is no text).
    """

    message: object
    promised: bool = False
    leniency: tuple[str, ...] = ()
    came: JSONObject | None = None
    server_calls: tuple[ToolCall, ...] = ()
    served: bool = False
    medium: str = ""


class Assembly(Protocol):
    """Puts the events of one stream together.

    ``fault`` is the first that the API does not send, ``is_done``: its end came, ``is_over``: no more is to be read.
    ``size`` counts the characters of its texts. ``delta`` is what the last event added, as a delta of the message;
    ``is_text_alone``: nothing of the reply but text of an answer, ``is_piece``: one more piece of a text or arguments.
    """

    fault: Issue | None
    is_done: bool
    is_over: bool
    size: int
    delta: JSONObject
    is_text_alone: bool
    is_piece: bool

    def add(self, chunk: JSON) -> None:
        """Take one event."""

    def refuse(self, code: Code, path: str, **words: str) -> None:
        """Report a fault; the first one counts."""

    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the response that the events make; without its end, or not ``is_whole``, as one broken off."""
        ...


class SentSoFar(Protocol):
    """The part of a reply that has been passed on to a caller as events."""

    @property
    def text(self) -> str:
        """The text of the answer that was passed on."""
        ...

    def add(self, event: JSON) -> None:
        """Take an event that is passed on."""

    def rest(self, response: JSONObject, came: JSONObject | None) -> Iterator[JSONObject]:
        """Yield the events left of an accepted response behind that text; ``came`` if it is of the same stream."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One API by which models are asked. All above works with requests and messages as chat completions have them.

    - ``name`` is for ``api=``; ``resource`` is where the openai SDK has the API, ``path`` where requests go,
      ``sdk_types`` its module and its classes of a response and of an event; ``usage`` names the three counts of
      tokens; ``ends_with_done``: streams end with ``[DONE]``.
    - ``read`` returns the keywords of a request in the one form, ``written`` a request as the API takes it;
      ``keeps_replies``: the server keeps every reply as it came, so that none is put together of several;
      ``streamed``: what has to be added to a request for a stream to report its usage.
    - ``opened`` returns the one message to judge, or why there is none; ``message_in`` the message of a response,
      however it ended; ``with_message`` a response with another message; ``reasons`` the words for how it ended.
    - ``assembly`` makes what puts the events of one stream together, ``sent`` what keeps how much of a reply has been
      passed on, with its usage if wanted.
    """

    name: str
    resource: str
    path: str
    sdk_types: tuple[str, str, str]
    usage: UsageNames
    ends_with_done: bool
    read: Callable[[JSONObject], JSONObject]
    written: Callable[[JSONObject], JSONObject]
    keeps_replies: Callable[[JSONObject], bool]
    streamed: Callable[[JSONObject], JSONObject]
    opened: Callable[[object, NeedsNothing | None], Opened | Invalid]
    message_in: Callable[[JSON], JSONObject | None]
    with_message: Callable[[JSONObject, JSONObject], JSONObject]
    reasons: Callable[[JSON], list[str]]
    assembly: Callable[[], Assembly]
    sent: Callable[[bool], SentSoFar]


def peek(value: object, name: str) -> object:
    """Read a member of a mapping or an attribute of an SDK object; None when there is none."""
    if type(value) is dict or isinstance(value, Mapping):  # the first alone is fast
        return value.get(name)
    return None if isinstance(value, str | bytes | list) else getattr(value, name, None)


def refused(code: Code, path: str, *, found: str = "", **words: str) -> Invalid:
    """Refuse with one issue."""
    return Invalid((Issue.of(code, path, found=found, **words),))


def reason_code(reason: object) -> Code | None:
    """Read what a reason means: the whole word, or a half of ``function_call_filter: MALFORMED_FUNCTION_CALL``."""
    if not isinstance(reason, str):
        return None
    first, _, last = reason.partition(":")
    return REASONS.get(word_of(reason)) or REASONS.get(word_of(last)) or REASONS.get(word_of(first))


def error_code(error: object) -> Code:
    """Read what an error says of the model's reply; ``envelope.error`` for one that says nothing of it."""
    message = error if isinstance(error, str) else peek(error, "message")
    inner = peek(error, "innererror") or peek(peek(error, "provider_specific_fields"), "innererror")
    for word in (peek(error, "code"), peek(inner, "code"), peek(error, "type"), message):
        if isinstance(word, str) and word_of(word) in ERRORS:
            return ERRORS[word_of(word)]
    start = message.lstrip().lower() if isinstance(message, str) else ""
    # what holds the model's words is the model's fault, whatever it is called (langchain-ai/langchain#31459)
    written = Code.REPLY_UNREADABLE if peek(error, "failed_generation") else Code.ENVELOPE_ERROR
    return next((code for opening, code in ERROR_OPENINGS.items() if start.startswith(opening)), written)


def word_of(text: str) -> str:
    """Bring a word to the form of the tables; ``FinishReason.MAX_TOKENS`` is how an enum prints itself."""
    return text.strip().rpartition(".")[2].lower().replace("-", "_").replace(" ", "_")


def worst_of(found: Iterable[tuple[Code, str, object]]) -> Issue | None:
    """Report the worst of the bad endings that were told, each with its place and what stands there; None of none."""
    told = min(found, key=lambda one: WORST_FIRST.index(one[0]), default=None)
    return None if told is None else Issue.of(told[0], told[1], found=quote(peek(told[2], "message") or told[2]))


def ids_in(messages: Iterable[object]) -> list[str]:
    """Collect the ids of the calls in a conversation, in order: those in messages, and calls that are items alone."""
    ids: list[str] = []
    for message in messages:
        if type(message) is dict and not message.get("tool_calls") and "call_id" not in message:
            continue  # most messages
        calls = peek(message, "tool_calls")
        several = calls if isinstance(calls, list | tuple) else ()
        alone = str(peek(message, "type")).endswith("_call") and peek(message, "call_id")
        ids += [id_ for id_ in (*(peek(one, "id") for one in several), alone) if isinstance(id_, str)]
    return ids


ENVELOPE_FACTOR = 16
"""How many times as large as a reply a whole response may be: it also carries log probabilities and usage."""


def read_body(body: bytes, limits: Limits) -> JSON:
    """Read a response's body; None when it is no strict JSON, or beyond the caps for a reply of these ``limits``."""
    value = decode(body, _around(limits))
    if not isinstance(value, Invalid):
        return value
    if any(issue.code != Code.JSON_NOT_FINITE.value for issue in value.issues):
        return None
    # as null, since servers send them in what is not ours, such as log probabilities
    return _finite(cast("JSON", jiter.from_json(body, allow_inf_nan=True)))


@lru_cache
def _around(limits: Limits) -> Limits:
    nodes, size = limits.nodes * ENVELOPE_FACTOR, limits.reply_bytes * ENVELOPE_FACTOR
    return Limits(reply_bytes=size, depth=MAX_JSON_DEPTH, nodes=nodes, calls=limits.calls)


def _finite(value: JSON) -> JSON:
    """Replace each number that is not finite by null; the value is no deeper than the reader allowed."""
    match value:
        case dict():
            finite = {name: _finite(member) for name, member in value.items()}
            if "arguments" in finite and finite["arguments"] != value["arguments"]:
                finite["arguments"] = json.dumps(value["arguments"])  # of a call: null would be another value
            return finite
        case list():
            return [_finite(member) for member in value]
        case float():
            return value if math.isfinite(value) else None
        case _:
            return value


def as_json(value: Any) -> JSON:
    """Return an SDK object or a mapping as plain JSON; raise TypeError for anything else, as json.dumps does."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast("JSON", dump(mode="json", exclude_unset=True, warnings=False))
    if isinstance(value, Mapping):
        return {str(name): as_json(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(member) for member in cast("Sequence[object]", value)]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{type(value).__name__} is not JSON")
