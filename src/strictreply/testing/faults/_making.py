"""From a small function to an entry of the catalogue: what the modules of faults of replies share.

Only what serves every kind stands here; how a reply is spoiled stands with the faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from strictreply.testing._steps import CANARY, Kind
from strictreply.testing._targets import Place
from strictreply.testing._wire import Served
from strictreply.testing.faults._catalogue import Entry, Maker, Spoiled
from strictreply.values._json import JSON


def entry_of(
    function: Callable[..., Any],
    make: Maker,
    kind: Kind,
    code: str,
    places: tuple[Place, ...],
    needs: Mapping[str, JSON] | None = None,
) -> Entry:
    """Make the entry that is named and summarised by the function which defines the fault."""
    return Entry(function.__name__, kind, code, (function.__doc__ or "").strip(), places, make, needs or {})


def spoiled(served: Served, at: str = "", *invented: str) -> Spoiled:
    """Note what was spoiled; whatever holds the canary is invented, other texts are when they are named."""
    return Spoiled(served, at, ((CANARY,) if CANARY in str(served) else ()) + invented)
