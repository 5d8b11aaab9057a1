"""Performing a turn's effects as steps of a DBOS workflow: one for each ask of the model and each call of a tool."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from strictreply.contract._contract import Contract
from strictreply.integrations.dbos._failures import DurableRunFailed, Failure
from strictreply.integrations.dbos._library import load
from strictreply.integrations.dbos._records import asked_from, asked_record, outcome_from, outcome_record
from strictreply.integrations.dbos._suspects import Trial
from strictreply.pipeline._turn_effects import AskModel, RunTool, RunTools, ToolOutcome, TurnEffect
from strictreply.running._turn_performing import AsyncTurnPerformer, TurnPerformer

ASK = {"name": "ask"}


@dataclass(frozen=True, slots=True)
class StepPerformer:
    """Has each effect performed by ``perform``, inside a step; the store is in memory and is no step.

    ``trial`` is told of steps that had no record, and ends behind the first effect with one.
    """

    perform: TurnPerformer
    contract: Contract
    trial: Trial

    def __call__(self, effect: TurnEffect) -> Any:
        """Do what the turn wants, or read what it came to before."""
        match effect:
            case AskModel():
                told: Any = asked_from(load().DBOS.run_step(ASK, self._ask, effect), self.contract)
            case RunTools(runs=runs):
                told = self._run_all(runs)
            case _:
                told = self.perform(effect)
        self.trial.settle()
        return told

    def _ask(self, effect: AskModel) -> str:
        """Ask, and spell what came."""
        self.trial.step()
        return asked_record(self.perform(effect))

    def _run_all(self, runs: Sequence[RunTool]) -> tuple[ToolOutcome, ...]:
        """Run the calls of one reply, several at a time; their steps are numbered in the order of the calls."""
        steps = [load().DBOS.reserve_step() for _ in runs]
        with ThreadPoolExecutor(self.perform.tools.policy.concurrency) as pool:
            told = [
                pool.submit(contextvars.copy_context().run, partial(step.run, step_of(run), self._run, run))
                for step, run in zip(steps, runs, strict=True)
            ]
        return tuple(outcome_from(future.result()) for future in told)

    def _run(self, run: RunTool) -> str:
        """Run one call, within its time, and spell its result; an exit fails the run, which would hang without it."""
        self.trial.step()
        try:
            (outcome,) = self.perform.tools.run_all((run,))
        except SystemExit as error:
            raise DurableRunFailed(Failure.of(error)) from error
        return outcome_record(outcome)


@dataclass(frozen=True, slots=True)
class AsyncStepPerformer:
    """The twin of :class:`StepPerformer` for an async client."""

    perform: AsyncTurnPerformer
    contract: Contract
    trial: Trial

    async def __call__(self, effect: TurnEffect) -> Any:
        """Do what the turn wants, or read what it came to before, awaiting."""
        match effect:
            case AskModel():
                told: Any = asked_from(await load().DBOS.run_step_async(ASK, self._ask, effect), self.contract)
            case RunTools(runs=runs):
                told = await self._run_all(runs)
            case _:
                told = await self.perform(effect)
        self.trial.settle()
        return told

    async def _ask(self, effect: AskModel) -> str:
        """Ask, and spell what came."""
        self.trial.step()
        return asked_record(await self.perform(effect))

    async def _run_all(self, runs: Sequence[RunTool]) -> tuple[ToolOutcome, ...]:
        """Run the calls of one reply, several at a time; their steps are numbered in the order of the calls."""
        steps = [load().DBOS.reserve_step() for _ in runs]
        room = asyncio.Semaphore(self.perform.tools.policy.concurrency)

        async def run_one(step: Any, run: RunTool) -> ToolOutcome:
            """Run one call as soon as there is room."""
            async with room:
                return outcome_from(await step.run_async(step_of(run), self._run, run))

        return tuple(await asyncio.gather(*map(run_one, steps, runs)))

    async def _run(self, run: RunTool) -> str:
        """Run one call, within its time, and spell its result."""
        self.trial.step()
        (outcome,) = await self.perform.tools.arun_all((run,))
        return outcome_record(outcome)


def call_key() -> str | None:
    """Name the call that this tool is run for: the same each time it is run, and no other call's; an idempotency key.

    None outside of a durable run, where a call runs once.
    """
    dbos = load().DBOS
    return None if dbos.step_id is None else f"{dbos.workflow_id}/{dbos.step_id}"


def step_of(run: RunTool) -> dict[str, str]:
    """Name the step of a call by its tool: one that is played again must be the same."""
    return {"name": f"tool {run.call.tool}"}
