"""One call of a wrapped client over scripted replies, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import strictreply as sr
from support.scripted import USER, Client, StatusError


class Played(NamedTuple):
    """What a call came to: its end, the requests in order, and what a human was asked."""

    outcome: sr.Exchange[Any] | sr.CallFailed
    requests: list[dict[str, Any]]
    asked: list[sr.CorrectionContext]


def play(
    contract: sr.Contract[Any],
    replies: Sequence[Any],
    policy: sr.RetryPolicy | None = None,
    said: str | None = "try tea",
    **request: Any,
) -> Played:
    """Make a call that these come of, each a completion or an exception of the SDK.

    ``said`` is what a human answers.
    """
    asked: list[sr.CorrectionContext] = []

    def answer(context: sr.CorrectionContext) -> str | None:
        asked.append(context)
        return said

    used = policy or sr.RetryPolicy()
    if used.ask_human is not None:
        used = replace(used, ask_human=answer)

    client = Client(*replies)
    wrapped = sr.wrap(client, contract=contract, policy=used)
    outcome: sr.Exchange[Any] | sr.CallFailed
    try:
        outcome = wrapped.exchange(**{"model": "small", "messages": USER, **request})
    except sr.CallFailed as error:
        outcome = error

    return Played(outcome, client.script.requests, asked)


def refusal_of(name: str) -> StatusError:
    """Return an endpoint's refusal of a field that we added to a request."""
    return StatusError(400, body={"message": f"{name} is not supported"})
