"""The probe itself: rehearse, choose the faults, run the app once per fault, and once more to see if it recovers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from datetime import UTC, datetime

from strictreply.testing._demands import Demand, Told
from strictreply.testing._probing.outcomes import Echo, Report, Returned, Run, judged
from strictreply.testing._probing.plan import Trial, planned
from strictreply.testing._probing.rehearsal import GoodModel, Rehearsal, rehearse
from strictreply.testing._probing.stage import Connect, Stage
from strictreply.testing._scripts import ScriptedModel
from strictreply.testing._steps import Kind
from strictreply.testing._wire import Responder, Served
from strictreply.values._json import JSONObject

DEFAULT_TIMEOUT = 10.0


class Probe:
    """One probe of one app; :meth:`report` tells at any time what was found so far.

    ``name`` is how the app is called in the report, ``connect`` starts it; ``told`` says what its requests do not.
    ``kinds`` and ``names`` choose faults, empty ones all. ``timeout`` is how many seconds a run may take, ``jobs`` how
    many run side by side, ``port`` where the server listens, 0 for a free one.
    """

    def __init__(
        self,
        name: str,
        connect: Connect,
        *,
        told: Told = Told(),  # noqa: B008 - a frozen value
        kinds: Collection[Kind] = (),
        names: Collection[str] = (),
        timeout: float = DEFAULT_TIMEOUT,
        jobs: int = 2,
        port: int = 0,
    ) -> None:
        """Start nothing yet."""
        self._name = name
        self._told = told
        self._chosen = (frozenset(kinds), frozenset(names))
        self._stages = [Stage(connect, timeout=timeout, port=port) for _ in range(jobs)]
        self._began = (datetime.now(UTC), time.monotonic())
        self._rehearsal: Rehearsal | None = None
        self._order: list[str] = []
        self._runs: list[Run] = []

    async def run(self, *, on_plan: Callable[[Demand, int], None], on_run: Callable[[Run], None]) -> None:
        """Probe the app; raises Unusable when it does not work with good replies either.

        ``on_plan`` gets what the app asks for and the number of runs to come, ``on_run`` each run as it ends.
        """
        async with AsyncExitStack() as stack:
            for stage in self._stages:
                stack.push_async_callback(stage.close)
            self._rehearsal = await rehearse(self._stages[0], self._told)
            kinds, names = self._chosen
            for stage in self._stages:
                stage.warm_up = GoodModel(self._told)
            trials, self._runs = planned(self._rehearsal.demand, kinds=kinds, names=names)
            self._order = [trial.source for trial in trials]
            on_plan(self._rehearsal.demand, len(trials))
            left = deque(trials)
            try:
                async with asyncio.TaskGroup() as group:
                    for stage in self._stages[: len(trials)]:
                        group.create_task(self._work(stage, left, self._rehearsal, on_run))
            except BaseExceptionGroup as several:  # one is enough to say that the app does not start again
                raise several.exceptions[0] from None

    def report(self) -> Report | None:
        """Tell what was found so far, in the catalogue's order; None before the rehearsal was over."""
        if self._rehearsal is None:
            return None
        place = {source: number for number, source in enumerate(self._order)}
        started, begun = self._began
        return Report(
            app=self._name,
            asks=self._rehearsal.demand.words,
            started=started,
            seconds=time.monotonic() - begun,
            versions=self._rehearsal.versions,
            runs=tuple(sorted(self._runs, key=lambda run: place.get(run.source, len(place)))),
            complete=sum(1 for run in self._runs if run.source) == len(self._order),
        )

    async def _work(
        self, stage: Stage, left: deque[Trial], rehearsal: Rehearsal, on_run: Callable[[Run], None]
    ) -> None:
        """Try one fault after the other on one stage, until none is left."""
        while left:
            run = await self._tried(stage, left.popleft(), rehearsal)
            self._runs.append(run)
            on_run(run)

    async def _tried(self, stage: Stage, trial: Trial, rehearsal: Rehearsal) -> Run:
        """Serve one fault for every request, then for the first one only.

        An app that asked once does the same again: it cannot recover.
        """
        always = ScriptedModel(then=trial.fault)
        played = await stage.play(always)
        echoes = _echoes(always)
        recovered = False
        if len(always.requests) > 1:
            once = ScriptedModel(trial.fault)
            behaviour = (await stage.play(_good_after(once, self._told))).behaviour
            recovered = isinstance(behaviour, Returned) and rehearsal.good in {None, behaviour.digest}
            echoes += _echoes(once)
        outcome, detail = judged(played.behaviour, echoes, rehearsal.good)
        requests = len(always.requests)
        return trial.run(outcome, detail, seconds=played.seconds, requests=requests, recovered=recovered)


def _good_after(script: ScriptedModel, told: Told) -> Responder:
    """Serve a script, and good replies when it is spent."""

    def answer(request: JSONObject) -> Served:
        """Serve one step, or a good reply."""
        served = script(request)
        return served if len(script.requests) <= len(script.steps) else Demand(request, told).good()

    return answer


def _echoes(model: ScriptedModel) -> list[Echo]:
    """List where what the model wrote came back."""
    return [Echo(number, role) for number, role, _ in model.echoes()]
