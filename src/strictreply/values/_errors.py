"""Everything strictreply raises.

::

    StrictReplyError
    ├── ContractError            a wrong declaration, or a request that
    │                            contradicts it; raised before sending
    ├── CallFailed               no valid reply; carries every attempt
    │   ├── ReplyRejected        the retries are exhausted
    │   │   └── ToolArgumentsError   …on the arguments of one tool
    │   ├── ReplyHalted          a retry would not help: refusal,
    │   │                        content filter, deadline, budget
    │   └── TransportFailed      the API could not be reached, or returned
    │                            an error
    ├── ToolExecutionError       a tool's own code raised
    │   └── ToolResultError         …it returned what JSON cannot hold
    ├── ToolError                raised by a tool, with words for the model
    ├── AbortRun                 raised by a tool, to end the whole run
    ├── InvokeFailed             a turn of the tool loop broke a rule
    │   │                        (in ``loop``)
    │   ├── IterationsExceeded      …it ended without an answer
    │   └── SessionConflict         …its session was continued meanwhile
    │                               (in ``loop``)
    ├── SessionStoreFailed       a session could not be read or stored
    │                            (in ``loop``)
    └── Unanswered               ``run.answer`` was read, but is missing
                                 (in ``loop``)

Programs read fields and codes. ``str()`` is safe to log: under 4 KB, with words of strictreply and
of the schema only. ``explain()`` is for a person, not for a log: it reports every attempt, raw
replies included. All errors can be pickled.
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

_CORRECT = (
    "Read what the model got wrong (attempt.raw): state the rule in {place}, allow more retries "
    "(RetryPolicy.max_retries), or relax the schema."
)
ADVICE_ON_ANSWERS = _CORRECT.format(place="the prompt or the description of the answer's type")
"""What a person can do about a fault of an answer, which no tool's description changes."""

ADVICE: dict[Remedy, str] = {
    Remedy.CORRECT: _CORRECT.format(place="the tool's description"),
    Remedy.SHORTEN: "Raise max_tokens, or ask for less in one reply.",
    Remedy.RESEND: (
        "The server ended the reply early, or sent no completion: "
        "check the endpoint, not the prompt."
    ),
    Remedy.STOP: (
        "The provider or the model declined: change the prompt or the model; a retry will not help."
    ),
}
"""What a person can do about each kind of fault of a call, by its remedy."""

_LATER = (
    "Try again later, or raise RetryPolicy.transport_retries (for a stored reply, the client's "
    "max_retries). If error.retry_after exceeds RetryPolicy.max_retry_after, raise that limit, "
    "too; error.cause has the SDK's own exception."
)


class Reason(StrEnum):
    """Why a call ended without a valid reply: the values of ``error.reason``."""

    advice: str
    """What a person can do about it; empty if the faults of the reply explain the end."""

    def __new__(cls, value: str, advice: str = "") -> Self:
        """Attach the advice to the reason."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.advice = advice
        return member

    # of ReplyRejected
    RETRIES = "retries"
    """All corrections that ``max_retries`` allows were answered."""
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
    """``RetryPolicy.stop`` said so."""
    STREAMED = "streamed"
    """More than a call is wrong, and some text has reached the caller."""
    HUMAN = "human"
    """``ask_human`` returned None."""
    STORED = (
        "stored",
        (
            "The server has stored this reply, and returns the same one again. Read what is wrong "
            "(attempt.raw) and make a new request, or wrap the client with the contract that the "
            "reply was requested with."
        ),
    )

    # of ReplyHalted, DEADLINE also of TransportFailed
    REFUSAL = "refusal"
    """The model refused."""
    CONTENT_FILTER = "content_filter"
    """A content filter stopped the reply."""
    AMBIGUOUS = (
        "ambiguous",
        (
            "Make the request without a stream (no stream=True, "
            "no RetryPolicy(early_stop='always')): a whole reply may be unambiguous. "
            "If it is not, use another server or another model: a retry would bring the same."
        ),
    )
    DEADLINE = (
        "deadline",
        (
            "Raise RetryPolicy.deadline, or use a faster model; "
            "error.attempts has the seconds of each attempt."
        ),
    )
    TOKENS = (
        "tokens",
        (
            "Raise max_tokens_total of RetryPolicy (or of a run's LoopPolicy), "
            "or send a shorter conversation."
        ),
    )
    PAUSED = (
        "paused",
        (
            "Raise RetryPolicy.max_continuations, or limit the API's own tools: "
            "lower their max_uses, or pass fewer."
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
            "Do not change the tools, the system prompt and the earlier messages after the model "
            "has thought, or leave out the thoughts of earlier turns; "
            "error.cause says which message it is about."
        ),
    )
    CONTEXT_LENGTH_EXCEEDED = (
        "context_length_exceeded",
        (
            "Shorten the conversation, send fewer tools or a smaller max_tokens, or use a model "
            "with a longer context. If the server is yours, raise its context size."
        ),
    )
    REQUEST_TOO_LARGE = "request_too_large", "Send a shorter conversation or fewer tools."
    RESPONSE_TOO_LARGE = (
        "response_too_large",
        (
            "Check the endpoint: it sent over 16 times Limits.reply_bytes. "
            "Raise that limit if your app needs so large a response."
        ),
    )
    REDIRECT_REFUSED = (
        "redirect_refused",
        (
            "Set the client's base_url to the API's own origin: "
            "strictreply never sends prompts and keys to another one."
        ),
    )
    RETRY_BUDGET = (
        "retry_budget",
        (
            "Check the endpoint: most calls fail, and "
            "RetryPolicy.retry_budget allows no more repeats until some calls succeed."
        ),
    )
    API_ERROR = (
        "api_error",
        "Read in error.cause what the server answered, and check the client's base URL.",
    )
    UNREADABLE_RESPONSE = (
        "unreadable_response",
        "Check the endpoint: it sent no JSON. A proxy or a login page may have answered.",
    )
    RATE_LIMIT = "rate_limit", _LATER
    """The server is asked too often."""
    SERVER_ERROR = "server_error", _LATER
    """The server failed."""
    TIMEOUT = "timeout", _LATER
    """The server did not answer in time."""
    CONNECTION = "connection", _LATER
    """The connection failed."""
    CONFLICT = "conflict", _LATER
    """The server reported a conflict."""
    MALFORMED_RESPONSE = "malformed_response"
    """The response is not a completion."""


REASON_ADVICE: dict[str, str] = {reason.value: reason.advice for reason in Reason if reason.advice}
"""What a person can do if a budget or the transport ended a call, by the error's ``reason``."""


Pickled: TypeAlias = tuple[Any, ...]
"""What ``__reduce__`` returns: a function and its arguments, which rebuild the error."""


class StrictReplyError(Exception):
    """The base class of all errors of this library."""

    __module__ = "strictreply"

    def __init_subclass__(cls) -> None:
        # tracebacks name the public module, not the private one that defines the error
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
        # by fields: Exception.__reduce__ does not support keyword arguments of constructors
        return _rebuilt, (type(self), self.args, self.__dict__)


class ContractError(StrictReplyError, ValueError):
    """A declaration (of a tool, a schema, a contract) is wrong, or a request contradicts it.

    ``path`` is a JSON Pointer to the wrong part of the declaration; empty for all of it.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(_message(printable(f"{message} (at {path})" if path else message)))
        self.path = path
        """JSON Pointer to the place in the declaration; empty for the whole."""


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra, from an index and in a checkout."""
    return f"pip install 'strictreply[{extra}]', or in a checkout pip install '.[{extra}]'"


def must_be(name: str, value: object, kind: type | tuple[type, ...], words: str) -> None:
    """Raise ContractError if a value is not of the type ``kind``; ``words`` name the type.

    The message does not show the value, because it may be an API key.
    """
    if not isinstance(value, kind):
        raise ContractError(f"{name} must be {words}, not {type(value).__name__}")


def must_have(name: str, value: object, method: str, words: str) -> None:
    """Raise ContractError if a value lacks a method; None is accepted.

    Pass ``__call__`` as the method to require a callable.
    """
    if value is not None and not callable(getattr(value, method, None)):
        raise ContractError(f"{name} must be {words}, not {type(value).__name__}")


class ContractWarning(UserWarning):
    """A part of a declaration has no effect, or no reply can ever fit it.

    Issued once, when the part is declared.
    """

    __module__ = "strictreply"


_PACKAGE = str(Path(__file__).parent.parent) + os.sep


def warn_of_declaration(message: str) -> None:
    """Issue a ContractWarning for the line outside of this library that made the declaration."""
    frame = inspect.currentframe()
    levels = 1
    # by file: our replacements of SDK methods carry the module name of the SDK
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        levels += 1

    warnings.warn(printable(message), ContractWarning, stacklevel=levels)


class CallFailed(StrictReplyError):
    """A call ended without a valid reply.

    - ``reason``: why it ended, one of :class:`~strictreply.Reason`.
    - ``attempts``: every attempt, in order.
    - ``issues``: the faults of the last judged reply.
    - ``usage``: the tokens of all attempts.

    ``str()`` never quotes the model.
    """

    def __init__(self, message: str, *, reason: str, attempts: tuple[Attempt, ...]) -> None:
        self.reason = reason
        """A stable word for why the call ended, a member of ``Reason``."""
        self.attempts = attempts
        """Every attempt, in order."""
        super().__init__(_message("\n".join([message, *self._fault_lines()])))

    def __reduce__(self) -> Pickled:
        # requests and replies as plain JSON: callers and clients may have put any object into them
        attempts = [
            replace(each, request=plain_request(each.request), raw=plain(each.raw))
            for each in self.attempts
        ]
        rebuilt, (kind, args, fields) = super().__reduce__()
        return rebuilt, (kind, args, fields | {"attempts": tuple(attempts)})

    @property
    def issues(self) -> tuple[Issue, ...]:
        """The faults of the last reply that was judged; empty if none was."""
        return next((attempt.issues for attempt in reversed(self.attempts) if attempt.issues), ())

    @property
    def usage(self) -> Usage:
        """The tokens of all attempts together."""
        return total_usage(self.attempts)

    def explain(self) -> str:
        """Return every attempt with its raw reply, and what to do: for a person, not for a log."""
        advice = (line.strip() for line in _reason_lines(self.reason))
        headline = str(self).splitlines()[0]
        record = explained(headline, self.attempts, is_advised=self.reason in REASON_ADVICE)
        return "\n".join([record, *advice])

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
    """No reply fit the contract, and no further retry is allowed.

    ``reason`` is one of:

    - ``retries``, ``arg_retries``, ``invalid_calls``: that limit of the policy is reached.
    - ``category``: the policy's ``stop_on`` names the category of a fault.
    - ``stop``: the policy's tenacity ``stop`` ended the retries.
    - ``streamed``: some text of the reply had already reached the caller.
    - ``human``: ``ask_human`` returned None.
    - ``stored``: the reply was fetched from the server's store, where it does not change.
    """


class ToolArgumentsError(ReplyRejected):
    """The retries ended with invalid arguments of one declared tool; ``tool`` is its name."""

    def __init__(
        self, message: str, *, reason: str, attempts: tuple[Attempt, ...], tool: str
    ) -> None:
        self.tool = tool
        """The name of the tool."""
        super().__init__(message, reason=reason, attempts=attempts)


class ReplyHalted(CallFailed):
    """A retry would not help, or a budget of the call is exhausted.

    ``reason`` is one of:

    - ``refusal``, ``content_filter``: the model or the provider declined.
    - ``ambiguous``: the response has two meanings.
    - ``deadline``, ``tokens``, ``cost``, ``paused``: that budget of the policy is exhausted.
    """


class TransportFailed(CallFailed):
    """The API could not be reached, or returned an error or no completion.

    - ``cause``: the SDK's exception; None if the response itself was malformed, and after
      unpickling.
    - ``retry_after``: the seconds that the server asked to wait; None if it did not ask.
    - ``status_code``: the HTTP status, or the status that the error in a response names; None if
      there is none.

    ``str()`` and tracebacks leave out the text of the cause, because a server's error may quote the
    model. ``explain()`` ends with it.
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
        """The SDK's exception; None for a malformed response, and after unpickling."""
        self.retry_after = retry_after
        """The seconds that the server asked to wait; None when it named none."""
        self.status_code = status_code
        """The HTTP status, or that of the error in a response; None without one."""
        super().__init__(message, reason=reason, attempts=attempts)

    def explain(self) -> str:
        """Return every attempt, what to do, and the text of the SDK's exception."""
        text = super().explain()
        if self.cause is None:
            return text

        try:
            words = _words_of(self.cause)
        except Exception:  # noqa: BLE001
            # an exception's own __str__ may raise anything; the rest is still explained
            words = ""

        said = _excerpt(ascii(without_credentials(words, self.cause)))
        return f"{text}\nCaused by {printable(type(self.cause).__name__)}: {said}"

    def __reduce__(self) -> Pickled:
        # without the cause: SDK exceptions hold live connections
        rebuilt, (kind, args, fields) = super().__reduce__()
        return rebuilt, (kind, args, fields | {"cause": None})


class ToolExecutionError(StrictReplyError):
    """A tool's own code raised an exception; the call was valid, so nothing is retried.

    - ``tool``: the name of the tool.
    - ``call_id``: the provider's id of the call; None if there is none.
    - ``__cause__``: what the tool raised. The message names only its type, because its text may
      hold anything.
    """

    code = "TOOL_ERROR"
    """A stable word for programs to match on."""

    def __init__(self, tool: str, *, call_id: str | None = None, kind: str = "") -> None:
        raised = kind or "an exception"
        super().__init__(printable(f"tool {tool!r} raised {raised}; see __cause__ for its message"))
        self.tool = tool
        """The name of the tool."""
        self.call_id = call_id
        """The provider's id of the call; None when it has none."""


class ToolResultError(ToolExecutionError, TypeError):
    """A tool returned a value that JSON cannot hold: a mistake in the code of the tool.

    The model gets only the message that the tool failed; the error is logged in full.

    - ``path``: JSON Pointer to the value in the result; empty for the whole result.
    - ``kind``: the name of its type; ``NaN``, ``Infinity`` or ``-Infinity`` for such a number.
    """

    def __init__(self, tool: str, *, path: str, kind: str, call_id: str | None = None) -> None:
        super().__init__(tool, call_id=call_id, kind=kind)
        where = f" at {path} of its result" if path else ""
        what = f"a value of type {kind}"
        hint = "return only dicts, lists, strings, numbers, dataclasses and pydantic models"
        if kind.removeprefix("-") in ("NaN", "Infinity"):
            what = kind
            hint = "return None if there is no number"

        words = f"tool {tool!r} returned {what}{where}, which JSON cannot hold"
        self.args: tuple[Any, ...] = (printable(f"{words}; {hint}"),)
        """The message alone, as of any exception."""
        self.path: str = path
        """JSON Pointer of the value in the result; empty for the whole."""
        self.kind: str = kind
        """The name of its type, or ``NaN``, ``Infinity`` or ``-Infinity``."""


class AbortRun(StrictReplyError):
    """Raise this in a tool to end the run that called it; nothing more is requested or executed.

    :func:`strictreply.run` raises it, too, if a tool fails too often in a row. A durable run fails
    with it, and a LangGraph graph has the outcome ``aborted``.

    - ``reason``: ``raised`` by a tool, or ``failures`` of a tool in a row.
    - ``tool``, ``call_id``: the call that ended the run; None until the error has left that call.
    - ``run``: the run up to that point, with its transcript and attempts; None until the error has
      left the run, and after unpickling.
    """

    code = "RUN_ABORTED"
    """A stable word for programs to match on."""

    def __init__(self, message: str = "a tool ended the run", *, reason: str = "raised") -> None:
        super().__init__(message)
        self.reason = reason
        """``failures`` when a tool failed too often in a row, else ``raised``."""
        self.tool: str | None = None
        """The name of the tool; None until a call has ended with it."""
        self.call_id: str | None = None
        """The provider's id of the call; None until a call has ended with it."""
        self.run: Any = None
        """The run so far; None until one has ended with it, and after unpickling."""

    def by(self, tool: str, call_id: str | None) -> AbortRun:
        """Return the same error with the tool whose call ended the run."""
        self.tool = tool
        self.call_id = call_id
        return self

    def explain(self) -> str:
        """Return what ended the run, and its attempts with raw replies: for a person."""
        headline = f"The tool {self.tool!r} ended the run: {self}" if self.tool else str(self)
        return headline if self.run is None else explained(headline, self.run.attempts)

    def to_dict(self) -> JSONObject:
        """Return the error as JSON-safe values, without prompts and raw replies."""
        fields = {"reason": self.reason, "tool": self.tool, "call_id": self.call_id}
        return super().to_dict() | fields

    def __reduce__(self) -> Pickled:
        # without the run: its store of sessions may hold live connections
        rebuilt, (kind, args, fields) = super().__reduce__()
        return rebuilt, (kind, args, fields | {"run": None})


class ToolError(StrictReplyError):
    """Raise this in a tool to tell the model what went wrong.

    The model gets its text as the result of the call. Of any other exception the model gets only
    the type, because the text may hold anything.
    """

    code = "TOOL_ERROR"
    """A stable word for programs to match on."""


def _words_of(cause: Exception) -> str:
    """Return the text of an SDK's exception, with the body of the response if the text lacks it.

    The openai SDK reports a body without ``error`` by its status alone.
    """
    words = str(cause)
    body = getattr(cause, "body", None)
    said = str(body) if body else ""
    return words if said in words else f"{words} - {said}"


def remedy_lines(issues: tuple[Issue, ...]) -> list[str]:
    """Return what to do about faults, one line for each kind of advice."""
    advice = dict.fromkeys(_advice_on(issue) for issue in issues)
    return [f"  What to do: {words}" for words in advice]


def _advice_on(issue: Issue) -> str:
    """Return what to do about a fault: one of an answer is not fixed in a tool's description."""
    is_code_of_call = issue.code.startswith(("tool.", "args.", "call."))
    is_of_call = is_code_of_call or issue.path.startswith("/tool_calls/")
    if issue.remedy is not Remedy.CORRECT or is_of_call:
        return ADVICE[issue.remedy]

    return ADVICE_ON_ANSWERS


def without_exception(words: str) -> str:
    """Return advice without its references to the exception, for readers of a file or a log."""
    words = words.replace(" (attempt.raw)", "").replace("Read in error.cause what", "Look for what")
    return re.sub(r"; error\.[^\n]*", ".", words)


def explained(headline: str, attempts: tuple[Attempt, ...], *, is_advised: bool = False) -> str:
    """Return the record of a call as text: every attempt in order, and what to do.

    Raw replies are included. ``is_advised`` leaves out what to do, because the caller adds it.
    """
    tokens = counted(total_usage(attempts).total_tokens, "token")
    total = f"{counted(len(attempts), 'attempt')}, {tokens} in total."
    lines = [line for attempt in attempts for line in _attempt_lines(attempt)]
    issues = next((attempt.issues for attempt in reversed(attempts) if attempt.issues), ())
    if is_advised:
        issues = ()

    return "\n".join([headline, total, *lines, *(line.strip() for line in remedy_lines(issues))])


def _reason_lines(reason: str) -> list[str]:
    # no line for a reason that the faults themselves explain
    return [f"  What to do: {REASON_ADVICE[reason]}"] if reason in REASON_ADVICE else []


def _attempt_lines(attempt: Attempt) -> list[str]:
    asked = printable(attempt.scope or "")
    scope = f", only the {'value at' if '/' in asked else 'arguments of'} {asked}" if asked else ""
    lines = ["", f"Attempt {attempt.number} ({attempt.seconds:.2f} s{scope})"]
    if attempt.correction:
        lines += ["  correction sent:", *_indented(attempt.correction)]
    if attempt.failure:
        lines.append(f"  failed: {attempt.failure}")
    if attempt.raw is not None:
        lines += ["  reply received:", *_indented(_reply_text(attempt))]
    if attempt.stopped_early is not None:
        lines.append("  closed here: the reply could no longer become valid")

    lines += [f"  lenient step: {step}" for step in attempt.lenient]
    lines += [
        f"  the endpoint refused {name}, which strictreply added; now omitted"
        for name in attempt.dropped_params
    ]

    for issue in attempt.issues:
        lines.append(f"  issue: {issue.code} at {issue.place}: {issue.message}")
        if issue.found:
            lines.append(f"         got {printable(issue.found)}")
        if issue.hint:
            lines.append(f"         {issue.hint}")

    if attempt.accepted:
        lines.append("  accepted")
    return lines


def _reply_text(attempt: Attempt) -> str:
    """Return the reply in the response as JSON, or the whole response if it holds no reply."""
    reply = value_at(attempt.raw, pointer_tokens(attempt.reply_at))
    shown = attempt.raw if reply in (NOWHERE, None, []) else reply

    return printable_json(_excerpt(json.dumps(plain(shown))))


def _excerpt(text: str) -> str:
    if len(text) <= MAX_RAW_CHARS:
        return text
    return f"{text[:MAX_RAW_CHARS]} … ({len(text)} characters in total)"


def _indented(text: str) -> list[str]:
    # escaped line by line: the text may come from a user's own steering
    return [f"    {printable(line)}" for line in text.splitlines()]


def _message(text: str) -> str:
    """Cut a message to its bytes in UTF-8; ``?`` replaces what UTF-8 cannot encode."""
    return text.encode(errors="replace")[:MAX_MESSAGE_BYTES].decode(errors="ignore")


def _rebuilt(
    kind: type[StrictReplyError], args: tuple[object, ...], fields: dict[str, object]
) -> StrictReplyError:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    error.args = args
    return error
