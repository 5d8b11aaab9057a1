"""Both stores keep one table of laws.

A turn's end is whole; a manifest has one holder and is answered once.
"""

from __future__ import annotations

import pickle
import tempfile
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strictreply import ContractError
from strictreply.loop import (
    MemorySessionStore,
    SessionClaim,
    SessionConflict,
    SessionStore,
    SQLiteSessionStore,
    manifest_id,
)
from strictreply.loop.invoke_result import InvokeCode, InvokeError, InvokeResult
from strictreply.loop.values import (
    AgentPipelineContextType,
    AgentToolCallResult,
    Envelope,
    Session,
    ToolCallManifest,
    Turn,
)
from strictreply.pipeline import AgentPipelineContext, manifest_id_of
from support.loops import some
from support.pipeline.waiting import CALLS, FIRST, NEW, PAUSED, WAITING, Clock, held, kept, refused


@pytest.fixture
def clock() -> Clock:
    """Time that stands still."""
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> SessionStore:
    """Make an empty store of each kind; its claims lapse after 60 seconds."""
    if request.param == "memory":
        return MemorySessionStore(claim_seconds=60, clock=clock)
    return SQLiteSessionStore(tmp_path / "sessions.db", claim_seconds=60, clock=clock)


def test_an_empty_store_has_nothing(store: SessionStore) -> None:
    """An unknown session is None, and no calls wait."""
    assert (store.session("s"), store.turn("s", "t")) == (None, None)
    assert refused(store, "a") is InvokeCode.NOT_FOUND


def test_what_is_saved_is_read_back(store: SessionStore) -> None:
    """A session and a turn come back equal, the turn as the session's last."""
    session = replace(
        NEW, mode="support", messages=({"role": "user", "content": "Grüße \N{SNOWMAN}"},)
    )
    turn = Turn(
        id="t1", iterations=2, messages=({"role": "assistant", "content": None},), tool_calls=CALLS
    )
    store.save(session, turn)
    assert (store.session("s"), store.turn("s", "t1")) == (
        replace(session, last_turn_id="t1"),
        turn,
    )

    assert refused(store, "a") is InvokeCode.NOT_FOUND


def test_what_is_given_out_is_a_copy(store: SessionStore) -> None:
    """Changing what was saved, or what was read, changes nothing that is kept."""
    message = {"role": "user", "content": "before"}
    store.save(replace(NEW, messages=(message,)), FIRST)
    message["content"] = "after"
    kept(store).messages[0]["content"] = "after"
    assert kept(store).messages[0]["content"] == "before"


def test_a_turn_on_a_session_that_moved_on_is_refused_whole(store: SessionStore) -> None:
    """Of two turns begun at the same place the second is a SessionConflict and is not stored."""
    store.save(NEW, FIRST)
    began = kept(store)
    store.save(began, Turn(id="t2"))

    with pytest.raises(SessionConflict) as conflict:
        store.save(replace(began, mode="other"), Turn(id="t3"), waiting=WAITING)

    assert [error.code for error in conflict.value.errors] == [InvokeCode.SESSION_CONFLICT]
    assert (conflict.value.session_id, conflict.value.turn_id) == ("s", "t3")
    assert (kept(store), store.turn("s", "t3")) == (replace(began, last_turn_id="t2"), None)
    assert refused(store, "a", "s.t3") is InvokeCode.NOT_FOUND


def test_a_new_session_takes_no_name_that_is_taken(store: SessionStore) -> None:
    """A session that begins under an id that is kept already is a conflict, and so is one to go on
    with that is not.
    """
    store.save(NEW, FIRST)
    with pytest.raises(SessionConflict):
        store.save(NEW, Turn(id="t2"))
    with pytest.raises(SessionConflict):
        store.save(Session(id="gone", last_turn_id="t1"), Turn(id="t2"))


def test_a_conflict_is_found_before_the_manifest_that_waits_is_read(store: SessionStore) -> None:
    """A save of a session that moved on is a SessionConflict, also when what waits there cannot be
    read any more.
    """
    unreadable: Any = 5
    store.save(
        NEW, FIRST, waiting=ToolCallManifest(tool_calls=(replace(CALLS[0], name=unreadable),))
    )
    with pytest.raises(SessionConflict):
        store.save(NEW, Turn(id="t2"))


def test_a_conflict_is_picklable() -> None:
    """A conflict reaches another process with its fields."""
    again = pickle.loads(pickle.dumps(SessionConflict("s", "t")))  # noqa: S301 - our own bytes
    assert (again.session_id, again.turn_id, again.errors[0].code) == (
        "s",
        "t",
        InvokeCode.SESSION_CONFLICT,
    )


@pytest.mark.req("P66")
def test_a_manifest_is_answered_once(store: SessionStore) -> None:
    """Submitting the same results again gives ALREADY_CONSUMED, whoever sends them."""
    store.save(NEW, FIRST, waiting=WAITING)
    claim = held(store, "a")
    assert (claim.manifest_id, claim.holder, claim.manifest) == ("s.t1", "a", WAITING)
    store.save(kept(store), replace(FIRST, iterations=1), consumed=claim)
    assert (refused(store, "a"), refused(store, "b")) == (
        InvokeCode.ALREADY_CONSUMED,
        InvokeCode.ALREADY_CONSUMED,
    )


@pytest.mark.req("P66")
def test_a_spent_claim_does_nothing_more(store: SessionStore) -> None:
    """A spent claim can neither be saved with again nor released."""
    store.save(NEW, FIRST, waiting=WAITING)
    claim = held(store, "a")
    done = replace(FIRST, iterations=1)
    store.save(kept(store), done, consumed=claim)
    with pytest.raises(SessionConflict):
        store.save(kept(store), replace(FIRST, iterations=2), waiting=WAITING, consumed=claim)
    store.release(claim)
    assert (store.turn("s", "t1"), refused(store, "a")) == (done, InvokeCode.ALREADY_CONSUMED)


@pytest.mark.req("P66")
def test_a_turn_that_ends_as_it_waited_is_spent_too(store: SessionStore) -> None:
    """A save that changes neither session nor turn still spends the claim."""
    store.save(NEW, FIRST, waiting=WAITING)
    store.save(kept(store), FIRST, consumed=held(store, "a"))
    assert refused(store, "b") is InvokeCode.ALREADY_CONSUMED


@pytest.mark.req("P66")
def test_a_released_manifest_can_be_answered_again(store: SessionStore) -> None:
    """A submit that failed leaves the manifest for a corrected one, with what its calls came to."""
    store.save(NEW, FIRST, waiting=WAITING)
    result = AgentToolCallResult(tool_call_id="tc1", name="toolA", result_json="1")
    ran = replace(WAITING, tool_call_results=(result,))
    store.release(replace(held(store, "a"), manifest=ran))
    assert held(store, "b").manifest == ran


def test_a_claim_keeps_others_out(store: SessionStore) -> None:
    """While one holds a claim all others get IN_USE; the holder that asks again gets the same
    claim.
    """
    store.save(NEW, FIRST, waiting=WAITING)
    claim = held(store, "a")
    assert refused(store, "b") is InvokeCode.IN_USE
    assert held(store, "a") == claim


def test_a_claim_lapses(store: SessionStore, clock: Clock) -> None:
    """After ``claim_seconds`` somebody else may claim, not before; who lapsed has nothing to
    release or save.
    """
    store.save(NEW, FIRST, waiting=WAITING)
    late = held(store, "a")
    clock.now += 59.9
    assert refused(store, "b") is InvokeCode.IN_USE

    clock.now += 0.1
    claim = held(store, "b")
    store.release(late)
    assert refused(store, "c") is InvokeCode.IN_USE

    with pytest.raises(SessionConflict):
        store.save(kept(store), replace(FIRST, iterations=1), consumed=late)

    assert store.turn("s", "t1") == PAUSED
    store.save(kept(store), replace(FIRST, iterations=1), consumed=claim)


def test_a_lapsed_claim_that_nobody_took_still_stands(store: SessionStore, clock: Clock) -> None:
    """Work that took too long is kept, when nobody else began it."""
    store.save(NEW, FIRST, waiting=WAITING)
    claim = held(store, "a")
    clock.now += 3_600
    store.save(kept(store), replace(FIRST, iterations=1), consumed=claim)
    assert refused(store, "b") is InvokeCode.ALREADY_CONSUMED


@pytest.mark.parametrize("waiting", [None, replace(WAITING, tool_calls=(*CALLS, *CALLS))])
def test_a_save_may_be_repeated(store: SessionStore, waiting: ToolCallManifest | None) -> None:
    """Saving exactly what is kept is no conflict and changes nothing: a killed process may repeat
    its last act.
    """
    for _ in range(2):
        store.save(NEW, FIRST, waiting=WAITING)
    claim = held(store, "a")
    session = kept(store)
    turn = replace(FIRST, iterations=1)
    for _ in range(2):
        store.save(session, turn, waiting=waiting, consumed=claim)
    assert (kept(store), store.turn("s", "t1")) == (session, replace(turn, waiting=waiting))


def test_a_turn_may_wait_again(store: SessionStore) -> None:
    """A turn continued with results may wait for others: the new calls wait under the same name."""
    store.save(NEW, FIRST, waiting=WAITING)
    other = ToolCallManifest(tool_calls=(replace(CALLS[0], tool_call_id="tc2"),))
    store.save(kept(store), replace(FIRST, iterations=1), waiting=other, consumed=held(store, "a"))
    assert held(store, "b").manifest == other


def test_a_session_that_goes_on_gives_up_what_waits(store: SessionStore) -> None:
    """New words of the user make it forget what waited, but not while somebody answers that."""
    store.save(NEW, FIRST, waiting=WAITING)
    claim = held(store, "a")
    began = kept(store)

    with pytest.raises(SessionConflict):
        store.save(began, Turn(id="t2"))

    store.release(claim)
    store.save(began, Turn(id="t2"))
    assert (refused(store, "b"), store.turn("s", "t1")) == (InvokeCode.NOT_FOUND, None)

    with pytest.raises(SessionConflict):
        store.save(began, replace(FIRST, iterations=1), consumed=claim)


def test_what_a_claim_came_to_is_kept_at_once(store: SessionStore, clock: Clock) -> None:
    """A result that is kept is there for whoever claims next, however the holder ended; not for who
    lost the claim.
    """
    store.save(NEW, FIRST, waiting=WAITING)
    done = replace(WAITING, tool_call_results=(CALLS[0].answered(1),))
    late = held(store, "a")
    store.keep(replace(late, manifest=done))
    clock.now += 3_600
    assert held(store, "b").manifest == done
    store.keep(late)
    assert store.turn("s", "t1") == replace(FIRST, waiting=done)


def test_a_session_can_be_deleted(store: SessionStore) -> None:
    """A deleted session is gone; deleting an unknown one does nothing."""
    store.save(NEW, FIRST, waiting=WAITING)
    for _ in range(2):
        store.delete("s")
        assert (store.session("s"), store.turn("s", "t1"), refused(store, "a")) == (
            None,
            None,
            InvokeCode.NOT_FOUND,
        )


@pytest.mark.parametrize("waiting", [None, WAITING])
def test_a_saved_turn_is_changed_by_its_holder_alone(
    store: SessionStore, waiting: ToolCallManifest | None
) -> None:
    """Without the claim on its manifest nobody saves a turn anew, be it waiting or finished."""
    store.save(NEW, FIRST, waiting=waiting)
    unheld = SessionClaim(manifest_id="s.t1", holder="a", manifest=WAITING)
    for consumed in (None, unheld):
        with pytest.raises(SessionConflict):
            store.save(kept(store), replace(FIRST, iterations=1), consumed=consumed)
    assert store.turn("s", "t1") == replace(FIRST, waiting=waiting)


def test_a_store_refuses_what_cannot_be_meant(store: SessionStore) -> None:
    """A claim of another turn, and a holder without a name, are ContractErrors."""
    store.save(NEW, FIRST, waiting=WAITING)
    claim = held(store, "a")
    with pytest.raises(ContractError):
        store.save(kept(store), Turn(id="t2"), consumed=claim)
    with pytest.raises(ContractError):
        store.claim("s.t1", "")
    assert kept(store).last_turn_id == "t1"


def test_what_is_no_json_is_refused_whole(store: SessionStore) -> None:
    """A turn that JSON cannot hold is an error, and its session is not kept either."""
    with pytest.raises(ValueError, match="cannot be stored"):
        store.save(NEW, Turn(id="t1", messages=({"content": object()},)), waiting=WAITING)
    assert (store.session("s"), store.turn("s", "t1")) == (None, None)


def test_one_of_many_threads_gets_the_claim(store: SessionStore) -> None:
    """Threads that claim at the same time: exactly one has it."""
    store.save(NEW, FIRST, waiting=WAITING)
    gate, got = threading.Barrier(8), list[SessionClaim | InvokeError]()

    def claim(holder: str) -> None:
        gate.wait(timeout=30)
        got.append(store.claim("s.t1", holder))

    threads = [threading.Thread(target=claim, args=(f"holder-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()

    for thread in threads:
        thread.join(timeout=60)

    assert sum(isinstance(one, SessionClaim) for one in got) == 1
    assert {one.code for one in got if isinstance(one, InvokeError)} == {InvokeCode.IN_USE}
    assert len(got) == 8


@pytest.mark.parametrize(
    "make", [MemorySessionStore, lambda **options: SQLiteSessionStore("unused.db", **options)]
)
def test_claims_must_last(make: Callable[..., SessionStore]) -> None:
    """A claim that lapses at once is refused when it is declared."""
    with pytest.raises(ContractError):
        make(claim_seconds=0)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "release", "finish", "wait again", "follow on", "lapse"]),
        st.sampled_from("abc"),
    ),
    min_size=1,
    max_size=14,
)


class Watch:
    """Acts on one manifest of a store, and knows who may believe to hold it."""

    def __init__(self, store: SessionStore, clock: Clock) -> None:
        """Begin with a turn that waits."""
        self.store = store
        self.clock = clock
        self.claims: dict[str, SessionClaim] = {}
        self.valid: str | None = None
        self.lapsed = False
        self.spent = False
        self.saves = 0
        store.save(NEW, FIRST, waiting=WAITING)

    def act(self, operation: str, holder: str) -> None:
        """Do one thing, and hold what came of it to the laws."""
        if operation == "lapse":
            self.clock.now += 60
            self.lapsed = True
        elif operation == "claim":
            self.claim(holder)
        elif operation == "release":
            if (claim := self.claims.pop(holder, None)) is not None:
                self.store.release(claim)
                self.valid = None if self.valid == holder else self.valid
        elif operation == "follow on":
            self.follow_on()
        else:
            self.save(holder, waiting=WAITING if operation == "wait again" else None)

    def follow_on(self) -> None:
        """Go on with another turn.

        It is refused while somebody answers what waits; otherwise what waits is forgotten.
        """
        answering = self.valid is not None and not self.lapsed and not self.spent
        with pytest.raises(SessionConflict) if answering else nullcontext():
            self.store.save(kept(self.store), Turn(id=f"later-{self.saves}"))
            self.saves = self.saves + 1
            self.valid = None
            self.spent = True

    def claim(self, holder: str) -> None:
        """SessionClaim: granted only when nobody else holds it, and never when it is spent."""
        claim = self.store.claim("s.t1", holder)
        free = self.valid in {None, holder} or self.lapsed
        assert isinstance(claim, SessionClaim) == (free and not self.spent)
        if isinstance(claim, SessionClaim):
            self.claims[holder] = claim
            self.valid = holder
            self.lapsed = False

    def save(self, holder: str, waiting: ToolCallManifest | None) -> None:
        """Save with whatever claim the holder has: accepted only when it is the valid one."""
        if (claim := self.claims.pop(holder, None)) is None:
            return

        self.saves += 1
        turn = replace(FIRST, iterations=self.saves)

        if self.valid != holder:
            with pytest.raises(SessionConflict):
                self.store.save(kept(self.store), turn, waiting=waiting, consumed=claim)
            return

        self.store.save(kept(self.store), turn, waiting=waiting, consumed=claim)
        self.valid = None
        self.spent = waiting is None


@pytest.mark.req("P66")
@settings(deadline=None, max_examples=60)
@given(OPERATIONS)
def test_a_manifest_has_one_holder_and_is_spent_once(operations: list[tuple[str, str]]) -> None:
    """In any order of claims, releases, saves and lapses there is one holder, and a spent claim
    stays spent.
    """
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        sqlite = SQLiteSessionStore(Path(folder) / "s.db", claim_seconds=60, clock=clock)
        for store in (MemorySessionStore(claim_seconds=60, clock=clock), sqlite):
            watch = Watch(store, clock)
            for operation, holder in some(operations):
                watch.act(operation, holder)


@pytest.mark.req("P67")
def test_a_manifest_is_named_by_session_and_turn() -> None:
    """Session s and turn t name s.t; before both are restored the result says so."""
    assert manifest_id("s", "t") == "s.t"
    bare = AgentPipelineContext(
        type=AgentPipelineContextType.INITIAL,
        time_stamp="2026-01-01T00:00:00Z",
        correlation_id="c",
        envelope=Envelope(org="o", user="u"),
    )
    restored = replace(bare, session=Session(id="s"), turn=Turn(id="t"))
    assert manifest_id_of(restored) == "s.t"

    for ctx in (bare, replace(restored, session=None), replace(restored, turn=None)):
        result = manifest_id_of(ctx)
        assert isinstance(result, InvokeResult)
        assert [error.code for error in result.errors] == [InvokeCode.NOT_RESTORED]


IDS = st.text("ab.%2E", max_size=4)


@given(st.tuples(IDS, IDS), st.tuples(IDS, IDS))
@example(("a.b", "c"), ("a", "b.c"))
@example(("a.", "b"), ("a%2E", "b"))
def test_no_two_turns_share_a_name(pair: tuple[str, str], other: tuple[str, str]) -> None:
    """Different pairs of ids have different names, dots and percent signs included."""
    assert (manifest_id(*pair) == manifest_id(*other)) == (pair == other)
