"""What ``@pytest.mark.malformed`` means: which scripts a test runs with, and how a failed run is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from strictreply.contract._tool import Tool
from strictreply.testing import ok
from strictreply.testing._cassettes import Cassette
from strictreply.testing._demands import Demand, DemandHints
from strictreply.testing._scripts import ScriptedModel
from strictreply.testing._steps import Fault, Kind, Step
from strictreply.testing._targets import ReplyPlace, Target
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import Entry
from strictreply.values._errors import StrictReplyError
from strictreply.values._json import JSON, JSONObject

BY_THE_MODEL = (Kind.JSON, Kind.SHAPE, Kind.TOOL, Kind.ARGS, Kind.ENVELOPE, Kind.FINISH)
"""What a model, or the server around it, gets wrong in a response that arrives whole."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """One run of a marked test: the fault first, then the good replies, the last of them for ever."""

    id: str
    fault: Fault
    before: tuple[Step, ...]
    then: Step

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is served before ``then``, one a request."""
        return (self.fault, *self.before)


def scripts_of(
    *,
    tools: Iterable[object] = (),
    kinds: Iterable[Kind | str] | str = BY_THE_MODEL,
    names: Iterable[str] | str = (),
    place: ReplyPlace | None = None,
    request: Mapping[str, JSON] | None = None,
    then: Step | Sequence[Step] | None = None,
    cassette: str | Path | None = None,
) -> list[Malformed]:
    """Read the arguments of the mark.

    ``tools`` are what the app declares, all in one request: what would be a good call of any of them is no fault.
    Without any, only faults that need no tool are served. ``kinds`` chooses kinds of faults, ``Kind`` means all;
    ``names`` chooses faults by name instead, of whatever kind.
    ``place`` is where replies are written, None for native calls; with ``"json"`` each of the tools is an answer of
    its own. ``request`` holds what the app's requests say beyond the API's defaults, such as
    ``{"tool_choice": "required"}`` or ``{"stream": True}``: some replies are faults only then. ``then`` is the step or
    the steps after the fault, the last of which stays; None is a good reply, of the same tool where it may be called.
    ``cassette`` adds the replies recorded there that do not fit.

    Raises ValueError when nothing is left, or a fault that was named cannot be made of any tool, ContractError (a
    ValueError) for tools and a request that no contract can be made of, TypeError when ``tools`` is no list.
    """
    given = cast("object", tools)
    if isinstance(given, type | str | Mapping) or not isinstance(given, Iterable):  # iterating over a tool may work
        raise TypeError("tools= must be a list, even for one tool: tools=[search]")
    declared = list(tools)
    chosen = _entries(kinds, [names] if isinstance(names, str) else list(names))
    after = () if then is None else (then,) if isinstance(then, Step) else tuple(then)
    runs: list[Malformed] = []
    for tool, demand in _asked(declared, place, dict(request or {})):
        name = "" if tool is None else Target.of(tool, place=place or "call").name or "answer"
        written = place or (None if tool is None else "call")
        for fault in (fault for entry in chosen for fault in entry.all_for(tool, place=written)):
            if not demand.missing(fault.needs) and demand.refuses(fault):
                following = after or _good(tool, demand, fault.place)
                runs += [_run(f"{name}-{fault.id}" if name else fault.id, fault, following)] if following else []
    _all_made(chosen if names else [], runs, declared, place, request or {})
    if cassette is not None:
        recorded = Cassette(cassette).failures(declared or None)
        runs += [_run(fault.id, fault, after or (ok.answer(),)) for fault in recorded]
    if not runs:
        raise ValueError("@pytest.mark.malformed: no fault can be made from these tools, kinds, place and cassette")
    return runs


def _entries(kinds: Iterable[Kind | str] | str, names: Sequence[str]) -> list[Entry]:
    """Choose from the catalogue, by name if any is given."""
    wanted = {Kind(kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)}
    for name in names:
        if name not in CATALOGUE:
            near = ", ".join(get_close_matches(name, CATALOGUE))
            raise ValueError(f"there is no fault {name!r}{f'; did you mean {near}?' if near else ''}")
    return [one for one in CATALOGUE.values() if (one.name in names if names else one.kind in wanted)]


def _all_made(
    named: Iterable[Entry],
    runs: Iterable[Malformed],
    declared: Sequence[object],
    place: ReplyPlace | None,
    request: Mapping[str, JSON],
) -> None:
    """Raise ValueError, with the reason, for a fault that was asked for by name and is in no run."""
    made = {run.fault.name for run in runs}
    for entry in named:
        if entry.name not in made:
            for tool in declared or [None]:
                entry(tool, place=place)  # raises FaultNotMade, which says why
            needs = f"; it needs requests with {dict(entry.needs)}" if entry.needs else ""
            raise ValueError(f"faults.{entry.name} is no fault under request={dict(request)}{needs}")


def _asked(declared: list[object], place: ReplyPlace | None, request: JSONObject) -> Iterator[tuple[object, Demand]]:
    """Read for each tool what replies are held to: one request declares them all, but for structured answers."""
    if place == "json":
        yield from ((kind, Demand(request, DemandHints(answer=kind))) for kind in declared)
        return
    tools = [replace(Tool.of(tool), check=None) for tool in declared]  # a check may need what a test has not
    written = place == "union"
    hints = DemandHints(tools=tuple(tools)) if written else DemandHints()
    demand = Demand({**request, "tools": tools} if tools and not written else request, hints)
    yield from ((tool, demand) for tool in declared or [None])


def _good(tool: object, demand: Demand, place: ReplyPlace) -> tuple[Step, ...]:
    """Choose a good reply: in the fault's place, else a call, else plain text; none for a tool not to be called."""
    places: tuple[ReplyPlace, ...] = (place, "call", "prose")
    steps = (ok.reply(tool, place=one) for one in places)
    return next(((step,) for step in steps if demand.admits(step.served)), ())


def _run(name: str, fault: Fault, after: Sequence[Step]) -> Malformed:
    return Malformed(name, fault, tuple(after[:-1]), after[-1])


def retold(model: ScriptedModel, error: BaseException | None, nodeid: str) -> str:
    """Report a failed run: the script, what was asked, what our error says of its attempts, and how to run it again."""
    lines = [model.story(), "", "reproduce it in a test of its own:", ""]
    names = ["faults", "ok", *(["Cassette"] if "Cassette(" in model.source else [])]
    lines += ["    from strictreply import Tool"] if "Tool." in model.source else []
    lines += [f"    from strictreply.testing import {', '.join(names)}", "", "    def test_reproduced(llm):"]
    lines += [f"        {model.source}", f"        …  # as in {nodeid.partition('[')[0]}"]
    told = error.explain() if isinstance(error, StrictReplyError) else ""
    return "\n".join([*lines, "", told] if told else lines)
