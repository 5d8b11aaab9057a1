"""``strictreply demo`` and ``serve-demo``: an unreliable model on loopback, and what becomes of its replies."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from strictreply.cli._endpoint import Endpoint
from strictreply.cli._terminal import Live, Status, capped, console, fail, interruptible
from strictreply.client._client import Exchange, StrictClient
from strictreply.client._wrap import wrap
from strictreply.contract._contract import Contract
from strictreply.retry._policy import RetryPolicy
from strictreply.testing._server import LoopbackServer
from strictreply.testing.shop_scenario import SCENARIO
from strictreply.testing.unreliable import UnreliableModel
from strictreply.values._attempts import Attempt, total_usage
from strictreply.values._errors import CallFailed, ToolExecutionError, TransportFailed
from strictreply.values._issues import printable
from strictreply.values._json import Channel
from strictreply.values._replies import DirectAnswer, ToolCall, calls_of

SYSTEM = "You are the assistant of a small shop. Use the tools when they help; otherwise answer in one sentence."
SERVED_QUESTIONS_SHOWN = 4
_LOST = frozenset({"connection", "timeout", "authentication_failed", "permission_denied", "not_found"})
"""Failures that the next question would meet too."""

_STYLES = {"valid at once": "green", "mended": "yellow", "sent again": "yellow", "rejected": "red", "failed": "red"}
"""The colours of the outcomes; ``sent again`` is a reply that came when the transport had failed before."""

_ALWAYS_COUNTED = ("valid at once", "mended", "rejected")


@dataclass(frozen=True, slots=True)
class Line:
    """One question's row in the summary."""

    question: str
    outcome: str
    attempts: tuple[Attempt, ...]


class EndpointLost(Exception):
    """The endpoint cannot be used; its text says why."""


def demo(endpoint: Endpoint | None, *, channel: Channel, seed: int, failure_rate: float, policy: RetryPolicy) -> None:
    """Ask the scenario's questions of the embedded model, or of a real one.

    Exits with 1 when the endpoint cannot be used, and with 130 after Ctrl-C; both show what was done until then. A
    question whose replies were all refused is a result, not a failure.
    """
    screen = console()
    contract = Contract(tools=SCENARIO.tools, channel=channel, parallel=channel == "native")
    lines: list[Line] = []
    ended: tuple[str, Status] | None = None
    try:
        with _served(endpoint, seed, failure_rate, screen) as served:
            client, model = served.connect()
            with wrap(client, contract=contract, policy=policy, on_attempt=Live(screen)) as strict:
                for question in SCENARIO.questions:
                    # one by one: Ctrl-C keeps those that were asked
                    lines.append(_asked(screen, strict, served, model, question.text))  # noqa: PERF401
    except EndpointLost as lost:
        ended = str(lost), Status.FAILED
    except KeyboardInterrupt:
        ended = "interrupted", Status.INTERRUPTED
    if lines:
        _print_summary(screen, lines)
        if all(line.outcome == "failed" for line in lines):
            ended = ended or ("no question got a reply", Status.FAILED)
    if ended is not None:
        fail(*ended)


def serve(port: int, *, seed: int, failure_rate: float) -> None:
    """Serve the unreliable model until Ctrl-C."""
    model = UnreliableModel(SCENARIO, seed=seed, failure_rate=failure_rate)
    try:
        server = LoopbackServer(model, port=port, log=lambda line: typer.echo(printable(line), err=True))
    except OSError as error:
        fail(f"port {port} cannot be bound: {error.strerror}", Status.FAILED)
    with interruptible("stopped"):
        typer.echo(f"An unreliable model is served at {server.base_url}; Ctrl-C ends it.")
        typer.echo("It knows these questions among others:")
        for question in SCENARIO.questions[:SERVED_QUESTIONS_SHOWN]:
            typer.echo(f"  {question.text}")
        server.serve_forever()


@contextlib.contextmanager
def _served(
    endpoint: Endpoint | None, seed: int, failure_rate: float, screen: Console
) -> Generator[Endpoint, None, None]:
    """Return a real endpoint as it is, or start the embedded one for the time of the demo."""
    if endpoint is not None:
        screen.print(f"{len(SCENARIO.questions)} questions to {endpoint.model or 'the model'} at {endpoint.name}")
        yield endpoint
        return
    with LoopbackServer(UnreliableModel(SCENARIO, seed=seed, failure_rate=failure_rate)) as server:
        screen.print(
            f"{len(SCENARIO.questions)} questions to a model that gets {failure_rate:.0%} of its first replies wrong "
            f"(seed {seed}), through the openai client, at {server.base_url}"
        )
        yield Endpoint(server.base_url)


def _asked(screen: Console, client: StrictClient, endpoint: Endpoint, model: str, question: str) -> Line:
    """Ask one question and run what was called; only a valid reply gets that far."""
    screen.print(Text(f"\n{question}", style="bold"))
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    try:
        exchange = client.exchange(model=model, messages=messages)
    except TransportFailed as error:
        if error.reason in _LOST:
            raise EndpointLost(endpoint.told(error)) from error
        Live(screen).line("ended", printable(endpoint.told(error)), "bold red")
        return Line(question, "failed", error.attempts)
    except CallFailed as error:
        Live(screen).line("ended", f"{type(error).__name__}: {str(error).splitlines()[0]}", "bold red")
        return Line(question, "rejected", error.attempts)
    _print_results(screen, client, exchange)
    return Line(question, _outcome(exchange.attempts), exchange.attempts)


def _outcome(attempts: tuple[Attempt, ...]) -> str:
    if any(attempt.issues for attempt in attempts):
        return "mended"
    return "valid at once" if len(attempts) == 1 else "sent again"


def _print_results(screen: Console, client: StrictClient, exchange: Exchange) -> None:
    live = Live(screen)
    if isinstance(exchange.reply, DirectAnswer):
        live.line("said", capped(printable(str(exchange.reply.answer))))
    for call in calls_of(exchange.reply):
        live.line("ran", f"{call.tool} gave {_result(client, call)}")


def _result(client: StrictClient, call: ToolCall) -> str:
    """Run one validated call; a result, or how the tool itself failed."""
    try:
        return repr(client.contract.by_name[call.tool].run(call.args))
    except ToolExecutionError as error:
        return f"no result: {error}"


def _print_summary(screen: Console, lines: list[Line]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("question")
    table.add_column("outcome", no_wrap=True)
    table.add_column("asks", justify="right", no_wrap=True)
    table.add_column("what was wrong", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    for line in lines:
        wrong = dict.fromkeys(issue.code for attempt in line.attempts for issue in attempt.issues)
        tokens = total_usage(line.attempts).total_tokens
        outcome = Text(line.outcome, style=_STYLES[line.outcome])
        question = Text(line.question, no_wrap=True, overflow="ellipsis")
        table.add_row(question, outcome, str(len(line.attempts)), "\n".join(wrong), str(tokens))
    screen.print()
    screen.print(table, "")
    screen.print(_conclusion(lines))


def _conclusion(lines: list[Line]) -> str:
    outcomes = [line.outcome for line in lines]
    asks = [attempt for line in lines for attempt in line.attempts]
    bad = sum(1 for attempt in asks if attempt.issues)
    counted = [f"{outcomes.count(kind)} {kind}" for kind in _STYLES if kind in {*_ALWAYS_COUNTED, *outcomes}]
    first = f"{len(lines)} questions, {len(asks)} asks: {', '.join(counted)}."
    return f"{first}\n{bad} of the replies did not fit; none of them ran a tool or passed for an answer."
