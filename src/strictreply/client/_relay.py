"""What becomes of the chunks of a streamed call.

Each chunk is put together with the others, watched, and passed on or held. When text went out, the
reply keeps that text: a later ask may only bring the calls beside it, or more text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias

import jiter

from strictreply.contract._contract import Contract
from strictreply.contract._judge import text_may_be_call
from strictreply.contract._veto import Veto
from strictreply.reading._incremental import Partial
from strictreply.retry._flow import AsksFor
from strictreply.values._issues import Code, Issue
from strictreply.values._limits import JSON, JSONObject, Limits
from strictreply.values._replies import A_co, AssistantReply, Attempt, Vetoed
from strictreply.wires._opening import DONE_DATA, Assembly, Event, Wire, message_of, read_body

_MOST_FIRST = 1000  # characters that are looked at for the beginning of a call


class Came(NamedTuple):
    """A chunk as JSON (None when it is not JSON), and as it is passed on.

    ``is_exact``: the SDK reads its bytes as that JSON.
    """

    plain: JSON
    kept: Any
    is_end: bool = False
    is_exact: bool = False


def came_in(event: Event, limits: Limits) -> Came:
    """Read one server-sent event of a stream."""
    data = event.data.strip()
    if data == DONE_DATA:
        return Came(None, event.raw, is_end=True)
    if not data:
        return Came({}, event.raw)  # a heartbeat

    plain: JSON
    try:
        plain = jiter.from_json(event.data, allow_inf_nan=False, catch_duplicate_keys=True)
        is_exact = not event.name.startswith("thread.")  # the SDK reads those another way
    except ValueError:
        # it is read once more, by what tolerates a little in what is not ours
        plain = read_body(event.data, limits)
        is_exact = False

    if _is_error(event.name, plain):
        told = data.decode("utf-8", "replace") if plain is None else plain
        return Came({"error": told}, event.raw)

    return Came(plain, event.raw, is_exact=is_exact)


def _is_error(name: str, plain: JSON) -> bool:
    """Return whether all of an event is an error, also in a form of one provider alone."""
    if not isinstance(plain, dict):
        return name == "error"
    if "choices" in plain or "error" in plain:
        return False
    if name == "error" or plain.get("type") == "error":
        return True

    # vLLM's older form; DashScope's own
    is_told = plain.get("object") == "error" or ("type" not in plain and bool(plain.get("code")))
    return is_told and not name and bool(message_of(plain))


class Relay:
    """Follows the stream of each ask of one call, and passes nothing on.

    ``is_over``: no more of the stream is to be read. The kinds of relays that pass something on
    override the methods that return a list.
    """

    def __init__(self, contract: Contract, wire: Wire, *, vetoes: bool = True) -> None:
        self.contract = contract
        self.wire = wire
        self._vetoes = vetoes
        self._most = contract.limits.reply_bytes
        self.begin("reply")

    def begin(self, asks_for: AsksFor) -> None:
        """Begin with the stream of one ask."""
        self._is_followed = asks_for != "part"
        is_strict = self.contract.dialects == "strict"
        self.assembly = self.wire.assembly(self.contract.callable_names, strict=is_strict)
        self.veto = Veto(self.contract)
        self.vetoed: Vetoed | None = None
        self.is_over = False
        # whether the caller has some text of this stream already: that text cannot be retried
        self.is_behind_text = False

    def opened(self, source: Any) -> list[Any]:  # noqa: ARG002
        """Return what goes out when a response is open."""
        return []

    def feed(self, came: Came) -> list[Any]:
        """Take one chunk; return what can be passed on, nothing once the stream is over."""
        assembly = self.assembly
        if self.is_over:
            return []

        if came.is_end:
            assembly.is_done = True
            self.is_over = True
            return []

        assembly.add(came.plain)
        if assembly.size > self._most:
            assembly.refuse(Code.REPLY_TOO_LARGE, "/content", limit=str(self._most))

        if self._is_followed and assembly.fault is None:
            self._follow(assembly)

        self.is_over = assembly.is_over
        if self.is_over or assembly.is_ignored:
            return []

        if assembly.passed is not None:
            came = Came(assembly.passed, assembly.passed)

        return self.passed(came, assembly)

    def ended(self) -> None:
        """Take the end of a stream that was not broken off."""
        if not self.is_over:
            self.assembly.end()

    def _follow(self, assembly: Assembly) -> None:
        """Show the veto what the last chunk added."""
        text = assembly.delta.get("content")
        fault = self.veto.text(text) if text and isinstance(text, str) else None

        for call in assembly.delta.get("tool_calls") or ():
            function = call.get("function") or {}
            name = function.get("name")
            written = function.get("arguments")
            name = name if isinstance(name, str) else ""
            written = written if isinstance(written, str) else ""
            fault = fault or self.veto.call(call["index"], name, written)

        if fault is not None and self._vetoes:
            assembly.fault = fault
            assembly.is_over = True
            self.vetoed = self.veto.vetoed()

    def passed(self, came: Came, assembly: Assembly) -> list[Any]:  # noqa: ARG002
        """Return what may be passed on of a chunk."""
        return []

    def rejected(self, attempt: Attempt) -> list[Any]:  # noqa: ARG002
        """Return what goes out after an attempt that was not accepted."""
        return []

    def released(
        self,
        reply: AssistantReply,  # noqa: ARG002
        response: JSONObject,  # noqa: ARG002
    ) -> Iterable[Any]:
        """Return what goes out at last: of an accepted reply, in its response."""
        return ()


class ChunkRelay(Relay):
    """Passes chunks on: live text as it came, the rest of an accepted reply as our own chunks."""

    def __init__(
        self, contract: Contract, wire: Wire, *, wants_usage: bool, vetoes: bool = True
    ) -> None:
        self._sent = wire.sent(wants_usage)
        self._is_opened = False
        super().__init__(contract, wire, vetoes=vetoes)

    def begin(self, asks_for: AsksFor) -> None:
        """Begin with the stream of one ask.

        A second text is not live: it may stand behind the first.
        """
        super().begin(asks_for)

        # text may go out before the reply is judged where it is any text, or prose beside calls
        contract = self.contract
        takes_text = contract.answer.is_text and contract.answer_style == "union"
        is_free = contract.channel == "native" and takes_text
        self._is_held = bool(self._sent.text) or asks_for != "reply" or not is_free

        self._first = ""
        self._waiting: list[Came] = []

    def opened(self, source: Any) -> list[Any]:
        """Return what the first response is opened as: the SDK's own object for it.

        Nothing is returned for later responses.
        """
        first = not self._is_opened
        self._is_opened = True
        return [source] if first else []

    def passed(self, came: Came, assembly: Assembly) -> list[Any]:
        """Return the chunk (a ``Came``, or its bytes) when it is nothing but live text.

        The first chunks wait until that is known.
        """
        text: Any = assembly.delta.get("content") or ""

        if self._is_held or not assembly.is_text_alone:
            self._is_held |= bool(text)  # what follows a held piece of the text waits, too
            return []

        if self.is_behind_text:
            self._sent.add(came.plain)
            return [came if came.is_exact and assembly.is_piece else came.kept]

        self._waiting.append(came)
        self._first += text

        if not self._first.strip() or text_may_be_call(self.contract, self._first):
            self._is_held = len(self._first) > _MOST_FIRST  # a call, as far as anybody can tell
            return []

        waiting = self._waiting
        self._waiting = []
        self.is_behind_text = True

        for one in waiting:
            self._sent.add(one.plain)

        return [one.kept for one in waiting]

    def released(
        self,
        reply: AssistantReply,  # noqa: ARG002
        response: JSONObject,
    ) -> Iterator[JSONObject]:
        """Yield the events of an accepted reply that were held.

        They come behind the text that went out, with which they make one reply.
        """
        return self._sent.rest(response, self.assembly.response() if self.is_behind_text else None)


@dataclass(frozen=True, slots=True)
class Provisional(Generic[A_co]):
    """A further piece of a reply that is still arriving.

    ``delta`` is the new piece of the content. ``partial`` is the part of a structured answer so
    far, None for any other content.
    """

    delta: str
    partial: Partial[A_co] | None = None


@dataclass(frozen=True, slots=True)
class Retracted:
    """What was shown since the last event of this kind is not part of the reply.

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
    """Shows each piece of the content as it comes, and takes back what did not fit."""

    def begin(self, asks_for: AsksFor) -> None:
        """Begin with the stream of one ask.

        What is asked for to complete a message is not shown.
        """
        super().begin(asks_for)
        self._is_shown = asks_for == "reply"
        self._has_shown = False

    def passed(self, came: Came, assembly: Assembly) -> list[Provisional[Any]]:  # noqa: ARG002
        """Return the new piece of the content."""
        text = assembly.delta.get("content")
        if not self._is_shown or not isinstance(text, str) or not text:
            return []

        self._has_shown = True
        return [Provisional(text, self.veto.partial())]

    def rejected(self, attempt: Attempt) -> list[Retracted]:
        """Take back what was shown."""
        shown = self._has_shown
        self._has_shown = False
        return [Retracted(attempt.issues)] if shown else []

    def released(
        self,
        reply: AssistantReply[A_co],
        response: JSONObject,  # noqa: ARG002
    ) -> list[Accepted[A_co]]:
        """Return the end of the stream."""
        return [Accepted(reply)]
