"""A server of the toy API on a socket, its replies, and a guarded client of it."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import strictreply as sr
from toy.toy_api import TOY_WRITER
from toy.toy_sdk import Toy

SEARCH = sr.Tool.from_json_schema(
    "search",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    },
)


class Engine:
    """A server of the toy API on a socket of its own, which plays replies in order."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.replies: list[dict[str, Any]] = []
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                asked = json.loads(self.rfile.read(size))
                engine.asked.append(asked)
                reply = engine.replies.pop(0)
                body = json.dumps(reply).encode()
                if asked.get("drip") and "turn" in reply:
                    body = b"".join(TOY_WRITER.stream(reply, asked))

                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()


def said(words: str) -> dict[str, Any]:
    """Return a reply that answers."""
    turn = {"by": "engine", "says": [{"words": words}]}
    return {"turn": turn, "halt": "told", "meter": {"in": 3, "out": 2}}


def used(*given: Any, ticket: int = 7) -> dict[str, Any]:
    """Return a reply that calls the tool once for each of these arguments."""
    uses = [
        {"gadget": "search", "ticket": ticket + at, "with": one, "seal": f"s{at}"}
        for at, one in enumerate(given)
    ]
    turn = {"by": "engine", "says": uses}
    return {"turn": turn, "halt": "used", "meter": {"in": 3, "out": 2}}


def guarded(engine: Engine, **keywords: Any) -> Any:
    """Wrap a client of the engine."""
    return sr.wrap(Toy(engine.url), **{"tools": [SEARCH], "api": "toy", **keywords})
