"""The XML is what CI servers read: well-formed, in the form of pytest's, whatever was served."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from strictreply.testing._probing.junit import junit_xml
from strictreply.testing._probing.outcomes import FINDINGS, Outcome
from testing.probing.reports import FULL, HOSTILE, SURVIVED


def test_a_finding_is_a_failure() -> None:
    """Each run is a test case: findings fail, what does not apply is skipped, the rest pass; the counts agree."""
    suite = ET.fromstring(junit_xml(FULL))[0]  # noqa: S314 - our own XML
    assert (suite.tag, suite.get("tests"), suite.get("errors")) == ("testsuite", "49", "0")
    assert (suite.get("failures"), suite.get("skipped")) == ("28", "7")
    assert len(suite.findall("testcase")) == 49
    failed = [case for case in suite if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == [run.id for run in FULL.runs if run.outcome in FINDINGS]
    assert len(suite.findall("testcase/skipped")) == 7


def test_a_failure_says_how_to_see_it_again() -> None:
    """Its text holds what was served as text, the code, and both lines to look and to reproduce."""
    failure = ET.fromstring(junit_xml(FULL)).find(".//failure")  # noqa: S314 - our own XML
    assert failure is not None
    assert failure.get("type") == Outcome.ACCEPTED.value
    text = failure.text or ""
    assert all(word in text for word in (HOSTILE, "args.type", "strictreply faults --show", "llm.script(faults."))


def test_survival_has_no_failures() -> None:
    """A good report is a green suite; its root is what pytest writes."""
    root = ET.fromstring(junit_xml(SURVIVED))  # noqa: S314 - our own XML
    assert (root.tag, root[0].get("failures"), root[0].get("time")) == ("testsuites", "0", "12.500")
    assert root.findall(".//failure") == []
