"""The records of durable runs in their database, and the errors of that database.

A turn stores its request, a record of each step, and its end, all as ASCII JSON, exceptions
included. A flow gets only values that were read from a record, so that a replay is identical.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from strictreply import (
    AbortRun,
    ContractError,
    Invalid,
    InvokeFailed,
    StrictReplyError,
    Usage,
)
from strictreply.core import JSONObject, Opened, judge_opened
from strictreply.core.text import printable, printable_lines
from strictreply.integrations import load
from strictreply.loop import (
    AcceptedReply,
    EffectRaised,
    MemorySessionStore,
    RunSettings,
    SessionStore,
    SessionStoreFailed,
    SQLiteSessionStore,
    ToolOutcome,
)
from strictreply.loop.invoke_result import InvokeCode
from strictreply.loop.values import (
    AgentResponse,
    AgentToolCallResult,
    Envelope,
    Session,
    ToolCallManifest,
    Turn,
    Value,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableFailure(Value):
    """An exception as JSON: its type's name, its code or reason, its text, and ``to_dict()``."""

    kind: str
    code: str = ""
    message: str
    details: JSONObject = field(default_factory=dict)

    @classmethod
    def of(cls, error: BaseException) -> DurableFailure:
        """Describe an exception.

        The text of a foreign exception may contain anything, so only its type is kept.
        """
        kind = type(error).__name__
        if isinstance(error, DurableRunFailed):
            return error.failure

        if not isinstance(error, StrictReplyError):
            message = f"{kind} was raised; its message is only in the worker's log"
            return cls(kind=kind, message=message)

        details = error.to_dict()
        if isinstance(error, InvokeFailed):
            details |= {"errors": [one.to_dict() for one in error.errors], "step": error.step}

        code = getattr(error, "code", None) or getattr(error, "reason", "")
        return cls(kind=kind, code=str(code), message=str(error), details=details)


class DurableRunFailed(StrictReplyError):
    """A durable run failed; the fields describe the error that a plain run would have raised.

    ``kind`` is the name of the error's type, such as ``ReplyRejected``, ``code`` its stable word,
    and ``details`` its ``to_dict()``. If ``is_resumable`` is true, :meth:`DurableRun.retry` resumes
    the run at the failed step.
    """

    def __init__(self, failure: DurableFailure, *, is_resumable: bool = False) -> None:
        super().__init__(
            printable_lines(f"the run failed with {printable(failure.kind)}: {failure.message}")
        )
        self.failure = failure
        """The record of the failure."""
        self.kind: str = failure.kind
        """The name of the error's type, such as ``ReplyRejected``."""
        self.code: str = failure.code
        """The stable word of the error."""
        self.details: dict[str, Any] = failure.to_dict()
        """The error's ``to_dict()``."""
        self.is_resumable = is_resumable
        """Whether ``retry`` of the run goes on from the step that failed."""

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON-safe values."""
        record = {"failure": self.failure.to_dict(), "is_resumable": self.is_resumable}
        return super().to_dict() | record

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), is_resumable=self.is_resumable), (self.failure,)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd(Value):
    """The end of a turn."""

    response: AgentResponse
    """The response for the client."""
    session: Session
    """The session after the turn."""
    turn: Turn
    """The turn."""
    waiting: ToolCallManifest | None = None
    """The calls that wait for the client; None when none do."""
    asked: tuple[JSONObject, ...] = ()
    """The records of the accepted replies, in order."""

    def store(self) -> SessionStore:
        """Return a store in memory with only this session."""
        store = MemorySessionStore()
        store.save(replace(self.session, last_turn_id=""), self.turn, waiting=self.waiting)
        return store


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest(Value):
    """The input of a turn: the request, its time (ISO 8601), and the end of the turn before.

    ``before`` is None for a first turn.
    """

    envelope: Envelope
    time_stamp: str
    before: TurnEnd | None = None


def asked_record(asked: AcceptedReply | EffectRaised) -> JSONObject:
    """Return the record of a model call: the accepted message and its usage, or the error."""
    if isinstance(asked, EffectRaised):
        return {"failure": DurableFailure.of(asked.error).to_dict()}
    return {"message": dict(asked.message), "usage": asdict(asked.usage)}


def failure_of(record: object) -> DurableFailure | None:
    """Return the failure in a record; None for any other record."""
    if isinstance(record, dict) and "failure" in record:
        return DurableFailure(**record["failure"])
    return None


def asked_from(record: JSONObject, settings: RunSettings) -> AcceptedReply | EffectRaised:
    """Read the record of a model call; its message is judged again by the tools of this process."""
    if (failure := failure_of(record)) is not None:
        return EffectRaised(DurableRunFailed(failure))

    draft = settings.wire.replay.read(record["message"])
    verdict = judge_opened(settings.contract, Opened(draft))
    if isinstance(verdict, Invalid):
        message = (
            "a recorded reply does not fit these tools; pass those that the run was started with"
        )
        error = InvokeCode.TOOLS_CHANGED.error("loop.same_tools", message, issues=verdict.issues)
        return EffectRaised(InvokeFailed((error,)))

    return AcceptedReply(record["message"], verdict.reply, Usage(**record["usage"]))


def called_record(outcome: ToolOutcome | AbortRun) -> JSONObject:
    """Return the record of a tool call: its result, or the AbortRun that ended the run.

    A call that aborted its run has completed: a retry of the run aborts again, and repeats no call.
    """
    if isinstance(outcome, AbortRun):
        return {"ended": DurableFailure.of(outcome).to_dict()}
    return outcome.result.to_dict()


def called_from(record: JSONObject) -> ToolOutcome | DurableRunFailed:
    """Read the record of a tool call."""
    if "ended" in record:
        return DurableRunFailed(DurableFailure(**record["ended"]))
    return ToolOutcome(AgentToolCallResult(**record))


# by the name of an exception, of a record and of a server
_REASONS: Final = {"ValidationError": "unreadable", "OperationalError": "unreachable"}


@contextmanager
def store_errors(url: str) -> Generator[None]:
    """Raise errors of the database of durable runs as SessionStoreFailed.

    The database's own messages are not repeated, because they quote conversations.
    """
    kinds: list[type[Exception]] = [
        load("sqlalchemy").exc.SQLAlchemyError,
        sqlite3.Error,
        ValidationError,
    ]
    with suppress(ImportError):
        kinds.append(load("psycopg").Error)  # raised by our locks

    try:
        yield
    except tuple(kinds) as error:
        reason = SQLiteSessionStore.reason_of(getattr(error, "orig", error))
        if not reason:
            reason = _REASONS.get(type(error).__name__, "failed")
        raise SessionStoreFailed(_place_of(url), reason, cause=error) from None


def read_url(url: str) -> Any:
    """Parse the address of a database.

    Raises ContractError for one that cannot hold runs.
    """
    read: Any = None
    # SQLAlchemy's message may repeat a password
    with suppress(load("sqlalchemy").exc.ArgumentError, ValueError):
        read = load("sqlalchemy").make_url(url)

    backend = ""
    if read is not None:
        backend = read.get_backend_name()
        if backend == "sqlite" and read.database in {None, "", ":memory:"}:
            backend = "memory"

    if backend not in {"sqlite", "postgresql"}:
        raise ContractError("url= must be sqlite:///FILE or postgresql://…")

    return read


def make_tables(url: str) -> None:
    """Make DBOS's tables if they are missing; a new file is only for its owner."""
    read = read_url(url)
    if read.get_backend_name() == "sqlite":
        try:
            with suppress(FileExistsError):
                Path(read.database).touch(mode=0o600, exist_ok=False)
        except OSError as error:
            raise SessionStoreFailed(_place_of(url), "unreachable", cause=error) from None

    with store_errors(url):
        load("dbos").DBOS.migrate(url)


def _place_of(url: str) -> str:
    read = read_url(url)
    place = load("sqlalchemy").URL.create(
        read.drivername, host=read.host, port=read.port, database=read.database
    )
    return str(place)
