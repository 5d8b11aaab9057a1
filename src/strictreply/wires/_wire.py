"""The protocol that describes one API; the packages above are independent of any API."""

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
    """The reply in a response; ``server_calls``, ``served`` and ``medium`` are not judged."""

    draft: Draft
    """The reply that is judged."""
    promised: bool = False
    """Whether the response announced a call when it ended."""
    lenient: tuple[str, ...] = ()
    """Names of the deviations of servers that were accepted."""
    is_exact: bool = True
    """Whether the draft has exactly the text and calls of the response."""
    is_bare: bool = False
    """Whether only a message was given, not a response."""
    server_calls: tuple[ToolCall, ...] = ()
    """Calls of the API's own tools that the program must answer."""
    served: bool = False
    """Whether the API itself called one of its own tools."""
    medium: str = ""
    """The kind of an answer that is not text (such as audio); empty for text."""
    is_paused: bool = False
    """Whether the API paused the turn; it continues when the turn is sent back."""


PROMISING = frozenset({"tool_calls", "function_call", "tool_use"})
"""The finish reasons that announce a call (OpenAI; Anthropic and Bedrock)."""


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of a call from one event of a stream."""

    index: int
    """The index of the call in the reply."""
    name: str
    """A piece of the tool's name; may be empty."""
    arguments: str
    """A piece of the arguments; may be empty."""


class Assembly(ABC):
    """Assembles the events of one stream into a response.

    ``names`` are the tools that may be called. Known deviations of servers are accepted by the rows
    of ``STREAM_DIALECTS`` in ``_stream_dialects``, unless ``strict``.

    About the whole stream:

    - ``fault``: the first fault; ``is_done``: the stream has ended; ``is_over``: read no further.
    - ``size``: the characters of all texts; ``lenient``: the rows that were needed.
    - ``holds_pieces``: whether the rest of an accepted reply is made from its own events.
    - ``model``: the model of the request, for servers that do not name it.

    About the last event:

    - ``delta``: what it added, as a delta of the message.
    - ``is_text_alone``: it added only text of an answer; ``is_piece``: it added another piece of a
      text or of arguments.
    - ``passed``: the event in the form of the API; None if it already has that form.
    - ``is_ignored``: it is not part of the reply; ``is_beside``: it is about something that is not
      judged, so it may reach the caller before the reply is accepted; ``is_frame``: it only starts
      or ends something.
    """

    holds_pieces: bool = False
    """Whether the rest of a reply is made of its events, pieces and end included."""
    model: object = None
    """The model of the request, for a server that names none."""

    def __init__(self, names: Collection[str] = (), *, strict: bool = False) -> None:
        self.names = names
        """The tools that may be called."""
        self.fault: Issue | None = None
        """The first fault that has no one meaning; None while there is none."""
        self.is_done: bool = False
        """Whether the end of the stream came."""
        self.is_over: bool = False
        """Whether no more is to be read."""
        self.is_text_alone: bool = False
        """Whether the last event had only text of an answer."""
        self.is_piece: bool = False
        """Whether the last event was one more piece of a text or of arguments."""
        self.is_ignored: bool = False
        """Whether the last event says nothing of the reply."""
        self.is_beside: bool = False
        """Whether nothing judges the last event, so that it may be passed on at once."""
        self.is_frame: bool = False
        """Whether the last event only begins or ends something."""
        self.size: int = 0
        """The characters of its texts so far."""
        self.delta: JSONObject = {}
        """What the last event added, as a delta of the message."""
        self.passed: JSONObject | None = None
        """The last event as the API would have sent it; None if it already is."""
        self._strict = strict
        self._rows: dict[str, None] = {}

    @property
    def lenient(self) -> tuple[str, ...]:
        """Names of the rows that were needed, in order."""
        return tuple(self._rows)

    def reads(self, row: str) -> bool:
        """Record that a row is needed; return whether it may be applied."""
        if not self._strict:
            self._rows[row] = None

        return not self._strict

    @property
    def has_thoughts(self) -> bool:
        """Whether the stream has had thoughts that may be signed."""
        return False

    @property
    def is_waiting(self) -> bool:
        """Whether the last part is not allowed in a message without its successor."""
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
        """Add one event."""

    @abstractmethod
    def end(self, *, is_told: bool = False) -> None:
        """End the stream, which did not break off; ``is_told`` means ``[DONE]`` was received."""

    def refuse(self, code: Code, path: str, **words: str) -> None:
        """Report a fault; the first one counts."""
        self.fault = self.fault or Issue.of(code, path, **words)
        self.is_over = True

    @abstractmethod
    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the response that the events make up.

        Without an end, or if not ``is_whole``, it is a response that broke off.
        """

    @abstractmethod
    def came(self) -> JSONObject | None:
        """Return what was received of a response that broke off; None if nothing was.

        It includes pieces of thoughts, because tokens are estimated from it.
        """


class StreamReader(Protocol):
    """Finds the events in the bytes of a stream."""

    @property
    def idle_lines(self) -> int:
        """How many lines have been read since the last event."""
        ...

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that are complete with these bytes."""
        ...

    def end(self) -> Iterator[Event]:
        """Yield what the end of the stream completes."""
        ...

    def last(self) -> Iterator[Event]:
        """Yield the last event, even if its end is missing."""
        ...


class SentSoFar(Protocol):
    """The part of a reply that the caller has already received as events.

    ``text`` is the text of its answer.
    """

    @property
    def text(self) -> str:
        """The text of the answer that was passed on."""
        ...

    def begin(self) -> None:
        """Start another stream, of which no event is held back."""

    def add(self, event: JSON) -> None:
        """Record an event that is passed on, possibly after it was held back."""

    def hold(self, event: JSON) -> None:
        """Record an event that is held back."""

    def told_id(self, response: JSONObject) -> JSON:
        """Return the id that the caller has already received, if the response has another one."""

    def rest(self, response: JSONObject, came: JSONObject | None) -> Iterator[JSONObject]:
        """Yield the remaining events of an accepted response, after that text.

        ``came`` is the response that the stream with that text brought; None if the accepted one is
        from another stream.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """How the turns of a conversation are read and written in the form of an API."""

    keyword: str
    """The keyword of a request for the turns."""
    user: Callable[[str], Message]
    """Return a user's turn with this text."""
    system: Callable[[str], Message]
    """Return a turn with instructions for the model."""
    heard: Callable[[Message], UserInput]
    """Return the parts of a user's turn."""
    written: Callable[[Draft], Message]
    """Return a reply as the assistant's turn, unchanged except for what was edited in the draft."""
    read: Callable[[Message], Draft]
    """Return the reply in an assistant's turn."""
    turns: Callable[[Answered], list[Message]]
    """Return an invalid reply as the assistant's turn, followed by the turns that answer it."""
    results: Callable[[Sequence[DraftCall], Sequence[str]], list[Message]]
    """Return the turns with the results of calls."""
    quoted: Callable[[Draft], str]
    """Return the model's own text, for a server that does not accept its calls back."""
    is_plain: Callable[[Draft], bool]
    """Return whether a reply has only text and calls, and nothing that a provider needs back."""
    has_sealed_calls: Callable[[Draft], bool]
    """Return whether its calls contain something that a provider needs back."""
    is_bound: Callable[[Draft], bool]
    """Return whether a signed thought binds the reply to everything before it."""
    are_bound: Callable[[Iterable[Any]], bool]
    """Return whether the turns of a conversation contain a signed thought."""
    ids: Callable[[Iterable[Any]], list[str]]
    """Return the ids of the calls in the turns of a conversation, in order."""
    with_thoughts: Callable[[Draft, Draft | None], Draft]
    """Return a reply with the thoughts of another reply instead of its own; None removes them."""
    failed: Callable[[list[Message], Collection[str]], list[Message]] | None = None
    """Mark the results of these calls as failures; None if the API cannot express that."""
    joined: Callable[[Draft, Draft], Draft] | None = None
    """Return a paused reply with its continuation; None if the API does not pause turns."""
    settled: Callable[[Draft, Iterable[Message]], Draft] | None = None
    """Return an accepted reply as a reply to the caller's messages, without the hidden turns.

    None if no change is needed.
    """
    is_verbatim: bool = False
    """Whether a reply of any length is sent back whole, because its wire makes it acceptable."""


class Demanding(Protocol):
    """One demand of the original request that a stored reply shows."""

    @property
    def label(self) -> str:
        """Its name in a warning."""
        ...

    @property
    def versions(self) -> tuple[JSON, ...]:
        """The demand, then versions with less and less of its schema."""
        ...

    def added_to(self, keywords: JSONObject, version: JSON) -> JSONObject:
        """Return the keywords of a request with this demand added."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing:
    """How an API stores replies that programs fetch later."""

    demands: Callable[[JSON, bool, bool], Sequence[Demanding]]
    """Return the demands that a stored reply shows: whether on its tools, whether on its answer."""
    has_reply: Callable[[JSON, bool], bool]
    """Return whether a fetched response must be judged; the flag says whether it was only read."""
    response_in: Callable[[JSON], JSON]
    """Return the response in an event of a stored stream; None if it has none."""
    emptied: Callable[[JSON], JSONObject | None]
    """Return an unfinished response without its partial reply; None if nothing is to be removed."""


def _no_rows(_response: JSON) -> tuple[str, ...]:
    return ()


def _as_it_came(response: JSONObject, _model: object) -> JSONObject:
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Describes one API of models.

    The packages above work with drafts of replies. They use the wire for everything that depends on
    the API.
    """

    name: str
    """The name for ``api=`` and in attempts."""
    path: str
    """The path of requests, below the server's base URL."""
    usage: UsageNames
    """The names of the counts of tokens."""
    conversation: str
    """The keyword of a request for the conversation."""
    limits: Callable[[JSONObject], list[JSON]]
    """Return the values in a request's body that limit the tokens of its reply."""
    additions: Mapping[str, tuple[str, ...]]
    """What strictreply adds to requests, with the words by which endpoints reject it."""

    read: Callable[[JSONObject], Request]
    """Read the keywords of a request; raise ContractError for what a verdict could not honour."""
    written: Callable[[Request], JSONObject]
    """Return a request in the form of the API."""
    undemanding: Callable[[JSONObject], JSONObject]
    """Return the keywords of a request with a tool choice that does not require a call."""

    recognises: Callable[[object], bool]
    """Return whether a value is a response or a message of this API."""
    is_whole: Callable[[object], bool]
    """Return whether a stream request returned a complete response (a client without streams)."""
    opened: Callable[[object, NeedsNothing | None], Opened | Invalid]
    """Return the reply to judge, or why there is none."""
    draft_in: Callable[[JSON], Draft | None]
    """Return the reply in a response, however it ended; None if there is none."""
    with_draft: Callable[[JSONObject, Draft], JSONObject]
    """Return a response with another reply in it."""
    turn: Callable[[Draft, JSONObject], Message]
    """Return the reply in a response as the assistant's turn of the next request."""
    counted: Callable[[Draft], JSON]
    """Return the JSON from which the tokens of a reply are estimated."""
    replay: Replay
    """How a reply is sent back with its correction."""
    reasons: Callable[[JSON], list[str]]
    """Return the words for how a response ended."""

    reader: Callable[[], StreamReader]
    """Create the reader that finds the events in the bytes of a stream."""
    read_event: Callable[[Event, Limits], ChunkRead]
    """Read one event: a chunk, an error in any form, or the end."""
    assembly: Callable[..., Assembly]
    """Create the assembly of the events of one stream."""
    sent: Callable[[bool], SentSoFar]
    """Create the record of what was passed on; the flag says whether the caller wants the usage."""
    event_bytes: Callable[[JSON], bytes]
    """Write one event of a stream."""
    end_bytes: bytes
    """The bytes after the last event."""

    storing: Storing
    """How replies are stored."""

    reply_at: str = ""
    """JSON Pointer to the reply in a response; empty if the whole response is the reply."""

    error_in: Callable[[object], object] = error_in
    """Return the error in a response, or the response if it is an error; None for none.

    It has ``message``, ``type`` and ``code``, if they are known. An error from an event or an
    exception is given as ``{"error": …}``.
    """

    asks: Callable[[Mapping[str, object]], bool] | None = None
    """Return whether a request is for this API, if another API has the same conversation keyword.

    None if the keyword is enough.
    """

    completed: Callable[[JSONObject, object], JSONObject] = _as_it_came
    """Return an accepted response with all members of the API, given the model of the request."""
    around: Callable[[JSON], tuple[str, ...]] = _no_rows
    """Return the names of the deviations that ``completed`` repairs."""
