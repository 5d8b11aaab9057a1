"""``strictreply demo --questions``: an unreliable model on loopback, and what becomes of its replies."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from strictreply.cli._endpoint import Endpoint
from strictreply.cli._terminal import Live, Status, console, fail, shortened
from strictreply.client._client import StrictClient
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
from strictreply.values._replies import DirectAnswer

SYSTEM = "You are the assistant of a small shop. Use the tools when they help; otherwise answer in one sentence."
# failures that the next question would meet too
_LOST = frozenset({"connection", "timeout", "authentication_failed", "permission_denied", "not_found"})
_STYLES = {"valid at once": "green", "mended": "yellow", "sent again": "yellow", "rejected": "red", "failed": "red"}
"""The colours of the outcomes; ``sent again`` is a reply that came when the transport had failed before."""

_ALWAYS_COUNTED = ("valid at once", "mended", "rejected")


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question's row in the summary."""

    question: str
    outcome: str
    attempts: tuple[Attempt, ...]


def demo(endpoint: Endpoint | None, *, channel: Channel, seed: int, failure_rate: float, policy: RetryPolicy) -> None:
    """Ask the scenario's questions of the embedded model, or of a real one.

    Exits with 1 when the endpoint cannot be used, and with 130 after Ctrl-C; both show what was done until then. A
    question whose replies were all refused is a result, not a failure.
    """
    screen = console()
    contract = Contract(tools=SCENARIO.tools, channel=channel, parallel=channel == "native")
    asked: list[AskedQuestion] = []
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
            strict = stack.enter_context(wrap(client, contract=contract, policy=policy, on_attempt=Live(screen)))
            for question in SCENARIO.questions:
                # one by one: Ctrl-C keeps those that were asked
                asked.append(_asked(screen, strict, endpoint, name, question.text))  # noqa: PERF401
        except TransportFailed as error:
            ended = endpoint.told(error), Status.FAILED
        except KeyboardInterrupt:
            ended = "interrupted", Status.INTERRUPTED
    if asked:
        _print_summary(screen, asked)
        if all(line.outcome == "failed" for line in asked):
            ended = ended or ("no question got a reply", Status.FAILED)
    if ended is not None:
        fail(*ended)


def _asked(screen: Console, client: StrictClient, endpoint: Endpoint, model: str, question: str) -> AskedQuestion:
    """Ask one question and run what was called; raises TransportFailed when the next question would fail alike."""
    screen.print(Text(f"\n{question}", style="bold"))
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    live = Live(screen)
    try:
        exchange = client.exchange(model=model, messages=messages)
    except TransportFailed as error:
        if error.reason in _LOST:
            raise
        live.line("ended", printable(endpoint.told(error)), "bold red")
        return AskedQuestion(question, "failed", error.attempts)
    except CallFailed as error:
        live.line("ended", f"{type(error).__name__}: {str(error).splitlines()[0]}", "bold red")
        return AskedQuestion(question, "rejected", error.attempts)
    if isinstance(exchange.reply, DirectAnswer):
        live.line("said", shortened(printable(str(exchange.reply.answer))))
    for call in exchange.reply.calls:
        try:
            result = repr(client.contract.by_name[call.tool].run(call.args))
        except ToolExecutionError as error:
            result = f"no result: {error}"
        live.line("ran", f"{call.tool} gave {result}")
    mended = any(attempt.issues for attempt in exchange.attempts)
    outcome = "mended" if mended else "valid at once" if len(exchange.attempts) == 1 else "sent again"
    return AskedQuestion(question, outcome, exchange.attempts)


def _print_summary(screen: Console, asked: list[AskedQuestion]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("question")
    table.add_column("outcome", no_wrap=True)
    table.add_column("asks", justify="right", no_wrap=True)
    table.add_column("what was wrong", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    for line in asked:
        wrong = dict.fromkeys(issue.code for attempt in line.attempts for issue in attempt.issues)
        tokens = total_usage(line.attempts).total_tokens
        outcome = Text(line.outcome, style=_STYLES[line.outcome])
        question = Text(line.question, no_wrap=True, overflow="ellipsis")
        table.add_row(question, outcome, str(len(line.attempts)), "\n".join(wrong), str(tokens))
    screen.print()
    screen.print(table, "")
    outcomes = [line.outcome for line in asked]
    attempts = [attempt for line in asked for attempt in line.attempts]
    counts = [f"{outcomes.count(kind)} {kind}" for kind in _STYLES if kind in {*_ALWAYS_COUNTED, *outcomes}]
    screen.print(f"{len(asked)} questions, {len(attempts)} asks: {', '.join(counts)}.")
    bad = sum(1 for attempt in attempts if attempt.issues)
    screen.print(f"{bad} of the replies did not fit; none of them ran a tool or passed for an answer.")
