"""What was measured: intervals, sums, tables and pages."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strictreply import MeasureReport
from strictreply.measuring import FirstReplies, Recovery, wilson
from strictreply.testing.recovery import recovery_chart, recovery_page

ONE = MeasureReport(
    "weak",
    (FirstReplies("a", 10, 4, {"json.syntax": 5, "answer.type": 1}, 100, 20, 2.0),),
    (
        Recovery("a", "json.syntax", "again", 5, 1, 50, 10, 1.0),
        Recovery("a", "json.syntax", "ours", 5, 3, 60, 10, 1.5),
        Recovery("a", "answer.type", "again", 1, 0, 10, 2, 0.5),
        Recovery("a", "answer.type", "ours", 1, 1, 12, 2, 0.5),
    ),
    rows=10,
    failures={"timeout": 2},
    requests=22,
)
OTHER = MeasureReport(
    "weak",
    (FirstReplies("b", 3, 2, {"json.syntax": 1}),),
    (Recovery("b", "json.syntax", "ours", 1, 0),),
    rows=2,
    unfinished=1,
    failures={"timeout": 1},
    stopped="rows",
)


@pytest.mark.parametrize(
    ("good", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (15, 148, 0.0624, 0.1605),  # R. G. Newcombe, Statistics in Medicine 17 (1998), table I
        (81, 263, 0.2553, 0.3662),  # the same
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson(good: int, of: int, low: float, high: float) -> None:
    """The interval is Wilson's score interval at 95 %, as it is published."""
    assert [*wilson(good, of)] == pytest.approx([low, high], abs=5e-5)


def test_a_share_that_is_none() -> None:
    """More good ones than there are, or fewer than none, are no share."""
    for good, of in ((2, 1), (-1, 3)):
        with pytest.raises(ValueError, match="share"):
            wilson(good, of)


@given(st.integers(1, 500), st.data())
def test_wilson_holds_its_share(of: int, data: st.DataObject) -> None:
    """An interval lies within 0 and 1 and around its share; that of fewer trials is wider."""
    good = data.draw(st.integers(0, of))
    low, high = wilson(good, of)
    assert 0 <= low <= good / of <= high <= 1

    more_low, more_high = wilson(4 * good, 4 * of)
    assert more_high - more_low < high - low


def test_it_adds_up() -> None:
    """Sums by task, kind and style count each reply once, and the faults are the rows not valid."""
    both = ONE + OTHER
    for sums in (both.by_task(), both.by_kind(), both.by_style()):
        for style in both.styles:
            parts = [one for one in both.recoveries if one.style == style]
            held = [one for one in sums if one.style == style]
            for name in ("n", "recovered", "prompt_tokens", "completion_tokens", "seconds"):
                assert sum(getattr(one, name) for one in held) == sum(
                    getattr(one, name) for one in parts
                )

    for first in both.first:
        assert first.valid + sum(first.kinds.values()) == first.n

    assert (both.rows, both.unfinished, both.requests) == (12, 1, 22)
    assert (both.failures, both.stopped, both.tasks) == ({"timeout": 3}, "rows", ("a", "b"))
    assert [(one.style, one.n, one.recovered) for one in both.by_style()] == [
        ("again", 6, 1),
        ("ours", 7, 4),
    ]


def test_the_same_is_added_to_the_same() -> None:
    """Two reports of one task are one: their counts are summed, and no line is there twice."""
    twice = ONE + ONE
    assert [(one.n, one.recovered) for one in twice.recoveries] == [
        (2 * one.n, 2 * one.recovered) for one in ONE.recoveries
    ]
    assert [(first.n, first.kinds) for first in twice.first] == [
        (20, {"json.syntax": 10, "answer.type": 2})
    ]


def test_as_json() -> None:
    """JSON has everything, with the intervals, and is read back as it was."""
    both = ONE + OTHER
    written = json.loads(json.dumps(both.to_dict()))
    assert MeasureReport.from_dict(written) == both
    assert written["recoveries"][0]["high"] == wilson(1, 5)[1]
    assert written["first"][0]["low"] == wilson(4, 10)[0]


def test_as_text() -> None:
    """The tables have a line for each task and for each style in it, and say what failed."""
    lines = str(ONE + OTHER).splitlines()
    assert [line.split()[:3] for line in lines if line.startswith(("a ", "b "))] == [
        ["a", "10", "4"],
        ["b", "3", "2"],
        ["a", "again", "6"],
        ["a", "ours", "6"],
        ["b", "ours", "1"],
    ]
    assert lines[-3:] == [
        "failed calls: 3 timeout",
        "",
        "rows measured only in part: 1",
    ]


def test_nothing_measured_is_a_report_too() -> None:
    """A report without rows has its texts and pages."""
    empty = MeasureReport("weak", (), ())
    assert (str(empty) != "", "<svg" in recovery_chart(empty)) == (True, True)
    assert MeasureReport.from_dict(empty.to_dict()) == empty


def test_the_chart_has_a_bar_for_each_style_of_each_task() -> None:
    """A bar's length is the share, the line across it the interval; both stay in the picture."""
    svg = ET.fromstring(recovery_chart(ONE + OTHER))  # noqa: S314 - our own text
    space = "{http://www.w3.org/2000/svg}"
    widths = [float(bar.attrib["width"]) for bar in svg.iter(f"{space}rect")]
    lines = [(float(one.attrib["x1"]), float(one.attrib["x2"])) for one in svg.iter(f"{space}line")]
    recovered = (ONE + OTHER).by_task()

    assert len(widths) == len(lines) == len(recovered) == 3
    scale = max(widths) / max(one.share for one in recovered)
    assert widths == pytest.approx([scale * one.share for one in recovered], abs=0.1)
    assert [after - before for before, after in lines] == pytest.approx(
        [scale * (one.interval[1] - one.interval[0]) for one in recovered], abs=0.2
    )
    assert max(after for _, after in lines) < 800


def test_the_page_loads_nothing_and_escapes() -> None:
    """The page has the tables and the chart, and a task's name acts on nothing."""
    marked = MeasureReport("<b>", (FirstReplies("<i>", 1, 1),), ())
    page = recovery_page(marked + ONE)
    assert ("<i>" in page, "<b>" in page, "<svg" in page) == (False, False, True)
    assert "src=" not in page
