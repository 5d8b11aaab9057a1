"""What an app does with malformed replies, and the report of a probe.

The report contains no text of a reply except excerpts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias

from strictreply.testing._probing.client_verdicts import ClientVerdict
from strictreply.testing._steps import Harm, Kind

__all__ = [
    "FINDINGS",
    "OUTCOMES",
    "Baseline",
    "Cause",
    "ClientVerdict",
    "Harm",
    "OutcomeWords",
    "ProbeOutcome",
    "ProbeRun",
    "Report",
    "Unusable",
]


class Unusable(Exception):
    """The app cannot be called at all; the text says why."""


class ProbeOutcome(StrEnum):
    """What an app did with a malformed reply; the findings come first."""

    ACCEPTED = "accepted"
    """It used a reply that breaks the contract."""
    CRASHED = "crashed"
    """It raised an exception that does not describe the reply."""
    HUNG = "hung"
    """It did not return in time."""
    LOOPED = "looped"
    """It repeated its requests until the probe ended it."""
    LEAKED = "leaked"
    """It put the model's words into the next prompt."""
    ANSWERED_WITHOUT_TOOL = "answered_without_tool"
    """It answered, and no tool ran."""
    MISBEHAVED = "misbehaved"
    """It refused the reply, but did harm before."""
    UNKNOWN = "unknown"  # It refused the reply, and nobody can see whether it acted on it before.
    NOTHING = "nothing"  # It returned None: it did not use the reply, and did not report it.
    READ = (
        "read"  # It read a reply that has one meaning, and returned the result of the good reply.
    )
    CLEAN = "clean"  # It refused the reply with an exception for such cases.
    NOT_APPLICABLE = "not_applicable"  # Its requests do not allow this fault.


class OutcomeWords(NamedTuple):
    """The words for an outcome."""

    title: str
    """Its name in reports."""
    style: str
    """The colour in which it is printed."""
    counted: str = ""
    """The verb in a verdict; empty for an outcome that is not a finding."""
    harm: Harm = Harm.ACCEPTS
    """The harm of a finding with this outcome."""


OUTCOMES: Mapping[ProbeOutcome, OutcomeWords] = {
    ProbeOutcome.ACCEPTED: OutcomeWords("accepted", "red", "accepted"),
    ProbeOutcome.CRASHED: OutcomeWords("crashed", "yellow", "crashed it", Harm.CRASHES),
    ProbeOutcome.HUNG: OutcomeWords("hung", "magenta", "hung it", Harm.DEGRADES),
    ProbeOutcome.LOOPED: OutcomeWords(
        "looped", "magenta", "sent it into an endless loop", Harm.DEGRADES
    ),
    ProbeOutcome.LEAKED: OutcomeWords("leaked", "magenta", "leaked into its prompts", Harm.LEAKS),
    ProbeOutcome.ANSWERED_WITHOUT_TOOL: OutcomeWords(
        "no tool ran", "yellow", "answered without a tool"
    ),
    ProbeOutcome.MISBEHAVED: OutcomeWords("misbehaved", "yellow", "misbehaved before it refused"),
    ProbeOutcome.UNKNOWN: OutcomeWords("unknown", "yellow"),
    ProbeOutcome.NOTHING: OutcomeWords("nothing", "blue"),
    ProbeOutcome.READ: OutcomeWords("read", "green"),
    ProbeOutcome.CLEAN: OutcomeWords("clean", "green"),
    ProbeOutcome.NOT_APPLICABLE: OutcomeWords("n/a", "default"),
}
"""The words for each outcome, the findings first."""

FINDINGS: Mapping[ProbeOutcome, tuple[str, str]] = {
    ProbeOutcome.ACCEPTED: (
        "The app went on with a reply that breaks its own contract.",
        (
            "Judge the whole reply before use: JSON strictly, arguments by the closed schema, "
            "finish_reason and role."
        ),
    ),
    ProbeOutcome.CRASHED: (
        "An exception came out that says nothing of the reply, or the process died.",
        (
            "Catch it where the reply is read, and raise an exception of your own that says the "
            "reply is bad."
        ),
    ),
    ProbeOutcome.HUNG: (
        "The app did not return.",
        "Set a timeout on the client, a deadline on the whole call, and a bound on retries.",
    ),
    ProbeOutcome.LOOPED: (
        "The app sent requests without end, until the probe ended it.",
        "Limit the turns of the tool loop, and stop when a model makes the same mistake again.",
    ),
    ProbeOutcome.LEAKED: (
        "What the model wrote came back in a prompt of the app: an injection.",
        (
            "Word corrections from your own schema; no error text that quotes the reply may stand "
            "in a prompt."
        ),
    ),
    ProbeOutcome.ANSWERED_WITHOUT_TOOL: (
        (
            "The app needs its tool, ran none with good arguments, and returned a value as if it "
            "were done."
        ),
        (
            "Raise when the job ends without the call that it needs: a caller takes a value for "
            "success."
        ),
    ),
    ProbeOutcome.MISBEHAVED: (
        (
            "The app refused the reply, but before that a tool ran, or it retried as no client "
            "should."
        ),
        (
            "Run tools once the whole reply is judged; wait as long as Retry-After says, and "
            "longer from repeat to repeat."
        ),
    ),
}
"""The outcomes that no app should have: what the app did, and how to fix it."""

# What each kind of fault is about.
KIND_WORDS: Mapping[Kind, str] = {
    Kind.JSON: "text that is not strict JSON",
    Kind.SHAPE: "JSON of another form",
    Kind.TOOL: "tools and calls",
    Kind.ARGS: "arguments against the schema",
    Kind.ENVELOPE: "the response around the reply",
    Kind.FINISH: "how the reply ended",
    Kind.TRANSPORT: "the connection",
    Kind.HTTP: "HTTP responses",
    Kind.STREAM: "server-sent events",
}


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """One fault, and what the app did with it."""

    fault: str
    """Name of the fault."""
    kind: Kind
    """Kind of the fault."""
    code: str
    """The code that a strict contract reports for it."""
    outcome: ProbeOutcome
    """What the app did, judged."""
    detail: str
    """What the app did, in strictreply's words."""
    frame: str = ""
    """The innermost frame of the library that raised; empty if none did."""
    at: str = ""
    """JSON Pointer of the fault; empty for the whole."""
    summary: str = ""
    """What is wrong with the reply."""
    seconds: float = 0.0
    """Duration in seconds of the run in which every request gets the fault."""
    requests: int = 0
    """Number of requests of that run."""
    recovered: bool = False
    """Whether the app gave the good result once good replies followed the fault."""
    source: str = ""
    """Python expression that makes the fault again; empty if there was none."""
    served: str = field(default="", repr=False)
    """Excerpt of the reply; it may contain harmful text."""
    verdict: ClientVerdict | None = None
    """What the client did wrong on the way; None if nothing."""

    @property
    def id(self) -> str:
        """The fault with its place: ``wrong_type[/limit]``."""
        return f"{self.fault}[{self.at}]" if self.at else self.fault

    @property
    def harm(self) -> Harm:
        """The harm of the outcome, if it is a finding."""
        if self.outcome is ProbeOutcome.MISBEHAVED and self.verdict is not None:
            return self.verdict.harm
        if self.outcome is ProbeOutcome.ACCEPTED:
            return Harm.accepting(self.code, self.kind)
        return OUTCOMES[self.outcome].harm

    @property
    def cause(self) -> Cause:
        """The cause, which one change would fix.

        It is what the app did, and for an accepted reply also what it did not check.
        """
        accepted = KIND_WORDS[self.kind] if self.outcome is ProbeOutcome.ACCEPTED else ""
        about = accepted if self.verdict is None else self.verdict.value
        return Cause(self.harm, self.outcome, about, self.detail)


class Cause(NamedTuple):
    """The common cause of findings.

    ``about`` says what the app should have checked; it is empty if ``detail`` says it.
    """

    harm: Harm
    """What the app did that it should not have done."""
    outcome: ProbeOutcome
    """What the app did with the reply."""
    about: str
    """What the app should have checked; empty if ``detail`` says it."""
    detail: str
    """Details, such as the type of an exception."""

    @property
    def words(self) -> str:
        """The cause on one line, without its harm."""
        return f"{self.about}: {self.detail}" if self.about else self.detail


# A finding is new when one of these changes, even if it does less harm.
Finding: TypeAlias = tuple[ProbeOutcome, ClientVerdict | None, Harm]


class Baseline:
    """The findings of an earlier report, by the source that makes each again in a test.

    Other findings are new.
    """

    def __init__(self, app: str, runs: Sequence[ProbeRun]) -> None:
        self.app: str = app
        """Name of the app in that report."""
        findings = (run for run in runs if run.outcome in FINDINGS)
        self.found: dict[str, Finding] = {run.source: _finding(run) for run in findings}
        """Its findings by their source."""
        in_doubt = (run for run in runs if run.outcome is ProbeOutcome.UNKNOWN)
        self.unknown: set[str] = {run.source for run in in_doubt}
        """Sources of the runs with the outcome ``unknown``."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the JSON of a report.

        Raises OSError when there is no file, ValueError when it is not the JSON of a report.
        """
        try:
            report = json.loads(path.read_text("utf-8"))
            runs = [
                ProbeRun(
                    kind=Kind(run["kind"]),
                    outcome=ProbeOutcome(run["outcome"]),
                    verdict=ClientVerdict(run["verdict"]) if run.get("verdict") else None,
                    **{word: run[word] for word in ("fault", "detail", "code", "source")},
                )
                for run in report["runs"]
            ]
            return cls(str(report["app"]), runs)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            words = "it is not a report that `strictreply probe --json FILE` wrote"
            raise ValueError(words) from error


def _finding(run: ProbeRun) -> Finding:
    """Return the values of a run that make a finding new when they change."""
    return run.outcome, run.verdict, run.harm


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a probe."""

    app: str
    """Name of the app."""
    asks: str
    """What the app's requests expect, in words."""
    started: datetime
    """When the probe began."""
    seconds: float
    """Seconds that the probe took."""
    versions: Mapping[str, str]
    """Versions of the libraries that the app uses."""
    runs: tuple[ProbeRun, ...]
    """All runs, in the order of the plan."""
    complete: bool = True
    """Whether every planned fault was tried."""
    baseline: Baseline | None = None
    """The findings of an earlier report; None without one."""

    def of(self, outcome: ProbeOutcome) -> list[ProbeRun]:
        """Return the runs with one outcome."""
        return [run for run in self.runs if run.outcome is outcome]

    @property
    def findings(self) -> list[ProbeRun]:
        """The runs with a finding, the most harmful first."""
        found = (run for outcome in FINDINGS for run in self.of(outcome))
        return sorted(found, key=lambda run: run.harm.rank)

    @property
    def new(self) -> list[ProbeRun]:
        """The findings that are not in the baseline; without a baseline, all."""
        known = {} if self.baseline is None else self.baseline.found
        return [run for run in self.findings if known.get(run.source) != _finding(run)]

    @property
    def unknown(self) -> list[ProbeRun]:
        """The runs with the outcome ``unknown``, without those in the baseline.

        The app refused the reply, and nobody can see whether it acted on it before.
        """
        known = set[str]() if self.baseline is None else self.baseline.unknown
        return [run for run in self.of(ProbeOutcome.UNKNOWN) if run.source not in known]

    @property
    def gone(self) -> list[str]:
        """The sources of the baseline's findings that were tried again and are now fine."""
        if self.baseline is None:
            return []

        bad = {*FINDINGS, ProbeOutcome.UNKNOWN}
        fine = {run.source for run in self.applicable if run.outcome not in bad}
        return [source for source in self.baseline.found if source in fine]

    @property
    def applicable(self) -> list[ProbeRun]:
        """The runs whose fault could be served to the app."""
        return [run for run in self.runs if run.outcome is not ProbeOutcome.NOT_APPLICABLE]

    @property
    def survived(self) -> bool:
        """Whether every planned fault was tried, at least one, and none is a finding or unknown."""
        in_doubt = self.findings or self.of(ProbeOutcome.UNKNOWN)
        return self.complete and bool(self.applicable) and not in_doubt

    @property
    def recovered(self) -> int:
        """How often the app gave the good result once good replies followed the fault."""
        return sum(run.recovered for run in self.runs)

    @property
    def causes(self) -> dict[Cause, list[ProbeRun]]:
        """The findings by cause: the most harmful first, then the most frequent.

        The findings of a cause begin with one of each code.
        """
        causes: dict[Cause, list[ProbeRun]] = {}
        for run in self.findings:
            causes.setdefault(run.cause, []).append(run)

        for runs in causes.values():
            first = {run.code: run for run in reversed(runs)}
            runs.sort(key=lambda run: first[run.code] is not run)

        return dict(sorted(causes.items(), key=lambda found: (found[0].harm.rank, -len(found[1]))))

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        ran = len(self.applicable)
        found = len(self.findings)
        part = "" if self.complete else ", the probe was interrupted"

        unknown = len(self.of(ProbeOutcome.UNKNOWN))
        if not ran:
            return f"Nothing was tried{part}."
        if not found and not unknown:
            return f"Survived all {ran} malformed replies{part}."

        unseen = f" Of {unknown} it is unknown whether the app acted on them." if unknown else ""
        if not found:
            return f"No finding in {ran} malformed replies{part}.{unseen}"

        kinds = (outcome for outcome in FINDINGS if self.of(outcome))
        counts = ", ".join(f"{len(self.of(one))} {OUTCOMES[one].counted}" for one in kinds)
        sentence = f"Did not survive {found} of {ran} malformed replies: {counts}{part}.{unseen}"
        if self.baseline is None:
            return sentence
        return f"{sentence} Against the baseline {len(self.new)} are new."
