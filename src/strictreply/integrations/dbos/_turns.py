"""One turn as the body of a DBOS workflow: a text in, a text out, and nothing in between that a second time differs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from strictreply.client._client import AsyncStrictClient, StrictClient
from strictreply.contract._contract import Contract
from strictreply.contract._driving import adrive, drive
from strictreply.integrations.dbos._failures import DurableRunFailed, Failure
from strictreply.integrations.dbos._library import load
from strictreply.integrations.dbos._performing import AsyncStepPerformer, StepPerformer
from strictreply.integrations.dbos._records import TurnEnd, TurnRequest, reply_record
from strictreply.integrations.dbos._suspects import Trial
from strictreply.pipeline._invoke_result import InvokeFailed
from strictreply.pipeline._line import LineResult, LineStatus
from strictreply.pipeline._loop_policy import LoopPolicy
from strictreply.pipeline._sessions import SessionStore
from strictreply.pipeline._turn_effects import TurnEffect
from strictreply.pipeline._turn_steps import Stamp, TurnSteps, turn_flow
from strictreply.pipeline._values import AgentContext
from strictreply.running._run_values import RunEvent
from strictreply.running._turn_performing import AsyncTurnPerformer, ToolRunner, TurnPerformer, in_thread, numbering
from strictreply.values._json import JSONObject


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every turn of these runs is run with, in every process alike."""

    client: StrictClient | AsyncStrictClient
    keywords: JSONObject = field(repr=False)
    loop: LoopPolicy
    agent: AgentContext

    @cached_property
    def contract(self) -> Contract:
        """What the model's replies are held to."""
        return self.client.contract_for(**self.keywords)

    def refuse_unrunnable(self) -> None:
        """Raise ContractError when a tool has to be awaited and the client cannot."""
        for tool in self.contract.tools:
            if tool.function is not None:
                tool.refuse_unrunnable(awaited=isinstance(self.client, AsyncStrictClient))

    @property
    def body(self) -> Callable[[str], Any]:
        """The workflow: async for an async client."""
        return (
            _async_body(self, self.client) if isinstance(self.client, AsyncStrictClient) else _body(self, self.client)
        )

    def opened(self, text: str) -> _Turn:
        """Open the turn that a workflow was started with."""
        request, workflow_id, numbers = TurnRequest.from_json(text), str(load().DBOS.workflow_id), count()
        steps = TurnSteps.opened(
            self.contract,
            self.loop,
            self.agent,
            model=str(self.keywords.get("model", "")),
            new_id=lambda: uuid5(NAMESPACE_OID, f"{workflow_id}/{next(numbers)}").hex,
        )
        return _Turn(request, steps, request.store(), workflow_id, Trial(workflow_id))


@dataclass(frozen=True, slots=True)
class _Turn:
    """One turn that is run, or played again; its ids are made of the workflow's, and so the same every time."""

    request: TurnRequest
    steps: TurnSteps
    store: SessionStore
    workflow_id: str
    trial: Trial

    def flow(self) -> Generator[TurnEffect, Any, LineResult]:
        """Begin the turn."""
        stamp = Stamp(time_stamp=self.request.time_stamp, correlation_id=self.workflow_id)
        return turn_flow(self.request.envelope, self.steps, stamp, cancelled=_never, clock=time.perf_counter)

    def ended(self, line: LineResult) -> str:
        """Spell what the turn came to; DurableRunFailed when it failed."""
        built = line.context.built
        if line.status is not LineStatus.COMPLETED or built is None:
            raise DurableRunFailed(Failure.of(line.cause or InvokeFailed(line.errors, step=line.step.name)))
        response = built.response
        session = self.store.session(response.session_id)
        turn = self.store.turn(response.session_id, response.turn_id)
        if session is None or turn is None:
            raise LookupError("a completed turn is kept")
        waiting, asked = line.context.outgoing_manifest, tuple(map(reply_record, self.steps.asked))
        return TurnEnd(response=response, session=session, turn=turn, waiting=waiting, asked=asked).to_json()


def _body(setting: Setting, client: StrictClient) -> Callable[[str], str]:
    """Make the workflow of a sync client."""

    def run_turn(text: str) -> str:
        """Run one turn; what it did before a process died is read, not done again."""
        turn = setting.opened(text)
        perform = TurnPerformer(
            client, numbering(client, setting.keywords), ToolRunner(setting.loop, _nobody), turn.store
        )
        try:
            turn.trial.begin()
            return turn.ended(drive(turn.flow(), StepPerformer(perform, setting.contract, turn.trial)))
        finally:
            turn.trial.end()

    return run_turn


def _async_body(setting: Setting, client: AsyncStrictClient) -> Callable[[str], Any]:
    """Make the workflow of an async client."""

    async def run_turn(text: str) -> str:
        """Run one turn, awaiting."""
        turn = setting.opened(text)
        perform = AsyncTurnPerformer(
            client, numbering(client, setting.keywords), ToolRunner(setting.loop, _nobody), turn.store
        )
        try:
            await asyncio.wrap_future(in_thread(turn.trial.begin))
            return turn.ended(await adrive(turn.flow(), AsyncStepPerformer(perform, setting.contract, turn.trial)))
        finally:
            turn.trial.end()

    return run_turn


def _never() -> bool:
    """Never cancel here: DBOS does, at a step."""
    return False


def _nobody(event: RunEvent) -> None:
    """Tell nobody: whoever wants to know may have died."""
