"""The report as one HTML page for a person: no script, nothing from elsewhere, and hostile text stays text.

It is built as a tree and written by the library, which escapes every text: no markup is ever put together by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.resources import files
from xml.etree import ElementTree as ET

from strictreply.testing._probing.survival_report import (
    FINDINGS,
    KIND_WORDS,
    MEANINGS,
    REMEDIES,
    ProbeOutcome,
    ProbeRun,
    Report,
)
from strictreply.testing._steps import Kind
from strictreply.values._issues import printable_lines

SHOWN_OF_A_CAUSE = 4
"""How many findings with one cause stand open; the others are folded."""

MAX_LISTED = 6
"""How many of the folded ones are named."""

_RAN = (*FINDINGS, ProbeOutcome.NOTHING, ProbeOutcome.CLEAN)
_METHOD = (
    "Each fault was served for every request of a run; where the app asked again, once more with good replies after."
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_page(report: Report) -> str:
    """Write the page."""
    root = ET.Element("html", lang="en")
    _add_head(root, report)
    main = _add(_add(root, "body"), "main")
    _add(main, "h1", f"Survival report: {report.app}")
    _add(main, "p", report.verdict, "verdict good" if report.survived else "verdict bad")
    _add_facts(main, report)
    _add_counts(main, report)
    for outcome in FINDINGS:
        if report.of(outcome):
            _add_findings(main, report, outcome)
    _add_others(main, report.of(ProbeOutcome.NOTHING), "answered with nothing")
    _add_others(main, report.of(ProbeOutcome.CLEAN), "refused cleanly")
    _add_others(main, report.of(ProbeOutcome.NOT_APPLICABLE), "not applicable to this app")
    _add(main, "footer", _METHOD)
    return f"<!doctype html>\n{ET.tostring(root, encoding='unicode', method='html')}\n"


def _add(parent: ET.Element, tag: str, text: str = "", kind: str = "", **attributes: str) -> ET.Element:
    """Add an element, its text printable line by line; ``kind`` is its class."""
    element = ET.SubElement(parent, tag, {"class": kind} if kind else {}, **attributes)
    element.text = printable_lines(text)
    return element


def _add_head(root: ET.Element, report: Report) -> None:
    """Add what a browser needs: the policy lets nothing run and nothing be loaded."""
    head = _add(root, "head")
    _add(head, "meta", charset="utf-8")
    ET.SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    _add(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    _add(head, "title", f"Survival report: {report.app}")
    _add(head, "style", files("strictreply.testing._probing").joinpath("report_page.css").read_text("utf-8"))


def _add_facts(main: ET.Element, report: Report) -> None:
    facts = {
        "Asks for": report.asks,
        "Probed": f"{report.started:%Y-%m-%d %H:%M} UTC, {report.seconds:.0f} s",
        "With": ", ".join(f"{name} {version}" for name, version in report.versions.items()),
        "Recovered": f"from {report.recovered} of {len(report.applicable)}, once good replies followed",
    }
    listed = _add(main, "dl")
    for name, value in facts.items():
        if value:
            _add(listed, "dt", name)
            _add(listed, "dd", value)


def _add_counts(main: ET.Element, report: Report) -> None:
    """Add a row for each kind of fault: a bar of its outcomes, and their numbers."""
    table = _add(main, "table", kind="counts")
    head = _add(_add(table, "thead"), "tr")
    for title in ("Kind of fault", ""):
        _add(head, "th", title)
    for outcome in _RAN:
        cell = _add(head, "th", kind="number")
        _add(cell, "span", kind=f"dot {outcome.value}").tail = outcome.value
    body = _add(table, "tbody")
    for kind in Kind:
        runs = [run for run in report.applicable if run.kind is kind]
        if runs:
            _add_count(body, kind.value, KIND_WORDS[kind], runs)
    _add_count(_add(table, "tfoot"), "all", "", report.applicable)


def _add_count(body: ET.Element, name: str, words: str, runs: Sequence[ProbeRun]) -> None:
    row = _add(body, "tr")
    cell = _add(row, "td", name)
    if words:
        _add(cell, "span", f" · {words}", "soft")
    bar = _add(_add(row, "td"), "div", kind="bar", role="img")
    numbers = {outcome: sum(run.outcome is outcome for run in runs) for outcome in _RAN}
    told = [f"{outcome.value} {number}" for outcome, number in numbers.items() if number]
    bar.set("aria-label", ", ".join(told))
    for outcome, number in numbers.items():
        if number:
            _add(bar, "span", kind=outcome.value, style=f"width:{100 * number / len(runs):.2f}%")
        _add(row, "td", str(number), "number" if number else "number zero")


def _add_findings(main: ET.Element, report: Report, outcome: ProbeOutcome) -> None:
    title = _add(main, "h2")
    _add(title, "span", kind=f"dot {outcome.value}").tail = f"{outcome.value.capitalize()}: {len(report.of(outcome))}"
    _add(main, "p", MEANINGS[outcome])
    todo = _add(main, "p", kind="todo")
    _add(todo, "strong", "What to do: ").tail = REMEDIES[outcome]
    for (found, detail), runs in report.causes.items():
        if found is outcome:
            _add_cause(main, detail, runs)


def _add_cause(main: ET.Element, detail: str, runs: Sequence[ProbeRun]) -> None:
    """Add the findings that one change would mend; all but the first are folded."""
    title = _add(main, "h3")
    _add(title, "code", detail).tail = f" · {len(runs)} {'reply' if len(runs) == 1 else 'replies'}"
    shown, folded = runs[:SHOWN_OF_A_CAUSE], runs[SHOWN_OF_A_CAUSE:]
    _add_table(main, shown)
    if folded:
        more = _add(main, "details")
        names = [*(run.id for run in folded[:MAX_LISTED]), *["…"] * (len(folded) > MAX_LISTED)]
        _add(more, "summary", f"{len(folded)} more: {', '.join(names)}")
        _add_table(more, folded)


def _add_table(parent: ET.Element, runs: Iterable[ProbeRun]) -> None:
    """Add a table of findings: the fault, what was served, and how to see it again."""
    table = _add(parent, "table", kind="findings")
    head = _add(_add(table, "thead"), "tr")
    for title in ("Fault", "What was served"):
        _add(head, "th", title)
    body = _add(table, "tbody")
    for run in runs:
        row = _add(body, "tr")
        fault = _add(row, "td")
        _add(fault, "div", run.id, "name")
        _add(fault, "p", run.summary)
        gate = _add(fault, "p", "A strict gate says ", "soft")
        _add(gate, "code", run.code)
        served = _add(row, "td")
        _add(served, "pre", run.served)
        for again in (f"llm.script({run.source})", f"strictreply faults --show {run.fault}"):
            _add(served, "code", again, "again")


def _add_others(main: ET.Element, runs: Sequence[ProbeRun], words: str) -> None:
    if not runs:
        return
    folded = _add(main, "details")
    _add(folded, "summary", f"{len(runs)} {words}")
    body = _add(_add(folded, "table"), "tbody")
    for run in runs:
        row = _add(body, "tr")
        _add(row, "td", run.id)
        _add(row, "td", run.detail + (" · recovered" if run.recovered else ""))
