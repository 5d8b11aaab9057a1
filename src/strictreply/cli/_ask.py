"""``strictreply ask``: one real call, the reply as JSON on stdout, the story beside it."""

from __future__ import annotations

import typer

from strictreply.cli._endpoint import Endpoint
from strictreply.cli._live import Live
from strictreply.cli._terminal import Status, console, echo_json, fail, interruptible, refuse_broken
from strictreply.client._client import wrap
from strictreply.contract._contract import Contract
from strictreply.retry._policy import RetryPolicy
from strictreply.values._errors import CallFailed, TransportFailed


def ask(question: str, *, endpoint: Endpoint, contract: Contract, policy: RetryPolicy, explain: bool) -> None:
    """Ask once; prints the reply on stdout, each attempt on stderr, and exits with 1 when none was valid.

    Stdout is ASCII JSON: what a model wrote cannot act on a terminal. ``explain`` tells the whole story of a failure.
    """
    refuse_broken(question, "the question")
    with interruptible():
        client, model = endpoint.connect()
        strict = wrap(client, contract=contract, policy=policy, on_attempt=Live(console(stderr=True)))
        try:
            with strict:
                reply = strict.reply(model=model, messages=[{"role": "user", "content": question}])
        except CallFailed as error:
            if explain:
                typer.echo(error.explain(), err=True)
            fail(endpoint.told(error) if isinstance(error, TransportFailed) else _ended(error), Status.FAILED)
    echo_json(reply.to_dict())


def _ended(error: CallFailed) -> str:
    """Say in one line how a call ended; its faults were shown as they came."""
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"
