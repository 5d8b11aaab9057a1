"""The trials of an app: the faults that its own contract refuses, made from its request."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import NamedTuple

from strictreply.testing._scripts import (
    Demand,
)
from strictreply.testing._serving import writer_of
from strictreply.testing._steps import Fault, Kind, Target
from strictreply.testing.faults import CATALOGUE
from strictreply.testing.faults._catalogue import Entry
from strictreply.testing.specimens import excerpt
from strictreply.testing.survival import ProbeOutcome, ProbeRun


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
