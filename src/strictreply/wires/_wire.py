"""What a wire is: the protocol between one API and all packages above, which know none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from strictreply.values._drafts import Answered, Draft, DraftCall, UserInput
from strictreply.values._issues import Code, Issue
from strictreply.values._limits import JSON, JSONObject, Limits, Message
from strictreply.values._replies import Invalid, ToolCall, UsageNames
from strictreply.values._requests import Request
from strictreply.wires._dialects import NeedsNothing
from strictreply.wires._endings import error_in
from strictreply.wires._server_events import Event
from strictreply.wires._stream_chunks import ChunkRead


@dataclass(frozen=True, slots=True)
class Opened:
    """The reply in a response.

    Nothing judges ``server_calls``, ``served`` and ``medium``.
    """

    draft: Draft
    """The reply as it is judged."""
    promised: bool = False
    """Whether the response ended to have a tool called."""
    lenient: tuple[str, ...] = ()
    """The ways of servers that it was written in, by name."""
    is_exact: bool = True
    """Whether the draft says what the response says, letter for letter."""
    is_bare: bool = False
    """Whether a message was given and not a response."""
    server_calls: tuple[ToolCall, ...] = ()
    """Calls of the API's own tools that the program answers."""
    served: bool = False
    """Whether the API called a tool of its own itself."""
    medium: str = ""
    """What an answer is that is not a text; empty for a text."""
    is_paused: bool = False
    """Whether the API paused the turn: it goes on when it is sent back."""


PROMISING = frozenset({"tool_calls", "function_call", "tool_use"})
"""The reasons that promise a call (OpenAI; Anthropic and Bedrock)."""


@dataclass(frozen=True, slots=True)
class CallPiece:
    """What an event of a stream adds to a call."""

    index: int
    """Which call of the reply it is."""
    name: str
    """A piece of the tool's name; empty when none came."""
    arguments: str
    """A piece of the arguments; empty when none came."""


class Assembly(ABC):
    """Puts the events of one stream together.

    ``names`` are the tools that may be called. What servers send otherwise than the API is read by
    the rows of ``STREAM_DIALECTS`` in ``_stream_dialects``, or refused when ``strict``.

    ``fault`` is the first that has no one meaning, ``is_done``: its end came, ``is_over``: no more
    is to be read. ``size`` counts the characters of its texts. ``lenient`` names the rows that
    were needed. The others are about the last event: ``delta`` is what it added, as a delta of the
    message; ``is_text_alone``: nothing of the reply but text of an answer; ``is_piece``: one more
    piece of a text or arguments; ``passed``: the event as the API would have sent it, None where it
    is so already; ``is_ignored``: it says nothing of the reply; ``is_beside``: nothing judges what
    it is about, so that it may reach the caller before the reply has passed; ``is_frame``: it only
    begins or ends something. ``holds_pieces``: the rest of a reply is made of its events, pieces
    and end included. ``model`` is that of the request, for a server that names none.
    """

    holds_pieces: bool = False
    model: object = None

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        self.names = names
        self.fault: Issue | None = None
        self.is_done: bool = False
        self.is_over: bool = False
        self.is_text_alone: bool = False
        self.is_piece: bool = False
        self.is_ignored: bool = False
        self.is_beside: bool = False
        self.is_frame: bool = False
        self.size: int = 0
        self.delta: JSONObject = {}
        self.passed: JSONObject | None = None
        self._strict = strict
        self._rows: dict[str, None] = {}

    @property
    def lenient(self) -> tuple[str, ...]:
        """The names of the rows that were needed, in order."""
        return tuple(self._rows)

    def reads(self, row: str) -> bool:
        """Record that a row is needed; return whether it may be read."""
        if not self._strict:
            self._rows[row] = None

        return not self._strict

    @property
    def has_thoughts(self) -> bool:
        """Whether thoughts came that may be signed."""
        return False

    @property
    def is_waiting(self) -> bool:
        """Whether a part came that may not stand in a message without what follows it."""
        return False

    @property
    def text(self) -> str:
        """The text that the last event added."""
        text = self.delta.get("content")
        return text if isinstance(text, str) else ""

    @property
    def pieces(self) -> Iterator[CallPiece]:
        """The pieces of calls that the last event added."""
        for call in self.delta.get("tool_calls") or ():
            function = call.get("function") or {}
            name = function.get("name")
            arguments = function.get("arguments")
            yield CallPiece(
                call["index"],
                name if isinstance(name, str) else "",
                arguments if isinstance(arguments, str) else "",
            )

    @abstractmethod
    def add(self, chunk: JSON) -> None:
        """Take one event."""

    @abstractmethod
    def end(self, *, is_told: bool = False) -> None:
        """Take the end of the stream, which was not broken off; ``is_told``: ``[DONE]`` came."""

    def refuse(self, code: Code, path: str, **words: str) -> None:
        """Report a fault; the first one counts."""
        self.fault = self.fault or Issue.of(code, path, **words)
        self.is_over = True

    @abstractmethod
    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the response that the events make.

        Without its end, or not ``is_whole``, as one broken off.
        """

    @abstractmethod
    def came(self) -> JSONObject | None:
        """Return what has come of a response that broke off, None where nothing of it has.

        Its tokens are estimated from it, so that thoughts in pieces are in it.
        """


class StreamReader(Protocol):
    """Finds the events in the bytes of a stream, as they come."""

    @property
    def idle_lines(self) -> int:
        """How many lines came since the last event."""
        ...

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that are complete with these bytes."""
        ...

    def end(self) -> Iterator[Event]:
        """Yield what the end of the stream completes."""
        ...

    def last(self) -> Iterator[Event]:
        """Yield what would be an event if the end of its own were there."""
        ...


class SentSoFar(Protocol):
    """The part of a reply that has been passed on to a caller as events.

    ``text`` is that of its answer.
    """

    @property
    def text(self) -> str: ...

    def begin(self) -> None:
        """Begin with another stream: nothing of it is held."""

    def add(self, event: JSON) -> None:
        """Take an event that is passed on, also one that was held until then."""

    def hold(self, event: JSON) -> None:
        """Take an event that is not passed on as it comes."""

    def told_id(self, response: JSONObject) -> JSON:
        """Return the id that was told of an accepted response that has another one, else None."""

    def rest(self, response: JSONObject, came: JSONObject | None) -> Iterator[JSONObject]:
        """Yield the events left of an accepted response behind that text.

        ``came`` is the response as the stream of that text brought it, None when the accepted one
        is of another stream.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """How the turns of a conversation are written and read in the form of an API."""

    keyword: str
    """The keyword of a request that takes the turns."""
    user: Callable[[str], Message]
    """Return the turn of a user who says something."""
    system: Callable[[str], Message]
    """Return the turn that instructs the model."""
    heard: Callable[[Message], UserInput]
    """Return what a user's turn holds."""
    written: Callable[[Draft], Message]
    """Return a reply as the assistant's turn, as it came but for what was changed in it."""
    read: Callable[[Message], Draft]
    """Return the reply that the assistant's turn is."""
    turns: Callable[[Answered], list[Message]]
    """Return a bad reply as the assistant's turn, with the turns that answer it."""
    results: Callable[[Sequence[DraftCall], Sequence[str]], list[Message]]
    """Return the turns that answer calls, each with its result."""
    quoted: Callable[[Draft], str]
    """Return what the model itself wrote, for a server that does not take its calls back."""
    is_plain: Callable[[Draft], bool]
    """Return whether a reply holds its text and calls, and nothing that a provider wants back."""
    has_sealed_calls: Callable[[Draft], bool]
    """Return whether its calls hold what a provider wants back."""
    is_bound: Callable[[Draft], bool]
    """Return whether a signed thought binds it to all that stands before it."""
    are_bound: Callable[[Iterable[Any]], bool]
    """Return whether a signed thought stands in the turns of a conversation."""
    ids: Callable[[Iterable[Any]], list[str]]
    """Return the ids of the calls in the turns of a conversation, in order."""
    with_thoughts: Callable[[Draft, Draft | None], Draft]
    """Return a reply with the thoughts of another one in place of its own; None: without any."""
    failed: Callable[[list[Message], Collection[str]], list[Message]] | None = None
    """Mark the results of these calls as failures; None where the API has no word for that."""
    joined: Callable[[Draft, Draft], Draft] | None = None
    """Return a paused reply with what continues it; None where the API pauses none."""
    settled: Callable[[Draft, Iterable[Message]], Draft] | None = None
    """Return an accepted reply as one to the caller's messages, given the hidden turns behind them.

    None where it is that already.
    """
    is_verbatim: bool = False
    """Whether a reply goes back whole, whatever its length: its wire writes what servers take."""


class Demanding(Protocol):
    """One thing that a stored reply says of its request."""

    @property
    def label(self) -> str:
        """What it is called in a warning."""
        ...

    @property
    def versions(self) -> tuple[JSON, ...]:
        """What is said, and then with less and less of its schema."""
        ...

    def added_to(self, keywords: JSONObject, version: JSON) -> JSONObject:
        """Return the keywords of a request that demand this, too."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing:
    """How an API keeps replies, which programs fetch later."""

    demands: Callable[[JSON, bool, bool], Sequence[Demanding]]
    """Return what a stored reply says of its request: of its tools, of its answer."""
    has_reply: Callable[[JSON, bool], bool]
    """Return whether what came is to be judged, and whether it was only read."""
    response_in: Callable[[JSON], JSON]
    """Return the response that an event of a stored stream holds; None where it holds none."""
    emptied: Callable[[JSON], JSONObject | None]
    """Return what has no reply yet without what was written so far; None: as it is."""


def _no_rows(_response: JSON) -> tuple[str, ...]:
    return ()


def _as_it_came(response: JSONObject, _model: object) -> JSONObject:
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One API by which models are asked.

    All packages above work with drafts of replies, and ask their wire for whatever depends on the
    API.
    """

    name: str
    """Its word for ``api=``, which attempts are marked with."""
    path: str
    """Where requests go, below the address of the server."""
    usage: UsageNames
    """The names of the three counts of tokens."""
    conversation: str
    """The keyword of a request that holds the conversation."""
    limits: Callable[[JSONObject], list[JSON]]
    """Return what in the body of a request limits the tokens of its reply."""
    additions: Mapping[str, tuple[str, ...]]
    """What we add to requests by ourselves, and the words by which endpoints refuse it."""

    read: Callable[[JSONObject], Request]
    """Read the keywords of a request; raise ContractError for what no verdict could honour."""
    written: Callable[[Request], JSONObject]
    """Return a request as the API takes it."""
    undemanding: Callable[[JSONObject], JSONObject]
    """Return the keywords of a request whose choice of tools demands no call."""

    recognises: Callable[[object], bool]
    """Return whether a value is a response of this API, or a message of one."""
    is_whole: Callable[[object], bool]
    """Return whether what came for a stream is a whole response: of a client without streams."""
    opened: Callable[[object, NeedsNothing | None], Opened | Invalid]
    """Return the one reply to judge, or why there is none."""
    draft_in: Callable[[JSON], Draft | None]
    """Return the reply in a response, however it ended; None where there is none."""
    with_draft: Callable[[JSONObject, Draft], JSONObject]
    """Return a response with another reply in it, as if it had come with that one."""
    turn: Callable[[Draft, JSONObject], Message]
    """Return the reply of a response as the assistant's turn of the next request."""
    counted: Callable[[Draft], JSON]
    """Return what of a reply its tokens are estimated from."""
    replay: Replay
    """How a reply goes back with its correction."""
    reasons: Callable[[JSON], list[str]]
    """Return the words for how a response ended."""

    reader: Callable[[], StreamReader]
    """Make what finds the events in the bytes of a stream."""
    read_event: Callable[[Event, Limits], ChunkRead]
    """Read one event: a chunk, an error in whichever form, or the end."""
    assembly: Callable[..., Assembly]
    """Make what puts the events of one stream together."""
    sent: Callable[[bool], SentSoFar]
    """Make what keeps how much of a reply was passed on, with its usage if that is wanted."""
    event_bytes: Callable[[JSON], bytes]
    """Write one event of a stream."""
    end_bytes: bytes
    """What is written behind the last event."""

    storing: Storing
    """How replies are stored."""

    reply_at: str = ""
    """Where a response holds its reply, as a JSON Pointer; empty for the whole of it."""

    error_in: Callable[[object], object] = error_in
    """Return the error that a response is or holds, None for none.

    It has a ``message``, a ``type`` and a ``code``, as far as they are said. An error that came in
    another way, as an event or an exception, stands under ``error`` alone.
    """

    asks: Callable[[Mapping[str, object]], bool] | None = None
    """Return whether a request is of this API, where another one has its conversation, too.

    None: the keyword of the conversation says it.
    """

    completed: Callable[[JSONObject, object], JSONObject] = _as_it_came
    """Return an accepted response as the API has it around its message, by the model asked."""
    around: Callable[[JSON], tuple[str, ...]] = _no_rows
    """Return the names of the ways of servers that were read for that."""
