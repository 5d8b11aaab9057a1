"""Every fault by its name: ``faults.wrong_type(search, "limit")``, ``faults.all_for(search)``, ``faults.CATALOGUE``.

A fault is added by one definition in the module of its kind; it is here by that alone.
"""

# Star imports, so that a name is written once: in these modules every public definition is an entry of the catalogue.
# ruff: noqa: F403
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from strictreply.testing._steps import Fault, Kind
from strictreply.testing._targets import Place
from strictreply.testing.faults._calls import *
from strictreply.testing.faults._catalogue import Entry as Entry
from strictreply.testing.faults._catalogue import FaultNotMade as FaultNotMade
from strictreply.testing.faults._choices import *
from strictreply.testing.faults._constraints import *
from strictreply.testing.faults._deltas import *
from strictreply.testing.faults._endings import *
from strictreply.testing.faults._envelopes import *
from strictreply.testing.faults._formats import *
from strictreply.testing.faults._http import *
from strictreply.testing.faults._items import *
from strictreply.testing.faults._json_types import *
from strictreply.testing.faults._keys import *
from strictreply.testing.faults._literals import *
from strictreply.testing.faults._shapes import *
from strictreply.testing.faults._sockets import *
from strictreply.testing.faults._streams import *
from strictreply.testing.faults._texts import *
from strictreply.values._json import JSON

_ENTRIES = [entry for entry in list(globals().values()) if isinstance(entry, Entry)]

CATALOGUE: Mapping[str, Entry] = {entry.name: entry for kind in Kind for entry in _ENTRIES if entry.kind is kind}
"""Every entry by its name, kind by kind."""


def __dir__() -> list[str]:
    """Show the catalogue, not what its modules import."""
    return ["CATALOGUE", "Entry", "FaultNotMade", "all_for", *CATALOGUE]


def all_for(
    tool: object = None, *, kinds: Iterable[Kind] = (Kind.ARGS,), place: Place | None = None, args: JSON = None
) -> Iterator[Fault]:
    """Make every fault of some kinds that can be made of a tool: by default one per constraint of its schema.

    ``kinds`` may be ``Kind`` for the whole catalogue. ``place`` is where replies are written, None for a native call
    (for plain text without a tool). Each fault is invalid by construction and proved so.
    """
    wanted = frozenset(kinds)
    chosen: Place | None = place or (None if tool is None else "call")
    for entry in CATALOGUE.values():
        if entry.kind in wanted:
            yield from entry.all_for(tool, place=chosen, args=args)
