"""How the chunks of a streamed call are passed on.

The relay adds each chunk to the response so far, shows it to the early stop, and passes it on or
holds it back. Text that was passed on stays in the reply: a later request may only add calls or
more text to it.

The states of the stream of one request. A state applies to every chunk from there on:

===========  =====================================================================================
state        what the relay does with a chunk
===========  =====================================================================================
open         it passes on text that cannot be part of a call, and parts that nothing judges
             (thoughts, server tools)
unclear      it holds back text that may be a call written as text, and everything after it; once
             the text is clear, all of it is passed on in order
held         it passes on nothing before the reply is accepted: the text is an answer with a schema,
             a call has begun, the request was for a part of a message, or text of an earlier
             request was passed on
over         it reads nothing more: the early stop or a fault ended the stream, or the stream ended
===========  =====================================================================================

Only the stream of a call's first request begins open. After the end of an accepted reply the relay
passes on what it held back; it rewrites these chunks if the reply differs from the one that arrived
(:meth:`Relay.released`).
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
    """Follows the stream of each request of one call, and passes nothing on.

    ``is_over`` is true once no more of the stream must be read. The subclasses pass chunks on: they
    override the methods that return a list.
    """

    def __init__(self, contract: Contract, wire: Wire, *, stops_early: bool = True) -> None:
        self.contract = contract
        self.wire = wire
        self._stops_early = stops_early
        self._most = contract.limits.reply_bytes
        self.begin("reply")

    def begin(self, asks_for: AsksFor, *, corrects: bool = False) -> None:
        """Begin with the stream of one request, which may contain a correction."""
        self._is_followed = asks_for != "part"
        self._corrects = corrects
        is_strict = self.contract.dialects == "strict"
        self.assembly = self.wire.assembly(self.contract.callable_names, strict=is_strict)
        self.early_stop = EarlyStop(self.contract)
        self.stopped_early: StoppedEarly | None = None
        self.is_over = False
        # whether the caller already has text of this stream, which can then not be retried
        self.is_behind_text = False

    def opened(self, source: object) -> list[object]:  # noqa: ARG002
        """Return what is passed on when a response opens."""
        return []

    def feed(self, came: ChunkRead) -> list[object]:
        """Take one chunk; return what can be passed on, an empty list once the stream is over."""
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
        """Take the end of a stream that was complete."""
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
        """Return what is passed on after an attempt that was not accepted."""
        return []

    def told_id(self, response: JSONObject) -> JSON:  # noqa: ARG002
        """Return the id that the caller saw if the response has a different one, else None."""
        return None

    def released(
        self,
        reply: AssistantReply,  # noqa: ARG002
        response: JSONObject,  # noqa: ARG002
    ) -> Iterable[object]:
        """Return what is passed on at the end of an accepted reply, in its response."""
        return ()


def _is_free(contract: Contract) -> bool:
    """Return whether text may be passed on before the reply is judged.

    It may if the answer is any text, or the text accompanies native calls.
    """
    takes_text = contract.answer.is_text and contract.answer_style == "union"
    return contract.channel == "native" and takes_text


class ChunkRelay(Relay):
    """Passes chunks on: live text unchanged, the rest of an accepted reply as our own chunks.

    With ``waits`` even the parts that nothing judges wait until the reply is accepted.
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
        """Begin with the stream of one request.

        A second text is held back, because it may have to follow the first.
        """
        super().begin(asks_for, corrects=corrects)
        self._sent.begin()

        is_other = self._has_passed or asks_for != "reply"
        self._is_held = is_other or not _is_free(self.contract)

        # parts that nothing judges are passed on as long as nothing before them is held
        self._is_beside_held = is_other or corrects or self._waits
        self._is_unclear = False
        self._watch = watch_of(self.contract)
        self._size = 0  # characters of text that arrived
        self._clear = 0  # how many of them may be shown
        # chunks, each with the size of the text up to its end
        self._waiting: deque[tuple[int, ChunkRead]] = deque()
        self._first_end = 0  # that size for the first of them with text, 0 if none has text

    def told_id(self, response: JSONObject) -> JSON:
        """Return the id that the caller saw if the response has a different one, else None."""
        return self._sent.told_id(response)

    def opened(self, source: object) -> list[object]:
        """Return the SDK's own object of the first response, and nothing for later ones."""
        first = not self._is_opened
        self._is_opened = True
        return [source] if first else []

    def passed(self, came: ChunkRead, assembly: Assembly) -> list[object]:
        """Return the chunk (a ``ChunkRead``, or its bytes) if it has only live text.

        Chunks wait as long as their text may be a call.
        """
        text = assembly.text
        if self._corrects and assembly.has_thoughts:
            # thoughts may be signed over a correction that the caller's messages do not contain
            self._is_held |= not self.is_behind_text

        if assembly.is_beside and not self._is_beside_held:
            # after text that may be a call it waits, too
            self._waiting.append((self._size, came))
            self._hold(came, assembly)
            # a start has no content yet, so another reply may still replace it
            is_early = assembly.is_frame and not self._has_passed
            is_later = self._is_unclear or assembly.is_waiting
            return [] if is_early or is_later else self._released_waiting()

        if self._is_held or not assembly.is_text_alone:
            # everything after a held piece of text waits, too, and so does a piece with an index
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
        """Find out how much of the text may be shown: not blanks alone, and not a call."""
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

        # if the rest is made from the stream's own events, each one is read as JSON
        is_read = self.assembly.holds_pieces
        return [one if is_read and one.is_exact else one.kept for one in released]

    def _hold(self, came: ChunkRead, assembly: Assembly) -> None:
        """Keep a chunk if the assembly cannot rebuild it from the pieces that it has."""
        if assembly.holds_pieces or not assembly.is_piece:
            self._sent.hold(came.plain)

    def feed(self, came: ChunkRead) -> list[object]:
        """Take one chunk; the end of a stream is held back, too."""
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
        """Yield the events of an accepted reply that were held back.

        They follow the text that was passed on, and complete it to one reply.
        """
        came = self.assembly.response() if self.is_behind_text else None
        is_read = self._is_exact and self.assembly.holds_pieces
        for event in self._sent.rest(response, came):
            is_piece = is_read and "response" not in event
            yield ChunkRead(event, event, is_exact=True) if is_piece else event


class PartialRelay(ChunkRelay):
    """Passes chunks on if only some tools are enforced.

    A reply whose faults are only observed is passed on in its original chunks.
    """

    def begin(self, asks_for: AsksFor, *, corrects: bool = False) -> None:
        """Begin a stream, whose chunks stay as they are unless some were already passed on."""
        self._is_alone = not self._has_passed
        self._reached = 0
        # the chunks that were not passed on yet, each with whether it may be
        self._unsent: deque[tuple[ChunkRead, bool]] = deque()
        super().begin(asks_for, corrects=corrects)

    def passed(self, came: ChunkRead, assembly: Assembly) -> list[object]:
        """Return what :class:`ChunkRelay` does."""
        self._reached += 1
        return super().passed(came, assembly)

    def feed(self, came: ChunkRead) -> list[object]:
        """Take one chunk, and keep it until it is passed on."""
        before = self._reached
        pieces = super().feed(came)
        self._unsent.append((came, self._reached > before))

        # they are passed on in order, each as one piece
        for _ in pieces:
            while not self._unsent.popleft()[1]:
                pass

        return pieces

    def handed_on(self, response: JSONObject, *, spliced: bool) -> Iterable[object]:
        """Return what is passed on at the end of a reply whose faults are only observed."""
        if spliced or not self._is_alone:
            no_reply: Any = None
            return self.released(no_reply, response)

        # the end of the stream is written after them
        return [came.kept for came, _ in self._unsent if not came.is_end]


@dataclass(frozen=True, slots=True)
class Provisional(Generic[A_co]):
    """A chunk of a reply that is not yet validated.

    ``delta`` is the new piece of the content. ``partial`` is the structured answer as far as it has
    arrived; None for other content.
    """

    delta: str
    """The new text."""
    partial: Partial[A_co] | None = None
    """The structured answer so far; None for any other content."""


@dataclass(frozen=True, slots=True)
class Retracted:
    """Discard everything shown since the previous ``Retracted``.

    ``issues`` says why; it is empty when the stream itself failed.
    """

    issues: tuple[Issue, ...]
    """The faults; empty when the stream failed on the way."""


@dataclass(frozen=True, slots=True)
class Accepted(Generic[A_co]):
    """The end of a stream, with the valid reply."""

    reply: AssistantReply[A_co]
    """The valid reply."""


StreamEvent: TypeAlias = Provisional[A_co] | Retracted | Accepted[A_co]
"""An event of a typed stream: any number of the first two, then one :class:`Accepted`."""


class EventRelay(Relay):
    """Shows each piece of the content as it arrives, and retracts the content of invalid replies.

    Text after the marker of a call waits.
    """

    def begin(self, asks_for: AsksFor, *, corrects: bool = False) -> None:
        """Begin with the stream of one request.

        The stream of a request that completes a message is not shown.
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
        """Return the part of the held text that may be shown now."""
        size = clear - self._size
        if size <= 0:
            return ""

        held = "".join(self._held)
        self._held = [held[size:]]
        self._size = clear
        return held[:size]

    def rejected(self, attempt: Attempt) -> list[object]:
        """Retract the content that was shown."""
        shown = self._has_shown
        self._has_shown = False
        return [Retracted(attempt.issues)] if shown else []

    def released(
        self,
        reply: AssistantReply[A_co],
        response: JSONObject,  # noqa: ARG002
    ) -> list[StreamEvent[A_co]]:
        """Return the text that was held back, and the end of the stream."""
        held = "".join(self._held)
        self._held = []
        return [Provisional(held), Accepted(reply)] if held else [Accepted(reply)]
