"""A loopback server of each API, which sends every :class:`HTTPReply`.

It can also send what an HTTP library would not send.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from socketserver import ThreadingTCPServer
from typing import Any, Self, cast

from strictreply.testing._serving import respond
from strictreply.testing._wire import (
    Control,
    HTTPReply,
    Responder,
    WireEnding,
    ending_of,
    error_reply,
    wire,
)

MAX_BODY_BYTES = 8_000_000
POLL_SECONDS = 0.05
IDLE_SECONDS = 60.0
_READ_BYTES = 65_536


class LoopbackServer:
    """Serves a responder over HTTP on loopback; a context manager.

    It serves from a thread while it is open. The port is bound immediately; connections are refused
    until the server is opened. Closing it ends all connections for good.

    - ``responder`` answers the requests. It may be called from several threads; its exceptions
      become a 500.
    - ``host`` is a loopback address.
    - ``port`` 0 uses a free port.
    - ``log`` is called with one line for each request; None for no log.
    - ``patience`` is how many seconds a response that hangs, pauses or never ends may keep its
      connection.
    - ``control`` answers in place of the responder, and also gets the path and the headers; None
      for the responder only.

    Raises ValueError when ``host`` is not loopback, OSError when the port cannot be bound.
    """

    def __init__(
        self,
        responder: Responder,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log: Callable[[str], None] | None = None,
        patience: float = 30.0,
        control: Control | None = None,
    ) -> None:
        if not is_loopback(host):
            raise ValueError(f"the server binds to loopback only, such as 127.0.0.1; got {host!r}")

        address = "127.0.0.1" if host == "localhost" else host
        answer = partial(control or respond, responder)
        self._server = _Server((address, port), answer, log, patience)
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The bound port."""
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        """The ``base_url`` of an ``OpenAI`` or ``Anthropic`` client, ending in ``/v1``."""
        host = str(self._server.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"

    def __enter__(self) -> Self:
        self._server.server_activate()
        serve = partial(self._server.serve_forever, POLL_SECONDS)
        self._thread = threading.Thread(target=serve, name="strictreply-loopback", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()

        self._server.server_close()

    def serve_forever(self, ready: Callable[[], object] = lambda: None) -> None:
        """Serve in this thread until KeyboardInterrupt, which is not caught.

        ``ready`` is called at the start.
        """
        try:
            self._server.server_activate()
            ready()
            self._server.serve_forever(POLL_SECONDS)
        finally:
            self._server.server_close()


def is_loopback(host: str) -> bool:
    """Report whether a host name or address reaches only this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class _Server(ThreadingTCPServer):
    """The listening socket.

    It is not a ``ThreadingHTTPServer``, which looks up its own name and so may use the network.
    """

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False  # a responder that is still working must not delay the end
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        answer: Callable[[str, str, bytes, Mapping[str, str]], HTTPReply],
        log: Callable[[str], None] | None,
        patience: float,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.answer = answer
        self.log = log
        self.patience = patience

        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, _Handler, bind_and_activate=False)

        try:
            self.server_bind()
        except OSError:
            self.server_close()
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Free the port, and end every connection.

        The handler of a connection then sees that the client left.
        """
        super().server_close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):  # the other side may have closed it
                    connection.shutdown(socket.SHUT_RDWR)

    # the signature of socketserver
    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        if self.log is not None:
            self.log("a connection broke")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        reply = self._read_body()
        if not isinstance(reply, HTTPReply):
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = self._owner.answer(self.command, self.path, reply, headers)
        self._send(reply)

    # names of http.server
    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_GET  # noqa: N815

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        self.close_connection = True
        self._send(error_reply(code, message or explain or HTTPStatus(code).phrase))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        if self._owner.log is not None:
            self._owner.log(format % args)

    @property
    def _owner(self) -> _Server:
        return cast("_Server", self.server)

    def _read_body(self) -> bytes | HTTPReply:
        """Read the body, or refuse it; a body that is not read ends the connection."""
        declared = self.headers.get("Content-Length")
        if declared is None and "Transfer-Encoding" not in self.headers:
            return b""

        self.close_connection = True
        if declared is None:
            return error_reply(411, "send the body with a Content-Length")
        if not (declared.isascii() and declared.isdigit()):
            return error_reply(400, "Content-Length must be a number")
        if len(declared) > len(str(MAX_BODY_BYTES)) or int(declared) > MAX_BODY_BYTES:
            return error_reply(413, f"the body may have at most {MAX_BODY_BYTES} bytes")

        body = self.rfile.read(int(declared))
        self.close_connection = self.headers.get("Connection", "").lower() == "close"
        return body

    def _send(self, reply: HTTPReply) -> None:
        """Send a response until the client leaves or ``patience`` is over.

        Only a whole response without pauses keeps the connection open.
        """
        self.log_request(reply.status)
        ending = ending_of(reply)
        pauses = not all(isinstance(part, bytes) for part in reply.parts)
        if pauses or ending is not WireEnding.WHOLE:
            self.close_connection = True

        until = time.monotonic() + self._owner.patience
        for part in wire(reply, close=self.close_connection, bodiless=self.command == "HEAD"):
            left = until - time.monotonic()
            if left <= 0 or not (isinstance(part, bytes) or self._wait(min(part.seconds, left))):
                self.close_connection = True
                return

            if isinstance(part, bytes):
                self.connection.settimeout(left)
                self.wfile.write(part)

        self.connection.settimeout(IDLE_SECONDS)

        if ending is WireEnding.HANG:
            self._wait(self._owner.patience)
        if ending is WireEnding.RESET:
            # so that the kernel sends a reset, without an orderly end before it
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()  # it keeps the socket open
            self.connection.close()

    def _wait(self, seconds: float) -> bool:
        """Wait; return False as soon as the client leaves or the server is closed."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.connection.settimeout(left)
            with suppress(TimeoutError):
                # further bytes of the client are for a connection that will close
                if not self.connection.recv(_READ_BYTES):
                    return False

        return True
