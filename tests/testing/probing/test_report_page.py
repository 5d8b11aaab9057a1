"""The page is for a person.

It is self-contained, with the counts and the findings, and hostile text stays text.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from strictreply.testing.probing import REPORT_FORMS
from strictreply.testing.survival import FINDINGS, Baseline, ProbeOutcome
from support.browser import (
    SCHEMES,
    Page,
    measured,
    needs_chromium,
    numbers,
    opened,
    picture,
)
from support.testing.probing.reports import FULL, HOSTILE, SURVIVED

html_page = REPORT_FORMS["html"]


def test_nothing_runs_and_nothing_is_loaded() -> None:
    """No script, no image, no frame, no link but to its own places: one file, and a policy that
    would stop others.
    """
    page = Page(html_page(FULL))
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(page.tags)
    assert not {"src", "onclick", "onerror"} & {name for name, _ in page.attributes}
    assert any(value and value.startswith("default-src 'none'") for _, value in page.attributes)


def test_hostile_text_stays_text() -> None:
    """The page shows a served reply to the letter, in the text and nowhere else."""
    page = Page(html_page(FULL))
    assert page.text.count(f"arguments reads {HOSTILE}") == len(FULL.findings)
    assert f"Survival report: shop:app {HOSTILE}" in page.text


def test_every_finding_is_told_with_what_to_do() -> None:
    """Each finding has its fault, its code, its lines to look and reproduce; each outcome what it
    means.
    """
    text = Page(html_page(FULL)).text
    for run in FULL.findings:
        assert all(
            word in text
            for word in (run.id, run.detail, f"llm.script({run.source})", f"--show {run.fault}")
        )

    assert {outcome for outcome, (_, remedy) in FINDINGS.items() if remedy in text} == set(FINDINGS)
    assert all(name in text for name in FULL.versions)
    assert FULL.verdict in text


def test_every_place_can_be_linked_to() -> None:
    """Each cause and each finding has an id of its own, and every link leads to one."""
    page = Page(html_page(FULL))
    places = [value for name, value in page.attributes if name == "id"]
    assert len(places) == len(set(places)) >= len(FULL.findings) + len(FULL.causes)
    assert {value for name, value in page.attributes if name == "href"} <= {
        f"#{place}" for place in places
    }


def test_causes_are_ranked_by_harm() -> None:
    """The list of causes and the sections stand in the order of the report."""
    text = Page(html_page(FULL)).text
    found = [text.index(f"{cause.harm}: {cause.words}") for cause in FULL.causes]
    assert found == sorted(found)


def test_the_survived_are_folded() -> None:
    """Runs that are no findings are folded; a good report has nothing else."""
    page = Page(html_page(SURVIVED))
    assert page.tags.count("details") == 2
    assert ("open", None) not in page.attributes
    assert "What to do:" not in page.text
    assert "verdict good" in {value for name, value in page.attributes if name == "class"}


def test_what_is_new_against_a_baseline_is_marked() -> None:
    """Beside the name of a finding stands ``new`` where the baseline does not know it, and nowhere
    else.
    """
    known = Baseline(FULL.app, [run for run in FULL.runs if run.outcome is not ProbeOutcome.HUNG])
    compared = replace(FULL, baseline=known)
    text = Page(html_page(compared)).text
    new = {run.source for run in compared.new}
    assert 0 < len(new) < len(compared.findings)
    assert text.count(" · new") == len(new)
    assert all(f"{run.id} · new" in text for run in compared.new)


@pytest.mark.one_lane
@needs_chromium
def test_a_browser_shows_the_counts(tmp_path: Path) -> None:
    """The rendered document holds the numbers of the report, no script ran, and a picture can be
    taken.
    """
    dom = opened(tmp_path, html_page(FULL), "--dump-dom").decode()
    assert numbers(re.findall(r"<tfoot><tr>.*?</tr></tfoot>", dom, re.DOTALL)[0]) == ["7"] * (
        len(FINDINGS) + 4
    )
    assert "<title>Survival report" in dom
    assert "<script" not in dom
    assert picture(tmp_path, html_page(FULL)).startswith(b"\x89PNG")


@pytest.mark.one_lane
@needs_chromium
def test_it_is_readable_on_a_phone_and_its_filters_filter(tmp_path: Path) -> None:
    """Nothing is wider than 400 pixels; each choice shows the findings of its harm, its kind, or
    the new ones.
    """
    known = Baseline(FULL.app, [run for run in FULL.runs if run.outcome is not ProbeOutcome.HUNG])
    compared = replace(FULL, baseline=known)
    seen = measured(tmp_path, html_page(compared))
    assert seen["wide"] == []

    shown = seen["shown"]
    assert shown["all"] == len(FULL.findings) == shown["only-harm-"]
    assert shown["only-since-new"] == len(compared.new) == 7

    for run in FULL.findings:
        harm = run.harm.name.lower()
        kind = run.kind.name.lower()
        assert shown[f"only-harm-harm-{harm}"] == sum(one.harm is run.harm for one in FULL.findings)
        assert shown[f"only-kind-kind-{kind}"] == sum(one.kind is run.kind for one in FULL.findings)


@pytest.mark.one_lane
@needs_chromium
@pytest.mark.parametrize("width", [700, 1100])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_column_is_cut_in_a_window(tmp_path: Path, scheme: str, width: int) -> None:
    """At 1100 pixels, and in half a screen, every column is seen without scrolling sideways."""
    option, paper = SCHEMES[scheme]
    seen = measured(tmp_path, html_page(FULL), option, width=width)
    assert (seen["wide"], seen["scrolls"], seen["paper"]) == ([], False, paper)
