"""What an API's error means for a run: try again, end, or ask the human. One table of classes, no I/O, no retrying.

An error comes as an exception, as a core failure, or as a message with the role ``error``; each is read into one value,
and what was read is never changed.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self, cast

from strictreply.coordination._actions import ActionType, Origin, ValidationResult
from strictreply.reading._decoding import decode
from strictreply.retry._failures import Failure, classify
from strictreply.values._errors import CallFailed, TransportFailed
from strictreply.values._issues import Category, Code, Issue, quote
from strictreply.values._json import JSON, JSONObject
from strictreply.values._replies import Invalid
from strictreply.wires._opening import peek

ERROR_ROLE: Final = "error"
"""The role of a message that reports an error of the API instead of a reply (requirement M56)."""

_RETRY, _END, _ASK = ActionType.AUTO_RETRY, ActionType.TERMINAL_ERROR, ActionType.ERROR_RECOVERY


class ApiErrorClass(StrEnum):
    """What kind of error it was, and what a run does about it (requirement M83); ``words`` are the message."""

    action: ActionType
    category: Category
    words: str

    def __new__(cls, value: str, action: ActionType, category: Category, words: str) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.action = action
        member.category = category
        member.words = words
        return member

    TIMEOUT = "timeout", _RETRY, Category.API_TRANSIENT, "the API call timed out"
    NETWORK_ERROR = "network_error", _RETRY, Category.API_TRANSIENT, "the API could not be reached"
    SERVICE_UNAVAILABLE = "service_unavailable", _RETRY, Category.API_TRANSIENT, "the API is not available"
    RATE_LIMIT = "rate_limit", _RETRY, Category.API_TRANSIENT, "the API's rate limit was exceeded"

    AUTHENTICATION_FAILED = "authentication_failed", _END, Category.API_TERMINAL, "the API did not accept the key"
    PERMISSION_DENIED = "permission_denied", _END, Category.API_TERMINAL, "the key may not do this"
    INVALID_MODEL = "invalid_model", _END, Category.API_TERMINAL, "the API has no such model"
    INVALID_REQUEST = "invalid_request", _END, Category.API_TERMINAL, "the API did not accept the request"
    REQUEST_TOO_LARGE = "request_too_large", _END, Category.API_TERMINAL, "the request is too large for the API"

    INSUFFICIENT_CREDITS = "insufficient_credits", _ASK, Category.API_TERMINAL, "the API account has no credits left"
    PARTIAL_FAILURE = "partial_failure", _ASK, Category.API_TRANSIENT, "the API gave a part of the answer"
    DEPRECATED_API = "deprecated_api", _ASK, Category.API_TERMINAL, "the API no longer serves this"
    VALIDATION_ERROR = "validation_error", _ASK, Category.FORMAT_ERROR, "no reply fit the contract"
    EMPTY_COMPLETION = "empty_completion", _ASK, Category.API_TRANSIENT, "the API gave no answer"
    REFUSAL = "refusal", _ASK, Category.API_TERMINAL, "the model refused, or its provider did"
    UNKNOWN = "unknown", _ASK, Category.UNKNOWN, "the API failed"


_READS_AS: Final[Mapping[str, ApiErrorClass]] = {
    "connection": ApiErrorClass.NETWORK_ERROR,
    "conflict": ApiErrorClass.SERVICE_UNAVAILABLE,
    "server_error": ApiErrorClass.SERVICE_UNAVAILABLE,
    "malformed_response": ApiErrorClass.SERVICE_UNAVAILABLE,
    "retry_quota": ApiErrorClass.SERVICE_UNAVAILABLE,
    "not_found": ApiErrorClass.INVALID_MODEL,
    "api_quota_exceeded": ApiErrorClass.INSUFFICIENT_CREDITS,
    "insufficient_quota": ApiErrorClass.INSUFFICIENT_CREDITS,
    "content_filter": ApiErrorClass.REFUSAL,
    "deadline": ApiErrorClass.TIMEOUT,
    "retries": ApiErrorClass.VALIDATION_ERROR,
    "arg_retries": ApiErrorClass.VALIDATION_ERROR,
    "bad_calls": ApiErrorClass.VALIDATION_ERROR,
    "category": ApiErrorClass.VALIDATION_ERROR,
} | {member.value: member for member in ApiErrorClass}
"""Kinds of a core failure, reasons of a failed call and words of providers, beside the classes' own."""

_MORE_SUGGESTIONS: Final[Mapping[ApiErrorClass, tuple[str, ...]]] = {
    ApiErrorClass.INSUFFICIENT_CREDITS: ("Add credits to the API account", "Then retry the step")
}


@dataclass(frozen=True, slots=True)
class ApiError:
    """One error of an API; ``details`` are all members of the report as it came.

    ``message`` may hold a server's or a model's words, so it goes to a person and never into a prompt.
    ``is_retryable`` None leaves it to the class. ``retry_after`` are the seconds the server asked to wait, or None.
    """

    classification: ApiErrorClass = ApiErrorClass.UNKNOWN
    message: str = field(default="", repr=False)
    is_retryable: bool | None = None
    retry_after: float | None = None
    suggested_action: str | None = field(default=None, repr=False)
    details: JSONObject = field(default_factory=dict[str, Any], repr=False)

    @classmethod
    def of_report(cls, report: Mapping[str, Any]) -> Self:
        """Read ``classification`` (or ``type``) and the rest of a report; what is mistyped counts as not said."""
        details = copy.deepcopy(dict(report))
        message, retryable, suggestion = (details.get(key) for key in ("message", "is_retryable", "suggested_action"))
        return cls(
            _class_of(details.get("classification", details.get("type"))),
            message if isinstance(message, str) else "",
            retryable if isinstance(retryable, bool) else None,
            _seconds(details.get("retry_after")),
            suggestion if isinstance(suggestion, str) else None,
            details,
        )

    @classmethod
    def of_failure(cls, failure: Failure) -> Self:
        """Read a core failure of the transport; its words are ours."""
        kind = _class_of(failure.kind)
        return cls(kind, str(failure), failure.retryable, failure.retry_after, details=_status(failure.status_code))

    @classmethod
    def of_exception(cls, error: Exception) -> Self | None:
        """Read an exception of an SDK, or a failed call, which was retried already; None for a bug, which must pass."""
        if isinstance(error, CallFailed):
            known = error if isinstance(error, TransportFailed) else None
            wait, details = (known.retry_after, _status(known.status_code)) if known else (None, {})
            kind = _class_of(error.reason)
            return cls(kind, kind.words, is_retryable=False, retry_after=wait, details=details)
        failure = classify(error)
        return None if failure is None else cls.of_failure(failure)

    @property
    def action(self) -> ActionType:
        """What a run does about it: what must not be tried again is brought to the human (requirement M84)."""
        automatic = self.classification.action
        return _ASK if automatic is _RETRY and self.is_retryable is False else automatic

    @property
    def issue(self) -> Issue:
        """The error as a fault, ``api.<class>``, in our words."""
        kind = self.classification
        return Issue(f"api.{kind.value}", kind.category, "", kind.words)

    @property
    def suggested_actions(self) -> tuple[str, ...]:
        """What a person may do: what the report suggests first, then what always helps with this class."""
        own = () if self.suggested_action is None else (self.suggested_action,)
        return (*own, *_MORE_SUGGESTIONS.get(self.classification, ()))

    def to_result(self, *, agent: str, branch_id: str) -> ValidationResult:
        """Make the system's own action of it, for the router: AUTO_RETRY, TERMINAL_ERROR or ERROR_RECOVERY.

        A recovery says what a person may do, and in ``retry_context`` which agent failed where (requirements M85, M86).
        """
        known = {"type": self.classification.value, "message": self.message or self.classification.words}
        waiting = {} if self.retry_after is None else {"retry_after": self.retry_after}
        details = copy.deepcopy(self.details) | known | waiting
        parsed: JSONObject = {"next_action": self.action.value, "error_details": details}
        if self.action is _END:
            parsed |= {"error": known["message"], "termination_reason": self.classification.value}
        if self.action is _ASK:
            context = {"agent_name": agent, "branch_id": branch_id}
            parsed |= {"suggested_actions": list(self.suggested_actions), "retry_context": context}
        return ValidationResult(is_valid=True, action_type=self.action, parsed_response=parsed, origin=Origin.SYSTEM)


def read_error_message(message: object) -> ApiError | Invalid:
    """Read a message with the role ``error``: a report, JSON of one, or any other text; Invalid for others (M87)."""
    role = peek(message, "role")
    if role != ERROR_ROLE:
        expected = f'"{ERROR_ROLE}" in a message that reports an error'
        return Invalid((Issue.of(Code.SHAPE_WRONG_TYPE, "/role", expected=expected, found=quote(role)),))
    content = peek(message, "content")
    report: object = decode(content) if isinstance(content, str) else content
    if isinstance(report, Mapping):
        return ApiError.of_report(cast("Mapping[str, JSON]", report))
    return ApiError(message=content if isinstance(content, str) else "")


def _class_of(word: object) -> ApiErrorClass:
    return _READS_AS.get(word, ApiErrorClass.UNKNOWN) if isinstance(word, str) else ApiErrorClass.UNKNOWN


def _seconds(value: object) -> float | None:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
    return number if 0 <= number <= sys.float_info.max else None  # compares integers of any length


def _status(code: int | None) -> JSONObject:
    return {} if code is None else {"status_code": code}
