"""From pydantic's core schema of a type to the comparison of its values with their JSON.

pydantic widens, rounds, merges and drops values. So a second validator, the *probe*, is made
without the user's code (except discriminators of unions). Its result is compared with the JSON,
part by part, together with the value that was built: the class of that value shows which branch of
a union was taken, and its length whether items or keys were merged.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import (
    SchemaError,
    SchemaValidator,
    core_schema,
    from_json,
)

from strictreply.contract._fidelity.comparing import UNSEEN, Comparer, Comparison, Risk
from strictreply.contract._fidelity.documents import is_loose
from strictreply.contract._fidelity.iterables import iterates, read_at_once, whole_validator
from strictreply.contract._fidelity.reader import SchemaReader
from strictreply.contract._kept_on_adapter import kept_on_adapter
from strictreply.reading._decoding import masked_pointer
from strictreply.schema._explaining import rule_issue
from strictreply.schema._heavy import BUILT
from strictreply.schema._vocabulary import SchemaRule
from strictreply.values._issues import Category, Issue, quote
from strictreply.values._limits import JSON, Extra, Spent, Work

# the last part of an issue's code, after ``args.`` or ``answer.``
NOT_REPRESENTABLE = "not_representable"
# how many compared places, or tried branches, cost one step of a reply's work
COMPARED_PER_STEP = 12

# With all digits replaced by zeros, one search finds a run of as many digits as 2**53 + 1 has.
# Every integer below it fits into a float.
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_LONG = b"0" * len(str(2**53 + 1))


@dataclass(frozen=True, slots=True)
class Fidelity:
    """How values of one type are compared with their JSON."""

    part: Comparer | None
    """What is compared; None if nothing can differ."""
    probe: SchemaValidator | None
    """Reads JSON without the user's code; None if that is not needed."""
    risk: Risk
    """When to compare a value."""
    is_closing: bool = False
    """Whether pydantic must reject unknown members, in order to choose the right branch."""
    at_once: SchemaValidator | None = None
    """A validator that reads items immediately instead of lazily; None if not needed."""

    def made(self, validator: Any, text: bytes, extra: Extra) -> object:
        """Return the result of a validator for JSON.

        With ``extra="schema"`` members are dropped if no branch accepts them all. An iterable is
        read immediately, so that nothing is rejected later, in the user's code.
        """
        if self.at_once is not None and validator is not self.probe:
            validator = self.at_once
        if not self.is_closing:
            return validator.validate_json(text)

        try:
            return _closed(validator, text)
        except ValidationError as error:
            if not _may_leave_out(error, text, extra):
                raise

        return validator.validate_json(text)

    def refused(self, text: bytes) -> ValidationError | None:
        """Return what is wrong with JSON for which pydantic's own code raised another exception.

        None if the exception came from the user's code.
        """
        try:
            if self.probe is not None:
                self.probe.validate_json(text)
        except ValidationError as error:
            return error

        return None

    def issues(
        self,
        judged: JSON,
        text: bytes,
        built: object = UNSEEN,
        *,
        extra: Extra = "forbid",
        at: str,
        names: Collection[str],
        place: str,
        work: Work | None = None,
    ) -> tuple[Issue, ...]:
        """Return issues where the value made of ``judged`` would differ from it.

        ``text`` is the JSON text of ``judged``.
        """
        if self.part is None or self.probe is None:
            return ()

        floor = Risk.NONE if _LONG in text.translate(_ALIKE) else Risk.LONG_NUMBERS
        if self.risk <= floor:
            return ()

        drops = extra == "schema"
        try:
            value = self.made(self.probe, text, extra)
        except ValidationError:
            # the user's code made something of it that the type itself would reject
            return ()

        work = Work() if work is None else work
        most = (work.limit - work.taken) * COMPARED_PER_STEP
        run = Comparison(floor, Work(most), drops=drops)
        try:
            self.part(value, judged, run, built)
        except Spent:
            return (rule_issue(place, SchemaRule.TOO_COMPLEX, at, BUILT),)
        finally:
            work.afford(run.work.taken // COMPARED_PER_STEP)

        report = partial(Issue, f"{place}.{NOT_REPRESENTABLE}", Category.FORMAT_ERROR)
        return tuple(
            report(masked_pointer(at, steps, names), words, "", quote(found))
            for steps, words, found in run.found
        )


def fidelity_of(adapter: TypeAdapter[object]) -> Fidelity:
    """Return how values of an adapter's type are compared with their JSON; kept on the adapter."""
    return kept_on_adapter(adapter, "fidelity", partial(_fidelity_of, adapter))


def _fidelity_of(adapter: TypeAdapter[object]) -> Fidelity:
    reader = SchemaReader(is_loose(adapter.core_schema))
    probe, part = reader.read(adapter.core_schema)
    found = Fidelity(None, None, Risk.NONE)

    # Some schemas of users do not work without the code that was removed from them.
    with suppress(SchemaError):
        if reader.risk or reader.guards:
            validator = SchemaValidator(probe)
            is_closing = KNOWS_EXTRA and reader.is_closing
            found = Fidelity(part, validator, reader.risk, is_closing)

    if iterates(adapter.core_schema):
        found = replace(found, at_once=whole_validator(read_at_once(adapter.core_schema)))

    return found


def _closed(validator: Any, text: bytes) -> object:
    return validator.validate_json(text, extra="forbid")


def _knows_extra() -> bool:
    """Return whether a validation can be told to reject unknown members (pydantic 2.12)."""
    try:
        _closed(SchemaValidator(core_schema.any_schema()), b"1")
    except TypeError:
        return False
    return True


KNOWS_EXTRA = _knows_extra()
OF_EXTRAS = frozenset({"extra_forbidden", "unexpected_keyword_argument"})


def _may_leave_out(error: ValidationError, text: bytes, extra: Extra) -> bool:
    """Return whether members that were rejected may be dropped.

    They may if the type is read as written, or if the user's code added them.
    """
    details = error.errors(include_url=False, include_input=False, include_context=False)
    refused = [detail["loc"] for detail in details if detail["type"] in OF_EXTRAS]
    if not refused or extra == "schema":
        return bool(refused)

    judged = from_json(text)
    return not all(_is_written(judged, loc) for loc in refused)


def _is_written(judged: object, loc: tuple[int | str, ...]) -> bool:
    """Return whether the member at a location is in the JSON; a location also names branches."""
    for index, step in enumerate(loc):
        is_member = isinstance(judged, dict) and step in judged
        is_item = isinstance(judged, list) and isinstance(step, int) and step < len(judged)

        if is_member or is_item:
            inside: Any = judged
            judged = inside[step]
        elif index + 1 == len(loc):
            return False

    return True
