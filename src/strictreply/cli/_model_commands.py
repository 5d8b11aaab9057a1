"""``strictreply ask``, ``demo``, ``serve-script``.

A model is asked, or a model is served on loopback.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from strictreply import Attempt, CallFailed, Contract, RetryPolicy, TransportFailed, wrap
from strictreply.cli._attempts import Live, described
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
from strictreply.core.calls import total_usage
from strictreply.core.text import printable
from strictreply.testing import ScriptServer, assistant, completion, native_call, read_script
from strictreply.testing.mounting import openai_client
from strictreply.testing.recordings import excerpt
from strictreply.wires import Api

PROGRAM = '''
from openai import OpenAI
import strictreply as sr

@sr.tool
def refund(order: int, amount: float) -> str:
    """Refund an order."""
    return f"order {order}: {amount:.2f} EUR"

client = sr.wrap(OpenAI(), tools=[refund], parallel=True)
reply = client.reply(model="gpt-5", messages=question)
print([refund(call.args.order, call.args.amount) for call in reply.calls])
'''
"""What is shown, and what runs: its ``OpenAI()`` is the real SDK, over a model in memory."""

GOOD = '{"order": 1042, "amount": 29.9}'
OTHER = '{"order": 1077, "amount": 12.5}'
NOTED = '{"order": 1077, "amount": 12.5, "note": "late"}'
STORIES: tuple[tuple[str, str, tuple[tuple[str, ...], ...]], ...] = (
    (
        "fixed",
        "A wrong call is retried",
        (('{"order": "1042", "amount": 29.9}',), (GOOD,)),
    ),
    (
        "partly kept, rest fixed",
        "Of two calls only the wrong one is retried",
        ((GOOD, NOTED), (OTHER,)),
    ),
    ("rejected", "A call that stays wrong raises, and runs nothing", (('{"order": 1042}',),)),
)
"""The outcome, what it shows, and the arguments of the calls in each reply.

The last reply is repeated.
"""

_STORY_STYLES = {
    "came": "default",
    "wrong": "yellow",
    "sent": "cyan",
    "ran": "green",
    "raised": "red",
}


def tell(screen: Console | None = None) -> None:
    """Show the program, the stories one by one, and a table of them.

    They take at most 40 lines of 80 columns.
    """
    screen = screen or console()
    for line in PROGRAM.strip().splitlines():
        _line(screen, Text(f"    {line}" if line else ""))

    meanings = "came: from the model · wrong: its faults · sent: the correction · ran: code"
    _line(screen, Text(f"\n{meanings}", style="italic"))

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("story", "outcome", "requests", "what was wrong", "tokens", "ran"):
        is_number = name in {"requests", "tokens", "ran"}
        table.add_column(name, no_wrap=True, justify="right" if is_number else "left")

    for number, (outcome, title, replies) in enumerate(STORIES, 1):
        _line(screen, Text(f"{number}  {title}", style="bold"))
        attempts, ran = _told(screen, replies)

        codes = dict.fromkeys(issue.code for attempt in attempts for issue in attempt.issues)
        tokens = str(total_usage(attempts).total_tokens)
        requests = str(len(attempts))
        table.add_row(str(number), outcome, requests, ", ".join(codes), tokens, str(len(ran)))

    screen.print()
    screen.print(table)
    command = ("strictreply probe --app yourmodule:function", "bold")
    _line(screen, Text.assemble("\nTry it on your own app: ", command))


def _told(
    screen: Console, replies: tuple[tuple[str, ...], ...]
) -> tuple[tuple[Attempt, ...], list[str]]:
    """Run the program's client through one story, and show it.

    Return the attempts, and what ran.
    """
    served = chain(replies, repeat(replies[-1]))

    def model(_: JSONObject) -> JSONObject:
        texts = enumerate(next(served))
        calls = [native_call("refund", text, f"call_{number}") for number, text in texts]
        return completion(assistant(calls=list(calls)), usage=(120, 20 * len(calls)))

    names: dict[str, Any] = {"OpenAI": lambda: openai_client(model)}
    source = PROGRAM.replace("from openai import OpenAI\n", "")
    # the call is made below, by the method that returns its story, too
    source = source[: source.index("reply = ")]
    exec(source, names)  # noqa: S102 - our own text: what is shown is what runs

    ran: list[str] = []
    try:
        exchange = names["client"].exchange(model="gpt-5", messages="Refund it.")
        attempts = exchange.attempts
        ran = [names["refund"](call.args.order, call.args.amount) for call in exchange.reply.calls]
        end = ("ran", " · ".join(ran))
    except CallFailed as error:
        attempts = error.attempts
        ending = f"{type(error).__name__} after {len(attempts)} requests"
        end = ("raised", f"{ending}; error.explain() has it all")

    first = attempts[0]
    last = attempts[-1]
    _say(screen, "came", excerpt(first.raw, first.api))
    for issue in first.issues:
        _say(screen, "wrong", described(issue, first.raw, first.api))

    if len(attempts) > 1:
        _say(screen, "sent", " ".join((attempts[1].correction or "").split()))
    if last.accepted:
        _say(screen, "came", excerpt(last.raw, last.api))
    _say(screen, *end)

    return attempts, ran


def _say(screen: Console, label: str, words: str) -> None:
    text = Text.assemble((f"   {label:<7}", "dim"), (printable(words), _STORY_STYLES[label]))
    _line(screen, text)


def _line(screen: Console, text: Text) -> None:
    screen.print(text, no_wrap=True, overflow="ellipsis", crop=True)


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
    """Ask once, and print the reply on stdout as ASCII JSON, each attempt on stderr.

    With ``explain`` a failure is printed with every attempt.
    """
    refuse_broken(text, "the question")

    with interruptible():
        client, model = endpoint.connect()
        live = Live(console(stderr=True))
        strict = wrap(client, contract=contract, policy=policy, on_attempt=live, api=api)

        try:
            with strict:
                asked = {**request, "messages": [{"role": "user", "content": text}]}
                reply = strict.reply(model=model, **asked)
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
        fail(f"--host: {error}")
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
        f"curl -s {server.base_url}/script -d {shlex.quote(server.example)}\n"
        "Read the requests since then:\n"
        f"curl -s {server.base_url}/journal\n"
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
        fail(f"--script {path}: {error}")


def _given(path: Path) -> str:
    """Read the text of a reply; end the command when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"--reply {path}: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"--reply {path}: it is not UTF-8")
