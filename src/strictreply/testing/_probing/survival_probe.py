"""The probe: rehearse, choose the faults, and run the app with each.

It is run once with nothing but the fault, and once more to see whether it recovers.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from strictreply.testing._probing.client_verdicts import question, verdict_on
from strictreply.testing._probing.probe_worker import Unusable
from strictreply.testing._probing.seen_acts import Acts, acts_of, doubt, ran_after, sent_back
from strictreply.testing._probing.specimens import excerpt
from strictreply.testing._probing.subjects import Connect, ProbeStage
from strictreply.testing._probing.survival_report import (
    OUTCOMES,
    Behaviour,
    ProbeOutcome,
    ProbeRun,
    Report,
    judged,
)
from strictreply.testing._scripts import (
    MAX_REQUESTS,
    Demand,
    DemandHints,
    ScriptedModel,
    abridged,
    last_results,
)
from strictreply.testing._serving import writer_of
from strictreply.testing._steps import Fault, Kind, Step, Target
from strictreply.testing._wire import CallIds, HTTPReply, Responder, Served
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import Entry
from strictreply.values._errors import ContractError
from strictreply.values._limits import JSONObject

# So many requests of a run that ends by its timeout are not a hang: the app went on asking.
MIN_LOOP = 10
MAX_GIVEN = 400  # characters of a good reply
MAX_IDLE = 8  # requests of the run with mere words, which an app may repeat for ever


class ProbeTrial(NamedTuple):
    """One fault to try, the good reply that was spoiled, and the run to report if it is not.

    ``has_one_meaning`` says that the guard reads it as the good reply by default.
    """

    fault: Fault
    target: Target
    run: ProbeRun
    has_one_meaning: bool = False


def planned(
    demand: Demand, *, kinds: Collection[Kind] = (), names: Collection[str] = ()
) -> tuple[list[ProbeTrial], list[ProbeRun]]:
    """Choose the trials of an app by kinds and names, and report why other faults do not apply."""
    trials: list[ProbeTrial] = []
    others: list[ProbeRun] = []

    for entry in CATALOGUE.values():
        if (kinds and entry.kind not in kinds) or (names and entry.name not in names):
            continue

        missing = demand.missing(entry.needs)
        wanted = ", ".join(f"{name}={value!r}" for name, value in missing.items())
        if wanted:
            why = f"needs a request with {wanted}"
        else:
            why = "fits the app's contract, or cannot be made from it"

        run = ProbeRun(
            fault=entry.name,
            kind=entry.kind,
            code=entry.code,
            outcome=ProbeOutcome.NOT_APPLICABLE,
            detail=why,
            summary=entry.summary,
        )
        found = [] if missing else list(_trials(entry, demand, run))
        trials += found
        if not found:
            others.append(run)

    return trials, others


def _trials(entry: Entry, demand: Demand, run: ProbeRun) -> Iterator[ProbeTrial]:
    """Make one entry's faults that the app's own contract refuses.

    Each can be made again from its source alone.
    """
    seen: set[str] = set()
    names: dict[str, str] = {}  # those that Python takes, no two of them alike
    api = writer_of(demand.request).wire.name

    for target in demand.targets:
        names[target.name] = re.sub(r"\W", "_", target.name) or "Answer"
        while len({*names.values()}) < len(names):
            names[target.name] += "_"

    # Arguments are spoiled in every tool, everything else in the first one: it is the same for all.
    for target in demand.targets if entry.kind is Kind.ARGS else demand.targets[:1]:
        for fault in _faults(entry, target):
            if fault.source in seen or not demand.refuses(fault):
                continue

            seen.add(fault.source)
            source = fault.source
            if target.source:
                # The tool's name stands for its definition: the app has it in some variable.
                source = source.replace(target.source, names[target.name])

            served = excerpt(fault.served, target.clean)
            tried = replace(run, code=fault.code, at=fault.at, source=source, served=served)
            is_read = entry.reading.is_good(api, is_streamed=bool(demand.request.get("stream")))
            yield ProbeTrial(fault, target, tried, is_read)


def _faults(entry: Entry, target: Target) -> Iterator[Fault]:
    """Make one entry's faults of one good reply.

    Those that need no tool are made also where the reply is a call.
    """
    if target.place in entry.places and target.place != "prose":
        declared = target.tool if target.tool is not None else target.declared
        args = target.value if target.given else None
        place = None if target.place == entry.usual else target.place
        yield from entry.all_for(declared, place=place, args=args)
    elif "prose" in entry.places:
        yield from entry.all_for()


def _calls_nothing(served: Served, demand: Demand) -> bool:
    """Report whether a job that needs a tool is served no call of any.

    Then no tool can run with good arguments.
    """
    if demand.targets[0].tool is None:
        return False

    quoted = _quoted(served)
    return not any(f'"{tool.name}"' in quoted for tool in demand.callable_tools)


def _quoted(served: Served) -> str:
    """Return the text of what is served, in which a name stands in its quotes however escaped."""
    if isinstance(served, HTTPReply):
        text = served.body.decode("latin-1")
    else:
        text = json.dumps(served, ensure_ascii=False)

    return text.replace("\\", "")


class Rehearsal(NamedTuple):
    """What was learnt from good replies."""

    demand: Demand
    """What the app's requests demand of a reply."""
    usual: Mapping[str, int]
    """How often a good run asks each question, by the question."""
    good: str | None
    """Digest of the result; None when it is not the same twice."""
    versions: Mapping[str, str]
    """Versions of the app's libraries."""
    acts: Mapping[str, Acts] = MappingProxyType({})
    """What the app does with the good reply of each target, by the target's name."""


class GoodModel:
    """Replies well to every request, and keeps the first as ``demand``.

    ``given`` is the last reply in short, ``trouble`` why no good reply could be made to one.
    """

    def __init__(self, hints: DemandHints) -> None:
        self.hints = hints
        self._lock = threading.Lock()
        self._ids = CallIds()
        self.demand: Demand | None = None
        self.given = ""
        self.asked: Counter[str] = Counter()
        self.trouble: ContractError | ValueError | None = None

    def __call__(self, request: JSONObject) -> Served:
        demand = Demand(request, self.hints)
        try:
            served = demand.good()
        except (ContractError, ValueError) as error:
            self.trouble = error
            raise

        with self._lock:
            self.demand = self.demand or demand
            self.given = _given(served)
            self.asked[question(request)] += 1

        return self._ids.fresh(served, request)


def _given(served: Any) -> str:
    """Return a good reply as an app reads it: its calls, or its text."""
    message = served["choices"][0]["message"]
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    calls = [f"{function['name']}({function['arguments']})" for function in functions]
    words = ", ".join(calls) if calls else f"the text {json.dumps(message['content'])}"
    return abridged(words, MAX_GIVEN)


async def rehearse(stage: ProbeStage, hints: DemandHints) -> Rehearsal:
    """Run the app twice with good replies.

    Raises Unusable unless it asked the model and returned both times.
    """
    first, demand, good = await _rehearsed(stage, hints)
    _, _, again = await _rehearsed(stage, hints)

    digest = good.digest if good == again else None
    return Rehearsal(demand, first.asked, digest, again.versions)


async def _rehearsed(stage: ProbeStage, hints: DemandHints) -> tuple[GoodModel, Demand, Behaviour]:
    model = GoodModel(hints)  # each run has its own ids
    behaviour = await stage.play(model, detailed=True)

    if model.trouble is not None:
        raise Unusable(
            f"no good reply to its request can be made: {model.trouble}; pass one with --good"
        )

    demand = model.demand
    if not behaviour.returned:
        when = "before it asked the model"
        hint = ""
        if demand:
            when = "with good replies"
            hint = (
                f"; it was given {model.given}, which fits what its request declares. Where the "
                "app should take that, the fault is in the app or in what it declares; where good "
                "is something else, say so with --good, --answer or --tools"
            )

        trace = f"\n{behaviour.traceback}" if behaviour.traceback else ""
        raise Unusable(f"the app failed {when}: {behaviour.told}{hint}{trace}")

    if demand is None:
        asks = "does its client use the base URL it is given, or OPENAI_BASE_URL?"
        raise Unusable(f"it returned without asking the model for a chat completion; {asks}")

    return model, demand, behaviour


@dataclass(slots=True)
class Probe:
    """One probe of one app; :meth:`report` returns at any time what was found so far."""

    name: str
    """Name of the app in the report."""
    connect: Connect
    """Makes the connection to the app."""
    _: KW_ONLY
    """All that follows is given by keyword."""
    hints: DemandHints = field(default=DemandHints())
    """What the app's requests do not state."""
    kinds: Collection[Kind] = ()
    """Kinds of the faults to try; empty for all."""
    names: Collection[str] = ()
    """Names of the faults to try; empty for all."""
    handlers: Collection[str] = ()
    """Functions that act on a call, beside those of a tool's name."""
    timeout: float = 10.0
    """Seconds after which a run counts as hung."""
    max_requests: int = MAX_REQUESTS
    """Requests after which a run is ended as an endless loop."""
    jobs: int = 2
    """Number of runs side by side."""
    port: int = 0
    """Port of the served model; 0 for a free one."""
    _started: datetime = field(default_factory=partial(datetime.now, UTC), init=False)
    """When the probe began, for the report."""
    _started_at: float = field(default_factory=time.monotonic, init=False)
    """Monotonic seconds at the beginning."""
    _rehearsal: Rehearsal | None = field(default=None, init=False)
    """What good replies led to; None until then."""
    _order: list[str] = field(default_factory=list[str], init=False)
    """Sources of the planned faults, in order."""
    _runs: list[ProbeRun] = field(default_factory=list[ProbeRun], init=False)
    """The runs so far."""
    _digests: dict[str, str] = field(default_factory=dict[str, str], init=False)
    """Digests of the results, by the source of the fault."""

    def run(
        self, *, on_plan: Callable[[Demand, int], None], on_run: Callable[[ProbeRun], None]
    ) -> None:
        """Probe the app.

        Raises Unusable when good replies do not work, or a fault of ``names`` does not apply.
        """

        async def probed() -> KeyboardInterrupt | SystemExit | None:
            # What ends the program is returned: asyncio would keep it, unretrieved, with this task.
            try:
                await self._probed(on_plan, on_run)
            except (KeyboardInterrupt, SystemExit) as error:
                return error
            return None

        if error := asyncio.run(probed()):
            raise error

    async def _probed(
        self, on_plan: Callable[[Demand, int], None], on_run: Callable[[ProbeRun], None]
    ) -> None:
        async with AsyncExitStack() as stack:
            stages = [
                ProbeStage(self.connect, timeout=self.timeout, port=self.port)
                for _ in range(self.jobs)
            ]
            for stage in stages:
                stack.push_async_callback(stage.close)

            rehearsal = await rehearse(stages[0], self.hints)
            for stage in stages:
                stage.warm_up = GoodModel(self.hints)

            trials, self._runs = planned(rehearsal.demand, kinds=self.kinds, names=self.names)
            if self.names and (absent := [f"{run.fault} {run.detail}" for run in self._runs]):
                raise Unusable(
                    f"some of the chosen faults cannot be served to it: {'; '.join(absent)}"
                )

            rehearsal = self._rehearsal = await self._seen(stages[0], trials, rehearsal)
            self._order = [trial.run.source for trial in trials]
            on_plan(rehearsal.demand, len(trials))
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
                # One is enough to say that the app does not start again.
                raise several.exceptions[0] from None

    def report(self) -> Report | None:
        """Return what was found so far, in the catalogue's order.

        None before the rehearsal is over.
        """
        if self._rehearsal is None:
            return None

        place = {source: number for number, source in enumerate(self._order)}
        return Report(
            app=self.name,
            asks=self._rehearsal.demand.words,
            started=self._started,
            seconds=time.monotonic() - self._started_at,
            versions=self._rehearsal.versions,
            runs=tuple(sorted(self._settled(), key=lambda run: place.get(run.source, len(place)))),
            complete=sum(1 for run in self._runs if run.source) == len(self._order),
        )

    def _settled(self) -> Iterator[ProbeRun]:
        """Yield the runs.

        A run that returned what the app returns when no tool can have run, ran none either.
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
        """Learn what the app does with the good reply of each target, and with mere words.

        Raises Unusable when none of the ``handlers`` that the user named ran.
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
        """Serve one fault for every request of a run, then for the first one of another run.

        The second run is left out when the app asked only once.
        """
        good = rehearsal.good
        always = ScriptedModel(then=trial.fault, max_requests=self.max_requests)
        once = ScriptedModel(trial.fault)
        ids = CallIds()

        def until_read(request: JSONObject) -> Served:
            served = always(request)
            # the call that was meant has run, and its result wants another reply
            if trial.has_one_meaning and last_results(request):
                return ids.fresh(Demand(request, self.hints).good(), request)
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

        Behind a fault the first of them is a call, whatever the request answers.
        """
        ids = CallIds()

        def first_then_good(request: JSONObject) -> Served:
            served = once(request)
            after = len(once.requests) - 1
            if after:
                served = Demand(request, self.hints).good(again=is_fault and after == 1)
            return ids.fresh(served, request)

        return first_then_good


def _run_of(
    trial: ProbeTrial, behaviour: Behaviour, models: Sequence[ScriptedModel], rehearsal: Rehearsal
) -> ProbeRun:
    """Judge how a run ended, and what the app's client did on the way, where that harms more."""
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


# What an app does that uses nothing of a reply, as far as its result says.
_REFUSED = {ProbeOutcome.CLEAN, ProbeOutcome.NOTHING}


def _acts_on(trial: ProbeTrial, rehearsal: Rehearsal) -> list[Acts]:
    """Return what the app does with good replies of the tools that a fault's reply names.

    Always with that of the tool whose good reply was spoiled.
    """
    quoted = _quoted(trial.fault.served)
    named = {tool.name for tool in rehearsal.demand.callable_tools if f'"{tool.name}"' in quoted}
    names = named | {trial.target.name}
    return [acts for name, acts in rehearsal.acts.items() if name in names]
