"""``strictreply ask``, ``demo``, ``serve-demo``, ``serve-script``.

A model is asked, or a model is served on loopback.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeAlias

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from strictreply import Attempt, Contract, DirectAnswer, RetryPolicy, StrictClient, Tool, wrap
from strictreply.cli._declared import Endpoint
from strictreply.cli._terminal import (
    Live,
    Status,
    console,
    counted,
    described,
    echo_json,
    excerpt,
    fail,
    interruptible,
    refuse_broken,
    shortened,
)
from strictreply.testing._control import EXAMPLE_SCRIPT, ScriptControl
from strictreply.testing._given import given_in
from strictreply.testing._probing.survival_probe import GoodModel
from strictreply.testing._scripts import DemandHints
from strictreply.testing._server import LoopbackServer
from strictreply.testing._wire import Responder, Served, assistant, completion, native_call
from strictreply.testing.mounting import openai_client
from strictreply.testing.shop_scenario import SCENARIO
from strictreply.testing.unreliable import UnreliableModel
from strictreply.values._errors import CallFailed, ToolExecutionError, TransportFailed
from strictreply.values._issues import printable
from strictreply.values._limits import Channel, JSONObject
from strictreply.values._replies import total_usage
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
        "mended",
        "A wrong call is asked for again",
        (('{"order": "1042", "amount": 29.9}',), (GOOD,)),
    ),
    (
        "kept and mended",
        "Of two calls only the wrong one is asked for again",
        ((GOOD, NOTED), (OTHER,)),
    ),
    ("refused", "A call that stays wrong raises, and runs nothing", (('{"order": 1042}',),)),
)
"""The outcome, what it shows, and the arguments of the calls in each reply.

The last reply is repeated.
"""

_STORY_STYLES = {
    "came": "default",
    "wrong": "yellow",
    "asked": "cyan",
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

    meanings = "came: from the model · wrong: its faults · asked: the correction · ran: code"
    _line(screen, Text(f"\n{meanings}", style="italic"))

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for name in ("story", "outcome", "asks", "what was wrong", "tokens", "ran"):
        is_number = name in {"asks", "tokens", "ran"}
        table.add_column(name, no_wrap=True, justify="right" if is_number else "left")

    for number, (outcome, title, replies) in enumerate(STORIES, 1):
        _line(screen, Text(f"{number}  {title}", style="bold"))
        attempts, ran = _told(screen, replies)

        codes = dict.fromkeys(issue.code for attempt in attempts for issue in attempt.issues)
        tokens = str(total_usage(attempts).total_tokens)
        asks = str(len(attempts))
        table.add_row(str(number), outcome, asks, ", ".join(codes), tokens, str(len(ran)))

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

    def model(_: JSONObject) -> Served:
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
        asks = f"{type(error).__name__} after {len(attempts)} asks"
        end = ("raised", f"{asks}; error.explain() has it all")

    first = attempts[0]
    last = attempts[-1]
    _say(screen, "came", excerpt(first.raw, first.api))
    for issue in first.issues:
        _say(screen, "wrong", described(issue, first.raw, first.api))

    if len(attempts) > 1:
        _say(screen, "asked", " ".join((attempts[1].correction or "").split()))
    if last.accepted:
        _say(screen, "came", excerpt(last.raw, last.api))
    _say(screen, *end)

    return attempts, ran


def _say(screen: Console, label: str, words: str) -> None:
    text = Text.assemble((f"   {label:<7}", "dim"), (printable(words), _STORY_STYLES[label]))
    _line(screen, text)


def _line(screen: Console, text: Text) -> None:
    screen.print(text, no_wrap=True, overflow="ellipsis", crop=True)


SYSTEM = (
    "You are the assistant of a small shop. Use the tools when they help; otherwise answer in one "
    "sentence."
)

# Failures that the next question would meet, too.
_LOST = frozenset(
    {"connection", "timeout", "authentication_failed", "permission_denied", "not_found"}
)

# The outcomes of a question; ``sent again``: the reply came after the transport had failed.
_STYLES = {
    "valid at once": "green",
    "mended": "yellow",
    "sent again": "yellow",
    "rejected": "red",
    "failed": "red",
}

# A question, its outcome, and the attempts.
Asked: TypeAlias = tuple[str, str, tuple[Attempt, ...]]


def run_demo(
    endpoint: Endpoint | None, *, channel: Channel, seed: int, failure_rate: float, max_retries: int
) -> None:
    """Ask the scenario's questions of the embedded model, or of a real one.

    A refused reply is a result, and not a failure.
    """
    screen = console()
    contract = Contract(tools=SCENARIO.tools, channel=channel, parallel=channel == "native")
    policy = RetryPolicy(max_retries=max_retries)
    asked: list[Asked] = []
    ended: tuple[str, Status] | None = None

    with contextlib.ExitStack() as stack:
        if endpoint is None:
            model = UnreliableModel(SCENARIO, seed=seed, failure_rate=failure_rate)
            endpoint = Endpoint(stack.enter_context(LoopbackServer(model)).base_url)
            share = f"a model that gets {failure_rate:.0%} of its first replies wrong (seed {seed})"
            to = f"{share}, through the openai client, at {endpoint.base_url}"
        else:
            to = f"{endpoint.model or 'the model'} at {endpoint.name}"

        screen.print(f"{len(SCENARIO.questions)} questions to {to}")

        try:
            client, name = endpoint.connect()
            strict = wrap(client, contract=contract, policy=policy, on_attempt=Live(screen))
            stack.enter_context(strict)

            for question in SCENARIO.questions:
                # one by one: Ctrl-C keeps those that were asked
                asked.append(_asked(screen, strict, endpoint, name, question.text))  # noqa: PERF401
        except TransportFailed as error:
            ended = (endpoint.told(error), Status.FAILED)
        except KeyboardInterrupt:
            ended = ("interrupted", Status.INTERRUPTED)

    if asked:
        _print_summary(screen, asked)
        if all(outcome == "failed" for _, outcome, _ in asked):
            ended = ended or ("no question got a reply", Status.FAILED)

    if ended is not None:
        fail(*ended)


def _asked(
    screen: Console, client: StrictClient, endpoint: Endpoint, model: str, question: str
) -> Asked:
    """Ask one question and run what was called.

    Raises TransportFailed when the next question would fail alike.
    """
    screen.print(Text(f"\n{question}", style="bold"))
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]

    live = Live(screen)
    try:
        exchange = client.exchange(model=model, messages=messages)
    except TransportFailed as error:
        if error.reason in _LOST:
            raise

        live.line("ended", printable(endpoint.told(error)), "bold red")
        return question, "failed", error.attempts
    except CallFailed as error:
        live.line("ended", f"{type(error).__name__}: {str(error).splitlines()[0]}", "bold red")
        return question, "rejected", error.attempts

    if isinstance(exchange.reply, DirectAnswer):
        live.line("said", shortened(printable(str(exchange.reply.answer))))

    for call in exchange.reply.calls:
        try:
            result = repr(client.contract.by_name[call.tool].run(call.args))
        except ToolExecutionError as error:
            result = f"no result: {error}"

        live.line("ran", f"{call.tool} gave {result}")

    outcome = "sent again"
    if any(attempt.issues for attempt in exchange.attempts):
        outcome = "mended"
    elif len(exchange.attempts) == 1:
        outcome = "valid at once"

    return question, outcome, exchange.attempts


def _print_summary(screen: Console, asked: list[Asked]) -> None:
    table = Table("question", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("outcome", "asks", "what was wrong", "tokens"):
        is_number = name in {"asks", "tokens"}
        table.add_column(name, no_wrap=True, justify="right" if is_number else "left")

    for question, outcome, attempts in asked:
        shown = Text(question, no_wrap=True, overflow="ellipsis")
        styled = Text(outcome, style=_STYLES[outcome])
        codes = dict.fromkeys(issue.code for attempt in attempts for issue in attempt.issues)
        tokens = str(total_usage(attempts).total_tokens)
        table.add_row(shown, styled, str(len(attempts)), "\n".join(codes), tokens)

    screen.print()
    screen.print(table, "")

    outcomes = [outcome for _, outcome, _ in asked]
    all_attempts = [attempt for _, _, attempts in asked for attempt in attempts]
    counted = {"valid at once", "mended", "rejected", *outcomes}
    counts = [f"{outcomes.count(kind)} {kind}" for kind in _STYLES if kind in counted]
    screen.print(f"{len(asked)} questions, {len(all_attempts)} asks: {', '.join(counts)}.")

    bad = sum(bool(attempt.issues) for attempt in all_attempts)
    screen.print(
        f"{bad} of the replies did not fit; none of them ran a tool or passed for an answer."
    )


def run_ask(
    text: str,
    *,
    endpoint: Endpoint,
    contract: Contract,
    policy: RetryPolicy,
    api: Api,
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
                reply = strict.reply(model=model, messages=[{"role": "user", "content": text}])
        except CallFailed as error:
            if explain:
                typer.echo(error.explain(), err=True)

            if isinstance(error, TransportFailed):
                fail(endpoint.told(error), Status.FAILED)

            fail(f"{type(error).__name__}: {str(error).splitlines()[0]}", Status.INVALID)

    echo_json(reply.to_dict())


def run_serve_demo(port: int, *, seed: int, failure_rate: float) -> None:
    """Serve an unreliable model on loopback until Ctrl-C."""
    questions = "\n".join(f"  {question.text}" for question in SCENARIO.questions[:4])
    first = SCENARIO.questions[0]
    tool = next(tool for tool in map(Tool.of, SCENARIO.tools) if tool.name == first.calls[0].tool)

    messages = [{"role": "user", "content": first.text}]
    request = {"model": "unreliable-1", "messages": messages, "tools": [tool.definition]}
    body = shlex.quote(json.dumps(request))
    _serve(
        UnreliableModel(SCENARIO, seed=seed, failure_rate=failure_rate),
        lambda base_url: (
            f"An unreliable model is served at {base_url}; Ctrl-C ends it.\n"
            f"It knows these questions among others:\n{questions}\nAsk the first one:\n"
            f"curl -s {base_url}/chat/completions -H 'content-type: application/json' -d {body}"
        ),
        port=port,
    )


def run_serve_script(
    host: str, port: int, replies: Sequence[Path] = (), status: int | None = None
) -> None:
    """Serve a model that is scripted over HTTP, until Ctrl-C.

    The first requests get the given replies, one each.
    """
    steps = [_given(path, status) for path in replies]
    given = counted(len(steps), "given reply", "given replies")
    first = f"It sends {given} first. " if steps else ""
    _serve(
        GoodModel(DemandHints()),
        lambda base_url: (
            f"A scripted model is served at {base_url}; Ctrl-C ends it.\n"
            f"{first}It sends valid replies until a script is set:\n"
            f"curl -s {base_url}/script -d {shlex.quote(EXAMPLE_SCRIPT)}\n"
            "Read the requests since then:\n"
            f"curl -s {base_url}/journal"
        ),
        host=host,
        port=port,
        control=ScriptControl(steps=steps),
    )


def _given(path: Path, status: int | None) -> JSONObject:
    """Read the step of a reply in a file; end the command when that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        fail(f"--reply {path}: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"--reply {path}: it is not UTF-8")

    return given_in(text, status)


def _serve(responder: Responder, told: Callable[[str], str], **options: Any) -> None:
    """Bind, print what ``told`` returns for the base URL, and serve until Ctrl-C.

    Each request is a line on stderr.
    """

    def log(line: str) -> None:
        typer.echo(printable(line), err=True)

    try:
        server = LoopbackServer(responder, log=log, **options)
    except ValueError as error:
        fail(f"--host: {error}")
    except OSError as error:
        fail(f"port {options['port']} cannot be bound: {error.strerror}", Status.FAILED)

    with interruptible("stopped"):
        server.serve_forever(ready=lambda: typer.echo(told(server.base_url)))
