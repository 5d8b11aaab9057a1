"""Whether an app acted on a reply that it refused: what can be seen of it, and what cannot.

Three things are seen: the calls of functions with a watched name, the results of tools that the
next request sends back, and the places in the app's own code that run for a good reply alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from strictreply.testing._probing.behaviour import Behaviour, Place
from strictreply.testing._scripts import Asked, text_of

MAX_SUGGESTED = 4  # functions that may be what --ran asks for


class Acts(NamedTuple):
    """What an app did with a good reply, and not with one that asks for nothing.

    ``ran`` are the watched functions; ``places`` is None where the app's code is not seen;
    ``results`` are the texts of the tool turns that it sent back.
    """

    ran: frozenset[str]
    places: frozenset[Place] | None
    results: frozenset[str]

    @property
    def functions(self) -> list[str]:
        """The functions that may be what acts on a call, without those that have no name."""
        names = {name for _, name in self.places or () if name and "<" not in name}
        return sorted(names)


def acts_of(good: Behaviour, asked: Sequence[Asked], idle: Behaviour) -> Acts:
    """Compare a run with a good reply to one with a reply that asks for nothing, ``idle``.

    Every place of the idle run is left out, whenever it was passed: an app may reach the line that
    waits for a reply just before or just after the request is noted here.
    """
    places = places_after(good, asked)
    if places is not None:
        places -= frozenset(idle.places or ())

    return Acts(ran_after(good, asked), places, results_in(asked))


def ran_after(behaviour: Behaviour, asked: Sequence[Asked]) -> frozenset[str]:
    """Return the watched functions that ran after the first request: before it no reply can act."""
    return frozenset(name for name, at in behaviour.ran if asked and at > asked[0].at)


def places_after(behaviour: Behaviour, asked: Sequence[Asked]) -> frozenset[Place] | None:
    """Return the places of the app that were passed after the first request.

    None where the app's code is not seen: it is not in this process, or an installed library's.
    """
    found = behaviour.places
    if found is None or not any(name for _, name in found):
        return None

    return frozenset(place for place, at in found.items() if asked and at > asked[0].at)


def results_in(asked: Iterable[Asked]) -> frozenset[str]:
    """Return the texts of the tool turns in requests."""
    turns = (turn for one in asked for turn in one.messages)
    return frozenset(text_of(turn) for turn in turns if turn.get("role") == "tool")


def sent_back(asked: Sequence[Asked], acts: Iterable[Acts]) -> bool:
    """Report whether a request holds a result that a good reply led to."""
    results = results_in(asked)
    return any(results & one.results for one in acts)


def doubt(behaviour: Behaviour, asked: Sequence[Asked], acts: Collection[Acts]) -> str:
    """Return why nobody can see whether the app acted on a reply; empty where it did not.

    It did not where a watched function acts on good replies and did not run, or where nothing ran
    that runs for good replies alone. A tool turn may be a correction, or a result of the tool where
    the app sends those. ``acts`` are those of the tools that the reply may call.
    """
    if acts and all(one.ran for one in acts):
        return ""

    sent = results_in(asked)
    places = places_after(behaviour, asked)
    for one in acts:
        if one.places is None or places is None:
            return "its code cannot be seen"
        if one.places & places or (one.results and (sent or not one.places)):
            return f"no function of the tool's name ran with a good reply{_suggested(one)}"

    return "" if acts else "it was not seen with a good reply"


def _suggested(acts: Acts) -> str:
    names = acts.functions[:MAX_SUGGESTED]
    listed = f", such as {', '.join(names)}" if names else ""
    return f"; pass --ran NAME of the one that acts{listed}"
