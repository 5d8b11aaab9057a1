"""A wire: one API by which models are asked, all that is known of its requests, responses and streams.

Everything above works with one form: a conversation of ``messages``, ``tools``, ``tool_choice``, ``response_format``,
and replies that are one message with ``content`` and ``tool_calls``, as chat completions spell them. A wire reads a
caller's request into that form and writes it back, opens a response into the one message, and puts a mended message
into a response again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, Protocol, TypeAlias

from strictreply.values._errors import ContractError
from strictreply.values._issues import Code, Issue
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._replies import Invalid, UsageNames
from strictreply.wires._chat import CHAT
from strictreply.wires._dialects import NeedsNothing
from strictreply.wires._opening import Opened
from strictreply.wires._responses import RESPONSES, is_response

Api: TypeAlias = Literal["chat", "responses"]


class Assembly(Protocol):
    """Puts the events of one stream together.

    ``fault`` is the first thing in them that is not what the API sends, None while there is none. ``is_done`` says that
    the stream said it is at its end, ``is_over`` that nothing more of it is to be read. ``size`` counts the characters
    of its texts. ``delta`` is what the last event added, as a delta of the message; ``is_text_alone`` says that the
    event holds nothing but text of an answer, or nothing of the reply; ``is_piece`` that it is one more piece of a text
    or of arguments, and only that piece of it is kept.
    """

    fault: Issue | None
    is_done: bool
    is_over: bool
    size: int
    delta: JSONObject
    is_text_alone: bool
    is_piece: bool

    def add(self, chunk: JSON) -> None:
        """Take one event."""

    def refuse(self, code: Code, path: str, **words: str) -> None:
        """Report a fault; the first one counts."""

    def response(self, *, is_whole: bool = True) -> JSONObject:
        """Return the response that the events make; without its end, or not ``is_whole``, as one broken off."""
        ...


class SentSoFar(Protocol):
    """What of a reply has been passed on to a caller as events."""

    @property
    def text(self) -> str:
        """The text of the answer that was passed on."""
        ...

    def add(self, event: JSON) -> None:
        """Take an event that is passed on."""

    def rest(self, response: JSONObject, came: JSONObject | None) -> Iterator[JSONObject]:
        """Yield the events that are left of an accepted response, which is one with the text that was passed on.

        ``came`` is the response as it came where that text is of the same stream, None where an earlier one had it.
        """
        ...


class Wire(Protocol):
    """One API; ``name`` is what ``api=`` says.

    ``resource`` is where the openai SDK has it, ``path`` where requests go, ``sdk_types`` its module and its classes of
    a response and of an event. ``usage`` names the three counts of tokens. ``ends_with_done`` says that streams
    end with ``[DONE]``.
    """

    name: str
    resource: str
    path: str
    sdk_types: tuple[str, str, str]
    usage: UsageNames
    ends_with_done: bool

    def read(self, request: JSONObject) -> JSONObject:
        """Return the keywords of a request in the form that is worked with."""
        ...

    def written(self, request: JSONObject) -> JSONObject:
        """Return a request as the API takes it."""
        ...

    def keeps_replies(self, request: JSONObject) -> bool:
        """Return whether the server keeps every reply as it came: none is then put together of several."""
        ...

    def streamed(self, request: JSONObject) -> JSONObject:
        """Return what has to be added to a request for a stream to tell its usage."""
        ...

    def opened(self, response: object, needs_nothing: NeedsNothing | None = None) -> Opened | Invalid:
        """Find the one message to judge, or say why the response holds none fit to be judged."""
        ...

    def message_in(self, response: JSON) -> JSONObject | None:
        """Find the message of a response, however it ended; None when there is none."""
        ...

    def with_message(self, response: JSONObject, message: JSONObject) -> JSONObject:
        """Return a response with another message in it, as if it had come so."""
        ...

    def reasons(self, response: JSON) -> list[str]:
        """Return the words in which a response says how it ended."""
        ...

    def assembly(self) -> Assembly:
        """Return what puts the events of one stream together."""
        ...

    def sent(self, *, usage: bool) -> SentSoFar:
        """Return what knows how much of a reply has been passed on; ``usage`` says that the usage is wanted."""
        ...


WIRES: Mapping[str, Wire] = {"chat": CHAT, "responses": RESPONSES}


def wire_named(api: object) -> Wire:
    """Return the wire that ``api=`` names; ContractError for any other word."""
    if not isinstance(api, str) or api not in WIRES:
        raise ContractError(f"api must be one of {', '.join(WIRES)}")
    return WIRES[api]


def wire_of(response: object) -> Wire:
    """Return the wire that a response came by, as far as it shows."""
    return RESPONSES if is_response(response) else CHAT


def wire_for(request: Mapping[str, object]) -> Wire:
    """Return the wire that a request is made for, as far as it shows."""
    return RESPONSES if "input" in request and "messages" not in request else CHAT


def is_whole(source: object) -> bool:
    """Return whether a client that is not the SDK's gave a whole response, as one that cannot stream does."""
    return isinstance(source, Mapping) or hasattr(source, "choices") or hasattr(source, "output")
