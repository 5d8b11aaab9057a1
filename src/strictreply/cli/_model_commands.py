"""``strictreply ask`` asks a model; ``strictreply serve-script`` serves one on loopback."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from strictreply import CallFailed, Contract, RetryPolicy, TransportFailed, wrap
from strictreply.cli._attempts import Live
from strictreply.cli._declared import Endpoint
from strictreply.cli._terminal import (
    Status,
    console,
    counted,
    echo_json,
    fail,
    interruptible,
    refuse_broken,
)
from strictreply.core import JSONObject
from strictreply.core.text import printable
from strictreply.testing import ScriptServer, read_script
from strictreply.wires import Api


def run_ask(
    text: str,
    *,
    endpoint: Endpoint,
    contract: Contract,
    policy: RetryPolicy,
    api: Api,
    request: JSONObject,
    explain: bool,
) -> None:
    """Make one call; print the reply to stdout as ASCII JSON, and each attempt to stderr.

    With ``explain`` a failed call also prints the full story of every attempt.
    """
    refuse_broken(text, "the question")

    with interruptible():
        client, model = endpoint.connect()
        live = Live(console(stderr=True))
        strict = wrap(client, contract=contract, policy=policy, on_attempt=live, api=api)

        try:
            with strict:
                keywords = {**request, "messages": [{"role": "user", "content": text}]}
                reply = strict.reply(model=model, **keywords)
        except CallFailed as error:
            if explain:
                typer.echo(error.explain(), err=True)

            if isinstance(error, TransportFailed):
                fail(endpoint.told(error), Status.FAILED)

            fail(f"{type(error).__name__}: {str(error).splitlines()[0]}", Status.INVALID)

    echo_json(reply.to_dict())


def run_serve_script(
    host: str,
    port: int,
    replies: Sequence[Path] = (),
    status: int | None = None,
    script: Path | None = None,
) -> None:
    """Serve a model that is scripted over HTTP, until Ctrl-C.

    The first requests get the given replies, one each, or what the script in a file says.
    """
    if script is not None and (replies or status is not None):
        fail("pass --reply or --script, not both; in a script each step has its own status")

    texts = [_given(path) for path in replies]
    planned = None if script is None else _planned(script)

    def log(line: str) -> None:
        typer.echo(printable(line), err=True)

    try:
        server = ScriptServer(texts, script=planned, status=status, host=host, port=port, log=log)
    except ValueError as error:
        fail(str(error))
    except OSError as error:
        fail(f"port {port} cannot be bound: {error.strerror}", Status.FAILED)

    begin = "It sends valid replies until a script is set:"
    if texts:
        given = counted(len(texts), "given reply", "given replies")
        begin = f"It sends {given} first. {begin}"
    if planned is not None:
        steps = counted(len(planned["steps"]), "step", "steps")
        begin = f"It sends the {steps} of {script} until another script is set:"

    message = (
        f"A scripted model is served at {server.base_url}; Ctrl-C ends it.\n"
        f"{printable(begin)}\n"
        f"curl -fsS {server.base_url}/script -d {shlex.quote(server.example)}\n"
        "Read the requests since then:\n"
        f"curl -fsS {server.base_url}/journal\n"
        f"An app on Claude: ANTHROPIC_BASE_URL={server.base_url.removesuffix('/v1')}"
    )
    with interruptible("stopped"):
        server.serve_forever(ready=lambda: typer.echo(message))


def _planned(path: Path) -> JSONObject:
    """Read the script in a file; end the command with the line that is wrong, and what to write."""
    try:
        return read_script(path)
    except OSError as error:
        fail(f"--script {path}: {error.strerror or error}")
    except ValueError as error:
        fail(f"--script {error}")


def _given(path: Path) -> bytes:
    """Read the bytes of a reply; end the command when they cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        fail(f"--reply {path}: {error.strerror}")
