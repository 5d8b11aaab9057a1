"""Whether a trail of steps goes in circles."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class CycleLimit:
    """A trail is a loop when its end is one piece of at most ``longest`` steps, ``repeats`` times in a row.

    16 steps are a round of five agents that each call a tool before they hand over. Raises ValueError unless
    ``repeats`` is at least 2 and ``longest`` at least 1.
    """

    repeats: int = 3
    longest: int = 16

    def __post_init__(self) -> None:
        """Refuse limits that would take every step for a loop, or none."""
        if self.repeats < 2 or self.longest < 1:  # noqa: PLR2004 - once is no repetition
            raise ValueError("CycleLimit: repeats must be at least 2, longest at least 1")

    @property
    def window(self) -> int:
        """The number of steps that decide: what is further back does not matter."""
        return self.repeats * self.longest

    def loop(self, trail: Sequence[T]) -> tuple[T, ...]:
        """Give the shortest piece that the trail's end repeats, in order; empty when it does not go in circles."""
        for period in range(1, min(self.longest, len(trail) // self.repeats) + 1):
            piece = tuple(trail[-period:])
            if tuple(trail[-period * self.repeats :]) == piece * self.repeats:
                return piece
        return ()
