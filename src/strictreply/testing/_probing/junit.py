"""The report as JUnit XML in the form that pytest writes: a finding is a failure, what does not apply is skipped."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from strictreply.testing._probing.outcomes import FINDINGS, REMEDIES, Outcome, Report, Run
from strictreply.values._issues import printable, printable_lines


def junit_xml(report: Report) -> str:
    """Write a test suite with a test case a run; every text in it is printable."""
    suite = ET.Element(
        "testsuite",
        name=f"strictreply probe {printable(report.app)}",
        errors="0",
        failures=str(len(report.findings)),
        skipped=str(len(report.of(Outcome.NOT_APPLICABLE))),
        tests=str(len(report.runs)),
        time=f"{report.seconds:.3f}",
        timestamp=report.started.isoformat(timespec="seconds"),
    )
    for run in report.runs:
        _add_case(suite, report.app, run)
    root = ET.Element("testsuites", name="strictreply probe")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ET.Element, app: str, run: Run) -> None:
    """Add one run."""
    named = {"classname": printable(f"{app}.{run.kind.value}"), "name": printable(run.id), "time": f"{run.seconds:.3f}"}
    case = ET.SubElement(suite, "testcase", named)
    if run.outcome in FINDINGS:
        failure = ET.SubElement(
            case, "failure", type=run.outcome.value, message=printable(f"{run.outcome.value}: {run.detail}")
        )
        failure.text = printable_lines("\n".join(_story(run)))
    elif run.outcome is Outcome.NOT_APPLICABLE:
        ET.SubElement(case, "skipped", type="pytest.skip", message=printable(run.detail))


def _story(run: Run) -> list[str]:
    """Tell a finding: what was served, what should have come of it, and how to see it again."""
    return [
        run.summary,
        run.served,
        f"A strict gate says {run.code}. {REMEDIES[run.outcome]}",
        f"Look: strictreply faults --show {run.fault}",
        f"In a test: llm.script({run.source})",
    ]
