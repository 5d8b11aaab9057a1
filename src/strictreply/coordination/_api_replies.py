"""Reads the reply of an API, which may contain an action, or its report of an error.

A reply of a client or a server is read from its draft, for every API. In this package, only this
module also knows the form of chat completions: the published processors get whole messages, and
published actions write their calls as chat completions do.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import Any, Final, Literal, Self, TypeAlias, cast

from pydantic import BaseModel

from strictreply import (
    CallFailed,
    Category,
    Code,
    Contract,
    Invalid,
    Issue,
    Limits,
    ToolCall,
    TransportFailed,
)
from strictreply.coordination.actions import (
    ActionType,
    AgentReplyCode,
    Origin,
    ValidationResult,
    listed,
    member_names,
)
from strictreply.core import (
    DEFAULT_LIMITS,
    JSON,
    Draft,
    DraftCall,
    Extraction,
    Failure,
    JSONObject,
    Opened,
    classify,
    decode,
    judge_opened,
    opened_for,
)
from strictreply.core.forms import draft_of, is_response, message_of, peek, plain_message
from strictreply.core.judging import extract
from strictreply.core.text import pointer, quote, utf8_size
from strictreply.schema import SchemaRule
from strictreply.wires import WIRES, wire_of

_RETRY = ActionType.AUTO_RETRY
_END = ActionType.TERMINAL_ERROR
_ASK = ActionType.ERROR_RECOVERY


class ApiErrorClass(StrEnum):
    """The kind of an API error, and what a run does about it.

    ``words`` are the message for it.
    """

    action: ActionType
    """What a run does about it."""
    category: Category
    """The class of failure."""
    words: str
    """The message for it."""

    def __new__(cls, value: str, action: ActionType, category: Category, words: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.action = action
        member.category = category
        member.words = words
        return member

    TIMEOUT = "timeout", _RETRY, Category.API_TRANSIENT, "the API call timed out"
    NETWORK_ERROR = "network_error", _RETRY, Category.API_TRANSIENT, "the API could not be reached"
    SERVICE_UNAVAILABLE = (
        "service_unavailable",
        _RETRY,
        Category.API_TRANSIENT,
        "the API is not available",
    )
    RATE_LIMIT = "rate_limit", _RETRY, Category.API_TRANSIENT, "the API's rate limit was exceeded"
    AUTHENTICATION_FAILED = (
        "authentication_failed",
        _END,
        Category.API_TERMINAL,
        "the API did not accept the key",
    )
    PERMISSION_DENIED = (
        "permission_denied",
        _END,
        Category.API_TERMINAL,
        "the API key lacks the permission for this",
    )
    INVALID_MODEL = "invalid_model", _END, Category.API_TERMINAL, "the API has no such model"
    INVALID_REQUEST = (
        "invalid_request",
        _END,
        Category.API_TERMINAL,
        "the API did not accept the request",
    )
    REQUEST_TOO_LARGE = (
        "request_too_large",
        _END,
        Category.API_TERMINAL,
        "the request is too large for the API",
    )
    INSUFFICIENT_CREDITS = (
        "insufficient_credits",
        _ASK,
        Category.API_TERMINAL,
        "the API account has no credits left",
    )
    PARTIAL_FAILURE = (
        "partial_failure",
        _ASK,
        Category.API_TRANSIENT,
        "the API returned only a part of the answer",
    )
    DEPRECATED_API = "deprecated_api", _ASK, Category.API_TERMINAL, "the API no longer serves this"
    VALIDATION_ERROR = "validation_error", _ASK, Category.FORMAT_ERROR, "no reply fit the contract"
    EMPTY_COMPLETION = (
        "empty_completion",
        _ASK,
        Category.API_TRANSIENT,
        "the API returned no answer",
    )
    REFUSAL = "refusal", _ASK, Category.API_TERMINAL, "the model or its provider refused"
    UNKNOWN = "unknown", _ASK, Category.UNKNOWN, "the API failed"


_ALSO_CALLED: Final[Mapping[ApiErrorClass, str]] = {  # in core failures, failed calls and providers
    ApiErrorClass.NETWORK_ERROR: "connection",
    ApiErrorClass.SERVICE_UNAVAILABLE: (
        "conflict server_error malformed_response ambiguous retry_budget"
    ),
    ApiErrorClass.INVALID_MODEL: "not_found",
    ApiErrorClass.INVALID_REQUEST: "thought_mismatch",
    ApiErrorClass.REQUEST_TOO_LARGE: "context_length_exceeded",
    ApiErrorClass.INSUFFICIENT_CREDITS: "api_quota_exceeded insufficient_quota",
    ApiErrorClass.REFUSAL: "content_filter",
    ApiErrorClass.TIMEOUT: "deadline",
    ApiErrorClass.VALIDATION_ERROR: (
        "retries arg_retries invalid_calls category streamed human stored"
    ),
}
_READS_AS: Final = {
    word: kind for kind in ApiErrorClass for word in (kind, *_ALSO_CALLED.get(kind, "").split())
}
_OUT_OF_CREDITS: Final = ("Add credits to the API account", "Then retry the step")


@dataclass(frozen=True, slots=True)
class ApiError:
    """One error of an API."""

    classification: ApiErrorClass = ApiErrorClass.UNKNOWN
    """The kind of the error."""
    message: str = field(default="", repr=False)
    """Text of a server or a model, for a person, never for a prompt."""
    is_retryable: bool | None = None
    """Whether to try again; None leaves it to the classification."""
    retry_after: float | None = None
    """Seconds to wait according to the server; None if it did not say."""
    suggested_action: str | None = field(default=None, repr=False)
    """The report's suggestion; None if it has none."""
    details: JSONObject = field(default_factory=dict[str, Any], repr=False)
    """All members of the original report."""

    @classmethod
    def of_report(cls, report: Mapping[str, object]) -> Self:
        """Read ``classification`` (or ``type``) and the rest of a report.

        A member with a wrong type counts as absent.
        """
        details = copy.deepcopy(dict(report))
        kind = _class_of(details.get("classification", details.get("type")))
        wait = _seconds(details.get("retry_after"))

        types = {"message": str, "is_retryable": bool, "suggested_action": str}
        rest: JSONObject = {
            key: details[key] for key, type_ in types.items() if isinstance(details.get(key), type_)
        }
        return cls(kind, retry_after=wait, details=details, **rest)

    @classmethod
    def of_failure(cls, failure: Failure) -> Self:
        """Read a failure of the transport; its message is strictreply's."""
        kind = _class_of(failure.kind)
        details = _status(failure.status_code)
        return cls(kind, str(failure), failure.retryable, failure.retry_after, details=details)

    @classmethod
    def of_exception(cls, error: Exception) -> Self | None:
        """Read an exception of an SDK, or a failed call, whose retries are already exhausted.

        Return None if the exception is a bug, which the caller should raise.
        """
        if not isinstance(error, CallFailed):
            failure = classify(error)
            return None if failure is None else cls.of_failure(failure)

        kind = _class_of(error.reason)
        wait = None
        details = {}
        if isinstance(error, TransportFailed):
            wait = error.retry_after
            details = _status(error.status_code)

        return cls(kind, kind.words, is_retryable=False, retry_after=wait, details=details)

    @property
    def action(self) -> ActionType:
        """The reaction of a run to the error.

        An error that must not be retried is reported to the human.
        """
        automatic = self.classification.action
        return _ASK if automatic is _RETRY and self.is_retryable is False else automatic

    @property
    def issue(self) -> Issue:
        """The error as an issue, ``api.<class>``, with strictreply's message."""
        kind = self.classification
        return Issue(f"api.{kind.value}", kind.category, "", kind.words)

    @property
    def suggested_actions(self) -> tuple[str, ...]:
        """Suggestions for a person: the report's own, then those for this kind of error."""
        own = () if self.suggested_action is None else (self.suggested_action,)
        if self.classification is ApiErrorClass.INSUFFICIENT_CREDITS:
            return own + _OUT_OF_CREDITS
        return own

    def to_result(self, *, agent: str, branch_id: str) -> ValidationResult:
        """Return the system's action, which the router handles.

        An ``error_recovery`` has suggestions and ``retry_context``.
        """
        kind = self.classification
        message = self.message or kind.words
        details = copy.deepcopy(self.details) | {"type": kind.value, "message": message}
        if self.retry_after is not None:
            details["retry_after"] = self.retry_after

        parsed: JSONObject = {"next_action": self.action.value, "error_details": details}
        if self.action is _END:
            parsed |= {"error": message, "termination_reason": kind.value}
        if self.action is _ASK:
            context = {"agent_name": agent, "branch_id": branch_id}
            parsed |= {"suggested_actions": list(self.suggested_actions), "retry_context": context}

        return ValidationResult(
            is_valid=True, action_type=self.action, parsed_response=parsed, origin=Origin.SYSTEM
        )


def _class_of(word: object) -> ApiErrorClass:
    if not isinstance(word, str):
        return ApiErrorClass.UNKNOWN
    return _READS_AS.get(word, ApiErrorClass.UNKNOWN)


def _seconds(value: object) -> float | None:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
    # an integer of any length can be compared, but perhaps not converted
    return number if 0 <= number <= sys.float_info.max else None


def _status(code: int | None) -> JSONObject:
    return {} if code is None else {"status_code": code}


UNREADABLE: Final = Issue(
    f"action.{SchemaRule.UNREADABLE}", Category.FORMAT_ERROR, "", SchemaRule.UNREADABLE.template
)


def plain_issues(value: object, limits: Limits = DEFAULT_LIMITS) -> tuple[Issue, ...]:
    """Report a value that is not plain JSON, or is deeper or larger than ``limits``.

    A value that contains itself is too deep.
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


_EMPTY: Final = Invalid((Issue.of(Code.REPLY_EMPTY),))
NOT_AS_ASKED: Final = AgentReplyCode.FORMAT_MALFORMED.at(
    "", expected="written in the format of the instructions"
)

# Calls with typed arguments, and the calls as they were read.
JudgedCalls: TypeAlias = tuple[tuple[ToolCall, ...], list[JSONObject]]

# A form of a reply: the message as received, its text, or the mapping. The mapping was received as
# one, or the text contains it as JSON.
View: TypeAlias = Literal["reply", "text", "value"]


@dataclass(frozen=True)
class ReplyView:
    """The forms of a reply that processors read."""

    reply: object = None
    """The message as received; None if the reply was a text or a mapping."""
    text: str | bytes | None = None
    """The text of the reply; None if it has none."""
    mapping: Mapping[str, Any] | None = None
    """The reply as a mapping; None if it was not received as one."""
    extraction: tuple[Extraction, ...] = ("strict",)
    """The steps that are allowed to find JSON in the text."""
    limits: Limits = DEFAULT_LIMITS
    """The size limits of the reply."""
    rows: tuple[str, ...] = ()
    """Names of the servers' deviations that were read."""

    @cached_property
    def value(self) -> JSONObject | None:
        """The object that the reply is, or that its text contains."""
        decoded = self._decoded[0]
        return decoded if isinstance(decoded, dict) else None

    def decoded(self, value: object) -> bool:
        """Return whether the strict reader returned this value; nothing is read to find out."""
        return self.mapping is None and self.__dict__.get("value") is value

    @property
    def lenient(self) -> tuple[str, ...]:
        """The lenient steps that were used to read the reply (requirement X4).

        They include those of its value, if that was read.
        """
        steps = self._decoded[1] if "_decoded" in self.__dict__ else ()
        return (*self.rows, *steps)

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Why the reply contains no object with an action, if no processor could read one."""
        value = self._decoded[0]
        if isinstance(value, Invalid):
            return value.issues
        if not isinstance(value, dict):
            return (Issue.of(Code.SHAPE_NOT_OBJECT, found=quote(value)),)

        if "next_action" in value:
            return (NOT_AS_ASKED,)
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
    """Read any reply: a mapping, a text, a message or a completion of any SDK.

    A server's message is read as a client reads it. Return Invalid if it was refused or truncated.
    """
    limits = tools.limits
    view = partial(ReplyView, extraction=extraction, limits=limits)
    if raw is None:
        return _EMPTY
    if isinstance(raw, str | bytes | bytearray):
        return view(text=_as_text(raw, limits)) if raw else _EMPTY

    if isinstance(raw, Mapping):
        known = cast("Mapping[str, object]", raw)
        if not _is_envelope(known):
            return view(mapping=known)
    elif isinstance(raw, BaseModel) and getattr(raw, "next_action", None) is not None:
        return view(mapping=raw.model_dump())
    elif is_error(raw) or not _is_reply(raw):
        return view(reply=raw)  # a mapping may be a model's, so only an object is an error

    opened = opened_for(tools, raw, wire_of(raw))
    if isinstance(opened, Invalid):
        return opened

    found = read_draft(opened.draft, extraction, limits)
    return found if isinstance(found, Invalid) else replace(found, rows=opened.lenient)


def _as_text(raw: str | bytes | bytearray, limits: Limits) -> str | bytes:
    if isinstance(raw, str):
        return raw
    if len(raw) <= limits.reply_bytes:
        with suppress(UnicodeDecodeError):
            return raw.decode()
    return bytes(raw[: limits.reply_bytes + 1])


# The form of a message, which no other module of this package knows.

# The role of a message that reports an error of the API instead of a reply (requirement M56).
ERROR_ROLE: Final = "error"
CONTENT: Final = "/content"  # the place of a text in a message
_CALLS: Final = "/tool_calls"
_MESSAGE_KEYS = frozenset({"role", "choices", "tool_calls", "refusal", "function_call"})
_KNOWN = ("chat", "responses")
_CALL = '{"id": text, "type": "function", "function": {"name": text, "arguments": JSON text}}'


@dataclass(frozen=True, slots=True)
class ErrorMessage:
    """An error of the API in place of a reply.

    ``content`` is a report, as a mapping or JSON text, or any other text.
    """

    content: JSON
    """A report, as a mapping or a JSON text, or any other text."""
    role: str = ERROR_ROLE
    """The role that marks it as an error."""


def prompt_request(prompt: str) -> JSONObject:
    """Return the request with one prompt."""
    return {"messages": [{"role": "user", "content": prompt}]}


def _is_envelope(known: Mapping[str, object]) -> bool:
    if "choices" in known or known.get("object") == "response":
        return True
    if "next_action" in known:  # an action may have an error in it
        return "role" in known
    if known.get("error") or not _MESSAGE_KEYS.isdisjoint(known):
        return True
    return _is_of_another(known)


def _is_reply(raw: object) -> bool:
    """Return whether an object is a message or a response of an API."""
    if is_response(raw) or any(hasattr(raw, key) for key in _MESSAGE_KEYS):
        return True
    return _is_of_another(raw)


def _is_of_another(raw: object) -> bool:
    """Return whether a value belongs to an API whose members this module does not know."""
    others = (wire for name, wire in WIRES.items() if name not in _KNOWN)
    return any(wire.recognises(raw) for wire in others)


def is_error(message: object) -> bool:
    """Return whether a message reports an error of the API."""
    return peek(message, "role") == ERROR_ROLE


def read_error_message(message: object) -> ApiError | Invalid:
    """Read a message with the role ``error``: a report, JSON of one, or any other text (M87).

    Return Invalid for a message with another role.
    """
    if not is_error(message):
        expected = f'"{ERROR_ROLE}" in a message that reports an error'
        found = quote(peek(message, "role"))
        return Invalid((Issue.of(Code.SHAPE_WRONG_TYPE, "/role", expected=expected, found=found),))

    content = peek(message, "content")
    report: object = decode(content) if isinstance(content, str) else content
    if isinstance(report, Mapping):
        return ApiError.of_report(cast("Mapping[str, object]", report))

    return ApiError(message=content if isinstance(content, str) else "")


def read_draft(
    draft: Draft, extraction: tuple[Extraction, ...], limits: Limits
) -> ReplyView | Invalid:
    """Return the view of a reply.

    Its calls are in the message, the rest is in its text.
    """
    fault = draft.fault
    if fault is not None and fault.path != _CALLS:
        return Invalid((fault,))

    content = draft.text if draft.other is None else draft.other
    message = _message(draft)
    calls = has_calls(message)
    if calls and utf8_size(content) > limits.reply_bytes:  # without calls the reader limits it
        return Invalid((Issue.of(Code.REPLY_TOO_LARGE, CONTENT, limit=limits.reply_bytes),))

    text = content if isinstance(content, str) and content else None
    if calls or text is not None:
        return ReplyView(message, text, extraction=extraction, limits=limits)
    if content is None or content == "":
        return _EMPTY
    return Invalid((Issue.of(Code.REPLY_CONTENT, CONTENT, found=quote(content)),))


def _message(draft: Draft) -> JSONObject:
    """Return a draft as a message of chat completions, without its thoughts.

    If the API has that form, its other members stay; of any other API only text and calls stay.
    """
    members = ("role", "content", "tool_calls")
    is_message = any(peek(draft.source, name) is not None for name in members)
    is_chats = is_message and all(map(_is_chats, draft.calls))
    return plain_message(draft if is_chats else draft.bare)


def _is_chats(call: DraftCall) -> bool:
    """Return whether a call has the form of chat completions, or no known form."""
    source = call.source
    if not isinstance(source, dict) or not call.is_whole:
        return True

    kind = source.get("type")
    return isinstance(kind, str) and kind in source


def has_calls(message: object) -> bool:
    """Return whether a message has calls; an empty list does not count."""
    return bool(peek(message, "tool_calls"))


def plain_calls(message: object, most: int) -> list[object] | Invalid:
    """Return the calls of a message without additional members of an SDK or a server."""
    given = peek(message, "tool_calls")
    if not isinstance(given, list | tuple):
        issue = Issue.of(Code.CALL_MALFORMED, _CALLS, expected="in an array", found=quote(given))
        return Invalid((issue,))

    calls = cast("list[object] | tuple[object, ...]", given)
    if len(calls) > most:
        return Invalid((Issue.of(Code.TOOL_TOO_MANY, _CALLS, limit=most),))
    return [_plain_call(call) for call in calls]


def _plain_call(call: object) -> object:
    function = peek(call, "function")
    if function is None:
        return call if isinstance(call, dict) else quote(call)

    inner = {"name": peek(function, "name"), "arguments": peek(function, "arguments")}
    members = {"id": peek(call, "id"), "type": peek(call, "type"), "function": inner}
    return {name: member for name, member in members.items() if member is not None}


def judge_calls(action: JSONObject, tools: Contract) -> JudgedCalls | Invalid:
    """Judge the calls of an action as the core judges native ones (M33 to M35)."""
    message: JSONObject = {"role": "assistant", "tool_calls": action["tool_calls"]}
    opened = opened_for(tools, message, WIRES["chat"])
    if isinstance(opened, Invalid):
        return opened
    if "call_id_shared" in opened.lenient:
        # a shared id is tolerated in native calls; here the model wrote it, and can correct it
        opened = Opened(draft_of(message))

    verdict = judge_opened(tools, opened)
    if isinstance(verdict, Invalid):
        return verdict
    return verdict.reply.calls, message_of(opened.draft)["tool_calls"]


def _function_of(call: JSONObject) -> JSONObject:
    function = call.get("function")
    return function if isinstance(function, dict) else {}


def read_call(call: JSONObject, at: str) -> tuple[str, JSONObject] | Invalid:
    """Return a call's tool, and the arguments of its step; ``at`` is a JSON Pointer."""
    function = _function_of(call)
    name = function.get("name")
    written = function.get("arguments")

    place = pointer(at, "function", "arguments")
    arguments = {} if written == "" else decode(written, at=place)
    if isinstance(arguments, Invalid):
        return arguments
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return Invalid((Issue.of(Code.CALL_MALFORMED, at, expected=_CALL),))

    return name, {"arguments": arguments, "tool_call_id": call.get("id"), "tool_call": call}


def unknown_tools(calls: Iterable[JSONObject], tools: tuple[str, ...]) -> Iterator[Issue]:
    """Report the calls of an action that call none of these tools."""
    for index, call in enumerate(calls):
        name = _function_of(call).get("name")
        if isinstance(name, str) and name not in tools:
            at = pointer("/tool_calls", index, "function", "name")
            yield Issue.of(Code.TOOL_UNKNOWN, at, names=listed(tools), found=quote(name))
