"""What a run does about errors of an API and about bad replies: try again, end, or ask the human.

There is no I/O here.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self, cast

from strictreply.coordination._actions import ActionType, Origin, ValidationResult
from strictreply.reading._decoding import decode
from strictreply.retry._failures import Failure, classify
from strictreply.retry._policy import RetryPolicy
from strictreply.values._errors import CallFailed, ContractError, TransportFailed
from strictreply.values._issues import Category, Code, Issue, Remedy, quote
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._replies import Invalid
from strictreply.wires._members import peek

# The role of a message that reports an error of the API instead of a reply (requirement M56).
ERROR_ROLE: Final = "error"
_RETRY = ActionType.AUTO_RETRY
_END = ActionType.TERMINAL_ERROR
_ASK = ActionType.ERROR_RECOVERY


class ApiErrorClass(StrEnum):
    """What kind of error it was, and what a run does about it (requirement M83).

    ``words`` are the message for it.
    """

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
    PERMISSION_DENIED = "permission_denied", _END, Category.API_TERMINAL, "the key may not do this"
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
        "the API gave a part of the answer",
    )
    DEPRECATED_API = "deprecated_api", _ASK, Category.API_TERMINAL, "the API no longer serves this"
    VALIDATION_ERROR = "validation_error", _ASK, Category.FORMAT_ERROR, "no reply fit the contract"
    EMPTY_COMPLETION = "empty_completion", _ASK, Category.API_TRANSIENT, "the API gave no answer"
    REFUSAL = "refusal", _ASK, Category.API_TERMINAL, "the model refused, or its provider did"
    UNKNOWN = "unknown", _ASK, Category.UNKNOWN, "the API failed"


_ALSO_CALLED: Final[Mapping[ApiErrorClass, str]] = {  # by core failures, failed calls and providers
    ApiErrorClass.NETWORK_ERROR: "connection",
    ApiErrorClass.SERVICE_UNAVAILABLE: (
        "conflict server_error malformed_response ambiguous retry_quota"
    ),
    ApiErrorClass.INVALID_MODEL: "not_found",
    ApiErrorClass.INVALID_REQUEST: "thought_mismatch",
    ApiErrorClass.REQUEST_TOO_LARGE: "context_length_exceeded",
    ApiErrorClass.INSUFFICIENT_CREDITS: "api_quota_exceeded insufficient_quota",
    ApiErrorClass.REFUSAL: "content_filter",
    ApiErrorClass.TIMEOUT: "deadline",
    ApiErrorClass.VALIDATION_ERROR: "retries arg_retries bad_calls category streamed human stored",
}
_READS_AS: Final = {
    word: kind for kind in ApiErrorClass for word in (kind, *_ALSO_CALLED.get(kind, "").split())
}
_OUT_OF_CREDITS: Final = ("Add credits to the API account", "Then retry the step")


@dataclass(frozen=True, slots=True)
class ApiError:
    """One error of an API."""

    classification: ApiErrorClass = ApiErrorClass.UNKNOWN
    """What kind of error it was."""
    message: str = field(default="", repr=False)
    """A server's or a model's words, for a person, never for a prompt."""

    is_retryable: bool | None = None
    """Whether to try again; None leaves it to the class."""

    retry_after: float | None = None
    """The seconds that the server asked to wait, None when it did not."""

    suggested_action: str | None = field(default=None, repr=False)
    """What the report suggests, None when it suggests nothing."""

    details: JSONObject = field(default_factory=dict[str, Any], repr=False)
    """All members of the report as it came."""

    @classmethod
    def of_report(cls, report: Mapping[str, Any]) -> Self:
        """Read ``classification`` (or ``type``) and the rest of a report.

        A member of another type than it should have counts as absent.
        """
        details = copy.deepcopy(dict(report))
        kind = _class_of(details.get("classification", details.get("type")))
        wait = _seconds(details.get("retry_after"))

        rest: JSONObject = {}
        types = {"message": str, "is_retryable": bool, "suggested_action": str}
        for key, type_ in types.items():
            if isinstance(details.get(key), type_):
                rest[key] = details[key]

        return cls(kind, retry_after=wait, details=details, **rest)

    @classmethod
    def of_failure(cls, failure: Failure) -> Self:
        """Read a core failure of the transport; its words are ours."""
        kind = _class_of(failure.kind)
        details = _status(failure.status_code)
        return cls(kind, str(failure), failure.retryable, failure.retry_after, details=details)

    @classmethod
    def of_exception(cls, error: Exception) -> Self | None:
        """Read an exception of an SDK, or a failed call, which was retried already.

        None when the exception is a bug, to be raised further.
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
        """What a run does about the error (requirement M84).

        An error after which nothing must be retried is brought to the human.
        """
        automatic = self.classification.action
        return _ASK if automatic is _RETRY and self.is_retryable is False else automatic

    @property
    def issue(self) -> Issue:
        """The error as a fault, ``api.<class>``, in our words."""
        kind = self.classification
        return Issue(f"api.{kind.value}", kind.category, "", kind.words)

    @property
    def suggested_actions(self) -> tuple[str, ...]:
        """What a person may do.

        What the report suggests stands first, then what always helps with this class.
        """
        own = () if self.suggested_action is None else (self.suggested_action,)
        if self.classification is ApiErrorClass.INSUFFICIENT_CREDITS:
            return own + _OUT_OF_CREDITS
        return own

    def to_result(self, *, agent: str, branch_id: str) -> ValidationResult:
        """Return the system's own action for the router.

        A recovery has suggestions and ``retry_context`` (M85, M86).
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


def read_error_message(message: object) -> ApiError | Invalid:
    """Read a message with the role ``error``: a report, JSON of one, or any other text (M87).

    Return Invalid for a message with another role.
    """
    role = peek(message, "role")
    if role != ERROR_ROLE:
        expected = f'"{ERROR_ROLE}" in a message that reports an error'
        issue = Issue.of(Code.SHAPE_WRONG_TYPE, "/role", expected=expected, found=quote(role))
        return Invalid((issue,))

    content = peek(message, "content")
    report: object = decode(content) if isinstance(content, str) else content
    if isinstance(report, Mapping):
        return ApiError.of_report(cast("Mapping[str, JSON]", report))

    return ApiError(message=content if isinstance(content, str) else "")


def _class_of(word: object) -> ApiErrorClass:
    if not isinstance(word, str):
        return ApiErrorClass.UNKNOWN
    return _READS_AS.get(word, ApiErrorClass.UNKNOWN)


def _seconds(value: object) -> float | None:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else -1
    # an integer of any length can be compared, though not converted
    return number if 0 <= number <= sys.float_info.max else None


def _status(code: int | None) -> JSONObject:
    return {} if code is None else {"status_code": code}


class Reaction(StrEnum):
    """What follows a fault, from the mildest to the gravest."""

    RETRY = "retry"  # ask the same agent again, within the budget
    ESCALATE = "escalate"  # bring it to the human
    TERMINATE = "terminate"  # end the branch


_NO_RETRY: Final = {
    Category.API_TERMINAL: Reaction.TERMINATE,
    Category.TOOL_ERROR: Reaction.ESCALATE,
}
DEFAULT_REACTIONS: Final = MappingProxyType(dict.fromkeys(Category, Reaction.RETRY) | _NO_RETRY)
"""The published reactions.

A reply with a target that is not permitted is retried; the target is never run (requirement X5).
"""


def _ending(reactions: Mapping[Category, Reaction]) -> frozenset[Category]:
    return frozenset(
        category for category, reaction in reactions.items() if reaction is not Reaction.RETRY
    )


# Three corrections and three repeats of a failed call, counted apart (requirement M89).
DEFAULT_BUDGET: Final = RetryPolicy(
    max_retries=3, transport_retries=3, stop_on=_ending(DEFAULT_REACTIONS)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """Reactions to faults, and the budget that bounds them.

    ``reactions`` change single categories of :data:`DEFAULT_REACTIONS`; any other key or value
    raises ContractError. With ``strict_permissions`` a target that is not permitted ends the branch
    at once. In a client's loop and in a router alike, ``max_retries`` of ``budget`` bounds
    corrections and ``transport_retries`` repeats of a failed call; its ``stop_on`` follows from the
    reactions. ``sets_budget`` says whether a budget was given: without one the calls of a client
    keep the policy that it was wrapped with.
    """

    reactions: Mapping[Category, Reaction] = field(default_factory=dict[Category, Reaction])
    strict_permissions: bool = False
    budget: RetryPolicy = DEFAULT_BUDGET
    sets_budget: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sets_budget", self.budget is not DEFAULT_BUDGET)
        try:
            changes = {Category(key): Reaction(value) for key, value in self.reactions.items()}
        except ValueError as error:
            raise ContractError(f"reactions map a Category to a Reaction: {error}") from None

        if self.strict_permissions:
            changes[Category.PERMISSION_ERROR] = Reaction.TERMINATE

        reactions = MappingProxyType({**DEFAULT_REACTIONS, **changes})
        object.__setattr__(self, "reactions", reactions)
        if _ending(reactions) != self.budget.stop_on:
            object.__setattr__(self, "budget", replace(self.budget, stop_on=_ending(reactions)))

    def budget_of(self, given: RetryPolicy) -> RetryPolicy:
        """Return what bounds a client's calls, of which ``given`` is the policy.

        The reactions end them too. A client without a policy of its own has the budget of this one.
        """
        if self.sets_budget or given == RetryPolicy():
            return self.budget
        return replace(given, stop_on=frozenset(given.stop_on) | frozenset(self.budget.stop_on))

    def reaction(self, issues: Iterable[Issue]) -> Reaction:
        """Return what follows these faults: the gravest reaction to any of them.

        Without any fault it is the reaction to UNKNOWN.
        """
        found = [(self.reactions[issue.category], issue.remedy) for issue in issues]
        if (Reaction.RETRY, Remedy.STOP) in found:  # where another ask would not help, none is made
            return Reaction.TERMINATE

        reactions = [reaction for reaction, _ in found] or [self.reactions[Category.UNKNOWN]]
        return max(reactions, key=list(Reaction).index)

    def changed(self, category: Category) -> Reaction | None:
        """Return the reaction that replaces the published one for a category.

        None when the published one stands.
        """
        reaction = self.reactions[category]
        return None if reaction is DEFAULT_REACTIONS[category] else reaction


MAX_SNIPPET_CHARS: Final = 200


class LikelyCause(StrEnum):
    """Why an agent may never have acted."""

    # Neither an action nor a tool is permitted: review the topology.
    NOTHING_TO_CALL = "nothing_to_call"
    # There is something to call: is it in the request, and does the prompt ask for it?
    TOOLS_IGNORED = "tools_ignored"


@dataclass(frozen=True, slots=True)
class ContentStreak:
    """How many replies in a row ``agent`` gave that were words alone.

    ``snippet`` is the beginning of the last one.
    """

    agent: str
    count: int = 0
    snippet: str = field(default="", repr=False)

    def after_content(self, text: str) -> ContentStreak:
        """Count one more reply of words alone."""
        # a lone surrogate fits into no checkpoint
        snippet = text[:MAX_SNIPPET_CHARS].encode(errors="replace").decode()
        return ContentStreak(self.agent, self.count + 1, snippet)

    def after_action(self) -> ContentStreak:
        """Begin again: the agent called a tool or asked for an action."""
        return ContentStreak(self.agent)


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the agent again.

    With ``steer``, a steering goes before, whose ``retry_count`` is the streak's count.
    """

    steer: bool = False


@dataclass(frozen=True, slots=True)
class ContentLoop:
    """The branch fails: do not retry."""

    agent: str
    """The agent that replied with words alone."""
    count: int
    """Its replies in a row."""
    actions: tuple[str, ...]
    """The actions that it could have taken."""
    tools: tuple[str, ...]
    """The tools that it could have called."""
    snippet: str = field(repr=False)
    """The beginning of the model's own words, at most 200 characters."""
    likely_cause: LikelyCause
    """Why the agent did not act."""

    def __str__(self) -> str:
        listed = ", ".join((*self.actions, *self.tools)) or "nothing; review the topology"
        return (
            f"{self.agent} gave {self.count} replies in a row without acting; "
            f"it could have called: {listed}"
        )

    def to_dict(self) -> JSONObject:
        """Return the report as JSON."""
        names = {"actions": [str(one) for one in self.actions], "tools": list(self.tools)}
        return asdict(self) | names | {"likely_cause": self.likely_cause.value}


@dataclass(frozen=True, slots=True)
class ContentLoopGuard:
    """The limits on replies of words alone (M78).

    Raises ContractError unless 1 <= ``steering_threshold`` < ``hard_limit``.
    """

    steering_threshold: int = 2
    hard_limit: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.steering_threshold < self.hard_limit:
            raise ContractError("ContentLoopGuard needs 1 <= steering_threshold < hard_limit")

    def next(
        self, streak: ContentStreak, *, actions: Iterable[str] = (), tools: Iterable[str] = ()
    ) -> CallModel | ContentLoop:
        """Return, before the model is asked, whether it is to be asked.

        ``actions`` and ``tools`` are what the agent may call.
        """
        if streak.count < self.hard_limit:
            return CallModel(steer=streak.count >= self.steering_threshold)
        return self.loop(streak, actions=actions, tools=tools)

    def talks_on(self, streak: ContentStreak) -> bool:
        """Return whether an agent replied with words alone again after it was steered.

        To ask it further would be a loop.
        """
        return streak.count > self.steering_threshold

    def loop(
        self, streak: ContentStreak, *, actions: Iterable[str] = (), tools: Iterable[str] = ()
    ) -> ContentLoop:
        """Return the report on an agent that is not retried.

        ``actions`` and ``tools`` are as for :meth:`next`.
        """
        actions = tuple(actions)
        tools = tuple(tools)
        cause = LikelyCause.TOOLS_IGNORED if actions or tools else LikelyCause.NOTHING_TO_CALL
        return ContentLoop(streak.agent, streak.count, actions, tools, streak.snippet, cause)
