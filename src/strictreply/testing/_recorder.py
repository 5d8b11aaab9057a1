"""Recording: a copy of an SDK client whose traffic is written to a cassette while it passes, streams included."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from openai import AsyncOpenAI, OpenAI

from strictreply.reading._decoding import decode
from strictreply.testing._cassettes import KEPT_HEADERS, Cassette, Taken
from strictreply.testing._event_streams import assembled
from strictreply.testing._recordings import LINE_LIMITS
from strictreply.testing._redaction import RedactText
from strictreply.testing._wire import HTTPReply, WireEnding
from strictreply.testing.mounting import library_of
from strictreply.values._attempts import credentials_of
from strictreply.values._json import JSON, JSONObject

Client = TypeVar("Client", bound="OpenAI | AsyncOpenAI")

_RECORDED = "/chat/completions"
_DONE = re.compile(rb"^data: ?\[DONE\]\r?$", re.MULTILINE)
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")
_OK = 200


def record(client: Client, path: str | Path, *, redact: RedactText | None = None) -> Client:
    """Return a copy of an ``OpenAI`` or ``AsyncOpenAI`` client that writes what passes through it to a cassette.

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
    """Make an HTTP client that sends through another one, and records what comes."""
    library: Any = library_of(http)
    kind: Any = type("Recorder", (_Recorder, library.BaseTransport, library.AsyncBaseTransport), {})
    made = library.AsyncClient if isinstance(http, library.AsyncClient) else library.Client
    defaults = {"headers": http.headers, "params": http.params, "cookies": http.cookies, "timeout": http.timeout}
    return made(transport=kind(http, cassette, library), **defaults)


class _Recorder:
    """A transport that sends through a sync or an async client; the base classes of its library make it one."""

    def __init__(self, http: Any, cassette: Cassette, library: Any) -> None:
        self._http, self._cassette, self._library = http, cassette, library
        self._take = type("RecordedStream", (_Take, library.SyncByteStream, library.AsyncByteStream), {})

    def close(self) -> None:
        self._http.close()

    async def aclose(self) -> None:
        await self._http.aclose()

    def handle_request(self, request: Any) -> Any:
        take = self._take(request, self._cassette, self._library)
        with take.watching():
            return take.handed_on(self._http.send(request, stream=True))

    async def handle_async_request(self, request: Any) -> Any:
        take = self._take(request, self._cassette, self._library)
        with take.watching():
            return take.handed_on(await self._http.send(request, stream=True))


class _Take:
    """One exchange while it passes, as the stream of the response's body: the pieces so far, one line in the end."""

    def __init__(self, request: Any, cassette: Cassette, library: Any) -> None:
        self._request = request
        self._cassette = cassette
        self._library = library
        self._response: Any = None
        self._pieces: list[bytes] = []
        self._done = not request.url.path.endswith(_RECORDED)  # what is no chat completion is not written

    def handed_on(self, response: Any) -> Any:
        """Return the response that the caller reads, its body passing by here."""
        self._response = response
        if not response.is_stream_consumed:
            return self._library.Response(
                response.status_code, headers=response.headers, stream=self, extensions=response.extensions
            )
        # A hook of the client's own has read the body: it is decoded.
        headers = {name: value for name, value in response.headers.items() if name.lower() not in _OF_THE_WIRE}
        self._response = self._library.Response(response.status_code, headers=headers, content=response.content)
        self._pieces.append(response.content)
        self._ended(WireEnding.WHOLE)
        return self._response

    def __iter__(self) -> Iterator[bytes]:
        with self.watching():
            for piece in self._response.iter_raw():
                if not self._done:
                    self._pieces.append(piece)
                yield piece
        self._ended(WireEnding.WHOLE)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with self.watching():
            async for piece in self._response.aiter_raw():
                if not self._done:
                    self._pieces.append(piece)
                yield piece
        self._ended(WireEnding.WHOLE)

    def close(self) -> None:
        """Close the response underneath at once: a server goes on generating for a reader who merely went away."""
        self._response.close()
        self._ended(WireEnding.CUT, left=True)

    async def aclose(self) -> None:
        await self._response.aclose()
        self._ended(WireEnding.CUT, left=True)

    @contextlib.contextmanager
    def watching(self) -> Generator[None, None, None]:
        """Write the line of a response that a broken connection ends, or that never begins."""
        try:
            yield
        except self._library.TransportError as error:
            timed_out = isinstance(error, self._library.TimeoutException)
            closed = isinstance(error, self._library.RemoteProtocolError)
            self._ended(WireEnding.HANG if timed_out else WireEnding.CUT if closed else WireEnding.RESET)
            raise

    def _ended(self, ending: WireEnding, *, left: bool = False) -> None:
        """Write the line; only the first ending counts.

        With ``left`` it is the reader who closed the response: past an event stream's ``[DONE]`` it was whole all the
        same, before that nobody knows what the reply would have been. A content encoding is undone where it can be.
        """
        if self._done:
            return
        self._done = True
        asked = decode(self._request.content, LINE_LIMITS)
        request: JSONObject = asked if isinstance(asked, dict) else {}
        reply = HTTPReply(ending=ending)
        if self._response is not None:
            headers = {name: text for name, text in self._response.headers.items() if name.lower() in KEPT_HEADERS}
            body, encoding = b"".join(self._pieces), {"content-encoding": headers.pop("content-encoding", "")}
            try:
                body = self._library.Response(_OK, headers=encoding, content=body).content
            except self._library.DecodingError:
                headers |= encoding
            reply = HTTPReply(self._response.status_code, headers, (body,), ending)
        if left and _DONE.search(reply.body):
            reply, left = replace(reply, ending=WireEnding.WHOLE), False
        completion = None if left else completion_of(request, reply)
        self._cassette.add(Taken(request, completion, reply), secrets=credentials_of(self._request))


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
