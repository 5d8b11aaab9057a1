"""The probe of an app: rehearse with good replies, choose the faults, and run the app with each.

Each fault is served to two runs: to every request, then only to the first request to see whether
the app recovers.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from strictreply.core import JSON, JSONObject
from strictreply.testing._probing.behaviour import Behaviour, judged
from strictreply.testing._probing.client_verdicts import verdict_on
from strictreply.testing._probing.good_model import GoodModel
from strictreply.testing._probing.rehearsal import Rehearsal, rehearse
from strictreply.testing._probing.report_page import junit_xml, report_json, report_page
from strictreply.testing._probing.seen_acts import Acts, acts_of, doubt, ran_after, sent_back
from strictreply.testing._probing.trials import ProbeTrial, planned
from strictreply.testing._scripts import (
    MAX_REQUESTS,
    Demand,
    DemandHints,
    ScriptedModel,
    last_results,
)
from strictreply.testing._steps import Kind, Step, Target
from strictreply.testing._wire import CallIds, HTTPReply, Responder, Served
from strictreply.testing.subjects import Connect, ProbeStage
from strictreply.testing.survival import OUTCOMES, ProbeOutcome, ProbeRun, Report, Unusable

__all__ = ["REPORT_FORMS", "Probe"]

# A run with so many requests at its timeout is a loop, not a hang.
MIN_LOOP = 10
MAX_IDLE = 8  # requests of the run with plain text, which an app may repeat without end


def _calls_nothing(served: Served, demand: Demand) -> bool:
    """Report whether a job that needs a tool gets a reply without a call.

    Then no tool can run with good arguments.
    """
    if demand.targets[0].tool is None:
        return False

    quoted = _quoted(served)
    return not any(f'"{tool.name}"' in quoted for tool in demand.callable_tools)


def _quoted(served: Served) -> str:
    """Return the text of a reply, in which each name has quotes, escaped or not."""
    if isinstance(served, HTTPReply):
        text = served.body.decode("latin-1")
    else:
        text = json.dumps(served, ensure_ascii=False)

    return text.replace("\\", "")


@dataclass(slots=True)
class Probe:
    """One probe of one app.

    The parameters after ``connect`` are keywords. :meth:`report` returns the results so far at any
    time.
    """

    name: str
    """Name of the app in the report."""
    connect: Connect
    """Starts the app: from ``subjects.as_process`` or ``subjects.as_service``."""
    _: KW_ONLY
    """All further parameters are keywords."""
    tools: Sequence[object] = ()
    """Tools that only the app's prompt describes."""
    answer: object = None
    """The type of answer that only the prompt describes; None for none."""
    good: JSON = None
    """Good arguments of the first tool, or a good answer; None for examples made from the schema.
    """
    kinds: Collection[Kind] = ()
    """Kinds of the faults to try; empty for all."""
    faults: Collection[str] = ()
    """Names of the faults to try; empty for all."""
    handlers: Collection[str] = ()
    """Functions that act on a call, in addition to those with a tool's name."""
    timeout: float = 10.0
    """Seconds after which a run counts as hung."""
    max_requests: int = MAX_REQUESTS
    """Number of requests after which a run is ended as an endless loop."""
    jobs: int = 2
    """Number of parallel runs."""
    port: int = 0
    """Port of the served model; 0 for a free one."""
    _started: datetime = field(default_factory=partial(datetime.now, UTC), init=False)
    """Time when the probe began."""
    _started_at: float = field(default_factory=time.monotonic, init=False)
    """Monotonic seconds at the beginning."""
    _rehearsal: Rehearsal | None = field(default=None, init=False)
    """The results with good replies; None before."""
    _order: list[str] = field(default_factory=list[str], init=False)
    """Sources of the planned faults, in order."""
    _runs: list[ProbeRun] = field(default_factory=list[ProbeRun], init=False)
    """The runs so far."""
    _digests: dict[str, str] = field(default_factory=dict[str, str], init=False)
    """Digests of the results, by the source of the fault."""

    @property
    def _hints(self) -> DemandHints:
        return DemandHints(tools=tuple(self.tools), answer=self.answer, args=self.good)

    def run(
        self,
        *,
        on_plan: Callable[[str, int], object] = lambda _asks, _runs: None,
        on_run: Callable[[ProbeRun], object] = lambda _run: None,
    ) -> Report:
        """Probe the app, and return the report.

        - ``on_plan`` is called with the app's expected replies, in words, and the number of faults.
        - ``on_run`` is called with each run at its end.

        Raises Unusable when the app fails with good replies, or when a fault of ``faults`` cannot
        be served to it.
        """

        async def probed() -> Report | KeyboardInterrupt | SystemExit:
            # An exception that ends the program is returned: asyncio would keep it with this task.
            try:
                return self._reported(await self._probed(on_plan, on_run))
            except (KeyboardInterrupt, SystemExit) as error:
                return error

        found = asyncio.run(probed())
        if not isinstance(found, Report):
            raise found

        return found

    async def _probed(
        self, on_plan: Callable[[str, int], object], on_run: Callable[[ProbeRun], object]
    ) -> Rehearsal:
        async with AsyncExitStack() as stack:
            stages = [
                ProbeStage(self.connect, timeout=self.timeout, port=self.port)
                for _ in range(self.jobs)
            ]
            for stage in stages:
                stack.push_async_callback(stage.close)

            rehearsal = await rehearse(stages[0], self._hints)
            for stage in stages:
                stage.warm_up = GoodModel(self._hints)

            trials, self._runs = planned(rehearsal.demand, kinds=self.kinds, names=self.faults)
            if self.faults and (absent := [f"{run.fault} {run.detail}" for run in self._runs]):
                raise Unusable(
                    f"some of the chosen faults cannot be served to it: {'; '.join(absent)}"
                )

            rehearsal = self._rehearsal = await self._seen(stages[0], trials, rehearsal)
            self._order = [trial.run.source for trial in trials]
            on_plan(rehearsal.demand.words, len(trials))
            left = deque(trials)

            async def work(stage: ProbeStage) -> None:
                while left:
                    run = await self._tried(stage, left.popleft(), rehearsal)
                    self._runs.append(run)
                    on_run(run)

            try:
                async with asyncio.TaskGroup() as group:
                    for stage in stages[: len(trials)]:
                        group.create_task(work(stage))
            except BaseExceptionGroup as several:
                # One such run is enough to see that the app does not start again.
                raise several.exceptions[0] from None

            return rehearsal

    def report(self) -> Report | None:
        """Return the results so far, in the catalogue's order.

        None before the rehearsal is over.
        """
        return None if self._rehearsal is None else self._reported(self._rehearsal)

    def _reported(self, rehearsal: Rehearsal) -> Report:
        place = {source: number for number, source in enumerate(self._order)}
        return Report(
            app=self.name,
            asks=rehearsal.demand.words,
            started=self._started,
            seconds=time.monotonic() - self._started_at,
            versions=rehearsal.versions,
            runs=tuple(sorted(self._settled(), key=lambda run: place.get(run.source, len(place)))),
            complete=sum(1 for run in self._runs if run.source) == len(self._order),
        )

    def _settled(self) -> Iterator[ProbeRun]:
        """Yield the runs.

        A run with the result that the app returns when no tool can have run counts as without a
        tool.
        """
        without = ProbeOutcome.ANSWERED_WITHOUT_TOOL
        toolless = (run for run in self._runs if run.outcome is without)
        alike = {self._digests[run.source]: run.detail for run in toolless}
        good = self._rehearsal and self._rehearsal.good

        for run in self._runs:
            digest = self._digests.get(run.source, "")
            same = run.outcome is ProbeOutcome.ACCEPTED and digest in alike and digest != good
            yield replace(run, outcome=without, detail=alike[digest]) if same else run

    async def _seen(
        self, stage: ProbeStage, trials: Sequence[ProbeTrial], rehearsal: Rehearsal
    ) -> Rehearsal:
        """Learn what the app does with the good reply of each target, and with plain text.

        Raises Unusable when none of the ``handlers`` ran.
        """
        watched = self._watched(rehearsal)
        idle = ScriptedModel(then=Step("idle", Target.of().clean, ""), max_requests=MAX_IDLE)
        without = await stage.play(idle, tools=watched)

        acts: dict[str, Acts] = {}
        for target in {trial.target.name: trial.target for trial in trials}.values():
            model = ScriptedModel(Step("clean", target.clean, ""))
            good = await stage.play(self._then_good(model, is_fault=False), tools=watched)
            acts[target.name] = acts_of(good, model.requests, without)

        ran = {name for one in acts.values() for name in one.ran}
        if acts and self.handlers and (absent := sorted({*self.handlers} - ran)):
            names = sorted({name for one in acts.values() for name in one.functions})
            listed = f"; what ran: {', '.join(names)}" if names else ""
            raise Unusable(f"--ran {absent[0]}: no function of that name ran for a call{listed}")

        return rehearsal._replace(acts=acts)

    def _watched(self, rehearsal: Rehearsal) -> list[str]:
        return [*(tool.name for tool in rehearsal.demand.callable_tools), *self.handlers]

    async def _tried(self, stage: ProbeStage, trial: ProbeTrial, rehearsal: Rehearsal) -> ProbeRun:
        """Serve a fault to every request of a run, then to the first request of another run.

        The second run is left out when the app sent only one request.
        """
        good = rehearsal.good
        always = ScriptedModel(then=trial.fault, max_requests=self.max_requests)
        once = ScriptedModel(trial.fault)
        ids = CallIds()

        def until_read(request: JSONObject) -> Served:
            served = always(request)
            # the intended call has run, and its result needs another reply
            if trial.has_one_meaning and last_results(request):
                return ids.fresh(Demand(request, self._hints).good(), request)
            return served

        behaviour = await stage.play(until_read, tools=self._watched(rehearsal))
        recovered = False

        if len(always.requests) > 1:
            again = await stage.play(self._then_good(once))
            recovered = again.returned and good in {None, again.digest}

        if good is not None and trial.fault.clean != trial.target.clean:
            clean = ScriptedModel(Step("clean", trial.fault.clean, ""))
            intended = await stage.play(self._then_good(clean, is_fault=False))
            rehearsal = rehearsal._replace(good=intended.digest)

        self._digests[trial.run.source] = behaviour.digest
        run = _run_of(trial, behaviour, (always, once), rehearsal)
        return replace(run, recovered=recovered)

    def _then_good(self, once: ScriptedModel, *, is_fault: bool = True) -> Responder:
        """Serve a script of one step, and good replies to all further requests.

        After a fault the first good reply is a call, whatever the request contains.
        """
        ids = CallIds()

        def first_then_good(request: JSONObject) -> Served:
            served = once(request)
            after = len(once.requests) - 1
            if after:
                served = Demand(request, self._hints).good(again=is_fault and after == 1)
            return ids.fresh(served, request)

        return first_then_good


def _run_of(
    trial: ProbeTrial, behaviour: Behaviour, models: Sequence[ScriptedModel], rehearsal: Rehearsal
) -> ProbeRun:
    """Judge how a run ended; harm that the client did on the way counts if it is worse."""
    asked = models[0].requests
    calls_nothing = _calls_nothing(trial.fault.served, rehearsal.demand)
    echoes = [(number, role) for model in models for number, role, _ in model.echoes()]
    looped = models[0].looped or (behaviour.outcome is ProbeOutcome.HUNG and len(asked) >= MIN_LOOP)
    outcome, detail = judged(
        behaviour,
        echoes,
        rehearsal.good,
        looped=looped,
        without_tool=calls_nothing,
        one_meaning=trial.has_one_meaning,
    )
    run = replace(trial.run, frame=behaviour.frame, seconds=behaviour.seconds, requests=len(asked))
    if not asked and behaviour.outcome is not ProbeOutcome.HUNG:
        words = (
            f"not served: the app sent no request in this run ({detail}); "
            "it may cache replies, or call the model no more after failures"
        )
        return replace(run, outcome=ProbeOutcome.UNKNOWN, detail=words)

    ran = [] if calls_nothing else sorted(ran_after(behaviour, asked))
    acts = _acts_on(trial, rehearsal)
    is_sent = not calls_nothing and sent_back(asked, acts)
    seen: dict[str, Any] = {"skipped": behaviour.skipped, "usual": rehearsal.usual, "ran": ran}

    found = None
    if outcome in _REFUSED | {ProbeOutcome.ACCEPTED} or not behaviour.returned:
        accepted = outcome is ProbeOutcome.ACCEPTED
        found = verdict_on(trial.fault, asked, accepted=accepted, is_sent=is_sent, **seen)

    if found is None:
        unseen = ""
        if outcome in _REFUSED and not calls_nothing:
            unseen = doubt(behaviour, asked, acts)
        if not unseen:
            return replace(run, outcome=outcome, detail=detail)

        words = f"{detail}; whether it acted before is unknown: {unseen}"
        return replace(run, outcome=ProbeOutcome.UNKNOWN, detail=words)

    verdict, words = found
    worse = outcome is not ProbeOutcome.LEAKED and verdict.harm.rank < OUTCOMES[outcome].harm.rank
    misbehaved = outcome in _REFUSED or (worse and not behaviour.returned)
    outcome = ProbeOutcome.MISBEHAVED if misbehaved else outcome

    return replace(run, outcome=outcome, detail=f"{words}; then {detail}", verdict=verdict)


# The outcomes of an app that does not use the reply, as far as its result shows.
_REFUSED = {ProbeOutcome.CLEAN, ProbeOutcome.NOTHING}


def _acts_on(trial: ProbeTrial, rehearsal: Rehearsal) -> list[Acts]:
    """Return the functions that run for good replies of the tools that a faulty reply names.

    Those of the tool whose good reply was made faulty are always included.
    """
    quoted = _quoted(trial.fault.served)
    named = {tool.name for tool in rehearsal.demand.callable_tools if f'"{tool.name}"' in quoted}
    names = named | {trial.target.name}
    return [acts for name, acts in rehearsal.acts.items() if name in names]


REPORT_FORMS: Mapping[str, Callable[[Report], str]] = {
    "json": lambda report: json.dumps(report_json(report), indent=2) + "\n",
    "junit": junit_xml,
    "html": report_page,
}
"""Functions that write a report in each form: JSON, JUnit XML, and one HTML page."""
