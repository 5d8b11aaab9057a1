"""Record a live model as JSON lines without secrets.

``strictreply check`` validates the lines.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import stat
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

from strictreply.batch.lines import LINE_LIMITS
from strictreply.core import JSON, JSONObject, decode
from strictreply.core.calls import credentials_of
from strictreply.core.forms import BROKEN_OFF
from strictreply.testing._recordings import (
    Redaction,
    RedactText,
)
from strictreply.testing._serving import assembled, writer_named
from strictreply.testing._wire import HTTPReply, WireEnding
from strictreply.testing.mounting import library_of
from strictreply.wires import wire_of


class _Copied(Protocol):
    """The parts of an SDK client that recording uses."""

    def with_options(self) -> object: ...


Client = TypeVar("Client", bound=_Copied)

_CLIENTS = {
    ("openai", "OpenAI"),
    ("openai", "AsyncOpenAI"),
    ("anthropic", "Anthropic"),
    ("anthropic", "AsyncAnthropic"),
}
"""The packages and names of the clients that can be recorded; derived classes too."""

# The response headers that are recorded; no request header is.
KEPT_HEADERS = frozenset(
    {"content-type", "content-encoding", "retry-after", "retry-after-ms", "date"}
)
_RECORDED = ("/chat/completions", "/responses", "/v1/messages")
_DONE = re.compile(
    rb"^(?:data: ?\[DONE\]|event: ?(?:message_stop|response\.(?:completed|incomplete|failed)))\r?$",
    re.MULTILINE,
)
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")
_OK = 200
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """One request, its reply, and the completion in the reply.

    For a stream, ``completion`` is assembled; it is None when there is no completion.
    """

    request: JSONObject
    completion: JSON
    reply: HTTPReply

    def to_dict(self) -> JSONObject:
        """Return the line as JSON.

        It has the body only if the completion does not contain everything, in base64 if it is not
        text.
        """
        http: JSONObject = {"status": self.reply.status, "headers": dict(self.reply.headers)}
        is_plain = (
            self.reply.status == _OK
            and not self.request.get("stream")
            and self.reply.ending is WireEnding.WHOLE
        )

        if not (is_plain and isinstance(self.completion, dict)):
            http["ending"] = self.reply.ending.value
            try:
                http["body"] = self.reply.body.decode()
            except UnicodeDecodeError:
                http["body_base64"] = base64.b64encode(self.reply.body).decode()

        return {"request": self.request, "response": self.completion, "http": http}

    def redacted(self, redaction: Redaction) -> RecordedExchange:
        """Return the exchange without secrets.

        A stream with a secret in its reply, even in pieces, is written anew.
        """
        message = assembled(self.reply.body) if self.request.get("stream") else None
        redacted = redaction.value(message)

        if redacted == message:
            text = self.reply.body.decode("utf-8", "surrogateescape")
            body = redaction.text(text).encode("utf-8", "surrogateescape")
        else:
            usage = isinstance(redacted, dict) and "usage" in redacted
            writer = writer_named(wire_of(redacted).name)
            parts = writer.stream(redacted, {"stream_options": {"include_usage": usage}})

            match redacted:  # a stream that was cut off stays without an end
                case {"output": _, "status": status} if status == BROKEN_OFF:
                    parts = parts[:-1]
                case {"choices": [*_, {"finish_reason": reason}]} if reason == BROKEN_OFF:
                    parts = parts[:-2]
                case {"stop_reason": reason} if reason == BROKEN_OFF:
                    parts = parts[:-2]
                case _:
                    pass

            body = b"".join(parts)

        headers = {name: redaction.text(value) for name, value in self.reply.headers.items()}
        reply = replace(self.reply, headers=headers, parts=(body,) if body else ())
        return RecordedExchange(
            redaction.value(self.request), redaction.value(self.completion), reply
        )


class RecordingFile:
    """A file of recorded exchanges.

    Each line is added completely or not at all, from any thread. Texts that look like secrets are
    not written; then ``redact`` gets every text of a line, to remove more. Only the owner may read
    and write the file (0600).
    """

    def __init__(self, path: str | Path, *, redact: RedactText | None = None) -> None:
        self.path: Path = Path(path)
        self._redaction = Redaction(redact)
        self._lock = threading.Lock()

    def add(self, exchange: RecordedExchange, *, secrets: tuple[str, ...] = ()) -> None:
        """Write one line without these secrets; later lines do not have them either."""
        self._redaction = redaction = self._redaction.knowing(secrets)
        line = json.dumps(exchange.redacted(redaction).to_dict(), ensure_ascii=False) + "\n"
        # One write at the end of the file keeps the lines of several processes whole.
        with self._lock, self._opened() as file:
            file.write(line.encode("utf-8", "backslashreplace"))

    def make(self) -> None:
        """Make the file, empty, if it does not exist; OSError when it cannot be written."""
        self._opened().close()

    def _opened(self) -> io.FileIO:
        """Open the file to add to it.

        From now on only its owner may read it, because it contains prompts.
        """
        file = io.FileIO(
            str(self.path), "a", opener=lambda path, flags: os.open(path, flags, _PRIVATE)
        )
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and hasattr(os, "fchmod"):
            with contextlib.suppress(PermissionError):  # another user's file that we may write to
                os.fchmod(file.fileno(), _PRIVATE)
        return file


def record(client: Client, path: str | Path, *, redact: RedactText | None = None) -> Client:
    """Return a copy of an SDK client that records its calls in a file.

    Each call of an API adds one line of JSON when its response ends, also if the response broke off
    or was closed early. Texts that look like secrets are removed.

    - ``client`` is an ``OpenAI``, ``AsyncOpenAI``, ``Anthropic`` or ``AsyncAnthropic`` client.
    - ``path`` is the file; lines are added to its end.
    - ``redact`` is a function that gets every text and returns it without further secrets; None
      removes no more.

    The copy shares the connections of ``client``, like the SDK's ``with_options``: closing one
    closes both.

    Raises TypeError for another client, OSError when the file cannot be written.
    """
    sdk: Any = client
    bases = {(base.__module__.partition(".")[0], base.__name__) for base in type(sdk).__mro__}
    if bases.isdisjoint(_CLIENTS):
        raise TypeError(
            "record() takes an OpenAI, AsyncOpenAI, Anthropic or AsyncAnthropic client, "
            f"not {type(sdk).__name__}; wrap its copy"
        )

    file = RecordingFile(path, redact=redact)
    file.make()
    http: Any = sdk._client  # noqa: SLF001 - it has no other name
    library: Any = library_of(http)
    kind: Any = type("Recorder", (_Recorder, library.BaseTransport, library.AsyncBaseTransport), {})

    made = library.AsyncClient if isinstance(http, library.AsyncClient) else library.Client
    defaults = {name: getattr(http, name) for name in ("headers", "params", "cookies", "timeout")}
    recorder = kind(http, file, library)
    given: Client = sdk.with_options(http_client=made(transport=recorder, **defaults))
    return given


class _Recorder:
    """A transport that sends through a sync or an async client.

    The base classes of the client's library are added to it.
    """

    def __init__(self, http: Any, file: RecordingFile, library: ModuleType) -> None:
        self._http = http
        self._file = file
        self._library = library
        self._take = type(
            "RecordedStream", (_Take, library.SyncByteStream, library.AsyncByteStream), {}
        )

    def close(self) -> None:
        self._http.close()

    async def aclose(self) -> None:
        await self._http.aclose()

    def handle_request(self, request: Any) -> Any:
        take = self._take(request, self._file, self._library)
        with take.watching():
            return take.handed_on(self._http.send(request, stream=True))

    async def handle_async_request(self, request: Any) -> Any:
        take = self._take(request, self._file, self._library)
        with take.watching():
            return take.handed_on(await self._http.send(request, stream=True))


class _Take:
    """One exchange in progress, as the stream of the response's body.

    It collects the chunks while the caller reads them, and writes one line at the end.
    """

    def __init__(self, request: Any, file: RecordingFile, library: ModuleType) -> None:
        self._request = request
        self._file = file
        self._library = library
        self._response: Any = None
        self._pieces: list[bytes] = []
        # a response that is not a reply is not written
        self._done = not request.url.path.endswith(_RECORDED)

    def handed_on(self, response: Any) -> Any:
        """Return the response that the caller reads, with this stream as its body."""
        self._response = response
        if not response.is_stream_consumed:
            passed = {
                "headers": response.headers,
                "stream": self,
                "extensions": response.extensions,
            }
            return self._library.Response(response.status_code, **passed)

        # A hook of the client has already read the body, so it is decoded.
        headers = {
            name: value
            for name, value in response.headers.items()
            if name.lower() not in _OF_THE_WIRE
        }
        self._response = self._library.Response(
            response.status_code, headers=headers, content=response.content
        )
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
        """Close the response immediately.

        Otherwise a server could go on generating for a reader that left.
        """
        self._response.close()
        self._ended(WireEnding.CUT, left=True)

    async def aclose(self) -> None:
        await self._response.aclose()
        self._ended(WireEnding.CUT, left=True)

    @contextlib.contextmanager
    def watching(self) -> Generator[None, None, None]:
        """Write the line of a response that breaks off or never begins."""
        try:
            yield
        except self._library.TransportError as error:
            if isinstance(error, self._library.TimeoutException):
                ending = WireEnding.HANG
            elif isinstance(error, self._library.RemoteProtocolError):
                ending = WireEnding.CUT
            else:
                ending = WireEnding.RESET

            self._ended(ending)
            raise

    def _ended(self, ending: WireEnding, *, left: bool = False) -> None:
        """Write the line; only the first ending counts.

        ``left`` says that the reader closed the response.
        """
        if self._done:
            return

        self._done = True
        asked = decode(self._request.content, LINE_LIMITS)
        request: JSONObject = asked if isinstance(asked, dict) else {}
        reply = HTTPReply(ending=ending)

        if self._response is not None:
            headers = {
                name: text
                for name, text in self._response.headers.items()
                if name.lower() in KEPT_HEADERS
            }
            encoding = {"content-encoding": headers.pop("content-encoding", "")}

            body = b"".join(self._pieces)
            try:
                body = self._library.Response(_OK, headers=encoding, content=body).content
            except self._library.DecodingError:
                headers |= encoding

            reply = HTTPReply(self._response.status_code, headers, (body,), ending)

        # after the last event a stream counts as whole
        if left and _DONE.search(reply.body):
            reply = replace(reply, ending=WireEnding.WHOLE)
            left = False

        completion = None if left else completion_of(request, reply)
        exchange = RecordedExchange(request, completion, reply)
        self._file.add(exchange, secrets=credentials_of(self._request))


def completion_of(request: JSONObject, reply: HTTPReply) -> JSON:
    """Return the completion in a response, also of a stream.

    None if the response has no completion in the requested form.
    """
    kinds = (value for name, value in reply.headers.items() if name.lower() == "content-type")
    kind = next(kinds, "")
    streamed = kind.partition(";")[0].strip().lower() == "text/event-stream"
    if reply.status != _OK or streamed != bool(request.get("stream")):
        return None

    value = assembled(reply.body) if streamed else decode(reply.body, LINE_LIMITS)
    return value if isinstance(value, dict | list) else None
