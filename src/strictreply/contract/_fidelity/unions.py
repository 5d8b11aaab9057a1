"""Values of one of several types: the branch that was chosen, and its value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from strictreply.contract._fidelity.comparing import (
    OTHER_FORM,
    Comparer,
    Comparison,
    Difference,
    Reference,
)
from strictreply.values._limits import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(Comparer):
    """A value of one of several types.

    ``anew`` makes the values of the single branches, one by one. With ``theirs`` a user's code may
    have made the value.
    """

    branches: tuple[Comparer, ...]
    anew: tuple[Callable[[bytes], Any], ...]
    theirs: bool = False

    def _compare(self, value: object, judged: JSON, run: Comparison, built: object) -> None:
        # cached, so that nested unions cost no more than their places
        place = (id(self), id(value), id(judged))
        if place not in run.known:
            run.known[place] = self._nearest(value, judged, run, built)

        for steps, words, found in run.known[place]:
            run.report(words, found, steps)

    def _nearest(
        self, value: object, judged: JSON, run: Comparison, built: object
    ) -> list[Difference]:
        """Return the differences from the nearest branch, whose differences begin deepest."""
        nearest: list[Difference] = [((), OTHER_FORM, judged)]
        branches = tuple(map(_resolved, self.branches))

        chosen = [index for index, one in enumerate(branches) if one.real is type(built)]
        if chosen:
            branches = tuple(branches[index] for index in chosen)
            if not any(isinstance(value, one.kind) for one in branches):
                # the user's code, or another way to read JSON, chose another branch
                try:
                    value = self.anew[chosen[0]](to_json(judged))
                except ValidationError:
                    return nearest

                run.made.append(value)
        elif self.theirs and not any(one.real and isinstance(value, one.kind) for one in branches):
            # perhaps the user's code made it
            nearest = []

        for branch in branches:
            if not nearest:
                break
            if not isinstance(value, branch.kind):  # this branch is as wrong as any can be
                continue

            tried = run.inside()
            branch(value, judged, tried, built)

            if not tried.found or len(tried.found[0][0]) > len(nearest[0][0]):
                nearest = tried.found

        return nearest


def _resolved(part: Comparer) -> Comparer:
    while isinstance(part, Reference):
        found = part.parts.get(part.name)
        if found is None:
            break
        part = found

    return part
