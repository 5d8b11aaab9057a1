"""The rehearsal: the app is called with good replies, to learn whether it works and what its requests ask for."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from strictreply.testing._demands import Demand, Told
from strictreply.testing._probing.outcomes import Raised, Returned, judged
from strictreply.testing._probing.stage import Played, Stage
from strictreply.testing._probing.worker import Unusable
from strictreply.testing._wire import Served
from strictreply.values._errors import ContractError
from strictreply.values._json import JSONObject


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What was learnt: what the first request asks for, the digest of the good result, the versions in use.

    ``good`` is None when two good runs did not give the same.
    """

    demand: Demand
    good: str | None
    versions: Mapping[str, str]


class GoodModel:
    """Replies well to every request it can read, and keeps the first."""

    def __init__(self, told: Told) -> None:
        """Take what no request says."""
        self._told = told
        self._lock = threading.Lock()
        self.demand: Demand | None = None
        self.trouble: ContractError | ValueError | None = None

    def __call__(self, request: JSONObject) -> Served:
        """Reply; what the request asks for may be more than can be replied to, which is kept and raised."""
        demand = Demand(request, self._told)
        try:
            served = demand.good()
        except (ContractError, ValueError) as error:
            self.trouble = error
            raise
        with self._lock:
            self.demand = self.demand or demand
        return served


async def rehearse(stage: Stage, told: Told) -> Rehearsal:
    """Run the app twice with good replies.

    Raises Unusable, with the reason and what to do, unless it asked the model and returned both times.
    """
    model = GoodModel(told)
    demand, good = _understood(model, await stage.play(model, told=True))
    again = await stage.play(model, told=True)
    _, other = _understood(model, again)
    return Rehearsal(demand, good.digest if good == other else None, again.versions)


def _understood(model: GoodModel, played: Played) -> tuple[Demand, Returned]:
    """Hold that a rehearsal went well, or say what to do."""
    if model.trouble is not None:
        raise Unusable(f"no good reply can be made to its request: {model.trouble}; say one with --good")
    behaviour = played.behaviour
    if not isinstance(behaviour, Returned):
        _, told = judged(behaviour, (), None)
        asked = "with good replies" if model.demand else "before it asked the model"
        hint = f" (good was: {model.demand.words}; --good, --answer or --tools say better)" if model.demand else ""
        trace = f"\n{played.traceback}" if isinstance(behaviour, Raised) else ""
        raise Unusable(f"{asked} it ended so: {told}{hint}{trace}")
    if model.demand is None:
        raise Unusable(
            "it returned without asking the model for a chat completion; does its client use the base URL it is given, "
            "or OPENAI_BASE_URL?"
        )
    return model.demand, behaviour
