"""An OpenAI-compatible Chat Completions server on loopback: HTTP and sockets, nothing of what is answered.

It speaks HTTP/1.1 with keep-alive and serves ``POST /v1/chat/completions``, ``GET /v1/models`` and ``GET /health``.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from socketserver import ThreadingTCPServer
from types import TracebackType
from typing import Any, Self, cast

from strictreply.demo.wire import HTTPReply, Responder, error_reply
from strictreply.typing import JSONObject

MAX_BODY_BYTES = 8_000_000
MODEL = "unreliable-1"
POLL_SECONDS = 0.05
IDLE_SECONDS = 60.0


class DemoServer:
    """Serves a responder over HTTP; a context manager that serves from a thread while it is open.

    ``responder`` gets the body of each request and may be called from several threads at once; whatever it raises
    becomes a 500. ``host`` must be a loopback address or ``localhost``; ``port`` 0 takes a free one. ``log`` gets one
    line a request; None keeps quiet.

    Raises ValueError when ``host`` is not loopback, OSError when the port cannot be bound. The port is bound at once,
    so ``base_url`` holds before the first request. Closed, it does not open again.
    """

    def __init__(
        self,
        responder: Responder,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log: Callable[[str], None] | None = None,
    ) -> None:
        """Bind the port; nothing is served yet."""
        self._server = _Server(_loopback(host), port, responder, log)
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The bound port."""
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        """What an ``OpenAI(base_url=…)`` takes, ending in ``/v1``."""
        host = str(self._server.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/v1"

    def __enter__(self) -> Self:
        """Serve from a daemon thread."""
        self._thread = threading.Thread(target=self._serve, name="strictreply-demo", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving and free the port."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def serve_forever(self) -> None:
        """Serve in this thread until it is interrupted; KeyboardInterrupt passes through, the port is freed."""
        try:
            self._serve()
        finally:
            self._server.server_close()

    def _serve(self) -> None:
        """Run the socket loop."""
        self._server.serve_forever(poll_interval=POLL_SECONDS)


def _loopback(host: str) -> str:
    """Give the address to bind; ValueError when others than this machine could reach it."""
    address = "127.0.0.1" if host == "localhost" else host
    try:
        local = ip_address(address).is_loopback
    except ValueError:
        local = False
    if not local:
        raise ValueError(f"the demo server binds to loopback only, such as 127.0.0.1; got {host!r}")
    return address


class _Server(ThreadingTCPServer):
    """The listening socket with what its handlers need.

    Not ``ThreadingHTTPServer``: that looks its own name up when it binds, which may ask the network.
    """

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False  # an idle keep-alive connection must not hold up the end
    request_queue_size = 128

    def __init__(self, host: str, port: int, responder: Responder, log: Callable[[str], None] | None) -> None:
        """Bind to a loopback address of either family."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.responder = responder
        self.log = log
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's signature
        """Say that a connection broke; the client has gone, so there is nobody to answer."""
        if self.log is not None:
            self.log("a connection broke")


class _Handler(BaseHTTPRequestHandler):
    """Reads one request after another from a connection and answers each with JSON."""

    protocol_version = "HTTP/1.1"
    server_version = "strictreply-demo"
    sys_version = ""
    timeout = IDLE_SECONDS
    wbufsize = -1  # head and body leave in one packet
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer a request of any method."""
        body = self._read_body()
        self._send(body if isinstance(body, HTTPReply) else self._route(body))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_GET  # noqa: N815 - http.server's names

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what http.server itself refuses in OpenAI's shape, not in HTML."""
        self.close_connection = True
        self._send(error_reply(code, message or explain or HTTPStatus(code).phrase))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Pass a line on to the log, if there is one."""
        if self._owner.log is not None:
            self._owner.log(format % args)

    @property
    def _owner(self) -> _Server:
        """The server that this connection came in by."""
        return cast("_Server", self.server)

    def _read_body(self) -> bytes | HTTPReply:
        """Read the body, or refuse it; a body left unread ends the connection."""
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

    def _route(self, body: bytes) -> HTTPReply:
        """Find what answers the path."""
        path = self.path.partition("?")[0]
        if path not in _METHODS:
            return error_reply(404, f"unknown path; known are {', '.join(_METHODS)}", code="unknown_url")
        if self.command != _METHODS[path]:
            allowed = {"Allow": _METHODS[path]}
            return error_reply(405, f"use {_METHODS[path]} here", code="method_not_allowed", headers=allowed)
        if path == "/health":
            return HTTPReply(200, {"status": "ok"})
        if path == "/v1/models":
            model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "strictreply"}
            return HTTPReply(200, {"object": "list", "data": [model]})
        return self._complete(body)

    def _complete(self, body: bytes) -> HTTPReply:
        """Let the responder answer one chat completion."""
        request = read_request(body)
        if isinstance(request, HTTPReply):
            return request
        try:
            answer = self._owner.responder(request)
        except Exception as error:  # noqa: BLE001 - the edge of the server: a failing responder is a 500
            return error_reply(500, f"the responder raised {type(error).__name__}", kind="server_error")
        return answer if isinstance(answer, HTTPReply) else HTTPReply(200, answer)

    def _send(self, reply: HTTPReply) -> None:
        """Write a whole response."""
        payload = json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)


_METHODS = {"/v1/chat/completions": "POST", "/v1/models": "GET", "/health": "GET"}


def read_request(body: bytes) -> JSONObject | HTTPReply:
    """Read the body of a chat completion, or give the 400 that says what is wrong with it."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        return error_reply(400, "the body is not valid JSON", code="invalid_json")
    if not isinstance(value, dict):
        return error_reply(400, "the body must be a JSON object", code="invalid_type")
    request = cast("JSONObject", value)
    if not isinstance(request.get("model"), str):
        return error_reply(400, "'model' must be a string", param="model", code="invalid_type")
    messages: object = request.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(turn, dict) for turn in messages):
        return error_reply(400, "'messages' must be a list of objects, at least one", param="messages")
    if request.get("stream"):
        return error_reply(400, "streaming is not served yet", param="stream", code="unsupported_value")
    return request
