"""The mark ``malformed``: the scripts that a test runs with, and the report of a failed run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from traceback import walk_tb
from typing import Self, cast

import pytest

from strictreply import StrictReplyError, Tool
from strictreply.core import JSON, JSONObject
from strictreply.testing import ok
from strictreply.testing._scripts import Demand, DemandHints, ScriptedModel
from strictreply.testing._steps import Fault, Harm, Kind, ReplyPlace, Step, Target, named, place_of
from strictreply.testing.faults import CATALOGUE, entry_named
from strictreply.testing.faults._catalogue import Entry
from strictreply.testing.specimens import excerpt

# The kinds of faults of a model or its server in a complete response; the arguments come first.
BY_THE_MODEL = (Kind.ARGS, Kind.TOOL, Kind.SHAPE, Kind.JSON, Kind.FINISH, Kind.ENVELOPE)


@dataclass(frozen=True, slots=True)
class Malformed:
    """One run of a marked test: a fault, then good replies.

    ``tool`` is the name of the tool whose reply is faulty, or ``"answer"``; empty for a text.
    """

    tool: str
    fault: Fault
    steps: tuple[Step, ...]  # served in order, one for each request, the fault first
    then: Step

    @property
    def id(self) -> str:
        """The name of the run as a test's parameter: ``search-wrong_type[/limit]``."""
        return f"{self.tool}-{self.fault.id}" if self.tool else self.fault.id

    @property
    def spoiled(self) -> str:
        """The place of the fault in the arguments, else the fault's name, for long lists."""
        return f"{self.tool}{self.fault.at}" if self.fault.at else self.fault.name


def scripts_of(
    *,
    tools: Iterable[object] = (),
    kinds: Iterable[Kind | str] | str | None = None,
    names: Iterable[str] | str = (),
    place: ReplyPlace | None = None,
    request: Mapping[str, JSON] | None = None,
    then: Step | Sequence[Step] | None = None,
    everything: bool = False,
) -> list[Malformed]:
    """Read the arguments of the mark, and make its runs.

    The runs in which an app that accepts the reply acts on its data come first.

    - ``kinds`` None chooses the faults that an app might act on; faults that are the same for all
      tools are made for one tool. ``names`` and ``everything`` change this.
    - ``then`` None is a good reply, and a text after its call's result.
    - ``request`` has the request keywords of the app that differ from the API's defaults: some
      replies are faults only with them.

    Raises ValueError when there is no run, or when a named fault cannot be made from any tool;
    ContractError (a ValueError) for wrong tools or a wrong request; TypeError when ``tools`` is not
    a list.
    """
    declared = _listed(tools)
    wanted = {entry_named(name).name for name in _several(names)}
    chooses = kinds is not None or bool(wanted)
    entries = _entries(kinds, wanted)

    after = (then,) if isinstance(then, Step) else tuple(then or ())
    body = dict(request or {})
    gentle = bool(declared) and not (chooses or everything)
    runs = list(_runs(entries, _asked(declared, place, body), place, after, gentle=gentle))
    _refuse_unmade(wanted - {run.fault.name for run in runs}, declared, place, body)

    if not runs:
        raise ValueError(
            "@pytest.mark.malformed: no fault can be made from these tools, kinds and place"
        )

    return sorted(runs, key=_urgency)


def _listed(tools: Iterable[object]) -> list[object]:
    given = cast("object", tools)
    # iterating over a tool may work
    if isinstance(given, type | str | Mapping) or not isinstance(given, Iterable):
        raise TypeError("tools= must be a list, even for one tool: tools=[search]")

    return list(tools)


def _several(given: Iterable[Kind | str] | str) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _entries(kinds: Iterable[Kind | str] | str | None, names: set[str]) -> list[Entry]:
    """Choose from the catalogue: by name if names are given, else by kind.

    Without names and kinds, the faults of a model or its server are chosen.
    """
    wanted = set() if names else set(map(Kind, BY_THE_MODEL if kinds is None else _several(kinds)))
    return [entry for entry in CATALOGUE.values() if entry.name in names or entry.kind in wanted]


def _urgency(run: Malformed) -> tuple[bool, bool, int]:
    """Sort runs by the harm of accepting the fault.

    Faults that a careless reader ignores come after the others.
    """
    fault = run.fault
    accepts = Harm.accepting(fault.code, fault.kind) is Harm.ACCEPTS
    return accepts, fault.code.endswith(".extra_key"), [*BY_THE_MODEL, *Kind].index(fault.kind)


def _runs(
    entries: Sequence[Entry],
    asked: Iterable[tuple[object, Demand]],
    place: ReplyPlace | None,
    after: tuple[Step, ...],
    *,
    gentle: bool,
) -> Iterator[Malformed]:
    """Make the faults of each tool that its request refuses.

    Each fault has the steps that follow it.
    """
    made: set[str] = set()
    for tool, demand in asked:
        name = "" if tool is None else Target.of(tool, place=place or "call").name or "answer"
        for entry in entries:
            if gentle and entry.name in made and entry.kind is not Kind.ARGS:
                continue

            faults = entry.all_for(tool, place=place or (None if tool is None else "call"))
            for fault in faults:
                if not _is_fault(fault, demand, gentle=gentle):
                    continue

                if following := after or _good(tool, demand, fault.place):
                    made.add(entry.name)
                    yield Malformed(name, fault, (fault, *following[:-1]), following[-1])


def _is_fault(fault: Fault, demand: Demand, *, gentle: bool) -> bool:
    acts = Harm.accepting(fault.code, fault.kind) is not Harm.ACCEPTS
    return (acts or not gentle) and not demand.missing(fault.needs) and demand.refuses(fault)


def _refuse_unmade(
    names: set[str], declared: list[object], place: ReplyPlace | None, request: JSONObject
) -> None:
    """Raise ValueError, with the reason, for the first named fault that is in no run."""
    for name, entry in CATALOGUE.items():
        if name not in names:
            continue

        for tool in declared or [None]:
            entry(tool, place=place)  # raises FaultNotMade where it cannot be made

        needs = f"; it needs requests with {dict(entry.needs)}" if entry.needs else ""
        raise ValueError(f"faults.{entry.name} is not a fault with request={request}{needs}")


def _asked(
    declared: list[object], place: ReplyPlace | None, request: JSONObject
) -> Iterator[tuple[object, Demand]]:
    """Yield each tool with the request that it is in.

    One request declares all tools; each structured answer has its own request.
    """
    if place == "json":
        yield from ((kind, Demand(request, DemandHints(answer=kind))) for kind in declared)
        return

    # without their checks, which may need what a test does not have
    tools = [replace(Tool.of(tool), check=None) for tool in declared]
    written = place == "union"
    hints = DemandHints(tools=tuple(tools)) if written else DemandHints()
    demand = Demand({**request, "tools": tools} if tools and not written else request, hints)
    yield from ((tool, demand) for tool in declared or [None])


def _good(tool: object, demand: Demand, place: ReplyPlace) -> tuple[Step, ...]:
    """Choose a good reply in the fault's place, else a call, else text.

    After the result of a call the next reply is a text, if one fits. Empty when nothing fits.
    """
    end = ok.answer()
    after = end if demand.admits(end.served) else None
    places: tuple[ReplyPlace, ...] = (place, "call", "prose")
    steps = (ok.reply(tool, place=one, after=after if one == "call" else None) for one in places)
    return next(((step,) for step in steps if demand.admits(step.served)), ())


@dataclass(frozen=True, slots=True)
class FailureCause:
    """What an app did in a test that failed.

    Two causes have the same ``key`` if one change is likely to fix both.
    """

    harm: Harm
    key: str
    words: str

    @classmethod
    def of(cls, model: ScriptedModel, error: BaseException | None) -> Self:
        """Read the cause from an exception; None if an endless loop was ended.

        An exception that is not a failed assertion is the app's own.
        """
        if error is None or model.looped:
            return cls(Harm.DEGRADES, "", "an endless loop")

        place = place_of(error.__traceback__)
        words = f"{named(type(error))} at {place.line or place.frame}"
        harm = Harm.CRASHES
        if isinstance(error, AssertionError | pytest.fail.Exception):
            quoted = ScriptedModel.assert_no_echo.__code__
            leaks = any(frame.f_code is quoted for frame, _ in walk_tb(error.__traceback__))
            faults = [step for step in (*model.steps, model.then) if isinstance(step, Fault)]
            if leaks:
                harm = Harm.LEAKS
            elif faults:
                harm = Harm.accepting(faults[0].code, faults[0].kind)
            else:
                harm = Harm.ACTS

        return cls(harm, words if harm is Harm.CRASHES else place.function or place.frame, words)


def retold(model: ScriptedModel, error: BaseException | None, nodeid: str) -> str:
    """Report a failed run.

    The report has the script, the requests, the served replies, what the app did, and how to run it
    again.
    """
    lines = [model.story()]
    for step in (*model.steps, model.then):
        if isinstance(step, Fault):
            lines.append(f"{step.name} is served as:")
            lines += [f"  {line}" for line in excerpt(step.served, step.clean, 1_000).splitlines()]

    cause = FailureCause.of(model, error)
    tools = "; from strictreply import Tool" if "Tool." in model.source else ""
    lines += [
        f"what the app did: {cause.harm}: {cause.words}",
        f"reproduce it in a test of its own (from strictreply.testing import faults, ok{tools}):",
        "    def test_reproduced(llm):",
        f"        {model.source}",
        f"        …  # as in {nodeid.partition('[')[0]}",
    ]

    if isinstance(error, StrictReplyError) and (explained := error.explain()):
        lines += ["", explained]

    return "\n".join(lines)
