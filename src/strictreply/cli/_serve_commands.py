"""``strictreply serve-demo`` and ``serve-script``: models on loopback until Ctrl-C."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable

import typer

from strictreply.cli._terminal import Status, fail, interruptible
from strictreply.contract._tool import Tool
from strictreply.testing._control import EXAMPLE_SCRIPT, ScriptControl
from strictreply.testing._demands import DemandHints
from strictreply.testing._probing.survival_probe import GoodModel
from strictreply.testing._server import LoopbackServer
from strictreply.testing._wire import Control, Responder
from strictreply.testing.shop_scenario import SCENARIO
from strictreply.testing.unreliable import UnreliableModel
from strictreply.values._issues import printable

QUESTIONS_SHOWN = 4


def serve_demo(port: int, *, seed: int, failure_rate: float) -> None:
    """Serve the unreliable model until Ctrl-C."""
    questions = "\n".join(f"  {question.text}" for question in SCENARIO.questions[:QUESTIONS_SHOWN])
    _serve(
        UnreliableModel(SCENARIO, seed=seed, failure_rate=failure_rate),
        lambda base_url: (
            f"An unreliable model is served at {base_url}; Ctrl-C ends it.\n"
            f"It knows these questions among others:\n{questions}\n"
            f"Ask the first one:\n{curl(base_url)}"
        ),
        port=port,
    )


def serve_script(host: str, port: int) -> None:
    """Serve good replies, and what a script says that is set over HTTP, until Ctrl-C."""
    _serve(
        GoodModel(DemandHints()),
        lambda base_url: (
            f"A scripted model is served at {base_url}; Ctrl-C ends it.\n"
            "It replies well to every request until a script says otherwise:\n"
            f"curl -s {base_url}/script -d {shlex.quote(EXAMPLE_SCRIPT)}\n"
            "What it was asked since then:\n"
            f"curl -s {base_url}/journal"
        ),
        host=host,
        port=port,
        control=ScriptControl(),
    )


def _serve(
    responder: Responder,
    told: Callable[[str], str],
    *,
    port: int,
    host: str = "127.0.0.1",
    control: Control | None = None,
) -> None:
    """Bind, print what is ``told`` of the base URL, and serve until Ctrl-C; each request is a line on stderr."""

    def log(line: str) -> None:
        typer.echo(printable(line), err=True)

    try:
        server = LoopbackServer(responder, host=host, port=port, log=log, control=control)
    except ValueError as error:
        fail(f"--host: {error}")
    except OSError as error:
        fail(f"port {port} cannot be bound: {error.strerror}", Status.FAILED)
    with interruptible("stopped"):
        server.serve_forever(ready=lambda: typer.echo(told(server.base_url)))


def curl(base_url: str) -> str:
    """Return a command that asks the first question, with the one tool that it needs."""
    question = SCENARIO.questions[0]
    tool = next(tool for tool in map(Tool.of, SCENARIO.tools) if tool.name == question.calls[0].tool)
    body = {
        "model": "unreliable-1",
        "messages": [{"role": "user", "content": question.text}],
        "tools": [tool.definition],
    }
    return f"curl -s {base_url}/chat/completions -H 'content-type: application/json' -d {shlex.quote(json.dumps(body))}"
