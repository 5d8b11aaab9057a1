"""The mark ``malformed``: the scripts that a test runs with, and the report of a failed run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from traceback import walk_tb
from typing import Any, Self, cast

import pytest

from strictreply import CallFailed, StrictReplyError, Tool
from strictreply.core import JSON, JSONObject
from strictreply.core.text import counted
from strictreply.testing import ok
from strictreply.testing._malformed_summary import LOUD, NOT_SERVED
from strictreply.testing._scripts import Demand, DemandHints, ScriptedModel, ScriptStep, step_of
from strictreply.testing._steps import (
    Fault,
    Harm,
    Kind,
    NoExample,
    ReplyPlace,
    Step,
    Target,
    named,
    place_of,
    spelled,
)
from strictreply.testing.faults import CATALOGUE, entry_named
from strictreply.testing.faults._catalogue import Entry
from strictreply.testing.specimens import excerpt

# The kinds of faults of a model or its server in a complete response; the arguments come first.
BY_THE_MODEL = (Kind.ARGS, Kind.TOOL, Kind.SHAPE, Kind.JSON, Kind.FINISH, Kind.ENVELOPE)


KEYWORDS = ("tools", "kinds", "names", "place", "request", "then")
"""The keywords of the mark."""


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


def scripts_of_mark(given: Mapping[str, Any], *, everything: bool) -> list[Malformed]:
    """Make the runs of a mark from its keywords.

    Raises TypeError that names the keywords for an unknown one, and the errors of
    :func:`scripts_of`.
    """
    for keyword in given:
        if keyword in KEYWORDS:
            continue

        near = get_close_matches(keyword, KEYWORDS, 1, 0.5)
        hint = f"did you mean {near[0]}=? " if near else ""
        known = ", ".join(f"{name}=" for name in KEYWORDS)
        raise TypeError(f"{keyword}= is not a keyword of the mark; {hint}the keywords are {known}")

    return scripts_of(**given, everything=everything)


def scripts_of(
    *,
    tools: Iterable[object] = (),
    kinds: Iterable[Kind | str] | str | None = None,
    names: Iterable[str] | str = (),
    place: ReplyPlace | None = None,
    request: Mapping[str, JSON] | None = None,
    then: ScriptStep | Sequence[ScriptStep] | None = None,
    everything: bool = False,
) -> list[Malformed]:
    """Read the arguments of the mark, and make its runs.

    The runs in which an app that accepts the reply acts on its data come first.

    - ``kinds`` None chooses the faults that an app might act on; faults that are the same for all
      tools are made for one tool. ``names`` and ``everything`` change this.
    - ``then`` None is a good reply, and a text after its call's result. If no example can be made
      from a tool's schema, the faults are made from the good reply in ``then``.
    - ``request`` has the request keywords of the app that differ from the API's defaults: some
      replies are faults only with them.

    Raises ValueError when there is no run, or when a named fault cannot be made from any tool;
    ContractError (a ValueError) for wrong tools or a wrong request; TypeError for an argument of
    another type.
    """
    declared = _listed(tools)
    wanted = {entry_named(name).name for name in _several(names, "names")}
    chooses = kinds is not None or bool(wanted)
    entries = _entries(kinds, wanted)

    if not isinstance(cast("object", request), Mapping | None):
        raise TypeError('request= must be a dict of request parameters: request={"stream": True}')

    after = _steps_in(then)
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


def _several(given: object, keyword: str) -> list[str]:
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise TypeError(f"{keyword}= must be a list of words")

    return [str(one) for one in given]


def _steps_in(then: ScriptStep | Sequence[ScriptStep] | None) -> tuple[Step, ...]:
    if then is None:
        return ()
    if isinstance(then, list | tuple):
        return tuple(map(step_of, then))

    return (step_of(then),)


def _entries(kinds: Iterable[Kind | str] | str | None, names: set[str]) -> list[Entry]:
    """Choose from the catalogue: by name if names are given, else by kind.

    Without names and kinds, the faults of a model or its server are chosen.
    """
    wanted = (
        set()
        if names
        else set(map(Kind, BY_THE_MODEL if kinds is None else _several(kinds, "kinds")))
    )
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
        target = _target(tool, place, after)
        name = "" if tool is None else target.name or "answer"
        args = target.value if target.given else None
        usual = place or (None if tool is None else "call")
        for entry in entries:
            if gentle and entry.name in made and entry.kind is not Kind.ARGS:
                continue

            faults = entry.all_for(tool, place=usual, args=args)
            for fault in faults:
                if not _is_fault(fault, demand, gentle=gentle):
                    continue

                if following := after or _good(tool, demand, fault.place):
                    made.add(entry.name)
                    yield Malformed(name, fault, (fault, *following[:-1]), following[-1])


def _target(tool: object, place: ReplyPlace | None, after: tuple[Step, ...]) -> Target:
    """Return the good reply from which the faults of a tool are made.

    It is made from the schema. If no example can be made, it is the value of the first good reply
    in ``after``. Raises ValueError that says what to pass if there is none.
    """
    try:
        return Target.of(tool, place=place or "call")
    except NoExample as error:
        values = (value for step in after if (value := _value_in(step, place)) is not None)
        args = next(values, None)
        if args is not None:
            return Target.of(tool, place=place or "call", args=args)

        raise ValueError(_advised(error, tool, place)) from None


def _value_in(step: Step, place: ReplyPlace | None) -> JSON:
    """Return the arguments or the answer in a good reply; None if it has none."""
    served: Any = step.served
    try:
        message = served["choices"][0]["message"]
        text = (
            message["tool_calls"][0]["function"]["arguments"]
            if message.get("tool_calls")
            else (message["content"])
        )
        value: Any = json.loads(text)
    except (KeyError, IndexError, TypeError, ValueError):
        return None

    return value.get("args") if place == "union" and isinstance(value, dict) else value


def _advised(error: NoExample, tool: object, place: ReplyPlace | None) -> str:
    """Say what is wrong with an example, and which good reply to pass instead."""
    step = "ok.answer(…)"
    if place not in {"json", "prose"} and tool is not None:
        name = Tool.of(tool).name if isinstance(tool, Mapping) else spelled(tool)
        step = f"ok.{'union' if place == 'union' else 'call'}({name}, …)"

    return f"{error.reason}; give a good reply of your own: then={step}"


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
    try:
        return next(((step,) for step in steps if demand.admits(step.served)), ())
    except NoExample as error:
        raise ValueError(_advised(error, tool, place)) from None


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Why a test failed.

    Two causes have the same ``key`` if one change is likely to fix both.
    """

    kind: str
    """A word of :data:`KINDS`: the harm that the app did, or why it did none."""
    key: str
    words: str

    @classmethod
    def of(cls, model: ScriptedModel, error: BaseException, fault: Step | None = None) -> Self:
        """Read the cause from an exception.

        An exception that is not a failed assertion is the app's own. ``fault`` is what the test is
        about, None for the first fault of the script.
        """
        faults = [step for step in (*model.steps, model.then) if isinstance(step, Fault)]
        tested = fault or next(iter(faults), None)
        if tested is not None and not model.was_served(tested):
            missed = _missed(model, tested)
            if isinstance(error, pytest.fail.Exception):
                return cls(NOT_SERVED, "", missed)

            words = _raised(error)
            return cls(NOT_SERVED, words, f"{missed}; {words}")
        if model.looped:
            return cls(Harm.DEGRADES, "", "an endless loop")

        place = place_of(error.__traceback__)
        words = _raised(error)
        if not isinstance(error, AssertionError | pytest.fail.Exception):
            return cls(LOUD if _is_loud(error) else Harm.CRASHES, words, words)

        quoted = ScriptedModel.assert_no_echo.__code__
        if any(frame.f_code is quoted for frame, _ in walk_tb(error.__traceback__)):
            harm = Harm.LEAKS
        elif isinstance(tested, Fault):
            harm = Harm.accepting(tested.code, tested.kind)
        else:
            harm = Harm.ACTS

        return cls(harm, place.function or place.frame, words)


def _raised(error: BaseException) -> str:
    """Name an exception and the place where it was raised."""
    place = place_of(error.__traceback__)
    return f"{named(type(error))} at {place.line or place.frame}"


def _is_loud(error: BaseException) -> bool:
    """Report whether a failed call of strictreply is, or explicitly caused, an exception."""
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, CallFailed):
            return True
        chain = chain.__cause__

    return False


def _missed(model: ScriptedModel, fault: Step) -> str:
    """Say why a fault was not served."""
    asked = len(model.requests)
    if not asked:
        return "the app sent no request to llm, or only such that llm refused with a 400"
    if any(one.step is fault for one in model.requests):
        return "the fault does not fit the app's request, which got a 400 that says why"
    return f"the app sent {counted(asked, 'request')}, none for the step of the fault"


def untested(model: ScriptedModel, fault: Step | None = None) -> str:
    """Return why a test that passed has tested nothing; empty if it has.

    ``fault`` is what the test is about. None means the first step of the script, if that is a
    fault: an app may rightly stop before a later one. If no step fitted its request, nothing was
    tested either, whatever the test expected of the 400.
    """
    asked_for = [one.step for one in model.requests if one.step is not None]
    if asked_for and not any(map(model.was_served, asked_for)):
        return (
            f"the step {asked_for[0].name} was not served: it does not fit request 1 of the app, "
            "which got a 400 that says why; nothing was tested. "
            "What to do: script a reply that fits the request"
        )

    first = next(iter((*model.steps, model.then)))
    tested = fault if fault is not None or not isinstance(first, Fault) else first
    if tested is None or model.was_served(tested):
        return ""

    advice = (
        "call the app in the test, with llm.openai() or another client of llm, or with "
        "llm_server.base_url; if it rightly sends no request, script ok.answer() instead"
    )
    if model.requests:
        advice = "serve the fault first, or pytest.skip() if the app rightly stops before it"
    return (
        f"the fault {tested.name} was never served: {_missed(model, tested)}; nothing was tested. "
        f"What to do: {advice}"
    )


def retold(model: ScriptedModel, error: BaseException, nodeid: str, cause: FailureCause) -> str:
    """Report a failed run.

    The report has the script, the requests, the served replies, what the app did, and how to run it
    again.
    """
    did = f"what the app did: {cause.kind}: {cause.words}"
    if cause.kind == NOT_SERVED:
        return f"{model.story()}\n{did}"

    lines = [model.story()]
    for step in (*model.steps, model.then):
        if isinstance(step, Fault):
            lines.append(f"{step.name} is served as:")
            lines += [f"  {line}" for line in excerpt(step.served, step.clean, 1_000).splitlines()]

    tools = "; from strictreply import Tool" if "Tool." in model.source else ""
    lines += [
        did,
        f"reproduce it in a test of its own (from strictreply.testing import faults, ok{tools}):",
        "    def test_reproduced(llm):",
        f"        {model.source}",
        f"        …  # as in {nodeid.partition('[')[0]}",
    ]

    if isinstance(error, StrictReplyError) and (explained := error.explain()):
        lines += ["", explained]

    return "\n".join(lines)
