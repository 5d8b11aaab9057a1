"""Who mostly followed whom so far: advice, never a route; whom it names must still be asked for, and pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TypeAlias

from strictreply.coordination._runs.states import RoutingEntry
from strictreply.values._errors import ContractError

Hop: TypeAlias = tuple[str, str] | RoutingEntry
"""One hand-over: a pair (from, to), or an entry of a state's ``routing_history``."""


def predict_next_route(
    current_agent: str, history: Iterable[Hop], *, allowed: Collection[str] | None = None
) -> str | None:
    """Give the agent that mostly followed ``current_agent``, the later one of equals; None when none did (M113).

    ``allowed`` are the only ones it may name, such as ``topology.allowed_targets(current_agent)``; None for any.
    A walk is read with ``itertools.pairwise(names)``. Raises ContractError for a history of anything else.
    """
    targets = [target for source, target in map(_ends, history) if source == current_agent]
    candidates = [target for target in reversed(targets) if allowed is None or target in allowed]
    return max(counts, key=counts.__getitem__) if (counts := Counter(candidates)) else None


def _ends(hop: object) -> tuple[str, str]:
    """Read one hand-over; the start of a run, which nobody handed over, comes from the empty name."""
    match hop:
        case {"from": str() | None as source, "to": str() as target} | (str() as source, str() as target):
            return source or "", target
        case _:
            raise ContractError("a history holds pairs (from, to), or entries of routing_history")
