"""What becomes of the chunks of a streamed call.

Each chunk is put together with the others, watched, and passed on or held. When text went out, the
reply keeps that text: a later ask may only bring the calls beside it, or more text.

The stream of one ask, chunk by chunk. Each row holds for every chunk from there on:

======================  ==========================================================================
state                   what becomes of a chunk
======================  ==========================================================================
nothing is held         text that cannot be part of a call goes out as it came; what nothing
                        judges (thoughts, server tools) does, too
the text is unclear     it waits with all behind it, until it is clear that it is not a call written
                        as text; then all of it goes out in order
held                    nothing goes out before the reply is accepted: the text is an answer by a
                        schema, a call has begun, the ask was for a part of a message, or text of an
                        earlier ask has gone out
over                    nothing more is read: the early stop or a fault ended the stream, or its end
came ======================
==========================================================================

Only the first ask of a call begins with nothing held. Behind the end of an accepted reply what was
held goes out, made anew where the reply is not the one that came (:meth:`Relay.released`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

from strictreply.contract._contract import Contract
from strictreply.contract._early_stop import EarlyStop
from strictreply.contract._judge import watch_of
from strictreply.reading._incremental import Partial
from strictreply.retry._flow import AsksFor
from strictreply.values._drafts import TEXT_PLACE
from strictreply.values._issues import Code, Issue
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._replies import A_co, AssistantReply, Attempt, StoppedEarly
from strictreply.wires._stream_chunks import ChunkRead
from strictreply.wires._wire import Assembly, Wire


class Relay:
    """Follows the stream of each ask of one call, and passes nothing on.

    ``is_over``: no more of the stream is to be read. The kinds of relays that pass something on
    override the methods that return a list.
    """

    def __init__(self, contract: Contract, wire: Wire, *, stops_early: bool = True) -> None:
        self.contract = contract
        self.wire = wire
        self._stops_early = stops_early
        self._most = contract.limits.reply_bytes
        self.begin("reply")

    def begin(self, asks_for: AsksFor, *, corrects: bool = False) -> None:
        """Begin with the stream of one ask, which may hold a correction."""
        self._is_followed = asks_for != "part"
        self._corrects = corrects
        is_strict = self.contract.dialects == "strict"
        self.assembly = self.wire.assembly(self.contract.callable_names, strict=is_strict)
        self.early_stop = EarlyStop(self.contract)
        self.stopped_early: StoppedEarly | None = None
        self.is_over = False
        # whether the caller has some text of this stream already: that text cannot be retried
        self.is_behind_text = False

    def opened(self, source: object) -> list[object]:  # noqa: ARG002
        """Return what goes out when a response is open."""
        return []

    def feed(self, came: ChunkRead) -> list[object]:
        """Take one chunk; return what can be passed on, nothing once the stream is over."""
        assembly = self.assembly
        if self.is_over:
            return []

        if came.is_end:
            assembly.end(is_told=True)
            self.is_over = True
            return []

        assembly.add(came.plain)
        if assembly.size > self._most:
            assembly.refuse(Code.REPLY_TOO_LARGE, TEXT_PLACE, limit=str(self._most))

        if self._is_followed and assembly.fault is None:
            self._follow(assembly)

        self.is_over = assembly.is_over
        if self.is_over or assembly.is_done or assembly.is_ignored:
            return []

        if assembly.passed is not None:
            came = ChunkRead(assembly.passed, assembly.passed, is_exact=came.is_exact)

        return self.passed(came, assembly)

    def ended(self) -> None:
        """Take the end of a stream that was not broken off."""
        if not self.is_over:
            self.assembly.end()

    def _follow(self, assembly: Assembly) -> None:
        """Show the early stop what the last chunk added."""
        text = assembly.text
        fault = self.early_stop.text(text) if text else None

        for piece in assembly.pieces:
            fault = fault or self.early_stop.call(piece.index, piece.name, piece.arguments)

        if fault is not None and self._stops_early:
            assembly.fault = fault
            assembly.is_over = True
            self.stopped_early = self.early_stop.stopped_early()

    def passed(self, came: ChunkRead, assembly: Assembly) -> list[object]:  # noqa: ARG002
        """Return what may be passed on of a chunk."""
        return []

    def rejected(self, attempt: Attempt) -> list[object]:  # noqa: ARG002
        """Return what goes out after an attempt that was not accepted."""
        return []

    def told_id(self, response: JSONObject) -> JSON:  # noqa: ARG002
        """Return the id that the caller was told of a response that has another one, else None."""
        return None

    def released(
        self,
        reply: AssistantReply,  # noqa: ARG002
        response: JSONObject,  # noqa: ARG002
    ) -> Iterable[object]:
        """Return what goes out at last: of an accepted reply, in its response."""
        return ()


def _is_free(contract: Contract) -> bool:
    """Return whether text may go out before the reply is judged.

    It may where it is any text, or prose beside calls.
    """
    takes_text = contract.answer.is_text and contract.answer_style == "union"
    return contract.channel == "native" and takes_text


class ChunkRelay(Relay):
    """Passes chunks on: live text as it came, the rest of an accepted reply as our own chunks.

    ``waits``: what nothing judges waits for the reply, too.
    """

    def __init__(
        self,
        contract: Contract,
        wire: Wire,
        *,
        wants_usage: bool,
        stops_early: bool = True,
        waits: bool = False,
    ) -> None:
        self._sent = wire.sent(wants_usage)
        self._waits = waits
        self._is_opened = False
        self._has_passed = False
        self._is_exact = False
        super().__init__(contract, wire, stops_early=stops_early)

    def begin(self, asks_for: AsksFor, *, corrects: bool = False) -> None:
        """Begin with the stream of one ask.

        A second text is not live: it may stand behind the first.
        """
        super().begin(asks_for, corrects=corrects)
        self._sent.begin()

        is_other = self._has_passed or asks_for != "reply"
        self._is_held = is_other or not _is_free(self.contract)

        # what nothing judges goes out as long as nothing before it is held
        self._is_beside_held = is_other or corrects or self._waits
        self._is_unclear = False
        self._watch = watch_of(self.contract)
        self._size = 0  # of the text that came
        self._clear = 0  # what of it may be shown
        # chunks, each with the size of the text up to its end
        self._waiting: deque[tuple[int, ChunkRead]] = deque()
        self._first_end = 0  # of the first of them that holds text, 0 where none does

    def told_id(self, response: JSONObject) -> JSON:
        """Return the id that the caller was told of a response that has another one, else None."""
        return self._sent.told_id(response)

    def opened(self, source: object) -> list[object]:
        """Return what the first response is opened as: the SDK's own object for it.

        Nothing is returned for later responses.
        """
        first = not self._is_opened
        self._is_opened = True
        return [source] if first else []

    def passed(self, came: ChunkRead, assembly: Assembly) -> list[object]:
        """Return the chunk (a ``ChunkRead``, or its bytes) when it is nothing but live text.

        Chunks wait as long as their text may be a call.
        """
        text = assembly.text
        if self._corrects and assembly.has_thoughts:
            # they may be signed, behind a correction that the caller's messages do not have
            self._is_held |= not self.is_behind_text

        if assembly.is_beside and not self._is_beside_held:
            # behind text that may be a call it waits with that
            self._waiting.append((self._size, came))
            self._hold(came, assembly)
            # that something begins shows nothing yet: another reply may still take its place
            is_early = assembly.is_frame and not self._has_passed
            is_later = self._is_unclear or assembly.is_waiting
            return [] if is_early or is_later else self._released_waiting()

        if self._is_held or not assembly.is_text_alone:
            # what follows a held piece of the text waits, too, and so does what has a place
            self._is_held |= bool(text) or assembly.holds_pieces
            self._is_beside_held = True
            self._hold(came, assembly)
            return []

        self._take_text(text)
        if self.is_behind_text and self._clear == self._size and not self._waiting:
            self._sent.add(came.plain)
            return [came if came.is_exact and assembly.is_piece else came.kept]

        self._waiting.append((self._size, came))
        self._first_end = self._first_end or self._size
        self._hold(came, assembly)
        self._is_unclear = True
        if not 0 < self._first_end <= self._clear:
            return []

        self.is_behind_text = True
        released = self._released_waiting()
        self._is_unclear = bool(self._waiting)
        return released

    def _take_text(self, text: str) -> None:
        """Find out what may be shown of the text with another piece: no blanks alone, no call."""
        self._size += len(text)
        if self._watch is not None:
            self._clear = self._watch.feed(text)
        elif self.is_behind_text or text.strip():
            self._clear = self._size

    def _released_waiting(self) -> list[object]:
        """Return the chunks whose text may be shown."""
        released: list[ChunkRead] = []
        while self._waiting and self._waiting[0][0] <= self._clear:
            released.append(self._waiting.popleft()[1])

        self._first_end = self._waiting[0][0] if self._waiting else 0
        self._has_passed = True

        for one in released:
            self._sent.add(one.plain)

        # where the rest is made of its events, each of them is read as its JSON
        is_read = self.assembly.holds_pieces
        return [one if is_read and one.is_exact else one.kept for one in released]

    def _hold(self, came: ChunkRead, assembly: Assembly) -> None:
        """Keep what the assembly has not: of a mere piece it has all, where it can write that."""
        if assembly.holds_pieces or not assembly.is_piece:
            self._sent.hold(came.plain)

    def feed(self, came: ChunkRead) -> list[object]:
        """Take one chunk; the end of a stream is held, too."""
        was_done = self.assembly.is_done
        self._is_exact |= came.is_exact
        pieces = super().feed(came)
        if self.assembly.is_done and not was_done and self.assembly.holds_pieces:
            self._sent.hold(came.plain)

        return pieces

    def released(
        self,
        reply: AssistantReply,  # noqa: ARG002
        response: JSONObject,
    ) -> Iterable[object]:
        """Yield the events of an accepted reply that were held.

        They come behind the text that went out, with which they make one reply.
        """
        came = self.assembly.response() if self.is_behind_text else None
        is_read = self._is_exact and self.assembly.holds_pieces
        for event in self._sent.rest(response, came):
            is_piece = is_read and "response" not in event
            yield ChunkRead(event, event, is_exact=True) if is_piece else event


class PartialRelay(ChunkRelay):
    """Passes chunks on where only some tools are enforced.

    A reply whose faults are only observed goes out in the chunks in which it came.
    """

    def begin(self, asks_for: AsksFor, *, corrects: bool = False) -> None:
        """Begin with the stream of one ask, which is handed on as it came if nothing went out."""
        self._is_alone = not self._has_passed
        self._reached = 0
        # the chunks that have not gone out, each with whether it may
        self._unsent: deque[tuple[ChunkRead, bool]] = deque()
        super().begin(asks_for, corrects=corrects)

    def passed(self, came: ChunkRead, assembly: Assembly) -> list[object]:
        """Return what :class:`ChunkRelay` does."""
        self._reached += 1
        return super().passed(came, assembly)

    def feed(self, came: ChunkRead) -> list[object]:
        """Take one chunk; it is kept until it has gone out."""
        before = self._reached
        pieces = super().feed(came)
        self._unsent.append((came, self._reached > before))

        # they go out in order, each as one piece
        for _ in pieces:
            while not self._unsent.popleft()[1]:
                pass

        return pieces

    def handed_on(self, response: JSONObject, *, spliced: bool) -> Iterable[object]:
        """Return what goes out at last of a reply whose faults are only observed."""
        if spliced or not self._is_alone:
            no_reply: Any = None
            return self.released(no_reply, response)

        # the end of the stream is written behind them
        return [came.kept for came, _ in self._unsent if not came.is_end]


@dataclass(frozen=True, slots=True)
class Provisional(Generic[A_co]):
    """A chunk of a reply that is not yet validated.

    ``delta`` is the new piece of the content. ``partial`` is the part of a structured answer so
    far, None for any other content.
    """

    delta: str
    partial: Partial[A_co] | None = None


@dataclass(frozen=True, slots=True)
class Retracted:
    """Discard everything shown since the previous ``Retracted``.

    ``issues`` say why; there are none when the stream failed on the way.
    """

    issues: tuple[Issue, ...]


@dataclass(frozen=True, slots=True)
class Accepted(Generic[A_co]):
    """The end of a stream: the reply, valid by the contract."""

    reply: AssistantReply[A_co]


StreamEvent: TypeAlias = Provisional[A_co] | Retracted | Accepted[A_co]
"""What a typed stream yields: any number of the first two, then one :class:`Accepted`."""


class EventRelay(Relay):
    """Shows each piece of the content as it comes, and takes back what did not fit.

    Of a text what stands behind the marker of a call waits.
    """

    def begin(self, asks_for: AsksFor, *, corrects: bool = False) -> None:
        """Begin with the stream of one ask.

        What is asked for to complete a message is not shown.
        """
        super().begin(asks_for, corrects=corrects)
        self._is_shown = asks_for == "reply"
        self._has_shown = False
        self._watch = None
        if _is_free(self.contract):
            self._watch = watch_of(self.contract, holds_first=False)
        self._held: list[str] = []
        self._size = 0  # of the text that was shown

    def passed(self, came: ChunkRead, assembly: Assembly) -> list[object]:  # noqa: ARG002
        """Return the new piece of the content."""
        text = assembly.text
        if not self._is_shown or not text:
            return []

        if self._watch is not None:
            self._held.append(text)
            text = self._clear_text(self._watch.feed(text))
            if not text:
                return []

        self._has_shown = True
        return [Provisional(text, self.early_stop.partial())]

    def _clear_text(self, clear: int) -> str:
        """Return what may be shown now of the text that is held."""
        size = clear - self._size
        if size <= 0:
            return ""

        held = "".join(self._held)
        self._held = [held[size:]]
        self._size = clear
        return held[:size]

    def rejected(self, attempt: Attempt) -> list[object]:
        """Take back what was shown."""
        shown = self._has_shown
        self._has_shown = False
        return [Retracted(attempt.issues)] if shown else []

    def released(
        self,
        reply: AssistantReply[A_co],
        response: JSONObject,  # noqa: ARG002
    ) -> list[StreamEvent[A_co]]:
        """Return the text that was held, and the end of the stream."""
        held = "".join(self._held)
        self._held = []
        return [Provisional(held), Accepted(reply)] if held else [Accepted(reply)]
