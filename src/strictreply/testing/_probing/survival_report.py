"""What becomes of an app under malformed replies: its behaviour in a run, how that is judged, the report and its files.

No text of a reply is in any of these values but ``ProbeRun.served``, the excerpt of what the app was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from importlib.resources import files
from typing import NamedTuple
from xml.etree import ElementTree as ET

from strictreply.testing._steps import Kind
from strictreply.values._issues import printable, printable_lines
from strictreply.values._json import JSONObject


class ProbeOutcome(StrEnum):
    """What an app did with a malformed reply (see ``OUTCOMES``); what it should not have done comes first."""

    ACCEPTED = "accepted"
    CRASHED = "crashed"
    HUNG = "hung"
    LOOPED = "looped"
    LEAKED = "leaked"
    ANSWERED_WITHOUT_TOOL = "answered_without_tool"
    NOTHING = "nothing"
    CLEAN = "clean"
    NOT_APPLICABLE = "not_applicable"


class OutcomeWords(NamedTuple):
    """What is said of an outcome; only one that no app should show has a ``remedy``, and is ``counted`` in a verdict.

    ``title`` heads its column, ``style`` is its colour in a terminal.
    """

    title: str
    style: str
    meaning: str
    counted: str = ""
    remedy: str = ""


OUTCOMES: Mapping[ProbeOutcome, OutcomeWords] = {
    ProbeOutcome.ACCEPTED: OutcomeWords(
        "accepted",
        "red",
        "The app went on with a reply that breaks its own contract.",
        "accepted",
        "Judge the whole reply before anything of it is used: the arguments against the tool's closed schema, the JSON "
        "strictly, the response's finish_reason and role.",
    ),
    ProbeOutcome.CRASHED: OutcomeWords(
        "crashed",
        "yellow",
        "An exception came out that says nothing of the reply, or the process died.",
        "crashed it",
        "Catch it where the reply is read, and raise an exception of your own that says the reply is bad.",
    ),
    ProbeOutcome.HUNG: OutcomeWords(
        "hung",
        "magenta",
        "The app did not return.",
        "hung it",
        "Set a timeout on the client, a deadline on the whole call, and a bound on retries.",
    ),
    ProbeOutcome.LOOPED: OutcomeWords(
        "looped",
        "magenta",
        "The app asked again and again, until the probe ended it.",
        "sent it into an endless loop",
        "Bound the turns of the tool loop, and give up on a model that makes the same mistake again.",
    ),
    ProbeOutcome.LEAKED: OutcomeWords(
        "leaked",
        "magenta",
        "What the model wrote came back in a prompt of the app: an injection.",
        "leaked into its prompts",
        "Word corrections from your own schema; no error text that quotes the reply may stand in a prompt.",
    ),
    ProbeOutcome.ANSWERED_WITHOUT_TOOL: OutcomeWords(
        "no tool ran",
        "yellow",
        "The app needs its tool, ran none with good arguments, and returned a value as if it were done.",
        "answered without a tool",
        "Raise when the job ends without the call that it needs: a caller takes a value for success.",
    ),
    ProbeOutcome.NOTHING: OutcomeWords(
        "nothing", "blue", "The app returned None: it used nothing of the reply, and told nobody."
    ),
    ProbeOutcome.CLEAN: OutcomeWords("clean", "green", "The app refused, with an exception made for that."),
    ProbeOutcome.NOT_APPLICABLE: OutcomeWords("n/a", "default", "The app's requests do not allow this fault."),
}

FINDINGS = tuple(outcome for outcome, words in OUTCOMES.items() if words.remedy)
"""The outcomes that no app should show."""

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

SHOWN_OF_A_CAUSE = 4  # findings; the others are folded
MAX_LISTED = 6  # names of folded findings
_RAN = tuple(one for one in OUTCOMES if one is not ProbeOutcome.NOT_APPLICABLE)
_METHOD = (
    "Each fault was served for every request of a run; where the app asked again, once more with good replies after."
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_DECIMALS = 3


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What an app did in one run, not yet compared with what it does for good replies.

    ``outcome`` is ACCEPTED for any value returned, whose type ``told`` names (``None`` for None); its ``digest`` is
    equal for equal values, and says nothing of them. For anything else ``told`` says in our words what happened, with
    the line of the app, and of a crash ``frame`` is the innermost one of a library, as ``module:function:line``.
    ``lost`` is true when the app has to be started anew: its process ended, or nobody knows what it still does.
    """

    outcome: ProbeOutcome
    told: str
    digest: str = ""
    frame: str = ""
    lost: bool = False
    traceback: str = field(default="", compare=False)
    versions: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    seconds: float = field(default=0.0, compare=False)

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
) -> tuple[ProbeOutcome, str]:
    """Judge one run: its outcome, and in our words what the app did.

    ``echoes`` are the requests, counted from 1, and the roles of the turns in which a text stood that only the model
    wrote. ``good`` is the digest of what the app gives for good replies, None when that is never twice the same.
    ``looped`` when it asked until it was ended, ``without_tool`` when the tool that its job needs cannot have run.
    """
    outcome, told = behaviour.outcome, behaviour.told
    if behaviour.returned:
        same = "the same as" if behaviour.digest == good else "other than"
        if told == "None" and behaviour.digest != good:  # good results that differ are not all None
            outcome, told = ProbeOutcome.NOTHING, "returned None, other than for a good reply"
        elif without_tool and behaviour.digest != good:
            outcome, told = ProbeOutcome.ANSWERED_WITHOUT_TOOL, f"returned {told}, and no tool ran"
        else:
            told = f"returned {told}{f', {same} for a good reply' if good is not None else ''}"
    elif behaviour.frame:
        told = f"{told} in {behaviour.frame}"
    if looped:
        outcome, told = ProbeOutcome.LOOPED, f"asked again until it was ended; then {told}"
    if not echoes:
        return outcome, told
    request, role = echoes[0]
    return ProbeOutcome.LEAKED, f"the {role} turn of request {request} quoted the reply; then {told}"


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """One fault, and what the app did with it.

    ``fault`` is the entry's name in the catalogue, ``at`` the JSON Pointer of the spoiled place, ``code`` what a strict
    gate says. ``detail`` tells what the app did, in our words; of a crash it names the app's line and ``frame``, the
    innermost one of a library (``module:function:line``), empty when the app's own code raised. ``seconds`` is how long
    the run with nothing but faults took, ``requests`` how many it made; ``recovered`` whether good replies after the
    fault gave the good result.
    ``source`` makes the fault again in a test. ``served`` is an excerpt of the reply: hostile text.
    """

    fault: str
    kind: Kind
    code: str
    outcome: ProbeOutcome
    detail: str
    frame: str = ""
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
        told = [f"{len(self.of(one))} {OUTCOMES[one].counted}" for one in FINDINGS if self.of(one)]
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
                f"A strict gate says {run.code}. {OUTCOMES[run.outcome].remedy}",
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


def report_page(report: Report) -> str:
    """Write the report as one HTML page for a person: nothing runs, nothing is loaded, and hostile text stays text.

    It is built as a tree that the library writes, which escapes every text.
    """
    facts = {
        "Asks for": report.asks,
        "Probed": f"{report.started:%Y-%m-%d %H:%M} UTC, {report.seconds:.0f} s",
        "With": ", ".join(f"{name} {version}" for name, version in report.versions.items()),
        "Recovered": f"from {report.recovered} of {len(report.applicable)}, once good replies followed",
    }
    terms = [part for name, value in facts.items() if value for part in (_element("dt", name), _element("dd", value))]
    head = _element(
        "head",
        _element("meta", charset="utf-8"),
        _element("meta", **{"http-equiv": "Content-Security-Policy"}, content=_POLICY),
        _element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        _element("title", f"Survival report: {report.app}"),
        _element("style", files("strictreply.testing._probing").joinpath("report_page.css").read_text("utf-8")),
    )
    main = _element(
        "main",
        _element("h1", f"Survival report: {report.app}"),
        _element("p", report.verdict, kind="verdict good" if report.survived else "verdict bad"),
        _element("dl", *terms),
        _counts(report),
        *(part for outcome in FINDINGS if report.of(outcome) for part in _findings(report, outcome)),
        *_others(report.of(ProbeOutcome.NOTHING), "answered with nothing"),
        *_others(report.of(ProbeOutcome.CLEAN), "refused cleanly"),
        *_others(report.of(ProbeOutcome.NOT_APPLICABLE), "not applicable to this app"),
        _element("footer", _METHOD),
    )
    root = _element("html", head, _element("body", main), lang="en")
    return f"<!doctype html>\n{ET.tostring(root, encoding='unicode', method='html')}\n"


def _element(tag: str, *content: str | ET.Element, kind: str = "", **attributes: str) -> ET.Element:
    """Make an element of texts, printable line by line, and elements; ``kind`` is its class."""
    element = ET.Element(tag, {"class": kind} if kind else {}, **attributes)
    for part in content:
        if isinstance(part, ET.Element):
            element.append(part)
        elif len(element):
            element[-1].tail = printable_lines(part)
        else:
            element.text = printable_lines(part)
    return element


def _dot(outcome: ProbeOutcome) -> ET.Element:
    return _element("span", kind=f"dot {outcome}")


def _row(tag: str, *cells: str | ET.Element) -> ET.Element:
    return _element("tr", *(_element(tag, cell) for cell in cells))


def _counts(report: Report) -> ET.Element:
    def row(name: str, words: str, runs: Sequence[ProbeRun]) -> ET.Element:
        numbers = {outcome: sum(run.outcome is outcome for run in runs) for outcome in _RAN}
        seen = {outcome: number for outcome, number in numbers.items() if number}
        bars = (
            _element("span", kind=one, style=f"width:{100 * number / len(runs):.2f}%") for one, number in seen.items()
        )
        label = {"aria-label": ", ".join(f"{outcome} {number}" for outcome, number in seen.items())}
        return _element(
            "tr",
            _element("td", name, *([_element("span", f" · {words}", kind="soft")] if words else [])),
            _element("td", _element("div", *bars, kind="bar", role="img", **label)),
            *(_element("td", str(n), kind="number" if n else "number zero") for n in numbers.values()),
        )

    titles = (_element("th", _dot(outcome), OUTCOMES[outcome].title, kind="number") for outcome in _RAN)
    kinds = {kind: [run for run in report.applicable if run.kind is kind] for kind in Kind}
    return _element(
        "table",
        _element("thead", _element("tr", _element("th", "Kind of fault"), _element("th"), *titles)),
        _element("tbody", *(row(kind.value, KIND_WORDS[kind], runs) for kind, runs in kinds.items() if runs)),
        _element("tfoot", row("all", "", report.applicable)),
        kind="counts",
    )


def _findings(report: Report, outcome: ProbeOutcome) -> Iterator[ET.Element]:
    """Lay out the findings of one outcome by what one change would mend; of a cause all but the first are folded."""
    words = OUTCOMES[outcome]
    yield _element("h2", _dot(outcome), f"{words.title.capitalize()}: {len(report.of(outcome))}")
    yield _element("p", words.meaning)
    yield _element("p", _element("strong", "What to do: "), words.remedy, kind="todo")
    for (found, detail), runs in report.causes.items():
        if found is not outcome:
            continue
        number = f" · {len(runs)} {'reply' if len(runs) == 1 else 'replies'}"
        yield _element("h3", _element("code", detail), number)
        yield _found(runs[:SHOWN_OF_A_CAUSE])
        if folded := runs[SHOWN_OF_A_CAUSE:]:
            names = [*(run.id for run in folded[:MAX_LISTED]), *["…"] * (len(folded) > MAX_LISTED)]
            yield _element("details", _element("summary", f"{len(folded)} more: {', '.join(names)}"), _found(folded))


def _found(runs: Iterable[ProbeRun]) -> ET.Element:
    rows = (
        _element(
            "tr",
            _element(
                "td",
                _element("div", run.id, kind="name"),
                _element("p", run.summary),
                _element("p", "A strict gate says ", _element("code", run.code), kind="soft"),
            ),
            _element(
                "td",
                _element("pre", run.served),
                _element("code", f"llm.script({run.source})", kind="again"),
                _element("code", f"strictreply faults --show {run.fault}", kind="again"),
            ),
        )
        for run in runs
    )
    return _element(
        "table", _element("thead", _row("th", "Fault", "What was served")), _element("tbody", *rows), kind="findings"
    )


def _others(runs: Sequence[ProbeRun], words: str) -> Iterator[ET.Element]:
    if runs:
        rows = (_row("td", run.id, run.detail + " · recovered" * run.recovered) for run in runs)
        title = _element("summary", f"{len(runs)} {words}")
        yield _element("details", title, _element("table", _element("tbody", *rows)))
