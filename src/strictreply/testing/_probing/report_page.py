"""The report as one HTML page for a person: no script, nothing from elsewhere, and hostile text stays text.

It is built as a tree and written by the library, which escapes every text: no markup is ever put together by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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

SHOWN_OF_A_CAUSE = 4  # findings; the others are folded
MAX_LISTED = 6  # names of folded findings
_RAN = (*FINDINGS, ProbeOutcome.NOTHING, ProbeOutcome.CLEAN)
_METHOD = (
    "Each fault was served for every request of a run; where the app asked again, once more with good replies after."
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_page(report: Report) -> str:
    """Write the page; its policy lets nothing run and nothing be loaded."""
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

    titles = (_element("th", _dot(outcome), outcome.value, kind="number") for outcome in _RAN)
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
    yield _element("h2", _dot(outcome), f"{outcome.capitalize()}: {len(report.of(outcome))}")
    yield _element("p", MEANINGS[outcome])
    yield _element("p", _element("strong", "What to do: "), REMEDIES[outcome], kind="todo")
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
