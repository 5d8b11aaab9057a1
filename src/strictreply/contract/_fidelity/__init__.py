"""Holding typed values to the JSON they are made of: pydantic must not change a value in silence.

pydantic's validators widen, round and merge: an integer of 310 digits becomes an infinite float, two keys of a dict
become one. Here a type's core schema is read once, into a second validator without the user's code (the *probe*) and a
tree of parts that know the spellings of one value. What the probe makes of JSON is compared with that JSON.
No code of the user's decides about a reply here, and none runs a second time, but for discriminators of unions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaError, SchemaValidator

from strictreply.contract._fidelity.parts import Comparison, Part, Risk
from strictreply.contract._fidelity.reading import Reader, Schema
from strictreply.reading._decoding import masked_pointer
from strictreply.schema._rules import Rule
from strictreply.values._issues import Category, Issue, quote
from strictreply.values._json import JSON
from strictreply.values._limits import Spent, Work

__all__ = ("NOT_REPRESENTABLE", "Fidelity", "fidelity_of")

NOT_REPRESENTABLE = "not_representable"
"""The last part of the code of an issue that says so, behind ``args.`` or ``answer.``."""

COMPARED_PER_STEP = 12
"""How many places are compared, or branches tried, in one step of a reply's work."""

# With all digits made alike, one search finds whether there are as many in a row as 2**53 + 1 has: below it every
# integer is a float.
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * len(str(2**53 + 1))


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How values of one type are held to their JSON; ``part`` is None when nothing can differ."""

    part: Part | None
    probe: SchemaValidator | None
    risk: Risk

    def issues(
        self, judged: JSON, text: bytes, *, at: str, names: Collection[str], place: str, work: Work | None = None
    ) -> tuple[Issue, ...]:
        """Report where the value made of ``judged``, spelled as JSON in ``text``, would not say the same.

        The code is ``<place>.not_representable``; ``at`` and ``names`` are those of
        :func:`strictreply.contract._complaints.check_issues`. ``work`` is what the whole reply may still cost (None: as
        much as a reply of its own); when it is used up before the end, the one issue is ``<place>.too_complex``.
        """
        if self.part is None or self.probe is None:
            return ()
        floor = Risk.NONE if _LONG in text.translate(_ALIKE) else Risk.LONG_NUMBERS
        if self.risk <= floor:
            return ()
        try:
            value = self.probe.validate_json(text)
        except ValidationError:  # the user's code made something of it that its type alone would refuse
            return ()
        work = Work() if work is None else work
        run = Comparison(floor, Work((work.limit - work.taken) * COMPARED_PER_STEP))
        try:
            self.part.compare(value, judged, run)
        except Spent:
            return (Issue(f"{place}.{Rule.TOO_COMPLEX}", Category.FORMAT_ERROR, at, Rule.TOO_COMPLEX.template),)
        finally:
            work.afford(run.work.taken // COMPARED_PER_STEP)
        return tuple(
            Issue(
                f"{place}.{NOT_REPRESENTABLE}",
                Category.FORMAT_ERROR,
                masked_pointer(at, steps, names),
                words,
                "",
                quote(found),
            )
            for steps, words, found in run.found
        )


_KNOWN: WeakKeyDictionary[TypeAdapter[Any], Fidelity] = WeakKeyDictionary()


def fidelity_of(adapter: TypeAdapter[Any]) -> Fidelity:
    """Read how values of an adapter's type are held to their JSON, once for each adapter."""
    known = _KNOWN.get(adapter)
    if known is None:
        known = _KNOWN[adapter] = _read(adapter.core_schema)
    return known


def _read(schema: Schema) -> Fidelity:
    """Make the parts and the probe of a core schema."""
    reader = Reader()
    probe, part = reader.read(schema)
    if not reader.risk:
        return Fidelity(None, None, Risk.NONE)
    try:
        return Fidelity(part, SchemaValidator(probe), reader.risk)
    except SchemaError:  # a schema of somebody's own that cannot do without the code taken out of it
        return Fidelity(None, None, Risk.NONE)
