"""What becomes of an app under malformed replies: its behaviour in one run, how that is judged, and the whole report.

Values only. No text of a reply is in any of them but ``Run.served``, the excerpt of what the app was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from strictreply.testing._steps import Kind


class Outcome(StrEnum):
    """What an app did with a malformed reply; what it should not have done comes first."""

    ACCEPTED = "accepted"  # it returned, as if the reply had been good
    CRASHED = "crashed"  # an exception that says nothing of the reply came out of it, or its process died
    HUNG = "hung"  # it did not come back in time
    LEAKED = "leaked"  # what the model wrote came back in a prompt, whatever else happened
    NOTHING = "nothing"  # it returned None, as it does not for good replies: nothing was used, and nobody was told
    CLEAN = "clean"  # it refused, with an exception made for that
    NOT_APPLICABLE = "not_applicable"  # its requests leave no room for this fault


FINDINGS = (Outcome.ACCEPTED, Outcome.CRASHED, Outcome.HUNG, Outcome.LEAKED)
"""The outcomes that no app should show."""

MEANINGS: Mapping[Outcome, str] = {
    Outcome.ACCEPTED: "The app went on with a reply that breaks its own contract.",
    Outcome.CRASHED: "An exception came out that says nothing of the reply, or the process died.",
    Outcome.HUNG: "The app did not come back.",
    Outcome.LEAKED: "What the model wrote came back in a prompt of the app: an injection.",
    Outcome.NOTHING: "The app returned None: it used nothing of the reply, and told nobody.",
    Outcome.CLEAN: "The app refused, with an exception made for that.",
    Outcome.NOT_APPLICABLE: "The app's requests leave no room for this fault.",
}
"""What each outcome means, in a sentence."""

REMEDIES: Mapping[Outcome, str] = {
    Outcome.ACCEPTED: "Judge the whole reply before anything of it is used: the arguments against the tool's closed "
    "schema, the JSON strictly, the response's finish_reason and role.",
    Outcome.CRASHED: "Catch it where the reply is read, and raise an exception of your own that says the reply is bad.",
    Outcome.HUNG: "Set a timeout on the client, a deadline on the whole call, and a bound on retries.",
    Outcome.LEAKED: "Word corrections from your own schema; no error text that quotes the reply may stand in a prompt.",
}
"""What a person can do about each finding."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The app came back with a value of this type; ``digest`` is equal for equal values, and says nothing of them."""

    type: str
    digest: str


@dataclass(frozen=True, slots=True)
class Raised:
    """The app raised; ``clean`` when the exception was made to say so; ``at`` is the app's own line, or empty."""

    name: str
    clean: bool
    at: str = ""


@dataclass(frozen=True, slots=True)
class Died:
    """The app's process ended, or its connection broke; ``how`` tells in our words."""

    how: str


@dataclass(frozen=True, slots=True)
class Silent:
    """The app did not come back within so many seconds."""

    seconds: float


Behaviour: TypeAlias = Returned | Raised | Died | Silent


@dataclass(frozen=True, slots=True)
class Echo:
    """A text that only the model wrote stood in this turn of this request, counted from 1."""

    request: int
    role: str


def judged(behaviour: Behaviour, echoes: Sequence[Echo], good: str | None) -> tuple[Outcome, str]:
    """Judge one run: its outcome, and in our words what the app did.

    ``good`` is the digest of what the app gives for good replies, None when that is never twice the same.
    """
    outcome, told = _judged(behaviour, good)
    if not echoes:
        return outcome, told
    where = dict.fromkeys(f"the {echo.role} turn of request {echo.request}" for echo in echoes)
    return Outcome.LEAKED, f"{next(iter(where))} quoted the reply; then {told}"


def _judged(behaviour: Behaviour, good: str | None) -> tuple[Outcome, str]:
    """Judge what the app did by itself."""
    match behaviour:
        case Returned(type="None", digest=digest) if good != digest:  # good results that differ are not all None
            return Outcome.NOTHING, "returned None, other than for a good reply"
        case Returned(type, digest):
            same = ", the same as for a good reply" if digest == good else ", other than for a good reply"
            return Outcome.ACCEPTED, f"returned {type}{same if good is not None else ''}"
        case Raised(name, clean, at):
            return Outcome.CLEAN if clean else Outcome.CRASHED, f"{name} at {at}" if at else name
        case Died(how):
            return Outcome.CRASHED, how
        case Silent(seconds):
            return Outcome.HUNG, f"did not come back within {seconds:g} s"


@dataclass(frozen=True, slots=True)
class Run:
    """One fault, and what the app did with it.

    ``fault`` is the entry's name in the catalogue, ``at`` the JSON Pointer of the spoiled place, ``code`` what a strict
    gate says. ``detail`` tells what the app did, in our words. ``seconds`` is how long the run with nothing but faults
    took, ``requests`` how many it made; ``recovered`` whether good replies after the fault gave the good result.
    ``source`` makes the fault again in a test. ``served`` is an excerpt of the reply: hostile text.
    """

    fault: str
    kind: Kind
    code: str
    outcome: Outcome
    detail: str
    at: str = ""
    summary: str = ""
    seconds: float = 0.0
    requests: int = 0
    recovered: bool = False
    source: str = ""
    served: str = field(default="", repr=False)

    @property
    def id(self) -> str:
        """The fault with its place: ``wrong_type[/limit]``."""
        return f"{self.fault}[{self.at}]" if self.at else self.fault


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a probe found.

    ``app`` is how the app was named, ``asks`` what its requests ask for, in words. ``versions`` are those of Python and
    of the libraries that the app uses, by name. ``complete`` is false when the probe was interrupted.
    """

    app: str
    asks: str
    started: datetime
    seconds: float
    versions: Mapping[str, str]
    runs: tuple[Run, ...]
    complete: bool = True

    def of(self, outcome: Outcome) -> list[Run]:
        """Give the runs with one outcome."""
        return [run for run in self.runs if run.outcome is outcome]

    @property
    def findings(self) -> list[Run]:
        """The runs that should have gone otherwise, the worst outcome first."""
        return [run for outcome in FINDINGS for run in self.of(outcome)]

    @property
    def applicable(self) -> list[Run]:
        """The runs that took place."""
        return [run for run in self.runs if run.outcome is not Outcome.NOT_APPLICABLE]

    @property
    def survived(self) -> bool:
        """Whether every fault was tried, at least one, and none is a finding."""
        return self.complete and bool(self.applicable) and not self.findings

    @property
    def recovered(self) -> int:
        """How often good replies after the fault gave the good result."""
        return sum(run.recovered for run in self.runs)

    @property
    def causes(self) -> dict[tuple[Outcome, str], list[Run]]:
        """The findings by what the app did: what one change would mend, most findings first within an outcome."""
        causes: dict[tuple[Outcome, str], list[Run]] = {}
        for run in self.findings:
            causes.setdefault((run.outcome, run.detail), []).append(run)
        order = sorted(causes, key=lambda cause: (FINDINGS.index(cause[0]), -len(causes[cause])))
        return {cause: causes[cause] for cause in order}

    @property
    def verdict(self) -> str:
        """Say in one sentence what it came to."""
        ran = len(self.applicable)
        part = "" if self.complete else ", the probe was interrupted"
        if not ran:
            return f"Nothing was tried{part}."
        if not self.findings:
            return f"Survived all {ran} malformed replies{part}."
        told = [f"{len(self.of(one))} {_COUNTED[one]}" for one in FINDINGS if self.of(one)]
        return f"Did not survive {len(self.findings)} of {ran} malformed replies: {', '.join(told)}{part}."


_COUNTED = {
    Outcome.ACCEPTED: "accepted",
    Outcome.CRASHED: "crashed it",
    Outcome.HUNG: "hung it",
    Outcome.LEAKED: "leaked into its prompts",
}
