"""The survival report as JSON, as JUnit XML, and as a page of causes ranked by harm."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any
from xml.etree import ElementTree as ET

from strictreply.core import JSONObject
from strictreply.core.text import printable, printable_lines
from strictreply.testing import _html as html
from strictreply.testing._html import anchor, element, linked, numbers, row, slug
from strictreply.testing._steps import Harm, Kind
from strictreply.testing.survival import (
    FINDINGS,
    KIND_WORDS,
    OUTCOMES,
    ProbeOutcome,
    ProbeRun,
    Report,
)

SHOWN_OF_A_CAUSE = 4  # findings; the others are folded
MAX_LISTED = 6  # names of folded findings
_RAN = tuple(one for one in OUTCOMES if one is not ProbeOutcome.NOT_APPLICABLE)


def report_page(report: Report) -> str:
    """Write the report as one HTML page for a person."""
    taken: set[str] = set()
    places = {cause: anchor(f"{cause.harm} {cause.words}", taken) for cause in report.causes}
    filters = list(_filters(report))
    again = "where the app retried, once more with good replies after it"

    recovered = f"from {report.recovered} of {len(report.applicable)}, once good replies followed"
    compared = ""
    if report.baseline:
        new = len(report.new)
        compared = f"{new} new, {len(report.findings) - new} known, {len(report.gone)} gone"

    facts = {
        "Asks for": report.asks,
        "Probed": f"{report.started:%Y-%m-%d %H:%M} UTC, {report.seconds:.0f} s",
        "With": ", ".join(f"{name} {version}" for name, version in report.versions.items()),
        "Recovered": recovered,
        "Since the baseline": compared,
    }

    return html.page(
        f"Survival report: {report.app}",
        element("p", report.verdict, kind="verdict good" if report.survived else "verdict bad"),
        html.facts(facts),
        _counts(report),
        *_contents(report, places),
        *(choice for choice, _ in filters),
        *_findings(report, places, taken),
        *_others(report.of(ProbeOutcome.UNKNOWN), "of which nobody can see whether it acted"),
        *_others(report.of(ProbeOutcome.NOTHING), "answered with nothing"),
        *_others(report.of(ProbeOutcome.READ), "read as meant"),
        *_others(report.of(ProbeOutcome.CLEAN), "refused cleanly"),
        *_others(report.of(ProbeOutcome.NOT_APPLICABLE), "not applicable to this app"),
        element("footer", f"Each fault was served for every request of a run; {again}."),
        css="".join(style for _, style in filters),
    )


def _filters(report: Report) -> Iterator[tuple[ET.Element, str]]:
    seen: set[Harm | Kind] = {one for run in report.findings for one in (run.harm, run.kind)}

    for kind in (Harm, Kind):
        words = {slug(one): one.value for one in kind if one in seen}
        if len(words) > 1:
            yield html.choices(kind.__name__.lower(), words)

    if report.baseline is not None and seen:
        yield html.choices("since", {"new": "new"})


def _counts(report: Report) -> ET.Element:
    def counted(name: str, words: str, runs: Sequence[ProbeRun]) -> ET.Element:
        seen = {outcome: sum(run.outcome is outcome for run in runs) for outcome in _RAN}
        about = [element("span", f" · {words}", kind="soft")] if words else []
        cells = numbers((OUTCOMES[outcome].title, number) for outcome, number in seen.items())
        drawn = html.bar({outcome.value: number for outcome, number in seen.items()}, len(runs))
        return element("tr", element("td", name, *about), element("td", drawn), *cells)

    titles = (
        element("th", html.dot(outcome), OUTCOMES[outcome].title, kind="number") for outcome in _RAN
    )
    head = element("tr", element("th", "Kind of fault"), element("th"), *titles)

    kinds = {kind: [run for run in report.applicable if run.kind is kind] for kind in Kind}
    rows = (counted(kind.value, KIND_WORDS[kind], runs) for kind, runs in kinds.items() if runs)

    return element(
        "table",
        element("thead", head),
        element("tbody", *rows),
        element("tfoot", counted("all", "", report.applicable)),
        kind="counts",
    )


def _contents(report: Report, places: Mapping[Any, str]) -> Iterator[ET.Element]:
    entries: list[ET.Element] = []
    for cause, runs in report.causes.items():
        link = element("a", f"{cause.harm}: {cause.words}", href=f"#{places[cause]}")
        entries.append(element("li", html.dot(slug(cause.harm)), link, f" · {_replies(runs)}"))

    if entries:
        yield element("h2", "Causes, the most harmful first")
        yield element("ol", *entries, kind="contents")


def _replies(runs: Sequence[ProbeRun]) -> str:
    return f"{len(runs)} {'reply' if len(runs) == 1 else 'replies'}"


def _findings(report: Report, places: Mapping[Any, str], taken: set[str]) -> Iterator[ET.Element]:
    """Lay out the findings by harm and by what one change would fix.

    Of each cause, all findings but the first few are folded.
    """
    new = {run.source for run in report.new} if report.baseline is not None else set[str]()

    for harm, causes in groupby(report.causes.items(), key=lambda item: item[0].harm):
        of_it = list(causes)
        number = sum(len(runs) for _, runs in of_it)
        yield element("h2", html.dot(slug(harm)), f"{harm.value.capitalize()}: {number}")

        for outcome, (meaning, remedy) in FINDINGS.items():
            if any(cause.outcome is outcome for cause, _ in of_it):
                yield element("p", meaning)
                yield element("p", element("strong", "What to do: "), remedy, kind="todo")

        for cause, runs in of_it:
            place = places[cause]
            inner = [
                linked("h3", place, element("code", cause.words), f" · {_replies(runs)}"),
                _found(runs[:SHOWN_OF_A_CAUSE], new, taken),
            ]
            if more := runs[SHOWN_OF_A_CAUSE:]:
                listed = [*(run.id for run in more[:MAX_LISTED]), *["…"] * (len(more) > MAX_LISTED)]
                title = element("summary", f"{len(more)} more: {', '.join(listed)}")
                inner.append(element("details", title, _found(more, new, taken)))

            yield element("section", *inner, kind="cause", id=place)


def _found(runs: Sequence[ProbeRun], new: Collection[str], taken: set[str]) -> ET.Element:
    rows: list[ET.Element] = []
    for run in runs:
        place = anchor(run.source, taken)
        classes = ["finding", slug(run.harm), slug(run.kind)]
        name: list[ET.Element | str] = [element("span", run.id, kind="name")]
        if run.source in new:
            classes.append("new")
            name.append(" · new")

        named = linked("div", place, *name)
        verdict = element("p", "A strict contract reports ", element("code", run.code), kind="soft")
        left = element("td", named, element("p", run.summary), verdict)

        again = (f"llm.script({run.source})", f"strictreply faults --show {run.fault}")
        lines = (element("code", line, kind="again") for line in again)
        right = element("td", element("pre", run.served), *lines)

        rows.append(element("tr", left, right, kind=" ".join(classes), id=place))

    return html.findings(("Fault", "What was served"), rows)


def _others(runs: Sequence[ProbeRun], words: str) -> Iterator[ET.Element]:
    if runs:
        rows = (row("td", run.id, run.detail + " · recovered" * run.recovered) for run in runs)
        yield html.folded(f"{len(runs)} {words}", rows)


def report_json(report: Report) -> JSONObject:
    """Return the report as JSON-safe values.

    ``served`` of a run is an excerpt of hostile text, made printable.
    """
    outcomes: JSONObject = {outcome.value: len(report.of(outcome)) for outcome in ProbeOutcome}
    runs: list[JSONObject] = []

    for run in report.runs:
        harm = run.harm.value if run.outcome in FINDINGS else None
        record = {name: value for name, value in asdict(run).items() if name != "summary"}
        runs.append(record | {"harm": harm, "seconds": round(run.seconds, 3)})

    compared: JSONObject = {"new": [run.source for run in report.new], "gone": [*report.gone]}

    return {
        "app": report.app,
        "asks": report.asks,
        "started": report.started.isoformat(timespec="seconds"),
        "seconds": round(report.seconds, 3),
        "versions": dict(report.versions),
        "complete": report.complete,
        "survived": report.survived,
        "outcomes": outcomes | {"recovered": report.recovered},
        "runs": runs,
        "baseline": None if report.baseline is None else compared,
    }


def junit_xml(report: Report) -> str:
    """Write a test suite with a test case for each run.

    What the baseline knows is skipped; every text is printable.
    """
    new = report.new
    unknown = report.unknown
    skipped = len(report.of(ProbeOutcome.NOT_APPLICABLE)) + len(report.findings) - len(new)
    about = {
        "name": f"strictreply probe {printable(report.app)}",
        "errors": str(len(unknown)),
        "failures": str(len(new)),
        "skipped": str(skipped),
        "tests": str(len(report.runs)),
        "time": f"{report.seconds:.3f}",
        "timestamp": report.started.isoformat(timespec="seconds"),
    }
    root = ET.Element("testsuites", name="strictreply probe")
    suite = ET.SubElement(root, "testsuite", about)

    for run in report.runs:
        texts = {
            "classname": f"{report.app}.{run.kind}",
            "name": run.id,
            "time": f"{run.seconds:.3f}",
        }
        members = {name: printable(text) for name, text in texts.items()}
        case = ET.SubElement(suite, "testcase", members)

        if run in new:
            message = printable(f"{run.harm}: {run.detail}")
            failure = ET.SubElement(case, "failure", type=run.outcome.value, message=message)
            failure.text = printable_lines(
                f"{run.summary}\n{run.served}\n"
                f"A strict contract reports {run.code}. {FINDINGS[run.outcome][1]}\n"
                f"Look: strictreply faults --show {run.fault}\nIn a test: llm.script({run.source})"
            )
        elif run in unknown:
            message = printable(run.detail)
            ET.SubElement(case, "error", type=run.outcome.value, message=message)
        elif run.outcome in FINDINGS or run.outcome is ProbeOutcome.NOT_APPLICABLE:
            why = f"known in the baseline: {run.detail}" if run.outcome in FINDINGS else run.detail
            ET.SubElement(case, "skipped", type="pytest.skip", message=printable(why))

    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
