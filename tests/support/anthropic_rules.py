"""A server of the Messages API on loopback, as strict as the API: what breaks a rule is a 400.

It signs the thinking that it sends, remembers it, and plays a script. A step of the script is the
content of a reply (a list of blocks), a whole message, an error (a body with ``"type": "error"``),
or a function that makes one of these of the request. Left out ids and signatures are filled in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from support.anthropic_judging import Model, Refusal, model_of
from support.anthropic_refusals import RULES, refusals
from support.anthropic_turns import THOUGHTS, History, JSONObject

__all__ = [
    "RULES",
    "History",
    "Model",
    "Refusal",
    "RulesServer",
    "events_of",
    "model_of",
    "refusals",
]

Reply = list[JSONObject] | JSONObject
Step = Reply | Callable[[JSONObject], Reply]

PIECE = 7
"""How many characters of a text or an input a delta of the stream holds."""

STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class RulesServer:
    """Answers what breaks no rule from a script, everything else 400.

    Within ``with`` it listens at ``url``, the base URL of a client; ``answer`` needs no socket.
    ``asked`` holds every body, ``sent`` the messages, ``refused`` why each refused request was. A
    request behind the end of the script is refused, too, as ``script``.
    """

    def __init__(self, *script: Step, model: Model | None = None) -> None:
        self.script = list(script)
        self.model = model if model is not None else Model()
        self.history = History()
        self.asked: list[JSONObject] = []
        self.sent: list[JSONObject] = []
        self.refused: list[Refusal] = []
        self._made = 0
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, path: str, body: JSONObject) -> tuple[int, str, bytes]:
        """Return status, content type and body for a request."""
        with self._lock:
            self.asked.append(body)
            reply = self._reply(path, body)
            is_error = reply["type"] == "error"
            if not is_error:
                self.sent.append(reply)
                self.history.remember(body, reply["content"], reply["stop_reason"])

        if is_error:
            return STATUSES[reply["error"]["type"]], "application/json", json.dumps(reply).encode()
        if body.get("stream"):
            return 200, "text/event-stream", b"".join(map(event_bytes, events_of(reply)))

        return 200, "application/json", json.dumps(reply).encode()

    def _reply(self, path: str, body: JSONObject) -> JSONObject:
        if path != "/v1/messages":
            return Refusal("path", f"Not found: {path}", "not_found_error").body

        broken = refusals(body, self.history, self.model)
        if not broken and not self.script:
            broken = [Refusal("script", "the script has no reply left")]
        if broken:
            self.refused.append(broken[0])
            return broken[0].body

        step = self.script.pop(0)
        made = step(body) if callable(step) else step
        whole = {"content": made} if isinstance(made, list) else made
        return whole if whole.get("type") == "error" else self._message(whole, body)

    def _message(self, reply: JSONObject, body: JSONObject) -> JSONObject:
        """Fill in what a script leaves out."""
        content = [self._named(block) for block in reply["content"]]
        calls = any(block["type"] == "tool_use" for block in content)
        self._made += 1
        return {
            "id": f"msg_{self._made:024}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "claude"),
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
            **reply,
            "content": content,
        }

    def _named(self, block: JSONObject) -> JSONObject:
        """Give a block the id or the signature that it lacks."""
        opaque = THOUGHTS.get(block["type"])
        self._made += 1
        if opaque:
            return {**block, opaque: block.get(opaque, f"EqQB{self._made:08}==")}
        if block["type"] == "tool_use":
            return {**block, "id": block.get("id", f"toolu_{self._made:024}")}

        return block


def _handler(server: RulesServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, kind, written = server.answer(urlsplit(self.path).path, body)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(written)))
            self.send_header("request-id", f"req_{len(server.asked)}")
            self.end_headers()
            self.wfile.write(written)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def event_bytes(event: JSONObject) -> bytes:
    """Return an event as the API writes it."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def events_of(message: JSONObject) -> Iterator[JSONObject]:
    """Yield a reply as the events of a stream: placeholders at the start, pieces, ends."""
    start = {**message, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}

    for index, block in enumerate(message["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": _placeholder(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}

        yield {"type": "content_block_stop", "index": index}

    ending = {
        name: message[name]
        for name in ("stop_reason", "stop_sequence", "stop_details")
        if name in message
    }
    usage = {"output_tokens": message["usage"]["output_tokens"]}
    yield {"type": "message_delta", "delta": ending, "usage": usage}
    yield {"type": "message_stop"}


def _placeholder(block: JSONObject) -> JSONObject:
    """Return a block as its stream begins: what deltas bring is empty."""
    match block["type"]:
        case "text":
            return {name: one for name, one in block.items() if name != "citations"} | {"text": ""}
        case "thinking":
            return {**block, "thinking": "", "signature": ""}
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            return {**block, "input": {}}
        case _:
            return block


def _deltas(block: JSONObject) -> Iterator[JSONObject]:
    """Yield the deltas of a block; an input that is a text is the JSON that was written so far."""
    match block["type"]:
        case "text":
            for piece in _pieces(block["text"]):
                yield {"type": "text_delta", "text": piece}
            for citation in block.get("citations") or ():
                yield {"type": "citations_delta", "citation": citation}
        case "thinking":
            for piece in _pieces(block["thinking"]):
                yield {"type": "thinking_delta", "thinking": piece}

            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            given: Any = block["input"]
            written = given if isinstance(given, str) else json.dumps(given)
            yield {"type": "input_json_delta", "partial_json": ""}
            for piece in _pieces(written if given else ""):
                yield {"type": "input_json_delta", "partial_json": piece}
        case _:
            pass


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
