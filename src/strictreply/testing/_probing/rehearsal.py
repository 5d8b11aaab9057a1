"""The rehearsal of a probe: what an app does with good replies."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from strictreply.testing._probing.behaviour import Behaviour
from strictreply.testing._probing.good_model import GoodModel
from strictreply.testing._probing.seen_acts import Acts
from strictreply.testing._scripts import (
    Demand,
    DemandHints,
)
from strictreply.testing._steps import NoExample
from strictreply.testing.subjects import ProbeStage
from strictreply.testing.survival import Unusable


class Rehearsal(NamedTuple):
    """The results of runs with good replies."""

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
        reason = model.trouble.reason if isinstance(model.trouble, NoExample) else model.trouble
        raise Unusable(f"no good reply to its request can be made: {reason}; pass one with --good")

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
        asks = (
            "does its client use the base URL it is given, OPENAI_BASE_URL or ANTHROPIC_BASE_URL?"
        )
        raise Unusable(f"it returned without asking the model for a chat completion; {asks}")

    return model, demand, behaviour
