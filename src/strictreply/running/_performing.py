"""Performing what a turn wants done, here or awaiting: the model is asked by a wrapped client, and nobody else."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from strictreply.client._client import AsyncStrictClient, Exchange, StrictClient
from strictreply.contract._contract import Contract
from strictreply.pipeline._effects import Asked, AskModel, RunTools, TurnEffect, UseStore
from strictreply.pipeline._line import Raised
from strictreply.pipeline._sessions import SessionStore, SessionStoreFailed
from strictreply.running._threads import finished_in_thread
from strictreply.running._tool_running import ToolRunner
from strictreply.values._errors import StrictReplyError
from strictreply.values._json import JSONObject

_UNDEMANDING: Final = (None, "auto", "none")


@dataclass(frozen=True, slots=True)
class Performer:
    """Performs the effects of one turn with a sync client."""

    client: StrictClient
    keywords: JSONObject = field(repr=False)
    tools: ToolRunner
    sessions: SessionStore

    def __call__(self, effect: TurnEffect) -> Any:
        """Do what the turn wants; an error is a value, for the turn to settle what it has begun."""
        match effect:
            case RunTools(runs=runs):
                return self.tools.run_all(runs)
            case AskModel():
                ask = partial(self.client.exchange, **request_of(effect, self.keywords))
                return _attempted(lambda: asked_of(ask()))
            case _:
                return _used(self.sessions, effect)


@dataclass(frozen=True, slots=True)
class AsyncPerformer:
    """Performs the effects of one turn with an async client; the store is used in a thread."""

    client: AsyncStrictClient
    keywords: JSONObject = field(repr=False)
    tools: ToolRunner
    sessions: SessionStore

    async def __call__(self, effect: TurnEffect) -> Any:
        """Do what the turn wants, awaiting."""
        match effect:
            case RunTools(runs=runs):
                return await self.tools.arun_all(runs)
            case AskModel():
                try:
                    return asked_of(await self.client.exchange(**request_of(effect, self.keywords)))
                except Exception as error:  # noqa: BLE001 - as in the twin
                    return Raised(error)
            case _:
                return await finished_in_thread(partial(_used, self.sessions, effect))


def request_of(effect: AskModel, keywords: JSONObject) -> JSONObject:
    """Give the keywords of one ask; ``tool_choice`` demands a call of the turn's first alone."""
    demanded = keywords.get("tool_choice") not in _UNDEMANDING and not effect.is_first
    kept = {name: value for name, value in keywords.items() if name != "tool_choice"} if demanded else keywords
    return {**kept, "messages": effect.messages}


def numbering(client: StrictClient | AsyncStrictClient, keywords: JSONObject) -> JSONObject:
    """Let replies repeat the ids of earlier calls: a turn numbers these itself, whatever its server does.

    Some servers count anew in every reply, and no other ask mends them (fw-ai/fireconnect#16).
    """
    contract: Contract = keywords.get("contract") or client.contract
    return {**keywords, "contract": contract.replace(ids_may_repeat=True)}


def asked_of(exchange: Exchange) -> Asked:
    """Give what a turn needs of an exchange."""
    return Asked(exchange.transcript[-1], exchange.reply, exchange.usage, exchange.attempts)


def _used(sessions: SessionStore, effect: UseStore) -> Any:
    """Use the store; what it raises is a value, and an error of ours: a program's own store may raise anything."""
    given = _attempted(partial(effect.use, sessions))
    if isinstance(given, Raised) and not isinstance(given.error, StrictReplyError):
        return Raised(SessionStoreFailed(type(sessions).__name__, "failed", cause=given.error))
    return given


def _attempted(work: Any) -> Any:
    """Do something; what it raises is a value."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the turn gives back what it has claimed, and raises it again
        return Raised(error)
