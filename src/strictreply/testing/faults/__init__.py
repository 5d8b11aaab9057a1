"""Every fault by its name, such as ``faults.wrong_type(search, "limit")``.

``faults.all_for(search)`` makes the faults of a tool; ``faults.CATALOGUE`` has all of them. A fault
is one row ``name = factory(…, summary, what is served)`` in a table of the modules ``*_faults``;
the variable's name is the name of the fault. :func:`~strictreply.testing.faults._catalogue.filled`
fills the ``$names`` of its row.
"""

# Star imports, so that a name is written once.
# ruff: noqa: F403
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from strictreply.core import JSON
from strictreply.testing._steps import Fault, Kind, ReplyPlace
from strictreply.testing.faults._call_faults import *
from strictreply.testing.faults._catalogue import Entry as Entry
from strictreply.testing.faults._catalogue import FaultNotMade as FaultNotMade
from strictreply.testing.faults._catalogue import Reading as Reading
from strictreply.testing.faults._catalogue import collected
from strictreply.testing.faults._constraint_faults import *
from strictreply.testing.faults._envelope_faults import *
from strictreply.testing.faults._json_faults import *
from strictreply.testing.faults._message_stream_faults import *
from strictreply.testing.faults._stream_faults import *
from strictreply.testing.faults._transport_faults import *
from strictreply.testing.faults._type_and_key_faults import *

CATALOGUE: Mapping[str, Entry] = collected(globals())
"""Every entry by its name, kind by kind."""


def __dir__() -> list[str]:
    """Show the catalogue, not what its modules import."""
    return ["CATALOGUE", "Entry", "FaultNotMade", "Reading", "all_for", "entry_named", *CATALOGUE]


def entry_named(name: str) -> Entry:
    """Return the fault with this name from the catalogue.

    ``name`` is such as ``wrong_type``. Raises ValueError with similar names when there is no such
    fault.
    """
    if name not in CATALOGUE:
        near = ", ".join(get_close_matches(name, CATALOGUE))
        hint = f"did you mean {near}?" if near else "strictreply faults lists them"
        raise ValueError(f"no fault {name}; {hint}")

    return CATALOGUE[name]


def all_for(
    tool: object = None,
    *,
    kinds: Iterable[Kind] = (Kind.ARGS,),
    place: ReplyPlace | None = None,
    args: JSON = None,
) -> Iterator[Fault]:
    """Make every fault of some kinds that can be made from a tool.

    By default these are one fault per constraint of the tool's schema. Each fault is checked to be
    invalid.

    - ``tool`` is a function, a model or a definition; None for plain text.
    - ``kinds`` are the kinds of faults; ``Kind`` means the whole catalogue.
    - ``place`` is where replies are written; None for a native call (without a tool, plain text).
    - ``args`` are the good arguments that the faults change; None for an example made from the
      schema.
    """
    wanted = frozenset(kinds)
    chosen: ReplyPlace | None = place or (None if tool is None else "call")

    for entry in CATALOGUE.values():
        if entry.kind in wanted:
            yield from entry.all_for(tool, place=chosen, args=args)
