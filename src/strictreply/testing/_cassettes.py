"""Recordings of a live model as JSON lines.

They are written without secrets, read as steps of a script, and judged.
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
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from openai import AsyncOpenAI, OpenAI

from strictreply.batch._results import LINE_LIMITS, open_lines
from strictreply.contract._contract import SHAPING
from strictreply.reading._decoding import decode
from strictreply.testing._event_streams import as_chat_request, assembled, events, response_events
from strictreply.testing._recordings import (
    REDACTED,
    RecordedVerdict,
    RecordingJudge,
    Redaction,
    RedactText,
)
from strictreply.testing._steps import Fault, Kind, ReplyPlace, Step, spelled
from strictreply.testing._wire import HTTPReply, Responder, Served, WireEnding, error_reply
from strictreply.testing.mounting import library_of
from strictreply.values._limits import JSON, JSONObject
from strictreply.values._replies import Invalid, credentials_of
from strictreply.wires import wire_for
from strictreply.wires._chat_stream import BROKEN_OFF
from strictreply.wires._members import peek
from strictreply.wires._responses import RESPONSES, is_response

Client = TypeVar("Client", bound="OpenAI | AsyncOpenAI")

# The headers of a response that are kept; no header of a request is.
KEPT_HEADERS = frozenset(
    {"content-type", "content-encoding", "retry-after", "retry-after-ms", "date"}
)
# The kinds of faults by the first word of an issue's code.
_KINDS = {kind.value: kind for kind in Kind} | {"call": Kind.TOOL, "reply": Kind.FINISH}
_RECORDED = ("/chat/completions", "/responses")
_DONE = re.compile(
    rb"^(?:data: ?\[DONE\]|event: ?response\.(?:completed|incomplete|failed))\r?$", re.MULTILINE
)
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")
_same = partial(json.dumps, sort_keys=True)  # equal for requests that are the same
_OK = 200
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class Taken:
    """One request, its reply, and the completion in the reply.

    ``completion`` is put together where it was streamed; None when there is no completion.
    """

    request: JSONObject
    completion: JSON
    reply: HTTPReply

    def to_dict(self) -> JSONObject:
        """Return the line as JSON; a body that is not text is in base64."""
        http: JSONObject = {"status": self.reply.status, "headers": dict(self.reply.headers)}
        if self.served is self.reply:
            http["ending"] = self.reply.ending.value
            try:
                http["body"] = self.reply.body.decode()
            except UnicodeDecodeError:
                http["body_base64"] = base64.b64encode(self.reply.body).decode()

        return {"request": self.request, "response": self.completion, "http": http}

    @classmethod
    def from_dict(cls, line: JSONObject) -> Taken:
        """Read a line; ValueError or TypeError when it is not a line of a cassette."""
        request = line.get("request")
        http = line.get("http")
        if not isinstance(request, dict) or not isinstance(http, dict):
            words = "a cassette's line holds 'request', 'response' and 'http'"
            raise ValueError(words)  # noqa: TRY004 - a file's content

        headers = {str(name): str(value) for name, value in dict(http.get("headers") or {}).items()}
        packed = http.get("body_base64")
        text = str(http.get("body", ""))
        body = text.encode() if packed is None else base64.b64decode(str(packed), validate=True)

        ending = WireEnding(http.get("ending", "whole"))
        reply = HTTPReply(int(http.get("status", _OK)), headers, (body,) if body else (), ending)
        return cls(request, line.get("response"), reply)

    def redacted(self, redaction: Redaction) -> Taken:
        """Return what may be written of this exchange.

        A stream whose reply holds a secret, perhaps in pieces, is written anew.
        """
        said = assembled(self.reply.body) if self.request.get("stream") else None
        kept = redaction.value(said)

        if kept == said:
            text = self.reply.body.decode("utf-8", "surrogateescape")
            body = redaction.text(text).encode("utf-8", "surrogateescape")
        else:
            usage = isinstance(kept, dict) and "usage" in kept
            parts = response_events(kept) if is_response(kept) else events(kept, usage=usage)

            match kept:  # a stream that broke off still has no end
                case {"output": _, "status": status} if status == BROKEN_OFF:
                    parts = parts[:-1]
                case {"choices": [*_, {"finish_reason": reason}]} if reason == BROKEN_OFF:
                    parts = parts[:-2]
                case _:
                    pass

            body = b"".join(parts)

        headers = {name: redaction.text(value) for name, value in self.reply.headers.items()}
        reply = replace(self.reply, headers=headers, parts=(body,) if body else ())
        return Taken(redaction.value(self.request), redaction.value(self.completion), reply)

    @property
    def served(self) -> Served:
        """What to serve: the completion where it came whole and plain, else the bytes."""
        plain = (
            self.reply.status == _OK
            and not self.request.get("stream")
            and self.reply.ending is WireEnding.WHOLE
        )
        return self.completion if plain and isinstance(self.completion, dict) else self.reply

    @property
    def asked(self) -> JSONObject:
        """The request in the form of chat completions, whichever API it went by."""
        if wire_for(self.request) is RESPONSES:
            return as_chat_request(self.request)
        return self.request

    @property
    def place(self) -> ReplyPlace:
        """Where the reply was written: in a call, as the JSON that was asked for, or as text."""
        if peek(wire_for(self.request).message_in(self.completion), "tool_calls"):
            return "call"
        return "json" if self.asked.get("response_format") else "prose"


class Cassette:
    """A file of recorded exchanges.

    Lines are added as they come, whole or not at all, from any thread. What looks like a secret is
    not written, nor are ``secrets``; after that ``redact`` is given every text of a line, to take
    out more. Only its owner may read and write the file (0600).
    """

    def __init__(
        self, path: str | Path, *, redact: RedactText | None = None, secrets: tuple[str, ...] = ()
    ) -> None:
        self.path: Path = Path(path)
        self._redaction = Redaction(redact).knowing(secrets)
        self._lock = threading.Lock()

    def add(self, taken: Taken, *, secrets: tuple[str, ...] = ()) -> None:
        """Write one line without these secrets; no later line holds them either."""
        self._redaction = redaction = self._redaction.knowing(secrets)
        line = json.dumps(taken.redacted(redaction).to_dict(), ensure_ascii=False) + "\n"
        # In one write to the end of the file, so that the lines of several processes stay whole.
        with self._lock, self._opened() as file:
            file.write(line.encode("utf-8", "backslashreplace"))

    def make(self) -> None:
        """Make the file, empty, unless it is there; OSError when it cannot be written."""
        self._opened().close()

    def _opened(self) -> io.FileIO:
        """Open the file to add to it.

        Whatever its mode was, from now on only its owner may read it: it holds prompts.
        """
        file = io.FileIO(
            str(self.path), "a", opener=lambda path, flags: os.open(path, flags, _PRIVATE)
        )
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and hasattr(os, "fchmod"):
            with contextlib.suppress(PermissionError):  # another's file that we may write to
                os.fchmod(file.fileno(), _PRIVATE)
        return file

    def __iter__(self) -> Iterator[Taken]:
        """Read the lines.

        Raises ValueError, which names the first line that cannot be read, or OSError when there is
        no file.
        """
        return (taken for _, _, taken in self._lines())

    @property
    def steps(self) -> list[Step]:
        """Every recorded response as a step, in order."""
        path = str(self.path)
        return [
            Step(f"recorded[{number}]", taken.served, f"Cassette({path!r}).steps[{number - 1}]")
            for number, taken in enumerate(self, 1)
        ]

    def failures(self, tools: list[object] | None = None) -> list[Fault]:
        """Return the recorded replies that do not fit what their requests ask for.

        ``tools`` are used for requests that name none.
        """
        judge = RecordingJudge(tools)
        given = f"[{', '.join(spelled(tool) for tool in tools)}]" if tools else ""
        found: list[Fault] = []

        for index, (number, line, taken) in enumerate(self._lines(), 1):
            checked = judge.judge(number, line)
            if not (isinstance(checked, RecordedVerdict) and isinstance(checked.verdict, Invalid)):
                continue

            name = f"recorded[{index}]"
            source = f"Cassette({str(self.path)!r}).failures({given})[{len(found)}]"
            code = checked.verdict.issues[0].code
            # a user's own check is about the arguments
            kind = _KINDS.get(code.partition(".")[0], Kind.ARGS)
            asked = taken.asked
            needs = {word: asked[word] for word in SHAPING if asked.get(word) is not None}

            fault = Fault(name, taken.served, source, kind=kind, code=code, needs=needs)
            found.append(replace(fault, place=taken.place))

        return found

    def safe(self, value: Any) -> Any:
        """Return what may be written of a JSON value, such as a request."""
        return self._redaction.value(value)

    def _lines(self) -> Iterator[tuple[int, bytes, Taken]]:
        for number, line, _ in open_lines(self.path):
            value = decode(line, LINE_LIMITS)
            try:
                if isinstance(value, Invalid):
                    # a file's content, reported with its line
                    raise ValueError(value.issues[0].message)  # noqa: TRY004, TRY301
                taken = Taken.from_dict(value if isinstance(value, dict) else {})
            except (ValueError, TypeError) as error:
                raise ValueError(f"{self.path}, line {number}: {error}") from error

            yield number, line, taken


def replay(path: str | Path, *, redact: RedactText | None = None) -> Responder:
    """Serve a cassette: each request gets the response that was recorded for the same one.

    When a request was recorded several times its responses are served in order, and the last one is
    repeated. Requests are the same when their bodies are, after redaction: give the ``redact`` that
    the cassette was recorded with. A request that was not recorded is an HTTP 400 that names the
    members in which it differs from the nearest one. Raises ValueError when the file cannot be read
    as a cassette.
    """
    cassette = Cassette(path, redact=redact)
    waiting: dict[str, list[Served]] = {}
    known: dict[str, JSONObject] = {}

    for taken in cassette:
        key = _same(taken.asked)
        known[key] = taken.asked
        waiting.setdefault(key, []).append(taken.served)

    lock = threading.Lock()

    def respond(request: JSONObject) -> Served:
        safe = cassette.safe(request)
        with lock:
            recorded = waiting.get(_same(safe), [])
            if recorded:
                return recorded.pop(0) if len(recorded) > 1 else recorded[0]

        message = f"{cassette.path.name} has no recording of this request{_nearest(safe, known)}"
        return error_reply(400, message, code="not_recorded")

    return respond


def _nearest(request: JSONObject, known: Mapping[str, JSONObject]) -> str:
    if not known:
        return ": it is empty"

    asked, *others = (
        {name: _same(body[name]) for name in body} for body in (request, *known.values())
    )
    each = (
        [name for name in sorted(asked | other) if asked.get(name) != other.get(name)]
        for other in others
    )
    nearest: list[str] = min(each, key=len)

    words = f"; the nearest one differs in {', '.join(nearest)}"
    if any(REDACTED in key for key in known):
        words += "; its recordings are redacted: pass replay the redact= that it was recorded with"

    return words


def record(client: Client, path: str | Path, *, redact: RedactText | None = None) -> Client:
    """Return a copy of an ``OpenAI`` or ``AsyncOpenAI`` client that writes a cassette.

    A line is added as the response to a call of either API ends, also when it broke off or was
    closed early. What looks like a secret is left out; ``redact`` is given every text, to take out
    more. The copy shares the connections of its client, as with the SDK's ``with_options``: closing
    one closes both.

    Raises TypeError for another client, OSError when the file cannot be written.
    """
    sdk: Any = client
    if not issubclass(type(sdk), OpenAI | AsyncOpenAI):
        raise TypeError(
            "record() takes an OpenAI or AsyncOpenAI client, "
            f"not {type(sdk).__name__}; wrap its copy"
        )

    cassette = Cassette(path, redact=redact)
    cassette.make()
    http: Any = sdk._client  # noqa: SLF001 - it has no other name
    library: Any = library_of(http)
    kind: Any = type("Recorder", (_Recorder, library.BaseTransport, library.AsyncBaseTransport), {})

    made = library.AsyncClient if isinstance(http, library.AsyncClient) else library.Client
    defaults = {name: getattr(http, name) for name in ("headers", "params", "cookies", "timeout")}
    recorder = kind(http, cassette, library)
    given: Client = sdk.with_options(http_client=made(transport=recorder, **defaults))
    return given


class _Recorder:
    """A transport that sends through a sync or an async client.

    The base classes of the client's library, which are added to it, make it a transport.
    """

    def __init__(self, http: Any, cassette: Cassette, library: Any) -> None:
        self._http = http
        self._cassette = cassette
        self._library = library
        self._take = type(
            "RecordedStream", (_Take, library.SyncByteStream, library.AsyncByteStream), {}
        )

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
    """One exchange while it passes, as the stream of the response's body.

    It collects the pieces as they pass, and writes one line at the end.
    """

    def __init__(self, request: Any, cassette: Cassette, library: Any) -> None:
        self._request = request
        self._cassette = cassette
        self._library = library
        self._response: Any = None
        self._pieces: list[bytes] = []
        # what is not a reply is not written
        self._done = not request.url.path.endswith(_RECORDED)

    def handed_on(self, response: Any) -> Any:
        """Return the response that the caller reads, its body passing by here."""
        self._response = response
        if not response.is_stream_consumed:
            passed = {
                "headers": response.headers,
                "stream": self,
                "extensions": response.extensions,
            }
            return self._library.Response(response.status_code, **passed)

        # A hook of the client's own has read the body: it is decoded.
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
        """Close the response underneath at once.

        A server goes on generating for a reader who merely went away.
        """
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

        With ``left`` the reader closed the response.
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

        # past the last event of a stream it was whole all the same
        if left and _DONE.search(reply.body):
            reply = replace(reply, ending=WireEnding.WHOLE)
            left = False

        completion = None if left else completion_of(request, reply)
        self._cassette.add(Taken(request, completion, reply), secrets=credentials_of(self._request))


def completion_of(request: JSONObject, reply: HTTPReply) -> JSON:
    """Read the completion that a response carries, also a streamed one.

    None when no completion came in the form that was asked for.
    """
    kinds = (value for name, value in reply.headers.items() if name.lower() == "content-type")
    kind = next(kinds, "")
    streamed = kind.partition(";")[0].strip().lower() == "text/event-stream"
    if reply.status != _OK or streamed != bool(request.get("stream")):
        return None

    value = assembled(reply.body) if streamed else decode(reply.body, LINE_LIMITS)
    return value if isinstance(value, dict | list) else None
