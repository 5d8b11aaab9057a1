"""What an app did in one run, and how that is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from strictreply.testing.survival import ProbeOutcome

# A line of an app's code as ``file:line``, and the name of the function that begins there, empty
# where a line calls something.
Place: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What an app did in one run."""

    outcome: ProbeOutcome
    """How the run ended."""
    told: str
    """The type of the value that the app returned, or what happened instead."""
    digest: str = ""
    """Equal for equal values; empty when none was returned."""
    frame: str = ""
    """The innermost frame of a library that raised; empty for none."""
    lost: bool = False
    """Whether the app has to be started anew."""
    traceback: str = field(default="", compare=False)
    """The traceback of an exception; empty for none."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    """Versions of the app's libraries."""
    seconds: float = field(default=0.0, compare=False)
    """Seconds that the run took."""
    skipped: float | None = field(default=0.0, compare=False)
    """Seconds that were not waited; None when unknown."""
    ran: Sequence[tuple[str, float]] = field(default=(), compare=False)
    """The watched functions that ran, each with its time."""
    places: Mapping[Place, float] | None = field(default=None, compare=False)
    """The places of the app's own code that were seen, each with its last time; None if unknown."""

    @property
    def returned(self) -> bool:
        """Whether the app came back with a value."""
        return self.outcome is ProbeOutcome.ACCEPTED


def judged(
    behaviour: Behaviour,
    echoes: Sequence[tuple[int, str]],
    good: str | None,
    *,
    looped: bool = False,
    without_tool: bool = False,
    one_meaning: bool = False,
) -> tuple[ProbeOutcome, str]:
    """Judge one run: its outcome, and in our words what the app did.

    ``echoes`` are the requests and the roles of the turns that quoted the model; ``good`` is the
    digest of a good result, None when it differs from run to run; ``without_tool`` when the tool
    that the job needs cannot have run; ``one_meaning`` when the fault can be read as the good
    reply.
    """
    outcome = behaviour.outcome
    words = behaviour.told

    if behaviour.returned:
        same = "the same" if behaviour.digest == good else "another value"
        if (
            words == "None" and behaviour.digest != good
        ):  # good results that differ are not all None
            outcome = ProbeOutcome.NOTHING
            words = "returned None; a good reply returns another value"
        elif without_tool and behaviour.digest != good:
            outcome = ProbeOutcome.ANSWERED_WITHOUT_TOOL
            words = f"returned {words}, and no tool ran"
        else:
            if one_meaning and good in {None, behaviour.digest}:
                outcome = ProbeOutcome.READ

            compared = f"; a good reply returns {same}" if good is not None else ""
            words = f"returned {words}{compared}"
    elif behaviour.frame:
        # without the line of the library: one line of the app is one cause
        words = f"{words} in {behaviour.frame.rpartition(':')[0]}"

    if looped:
        outcome = ProbeOutcome.LOOPED
        words = f"sent requests until it was ended; then {words}"

    if not echoes:
        return outcome, words

    request, role = echoes[0]
    words = f"the {role} turn of request {request} quoted the reply; then {words}"
    return ProbeOutcome.LEAKED, words
