"""What becomes of an app under malformed replies: its behaviour in a run, how that is judged, the report and its files.

No text of a reply is in any of these values but ``ProbeRun.served``, the excerpt of what the app was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from xml.etree import ElementTree as ET

from strictreply.testing._steps import Kind
from strictreply.values._issues import printable, printable_lines
from strictreply.values._json import JSONObject


class ProbeOutcome(StrEnum):
    """What an app did with a malformed reply (see ``MEANINGS``); what it should not have done comes first."""

    ACCEPTED = "accepted"
    CRASHED = "crashed"
    HUNG = "hung"
    LEAKED = "leaked"
    NOTHING = "nothing"
    CLEAN = "clean"
    NOT_APPLICABLE = "not_applicable"


FINDINGS = (ProbeOutcome.ACCEPTED, ProbeOutcome.CRASHED, ProbeOutcome.HUNG, ProbeOutcome.LEAKED)
"""The outcomes that no app should show."""

MEANINGS: Mapping[ProbeOutcome, str] = {
    ProbeOutcome.ACCEPTED: "The app went on with a reply that breaks its own contract.",
    ProbeOutcome.CRASHED: "An exception came out that says nothing of the reply, or the process died.",
    ProbeOutcome.HUNG: "The app did not return.",
    ProbeOutcome.LEAKED: "What the model wrote came back in a prompt of the app: an injection.",
    ProbeOutcome.NOTHING: "The app returned None: it used nothing of the reply, and told nobody.",
    ProbeOutcome.CLEAN: "The app refused, with an exception made for that.",
    ProbeOutcome.NOT_APPLICABLE: "The app's requests do not allow this fault.",
}

REMEDIES: Mapping[ProbeOutcome, str] = {
    ProbeOutcome.ACCEPTED: "Judge the whole reply before anything of it is used: the arguments against the tool's "
    "closed schema, the JSON strictly, the response's finish_reason and role.",
    ProbeOutcome.CRASHED: "Catch it where the reply is read, and raise an exception of your own that says the reply "
    "is bad.",
    ProbeOutcome.HUNG: "Set a timeout on the client, a deadline on the whole call, and a bound on retries.",
    ProbeOutcome.LEAKED: "Word corrections from your own schema; no error text that quotes the reply may stand in a "
    "prompt.",
}
"""What a person can do about each finding."""

_COUNTED = dict(zip(FINDINGS, ("accepted", "crashed it", "hung it", "leaked into its prompts"), strict=True))

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
"""What each kind of fault is about."""

_DECIMALS = 3


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What an app did in one run, not yet compared with what it does for good replies.

    ``outcome`` is ACCEPTED for any value returned, whose type ``told`` names (``None`` for None); its ``digest`` is
    equal for equal values, and says nothing of them. For anything else ``told`` says in our words what happened.
    ``lost`` is true when the app has to be started anew: its process ended, or nobody knows what it still does.
    """

    outcome: ProbeOutcome
    told: str
    digest: str = ""
    lost: bool = False
    traceback: str = field(default="", compare=False)
    versions: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    seconds: float = field(default=0.0, compare=False)

    @property
    def returned(self) -> bool:
        """Whether the app came back with a value."""
        return self.outcome is ProbeOutcome.ACCEPTED


def judged(behaviour: Behaviour, echoes: Sequence[tuple[int, str]], good: str | None) -> tuple[ProbeOutcome, str]:
    """Judge one run: its outcome, and in our words what the app did.

    ``echoes`` are the requests, counted from 1, and the roles of the turns in which a text stood that only the model
    wrote. ``good`` is the digest of what the app gives for good replies, None when that is never twice the same.
    """
    outcome, told = behaviour.outcome, behaviour.told
    if behaviour.returned:
        same = "the same as" if behaviour.digest == good else "other than"
        if told == "None" and behaviour.digest != good:  # good results that differ are not all None
            outcome, told = ProbeOutcome.NOTHING, "returned None, other than for a good reply"
        else:
            told = f"returned {told}{f', {same} for a good reply' if good is not None else ''}"
    if not echoes:
        return outcome, told
    request, role = echoes[0]
    return ProbeOutcome.LEAKED, f"the {role} turn of request {request} quoted the reply; then {told}"


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """One fault, and what the app did with it.

    ``fault`` is the entry's name in the catalogue, ``at`` the JSON Pointer of the spoiled place, ``code`` what a strict
    gate says. ``detail`` tells what the app did, in our words. ``seconds`` is how long the run with nothing but faults
    took, ``requests`` how many it made; ``recovered`` whether good replies after the fault gave the good result.
    ``source`` makes the fault again in a test. ``served`` is an excerpt of the reply: hostile text.
    """

    fault: str
    kind: Kind
    code: str
    outcome: ProbeOutcome
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
    """Everything that a probe found; ``complete`` is false when it was interrupted.

    ``asks`` is what the app's requests ask for, in words; ``versions`` are those of Python and the libraries it uses.
    """

    app: str
    asks: str
    started: datetime
    seconds: float
    versions: Mapping[str, str]
    runs: tuple[ProbeRun, ...]
    complete: bool = True

    def of(self, outcome: ProbeOutcome) -> list[ProbeRun]:
        """Return the runs with one outcome."""
        return [run for run in self.runs if run.outcome is outcome]

    @property
    def findings(self) -> list[ProbeRun]:
        """The runs that should have gone otherwise, the worst outcome first."""
        return [run for outcome in FINDINGS for run in self.of(outcome)]

    @property
    def applicable(self) -> list[ProbeRun]:
        """The runs that took place."""
        return [run for run in self.runs if run.outcome is not ProbeOutcome.NOT_APPLICABLE]

    @property
    def survived(self) -> bool:
        """Whether every fault was tried, at least one, and none is a finding."""
        return self.complete and bool(self.applicable) and not self.findings

    @property
    def recovered(self) -> int:
        """How often good replies after the fault gave the good result."""
        return sum(run.recovered for run in self.runs)

    @property
    def causes(self) -> dict[tuple[ProbeOutcome, str], list[ProbeRun]]:
        """The findings by what the app did: what one change would mend, most findings first within an outcome."""
        causes: dict[tuple[ProbeOutcome, str], list[ProbeRun]] = {}
        for run in self.findings:
            causes.setdefault((run.outcome, run.detail), []).append(run)
        order = sorted(causes, key=lambda cause: (FINDINGS.index(cause[0]), -len(causes[cause])))
        return {cause: causes[cause] for cause in order}

    @property
    def verdict(self) -> str:
        """Report in one sentence what it came to."""
        ran = len(self.applicable)
        part = "" if self.complete else ", the probe was interrupted"
        if not ran:
            return f"Nothing was tried{part}."
        if not self.findings:
            return f"Survived all {ran} malformed replies{part}."
        told = [f"{len(self.of(one))} {_COUNTED[one]}" for one in FINDINGS if self.of(one)]
        return f"Did not survive {len(self.findings)} of {ran} malformed replies: {', '.join(told)}{part}."


def report_json(report: Report) -> JSONObject:
    """Return the report as JSON-safe values; ``served`` of a run is an excerpt of hostile text, made printable."""
    outcomes: JSONObject = {outcome.value: len(report.of(outcome)) for outcome in ProbeOutcome}
    return {
        "app": report.app,
        "asks": report.asks,
        "started": report.started.isoformat(timespec="seconds"),
        "seconds": round(report.seconds, _DECIMALS),
        "versions": dict(report.versions),
        "complete": report.complete,
        "survived": report.survived,
        "outcomes": outcomes | {"recovered": report.recovered},
        "runs": [
            {name: value for name, value in asdict(run).items() if name != "summary"}
            | {"seconds": round(run.seconds, _DECIMALS)}
            for run in report.runs
        ],
    }


def junit_xml(report: Report) -> str:
    """Write a test suite with a test case a run; every text in it is printable."""
    suite = ET.Element(
        "testsuite",
        name=f"strictreply probe {printable(report.app)}",
        errors="0",
        failures=str(len(report.findings)),
        skipped=str(len(report.of(ProbeOutcome.NOT_APPLICABLE))),
        tests=str(len(report.runs)),
        time=f"{report.seconds:.3f}",
        timestamp=report.started.isoformat(timespec="seconds"),
    )
    for run in report.runs:
        told = {"classname": f"{report.app}.{run.kind}", "name": run.id, "time": f"{run.seconds:.3f}"}
        case = ET.SubElement(suite, "testcase", {name: printable(text) for name, text in told.items()})
        if run.outcome in FINDINGS:
            message = printable(f"{run.outcome}: {run.detail}")
            story = (
                run.summary,
                run.served,
                f"A strict gate says {run.code}. {REMEDIES[run.outcome]}",
                f"Look: strictreply faults --show {run.fault}",
                f"In a test: llm.script({run.source})",
            )
            failure = ET.SubElement(case, "failure", type=run.outcome.value, message=message)
            failure.text = printable_lines("\n".join(story))
        elif run.outcome is ProbeOutcome.NOT_APPLICABLE:
            ET.SubElement(case, "skipped", type="pytest.skip", message=printable(run.detail))
    root = ET.Element("testsuites", name="strictreply probe")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
