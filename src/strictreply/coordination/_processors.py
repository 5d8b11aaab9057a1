"""From a raw reply to an action that is not judged yet.

A reply is opened, read strictly, and shown to processors by rank.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

from pydantic import BaseModel

from strictreply.contract._contract import Contract
from strictreply.contract._judge import opened_for
from strictreply.coordination._actions import ActionType, AgentReplyCode, Origin, Source
from strictreply.coordination._error_policy import ERROR_ROLE, read_error_message
from strictreply.coordination._permissions import member_names
from strictreply.reading._decoding import decode, extract
from strictreply.schema import SchemaRule
from strictreply.values._errors import ContractError
from strictreply.values._issues import Category, Code, Issue, quote
from strictreply.values._limits import (
    DEFAULT_LIMITS,
    JSON,
    Extraction,
    JSONObject,
    Limits,
    utf8_size,
)
from strictreply.values._replies import Invalid, plain
from strictreply.wires import wire_of
from strictreply.wires._members import peek
from strictreply.wires._messages import plain_message
from strictreply.wires._responses import is_response

UNREADABLE: Final = Issue(
    f"action.{SchemaRule.UNREADABLE}", Category.FORMAT_ERROR, "", SchemaRule.UNREADABLE.template
)


def plain_issues(value: object, limits: Limits = DEFAULT_LIMITS) -> tuple[Issue, ...]:
    """Report a value that is not plain JSON, or deeper or larger than ``limits``.

    A value that contains itself is reported as too deep.
    """
    level = [value]
    nodes = 1

    for _ in range(limits.depth + 1):
        if not all(map(_is_plain, level)):
            return (UNREADABLE,)

        children: list[object] = []
        for one in level:
            if isinstance(one, dict):
                children.extend(cast("dict[str, object]", one).values())
            elif isinstance(one, list):
                children.extend(cast("list[object]", one))

        level = children
        nodes += len(level)

        if not level:
            return ()
        if nodes > limits.nodes:
            break

    return (UNREADABLE,)


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, dict):
        names = cast("dict[object, object]", value)
        return all(isinstance(name, str) and _is_plain(name) for name in names)
    if isinstance(value, float):
        return math.isfinite(value)

    return value is None or isinstance(value, list | int)


_MESSAGE_KEYS = frozenset({"role", "choices", "tool_calls", "refusal", "function_call"})
_NO_TOOLS: Final = Contract()
_EMPTY: Final = Invalid((Issue.of(Code.REPLY_EMPTY),))
_NOT_AS_ASKED: Final = AgentReplyCode.FORMAT_MALFORMED.at(
    "", expected="written in the format that was asked for"
)

# A side of a reply: the message as it came, its text, or the mapping, which came as such or is
# written in the text as JSON.
View: TypeAlias = Literal["reply", "text", "value"]


@dataclass(frozen=True)
class ReplyView:
    """The sides of a reply for processors."""

    reply: object = None
    """The message as it came; None for a reply that came as a text or a mapping."""
    text: str | bytes | None = None
    """The text of the reply; None when it has none."""
    mapping: Mapping[str, Any] | None = None
    """The reply as a mapping; None when it did not come as one."""
    extraction: tuple[Extraction, ...] = ("strict",)
    """The steps that may be taken to find JSON in the text."""
    limits: Limits = DEFAULT_LIMITS
    """The size limits of the reply."""
    rows: tuple[str, ...] = ()
    """Names of the ways of servers that were read."""

    @cached_property
    def value(self) -> JSONObject | None:
        """The object that the reply is, or that its text holds."""
        decoded = self._decoded[0]
        return decoded if isinstance(decoded, dict) else None

    def decoded(self, value: object) -> bool:
        """Return whether a value came from the strict reader; nothing is read to find out."""
        return self.mapping is None and self.__dict__.get("value") is value

    @property
    def leniency(self) -> tuple[str, ...]:
        """The lenient steps that reading the reply took (requirement X4).

        Those of its value are among them where that was read.
        """
        steps = self._decoded[1] if "_decoded" in self.__dict__ else ()
        return (*self.rows, *steps)

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Why the reply holds no object with an action, for when no processor could read one."""
        value = self._decoded[0]
        if isinstance(value, Invalid):
            return value.issues
        if not isinstance(value, dict):
            return (Issue.of(Code.SHAPE_NOT_OBJECT, found=quote(value)),)

        if "next_action" in value:
            return (_NOT_AS_ASKED,)
        return (AgentReplyCode.ACTION_MISSING_FIELD.at("/next_action"),)

    @cached_property
    def _decoded(self) -> tuple[JSON | Invalid, tuple[Extraction, ...]]:
        if self.mapping is not None:
            return dict(self.mapping), ()

        raw = self.text
        if raw is None:
            return Invalid((Issue.of(Code.SHAPE_NOT_OBJECT, found=quote(self.reply)),)), ()

        steps: tuple[Extraction, ...] = ()
        if isinstance(raw, str):
            raw, steps = extract(raw, self.extraction, self.limits)
        return decode(raw, self.limits, names=member_names()), steps


def read_reply(
    raw: object, extraction: tuple[Extraction, ...], tools: Contract
) -> ReplyView | Invalid:
    """Open any reply: a mapping, a text, a message or a completion of any SDK.

    A message of a server is opened as a client opens it. Return Invalid when it was refused or cut.
    """
    limits = tools.limits
    view = partial(ReplyView, extraction=extraction, limits=limits)
    if raw is None:
        return _EMPTY
    if isinstance(raw, str | bytes | bytearray):
        return view(text=_as_text(raw, limits)) if raw else _EMPTY

    if isinstance(raw, Mapping):
        known = cast("Mapping[str, Any]", raw)
        if not _is_envelope(known):
            return view(mapping=known)
    elif isinstance(raw, BaseModel) and peek(raw, "next_action") is not None:
        return view(mapping=raw.model_dump())
    elif peek(raw, "role") == ERROR_ROLE or not _is_message(raw):
        return view(reply=raw)  # an error has to be an object: a mapping may be a model's

    opened = opened_for(tools, raw, wire_of(raw))
    if isinstance(opened, Invalid):
        return opened

    found = read_message(plain_message(opened.draft), extraction, limits)
    return found if isinstance(found, Invalid) else replace(found, rows=opened.leniency)


def _is_message(raw: object) -> bool:
    return is_response(raw) or any(map(partial(hasattr, raw), _MESSAGE_KEYS))


def _is_envelope(known: Mapping[str, Any]) -> bool:
    if "choices" in known or known.get("object") == "response":
        return True
    if "next_action" in known:  # an action of ours may have an error in it
        return "role" in known
    return bool(known.get("error")) or not _MESSAGE_KEYS.isdisjoint(known)


def read_message(
    message: object, extraction: tuple[Extraction, ...], limits: Limits
) -> ReplyView | Invalid:
    """Return the view of an assistant message.

    Its calls are on the message itself, the rest is in its content.
    """
    if peek(message, "function_call"):
        return Invalid((Issue.of(Code.CALL_MALFORMED, "/function_call", expected="in tool_calls"),))

    content = peek(message, "content")
    calls = bool(peek(message, "tool_calls"))
    if calls and utf8_size(content) > limits.reply_bytes:  # without calls it is read, and capped
        return Invalid((Issue.of(Code.REPLY_TOO_LARGE, "/content", limit=limits.reply_bytes),))

    if calls or (isinstance(content, str) and content):
        text = content if isinstance(content, str) and content else None
        return ReplyView(message, text, extraction=extraction, limits=limits)

    if content is None or content == "":
        return _EMPTY
    return Invalid((Issue.of(Code.REPLY_CONTENT, "/content", found=quote(content)),))


def _as_text(raw: str | bytes | bytearray, limits: Limits) -> str | bytes:
    if isinstance(raw, str):
        return raw
    if len(raw) <= limits.reply_bytes:
        with suppress(UnicodeDecodeError):
            return raw.decode()
    return bytes(raw[: limits.reply_bytes + 1])


_NOT_PROSE = ("{", "[", "`", "<", '"')


class ResponseProcessor(ABC):
    """One way of writing replies, shown the sides of a reply that ``views`` names, in this order.

    ``format_name`` is the format it reads, empty when no agent could be required to write it.
    ``origin`` says who asks for the actions it reads.
    """

    views: ClassVar[tuple[View, ...]] = ("reply", "text", "value")
    origin: ClassVar[Origin] = Origin.MODEL
    format_name: str = ""

    @abstractmethod
    def can_process(self, response: Any) -> bool:
        """Return whether a reply, as one of its sides shows it, is written in this way."""

    @abstractmethod
    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Translate a reply into an action.

        None leaves it to the next processor, Invalid reports its faults.
        """

    @abstractmethod
    def priority(self) -> int:
        """Return the rank.

        The highest is asked first, and of equal ones the one registered first.
        """


class RankedProcessor(ResponseProcessor):
    """A built-in processor: its rank (requirement X2) may be changed when it is made."""

    rank: ClassVar[int]

    def __init__(self, priority: int | None = None) -> None:
        self._priority = self.rank if priority is None else priority

    def priority(self) -> int:
        """Return the rank."""
        return self._priority


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """An error of the API in place of a reply.

    ``content`` is a report, as a mapping or JSON text, or any other text.
    """

    content: JSON
    role: str = ERROR_ROLE


class ErrorMessageProcessor(RankedProcessor):
    """Reads an error that the application reports with the role ``error`` (M56).

    It is the system's own, not a model's.
    """

    rank = 100
    views: ClassVar[tuple[View, ...]] = ("reply",)
    origin = Origin.SYSTEM

    def can_process(self, response: Any) -> bool:
        """Return whether a message reports an error."""
        return peek(response, "role") == ERROR_ROLE

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Return the system's action for this class of error, with its details."""
        error = read_error_message(response)
        if isinstance(error, Invalid):
            return error

        known = {"classification": error.classification.value, "message": error.message}
        return {"next_action": error.action.value, "error_details": error.details | known}


class ToolCallProcessor(RankedProcessor):
    """Reads native tool calls, at most ``max_calls`` of them (requirement M55)."""

    rank = 90
    views: ClassVar[tuple[View, ...]] = ("reply",)

    def __init__(
        self, priority: int | None = None, *, max_calls: int = DEFAULT_LIMITS.calls
    ) -> None:
        super().__init__(priority)
        self._max_calls = max_calls

    def can_process(self, response: Any) -> bool:
        """Return whether a message has calls; the field alone may be empty."""
        return bool(peek(response, "tool_calls"))

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Return the calls without what an SDK or a server says beside them."""
        given = peek(response, "tool_calls")
        at = "/tool_calls"
        if not isinstance(given, list | tuple):
            found = quote(given)
            issue = Issue.of(Code.CALL_MALFORMED, at, expected="in an array", found=found)
            return Invalid((issue,))

        calls = cast("list[object] | tuple[object, ...]", given)
        if len(calls) > self._max_calls:
            return Invalid((Issue.of(Code.TOOL_TOO_MANY, at, limit=self._max_calls),))

        plain_calls = [_plain_call(call) for call in calls]
        return {"next_action": ActionType.CALL_TOOL.value, "tool_calls": plain_calls}


class StructuredJSONProcessor(RankedProcessor):
    """Reads a JSON object with ``next_action`` (requirement M54)."""

    rank = 80
    views: ClassVar[tuple[View, ...]] = ("value",)
    format_name = "json"

    def can_process(self, response: Any) -> bool:
        """Return whether an object names an action."""
        return isinstance(response, dict) and "next_action" in response

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Return the object as it is."""
        return cast("dict[str, Any]", response)


class TextResponseProcessor(RankedProcessor):
    """Takes prose, not JSON, a code fence or a tag, for the final response (M57).

    It has to be registered expressly.
    """

    rank = 10
    views: ClassVar[tuple[View, ...]] = ("text",)
    format_name = "text"

    def can_process(self, response: Any) -> bool:
        """Return whether a text is prose, and not an action written wrongly."""
        start = response.lstrip() if isinstance(response, str) else ""
        return bool(start) and not start.startswith(_NOT_PROSE) and "next_action" not in response

    def process(self, response: Any) -> dict[str, Any] | Invalid | None:
        """Return the text as the content of a final response."""
        return {"next_action": ActionType.FINAL_RESPONSE.value, "content": response}


# An action that is not judged yet, who asks for it, and how it was read.
Candidate: TypeAlias = tuple[JSONObject, Origin, Source]


class ProcessorChain:
    """Processors in the order they are asked: by priority, then by registration (M51, X2).

    ``processors`` None stands for those for errors, native calls and JSON. Raises ContractError for
    what is not a processor. A chain judges nothing.
    """

    __slots__ = ("processors",)

    def __init__(self, processors: Iterable[ResponseProcessor] | None = None) -> None:
        published = (ErrorMessageProcessor(), ToolCallProcessor(), StructuredJSONProcessor())
        given = published if processors is None else tuple(processors)
        for processor in given:
            if not isinstance(cast("object", processor), ResponseProcessor):
                raise ContractError(
                    f"a processor must be a ResponseProcessor, not {type(processor).__name__}"
                )

        ordered = sorted(given, key=lambda processor: -processor.priority())
        self.processors: tuple[ResponseProcessor, ...] = tuple(ordered)

    async def process(self, response: object) -> JSONObject | None:
        """Return the action that a raw reply asks for, unjudged.

        None when no action can be read. Nothing is raised.
        """
        found = self.candidate(lambda: read_reply(response, ("strict",), _NO_TOOLS))
        return None if isinstance(found, Invalid) else found[0]

    def candidate(self, read: Callable[[], ReplyView | Invalid]) -> Candidate | Invalid:
        """Read a reply by the first processor that returns an action, as plain JSON (M59).

        Return Invalid with the faults when none does.
        """
        try:
            view = read()
            return view if isinstance(view, Invalid) else self._first(view)
        except Exception:  # noqa: BLE001
            # to look at an object is to run its code, which may raise anything (M4)
            return Invalid((UNREADABLE,))

    def _first(self, view: ReplyView) -> Candidate | Invalid:
        failures: list[Issue] = []
        refusals: list[Issue] = []

        for processor in self.processors:
            outcome = _asked(processor, view)
            if isinstance(outcome, dict):
                source = Source(processor.format_name, tuple(failures), view.leniency)
                return outcome, processor.origin, source

            if isinstance(outcome, Issue):
                failures.append(outcome)
            elif outcome is not None:
                refusals.extend(outcome.issues)

        if not refusals:
            refusals.extend(self._unread(view))

        return Invalid((*failures, *refusals), view.leniency)

    def _unread(self, view: ReplyView) -> tuple[Issue, ...]:
        """Return why no processor read a reply.

        Issues of JSON are reported only where actions are written in it.
        """
        in_json = any(isinstance(one, StructuredJSONProcessor) for one in self.processors)
        reads_values = any("value" in one.views for one in self.processors if one.format_name)
        if in_json or (reads_values and view.value is None):
            return view.issues

        return (_NOT_AS_ASKED,)


def _asked(processor: ResponseProcessor, view: ReplyView) -> JSONObject | Invalid | Issue | None:
    """Return the action that a processor reads, or what prevents it.

    An Issue is a failure of the processor itself. None when the processor leaves the reply.
    """
    worst: Invalid | Issue | None = None
    for side in processor.views:
        response: object = getattr(view, side)
        if response is None:
            continue

        try:
            if not processor.can_process(response):
                continue
            outcome = cast("object", processor.process(response))
        except Exception:  # noqa: BLE001 - it must not end the judging of a reply
            worst = _failure(processor)
            continue

        if isinstance(outcome, dict):
            action = cast("JSONObject", outcome)
            if view.decoded(action):
                return action

            if issues := plain_issues(action, view.limits):  # what the strict reader refuses
                return Invalid(issues)
            return cast("JSONObject", plain(action))  # a copy, for the action may change later

        if outcome is not None:
            worst = outcome if isinstance(outcome, Invalid) else _failure(processor)

    return worst


def _failure(processor: ResponseProcessor) -> Issue:
    return AgentReplyCode.FORMAT_PROCESSOR_FAILED.at("", name=type(processor).__name__)


def _plain_call(call: object) -> object:
    function = peek(call, "function")
    if function is None:
        return call if isinstance(call, dict) else quote(call)

    inner = {"name": peek(function, "name"), "arguments": peek(function, "arguments")}
    members = {"id": peek(call, "id"), "type": peek(call, "type"), "function": inner}
    return {name: member for name, member in members.items() if member is not None}
