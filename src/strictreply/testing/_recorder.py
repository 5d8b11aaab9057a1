"""Recording: a copy of an SDK client whose traffic is written to a cassette while it passes, streams included."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from openai import AsyncOpenAI, OpenAI

from strictreply.reading._decoding import decode
from strictreply.testing._assembling import assembled
from strictreply.testing._cassettes import KEPT_HEADERS, Cassette, Taken
from strictreply.testing._recordings import LINE_LIMITS
from strictreply.testing._redaction import Redact
from strictreply.testing._wire import Ending, HTTPReply
from strictreply.testing.mounting import library_of
from strictreply.values._credentials import credentials_of
from strictreply.values._json import JSON, JSONObject

Client = TypeVar("Client", bound="OpenAI | AsyncOpenAI")

_RECORDED = "/chat/completions"
_DONE = re.compile(rb"^data: ?\[DONE\]\r?$", re.MULTILINE)
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")
_OK = 200


def record(client: Client, path: str | Path, *, redact: Redact | None = None) -> Client:
    """Give a copy of an ``OpenAI`` or ``AsyncOpenAI`` client that writes what passes through it to a cassette.

    A line is added to the file at ``path`` as the response to a chat completion ends, also when it broke off or was
    closed early; of a request only the body is kept, and no secret that can be told is written: ``redact`` is given
    every text for more. What else the client is used for is not recorded. Use it under :func:`strictreply.wrap`, an
    integration or alone; as with the SDK's ``with_options``, it shares the connections of the client it is a copy of,
    and closing one closes both.

    Raises TypeError for another client, OSError when the file cannot be written.
    """
    sdk: Any = client
    if not issubclass(type(sdk), OpenAI | AsyncOpenAI):
        raise TypeError(f"record() takes an OpenAI or AsyncOpenAI client, not {type(sdk).__name__}; wrap its copy")
    cassette = Cassette(path, redact=redact)
    cassette.make()
    given: Client = sdk.with_options(http_client=_recording(sdk._client, cassette))  # noqa: SLF001 - it has no other name
    return given


def _recording(http: Any, cassette: Cassette) -> Any:
    """Make an HTTP client that sends through another one, and writes down what comes."""
    library: Any = library_of(http)
    defaults = {"headers": http.headers, "params": http.params, "cookies": http.cookies, "timeout": http.timeout}
    if isinstance(http, library.AsyncClient):
        stream = type("RecordedAsyncStream", (_AsyncTee, library.AsyncByteStream), {})
        sends: Any = type("AsyncRecorder", (_AsyncRecorder, library.AsyncBaseTransport), {})
        return library.AsyncClient(transport=sends(http, cassette, library, stream), **defaults)
    stream = type("RecordedStream", (_Tee, library.SyncByteStream), {})
    sends = type("Recorder", (_Recorder, library.BaseTransport), {})
    return library.Client(transport=sends(http, cassette, library, stream), **defaults)


class _Recorder:
    """A transport that sends through a client and hands the response on; with a base class of its library it is one."""

    def __init__(self, http: Any, cassette: Cassette, library: Any, stream: type[Any]) -> None:
        """Keep what sends, what writes, and the kind of stream that the library wants."""
        self._http, self._cassette, self._library, self._stream = http, cassette, library, stream

    def close(self) -> None:
        """Close the client that sends."""
        self._http.close()

    def handle_request(self, request: Any) -> Any:
        """Send a request; a connection that fails is a line too."""
        take = _Take(request, self._cassette, self._library)
        try:
            response = self._http.send(request, stream=True)
        except self._library.TransportError as error:
            take.failed(error)
            raise
        return take.handed_on(response, self._stream)


class _AsyncRecorder:
    """The async twin of :class:`_Recorder`."""

    def __init__(self, http: Any, cassette: Cassette, library: Any, stream: type[Any]) -> None:
        """Keep what sends, what writes, and the kind of stream that the library wants."""
        self._http, self._cassette, self._library, self._stream = http, cassette, library, stream

    async def aclose(self) -> None:
        """Close the client that sends."""
        await self._http.aclose()

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request; a connection that fails is a line too."""
        take = _Take(request, self._cassette, self._library)
        try:
            response = await self._http.send(request, stream=True)
        except self._library.TransportError as error:
            take.failed(error)
            raise
        return take.handed_on(response, self._stream)


class _Take:
    """One exchange while it passes: the pieces so far, and the line in the end, once."""

    def __init__(self, request: Any, cassette: Cassette, library: Any) -> None:
        """Remember the request; what is no chat completion is not written."""
        self.response: Any = None
        self.transport_error: type[Exception] = library.TransportError
        self._request = request
        self._cassette = cassette
        self._library = library
        self._pieces: list[bytes] = []
        self._done = not request.url.path.endswith(_RECORDED)

    def handed_on(self, response: Any, stream: type[Any]) -> Any:
        """Give the response that the caller reads, its body passing by here."""
        self.response = response
        if response.is_stream_consumed:
            return self._read_before()
        return self._library.Response(
            response.status_code, headers=response.headers, stream=stream(self), extensions=response.extensions
        )

    def _read_before(self) -> Any:
        """Give a response that a hook of the client's own has read."""
        headers = {name: value for name, value in self.response.headers.items() if name.lower() not in _OF_THE_WIRE}
        self.response = self._library.Response(
            self.response.status_code, headers=headers, content=self.response.content
        )
        self.piece(self.response.content)
        self.ended(Ending.WHOLE)
        return self.response

    def piece(self, piece: bytes) -> bytes:
        """Keep a piece of the body, and pass it on."""
        if not self._done:
            self._pieces.append(piece)
        return piece

    def failed(self, error: Exception) -> None:
        """Write the line of a response that a broken connection ended, or that never began."""
        timed_out = isinstance(error, self._library.TimeoutException)
        closed = isinstance(error, self._library.RemoteProtocolError)
        self.ended(Ending.HANG if timed_out else Ending.CUT if closed else Ending.RESET)

    def ended(self, ending: Ending, *, left: bool = False) -> None:
        """Write the line; only the first ending counts.

        With ``left`` it is the reader who closed the response: past an event stream's ``[DONE]`` it was whole all the
        same, before that nobody knows what the reply would have been.
        """
        if self._done:
            return
        self._done = True
        asked = decode(self._request.content, LINE_LIMITS)
        request: JSONObject = asked if isinstance(asked, dict) else {}
        reply = HTTPReply(ending=ending) if self.response is None else self._reply(ending)
        if left and _DONE.search(reply.body):
            reply, left = replace(reply, ending=Ending.WHOLE), False
        completion = None if left else completion_of(request, reply)
        self._cassette.add(Taken(request, completion, reply), secrets=credentials_of(self._request))

    def _reply(self, ending: Ending) -> HTTPReply:
        """Put the response together, its content encoding undone; bytes that cannot be decoded stay as they are."""
        headers = {name: value for name, value in self.response.headers.items() if name.lower() in KEPT_HEADERS}
        body = b"".join(self._pieces)
        encoding = headers.pop("content-encoding", "")
        try:
            body = self._library.Response(_OK, headers={"content-encoding": encoding}, content=body).content
        except self._library.DecodingError:
            headers["content-encoding"] = encoding
        return HTTPReply(self.response.status_code, headers, (body,), ending)


class _Tee:
    """The body of a response on its way to a sync reader."""

    def __init__(self, take: _Take) -> None:
        """Read for this exchange."""
        self._take = take

    def __iter__(self) -> Iterator[bytes]:
        """Give each piece as it came over the wire."""
        try:
            for piece in self._take.response.iter_raw():
                yield self._take.piece(piece)
        except self._take.transport_error as error:
            self._take.failed(error)
            raise
        self._take.ended(Ending.WHOLE)

    def close(self) -> None:
        """Close the response underneath at once: a server goes on generating for a reader who merely went away."""
        self._take.response.close()
        self._take.ended(Ending.CUT, left=True)


class _AsyncTee:
    """The async twin of :class:`_Tee`."""

    def __init__(self, take: _Take) -> None:
        """Read for this exchange."""
        self._take = take

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Give each piece as it came over the wire."""
        try:
            async for piece in self._take.response.aiter_raw():
                yield self._take.piece(piece)
        except self._take.transport_error as error:
            self._take.failed(error)
            raise
        self._take.ended(Ending.WHOLE)

    async def aclose(self) -> None:
        """Close the response underneath at once, as in the twin."""
        await self._take.response.aclose()
        self._take.ended(Ending.CUT, left=True)


def completion_of(request: JSONObject, reply: HTTPReply) -> JSON:
    """Read the completion that a response carries, put together where it was streamed.

    None when none came: an HTTP error, a body that is not strict JSON, events that were not asked for, or none though
    they were.
    """
    kind = next((value for name, value in reply.headers.items() if name.lower() == "content-type"), "")
    streamed = kind.partition(";")[0].strip().lower() == "text/event-stream"
    if reply.status != _OK or streamed != bool(request.get("stream")):
        return None
    value = assembled(reply.body) if streamed else decode(reply.body, LINE_LIMITS)
    return value if isinstance(value, dict | list) else None
