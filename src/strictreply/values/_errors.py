"""Everything strictreply raises.

::

    StrictReplyError
    ├── ContractError            a declaration, or a request against it, is wrong; raised before anything is sent
    ├── CallFailed               a call that was made and gave nothing fit to use; carries every attempt
    │   ├── ReplyRejected        the retries are spent
    │   │   └── ToolArgumentsError   …on the arguments of one tool
    │   ├── ReplyHalted          not worth another ask: refusal, content filter, deadline, budget
    │   └── TransportFailed      the API could not be reached or answered with an error
    ├── ToolExecutionError       a tool's own code raised
    ├── ToolError                raised by a tool, in words for the model
    ├── InvokeFailed             a turn of the tool loop broke a rule (in ``pipeline.results``)
    │   ├── IterationsExceeded      …it came to no answer
    │   └── SessionConflict         …its session moved on meanwhile (in ``pipeline.sessions``)
    ├── SessionStoreFailed       a session could not be read or kept (in ``pipeline.sessions``)
    └── Unanswered               the answer was read of a run that has none (in ``running.runs``)

Programs read fields and codes. ``str()`` is made of our words and the schema's: under 4 KB, safe to log.
``explain()`` tells the whole story, raw replies included, when somebody asks for it. All are picklable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from strictreply.values._attempts import Attempt, Usage, plain, plain_request, total_usage
from strictreply.values._issues import Issue, printable
from strictreply.values._story import cause_line, reason_lines, remedy_lines, tell

MAX_MESSAGE_BYTES = 3_500
MAX_LISTED_ISSUES = 8


class StrictReplyError(Exception):
    """The root of all errors of this library."""

    def explain(self) -> str:
        """Tell what happened and what to do, as text for a person."""
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """Give the error as JSON-safe values, without prompts and raw replies."""
        return {"error": type(self).__name__, "message": str(self)}


class ContractError(StrictReplyError, ValueError):
    """A tool, a schema, a contract or a request against it is declared wrongly.

    ``path`` is a JSON Pointer to the place inside the declaration, empty for the whole.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        """Say what is wrong and, for a schema, where."""
        super().__init__(_capped(printable(f"{message} (at {path})" if path else message)))
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by fields."""
        return _rebuilt, (type(self), self.args, self.__dict__)


class ContractWarning(UserWarning):
    """A declaration holds a part that no reply can ever fit, though others can; warned of once, when it is declared."""


class CallFailed(StrictReplyError):
    """A call was made and nothing fit to use came of it.

    ``attempts`` holds every ask in order, ``reason`` a stable word for why it ended, ``issues`` the faults of the
    last judged reply, ``usage`` the tokens of all attempts.
    """

    def __init__(self, message: str, *, reason: str, attempts: tuple[Attempt, ...]) -> None:
        """Carry the whole story; ``message`` is one line of our own words."""
        self.reason = reason
        self.attempts = attempts
        super().__init__(_capped("\n".join([message, *self._fault_lines()])))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by fields; of requests and replies what JSON can hold: a caller, or its client, may give anything."""
        attempts = tuple(
            replace(attempt, request=plain_request(attempt.request), raw=plain(attempt.raw))
            for attempt in self.attempts
        )
        return _rebuilt, (type(self), self.args, self.__dict__ | {"attempts": attempts})

    @property
    def issues(self) -> tuple[Issue, ...]:
        """The faults of the last reply that was judged; empty when none was."""
        judged = [attempt.issues for attempt in self.attempts if attempt.issues]
        return judged[-1] if judged else ()

    @property
    def usage(self) -> Usage:
        """The tokens of all attempts together."""
        return total_usage(self.attempts)

    def explain(self) -> str:
        """Tell the whole story, with the raw replies: for a person, not for a log."""
        story = tell(str(self).splitlines()[0], self.attempts)
        return "\n".join([story, *(line.strip() for line in reason_lines(self.reason))])

    def to_dict(self) -> dict[str, Any]:
        """Give the error as JSON-safe values, without prompts and raw replies."""
        attempts = [attempt.to_dict() for attempt in self.attempts]
        return super().to_dict() | {"reason": self.reason, "attempts": attempts}

    def _fault_lines(self) -> list[str]:
        """List the last faults and what to do about them."""
        shown = self.issues[:MAX_LISTED_ISSUES]
        lines = [f"  {issue.code} at {issue.place}: {issue.message}" for issue in shown]
        if len(self.issues) > len(shown):
            lines.append(f"  and {len(self.issues) - len(shown)} more")
        return [*lines, *(reason_lines(self.reason) or remedy_lines(self.issues))]


class ReplyRejected(CallFailed):
    """Every allowed ask was made and no reply fit the contract.

    ``reason`` is ``retries``, ``arg_retries``, ``bad_calls``, ``category`` (the policy's ``stop_on``) or ``stop`` (its
    own tenacity stop).
    """


class ToolArgumentsError(ReplyRejected):
    """The retries were spent on the arguments of one tool, whose name is ``tool`` (requirement T30)."""

    def __init__(self, message: str, *, reason: str, attempts: tuple[Attempt, ...], tool: str) -> None:
        """Carry the story and the tool's name, which is one that was declared."""
        self.tool = tool
        super().__init__(message, reason=reason, attempts=attempts)


class ReplyHalted(CallFailed):
    """Another ask would not help, or may not be made.

    ``reason`` is ``refusal``, ``content_filter``, ``deadline``, ``tokens`` or ``cost``.
    """


class TransportFailed(CallFailed):
    """The API could not be reached, or answered with an error or with something that is no completion.

    ``cause`` is the SDK's exception, None when the response itself was malformed and after unpickling;
    ``retry_after`` the seconds the server asked to wait, or None; ``status_code`` its HTTP status, or None.
    ``str()`` does not say what the cause said, and no traceback shows it: a server's words may hold the model's.
    ``explain()`` ends with it.
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
        """Carry the story and what the transport said."""
        self.cause = cause
        self.retry_after = retry_after
        self.status_code = status_code
        super().__init__(message, reason=reason, attempts=attempts)

    def explain(self) -> str:
        """Tell the whole story, with the raw replies and what the SDK's exception said: for a person, not for a log."""
        told = super().explain()
        return told if self.cause is None else f"{told}\n{cause_line(self.cause)}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the cause: SDK exceptions hold live connections."""
        rebuilt, (kind, args, fields) = super().__reduce__()
        return rebuilt, (kind, args, fields | {"cause": None})


class ToolExecutionError(StrictReplyError):
    """A tool's own code raised; the call itself was valid, so nothing is re-asked (requirement T36).

    ``tool`` names it, ``call_id`` is the provider's id or None; ``__cause__`` is what the tool raised.
    """

    code = "TOOL_ERROR"

    def __init__(self, tool: str, *, call_id: str | None = None, kind: str = "") -> None:
        """Name the tool and the type of what it raised; its text may hold anything and stays in ``__cause__``."""
        told = f"tool {tool!r} raised {kind or 'an exception'}; see __cause__ for what it said"
        super().__init__(printable(told))
        self.tool = tool
        self.call_id = call_id

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by fields."""
        return _rebuilt, (type(self), self.args, self.__dict__)


class ToolError(StrictReplyError):
    """Raise it in a tool to tell the model what went wrong: its text is handed to the model, as a result.

    Of any other exception the model is told the type only: its text may hold anything.
    """

    code = "TOOL_ERROR"


def _capped(text: str) -> str:
    """Cut a message to its bytes in UTF-8; what UTF-8 cannot spell becomes ``?``."""
    return text.encode(errors="replace")[:MAX_MESSAGE_BYTES].decode(errors="ignore")


def _rebuilt(kind: type[StrictReplyError], args: tuple[Any, ...], fields: dict[str, Any]) -> StrictReplyError:
    """Make an error again from its pickled fields, without running its constructor."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error
