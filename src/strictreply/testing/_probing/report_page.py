"""The survival report as a page: causes ranked by harm, each with what was served and how to see it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from xml.etree import ElementTree as ET

from strictreply.testing._html import anchor, bar, choices, element, facts, linked, numbers, page, row
from strictreply.testing._probing.survival_report import (
    FINDINGS,
    KIND_WORDS,
    OUTCOMES,
    Cause,
    ProbeOutcome,
    ProbeRun,
    Report,
)
from strictreply.testing._steps import Harm, Kind

SHOWN_OF_A_CAUSE = 4  # findings; the others are folded
MAX_LISTED = 6  # names of folded findings
_RAN = tuple(one for one in OUTCOMES if one is not ProbeOutcome.NOT_APPLICABLE)
_METHOD = (
    "Each fault was served for every request of a run; where the app asked again, once more with good replies after it."
)


def report_page(report: Report) -> str:
    """Write the report as one HTML page for a person."""
    taken: set[str] = set()
    places = {cause: anchor(f"{cause.harm} {cause.words}", taken) for cause in report.causes}
    filters = list(_filters(report))
    compared = ""
    if report.baseline is not None:
        new, gone = len(report.new), len(report.baseline.gone(report.runs))
        compared = f"{new} new, {len(report.findings) - new} known, {gone} gone"
    return page(
        f"Survival report: {report.app}",
        element("p", report.verdict, kind="verdict good" if report.survived else "verdict bad"),
        facts(
            {
                "Asks for": report.asks,
                "Probed": f"{report.started:%Y-%m-%d %H:%M} UTC, {report.seconds:.0f} s",
                "With": ", ".join(f"{name} {version}" for name, version in report.versions.items()),
                "Recovered": f"from {report.recovered} of {len(report.applicable)}, once good replies followed",
                "Since the baseline": compared,
            }
        ),
        _counts(report),
        *_contents(report, places),
        *(shown for shown, _ in filters),
        *_findings(report, places, taken),
        *_others(report.of(ProbeOutcome.NOTHING), "answered with nothing"),
        *_others(report.of(ProbeOutcome.CLEAN), "refused cleanly"),
        *_others(report.of(ProbeOutcome.NOT_APPLICABLE), "not applicable to this app"),
        element("footer", _METHOD),
        css="".join(style for _, style in filters),
    )


def _filters(report: Report) -> Iterator[tuple[ET.Element, str]]:
    found = report.findings
    harms = {_slug(harm): harm.value for harm in Harm if any(run.harm is harm for run in found)}
    kinds = {_slug(kind): kind.value for kind in Kind if any(run.kind is kind for run in found)}
    for name, words in (("harm", harms), ("kind", kinds)):
        if len(words) > 1:
            yield choices(name, words)
    if report.baseline is not None and found:
        yield choices("since", {"new": "new"})


def _slug(value: Harm | Kind) -> str:
    return f"{type(value).__name__}-{value.name}".lower()


def _dot(name: str) -> ET.Element:
    return element("span", kind=f"dot {name}")


def _counts(report: Report) -> ET.Element:
    def counted(name: str, words: str, runs: Sequence[ProbeRun]) -> ET.Element:
        seen = {outcome: sum(run.outcome is outcome for run in runs) for outcome in _RAN}
        about = [element("span", f" · {words}", kind="soft")] if words else []
        cells = numbers((OUTCOMES[outcome].title, number) for outcome, number in seen.items())
        drawn = bar({outcome.value: number for outcome, number in seen.items()}, len(runs))
        return element("tr", element("td", name, *about), element("td", drawn), *cells)

    titles = (element("th", _dot(outcome), OUTCOMES[outcome].title, kind="number") for outcome in _RAN)
    kinds = {kind: [run for run in report.applicable if run.kind is kind] for kind in Kind}
    return element(
        "table",
        element("thead", element("tr", element("th", "Kind of fault"), element("th"), *titles)),
        element("tbody", *(counted(kind.value, KIND_WORDS[kind], runs) for kind, runs in kinds.items() if runs)),
        element("tfoot", counted("all", "", report.applicable)),
        kind="counts",
    )


def _contents(report: Report, places: dict[Cause, str]) -> Iterator[ET.Element]:
    if not places:
        return
    entries: list[ET.Element] = []
    for cause, runs in report.causes.items():
        link = element("a", f"{cause.harm}: {cause.words}", href=f"#{places[cause]}")
        entries.append(element("li", _dot(_slug(cause.harm)), link, f" · {_replies(runs)}"))
    yield element("h2", "Causes, the most harmful first")
    yield element("ol", *entries, kind="contents")


def _replies(runs: Sequence[ProbeRun]) -> str:
    return f"{len(runs)} {'reply' if len(runs) == 1 else 'replies'}"


def _findings(report: Report, places: dict[Cause, str], taken: set[str]) -> Iterator[ET.Element]:
    """Lay out the findings by harm and by what one change would mend; of a cause all but the first are folded."""
    new = {run.source for run in report.new} if report.baseline is not None else set[str]()
    for harm, causes in groupby(report.causes.items(), key=lambda item: item[0].harm):
        of_it = list(causes)
        number = sum(len(runs) for _, runs in of_it)
        yield element("h2", _dot(_slug(harm)), f"{harm.value.capitalize()}: {number}")
        for outcome in FINDINGS:
            if any(cause.outcome is outcome for cause, _ in of_it):
                words = OUTCOMES[outcome]
                yield element("p", words.meaning)
                yield element("p", element("strong", "What to do: "), words.remedy, kind="todo")
        for cause, runs in of_it:
            more = runs[SHOWN_OF_A_CAUSE:]
            listed = [*(run.id for run in more[:MAX_LISTED]), *["…"] * (len(more) > MAX_LISTED)]
            title = element("summary", f"{len(more)} more: {', '.join(listed)}")
            yield element(
                "section",
                linked("h3", places[cause], element("code", cause.words), f" · {_replies(runs)}"),
                _found(runs[:SHOWN_OF_A_CAUSE], new, taken),
                *([element("details", title, _found(more, new, taken))] if more else []),
                kind="cause",
                id=places[cause],
            )


def _found(runs: Iterable[ProbeRun], new: set[str], taken: set[str]) -> ET.Element:
    rows: list[ET.Element] = []
    for run in runs:
        place = anchor(run.source, taken)
        classes = ["finding", _slug(run.harm), _slug(run.kind), *["new"] * (run.source in new)]
        named = linked("div", place, element("span", run.id, kind="name"), *[" · new"] * (run.source in new))
        told = element("p", "A strict gate says ", element("code", run.code), kind="soft")
        again = (f"llm.script({run.source})", f"strictreply faults --show {run.fault}")
        left = element("td", named, element("p", run.summary), told)
        right = element("td", element("pre", run.served), *(element("code", line, kind="again") for line in again))
        rows.append(element("tr", left, right, kind=" ".join(classes), id=place))
    head = element("thead", row("th", "Fault", "What was served"))
    return element("table", head, element("tbody", *rows), kind="findings")


def _others(runs: Sequence[ProbeRun], words: str) -> Iterator[ET.Element]:
    if runs:
        rows = (row("td", run.id, run.detail + " · recovered" * run.recovered) for run in runs)
        title = element("summary", f"{len(runs)} {words}")
        yield element("details", title, element("table", element("tbody", *rows)))
