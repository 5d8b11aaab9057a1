"""The stores between two requests: sessions, their turns, and manifests that wait for results."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from pydantic_core import PydanticSerializationError

from strictreply import ContractError, StrictReplyError
from strictreply.core.text import printable
from strictreply.loop.invoke_result import InvokeCode, InvokeError, InvokeFailed
from strictreply.loop.values import (
    Session,
    ToolCallManifest,
    Turn,
    Value,
)

_MANIFEST: Final = "/tool_call_manifest"

# Longer than any turn takes, because the next holder runs the remaining calls again.
CLAIM_SECONDS: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionClaim(Value):
    """The right of one request, the ``holder``, to answer a waiting manifest once.

    ``manifest`` has the results so far.
    """

    manifest_id: str
    """The id of the waiting manifest."""
    holder: str
    """The request that may answer it."""
    manifest: ToolCallManifest
    """The calls, with the results so far."""


class SessionConflict(InvokeFailed):
    """A turn was not saved: since it began, its session was continued, or its claim was lost.

    Nothing was written. ``session_id`` and ``turn_id`` name the turn that was not saved; its one
    error has the code SESSION_CONFLICT. ``run`` is the outcome of that turn, a
    :class:`strictreply.Run`; None outside a run and after unpickling.
    """

    __module__ = "strictreply.loop"

    def __init__(self, session_id: str, turn_id: str) -> None:
        super().__init__((InvokeCode.SESSION_CONFLICT.error("sessions.unmoved", path=_MANIFEST),))
        self.session_id = session_id
        """The session of the turn."""
        self.turn_id = turn_id
        """The turn that was not saved."""
        self.run: Any = None
        """The outcome of the turn; None outside of a run, and after unpickling."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.session_id, self.turn_id)


class SessionStoreFailed(StrictReplyError):
    """A session store could not read or write a session; the failed call has written nothing.

    ``place`` is the file, or the type of a store without a file. ``reason`` is a stable word, a key
    of :data:`REASONS`. ``cause`` is the underlying exception; None after unpickling. Its text may
    contain session data, so messages and tracebacks leave it out. ``run`` is the run so far, a
    :class:`strictreply.Run` with its answer if there was one; None outside a run and after
    unpickling.
    """

    __module__ = "strictreply.loop"

    def __init__(self, place: str, reason: str, *, cause: Exception | None = None) -> None:
        happened, remedy = REASONS[reason]
        if reason == "failed" and cause is not None:
            happened = f"raised {type(cause).__name__}"
        super().__init__(printable(f"the session store {place!r} {happened}; {remedy}"))

        self.place = place
        """The file, or the type of a store that has no file."""
        self.reason = reason
        """A stable word, one of :data:`REASONS`."""
        self.cause = cause
        """The underlying exception; None after unpickling."""
        self.run: Any = None
        """The run so far; None outside of a run, and after unpickling."""

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON-safe values."""
        return super().to_dict() | {"place": self.place, "reason": self.reason}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.place, self.reason)


# Why a store fails: what happened, and what to do.
REASONS: Final[Mapping[str, tuple[str, str]]] = {
    "busy": ("is locked by another program", "try again when that program has ended"),
    "full": ("has no space left on its disk", "free some space, and try again"),
    "read_only": (
        "cannot be written by this process",
        "give the process write access to the file and its folder, and try again",
    ),
    "corrupt": (
        "is damaged, or is not a session store",
        "restore the file from a backup, or use a new file",
    ),
    "unreachable": (
        "cannot be opened or read",
        "check that the file and its folder exist and are readable",
    ),
    "unreadable": (
        "has a record that cannot be read",
        "restore the file from a backup, or delete the session",
    ),
    "too_big": ("cannot store a record of this size", "store less in one session"),
    "failed": ("failed", "see the error's cause"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingManifest(Value):
    """A manifest in a store.

    ``holder`` is its last claimant, and ``claimed_at`` the time of that claim by the store's clock.
    """

    manifest: ToolCallManifest
    holder: str = ""
    claimed_at: float = 0.0
    consumed: bool = False


Record: TypeAlias = tuple[type[Value], str]


class Records(Protocol):
    """The texts of a store in one transaction, by kind and key; a dict fits."""

    def get(self, record: Record, /) -> str | None: ...

    def __setitem__(self, record: Record, text: str, /) -> None: ...

    def pop(self, record: Record, default: None, /) -> object: ...


Stored = TypeVar("Stored", bound=Value)


class SessionStore(ABC):
    """Stores sessions in any place that can store texts in transactions.

    A subclass implements only ``transaction``. A claim lapses after ``claim_seconds`` of ``clock``,
    which must be the same for all users of the place. A store is safe for threads, and for
    processes if its place is. All methods are sync. They raise SessionStoreFailed when the place
    fails.
    """

    def __init__(
        self, *, claim_seconds: float = CLAIM_SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        if claim_seconds <= 0:
            raise ContractError(f"claim_seconds must be above 0, not {claim_seconds!r}")

        self._claim_seconds = claim_seconds
        self._clock = clock

    @abstractmethod
    def transaction(self, *, writing: bool) -> AbstractContextManager[Records]:
        """Open the records; with ``writing`` exclusively, and an exception undoes all changes."""

    def failure(self, error: Exception) -> SessionStoreFailed:
        """Return our error for an exception of the place; ValueError means an unreadable record."""
        reason = "unreadable" if isinstance(error, ValueError) else "failed"
        return SessionStoreFailed(type(self).__name__, reason, cause=error)

    @contextmanager
    def _opened(self, *, writing: bool) -> Generator[Records, None, None]:
        try:
            with self.transaction(writing=writing) as records:
                yield records
        except StrictReplyError:
            raise
        except (PydanticSerializationError, UnicodeEncodeError):
            message = (
                "a value or an id cannot be stored; use text that UTF-8 can encode, and JSON values"
            )
            raise ContractError(message) from None
        except Exception as error:  # noqa: BLE001 - anybody's database
            raise self.failure(error) from None

    def session(self, session_id: str) -> Session | None:
        """Return a session as it was last saved; None if there is none."""
        with self._opened(writing=False) as records:
            return _read(records, Session, session_id)

    def turn(self, session_id: str, turn_id: str) -> Turn | None:
        """Return the last turn of a session, with the waiting calls and their results so far.

        Return None for any other turn.
        """
        key = manifest_id(session_id, turn_id)
        with self._opened(writing=False) as records:
            turn = _read(records, Turn, key)
            entry = _read(records, WaitingManifest, key)

        if turn is None or entry is None or entry.consumed:
            return turn
        return replace(turn, waiting=entry.manifest)

    def save(
        self,
        session: Session,
        turn: Turn,
        *,
        waiting: ToolCallManifest | None = None,
        consumed: SessionClaim | None = None,
    ) -> None:
        """Save the end of a turn, all of it or nothing; a save may be repeated.

        ``session.last_turn_id`` is the last turn when this turn began, empty for a new session; in
        the store ``turn.id`` replaces it. ``waiting`` has the calls that wait for the client; they
        are stored under ``manifest_id(session.id, turn.id)``. ``consumed`` is the claim that this
        turn answered; it cannot be used again. The previous turn and its manifest are deleted.

        Raises SessionConflict when the session was continued meanwhile, another request is
        answering the previous turn's manifest, or the claim was lost. Raises ContractError when the
        claim belongs to another turn.
        """
        key = manifest_id(session.id, turn.id)
        if consumed is not None and consumed.manifest_id != key:
            raise ContractError(
                "consumed= is the claim of another turn; pass the claim that this turn answers"
            )

        moved = replace(session, last_turn_id=turn.id)
        turn = replace(turn, waiting=None)

        with self._opened(writing=True) as records:
            before = _read(records, Session, session.id)
            stored = _read(records, Turn, key)
            entry = _read(records, WaitingManifest, key)
            left = _left_of(entry, waiting, consumed)

            if (before, stored, entry) == (moved, turn, left):
                return  # a repeated save, by a caller that did not learn of its first success

            began_with = "" if before is None else before.last_turn_id
            fresh = stored is None if consumed is None else _is_held(entry, consumed)
            if began_with != session.last_turn_id or not fresh:
                raise SessionConflict(session.id, turn.id)

            spent = manifest_id(session.id, began_with) if began_with not in {"", turn.id} else ""
            # A claim on the previous turn means that its answer is in progress, so its manifest
            # must not be deleted.
            if spent and self._is_claimed(_read(records, WaitingManifest, spent)):
                raise SessionConflict(session.id, turn.id)

            _write(records, (session.id, moved), (key, turn), (key, left))
            if spent:
                records.pop((Turn, spent), None)
                records.pop((WaitingManifest, spent), None)

    def claim(self, manifest_id: str, holder: str) -> SessionClaim | InvokeError:
        """Claim a waiting manifest before its results are processed.

        ``holder`` is a name that no other request has. The same holder may repeat a claim. The code
        of a returned error is NOT_FOUND, ALREADY_CONSUMED, or IN_USE while another holder's claim
        has not lapsed.
        """
        if not holder:
            raise ContractError("holder must not be empty; pass a name that no other request has")

        with self._opened(writing=True) as records:
            entry = _read(records, WaitingManifest, manifest_id)
            if entry is None:
                return InvokeCode.NOT_FOUND.error("sessions.waiting", path=_MANIFEST)
            if entry.consumed:
                return InvokeCode.ALREADY_CONSUMED.error("sessions.single_use", path=_MANIFEST)
            if entry.holder != holder and self._is_claimed(entry):
                return InvokeCode.IN_USE.error("sessions.one_holder", path=_MANIFEST)

            # The same holder may claim again, which renews its time, because after an interrupt it
            # cannot know whether its first claim was written.
            _write(records, (manifest_id, replace(entry, holder=holder, claimed_at=self._clock())))
            return SessionClaim(manifest_id=manifest_id, holder=holder, manifest=entry.manifest)

    def keep(self, claim: SessionClaim) -> None:
        """Store the results of a claim's calls so far, unless the claim was lost."""
        with self._opened(writing=True) as records:
            entry = _read(records, WaitingManifest, claim.manifest_id)
            if entry is not None and _is_held(entry, claim):
                _write(records, (claim.manifest_id, replace(entry, manifest=claim.manifest)))

    def release(self, claim: SessionClaim) -> None:
        """Release a claim, and store ``claim.manifest``.

        Calls that have results are then not run again.
        """
        with self._opened(writing=True) as records:
            if _is_held(_read(records, WaitingManifest, claim.manifest_id), claim):
                _write(records, (claim.manifest_id, WaitingManifest(manifest=claim.manifest)))

    def delete(self, session_id: str) -> None:
        """Delete a session, its last turn and that turn's manifest."""
        with self._opened(writing=True) as records:
            session = _read(records, Session, session_id)
            if session is not None:
                key = manifest_id(session_id, session.last_turn_id)
                for record in ((Session, session_id), (Turn, key), (WaitingManifest, key)):
                    records.pop(record, None)

    def _is_claimed(self, entry: WaitingManifest | None) -> bool:
        if entry is None or entry.consumed or not entry.holder:
            return False
        return entry.claimed_at > self._clock() - self._claim_seconds


class MemorySessionStore(SessionStore):
    """Stores sessions in memory, as long as the process lives.

    It is safe for threads. Its methods return copies.
    """

    def __init__(
        self, *, claim_seconds: float = CLAIM_SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(claim_seconds=claim_seconds, clock=clock)
        self._lock = threading.Lock()
        self._records: dict[Record, str] = {}

    @contextmanager
    # One lock serves readers and writers.
    def transaction(self, *, writing: bool) -> Generator[Records, None, None]:  # noqa: ARG002
        """Admit one thread at a time.

        Values are serialized before the first write, so an exception leaves nothing to undo.
        """
        with self._lock:
            yield self._records


def manifest_id(session_id: str, turn_id: str) -> str:
    """Return the id of a turn's manifest, ``session.turn``.

    Dots and percent signs inside an id are escaped.
    """
    session = session_id.replace("%", "%25").replace(".", "%2E")
    turn = turn_id.replace("%", "%25").replace(".", "%2E")
    return f"{session}.{turn}"


def _read(records: Records, kind: type[Stored], key: str) -> Stored | None:
    text = records.get((kind, key))
    return None if text is None else kind.from_json(text)


def _write(records: Records, *values: tuple[str, Value | None]) -> None:
    texts = [((type(value), key), value.to_json()) for key, value in values if value is not None]
    for record, text in texts:
        records[record] = text


def _left_of(
    entry: WaitingManifest | None, waiting: ToolCallManifest | None, consumed: SessionClaim | None
) -> WaitingManifest | None:
    """Return the manifest that a turn leaves: the waiting one, or the answered one.

    The answered one cannot be claimed again.
    """
    if waiting is not None:
        return WaitingManifest(manifest=waiting)
    return None if entry is None or consumed is None else replace(entry, consumed=True)


def _is_held(entry: WaitingManifest | None, claim: SessionClaim) -> bool:
    """Return whether a claim is valid; a lapsed claim is, until another request takes it."""
    return entry is not None and not entry.consumed and entry.holder == claim.holder
