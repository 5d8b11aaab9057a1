"""Everything strictreply raises.

::

    StrictReplyError
    ├── ContractError            a wrong declaration, or request against it;
    │                            raised before anything is sent
    ├── CallFailed               no valid reply came; carries every attempt
    │   ├── ReplyRejected        the retries are exhausted
    │   │   └── ToolArgumentsError   …on the arguments of one tool
    │   ├── ReplyHalted          a retry would not help: refusal,
    │   │                        content filter, deadline, budget
    │   └── TransportFailed      the API was not reached, or gave an error
    ├── ToolExecutionError       a tool's own code raised
    │   └── ToolResultError         …it returned what JSON cannot hold
    ├── ToolError                raised by a tool, with words for the model
    ├── AbortRun                 raised by a tool, to end the whole run
    ├── InvokeFailed             a turn of the tool loop broke a rule
    │   │                        (in ``loop``)
    │   ├── IterationsExceeded      …it ended without an answer
    │   └── SessionConflict         …its session was continued meanwhile
    │                               (in ``loop``)
    ├── SessionStoreFailed       a session was not read or not stored
    │                            (in ``loop``)
    └── Unanswered               the answer of a run that has none was read
                                 (in ``loop``)

Programs read fields and codes. ``str()`` is made of our words and the schema's: under 4 KB, safe to
log. ``explain()`` reports every attempt, raw replies included: for a person, not for a log. All are
picklable.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import warnings
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypeAlias

from strictreply.values._issues import (
    NOWHERE,
    Issue,
    Remedy,
    counted,
    pointer_tokens,
    printable,
    printable_json,
    value_at,
)
from strictreply.values._limits import JSONObject
from strictreply.values._replies import (
    Attempt,
    Usage,
    plain,
    plain_request,
    total_usage,
    without_credentials,
)

MAX_MESSAGE_BYTES = 3_500
MAX_RAW_CHARS = 2_000
MAX_LISTED_ISSUES = 8

ADVICE: dict[Remedy, str] = {
    Remedy.CORRECT: (
        "Read what the model got wrong (attempt.raw): state the rule in the tool's description, "
        "allow more retries (RetryPolicy.max_retries), or relax the schema."
    ),
    Remedy.SHORTEN: "Raise max_tokens, or ask for less in one reply.",
    Remedy.RESEND: (
        "The server ended the reply early, or sent no completion: "
        "check the endpoint, not the prompt."
    ),
    Remedy.STOP: (
        "The provider or the model declined: change the prompt or the model; a retry will not help."
    ),
}
"""What a person can do about each kind of fault, by its remedy."""

_LATER = (
    "Try again later, or allow more RetryPolicy.transport_retries (of a stored reply: max_retries "
    "of the client), or a longer RetryPolicy.max_retry_after if error.retry_after exceeds it; "
    "error.cause has the SDK's own exception."
)


class Reason(StrEnum):
    """Why a call ended without a reply: what ``error.reason`` equals.

    A member is the one row of its reason: ``"reason"``, then what a person can do about it, if the
    faults of the reply do not say that.
    """

    advice: str
    """What a person can do about it; empty where the faults explain the end."""

    def __new__(cls, value: str, advice: str = "") -> Self:
        """Attach the advice to the reason."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.advice = advice
        return member

    # of ReplyRejected
    RETRIES = "retries"
    ARG_RETRIES = (
        "arg_retries",
        (
            "Read what the model got wrong (attempt.raw): state the rule in the tool's "
            "description, allow more RetryPolicy.arg_retries, or relax the schema."
        ),
    )
    INVALID_CALLS = (
        "invalid_calls",
        (
            "Read what the model got wrong (attempt.raw): state the rule in the tool's "
            "description, or raise RetryPolicy.max_invalid_calls."
        ),
    )
    CATEGORY = (
        "category",
        (
            "Read what the model got wrong (attempt.raw), "
            "or take its category out of RetryPolicy.stop_on."
        ),
    )
    STOP = "stop"
    STREAMED = "streamed"
    HUMAN = "human"
    STORED = (
        "stored",
        (
            "The server has this reply, and gives the same one again: read what is wrong "
            "(attempt.raw) and make the request anew, or wrap the client with the contract by "
            "which the reply was asked for."
        ),
    )

    # of ReplyHalted, DEADLINE also of TransportFailed
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    AMBIGUOUS = (
        "ambiguous",
        (
            "Make the request without a stream (no stream=True, "
            "no RetryPolicy(early_stop='always')): a whole reply may say it once. "
            "If it does not, use another server or another model: "
            "this one sends such replies whenever it is asked."
        ),
    )
    DEADLINE = (
        "deadline",
        (
            "Raise RetryPolicy.deadline, or use a faster model; "
            "error.attempts has the seconds of each."
        ),
    )
    TOKENS = (
        "tokens",
        (
            "Raise max_tokens_total of RetryPolicy, or of a run's LoopPolicy, "
            "or send a shorter conversation."
        ),
    )
    PAUSED = (
        "paused",
        (
            "Raise RetryPolicy.max_continuations, or bound the API's own tools: their max_uses, "
            "or how many there are."
        ),
    )
    COST = "cost", "Raise RetryPolicy.max_cost, or send a shorter conversation."

    # of TransportFailed
    AUTHENTICATION_FAILED = (
        "authentication_failed",
        "Check the API key and the base URL of the client.",
    )
    PERMISSION_DENIED = (
        "permission_denied",
        "Check what the API key may use: the model, the project, the region.",
    )
    NOT_FOUND = "not_found", "Check the model's name and the base URL of the client."
    INSUFFICIENT_CREDITS = "insufficient_credits", "Add credit at the provider, or use another key."
    INVALID_REQUEST = (
        "invalid_request",
        (
            "Read in error.cause what the server refused: a keyword or a tool that it does not "
            "support, or a call in the conversation that it cannot read."
        ),
    )
    THOUGHT_MISMATCH = (
        "thought_mismatch",
        (
            "Keep the tools, the system prompt and the earlier messages as they were when the "
            "model thought, or leave the thoughts of earlier turns out; "
            "error.cause says which message it is about."
        ),
    )
    CONTEXT_LENGTH_EXCEEDED = (
        "context_length_exceeded",
        (
            "Shorten the conversation, send fewer tools or a smaller max_tokens, or use a model "
            "with a longer context; of your own server raise the context size."
        ),
    )
    REQUEST_TOO_LARGE = "request_too_large", "Send a shorter conversation or fewer tools."
    RESPONSE_TOO_LARGE = (
        "response_too_large",
        "Check the endpoint: it sent over 16 times Limits.reply_bytes; raise that if intended.",
    )
    REDIRECT_REFUSED = (
        "redirect_refused",
        "Set the client's base_url to the API's own origin: prompts and keys never go elsewhere.",
    )
    RETRY_BUDGET = (
        "retry_budget",
        (
            "Check the endpoint: most calls fail, "
            "and RetryPolicy.retry_budget allows no repeats until some succeed."
        ),
    )
    API_ERROR = (
        "api_error",
        "Read in error.cause what the server answered, and check the client's base URL.",
    )
    UNREADABLE_RESPONSE = (
        "unreadable_response",
        "Check the endpoint: it sent no JSON, which may be a page of a proxy or of a login.",
    )
    RATE_LIMIT = "rate_limit", _LATER
    SERVER_ERROR = "server_error", _LATER
    TIMEOUT = "timeout", _LATER
    CONNECTION = "connection", _LATER
    CONFLICT = "conflict", _LATER
    MALFORMED_RESPONSE = "malformed_response"


REASON_ADVICE: dict[str, str] = {reason.value: reason.advice for reason in Reason if reason.advice}
"""What a person can do when a budget or the transport ended a call, by the error's ``reason``."""


Pickled: TypeAlias = tuple[Any, ...]
"""What pickle makes an error of again: a function and its arguments, as ``__reduce__`` has them."""


class StrictReplyError(Exception):
    """The root of all errors of this library."""

    __module__ = "strictreply"

    def __init_subclass__(cls) -> None:
        # a traceback shows where programs import an error from,
        # not the private module that defines it
        public, _, private = cls.__module__.partition("._")
        if private and public.startswith("strictreply."):
            cls.__module__ = public.removesuffix(".values")

    def explain(self) -> str:
        """Return what happened and what to do, as text for a person."""
        return str(self)

    def to_dict(self) -> JSONObject:
        """Return the error as JSON-safe values, without prompts and raw replies."""
        return {"error": type(self).__name__, "message": str(self)}

    def __reduce__(self) -> Pickled:
        # by fields: constructors take keywords, which Exception.__reduce__ does not know of
        return _rebuilt, (type(self), self.args, self.__dict__)


class ContractError(StrictReplyError, ValueError):
    """A declaration (of a tool, a schema, a contract) is wrong, or a request contradicts it.

    ``path`` is a JSON Pointer to the place inside the declaration, empty for the whole.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(_message(printable(f"{message} (at {path})" if path else message)))
        self.path = path


def must_be(name: str, value: object, kind: type | tuple[type, ...], words: str) -> None:
    """Raise ContractError when a value is of another type than ``kind``, which ``words`` name.

    The message does not show the value, which may be a key.
    """
    if not isinstance(value, kind):
        raise ContractError(f"{name} must be {words}, not {type(value).__name__}")


def must_have(name: str, value: object, method: str, words: str) -> None:
    """Raise ContractError when a value lacks a method (``__call__`` when it is to be called).

    None is accepted.
    """
    if value is not None and not callable(getattr(value, method, None)):
        raise ContractError(f"{name} must be {words}, not {type(value).__name__}")


class ContractWarning(UserWarning):
    """A declaration holds a part that no reply may ever fit, or one that has no effect.

    The warning is given once, when the part is declared.
    """

    __module__ = "strictreply"


_PACKAGE = str(Path(__file__).parent.parent) + os.sep


def warn_of_declaration(message: str) -> None:
    """Warn with ContractWarning at the declaration, which is outside of this library."""
    frame = inspect.currentframe()
    levels = 1
    # by file: a method of ours that stands for one of an SDK has the names of its module
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        levels += 1

    warnings.warn(printable(message), ContractWarning, stacklevel=levels)


class CallFailed(StrictReplyError):
    """A call was made, and ended without a valid reply.

    ``message`` is one line without the model's words. ``attempts`` holds every attempt in order,
    ``reason`` a stable word for why it ended, ``issues`` the faults of the last judged reply,
    ``usage`` the tokens of all attempts.
    """

    def __init__(self, message: str, *, reason: str, attempts: tuple[Attempt, ...]) -> None:
        self.reason = reason
        self.attempts = attempts
        super().__init__(_message("\n".join([message, *self._fault_lines()])))

    def __reduce__(self) -> Pickled:
        # of requests and replies only what JSON can hold: a caller, or its client, may have put
        # anything into them
        attempts = [
            replace(each, request=plain_request(each.request), raw=plain(each.raw))
            for each in self.attempts
        ]
        rebuilt, (kind, args, fields) = super().__reduce__()
        return rebuilt, (kind, args, fields | {"attempts": tuple(attempts)})

    @property
    def issues(self) -> tuple[Issue, ...]:
        """The faults of the last reply that was judged; empty when none was."""
        return next((attempt.issues for attempt in reversed(self.attempts) if attempt.issues), ())

    @property
    def usage(self) -> Usage:
        """The tokens of all attempts together."""
        return total_usage(self.attempts)

    def explain(self) -> str:
        """Return every attempt with its raw reply, and what to do: for a person, not for a log."""
        advice = (line.strip() for line in _reason_lines(self.reason))
        headline = str(self).splitlines()[0]
        told = explained(headline, self.attempts, is_advised=self.reason in REASON_ADVICE)
        return "\n".join([told, *advice])

    def to_dict(self) -> JSONObject:
        """Return the error as JSON-safe values, without prompts and raw replies."""
        attempts = [attempt.to_dict() for attempt in self.attempts]
        return super().to_dict() | {"reason": self.reason, "attempts": attempts}

    def _fault_lines(self) -> list[str]:
        issues = self.issues
        lines = [
            f"  {issue.code} at {issue.place}: {issue.message}"
            for issue in issues[:MAX_LISTED_ISSUES]
        ]
        if len(issues) > len(lines):
            lines.append(f"  and {len(issues) - len(lines)} more")

        return [*lines, *(_reason_lines(self.reason) or remedy_lines(issues))]


class ReplyRejected(CallFailed):
    """All retries were made, and no reply fit the contract.

    ``reason`` is ``retries``, ``arg_retries``, ``invalid_calls``, ``category`` (the policy's
    ``stop_on``), ``stop`` (its own tenacity stop) or ``stored`` (a stored reply, fetched once).
    """


class ToolArgumentsError(ReplyRejected):
    """The retries were exhausted on the arguments of one declared tool (requirement T30).

    ``tool`` is its name.
    """

    def __init__(
        self, message: str, *, reason: str, attempts: tuple[Attempt, ...], tool: str
    ) -> None:
        self.tool = tool
        super().__init__(message, reason=reason, attempts=attempts)


class ReplyHalted(CallFailed):
    """A retry would not help, or is not allowed.

    ``reason`` is ``refusal``, ``content_filter``, ``ambiguous`` (the server sent what has two
    meanings), or of a budget that is spent, such as ``deadline``, ``tokens`` and ``cost``.
    """


class TransportFailed(CallFailed):
    """The API could not be reached, or its answer was an error or not a completion.

    ``cause`` is the SDK's exception: None when the response itself was malformed, and after
    unpickling. ``retry_after`` is the seconds that the server asked to wait, ``status_code`` its
    HTTP status, or that which the error in a response names; each is None when the server sent
    none. ``str()`` does not repeat what the cause said, and no traceback shows it: a server's words
    may hold the model's. ``explain()`` ends with it.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        attempts: tuple[Attempt, ...],
        cause: Exception | None = None,
        retry_after: float | None = None,
        status_code: int | None = None,
    ) -> None:
        self.cause = cause
        self.retry_after = retry_after
        self.status_code = status_code
        super().__init__(message, reason=reason, attempts=attempts)

    def explain(self) -> str:
        """Return the explanation of every failed call, and what the SDK's exception said."""
        text = super().explain()
        if self.cause is None:
            return text

        try:
            words = _words_of(self.cause)
        except Exception:  # noqa: BLE001
            # the exception's own code may raise anything, and the rest is explained all the same
            words = ""

        said = _excerpt(ascii(without_credentials(words, self.cause)))
        return f"{text}\nCaused by {printable(type(self.cause).__name__)}: {said}"

    def __reduce__(self) -> Pickled:
        # without the cause: SDK exceptions hold live connections
        rebuilt, (kind, args, fields) = super().__reduce__()
        return rebuilt, (kind, args, fields | {"cause": None})


class ToolExecutionError(StrictReplyError):
    """A tool's own code raised.

    The call itself was valid, so nothing is retried (requirement T36).

    ``tool`` is the tool's name, ``call_id`` the provider's id of the call, or None; ``__cause__``
    is what the tool raised. Only its type, ``kind``, is in the message: its text may hold anything.
    """

    code = "TOOL_ERROR"

    def __init__(self, tool: str, *, call_id: str | None = None, kind: str = "") -> None:
        raised = kind or "an exception"
        super().__init__(printable(f"tool {tool!r} raised {raised}; see __cause__ for its message"))
        self.tool = tool
        self.call_id = call_id


class ToolResultError(ToolExecutionError, TypeError):
    """A tool returned a value that JSON cannot hold: a mistake in the code of the tool.

    The model is told that the tool failed, and the error is logged with its words. ``path`` is the
    JSON Pointer of the value in the result, ``kind`` the name of its type, or ``NaN``, ``Infinity``
    or ``-Infinity`` for a number that is not finite.
    """

    def __init__(self, tool: str, *, path: str, kind: str, call_id: str | None = None) -> None:
        super().__init__(tool, call_id=call_id, kind=kind)
        where = f" at {path} of its result" if path else ""
        what = f"a value of type {kind}"
        hint = "return a dict, list, str, number, dataclass or pydantic model made of such"
        if kind.removeprefix("-") in ("NaN", "Infinity"):
            what = kind
            hint = "return None where there is no number"

        words = f"tool {tool!r} returned {what}{where}, which JSON cannot hold"
        self.args: tuple[Any, ...] = (printable(f"{words}; {hint}"),)
        self.path: str = path
        self.kind: str = kind


class AbortRun(StrictReplyError):
    """Raise it in a tool to end the run that called it: nothing more is asked or run.

    :func:`strictreply.run` raises it, too, when a tool has failed too often in a row. ``reason`` is
    then ``failures``, else ``raised``. ``tool`` and ``call_id`` say which call it was, and ``run``
    is the run as far as it came, with its transcript and attempts. They are None until a call or a
    run has ended with it, and ``run`` also after unpickling. A durable run fails with it, and a
    graph of LangGraph has the outcome ``aborted``.
    """

    code = "RUN_ABORTED"

    def __init__(self, message: str = "a tool ended the run", *, reason: str = "raised") -> None:
        super().__init__(message)
        self.reason = reason
        self.tool: str | None = None
        self.call_id: str | None = None
        self.run: Any = None

    def by(self, tool: str, call_id: str | None) -> AbortRun:
        """Return the same error with the tool whose call ended the run."""
        self.tool = tool
        self.call_id = call_id
        return self

    def explain(self) -> str:
        """Return what ended the run, and every attempt of it with its raw reply: for a person."""
        headline = f"The tool {self.tool!r} ended the run: {self}" if self.tool else str(self)
        return headline if self.run is None else explained(headline, self.run.attempts)

    def to_dict(self) -> JSONObject:
        """Return the error as JSON-safe values, without prompts and raw replies."""
        told = {"reason": self.reason, "tool": self.tool, "call_id": self.call_id}
        return super().to_dict() | told

    def __reduce__(self) -> Pickled:
        # without the run: its store of sessions may hold live connections
        rebuilt, (kind, args, fields) = super().__reduce__()
        return rebuilt, (kind, args, fields | {"run": None})


class ToolError(StrictReplyError):
    """Raise it in a tool to tell the model what went wrong.

    Its text becomes the result that the model gets. Of any other exception the model gets only the
    type, because the text may hold anything.
    """

    code = "TOOL_ERROR"


def _words_of(cause: Exception) -> str:
    """Return what an exception of an SDK says, and the body of its response where it leaves it out.

    The openai SDK tells a body without ``error`` as its status alone.
    """
    words = str(cause)
    body = getattr(cause, "body", None)
    said = str(body) if body else ""
    return words if said in words else f"{words} - {said}"


def remedy_lines(issues: tuple[Issue, ...]) -> list[str]:
    """Return what to do about some faults, once for each remedy."""
    remedies = dict.fromkeys(issue.remedy for issue in issues)
    return [f"  What to do: {ADVICE[remedy]}" for remedy in remedies]


def without_exception(words: str) -> str:
    """Return advice without what it says of the exception, for a reader of a file, who has none."""
    words = words.replace(" (attempt.raw)", "").replace("Read in error.cause what", "Look for what")
    return re.sub(r"; error\.[^\n]*", ".", words)


def explained(headline: str, attempts: tuple[Attempt, ...], *, is_advised: bool = False) -> str:
    """Return the record of a call as text.

    The text has every attempt in order, raw replies included, and what to do, unless the end itself
    ``is_advised`` on.
    """
    tokens = counted(total_usage(attempts).total_tokens, "token")
    total = f"{counted(len(attempts), 'attempt')}, {tokens} in total."
    lines = [line for attempt in attempts for line in _attempt_lines(attempt)]
    issues = next((attempt.issues for attempt in reversed(attempts) if attempt.issues), ())
    if is_advised:
        issues = ()

    return "\n".join([headline, total, *lines, *(line.strip() for line in remedy_lines(issues))])


def _reason_lines(reason: str) -> list[str]:
    # none for the reasons that the faults themselves explain
    return [f"  What to do: {REASON_ADVICE[reason]}"] if reason in REASON_ADVICE else []


def _attempt_lines(attempt: Attempt) -> list[str]:
    asked = printable(attempt.scope or "")
    scope = f", only the {'value at' if '/' in asked else 'arguments of'} {asked}" if asked else ""
    lines = ["", f"Attempt {attempt.number} ({attempt.seconds:.2f} s{scope})"]
    if attempt.correction:
        lines += ["  sent:", *_indented(attempt.correction)]
    if attempt.failure:
        lines.append(f"  failed: {attempt.failure}")
    if attempt.raw is not None:
        lines += ["  came:", *_indented(_reply_text(attempt))]
    if attempt.stopped_early is not None:
        lines.append("  closed here: the reply could no longer become valid")

    lines += [f"  lenient step: {step}" for step in attempt.lenient]
    lines += [
        f"  the endpoint refused {name}, which strictreply added; now omitted"
        for name in attempt.dropped_params
    ]

    for issue in attempt.issues:
        lines.append(f"  wrong: {issue.code} at {issue.place}: {issue.message}")
        if issue.found:
            lines.append(f"         got {printable(issue.found)}")
        if issue.hint:
            lines.append(f"         {issue.hint}")

    if attempt.accepted:
        lines.append("  accepted")
    return lines


def _reply_text(attempt: Attempt) -> str:
    """Return the reply in the response as JSON, or the whole response where it holds none."""
    reply = value_at(attempt.raw, pointer_tokens(attempt.reply_at))
    shown = attempt.raw if reply in (NOWHERE, None, []) else reply

    return printable_json(_excerpt(json.dumps(plain(shown))))


def _excerpt(text: str) -> str:
    if len(text) <= MAX_RAW_CHARS:
        return text
    return f"{text[:MAX_RAW_CHARS]} … ({len(text)} characters in total)"


def _indented(text: str) -> list[str]:
    # escaped line by line: a user's own steering may have worded a correction
    return [f"    {printable(line)}" for line in text.splitlines()]


def _message(text: str) -> str:
    """Cut a message to its bytes in UTF-8; what UTF-8 cannot encode becomes ``?``."""
    return text.encode(errors="replace")[:MAX_MESSAGE_BYTES].decode(errors="ignore")


def _rebuilt(
    kind: type[StrictReplyError], args: tuple[object, ...], fields: dict[str, object]
) -> StrictReplyError:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    error.args = args
    return error
