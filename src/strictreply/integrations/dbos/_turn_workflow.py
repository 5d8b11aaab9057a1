"""One turn as a DBOS workflow of recorded steps: requests and calls.

After a death it is started again with the records of its steps.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any, Final, Protocol
from uuid import NAMESPACE_OID, uuid5

import anyio

from strictreply import (
    AbortRun,
    AsyncStrictClient,
    InvokeFailed,
)
from strictreply.core import JSONObject, adrive, drive
from strictreply.integrations import load
from strictreply.integrations.dbos._durable_records import (
    DurableFailure,
    DurableRunFailed,
    TurnEnd,
    TurnRequest,
    asked_from,
    asked_record,
    called_from,
    called_record,
)
from strictreply.integrations.dbos._durable_worker import TurnTrial
from strictreply.loop import (
    AcceptedReply,
    AskModel,
    Effect,
    EffectRaised,
    MemorySessionStore,
    Progress,
    RunSettings,
    RunTool,
    RunTools,
    ToolOutcome,
    ToolRunner,
    WalkEnd,
    aperform,
    perform,
    run_flow,
)
from strictreply.loop.values import AgentToolCall, LineStatus, ToolCallManifest
from strictreply.pipeline import AgentPipelineContextValidator

_ASK: Final = {"name": "ask"}


class _Step(Protocol):
    """A step of DBOS whose number is reserved."""

    run_async: Callable[..., Awaitable[str]]


class _DurableTurn:
    """A turn that runs for the first time or is replayed.

    Its effects are steps, its ids are made from the workflow's id, and its store is in memory.
    """

    def __init__(self, settings: RunSettings, text: str) -> None:
        request = TurnRequest.from_json(text)
        numbers = count()
        own_id = str(load("dbos").DBOS.workflow_id)

        self.settings = settings
        self.trial = TurnTrial(own_id)
        # events are dropped: the process that listened to them may have died
        self.tools = ToolRunner(settings.policy, lambda _: None)
        self.store = MemorySessionStore() if request.before is None else request.before.store()
        # DBOS cancels it, at a step
        self.loop = settings.opened(
            request.envelope,
            new_id=lambda: uuid5(NAMESPACE_OID, f"{own_id}/{next(numbers)}").hex,
            correlation_id=own_id,
            time_stamp=request.time_stamp,
        )
        self.flow: Generator[Effect, object, WalkEnd[Progress]] = run_flow(self.loop)

    def ended(self, end: WalkEnd[Progress]) -> str:
        """Return the record of the turn's end; raise DurableRunFailed if it failed."""
        response = end.context.response
        if end.status is not LineStatus.COMPLETED or response is None:
            cause = end.cause or InvokeFailed(end.errors, step=end.step.name)
            raise DurableRunFailed(DurableFailure.of(cause))

        session = self.store.session(response.session_id)
        turn = self.store.turn(response.session_id, response.turn_id)
        if session is None or turn is None:
            raise LookupError("a completed turn is kept")

        record = TurnEnd(
            response=response,
            session=session,
            turn=turn,
            waiting=end.context.manifest,
            asked=tuple(map(asked_record, self.loop.replies)),
        )
        return record.to_json()

    def perform(self, inner: Callable[[Effect], Any], effect: Effect) -> object:
        """Perform an effect with a sync client, or read its record."""
        dbos = load("dbos").DBOS

        def run_tool(run: RunTool) -> str:
            try:
                (outcome,) = self.tools.run_all((run,))
            except AbortRun as error:
                return self._record(called_record(error))
            except SystemExit as error:  # ends the run, which would otherwise hang
                raise DurableRunFailed(DurableFailure.of(error)) from error
            return self._record(called_record(outcome))

        def ask() -> str:
            return self._record(asked_record(inner(effect)))

        match effect:
            case AskModel():
                event: Any = self._asked(dbos.run_step(_ASK, ask))
            case RunTools(runs=runs):
                steps = [dbos.reserve_step() for _ in runs]  # numbered in the order of the calls
                work = [
                    partial(step.run, _step_of(run), run_tool, run)
                    for step, run in zip(steps, runs, strict=True)
                ]

                if len(work) == 1:
                    done = [work[0]()]
                else:
                    with ThreadPoolExecutor(self.tools.policy.concurrency) as pool:
                        started = [pool.submit(contextvars.copy_context().run, one) for one in work]
                    done = [future.result() for future in started]

                event = outcomes_from(runs, done)
            case _:
                event = inner(effect)

        self.trial.settle()
        return event

    async def aperform(self, inner: Callable[[Effect], Awaitable[Any]], effect: Effect) -> object:
        """Perform an effect with an async client, or read its record."""
        dbos = load("dbos").DBOS
        limit = asyncio.Semaphore(self.tools.policy.concurrency)

        async def ask() -> str:
            return self._record(asked_record(await inner(effect)))

        async def run_tool(run: RunTool) -> str:
            try:
                (outcome,) = await self.tools.arun_all((run,))
            except AbortRun as error:
                return self._record(called_record(error))
            return self._record(called_record(outcome))

        async def run_step(step: _Step, run: RunTool) -> str:
            async with limit:
                done: str = await step.run_async(_step_of(run), run_tool, run)
            return done

        match effect:
            case AskModel():
                event: Any = self._asked(await dbos.run_step_async(_ASK, ask))
            case RunTools(runs=runs):
                steps = [dbos.reserve_step() for _ in runs]  # numbered in the order of the calls
                done = await asyncio.gather(*map(run_step, steps, runs))
                event = outcomes_from(runs, done)
            case _:
                event = await inner(effect)

        self.trial.settle()
        return event

    def _record(self, record: JSONObject) -> str:
        """Write the record of a step.

        A lone surrogate is escaped, because no database accepts one.
        """
        self.trial.stepped = True
        return json.dumps(record, separators=(",", ":"))

    def _asked(self, text: str) -> AcceptedReply | EffectRaised:
        return asked_from(json.loads(text), self.settings)


def workflow_of(settings: RunSettings) -> Callable[[str], object]:
    """Return the workflow, which takes and returns a record; it is async for an async client."""
    if isinstance(settings.client, AsyncStrictClient):

        async def arun_turn(text: str) -> str:
            turn = _DurableTurn(settings, text)
            inner = partial(aperform, settings, turn.tools, turn.store)
            try:
                await anyio.to_thread.run_sync(turn.trial.begin)
                return turn.ended(await adrive(turn.flow, partial(turn.aperform, inner)))
            finally:
                turn.trial.end()

        return arun_turn

    def run_turn(text: str) -> str:
        turn = _DurableTurn(settings, text)
        inner = partial(perform, settings, turn.tools, turn.store)
        try:
            turn.trial.begin()
            return turn.ended(drive(turn.flow, partial(turn.perform, inner)))
        finally:
            turn.trial.end()

    return run_turn


def call_key() -> str | None:
    """Return an idempotency key of the tool call in progress; it is the same in each replay.

    It is None outside of a durable run.
    """
    dbos = load("dbos").DBOS
    return None if dbos.step_id is None else f"{dbos.workflow_id}/{dbos.step_id}"


def _step_of(run: RunTool) -> dict[str, str]:
    # DBOS compares names: a replayed step must have the same one
    return {"name": f"tool {run.call.tool}"}


def outcomes_from(
    runs: Sequence[RunTool], texts: Iterable[str]
) -> tuple[ToolOutcome, ...] | EffectRaised:
    """Read the records of calls: their outcomes, or the first exception that ended the run.

    A database may contain anything, so results are checked by the rules of a manifest.
    """
    outcomes: list[ToolOutcome] = []
    for text in texts:
        outcome = called_from(json.loads(text))
        if isinstance(outcome, DurableRunFailed):
            return EffectRaised(outcome)
        outcomes.append(outcome)

    calls = tuple(
        AgentToolCall(tool_call_id=str(one.call.id), name=one.call.tool, arguments_json="{}")
        for one in runs
    )
    results = tuple(outcome.result for outcome in outcomes)
    manifest = ToolCallManifest(tool_calls=calls, tool_call_results=results)

    broken = AgentPipelineContextValidator().validate_tool_call_manifest(manifest)
    if not broken.successful:
        return EffectRaised(InvokeFailed(broken.errors))
    return tuple(outcomes)
